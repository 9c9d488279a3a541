"""What the command `recompact` begins with: until the command line is loaded, Ctrl-C ends it without a traceback."""

from __future__ import annotations

import signal


def main() -> None:
    """Load the command line and run it."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # somebody ignores it, as nohup does
        from recompact.cli.main import main as run
    else:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        from recompact.cli.main import main as run

        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
