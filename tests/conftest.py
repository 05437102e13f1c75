"""Helper modules of the tests are plain files beside them, importable under any import mode."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
