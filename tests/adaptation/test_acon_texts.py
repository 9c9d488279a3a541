"""What ACON's optimizer is shown and what it makes of it: whole runs within a limit, samples, and its own answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from random import Random
from typing import Any

import pytest
from acon_support import study_run
from sentences import numbers_in

from recompact.adaptation.acon import Assignment, rewrite, sample_entries
from recompact.adaptation.acon_evidence import (
    FEEDBACK,
    SHORTER,
    Analysis,
    analyse,
    compactions,
    give_feedback,
    length_introduction,
    run_pair,
)
from recompact.adaptation.excerpts import in_segments, segments, shown_turns, summaries, without_middle
from recompact.adaptation.lock import instances_in
from recompact.adaptation.optimizer import SAME, Optimizer
from recompact.engine.collection import collect
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.simulation.guidance import orders_in, read_guidance
from recompact.simulation.judgement import write_clause
from recompact.simulation.optimizer import SimulatedOptimizer, compare, rewrite as simulated_rewriting, shorten
from recompact.simulation.parameters import Judgement
from recompact.suites.pocket import PocketSuite
from recompact.values.candidate import read_record
from recompact.values.chat import Reply, Request, Usage, assistant
from recompact.values.context import Turn
from recompact.values.template import default_template, headings, placeholders
from recompact.values.tokens import counter
from recompact.values.trajectory import Trajectory

SUITE = PocketSuite()
TASK = next(task for task in SUITE.tasks("train") if task.id == "pocket-train-025")
COUNT = counter()


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Trajectory:
    """A trajectory that failed after two compactions."""
    path = tmp_path_factory.mktemp("texts") / "run.db"

    async def work(study: Study) -> None:
        await collect(study)

    study_run(path, work)
    with Store.read(path) as store:
        return read_trajectory(store, f"collect/{TASK.id}")


class Scripted:
    """Answers with the given texts, one after the other."""

    name = "scripted"

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(assistant(self.texts.pop(0)), Usage(1, 1, 0, 0, 1))


# --- the texts


def test_segments_are_what_each_compaction_consumed(compacted: Trajectory) -> None:
    parts = segments(compacted)
    assert len(parts) == len(compacted.boundaries) + 1 == 3
    assert tuple(turn for part in parts for turn in part) == compacted.turns
    for boundary, part in zip(compacted.boundaries, parts[1:], strict=True):
        assert boundary.post.turns == part[:1]  # the turn that stayed verbatim
    shown = in_segments(compacted, 100_000, COUNT).text
    for number, summary in enumerate(summaries(compacted), 1):
        assert f'<summary number="{number}">\n{summary}\n</summary>' in shown
    assert (
        shown.index('<summary number="1">') < shown.index('<segment number="2">') < shown.index('<summary number="2">')
    )


def test_the_optimizer_sees_both_runs_but_never_the_prefix(compacted: Trajectory) -> None:
    pair = run_pair(TASK, compacted, compacted, 100_000, COUNT)
    assert TASK.text in pair.text
    assert f'<with-compaction success="no" steps="{compacted.steps}"' in pair.text
    assert f'<without-compaction success="no" steps="{compacted.steps}"' in pair.text
    for message in SUITE.environment(TASK).start().prefix:
        assert message.content not in pair.text
    assert any("@" in literal for literal in instances_in((pair.text,)))


@pytest.mark.parametrize("budget", [1_500, 4_000, 9_000])
def test_a_pair_is_cut_to_its_budget_and_says_so(compacted: Trajectory, budget: int) -> None:
    pair = run_pair(TASK, compacted, compacted, budget, COUNT)
    assert COUNT(pair.text) < 1.1 * budget + 200  # tags and flags come on top
    assert "cut here]" in pair.text
    assert pair.cuts > 0
    assert pair.left_out > 0
    assert pair.cuts >= sum(pair.text.count(f"{what} cut here]") for what in ("characters", "lines"))


def test_long_observations_go_first_then_the_middle(compacted: Trajectory) -> None:
    turns = compacted.turns
    whole = shown_turns(turns, 100_000, COUNT).text
    shorter = shown_turns(turns, COUNT(whole) * 3 // 4, COUNT)
    assert "characters cut here]" in shorter.text
    assert "lines cut here" not in shorter.text
    assert shorter.cuts == shorter.text.count("characters cut here]")
    least = shown_turns(turns, 300, COUNT).text
    assert COUNT(least) <= 300
    assert "lines cut here]" in least
    assert least.splitlines()[0] == whole.splitlines()[0]
    assert least.splitlines()[-1] == whole.splitlines()[-1]
    assert shown_turns((), 0, COUNT).text == ""
    one_line = Turn(assistant("word " * 5_000), (), 5_000)
    assert COUNT(shown_turns((one_line,), 400, COUNT).text) <= 400
    assert without_middle("a\nb", 100, COUNT).text == "a\nb"


def test_each_compaction_is_shown_with_what_came_next(compacted: Trajectory) -> None:
    first, second = compactions(TASK, compacted, 60_000, COUNT)
    assert (first.name, second.name) == (f"{TASK.id}#1", f"{TASK.id}#2")
    assert "<previous-summary>" not in first.text
    assert f"<previous-summary>\n{first.summary}\n</previous-summary>" in second.text
    next_turns = shown_turns(segments(compacted)[1], 60_000, COUNT).text
    assert f"<what-came-next>\n{next_turns}\n</what-came-next>" in first.text
    assert COUNT(compactions(TASK, compacted, 3_000, COUNT)[1].text) < 3_300


# --- samples and candidates


def test_samples_differ_by_candidate_and_are_all_there_is_where_that_is_less() -> None:
    names = [f"t{n}" for n in range(50)]
    samples = {name: sample_entries(names, 30, name, 0) for name in ("acon-ut-1", "acon-ut-2")}
    assert all(len(set(sample)) == 30 for sample in samples.values())
    assert samples["acon-ut-1"] != samples["acon-ut-2"]
    assert (
        sample_entries(names, 30, "acon-ut-1", 0) == samples["acon-ut-1"] != sample_entries(names, 30, "acon-ut-1", 1)
    )
    assert (
        sample_entries(names[:20], 30, "acon-ut-1", 0)
        == sample_entries(names[:20], 30, "acon-ut-2", 0)
        == tuple(names[:20])
    )


def test_only_the_sample_and_only_its_lessons_reach_the_optimizer() -> None:
    template = default_template()
    answer = json.dumps({"rules": [], "first": template.first + "Keep it.", "update": template.update})
    entries = {name: {"task": name, "remedies": [f"remedy of {name}"]} for name in ("a", "b")}
    for locked in (False, True):
        model = Scripted(answer)
        given = Assignment(template, entries, locked=locked)
        candidate = asyncio.run(rewrite(Optimizer(model), "c", given, ["b"]))
        assert candidate.template is not None
        prompt = model.requests[0].messages[-1].content
        assert "remedy of b" in prompt
        assert "remedy of a" not in prompt
        assert template.first in prompt
        assert ("Every heading stays" in prompt) == locked
    shorter = Assignment(
        template, entries, length_introduction([Analysis("x#1", 1000), Analysis("x#2", 2000)]), SHORTER
    )
    model = Scripted(answer)
    asyncio.run(rewrite(Optimizer(model), "c", shorter, ["a"]))
    assert "1500" in numbers_in(model.requests[0].messages[-1].content)


def test_an_analysis_quotes_its_summary_or_is_redrawn(compacted: Trajectory) -> None:
    made = compactions(TASK, compacted, 60_000, COUNT)[0]
    line = made.summary.splitlines()[1]
    bad = [
        {"remove": [], "keep": []},
        {"remove": [{"kind": "x"}], "keep": []},
        {"remove": "all", "keep": []},
    ]
    good = {"remove": [{"kind": "pages", "how": "less"}], "keep": [{"kind": "goal", "quote": line, "reason": "r"}]}
    model = Scripted(*map(json.dumps, [*bad, good]))
    analysis = asyncio.run(analyse(Optimizer(model), made))
    assert analysis.remove == ({"kind": "pages", "how": "less"},)
    assert [len(request.messages) for request in model.requests] == [2, 4, 2, 2]  # later redraws begin afresh
    assert len({request.messages[-1].content for request in model.requests}) == 4
    assert ["nothing to keep" in analysis.refused[0], "lacks 'how'" in analysis.refused[1]] == [True, True]
    assert read_record(Analysis, json.loads(json.dumps(asdict(analysis)))) == analysis
    refused = asyncio.run(analyse(Optimizer(Scripted(*["no"] * 4)), made))
    assert (refused.remove, refused.keep, len(refused.refused)) == ((), (), 2)
    assert refused.refused[-1] == SAME
    misquoted = {"remove": [], "keep": [{"kind": "goal", "quote": "never said", "reason": "r"}]}
    (needed,) = asyncio.run(analyse(Optimizer(Scripted(json.dumps(misquoted))), made)).keep
    assert (needed["kind"], needed["quote"]) == ("goal", "")  # it loses its quote and stands


# --- the simulated optimizer


def test_simulated_feedback_is_about_all_summaries_and_may_steer_the_agent(compacted: Trajectory) -> None:
    pair = run_pair(TASK, compacted, compacted, 60_000, COUNT)
    prompt = FEEDBACK.format(evidence=pair.text, categories="…")
    answers = [compare(prompt, Random(seed), Judgement()) for seed in range(200)]
    kinds = {finding["kind"] for answer in answers for finding in answer["findings"]}
    assert len(kinds) > 1
    blaming = [answer for answer in answers if answer["findings"]]
    steering = sum(any(map(orders_in, answer["remedies"])) for answer in blaming)
    assert 0.05 < steering / len(blaming) < 0.3  # as often as any other optimizer's rules steer
    blameless = compare(
        '<with-compaction success="no">\n<segment number="1">\n</segment>\n</with-compaction>', Random(0), Judgement()
    )
    assert [bool(orders_in(remedy)) for remedy in blameless["remedies"]] == [True]


ORDER = "The agent should verify its results before it finishes."


def feedback_prompt(freedom: str) -> str:
    template = default_template()
    entries: list[dict[str, Any]] = [
        {"task": "a", "findings": [{"kind": "token"}, {"kind": "page"}], "remedies": [ORDER]},
        {"task": "b", "findings": [{"kind": "predicate"}], "remedies": []},
    ]
    lines = "\n".join(map(json.dumps, entries))
    return (
        f"<feedback>\n{lines}\n</feedback>\n<first>\n{template.first}\n</first>\n"
        f"<update>\n{template.update}\n</update>\n{freedom}"
    )


def test_simulated_rewriting_changes_headings_where_it_may_and_placeholders_never() -> None:
    template = default_template()
    for freedom, changes in (("", True), ("Every heading stays", False)):
        changed = 0
        for seed in range(60):
            answer = simulated_rewriting(feedback_prompt(freedom), Random(seed), Judgement())
            changed += headings(answer["first"]) != headings(template.first)
            assert headings(answer["first"]) == headings(answer["update"])
            for part in ("first", "update"):
                assert placeholders(answer[part]) == placeholders(template.part(part))
        assert (5 < changed < 35) if changes else changed == 0


def test_simulated_shortening_weakens_what_was_not_needed() -> None:
    strong = write_clause("token", True, Random(0))
    analyses = json.dumps({"compaction": "a#1", "remove": [{"kind": "token", "how": "x"}], "keep": [{"kind": "page"}]})
    prompt = (
        f"<analyses>\n{analyses}\n</analyses>\n<first>\n## Goal\n- {strong}\n</first>\n<update>\n## Goal\n</update>"
    )
    answers = [shorten(prompt, Random(seed), Judgement()) for seed in range(40)]
    weakened = [
        read_guidance(answer["first"]).demands["token"] == 1 and strong not in answer["first"] for answer in answers
    ]
    assert 25 < sum(weakened) < 40
    assert all("short" in answer["first"] or "concise" in answer["first"] for answer in answers)
    assert all(len(answer["rules"]) >= 1 for answer in answers)


def test_feedback_of_the_simulated_optimizer_passes_its_own_check(compacted: Trajectory) -> None:
    pair = run_pair(TASK, compacted, compacted, 60_000, COUNT)
    feedback = asyncio.run(give_feedback(Optimizer(SimulatedOptimizer()), TASK.id, pair))
    assert feedback.refused == ()
    assert feedback.remedies
    assert feedback.lesson()["findings"]
    assert "quote" not in json.dumps(feedback.lesson())
