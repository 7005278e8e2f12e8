"""Values of local scalars in their readers' place: the same arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.normalize.scalars.forward_substitution import forward_scalars
from tests.support.same_arrays import check_same

BODIES = {  # and how many statements are left
    "int t = p[i]; y[i] = t + 1;": 1,
    "int t = p[i]; y[t] = x[i];": 1,
    "int t = p[i] & 7; y[t] += 1;": 1,
    "int t = p[i]; int u = p[t] - 1; y[u + 1] = y[u + 1] - t;": 1,
    "int t = p[i]; if (x[i] > 0) y[t] = x[t];": 1,
    "int t = p[i]; t = t + 1; y[i] = t;": 1,  # what is stored to is no value
    "int t = p[i]; y[i] = 1; p[i] = 0; y[t] = x[i];": 4,  # what the value is made of has changed
}


@pytest.mark.parametrize("body", BODIES)
def test_values_stand_where_they_are_read(body: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"void f(int p[8], const int x[8], int y[8]) {{ for (int i = 0; i < 8; i++) {{ {body} }} }}")
    func = read_c(str(path))
    made = forward_scalars(func)
    assert len(made.comps) == BODIES[body]
    check_same(func, made, {"p": np.random.default_rng(4).permutation(8).astype(np.int32)})
