"""Spans by OpenTelemetry's own packages: sent over OTLP/HTTP to a receiver on loopback, with and without contents."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_support import AGENT, Clerk, Forgetful, write_notes
from aiohttp import web
from click.testing import CliRunner
from commands import recompact, served
from loopback import served_app
from needs import needs, require

from recompact import gateway
from recompact.cli.main import cli
from recompact.engine.compactor import Compactor
from recompact.engine.store.calls import usage_by_phase
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.integrations import otel

CONFIG = """
[suite]
use = "pocket"
limit = 3
[compressor]
budget = 1024
"""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A collector's HTTP endpoint: what it has received, as OpenTelemetry's own messages."""
    require("otel")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received: list[Any] = []

    async def take(request: web.Request) -> web.Response:
        data = await request.read()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        assert request.path == "/v1/traces"
        received.append(ExportTraceServiceRequest.FromString(data))
        return web.Response(body=b"", content_type="application/x-protobuf")

    with served_app(take) as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address.removesuffix("/v1"))
        yield received


def spans_of(received: list[Any]) -> list[Any]:
    return [span for one in received for r in one.resource_spans for scope in r.scope_spans for span in scope.spans]


def values_of(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def run_tracked(tmp_path: Path, command: str) -> None:
    (tmp_path / "mine.toml").write_text(CONFIG)
    arguments = ["--track", "otel", command, str(tmp_path / "mine.toml"), "--run", "mine", "--json"]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output


@needs("otel")
def test_a_command_sends_spans_without_contents(
    receiver: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_tracked(tmp_path, "collect")
    run_tracked(tmp_path, "verify")
    (path,) = (tmp_path / "runs").glob("*.db")
    with Store.read(path) as store:
        rows, boundaries, paid = trajectories(store), boundary_rows(store), usage_by_phase(store)
        draws = store.finished("continuation")
    spans = spans_of(receiver)
    names = Counter(span.name.split()[0] for span in spans)
    assert (names["invoke_agent"], names["compact_messages"]) == (len(rows) + len(draws), len(boundaries))
    chats = [values_of(span) for span in spans if span.name.startswith("chat")]
    assert sum(each["gen_ai.usage.input_tokens"] for each in chats) == sum(
        usage.input for roles in paid.values() for usage in roles.values()
    )
    everything = str(receiver)
    assert "gen_ai.input.messages" not in everything
    assert "gen_ai.tool.call.arguments" not in everything
    judged = [span for span in spans if span.name == "evaluate compact_messages"]
    named = {event.attributes[0].value.string_value for span in judged for event in span.events}
    assert named == {"recompact.hazard", "recompact.burden"}


@needs("otel")
def test_contents_are_sent_only_when_asked_for_and_masked(
    receiver: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(otel.CAPTURE, "SPAN_ONLY")
    run_tracked(tmp_path, "collect")
    asked = [
        json.loads(values_of(span)["gen_ai.input.messages"])
        for span in spans_of(receiver)
        if span.name.startswith("chat")
    ]
    assert all(messages and all(message["parts"] for message in messages) for messages in asked)
    parts = [part for messages in asked for message in messages for part in message["parts"]]
    assert {"text", "tool_call", "tool_call_response", "compaction"} == {part["type"] for part in parts}


@needs("otel")
def test_a_compactor_adds_a_span_to_the_applications_own(receiver: list[Any]) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stop = otel.start(provider)
    messages = [{"role": "user", "content": "Count."}]
    for number in range(6):
        messages += [{"role": "assistant", "content": f"{number} " * 200}, {"role": "user", "content": "go on"}]
    compactor = Compactor("default", None, 300, kind="fifo")
    try:
        with provider.get_tracer("mine").start_as_current_span("turn"):
            after = asyncio.run(compactor.compact(messages))
    finally:
        stop()
    assert len(after) < len(messages)
    span, outer = exporter.get_finished_spans()
    assert span.parent == outer.get_span_context()
    assert span.name == "compact_messages"
    assert span.attributes is not None
    assert span.attributes["compaction.tokens_before"] > span.attributes["compaction.tokens_after"]
    assert "gen_ai.output.messages" not in span.attributes
    asyncio.run(compactor.compact(messages))
    assert len(exporter.get_finished_spans()) == 2  # nothing once it is off
    assert receiver == []


def test_nothing_of_it_is_loaded_when_it_is_off() -> None:
    code = "import sys, recompact.cli.collect, recompact.engine.compactor; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_unknown_tracker_is_refused() -> None:
    from recompact.errors import InputError

    with pytest.raises(InputError, match="otel"):
        CliRunner().invoke(cli, ["--track", "ottel", "runs"], catch_exceptions=False)


def test_a_receiver_that_is_gone_ends_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("otel")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    run_tracked(tmp_path, "collect")


@pytest.fixture
def kept() -> Iterator[Any]:
    """What the provider of an application has been sent."""
    require("otel")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stop = otel.start(provider)
    yield exporter
    stop()


def test_a_wrapped_agent_sends_the_spans_of_its_episode(receiver: list[Any], tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    (tmp_path / "agent.py").write_text(AGENT)
    place, python = tmp_path / "tasks" / "notes" / "files", os.path.realpath(sys.executable)
    with served({"clerk": Clerk(), "forgetful": Forgetful()}) as server:
        model = f'base_url = "{server.base_url}"\n'
        (tmp_path / "mine.toml").write_text(
            f'[suite]\nuse = "workspace"\n[models.clerk]\nid = "clerk"\n{model}'
            f'[models.forgetful]\nid = "forgetful"\n{model}[agent]\nmodel = "clerk"\n'
            '[compressor]\nmodel = "forgetful"\nbudget = 450\n[run]\ncounter = "characters"\n'
        )
        wrapped = ("wrap", "--json", "--out", tmp_path / "out.jsonl", tmp_path / "mine.toml", "--", python)
        agent = (tmp_path / "agent.py", "chat", "plain", "Read the notes.")
        done = recompact("--track", "otel", *wrapped, *agent, cwd=place)
    assert done.returncode == 0, done.stderr
    told, spans = json.loads(done.stdout), spans_of(receiver)
    (whole,) = (span for span in spans if span.name.startswith("invoke_agent"))
    compactions = [span for span in spans if span.name == "compact_messages"]
    assert len(compactions) == len(told["compactions"]) >= 2
    assert {span.parent_span_id for span in compactions} == {whole.span_id}
    sizes = [
        (each["compaction.tokens_before"], each["compaction.tokens_after"]) for each in map(values_of, compactions)
    ]
    assert sizes == [(each["before"], each["after"]) for each in told["compactions"]]
    asked = [values_of(span) for span in spans if span.name.startswith("chat")]
    used = {
        role: sum(each["gen_ai.usage.input_tokens"] for each in asked if each["recompact.role"] == role)
        for role in told["usage"]
    }
    assert used == {role: usage[0] for role, usage in told["usage"].items()}
    assert "gen_ai.input.messages" not in str(receiver)


def test_a_loop_behind_the_gateway_sends_the_spans_of_its_episode(kept: Any, tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    shell: Any = {"type": "function", "function": {"name": "shell", "parameters": schema}}
    messages: list[Any] = [{"role": "user", "content": "Read the notes."}]
    with gateway(Clerk(), compressor=Forgetful(), budget=450, counter="characters") as client:
        while True:
            completion = client.chat.completions.create(model="m", messages=messages, tools=[shell])
            message = completion.choices[0].message.model_dump(exclude_none=True)
            if not message.get("tool_calls"):
                break
            (call,) = message["tool_calls"]
            command = json.loads(call["function"]["arguments"])["command"]
            place = tmp_path / "tasks" / "notes" / "files"
            output = subprocess.run(command, shell=True, cwd=place, capture_output=True, text=True).stdout
            messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": output}]
    names = Counter(span.name.split()[0] for span in kept.get_finished_spans())
    assert names["invoke_agent"] == 1
    assert names["compact_messages"] >= 2
    assert names["chat"] >= names["compact_messages"] + 8
