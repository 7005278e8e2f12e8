"""Subscripts of quotients of quotients may be any, for the analyses."""

from __future__ import annotations

from pathlib import Path

import islpy as isl
import pytest

from dspgen.frontend.read import read_c
from plant_core.ir.accesses import access_map
from plant_core.ir.nested_quotients import tangled

VALUES = {
    "i": False,
    "floor(i/3) + floor(i/5)": False,
    "floor(floor(i/2)/2)": False,  # a plain one, as isl knows
    "floor((i - 16*floor(i/16))/4)": False,
    "4*floor(i/16) + floor((i - 16*floor(i/16))/8) + 2*floor((i - 4*floor(i/4))/2)": False,
    "floor((i - 12*floor(i/12))/5)": True,
    "floor((12*i - 191*floor(i/16))/7)": True,
}


@pytest.mark.parametrize("text", VALUES)
def test_values_with_quotients_of_others_are_tangled(text: str) -> None:
    assert tangled(isl.PwAff(f"{{ [i] -> [({text})] }}")) == VALUES[text]


@pytest.mark.parametrize(("index", "exact"), [("(k % 16) / 4", True), ("(k % 12) / 5 + k - k", False)])
def test_what_is_tangled_may_be_any_element(index: str, exact: bool, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"void f(const int x[60], int y[60]) {{ for (int k = 0; k < 60; k++) y[{index}] = x[k]; }}")
    (comp,) = read_c(str(path)).comps
    assert access_map(comp, comp.target)[1] == exact
