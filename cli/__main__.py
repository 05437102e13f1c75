"""`python -m plugrad.cli` is `plugrad`."""

from plugrad.cli import main

main()
