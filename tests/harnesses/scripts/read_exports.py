"""Exports of a run as the packages of their formats read them: Inspect, Harbor and OpenTelemetry. Prints JSON."""

import base64
import json
import sys
from collections import Counter
from pathlib import Path


def read_inspect(folder):
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    logs = {}
    for path in sorted(folder.glob("*.eval")):
        log = read_eval_log(str(path), resolve_attachments=True)
        events = [event for sample in log.samples for event in sample.events]
        logs[path.stem] = {
            "status": log.status,
            "samples": len(log.samples),
            "summaries": len(read_eval_log_sample_summaries(str(path))),
            "events": Counter(event.event for event in events),
            "inputs": sum(len(event.input) for event in events if event.event == "model"),
            "tokens": sum(
                event.output.usage.total_tokens for event in events if event.event == "model" and event.output.usage
            ),
            "success": [sample.scores["success"].value for sample in log.samples],
        }
    return logs


def read_atif(folder):
    from harbor.utils.trajectory_validator import TrajectoryValidator

    errors = {}
    files = [path for path in sorted(folder.glob("*.json")) if path.name != "manifest.json"]
    for path in files:
        validator = TrajectoryValidator()
        if not validator.validate(path):
            errors[path.name] = validator.errors[:3]
    return {"files": len(files), "errors": errors}


def read_otlp(folder):
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    names = Counter()
    for line in (folder / "traces.jsonl").open():
        document = json.loads(line, object_hook=in_base64)
        data = ParseDict(document, TracesData())
        for resource in data.resource_spans:
            for scope in resource.scope_spans:
                names.update(span.name.split()[0] for span in scope.spans)
    return names


def in_base64(value):
    """OTLP writes ids in hexadecimal where JSON of protocol buffers has base64."""
    for key in ("traceId", "spanId", "parentSpanId"):
        if key in value:
            value[key] = base64.b64encode(bytes.fromhex(value[key])).decode()
    return value


if __name__ == "__main__":
    root = Path(sys.argv[1])
    readers = {"inspect": read_inspect, "atif": read_atif, "otlp": read_otlp}
    print(json.dumps({name: read(root / name) for name, read in readers.items()}))
