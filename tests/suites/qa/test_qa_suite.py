"""The suite qa: its tasks, its searches, its scores, its snapshots, and what it says when something is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from commands import recompact
from loopback import served_app
from needs import needs
from qa_support import ISLANDS, passages, tasks, write_jsonl, written

from recompact.environments.conformance import conformance
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.loading import load_suite
from recompact.errors import InputError
from recompact.suites.qa import retrieval, suite as qa_suite
from recompact.suites.qa.retrieval import Bm25Retriever, HttpRetriever, RetrieverFailed
from recompact.suites.qa.suite import QaEnvironment, QaSuite
from recompact.values.trajectory import Action
from recompact.version import install_command

RIGHT = [question["answers"][0] for question in tasks()[0]["questions"]]


@pytest.fixture
def suite(tmp_path: Path) -> QaSuite:
    return QaSuite(**written(tmp_path))


@pytest.fixture
def environment(suite: QaSuite) -> QaEnvironment:
    environment = suite.environment(suite.tasks("train")[0])
    environment.start()
    return environment


def search(query: str, **arguments: Any) -> Action:
    return Action("search", {"query": query, **arguments})


def final(answers: Any) -> Action:
    return Action("final_answer", {"answers": answers})


def test_tasks_splits_and_groups(suite: QaSuite) -> None:
    assert suite.splits() == ("train", "test")
    first, _ = suite.tasks("train")
    assert first.id == "islands-orvane"
    assert first.groups == {"objectives": "8"}
    assert first.text.splitlines()[7] == "8. Which ferry line serves Orvane?"
    with pytest.raises(InputError, match="no split 'dev': choose one of train, test"):
        suite.tasks("dev")


def test_what_is_accepted_is_told_to_nobody(suite: QaSuite) -> None:
    task = suite.tasks("train")[0]
    opening = suite.environment(task).start()
    shown = json.dumps([task.text, dict(task.data), [message.content for message in opening.prefix]])
    assert not [answer for answer in RIGHT if answer in shown]


def test_it_is_found_by_its_name_and_by_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = written(tmp_path)
    assert load_suite("qa", options, Path()).name == "qa"
    monkeypatch.setenv(qa_suite.TASKS_VARIABLE, options["tasks"])
    monkeypatch.setenv(qa_suite.CORPUS_VARIABLE, options["corpus"])
    assert len(load_suite("qa", {}, Path()).tasks("test")) == 2


def test_a_search_gives_the_passages_that_fit_best(environment: QaEnvironment) -> None:
    found = environment.step(search("Who founded the capital of Orvane?")).text
    # The order of rank_bm25 0.2.2 with Lucene's idf, k1 = 0.9 and b = 0.4: passages 1, 0 and 16.
    assert [block.splitlines()[0] for block in found.split("\n\n")] == ["[1] Tessmoor", "[2] Orvane", "[3] Dunvary"]
    assert "was founded by Halda Brinn in the year 1312." in found
    assert environment.step(search("zzz qqq")).text == "Nothing was found for 'zzz qqq'."
    assert len(environment.step(search("island", n_results=99)).text.split("\n\n")) <= 10


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Action("search", {}), "needs a query"),
        (search("  "), "needs a query"),
        (search("x", n_results="many"), "whole number from 3 to 10"),
        (Action("look", {}), "no tool 'look'"),
        (final(7), "a list of texts"),
    ],
)
def test_a_mistake_is_for_the_agent_to_read(environment: QaEnvironment, action: Action, words: str) -> None:
    observation = environment.step(action)
    assert observation.error
    assert not observation.done
    assert words in observation.text


@pytest.mark.parametrize(
    ("answers", "exact"),
    [
        (RIGHT, 8),
        ("; ".join(RIGHT), 8),
        ([f"The {answer}." for answer in RIGHT], 8),
        ([*RIGHT[:7], "Tern Line"], 7),
        (RIGHT[1:], 0),
        (RIGHT[:3], 3),
        ([*RIGHT, "one too many"], 8),
        ([], 0),
    ],
)
def test_a_score_by_objective(environment: QaEnvironment, answers: Any, exact: int) -> None:
    assert environment.step(final(answers)).done
    score = environment.score()
    assert sum(score.details["em"]) == exact
    assert (score.success, score.value) == (exact == 8, exact / 8)
    assert len(score.details["em"]) == len(score.details["f1"]) == 8
    assert environment.step(search("x")).done


def test_an_episode_without_an_answer_has_none_right(environment: QaEnvironment) -> None:
    score = environment.score()
    assert (score.success, score.value, score.details["em"]) == (False, 0.0, [0.0] * 8)


async def test_snapshots_conform(suite: QaSuite) -> None:
    actions = [search(f"{name} of Orvane") for name in ("capital", "peak", "anthem", "ferry")]
    report = await conformance(InProcessSuite(suite), suite.tasks("train")[0], [*actions, final(RIGHT)])
    assert report.passed, str(report)
    assert report.strategy == "state"


def test_the_index_is_made_once_and_again_for_another_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Path(written(tmp_path)["corpus"])
    made, make = [], Bm25Retriever._make

    def counting(retriever: Bm25Retriever) -> None:
        made.append(1)
        make(retriever)

    monkeypatch.setattr(Bm25Retriever, "_make", counting)
    for _ in range(2):
        assert Bm25Retriever(corpus).search("peak of Suthrey", 3)[0].title == "Mount Fenn"
    assert len(made) == 1
    write_jsonl(corpus, [*passages()[::-1], {"title": "Suthrey peak", "text": "Suthrey peak, Suthrey peak"}])
    assert Bm25Retriever(corpus).search("peak of Suthrey", 3)[0].title == "Suthrey peak"
    Bm25Retriever(corpus, k1=1.5).search("x", 3)
    assert len(made) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "corpus.jsonl.bm25", "tasks.jsonl"]


def test_a_directory_that_is_no_index_is_left_alone(tmp_path: Path) -> None:
    corpus = Path(written(tmp_path)["corpus"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    with pytest.raises(InputError, match="mine is there and is not an index of ours"):
        Bm25Retriever(corpus, tmp_path / "mine").search("x", 3)
    assert (tmp_path / "mine" / "letter").read_text() == "dear"


@needs("ordinary user")
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    corpus = Path(written(tmp_path)["corpus"])
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="name a place as `index`"):
        Bm25Retriever(corpus).search("x", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": None}, "set tasks in .* or RECOMPACT_QA to a JSONL file"),
        ({"tasks": "nowhere.jsonl"}, "cannot be read from nowhere.jsonl"),
        ({"corpus": None}, "set corpus in .* or retriever to the address"),
        ({"corpus": "nowhere.jsonl"}, "corpus nowhere.jsonl cannot be read"),
        ({"retriever": "http://127.0.0.1:9"}, "give one of them"),
        ({"corpus": None, "retriever": "127.0.0.1"}, "is not an address"),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        QaSuite(**{**written(tmp_path), **changes})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no task"),
        ('{"questions": []}', "no questions"),
        ('{"questions": [{"question": "x", "answers": [1]}]}', "an answer that is a text"),
        ('{"questions": [{"question": "x"}]}', "answers"),
        ('{"id": "islands-orvane", "questions": [{"question": "x", "answers": "y"}]}', "another task 'islands-orvane'"),
    ],
)
def test_a_line_that_is_no_task_is_named(line: str, message: str, tmp_path: Path) -> None:
    options = written(tmp_path)
    file = Path(options["tasks"])
    file.write_text(file.read_text().splitlines()[0] + "\n" + line)
    with pytest.raises(InputError, match=message):
        QaSuite(**options)


def test_without_the_library_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert qa_suite.missing() is None
    monkeypatch.setattr(qa_suite, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape(install_command("qa"))):
        QaSuite(**written(tmp_path))


def test_a_retriever_behind_http_is_asked_as_search_r1_is() -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path, await request.json()))
        hits = [{"document": row, "score": 1.0} for row in passages()]
        return web.json_response({"result": [hits]})

    with served_app(answer) as address:
        found = HttpRetriever(f"{address}/retrieve").search("the capital", 4)
    assert asked == [("/v1/retrieve", {"queries": ["the capital"], "topk": 4, "return_scores": True})]
    assert [passage.title for passage in found] == ["Orvane", "Tessmoor", "Mount Korrel", "Song of Nine Harbours"]
    assert found[0].text.startswith("Orvane is an island.")


def test_documents_without_scores_will_do() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"result": [passages()]})

    with served_app(answer) as address:
        assert len(HttpRetriever(address).search("x", 3)) == 3


@pytest.mark.parametrize(
    ("status", "body", "times", "message"),
    [
        (200, {"results": []}, 1, "in another form"),
        (200, {"result": [[{"document": {"id": 3}}]]}, 1, "in another form"),
        (404, {}, 1, "HTTP 404"),
        (503, {}, 3, "HTTP 503"),
    ],
)
def test_a_retriever_that_fails_is_a_failure(
    status: int, body: Any, times: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "_PAUSE", 0.0)
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(1)
        return web.json_response(body, status=status)

    with served_app(answer) as address, pytest.raises(RetrieverFailed, match=message):
        HttpRetriever(address).search("x", 3)
    assert len(asked) == times


def test_hooks(suite: QaSuite) -> None:
    assert suite.behaviour(search("x")) == "read"
    assert suite.behaviour(final([])) is None
    assert suite.literals("founded in 1312, 1,874 m; 3.5.") == {"numbers": ("1312", "1,874", "3.5")}
    assert set(ISLANDS) == {task["questions"][0]["question"].split()[-1].strip("?") for task in tasks()}


READER = """
import json, re
from recompact import Reply, Usage, assistant, ToolCall

class Reader:
    '''Searches for the capital, then answers all questions from a list; of the last one it is wrong.'''
    name = "reader"

    async def reply(self, request):
        text = "\\n".join(message.content for message in request.messages)
        island = re.search(r"capital of (\\w+)", text)[1]
        if "[1] " not in text:
            call = ToolCall("s", "search", json.dumps({"query": f"capital of {island}"}))
        else:
            call = ToolCall("a", "final_answer", json.dumps({"answers": [*ANSWERS[island][:7], "no ferry"]}))
        return Reply(assistant("", call), Usage(input=10, output=5, calls=1), model=self.name)
"""


def test_an_evaluation_has_em_by_objective_and_over_runs(tmp_path: Path) -> None:
    options = written(tmp_path)
    answers = {island: list(known.values())[1:] for island, known in ISLANDS.items()}
    (tmp_path / "reader.py").write_text(f"ANSWERS = {answers!r}\n{READER}")
    (tmp_path / "c.toml").write_text(
        f'[suite]\nuse = "qa"\noptions = {{ tasks = {options["tasks"]!r}, corpus = {options["corpus"]!r} }}\n'
        '[models.reader]\nuse = "reader.py:Reader"\n[agent]\nmodel = "reader"\n[run]\nstep_limit = 30\n'
    )
    done = recompact("evaluate", "c.toml", "--arm", "none", "--runs", 3, "--split", "test", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (arm,) = json.loads(done.stdout)["arms"]
    metrics = arm
    assert (metrics["tasks"], metrics["runs"], metrics["acc"]) == (2, 3, 0.0)
    assert (metrics["em"], metrics["em^3"]) == (7 / 8, 7 / 8)
    assert metrics["f1"] == pytest.approx((7 + 0.0) / 8)
