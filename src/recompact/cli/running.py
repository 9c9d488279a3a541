"""What commands that ask models have in common: the forecast of --dry-run, and the ways in which they end early, each
with its message and exit code.

Exit codes: 130 stopped by Ctrl-C (143 by SIGTERM, 129 by SIGHUP), 3 stopped at a ceiling, 2 a failure that trying again
will not fix, 1 some units are not finished. In every case the run keeps what was done, and the message says how to
continue.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recompact.cli.console import print_json, print_tables, say
from recompact.cli.progress import watch
from recompact.cli.stopping import Result, announcing_stop, end_stopped
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.execution.scheduler import Unfinished, UnfinishedUnit
from recompact.engine.forecast import Amount, Forecast, add_usage, forecast_table, price_of
from recompact.engine.store.records import FailedCompactions
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.models.failures import CeilingReached, ModelFailure, SetAside
from recompact.values.tables import Format, Table
from recompact.values.texts import quantity


def this_command(*, without: Sequence[str] = ()) -> str:
    """The command that was typed, to be typed again; `without` are options with a value that it should not repeat."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in without:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in without)):
            kept.append(word)
    return shlex.join(["recompact", *kept])


@contextmanager
def ending_early(path: Path, again: str) -> Iterator[None]:
    """Exit with a message where the command was stopped or cannot continue. `again` is the command that resumes it."""
    try:
        yield
    except KeyboardInterrupt:
        end_stopped(f"\nrecompact: stopped. {path} keeps what was done; resume with: {again}")
    except CeilingReached as reached:
        say(f"recompact: stopped at its ceiling: {reached}", err=True)
        say(f"{path} keeps what was done; then resume with: {again}", err=True)
        sys.exit(3)
    except ModelFailure as failure:
        at = f"{failure.unit}: " if failure.unit else ""
        say(f"recompact: {at}{failure}", err=True)
        say(f"{path} keeps what was done; resume with: {again}", err=True)
        sys.exit(2)


@dataclass
class Job:
    """What a command does with a run: the command that resumes it, and the units that are still to be finished."""

    path: Path
    as_json: bool = False
    again: str = field(default_factory=this_command)
    unfinished: tuple[UnfinishedUnit, ...] = ()

    def finish(self, work: Coroutine[Any, Any, Result], path: Path | None = None) -> Result | None:
        """The result of the work, or None where units are still to be finished; `path` is another run that it is on."""
        with ending_early(path or self.path, self.again):
            try:
                return asyncio.run(announcing_stop(work))
            except Unfinished as unfinished:
                self.unfinished += unfinished.units
                return None

    def play(
        self,
        config: Config,
        store: Store,
        title: str,
        work: Callable[[Study], Awaitable[Result]],
        *,
        floor: int = 0,
        **opened: Any,
    ) -> Result | None:
        """What `work` makes of the study of a run, with its progress shown; `opened` is for `open_study`."""

        async def watched() -> Result:
            async with open_study(config, store, **opened) as study:
                with watch(study, title, quiet=self.as_json, floor=floor) as shown:
                    return await work(shown)

        return self.finish(watched())

    def unfinished_json(self) -> list[dict[str, Any]]:
        return [unit.to_json() for unit in self.unfinished]

    def report_unfinished(self, noun: str, *, retry: bool = True) -> None:
        report_unfinished(self.unfinished, noun, self.again, retry=retry)


def report_unfinished(units: Sequence[UnfinishedUnit], noun: str, again: str, *, retry: bool = True) -> None:
    """Name the first few unfinished units and print how to retry them. `retry`: the command has the option --retry."""
    if not units:
        return
    for unit in sorted(units, key=lambda unit: unit.name)[:5]:
        say(f"not finished: {unit.name} ({unit.failure.kind}): {unit.failure}", err=True)
    more = f" (the first 5 of {len(units)} are listed)" if len(units) > 5 else ""
    aside = retry and any(isinstance(unit.failure, SetAside) for unit in units)
    command = f"{again} --retry" if aside and "--retry" not in again.split() else again
    state = "is" if len(units) == 1 else "are"
    say(
        f"recompact: {quantity(len(units), noun)} {state} not finished{more}; retry with: {command}",
        err=True,
    )
    if aside:
        say("Recompact set some units aside because they would fail again; only --retry plays them again.", err=True)
    if tasks := sorted({unit.task for unit in units if unit.task}):
        skips = shlex.join(word for task in tasks[:20] for word in ("--skip", task))
        say(f"To continue without {'that task' if len(tasks) == 1 else 'such tasks'}, add {skips}", err=True)


def report_failed_compactions(failed: FailedCompactions, compactions: int) -> None:
    """Report failed compactions, if there are any."""
    if failed.number:
        say(f"recompact: {failed.words if compactions else failed.nothing_compacted}", err=True)


def report_skipped(store: Store) -> None:
    """List the tasks that the run skips, if there are any."""
    if skipped := store.metadata.skipped:
        names = ", ".join(skipped[:5]) + (", …" if len(skipped) > 5 else "")
        noun = "1 task is" if len(skipped) == 1 else f"{len(skipped)} tasks are"
        say(f"{noun} skipped on request: {names}", err=True)


def print_forecast(forecast: Forecast, config: Config, run: Path, form: Format = "terminal") -> None:
    """The forecast with what the run has spent already, and whether the config's ceiling suffices."""
    if form == "json":
        print_json(forecast.to_json())
    else:
        print_tables([table_of(forecast, config, run)], form)


def table_of(forecast: Forecast, config: Config, run: Path) -> Table:
    spent, paid = Amount(), 0.0
    if run.is_file():
        with Store.read(run) as store:
            used = store.spent()
        spent = Amount(0, add_usage({role: usage} for (_, role), usage in used.items()))
        paid = sum(price_of(config.models.get(model)).of(usage) for (model, _), usage in used.items())
    return forecast_table(forecast, config.ceiling, spent, paid)
