"""Loops over strips that a program's author cut, undone: the same arrays, in fewer loops."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from plant_core.ir.func import Func
from plant_core.normalize.loops.untile import untiled
from plant_core.normalize.pipeline import canonical
from tests.support.same_arrays import check_same

SIZES = (0, 1, 5, 8, 13, 20)
LOOPS = {  # and the loops of each statement then
    "for (int ii = 0; ii < n; ii += 8) for (int i = ii; i < MIN(ii + 8, n); i++) y[i] += x[i];": [1],
    "for (int ii = 0; ii < n; ii += 8) for (int i = 0; i < MIN(8, n - ii); i++) y[ii + i] += x[ii + i];": [1],
    "for (int ii = 0; ii < n; ii += 8) for (int i = 0; i < MIN(8, n - ii); i++) y[ii + i] += n * x[ii + i + n];": [1],
    "for (int ii = 0; ii < n; ii += 4) for (int k = 0; k < 3; k++) for (int i = ii; i < MIN(ii + 4, n); i++) "
    "y[i] += x[i + k];": [2],
    # Both statements have the strips, and pass nothing from one to another.
    "for (int ii = 0; ii < n; ii += 4) for (int i = ii; i < MIN(ii + 4, n); i++) { y[i] += x[i]; z[i] = 2 * y[i]; }":
        [1, 1],
    # A variable of each iteration doesn't, either.
    "for (int ii = 0; ii < n; ii += 4) for (int kk = 0; kk < 6; kk += 4) for (int i = ii; i < MIN(ii + 4, n); i++) {"
    " int s = y[i]; for (int k = kk; k < MIN(kk + 4, 6); k++) s += x[i + k]; y[i] = s; }": [2, 3, 2],
    # One that all iterations share does.
    "int s = 0; for (int ii = 0; ii < n; ii += 4) for (int k = 0; k < 3; k++) for (int i = ii; i < MIN(ii + 4, n); i++)"
    " { s = 3 * s + x[i + k]; y[i] = s; }": [0, 3, 3],
    # Strips that overlap tell nothing.
    "for (int ii = 0; ii < n; ii += 4) for (int i = ii; i < MIN(ii + 6, n); i++) y[i] += x[i];": [2],
    # The number of the strip is asked for.
    "for (int ii = 0; ii < n; ii += 4) for (int i = ii; i < MIN(ii + 4, n); i++) y[i] += x[ii];": [2],
    # Something else is done for each strip.
    "for (int ii = 0; ii < n; ii += 4) { z[ii] = 1; for (int i = ii; i < MIN(ii + 4, n); i++) y[i] += x[i]; }": [1, 2],
    # In another order, elements would be read before they are written.
    "for (int ii = 0; ii < n; ii += 4) for (int k = 0; k < 3; k++) for (int i = ii; i < MIN(ii + 4, n); i++) "
    "y[i + k] = y[i] + 1;": [3],
    # Frames that are full stay.
    "for (int f = 0; f < 4; f++) for (int i = 0; i < 8; i++) y[8 * f + i] += x[8 * f + i];": [2],
}  # fmt: skip


def read(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    head = "#define MIN(a, b) ((a) < (b) ? (a) : (b))\n"
    path.write_text(f"{head}void f(int n, const int x[50], int y[50], int z[50]) {{ {text} }}", encoding="utf-8")
    return read_c(str(path))


@pytest.mark.parametrize("text", LOOPS)
def test_strips_are_undone_where_that_may_be(text: str, tmp_path: Path) -> None:
    func = read(text, tmp_path)
    made = untiled(func, reassoc=False)
    assert [len(c.iters) for c in made.comps] == LOOPS[text]
    for n in SIZES:
        check_same(func, made, {"n": n})


def test_updates_in_memory_do_without_strips_of_terms(tmp_path: Path) -> None:
    loops = "for (int kk = 0; kk < 18; kk += 4) for (int i = 0; i < n; i++)"
    body = "{ int s = y[i]; for (int k = kk; k < MIN(kk + 4, 18); k++) s += x[i + k]; y[i] = s; }"
    func = read(f"{loops} {body}", tmp_path)
    made = canonical(func, reassoc=False)
    assert [len(c.iters) for c in made.comps] == [2]
    for n in SIZES:
        check_same(func, made, {"n": n})


@pytest.mark.parametrize("seed", range(40))
def test_random_strips(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    size, other = source.choice([3, 4, 7]), source.choice([2, 5])
    loops = [f"for (int ii = 0; ii < n; ii += {size})", f"for (int kk = 0; kk < 9; kk += {other})"]
    inner = [f"for (int i = ii; i < MIN(ii + {size}, n); i++)", f"for (int k = kk; k < MIN(kk + {other}, 9); k++)"]
    source.shuffle(loops)
    source.shuffle(inner)
    at = ["i", "k", "i + k", "i + 9 - k", "2 * k", "ii", "n - i", "k + kk"]

    def statement() -> str:
        target = f"{source.choice('yz')}[{source.choice(at[:5])}]"
        term = f"{source.choice('xxyz')}[{source.choice(at if source.random() < 0.2 else at[:4])}]"
        return f"{target} {source.choice(['=', '+=', '= 3 -'])} {term};"

    body = " ".join(statement() for _ in range(source.randint(1, 2)))
    if source.random() < 0.5:  # counted from where the strip begins
        inner = [f"for (int i = 0; i < MIN({size}, n - ii); i++)" if "int i" in x else x for x in inner]
        body = re.sub(r"\bi\b", "(ii + i)", body)
    func = read(f"{' '.join(loops + inner)} {{ {body} }}", tmp_path)
    for made in (untiled(func, reassoc=False), canonical(func, reassoc=False)):
        for n in (0, 6, 19):
            check_same(func, made, {"n": n})
