"""Prompts are found in made-up packages of the shapes that real ones have; the real ones are an opt-in test.

No prompt text of a real harness stands here: the made-up ones only have the same build, and of the real ones only
hashes are known.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recompact.errors import InputError
from recompact.harnesses import javascript, python
from recompact.harnesses.importing import Imported, from_files, from_harness, write
from recompact.harnesses.packages import find
from recompact.harnesses.recognise import HARNESSES, role_of
from recompact.harnesses.texts import Hole
from recompact.template import fill, lint, load

SYSTEM = "You are the one who summarizes. Read the conversation, keep to the format, and add nothing of your own to it."
SECTIONS = "## Goal\nthe aim\n\n## Progress\n### Done\n- [x] it\n\n## Key Decisions\n- why\n\n## Next Steps\n1. go on\n"
FIRST = f"Here is a talk to summarize for a colleague who has not seen it.\n\n{SECTIONS}\nShort, please."
UPDATE = f"Here is more talk. Bring the existing summary up to date with it, and drop nothing.\n\n{SECTIONS}"
SPLIT = "This is only the head of a turn. Summarize it so that its tail makes sense.\n\n## Original Request\nit\n\n## So Far\nit"
BRANCH = f"Summarize this branch of the talk, for the day on which somebody comes back to it.\n\n{SECTIONS}"
PROMPTS = {"system": SYSTEM, "first": FIRST, "update": UPDATE, "split-turn": SPLIT, "branch": BRANCH}


def template_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${").replace("\r", "\\r")
    return f"`{escaped}`"


def node_package(root: Path, files: dict[str, str | bytes], name: str = "openclaw", version: str = "1.2.3") -> Path:
    package = root / "node_modules" / name
    for file, content in {"package.json": json.dumps({"name": name, "version": version}), **files}.items():
        path = package / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return package


def openclaw(package: Path, cwd: Path | None = None) -> Imported:
    return from_harness(HARNESSES["openclaw"], package=package, python=None, cwd=cwd or package)


def parts(imported: Imported) -> dict[str, str]:
    template = imported.template
    return {"system": template.system, "first": template.first, "update": template.update, **imported.extras}


PLAIN = f"""
import {{ x }} from "./x.mjs";
/** The parts. */
const SUMMARIZATION_SYSTEM_PROMPT = {template_literal(SYSTEM)};
export const SUMMARIZATION_PROMPT = {template_literal(FIRST)};
const UPDATE_SUMMARIZATION_PROMPT = {template_literal(UPDATE)};
const TURN_PREFIX_SUMMARIZATION_PROMPT = {template_literal(SPLIT)};
const BRANCH_SUMMARY_PROMPT = {template_literal(BRANCH)};
"""
MINIFIED = (
    f"var q=/`/g,a={template_literal(SYSTEM)},bq={template_literal(FIRST)},c$={template_literal(UPDATE)},"
    f'd={json.dumps(SPLIT)};function e(t){{return t?bq:c$}}const f=[{json.dumps(BRANCH)},"x"];'
)


@pytest.mark.parametrize("source", [PLAIN, MINIFIED], ids=["plain", "minified"])
def test_prompts_are_found_by_name_or_by_build(tmp_path: Path, source: str) -> None:
    imported = openclaw(node_package(tmp_path, {"dist/b-X1y2.mjs": source, "dist/other.js": "var a=1;"}))
    assert parts(imported) == PROMPTS
    assert lint(imported.template) == ()


def test_provenance_leads_to_the_byte(tmp_path: Path) -> None:
    package = node_package(tmp_path, {"dist/b.mjs": "// é\n" + MINIFIED})
    provenance = openclaw(package).template.provenance
    assert (provenance["harness"], provenance["package"], provenance["version"]) == ("openclaw", "openclaw", "1.2.3")
    origin = provenance["parts"]["first"]
    assert (origin["file"], origin["constant"]) == ("dist/b.mjs", "bq")
    data = (package / "dist/b.mjs").read_bytes()
    assert data[origin["offset"] :].startswith(template_literal(FIRST).encode())
    assert provenance["extras"]["branch"]["offset"] == data.index(json.dumps(BRANCH).encode())
    assert "constant" not in provenance["extras"]["branch"]
    assert str(tmp_path) not in json.dumps(dict(provenance))


def test_the_same_import_gives_the_same_bytes(tmp_path: Path) -> None:
    package = node_package(tmp_path, {"dist/b.mjs": MINIFIED})
    for name in ("one", "two"):
        write(openclaw(package), tmp_path / name, force=False)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(
        ["branch.md", "first.md", "frame.md", "provenance.json", "split-turn.md", "system.md", "update.md"]
    )
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert (tmp_path / "one" / "split-turn.md").read_bytes() == SPLIT.encode()
    assert load(tmp_path / "one") == openclaw(package).template


def test_a_frame_shows_the_conversation_and_the_previous_summary(tmp_path: Path) -> None:
    template = openclaw(node_package(tmp_path, {"dist/b.mjs": PLAIN})).template
    values = {"history": "HISTORY", "previous_summary": "OLD"}
    assert fill(template.framed("first"), values) == f"<conversation>\nHISTORY\n</conversation>\n\n{FIRST}"
    assert fill(template.framed("update"), values) == (
        f"<conversation>\nHISTORY\n</conversation>\n\n<previous-summary>\nOLD\n</previous-summary>\n\n{UPDATE}"
    )


def js(source: str) -> list[tuple[str, tuple[str | Hole, ...]]]:
    return [(text.constant, text.pieces) for text in javascript.texts(source.encode())]


LONG = "This speaks of a summary and is long enough that nobody could mistake it for a message in a log file. "


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (
            r"`L\n\`x\` \${y} $z \u00e9 \x41 \u{1F600} \\ \
end`",
            "L\n`x` ${y} $z é A \U0001f600 \\ end",
        ),
        (r"'L it\'s \"so\"\t\0'", 'L it\'s "so"\t\0'),
        (r'"L \ud83d\ude00 \ud83d."', "L \U0001f600 \ufffd."),
        ("`L a\r\nb\rc`", "L a\nb\nc"),
        ('"L " + /* and */ "more " + // and\n \'still\'', "L more still"),
        ("`  L `.trim()", "L"),
        ('("L " + "more")', "L more"),
        ("`L é\u2028`", "L é\u2028"),
    ],
)
def test_literals_are_read_as_an_engine_would(literal: str, value: str) -> None:
    [(name, pieces)] = js(f"const P = {literal.replace('L', LONG, 1)};")
    assert name == "P"
    assert (
        "".join(str(piece) for piece in pieces) == value.replace("L", LONG, 1).strip("\n")
        if "trim" not in literal
        else LONG.strip()
    )


@given(st.text(), st.booleans())
def test_any_text_survives_its_literal(text: str, ascii_only: bool) -> None:
    text = LONG + text
    quoted = json.dumps(text, ensure_ascii=ascii_only)
    assert js(f"a={quoted};") == [("a", (text,))]
    assert js(f"a={template_literal(text)};") == [("a", (text,))]


def test_constants_are_put_in_and_the_rest_is_said() -> None:
    source = f"const TAIL = 'the tail', P = `{LONG}${{TAIL}} ${{ now() }} ${{lost}}` + TAIL + f(1) + (a ? b : c);"
    [(_, pieces)] = js(source)
    assert [p if isinstance(p, str) else (p.source, p.shown) for p in pieces] == [
        LONG,
        *("the tail", " ", ("now()", "${now()}"), " ", ("lost", "${lost}"), "the tail"),
        *(("f(1)", "${f(1)}"), ("(a ? b : c)", "${(a ? b : c)}")),
    ]


@pytest.mark.parametrize("more", ["x='two';", "x+='two';", "function f(x=1){}"])
def test_a_name_with_two_meanings_is_not_guessed(more: str) -> None:
    [(_, pieces)] = js(f"var x='one';{more}p=`{LONG}${{x}}`;")
    assert pieces == (LONG, Hole("x", "${x}"))


def test_a_name_that_means_itself_ends() -> None:
    [(_, pieces)] = js(f"var p=`{LONG}${{p}}`;")[:1]
    assert pieces[0] == LONG


@pytest.mark.parametrize(
    "literal", [f"`{LONG}`.replace(/a/g, b)", f"tag`{LONG}`", f"`{LONG}", f"`{LONG}${{", f"'{LONG}\n'"]
)
def test_what_is_not_a_plain_text_is_not_taken_for_one(literal: str) -> None:
    assert [p for _, pieces in js(f"const P = {literal};") for p in pieces if isinstance(p, str)] == []


def test_a_text_that_is_extended_later_is_noted() -> None:
    [text] = javascript.texts(f"let p=`{LONG}`;if(x){{p+=y}}".encode())
    assert "may append to `p`" in text.notes[0]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_literals_against_node() -> None:
    literals = [
        *(
            rf"`{LONG}\n\t\v\0\x7f\u00e9\u{{1f600}}\'\"\a\`\${{x}}$${{'in'}}`",
            rf"'{LONG}\
\ud83d\ude00' + `a${{'b' + `c${{'}}'}}`}}`",
        ),
        json.dumps(LONG + "é\u2029\U0001f600"),
    ]
    for literal in literals:
        shown = subprocess.run(
            ["node", "-p", f"JSON.stringify({literal})"], capture_output=True, text=True, check=True, encoding="utf-8"
        )
        [(_, pieces)] = js(f"p={literal};")
        # A hole that holds only a literal stays a hole: harmless, and said.
        text = "".join(p if isinstance(p, str) else json.loads(node(p.source)) for p in pieces)
        assert text == json.loads(shown.stdout)


def node(expression: str) -> str:
    return subprocess.run(
        ["node", "-p", f"JSON.stringify({expression})"], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout


HERMES = f'''
HEADING = "## Goal"
_RULE = ("Write it "
         "short.")

class Compressor:
    def _generate_summary(self, turns, focus=None):
        content_to_summarize = self.serialize(turns)
        summary_budget = 7
        memory = "MEMORY" + turns[0] if turns else ""
        if focus:
            anchor = f"today is {{focus}}"
        else:
            anchor = ""
        preamble = (
            "You write a summary for the one who goes on with the work; "
            "é is a letter."
        )
        sections = f"""{{HEADING}}
what is wanted

## Progress
what was done{{anchor}}

## Next Steps
what comes, in {{summary_budget}} tokens and {{{{braces}}}}. {{_RULE}}"""
        if self._previous_summary:
            prompt = f"""{{preamble}}

OLD:
{{self._previous_summary}}
NEW:
{{content_to_summarize}}{{memory}}

{{sections}}"""
        else:
            prompt = f"""{{preamble}}

TURNS:
{{content_to_summarize}}{{memory}}

{{sections}}{{focus.upper()}}"""
        if focus:
            prompt += "more"
        return prompt

    def fallback(self, turns):
        body = f"""{{HEADING}}
No summary could be had, so this is all there is of it: {{turns}}

## Progress
none that is known

## Next Steps
look again"""
        return body
'''
HERMES_SECTIONS = (
    "## Goal\nwhat is wanted\n\n## Progress\nwhat was done\n\n## Next Steps\n"
    "what comes, in {{ budget }} tokens and {braces}. Write it short."
)
PREAMBLE = "You write a summary for the one who goes on with the work; é is a letter."


def hermes_site(root: Path, source: str = HERMES) -> Path:
    site = root / "site"
    (site / "agent").mkdir(parents=True)
    (site / "agent" / "compressor.py").write_text(source, encoding="utf-8")
    info = site / "hermes_agent-9.8.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes-agent\nVersion: 9.8.7\n")
    (info / "RECORD").write_text("agent/compressor.py,,\nhermes_agent-9.8.7.dist-info/METADATA,,\n")
    return site


def hermes(package: Path | None = None, interpreter: str | None = None) -> Imported:
    return from_harness(HARNESSES["hermes"], package=package, python=interpreter, cwd=Path.cwd())


def test_a_prompt_that_python_puts_together_is_put_together(tmp_path: Path) -> None:
    template = hermes(hermes_site(tmp_path)).template
    assert template.first == f"{PREAMBLE}\n\nTURNS:\n{{{{ history }}}}\n\n{HERMES_SECTIONS}{{focus.upper()}}"
    assert template.update == (
        f"{PREAMBLE}\n\nOLD:\n{{{{ previous_summary }}}}\nNEW:\n{{{{ history }}}}\n\n{HERMES_SECTIONS}"
    )
    assert (template.system, template.frame) == ("", "")
    origin = template.provenance["parts"]["first"]
    assert origin["placeholders"] == {"content_to_summarize": "history", "summary_budget": "budget"}
    assert {hole["expression"]: hole["treated"].split()[0] for hole in origin["unresolved"]} == {
        "memory": "left",
        "anchor": "left",
        "focus.upper()": "kept",
    }
    assert "may append to `prompt`" in origin["notes"][0]
    data = (tmp_path / "site/agent/compressor.py").read_bytes()
    assert data[origin["offset"] :].startswith(b'f"""{preamble}\n\nTURNS')
    assert [f.level for f in lint(template)].count("error") == 0


@pytest.mark.parametrize(
    ("source", "pieces"),
    [
        (f'P = """{LONG}\nx"""', (f"{LONG}\nx",)),
        (f'P = ("{LONG}" "é"\n  "\\x41")', (f"{LONG}éA",)),
        (f'P: str = "{LONG}" + "b"', (LONG, "b")),
        (
            f'import textwrap\nP = textwrap.dedent("""\n  {LONG}\n  b""").strip()',
            (f"{LONG.strip()} \nb".replace("  ", " "),),
        ),
        (f'X = "x"\nclass C:\n  X = "y"\n  def f(self):\n    P = f"{LONG}{{X}}"', (LONG, "x")),
        (f'def f(X):\n  P = f"{LONG}{{X}}"', (LONG, Hole("X", "{X}"))),
        (f'for X in "ab":\n  P = f"{LONG}{{X}}"', (LONG, Hole("X", "{X}"))),
        (f'X = "x"\nP = f"{LONG}{{X!r}}{{X:>3}}"', (LONG, Hole("f'{X!r}'", ""), Hole("f'{X:>3}'", ""))),
        (f'P = "{LONG}".format(x)', None),
        (f'P = f"{LONG}{{P}}"', (LONG, Hole("P", "{P}"))),
    ],
)
def test_python_texts(source: str, pieces: tuple[str | Hole, ...] | None) -> None:
    found = [text for text in python.texts(source.encode()) if text.constant == "P"]
    if pieces is None:
        assert found == []
        return
    [text] = found
    assert [p if isinstance(p, str) else p.source for p in text.pieces] == [
        p if isinstance(p, str) else p.source for p in pieces
    ]


def test_a_file_that_is_not_python_is_passed_over() -> None:
    assert list(python.texts(b"def ( summary ## Goal")) == []


def test_a_source_directory_and_an_editable_install_are_found(tmp_path: Path) -> None:
    checkout = tmp_path / "src"
    (checkout / "agent").mkdir(parents=True)
    (checkout / "agent" / "c.py").write_text(HERMES, encoding="utf-8")
    (checkout / "pyproject.toml").write_text('[project]\nname = "hermes-agent"\nversion = "3.2"\n')
    direct = hermes(checkout).template
    assert direct.provenance["version"] == "3.2"
    site = hermes_site(tmp_path)
    (site / "agent" / "compressor.py").unlink()
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
    monkeypatch.setattr("recompact.harnesses.packages._npm_global", lambda: [tmp_path / "global"])
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    pi = HARNESSES["pi"]
    node_package(tmp_path, {}, pi.package, "1.0")
    assert find(pi, package=None, python=None, cwd=below).version == "1.0"
    node_package(tmp_path / "a", {}, pi.package, "2.0")
    assert find(pi, package=None, python=None, cwd=below).version == "2.0"
    shutil.rmtree(tmp_path / "node_modules")
    shutil.rmtree(tmp_path / "a" / "node_modules")
    node_package(tmp_path, {}, pi.package, "3.0").parents[1].rename(tmp_path / "global")
    assert find(pi, package=None, python=None, cwd=below).version == "3.0"


def test_a_package_that_is_not_there_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recompact.harnesses.packages._npm_global", lambda: [tmp_path / "global"])
    with pytest.raises(InputError) as refused:
        find(HARNESSES["openclaw"], package=None, python=None, cwd=tmp_path)
    for words in (str(tmp_path / "node_modules"), str(tmp_path / "global"), "npm install openclaw", "--package"):
        assert words in str(refused.value)
    with pytest.raises(InputError, match="does not contain it"):
        find(HARNESSES["openclaw"], package=tmp_path, python=None, cwd=tmp_path)
    with pytest.raises(InputError, match="has no meaning for pi"):
        find(HARNESSES["pi"], package=None, python="python3", cwd=tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(InputError, match="--python PYTHON"):
        hermes()
    with pytest.raises(InputError, match="holds no hermes-agent"):
        hermes(tmp_path)


def test_packages_inside_a_package_are_not_it(tmp_path: Path) -> None:
    package = node_package(tmp_path, {"dist/a.js": "1", "node_modules/x/b.js": "2", ".cache/c.js": "3", "d.d.ts": "4"})
    assert [path.name for path in find(HARNESSES["openclaw"], package=package, python=None, cwd=tmp_path).files] == [
        "a.js"
    ]


def test_prompts_that_are_not_recognised_are_said_to_be_missing(tmp_path: Path) -> None:
    package = node_package(tmp_path, {"dist/b.mjs": f"const SUMMARIZATION_PROMPT={template_literal(FIRST)};"})
    with pytest.raises(InputError) as refused:
        openclaw(package)
    for words in ("system, update were not recognised", "openclaw 1.2.3", "1 files", "dist/b.mjs", "--first FILE"):
        assert words in str(refused.value)


def test_two_texts_for_one_role_in_one_file_are_refused(tmp_path: Path) -> None:
    source = MINIFIED + f"var g={template_literal(FIRST + ' And quick.').replace('Here', 'There')};"
    with pytest.raises(InputError, match="more than one text that may be the prompt for `first`"):
        openclaw(node_package(tmp_path, {"dist/b.mjs": source}))


def test_copies_in_other_files_are_compared(tmp_path: Path) -> None:
    other = PLAIN.replace("Short, please.", "Short, if you will.") + "//" + "x" * 999
    package = node_package(tmp_path, {"dist/a.mjs": other, "dist/b.mjs": PLAIN})
    origins = openclaw(package).template.provenance["parts"]
    assert (origins["first"]["file"], origins["first"]["another_text_in"]) == ("dist/b.mjs", ["dist/a.mjs"])
    assert origins["update"]["also_in"] == ["dist/a.mjs"]


def test_a_piece_of_a_prompt_is_not_the_prompt(tmp_path: Path) -> None:
    body = f"Bring the existing summary up to date with what is new, and leave out what no longer holds.\n{SECTIONS}"
    source = (
        f"var a={template_literal(SYSTEM)},b={template_literal(FIRST)},"
        f"cc={template_literal(body)},d=`More talk to summarize.\n\n${{cc}}`;"
    )
    imported = openclaw(node_package(tmp_path, {"dist/b.mjs": source}))
    assert imported.template.update == f"More talk to summarize.\n\n{body}"
    assert "unresolved" not in imported.template.provenance["parts"]["update"]


@pytest.mark.parametrize(
    ("text", "constant", "role"),
    [
        *((text, "", role) for role, text in PROMPTS.items()),
        ("free text", "SUMMARIZATION_PROMPT", "first"),
        ("free text", "updateSummarizationPrompt", "update"),
        ("free text about a summary", "x", None),
        ("## Goal\nx\n## Usage\ny", "README", None),
    ],
)
def test_what_a_text_is_for(text: str, constant: str, role: str | None) -> None:
    found = role_of(text, constant)
    assert (found[0] if found else None) == role


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
def imported(tmp_path: Path) -> Imported:
    (tmp_path / "mine.md").write_text(f"Sum up.\n{SECTIONS}")
    return from_files(tmp_path / "mine.md", None, None)


def test_a_target_that_holds_something_stays(tmp_path: Path, imported: Imported) -> None:
    target = tmp_path / "t"
    write(imported, target, force=False)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    with pytest.raises(InputError, match="is not empty"):
        write(imported, target, force=False)
    (target / "split-turn.md").write_text("old")
    write(imported, target, force=True)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    (target / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds notes\.txt"):
        write(imported, target, force=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        write(imported, tmp_path / "file", force=True)


def test_where_one_stands_is_not_replaced(tmp_path: Path, imported: Imported, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="where you are"):
        write(imported, Path(), force=True)


def test_an_empty_directory_is_as_good_as_none(tmp_path: Path, imported: Imported) -> None:
    (tmp_path / "t").mkdir()
    write(imported, tmp_path / "t", force=False)
    assert load(tmp_path / "t") == imported.template


def test_a_disk_that_is_full_leaves_nothing_behind(
    tmp_path: Path, imported: Imported, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(imported, tmp_path / "t", force=False)
    before = sorted(path.name for path in tmp_path.rglob("*"))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    for name in ("write_text", "rename"):
        with monkeypatch.context() as patched:
            patched.setattr(Path, name, full)
            with pytest.raises(InputError, match="cannot be written: No space left"):
                write(imported, tmp_path / "t", force=True)
        assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert load(tmp_path / "t") == imported.template


# The real packages: `make test-harnesses`.
REAL = pytest.mark.skipif(
    os.environ.get("RECOMPACT_TEST_HARNESSES") != "1", reason="downloads packages; run by make test-harnesses"
)
PAPER_FIRST = "9b00aa68df1a64279bc36e9093367f638701d48ec82e3d08436f65092a515f9b"  # as the paper prints it
UPDATE_TEXT = "240c52982209146eae47d73c7172f6ba1dab60f44520bcb6a6ec1a883fef2ec7"


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    cache = os.environ.get("RECOMPACT_HARNESS_DIR")
    directory = Path(cache) if cache else tmp_path_factory.mktemp("harnesses")
    directory.mkdir(parents=True, exist_ok=True)
    yield directory


def fetch_node(directory: Path, name: str, version: str) -> Path:
    """The package alone, unpacked as npm would: its dependencies hold none of its prompts, and no script is run."""
    target = directory / name.replace("/", "-") / version
    if not (target / "package").is_dir():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed")
        target.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", f"{name}@{version}", "--pack-destination", str(target), "--ignore-scripts"],
            capture_output=True,
            text=True,
            cwd=target,
        )
        if packed.returncode:
            pytest.skip(f"npm cannot get {name}@{version}: {packed.stderr.strip()[-300:]}")
        with tarfile.open(next(target.glob("*.tgz"))) as archive:
            archive.extractall(target, filter="data")
    return target / "package"


def fetch_python(directory: Path, name: str, version: str) -> Path:
    target = directory / name / version
    if not target.is_dir():
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest"]
        got = subprocess.run([*command, str(directory), f"{name}=={version}"], capture_output=True, text=True)
        if got.returncode:
            pytest.skip(f"pip cannot get {name}=={version}: {got.stderr.strip()[-300:]}")
        with zipfile.ZipFile(next(directory.glob(f"{name.replace('-', '_')}-{version}-*.whl"))) as archive:
            archive.extractall(target)
    return target


@REAL
@pytest.mark.parametrize(
    ("harness", "version", "system"),
    [
        ("openclaw", "2026.9.6", "c21621d6aa6d63295b31c600cbb3876dd8a79545e1f1c3aceb89855d03f9d3dd"),
        # The version whose system prompt is the one that the paper prints.
        ("openclaw", "2026.6.11", "78c24210d5ba3e2fbcb8b13289c2488d52f3d5317fe5bfc4055dfc126e4b8570"),
        ("pi", "1.5.0", "c464889dcfa60441e642f291445b49523f263e6fb2725d0c25075543a2ec3f8f"),
    ],
)
def test_real_node_packages(downloads: Path, tmp_path: Path, harness: str, version: str, system: str) -> None:
    package = fetch_node(downloads, HARNESSES[harness].package, version)
    imported = from_harness(HARNESSES[harness], package=package, python=None, cwd=tmp_path)
    origins = imported.template.provenance["parts"]
    assert imported.template.provenance["version"] == version
    assert [origins[part]["sha256"] for part in ("system", "first", "update")] == [system, PAPER_FIRST, UPDATE_TEXT]
    assert set(imported.extras) == {"split-turn", "branch"}
    assert not any("unresolved" in origin or "another_text_in" in origin for origin in origins.values())
    assert lint(imported.template) == ()
    write(imported, tmp_path / "t", force=False)
    assert load(tmp_path / "t") == imported.template


@REAL
def test_real_hermes(downloads: Path) -> None:
    template = hermes(fetch_python(downloads, "hermes-agent", "0.19.0")).template
    origins = template.provenance["parts"]
    assert {part: origin["sha256"] for part, origin in origins.items()} == {
        "first": "9162002e6d963e948e245a2f7236a8c275db7963f8139a7924947813844abad0",
        "update": "9381f5e45cac8214273dc71f6797607ec1a9945b2583842b3d481585c53a8f30",
    }
    assert {hole["expression"] for hole in origins["first"]["unresolved"]} == {
        "_memory_section",
        "_temporal_anchoring_rule",
    }
    assert [f for f in lint(template) if f.level == "error"] == []
