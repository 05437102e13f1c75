"""The stand-in for a GPU works, in a process of its own. All that runs on it: `python tests/cupy_on_cpu`."""

import pathlib
import subprocess
import sys

import pytest

import cupy_on_cpu

TESTS = pathlib.Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def installed():
    if (why := cupy_on_cpu.reason()) is not None:
        pytest.skip(why)


def test_a_part_of_its_tests_in_a_process_of_their_own():
    file = str(TESTS / "cuda" / "test_threads_of_a_block.py")
    command = [sys.executable, str(TESTS / "cupy_on_cpu"), file, "-n", "0", "-k", "counted or shared_memory"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert told.returncode == 0 and "6 passed" in told.stdout, told.stdout + told.stderr
    assert "cupy" not in sys.modules
