"""What is exported says in the harness's own language exactly what the template says, whatever that is."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest
from examples import examples
from hypothesis import example, given, strategies as st
from needs import needs

from recompact.errors import InputError
from recompact.harnesses.built_in import description
from recompact.harnesses.exporting import (
    Export,
    ExportFile,
    both_prompts,
    install,
    javascript_text,
    json_text,
    one_prompt,
    python_text,
    toml_text,
    write_export,
)
from recompact.harnesses.registry import HARNESSES, Harness, importable, load_harness
from recompact.values.template import Template, default_template

NODE = shutil.which("node")
HOSTILE = (
    "a \"quoted\" 'one' `tick` \"\"\"triple\"\"\" '''and''' ${code} $(sh) {brace} {{double}} {{ unknown }} {messages}"
    " {conversation_history} {addendums} {0} {% raw %} {# no #} {{ messages }} \\n \\u0041 \\ \t \r\n \x00 \x1b[0m"
    " \u202e \u2028 \u2029 \ufeff \U0001f600 \U000e0041 é </script> <!-- --> */ // # end\\"
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80) | st.sampled_from(
    [HOSTILE, "", "\n", '"""', "\\", "{", "}}", "{{", "{{{", "{%", "\r", "`", "${", "x" * 3000]
)


def hostile_templates() -> st.SearchStrategy[Template]:
    def made(system: str, lead: str, first: str, update: str, same: bool) -> Template:
        one = f"{lead}\n\n{{{{ history }}}}\n\n## A\n{first}"
        two = one if same else f"{lead}\n\n{{{{ history }}}}\n\n{{{{ previous_summary }}}}\n\n## A\n{update}"
        frame = "{{ history }}\n\n{{ previous_summary }}\n\n{{ instructions }}" if same else ""
        return Template(system, one, two, frame)

    return st.builds(made, TEXTS, TEXTS, TEXTS, TEXTS, st.booleans())


# -- literals --------------------------------------------------------------------------------------------------------


@given(TEXTS)
@example(HOSTILE)
@example("line\n" * 2500)
def test_a_literal_stands_for_exactly_its_text(text: str) -> None:
    assert ast.literal_eval(python_text(text)) == text
    assert tomllib.loads(f"x = {toml_text(text)}\n")["x"] == text
    assert json.loads(json_text(text)) == text
    for literal in (python_text(text), toml_text(text), json_text(text), javascript_text(text)):
        assert not {"\u202e", "\x1b", "\x00", "\ufeff"} & set(literal)  # nothing that hides or reorders


def javascript_values(expressions: list[str]) -> list[str]:
    script = f"process.stdout.write(JSON.stringify([{','.join(expressions)}]))"
    done = subprocess.run([str(NODE), "-"], input=script, capture_output=True, text=True, check=True)
    values: list[str] = json.loads(done.stdout)
    return values


@needs("node")
@examples(10)
@given(st.lists(TEXTS, min_size=20, max_size=40))
def test_a_literal_of_javascript_is_what_node_reads(texts: list[str]) -> None:
    texts = [*texts, HOSTILE]
    assert javascript_values([javascript_text(text) for text in texts]) == texts


# -- the exports of all harnesses ------------------------------------------------------------------------------------


def evaluated(source: str) -> dict[str, str]:
    """The constants of a Python module, without running it."""
    return {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id.isupper()
    }


def of_python(name: str, fields: dict[str, str] | None) -> Callable[[Export], str]:
    def sent(export: Export) -> str:
        text = evaluated(export.files[0].text)[name]
        return text if fields is None else text.format(**fields)

    return sent


def rendered(template: str) -> str:
    environment = jinja2.Environment(keep_trailing_newline=True, newline_sequence="\n")
    return environment.from_string(template).render(messages="HISTORY")


# How the text that the summarizer gets is read off an export; the conversation is HISTORY where it has a place in it.
SKILLS = ("claude-code-skill", "codex-skill")
SENT: dict[str, Callable[[Export], str]] = {
    "codex": lambda export: str(tomllib.loads(export.files[0].text)["compact_prompt"]),
    "langchain": of_python("SUMMARY_PROMPT", {"messages": "HISTORY"}),
    "deepagents": of_python("SUMMARY_PROMPT", {"messages": "HISTORY"}),
    "inspect": of_python("PROMPT", {"addendums": ""}),
    "adk": of_python("PROMPT_TEMPLATE", {"conversation_history": "HISTORY"}),
    "pydantic-ai": of_python("SUMMARY_PROMPT", {"messages": "HISTORY"}),
    "agent-framework": of_python("PROMPT", None),
    "strands": of_python("SYSTEM_PROMPT", None),
    "letta": lambda export: str(json.loads(export.files[0].text)["compaction_settings"]["prompt"]),
    "goose": lambda export: rendered(export.files[0].text),
    **dict.fromkeys(SKILLS, lambda export: export.files[-1].text.partition("\n")[2]),
    "anthropic": lambda export: str(json.loads(export.files[0].text)["context_management"]["edits"][0]["instructions"]),
}
PLUGINS = ("claude-code", "opencode", "openclaw", "hermes", "pi")
PLACED = ("langchain", "deepagents", "adk", "pydantic-ai", "goose")


def test_every_harness_is_covered_here() -> None:
    assert set(HARNESSES.names()) == {*SENT, *PLUGINS}
    harnesses = [load_harness(name) for name in HARNESSES.names()]
    assert [harness.name for harness in harnesses] == list(HARNESSES.names())


@pytest.mark.parametrize("name", SENT)
@examples(25)
@given(template=hostile_templates())
@example(
    template=Template(HOSTILE, f"{HOSTILE}\n{{{{ history }}}}", f"{HOSTILE}{{{{ history }}}}{{{{ previous_summary }}}}")
)
def test_one_prompt_arrives_as_it_was_written(name: str, template: Template) -> None:
    export = load_harness(name).export(template, 512)
    sent = SENT[name](export)
    newlines = (lambda text: text.replace("\r\n", "\n").replace("\r", "\n")) if name == "goose" else str
    where = "above" if name in ("codex", "inspect", "anthropic", *SKILLS) else "HISTORY" if name in PLACED else "below"
    with_system = name != "pydantic-ai"
    earlier = description(name)["prompt"]["earlier"]
    plain = one_prompt(template, 512, earlier=earlier, conversation=where, with_system=with_system)
    if name in ("inspect", "anthropic"):  # which add something at the end
        assert sent.rstrip().startswith(newlines(plain.text).rstrip())
    else:
        assert newlines(sent) == newlines(plain.text)
    if name in PLACED:
        assert "HISTORY" in sent


@pytest.mark.parametrize("name", ["pi", "openclaw", "opencode", "claude-code"])
@needs("node")
def test_plugins_are_modules_that_hold_the_texts(name: str, tmp_path: Path) -> None:
    template = Template(
        HOSTILE, f"{{{{ history }}}}\n\n{HOSTILE}\n## A\nb", f"{HOSTILE} {{{{ history }}}} {{{{ previous_summary }}}}"
    )
    export = load_harness(name).export(template, 512)
    [module] = [file for file in export.files if file.name.endswith(".js")]
    path = tmp_path / "plugin.mjs"
    path.write_text(module.text, encoding="utf-8")
    subprocess.run([str(NODE), "--check", str(path)], check=True, capture_output=True)
    head = "\n".join(line for line in module.text.split("\n") if not line.startswith(("import ", "export ")))
    constants, _, _ = head.partition("// Values go where")
    values = javascript_values(
        [f"(() => {{ {constants}; return {text}; }})()" for text in ("SYSTEM", "FIRST", "UPDATE")]
    )
    where: Any = {"opencode": "below", "claude-code": "above"}.get(name)
    prompts = both_prompts(template, 512, where)
    assert values == [prompts.system, prompts.first, prompts.update]


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_says_when_it_is_for(name: str) -> None:
    for file in load_harness(name).export(default_template(), 512).files:
        assert file.place.endswith(f"/skills/{file.name}")
        if file.name.endswith("SKILL.md"):
            _, head, _ = file.text.split("---\n", 2)
            about = dict(re.findall(r"(?ms)^(\w+): (.*?)\n(?=\w+: |\Z)", head))
            assert (about["name"], len(about["description"]) < 1024) == (file.name.split("/")[0], True)


def test_hermes_holds_the_texts() -> None:
    template = Template(HOSTILE, f"{{{{ history }}}}{HOSTILE}", f"{{{{ history }}}}{{{{ previous_summary }}}}{HOSTILE}")
    texts = evaluated(load_harness("hermes").export(template, 512).files[0].text)
    assert (texts["SYSTEM"], texts["FIRST"], texts["UPDATE"]) == (template.system, template.first, template.update)


@pytest.mark.parametrize("name", HARNESSES.names())
def test_a_template_of_a_megabyte_is_exported(name: str) -> None:
    long = 'A {line} with `marks` and "quotes".\n' * 30_000
    template = Template(
        "S", f"{{{{ history }}}}\n\n## A\n{long}", f"{{{{ history }}}}{{{{ previous_summary }}}}\n## A\n{long}"
    )
    export = load_harness(name).export(template, 512)
    assert sum(len(file.text) for file in export.files) > 1_000_000
    if name in SENT:
        assert long in SENT[name](export)


@pytest.mark.parametrize("name", HARNESSES.names())
def test_an_export_says_what_to_do_and_what_is_lost(name: str) -> None:
    export = load_harness(name).export(default_template(), 2000)
    assert export.steps
    assert export.checks
    assert export.traps
    assert any("{{ budget }} became 2000" in loss for loss in export.losses)
    assert any("one prompt" in loss for loss in export.losses) == (name not in PLUGINS)
    assert "above" not in " ".join(export.losses)  # where the conversation follows, the text was put right
    for file in export.files:
        if file.name.endswith(".json"):
            json.loads(file.text)
        elif file.name.endswith(".py"):
            compile(file.text, file.name, "exec")
        elif file.name.endswith(".toml"):
            tomllib.loads(file.text)


def test_one_prompt_keeps_both_cases_and_names_each_section_once() -> None:
    prompt = one_prompt(default_template(), 100, earlier="in a box", conversation="above").text
    assert prompt.count("## Goal\n") == 1
    assert "an earlier summary: in a box." in prompt
    assert "about to be removed" in prompt
    assert "carry over what still holds" in prompt
    assert "<conversation>" not in prompt
    assert "{{" not in prompt


def test_guidance_that_differs_is_told_for_both_cases() -> None:
    template = Template(
        "",
        "{{ history }}\n\nLead.\n## A\nfirst\n## B\nsame\n",
        "{{ history }}\n\n{{ previous_summary }}\n\nNew.\n## A\nlater\n## B\nsame\n",
    )
    text = one_prompt(template, 1, earlier="there", conversation="below").text
    assert text.endswith(
        "Lead.\n\nIf it does, that is the previous summary, the rest of the conversation is what has"
        " happened since, and this is what to do:\n\nNew.\n\n## A\nfirst\nIf there is an earlier"
        " summary:\nlater\n## B\nsame\n"
    )
    other = replace(template, update="{{ history }} {{ previous_summary }}\n## C\nz")
    text = one_prompt(other, 1, earlier="there", conversation="below").text
    assert "## A\nfirst\n## B\nsame" in text
    assert text.endswith("(the conversation below) (the previous summary)\n## C\nz")


def test_parts_that_differ_in_their_blocks_only_are_told_once() -> None:
    template = Template(
        "", "{{ history }}\n\nSum up.\n## A\na", "{{ history }}\n\n{{ previous_summary }}\n\nSum up.\n## A\na"
    )
    text = one_prompt(template, 1, earlier="there", conversation="above").text
    assert text == (
        "If the conversation above holds an earlier summary (there), what you write replaces that as well: carry over"
        " what still holds.\n\nSum up.\n\n## A\na"
    )


def test_a_text_that_speaks_of_above_is_put_right_or_reported() -> None:
    first = "{{ history }}\n\nThe conversation above ends. See above."
    prompt = one_prompt(Template("", first, first), 1, earlier="x", conversation="below")
    assert prompt.text == "The conversation below ends. See above."
    assert any('"above"' in loss for loss in prompt.losses)


def test_task_and_prefix_are_named_as_lost() -> None:
    template = Template("", "{{ history }} {{ task }} {{ prefix }}", "{{ history }} {{ previous_summary }}")
    losses = " ".join(one_prompt(template, 1, earlier="x", conversation="above").losses)
    assert "{{ task }} became" in losses
    assert "{{ prefix }} became" in losses


# -- in and out again ------------------------------------------------------------------------------------------------


def one_prompt_harnesses() -> Iterator[str]:
    """Harnesses of which the prompt in force is imported, and which take a whole prompt."""
    for name in importable():
        if name in SENT:
            yield name


def prompt_text(name: str) -> str:
    """A text that such a harness may have, as it writes it."""
    place = {
        "langchain": "{messages}",
        "pydantic-ai": "{messages}",
        "adk": "{conversation_history}",
        "goose": "{{ messages }}",
    }
    braces = '{{"a": 1}}' if name in ("langchain", "pydantic-ai", "adk", "inspect") else '{"a": 1}'
    tail = "{addendums}\n" if name == "inspect" else ""
    text = f"Summarize the conversation, as {braces}, for the one who goes on with it, exactly. {place.get(name, '')}\n"
    return text + tail


@pytest.mark.parametrize("name", sorted(one_prompt_harnesses()))
def test_what_was_imported_is_exported_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    from recompact.harnesses.importing import PromptConstants, PromptFile, from_package, from_settings

    harness = load_harness(name)
    written = prompt_text(name)
    if isinstance(harness.prompts, PromptFile):
        file = tmp_path / harness.prompts.names[0]
        file.write_text(f"compact_prompt = {json.dumps(written)}\n" if name == "codex" else written)
        template = from_settings(name, harness.prompts, tmp_path)
    else:
        assert isinstance(harness.prompts, PromptConstants)
        package = tmp_path / "source"
        sources: dict[str, str] = {}
        for part, (place, constant) in harness.prompts.constants.items():
            text = written if part == "first" else "You summarize conversations exactly."
            sources[place] = sources.get(place, "") + f"{constant} = {text!r}\n"
        for place, source in sources.items():
            (package / place).parent.mkdir(parents=True, exist_ok=True)
            (package / place).write_text(source)
        template = from_package(name, harness.prompts, package=package, python=None)
    export = harness.export(template, 512)
    constants = evaluated(export.files[0].text) if export.files[0].name.endswith(".py") else {}
    texts = [*constants.values()] or [SENT[name](export) if name == "codex" else export.files[0].text]
    assert written in texts
    assert template.first == template.update


# -- on disk ---------------------------------------------------------------------------------------------------------


def test_an_export_goes_to_its_own_directory_and_over_itself_only(tmp_path: Path) -> None:
    export = load_harness("claude-code").export(default_template(), 1)
    target = tmp_path / "out"
    assert all(path.is_file() for path in write_export(export, target))
    write_export(export, target)
    (target / "recompact-compaction" / "hooks" / "mine.js").write_text("x")
    with pytest.raises(InputError, match=r"mine\.js, which Recompact did not write"):
        write_export(export, target)
    (target / "recompact-compaction" / "hooks" / "mine.js").unlink()
    (target / "recompact-compaction" / "hooks" / "hooks.json").write_text("{}")
    with pytest.raises(InputError, match=r"hooks\.json was changed"):
        write_export(export, target)


def test_installing_never_loses_a_file(tmp_path: Path) -> None:
    place = tmp_path / "there" / "prompt.md"
    export = Export((ExportFile("prompt.md", "new", str(place)), ExportFile("snippet", "s")), ("do",), ("look",))
    assert install(export, force=False) == [(place, None)]
    assert install(export, force=False) == [(place, None)]  # the same bytes are no conflict
    place.write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        install(export, force=False)
    assert place.read_text() == "mine"
    [(_, aside)] = install(export, force=True)
    assert aside is not None
    assert aside.read_text() == "mine"
    assert place.read_text() == "new"
    place.unlink()
    place.symlink_to(aside)
    [(_, link)] = install(export, force=True)
    assert link is not None
    assert link.is_symlink()
    assert aside.read_text() == "mine"
    with pytest.raises(InputError, match="nothing to install"):
        install(replace(export, files=export.files[1:]), force=False)


RULE = "Never approve requests over 50\nwithout asking."


@pytest.mark.parametrize("name", sorted(HARNESSES.built_in))
def test_pins_go_where_a_harness_keeps_them_or_are_told_as_lost(name: str) -> None:
    harness = load_harness(name)
    plain, pinned = (harness.export_with(default_template(), 4096, pins) for pins in ((), (RULE, "Use tabs.")))
    assert plain == harness.export(default_template(), 4096)
    files = {file.name: file for file in pinned.files}
    if name in SKILLS:
        assert set(pinned.losses) > set(plain.losses)
        assert "pinned.md" not in files
        return
    assert files["pinned.md"].text.splitlines()[-2:] == [f"- {' '.join(RULE.split())}", "- Use tabs."]
    assert not files["pinned.md"].place  # it is added to a file of the user's, and replaces none
    assert [step for step in pinned.steps if step not in plain.steps] == [harness.pins]
    assert "pinned.md" in harness.pins


def test_a_harness_that_says_nothing_of_pins_loses_them() -> None:
    mine = Harness("mine", "Mine", lambda template, budget: Export((), (), ()))
    assert mine.export_with(default_template(), 1, [RULE]).losses
    assert mine.export_with(default_template(), 1, []).losses == ()
