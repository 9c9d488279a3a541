"""`recompact suites`: which suites can be used here, and what would make the others usable."""

from __future__ import annotations

from recompact.cli.benchmark_configs import BENCHMARKS
from recompact.cli.console import print_json, say
from recompact.cli.options import Json, as_command
from recompact.environments.loading import SUITES, missing_for


@as_command("suites", example="suites")
def command(*, as_json: Json) -> None:
    """List the built-in and installed suites, and what those that cannot be used lack."""
    rows = [
        {
            "suite": name,
            "missing": missing_for(name),
            "config": f"recompact init {name}" if name in BENCHMARKS else None,
        }
        for name in SUITES.names()
    ]
    if as_json:
        print_json({"suites": [{**row, "ready": row["missing"] is None} for row in rows]})
        return
    width = max(len(str(row["suite"])) for row in rows)
    for row in rows:
        state = f"missing  {row['missing']}" if row["missing"] else f"ready    {row['config'] or ''}"
        say(f"{row['suite']:<{width}}  {state}".rstrip())
