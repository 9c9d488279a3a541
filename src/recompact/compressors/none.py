"""No compression: the agent keeps its whole history."""

from __future__ import annotations

from recompact.compressors.protocol import CompressorKind

KIND = CompressorKind(lambda inputs: None)
