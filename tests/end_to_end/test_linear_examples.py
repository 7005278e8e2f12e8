"""The programs of examples/linear: scheduled, judged by the schedule checker as written, simulated, and compared with
the C functions beside them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dspgen.check.equivalence import check
from dspgen.target.load import load_target
from tests.support.linear_c import (
    ROOM,
    TARGET,
    Arguments,
    assert_as_c,
    floats,
    library_of,
    scheduled,
    shorts,
    words,
)


def _filter(rng: np.random.Generator, n: int, taps: int, width: int = 1) -> Arguments:
    x = floats(rng, width * (n + taps) + ROOM * width)
    return [("x", x), ("h", floats(rng, width * taps + 1)), ("y", floats(rng, width * n + 1)), ("n", n), ("taps", taps)]


def _lms(rng: np.random.Generator, n: int, taps: int) -> Arguments:
    arrays = [("x", n + taps + 1), ("d", n + 1), ("w", taps + 1), ("e", n + 1)]
    return [*((name, floats(rng, size)) for name, size in arrays), ("n", n), ("taps", taps), ("mu", np.float32(0.0625))]


def _matvec(rng: np.random.Generator, rows: int, columns: int) -> Arguments:
    a = floats(rng, rows * columns + ROOM)
    return [("a", a), ("x", floats(rng, columns + 1)), ("y", floats(rng, rows + 1)), ("m", rows), ("n", columns)]


def _transpose(rng: np.random.Generator, rows: int, columns: int) -> Arguments:
    size = rows * columns + 1
    return [("a", words(rng, size)), ("b", words(rng, size)), ("rows", rows), ("columns", columns)]


def _biquad(rng: np.random.Generator, n: int) -> Arguments:
    return [("x", floats(rng, n + 1)), ("c", 0.4 * floats(rng, 5)), ("y", floats(rng, n + 1)), ("n", n)]


def _gemm(rng: np.random.Generator, k: int) -> Arguments:
    return [("a", floats(rng, 6 * k + 2)), ("b", floats(rng, 48 * k + 1)), ("c", floats(rng, 288)), ("k", k)]


CASES: dict[str, tuple[Callable[..., Arguments], list[tuple[int, ...]]]] = {
    "biquad": (_biquad, [(0,), (1,), (2,), (21,)]),
    "cfir": (lambda r, n, taps: _filter(r, n, taps, 2), [(0, 3), (1, 1), (16, 0), (37, 5), (19, 12)]),
    "copy": (lambda r, n: [("to", words(r, n + 1)), ("from", words(r, n + 1)), ("n", n)], [(0,), (1,), (95,), (417,)]),
    "dot": (lambda r, n: [("x", shorts(r, n + 1)), ("y", shorts(r, n + 1)), ("n", n)], [(0,), (1,), (16,), (201,)]),
    "fir": (_filter, [(0, 3), (1, 1), (2, 2), (16, 0), (37, 7), (33, 19)]),
    "gemm": (_gemm, [(0,), (1,), (2,), (3,), (4,), (17,)]),
    "lms": (_lms, [(0, 4), (1, 1), (2, 0), (9, 7), (6, 12)]),
    "matvec": (_matvec, [(0, 2), (1, 1), (2, 0), (20, 9), (35, 13)]),
    "maxsearch": (lambda r, n: [("x", words(r, n + 1)), ("n", n)], [(0,), (1,), (2,), (51,)]),
    "transpose": (_transpose, [(0, 3), (3, 0), (1, 1), (2, 2), (7, 9)]),
}  # fmt: skip


@pytest.fixture(scope="module")
def library(root: Path, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library_of(root / "examples" / "linear", tmp_path_factory.mktemp("linear") / "linear.so")


def test_every_example_has_its_case(root: Path) -> None:
    found = {p.stem for p in (root / "examples" / "linear").glob("*.sa")}
    assert found == set(CASES) == {p.stem for p in (root / "examples" / "linear").glob("*.c")}


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_the_c_function(name: str, root: Path, library: ctypes.CDLL) -> None:
    path, (make, sizes) = root / "examples" / "linear" / f"{name}.sa", CASES[name]
    assert any(loop.pipelined for loop in scheduled(path).scheduled.loops)
    assert_as_c(path, library, [make(np.random.default_rng(1), *size) for size in sizes])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("*yp++[1]", "*yp++[2]"),
        ("SFMULAS32 b1, x, d2, t", "SFMULAS32 b2, x, d2, t"),
        ("SFSUBS32 q, u, d2", "SFSUBS32 u, q, d2"),
        ("SMOVIL 0, d2", "SMOVIL 1, d2"),
    ],
)
def test_packets_of_another_program_do_not_pass(old: str, new: str, root: Path) -> None:
    target, (make, sizes) = load_target(TARGET), CASES["biquad"]
    path = root / "examples" / "linear" / "biquad.sa"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    arguments = make(np.random.default_rng(1), *sizes[-1])
    assert check(text.replace(old, new), scheduled(path).asm, target, arguments).problems
