"""What the tests of the report share: arms made by hand, small runs written through the store, and hostile texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import pytest

from recompact.adaptation.revision import Diagnosis, Finding
from recompact.attribution.continuations import continuation_unit
from recompact.engine.config import Config, SuiteConfig, VerifyConfig
from recompact.engine.store.adaptations import AdaptationRecord, write_adaptation
from recompact.engine.store.records import write_continuation, write_trajectory
from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.evaluation.arms import Arm, note_arms
from recompact.evaluation.evaluate import PHASE, unit_of
from recompact.models.journal import JournaledReply
from recompact.presentation.report.content.report import Report
from recompact.presentation.report.figures import sets
from recompact.presentation.report.html import page
from recompact.values.candidate import ORIGINAL, Candidate, Fit, Selection
from recompact.values.chat import Message, Reply, ToolCall, Usage, assistant, canonical, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.outcome import ARMS, BoundaryId
from recompact.values.template import Template, default_template
from recompact.values.trajectory import Action, Boundary, Score, Trajectory

SCRIPT = "<script>document.title='pwned';console.log('pwned')</script>"
HOSTILE = (
    SCRIPT,
    "</style><style>body{display:none}</style>",
    '<img src="http://127.0.0.1:9/x.png" onerror="document.title=\'pwned\'">',
    '<a href="javascript:document.title=1">here</a>',
    "<!-- a comment --> ]]> <![CDATA[",
    "</pre></details></main></body></html>",
    "{{ 7 * 7 }} {% raw %} &lt;b&gt; \"'",
    "null \x00 bell \x07 escape \x1b[31m next line \x85",
    "bidi \u202egnp.exe\u202c \u2066isolate\u2069 \u200fmark zero\u200bwidth tag\U000e0041",
    "half \ud800 a character",
)
ALL_HOSTILE = "\n".join(HOSTILE)
PREFIX = (system("You are an agent."), user("Do the task."))


def arm(name: str, outcomes: Sequence[str], scope: str | None = None, steps: int = 10, spread: int = 3) -> ArmRuns:
    """An arm from one text per task: `110` is solved in the first two of three runs."""
    rows = tuple(
        TaskRun(
            task=f"t{n:03d}",
            run=run,
            success=mark == "1",
            steps=steps + n % spread,
            peak=1000,
            peak_reported=2000,
            usage={"agent": Usage(1000 * steps, 100), "compressor": Usage(20, 5)},
            ending="finished",
            groups={"difficulty": "easy" if n % 2 else "hard"},
        )
        for n, runs in enumerate(outcomes)
        for run, mark in enumerate(runs)
    )
    return ArmRuns(name, scope, rows)


def adapted_template() -> Template:
    own = default_template()
    old, new = "## Goal\n", "## Goal\nKeep every condition of the task exactly.\n"
    return Template(own.system, own.first.replace(old, new), own.update.replace(old, new))


def claim(store: Store, command: str, model: str = "sim-agent") -> None:
    """What a run says of itself."""
    own = default_template()
    identity = {**Config(suite=SuiteConfig(use="office")).identity(), "template": own.hash}
    templates = {own.hash: own.parts()}
    store.set_metadata(
        replace(
            store.metadata, command=command, suite="office", version="0.1.0", identity=identity, templates=templates
        )
    )
    if model.startswith("sim-"):
        store.set_metadata(replace(store.metadata, simulated=(model,)))
    reply = Reply(assistant("hello"), Usage(100, 10, 0, 0, 1), model=model)
    store.journal(JournaledReply("claim", 0, "agent", model, "00" * 32, reply, 0.0))


def make_evaluation(
    path: Path,
    names: Sequence[str] = (),
    tasks: Sequence[str] = (),
    model: str = "sim-agent",
    budgets: Sequence[int] = (),
) -> Path:
    """An evaluation with none, prompting and PAIR, besides arms and tasks of these names; two runs of each. Under each
    of the budgets there is a further prompting arm; the smaller it is, the more it fails."""
    templates = {"prompting": default_template(), "PAIR": adapted_template()}
    arms = [Arm("none", "none")]
    for name in ("prompting", "PAIR", *names):
        template = templates.get(name, adapted_template())
        arms.append(Arm(name, "prompted", 2048 + len(arms), "history", "quoted", template))
    own = default_template()
    arms += [Arm(f"prompting@{budget}", "prompted", budget, "history", "quoted", own) for budget in budgets]
    turns = (Turn(assistant("Next."), (user("Go on."),), 4),) * 9
    compaction = Boundary(1, 2, Context(PREFIX, None, turns[:2]), Context(PREFIX, Summary("Short.", 1)), None, ())
    with Store.open(path) as store:
        claim(store, PHASE, model)
        note_arms(store, arms)
        for task in (*(f"office-{n}" for n in range(8)), *tasks):
            for run in range(2):
                for one in arms:
                    chance = Random(f"{one.name}/{task}/{run}")
                    skill = 0.7 if "@" not in one.name else (one.budget or 0) / 10_000
                    boundaries = () if one.name == "none" else (compaction,)
                    made = Trajectory(
                        *(
                            task,
                            turns[: chance.randrange(3, 9)],
                            boundaries,
                            "finished",
                            Score.of(chance.random() < skill),
                        ),
                        Context(PREFIX),
                        usage={"agent": Usage(4000, 200)},
                        peak_reported=3000,
                    )
                    unit = unit_of(one.key, task, run)
                    groups = {"difficulty": "easy", "family": task}
                    write_trajectory(store, unit, made, phase=PHASE, run=run, groups=groups, seconds=0.0)
    return path


def make_verified(path: Path, texts: Sequence[str] = ("all is well",), model: str = "sim-agent") -> Path:
    """A verified run with one task for each text, which stands wherever a model or an environment may write."""
    with Store.open(path) as store:
        claim(store, "verify", model)
        store.set_metadata(replace(store.metadata, verified=asdict(VerifyConfig(allocation="uniform:2"))))
        for text in texts:
            add_boundary(store, text)
    return path


def add_boundary(store: Store, text: str, draws: int = 2, steps: int = 12) -> None:
    """A task whose only compaction makes the agent fail and repeat itself, with a diagnosis."""
    task = f"task {text}".replace("\ud800", "")  # which no column of a run can hold
    unit = f"collect/{task}"
    turns = tuple(_turn(n, text) for n in range(6))
    boundary = Boundary(
        index=1,
        step=6,
        pre=Context(PREFIX, None, turns),
        post=Context(PREFIX, Summary(f"## Goal\nSummary: {text}", 90), turns[-1:]),
        snapshot=None,
        actions=tuple(Action.of(call) for turn in turns for call in turn.message.calls),
        asked_again=True,
    )
    whole = Trajectory(task, turns * 2, (boundary,), "finished", Score.of(False), Context(PREFIX))
    write_trajectory(store, unit, whole, phase="collect", run=0, groups={}, seconds=0.0)
    for draw in range(draws):
        for arm in ARMS:
            lost = arm == "POST"
            score = Score.of(not lost, answer=f"answer {text}")
            taken = tuple(_turn(n + (0 if lost else 3), text) for n in range(steps if lost else 4))
            made = Trajectory(task, taken, (), "finished", score, Context(PREFIX), error=f"error {task}" * lost)
            name = continuation_unit(task, 1, arm, draw)
            write_continuation(store, name, unit, 1, arm, draw, made, seconds=0.0)
    cause = Finding("omitted state", f"kind {text}", f"said {text}", f"seen {text}", f"because {text}")
    diagnosis = Diagnosis(BoundaryId(unit, 1), "both", (cause, cause))
    with store.transaction():
        store.finish(f"diagnose/{task}#1", "diagnosis", canonical(diagnosis.to_json()), 0.0)


def note_adaptation(store: Store, candidate: Candidate, selection: Selection | None = None) -> None:
    """What `recompact adapt` records of PAIR with one candidate."""
    write_adaptation(store, AdaptationRecord("pair", "compaction", default_template().hash, (candidate,), selection))


def selected(candidate: Candidate, tasks: Sequence[str] = ("a", "b")) -> Selection:
    """The candidate passed on all fit tasks, and the original on none."""
    fits = (Fit(ORIGINAL, len(tasks), 0, 0.0), Fit(candidate.name, len(tasks), len(tasks), 0.0))
    return Selection(fits, candidate.name, tuple(tasks))


def _turn(number: int, text: str) -> Turn:
    arguments = json.dumps({"page": number, "note": text})
    call = ToolCall(f"c{number}", "look", arguments)
    seen = Message("tool", f'{{"id": "rec-{number}77", "text": "{text}"}}', call_id=call.id)
    return Turn(Message("assistant", f"I look. {text}", (call,)), (seen,), 300)


class Page(HTMLParser):
    """A page as a parser sees it: its tags with their attributes, its text, its ids."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.style = ""
        self._in_style = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._in_style = self._in_style and tag != "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.style += data
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"the page has a comment: {data!r}")

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def render_undrawn(report: Report) -> str:
    """The page without its figures, which take most of the time: for tests of the rest."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (page, sets):
            patch.setattr(module, "available", lambda: False)
        return page.render(report)
