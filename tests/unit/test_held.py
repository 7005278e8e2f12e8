"""Elements that several nests use, in variables meanwhile: the same arrays."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from plant_core.normalize.pipeline import canonical
from plant_core.transform.scalar_replacement import with_elements_held
from tests.support.same_arrays import check_same

LOOPS = {  # and how many statements there are afterwards
    "s[0] = 0; for (int i = 0; i < n; i++) s[0] += x[i];": 3,
    "for (int i = 0; i < n; i++) s[1] += x[i]; s[0] = s[1];": 5,
    "for (int i = 0; i < n; i++) s[0] = x[i]; for (int i = 0; i < n; i++) y[i] = s[0];": 4,
    "s[0] = s[1] = 1; for (int i = 0; i < n; i++) { s[0] += x[i]; s[1] -= s[0]; }": 6,
    "for (int i = 0; i < n; i++) s[0] += x[i];": 1,  # one nest only
    "for (int i = 0; i < n; i++) y[i] = s[0]; for (int i = 0; i < n; i++) y[i] += s[0];": 2,  # isn't written
    "s[0] = 0; for (int i = 0; i < n; i++) s[i % 3] += x[i];": 2,
    "y[0] = 1; for (int i = 0; i < n; i++) y[i] += x[i];": 2,
}


@pytest.mark.parametrize("text", LOOPS)
def test_elements_are_held_while_nests_use_them(text: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"void f(int n, const int x[9], int y[9], int s[3]) {{ {text} }}", encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=False, symbolic=True)
    made = with_elements_held(func)
    assert len(made.comps) == LOOPS[text]
    for n in (0, 1, 5):
        check_same(func, made, {"n": n})
