"""What cannot be guessed back once a summary has dropped it: exact strings, and standing rules of the user.

Literals are taken only from what the agent asked for after a compaction, and then looked up in the older text. The
other way round, indexing every literal of a session, costs ten times as much and finds the same. Exact values are those
of them that no summary can say in words and no agent can guess. Rules are sentences that order or forbid something from
then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Endings of files. What more often ends a name in code or of a site (`event.key`, `rows.map`, `x.org`) is left out.
_ENDINGS = (
    "adoc astro avi bash bat bib bin bmp bz2 c cc cfg cjs clj cmake cmd conf cpp cs csproj css csv cts cu cxx "
    "dart db dll docx edn ejs eml erb erl ex exe exs fish gif go gql gradle graphql groovy gz h hbs hcl hh hpp "
    "hrl hs htm html hxx ico ics ini ipynb jar java jl jpeg jpg js json json5 jsonc jsonl jsx kt kts lean less "
    "lisp lock log lua md mdx mjs mk ml mli mm mov mp3 mp4 mts nim nix odt parquet pb pcap pdf pem php pkl pl "
    "plist png pptx prisma proto ps1 psd1 psm1 pug py pyc pyi pyx qml rake rb rej resx rmd rs rst sass sbt scala "
    "scm scss sh sln so sol sql sqlite sqlite3 srt svelte svg swift tar tcl tex tf tfvars tgz tif tiff toml ts "
    "tsv tsx txt vb vim vue war wasm wav webm webp whl wsdl xls xlsx xml xsd xsl xz yaml yml zig zip zsh zst"
).replace(" ", "|")
_FIELDS = (  # of objects in code
    r"(?:console|process|self|this|cls|math|Math|logger|ctx|req|res|request|response|np|torch|git)"
    r"\.(?:log|db|cfg|conf|json|lock|html|c|h)\b"
)
_LITERAL = re.compile(
    r"(?P<url>https?://[^\s'\"`<>()\[\]{}|]+)"
    r"|(?<![\w.@~+-])(?P<path>(?:[A-Za-z]:(?=[/\\]))?[\w.@~+-]*(?:[/\\][\w.@+-]+)+)"
    r"|(?P<hash>\b(?=[0-9a-f]{0,39}[0-9])(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}\b)"
    rf"|(?<![\w.-])(?P<file>(?!{_FIELDS})[\w-][\w.-]{{0,80}}\.(?:{_ENDINGS}))(?![\w-])"
    r"|(?P<name>\b[A-Za-z][a-z0-9]*(?:_[A-Za-z0-9]+)+\b|\b[A-Z0-9]+(?:_[A-Z0-9]+)+\b|\b[A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]+)+\b)"
    r"|(?<![\w.,-])(?P<number>\d{4,})(?![\w,])"
)
SHORTEST = 5  # characters; shorter ones are found everywhere
PARTS = 3  # parts of a path by which it is compared, so that relative and absolute spellings are one


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal as it was written, and the form in which it is compared."""

    kind: str
    text: str
    form: str


def literals(text: str) -> Iterator[Literal]:
    """The literals of a command or of a call's arguments, each once.

    >>> [(each.kind, each.form) for each in literals("sed -n '10,90p' /a/b/src/cli/main.py && git show 3f2a9c1")]
    [('path', 'src/cli/main.py'), ('hash', '3f2a9c1')]
    >>> [each.text for each in literals(r"console.log(Object.keys(x)); type C:\\app\\new.py lib.test.ts")]
    ['C:\\\\app\\\\new.py', 'lib.test.ts']
    """
    forms = set()
    for match in _LITERAL.finditer(text):
        kind = match.lastgroup or ""
        word = match[0].rstrip(".,:;/\\")
        form = word
        if kind == "path":
            steps = [step for step in word.replace("\\", "/").split("/") if step not in ("", ".", "..")]
            if word[1:2] == ":":
                del steps[0]  # a drive: most spellings of a path leave it out
            form = "/".join(steps[-PARTS:])
            if word.startswith("/dev/") or len(steps) < 2:
                continue
        if len(form) >= SHORTEST - (kind == "number") and form not in forms:
            forms.add(form)
            yield Literal(kind, word, form)


def contains(text: str, form: str) -> bool:
    """Whether a text holds this literal, and not only as a piece of a longer word.

    >>> contains("see run_all.py", "run_all"), contains("see rerun_all_now", "run_all"), contains("a\\\\b.py", "a/b.py")
    (True, False, True)
    """
    if _whole(text, form):
        return True
    return "/" in form and "\\" in text and _whole(text, form.replace("/", "\\"))


def _whole(text: str, form: str) -> bool:
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        before, after = text[start - 1 : start] if start else "", text[end : end + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        start = text.find(form, start + 1)
    return False


def holds(text: str, literal: Literal) -> bool:
    """Whether a text has a literal as it is compared. A hash may be the start of a longer one.

    >>> holds("commit 3f2a9c1d7e8b", Literal("hash", "3f2a9c1", "3f2a9c1"))
    True
    """
    if contains(text, literal.form):
        return True
    return literal.kind == "hash" and re.search(rf"(?<!\w){literal.form}[0-9a-f]", text) is not None


def covers(text: str, literal: Literal) -> bool:
    """Whether a summary carries a literal. A file's name is enough for its path: the benefit of the doubt."""
    if holds(text, literal):
        return True
    name = literal.form.rsplit("/", 1)[-1]
    return literal.kind == "path" and "." in name and contains(text, name)


_VALUE = re.compile(
    r"""
    [\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+                       # an address
    | (?<![\w-])(?=[\w-]{0,80}\d)(?=[\w-]{0,80}[A-Za-z])[A-Za-z0-9]\w*(?:[-_]\w+)+(?![\w-])  # an id of several parts
    | (?<!\w)(?=\w{0,80}\d)(?=\w{0,80}[A-Za-z])\w{8,80}(?!\w)          # a token
    """,
    re.VERBOSE,
)
_LONGEST = 80
_LOOKED_AT = 20_000  # characters of one text
_KINDS = frozenset({"url", "path", "hash", "file", "number"})


def exact_values(text: str) -> Iterator[str]:
    """The exact values of a text, each once, in order.

    >>> list(exact_values('{"token": "pay-7f3a91", "path": "/src/a/main.py", "note": "two of 12", "to": "ada@x.org"}'))
    ['pay-7f3a91', 'ada@x.org', '/src/a/main.py']
    """
    text = text[:_LOOKED_AT]
    values = dict.fromkeys(match[0] for match in _VALUE.finditer(text))
    more = (each.text for each in literals(text) if each.kind in _KINDS)
    yield from (value for value in dict.fromkeys((*values, *more)) if len(value) <= _LONGEST and ", " not in value)


_RULE = re.compile(
    r"(?i)\b(?:never|always|must(?: not|n't)?|do(?: not|n't)(?! (?:know|think|understand|remember)\b)"
    r"|may not|only (?:ever|if|when|after)|without (?:asking|my)"
    r"|under no circumstances|make sure|from now on|at all times)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[a-z]{4,}|\d[\d.,]*\d|\d")
_LONGEST_RULE = 600
_SHARE = 0.6
"""Of a rule's longer words, how many one line must have to count as saying it."""


def rules_in(text: str) -> tuple[str, ...]:
    """The rules of a text, sentence by sentence.

    >>> rules_in("Pay the bills. Never approve requests over 50 without asking.\\nThanks!")
    ('Never approve requests over 50 without asking.',)
    >>> rules_in("I don't know what we can do about it. Don't touch the lock file.")
    ("Don't touch the lock file.",)
    """
    sentences = (sentence.strip() for sentence in _SENTENCE.split(text))
    return tuple(dict.fromkeys(s for s in sentences if len(s) <= _LONGEST_RULE and _RULE.search(s)))


def says(text: str, rule: str) -> bool:
    """Whether a text carries a rule: word for word, or a line of it with all its numbers and most of its longer words.

    >>> rule = "Never approve requests over 50 without asking."
    >>> says("- never approve a request over 50 without asking first", rule), says("- approve requests over 50", rule)
    (True, False)
    """
    if " ".join(rule.split()).casefold() in " ".join(text.split()).casefold():
        return True
    words = set(_WORD.findall(rule.casefold()))
    numbers = {word for word in words if word[0].isdigit()}
    needed = words - numbers
    for line in text.casefold().splitlines():
        present = set(_WORD.findall(line))
        if numbers <= present and needed and len(needed & present) >= _SHARE * len(needed) and _RULE.search(line):
            return True
    return False
