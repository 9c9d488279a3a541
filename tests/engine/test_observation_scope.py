"""Scope `observation`: each long observation is replaced before the agent reads it, as a compaction like any other."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from verify_support import PAGES, FickleNoter, ShakyReader, books

from recompact.adaptation.adapt import Adaptation, adapt
from recompact.adaptation.facts import section_of, with_clauses
from recompact.adaptation.lock import locked_candidate
from recompact.attribution.bisection.pieces import dropped_pieces
from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.verify import verify
from recompact.compressors.prompted import SHORTENED, Prompted
from recompact.compressors.protocol import CompactionFailed
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import Config, ConfigError
from recompact.engine.config_parser import parse_config
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.arms import parse_arms
from recompact.evaluation.evaluate import evaluate, open_evaluation
from recompact.models.protocol import ChatModel
from recompact.presentation.report.content.cases import Limits, _after, _before
from recompact.triggers.protocol import Schedule
from recompact.triggers.registry import LongObservation
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage, assistant, system
from recompact.values.context import Context, Turn
from recompact.values.template import resolve
from recompact.values.tokens import counter
from recompact.values.trajectory import COMPACTION_FAILED

TEMPLATE = resolve("observation", Path())
COUNT = counter()


def config(more: str = "", kind: str = "prompted") -> Config:
    text = (
        f'[agent]\nmodel = "reader"\n[compressor]\nmodel = "noter"\nkind = "{kind}"\nscope = "observation"\n'
        f'budget = 60\ntemplate = "observation"\n{more}\n[run]\nstep_limit = 20\n'
    )
    return parse_config(text, Path("c.toml"))


def play(path: Path, requests: list[Request], noter: object = None, *, verified: bool = False) -> None:
    async def run() -> None:
        models = {"reader": ShakyReader(requests.append), "noter": noter or FickleNoter()}
        async with open_study(config(), path, models=models, suite=books(3)) as study:  # type: ignore[arg-type]
            await collect(study)
            if verified:
                await verify(study)

    asyncio.run(run())


def test_the_agent_never_reads_a_long_observation_and_both_contexts_are_kept(tmp_path: Path) -> None:
    requests: list[Request] = []
    play(tmp_path / "r.db", requests)
    assert not any("word" in message.content for request in requests for message in request.messages)
    with Store.read(tmp_path / "r.db") as store:
        played = [read_trajectory(store, row.unit) for row in trajectories(store)]
    boundaries = [boundary for each in played for boundary in each.boundaries]
    assert len(boundaries) >= 3 * 2
    assert boundaries[0].step == 1  # even where there is no other turn
    for boundary in boundaries:
        assert boundary.post.summary is None
        assert boundary.pre.turns[:-1] == boundary.post.turns[:-1]
        assert boundary.pre.turns[-1].message == boundary.post.turns[-1].message
        assert "word" in boundary.pre.turns[-1].results[0].content
        assert boundary.post.turns[-1].results[0].content.startswith(SHORTENED.partition("{")[0])
        assert boundary.post.size < boundary.pre.size


def test_effects_are_measured_and_what_was_cut_can_be_put_back(tmp_path: Path) -> None:
    play(tmp_path / "r.db", [], verified=True)
    with Store.read(tmp_path / "r.db") as store:
        every = read_verdicts(store)
        views = [boundary_view(store, verdict) for verdict in every.examined]
    assert len(every.examined) == len(every.verdicts) > 0
    for view in views:
        assert any("word" in line for line in view.dropped.lines)
        notes, post = _after(view.boundary, Limits()), view.boundary.post
        assert [block.title for block in notes if block.title] == [f"step {view.boundary.step}"]
        assert len(notes) == 1 + (len(post.turns) > 1)  # the observation, and that the others stay verbatim
        assert [block.title for block in _before(view, Limits())] == [f"step {view.boundary.step}"]
        [piece] = dropped_pieces(view.boundary, COUNT)
        assert piece.turn == view.boundary.pre.turns[-1]


CLAUSE = "Record exactly which pages of a list were read and which remain."


class Reviser:
    """An optimizer that says what evidence of this world says, and adds one clause to the template it is shown."""

    name = "reviser"

    def __init__(self) -> None:
        self.questions: list[str] = []

    async def reply(self, request: Request) -> Reply:
        self.questions.append(request.messages[-1].content)
        title = str((request.decoding.response_schema or {}).get("title"))
        finding = {"mechanism": "omitted state", "kind": "pages", "lines": ["S4", "N3"], "explanation": "Read again."}
        revised = with_clauses(TEMPLATE, [("page", CLAUSE)])
        cited = re.findall(r"book-\d+#\d+", self.questions[-1])[:1]
        rules = [{"clause": CLAUSE, "section": section_of("page", TEMPLATE.first), "boundaries": cited}]
        answer: dict[str, Any] = {
            "diagnosis": {"findings": [finding], "abstain": ""},
            "revision": {"rules": rules, "first": revised.first, "update": revised.update},
        }.get(title, {})
        return Reply(assistant(json.dumps(answer)), Usage(10, 10, calls=1))


@pytest.mark.parametrize("method", ["causes", "pair"])
def test_its_template_is_adapted_from_evidence_to_a_choice(tmp_path: Path, method: str) -> None:
    optimizer = Reviser()
    more = f'[optimizer]\nmodel = "reviser"\n[adapt]\nmethod = "{method}"\n[verify]\nallocation = "uniform:4"'
    models: dict[str, ChatModel] = {"reader": ShakyReader(), "noter": FickleNoter(), "reviser": optimizer}

    async def run() -> Adaptation:
        async with open_study(config(more), tmp_path / "r.db", models=models, suite=books(3)) as study:
            return await adapt(study)

    adapted = asyncio.run(run())
    assert adapted.selection is not None
    assert {fit.name for fit in adapted.selection.fits} > {"original"}
    clauses = [clause for each in adapted.candidates if each.template for clause in each.clauses]
    assert any(clause.answers for clause in clauses)
    for each in adapted.candidates:
        assert each.template is None or (each.template.system, each.template.first) != (TEMPLATE.system, TEMPLATE.first)
    if method == "pair":
        [first, *_] = optimizer.questions
        segment, _, rest = first.partition("</segment>")
        assert re.search(r"word\dx39", segment)  # the whole result
        summary = rest.partition("</summary>")[0]
        assert "Shortened from" in summary  # and what stood in its place
        assert "word" not in summary


class Silent:
    name = "noter"

    async def reply(self, request: Request) -> Reply:
        return Reply(assistant(""), Usage(10, 0, calls=1))


def test_where_nothing_comes_back_the_agent_reads_the_whole(tmp_path: Path) -> None:
    requests: list[Request] = []
    play(tmp_path / "r.db", requests, Silent())
    assert any("word1x1" in message.content for request in requests for message in request.messages)
    with Store.read(tmp_path / "r.db") as store:
        [first, *_] = [read_trajectory(store, row.unit) for row in trajectories(store)]
    assert not first.boundaries
    assert len([each for each in first.incidents if each.kind == COMPACTION_FAILED]) >= PAGES


def test_it_is_an_arm_beside_the_other_scopes(tmp_path: Path) -> None:
    async def run() -> None:
        models = {"reader": ShakyReader(), "noter": FickleNoter()}
        plain = replace(config(), compressor=replace(config().compressor, scope="history", budget=300))
        async with open_evaluation(plain, tmp_path / "e.db", models=models, suite=books(2)) as study:
            arms = parse_arms(("none", "prompting"), plain.compressor, TEMPLATE, ("history", "observation"))
            await evaluate(study, arms, 1)

    asyncio.run(run())
    with Store.read(tmp_path / "e.db") as store:
        rows = trajectories(store, phase="evaluate")
    by_scope = {scope: [r for r in rows if f"-{scope}-" in r.unit] for scope in ("history", "observation")}
    assert all(len(each) == 2 for each in by_scope.values())
    assert sum(row.compactions for row in by_scope["history"]) > 0
    assert not any(row.compactions for row in by_scope["observation"])  # no page has 300 tokens


class Echo:
    """Returns so many words, whatever it is asked; each request is kept."""

    name = "echo"

    def __init__(self, words: int) -> None:
        self.words, self.requests = words, list[Request]()

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(assistant(" ".join(["short"] * self.words)), Usage(1, 1, calls=1))


def turn_of(*sizes: int) -> Turn:
    calls = tuple(ToolCall(f"c{n}", "read", f'{{"n": {n}}}') for n in range(len(sizes)))
    results = tuple(Message("tool", " ".join(["long"] * size), call_id=f"c{n}") for n, size in enumerate(sizes))
    return Turn.measured(assistant("", *calls), results, COUNT)


@given(st.lists(st.integers(0, 120), min_size=1, max_size=4), st.integers(20, 60), st.integers(1, 200))
def test_only_what_is_too_long_changes_and_it_then_fits(sizes: list[int], budget: int, words: int) -> None:
    context = Context((system("s"),), None, (turn_of(1), turn_of(*sizes)))
    model = Echo(words)
    compressor = Prompted(model=model, template=TEMPLATE, count=COUNT, task="t", scope="observation")
    post = asyncio.run(compressor.compress(context, budget)).context
    long = [COUNT(result.content) > budget for result in context.turns[-1].results]
    schedule = Schedule(LongObservation(COUNT))
    assert schedule.due(context, budget, 2) == any(long)
    assert post.turns[0] == context.turns[0]
    for old, new, changed in zip(context.turns[-1].results, post.turns[-1].results, long, strict=True):
        assert (new == old) is not changed
        assert new.call_id == old.call_id
        if changed:
            assert COUNT(new.content.partition("\n")[2]) <= budget
    assert len(model.requests) <= 2 * sum(long)
    assert all(f"long {'long ' * budget}"[:40] in r.messages[1].content for r in model.requests)


def test_what_earlier_observations_cost_is_not_lost_with_a_failure() -> None:
    class Once(Echo):
        async def reply(self, request: Request) -> Reply:
            self.requests.append(request)
            return Reply(assistant("short" if len(self.requests) == 1 else ""), Usage(5, 1, calls=1))

    compressor = Prompted(model=Once(1), template=TEMPLATE, count=COUNT, scope="observation")
    with pytest.raises(CompactionFailed) as failure:
        asyncio.run(compressor.compress(Context((), None, (turn_of(90, 90),)), 40))
    assert failure.value.usage.calls == 3


@pytest.mark.parametrize(
    ("more", "kind"), [('trigger = "phase"', "prompted"), ("", "masking"), ("", "pinned+prompted")]
)
def test_what_it_cannot_be_joined_with_is_refused(tmp_path: Path, more: str, kind: str) -> None:
    async def run() -> None:
        async with open_study(config(more, kind), tmp_path / "r.db", models={"reader": Silent(), "noter": Silent()}):
            pass

    with pytest.raises(ConfigError, match="observation"):
        asyncio.run(run())


def test_its_template_is_locked_and_takes_clauses_like_the_others() -> None:
    revised = with_clauses(TEMPLATE, [("identifier", "Keep every identifier."), ("path", "Keep every path.")])
    assert locked_candidate("c", TEMPLATE, revised, (), frozenset()).template is not None
    broken = replace(TEMPLATE, first=TEMPLATE.first.replace("## Left Out", "## Rest"))
    assert locked_candidate("c", TEMPLATE, broken, (), frozenset()).template is None
