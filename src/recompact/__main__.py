"""`python -m recompact`."""

from recompact.cli.main import main

main()
