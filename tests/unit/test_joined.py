"""Statements that do the same in parts of a box become one, where order allows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plant_core.interp.func import evaluate
from plant_core.transform.merge_statements import joined
from tests.unit.test_blocks import read


def test_parts_of_a_box_are_one_statement(tmp_path: Path) -> None:
    func = read(
        """void f(int a[6][6], const int b[6][6]) { for (int i = 0; i < 6; i++) {
             for (int j = 0; j < i; j++) for (int k = 0; k < 6; k++) a[i][j] -= b[i][k] * b[k][j];
             for (int j = i; j < 6; j++) for (int k = 0; k < 6; k++) a[i][j] -= b[i][k] * b[k][j]; } }""",
        tmp_path,
    )
    made = joined(func)
    assert len(made.comps) == 1
    given = {n: np.arange(36, dtype=np.int32).reshape(6, 6) for n in "ab"}
    np.testing.assert_array_equal(evaluate(made, given)["a"], evaluate(func, given)["a"])


def test_what_comes_between_keeps_parts_apart(tmp_path: Path) -> None:
    func = read(
        """void f(int a[8], int b[8]) {
             for (int i = 0; i < 4; i++) a[i] = b[i] + 1;
             for (int i = 0; i < 8; i++) b[i] = a[i];
             for (int i = 4; i < 8; i++) a[i] = b[i] + 1; }""",
        tmp_path,
    )
    assert joined(func) is func
