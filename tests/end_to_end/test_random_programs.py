"""A few random programs from C to results, on several machines: many more are run by `make fuzz`."""

from __future__ import annotations

import pytest

from tests.support.fuzz_cases import random_case, resolved, verdict_on

# Those that compile fast.
SEEDS = (0, 1, 2, 3, 4, 6, 7, 8)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_the_c_programs(seed: int) -> None:
    case, source = random_case(f"suite/{seed}")
    verdict = verdict_on(source.text, resolved(case))
    assert verdict.kind == "right", f"{source.text}\n{case.arguments()}\n{verdict.message}"
