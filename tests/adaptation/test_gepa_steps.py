"""GEPA's search around the package: names of reflections, what is shown and counted, and the bridge to the thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import Scripted
from method_support import method_inputs
from sentences import numbers_in

from recompact.adaptation import gepa_search
from recompact.adaptation.gepa_bridge import Bridge, Package, Stopped
from recompact.adaptation.gepa_search import (
    COMPONENT,
    MINIBATCH,
    GepaSearch,
    Reflection,
    SearchRun,
    gepa,
    join_parts,
    reasons,
    render_example,
)
from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.placement import with_clauses_in_place
from recompact.engine.config import AdaptConfig
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.values.candidate import Candidate, Clause, EvidenceCounts, Proposal, Reason
from recompact.values.context import Context
from recompact.values.template import Template, default_template
from recompact.values.trajectory import Boundary, Score, Trajectory

TEMPLATE = default_template()


def revised(*clauses: str) -> Template:
    return with_clauses_in_place(TEMPLATE, [Clause(text, "Goal", ()) for text in clauses])


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Package(cast(Any, None), lambda *parts: parts, lambda current, examples: current, str)
    monkeypatch.setattr(gepa_search, "load_gepa", lambda: package)


def proposed(
    monkeypatch: pytest.MonkeyPatch,
    found: Sequence[Template] = (),
    reflections: Sequence[Reflection] = (),
    records: Mapping[str, Any] | None = None,
    adapted: bool = False,
    compacted: Sequence[str] = ("a", "b"),
    **options: Any,
) -> tuple[Proposal, Any]:
    """What a search that found these templates comes to, and what it was started with."""
    seen = SimpleNamespace(searches=[], stage=None)
    records = records or {}

    async def run(self: GepaSearch, learning: Any, validation: Any, allowed: int) -> list[Template]:
        self.reflections.extend(reflections)
        self.runs = 12
        seen.searches.append((self, [t.id for t in learning], [t.id for t in validation], allowed))
        return list(found)

    def trajectories(store: Any, phase: str = "collect") -> list[Any]:
        if phase == "gepa":
            return [1, 2, 3]
        return [SimpleNamespace(task=task, compactions=int(task in compacted), incidents=0) for task in "abc"]

    monkeypatch.setattr(GepaSearch, "run", run)
    monkeypatch.setattr(gepa_search, "trajectories", trajectories)
    monkeypatch.setattr(gepa_search, "fit_tasks", lambda store, count, seed: ("c", "b", "a")[:count])
    metadata = SimpleNamespace(adaptations={"gepa": {}} if adapted else {})
    inputs = method_inputs(
        records=SimpleNamespace(finished=lambda kind: set(records), result=records.get, metadata=metadata),
        settings=AdaptConfig(fit_tasks=2, candidates=2),
        template=TEMPLATE,
        tasks=tuple(Task(task, "") for task in "abc"),
        progress=SimpleNamespace(stage=lambda *given: setattr(seen, "stage", given)),
        expected_draws=lambda: 99,
    )

    async def work() -> Proposal:
        return Proposal.of(await gepa(**options).propose(inputs))

    return asyncio.run(work()), seen


USED = Reflection({"a": "done"}, {"first": revised("Keep ids.").first, "update": "u"})
EMPTY = Reflection({"a": "not done"}, None, ("no parts",))


def test_a_search_learns_from_what_was_compacted_and_validates_on_the_fit_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proposal, seen = proposed(monkeypatch, [revised("Keep ids."), revised("b"), revised("c")], [USED, EMPTY, EMPTY])
    ((search, learning, validation, allowed),) = seen.searches
    assert (learning, validation, allowed) == (["a", "b"], ["b", "c"], 99)
    assert search.minibatch == MINIBATCH == 3
    assert seen.stage == ("gepa", 99, 3)
    assert [candidate.name for candidate in proposal.candidates] == ["gepa-1", "gepa-2"]
    assert proposal.candidates[0] == Candidate("gepa-1", revised("Keep ids."), (Clause("Keep ids.", "Goal", ("a",)),))
    assert proposal.candidates[1].clauses == (Clause("b", "Goal", ()),)
    outcome = "answered with a usable prompt"
    assert proposal.evidence == EvidenceCounts("reflection", 3, 1, failed=2, outcome=outcome)
    assert (proposal.statement, proposal.unusable) == ("", False)


def test_the_number_of_runs_and_the_minibatch_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seen = proposed(monkeypatch, metric_calls=45, minibatch=5)
    ((search, _, _, allowed),) = seen.searches
    assert (allowed, search.minibatch) == (45, 5)


@pytest.mark.parametrize(("reflections", "unusable"), [((EMPTY,), True), ((EMPTY, USED), False)])
def test_a_search_that_finds_nothing_says_so(
    monkeypatch: pytest.MonkeyPatch, reflections: Sequence[Reflection], unusable: bool
) -> None:
    proposal, _ = proposed(monkeypatch, (), reflections)
    assert proposal.candidates == ()
    assert numbers_in(proposal.statement) == ["12"]
    assert proposal.unusable is unusable


def test_a_search_without_a_reflection_does_not_claim_that_a_prompt_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, _ = proposed(monkeypatch, (), ())
    assert (proposal.candidates, proposal.evidence, proposal.unusable) == ((), None, False)
    assert numbers_in(proposal.statement) == ["12"]
    assert proposal.statement != proposed(monkeypatch, (), (EMPTY,))[0].statement


@pytest.mark.parametrize("minibatch", [1, 3, 5])
def test_as_many_runs_as_one_prompt_of_its_own_takes_are_the_fewest(
    monkeypatch: pytest.MonkeyPatch, minibatch: int
) -> None:
    """Two fit tasks and a batch, under the original and under the new prompt."""
    fewest = 2 * (2 + minibatch)
    _, seen = proposed(monkeypatch, metric_calls=fewest, minibatch=minibatch)
    assert len(seen.searches) == 1
    with pytest.raises(InputError, match=f"{fewest - 1} runs.* {fewest} .* 2 fit tasks"):
        proposed(monkeypatch, metric_calls=fewest - 1, minibatch=minibatch)


def test_where_nobody_set_the_runs_too_few_of_them_are_said_and_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, seen = proposed(monkeypatch, minibatch=48)  # 100 runs, and 99 are allowed
    assert (seen.searches, seen.stage, proposal.candidates, proposal.unusable) == ([], None, (), False)
    assert numbers_in(proposal.statement) == ["99", "100", "2", "100"]
    assert "metric_calls" in proposal.statement
    assert "fit_tasks" in proposal.statement


def test_without_compactions_there_is_nothing_to_learn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, seen = proposed(monkeypatch, compacted=())
    assert (proposal.candidates, proposal.evidence, proposal.unusable) == ((), None, False)
    assert proposal.statement
    assert seen.searches == []


NOTHING, SOMETHING = {"parts": None}, {"parts": {"first": "x"}}


@pytest.mark.parametrize(
    ("records", "adapted", "name"),
    [
        ({}, False, "gepa/reflect"),
        ({}, True, "gepa/reflect"),
        ({"gepa/reflect/0": NOTHING}, False, "gepa/reflect"),  # it was stopped halfway
        ({"gepa/reflect/0": NOTHING, "gepa/reflect/1": NOTHING}, True, "gepa/reflect~2"),
        ({"gepa/reflect/0": NOTHING, "gepa/reflect/1": SOMETHING}, True, "gepa/reflect"),
        ({"gepa/reflect/0": NOTHING, "gepa/reflect~2/0": NOTHING}, False, "gepa/reflect~2"),
        ({"gepa/reflect/0": NOTHING, "gepa/reflect~2/0": NOTHING}, True, "gepa/reflect~3"),
        ({"gepa/reflect/0": NOTHING, "gepa/reflect~2/0": SOMETHING}, True, "gepa/reflect~2"),
    ],
)
def test_reflections_get_new_names_where_a_finished_search_had_none_of_use(
    monkeypatch: pytest.MonkeyPatch, records: Mapping[str, Any], adapted: bool, name: str
) -> None:
    _, seen = proposed(monkeypatch, records=records, adapted=adapted)
    assert seen.searches[0][0].reflecting == name


# --- runs and reflections


def run(success: bool, boundaries: int = 0, **details: Any) -> SearchRun:
    boundary = Boundary(1, 0, Context(()), Context(()), None, ())
    score = Score.of(success, **details)
    return SearchRun(
        Task("a", "Do it."), Trajectory("a", (), (boundary,) * boundaries, "step limit", score, Context(()))
    )


def test_how_a_run_ended_is_one_sentence() -> None:
    assert numbers_in(run(True).outcome) == ["1", "0"]
    assert "step limit" in run(True).outcome
    assert numbers_in(run(False).outcome) == ["0", "0"]
    assert '{"wrong":["x"]}' in run(False, wrong=["x"]).outcome
    assert "characters cut here]" in run(False, wrong="x" * 5_000).outcome


def test_a_run_is_shown_with_its_task_and_its_outcome() -> None:
    for success, said in ((True, "yes"), (False, "no")):
        example = render_example(run(success), lambda text: len(text.split()), 100)
        assert example["Task"] == "Do it."
        assert example["Run"].startswith(f'<run success="{said}">\n<segment number="1">')
        assert example["Feedback"] == run(success).outcome


def search(**more: Any) -> GepaSearch:
    return GepaSearch(method_inputs(template=TEMPLATE, **more), 3, "gepa/reflect")


def test_only_runs_with_a_compaction_are_reflected_on() -> None:
    compacted, whole = run(True, 1), run(True)
    batch = SimpleNamespace(trajectories=[whole, compacted])
    assert search().make_reflective_dataset({}, batch, []) == {COMPONENT: [{"run": compacted}]}
    assert search().propose_new_texts({COMPONENT: "x"}, {COMPONENT: []}, []) == {}


@pytest.mark.parametrize("reflection", [USED, EMPTY])
def test_a_reflection_gives_a_new_text_or_none(reflection: Reflection) -> None:
    made = search()
    made._bridge = cast(Any, SimpleNamespace(call=lambda work: reflection))
    proposed_texts = made.propose_new_texts({COMPONENT: "x"}, {COMPONENT: [{"run": run(True, 1)}]}, [])
    assert made.reflections == [reflection]
    if reflection.parts is None:
        assert proposed_texts == {}
    else:
        assert proposed_texts == {COMPONENT: f"<first>\n{reflection.parts['first']}</first>\n<update>\nu</update>"}


def test_scores_of_a_batch_come_with_traces_where_they_are_wanted() -> None:
    made = search()
    runs = [run(True), run(False)]
    made._bridge = cast(Any, SimpleNamespace(call=lambda work: runs))
    outcomes = [each.outcome for each in runs]
    assert made.evaluate([], {}, capture_traces=True) == (outcomes, [1.0, 0.0], runs)
    assert made.evaluate([], {}) == (outcomes, [1.0, 0.0], None)


def test_clauses_are_lines_that_are_new_with_the_first_reflection_that_had_them() -> None:
    made = search()
    template = revised("Keep ids.", "Keep dates.")
    later = Reflection({"b": "x"}, {"first": template.first, "update": ""})
    made.reflections = [EMPTY, USED, later]
    assert made.clauses(template) == (Clause("Keep ids.", "Goal", ("a",)), Clause("Keep dates.", "Goal", ("b",)))
    assert made.clauses(TEMPLATE) == ()


def test_a_line_that_is_new_in_one_part_only_is_a_clause_too() -> None:
    made = search()
    template = replace(TEMPLATE, update=revised("Keep ids.").update)
    made.reflections = [Reflection({"c": "x"}, {"first": TEMPLATE.first, "update": template.update})]
    assert made.clauses(template) == (Clause("Keep ids.", "Goal", ("c",)),)


def test_both_parts_are_one_text() -> None:
    assert join_parts(Template("s", "one\n", "two\n")) == "<first>\none\n</first>\n<update>\ntwo\n</update>"


def test_the_first_outcome_of_a_task_is_its_reason() -> None:
    records = {
        "gepa/reflect/1": {"tasks": {"a": "later", "b": "second"}},
        "gepa/reflect/0": {"tasks": {"a": "first"}},
    }
    store = SimpleNamespace(finished=lambda kind: set(records), result=records.__getitem__)
    assert reasons(cast(Any, store)) == {"a": (Reason("first"),), "b": (Reason("second"),)}


# --- the bridge


def test_a_bridge_gives_the_value_of_the_function_and_of_what_it_awaits() -> None:
    async def work() -> tuple[int, bool]:
        bridge = Bridge()

        async def three() -> int:
            return 3

        return await bridge.run(lambda: bridge.call(three) + bridge.call(three)), bridge.failed

    assert asyncio.run(work()) == (6, False)


def test_the_first_failure_is_kept_and_nothing_is_begun_after_it() -> None:
    begun: list[str] = []

    async def work() -> Bridge:
        bridge = Bridge()

        async def fails() -> None:
            begun.append("first")
            raise KeyError("the first")

        async def more() -> None:
            begun.append("more")

        def function() -> str:
            for each in (fails, more):
                with pytest.raises(Stopped):
                    bridge.call(each)
            return "went on"

        with pytest.raises(KeyError, match="the first"):
            await bridge.run(function)
        return bridge

    assert asyncio.run(work()).failed
    assert begun == ["first"]


def test_an_error_of_the_function_itself_is_raised_unless_something_failed_before() -> None:
    async def fails() -> None:
        raise KeyError("the first")

    async def work(first: bool) -> None:
        bridge = Bridge()

        def function() -> None:
            if first:
                with pytest.raises(Stopped):
                    bridge.call(fails)
            raise ValueError("its own")

        await bridge.run(function)

    with pytest.raises(ValueError, match="its own"):
        asyncio.run(work(False))
    with pytest.raises(KeyError, match="the first"):
        asyncio.run(work(True))


def test_progress_of_a_run_counts_in_the_search_and_begins_no_stage() -> None:
    told: list[str] = []
    whole = SimpleNamespace(
        done=lambda: told.append("done"), step=lambda: told.append("step"), note=told.append, stage=None, expect=None
    )
    within = gepa_search._Within(cast(Any, whole))
    within.stage("collect", 3)
    within.expect(4)
    within.done()
    within.step()
    within.note("hello")
    assert told == ["done", "step", "hello"]


def test_a_reflection_is_no_run_of_the_search() -> None:
    """The stage counts runs: with reflections among them it would end beyond its total."""
    told: list[str] = []
    whole = SimpleNamespace(done=lambda: told.append("done"), note=told.append)
    within = gepa_search._Within(cast(Any, whole), counted=False)
    within.done()
    within.note("waiting")
    assert told == ["waiting"]


def test_a_search_stops_before_an_iteration_that_would_be_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two minibatches of three and the validation set of two: eight runs."""
    seen: dict[str, Any] = {}
    better, worse = revised("Keep ids."), revised("Keep dates.")

    def optimize(**given: Any) -> Any:
        seen.update(given)
        texts = [{COMPONENT: join_parts(each)} for each in (TEMPLATE, worse, better, TEMPLATE, better)]
        return SimpleNamespace(candidates=texts, val_aggregate_scores=[9, 1, 3, 2, 3])

    package = Package(optimize, cast(Any, None), cast(Any, None), cast(Any, None))
    monkeypatch.setattr(gepa_search, "load_gepa", lambda: package)
    made = search(seed=5)
    learning, validation = [Task("a", "")], [Task("b", ""), Task("c", "")]
    found = asyncio.run(made.run(learning, validation, 20))
    assert found == [better, worse]
    assert (seen["trainset"], seen["valset"], seen["seed"]) == (learning, validation, 5)
    assert seen["seed_candidate"] == {COMPONENT: join_parts(TEMPLATE)}
    assert seen["reflection_minibatch_size"] == 3
    stop = seen["stop_callbacks"]
    assert [stop(SimpleNamespace(total_num_evals=n)) for n in (0, 11, 12, 13)] == [False, False, False, True]
    made._bridge = replace(made._bridge, _failure=KeyError())
    assert stop(SimpleNamespace(total_num_evals=0))


# --- what the search stands on


class OnThisThread:
    """A bridge that has things done at once."""

    failed = False

    def call(self, work: Any) -> Any:
        return asyncio.run(work())


def reflecting(
    monkeypatch: pytest.MonkeyPatch, *answers: str, current: str = "", records: dict[str, Any] | None = None
) -> tuple[dict[str, str], GepaSearch, Scripted]:
    """What a search makes of two runs whose optimizer gives these answers."""
    records = {} if records is None else records
    model = Scripted(*answers)

    @contextmanager
    def transaction() -> Iterator[None]:
        yield

    def finish(unit: str, kind: str, text: str, seconds: float) -> None:
        records[unit] = json.loads(text)

    async def complete(stage: str, kind: str, units: Sequence[Any], *, progress: Any) -> None:
        assert (stage, kind) == ("gepa", "reflection")
        for unit in units:
            unit.record(await unit.play(SimpleNamespace(bound=lambda model, role: model)), 0.0)

    store = SimpleNamespace(
        finished=lambda kind: set(records), result=records.get, transaction=transaction, finish=finish
    )
    budgets: list[int] = []

    def shown_run(run: SearchRun, count: Any, budget: int) -> dict[str, str]:
        budgets.append(budget)
        return {"Run": "it used tok-9042"}

    package = Package(
        cast(Any, None), cast(Any, None), lambda current, examples: f"improve {current}: {examples}", str.strip
    )
    monkeypatch.setattr(gepa_search, "load_gepa", lambda: package)
    monkeypatch.setattr(gepa_search, "render_example", shown_run)
    monkeypatch.setattr(gepa_search, "shared_prefix", lambda store: ())
    made = search(
        records=store,
        settings=AdaptConfig(evidence_tokens=1_000),
        optimizer=lambda calls: Optimizer(model, redraws=0),
        complete=complete,
    )
    made._bridge = cast(Any, OnThisThread())
    runs = [{"run": run(True, 1)}, {"run": run(False, 1)}]
    texts = made.propose_new_texts({COMPONENT: current or join_parts(TEMPLATE)}, {COMPONENT: runs}, [])
    assert budgets in ([], [500, 500])
    return texts, made, model


def test_a_reflection_is_recorded_and_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    records: dict[str, Any] = {}
    better = join_parts(revised("Keep ids."))
    texts, made, model = reflecting(monkeypatch, f"Here: {better}", records=records)
    assert texts == {COMPONENT: better}
    assert list(records) == ["gepa/reflect/0"]
    assert records["gepa/reflect/0"]["tasks"] == {"a": run(False, 1).outcome}
    prompt = model.requests[0].messages[-1].content
    assert prompt.startswith(f"improve {join_parts(TEMPLATE)}: [")
    assert prompt.endswith(gepa_search.RULES)
    assert model.requests[0].decoding.response_schema is None
    again, _, unused = reflecting(monkeypatch, records=records)
    assert (again, unused.requests) == (texts, [])
    assert made.reflections[0].parts is not None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (join_parts(TEMPLATE), "nothing was changed"),
        ("no parts", "there is no <first> … </first>: give both parts"),
        (f"<first>\n{TEMPLATE.first}</first>", "there is no <update> … </update>: give both parts"),
        (f"<first>\n \n</first>\n<update>\n{TEMPLATE.update}</update>", "first is empty: give the whole part"),
        (
            join_parts(revised("Keep tok-9042.")),
            "first: names 'tok-9042', which belongs to one task only; update: names",
        ),
        (join_parts(TEMPLATE).replace("## Goal", "## Aim"), "first: the headings must stay"),
    ],
)
def test_a_reflection_that_breaks_a_rule_gives_no_text(monkeypatch: pytest.MonkeyPatch, answer: str, said: str) -> None:
    texts, made, _ = reflecting(monkeypatch, answer)
    assert texts == {}
    assert made.reflections[0].parts is None
    assert made.reflections[0].refused[0].startswith(said)


def test_to_go_back_to_the_original_is_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, _, _ = reflecting(monkeypatch, join_parts(TEMPLATE), current=join_parts(revised("Keep ids.")))
    assert texts == {COMPONENT: join_parts(TEMPLATE)}


def test_each_run_of_a_template_on_a_task_has_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes_run: list[tuple[str, int, str]] = []

    async def run_episodes(phase: str, episodes: Any, *, template: Template, progress: Any) -> None:
        assert phase == "gepa"
        episodes_run.extend((each.unit, each.number, template.hash[:16]) for each in episodes)

    monkeypatch.setattr(gepa_search, "read_trajectory", lambda store, name: run(True).trajectory)
    searching = search(run=run_episodes)
    searching._bridge = cast(Any, OnThisThread())
    a, b = Task("a", ""), Task("b", "")
    other = revised("Keep ids.")
    searching.evaluate([a, b, a], {COMPONENT: join_parts(TEMPLATE)})
    searching.evaluate([a], {COMPONENT: join_parts(TEMPLATE)})
    searching.evaluate([a], {COMPONENT: join_parts(other)})
    one, two = TEMPLATE.hash[:16], other.hash[:16]
    assert episodes_run == [
        (f"gepa/{one}/a/0", 0, one),
        (f"gepa/{one}/b/0", 0, one),
        (f"gepa/{one}/a/1", 1, one),
        (f"gepa/{one}/a/2", 2, one),
        (f"gepa/{two}/a/0", 0, two),
    ]
    assert searching.runs == 5
