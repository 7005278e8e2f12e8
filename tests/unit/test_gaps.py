"""Loops that leave out iterations in their middle, in parts: the same arrays."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from plant_core.ir.func import Func
from plant_core.normalize.loops.index_set_splitting import without_gaps
from plant_core.normalize.pipeline import canonical
from tests.support.same_arrays import check_same

WINDOW = "for (int i = 0; i < 30; i++) for (int k = -6; k <= 6; k++)"
LOOPS = {  # and the ranges of the innermost loop of the statements that there are then
    WINDOW + " { if (k >= -2 && k <= 2) continue; if (i + k < 0 || i + k > 29) continue; y[i] += x[i + k]; z[i]++; }":
        [(-6, -3), (-6, -3), (3, 6), (3, 6)],
    WINDOW + " if (k != 0) y[i] += x[i + 10 + k];": [(-6, -1), (1, 6)],
    WINDOW + " if (k != -3 && k != 4) y[i] = 2 * y[i] + x[i + 10 + k];": [(-6, -4), (-2, 3), (5, 6)],
    WINDOW + " { if (k != 0) y[i] += x[i + 10 + k]; z[i] += k; }": [(-6, 6), (-6, 6)],
    WINDOW + " { if (k < 0) y[i] += x[i + 10 + k]; if (k > 2) z[i] -= y[i]; }": [(-6, -1), (3, 6)],
    WINDOW + " if (k != i) y[i] += x[i + 10 + k];": [(-6, 6)],
    WINDOW + " if (k % 2 == 0) y[i] += x[i + 10 + k];": [(-6, 6)],
    "for (int i = 0; i < n; i++) for (int k = 0; k < 9; k++) if (k != 4) y[i] += x[k] * i;": [(0, 3), (5, 8)],
    "for (int i = 0; i < 30; i++) if (i < 9 || i > 20) { y[i] = x[i]; z[i] = y[0]; }":
        [(0, 8), (0, 8), (21, 29), (21, 29)],
    "for (int i = 0; i < n; i++) if (i < 9 || i > 20) y[i] = x[i];": [(0, None)],  # where it ends isn't known
}  # fmt: skip


def read(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(f"void f(int n, const int x[50], int y[50], int z[50]) {{ {text} }}", encoding="utf-8")
    return read_c(str(path))


@pytest.mark.parametrize("text", LOOPS)
def test_loops_have_no_gaps(text: str, tmp_path: Path) -> None:
    func = read(text, tmp_path)
    made = without_gaps(func)
    ends = []
    for comp in made.comps:
        low, high = comp.domain.dim_min_val(len(comp.iters) - 1), comp.domain.dim_max_val(len(comp.iters) - 1)
        ends.append((low.to_python(), high.to_python() if high.is_int() else None))
    assert ends == LOOPS[text]
    for n in (0, 1, 30):
        check_same(func, made, {"n": n})


@pytest.mark.parametrize("seed", range(20))
def test_random_gaps(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)

    def statement() -> str:
        guard = " && ".join(
            source.choice(["k != {}", "(k < {} || k > {} + 2)", "k < 8", "i != {}", "i + k != {}"]).format(
                *[source.randrange(8)] * 2
            )
            for _ in range(source.randrange(1, 3))
        )
        value = source.choice(["x[i + k]", "y[k]", "z[i] * 2", "y[i] - x[k]", "s"])
        return f"if ({guard}) {source.choice(['y[i]', 'z[i]', 'z[k]', 's'])} {source.choice(['+=', '='])} {value};"

    body = " ".join(statement() for _ in range(source.randrange(1, 4)))
    inner = f"for (int k = 0; k < 9; k++) {{ {body} }}"
    outer = f"for (int i = 0; i < 9; i++) {{ {statement().replace('k', 'i')} {inner} }}"
    func = read(f"int s = 3; {outer} z[49] = s;", tmp_path)
    check_same(func, without_gaps(func), {"n": 0})
    check_same(func, canonical(func, reassoc=True), {"n": 0})


def test_many_loops_in_parts_keep_small_places(tmp_path: Path) -> None:
    """Places in time are numbered one by one, however many loops are cut."""
    loops = " ".join(f"for (int i = 0; i < 30; i++) if (i != {k % 20 + 3}) y[i] += x[i + {k % 5}];" for k in range(70))
    func = read(loops, tmp_path)
    made = without_gaps(func)
    assert len(made.comps) == 140
    check_same(func, made, {"n": 0})
