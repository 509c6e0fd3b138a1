"""Threads that ask to be run soon: what that changes, and what it leaves alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from realtime.runtime.slices import SHORT_SLICE_S, ask_for_short_slices, slice_s, step_back


def in_a_thread(call: Callable[[], object]) -> object:
    result: Future[object] = Future()
    thread = threading.Thread(target=lambda: result.set_result(call()))
    thread.start()
    thread.join()
    return result.result()


def asked_for(call: Callable[[], object]) -> Callable[[], object]:
    def then() -> object:
        ask_for_short_slices()
        return call()

    return then


def test_a_thread_that_asks_has_short_slices_and_no_other_has() -> None:
    """A kernel before 6.12 tells of no slices: 0, asked or not."""
    usual_s = slice_s()
    assert in_a_thread(asked_for(slice_s)) == (SHORT_SLICE_S if usual_s else 0.0)
    assert slice_s() == usual_s != SHORT_SLICE_S


@pytest.mark.parametrize("nice", [0, 7])
def test_it_keeps_its_share_of_the_processor(nice: int) -> None:
    def nicer() -> tuple[int, int]:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
        ask_for_short_slices()
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0)

    assert in_a_thread(nicer) == (nice, os.SCHED_OTHER)


def test_who_steps_back_does_so_alone_and_never_forward() -> None:
    def stepped_back() -> list[int]:
        found = []
        for niceness in (17, 5):
            step_back(niceness)
            found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return found

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert in_a_thread(stepped_back) == [17, 17]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_a_thread_that_runs_by_another_policy_is_left_alone() -> None:
    def batch() -> int:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        ask_for_short_slices()
        return os.sched_getscheduler(0)

    assert in_a_thread(batch) == os.SCHED_BATCH
