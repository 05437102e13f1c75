"""The parity tests' helper modules are plain files beside them, importable under any pytest import mode."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
