"""Calls in other processes: their values, and what comes of one that raises, dies or does not end."""

import math
import operator
import os
import time

import pytest

from plugrad.testing.running import processes


def test_values_of_all_calls_come_back():
    shares = [[(4.0,), (9.0,)], [(16.0,)], []]
    expected = {(4.0,): 2.0, (9.0,): 3.0, (16.0,): 4.0}
    for jobs in (1, 2):
        assert dict(processes.run(math.sqrt, shares, jobs)) == expected


def test_a_share_is_one_processs():
    pids = [pid for _, pid in processes.run(os.getpid, [[(), ()], [(), ()]], jobs=2)]
    assert os.getpid() not in pids and sorted(map(pids.count, pids)) == [2, 2, 2, 2]


def test_in_one_process_it_is_this_one():
    assert [pid for _, pid in processes.run(os.getpid, [[()]])] == [os.getpid()]


@pytest.mark.parametrize("function, arguments, reason", [(os._exit, (3,), "exit status 3"), (os.abort, (), "SIGABRT")])
def test_a_process_that_dies_is_lost(function, arguments, reason):
    ((given, lost),) = processes.run(function, [[arguments]], jobs=2)
    assert given == arguments and isinstance(lost, processes.Lost)
    assert lost.reason.startswith("the process that ran it died (") and reason in lost.reason


def test_a_call_that_does_not_end_is_lost_and_those_behind_it_are_made():
    results = dict(processes.run(time.sleep, [[(60,), (0,)]], timeout=0.3))
    assert results[0,] is None
    assert results[60,].reason == "it did not end within 0.3 seconds (--timeout)" and 0.3 <= results[60,].seconds < 30


def test_preparing_does_not_count_as_time_of_a_call():
    setup = time.sleep, (0.6,)
    assert list(processes.run(math.sqrt, [[(4.0,)]], timeout=0.3, setup=setup)) == [((4.0,), 2.0)]


def test_what_is_raised_ends_everything():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(processes.run(operator.truediv, [[(1, 0)]], jobs=2))
    with pytest.raises(RuntimeError, match="could not be prepared: .*exit status 4"):
        list(processes.run(math.sqrt, [[(4.0,)]], jobs=2, setup=(os._exit, (4,))))
