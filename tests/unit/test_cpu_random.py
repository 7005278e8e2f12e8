"""Random programs, compiled with and without tags on their loops, against the reference meaning."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.errors import DspgenError
from plant_core.interp.func import evaluate
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.schedule.verbs.tags import tag
from plant_core.support.location import IllegalSchedule, PlantError
from tests.generators.nests import Features, random_program
from tests.support.cpu_programs import inputs_of, read, run_compiled

KINDS = (("float",), ("float", "double"), ("int", "unsigned char", "short"), ("float", "int"))


def with_tags(scheduled: Scheduled, rng: random.Random) -> Scheduled:
    for nest in scheduled.nests:
        for loop in nest.loops:
            kind: Tag | None = rng.choice(("vectorize", "vectorize", "parallel", "unroll_explicit", "unroll", None))
            try:
                scheduled = tag(scheduled, nest.name, loop, kind)
            except (IllegalSchedule, PlantError):
                continue
    return scheduled


def run(seed: int, folder: Path, *, tags: bool) -> None:
    rng = random.Random(seed)
    types = rng.choice(KINDS) if tags else Features().types
    program = random_program(rng, Features(types=types, data_guards=not tags))
    try:
        func = read(folder, program.text)
    except DspgenError:
        return  # the generator's own slips: a subscript out of bounds
    inputs = inputs_of(func, seed, program.given)
    scheduled = as_written(func)
    if tags:
        scheduled = with_tags(scheduled, rng)
    try:
        got, source = run_compiled(scheduled, inputs, folder, vector_bytes=rng.choice((8, 16, 64)))
    except PlantError as error:
        assert "share a loop" in error.message  # statements of one loop with different tags
        return
    for name, want in evaluate(func, inputs).items():
        np.testing.assert_array_equal(got[name], want, err_msg=f"{program.text}\n{source}")


@pytest.mark.parametrize("seed", range(15))
def test_as_written(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, tags=False)


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_with_tags(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, tags=True)
