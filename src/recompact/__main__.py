"""`python -m recompact`."""

from recompact.cli.start import main

main()
