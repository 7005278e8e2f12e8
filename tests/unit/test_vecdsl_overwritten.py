"""Vectors that are stored whole where what follows writes the rest: the same contents in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.vecdsl.ir.program import Store
from dspgen.vecdsl.ir.terms import statements
from tests.unit.test_vecdsl_narrow import compiled, of, same, text


def test_rows_that_end_within_a_vector_are_stored_whole(tmp_path: Path) -> None:
    """All but the last one, since the next one writes what was too much."""
    func = of(tmp_path, text("y[i][j] = x[i][j] + 1;", height=6, width=126))
    program = compiled(func)
    same(func, program, 3)
    stores = [s for s in statements(program.body) if isinstance(s, Store)]
    assert any(s.active is None and s.elem == "w8" for s in stores)
    assert any(s.active is not None for s in stores)


@pytest.mark.parametrize("body", ["y[i][j] = y[i][j] + x[i][j];", "y[i][j] = i > 0 ? y[0][j] : 7;"])
def test_what_is_read_is_not_overwritten(tmp_path: Path, body: str) -> None:
    func = of(tmp_path, text(body, height=6, width=126))
    program = compiled(func)
    same(func, program, 4)
