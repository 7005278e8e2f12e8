"""Small nests come unrolled or by loops, whichever takes fewer cycles: those of both forms are counted here."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from dspgen.backend.stages import cycles_of, fitting_views
from dspgen.driver.pipeline import compile_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.search.full_unroll import best_unrolled
from dspgen.search.nests import best_nests
from dspgen.search.plan_search import Chooser
from dspgen.target.load import load_target
from plant_core.normalize.pipeline import canonical

CLOSE = 1.05  # packets of what is chosen are found with more patience
OPTIONS = Options(data="onchip")


def small_nest(rng: random.Random) -> str:
    """A sum, a map, a recurrence or a transposition of few iterations, as the function `f`."""
    n, m, k = (rng.choice((2, 3, 4, 5, 8, 9, 12)) for _ in range(3))
    forms = (
        f"float c[{n}][{m}], const float a[{n}][{k}], const float b[{k}][{m}]) {{ for (int i = 0; i < {n}; i++) for "
        f"(int j = 0; j < {m}; j++) {{ c[i][j] = 0; for (int p = 0; p < {k}; p++) c[i][j] += a[i][p] * b[p][j]; }} }}",
        f"const float x[{n + k}], const float h[{k}], float y[{n}]) {{ for (int i = 0; i < {n}; i++) {{ y[i] = 0; for "
        f"(int p = 0; p < {k}; p++) y[i] += h[p] * x[i + p]; }} }}",
        f"const float a[{n}][{m}], float s[{n}]) {{ for (int i = 0; i < {n}; i++) {{ s[i] = 0; for (int j = 0; "
        f"j < {m}; j++) s[i] += a[i][j]; }} }}",
        f"const float a[{n}][{m}], float t[{m}][{n}]) {{ for (int i = 0; i < {n}; i++) for (int j = 0; j < {m}; j++) "
        f"t[j][i] = a[i][j] * {k}; }}",
        f"const float a[{n}], float b[{n}]) {{ float s = 0; for (int i = 0; i < {n}; i++) {{ s = s * 0.5f + a[i]; "
        f"b[i] = s; }} }}",
        f"const float a[{n + 2}], float b[{n + 2}]) {{ for (int t = 0; t < {k}; t++) for (int i = 1; i <= {n}; i++) "
        f"b[i] = a[i - 1] + a[i + 1] * b[i]; }}",
    )
    return f"void f({rng.choice(forms)}\n"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["ft_m7002", "ft_lite"])
def test_the_form_of_fewer_cycles_is_chosen(tmp_path: Path, name: str, seed: int) -> None:
    path, target = tmp_path / "f.c", load_target(name)
    path.write_text(small_nest(random.Random(seed)), encoding="utf-8")
    chosen = cycles_of(compile_file(str(path), target, OPTIONS), target)
    source, cycles = read_c(str(path)), list[float]()
    for view in fitting_views(source, target):
        unrolled = best_unrolled(source, view, OPTIONS, math.inf)
        cycles += [] if unrolled is None else [unrolled.cycles]
        _, by_loops = best_nests(Chooser(canonical(source, reassoc=True), view, OPTIONS), math.inf)
        cycles += [] if by_loops.cycles is None else [by_loops.cycles]
    assert chosen is not None and chosen <= CLOSE * min(cycles)
