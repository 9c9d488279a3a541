"""The audit page in a real browser: what a transcript contains stays text, and the page can be read on anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_planting import WRITERS, planted
from browsing import COLOURS, DESKTOP, PHONE, UNFOLD, Browser, assert_inert, contrast, open_browser
from needs import needs
from test_hostile_transcripts import SECRETS, hostile_session

from recompact.audit.auditing import audit_transcripts
from recompact.audit.scoring import assess
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.audit.page import render
from recompact.values.outputs import write_page

pytestmark = [needs("browser"), pytest.mark.browser]
TITLE = "Audit of compactions"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of ordinary sessions and of one that tries to break out of every field."""
    home = tmp_path_factory.mktemp("audit-page")
    for harness, (writer, keeps) in WRITERS.items():
        (home / f"{harness}.jsonl").write_text("\n".join(planted(2, writer, keeps).lines))
    (home / "bad\x1b[31m\u202e<script>.jsonl").write_text("\n".join(hostile_session(120)), encoding="utf-8")
    (home / f"{'very-' * 40}long.jsonl").write_text("\n".join(planted(7, *WRITERS["pi"]).lines))
    write_page(home / "audit.html", render(assess(audit_transcripts(read_transcripts([home]))), date="2026-03-01"))
    return home / "audit.html"


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(page, tmp_path_factory.mktemp("browser"), "audit") as browser:
        yield browser


def test_planted_scripts_stay_text_and_nothing_is_fetched(browser: Browser) -> None:
    browser.driver.get_log("performance")
    browser.show()
    browser.ask(UNFOLD)
    text = browser.ask("return document.body.textContent")
    assert text.count("<script>alert(1)</script>") > 10  # in commands, results, the summary, what the user asked
    assert_inert(browser, TITLE)


def test_what_is_hidden_is_shown_and_what_is_secret_is_not(browser: Browser) -> None:
    browser.show()
    text = browser.ask("return document.documentElement.outerHTML")
    for character in "\x1b\x07\u202e\u200b\ud800":
        assert character not in text
    for mark in ("␛[31m", "⟨U+202E⟩", "[masked]"):
        assert mark in text
    for secret in SECRETS:
        assert secret not in text


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_itself_does_not_scroll_sideways(browser: Browser, width: int) -> None:
    browser.show(width)
    browser.ask(UNFOLD)
    assert browser.ask("return document.documentElement.scrollWidth") <= width
    assert browser.sticking_out() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_told_from_its_ground(browser: Browser, dark: bool) -> None:
    browser.show(dark=dark)
    browser.ask(UNFOLD)
    pairs = browser.ask(COLOURS)
    assert len(pairs) > 3
    assert not {pair: f"{contrast(pair):.2f} in {where}" for pair, where in pairs.items() if contrast(pair) < 4.5}


def test_anchors_lead_somewhere_and_ids_are_unique(browser: Browser) -> None:
    browser.show()
    broken = (
        "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(h => !h.startsWith('#')"
    )
    assert browser.ask(f"{broken} || !document.getElementById(h.slice(1)))") == []
    twice = "const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.length - new Set(ids).size"
    assert browser.ask(twice) == 0


def test_screenshots(browser: Browser) -> None:
    """For people to look at; here only that there is something on them."""
    for name, width, dark in (("desktop", DESKTOP, False), ("phone", PHONE, False), ("dark", DESKTOP, True)):
        browser.show(width, dark=dark)
        assert browser.shoot(name, whole=True).stat().st_size > 20_000
