"""OpenClaw: session files in pi's format, with record types of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.pi import is_openclaw, is_session, read
from recompact.harnesses.transcripts.reader import Place, Reader


def recognises(sample: list[Any], path: Path) -> bool:
    return is_session(sample) and is_openclaw(sample, path)


READER = Reader("openclaw", recognises, read, (Place("agents", "OPENCLAW_STATE_DIR", "~/.openclaw"),))
