"""The page as text: what stands on it, in which order, and that nothing on it is markup but our own."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from report_support import (
    ALL_HOSTILE,
    HOSTILE,
    Page,
    adapted_template,
    make_evaluation,
    make_verified,
    render_undrawn,
)

from recompact.engine.store.runs import overview
from recompact.engine.store.store import Store
from recompact.presentation.report.content.overview import overview_notes
from recompact.presentation.report.content.report import Report, read_report
from recompact.presentation.report.figures.drawing import inline_drawing
from recompact.presentation.report.html.page import render
from recompact.values.template import Template, default_template
from recompact.values.texts import visible

OURS = frozenset(
    re.findall(
        r"\w+",
        "html head meta link title style body header nav main section article h1 h2 h3 h4 p div span a b strong code"
        " pre q mark ins del br ul ol li dl dt dd table caption thead tbody tr th td details summary figure figcaption",
    )
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    home = tmp_path_factory.mktemp("page")
    runs = make_evaluation(home / "evaluation.db"), make_verified(home / "verified.db", ["all is well", "more"])
    return read_report([str(run) for run in runs], home, date="2026-03-01")


@pytest.fixture(scope="module")
def html(report: Report) -> str:
    return render(report)


def drawn_out(html: str) -> str:
    """Without the drawings, which have tags of their own."""
    return re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL)


def test_the_parts_stand_in_their_order(html: str) -> None:
    page = Page(drawn_out(html))
    found = [
        attributes["aria-labelledby"]
        for tag, attributes in page.tags
        if tag == "section" and "aria-labelledby" in attributes
    ]
    assert found == ["answer", "arms", "figures", "boundaries", "prompt", "made"]
    for words in ("Simulated models.", "What compaction costs", "What the adapted prompt changes", "Read with care"):
        assert words in page.text
    assert "2 of 2 boundaries were retained" in page.text
    assert "one task is 12 points of Pass^2" in page.text


def test_headings_go_down_one_step_at_a_time(html: str) -> None:
    levels = [int(tag[1]) for tag, _ in Page(html).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_it_is_labelled_and_its_anchors_lead_somewhere(html: str) -> None:
    page = Page(html)
    assert page.of("html") == [{"lang": "en"}]
    assert len(page.ids) == len(set(page.ids))
    assert page.of("a")
    assert all(attributes["href"].removeprefix("#") in page.ids for attributes in page.of("a"))
    labels = [attributes["aria-labelledby"] for _, attributes in page.tags if "aria-labelledby" in attributes]
    assert set(labels) <= set(page.ids)
    assert len(page.of("caption")) == len(page.of("table")) > 5
    assert all(attributes.get("scope") in ("col", "row") for attributes in page.of("th"))
    regions = [a for _, a in page.tags if a.get("class", "").startswith("scroll")]
    assert regions
    assert all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-labelledby"] for a in regions)


def test_it_needs_nothing_and_may_run_nothing(html: str) -> None:
    page = Page(html)
    assert not {"script", "img", "iframe", "object", "form", "base"} & {tag for tag, _ in page.tags}
    assert [a["href"] for a in page.of("link")] == ["data:,"]
    policy = next(a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "script" not in policy
    assert "unsafe" not in policy
    assert not any("style" in attributes for _, attributes in page.tags)
    assert "http://www.w3.org" in html  # the namespace of drawings, which nobody fetches
    assert not re.search(r"(?:src|href)=\"(?!#|data:,\")", html)
    assert not re.search(r"url\((?!#)|@import", html)


def test_a_suite_that_changed_under_way_stands_at_the_top(tmp_path: Path) -> None:
    path = make_verified(tmp_path / "verified.db")
    change = {"changed": ["mine.py", "rules.py"], "before": {}, "after": {}, "finished": 1}
    with Store.open(path) as store:
        store.set_metadata(replace(store.metadata, suite_changes=(change,)))
    html = render_undrawn(read_report([str(path)], tmp_path))
    head = html[: html.index("</header>")]
    assert "The suite changed after 1 unit of work (mine.py, rules.py)" in head
    with Store.read(path) as store:
        (note,) = [note for note in overview_notes([overview(store)]) if "suite" in note]
    assert "1 change of its suite" in note


def test_the_same_records_give_the_same_page(report: Report, html: str) -> None:
    assert render(report) == html


# --- hostile texts


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    home = tmp_path_factory.mktemp("hostile")
    own, other = default_template(), adapted_template()
    bad = Template(other.system, f"{other.first}\n{visible(ALL_HOSTILE)}\n", other.update)
    own.save(home / "before")
    bad.save(home / "after")
    evaluation = make_evaluation(home / "evaluation.db", names=[HOSTILE[0], HOSTILE[6]], tasks=HOSTILE[:-1])
    verified = make_verified(home / "verified.db", [*HOSTILE, ALL_HOSTILE, "x" * 100_000, "a\n" * 5000])
    prompt = home / "before", home / "after"
    runs = [str(evaluation), str(verified)]
    return render(read_report(runs, home, prompt=prompt, title=f"Title {ALL_HOSTILE}", top=20))


def test_nothing_that_was_written_by_others_becomes_markup(hostile: str) -> None:
    page = Page(drawn_out(hostile))
    assert {tag for tag, _ in page.tags} <= OURS
    names = {name for _, attributes in page.tags for name in attributes}
    assert not any(name.startswith("on") for name in names)
    assert "style" not in names
    assert not any("javascript:" in value for _, a in page.tags for name, value in a.items() if name == "href")
    for text in HOSTILE[:7]:
        assert text in page.text
    assert "49" not in re.findall(r"\{\{ 7 \* 7 \}\}|(?<!\d)49(?!\d)", page.text)


def test_what_is_not_seen_is_shown(hostile: str) -> None:
    hidden = re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]", hostile)
    assert hidden == []
    for mark in ("null ␀ bell ␇ escape ␛[31m next line ⟨U+0085⟩", "⟨U+202E⟩gnp.exe⟨U+202C⟩", "half ⟨U+D800⟩"):
        assert mark in hostile
    hostile.encode("utf-8")  # no half characters are left


def test_long_texts_are_cut_with_a_mark(hostile: str) -> None:
    assert len(hostile) < 2_500_000
    assert max(map(len, re.findall("x+", hostile))) < 7000
    assert re.search(r"\[…9\d,\d{3} more characters\]", hostile)


def test_visible_keeps_lines_and_letters() -> None:
    assert visible("a\tb\r\nc\rd é 漢 👩‍🚀 می‌خواهم") == "a\tb\nc␍d é 漢 👩‍🚀 می‌خواهم"


# --- drawings


def test_a_drawing_keeps_shapes_and_nothing_else() -> None:
    text = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 200 100"
      onload="alert(1)" height="100pt"><style>* { display: none }</style><script>alert(1)</script><defs>
      <clipPath id="p"><rect width="3" height="3"/></clipPath></defs><metadata>who</metadata>
      <g id="g" clip-path="url(#p)"><use xlink:href="#p"/><use href="http://evil.example/x.svg#p"/></g>
      <path d="M 0 0" style="fill: url(http://evil.example/)"/><foreignObject><p>hi</p></foreignObject>
      <a href="javascript:alert(1)"><text>&lt;script&gt;</text></a></svg>"""
    made = inline_drawing(text, "figure-2", "what it is")
    for word in ("script>", "evil", "javascript", "onload", "style", "foreignObject", "metadata", "<a "):
        assert word not in made.replace("&lt;script&gt;", "")
    for word in ('id="figure-2-p"', 'clip-path="url(#figure-2-p)"', ' href="#figure-2-p"', 'width="300"', 'role="img"'):
        assert word in made


def test_without_matplotlib_the_page_says_how_to_get_figures(report: Report, html: str) -> None:
    assert "<svg" in html
    page = Page(render_undrawn(report))
    assert "pip install matplotlib" in page.text
    assert "What compaction costs" in page.text
    assert [figure.get("class") for figure in page.of("figure")] == ["timeline"]  # which is our own drawing
    assert len(page.of("svg")) == 2  # one for each trajectory
