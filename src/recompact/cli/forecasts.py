"""How a forecast is shown: one table for every command that takes --dry-run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recompact.cli.console import print_json, print_tables

if TYPE_CHECKING:
    from recompact.engine.config import Config
    from recompact.engine.forecast import Forecast
    from recompact.values.tables import Format, Table

dry_run_option = click.option("--dry-run", is_flag=True, help="Only print the expected cost; run nothing.")


def print_forecast(forecast: Forecast, config: Config, run: Path, form: Format = "terminal") -> None:
    """The forecast with what the run has spent already, and whether the config's ceiling suffices."""
    if form == "json":
        print_json(forecast.to_json())
    else:
        print_tables([table_of(forecast, config, run)], form)


def table_of(forecast: Forecast, config: Config, run: Path) -> Table:
    from recompact.engine.forecast import Amount, add_usage, forecast_table, price_of
    from recompact.engine.store.store import Store

    spent, paid = Amount(), 0.0
    if run.is_file():
        with Store.read(run) as store:
            used = store.spent()
        spent = Amount(0, add_usage({role: usage} for (_, role), usage in used.items()))
        paid = sum(price_of(config.models.get(model)).of(usage) for (model, _), usage in used.items())
    return forecast_table(forecast, config.ceiling, spent, paid)
