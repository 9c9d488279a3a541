"""What a gate says: sentences and a table for people, Markdown for a pull request, JUnit XML for a CI system."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from recompact.evaluation.gate import SIDES, Gate
from recompact.values.tables import Number, Table, columns, markdown
from recompact.values.texts import markdown_text, quantity, visible, visible_line

SIMULATED = "Simulated models: this says nothing about real ones."
MARKS = {"not worse": "✅", "worse": "❌", "cannot tell": "❔"}
REASONS = 3  # that are shown
MARKDOWN_MARK = "<!-- recompact gate -->"
"""How the Markdown begins: it tells our own file, or comment, from any other."""

JUNIT_MARK = 'name="recompact gate"'


def question(gate: Gate) -> str:
    """What was asked."""
    return f"Is {gate.new} worse than {gate.base}? It may lose {gate.margin:g} points of {gate.measure}."


def sentences(gate: Gate) -> list[str]:
    """The verdict with its numbers, what was left out, and what it would take to know."""
    if gate.identical:
        return ["Not worse: BASE and NEW compact in the same way, so there was nothing to play."]
    out = [f"{gate.verdict.capitalize()}: {_finding(gate)}"]
    if gate.verdict == "cannot tell":
        out.append(_further(gate))
    broken = [pair for pair in gate.pairs if not pair.complete]
    if broken:
        out.append(
            f"In {quantity(len(broken), 'pair')} something broke; each counts as a loss where NEW might pass, and as a"
            f" win where it might fail: {_reasons(gate)}"
        )
    mute = sum(side.value == 0 and bool(side.reason) for pair in gate.pairs for side in (pair.base, pair.new))
    if mute:
        out.append(f"In {quantity(mute, 'draw')} the compressor wrote no summary, which counts as a failure.")
    if gate.unusable:
        out.append(f"{quantity(len(gate.unusable), gate.noun)} could not be restored and took no part.")
    return [*out, SIMULATED] if gate.simulated else out


def _finding(gate: Gate) -> str:
    if gate.difference is None:
        return f"no pair of {quantity(gate.items, gate.noun)} could be completed."
    base, new = (100 * (gate.mean(side, "value") or 0) for side in SIDES)
    return (
        f"the {gate.measure} of {gate.new} is {new:.1f} % and that of {gate.base} {base:.1f} % in"
        f" {quantity(len(gate.complete), 'pair')} (better in {gate.better}, worse in {gate.worse}). Over these"
        f" {quantity(gate.items, gate.noun)}, the difference is at least {_points(gate.low)} and at most"
        f" {_points(gate.high)}; each bound holds with 95 % confidence, whenever you stop."
    )


def _further(gate: Gate) -> str:
    if not gate.pairs:
        return "Nothing was played."
    if gate.more is None:
        return (
            "More pairs with such results would never settle it: too many break. Fix what breaks, or allow a"
            " wider --margin."
        )
    pairs = quantity(gate.more, "more pair")
    return f"About {pairs} ({2 * gate.more:,} runs) with such results would settle it: raise --pairs."


def _points(value: float) -> str:
    return f"{value:+.1f} points"


def _reasons(gate: Gate) -> str:
    sides = (side for pair in gate.pairs for side in (pair.base, pair.new) if side.value is None)
    counted = Counter(visible_line(side.reason or "unknown") for side in sides)
    return "; ".join(f"{reason} ({times})" for reason, times in counted.most_common(REASONS))


def side_table(gate: Gate) -> Table:
    """Both sides on the pairs that both completed."""
    rows = []
    for role, name in zip(SIDES, (gate.base, gate.new), strict=True):
        value, amount = gate.mean(role, "value"), gate.mean(role, "amount")
        rows.append(
            (
                role.upper(),
                name,
                None if value is None else Number(100 * value),
                None if amount is None else Number(amount),
            )
        )
    heads = columns("side", "arm", "value", "amount", value=f"{gate.measure}, %", amount=f"mean {gate.amount}")
    return Table(question(gate), heads, tuple(rows))


def as_markdown(gate: Gate, command: str) -> str:
    """A summary for a pull request."""
    lines = [
        MARKDOWN_MARK,
        f"### {MARKS[gate.verdict]} Compaction gate: {gate.verdict}",
        "",
        markdown(side_table(gate)).rstrip(),
        "",
    ]
    lines += [f"{markdown_text(sentence)}\n" for sentence in sentences(gate)]
    return "\n".join([*lines, f"Repeat it: {_code(command)}", ""])


def _code(text: str) -> str:
    fence = "`" * (1 + max((len(run) for run in text.split() if set(run) == {"`"}), default=0))
    return f"{fence}{visible_line(text)}{fence}"


def as_junit(gate: Gate) -> str:
    """One test case: it passes, fails, or ends with an error where nothing can be told."""
    names = {"worse": "failure", "cannot tell": "error"}
    kind = names.get(gate.verdict)
    counts = {"tests": "1"} | {f"{name}s": str(int(name == kind)) for name in names.values()}
    suite = ElementTree.Element("testsuite", {"name": "recompact gate", **counts})
    case = ElementTree.SubElement(suite, "testcase", classname="recompact.gate", name=visible_line(question(gate)))
    text = "\n".join(visible(sentence) for sentence in sentences(gate))
    if kind:
        ElementTree.SubElement(case, kind, message=visible_line(text.split("\n")[0]), type=gate.verdict).text = text
    else:
        ElementTree.SubElement(case, "system-out").text = text
    root = ElementTree.Element("testsuites", counts)
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
