"""Plays the reference actions of all retail tasks in this process and prints a line of JSON for each.

Run by the interpreter that has tau2-bench: `python tau2_gold.py DATA TASKS [EVERY]`; EVERY 3 plays each third task.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tau2_script import verdicts

from recompact.environments.protocol import Task
from recompact.suites.tau2.environment import Tau2Environment
from recompact.suites.tau2.suite import Tau2RetailSuite
from recompact.values.chat import Reply, Request, assistant
from recompact.values.trajectory import Action

MET = True


def answer(role: str, request: Request) -> Reply:
    if role == "judge":
        return Reply(assistant(verdicts(request.messages[-1].content, lambda assertion: MET)))
    said = sum(message.role == "assistant" for message in request.messages)
    return Reply(assistant("I need something." if not said else "###STOP###"))


def main(data: str, file: str, every: str = "1") -> None:
    global MET
    suite = Tau2RetailSuite(data, tasks=file)
    groups = {task.id: task.groups["database"] for split in ("train", "test") for task in suite.tasks(split)}
    splits = {id: split for split in ("train", "test") for id in (task.id for task in suite.tasks(split))}
    for id, official in list(suite._tasks.items())[:: int(every)]:
        criteria = official.evaluation_criteria
        actions = [Action(each.name, each.arguments) for each in criteria.actions or ()]
        say = Action("", text=" ".join(["Here you are:", *(criteria.communicate_info or ())]))
        environment = suite.environment(Task(id, ""))
        environment.ask = answer
        environment.start()
        trace, errors, middle = [], [], b""
        for number, action in enumerate(actions):
            if number == len(actions) // 2:
                middle = environment.snapshot()
            if environment.step(action).error:
                errors.append(number)
            trace.append(_hash(environment))
        final = environment.step(say)
        score = environment.score()
        denied = None
        if "NL_ASSERTION" in score.details["basis"] and criteria.nl_assertions:
            MET = False
            denied = environment.score().value
            MET = True
        figure: dict[str, Any] = {
            "id": id,
            "split": splits[id],
            "group": groups[id],
            "trace": trace,
            "errors": errors,
            "done": final.done,
            "gold": score.value,
            "denied": denied,
            "basis": score.details["basis"],
            "hash": score.details["database"],
        }
        if middle:
            environment.restore(middle)
            for action in actions[len(actions) // 2 :]:
                environment.step(action)
            figure["restored"] = _hash(environment)
            figure["size"] = len(middle)
        idle = (("noop", Action("", text="ok")), ("say_info_only", say)) if groups[id] == "unchanged" else ()
        for name, words in idle:  # each evaluation takes a second, and where writes are needed all of these fail
            environment.start()
            environment.step(words)
            figure[name] = environment.score().value
        print(json.dumps(figure), flush=True)


def _hash(environment: Tau2Environment) -> str:
    digest: str = environment._environment.get_db_hash()
    return digest


if __name__ == "__main__":
    main(*sys.argv[1:])
