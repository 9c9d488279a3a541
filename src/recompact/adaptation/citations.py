"""The lines that a diagnosis cites, read off the very prompt that it answered."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recompact.adaptation.evidence import FACTS, LABELLED, LAST, PREFIX, PREVIOUS, SEGMENT, SUMMARY, TASK


@dataclass(frozen=True)
class CitableLines:
    """A block of evidence as an optimizer read it: its title, and its lines by label."""

    title: str
    lines: tuple[tuple[str, str], ...]  # label and text; a mark where something was cut has no label


TITLES = {
    TASK: "the task",
    PREFIX: "the agent's prefix",
    PREVIOUS: "the previous summary",
    SEGMENT: "the segment: what the compressor consumed",
    SUMMARY: "the summary",
    LAST: "the last turn, which stayed as it was",
    FACTS: "missing facts",
}
_CONTINUATION = re.compile(r'^<continuation number="(\d+)" arm="(PRE|POST)" draw="(\w+)">$')
_CUT = re.compile(r"^\[\d[\d,]* lines? cut here\]$")


def citable_lines(prompt: str) -> tuple[CitableLines, ...]:
    """The labelled lines of a prompt, block by block: what the findings of its answer cite.

    >>> [block.title for block in citable_lines("<segment>\\nS1| a\\n</segment>\\n<summary>\\nN1| b\\n</summary>")]
    ['the segment: what the compressor consumed', 'the summary']
    """
    blocks: dict[str, list[tuple[str, str]]] = {}
    names: dict[str, str] = {}
    current = ""
    for line in prompt.split("\n"):
        if match := LABELLED.match(line):
            label = match[1]
            current = label.partition(".")[0] if "." in label else label[0]
            blocks.setdefault(current, []).append((label, match[2]))
        elif opened := _CONTINUATION.match(line):
            names[f"C{opened[1]}"] = f"continuation {opened[1]}: {opened[2]}, draw {opened[3]}"
        elif current and _CUT.match(line):
            blocks[current].append(("", line))
        elif line.startswith("</"):
            current = ""
    return tuple(
        CitableLines(names.get(key) or TITLES.get(key) or f"continuation {key[1:]}", tuple(lines))
        for key, lines in blocks.items()
    )
