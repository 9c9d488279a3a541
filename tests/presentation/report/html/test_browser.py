"""The report in a real browser: hostile content stays text, nothing is fetched, and it can be read on anything.

Screenshots go to the directory that RECOMPACT_SCREENSHOTS names, or to a scratch directory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import COLOURS, DESKTOP, PHONE, UNFOLD, Browser, assert_inert, contrast, open_browser
from needs import needs
from report_support import ALL_HOSTILE, SCRIPT, add_boundary

from recompact.engine.store.records import write_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.evaluation.arms import Arm, note_arms
from recompact.evaluation.evaluate import PHASE, unit_of
from recompact.presentation.report.content.report import read_report
from recompact.presentation.report.html.page import render
from recompact.values.chat import Usage
from recompact.values.context import Context
from recompact.values.outputs import write_page
from recompact.values.template import default_template
from recompact.values.trajectory import Score, Trajectory

pytestmark = [needs("browser"), pytest.mark.browser]

TITLE = "What compaction does to a simulated agent"
HOSTILE_TASK = f"task {SCRIPT}"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real report about a small demo, into whose runs hostile content was planted."""
    home = tmp_path_factory.mktemp("browser")
    demo = ["demo", "--dir", str(home), "--train", "8", "--test", "6", "--runs", "2", "--json"]
    done = subprocess.run([sys.executable, "-m", "recompact", *demo], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"] == str(home / "report.html")
    plant_boundary(home / "adapt.db")
    plant_arm(home / "evaluate.db")
    runs = [str(home / "adapt.db"), str(home / "evaluate.db")]
    write_page(home / "planted.html", render(read_report(runs, home, title=TITLE, date="2026-03-01")))
    return home / "planted.html"


def plant_boundary(path: Path) -> None:
    """Observations, a summary, actions, an answer, a task id and a diagnosis that all try to break out."""
    with Store.open(path) as store:
        add_boundary(store, SCRIPT, draws=3, steps=40)
        add_boundary(store, ALL_HOSTILE, draws=3, steps=40)


def plant_arm(path: Path) -> None:
    """An arm and a task by such names, with all the trajectories that they need."""
    with Store.open(path) as store:
        tasks = {row.task for row in trajectories(store, phase=PHASE)}
        known = {arm["key"] for arm in store.metadata.arms.values()}  # a template that stayed the same is one arm
        hostile = Arm(SCRIPT, "prompted", 999, "history", "quoted", default_template())
        note_arms(store, [hostile])
        wanted = [(key, HOSTILE_TASK) for key in known] + [(hostile.key, task) for task in (*tasks, HOSTILE_TASK)]
        for key, task in wanted:
            for run in range(2):
                made = Trajectory(task, (), (), "finished", Score.of(True), Context(()), usage={"agent": Usage(90, 9)})
                groups = {"difficulty": SCRIPT, "family": SCRIPT, "apps": "1"}
                unit = unit_of(key, task, run)
                write_trajectory(store, unit, made, phase=PHASE, run=run, groups=groups, seconds=0.0)


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(page, tmp_path_factory.mktemp("browser")) as browser:
        yield browser


def test_planted_scripts_do_not_run_and_nothing_is_fetched(browser: Browser) -> None:
    browser.driver.get_log("performance")
    browser.show()
    text = browser.ask("return document.body.textContent")
    assert text.count(SCRIPT) > 20  # in task ids, observations, actions, summaries, answers, the arm's name, ...
    assert_inert(browser, TITLE)


def test_the_policy_would_stop_a_script_that_got_in(browser: Browser) -> None:
    browser.show()
    browser.ask(
        """const s = document.createElement('script'); s.textContent = "document.title = 'pwned'";
        document.body.append(s);
        document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="document.title = 1">');"""
    )
    assert browser.driver.title == TITLE
    stopped = [entry for entry in browser.driver.get_log("browser") if "Content Security Policy" in entry["message"]]
    assert stopped


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_itself_does_not_scroll_sideways(browser: Browser, width: int) -> None:
    browser.show(width)
    browser.ask(UNFOLD)
    assert browser.ask("return document.documentElement.scrollWidth") <= width
    assert browser.sticking_out() == []
    scrolled = "return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert browser.ask(scrolled) > 0 or width == DESKTOP


def test_both_colour_schemes_can_be_read(browser: Browser) -> None:
    seen = []
    for dark in (False, True):
        browser.show(dark=dark)
        browser.ask(UNFOLD)
        pairs = browser.ask(COLOURS)
        assert len(pairs) > 5
        weak = {pair: f"{contrast(pair):.2f} in {where}" for pair, where in pairs.items() if contrast(pair) < 4.5}
        assert not weak
        style = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
        seen.append(tuple(browser.ask(style)))
    assert seen[0] != seen[1]
    assert all(contrast(" on ".join(pair)) > 12 for pair in seen)


def test_it_can_be_used_by_keyboard(browser: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.show()
    reached: list[str] = []
    where = "const e = document.activeElement; return e.tagName.toLowerCase() + (e.className && '.' + e.className)"
    for _ in range(40):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        reached.append(browser.ask(where))
        if reached[-1] == "summary" and "div.scroll" in reached:
            break
    assert reached[0] == "a.skip"
    assert reached[1] == "a"
    assert "div.scroll" in reached
    assert reached[-1] == "summary"
    outline = "const s = getComputedStyle(document.activeElement); return [s.outlineStyle, parseFloat(s.outlineWidth)]"
    style, width = browser.ask(outline)
    assert style == "solid"
    assert width >= 2
    state = "return document.activeElement.parentElement.open"
    assert browser.ask(state) is False
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert browser.ask(state) is True
    ActionChains(browser.driver).send_keys(Keys.SPACE).perform()
    assert browser.ask(state) is False
    stops = browser.ask("return document.querySelectorAll('a[href], summary, [tabindex=\"0\"]').length")
    assert stops > 20


def test_the_skip_link_and_every_anchor_lead_somewhere(browser: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.show()
    broken = (
        "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(h => !h.startsWith('#')"
    )
    assert browser.ask(f"{broken} || !document.getElementById(h.slice(1)))") == []
    twice = "const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.length - new Set(ids).size"
    assert browser.ask(twice) == 0
    ActionChains(browser.driver).send_keys(Keys.TAB, Keys.ENTER).perform()
    assert browser.ask("return location.hash") == "#answer"
    assert browser.ask("return document.getElementById('answer').getBoundingClientRect().top") < 200


def test_paper_shows_what_is_folded(browser: Browser) -> None:
    browser.show(dark=True, media="print")
    heights = (
        "return [...document.querySelectorAll('details:not([open]) table')].map(t => t.getBoundingClientRect().height)"
    )
    found = browser.ask(heights)
    assert found
    assert min(found) > 0
    # Of the boundaries, what a person unfolded: all of them in full would be a book.
    shown = "return [...document.querySelectorAll('.case > details')].map(d => [d.open, d.offsetHeight > 0])"
    assert {tuple(pair) for pair in browser.ask(shown)} == {(True, True), (False, False)}
    broken = """return [...document.querySelectorAll('thead th')].filter(th => th.offsetHeight &&
        th.textContent.split(' ').some(word => word.length > 3) && th.scrollWidth > th.clientWidth + 1).length"""
    assert browser.ask(broken) == 0
    assert browser.ask("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_screenshots(browser: Browser) -> None:
    """For people to look at; here only that there is something on them."""
    for name, width, dark in (("desktop", DESKTOP, False), ("phone", PHONE, False), ("dark", DESKTOP, True)):
        browser.show(width, dark=dark)
        for whole in (False, True):
            path = browser.shoot(f"{name}{'-whole' * whole}", whole)
            assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
            assert path.stat().st_size > 20_000
