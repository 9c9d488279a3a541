"""Asking probes: compacted twice, asked once, judged where letters do not tell, and resumed without paying twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

from replay_support import CODE, KEEP, Forbidden, Keeper, Mute, Opener, study_of, told

from recompact.attribution.uniform import Uniform
from recompact.attribution.verify import verify
from recompact.engine.collection import collect
from recompact.engine.store.store import Store
from recompact.evaluation.arms import Arm
from recompact.evaluation.probes import CompactionPoint, Probe, points_of_run
from recompact.evaluation.probing import FULL, RECORDED, Probing, planted_cases, probe
from recompact.evaluation.reproduction.forecast import forecast_probes
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request, Usage, assistant

KEEPING, PLAIN, FIFO = Arm("keeping", template=told(KEEP)), Arm("plain"), Arm("fifo", "fifo", 200)


class Reader:
    """Answers with the code where it sees it, and judges by whether the given answer holds the right one."""

    name = "agent"

    def __init__(self) -> None:
        self.asked = 0

    async def reply(self, request: Request) -> Reply:
        text = request.messages[-1].content
        if "The given answer:" in text:
            right, _, given = text.partition("The right answer: ")[2].partition("\n\nThe given answer: ")
            return Reply(assistant("Yes." if right in given else "No."), Usage(10, 1, 0, 0, 1), model="judge-1")
        if "<known>" not in text:
            return await Opener().reply(request)
        self.asked += 1
        known = text.partition("</known>")[0]
        return Reply(assistant(CODE if CODE in known else "unknown"), Usage(10, 1, 0, 0, 1), model="agent-1")


def collected(path: Path) -> Path:
    async def work(store: Store) -> None:
        study = study_of(store)
        await collect(study)
        await verify(study, Uniform(1))

    with Store.open(path) as store:
        asyncio.run(work(store))
    return path


def probed(path: Path, *arms: Arm, ask: bool = False, judge: bool = False, **models: ChatModel) -> Probing:
    with Store.open(path) as store:
        study = study_of(store, models=models)
        return asyncio.run(probe(study, list(points_of_run(store)), arms, ask=ask, judge=judge))


def test_a_template_that_keeps_the_code_shows_it(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db")
    with Store.open(path) as store:
        points = list(points_of_run(store))
    first = probed(path, KEEPING, PLAIN, FIFO)
    assert first.names == (FULL, RECORDED, "keeping", "plain", "fifo")
    recalls = {name: first.recall(name) for name in first.names}
    assert {name: each.value if each else None for name, each in recalls.items()} == {
        FULL: 1.0,
        RECORDED: 0.0,
        "keeping": 1.0,
        "plain": 0.0,
        "fifo": 0.0,
    }
    gains = [first.gain(name) for name in ("keeping", "plain")]
    assert [gain.value for gain in gains if gain] == [1.0, 0.0]
    again = first.second("keeping")
    assert again is None or again.value == 1.0
    assert probed(path, KEEPING, PLAIN, FIFO, agent=Forbidden(), noter=Forbidden()).to_json() == first.to_json()
    silent = [CompactionPoint(f"silent#{n}", point.pre, None, ()) for n in range(5) for point in points[:1]]
    assert not silent[0].probes
    with Store.open(path) as store:
        more = asyncio.run(probe(study_of(store), [*points, *silent], [KEEPING]))
    assert (more.points, more.unasked) == (len(points) + 5, first.unasked + 5)
    assert {each.point for each in more.conditions} == {each.point for each in first.conditions}


def test_a_reader_is_asked_one_question_at_a_time_with_a_control(tmp_path: Path) -> None:
    path, reader = collected(tmp_path / "run.db"), Reader()
    asked = probed(path, KEEPING, PLAIN, ask=True, agent=reader)
    answers = {name: asked.answers(name, "fact") for name in asked.names}
    assert {name: each.value if each else None for name, each in answers.items()} == {
        FULL: 1.0,
        RECORDED: 0.0,
        "keeping": 1.0,
        "plain": 0.0,
    }
    assert reader.asked > 0
    before = reader.asked
    assert probed(path, KEEPING, PLAIN, ask=True, agent=reader).to_json() == asked.to_json()
    assert reader.asked == before


def test_a_judge_is_tried_on_planted_cases(tmp_path: Path) -> None:
    judged = probed(collected(tmp_path / "run.db"), PLAIN, ask=True, judge=True, agent=Reader())
    right, cases = judged.planted
    assert right == cases > 0
    assert judged.judge == "agent"
    decided = [asked for each in judged.conditions for asked in each.asked if asked.probe.kind == "next"]
    assert decided
    assert all(asked.judged and asked.right is False for asked in decided)


def test_planted_cases_have_both_verdicts() -> None:
    probes = [Probe("next", "Which?", f"look({n})") for n in range(3)]
    verdicts = [truth for _, truth in planted_cases(probes)]
    assert verdicts.count(True) == verdicts.count(False) == 6
    assert list(planted_cases([])) == []


def test_a_compressor_that_writes_nothing_shows_nothing(tmp_path: Path) -> None:
    mute = probed(collected(tmp_path / "run.db"), KEEPING, ask=True, agent=Reader(), noter=Mute())
    assert all(each.failed and not any(a.shown for a in each.asked) for each in mute.of("keeping"))
    recall = mute.recall("keeping")
    assert recall is not None
    assert recall.value == 0


def test_the_forecast_counts_what_is_asked(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db")
    with Store.open(path) as store:
        points = list(points_of_run(store))
        config = study_of(store).config
        nothing = forecast_probes(config, points, [FIFO], ask=False, judge=False)
        all_of_it = forecast_probes(config, points, [KEEPING, FIFO], ask=True, judge=True)
        reader, noter = Reader(), Keeper()
        spent = probed_calls(store, points, reader, noter)
    assert nothing.total.calls == 0
    assert [work.name for work in all_of_it.works] == ["compact", "ask", "judge"]
    ask = all_of_it.works[1]
    assert ask.expected.calls >= spent


def probed_calls(store: Store, points: list[CompactionPoint], reader: Reader, noter: Keeper) -> int:
    asyncio.run(probe(study_of(store, models={"agent": reader, "noter": noter}), points, [KEEPING, FIFO], ask=True))
    return reader.asked
