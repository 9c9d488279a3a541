"""Worlds of the third edition: which are accepted, by the figures of no method, and what can be won on them.

    python benchmarks/worlds.py accept --cache DIR      # draws worlds until twenty are accepted, and prints the table;
                                                        # with --write they become the worlds in use (worlds.json)
    python benchmarks/worlds.py table                   # the table of the draws that the worlds in use are from
    python benchmarks/worlds.py room --cache DIR        # what asking for one kind, or for all, takes from the rest
    python benchmarks/worlds.py kinds --cache DIR       # what each kind contributes: it is never lost any more
    python benchmarks/worlds.py ceiling --cache DIR     # the best set of clauses that a search finds
    python benchmarks/worlds.py controls --cache DIR    # changes that ought to do nothing
    python benchmarks/worlds.py printed --cache DIR     # prompts that ask for what the paper's printed prompts ask for
    python benchmarks/worlds.py power --cache DIR       # how many adaptations the comparison of methods needs
    python benchmarks/worlds.py second --cache DIR      # fixed prompts on the frozen second edition

All but `accept` and `second` run on the development worlds; `--worlds 101,102` chooses among them. Work resumes from
the cache. Simulated models only.
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
from recompact.values.tables import render

ANALYSES: Mapping[str, Callable[[Path, int], dict[str, Any]]] = {
    "room": world_analyses.room,
    "kinds": world_analyses.kinds,
    "ceiling": world_analyses.ceiling,
    "controls": world_analyses.controls,
    "printed": world_analyses.printed_prompts,
}
"""What can be asked of a world; each keeps its work in a directory and gives the figures of one world."""


def main() -> None:
    args = parse_arguments()
    if args.command == "accept":
        figures = accept_worlds(args.cache, args.first, args.number, _report_progress)
        if args.write:
            write_draws(figures)
        show([asdict(each) for each in figures], args.json, render(acceptance_table(figures), "markdown"))
        return
    if args.command == "table":
        show([asdict(each) for each in DRAWS], args.json, render(acceptance_table(DRAWS), "markdown"))
        return
    if args.command == "second":
        figures_of_prompts = world_analyses.second_edition(args.cache, args.runs)
        table = world_analyses.second_edition_table(figures_of_prompts, args.runs)
        show(figures_of_prompts, args.json, render(table, "markdown"))
        return
    chosen = [int(n) for n in args.worlds.split(",")] if args.worlds else list(DEVELOPMENT)
    if not DEVELOPMENT:
        sys.exit("no world has been accepted yet: python benchmarks/worlds.py accept --write")
    if strangers := [n for n in chosen if n not in DEVELOPMENT]:
        sys.exit(f"world {strangers[0]} is no development world: {', '.join(map(str, DEVELOPMENT))} are")
    if args.command == "power":
        rows = [world_analyses.noise(args.cache, n) for n in chosen]
        show(world_analyses.power_report(rows), args.json, world_analyses.power_text(rows))
        return
    rows = []
    for number in chosen:
        rows.append({"world": number, **ANALYSES[args.command](args.cache, number)})
        _report_progress(f"{args.command}: world {number} is done")
    show(rows, args.json, render(world_analyses.table_of(args.command, rows), "markdown"))


def show(figures: Any, as_json: bool, text: str) -> None:
    print(json.dumps(figures, indent=2) if as_json else text)


def _report_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["accept", "table", "second", *ANALYSES, "power"])
    parser.add_argument("--cache", type=Path, default=Path("worlds-cache"), help="where work is kept and resumed")
    parser.add_argument("--worlds", default="", help="some of the development worlds")
    parser.add_argument("--first", type=int, default=101, help="accept: the number to begin with")
    parser.add_argument("--number", type=int, default=20, help="accept: how many worlds are wanted")
    parser.add_argument("--write", action="store_true", help="accept: put the draws into benchmarks/worlds.json")
    parser.add_argument("--runs", type=int, default=3, help="second: of each task")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
