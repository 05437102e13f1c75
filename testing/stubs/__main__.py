"""`python -m plugrad.testing.stubs stubs` writes anew what the wheel brings: the stubs of plugrad's own names."""

import sys

from plugrad.testing.stubs import write

write(sys.argv[1], own=True)
