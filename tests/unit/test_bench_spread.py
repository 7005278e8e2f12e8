"""Work on several processes: results in the order of the tasks, and a process that dies is told."""

from __future__ import annotations

import math
import os

import pytest

from dspgen.bench.spread import spread
from dspgen.errors import DspgenError


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_in_the_order_of_the_tasks(jobs: int) -> None:
    done: list[int] = []
    assert spread(math.factorial, [5, 3, 4], jobs, done.append) == [120, 6, 24]
    assert sorted(done) == [3, 4, 5]


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(DspgenError, match="ended early"):
        spread(os._exit, [1, 1], 2, lambda task: None)
