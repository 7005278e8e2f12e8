"""Reads fetched beforehand and loops in two: the same values, and loops that may lie across lanes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.tiling.split.alignment_peeling import align_stores
from dspgen.tiling.split.loop_fission import split, split_loops, split_reads
from plant_core.analysis.dependence import lane_candidates
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf, Func
from plant_core.ir.time_2d1 import normalise_loops
from plant_core.normalize.scalars.scalar_expansion import expand_scalars


def func_of(body: str, folder: Path, params: str = "float a[100], float b[100], float c[100]") -> Func:
    path = folder / "f.c"
    path.write_text(f"void f({params}) {{ {body} }}", encoding="utf-8")
    return expand_scalars(normalise_loops(read_c(str(path))))


def check_same(before: Func, after: Func) -> None:
    generator = np.random.default_rng(1)
    inputs = {
        p.name: generator.integers(-9, 9, p.extents).astype(np.float32) for p in before.params if isinstance(p, Buf)
    }
    expected, got = evaluate(before, inputs), evaluate(after, inputs)
    assert all(np.array_equal(expected[name], got[name]) for name in expected)


def parallel(func: Func) -> int:
    return sum(1 for c in lane_candidates(func) if c.kind == "parallel")


def test_a_value_that_is_overwritten_later_is_read_beforehand(tmp_path: Path) -> None:
    func = func_of("for (int i = 0; i < 99; i++) { a[i] = b[i] * c[i]; b[i] = a[i] + a[i + 1]; }", tmp_path)
    changed = split_reads(func)
    assert len(changed.comps) == 3
    check_same(func, changed)


def test_a_value_of_the_same_iteration_is_not_read_beforehand(tmp_path: Path) -> None:
    func = func_of("for (int i = 1; i < 99; i++) { a[i] = b[i - 1] * c[i]; b[i] = a[i] + 1.0f; }", tmp_path)
    assert split_reads(func) is func


@pytest.mark.parametrize(
    ("body", "loops"),
    [
        ("for (int i = 0; i < 100; i++) a[i] = a[99 - i] + b[i];", 2),
        ("for (int i = 0; i < 100; i++) a[i] = a[0] + b[i];", 2),
        ("for (int i = 0; i < 100; i++) a[i] = a[50] + b[i];", 2),
        ("for (int i = 0; i < 100; i++) { float t = a[99 - i] + b[i]; a[i] = t - 1.0f; c[i] = t; }", 2),
        ("for (int j = 0; j < 2; j++) for (int i = 0; i < 50; i++) a[50 * j + i] = a[50 * j + 49 - i] + b[i];", 4),
    ],
)
def test_loops_in_two_at_the_crossing(body: str, loops: int, tmp_path: Path) -> None:
    func = func_of(body, tmp_path)
    changed = split_loops(func)
    assert len(changed.comps) == 2 * len(func.comps)
    assert parallel(changed) >= 2
    check_same(func, changed)


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 1; i < 100; i++) a[i] = a[i - 1] + b[i];",
        "for (int i = 0; i < 99; i++) a[i] = a[i + 1] + b[i];",
        "for (int i = 0; i < 50; i++) a[2 * i] = a[i] + b[i];",
    ],
)
def test_other_loops_stay(body: str, tmp_path: Path) -> None:
    func = func_of(body, tmp_path)
    assert split_loops(func) is func


@pytest.mark.parametrize("seed", range(40))
def test_random_bodies_keep_their_values(seed: int, tmp_path: Path) -> None:
    random = Random(seed)

    def access() -> str:
        name = random.choice("abc")
        return f"{name}[{random.choice(['i', 'i', 'i + 1', 'i + 2', 'i - 1', '98 - i', '50', '2'])}]"

    def statement() -> str:
        target = f"{random.choice('abc')}[{random.choice(['i', 'i', 'i + 1', '98 - i'])}]"
        return f"{target} = {access()} * 0.5f + {access()};"

    body = " ".join(statement() for _ in range(random.choice([1, 2, 2, 3])))
    func = func_of(f"for (int i = 1; i < 98; i++) {{ {body} }}", tmp_path)
    check_same(func, split(func))


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 3; i < 90; i++) a[i] = a[i - 3] + b[i];",
        "for (int i = 90; i > 2; i--) a[i] = a[i + 3] + b[i];",
        "for (int i = 90; i > 2; i--) a[i] = a[i - 3] + b[i];",
        "for (int i = 90; i > 2; i--) { b[i] = a[i - 3]; a[i] = b[i + 1] + c[i]; }",
    ],
)
def test_first_iterations_apart_keep_their_order(body: str, tmp_path: Path) -> None:
    """Those of a loop that counts down run last."""
    func = func_of(body, tmp_path)
    changed = align_stores(func, lambda _: 2, 4)
    assert len(changed.comps) > len(func.comps)
    check_same(func, changed)
