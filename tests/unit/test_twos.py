"""Twos of elements at equal distances, where lanes hold two: loops that make them, and accesses that take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.asmir.legalize.element_pairs import with_pairs
from dspgen.driver.pipeline import run_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.rewrite.egraph.engine import engine_of
from dspgen.rewrite.egraph.rule_text import program_of
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.target.query.views import views
from dspgen.tiling.split.pair_split import in_twos
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf, Func

MACHINE = load_target("ft_mt3000")
PACKED = next(v for v in views(MACHINE) if v.packed == 2)
PACKED_LANES = f"{PACKED.lanes} lanes"


def func_of(body: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text_of(body), encoding="utf-8")
    return read_c(str(path))


def text_of(body: str) -> str:
    return f"void f(const float x[1024], const float w[512], float y[1024], float z[1024]) {{ {body} }}"


def distances(elem: str, store: bool) -> set[int]:
    return OperationTable(PACKED).twos(elem, store=store)


def test_the_packed_view_has_lanes_at_distances() -> None:
    assert distances("f32", True) and distances("f32", False)
    assert not OperationTable(MACHINE).twos("f32", store=True)


@pytest.mark.parametrize(
    ("body", "splits"),
    [
        ("for (int j = 0; j < 64; j++) for (int k = 0; k < 4; k++) y[8*j + k] = x[4*j + k] * w[4*j];", True),
        ("for (int j = 0; j < 64; j++) for (int k = 0; k < 4; k++) y[4*j + k] = x[8*j + k];", False),  # side by side
        ("for (int j = 0; j < 64; j++) for (int k = 0; k < 4; k++) y[12*j + k] = x[4*j + k];", False),  # no such store
        ("for (int j = 0; j < 64; j++) for (int k = 0; k < 6; k++) y[8*j + k] = x[4*j + k];", False),  # not two twos
        ("for (int j = 0; j < 64; j++) for (int k = 0; k < 4; k++) y[8*j + 2*k] = x[4*j + k];", False),  # in steps
        ("for (int j = 0; j < 64; j++) for (int k = 0; k < 4; k++) y[8*j + k] += x[j * k];", False),
    ],
)
def test_short_loops_in_twos(body: str, splits: bool, tmp_path: Path) -> None:
    func = func_of(body, tmp_path)
    changed = in_twos(func, 2, distances)
    assert (changed != func) == splits
    assert in_twos(func, 1, distances) is func
    random = np.random.default_rng(1)
    given = {p.name: random.uniform(-1, 1, p.extents).astype(np.float32) for p in func.params if isinstance(p, Buf)}
    before, after = (evaluate(f, {n: v.copy() for n, v in given.items()}) for f in (func, changed))
    np.testing.assert_array_equal(after["y"], before["y"])


LOOPS = {
    "elements in turn": (
        "for (int j = 0; j < 256; j++) { y[2*j] = x[j] + x[j + 512]; y[2*j + 1] = x[j] - x[j + 512]; }",
        True,
    ),
    "elements in turn, the second first": (
        "for (int j = 0; j < 256; j++) { y[2*j + 1] = x[j] + w[j]; z[j] = x[j + 3]; y[2*j] = x[j] - w[j]; }",
        True,
    ),
    "every second": ("for (int j = 0; j < 256; j++) y[j] = x[2*j] * x[2*j + 1];", True),
    "twos": (
        """for (int j = 0; j < 128; j++) for (int k = 0; k < 2; k++) {
          y[4*j + k] = x[2*j + k] + x[2*j + k + 512];
          y[4*j + k + 2] = w[2*j] * (x[2*j + k] - x[2*j + k + 512]); }""",
        True,
    ),
    "two twos": (
        """for (int j = 0; j < 64; j++) for (int k = 0; k < 4; k++) {
          y[8*j + k] = x[4*j + k] + x[4*j + k + 512];
          y[8*j + k + 4] = w[4*j] * (x[4*j + k] - x[4*j + k + 512]); }""",
        True,
    ),
    "what is stored is read again": (
        "for (int j = 0; j < 256; j++) { y[2*j] = x[j]; z[j] = y[2*j] + 1.0f; y[2*j + 1] = w[j]; }",
        False,
    ),
    "evens here and odds there": (
        "for (int j = 0; j < 64; j++) for (int k = 0; k < 2; k++) y[2*j + 3*k] = x[2*j + k] * w[j];",
        False,
    ),
    "neighbours out of step": (
        "for (int j = 0; j < 256; j++) { y[2*j + 1] = x[j] + 1.0f; y[2*j + 2] = x[j] - 1.0f; }",
        False,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_by_twos(name: str, tmp_path: Path) -> None:
    body, packed = LOOPS[name]
    path = tmp_path / "f.c"
    path.write_text(text_of(body), encoding="utf-8")
    result = run_file(str(path), MACHINE, Options())
    assert result.verified, result.details
    if packed:
        assert any(PACKED_LANES in r.message for r in result.remarks), [r.message for r in result.remarks]


def test_blocks_of_other_machines_stay() -> None:
    class Able:
        group = 1

    assert with_pairs([], Able(), None) == []  # type: ignore[arg-type]


def test_vectors_of_other_lengths_are_another_program() -> None:
    """One region's vectors of sixteen scalars, another's of thirty-two: one e-graph has them in one arity only."""
    few, many = (program_of((), lanes) for lanes in (16, 32))
    assert engine_of(*few) is engine_of(*few) and engine_of(*few) is not engine_of(*many)
