"""What a suite says of actions and texts, in this process and from a host: the same answers, and errors in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recompact.environments import hosted as hosted_module
from recompact.environments.functions import function_suite
from recompact.environments.host_client import HostClient
from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.protocol import EnvironmentFailed
from recompact.suites.pocket import CATALOGUE, PocketSuite
from recompact.values.trajectory import Action

SUITE = """
import os, time
from recompact.environments.protocol import Task

class Bare:
    name = "bare"
    def splits(self): return ("train",)
    def tasks(self, split): return [Task("t", "text")]
    def environment(self, task): raise NotImplementedError

class Suite(Bare):
    def behaviour(self, action):
        if action.name == "crash": os._exit(7)
        if action.name == "hang": time.sleep(60)
        if action.name == "raise": raise ValueError("no such thing")
        if action.name == "odd": return "odd"
        return {"read_manual": "documentation", "say": "mutation"}.get(action.name)
    def literals(self, text):
        if text == "bad": return ["not", "a", "mapping"]
        if text == "split": return {"numbers": "123"}
        return {"numbers": [word for word in text.split() if word.isdigit()]}
"""


@pytest.fixture
def suite(tmp_path: Path) -> HostedSuite:
    (tmp_path / "hooked.py").write_text(SUITE)
    return HostedSuite("hooked.py:Suite", directory=tmp_path, timeout=10)


async def test_a_host_says_the_same_as_the_suite_in_this_process() -> None:
    actions = [Action("call_api", {"app": spec.app, "api": spec.name}) for spec in CATALOGUE]
    actions += [Action("finish"), Action("", text="payments.send_money")]
    texts = [spec.signature for spec in CATALOGUE] + ["token fil-0123abcd", "\ud800 lone", ""]
    near, far = InProcessSuite(PocketSuite()), HostedSuite("pocket", timeout=30)
    assert await far.behaviours(actions) == await near.behaviours(actions)
    assert await far.literals(texts) == await near.literals(texts)
    assert await far.behaviours([]) == []


async def test_many_go_in_one_message(suite: HostedSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    call = HostClient.call

    async def counted(self: HostClient, verb: str, **values: Any) -> Any:
        sent.append(len(values["actions"]))
        return await call(self, verb, **values)

    monkeypatch.setattr(HostClient, "call", counted)
    actions = [Action("say" if n % 3 else "wait", {"n": n}) for n in range(1000)]
    expected = [None if n % 3 == 0 else "mutation" for n in range(1000)]
    assert await suite.behaviours(actions) == expected
    assert sent == [1000]
    sent.clear()
    monkeypatch.setattr(hosted_module, "_MANY", 400)
    assert await suite.behaviours(actions) == expected
    assert sent == [400, 400, 200]


async def test_a_suite_without_hooks_says_so(suite: HostedSuite, tmp_path: Path) -> None:
    bare = HostedSuite("hooked.py:Bare", directory=tmp_path, timeout=10)
    plain = InProcessSuite(function_suite("plain", [], {}))
    for episodes in (bare, plain):
        assert await episodes.behaviours([Action("say")]) is None
        assert await episodes.literals(["12"]) is None
    assert await suite.literals(["1 or 22", "none"]) == [{"numbers": ("1", "22")}, {"numbers": ()}]


@pytest.mark.parametrize(
    ("name", "excerpt"),
    [
        ("crash", r"its host died during behaviours \(exit code 7\)"),
        ("raise", "behaviours raised ValueError: no such thing"),
        ("odd", "behaviour of 'odd' is 'odd': return documentation, mutation, read or None"),
    ],
)
async def test_a_hook_that_fails_is_told(suite: HostedSuite, name: str, excerpt: str) -> None:
    with pytest.raises(EnvironmentFailed, match=excerpt):
        await suite.behaviours([Action("say"), Action(name)])


async def test_a_hook_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "hooked.py").write_text(SUITE)
    impatient = HostedSuite("hooked.py:Suite", directory=tmp_path, timeout=2)
    with pytest.raises(EnvironmentFailed, match=r"\b2 s\b"):
        await impatient.behaviours([Action("hang")])


async def test_literals_of_the_wrong_shape_are_told(suite: HostedSuite) -> None:
    for text in ("bad", "split"):
        with pytest.raises(EnvironmentFailed, match="literals"):
            await suite.literals(["1", text])
    wrong = InProcessSuite(function_suite("wrong", [], {}, literals=lambda text: {"numbers": {1}}))  # type: ignore[dict-item]
    with pytest.raises(EnvironmentFailed, match=r"suite wrong: literals .*ValueError"):
        await wrong.literals(["1"])
