"""Calls in another process: what they return and raise, and a process that dies."""

from __future__ import annotations

import math
import os

import pytest

from dspgen.errors import DspgenError
from dspgen.sched.machine.solver_process import apart


def test_results_and_errors_come_back() -> None:
    assert apart(math.sqrt, 9.0) == 3.0
    with pytest.raises(ValueError):
        apart(math.sqrt, -1.0)


def test_a_process_that_dies_is_told_and_started_anew() -> None:
    with pytest.raises(DspgenError, match="ended with status 3, without an answer") as caught:
        apart(os._exit, 3)
    assert caught.value.problems[0].code == "DG310"
    assert apart(math.sqrt, 4.0) == 2.0
