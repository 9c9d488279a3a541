"""What a command read, by its words alone."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from recompact.values.call_effects import KINDS, effect_of
from recompact.values.session import Call
from recompact.values.shell import COMMAND_LIMIT, END, Part, join_path, parts, simplify


@pytest.mark.parametrize(
    ("command", "ranges"),
    [
        ("sed -n 100,200p f", [(100, 200)]),
        ("sed -n 100,200p f | head -5", [(100, 104)]),
        ("sed -n 100,200p f | cat", [(100, 200)]),
        ("sed -n 100,200p f | tail -5", [(195, 200)]),
        ("sed -n 100,200p f | sed -n 3,4p", [(102, 103)]),
        ("sed -n 100,200p f | sed -n '90,$p'", [(189, 200)]),
        ("sed -n 100,200p f | sed -n 300,400p", []),
        ("cat f | sed -n 3,4p", [(3, 4)]),
        ("cat f | head -20 | tail -5", [(15, 20)]),
        ("nl -ba f | sed -n 5,9p", [(5, 9)]),
        ("tail -50 f", [(END - 50, END)]),
        ("head -c 3000 f", []),
        ("tail --bytes=90 f", []),
        ("cat f | head -c3000", []),
        ("cat f | awk '{print $1}'", [(1, END)]),
        ("tail -50 f | head -10", [(END - 50, END - 41)]),
        ("Get-Content f | Select-Object -Skip 10 -First 5", [(11, 15)]),
    ],
)
def test_a_pipe_narrows_what_was_read(command: str, ranges: list[tuple[int, int]]) -> None:
    (part,) = parts(command, "/home/me")
    assert part.kind == "read"
    assert [(read.first, read.last) for read in part.reads] == ranges
    assert all(read.path == "/home/me/f" for read in part.reads)


_FILTERS = st.one_of(
    st.integers(1, 300).map(lambda n: f"head -{n}"),
    st.integers(1, 300).map(lambda n: f"tail -{n}"),
    st.tuples(st.integers(0, 300), st.integers(0, 300)).map(lambda p: f"sed -n {p[0]},{p[0] + p[1]}p"),
    st.just("cat"),
)


@given(st.integers(1, 500), st.integers(0, 500), st.lists(_FILTERS, max_size=4))
def test_no_filter_widens_what_was_read(first: int, more: int, filters: list[str]) -> None:
    command = " | ".join([f"sed -n {first},{first + more}p f", *filters])
    (part,) = parts(command, "")
    assert all(first <= read.first <= read.last <= first + more for read in part.reads)


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("ls # then > out.txt", ["list"]),
        ("# a comment\ngit status", ["vcs-state"]),
        ("grep '>' f", ["search"]),
        ('grep "a|b;c" f', ["search"]),
        ("git log && \\\n  git show", ["vcs-state", "vcs-state"]),
        ("cat <<< word", ["read"]),
        ("cat > f <<E\nrm -r x\nE\nls", ["edit", "list"]),
        ("python - <<A <<B\nx\nA\nopen('f', 'w')\nB", ["edit", "other"]),
        ("echo $((1<<2))\nls", ["other", "list"]),
        ("timeout 5 sudo make", ["test"]),
    ],
)
def test_what_the_parts_of_a_command_do(command: str, kinds: list[str]) -> None:
    assert [part.kind for part in parts(command, "/")] == kinds


_PIECES = st.sampled_from(
    ["'", '"', "\\", "<<E", "<<", "\n", "E", "|", "&&", ";", ">", "#", " ", "$(", "sed -n 1p", "git", "("]
)


@given(st.lists(_PIECES | st.text(max_size=5), max_size=60).map("".join), st.text(max_size=5))
def test_no_command_is_an_accident(command: str, cwd: str) -> None:
    assert all(part.kind in KINDS for part in parts(command, cwd))
    effect_of(Call("1", "bash", {"command": command, "cwd": cwd}))


@pytest.mark.parametrize("text", ["<<EOF x ", "<<EOF ", "open(", "a|", "'", '"\\', "`", "($", "\n<<E\n"])
def test_a_long_command_is_read_up_to_its_limit(text: str) -> None:
    """Only its beginning is looked at, in time that grows with its length: this would take minutes otherwise."""
    assert effect_of(Call("1", "bash", {"command": text * 100_000})).kind in KINDS


def test_long_commands_that_differ_at_their_ends_are_two() -> None:
    one, other, same = (effect_of(Call("1", "bash", {"command": "x" * 30_000 + end})) for end in ("1", "2", "1"))
    assert one.key == same.key != other.key


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("git -C /srv -c a.b=1 log", "vcs-state"),
        ("git --no-pager diff", "vcs-state"),
        ("git", "vcs-state"),
        ("git grep x", "search"),
        ("git stash list", "vcs-state"),
        ("git stash", "vcs-change"),
        ("git push", "vcs-change"),
        ("gh pr view 7", "vcs-state"),
        ("gh --repo a/b pr list", "vcs-change"),  # the value of an option is taken for a word
        ("gh pr create", "vcs-change"),
        ("python -m pytest -q", "test"),
        ("python3 x.py", "other"),
        ("python -c \"Path('a').write_text('x')\"", "edit"),
        ("npm test", "test"),
        ("npm install x", "other"),
        ("uv pip install x", "other"),
        ("cat f | grep x", "search"),
        ("cat f | sort", "search"),
        ("ls | grep x", "list"),
        ("cat f | tee g", "edit"),
        ("cat f | python x.py", "read"),
        ("git log | pytest", "test"),
        ("frobnicate", "other"),
    ],
)
def test_what_a_command_is_for(command: str, kind: str) -> None:
    assert effect_of(Call("1", "bash", {"command": command})).kind == kind


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("sed -i 's/a/b/' x.py y.py", ["/w/x.py", "/w/y.py"]),
        ("cp a.py b.py dir", ["/w/dir"]),
        ("rm -rf a.py b.py", ["/w/a.py", "/w/b.py"]),
        ("echo x >> log.txt", ["/w/log.txt"]),
        ("cd sub && mv a b; touch c", ["/w/sub/b", "/w/sub/c"]),
        ("cd ../up && touch c", ["/up/c"]),
        ("echo x > /dev/null 2>&1", []),
        (r"copy-item C:\a.py C:\new\b.py", ["c:/new/b.py"]),
    ],
)
def test_which_files_a_command_changes(command: str, changes: list[str]) -> None:
    effect = effect_of(Call("1", "bash", {"command": command}, cwd="/w"))
    assert list(effect.changes) == changes


@pytest.mark.parametrize(
    ("command", "ranges"),
    [
        ("awk 'NR>=5 && NR<=9' f.txt", [(5, 9)]),
        ("awk 'NR==5' f.txt", [(5, 5)]),
        ("awk 'NR>=5' f.txt", [(5, END)]),
        ("Get-Content f -TotalCount 20", [(1, 20)]),
        ("Get-Content f -Tail 20", [(END - 20, END)]),
        ("head -n 20 f", [(1, 20)]),
        ("head --lines=20 f g", [(1, 20), (1, 20)]),
        ("sed -n '5p;7,8p' f", [(5, 5), (7, 8)]),
        ("tail -n 5 f", [(END - 5, END)]),
    ],
)
def test_which_lines_a_command_reads(command: str, ranges: list[tuple[int, int]]) -> None:
    (part,) = parts(command, "")
    assert [(read.first, read.last) for read in part.reads] == ranges


def shown(part: Part) -> tuple[str, list[str], list[str]]:
    """A part, with what it reads as `path:first-last`, where `$` is the last line of any file."""

    def line(number: int) -> str:
        return "$" if number == END else f"$-{END - number}" if number > END // 2 else str(number)

    return part.kind, [f"{r.path}:{line(r.first)}-{line(r.last)}" for r in part.reads], list(part.changes)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd", [("other", [], [])]),
        ("cd sub; cat f; cd ..; cat g", [("read", ["/w/sub/f:1-$"], []), ("read", ["/w/g:1-$"], [])]),
        ("pushd 'my dir' && cat f", [("read", ["/w/my dir/f:1-$"], [])]),
        ("cat a b", [("read", ["/w/a:1-$", "/w/b:1-$"], [])]),
        ("cat a > b", [("edit", [], ["/w/b"])]),
        ("cat a > b > c && ls", [("edit", [], ["/w/b"]), ("list", [], [])]),
        ("> b cat a", [("edit", [], ["/w/b"])]),
        ("cat a | tee b > c", [("edit", [], ["/w/c"])]),
        ("cat a |", [("read", ["/w/a:1-$"], [])]),
        ("A=1 env sudo B=2 pytest", [("test", [], [])]),
        ("sudo", []),
        ("timeout -k 5 10s make; gtimeout 5 ls", [("test", [], []), ("list", [], [])]),
        ("timeout 5", []),
        ("sed -i.bak s/a/b/ x", [("edit", [], ["/w/x"])]),
        ("perl -pi -e s/a/b/ x y", [("edit", [], ["/w/x", "/w/y"])]),
        ("sed -n 5,6p x", [("read", ["/w/x:5-6"], [])]),
        ("sed -n 5,6p /a/1,2p", [("read", ["/a/1,2p:5-6"], [])]),
        ("mkdir -p a b", [("edit", [], ["/w/a", "/w/b"])]),
        ("cp -r a", [("edit", [], ["/w/a"])]),
        ("/usr/bin/CAT a", [("read", ["/w/a:1-$"], [])]),
        ("./gradlew build; ./cat a", [("test", [], []), ("other", [], [])]),
        ("npm run ci; npm run x ci", [("other", [], []), ("test", [], [])]),
        ("gh pr list; gh pr x list", [("vcs-state", [], []), ("vcs-change", [], [])]),
        ("python -a -b -m pytest; python -a -b -c -m pytest", [("test", [], []), ("other", [], [])]),
        ("git -c a=b -C /x; git tag -l; git tag x", [("vcs-state", [], [])] * 2 + [("vcs-change", [], [])]),
        ("git worktree list; git stash show; git stash pop", [("vcs-state", [], [])] * 2 + [("vcs-change", [], [])]),
        ("head -3 a; tail -3 a", [("read", ["/w/a:1-3"], []), ("read", ["/w/a:$-3-$"], [])]),
        ("head -99999999999 a", [("read", ["/w/a:1-$-1"], [])]),
        ("head -n a", [("read", [], [])]),  # a number was expected
        ("gc a -First 7; gc a -Last 7", [("read", ["/w/a:1-7"], []), ("read", ["/w/a:$-7-$"], [])]),
        ("gc a -First; gc a -Tail", [("read", ["/w/a:1-$"], []), ("read", ["/w/a:$-$"], [])]),
        ("awk '{print}' a.txt b", [("read", ["/w/a.txt:1-$", "/w/b:1-$"], [])]),
        ("awk NR==7 a.txt", [("read", ["/w/a.txt:7-7"], [])]),
        ("cat - $x < a +", [("read", ["/w/a:1-$"], [])]),
        ("sed -n 10,20p a | sed -n 0,3p", [("read", ["/w/a:10-12"], [])]),
        ("sed -n 10,20p a | tail -500", [("read", ["/w/a:10-20"], [])]),
        ("sed -n 10,20p a | head -500", [("read", ["/w/a:10-20"], [])]),
        ("sed -n 10,20p a | head -11 | tail -n 4", [("read", ["/w/a:16-20"], [])]),
        ("gc a | select-object -skip 3", [("read", ["/w/a:4-$"], [])]),
        ("gc a | select-object -first 3", [("read", ["/w/a:1-3"], [])]),
        ("ls | head -3", [("list", [], [])]),
        ("cat a | less", [("read", ["/w/a:1-$"], [])]),
        ("cat a | git push; cat a | git log", [("vcs-change", [], []), ("read", [], [])]),
        ("sleep 5 & wait", [("poll", [], [])]),
    ],
)
def test_every_part_of_a_command_to_the_line(command: str, expected: list[tuple[str, list[str], list[str]]]) -> None:
    assert [shown(part) for part in parts(command, "/w")] == expected


@pytest.mark.parametrize(
    ("cwd", "path", "joined"),
    [
        ("/w", "../../../x", "/../../x"),
        ("", "../../x", "../../x"),
        ("/w", "~/x", "~/x"),
        (r"C:\w", "x", "c:/w/x"),
        ("/w", r"D:\x\.\y", "d:/x/y"),
        ("/w", "'a b'", "/w/a b"),
        ("", "/", "/"),
    ],
)
def test_a_path_is_made_plain_by_text_alone(cwd: str, path: str, joined: str) -> None:
    assert join_path(cwd, path) == joined


@pytest.mark.parametrize(
    ("command", "simple"),
    [
        ("cd a && cd 'b c'; ls  -l", "ls -l"),
        ("cd a || ls", "cd a || ls"),
        ("ls 2>/dev/null >& 2", "ls >& 2"),
        ("make 2>&1 | tail", "make | tail"),
    ],
)
def test_a_command_without_what_changes_nothing(command: str, simple: str) -> None:
    assert simplify(command) == simple


def test_a_command_is_looked_at_up_to_its_limit() -> None:
    long = "x" * (COMMAND_LIMIT - 4)
    assert [[part.kind for part in parts(f"{long}{end}", "")] for end in (";ls;rm", "  ;ls")] == [
        ["other", "list"],
        ["other", "other"],
    ]
