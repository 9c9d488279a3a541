"""The entry point of the command line: it knows what commands there are and loads only the one that is called.

Help must answer at once, so the names and one-line texts are here and everything heavy is imported by the command.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from contextlib import ExitStack
from importlib import import_module
from typing import Any, NoReturn

import click

from recompact.version import __version__

# name -> one-line help, in the order in which a person meets them; the module has the same name
COMMANDS = {
    "demo": "Run the whole of Recompact on the embedded world: no key, no network.",
    "init": "Write a first config: for your own suite, or for a benchmark of the paper.",
    "suites": "List the suites, and what those that cannot be used lack.",
    "setup": "Install a benchmark (AppWorld, tau2-bench) in its own virtual environment.",
    "tasks": "List tasks that are folders, or make one from a git repository.",
    "audit": "Show what agents redid after compactions in your own transcripts: no model, no key.",
    "preview": "Before a compaction: where your harness would cut, what is at stake, what a prompt loses.",
    "config": "Print the JSON schema of configs, for editors.",
    "check": "Check a config: report every mistake with its line and a fix.",
    "collect": "Run the tasks of a suite once and record every compaction.",
    "verify": "Find the harmful compactions of a run, by continuing with and without each.",
    "controls": "Check a verification against chance and theory: A/A, identity, allocations.",
    "boundaries": "List the compactions of a run with their effects, most harmful first.",
    "boundary": "Show one compaction: both contexts, what was dropped, what the agent did next.",
    "bisect": "Find which dropped lines would have saved a harmful compaction, by putting them back.",
    "adapt": "Adapt the compaction prompt: collect, verify, revise, select.",
    "evaluate": "Run tasks under several arms (no compaction, FIFO, prompts) and compare them.",
    "compare": "Is one arm better than another? Paired intervals and tests, or all arms at once.",
    "replay": "Try other templates on one compaction, and judge whether its harm is gone.",
    "probe": "Count what compacted contexts still show of what the agent needed next.",
    "gate": "Is a change to compaction worse than what it replaces? An exit code for CI.",
    "reproduce": "Reproduce a table of the paper, and print it beside the paper's figures.",
    "figures": "Draw the figures of runs as SVG and PNG.",
    "report": "Write one self-contained HTML page about runs: answer, tables, figures, worst compactions.",
    "view": "Browse runs, even while they are being written: loopback only, read-only.",
    "wrap": "Run any agent once under a budget, with your own compaction prompt.",
    "runs": "List the runs.",
    "show": "Print a run, or one trajectory with its boundaries marked.",
    "prompts": "Show, lint, compare and import compaction prompts.",
    "export": "Export a template to a harness: Codex, Claude Code, LangChain and others.",
    "export-run": "Write a run for other tools: Inspect, ATIF, OpenTelemetry, JSON lines.",
    "publish": "Write a run as a dataset: compactions with the outcomes of both continuations.",
}


class _ReaderGone(Exception):
    """The reader of our output is gone. Not an OSError: click would exit with code 1 for that."""


class LazyGroup(click.Group):
    """A group that imports a command's module when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from recompact.cli.stopping import interrupted_later

        with interrupted_later():
            module = import_module(f"recompact.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in COMMANDS:
            from difflib import get_close_matches

            if near := get_close_matches(args[0], COMMANDS, 1):
                ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from recompact.cli.stopping import stopped_by_signals

        if isinstance(ctx.obj, ExitStack):
            ctx.obj.enter_context(stopped_by_signals())
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGone from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"recompact, version {__version__}")
        ctx.exit()


_VERSION = click.Option(
    ["--version"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)


def _start_trackers(ctx: click.Context, option: click.Parameter, names: tuple[str, ...]) -> None:
    """Each tracker returns what ends it. What they hear of is in `recompact.values.events`."""
    if names and not ctx.resilient_parsing:
        from pathlib import Path

        from recompact.registry import Registry

        built_in = {name: f"recompact.integrations.{name}:start" for name in ("otel", "mlflow", "wandb")}
        trackers = Registry("tracker", "recompact.trackers", built_in)
        for name in dict.fromkeys(names):
            ctx.call_on_close(trackers.find(name, Path.cwd())())


_TRACK = click.Option(
    ["--track"],
    multiple=True,
    metavar="NAME",
    expose_value=False,
    callback=_start_trackers,
    help="Report progress to another tool: otel (OpenTelemetry), mlflow, wandb, or file.py:name. Repeatable.",
)


@click.command(
    cls=LazyGroup,
    params=[_VERSION, _TRACK],
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find out which context compactions hurt your agent, and adapt the compaction prompt from that evidence.",
    epilog="Start with `recompact demo`. Every command takes --json.",
)
def cli() -> None:
    pass


def main() -> None:
    """Run a command; a user's mistake is one message and exit code 2, Ctrl-C is exit code 130.

    Anything unforeseen is one line as well, with the path of a log that has the rest, and exit code 70.
    """
    # Records are many small values without cycles: Python's 700 have it look for cycles a quarter of a report's time.
    gc.set_threshold(20_000)
    with ExitStack() as stack:
        try:
            cli(prog_name="recompact", standalone_mode=False, terminal_width=_help_width(), obj=stack)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            from recompact.cli.stopping import end_stopped

            end_stopped("\nrecompact: stopped.")
        except _ReaderGone:
            sys.stdout = None  # or Python would complain at exit
            sys.exit(141)
        except Exception as error:
            _explain(error)


def _help_width() -> int:
    """As click works it out, but without the modules that it imports for that: help must answer at once."""
    try:
        columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size().columns
    except (OSError, ValueError):  # not a terminal
        columns = 80
    return max(min(columns, 80) - 2, 50)


def _explain(error: Exception) -> NoReturn:
    from recompact.errors import RecompactError
    from recompact.values.texts import visible

    if isinstance(error, RecompactError):
        click.echo(visible(f"recompact: {error}"), err=True)
        sys.exit(2)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # wherever a name was looked for
        click.echo(visible(f"recompact: {error.strerror}: {str(error.filename)[:60]!r}…"), err=True)
        sys.exit(2)
    from recompact.cli.unforeseen import report_unforeseen

    report_unforeseen(error)
    sys.exit(70)
