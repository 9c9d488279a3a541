"""Text from models, environments, run files and users, made safe to look at.

`visible` is the only function that does this; every terminal command and the page use it. `csv_text`, `markdown_text`
and `latex_text` do the same for a file of that kind, in which no part of the text may be markup or a formula.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable

from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Action

SLACK = 40  # a cut that saves fewer characters than this is not worth its mark

_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and line feed
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"  # invisible,
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"  # or reordering
    "\ud800-\udfff"  # surrogates, which no encoding can carry
    "\ufdd0-\ufdef\ufffe\uffff"  # not characters
    "\U000e0000-\U000e0fff"  # tags and selectors, which can smuggle text
    "]"
)


def visible(text: str) -> str:
    """The text with a visible mark in place of each character that is invisible or reorders its neighbours.

    >>> visible("rm -rf /\\x00 \\u202egnp.exe")
    'rm -rf /␀ ⟨U+202E⟩gnp.exe'
    """
    return _HIDDEN.sub(_mark, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """The same on one line.

    >>> visible_line("one\\n\\ttwo\\x1b[0m")
    'one two␛[0m'
    """
    return re.sub(r"[\t\n]+", " ", visible(text))


def visible_json(document: str) -> str:
    """A JSON document with the same characters escaped, so that its values stay exactly what they were.

    >>> visible_json('"\\u202e"')
    '"\\\\u202e"'
    """
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], document)


def csv_text(text: str) -> str:
    """A text for a CSV cell, with an apostrophe in front where a spreadsheet would take it for a formula.

    >>> csv_text("=1+1"), csv_text("-0.5"), csv_text("+ a"), csv_text("a=b")
    ("'=1+1", '-0.5', "'+ a", 'a=b')
    """
    text = visible(text)
    return f"'{text}" if re.match(r"\s*[=+\-@]", text) and not re.fullmatch(_NUMBER, text) else text


_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"


def markdown_text(text: str) -> str:
    """A text on one line of Markdown, in which nothing is markup.

    >>> markdown_text("a|b *c*"), markdown_text("<b>&amp;")
    ('a\\\\|b \\\\*c\\\\*', '\\\\<b\\\\>\\\\&amp;')
    """
    return re.sub(r"([\\`*_\[\]<>|#~&!])", r"\\\1", visible_line(text))


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "−": r"$-$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


def latex_text(text: str) -> str:
    """A text on one line of LaTeX, in which nothing is a command; a power such as Pass^3 is set as one.

    >>> latex_text("50 % of $a"), latex_text("Pass^3")
    ('50 \\\\% of \\\\$a', 'Pass$^{3}$')
    """
    escaped = "".join(_LATEX.get(character, character) for character in visible_line(text))
    return re.sub(r"\^(\w+)|\^", lambda m: f"$^{{{m[1]}}}$" if m[1] else r"\textasciicircum{}", escaped)


def _mark(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def cut(text: str, limit: int | None) -> tuple[str, int]:
    """The beginning of a text and the number of characters left out: none if it barely exceeds the limit.

    >>> cut("a" * 1000, 100)[1], cut("a" * 120, 100)[1], cut("a" * 1000, None)[1]
    (900, 0, 0)
    """
    more = 0 if limit is None else len(text) - limit
    return (text, 0) if more < SLACK else (text[:limit], more)


def quantity(number: int, noun: str) -> str:
    """A number with its noun.

    >>> quantity(1, "trajectory"), quantity(1200, "trajectory"), quantity(2, "key"), quantity(2, "branch")
    ('1 trajectory', '1,200 trajectories', '2 keys', '2 branches')
    """
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def word_set(words: str) -> frozenset[str]:
    """The words of a text.

    >>> sorted(word_set("b a"))
    ['a', 'b']
    """
    return frozenset(words.split())


def command_line(command: str, *operands: object, options: Iterable[object] = ()) -> str:
    """A command of ours as it can be pasted into a shell: no part of a name or a path is run there.

    >>> print(command_line("prompts show", "my prompts/$(id)", options=["--part", "first"]))
    recompact prompts show 'my prompts/$(id)' --part first
    >>> print(command_line("replay", "a.db", "--task#1", options=["--draws", 3]))  # a name that looks like an option
    recompact replay --draws 3 -- a.db '--task#1'
    """
    names, chosen = list(map(str, operands)), list(map(str, options))
    words = [*names, *chosen]
    if any(name.startswith("-") for name in names):
        words = [*chosen, *(() if "--" in names else ("--",)), *names]
    return shlex.join(["recompact", *command.split(), *words])


def _plural(noun: str) -> str:
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if re.search(r"(s|x|z|ch|sh)$", noun) else f"{noun}s"


def all_of(number: int, noun: str) -> str:
    """All of a number of things, where there may be only one.

    >>> all_of(1, "boundary"), all_of(2, "boundary")
    ('the one boundary', 'all 2 boundaries')
    """
    return f"the one {noun}" if number == 1 else f"all {quantity(number, noun)}"


_LONGEST_TOKEN = 128  # characters: no vocabulary of ours has a longer one


def keep_ends(text: str, limit: int, count: TokenCounter) -> tuple[str, int]:
    """Head and tail of a text of more than `limit` tokens with a mark between them, and about how many are left out.

    >>> keep_ends("one two three four", 100, lambda text: len(text.split()))
    ('one two three four', 0)
    >>> print(keep_ends("abcdefgh" * 100, 40, lambda text: len(text) // 4)[0])
    abcdefghabcdefghabcdefghabcdefghabcdefgh
    [… about 160 tokens are left out here …]
    abcdefghabcdefghabcdefghabcdefghabcdefgh
    """
    if len(text) * 4 <= limit:  # a character is at most four bytes, and a token at least one
        return text, 0
    half = max(1, (limit - 20) // 2)  # the mark between them counts as well
    reach = _LONGEST_TOKEN * limit
    estimated = 0
    if len(text) > 2 * reach:  # surely too long: its middle need not be counted to know that
        estimated = int((len(text) - 2 * reach) * count(text[:reach]) / reach)
        total = count(text[:reach]) + estimated + count(text[-reach:])
    else:
        total = count(text)
    if total <= limit:
        return text, 0
    head = _fitting(text[:reach], half, count, lambda part, size: part[:size])
    tail = _fitting(text[-reach:], half, count, lambda part, size: part[len(part) - size :])
    omitted = total - limit
    return f"{head}\n[… about {omitted:,} tokens are left out here …]\n{tail}", omitted


def _fitting(text: str, limit: int, count: TokenCounter, part: Callable[[str, int], str]) -> str:
    """A part of the text that has no more tokens than the limit, found in a few steps by proportion."""
    size = len(text)
    while size and (tokens := count(part(text, size))) > limit:
        size = min(size - 1, size * limit // tokens)
    return part(text, size)


def action_line(action: Action) -> str:
    """An action on one line.

    >>> action_line(Action("look", {"page": 2})), action_line(Action("", text="I am done."))
    ('look(page=2)', 'I am done.')
    """
    if not action.name:
        return action.text.replace("\n", " ") or "(no action)"
    arguments = action.text or ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in action.arguments.items()
    )
    return f"{action.name}({arguments})".replace("\n", " ")
