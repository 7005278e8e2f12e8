"""The examples of plant_core run, find their outputs right, and print the loops that they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from plant_core.ir.parser import parse_scheduled
from plant_core.ir.printer import print_scheduled

FOLDER = Path(__file__).parents[2] / "examples" / "plant"

SIZES: dict[str, tuple[tuple[int, ...], dict[str, bool]]] = {
    "matmul": ((50, 9, 40), {}),
    "segment_sum": ((), {"separate": True}),
    "spmm": ((), {}),
    "blur": ((40, 70), {}),
    "edge_detector": ((9, 9), {}),
    "triangle": ((), {}),
    "triangular_solve": ((), {}),
    "wavefront": ((), {}),
}
PROMISES = {
    "matmul": ["parallel for (i_o = 0; i_o < 4; i_o++)", "        for (k = 0; k < 90; k++)"],
    "segment_sum": ["int m = num_segments[0];", "int b0 = offsets[i];", "for (j = 0; j < b1 - b0; j++)"],
    "spmm": ["for (p_o = 0;", "int b0 = ptr[i];"],
    "blur": ["    for (i = 16 * i_o; i < min(16 * i_o + 18, 70); i++)"],
    "edge_detector": ["vectorize for (j = 1; j < 49; j++)", "refused: the loop 'i' of R can't be parallel"],
    "triangular_solve": ["  vectorize reduction for (j = 0; j < i; j++)", "  x[i] = x[i] / matrix[i][i];"],
    "wavefront": ["for (wave = 0;", "  parallel for (i_o =", "      vectorize for (i_i ="],
    "triangle": ["parallel for (r_o = 0;", "for (x_i = r_i; x_i < 8; x_i++)"],
}


def test_every_example_is_here() -> None:
    assert sorted(p.stem for p in FOLDER.glob("*.py")) == sorted(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert f"{name}: the output" in printed and "NumPy" in printed
    for line in PROMISES[name]:
        assert line in printed


@pytest.mark.parametrize("name", SIZES)
def test_text_of_examples(name: str) -> None:
    """A schedule's text stands for the schedule: the program read back runs in the same order."""
    sizes, options = SIZES[name]
    function = runpy.run_path(str(FOLDER / f"{name}.py"))[name](*sizes, **options)
    for scheduled in (function.scheduled, function.program.scheduled):
        text = print_scheduled(scheduled)
        found = parse_scheduled(text)
        assert print_scheduled(found) == text
        for a, b in zip(found.nests, scheduled.nests, strict=True):
            assert a.relation.is_equal(b.relation)
