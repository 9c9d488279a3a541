"""`recompact prompts` as a person uses it: what it prints, its exit codes, and what it leaves on disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness_prompts import prompts_of

from recompact.cli.main import main
from recompact.errors import InputError
from recompact.harnesses.importing import from_files, write
from recompact.values.template import Template, default_template, lint, load, read

SECTIONS = "## Goal\nthe aim\n## Progress\nwhat was done\n## Next Steps\nwhat comes\n"
GOOD = Template("You sum up.", "{{ history }}\n" + SECTIONS, "{{ history }}{{ previous_summary }}\n" + SECTIONS)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def _run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["recompact", "prompts", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return _run


def saved(template: Template, directory: Path) -> Path:
    template.save(directory)
    return directory


def test_show_is_of_the_shipped_template_unless_told(run: Run) -> None:
    code, out, _ = run("show")
    assert code == 0
    for words in ("ships with recompact", default_template().hash, "## Key Decisions", "history, budget"):
        assert words in out


def test_without_a_command_the_built_in_ones_are_listed(run: Run) -> None:
    code, out, _ = run()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:-1]] == ["default", "checkpoint", "structured", "observation"]
    rows = json.loads(run("--json")[1])["templates"]
    assert [len(row["headings"]) for row in rows] == [9, 9, 13, 3]
    for row in rows:
        assert row["hash"] in run("show", row["template"])[1]
        assert run("lint", row["template"])[0] == 0
    assert run("--json", "show")[0] == 2


def test_show_prints_where_a_template_comes_from(run: Run, tmp_path: Path) -> None:
    provenance = {
        "harness": "h",
        "package": "p",
        "version": "1",
        "parts": {"first": {"file": "x.py", "constant": "[P]"}},
    }
    _, out, _ = run("show", saved(replace(GOOD, provenance=provenance), tmp_path / "t"))
    for words in ("h (p 1)", "x.py, [P]"):
        assert words in out
    strange = {"parts": [1], "package": 5}
    assert run("show", saved(replace(GOOD, provenance=strange), tmp_path / "t"))[0] == 0


def test_show_raw_is_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = "é\r\n{{ history }}\x0c no line end"
    replace(GOOD, first=text).save(tmp_path)
    monkeypatch.setattr(sys, "argv", ["recompact", "prompts", "show", str(tmp_path), "--part", "first", "--raw"])
    main()
    assert capfdbinary.readouterr().out == text.encode()


def test_show_json_and_part(run: Run, tmp_path: Path) -> None:
    shown = json.loads(run("show", saved(GOOD, tmp_path), "--json")[1])
    assert shown["hash"] == GOOD.hash
    assert list(shown["parts"]) == ["system", "first", "update"]
    first = shown["parts"]["first"]
    assert (first["text"], first["placeholders"]) == (GOOD.first, ["history"])
    assert [s["heading"] for s in first["sections"]] == ["", "## Goal", "## Progress", "## Next Steps"]
    assert list(json.loads(run("show", tmp_path, "--part", "update", "--json")[1])["parts"]) == ["update"]
    assert run("show", tmp_path, "--part", "frame")[0] == 2
    assert run("show", "--raw")[0] == 2


def test_lint_exit_codes(run: Run, tmp_path: Path) -> None:
    assert run("lint", "default")[:2] == (0, "0 errors, 0 warnings: the template can be used.\n")
    code, out, _ = run("lint", saved(replace(GOOD, system=""), tmp_path / "warned"))
    assert code == 0
    assert "warning" in out
    bad = saved(replace(GOOD, update=SECTIONS, system=""), tmp_path / "bad")
    code, out, _ = run("lint", bad)
    assert code == 1
    assert f"{bad / 'update.md'} has no {{{{ previous_summary }}}}" in out
    assert "add it here or in frame.md." in out
    code, out, _ = run("lint", bad, "--json")
    assert code == 1
    report = json.loads(out)
    assert (report["errors"], report["warnings"]) == (2, 1)
    assert set(report["findings"][0]) == {"level", "file", "message", "fix"}
    code, out, err = run("lint", tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert "is not a template directory" in err


def test_diff_says_plainly_what_differs(run: Run, tmp_path: Path) -> None:
    a = saved(GOOD, tmp_path / "a")
    assert "Nothing differs" in run("diff", a, a)[1]
    b = saved(replace(GOOD, first=GOOD.first.replace("the aim", "the whole aim")), tmp_path / "b")
    _, out, _ = run("diff", a, b)
    for words in ("first", "## Goal  changed", "- the aim", "+ the whole aim", "only guidance differs"):
        assert words in out
    assert "update" not in out
    c = saved(replace(GOOD, update=GOOD.update.replace("## Progress", "## Work") + "{{ budget }}"), tmp_path / "c")
    _, out, _ = run("diff", a, c)
    for words in (
        "headings differ",
        "placeholders differ",
        "## Work  added",
        "## Progress  removed",
        "structure differs",
    ):
        assert words in out
    d = saved(replace(GOOD, system="You  sum up.\n", frame="{{ instructions }}"), tmp_path / "d")
    _, out, _ = run("diff", a, d)
    assert "white space only" in out
    assert "frame" in out
    assert run("diff", a, tmp_path / "nowhere")[0] == 2


def test_diff_json(run: Run, tmp_path: Path) -> None:
    a = saved(GOOD, tmp_path / "a")
    b = saved(replace(GOOD, first=GOOD.first.replace("the aim", "the whole aim")), tmp_path / "b")
    report = json.loads(run("diff", a, b, "--json")[1])
    assert (report["same"], report["structure_changed"], list(report["parts"])) == (False, False, ["first"])
    [section] = report["parts"]["first"]["sections"]
    assert section == {"heading": "## Goal", "a": "## Goal\nthe aim\n", "b": "## Goal\nthe whole aim\n"}
    assert json.loads(run("diff", a, a, "--json")[1])["same"] is True


def test_import_of_files(run: Run, tmp_path: Path) -> None:
    for name, text in (("first", f"Sum up.\n{SECTIONS}"), ("update", f"Go on.\n{SECTIONS}"), ("system", "You sum up.")):
        (tmp_path / name).write_text(text)
    code, out, _ = run("import", tmp_path / "first", "--to", tmp_path / "one")
    assert code == 0
    assert "Written to" in out
    assert load(tmp_path / "one").update == f"Sum up.\n{SECTIONS}"
    files = [word for name in ("first", "update", "system") for word in (f"--{name}", tmp_path / name)]
    report = json.loads(run("import", *files, "--to", tmp_path / "three", "--json")[1])
    template = load(tmp_path / "three")
    assert report["hash"] == template.hash
    assert (template.system, template.update) == ("You sum up.", f"Go on.\n{SECTIONS}")
    assert report["provenance"] == template.provenance


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nobody"], "neither a file nor a harness"),
        ([], "Name what to import"),
        (["--update", "x"], "Name what to import"),
        (["x", "--first", "y"], "give one of them"),
        (["pi", "--first", "y"], "not both"),
        (["x", "--package", "y"], "need a harness"),
        (["--first", "nowhere"], "nowhere cannot be read"),
        (["bytes"], "is not UTF-8 text"),
        (["/dev/null"], "/dev/null cannot be read"),
        (["openclaw"], "recompact prompts import FILE"),
        (["langchain", "--package", "."], "--package must name"),
    ],
)
def test_a_bad_import_is_refused_and_writes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff")
    code, out, err = run("import", *arguments, "--to", "t")
    assert (code, out) == (2, "")
    assert says in err
    assert [path.name for path in tmp_path.iterdir()] == ["bytes"]


def test_import_of_a_harness(run: Run, tmp_path: Path) -> None:
    file = tmp_path / prompts_of("langchain").constants["first"][0]
    file.parent.mkdir(parents=True)
    file.write_text(f"DEFAULT_SUMMARY_PROMPT = {SECTIONS!r}\n")
    code, out, _ = run("import", "langchain", "--package", tmp_path, "--to", tmp_path / "t")
    assert code == 0
    assert "DEFAULT_SUMMARY_PROMPT" in out
    assert load(tmp_path / "t").update == SECTIONS
    file.write_text("DEFAULT_SUMMARY_PROMPT = build()\n")
    assert run("import", "langchain", "--package", tmp_path, "--to", tmp_path / "t", "--force")[0] == 2
    assert read(tmp_path / "t").update == SECTIONS


def test_one_file_serves_both_times(tmp_path: Path) -> None:
    file = tmp_path / "mine.md"
    file.write_bytes(f"Sum up.\r\n{SECTIONS}".encode())
    template = from_files(file, None, None)
    assert template.first == template.update == f"Sum up.\r\n{SECTIONS}"
    assert "previous_summary" not in template.framed("first")
    assert "<previous-summary>" in template.framed("update")
    assert template.provenance["parts"]["update"]["file"] == "mine.md"
    file.write_text("{{ history }}\n" + SECTIONS)
    template = from_files(file, None, None)
    assert template.framed("first") == template.first
    assert template.framed("update").count("{{ history }}") == 1
    assert [f for f in lint(template) if f.level == "error"] == []


def test_files_with_all_their_places_get_no_frame(tmp_path: Path) -> None:
    for name, text in (("f", "{{ history }}"), ("u", "{{ history }}{{ previous_summary }}"), ("s", "You sum up.")):
        (tmp_path / name).write_text(text + "\n" + SECTIONS)
    template = from_files(tmp_path / "f", tmp_path / "u", tmp_path / "s")
    assert (template.frame, "frame" in template.provenance) == ("", False)
    with pytest.raises(InputError, match="give both"):
        from_files(tmp_path / "u", None, None)


@pytest.fixture
def imported(tmp_path: Path) -> Template:
    (tmp_path / "mine.md").write_text(f"Sum up.\n{SECTIONS}")
    return from_files(tmp_path / "mine.md", None, None)


def test_a_target_that_holds_something_stays(tmp_path: Path, imported: Template) -> None:
    target = tmp_path / "t"
    write(imported, target, force=False)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    with pytest.raises(InputError, match="is not empty"):
        write(imported, target, force=False)
    write(imported, target, force=True)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    (target / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds notes\.txt"):
        write(imported, target, force=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        write(imported, tmp_path / "file", force=True)


def test_where_one_stands_is_not_replaced(tmp_path: Path, imported: Template, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="the directory you are in"):
        write(imported, Path(), force=True)


def test_an_empty_directory_is_as_good_as_none(tmp_path: Path, imported: Template) -> None:
    (tmp_path / "t").mkdir()
    write(imported, tmp_path / "t", force=False)
    assert load(tmp_path / "t") == imported


def test_a_disk_that_is_full_leaves_nothing_behind(
    tmp_path: Path, imported: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(imported, tmp_path / "t", force=False)
    before = sorted(path.name for path in tmp_path.rglob("*"))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    for name in ("write_text", "rename"):
        with monkeypatch.context() as patched:
            patched.setattr(Path, name, full)
            with pytest.raises(InputError, match=r"cannot be written \(No space left"):
                write(imported, tmp_path / "t", force=True)
        assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert load(tmp_path / "t") == imported
