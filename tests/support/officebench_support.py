"""What the tests of OfficeBench share: where the task tree is, and how an episode is played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from needs import OFFICEBENCH

from recompact.environments.protocol import Observation, Task
from recompact.suites.officebench.suite import OfficeBenchEnvironment, OfficeBenchSuite
from recompact.suites.officebench.tree import TaskTree
from recompact.values.trajectory import Action


def tree() -> TaskTree:
    return TaskTree.at(OFFICEBENCH)


def task_named(name: str) -> Task:
    template, number = name.split("/")
    return Task(name, tree().subtask(template, number).text, data={"template": template, "subtask": number})


def act(app: str, action: str, **arguments: Any) -> Action:
    return Action("act", {"app": app, "action": action, "arguments": arguments})


def dotted(name: str, **arguments: Any) -> Action:
    """An action that opens its app by itself."""
    return Action("act", {"action": name, "arguments": arguments})


class Player:
    """One episode, driven by hand, by dotted actions."""

    def __init__(self, environment: OfficeBenchEnvironment) -> None:
        self.environment = environment
        self.testbed = environment.directory / "testbed"

    def do(self, name: str, **arguments: Any) -> Observation:
        return self.environment.step(dotted(name, **arguments))

    def ok(self, name: str, **arguments: Any) -> str:
        observation = self.do(name, **arguments)
        assert not observation.error, observation.text
        return observation.text

    def refused(self, name: str, **arguments: Any) -> str:
        observation = self.do(name, **arguments)
        assert observation.error, observation.text
        return observation.text

    def finish(self, answer: str = "None") -> bool:
        assert self.do("system.finish_task", answer=answer).done
        return self.environment.score().success


@contextmanager
def playing(name: str, **options: Any) -> Iterator[Player]:
    suite = OfficeBenchSuite(OFFICEBENCH, **options)
    environment = suite.environment(task_named(name))
    environment.start()
    try:
        yield Player(environment)
    finally:
        environment.close()
