"""A simulated optimizer: it diagnoses a boundary from the evidence text it gets, and revises a template from diagnoses.

It compares the texts as a reader would: what the segment shows and the summary does not, and what the continuations
after the summary did over again or failed at more often than those before it. Without those it can only guess. Two
candidates from the same diagnoses differ in what they take up and how they put it. What a prompt asks for is told by
the blocks in it. The prompts of ACON and GEPA are answered with the same eyes and error rates: but a whole trajectory
does not tell which of its summaries did the harm, what two runs did differently includes the agent's own doing and
chance, and a single run tells only what a summary lacks, which calls were made again, and whether the run failed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Any

from recompact.simulation.guidance import orders_in, read_guidance
from recompact.simulation.judgement import (
    MECHANISMS,
    SECTIONS,
    Suspect,
    cited_kinds,
    entries_in,
    goal,
    kind_meant,
    kind_of,
    labels_of,
    length,
    mention,
    rank,
    strip_labels,
    suspects,
    take_up,
    with_clauses,
    write_clause,
    write_name,
    write_order,
)
from recompact.simulation.model import SimulatedModel, block, blocks_in
from recompact.simulation.notes import Event, events_in, read_notes
from recompact.simulation.parameters import KINDS, Judgement, Kind
from recompact.values.chat import Message, assistant
from recompact.values.template import Section, parse_sections, render_sections


class SimulatedOptimizer(SimulatedModel):
    """Plays the optimizer."""

    name, part = "sim-optimizer", "judgement"

    def answer(self, messages: tuple[Message, ...], rng: Random) -> Message:
        prompt = "\n".join(message.content for message in messages)
        answer = _answer_to(prompt)(prompt, rng, self.behaviour)
        return assistant(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, indent=1))


def _answer_to(prompt: str) -> Callable[[str, Random, Judgement], dict[str, Any] | str]:
    """What a prompt asks for, by the blocks in it; a diagnosis where none of them is there."""
    asked: dict[str, Callable[[str, Random, Judgement], dict[str, Any] | str]] = {
        "<run success=": reflect,
        "<diagnoses>": revise,
        "<feedback>": rewrite,
        "<analyses>": shorten,
        "<with-compaction": compare,
        "<what-came-next>": analyse,
    }
    answer = next((answer for tag, answer in asked.items() if f"\n{tag}" in f"\n{prompt}"), diagnose)
    return group if answer is revise and "\n<first>" not in prompt else answer


def group(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """Diagnoses by kind of fact, the most frequent first."""
    kinds = cited_kinds(entries_in(prompt, "diagnoses"), "boundary")
    return {
        "groups": [
            {
                "kind": write_name(kind, rng),
                "mechanism": MECHANISMS[kind],
                "boundaries": sorted(set(ids)),
                "lesson": write_clause(kind, True, rng),
            }
            for kind, ids in kinds.items()
        ]
    }


def diagnose(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """What the summary lost or made up, most telling first, each with the lines that show it.

    It abstains where nothing that the summary lost made a difference.
    """
    tags = ("segment", "previous-summary", "summary", "task")
    segment, previous, summary, task = (strip_labels(block(prompt, tag)) for tag in tags)
    arms = {arm: _continuations(prompt, arm) for arm in ("PRE", "POST")}
    redone, failed = _contrast(arms["PRE"], arms["POST"])
    stated = re.search(r"(?m)^success lost \(H\): (-?[\d.]+)", block(prompt, "effect"))
    ranking = rank(
        suspects(segment, previous, summary, task, judgement.reads_previous),
        redone,
        rng,
        judgement,
        failed=float(stated[1]) if stated else failed,
        compared=bool(arms["PRE"]),
        size=length(prompt),
    )
    if not ranking:
        return {"findings": [], "abstain": "Nothing that the summary lost explains a difference between the arms."}
    findings = [
        {
            "kind": write_name(kind, rng),
            "mechanism": MECHANISMS[kind],
            "lines": _lines(prompt, segment_quote, summary_quote),
            "explanation": f"The continuations after the summary had to do without it ({write_name(kind, rng)}).",
        }
        for kind, segment_quote, summary_quote in ranking
    ]
    return {"findings": findings, "abstain": ""}


Continuation = tuple[Counter[Kind], bool]
"""What one continuation did again, by kind, and whether it failed."""


def _continuations(prompt: str, arm: str) -> list[Continuation]:
    """The continuations of an arm, as far as they are shown."""
    pattern = rf'<continuation [^>]*arm="{arm}"[^>]*>\n(.*?)\n</continuation>'
    texts = [strip_labels(text) for text in re.findall(pattern, prompt, re.DOTALL)]
    return [(_count_redone(text), "the task was not done" in text) for text in texts]


def _contrast(pre: Sequence[Continuation], post: Sequence[Continuation]) -> tuple[dict[Kind, float], float]:
    """How much more was done again, by kind, and how much more often the task was missed, after the summary."""

    def mean(arm: Sequence[Continuation], value: Callable[[Continuation], float]) -> float:
        return fmean(map(value, arm)) if arm else 0.0

    def again(kind: Kind) -> float:
        return mean(post, lambda c: c[0][kind]) - mean(pre, lambda c: c[0][kind])

    return {kind: again(kind) for kind in KINDS}, mean(post, lambda c: c[1]) - mean(pre, lambda c: c[1])


def _lines(prompt: str, segment_quote: str, summary_quote: str) -> list[str]:
    """The labels of what is quoted, and of the first thing that was done again."""
    tags = ("task", "segment", "previous-summary")
    places = (*((tag, segment_quote) for tag in tags), ("summary", summary_quote))
    labels = [label for tag, quote in places for label in labels_of(prompt, tag, quote)]
    again = re.search(r"(?m)^(C\d+\.\d+)\| \(again\) ", prompt)
    return [*labels, *([again[1]] if again else [])]


def _count_redone(continuation: str) -> Counter[Kind]:
    """What a continuation did although it had been done before, by kind."""
    again: Counter[Kind] = Counter()
    for call in re.findall(r"^\(again\) -> call_api\((\{.*\})\)$", continuation, re.MULTILINE):
        try:
            asked = json.loads(call)
            again[kind_of(str(asked["app"]), str(asked["api"]))] += 1
        except (ValueError, KeyError, TypeError):
            continue
    return again


def revise(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate: the guidance of both parts with clauses against what was diagnosed, each citing its boundaries."""
    rules = take_up(entries_in(prompt, "diagnoses"), "boundary", "boundaries", rng, judgement)
    if rules and rng.random() < judgement.steers_agent:
        rules.append({"clause": write_order(rng), "section": "Next", "boundaries": rules[0]["boundaries"]})
    parts = {name: with_clauses(block(prompt, name), rules) for name in ("first", "update")}
    return {"rules": rules, **parts}


# --- ACON and GEPA


CATEGORIES: Mapping[str, str] = {
    "widened set": "distorted fact",
    "omitted state": "missing fact",
    "misrepresented progress": "inaccurate summary",
    "invented step": "inaccurate summary",
}
OTHER_HEADINGS: Mapping[str, str] = {  # another record of the same state; they mention what the old ones mention
    "Constraints & Preferences": "Task Conditions",
    "Done": "Action Ledger",
    "Next Steps": "Remaining Steps",
    "Critical Context": "State Table",
}
BRIEFER = (
    "Be concise: leave out whatever nothing later depends on.",
    "Prefer short entries: a few words wherever they are enough.",
    "Make the record as short as it can be without losing what the work goes on from.",
)


def compare(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """Feedback on two runs of a task: what any summary lost, ranked by what the run with compaction did in excess."""
    tags = ("without-compaction", "with-compaction", "task")
    whole, compacted, task = (block(prompt, tag, " [^>]*") for tag in tags)
    segments, lost = _losses(compacted, task, judgement)
    straight = [event for event in events_in(whole) if not event.error]
    winding = [event for segment in segments for event in events_in(segment) if not event.error]
    excess = Counter(map(_call_of, winding)) - Counter(map(_call_of, straight))
    redone = Counter(kind_of(*name.split(".", 1)) for (name, _), times in excess.items() for _ in range(times))
    outcomes = (re.search(rf'<{arm} success="no"', prompt) for arm in ("without-compaction", "with-compaction"))
    alone_failed, failed = (1.0 if outcome else 0.0 for outcome in outcomes)
    worse = failed - alone_failed
    ranking = rank(lost, redone, rng, judgement, failed=worse, compared=bool(whole), size=length(prompt))
    remedies = [write_clause(kind, True, rng) for kind, _, _ in ranking]
    # The runs show what the agent did, so a remedy may be a rule for it, and has to be where no summary is to blame.
    if not remedies or rng.random() < judgement.steers_agent:
        remedies.append(write_order(rng))
    return {
        "divergence": _first_difference(straight, winding),
        "findings": [
            {
                "category": CATEGORIES[MECHANISMS[kind]],
                "kind": write_name(kind, rng),
                "quote": segment_quote or summary_quote,
                "explanation": f"After a compaction the run had to do without it ({write_name(kind, rng)}).",
            }
            for kind, segment_quote, summary_quote in ranking
        ],
        "remedies": remedies,
        "timeline": [_first_difference(straight, winding), f"{sum(excess.values())} calls more than the other run."],
        "wasted": [f"{name} was called again." for name, _ in sorted(excess)[:3]],
        "missed": [],
        "mechanism": f"It made {sum(excess.values())} calls that the other run did not make.",
        "reliability": 1.0 if ranking else 0.5,
    }


def _call_of(event: Event) -> tuple[str, str]:
    return event.name, event.arguments


def _first_difference(straight: Sequence[Event], winding: Sequence[Event]) -> str:
    """Where two runs begin to differ."""
    for number, (one, other) in enumerate(zip(straight, winding, strict=False), 1):
        if _call_of(one) != _call_of(other):
            return f"At call {number}: {other.name} instead of {one.name}."
    return "The calls are the same as far as both runs go."


def rewrite(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate from feedback: clauses as in a revision, and other headings where the prompt leaves them open.

    Nobody confined the remedies to the compressor, so a rule for the agent may be among them.
    """
    entries = entries_in(prompt, "feedback")
    rules = take_up(entries, "task", "entries", rng, judgement)
    remedies = [(str(r), str(entry.get("task", ""))) for entry in entries for r in entry.get("remedies", ())]
    steering = [(remedy, task) for remedy, task in remedies if orders_in(remedy)]
    common = min(1.0, len({task for _, task in steering}) / (judgement.rare * len(entries))) if entries else 0.0
    if rng.random() < judgement.takes_up * common:
        tasks = sorted({task for _, task in steering})
        rules.append({"clause": rng.choice(steering)[0], "section": "Next", "entries": tasks})
    parts = {name: with_clauses(block(prompt, name), rules) for name in ("first", "update")}
    if "Every heading stays" not in prompt and rng.random() < judgement.restructures:
        parts = {name: _other_headings(part) for name, part in parts.items()}
    return {"rules": rules, **parts}


def _other_headings(part: str) -> str:
    sections = []
    for section in parse_sections(part):
        title = OTHER_HEADINGS.get(section.title, section.title)
        sections.append(Section(section.heading.replace(section.title, title), section.level, title, section.guidance))
    return render_sections(tuple(sections))


def analyse(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """What the next steps used of a summary and what they did not; later steps are not in the prompt."""
    summary = block(prompt, "summary")
    notes, after = read_notes(summary), events_in(block(prompt, "what-came-next"))
    apps, names = {event.app for event in after}, {event.name for event in after}
    given = " ".join(event.arguments for event in after)
    used: dict[Kind, list[tuple[str, bool]]] = {
        "token": [(token, app in apps) for app, token in notes.tokens.items()],
        "signature": [(name, name in names) for name in sorted(notes.signatures)],
        "set": [(name, _is_used(result, given)) for (name, _), result in notes.results.items()],
        "mutation": [(name, True) for name, _ in notes.done],  # forgetting one is never safe
    }
    keep, remove = [], []
    for kind, facts in used.items():
        needed = [fact for fact, is_used in facts if is_used]
        if 2 * len(needed) >= len(facts) > 0:
            what = needed[0]
            keep.append(
                {"kind": write_name(kind, rng), "quote": mention(summary, what), "reason": "The next steps went by it."}
            )
        elif facts:
            remove.append(
                {
                    "kind": write_name(kind, rng),
                    "how": "The next steps did without most of it: mention it in a few words.",
                }
            )
    if len(keep) > 1 and rng.random() >= math.exp(-length(prompt) / judgement.attention_span):
        wrong = keep.pop(rng.randrange(len(keep)))
        remove.append({"kind": wrong["kind"], "how": "It seems to be of no use."})
    if not keep and not remove:
        keep.append(
            {"kind": write_name("predicate", rng), "quote": goal(summary), "reason": "It says what is to be done."}
        )
    return {"remove": remove, "keep": keep}


def _is_used(result: Any, given: str) -> bool:
    """Whether something that a result showed went into a later call."""
    values = re.findall(r'"([\w@.:-]{4,})"', json.dumps(result))
    return any(f'"{value}"' in given for value in values)


def shorten(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate from analyses: demands that few runs needed are worded weakly, and brevity is asked for."""
    votes: Counter[Kind] = Counter()
    cited: dict[Kind, list[str]] = {}
    for entry in entries_in(prompt, "analyses"):
        for sign, key in ((1, "remove"), (-1, "keep")):
            for item in entry.get(key, ()):
                if (kind := kind_meant(str(item["kind"]))) is not None:
                    votes[kind] += sign
                    cited.setdefault(kind, []).append(str(entry.get("compaction", "")))
    chosen = rng.sample(BRIEFER, rng.randint(1, len(BRIEFER)))
    rules: list[dict[str, Any]] = [{"clause": clause, "section": "Goal", "entries": []} for clause in chosen]
    parts = {name: block(prompt, name) for name in ("first", "update")}
    for kind in KINDS:
        demanding = {line for part in parts.values() for line in part.splitlines() if _demands(line, kind)}
        if votes[kind] > 0 and demanding and rng.random() < judgement.takes_up:
            weak = write_clause(kind, False, rng)
            for line in demanding:
                parts = {name: part.replace(line, f"- {weak}") for name, part in parts.items()}
            rules.append({"clause": weak, "section": SECTIONS[kind], "entries": sorted(set(cited[kind]))})
    return {"rules": rules, **{name: with_clauses(part, rules[: len(chosen)]) for name, part in parts.items()}}


def _demands(line: str, kind: Kind) -> bool:
    """Whether a line of a template is a clause that demands that kind of fact before any other."""
    clause = re.match(r"- (?!\[|\*\*)(.+)", line)
    return clause is not None and kind_meant(clause[1]) == kind and read_guidance(clause[1]).demands[kind] == 2


def _losses(run: str, task: str, judgement: Judgement) -> tuple[list[str], list[Suspect]]:
    """The segments of a run with compaction, and what any of its summaries lost."""
    segments, summaries = (blocks_in(run, tag, r' number="\d+"') for tag in ("segment", "summary"))
    lost: list[Suspect] = []
    for segment, previous, summary in zip(segments, ["", *summaries], summaries, strict=False):
        lost += suspects(segment, previous, summary, task, judgement.reads_previous)
    return segments, lost


_RUN = re.compile(r'## Task\n(.*?)\n+## Run\n<run success="(yes|no)">\n(.*?)\n</run>', re.DOTALL)


def reflect(prompt: str, rng: Random, judgement: Judgement) -> str:
    """Both parts of the prompt with clauses against what the runs lost, as a block."""
    size = length(prompt)
    entries = [
        {
            "run": str(number),
            "findings": [{"kind": kind} for kind, *_ in _rank_losses(task, success, run, rng, judgement, size)],
        }
        for number, (task, success, run) in enumerate(_RUN.findall(prompt), 1)
    ]
    rules = take_up(entries, "run", "runs", rng, judgement)
    if not rules or rng.random() < judgement.steers_agent:  # runs show what the agent did, so a rule may be for it
        rules.append({"clause": write_order(rng), "section": "Next", "runs": []})
    parts = []
    for name in ("first", "update"):
        part = re.search(rf"(?ms)^<{name}>\n(.*?)</{name}>", prompt)
        text = part[1] if part else ""
        parts.append(f"<{name}>\n{with_clauses(text, [rule for rule in rules if _is_new(rule, text)])}</{name}>")
    return "```\n" + "\n".join(parts) + "\n```"


def _is_new(rule: dict[str, Any], text: str) -> bool:
    """Whether no clause of a part demands the same already."""
    kind = kind_meant(rule["clause"]) if rule["runs"] else None
    if kind is None:
        return rule["clause"] not in text
    clauses = re.findall(r"(?m)^- (?!\[|\*\*)(.+)", text)
    return not any(kind_meant(clause) == kind and read_guidance(clause).demands[kind] == 2 for clause in clauses)


def _rank_losses(task: str, success: str, run: str, rng: Random, judgement: Judgement, size: int) -> list[Suspect]:
    """What the summaries of a run lost, ranked by what was done again in it and by whether it failed."""
    segments, lost = _losses(run, task, judgement)
    events = [event for segment in segments for event in events_in(segment) if not event.error]
    calls = Counter((event.app, event.api, event.arguments) for event in events)
    redone: Counter[Kind] = Counter()
    for (app, api, _), times in calls.items():
        redone[kind_of(app, api)] += times - 1
    return rank(lost, redone, rng, judgement, failed=float(success == "no"), compared=False, size=size)
