"""Prompts are found in made-up packages of the shapes that real ones have; the real ones are an opt-in test.

No prompt text of a real harness stands here: the made-up ones only have the same build, and of the real ones only
hashes are known.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from harness_prompts import prompts_of
from hypothesis import given, strategies as st

from recompact.errors import InputError
from recompact.harnesses.importing import javascript, python
from recompact.harnesses.importing.packages import PromptPackage
from recompact.harnesses.importing.recognition import role_of
from recompact.harnesses.importing.template_import import ImportedTemplate, from_package, write
from recompact.harnesses.importing.texts import Hole
from recompact.harnesses.registry import load_harness
from recompact.values.template import PARTS, fill, lint, load

SYSTEM = "You are the one who summarizes. Read the conversation, keep to the format, and add nothing of your own to it."
SECTIONS = "## Goal\nthe aim\n\n## Progress\n### Done\n- [x] it\n\n## Key Decisions\n- why\n\n## Next Steps\n1. go on\n"
FIRST = f"Here is a talk to summarize for a colleague who has not seen it.\n\n{SECTIONS}\nShort, please."
UPDATE = f"Here is more talk. Bring the existing summary up to date with it, and drop nothing.\n\n{SECTIONS}"
SPLIT = "This is only the head of a turn. Summarize it so that its tail makes sense.\n\n## Original Request\nit\n"
BRANCH = f"Summarize this branch of the talk, for the day on which somebody comes back to it.\n\n{SECTIONS}"
PROMPTS = {"system": SYSTEM, "first": FIRST, "update": UPDATE, "split-turn": SPLIT, "branch": BRANCH}


def template_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${").replace("\r", "\\r")
    return f"`{escaped}`"


def node_package(root: Path, files: dict[str, str]) -> Path:
    package = root / "node_modules" / "openclaw"
    for file, content in {"package.json": '{"name": "openclaw", "version": "1.2.3"}', **files}.items():
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_bytes(content.encode())
    return package


def openclaw(package: Path) -> ImportedTemplate:
    return from_package(prompts_of("openclaw"), package=package, python=None, cwd=package)


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
    parts = {part: imported.template.part(part) for part in PARTS}
    assert {**parts, **imported.extras} == PROMPTS
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
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert set(one) == {f"{name}.md" for name in (*PROMPTS, "frame")} | {"provenance.json", "manifest.json"}
    assert one["split-turn.md"] == SPLIT.encode()
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


LONG = "This speaks of a summary and is so long that nobody could mistake it for a message in a log file."


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("`L\\n\\`x\\` \\${y} $z \\u00e9 \\x41 \\u{1F600} \\\\ \\\nend`", "L\n`x` ${y} $z é A \U0001f600 \\ end"),
        (r"'L it\'s \"so\"\t\0'", 'L it\'s "so"\t\0'),
        (r'"L \ud83d\ude00 \ud83d."', "L \U0001f600 \ufffd."),
        ("`L a\r\nb\rc`", "L a\nb\nc"),
        ('"L " + /* and */ "more " + // and\n \'still\'', "L more still"),
        ("`\n L. `.trim()", "L."),
        ('("L " + "more")', "L more"),
        ("`L é\u2028`", "L é\u2028"),
    ],
)
def test_literals_are_read_as_an_engine_would(literal: str, value: str) -> None:
    [(name, pieces)] = js(f"const P = {literal.replace('L', LONG, 1)};")
    assert name == "P"
    assert "".join(map(str, pieces)) == value.replace("L", LONG, 1)


@given(st.text(), st.booleans())
def test_any_text_survives_its_literal(text: str, ascii_only: bool) -> None:
    text = LONG + text
    quoted = json.dumps(text, ensure_ascii=ascii_only)
    assert js(f"a={quoted};") == [("a", (text,))]
    assert js(f"a={template_literal(text)};") == [("a", (text,))]


def test_constants_are_put_in_and_the_rest_is_said() -> None:
    source = f"const TAIL = 'the tail', P = `{LONG}${{TAIL}} ${{ now() }} ${{lost}}` + TAIL + f(1) + (a ? b : c);"
    [(_, pieces)] = js(source)
    assert [p if isinstance(p, str) else (p.source, p.text) for p in pieces] == [
        LONG,
        *("the tail", " ", ("now()", "${now()}"), " ", ("lost", "${lost}"), "the tail"),
        *(("f(1)", "${f(1)}"), ("(a ? b : c)", "${(a ? b : c)}")),
    ]


@pytest.mark.parametrize("more", ["x='two';", "x+='two';", "function f(x=1){}"])
def test_a_name_with_two_meanings_is_not_guessed(more: str) -> None:
    [(_, pieces)] = js(f"var x='one';{more}p=`{LONG}${{x}}${{p}}`;")
    assert pieces == (LONG, Hole("x", "${x}"), Hole("p", "${p}"))


@pytest.mark.parametrize(
    "literal", [f"`{LONG}`.replace(/a/g, b)", f"tag`{LONG}`", f"`{LONG}", f"`{LONG}${{", f"'{LONG}\n'"]
)
def test_what_is_not_a_plain_text_is_not_taken_for_one(literal: str) -> None:
    assert [p for _, pieces in js(f"const P = {literal};") for p in pieces if isinstance(p, str)] == []


def test_a_text_that_is_extended_later_is_noted() -> None:
    [text] = javascript.texts(f"let p=`{LONG}`;if(x){{p+=y}}".encode())
    assert "may append to `p`" in text.notes[0]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(
    "literal",
    [
        rf"`{LONG}\n\t\v\0\x7f\u00e9\u{{1f600}}\'\"\a\`\${{x}}$${{'in'}}`",
        f"'{LONG}\\\n\\ud83d\\ude00' + `a${{'b' + `c${{'}}'}}`}}`",
        json.dumps(LONG + "é\u2029\U0001f600"),
    ],
)
def test_literals_against_node(literal: str) -> None:
    output = subprocess.run(["node", "-p", f"JSON.stringify({literal})"], capture_output=True, check=True)
    [(_, pieces)] = js(f"p={literal};")
    assert "".join(map(str, pieces)) == json.loads(output.stdout)


HERMES = '''
HEADING = "## Goal"
_RULE = ("Write it "
         "short.")

class Compressor:
    def _generate_summary(self, turns, focus=None):
        content_to_summarize = self.serialize(turns)
        summary_budget = 7
        memory = "MEMORY" + turns[0] if turns else ""
        if focus:
            anchor = f"today is {focus}"
        else:
            anchor = ""
        preamble = (
            "You write a summary for the one who goes on with the work; "
            "é is a letter."
        )
        sections = f"""{HEADING}
what is wanted
## Progress
what was done{anchor}
## Next Steps
what comes, in {summary_budget} tokens and {{braces}}. {_RULE}"""
        if self._previous_summary:
            prompt = f"""{preamble}
OLD: {self._previous_summary}
NEW: {content_to_summarize}{memory}

{sections}"""
        else:
            prompt = f"""{preamble}
TURNS: {content_to_summarize}{memory}

{sections}{focus.upper()}"""
        if focus:
            prompt += "more"
        return prompt

    def fallback(self, turns):
        body = f"""{HEADING}
No summary could be had, so this is all there is of it: {turns}
## Progress
none that is known
## Next Steps
look again"""
'''
HERMES_SECTIONS = (
    "## Goal\nwhat is wanted\n## Progress\nwhat was done\n## Next Steps\n"
    "what comes, in {{ budget }} tokens and {braces}. Write it short."
)
PREAMBLE = "You write a summary for the one who goes on with the work; é is a letter."


def hermes(package: Path) -> ImportedTemplate:
    return from_package(prompts_of("hermes"), package=package, python=None, cwd=package)


def test_a_prompt_that_python_puts_together_is_put_together(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "hermes-agent"\nversion = "3.2"\n')
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "c.py").write_text(HERMES, encoding="utf-8")
    template = hermes(tmp_path).template
    assert template.first == f"{PREAMBLE}\nTURNS: {{{{ history }}}}\n\n{HERMES_SECTIONS}{{focus.upper()}}"
    assert template.update == (
        f"{PREAMBLE}\nOLD: {{{{ previous_summary }}}}\nNEW: {{{{ history }}}}\n\n{HERMES_SECTIONS}"
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
    data = (tmp_path / origin["file"]).read_bytes()
    assert data[origin["offset"] :].startswith(b'f"""{preamble}\nTURNS')
    assert [f.level for f in lint(template)].count("error") == 0


@pytest.mark.parametrize(
    ("source", "pieces"),
    [
        (f'P = """{LONG}\nx"""', [f"{LONG}\nx"]),
        (f'P = ("{LONG}" "é"\n  "\\x41")', [f"{LONG}éA"]),
        (f'P: str = "{LONG}" + "b"', [LONG, "b"]),
        (f'import textwrap\nP = textwrap.dedent("""\n  {LONG}\n  b""").strip()', [f"{LONG}\nb"]),
        (f'X = "x"\nclass C:\n  X = "y"\n  def f(self):\n    P = f"{LONG}{{X}}"', [LONG, "x"]),
        (f'def f(X):\n  P = f"{LONG}{{X}}"', [LONG, "{X}"]),
        (f'for X in "ab":\n  P = f"{LONG}{{X}}"', [LONG, "{X}"]),
        (f'X = "x"\nP = f"{LONG}{{X!r}}{{X:>3}}"', [LONG, "{X!r}", "{X:>3}"]),
        (f'P = f"{LONG}{{P}}"', [LONG, "{P}"]),
        (f'P = "{LONG}".format(x)', []),
        (f'def ( P = "{LONG}"', []),
    ],
)
def test_python_texts(source: str, pieces: list[str]) -> None:
    matches = [text for text in python.texts(source.encode()) if text.constant == "P"]
    assert [p if isinstance(p, str) else p.text for text in matches for p in text.pieces] == pieces


def test_prompts_that_are_not_recognised_are_said_to_be_missing(tmp_path: Path) -> None:
    package = node_package(tmp_path, {"dist/b.mjs": f"const SUMMARIZATION_PROMPT={template_literal(FIRST)};"})
    with pytest.raises(InputError) as refused:
        openclaw(package)
    for words in ("system, update were not recognised", "openclaw 1.2.3", "1 file", "dist/b.mjs", "--first FILE"):
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
    matches = role_of(text, constant)
    assert (matches[0] if matches else None) == role


# The real packages: `make test-harnesses`.
REAL = pytest.mark.skipif(
    os.environ.get("RECOMPACT_TEST_HARNESSES") != "1", reason="downloads packages; run by make test-harnesses"
)
PAPER_FIRST = "9b00aa68df1a64279bc36e9093367f638701d48ec82e3d08436f65092a515f9b"  # as the paper prints it
UPDATE_TEXT = "240c52982209146eae47d73c7172f6ba1dab60f44520bcb6a6ec1a883fef2ec7"
OLDER_PI = "0.73.1"
NPM = ["npm", "pack", "--ignore-scripts", "--pack-destination"]
PIP = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest"]


def downloaded(harness: str, version: str, scratch: Path, prompts: PromptPackage | None = None) -> Path:
    """The package alone, unpacked: its dependencies hold none of its prompts, and no script of it is run."""
    target = Path(os.environ.get("RECOMPACT_HARNESS_DIR") or scratch).resolve() / harness / version
    if not (target / "package").is_dir():
        target.mkdir(parents=True, exist_ok=True)
        prompts = prompts or prompts_of(harness)
        name, node_wanted = prompts.package, prompts.language == "javascript"
        command = [*NPM, str(target), f"{name}@{version}"] if node_wanted else [*PIP, str(target), f"{name}=={version}"]
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        got = subprocess.run(command, capture_output=True, text=True, cwd=target)
        if got.returncode:
            pytest.skip(f"{command[0]} cannot get {name} {version}: {got.stderr.strip()[-300:]}")
        [archive] = [file for file in target.iterdir() if file.suffix in (".tgz", ".whl")]
        if archive.suffix == ".tgz":  # everything in it stands below package/
            with tarfile.open(archive) as opened:
                opened.extractall(target, filter="data")
        else:
            shutil.unpack_archive(archive, target / "package", "zip")
    return target / "package"


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
def test_real_node_packages(tmp_path: Path, harness: str, version: str, system: str) -> None:
    package = downloaded(harness, version, tmp_path)
    imported = from_package(prompts_of(harness), package=package, python=None, cwd=tmp_path)
    origins = imported.template.provenance["parts"]
    assert [origins[part]["sha256"] for part in ("system", "first", "update")] == [system, PAPER_FIRST, UPDATE_TEXT]
    assert set(imported.extras) == {"split-turn", "branch"}
    assert not any("unresolved" in origin or "another_text_in" in origin for origin in origins.values())
    assert lint(imported.template) == ()
    write(imported, tmp_path / "t", force=False)
    assert load(tmp_path / "t") == imported.template


@REAL
def test_pi_under_its_older_name(tmp_path: Path) -> None:
    prompts = prompts_of("pi")
    older = replace(prompts, packages=prompts.packages[1:])
    package = downloaded("pi", OLDER_PI, tmp_path, older)
    imported = from_package(prompts, package=package, python=None, cwd=tmp_path)
    assert imported.template.provenance["package"] == "@mariozechner/pi-coding-agent"
    assert [f for f in lint(imported.template) if f.level == "error"] == []


@REAL
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("langchain", "1.4.7"),
        ("inspect", "0.3.285"),
        ("pydantic-ai", "0.62.0"),
        ("adk", "2.13.0"),
        ("strands", "1.62.0"),
        ("agent-framework", "1.23.0"),
    ],
)
def test_a_real_prompt_is_exported_as_it_was_imported(name: str, version: str, tmp_path: Path) -> None:
    package, prompts = downloaded(name, version, tmp_path), prompts_of(name)
    template = from_package(prompts, package=package, python=None, cwd=tmp_path).template
    assert [f for f in lint(template) if f.level == "error"] == []
    module = load_harness(name).export(template, 512).files[0].text
    texts = [text for text in constants(module) if isinstance(text, str)]
    for constant in prompts.constants:
        source = (package / constant.file).read_text(encoding="utf-8")
        assert value_of(source, constant.name) in texts


def constants(source: str) -> list[object]:
    values = [node.value for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    return [ast.literal_eval(value) for value in values]


def value_of(source: str, name: str) -> object:
    """What a package binds to a name: a literal, which may be dedented."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = node.value
        if isinstance(target, ast.Name) and target.id == name and value is not None:
            return dedent(ast.literal_eval(value.args[0])) if isinstance(value, ast.Call) else ast.literal_eval(value)
    raise AssertionError(f"{name} is not there")


@REAL
def test_real_hermes(tmp_path: Path) -> None:
    template = hermes(downloaded("hermes", "0.19.0", tmp_path)).template
    origins = template.provenance["parts"]
    assert [origins[part]["sha256"] for part in ("first", "update")] == [
        "9162002e6d963e948e245a2f7236a8c275db7963f8139a7924947813844abad0",
        "9381f5e45cac8214273dc71f6797607ec1a9945b2583842b3d481585c53a8f30",
    ]
    unresolved = {hole["expression"] for hole in origins["first"]["unresolved"]}
    assert unresolved == {"_memory_section", "_temporal_anchoring_rule"}
    assert [f for f in lint(template) if f.level == "error"] == []
