"""Kinds of causes and the clauses that they make, by their numbers: what outweighs what, and what a clause rests on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from made_up_runs import continuation
from method_support import method_inputs
from sentences import numbers_in

from recompact.adaptation import causes as causes_module
from recompact.adaptation.cause_kinds import (
    LENGTH,
    LOST,
    Trials,
    check_clause,
    describe,
    form_kinds,
    kinds_of,
    lost_kinds,
    word_clauses,
)
from recompact.adaptation.causes import (
    SOFTENED,
    STEPS,
    UNTESTED,
    KindOfCause,
    Settings,
    _gather,
    _statement,
    candidates_from,
    causes,
    causes_random,
    weigh_kinds,
)
from recompact.adaptation.facts import SPARING
from recompact.adaptation.missing_facts import KINDS, Kind
from recompact.adaptation.placement import leaves, place_of, soften_sentence, without_absolutes
from recompact.attribution.bisection.cause import Cause, Trial
from recompact.attribution.bisection.pieces import Piece
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.values.chat import Message, ToolCall, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.outcome import BoundaryId, Outcome
from recompact.values.template import default_template, parse_sections
from recompact.values.trajectory import Boundary

PREFIX = (system("Be brief."), user("The task."))


def cause(loss: str = "success", task: str = "a", *pieces: Piece, placebo: bool = True) -> Cause:
    trials = {"closing": Trial((Outcome(1.0, 3),) * 2), "placebo": Trial((Outcome(0.0, 9),) if placebo else ())}
    return Cause(BoundaryId(f"collect/{task}", 1), "found", loss, 12, pieces, 5, 100, **trials)  # type: ignore[arg-type]


LOSSES = st.lists(st.sampled_from(["success", "steps"]), min_size=1, max_size=5)
KNOWN = st.dictionaries(st.sampled_from(KINDS), LOSSES, max_size=5)


@given(KNOWN, st.booleans())
def test_kinds_that_cost_success_come_first_and_one_that_cost_steps_once_is_left_out(
    losses: dict[Kind, list[str]], weights: bool
) -> None:
    known = [(cause(loss, f"{kind}{n}"), (kind,)) for kind, own in losses.items() for n, loss in enumerate(own)]
    kinds = weigh_kinds(known, Settings(weights=weights))
    weight = {
        kind: sum(1 if each == "success" else STEPS for each in own) if weights else STEPS * len(own)
        for kind, own in losses.items()
    }
    assert {each.kind for each in kinds} == {kind for kind in losses if weight[kind] >= 1}
    for each in kinds:
        assert (each.success, len(each.causes)) == (losses[each.kind].count("success"), len(losses[each.kind]))
        assert each.weight == each.success + STEPS * losses[each.kind].count("steps")
        assert each.answers == tuple(sorted(f"{each.kind}{n}#1" for n in range(len(each.causes))))
    order = [each.success if weights else len(each.causes) for each in kinds]
    assert order == sorted(order, reverse=True)


def test_a_cause_counts_for_each_of_its_kinds() -> None:
    kinds = weigh_kinds([(cause(), ("page", "result"))], Settings())
    assert [each.kind for each in kinds] == ["page", "result"]


@pytest.mark.parametrize(
    ("own", "numbers"),
    [
        ([("success", True), ("steps", True)], ["2 compactions", "returned at 1", "saved at 1", "none of 2"]),
        ([("success", False)], ["1 compaction:", "returned at 1"]),
        ([("steps", True), ("steps", False)], ["2 compactions", "saved at 2", "none of 1"]),
    ],
)
def test_a_proof_has_the_numbers_of_its_causes(own: list[tuple[str, bool]], numbers: list[str]) -> None:
    proof = KindOfCause("page", tuple(cause(loss, placebo=tried) for loss, tried in own)).proof
    assert all(number in proof for number in numbers), proof
    losses = {loss for loss, _ in own}
    assert ("returned" in proof, "saved" in proof) == ("success" in losses, "steps" in losses)
    assert ("placebo" in proof) == any(tried for _, tried in own)


def test_every_kind_gets_a_clause_and_only_tested_ones_an_answer() -> None:
    tested = KindOfCause("page", (cause(task="p"),))
    whole, *rest = candidates_from(default_template(), [tested], frozenset(), "causes", prior=True)
    assert whole.template is not None
    proofs = [clause.proof for clause in whole.clauses]
    assert [clause.answers for clause in whole.clauses if clause.answers] == [("p#1",)]
    assert proofs.count(UNTESTED) == len(SPARING.clauses) - 1
    softened = [clause for clause in whole.clauses if clause.proof == SOFTENED]
    if softened:  # the second one leaves the template's own words alone
        (second,) = rest
        assert second.template is not None
        assert len(second.clauses) == len(whole.clauses) - len(softened)
        for clause in softened:
            assert clause.text in whole.template.first + whole.template.update
            assert clause.text not in second.template.first
    assert [each.name for each in (whole, *rest)] == ["causes-1", "causes-2"][: 1 + len(rest)]


def test_the_optimizers_words_stand_where_there_are_some() -> None:
    kinds = [KindOfCause("page", (cause(),)), KindOfCause("result", (cause(),))]
    (made,) = candidates_from(default_template(), kinds, frozenset(), "x", {"page": "Pages that were read."})
    assert made.template is not None
    assert [clause.text == "Pages that were read." for clause in made.clauses] == [True, False]
    assert "Pages that were read." in made.template.first


@pytest.mark.parametrize(
    ("options", "name", "bisects", "asks"),
    [
        ({}, "causes", True, False),
        ({"evidence": "random pieces"}, "causes-random", False, False),
        ({"evidence": "random compactions"}, "causes-random-compactions", True, False),
        ({"evidence": "suspected"}, "causes-suspected", False, True),
        ({"wording": "optimizer"}, "causes", True, True),
    ],
)
def test_what_a_method_needs_follows_from_its_options(
    options: dict[str, Any], name: str, bisects: bool, asks: bool
) -> None:
    method = causes(**options)
    assert (method.name, method.tested, method.asks_optimizer) == (name, bisects, asks)
    assert (method.needs_effects, method.cites) == (True, "compaction")
    assert bool(method.phases) is bisects
    assert causes_random().name == "causes-random"


# --- kinds by form


def boundary(summary: str, *turns: Turn, old: str = "") -> Boundary:
    pre = Context(PREFIX, Summary(old, 5) if old else None, turns)
    return Boundary(1, len(turns), pre, Context(PREFIX, Summary(summary, 5)), None, ())


def turn(result: str, arguments: str = "{}") -> Turn:
    call = ToolCall("1", "list", arguments)
    return Turn(Message("assistant", "", (call,)), (Message("tool", result, call_id="1"),), 20)


def count(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("result", "kinds"),
    [
        ('[{"id": "r-1"}, {"id": "r-2"}]', {"result"}),
        ('[{"id": "r-1"}]', {"identifier"}),
        ('{"items": [["r-1"], ["r-2"]], "page": 3}', {"result", "page"}),
        ('["r-1", "r-2"]', {"identifier"}),  # no records
        ('{"deep": {"items": [{"a": "r-1"}, {"b": 2}]}, "next_cursor": 5}', {"result", "page"}),
        ("see acc-7f31", {"identifier"}),
        ("nothing of note", set()),
    ],
)
def test_what_was_lost_is_told_by_its_form(result: str, kinds: set[Kind]) -> None:
    assert lost_kinds(boundary("gone", turn(result)), count) == kinds


def test_a_piece_is_lost_where_half_of_its_literals_are_gone() -> None:
    said = turn("see acc-7f31 and acc-8b42")
    assert LOST == 0.5
    assert lost_kinds(boundary("acc-7f31", said), count) == {"identifier"}
    assert lost_kinds(boundary("acc-7f31 acc-8b42", said), count) == set()
    three = turn("see acc-7f31 and acc-8b42 and acc-9c53")
    assert lost_kinds(boundary("acc-7f31 acc-8b42", three), count) == set()


@pytest.mark.parametrize(("lines", "is_set"), [(1, False), (2, False), (3, True)])
def test_an_entry_of_several_lines_is_a_set_of_records(lines: int, is_set: bool) -> None:
    entry = Piece("entry", 1, "\n  ".join(["- rows:", "r1|3", "r2|4"][:lines]), 10)
    assert ("result" in form_kinds(entry, ())) is is_set


def test_the_most_telling_kind_comes_first() -> None:
    lines = [Piece("line", n, "All is paid.", 9, heading) for n, heading in enumerate(["## Done", "## Goal"] * 2)]
    at = boundary("x")
    assert kinds_of(cause("success", "a", *lines, Piece("line", 9, "x", 9, "## Next")), at, Trials()) == (
        "open",
        "condition",
    )
    request = Piece("request", 1, "Pay.", 9)
    assert kinds_of(cause("success", "a", *lines[:2], request), at, Trials()) == ("condition", "open")


@pytest.mark.parametrize(
    ("text", "usable"),
    [("x" * LENGTH, True), ("x" * (LENGTH + 1), False), ("Keep <b>", False), ("{{ x", False), ("a # b", True)],
)
def test_a_clause_is_plain_and_not_too_long(text: str, usable: bool) -> None:
    if usable:
        assert check_clause(text, frozenset()) == text
    else:
        with pytest.raises(ValueError):
            check_clause(text, frozenset())


# --- where clauses go


TEMPLATE = "Intro\n## Goal\nthe goal\n## Work\n### Done\ndone\n### Open work\nopen\n"


@pytest.mark.parametrize(
    ("title", "place"),
    [("Goal", "Goal"), ("## goal", "Goal"), ("Work", "Done"), ("Open works", "Open work"), ("Zebra", "Open work")],
)
def test_a_clause_goes_under_the_nearest_title_that_holds_text(title: str, place: str) -> None:
    sections = parse_sections(TEMPLATE)
    assert [sections[at].title for at in leaves(sections)] == ["Goal", "Done", "Open work"]
    assert sections[place_of(title, sections)].title == place
    plain = parse_sections("no heading")
    assert place_of(title, plain) == len(plain) - 1


def test_absolutes_go_where_no_tested_cause_needs_them() -> None:
    text = "Write paths exactly as they appeared, verbatim."
    assert soften_sentence(text, ()) == "Write paths as they appeared."
    tested: tuple[Kind, ...] = ("path",)
    assert soften_sentence(text, tested) == text
    assert soften_sentence("Be exactly as brief.", ()) == "Be exactly as brief."  # it names no kind
    template = default_template()
    same, nothing = without_absolutes(template, KINDS)
    assert (same, nothing) == (template, ())
    softer, changed = without_absolutes(template)
    assert changed
    assert all(sentence in softer.first + softer.update for _, sentence in changed)


# --- how many tasks it takes


def gathered(tasks: int, added: int, causes_of: Sequence[Sequence[tuple[Cause, tuple[Kind, ...]]]], **more: Any) -> Any:
    """What is asked for, batch by batch, and what comes of it; `causes_of` are the causes after each batch."""
    asked: list[int] = []
    supply = more.pop("supply", 99)

    async def collect_more(number: int) -> tuple[str, ...]:
        asked.append(number)
        return tuple(f"more-{n}" for n in range(min(number, supply - sum(asked[:-1]))))

    async def find(inputs: Any) -> Any:
        seen.append(len(inputs.tasks))
        return causes_of[min(len(asked), len(causes_of) - 1)]

    seen: list[int] = []
    inputs = method_inputs(
        tasks=tuple(range(tasks)),
        records=SimpleNamespace(metadata=SimpleNamespace(added=("x",) * added)),
        collect_more=collect_more,
        spare_tasks=more.pop("spare", 0),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(causes_module._FINDERS, "tested", find)
        after, known, number = asyncio.run(_gather(inputs, Settings(**more)))
    assert len(after.tasks) == seen[-1]
    return asked, seen, len(known), number


def known_causes(success: int, steps: int = 0, kindless: int = 0) -> list[tuple[Cause, tuple[Kind, ...]]]:
    page: tuple[Kind, ...] = ("page",)
    return [*[(cause(), page)] * success, *[(cause("steps"), page)] * steps, *[(cause(), page[1:])] * kindless]


@pytest.mark.parametrize(
    ("tasks", "added", "options", "asked", "number"),
    [
        (10, 0, {"more_tasks": 12}, [5, 5, 2], 12),
        (10, 4, {"more_tasks": 12}, [3, 3, 2], 12),  # a batch is half of the tasks that were chosen first
        (11, 0, {"more_tasks": 5}, [5], 5),
        (1, 0, {"more_tasks": 2}, [1, 1], 2),
        (10, 0, {"more_tasks": 0, "spare": 8}, [], 0),
        (10, 0, {"spare": 8}, [5, 3], 8),
        (10, 5, {"more_tasks": 5}, [], 5),
        (10, 0, {"more_tasks": 20, "supply": 6}, [5, 5, 5], 6),  # until there are none
    ],
)
def test_tasks_are_added_in_batches_up_to_the_ceiling(
    tasks: int, added: int, options: dict[str, Any], asked: list[int], number: int
) -> None:
    found = gathered(tasks, added, [known_causes(3, steps=5, kindless=5)], **options)
    assert found[0] == asked
    assert found[3] == number
    assert found[1][0] == tasks
    assert found[1][-1] == tasks + number - added


@pytest.mark.parametrize(("success", "batches"), [([3, 4], 1), ([4], 0), ([0, 1, 9], 2)])
def test_no_task_is_added_once_four_causes_of_lost_success_have_a_kind(success: list[int], batches: int) -> None:
    asked, _, known, _ = gathered(10, 0, [known_causes(n, steps=9) for n in success], more_tasks=40)
    assert asked == [5] * batches
    assert known == success[-1] + 9


def test_the_statement_has_the_numbers_and_names_the_kinds_that_no_cause_counts_for() -> None:
    assert numbers_in(_statement(1, 1_200, 0, ())) == ["1", "1,200"]
    assert numbers_in(_statement(2, 3, 4, ())) == ["2", "3", "4"]
    said = _statement(2, 3, 0, ["result", "page"])
    assert numbers_in(said) == ["2", "3"]
    assert "page, result" in said


@pytest.mark.parametrize("losses", ["", "s", "b", "sb", "bbs"])
def test_a_kind_weighs_a_loss_of_steps_half(losses: str) -> None:
    own = KindOfCause("page", tuple(cause("success" if each == "s" else "steps") for each in losses))
    assert own.weight == losses.count("s") + losses.count("b") / 2


def test_a_lone_candidate_where_no_kind_is_left() -> None:
    assert [len(each.clauses) for each in candidates_from(default_template(), [], frozenset(), "x")] == [0]


def test_a_cause_without_a_closing_draw_proves_nothing() -> None:
    untested = replace(cause(), closing=Trial(()))
    assert KindOfCause("page", (cause(), untested)).proof == ""


def test_each_piece_counts_once_for_its_kind() -> None:
    request = Piece("request", 1, "Pay.", 9, "## Goal")
    lines = [
        Piece("line", n, "All is paid.", 9, heading) for n, heading in enumerate(["## Done", "## Next", "## Goal"])
    ]
    at = boundary("x")
    assert kinds_of(cause("success", "a", request, *lines[:2]), at, Trials()) == ("open", "condition")
    assert kinds_of(cause("success", "a", lines[2], *lines[:2]), at, Trials()) == ("open", "condition")


# --- from a run


def harm(task: str, hazard: float | None, *, retained: bool = False) -> Any:
    effect = None if hazard is None else SimpleNamespace(hazard=hazard)
    return SimpleNamespace(id=BoundaryId(f"collect/{task}", 1), effect=effect, retained=retained)


def with_verdicts(patch: pytest.MonkeyPatch, *verdicts: Any) -> None:
    """A run with these verdicts, and what each of its compactions lost by its form."""
    by_id = {each.id: each for each in verdicts}
    verification = SimpleNamespace(examined=verdicts, of=by_id.__getitem__, settings=SimpleNamespace(hazard=0.5))
    patch.setattr(causes_module, "read_verdicts", lambda records: verification)
    patch.setattr(causes_module, "read_boundary", lambda store, id: id)


@pytest.mark.parametrize(
    ("hazard", "loss"), [(0.5, "success"), (0.5 - 1e-10, "success"), (0.49, "steps"), (1.0, "success"), (None, "steps")]
)
def test_success_was_lost_where_the_hazard_reaches_the_threshold(hazard: float | None, loss: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        with_verdicts(patch, harm("a", hazard))
        assert causes_module._loss(method_inputs(), BoundaryId("collect/a", 1)) == loss


@pytest.mark.parametrize(
    ("harmful", "harmless", "common"),
    [
        ([1, 1], [1, 1], True),
        ([1, 1], [1, 0], False),  # harmful ones lose it more often
        ([1, 0], [1, 0, 0, 1], True),  # as often
        ([0, 0], [0, 0], False),  # no form tells
        ([1, 0], [0, 0], False),
        ([0], [1], True),
        ([1], [], False),
    ],
)
def test_a_kind_is_common_where_harmless_compactions_lose_it_as_often(
    harmful: list[int], harmless: list[int], common: bool
) -> None:
    lost: dict[BoundaryId, frozenset[Kind]] = {}
    verdicts = []
    for retained, own in ((True, harmful), (False, harmless)):
        for n, loses in enumerate(own):
            verdicts.append(harm(f"{retained}{n}", 1.0, retained=retained))
            lost[verdicts[-1].id] = frozenset(["page", "result"] if loses else ["result"])
    with pytest.MonkeyPatch.context() as patch:
        with_verdicts(patch, *verdicts)
        patch.setattr(causes_module, "lost_kinds", lambda id, count: lost[id])
        kinds = causes_module.common_kinds(method_inputs(), ["page", "secret"])
    assert kinds == (frozenset({"page"}) if common else frozenset())


def test_trials_are_those_without_a_change_and_those_that_succeeded_with_one(tmp_path: Path) -> None:
    units = {"post/0": 0.0, "post/1": 1.0, "turn.1/0": 1.0, "turn.1/1": 0.0, "turn.2,line.1/0": 0.25}
    with Store.open(tmp_path / "r.db") as store:
        for task in ("a", "b/c"):
            for n, (end, value) in enumerate(units.items()):
                made = replace(continuation(task, value, 2 + n), task=task)
                write_trajectory(store, f"bisect/{task}/1/{end}", made, phase="bisect", run=0, groups={}, seconds=1.0)
        known = [cause(task="a"), cause(task="b/c"), replace(cause(), boundary=BoundaryId("collect/a", 2))]
        given_: list[Trials] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(causes_module, "read_boundary", lambda store, id: id)
            patch.setattr(causes_module, "kinds_of", lambda cause, boundary, trials: given_.append(trials))
            causes_module._with_kinds(store, known)
        *first, none = given_
        for trials in first:
            assert [each.steps for each in trials.lost] == [2, 3]
            assert [each.steps for each in trials.closing] == [4, 6]
        assert none == Trials()


def test_the_options_are_those_of_tested_causes_unless_others_are_given() -> None:
    assert Settings() == Settings("tested", True, True, None, "sparing", True)
    assert [causes().color, causes(evidence="suspected").color] == ["#B0413E", "#C9A09F"]
    phases = [causes(evidence=each).phases for each in ("tested", "random compactions", "suspected")]
    assert phases == [
        ("bisect/", "cause/", "word/causes/"),
        ("bisect/", "cause/", "word/causes-random-compactions/"),
        (),
    ]


@pytest.mark.parametrize(
    ("wording", "asked", "names"),
    [
        ("sparing", False, {"x"}),
        ("entries", False, {"x"}),
        ("both", False, {"x", "x-entries"}),
        ("optimizer", True, {"x"}),
    ],
)
def test_only_where_it_is_to_find_the_words_is_the_optimizer_asked(wording: Any, asked: bool, names: set[str]) -> None:
    questions: list[str] = []

    async def word_clauses(inputs: Any, causes: Any, instances: frozenset[str], method: str) -> dict[Kind, str]:
        questions.append(method)
        return dict.fromkeys(causes, "Note every page.")

    async def gather(inputs: Any, settings: Settings) -> Any:
        return inputs, known_causes(1), 0

    evidence = SimpleNamespace(boundary=boundary("paid", turn("page 1")), needed=(), id=BoundaryId("collect/a", 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(causes_module, "word_clauses", word_clauses)
        patch.setattr(causes_module, "_gather", gather)
        patch.setattr(causes_module, "retained_evidence", lambda store: (evidence,))
        settings = Settings(contrast=False, wording=wording, prior=False)
        proposal = asyncio.run(causes_module.propose(method_inputs(), settings, "x"))
    assert questions == ["x"] * asked
    assert {each.name.rpartition("-")[0] for each in proposal.candidates} == names
    texts = {clause.text for each in proposal.candidates for clause in each.clauses}
    assert ("Note every page." in texts) is asked
    assert (proposal.evidence.pieces, proposal.evidence.diagnosed) == (1, 1)  # type: ignore[union-attr]


def test_a_question_about_a_kind_shows_three_causes_those_of_lost_success_first() -> None:
    entry = Piece("entry", 1, "- pages 1 to 3", 9, "## Done")
    lost = Trial((Outcome(0.0, 9),))
    losses = (("steps", "a"), ("success", "b"), ("steps", "c"), ("steps", "d"))
    own = [replace(cause(loss, task, entry), post=lost) for loss, task in losses]
    read: list[str] = []

    def read_boundary(store: Any, id: BoundaryId) -> Boundary:
        read.append(id.unit)
        return (
            boundary(f"summary of {id.unit}" + " x" * 2_000)
            if id.unit != "collect/c"
            else replace(boundary(""), post=Context(PREFIX))
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recompact.adaptation.cause_kinds.read_boundary", read_boundary)
        shown = describe(None, "page", own)  # type: ignore[arg-type]
    assert read == ["collect/b", "collect/a", "collect/c"]
    assert shown.count("## Done\n- pages 1 to 3") == 3
    assert ["summary of collect/b" in shown, "summary of collect/a" in shown] == [True, True]
    assert shown.count("characters cut here") == 2  # of the long summaries; there is none at the third
    assert shown.count(own[1].sentence()) == 1


async def test_clauses_are_worded_one_kind_at_a_time_and_an_empty_answer_is_none() -> None:
    asked: dict[str, str] = {}

    async def answers(inputs: Any, phase: str, noun: str, units: Any, answer: Any, **how: Any) -> dict[Kind, str]:
        asked.update(units)
        assert (how["useful"]("x"), how["useful"](""), how["failed"]("")) == (True, False, False)
        return {kind: await answer(None, kind) for kind in units}

    async def ask(optimizer: Any, question: str, schema: Any, check: Any) -> Any:
        assert schema["additionalProperties"] is False
        return SimpleNamespace(value=check({"clause": f"- Note {question}."}) if question != "secret" else None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recompact.adaptation.cause_kinds.answers", answers)
        patch.setattr("recompact.adaptation.cause_kinds.ask", ask)
        patch.setattr("recompact.adaptation.cause_kinds.describe", lambda store, kind, causes: kind)
        words = await word_clauses(method_inputs(), {"page": [cause()], "secret": [cause()]}, frozenset(), "x")
    assert asked == {"page": "word/x/page", "secret": "word/x/secret"}
    assert words == {"page": "Note page."}
