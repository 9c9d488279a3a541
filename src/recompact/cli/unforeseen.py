"""An unforeseen error: one line for the person, and a log with everything for whoever looks into it."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from datetime import UTC, datetime

import click

from recompact.values.texts import visible, visible_line
from recompact.version import __version__


def report_unforeseen(error: Exception) -> None:
    """Write the log and say where it is and what to do."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    what = visible_line(what if len(what) <= 200 else f"{what[:200]}…")
    try:
        where = f"the details are in {_write_log(error)}"
    except OSError as failure:
        where = f"its log could not be written ({failure.strerror})"
    click.echo(
        f"recompact: unexpected error ({what}); {where}. The run keeps its records: run the same command again, and if"
        " the error recurs, look through the log and send it to the maintainers.",
        err=True,
    )


def _write_log(error: Exception) -> str:
    """A file that only its owner can read, since a traceback may quote what the command worked on."""
    descriptor, path = tempfile.mkstemp(prefix="recompact-", suffix=".log")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')}\n")
        log.write(f"recompact {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
        log.write(f"{shlex.join(['recompact', *sys.argv[1:]])}\n\n")
        log.write(visible("".join(traceback.format_exception(error))))
    return path
