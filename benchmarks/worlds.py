"""Worlds of the third edition: which are accepted, by the figures of no method, and what can be won on them.

    python benchmarks/worlds.py accept --cache DIR      # draws worlds until twenty are accepted, and prints the table;
                                                        # with --write they become the worlds in use (worlds.json)
    python benchmarks/worlds.py table                   # the table of the draws that the worlds in use are from
    python benchmarks/worlds.py room        # what room takes, under the plain prompt and one that asks for everything
    python benchmarks/worlds.py kinds       # what each kind contributes: it is never lost any more
    python benchmarks/worlds.py visible     # which losses an optimizer can see
    python benchmarks/worlds.py ceiling     # the best set of clauses that a search finds
    python benchmarks/worlds.py wording     # what words alone win: sparing ones, demands, no absolutes
    python benchmarks/worlds.py controls    # changes that ought to do nothing
    python benchmarks/worlds.py printed     # prompts that ask for what the paper's printed prompts ask for
    python benchmarks/worlds.py power       # how many adaptations the comparison of methods needs
    python benchmarks/worlds.py second      # fixed prompts on the frozen second edition

All but `accept` and `second` are about the development worlds; `--worlds 101,102` chooses among them. They print the
figures that are kept in world_figures.json. With `--cache DIR` they work them out, resuming from the directory, and
with `--write` those are kept. Simulated models only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import world_analyses
from acceptance import DEVELOPMENT, DRAWS, accept_worlds, acceptance_table, write_draws
from recompact.errors import InputError
from recompact.values.tables import render

ANALYSES: Mapping[str, Callable[[Path | None, int], dict[str, Any]]] = {
    "room": world_analyses.room,
    "kinds": world_analyses.kinds,
    "visible": world_analyses.visible,
    "ceiling": world_analyses.ceiling,
    "wording": world_analyses.wording,
    "controls": world_analyses.controls,
    "printed": world_analyses.printed_prompts,
}
"""What can be asked of a world; each keeps its work in a directory and gives the figures of one world."""


def main() -> None:
    args = parse_arguments()
    try:
        run(args)
    except InputError as error:
        sys.exit(str(error))


def run(args: argparse.Namespace) -> None:
    if args.command == "accept":
        figures = accept_worlds(args.cache or Path("worlds-cache"), args.first, args.number, _report_progress)
        if args.write:
            write_draws(figures)
        show([asdict(each) for each in figures], args.json, render(acceptance_table(figures), "markdown"))
    elif args.command == "table":
        show([asdict(each) for each in DRAWS], args.json, render(acceptance_table(DRAWS), "markdown"))
    elif args.command == "second":
        of_prompts = world_analyses.second_edition(args.cache, args.runs)
        if args.write:
            world_analyses.write_kept("second-edition", {args.runs: of_prompts})
        show(of_prompts, args.json, render(world_analyses.second_edition_table(of_prompts, args.runs), "markdown"))
    elif args.command == "power":
        rows = [world_analyses.noise(args.cache, n) for n in choose_worlds(args.worlds)]
        show(world_analyses.power_report(rows), args.json, world_analyses.power_text(rows))
    else:
        show_analysis(args)


def show_analysis(args: argparse.Namespace) -> None:
    by_world = {}
    chosen = choose_worlds(args.worlds)
    if not args.cache and not args.worlds:
        kept = world_analyses.kept_numbers(args.command)
        if missing := [str(number) for number in chosen if number not in kept]:
            _report_progress(f"not worked out yet (--cache DIR --write does): {', '.join(missing)}")
        chosen = [number for number in chosen if number in kept] or chosen
    for number in chosen:
        by_world[number] = ANALYSES[args.command](args.cache, number)
        if args.cache:
            _report_progress(f"{args.command}: world {number} is done")
    if args.write:
        world_analyses.write_kept(args.command, by_world)
    rows = [{"world": number, **figures} for number, figures in by_world.items()]
    show(rows, args.json, render(world_analyses.table_of(args.command, rows), "markdown"))


def choose_worlds(named: str) -> list[int]:
    """The development worlds, or those of them that are named."""
    chosen = [int(n) for n in named.split(",")] if named else list(DEVELOPMENT)
    if not DEVELOPMENT:
        raise InputError("no world has been accepted yet: python benchmarks/worlds.py accept --write")
    if strangers := [n for n in chosen if n not in DEVELOPMENT]:
        raise InputError(f"world {strangers[0]} is no development world: {', '.join(map(str, DEVELOPMENT))} are")
    return chosen


def show(figures: Any, as_json: bool, text: str) -> None:
    print(json.dumps(figures, indent=2) if as_json else text)


def _report_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["accept", "table", "second", *ANALYSES, "power"])
    parser.add_argument("--cache", type=Path, help="work it out, and keep and resume the work here")
    parser.add_argument("--worlds", default="", help="some of the development worlds")
    parser.add_argument("--first", type=int, default=101, help="accept: the number to begin with")
    parser.add_argument("--number", type=int, default=20, help="accept: how many worlds are wanted")
    parser.add_argument("--write", action="store_true", help="keep the figures in the repository")
    parser.add_argument("--runs", type=int, default=3, help="second: of each task")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
