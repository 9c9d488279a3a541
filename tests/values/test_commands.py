"""What a command read, by its words alone."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from recompact.values.call_effects import KINDS, effect_of
from recompact.values.session import Call
from recompact.values.shell import END, parts


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
