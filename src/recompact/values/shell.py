"""Shell commands, taken apart far enough to say what each part does: which files it reads, and what it may change.

This is not a shell: a command is never run, and one that cannot be taken apart counts as doing something else.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from recompact.values.texts import word_set

COMMAND_LIMIT = 20_000  # characters of a command that are looked at

_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1")
_QUIET = r"[0-9&]?>{1,2}[ \t]*(?:/dev/null|&[0-9-]|\$null)|<[ \t]*/dev/null"
_TOKEN = re.compile(
    rf"(?P<quiet>{_QUIET})|(?P<comment>(?<!\S)#[^\n]*)|(?P<operator>&&|\|\||[|;\n]|>{{1,2}})"
    r"|(?P<word>(?:[^\s'\"\\|;>&]|&(?!&)|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\")+)",
    re.DOTALL,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_WRITES = re.compile(r"write_text\(|writeFile(?:Sync)?\(|\bopen\([^)]{0,300}['\"][wa]b?\+?['\"]|\.write\(|WriteAllText")
_PRINTED = re.compile(r"(\d+)(?:,(\d+|\$))?p")
_BYTES = re.compile(r"-[a-z]*c\d*[a-zA-Z]*$|--bytes\b")
_NR = re.compile(r"NR\s*(>=|>|==)\s*(\d+)(?:.*?NR\s*<=?\s*(\d+))?")

END = 10**9  # the last line of any file
FROM_THE_END = END // 2  # a first line beyond this one is counted from the end


@dataclass(frozen=True, slots=True)
class Range:
    """Lines of a file, both ends included."""

    path: str
    first: int = 1
    last: int = END


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command of a larger one."""

    kind: str
    reads: tuple[Range, ...] = ()
    changes: tuple[str, ...] = ()


_READERS = {"cat", "nl", "head", "tail", "sed", "awk", "bat", "batcat", "less", "more", "get-content", "gc", "type"}
_KINDS = {
    "search": "grep rg egrep fgrep ag ack select-string sls findstr zgrep",
    "list": "ls find fd tree stat file du df wc pwd which whereis get-childitem dir gci test-path realpath basename "
    "dirname env printenv date whoami uname hostname ps get-process get-location",
    "edit": "tee cp mv rm mkdir rmdir touch patch chmod chown ln install dd truncate apply_patch applypatch "
    "set-content add-content out-file new-item remove-item move-item copy-item rename-item unzip",
    "test": "pytest tox nox jest vitest mocha make cmake ctest ninja mvn gradle ./gradlew cargo npm pnpm yarn bun npx "
    "pnpx bunx mise just tsc eslint prettier ruff mypy black flake8 pylint golangci-lint dotnet rake bundle rspec "
    "phpunit composer uv poetry gofmt swift xcodebuild bazel pre-commit go",
    "poll": "sleep wait start-sleep",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_VCS_STATE = word_set(
    "status log diff show branch rev-parse blame remote ls-files ls-tree ls-remote describe config reflog shortlog "
    "cat-file merge-base rev-list name-rev for-each-ref symbolic-ref show-ref check-ignore whatchanged help"
)
_FORGE_STATE = word_set("view list status diff checks api search browse")
_SETUP = word_set("install ci add i sync pip init")  # done to the machine, not to the code
_WRAPPERS = word_set("sudo time nohup command exec builtin rtk nice stdbuf env then do else ! { (")
_FILTERS = word_set("sort uniq cut tr jq column xargs measure-object")


def without_heredocs(command: str) -> tuple[str, bool]:
    """The command without the bodies of its heredocs, and whether one of those writes files.

    >>> without_heredocs("python - <<'E'\\nopen('a', 'w').write('x')\\nE\\nls")
    ("python - <<'E'\\nls", True)
    """
    kept: list[str] = []
    body: list[str] = []
    ends: deque[str] = deque()  # of the heredocs that the last line began
    for line in command.split("\n"):
        if not ends:
            kept.append(line)
            ends.extend(match[2] for match in _HEREDOC.finditer(line))
        elif line.strip(" \t") == ends[0]:
            ends.popleft()
        else:
            body.append(line)
    return "\n".join(kept), bool(_WRITES.search("\n".join(body)))


def simplify(command: str) -> str:
    """The command without what changes nothing about it: a leading `cd`, silenced output, spacing.

    >>> simplify("cd /a && pytest  -q 2>&1")
    'pytest -q'
    """
    text = " ".join(re.sub(_QUIET, "", command).split())
    while match := re.match(r"(?:cd|pushd|Set-Location) +(?:'[^']*'|\"[^\"]*\"|[^\s;&]+) *(?:&&|;) *", text):
        text = text[match.end() :]
    return text


def parts(command: str, cwd: str) -> Iterator[Part]:
    """What the simple commands of a command do, in order."""
    command = command[:COMMAND_LIMIT]
    if "\\" in command and re.search(r"[A-Za-z]:\\|\.\\", command):
        command = command.replace("\\", "/")  # a Windows path, not an escape
    command, writes = without_heredocs(command.replace("\\\n", " "))
    if writes:
        yield Part("edit")
    fed: Part | None = None  # what the command before a pipe read
    for words, target, piped in _simple_commands(command):
        if words[0].lower() in ("cd", "pushd", "set-location") and len(words) > 1:
            cwd = join_path(cwd, words[1])
            continue
        if target:
            part = Part("edit", (), (join_path(cwd, target),))
        else:
            part = _part(words, cwd)
            part = part if fed is None else _through(fed, part, words)
        fed = part if piped else None
        if not piped:
            yield part
    if fed is not None:
        yield fed


def _simple_commands(command: str) -> Iterator[tuple[list[str], str, bool]]:
    """The words of each simple command, the file that its output goes to, and whether it is piped into the next."""
    words: list[str] = []
    target = ""
    redirected = False
    for token in (*_TOKEN.finditer(command), None):
        if token is None or (token.lastgroup == "operator" and token[0][0] != ">"):
            if words := _unwrap(words):
                yield words, target, token is not None and token[0] == "|"
            words, target, redirected = [], "", False
        elif token.lastgroup == "operator":
            redirected = True
        elif token.lastgroup == "word":
            word = _unquote(token[0])
            if redirected:
                target, redirected = target or word, False
            else:
                words.append(word)


def _unquote(word: str) -> str:
    return word.replace("'", "").replace('"', "").replace("\\", "") if any(c in word for c in "'\"\\") else word


def _unwrap(words: list[str]) -> list[str]:
    while words:
        first = words[0]
        if first == "timeout" or first == "gtimeout":
            words = words[1:]
            while words and (words[0].startswith("-") or words[0][0].isdigit()):
                words = words[1:]
        elif first in _WRAPPERS or _ASSIGNMENT.match(first):
            words = words[1:]
        else:
            break
    return words


def _part(words: list[str], cwd: str) -> Part:
    name = words[0].rsplit("/", 1)[-1].lower() if not words[0].startswith("./") else words[0].lower()
    if name == "git":
        return Part(_git(words))
    if name in ("gh", "glab"):
        rest = [word for word in words[1:] if not word.startswith("-")]
        return Part("vcs-state" if set(rest[:2]) & _FORGE_STATE else "vcs-change")
    if name in ("sed", "perl", "gsed") and any(w.startswith(("-i", "-pi", "--in-place")) for w in words[1:]):
        files = [w for w in words[1:] if not w.startswith("-")][1:]
        return Part("edit", (), tuple(join_path(cwd, file) for file in files))
    if name in _READERS:
        return Part("read", tuple(_ranges(name, words[1:], cwd)))
    if name in ("python", "python3", "node", "deno", "ruby"):
        if "-m" in words[:4] and set(words) & {"pytest", "unittest", "mypy", "ruff", "tox"}:
            return Part("test")
        return Part("edit" if _WRITES.search(" ".join(words)) else "other")
    kind = _KIND_OF.get(name, "other")
    if kind == "test" and set(words[1:3]) & _SETUP:
        return Part("other")
    if kind == "edit":
        files = [word for word in words[1:] if not word.startswith("-")]
        if name in ("cp", "mv", "ln", "copy-item", "move-item", "install"):
            files = files[-1:]  # only the last path is changed
        return Part("edit", (), tuple(join_path(cwd, file) for file in files))
    return Part(kind)


def _git(words: list[str]) -> str:
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c") else rest[1:]
    if not rest:
        return "vcs-state"
    if rest[0] == "grep":
        return "search"
    if rest[:2] in (["stash", "list"], ["stash", "show"], ["worktree", "list"], ["tag", "-l"]):
        return "vcs-state"
    return "vcs-state" if rest[0] in _VCS_STATE else "vcs-change"


def _ranges(name: str, words: list[str], cwd: str) -> Iterator[Range]:
    files: list[str] = []
    spans: list[tuple[int, int]] = []
    takes = iter(words)
    for word in takes:
        if name in ("head", "tail") and _BYTES.match(word):
            return  # not counted in lines, so it is not known which lines these are
        if name in ("head", "tail") and re.fullmatch(r"-n?\d+|--lines=\d+|-n", word):
            count = re.sub(r"\D", "", word) or re.sub(r"\D", "", next(takes, ""))
            if count:
                lines = min(int(count[:9]), END)
                spans.append((1, lines) if name == "head" else (END - lines, END))
        elif name == "sed" and (printed_ranges := _PRINTED.findall(word)) and not word.startswith(("/", "./")):
            spans += [(int(a[:9]), END if b == "$" else int((b or a)[:9])) for a, b in printed_ranges]
        elif name == "awk" and (match := _NR.search(word)):
            first = int(match[2][:9])
            spans.append((first, first if match[1] == "==" else int(match[3][:9]) if match[3] else END))
        elif name == "awk" and not files and ("{" in word or ("/" not in word and "." not in word)):
            continue
        elif word.lower() in ("-totalcount", "-head", "-first"):
            spans.append((1, int(re.sub(r"\D", "", next(takes, ""))[:9] or END)))
        elif word.lower() in ("-tail", "-last"):
            spans.append((END - int(re.sub(r"\D", "", next(takes, ""))[:9] or 0), END))
        elif not word.startswith(("-", "<", "$")) and word != "+":
            files.append(word)
    for file in files:
        for first, last in spans or [(1, END)]:
            yield Range(join_path(cwd, file), first, last)


def _through(before: Part, part: Part, words: list[str]) -> Part:
    """What a pipe does: a filter by line numbers narrows the range that was read, and some others make it a search."""
    name = words[0].lower()
    if part.kind == "read" and name in ("sed", "head", "tail", "awk", "cat", "nl", "less", "more", "bat"):
        spans = [(r.first, r.last) for r in _ranges(name, [*words[1:], "x"], "")]
        if before.kind != "read" or (not spans and name not in ("head", "tail")):
            return before
        return replace(before, reads=tuple(n for r in before.reads for span in spans for n in _narrow(r, *span)))
    if name == "select-object":
        numbers = {words[i].lower(): int(re.sub(r"\D", "", words[i + 1])[:9] or 0) for i in range(1, len(words) - 1)}
        first = numbers.get("-skip", 0) + 1
        last = first + numbers["-first"] - 1 if "-first" in numbers else END
        return replace(before, reads=tuple(n for r in before.reads for n in _narrow(r, first, last)))
    if part.kind in ("search", "list") or name in _FILTERS:
        return Part(before.kind if before.kind != "read" else "search")
    return part if part.kind in ("edit", "vcs-change", "test") else Part(before.kind)


def _narrow(read: Range, first: int, last: int) -> Iterator[Range]:
    """Those lines of a range that come through a filter, which counts them from its own first line.

    >>> [*_narrow(Range("f", 100, 200), 1, 5), *_narrow(Range("f", 100, 200), 300, END)]
    [Range(path='f', first=100, last=104)]
    """
    if last == END and first > FROM_THE_END:  # the last lines of it
        first, last = max(read.first, read.last - (END - first)), read.last
    else:
        first, last = read.first + max(first, 1) - 1, min(read.last, read.first + last - 1)
    if first <= last:
        yield Range(read.path, first, last)


@lru_cache(maxsize=8192)
def join_path(cwd: str, path: str) -> str:
    """A path made absolute and plain, by text alone.

    >>> join_path("/home/me", "../you/./a.py"), join_path("D:\\\\x", "y.js"), join_path("", "src/a.py")
    ('/home/you/a.py', 'd:/x/y.js', 'src/a.py')
    """
    path = path.replace("\\", "/").strip("'\"")
    if not (path.startswith(("/", "~")) or path[1:2] == ":") and cwd:
        path = f"{cwd.replace(chr(92), '/')}/{path}"
    if path[1:2] == ":":
        path = path[0].lower() + path[1:]
    root = "/" if path.startswith("/") else ""
    steps: list[str] = []
    for step in path.split("/"):
        if step == ".." and steps and steps[-1] != "..":
            steps.pop()
        elif step not in ("", "."):
            steps.append(step)
    return root + "/".join(steps)
