"""The viewer in a real browser: live, by keyboard, on a phone, in the dark, and with hostile runs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browsing import COLOURS, DESKTOP, PHONE, UNFOLD, Browser, contrast, open_browser
from needs import needs
from report_support import (
    ALL_HOSTILE,
    SCRIPT,
    adapted_template,
    make_evaluation,
    make_verified,
    note_adaptation,
    selected,
)
from view_support import add_case

from recompact.engine.store.adaptations import note_result
from recompact.engine.store.store import Store
from recompact.presentation.view.server import serve
from recompact.values.candidate import Candidate

pytestmark = [needs("browser"), pytest.mark.browser]

PAGES = {
    "runs": "",
    "run": "run/verified/",
    "trajectory": "run/verified/trajectory?unit=collect%2Ftask+all+is+well",
    "case": "run/verified/case?unit=collect%2Ftask+all+is+well&index=1",
    "hostile-case": f"run/verified/case?unit=collect%2Ftask+{SCRIPT.replace(' ', '+')}&index=1",
    "templates": "run/verified/templates",
    "cited-case": "run/verified/case?unit=collect%2Ftask+cited&index=1",
    "calls": "run/verified/calls?unit=collect%2Ftask+cited",
    "call": "run/verified/call?unit=collect%2Ftask+cited&ordinal=7",
    "hostile-call": f"run/verified/call?unit=collect%2Ftask+hostile+{SCRIPT.replace(' ', '+')}&ordinal=7",
    "figures": "run/verified/figures?task=well",
    "compare": "run/evaluated/compare",
    "evaluation": "run/evaluated/",
}


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The viewer in a thread of this process."""
    loop = asyncio.new_event_loop()
    address: list[str] = []
    end = asyncio.Event()

    async def run() -> None:
        async with serve([], directory, harnesses=("codex", "pi")) as found:
            address.append(found)
            await end.wait()

    thread = Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    wait_for(lambda: bool(address))
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(10)


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.1)
    return value


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    home = tmp_path_factory.mktemp("runs")
    make_verified(home / "verified.db", ["all is well", SCRIPT, ALL_HOSTILE])
    candidate = Candidate("candidate-1", adapted_template())
    with Store.open(home / "verified.db") as store:
        add_case(store, "cited")
        add_case(store, f"hostile {SCRIPT}")
        note_adaptation(store, candidate, selected(candidate))
        (home / "adapted").mkdir()
        note_result(store, adapted_template().hash, home / "adapted")
    make_evaluation(home / "evaluated.db", tasks=[f"task {SCRIPT}"])
    with served(home) as address, open_browser(address, tmp_path_factory.mktemp("chromium"), "view") as opened:
        yield opened


def show(browser: Browser, page: str, width: int = DESKTOP, *, dark: bool = False) -> None:
    home = browser.url
    browser.url = home + PAGES[page]
    try:
        browser.show(width, dark=dark)
    finally:
        browser.url = home


@pytest.mark.parametrize("page", PAGES)
def test_planted_scripts_do_not_run_and_only_the_viewer_is_asked(browser: Browser, page: str) -> None:
    browser.driver.get_log("performance")
    browser.driver.get_log("browser")
    show(browser, page)
    assert browser.driver.title.endswith("recompact view")
    assert browser.ask("return document.scripts.length") == 1
    assert browser.ask("return document.querySelectorAll('img, iframe, object, embed, base').length") == 0
    assert browser.driver.get_log("browser") == []
    assert [url for url in browser.requests() if not url.startswith(browser.url)] == []


def test_the_policy_would_stop_a_script_that_got_in(browser: Browser) -> None:
    show(browser, "run")
    title = browser.driver.title
    browser.ask(
        """const s = document.createElement('script'); s.textContent = "document.title = 'pwned'";
        document.body.append(s); fetch('http://127.0.0.1:9/').catch(() => {});"""
    )
    assert browser.driver.title == title
    assert wait_for(lambda: [e for e in browser.driver.get_log("browser") if "Content Security Policy" in e["message"]])


@pytest.mark.parametrize("page", PAGES)
def test_no_page_scrolls_sideways_and_both_schemes_can_be_read(browser: Browser, page: str) -> None:
    for width, dark in ((PHONE, False), (DESKTOP, True)):
        show(browser, page, width, dark=dark)
        browser.ask(UNFOLD)
        assert browser.ask("return document.documentElement.scrollWidth") <= width
        weak = {pair: where for pair, where in browser.ask(COLOURS).items() if contrast(pair) < 4.5}
        assert not weak
        browser.shoot(f"{page}-{'dark' if dark else 'phone'}")
    show(browser, page)
    assert browser.shoot(page).stat().st_size > 8_000


def keys(browser: Browser, *words: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser.driver).send_keys(*words).perform()


def test_every_view_can_be_reached_by_keyboard(browser: Browser) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, "runs")
    keys(browser, "?")
    assert browser.ask("return document.getElementById('keys').open")
    keys(browser, Keys.ESCAPE)
    assert not browser.ask("return document.getElementById('keys').open")
    reached = [browser.driver.current_url]

    def press(*words: str) -> None:
        keys(browser, *words)
        wait_for(lambda: browser.driver.current_url != reached[-1])
        reached.append(browser.driver.current_url)

    browser.ask("[...document.querySelectorAll('.rows a')].find(a => a.textContent === 'verified').focus()")
    press(Keys.ENTER)  # the run
    keys(browser, "j")
    press(Keys.ENTER)  # a trajectory
    browser.ask("document.querySelector('.timeline a').focus()")
    press(Keys.ENTER)  # the case
    press("n")  # the next one
    press("u")  # its trajectory
    press("p")  # templates
    press("t")  # trajectories
    keys(browser, "/")
    assert browser.ask("return document.activeElement.name") == "task"
    keys(browser, "well")
    press(Keys.ENTER)
    assert "task=well" in reached[-1]
    press("r")
    assert reached[-1] == browser.url
    show(browser, "evaluation")
    reached.append(browser.driver.current_url)
    press("c")
    assert "/compare" in reached[-1]


def test_a_page_follows_a_run_that_is_written_and_then_killed(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path / "mine.toml"
    suite = '[suite]\nuse = "pocket"\nsplit = "test"'  # 168 tasks: more than are played before the page is read
    config.write_text(f"{suite}\n[compressor]\nbudget = 2048\n[run]\nconcurrency = 1\n")
    words = [sys.executable, "-m", "recompact", "collect", str(config)]
    with served(tmp_path / "runs") as address:
        browser.driver.get(address)
        assert "no runs" in browser.ask("return document.body.textContent")
        driver = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: "being written" in browser.ask("return document.querySelector('main').textContent"))
            count = "return parseInt(document.querySelectorAll('.rows td.num')[0]?.textContent || '0')"
            seen = browser.ask(count)
            wait_for(lambda: browser.ask(count) > seen)
            left = "return document.querySelector('.rows td.left').textContent"
            wait_for(lambda: re.search(r"about \d+ (s|min)\s+collect: \d+ of 168", browser.ask(left)))
        finally:
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
        wait_for(lambda: "being written" not in browser.ask("return document.querySelector('main').textContent"))
        assert browser.ask(count) > 0
        assert re.search(r"stopped\s+collect: \d+ of 168", browser.ask(left))


def test_reading_needs_no_script(browser: Browser) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, "case")
        assert "What was replaced" in browser.driver.page_source
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


TARGET = """const line = document.querySelector('.numbered li:target'); if (!line) return null;
const box = line.getBoundingClientRect(), other = document.querySelector('.numbered li:not(:target):not(.cited)');
return [line.id, box.top >= 0 && box.bottom <= innerHeight,
        getComputedStyle(line).backgroundColor !== getComputedStyle(other).backgroundColor]"""


@pytest.mark.parametrize("script", [True, False], ids=["with scripts", "without"])
def test_a_citation_leads_to_its_line_and_marks_it(browser: Browser, script: bool) -> None:
    from selenium.webdriver.common.by import By

    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not script})
    try:
        show(browser, "cited-case")
        browser.driver.find_element(By.CSS_SELECTOR, '.cites a[href="#line-N2"]').click()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.ask(TARGET) == ["line-N2", True, True]
    browser.shoot(f"cited-line-{script}")


def test_figures_come_by_themselves_and_answer_to_the_filter(browser: Browser) -> None:
    show(browser, "compare")
    drawn = "return [...document.querySelectorAll('#figures figcaption')].map(e => e.textContent).join(' ')"
    every = wait_for(lambda: browser.ask(drawn))
    assert "9 tasks" in every
    browser.shoot("compare-figures", whole=True)
    home = browser.url
    browser.driver.get(f"{home}run/evaluated/compare?group=family%3Doffice-3")
    few = wait_for(lambda: browser.ask(drawn))
    assert "1 task," in few
    assert browser.ask("return document.querySelectorAll('#figures svg').length") >= 1


def test_the_prompt_of_a_call_unfolds_and_all_of_it_is_a_link_away(browser: Browser) -> None:
    from selenium.webdriver.common.by import By

    show(browser, "calls")
    summary = browser.driver.find_element(By.CSS_SELECTOR, ".calls details summary")
    assert not browser.ask("return document.querySelector('.calls details').open")
    summary.click()
    assert browser.ask("return document.querySelector('.calls details').open")
    browser.driver.find_element(By.CSS_SELECTOR, ".calls details a").click()
    wait_for(lambda: "Word for word" in browser.ask("return document.querySelector('main').textContent"))
    keys(browser, "n")
    wait_for(lambda: "ordinal=2" in browser.driver.current_url)
    keys(browser, "u")
    wait_for(lambda: "/calls?" in browser.driver.current_url)


def test_a_command_can_be_copied(browser: Browser) -> None:
    from selenium.webdriver.common.by import By

    show(browser, "templates")
    command = browser.driver.find_element(By.CSS_SELECTOR, ".exports code.command")
    assert re.fullmatch(r"recompact export \S*adapted --to codex", command.text)
    browser.driver.find_element(By.CSS_SELECTOR, ".exports .copy").click()
    wait_for(lambda: browser.driver.find_element(By.CSS_SELECTOR, ".exports .copy").text in ("copied", "not copied"))
    browser.ask("getSelection().selectAllChildren(document.querySelector('.exports code.command'))")
    assert browser.ask("return getSelection().toString()") == command.text
