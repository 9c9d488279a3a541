"""Summaries in which the compressor repeats what its template asks for, instead of writing it down."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from recompact.engine.store.adaptations import recorded_templates
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.evaluate import unit_of
from recompact.values.tables import Table, columns
from recompact.values.template import Template

SHORTEST = 25  # characters of a sentence that nobody writes by chance
ALIKE = 0.8  # of two sentences, where 1 is the same: small models change a word or two


def echo_table(store: Store, arms: tuple[ArmRuns, ...]) -> Table | None:
    """For every prompted arm, how many of its summaries repeat a sentence of the template, and one that was added."""
    templates = recorded_templates(store)
    original = next((templates[arm.settings["template"]] for arm in arms if arm.name == "prompting"), None)
    distinct: dict[str, ArmRuns] = {}
    for arm in arms:
        distinct.setdefault(arm.settings["key"], arm)
    rows = []
    for arm in distinct.values():
        template = templates.get(arm.settings["template"] or "")
        if template is None or original is None:
            continue
        own, before = sentences(template), sentences(original)
        added = [sentence for sentence in own if sentence not in before]
        texts = list(_summaries(store, arm))
        rows.append(
            (
                arm.label,
                len(texts),
                sum(bool(repeated_sentences(text, own)) for text in texts),
                len(added),
                sum(bool(repeated_sentences(text, added)) for text in texts) if added else None,
            )
        )
    if not rows:
        return None
    heads = columns(
        "arm",
        "summaries",
        "repeating",
        "added",
        "repeating_added",
        repeating="repeat a sentence of the template",
        added="sentences added",
        repeating_added="repeat one of those",
    )
    return Table("Summaries that repeat the template in place of what it asks for", heads, tuple(rows))


def sentences(template: Template) -> list[str]:
    """What is under the headings of a template, line by line.

    >>> sentences(Template("", "{{ history }}\\n## Goal\\n- What the agent has to achieve.\\n- (none)", ""))
    ['What the agent has to achieve.']
    """
    lines = [
        _plain(line)
        for part in ("first", "update")
        for section in template.sections(part)
        if section.level
        for line in section.guidance.splitlines()
    ]
    return list(dict.fromkeys(line for line in lines if len(line) >= SHORTEST))


def repeated_sentences(text: str, of: list[str]) -> list[str]:
    """Those of the sentences that a text repeats, give or take a word.

    >>> repeated_sentences("- Copy the value of the token, exactly.", ["Copy the value of every token, exactly."])
    ['Copy the value of every token, exactly.']
    >>> repeated_sentences("- token: ak-2210", ["Copy the value of every token, exactly."])
    []
    """
    lines = [line for line in map(_plain, text.splitlines()) if len(line) >= SHORTEST]
    return [one for one in of if any(SequenceMatcher(None, one, line).ratio() >= ALIKE for line in lines)]


def _plain(line: str) -> str:
    """Without the mark of a list."""
    return " ".join(line.lstrip("-*0123456789. ").removeprefix("[ ]").removeprefix("[x]").split())


def _summaries(store: Store, arm: ArmRuns) -> Iterator[str]:
    for row in arm.rows:
        for boundary in read_trajectory(store, unit_of(arm.settings["key"], row.task, row.run)).boundaries:
            if boundary.post.summary is not None:
                yield boundary.post.summary.text
