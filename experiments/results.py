"""Write what came out of an experiment, from its run files alone: figures with intervals, guidance, and what failed.

python experiments/results.py all-real              # prints it
python experiments/results.py all-real --write      # into the folder of the experiment
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from echoes import echo_table
from experiment import Experiment, find_experiment, parser_of
from recompact.adaptation.selection import fit_table
from recompact.attribution.bisection.cause import Cause, read_causes
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.statement import control_of, statement_of
from recompact.engine.config import DEFAULT_MODELS
from recompact.engine.store.adaptations import AdaptationRecord, read_adaptations, recorded_templates
from recompact.engine.store.records import read_boundary
from recompact.engine.store.runs import TrajectoryRow, boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Verdict
from recompact.errors import RecompactError
from recompact.evaluation.arm_runs import ArmRuns, common, read_arms
from recompact.evaluation.breakdown import breakdown_table, by_group
from recompact.evaluation.evaluate import PHASE
from recompact.evaluation.metrics import metric
from recompact.evaluation.paired import Comparison
from recompact.evaluation.summary import Evaluation, arm_table, difference_table, evaluation
from recompact.presentation.report.document import prompt_change
from recompact.simulation.notes import read_notes
from recompact.values.candidate import Clause
from recompact.values.tables import Cell, Number, Table, columns, markdown
from recompact.values.template import Template, resolve
from recompact.values.texts import markdown_text, quantity
from replies import replies_file

_LOST: Mapping[str, str] = {"success": "success lost", "steps": "steps added"}
REASON = 200  # characters of the reason why a draft was refused
MIXED = "The agent is simulated and the compressor is real: the figures say nothing about a real agent."


def page(experiment: Experiment) -> str:
    """The whole page."""
    lines = [f"# What came out of {experiment.name}", "", *_head(experiment)]
    adapts = (("Boundaries", _boundaries), ("Causes", _causes), ("Adaptations", _adaptations))
    for title, section in (
        *(adapts if experiment.plan.methods else (("Templates", _templates),)),
        *((("Unseen tasks", _unseen),) if experiment.plan.tasks else ()),
    ):
        if text := list(section(experiment)):
            lines += ["", f"## {title}", *text]
    return "\n".join(lines).rstrip() + "\n"


def _head(experiment: Experiment) -> Iterator[str]:
    """What this is, and how much of it is done."""
    yield f"Made from the run files by `python experiments/results.py {experiment.arguments} --write`. What is"
    yield "compared, and what would count as a success, stands in [protocol.md](protocol.md)."
    yield ""
    collected, records = 0, []
    if experiment.adaptations.is_file():
        with Store.read(experiment.adaptations) as store:
            collected, records = len(trajectories(store)), list(read_adaptations(store))
    selects = experiment.plan.until == "select"
    adapted = sum(record.selection is not None or bool(record.statement) or not selects for record in records)
    if experiment.plan.solvable:
        trial, ended = _trial(experiment)
        yield f"- {trial}"
        if ended:
            return
    arms = _arms(experiment)
    distinct = {arm.settings["key"]: arm for arm in arms}
    evaluated = sum(len(arm.rows) for arm in distinct.values())
    named = {arm.name for arm in arms}
    empty = [r.method for r in records if r.selection is None and r.statement and r.method not in named]
    spared = len(arms) - len(distinct) + len(empty)
    planned = experiment.planned - spared * len(experiment.plan.tasks) * experiment.plan.runs
    if experiment.plan.methods:
        yield f"- Training tasks collected: {collected} of {len(experiment.config.suite.tasks)}."
        yield f"- Methods that have come to an end: {adapted} of {len(experiment.plan.methods)}."
    beside = f", nor does one that ended without a candidate ({', '.join(empty)})" if empty else ""
    kept = f"; a method that keeps the original needs none{beside}" if experiment.plan.methods else ""
    if experiment.plan.tasks:
        yield f"- Trajectories on unseen tasks: {evaluated} of {planned}{kept}."
    for group, names in (("", experiment.plan.arms), ("later ", experiment.plan.later)):
        if experiment.plan.stages and names:
            chosen = [arm for arm in arms if arm.name in {text.partition("=")[0] for text in names}]
            tasks = len(common(chosen).tasks) if len(chosen) == len(names) else 0
            yield f"- In all {len(names)} {group}arms: {tasks} of {len(experiment.plan.tasks)} tasks."
    if evaluated < planned or adapted < len(experiment.plan.methods):
        resume = " --resume" if replies_file(experiment).is_file() else ""
        yield f"- To go on: `python experiments/run.py {experiment.arguments}{resume}`."


def _trial(experiment: Experiment) -> tuple[str, bool]:
    """How many training tasks the agent solves without compaction, and whether these are too few to go on."""
    fewest, tasks = experiment.plan.solvable, len(experiment.config.suite.tasks)
    rows = _rows(experiment.trial, PHASE)
    if not rows:
        return f"Training tasks without compaction: not tried yet; {fewest} of {tasks} have to be solved.", False
    solved = [row.task for row in rows if row.success]
    text = f"Training tasks solved without compaction: {len(solved)} of {len(rows)}"
    text += f" ({', '.join(markdown_text(task) for task in solved)})." if solved else "."
    if broken := sum(row.ending == "environment error" for row in rows):
        return f"{text} In {broken} of them the environment broke, so nothing follows from this yet.", False
    if len(rows) < tasks:
        return f"{text} {tasks - len(rows)} are still to be tried.", False
    if len(solved) < fewest:
        return f"{text} The protocol asks for {fewest}: **the experiment ends here, and this is its result.**", True
    return text, False


def _boundaries(experiment: Experiment) -> Iterator[str]:
    """Which compactions of the training tasks hurt."""
    yield ""
    rows = _rows(experiment.adaptations)
    if not rows:
        yield "Nothing has been collected yet."
        return
    with Store.read(experiment.adaptations) as store:
        solved = sum(row.success for row in rows)
        yield f"Of {quantity(len(rows), 'training task')}, {solved} {'was' if solved == 1 else 'were'} solved with the"
        yield f"original template, with {quantity(sum(row.compactions for row in rows), 'compaction')}."
        if store.metadata.verified is None:
            yield "They have not been verified yet."
            return
        judged = read_verdicts(store)
        yield " ".join(statement_of(judged, control_of(store)).sentences())
        yield ""
        yield markdown(_boundary_table(judged.verdicts))
        if experiment.config.agent.model == DEFAULT_MODELS["agent"]:
            yield markdown(understood_table(store))


def _boundary_table(boundaries: Sequence[Verdict]) -> Table:
    rows = tuple(
        (
            f"{each.row.task}#{each.row.index}",
            "yes" if each.retained else "no",
            Number(each.effect.hazard, 2) if each.effect else None,
            Number(each.effect.burden, 1) if each.effect else None,
            f"{len(each.outcomes.pre)}+{len(each.outcomes.post)}",
            each.left_out or None,
        )
        for each in boundaries
    )
    table = Table("", columns("boundary", "retained", "H", "B", "draws", "left out"), rows)
    if any(row[-1] for row in rows):
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in rows))


def understood_table(store: Store) -> Table:
    """What the simulated agent reads in the summaries: it takes from them what it finds here, and nothing else."""
    notes = []
    for row in boundary_rows(store):
        summary = read_boundary(store, row.id).post.summary
        notes.append(read_notes(summary.text if summary else ""))
    kinds = {
        "access tokens": [bool(each.tokens) for each in notes],
        "passwords": [bool(each.passwords) for each in notes],
        "signatures of APIs": [bool(each.signatures) for each in notes],
        "retrieved records": [bool(each.results) for each in notes],
    }
    rows = tuple((kind, sum(found), len(found)) for kind, found in kinds.items())
    return Table("What the simulated agent reads in the summaries", columns("kind", "summaries", "of"), rows)


def _causes(experiment: Experiment) -> Iterator[str]:
    """Which lines, put back into the summary or taken out of it, close the loss: found by trying."""
    if not experiment.plan.bisect:
        return
    causes: list[Cause] = []
    if experiment.adaptations.is_file():
        with Store.read(experiment.adaptations) as store:
            causes = sorted(read_causes(store).values(), key=lambda cause: str(cause.boundary))
    yield ""
    if not causes:
        yield "No compaction has been bisected yet."
        return
    known = [cause for cause in causes if cause.known]
    draws = quantity(sum(cause.draws for cause in causes), "continuation")
    yield f"A cause was found at {len(known)} of {quantity(len(causes), 'retained compaction')}, with {draws}."
    for cause in causes:
        yield ""
        yield f"- {markdown_text(str(cause.boundary))} ({_LOST[cause.loss]}): {cause.sentence()}."
        for piece in cause.pieces if cause.known else ():
            yield ""
            yield f"  {markdown_text(piece.name)}{f', under {markdown_text(piece.heading)}' if piece.heading else ''}:"
            yield ""
            yield "  ```text"
            yield from (f"  {line}" for line in piece.text.splitlines())
            yield "  ```"


def _templates(experiment: Experiment) -> Iterator[str]:
    """What each fixed template adds to the one that all of them come from."""
    original = resolve(experiment.config.compressor.template, experiment.config.directory)
    for arm in experiment.arms(later=True):
        if arm.directory and arm.template:
            yield ""
            yield f"### {arm.name}"
            yield ""
            yield from _changes(original, arm.name, arm.template)


def _changes(original: Template, name: str, template: Template, clauses: Sequence[Clause] = ()) -> Iterator[str]:
    """The lines in which two templates differ, part by part."""
    for part in prompt_change(("original", original), (name, template), clauses).parts:
        for block in part.sections:
            yield f"In `{part.part}`, under *{markdown_text(block.title.lstrip('# '))}*:"
            yield ""
            yield "```diff"
            yield from (f"{line.sign}{line.text}" for line in block.lines if line.sign.strip())
            yield "```"
            yield ""


def _adaptations(experiment: Experiment) -> Iterator[str]:
    """What each method made of them."""
    records: dict[str, AdaptationRecord] = {}
    original = None
    if experiment.adaptations.is_file():
        with Store.read(experiment.adaptations) as store:
            records = {record.method: record for record in read_adaptations(store)}
            templates = recorded_templates(store)
            original = next((templates.get(record.original) for record in records.values()), None)
    for method in experiment.plan.methods:
        yield ""
        yield f"### {method}"
        yield ""
        record = records.get(method)
        if record is None:
            yield "Not begun."
            continue
        if record.evidence:
            yield markdown_text(record.evidence.statement)
        if record.statement:
            yield markdown_text(record.statement)
        yield from _candidates(record)
        if record.reasons:
            yield ""
            yield "What was seen at the boundaries:"
            yield ""
            for name, found in record.reasons.items():
                yield from (f"- {name}: {markdown_text(' '.join(reason.text.split()))}" for reason in found)
        if record.selection is None:
            if not record.statement and experiment.plan.until == "select":
                yield "Its candidates have not been selected from yet."
            continue
        yield ""
        yield markdown(fit_table(record.selection))
        yield markdown_text(record.selection.statement)
        winner = next((c for c in record.candidates if c.name == record.selection.winner), None)
        if winner and winner.template and original:
            yield ""
            yield from _changes(original, winner.name, winner.template, winner.clauses)


def _candidates(record: AdaptationRecord) -> Iterator[str]:
    """Every candidate with its clauses, and why drafts were refused."""
    for candidate in record.candidates:
        template = candidate.template
        yield ""
        yield f"{candidate.name}{'' if template else ' could not be used'}:"
        yield ""
        for clause in candidate.clauses:
            text = " ".join(f"{template.first} {template.update}".split()) if template else ""
            absent = "" if " ".join(clause.text.split()) in text else " **(listed, but not in the template)**"
            proof = f" [{clause.proof}]" if clause.proof else ""
            yield f"- under *{markdown_text(clause.section)}*: {markdown_text(clause.text + proof)}{absent}"
        yield from (f"- of its drafts: {markdown_text(_shorten(reason))}" for reason in candidate.objections)


def _shorten(reason: str) -> str:
    return reason if len(reason) <= REASON else f"{reason[:REASON]} … ({len(reason) - REASON} more characters)"


def _unseen(experiment: Experiment) -> Iterator[str]:
    """All arms on the tasks that no method saw."""
    arms = _arms(experiment)
    main = [arm for arm in arms if arm.name in {text.partition("=")[0] for text in experiment.plan.arms}]
    whole = evaluation("Arms", main) if main else None
    yield ""
    if whole is None or not whole.shared.tasks:
        yield "No unseen task has been finished in every arm yet."
        return
    yield from _figures(experiment, whole, {*experiment.plan.methods, *experiment.plan.judged})
    with Store.read(experiment.evaluation) as store:
        if echoes := echo_table(store, arms):
            yield ""
            yield markdown(echoes)
    for arm in arms:
        if arm not in main:
            yield from _later(experiment, [*main, arm])


def _later(experiment: Experiment, arms: Sequence[ArmRuns]) -> Iterator[str]:
    """An arm that was added later, the last of these, beside the others: on all tasks, and on those that are fresh."""
    name = arms[-1].name
    fresh = experiment.plan.fresh.get(name, ())
    some = [replace(arm, rows=tuple(row for row in arm.rows if row.task in fresh)) for arm in arms]
    fresh_title = f"With {name}, on tasks of which no result was known when it was added"
    for title, chosen in ((f"With {name}, which was added later", arms), (fresh_title, some)):
        whole = evaluation(title, chosen)
        if whole.shared.tasks:
            yield ""
            yield from _figures(experiment, whole, {name})


def _figures(experiment: Experiment, whole: Evaluation, judged: Collection[str]) -> Iterator[str]:
    """The tables of an evaluation, and the verdict on each method of those judged."""
    if experiment.config.agent.model == DEFAULT_MODELS["agent"]:
        yield MIXED
        yield ""
    yield markdown(arm_table(whole))
    differences = difference_table(whole)
    if differences:
        yield markdown(differences[0])
    for group in experiment.plan.by:
        if found := by_group(whole, group):
            yield markdown(breakdown_table(found))
    yield markdown(task_table(whole))
    for comparison in differences[1] if differences else ():
        name = comparison.first.partition("/")[0]
        if name in (*experiment.plan.methods, *experiment.plan.judged) and name in judged:
            yield f"- {verdict(comparison, experiment)}"


def task_table(whole: Evaluation) -> Table:
    """Every task in every arm: solved or not, and in how many steps."""
    by_arm = [arm.by_task() for arm in whole.arms]
    rows: list[tuple[Cell, ...]] = []
    for task in whole.shared.tasks:
        cells = []
        for tasks in by_arm:
            runs = [tasks[task][run] for run in range(whole.shared.runs)]
            solved = sum(run.success for run in runs)
            mark = ("yes" if solved else "no") if len(runs) == 1 else f"{solved} of {len(runs)}"
            cells.append(f"{mark}, {sum(run.steps for run in runs) / len(runs):.3g}")
        rows.append((task, *cells))
    heads = columns("task", *(arm.label for arm in whole.arms))
    return Table("Solved, and steps, task by task", heads, tuple(rows))


def verdict(comparison: Comparison, experiment: Experiment) -> str:
    """Whether the protocol's criterion is met; everything but a clear yes is *not shown*."""
    key, fewest = experiment.plan.outcome, experiment.plan.fewest
    chosen, success = comparison.of(key), comparison.of("acc")
    better = chosen.low > 0 if metric(key).better == "more" else chosen.high < 0
    reasons = []
    if comparison.tasks < fewest:
        reasons.append(f"{quantity(comparison.tasks, 'task')} of at least {fewest}")
    if not better:
        reasons.append(f"the interval of {metric(key).title} does not exclude zero in its favour")
    if key == "acc" and comparison.wins <= comparison.losses:
        reasons.append(f"{quantity(comparison.wins, 'task')} won, {comparison.losses} lost")
    if key != "acc" and success.delta < 0:
        reasons.append("its success is lower")
    first, second = comparison.first, comparison.second
    return f"{first} better than {second}: " + (f"*not shown* ({'; '.join(reasons)})." if reasons else "**shown**.")


def _arms(experiment: Experiment) -> tuple[ArmRuns, ...]:
    if not _rows(experiment.evaluation, PHASE):
        return ()
    with Store.read(experiment.evaluation) as store:
        return read_arms(store)


def _rows(path: Path, phase: str = "collect") -> list[TrajectoryRow]:
    """Trajectories of a run file, which may be absent or have recorded replies only."""
    if not path.is_file():
        return []
    with Store.read(path) as store:
        return trajectories(store, phase=phase)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--write", action="store_true", help="write results.md (or results-CONFIG.md) into the folder")
    given = parser.parse_args()
    try:
        experiment = find_experiment(given)
        text = page(experiment)
    except RecompactError as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return 1
    if given.write:
        experiment.page.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
