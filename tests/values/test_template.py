"""Templates: parsing loses nothing, writing loses nothing, filling is one pass, and lint says what is wrong."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from recompact.adaptation.lock import broken_rules
from recompact.errors import InputError
from recompact.presentation.report.document import ChangedPart, prompt_change
from recompact.values.template import (
    BUILT_IN,
    PLACEHOLDERS,
    Template,
    TemplateError,
    default_template,
    fill,
    headings,
    lint,
    load,
    parse_sections,
    placeholders,
    read,
    render_sections,
    resolve,
    without_blocks,
)

# Pieces that a parser of Markdown could trip over, glued together in any order.
TRAPS = st.sampled_from(
    [
        *(
            "# A",
            "## Goal",
            "### Done ###",
            "####### seven",
            "#no space",
            "##\tTab",
            "   ## indented",
            "## C#",
            "## ",
            "===",
            "---",
            "- a\n---",
        ),
        *("```", "````", "~~~", "```python", "```inline```", "``` `", "   ```", "    ```"),
        *("\n", "\r\n", "\r", "\n\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"),
        *("{{ history }}", "{{history}}", "{{ nobody }}", "{", "}", "é", "\U0001f600", "\ufeff", " ", "\t", "text"),
    ]
)
TEXT = st.one_of(st.text(), st.lists(TRAPS, max_size=30).map("".join))

SYSTEM = "You keep the record."
FIRST = "{{ history }}\n## Goal\nthe aim\n## Next Steps\nwhat comes\n"
UPDATE = "{{ history }}{{ previous_summary }}\n## Goal\nthe aim\n## Next Steps\nwhat comes\n"
GOOD = Template(SYSTEM, FIRST, UPDATE)
FRAME = "<log>\n{{ history }}\n</log>\n\n<old>\n{{ previous_summary }}\n</old>\n\n{{ instructions }}"


@given(TEXT)
def test_sections_put_together_are_the_text(text: str) -> None:
    assert render_sections(parse_sections(text)) == text


@given(TEXT)
def test_every_section_but_the_first_has_a_heading(text: str) -> None:
    for section in parse_sections(text)[1:]:
        assert section.level
        assert section.heading.startswith("#") or section.heading.rstrip()[-1] in "=-"  # underlined


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## A\nx\n### B\ny", ("## A", "### B")),
        ("## A\r\nx\r\n## B\r\n", ("## A", "## B")),
        ("## A\rx\r## B", ("## A", "## B")),
        ("## Closed ##\n## C#\n##  Wide  \n", ("## Closed", "## C#", "## Wide")),
        ("```\n## in a fence\n```\n## out", ("## out",)),
        ("~~~~\n## in\n~~~\n## still in\n~~~~\n## out", ("## out",)),
        ("```code``` in a line\n## out", ("## out",)),
        ("x\x0c## no line of its own\n", ()),
        ("x\u2028## no line of its own\n", ()),
        ("#hashtag\n####### seven\n", ()),
    ],
)
def test_what_a_heading_is(text: str, expected: tuple[str, ...]) -> None:
    assert headings(text) == expected


@given(TEXT, TEXT, TEXT, TEXT)
def test_written_and_read_again_it_is_the_same_to_the_byte(system: str, first: str, update: str, frame: str) -> None:
    template = Template(system, first, update, frame, {"where": first})
    with tempfile.TemporaryDirectory() as directory:
        template.save(Path(directory) / "t")
        again = read(Path(directory) / "t")
        assert (Path(directory) / "t" / "first.md").read_bytes() == first.encode()
    assert again == template
    assert again.hash == template.hash
    assert again.provenance == template.provenance


def template_diff(before: Template, after: Template) -> tuple[ChangedPart, ...]:
    return prompt_change(("before", before), ("after", after)).parts


def test_an_old_frame_does_not_stay_behind(tmp_path: Path) -> None:
    Template("s", "a ## b", "c", FRAME, {"x": 1}).save(tmp_path)
    GOOD.save(tmp_path)
    assert load(tmp_path) == GOOD
    assert load(tmp_path).provenance == {}


@given(st.dictionaries(st.sampled_from(PLACEHOLDERS), TEXT), TEXT)
def test_a_value_is_never_filled_itself(values: dict[str, str], around: str) -> None:
    holes = "".join(f"{{{{ {name} }}}}|" for name in values)
    filled = fill(f"{holes}", values)
    assert filled == "".join(f"{value}|" for value in values.values())
    if not placeholders(around):
        assert fill(around, values) == around


def test_what_has_no_value_stays() -> None:
    assert fill("{{ history }} {{ nobody }} {{budget}}", {"history": "{{ budget }}"}) == (
        "{{ budget }} {{ nobody }} {{budget}}"
    )


def test_hash_is_of_the_texts_alone() -> None:
    assert GOOD.hash == "c4a59391d09f6a01a89f89174bba2c6ff11a7cb5c49dcc7184e0ee148741f768"
    assert replace(GOOD, provenance={"from": "elsewhere"}).hash == GOOD.hash
    others = [replace(GOOD, system="x"), replace(GOOD, first="x"), replace(GOOD, update="x"), replace(GOOD, frame="x")]
    assert len({t.hash for t in [GOOD, *others]}) == 5


def test_a_part_that_has_all_it_needs_is_sent_as_it_is() -> None:
    framed = replace(GOOD, frame=FRAME)
    assert framed.framed("first") == FIRST
    assert framed.framed("update") == UPDATE


def test_a_frame_shows_what_the_part_does_not_and_only_what_there_is() -> None:
    bare = Template(SYSTEM, "Sum up.", "Go on.", FRAME)
    assert bare.framed("first") == "<log>\n{{ history }}\n</log>\n\nSum up."
    assert bare.framed("update") == ("<log>\n{{ history }}\n</log>\n\n<old>\n{{ previous_summary }}\n</old>\n\nGo on.")
    half = Template(SYSTEM, "{{ history }}\nSum up.", "{{ history }}\nSum up.", FRAME)
    assert half.framed("first") == "{{ history }}\nSum up."
    assert half.framed("update") == "<old>\n{{ previous_summary }}\n</old>\n\n{{ history }}\nSum up."


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_block_at_either_end_of_a_frame_goes_with_its_blank_lines(end: str) -> None:
    frame = f"{{{{ history }}}}{end}{end}{{{{ instructions }}}}{end} {end}{{{{ previous_summary }}}}"
    assert Template("", "a", "b", frame).framed("first") == f"{{{{ history }}}}{end}{end}a"
    frame = f"{{{{ previous_summary }}}}{end}{end}{{{{ history }}}}{{{{ instructions }}}}"
    assert Template("", "a", "b", frame).framed("first") == "{{ history }}a"


@given(TEXT)
def test_a_frame_takes_the_part_in_unchanged(text: str) -> None:
    if not placeholders(text):
        assert Template("", text, text, FRAME).framed("update").endswith(f"\n\n{text}")


def test_the_default_template_is_clean() -> None:
    assert lint(default_template()) == ()


@pytest.mark.parametrize(
    ("template", "level", "file", "says"),
    [
        (replace(GOOD, first=""), "error", "first.md", "is empty"),
        (replace(GOOD, update=" \n"), "error", "update.md", "is empty"),
        (replace(GOOD, system=""), "warning", "system.md", "is empty"),
        (replace(GOOD, first="## Goal\nx"), "error", "first.md", "has no {{ history }}"),
        (replace(GOOD, update=FIRST), "error", "update.md", "has no {{ previous_summary }}"),
        (
            replace(GOOD, first=FIRST + "{{ hist }}"),
            "warning",
            "first.md",
            "has {{ hist }}, which is not a placeholder",
        ),
        (replace(GOOD, first=UPDATE), "warning", "first.md", "there is none before the first compaction"),
        (replace(GOOD, first=FIRST + "{messages}"), "warning", "first.md", "placeholder of another tool"),
        (replace(GOOD, first="{{ history }}"), "warning", "first.md", "has no headings"),
        (replace(GOOD, first=FIRST + "## Goal\nx"), "warning", "first.md", "'Goal' more than once"),
        (replace(GOOD, first=FIRST + "## Empty\n"), "warning", "first.md", "no guidance under 'Empty'"),
        (replace(GOOD, first=FIRST + "## More\nx"), "warning", "update.md", "other headings than first.md"),
        (
            replace(GOOD, first="{{ history }}\n## Next Steps\nx\n## Goal\ny"),
            "warning",
            "update.md",
            "other headings than first.md",
        ),
        (replace(GOOD, frame="{{ history }}"), "error", "frame.md", "has no {{ instructions }}"),
        (replace(GOOD, frame=FRAME + "{{ what }}"), "warning", "frame.md", "has {{ what }}"),
        (
            replace(GOOD, frame="{{ history }}{{ previous_summary }}\n\n{{ instructions }}"),
            "error",
            "frame.md",
            "{{ previous_summary }} and {{ history }} in one block",
        ),
    ],
)
def test_lint_says_what_is_wrong_and_what_to_do(template: Template, level: str, file: str, says: str) -> None:
    assert lint(GOOD) == ()
    [finding] = [f for f in lint(template) if says in f.message and f.file == file]
    assert finding.level == level
    assert finding.fix
    assert str(finding) == f"{file} {finding.message}: {finding.fix}"


def test_errors_come_before_warnings_and_odd_provenance_is_no_matter() -> None:
    template = Template("", "", "{{ x }}", provenance={"parts": [{"first": 3}]})
    assert [f.level for f in lint(template)] == sorted(f.level for f in lint(template))


def test_a_heading_over_subheadings_needs_no_guidance() -> None:
    text = "\n## Progress\n### Done\nx\n"
    assert lint(Template(SYSTEM, "{{ history }}" + text, "{{ history }}{{ previous_summary }}" + text)) == ()


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("first.md", None, "first.md is missing"),
        ("first.md", b"\xff", "is not UTF-8 text"),
        ("first.md", b"## Goal\nx", "add it here or in frame.md"),
        ("provenance.json", b"{", "is not valid JSON"),
        ("provenance.json", b"[1]", "must hold a JSON object"),
    ],
)
def test_a_bad_directory_is_refused_by_file(tmp_path: Path, file: str, content: bytes | None, says: str) -> None:
    GOOD.save(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError) as refused:
        load(tmp_path)
    assert says in str(refused.value)
    assert str(tmp_path / file) in str(refused.value)


def test_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="nowhere"):
        load(tmp_path / "nowhere")


def test_diff_of_equal_templates_is_nothing() -> None:
    assert template_diff(GOOD, replace(GOOD, provenance={"x": 1})) == ()


def test_diff_names_the_section_that_changed() -> None:
    [part] = template_diff(GOOD, replace(GOOD, first=FIRST.replace("the aim", "the aim, in one line")))
    assert (part.part, part.structure) == ("first", ())
    [change] = part.changes
    assert (change.heading, change.before) == ("## Goal", "## Goal\nthe aim\n")
    assert change.after == "## Goal\nthe aim, in one line\n"


def test_diff_tells_structure_from_guidance() -> None:
    [part] = template_diff(GOOD, replace(GOOD, first="{{ history }}{{ budget }}\n## Goal\nthe aim\n## Blocked\nwhat\n"))
    assert part.structure
    assert part.placeholders == (("history",), ("history", "budget"))
    assert part.headings == (("## Goal", "## Next Steps"), ("## Goal", "## Blocked"))
    assert [(c.heading, c.before is None, c.after is None) for c in part.changes] == [
        ("", False, False),
        ("## Next Steps", False, True),
        ("## Blocked", True, False),
    ]


@given(TEXT, TEXT)
def test_diff_is_empty_only_for_equal_texts(a: str, b: str) -> None:
    parts = template_diff(replace(GOOD, first=a), replace(GOOD, first=b))
    assert bool(parts) == (a != b)
    assert all(part.changes for part in parts)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_template_is_without_a_defect_and_can_be_locked(name: str, tmp_path: Path) -> None:
    template = resolve(name, tmp_path)
    assert not lint(template)
    assert headings(template.first) == headings(template.update)
    assert "budget" in placeholders(template.first)
    revised = replace(template, first=template.first.replace("\n\n## ", "\nKeep every number.\n\n## ", 2))
    assert revised != template
    assert not broken_rules(template, revised)
    heading = next(line for line in template.first.splitlines(keepends=True) if line.startswith("## "))
    for lost in filter(template.update.__contains__, (heading, "{{ budget }}", "- **")):
        assert broken_rules(template, replace(template, update=template.update.replace(lost, "")))


def test_built_in_templates_are_four_texts_with_the_sections_that_their_names_promise(tmp_path: Path) -> None:
    built_in = {name: resolve(name, tmp_path) for name in BUILT_IN}
    assert len({template.hash for template in built_in.values()}) == 4
    assert headings(built_in["checkpoint"].first) == headings(built_in["default"].first)
    assert len(headings(built_in["structured"].first)) == 13


def test_a_directory_of_that_name_is_meant_by_its_path(tmp_path: Path) -> None:
    GOOD.save(tmp_path / "checkpoint")
    assert resolve("./checkpoint", tmp_path) == GOOD
    assert resolve("checkpoint", tmp_path) != GOOD
    with pytest.raises(TemplateError, match="default, checkpoint, structured, observation"):
        resolve("chekpoint", tmp_path)


@pytest.mark.parametrize(
    ("template", "defects"),
    [
        (
            Template("", "", ""),
            [
                "error: first.md is empty: write the prompt there",
                "error: update.md is empty: write the prompt there",
                "warning: system.md is empty: say what the compressor is, unless your harness sends none",
            ],
        ),
        (
            Template("{{ odd }}", FIRST, UPDATE),
            [
                "warning: system.md has {{ odd }}, which is not a placeholder and stays as it is: use one of history,"
                " previous_summary, task, prefix, budget, or take it out"
            ],
        ),
        (
            replace(GOOD, first=FIRST + "{existing_summary} {history} {{history}}"),
            [
                "warning: first.md has {existing_summary}, the placeholder of another tool, which stays as it is:"
                " write {{ previous_summary }}",
                "warning: first.md has {history}, the placeholder of another tool, which stays as it is:"
                " write {{ history }}",
            ],
        ),
        (
            Template(SYSTEM, "{{ history }}", "{{ history }} {{ previous_summary }}\n## A\n"),
            [
                "warning: first.md has no headings, so its guidance cannot be adapted section by section: ask for the"
                " summary under headings such as ## Goal",
                "warning: update.md has no guidance under 'A': say there what the section should hold",
            ],
        ),
        (
            Template(SYSTEM, "Sum up.\n## A\nx", "Sum up.\n## A\nx", FRAME),
            [],
        ),
        (
            Template(SYSTEM, "Sum up.\n## A\nx", "Sum up.\n## A\nx", "{{ history }}\n\n{{ instructions }}"),
            [
                "error: update.md has no {{ previous_summary }}, so the compressor would not see it: add it here or in"
                " frame.md"
            ],
        ),
        (
            replace(GOOD, frame="{{ previous_summary }} {{ instructions }}"),
            [
                "error: frame.md has {{ previous_summary }} and {{ instructions }} in one block, which first would"
                " lose: put a blank line between them"
            ],
        ),
        (
            replace(GOOD, frame="{{ history }} {{ instructions }}"),
            [],
        ),
        (
            replace(
                GOOD, first=FIRST + "### Goal\nthe same title, but a level below\n", update=UPDATE + "### Goal\nx\n"
            ),
            [],
        ),
    ],
)
def test_everything_that_is_wrong_is_told_and_nothing_else(template: Template, defects: list[str]) -> None:
    assert [f"{defect.level}: {defect}" for defect in lint(template)] == defects


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\n\nb\n\nc", "a\n\nb\n\nc"),
        ("x\n\nb\n\nc", "b\n\nc"),
        ("a\n\nx\n\nc", "a\n\nc"),
        ("a\n\nb\n\nx", "a\n\nb"),
        ("a\n\nx\n\nx", "a"),
        ("x", ""),
        ("x\n\nx", ""),
        ("a\n \n\t\nx\nb", "a\n \n\t\nx\nb"),
    ],
)
def test_unwanted_blocks_go_with_the_blank_lines_after_them(text: str, kept: str) -> None:
    assert without_blocks(text, lambda block: block == "x") == kept


def test_a_change_of_placeholders_alone_is_one_of_structure() -> None:
    (part,) = template_diff(GOOD, replace(GOOD, first=FIRST.replace("the aim", "{{ task }}")))
    assert part.structure
    assert part.headings[0] == part.headings[1]
    (part,) = template_diff(GOOD, replace(GOOD, first=FIRST.replace("## Goal", "## Aim")))
    assert part.structure
    assert part.placeholders[0] == part.placeholders[1]
    parts = template_diff(GOOD, Template("x", "y", "z", "f"))
    assert [each.part for each in parts] == ["system", "first", "update", "frame"]


def test_a_saved_template_has_only_the_files_that_it_needs(tmp_path: Path) -> None:
    Template("", FIRST, UPDATE).save(tmp_path / "plain")
    assert {path.name for path in (tmp_path / "plain").iterdir()} == {
        *("system.md", "first.md", "update.md", "manifest.json")
    }
    Template("", FIRST, UPDATE, FRAME, {"from": "ä"}).save(tmp_path / "framed")
    assert (tmp_path / "framed" / "frame.md").read_text() == FRAME
    assert (tmp_path / "framed" / "provenance.json").read_text(encoding="utf-8") == '{\n  "from": "ä"\n}\n'
    (tmp_path / "plain" / "system.md").unlink()
    assert read(tmp_path / "plain").system == ""


def test_a_section_knows_its_heading_as_written_and_in_its_normal_form() -> None:
    before, goal = parse_sections("intro\n##  Goal ##\nthe aim")
    assert (before.heading, before.level, before.title, before.name, before.text) == ("", 0, "", "", "intro\n")
    assert (goal.heading, goal.level, goal.title, goal.name) == ("##  Goal ##\n", 2, "Goal", "## Goal")
    assert goal.text == "##  Goal ##\nthe aim"
    (empty,) = parse_sections("")
    assert (empty.level, empty.text) == (0, "")
    assert len(parse_sections("## A\n## B\n")) == 2
    assert GOOD.parts() == {"system": SYSTEM, "first": FIRST, "update": UPDATE, "frame": ""}


def test_the_placeholder_of_the_papers_prompts_is_read() -> None:
    """Their update prompt has the previous summary under another name; nothing else about them has to be changed."""
    printed = Template("s", "{{ history }}", "<old>\n{{ prev_summary }}\n</old>\n{{ history }}")
    assert not [defect for defect in lint(printed) if defect.level == "error"]
    assert placeholders(printed.update) == ("previous_summary", "history")
    assert fill(printed.update, {"history": "H", "previous_summary": "S"}) == "<old>\nS\n</old>\nH"
    assert printed.framed("update") == printed.update
