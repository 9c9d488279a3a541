"""`recompact prompts` as a person uses it: what it prints, its exit codes, and what it leaves on disk."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness_prompts import prompts_of

from recompact.cli.main import main
from recompact.errors import InputError
from recompact.harnesses.importing.packages import find
from recompact.harnesses.importing.template_import import ImportedTemplate, from_files, from_package, write
from recompact.values.template import Template, default_template, lint, load, read, save

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
    save(template, directory)
    return directory


def test_show_is_of_the_shipped_template_unless_told(run: Run) -> None:
    code, out, _ = run("show")
    assert code == 0
    for words in ("ships with recompact", default_template().hash, "## Key Decisions", "history, budget"):
        assert words in out


def test_without_a_command_the_built_in_ones_are_listed(run: Run) -> None:
    code, out, _ = run()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:-1]] == ["default", "checkpoint", "structured"]
    rows = json.loads(run("--json")[1])["templates"]
    assert [len(row["headings"]) for row in rows] == [9, 9, 13]
    for row in rows:
        assert row["hash"] in run("show", row["template"])[1]
        assert run("lint", row["template"])[0] == 0
    assert run("--json", "show")[0] == 2


def test_show_prints_where_a_template_comes_from(run: Run, tmp_path: Path) -> None:
    origin = {"file": "d/x.js", "constant": "P", "offset": 7, "also_in": ["d/y.js"], "notes": ["more"]}
    provenance = {"harness": "pi", "package": "p", "version": "1", "parts": {"first": origin}, "notes": ["mode [x]"]}
    _, out, _ = run("show", saved(replace(GOOD, provenance=provenance), tmp_path / "t"))
    for words in ("pi (p 1)", "d/x.js, P at byte 7; same text in d/y.js; more", "mode [x]"):
        assert words in out
    strange = {"parts": [1], "extras": {"x": 3}, "notes": 5}
    assert run("show", saved(replace(GOOD, provenance=strange), tmp_path / "t"))[0] == 0


def test_show_raw_is_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = "é\r\n{{ history }}\x0c no line end"
    save(replace(GOOD, first=text), tmp_path)
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
    assert "is no template directory" in err


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
        ([], "Say what to import"),
        (["--update", "x"], "Say what to import"),
        (["x", "--first", "y"], "give one of them"),
        (["pi", "--first", "y"], "not both"),
        (["x", "--package", "y"], "need a harness"),
        (["--first", "nowhere"], "nowhere cannot be read"),
        (["bytes"], "is not UTF-8 text"),
        (["/dev/null"], "/dev/null is empty"),
        (["openclaw", "--package", "."], "does not contain it"),
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


def test_import_of_a_harness(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = node_package(tmp_path, "pi", "1.0")
    prompts = {"SUMMARIZATION_SYSTEM": "You sum up.", "SUMMARIZATION": SECTIONS, "UPDATE_SUMMARIZATION": "Go on."}
    padding = "This is a summary prompt that is long enough to be taken for what it is by everybody who reads it.\n"
    lines = [f"const {name}_PROMPT={json.dumps(padding + text)};" for name, text in prompts.items()]
    (package / "cli.js").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("import", "pi", "--to", "t")
    assert code == 0
    assert "cli.js, UPDATE_SUMMARIZATION_PROMPT at byte" in out
    assert load(tmp_path / "t").update == padding + "Go on."
    (package / "cli.js").write_text(lines[0])
    code, _, err = run("import", "pi", "--to", "t", "--force")
    assert code == 2
    assert "were not recognised" in err
    assert read(tmp_path / "t").update == padding + "Go on."


def node_package(root: Path, harness: str, version: str) -> Path:
    package = root / "node_modules" / prompts_of(harness).package
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": prompts_of(harness).package, "version": version}))
    return package


HERMES = '''
def build(self, content_to_summarize):
    head = "A summary of the talk is wanted, for one who has not seen it and who goes on with it: "
    prompt = f"""{head}{content_to_summarize}
## Goal
## Progress
## Next Steps"""
    if self._previous_summary:
        prompt = f"""{head}{self._previous_summary}{content_to_summarize}
## Goal
## Progress
## Next Steps"""
'''


def hermes_site(root: Path) -> Path:
    info = root / "site" / "hermes_agent-9.8.7.dist-info"
    info.mkdir(parents=True)
    (root / "site" / "c.py").write_text(HERMES)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes-agent\nVersion: 9.8.7\n")
    (info / "RECORD").write_text("c.py,,\nhermes_agent-9.8.7.dist-info/METADATA,,\n")
    return root / "site"


def hermes(package: Path | None = None, interpreter: str | None = None) -> ImportedTemplate:
    return from_package(prompts_of("hermes"), package=package, python=interpreter, cwd=Path.cwd())


def test_a_source_directory_and_an_editable_install_are_found(tmp_path: Path) -> None:
    checkout = tmp_path / "src"
    checkout.mkdir()
    (checkout / "c.py").write_text(HERMES)
    (checkout / "pyproject.toml").write_text('[project]\nname = "hermes-agent"\nversion = "3.2"\n')
    direct = hermes(checkout).template
    assert direct.provenance["version"] == "3.2"
    site = hermes_site(tmp_path)
    (site / "c.py").unlink()
    origin = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    (site / "hermes_agent-9.8.7.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    assert hermes(site).template == direct


def test_hermes_is_found_in_another_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = hermes_site(tmp_path)
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho '[\"{site}\"]'\n")
    interpreter.chmod(0o755)
    assert hermes(interpreter=str(interpreter)).template.provenance["version"] == "9.8.7"
    monkeypatch.setattr(sys, "path", [str(site)])
    assert hermes().template.provenance["version"] == "9.8.7"
    with pytest.raises(InputError, match="could not be run"):
        hermes(interpreter=str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="give one of them"):
        hermes(site, str(interpreter))


def test_a_package_is_found_above_and_globally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recompact.harnesses.importing.packages._npm_global", lambda: [tmp_path / "global"])
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    pi = prompts_of("pi")
    node_package(tmp_path, "pi", "1.0")
    assert find(pi, package=None, python=None, cwd=below).version == "1.0"
    node_package(tmp_path / "a", "pi", "2.0")
    assert find(pi, package=None, python=None, cwd=below).version == "2.0"
    shutil.rmtree(tmp_path / "node_modules")
    shutil.rmtree(tmp_path / "a" / "node_modules")
    node_package(tmp_path, "pi", "3.0").parents[1].rename(tmp_path / "global")
    assert find(pi, package=None, python=None, cwd=below).version == "3.0"


def test_a_package_that_is_not_there_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recompact.harnesses.importing.packages._npm_global", lambda: [tmp_path / "global"])
    with pytest.raises(InputError) as refused:
        find(prompts_of("openclaw"), package=None, python=None, cwd=tmp_path)
    for words in (str(tmp_path / "node_modules"), str(tmp_path / "global"), "npm install openclaw", "--package"):
        assert words in str(refused.value)
    with pytest.raises(InputError, match="does not contain it"):
        find(prompts_of("openclaw"), package=tmp_path, python=None, cwd=tmp_path)
    with pytest.raises(InputError, match="has no meaning for pi"):
        find(prompts_of("pi"), package=None, python="python3", cwd=tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(InputError, match="--python PYTHON"):
        hermes()
    with pytest.raises(InputError, match="holds no hermes-agent"):
        hermes(tmp_path)


def test_packages_inside_a_package_are_not_it(tmp_path: Path) -> None:
    package = node_package(tmp_path, "openclaw", "1")
    for name in ("dist/a.js", "node_modules/x/b.js", ".cache/c.js", "d.d.ts"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    found = find(prompts_of("openclaw"), package=package, python=None, cwd=tmp_path)
    assert [path.name for path in found.files] == ["a.js"]


def test_one_file_serves_both_times(tmp_path: Path) -> None:
    file = tmp_path / "mine.md"
    file.write_bytes(f"Sum up.\r\n{SECTIONS}".encode())
    template = from_files(file, None, None).template
    assert template.first == template.update == f"Sum up.\r\n{SECTIONS}"
    assert "previous_summary" not in template.framed("first")
    assert "<previous-summary>" in template.framed("update")
    assert template.provenance["parts"]["update"]["file"] == "mine.md"
    file.write_text("{{ history }}\n" + SECTIONS)
    template = from_files(file, None, None).template
    assert template.framed("first") == template.first
    assert template.framed("update").count("{{ history }}") == 1
    assert [f for f in lint(template) if f.level == "error"] == []


def test_files_with_all_their_places_get_no_frame(tmp_path: Path) -> None:
    for name, text in (("f", "{{ history }}"), ("u", "{{ history }}{{ previous_summary }}"), ("s", "You sum up.")):
        (tmp_path / name).write_text(text + "\n" + SECTIONS)
    template = from_files(tmp_path / "f", tmp_path / "u", tmp_path / "s").template
    assert (template.frame, "frame" in template.provenance) == ("", False)
    with pytest.raises(InputError, match="give both"):
        from_files(tmp_path / "u", None, None)


@pytest.fixture
def imported(tmp_path: Path) -> ImportedTemplate:
    (tmp_path / "mine.md").write_text(f"Sum up.\n{SECTIONS}")
    return from_files(tmp_path / "mine.md", None, None)


def test_a_target_that_holds_something_stays(tmp_path: Path, imported: ImportedTemplate) -> None:
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


def test_where_one_stands_is_not_replaced(
    tmp_path: Path, imported: ImportedTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="the directory you are in"):
        write(imported, Path(), force=True)


def test_an_empty_directory_is_as_good_as_none(tmp_path: Path, imported: ImportedTemplate) -> None:
    (tmp_path / "t").mkdir()
    write(imported, tmp_path / "t", force=False)
    assert load(tmp_path / "t") == imported.template


def test_a_disk_that_is_full_leaves_nothing_behind(
    tmp_path: Path, imported: ImportedTemplate, monkeypatch: pytest.MonkeyPatch
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
    assert load(tmp_path / "t") == imported.template
