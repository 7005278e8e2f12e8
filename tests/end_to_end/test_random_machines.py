"""Machines near those that there are: `isa check` refuses them with a reason, or small kernels run on them, verified.

A kernel may be refused in two ways where the check found no error: it takes an operation that the machine lacks, or it
runs into what the check warned of.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, given, settings

from dspgen.driver.pipeline import run_file
from dspgen.errors import NoSchedule, Problem
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.target.schema.structure import Fault
from tests.support.random_isa import Variation, machine, variations, varied
from tests.support.small_kernels import KERNELS

MACHINES = 10  # numbered, whose time to compile is known; in `make nightly` others as well
LONG = {6: ("matmul", "clamp")}  # by such machines, kernels that take long to compile: in `make nightly` only
NIGHTLY = 100
_LACKS = re.compile(r"has no instruction for (?:scalar|vector) `(\w+)[^`]*` of type (\w+)")
_MEMORY = {"ld": "ld", "load": "ld", "store": "st"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    for name, text in KERNELS.items():
        (folder / f"{name}.c").write_text(text, encoding="utf-8")
    return folder


def foreseen(problem: Problem, target: Target, warnings: list[Fault]) -> bool:
    """Whether the machine really lacks the operation, or the check has warned of what the kernel ran into."""
    if problem.code == "DG302":
        return any(w.code in ("DG123", "DG124", "DG130") for w in warnings)
    found = _LACKS.search(problem.message)
    if problem.code != "DG300" or found is None:
        return False
    op, elem = found.groups()
    scalar = target.abi.scalar_class
    forms = OperationTable(target).forms(_MEMORY.get(op, op), "i32" if op in _MEMORY else elem)
    return not any(scalar in o.classes for f in forms for o in f.instruction.operands)


def run(variation: Variation, kernel: str, folder: Path) -> str:
    """`verified`, or why not."""
    target, problems = machine(variation)
    errors = [p for p in problems if p.severity == "error"]
    assert target is not None and not errors
    try:
        result = run_file(str(folder / f"{kernel}.c"), target, Options(tiler="model", tile="one"))
    except NoSchedule as error:
        assert all(foreseen(p, target, problems) for p in error.problems), f"{kernel}: {error.render()}"
        return error.problems[0].code
    assert result.verified, f"{kernel}: {result.details}"
    return "verified"


def refused_or_runs(variation: Variation, folder: Path, without: Collection[str] = ()) -> None:
    target, problems = machine(variation)
    errors = [p for p in problems if p.severity == "error"]
    if target is None or errors:
        assert errors and all(e.message for e in errors)
        return
    for kernel in KERNELS:
        if kernel not in without:
            run(variation, kernel, folder)


@pytest.mark.parametrize("number", range(MACHINES))
def test_a_machine_is_refused_or_runs(number: int, sources: Path) -> None:
    refused_or_runs(varied(Random(number)), sources, LONG.get(number, ()))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "kernel"), [(number, kernel) for number in LONG for kernel in LONG[number]])
def test_long_kernels_of_a_machine(number: int, kernel: str, sources: Path) -> None:
    run(varied(Random(number)), kernel, sources)


@pytest.mark.slow
@settings(max_examples=NIGHTLY, phases=(Phase.explicit, Phase.reuse, Phase.generate))  # none is smaller than others
@given(variation=variations())
def test_many_machines(variation: Variation, sources: Path) -> None:
    refused_or_runs(variation, sources)


FOUND = {
    "linear text of steps that no immediate reaches": (
        "matmul",
        Variation("broad", (("lanes", 16),), without=("BADDAR",)),
    ),
    "an address advanced before it can be": (
        "dot",
        Variation(
            "broad",
            (("pipeline.exposed", True), ("address_modes.update_latency", 3), ("instructions.BFADD.latency", 2)),
        ),
    ),
    "old values read while new ones come": (
        "dot",
        Variation(
            "broad",
            (
                ("pipeline.exposed", True),
                ("pipeline.equals", True),
                ("address_modes.update_latency", 5),
                ("instructions.BFADD.latency", 2),
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_random_machines_found(name: str, sources: Path) -> None:
    kernel, variation = FOUND[name]
    assert run(variation, kernel, sources) == "verified"
