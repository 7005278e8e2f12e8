"""Loop bounds and strides that are known only at run time, down to the machine; and other integer types on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen import oracle
from dspgen.backend.stages import simulate_kernel
from dspgen.driver.pipeline import compile_file, run_compiled, run_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.vecdsl.ir.evaluate import evaluate as evaluate_program
from dspgen.vecdsl.ir.program import Program
from plant_core.analysis.dependence import memory_dependences
from plant_core.analysis.runtime_parameters import with_sizes
from plant_core.interp.func import evaluate
from plant_core.interp.tiled_loop_tree import evaluate_tree
from plant_core.ir.loop_tree import Tree
from plant_core.normalize.pipeline import canonical

ROWS = """
void rows(const int count[5], float a[5][40]) {
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < count[i]; j++)
            a[i][j] = a[i][j] * 2.0f + 1.0f;
}
"""
SPARSE = """
void sparse(const int start[9], const int column[64], const float value[64], const float x[16], float y[8]) {
    for (int i = 0; i < 8; i++) {
        float s = 0;
        for (int k = start[i]; k < start[i + 1]; k++)
            s += value[k] * x[column[k]];
        y[i] = s;
    }
}
"""
STEPS = """
void steps(float a[64], const float b[64], int from, int by) {
    for (int i = from; i < 64; i += by)
        a[i] += b[i];
}
"""
STARTS = np.array([0, 0, 20, 21, 21, 37, 53, 54, 64], np.int32)


def _written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "k.c"
    path.write_text(text)
    return str(path)


def _inputs(seed: int) -> dict[str, np.ndarray | int | float]:
    rng = np.random.default_rng(seed)
    return {
        "count": np.array([0, 40, 1, 17, 32], np.int32),
        "start": STARTS,
        "column": rng.integers(0, 16, 64).astype(np.int32),
    }


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("text", [ROWS, SPARSE], ids=["rows", "sparse"])
def test_bounds_that_are_data(text: str, vectorize: bool, tmp_path: Path, ft_m7002: Target) -> None:
    """All stages agree with the C program."""
    path, stages = _written(tmp_path, text), list[tuple[str, object]]()
    options = Options(vectorize=vectorize, tile="one")
    compiled = compile_file(path, ft_m7002, options, on_stage=lambda *s: stages.append(s))
    source = compiled.source
    given = {k: v for k, v in _inputs(3).items() if k in {p.name for p in source.params}}
    values = oracle.random_inputs(source, 3, given)
    wanted = oracle.run_c(path, source, values, ())

    def check(name: str, found: dict[str, np.ndarray]) -> None:
        for array, value in wanted.items():
            assert np.allclose(found[array], value, 1e-5, 1e-5), name

    check("canonical", evaluate(compiled.func, values))
    for name, stage in stages:
        if isinstance(stage, Program):
            check(name, evaluate_program(stage, ft_m7002.lanes, values, slack=64))
        elif name == "tree":
            tree: Tree = stage  # type: ignore[assignment]
            check(name, evaluate_tree(compiled.func, tree, values, lanes=ft_m7002.lanes))
    check("assembly", simulate_kernel(compiled, ft_m7002, values).outputs)
    if vectorize:
        assert any("*" in tiles for tiles in compiled.tiles)


def test_steps_that_are_parameters(tmp_path: Path, ft_m7002: Target) -> None:
    path, options = _written(tmp_path, STEPS), Options(tile="one")
    compiled = compile_file(path, ft_m7002, options)
    assert any("unit" in tiles and "*" in tiles for tiles in compiled.tiles)
    for by in (1, 2, 7):
        result = run_compiled(compiled, path, ft_m7002, options, inputs={"from": 3, "by": by})
        assert result.verified, by


def test_versions_by_stride(tmp_path: Path) -> None:
    """Contiguous where the step is 1, without dependences where it is larger."""
    func = canonical(read_c(_written(tmp_path, STEPS)), reassoc=True)
    loops = [c for c in func.comps if c.iters]
    assert len(loops) == 3
    carried = {d.source for d in memory_dependences(func) if d.buf == "a" and d.kind == "flow"}
    assert carried == {loops[2].name}
    for by in (1, 3, 64):
        values = {"a": np.arange(64.0), "b": np.ones(64), "from": 2, "by": by}
        expected = np.arange(64.0) + (np.arange(64) % by == 2 % by) * (np.arange(64) >= 2)
        assert np.array_equal(evaluate(func, values)["a"], expected.astype(np.float32))


COMPUTED_GOTO = """
void k(float a[32], const float b[32], const float c[32], const int which[32]) {
    for (int i = 0; i < 32; i++) {
        switch (which[i]) { case 1: goto one; case 2: goto two; }
    one:
        a[i] += b[i] * b[i];
        goto done;
    two:
        a[i] += c[i] * c[i];
    done:;
    }
}
"""


@pytest.mark.parametrize("vectorize", [False, True])
def test_computed_goto(vectorize: bool, tmp_path: Path, ft_m7002: Target) -> None:
    which = np.arange(32, dtype=np.int32) % 4
    options = Options(vectorize=vectorize, fp="strict", tile="one")
    assert run_file(_written(tmp_path, COMPUTED_GOTO), ft_m7002, options, inputs={"which": which}).verified


LOOP = "void k({0} *p, const {0} *a, const {0} *b) {{ for (int i = 0; i < 40; i++) p[i] = {1}; }}"
NARROW = {
    "add i16": ("short", "a[i] + b[i]"),
    "saturated add i16": (
        "short",
        "a[i] + b[i] > 32767 ? 32767 : a[i] + b[i] < -32768 ? -32768 : a[i] + b[i]",
    ),
    "average u16": ("unsigned short", "(a[i] + b[i] + 1) >> 1"),
    "saturated difference u16": ("unsigned short", "a[i] > b[i] ? a[i] - b[i] : 0"),
    "high half u16": ("unsigned short", "(unsigned)a[i] * b[i] >> 16"),
    "max i32": ("int", "a[i] > b[i] ? a[i] : b[i]"),
    "shift i32": ("int", "(a[i] >> 3) ^ (b[i] & 255)"),
    "compare u32": ("unsigned", "a[i] < b[i] ? a[i] : b[i]"),
}


@pytest.mark.parametrize("name", NARROW)
def test_integer_kernels(name: str, tmp_path: Path, ft_m7002: Target) -> None:
    text = LOOP.format(*NARROW[name])
    assert run_file(_written(tmp_path, text), ft_m7002, Options(tile="one")).verified


def test_sizes_that_are_computed_first_are_parameters(tmp_path: Path) -> None:
    """Not those that are read from memory."""
    path = tmp_path / "f.c"
    text = """void f(int n, int m, const int at[2], float x[n * m]) { int size = 2 * n * m - n;
      for (int k = 0; k < size; k++) x[k] = k; for (int k = at[0]; k < at[1]; k++) x[k] = 0; }"""
    path.write_text(text, encoding="utf-8")
    func = read_c(str(path))
    sized, sizes = with_sizes(func)
    (name,) = sizes
    assert [p.name for p in sized.params] == ["n", "m", "at", "x", name]
    assert [c.name for c in func.comps if c not in sized.comps] == [c.name for c in func.comps if c.defines == name]
    assert len(sized.comps) == 4 and name not in {b.name for b in sized.bufs}
