"""What the viewer shows: the lines that a diagnosis cites, calls word for word, time left, and figures by filter."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote, urlencode, urljoin

import aiohttp
import pytest
from report_support import (
    ALL_HOSTILE,
    SCRIPT,
    Page,
    add_boundary,
    make_evaluation,
    make_verified,
    note_adaptation,
    selected,
)
from run_files import change_rows
from view_support import add_case, ask, note_plan

from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.adaptations import note_result
from recompact.engine.store.calls import kept_request
from recompact.engine.store.store import Store
from recompact.evaluation.metrics import group_tasks
from recompact.presentation.report.content.runs import evaluated_run
from recompact.presentation.report.figures.sets import boundary_set, evaluation_set
from recompact.presentation.report.html.page import drawn_figures
from recompact.presentation.view.runs import standing_of
from recompact.presentation.view.server import serve
from recompact.values.candidate import Candidate
from recompact.values.chat import Request, ToolSpec, canonical, user
from recompact.values.outcome import BoundaryId
from recompact.values.texts import visible

CitedCase = tuple[Path, BoundaryId, dict[str, str]]
"""The directory of a run, a boundary of it, and the lines that its diagnosis could cite, by label."""


@asynccontextmanager
async def visit(runs: Path, harnesses: tuple[str, ...] = ()) -> AsyncIterator[Callable[[str], asyncio.Future[str]]]:
    async with serve([], runs, harnesses=harnesses) as address, aiohttp.ClientSession() as session:

        async def get(path: str) -> str:
            async with session.get(urljoin(address, path)) as answer:
                assert answer.status in (200, 404), await answer.text()
                return await answer.text()

        yield get  # type: ignore[misc]


def pages(runs: Path, *paths: str, harnesses: tuple[str, ...] = ()) -> list[str]:
    async def look() -> list[str]:
        async with visit(runs, harnesses) as get:
            return [await get(path) for path in paths]

    return asyncio.run(look())


def case_address(id: BoundaryId) -> str:
    return f"run/mine/case?{urlencode({'unit': id.unit, 'index': id.index})}"


@pytest.fixture(scope="module", params=["plain words", ALL_HOSTILE], ids=["plain", "hostile"])
def cited(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, BoundaryId, dict[str, str]]:
    """A run with one such case."""
    home = tmp_path_factory.mktemp("runs")
    make_verified(home / "mine.db")
    with Store.open(home / "mine.db") as store:
        id, evidence = add_case(store, request.param)
    return home, id, dict(evidence.lines)


# --- citations


def test_citations_lead_to_the_very_lines(cited: CitedCase) -> None:
    home, id, lines = cited
    (text,) = pages(home, case_address(id))
    page = Page(text)
    links = {link["href"].removeprefix("#") for link in page.of("a") if link.get("href", "").startswith("#line-")}
    assert {"line-S2", "line-N2", "line-C1.1"} <= links
    assert links <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert {f"line-{label}" for label in lines} == {id for id in page.ids if id.startswith("line-")}
    marked = re.findall(r'<li id="line-([^"]+)" class="cited">', text)
    assert sorted(marked) == ["C1.1", "N2", "S2"]
    for label in marked:
        body = re.findall(rf'<li id="line-{re.escape(label)}".*?<span class="line">(.*?)</span></li>', text, re.DOTALL)
        assert unescape(body[0]).strip() == visible(lines[label]).strip()
    assert "Z9" in page.text  # cited, and no line: it is said without a link
    assert "line-Z9" not in text


def test_a_run_without_requests_says_that_it_has_no_lines(cited: CitedCase, tmp_path: Path) -> None:
    home, id, _ = cited
    shutil.copy(home / "mine.db", tmp_path / "mine.db")
    change_rows(tmp_path / "mine.db", "UPDATE calls SET asked = NULL")
    before = (tmp_path / "mine.db").read_bytes()
    case, runs, run, calls = pages(
        tmp_path, case_address(id), "", "run/mine/?order=harm", f"run/mine/calls?unit={quote(id.unit, safe='')}"
    )
    assert "does not have the lines that it cites" in case
    assert "S2" in Page(case).text
    assert "line-S2" not in case
    assert "only its digest" in calls
    assert "Exact prompt" not in calls
    assert "1 to 2 of 2" in run
    assert "run/mine/" in runs
    assert "time left" not in runs  # nothing is under way
    assert (tmp_path / "mine.db").read_bytes() == before


# --- calls


def test_every_call_is_shown_word_for_word(cited: CitedCase) -> None:
    home, id, _ = cited
    unit = quote(id.unit, safe="")
    listed, whole, case = pages(
        home, f"run/mine/calls?unit={unit}", f"run/mine/call?unit={unit}&ordinal=6", case_address(id)
    )
    assert listed.count("Exact prompt") == 7
    text = " ".join(Page(whole).text.split())
    with Store.read(home / "mine.db") as store:
        asked = kept_request(store, id.unit, 5)
        assert asked is not None
        for number in range(len(asked.messages)):
            content = asked.message(store, number).content
            assert " ".join(visible(content).split()) in text
    assert "Word for word" in whole
    assert "1 tool" in whole
    assert "The summary" in case
    assert "The diagnosis" in case
    assert "PRE, draw 1" in case
    with Store.read(home / "mine.db") as store:
        receipt = boundary_view(store, id).receipt
    assert receipt.usage.input > 0
    assert all(visible(sentence[:60]) in unescape(case) for sentence in receipt.sentences)


def test_what_was_changed_is_not_called_exact(cited: CitedCase, tmp_path: Path) -> None:
    home, id, _ = cited
    shutil.copy(home / "mine.db", tmp_path / "mine.db")
    file = tmp_path / "mine.db"
    change_rows(file, "UPDATE calls SET request = randomblob(32) WHERE unit = ? AND ordinal = 3", (id.unit,))
    change_rows(file, "UPDATE calls SET request = 10000000000000 WHERE unit = ?", (f"diagnose/{id}~2",))
    whole, case = pages(tmp_path, f"run/mine/call?unit={quote(id.unit, safe='')}&ordinal=4", case_address(id))
    assert "is not what was sent" in whole
    assert "Word for word" not in whole
    assert "cannot be read" in case


def test_five_megabytes_are_cut_and_counted(tmp_path: Path) -> None:
    make_verified(tmp_path / "mine.db")
    text = "S1| wide\u202e \x1b[31m" * 280_000
    with Store.open(tmp_path / "mine.db") as store:
        id, _ = add_case(store, "narrow")
        unit = f"diagnose/{id}~3"
        prompt = Request((user(text), user(text)), (ToolSpec(text[:9], text),))
        ask(store, unit, [("optimizer", prompt), ("optimizer", prompt)], text)
        with store.transaction():
            store.finish(unit, "diagnosis", canonical({**store.result(f"diagnose/{id}~2")}), 0.0)
    where = quote(unit, safe="")
    case, listed, whole = pages(
        tmp_path, case_address(id), f"run/mine/calls?unit={where}", f"run/mine/call?unit={where}&ordinal=2"
    )
    for page in (case, listed, whole):
        assert len(page) < 6_000_000
        assert "\u202e" not in page
        assert "\x1b" not in page
        assert "more characters" in page
    assert "are not shown" in case  # of the lines that could be cited


# --- time left


def test_time_left_follows_from_the_plan_and_the_units(tmp_path: Path) -> None:
    with Store.open(make_verified(tmp_path / "mine.db")) as store:
        assert standing_of(store, live=True) is None  # an older driver writes no plan
        note_plan(store, total=20, done=2)
        standing = standing_of(store, live=True)
        assert standing is not None
        assert (standing.units, standing.left) == ("collect: 2 of 20", "not known yet")
        units = len(store.finished())
        note_plan(store, total=20, done=2, units=units - 6)
        standing = standing_of(store, live=True)
        assert standing is not None
        assert standing.units == "collect: 8 of 20"
        assert standing.seconds == pytest.approx(120, abs=5)  # six in a minute, twelve to go
        assert standing.left == "about 2 min"
        note_plan(store, total=20, done=2, units=units - 6, at_most=True)
        standing = standing_of(store, live=True)
        assert standing is not None
        assert standing.left == "at most about 2 min"
        assert standing.units == "collect: 8 of at most 20"
        note_plan(store, total=None, units=units - 6)
        standing = standing_of(store, live=True)
        assert standing is not None
        assert standing.seconds is None
        assert standing.left.startswith("unknown")
        note_plan(store, total=5, units=units - 6)
        standing = standing_of(store, live=True)
        assert standing is not None
        assert (standing.units, standing.seconds) == ("collect: 5 of 5", None)
        note_plan(store, total=20, began=time.time() + 999, units=units - 6)  # another clock
        standing = standing_of(store, live=True)
        assert standing is not None
        assert standing.seconds is None


def test_a_run_that_nobody_writes_has_no_time_left(tmp_path: Path) -> None:
    with Store.open(make_verified(tmp_path / "mine.db")) as store:
        units = len(store.finished())
        note_plan(store, total=20, units=units - 6)
        standing = standing_of(store, live=False)
        assert standing is not None
        assert (standing.left, standing.units) == ("stopped", "collect: 6 of 20")
        note_plan(store, total=6, units=units - 6)
        assert standing_of(store, live=False) is None
        note_plan(store, total=20, units=units - 6, at_most=True)
        assert standing_of(store, live=False) is None  # nobody knows whether it is finished


# --- figures and filters


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("runs")
    make_evaluation(home / "mine.db", tasks=[f"task {SCRIPT}"])
    return home


def drawn(text: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", text, re.DOTALL)


def test_figures_answer_to_the_filter_and_are_the_reports(evaluated: Path) -> None:
    every, one, none = pages(
        evaluated,
        "run/mine/figures",
        "run/mine/figures?group=family%3Doffice-3",
        "run/mine/figures?task=nothing-like-it",
    )
    assert drawn(every)
    assert drawn(one)
    assert drawn(every) != drawn(one)
    assert "no task that every arm has finished matches" in none
    with Store.read(evaluated / "mine.db") as store:
        whole = evaluated_run(store, "mine", False)
        few = evaluated_run(
            store, "mine", False, lambda e: ("few", group_tasks(e.arms, e.shared.tasks, "family")["office-3"])
        )
    for text, report in ((every, whole), (one, few)):
        figures = list(drawn_figures([("", evaluation_set("mine", report.evaluation))]))
        assert drawn(text) == [str(drawing) for _, _, drawing in figures]
        assert all(unescape(caption) in Page(text).text for _, caption, _ in figures)


def test_compare_filters_tables_and_judges_nothing_that_was_chosen_by_outcome(evaluated: Path) -> None:
    every, named, differ, first, second = pages(
        evaluated,
        "run/mine/compare",
        "run/mine/compare?task=office-",
        *(f"run/mine/compare?outcome={word}" for word in ("differ", "first", "second")),
    )
    sizes = [int(re.findall(r"(\d+) tasks?, 2 runs", text)[0]) for text in (every, named, differ, first, second)]
    assert sizes[:2] == [9, 8]
    assert sizes[2] == sizes[3] + sizes[4]
    for text in (differ, first, second):
        assert "You chose these tasks by their outcome" in text
        assert "What compaction costs" not in text
    assert "What compaction costs" in every
    assert '/run/mine/figures?outcome=differ"' in differ
    odd = pages(evaluated, f"run/mine/compare?{urlencode({'group': SCRIPT, 'first': SCRIPT, 'outcome': SCRIPT})}")[0]
    assert "by their outcome" not in odd
    assert SCRIPT not in odd.replace(SCRIPT.replace("<", "&lt;"), "")


def test_figures_of_boundaries_are_those_of_the_trajectories_in_the_list(tmp_path: Path) -> None:
    make_verified(tmp_path / "mine.db", ["one", "two", SCRIPT])
    every, one, none = pages(
        tmp_path, "run/mine/figures", "run/mine/figures?task=one", "run/mine/figures?outcome=success"
    )
    assert "3 boundaries" in every
    assert "1 boundary, task like" in one
    assert not drawn(none)
    assert "0 boundaries, trajectory with success" in none
    with Store.read(tmp_path / "mine.db") as store:
        judged = read_verdicts(store)
    chosen = replace(judged, verdicts=tuple(f for f in judged.verdicts if f.row.task == "task one"))
    expected = list(drawn_figures([("", boundary_set("mine", chosen, True))]))
    assert drawn(one) == [str(drawing) for _, _, drawing in expected]


# --- exports


def test_the_export_of_an_adapted_template_is_a_command(tmp_path: Path) -> None:
    from report_support import adapted_template

    make_verified(tmp_path / "mine.db")
    place = tmp_path / f"adapted {SCRIPT.replace('/', '')}"
    place.mkdir()
    candidate = Candidate("candidate-1", adapted_template())
    with Store.open(tmp_path / "mine.db") as store:
        note_adaptation(store, candidate, selected(candidate))
        note_result(store, adapted_template().hash, place)
    (text,) = pages(tmp_path, "run/mine/templates", harnesses=("pi", "codex"))
    commands = re.findall(r'<code class="command">(.*?)</code>', text)
    assert [unescape(command) for command in commands] == [
        f"recompact export '{str(place).replace(chr(39), chr(39) + chr(34) + chr(39) + chr(34) + chr(39))}' --to {name}"
        for name in ("pi", "codex")
    ]
    place.rmdir()
    (text,) = pages(tmp_path, "run/mine/templates", harnesses=("pi", "codex"))
    assert "That directory is gone" in text
    assert "recompact export" not in text


# --- files that are broken, and one that is being written


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_file_is_a_sentence(cited: CitedCase, tmp_path: Path, share: float) -> None:
    home, id, _ = cited
    whole = (home / "mine.db").read_bytes()
    (tmp_path / "mine.db").write_bytes(whole[: int(len(whole) * share)])
    unit = quote(id.unit, safe="")
    paths = ("", "run/mine/", "run/mine/templates", "run/mine/figures", case_address(id))
    for text in pages(tmp_path, *paths, f"run/mine/calls?unit={unit}", f"run/mine/call?unit={unit}&ordinal=3"):
        assert text.startswith("<!DOCTYPE html>")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Somebody writes to the run all the time."""
    stop, begun = Event(), Event()

    def write() -> None:
        with Store.open(path) as store:
            begun.set()
            number = 0
            while not stop.wait(0.01):  # more would only make every page longer
                add_boundary(store, f"fresh {number}")
                note_plan(store, total=None if number % 2 else 500)
                number += 1

    thread = Thread(target=write)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_every_view_holds_while_the_run_is_written(tmp_path: Path) -> None:
    make_verified(tmp_path / "mine.db")
    with Store.open(tmp_path / "mine.db") as store:
        id, _ = add_case(store, "steady")
    unit = quote(id.unit, safe="")
    paths = (
        "",
        "run/mine/?order=harm",
        "run/mine/figures?task=steady",
        case_address(id),
        f"run/mine/calls?unit={unit}",
    )
    with writing(tmp_path / "mine.db"):
        for text in pages(tmp_path, *paths):
            assert "Not found" not in text
            assert "being written" in text
