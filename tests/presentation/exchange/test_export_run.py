"""A run in the formats of others: nothing of it is lost, and what reads those formats finds the same session there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import made_up_runs
import pytest
from click.testing import CliRunner
from shared_runs import verified_run

from recompact.attribution.judgement import read_verdicts
from recompact.audit.auditing import Audit, audit_run, audit_transcripts
from recompact.cli.main import cli
from recompact.engine.store.calls import usage_by_phase
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.runs import continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.exchange.episodes import Compaction, Episode, Step, read_episodes
from recompact.presentation.exchange.registry import FORMATS, export_run
from recompact.values.chat import ToolCall, assistant, user
from recompact.values.context import Context, Turn
from recompact.values.trajectory import Score, Trajectory


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.read(verified_run(tmp_path_factory)) as store:
        yield store


@pytest.fixture(scope="module")
def exports(run: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("exports")
    for form in FORMATS.built_in:
        export_run(run, form, root / form)
    return root


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# -- the episodes themselves -----------------------------------------------------------------------------------------


def test_episodes_hold_every_call_and_every_turn(run: Store) -> None:
    spent: Counter[tuple[str, str]] = Counter()
    for episode in read_episodes(run):
        steps = [part for part in episode.parts if isinstance(part, Step)]
        assert tuple(step.turn for step in steps) == episode.trajectory.turns
        assert all(step.call is not None for step in steps)
        assert [part.boundary for part in episode.parts if isinstance(part, Compaction)] == list(
            episode.trajectory.boundaries
        )
        end = steps[-1].context.extended(steps[-1].turn)
        assert end.messages == episode.trajectory.context.messages
        for call in episode.calls:
            spent[episode.phase, call.role] += call.usage.total
    recorded = {
        (phase, role): usage.total for phase, roles in usage_by_phase(run).items() for role, usage in roles.items()
    }
    assert spent == recorded


def test_a_continuation_starts_with_the_context_of_its_arm(run: Store) -> None:
    episodes = {episode.unit: episode for episode in read_episodes(run)}
    draws = [episode for episode in episodes.values() if episode.boundary]
    assert {draw.arm for draw in draws} == {"PRE", "POST"}
    assert len(draws) == len(continuation_rows(run))
    for draw in draws:
        assert draw.boundary is not None
        boundary = episodes[draw.boundary.unit].trajectory.boundaries[draw.boundary.index - 1]
        assert draw.start == (boundary.pre if draw.arm == "PRE" else boundary.post)


def test_a_draw_with_a_summary_of_its_own_begins_with_the_compaction(tmp_path: Path) -> None:
    at = made_up_runs.boundary(1, 5)
    own = made_up_runs.turns(8)  # the first of them are those before the boundary, done again
    context = reduce(Context.extended, own, at.post)
    draw = Trajectory("a", own, (at,), "finished", Score.of(True), context)
    unit = "resample/a/1/POST/0"
    with Store.open(tmp_path / "run.db") as store:
        made_up_runs.begin(store)
        write_trajectory(store, unit, draw, phase="resample", run=0, groups={}, seconds=1.0)
        made_up_runs.journal(store, unit, 0, "compressor", 90)
        (episode,) = read_episodes(store)
    first, *rest = episode.parts
    assert isinstance(first, Compaction)
    assert [call.role for call in first.calls] == ["compressor"]
    assert episode.start == at.pre
    assert [step.turn for step in rest if isinstance(step, Step)] == list(own)
    assert isinstance(rest[0], Step)
    assert rest[0].context == at.post


# -- formats ---------------------------------------------------------------------------------------------------------


def test_json_lines_hold_every_episode_with_its_verdicts(run: Store, exports: Path) -> None:
    episodes = lines(exports / "jsonl" / "episodes.jsonl")
    assert len(episodes) == len(trajectories(run)) + len(continuation_rows(run))
    compactions = [part for episode in episodes for part in episode["parts"] if part["type"] == "compaction"]
    told = {part["boundary"]: (part["H"], part["B"], part["verdict"]) for part in compactions}
    assert told == {
        str(verdict.id): (
            verdict.effect and verdict.effect.hazard,
            verdict.effect and verdict.effect.burden,
            verdict.kind,
        )
        for verdict in read_verdicts(run).verdicts
    }
    assert all(part["calls"][-1]["asked"] for part in compactions)


def sessions(audit: Audit) -> dict[Any, int]:
    """What an audit finds, without the names that formats give to places."""
    return Counter(
        (
            session.calls,
            tuple(
                (each.kind, each.dropped_in_all, each.kept_in_all, each.before, each.after, each.following)
                for each in session.compactions
            ),
        )
        for session in audit.sessions
        if session.compactions
    )


@pytest.mark.parametrize("form", ["atif", "inspect"])
def test_an_audit_finds_the_same_compactions_in_an_export(form: str, run: Store, exports: Path) -> None:
    audit = audit_transcripts(read_transcripts([exports / form]))
    assert [file.path.name for file in audit.skipped] == ["manifest.json"]
    assert not any(session.tally.unknown or session.tally.notes for session in audit.sessions)
    assert sessions(audit) == sessions(audit_run(run))
    summaries = {each.scene.summary for session in audit.sessions for each in session.compactions}
    recorded = {each.scene.summary for session in audit_run(run).sessions for each in session.compactions}
    assert all(any(summary in told for told in summaries) for summary in recorded)


AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
STEP = {"step_id", "source", "message", "observation", "extra", "is_copied_context", "llm_call_count"} | AGENT_ONLY


def check_trajectory(document: dict[str, Any]) -> None:
    """The rules of Harbor's validator."""
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    assert document["steps"]
    embedded = {each["trajectory_id"]: each for each in document.get("subagent_trajectories", ())}
    assert len(embedded) == len(document.get("subagent_trajectories", ()))
    for step in document["steps"]:
        assert step.keys() <= STEP
        assert step["source"] == "agent" or not step.keys() & AGENT_ONLY
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        assert all(isinstance(call["arguments"], dict) for call in step.get("tool_calls", ()))
        for result in step.get("observation", {"results": []})["results"]:
            assert result.get("source_call_id") in {None, *calls}
            assert all(ref["trajectory_id"] in embedded for ref in result.get("subagent_trajectory_ref", ()))
    for inner in embedded.values():
        check_trajectory(inner)


def test_trajectories_keep_the_rules_of_their_format(run: Store, exports: Path) -> None:
    files = [path for path in (exports / "atif").iterdir() if path.name != "manifest.json"]
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    assert len({document["trajectory_id"] for document in documents}) == len(files)
    for document in documents:
        check_trajectory(document)
    new = [step for document in documents for step in document["steps"] if step["source"] == "agent"]
    metrics = [step["metrics"] for step in new if "metrics" in step]
    paid = [roles["agent"] for roles in usage_by_phase(run).values() if "agent" in roles]
    assert sum(each["prompt_tokens"] for each in metrics) == sum(usage.input for usage in paid)
    assert sum(each["completion_tokens"] for each in metrics) == sum(usage.output for usage in paid)


def spans_in(exports: Path) -> list[dict[str, Any]]:
    return [
        span
        for line in lines(exports / "otlp" / "traces.jsonl")
        for resource in line["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def values_of(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def test_spans_form_trees_and_draws_link_to_their_boundaries(run: Store, exports: Path) -> None:
    spans = spans_in(exports)
    by_id = {(span["traceId"], span["spanId"]): span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        if "parentSpanId" in span:
            parent = by_id[span["traceId"], span["parentSpanId"]]
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
    links = [by_id[link["traceId"], link["spanId"]] for span in spans for link in span.get("links", ())]
    assert len(links) == len(continuation_rows(run))
    assert {span["name"] for span in links} == {"compact_messages"}
    asked = [values_of(span) for span in spans if span["name"].startswith("chat")]
    assert sum(int(each["gen_ai.usage.input_tokens"]) for each in asked) == sum(
        usage.input for roles in usage_by_phase(run).values() for usage in roles.values()
    )
    assert {each.get("gen_ai.conversation.compacted") for each in asked} == {True, None}
    told = {
        values_of(span)["recompact.boundary"]: [next(iter(values_of(event).values())) for event in span["events"]]
        for span in spans
        if span["name"] == "compact_messages"
    }
    judged = {str(verdict.id): verdict.effect for verdict in read_verdicts(run).verdicts}
    assert {id: bool(results) for id, results in told.items()} == {id: bool(effect) for id, effect in judged.items()}


# -- odd and hostile texts -------------------------------------------------------------------------------------------

KEY = "sk-proj-" + "a1B2c3D4" * 4


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Store]:
    """Half a character, a key, a task whose name is no file name, calls with one id, arguments that do not parse."""
    said = made_up_runs.turn(1, thought=f"key {KEY} \ud83d \x00 😀")
    broken = Turn(assistant("", ToolCall("call_1", "look", "{not json")), (user("?"),), 3)
    with Store.open(tmp_path / "run.db") as store:
        made_up_runs.begin(store)
        for task in ("../../a b", "..//a:b"):
            made_up_runs.collect(store, task, (), made=[said, broken, *made_up_runs.turns(2)])
        yield store


@pytest.mark.parametrize("form", sorted(FORMATS.built_in))
def test_odd_texts_are_written_and_keys_can_be_masked(form: str, odd: Store, tmp_path: Path) -> None:
    for mask in (False, True):
        out = tmp_path / "deep" / f"{form}-{mask}"
        files = export_run(odd, form, out, mask=mask)
        assert all(file.is_relative_to(out) and file.is_file() for file in files)
        if form != "inspect":
            text = "".join(file.read_text(encoding="utf-8") for file in files)
            assert (KEY in text) is not mask
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith("run.db")} == {"deep"}
    if form == "atif":
        for file in set(files) - {out / "manifest.json"}:
            check_trajectory(json.loads(file.read_text(encoding="utf-8")))
    if form in ("atif", "inspect"):
        audit = audit_transcripts(read_transcripts([out]))
        assert [session.calls for session in audit.sessions] == [4, 4]


def test_masking_leaves_shapes_and_figures(run: Store) -> None:
    def shape(episode: Episode) -> tuple[Any, ...]:
        return episode.unit, [type(part) for part in episode.parts], episode.trajectory.usage, episode.start.size

    assert [shape(each) for each in read_episodes(run, mask=True)] == [shape(each) for each in read_episodes(run)]


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_lists_its_files_and_replaces_only_its_own(run: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["export-run", str(run.path), "--to", "jsonl", "--out", str(out), "--json"]
    for _ in range(2):
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["files"] == [str(out / "episodes.jsonl")]
    (out / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="mine"):
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
    with pytest.raises(InputError, match="jsonl"):
        CliRunner().invoke(cli, [*arguments[:3], "json", "--out", str(tmp_path / "new")], catch_exceptions=False)
    assert not (tmp_path / "new").exists()
