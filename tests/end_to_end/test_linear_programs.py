"""Linear assembly as different people write it, in tests/linear: it does what the C function beside it does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.linear_c import ROOM, Arguments, assert_as_c, floats, library_of, scheduled, shorts, words

FOLDER = Path(__file__).parents[1] / "linear"
RESULTS = {"norm": ctypes.c_float}
Make = Callable[..., Arguments]


def _arrays(*names: str) -> Make:
    """Arrays of words, as many as the last number says, before the numbers."""

    def made(rng: np.random.Generator, *numbers: int) -> Arguments:
        arrays = [(name, words(rng, abs(numbers[-1]) + ROOM)) for name in names]
        return [*arrays, *((f"n{k}", n) for k, n in enumerate(numbers))]

    return made


def _numbers(_: np.random.Generator, *numbers: int) -> Arguments:
    return [(f"n{k}", n) for k, n in enumerate(numbers)]


def _clip(rng: np.random.Generator, n: int, lo: int, hi: int) -> Arguments:
    return [("x", words(rng, n + 1)), ("y", words(rng, n + 1)), ("n", n), ("lo", lo), ("hi", hi)]


def _histogram(rng: np.random.Generator, n: int) -> Arguments:
    return [("p", rng.integers(0, 6, n + 1, dtype=np.int32)), ("h", np.zeros(6, np.int32)), ("n", n)]


def _daxpy(rng: np.random.Generator, n: int) -> Arguments:
    x, y = (rng.standard_normal(n + 1) for _ in "xy")
    return [("n", n), ("alpha", np.float64(1.25)), ("x", x), ("y", y)]


def _complex(rng: np.random.Generator, blocks: int) -> Arguments:
    return [*((name, floats(rng, 32 * blocks)) for name in "xyz"), ("blocks", blocks)]


def _split(rng: np.random.Generator, n: int) -> Arguments:
    size = n + ROOM
    return [("z", floats(rng, 2 * size)), ("re", floats(rng, size)), ("im", floats(rng, size)), ("n", n)]


def _filter(rng: np.random.Generator, n: int, taps: int) -> Arguments:
    arrays = [("x", shorts(rng, n + taps)), ("h", shorts(rng, taps)), ("y", shorts(rng, n))]
    return [*arrays, ("n", n), ("nh", taps)]


def _rows(rng: np.random.Generator, lda: int, m: int, n: int) -> Arguments:
    return [("a", floats(rng, lda * m + n)), ("lda", lda), ("m", m), ("n", n), ("out", floats(rng, m))]


def _wide(rng: np.random.Generator, n: int) -> Arguments:
    x = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    return [("x", x.view(np.int32)), ("n", n), ("r", np.zeros(2, np.int32))]


def _find(rng: np.random.Generator, n: int, at: int) -> Arguments:
    x = words(rng, n)
    x[x == 5000] = 0
    x[at % n] = 5000
    return [("s", x), ("n", n), ("key", 5000 if at >= 0 else 5001)]


CASES: dict[str, tuple[Make, list[tuple[int, ...]]]] = {
    "absmax": (lambda r, n: [("x", words(r, n)), ("n", n), ("y", words(r, 2))], [(1,), (2,), (39,)]),
    "clip": (_clip, [(0, -3, 4), (1, 0, 0), (40, -200, 500)]),
    "cmul": (_complex, [(1,), (3,), (9,)]),
    "daxpy": (_daxpy, [(0,), (1,), (2,), (33,)]),
    "deinterleave": (_split, [(1,), (16,), (50,)]),
    "fib": (lambda r, n: [("n", n), ("out", words(r, n))], [(1,), (2,), (40,)]),
    "find": (_find, [(1, 0), (1, -1), (20, 7), (20, 19), (20, -1)]),
    "fir16s": (_filter, [(1, 1), (7, 2), (20, 9)]),
    "gcd": (_numbers, [(4, 6), (7, 7), (91, 35)]),
    "histogram": (_histogram, [(0,), (1,), (50,)]),
    "mask32": (_arrays("x"), [(1,), (2,), (30,)]),
    "norm": (lambda r, n: [("x", floats(r, n)), ("n", n)], [(1,), (2,), (60,)]),
    "pair": (_arrays("x"), [(1,), (2,), (35,)]),
    "popcount": (_numbers, [(0,), (1,), (-1,), (0x12345678,)]),
    "relu": (_arrays("x"), [(1,), (16,), (70,)]),
    "rowsum": (_rows, [(7, 1, 4), (9, 5, 9), (20, 3, 17)]),
    "shufrev": (lambda r, n: [("x", words(r, 16 * n)), ("y", words(r, 16 * n)), ("n", n)], [(1,), (2,), (9,)]),
    "smooth": (_arrays("a"), [(3,), (4,), (40,)]),
    "sort": (_arrays("a"), [(0,), (1,), (2,), (17,)]),
    "trace3": (lambda r, n: [("a", words(r, n**3 + 1)), ("n", n)], [(0,), (1,), (2,), (5,)]),
    "vadd": (_arrays("a", "b", "c"), [(0,), (5,), (16,), (100,)]),
    "vsum": (_arrays("x"), [(16,), (40,), (300,)]),
    "wide": (_wide, [(1,), (2,), (25,)]),
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library_of(FOLDER, tmp_path_factory.mktemp("linear") / "linear.so")


def test_every_program_has_its_case() -> None:
    assert {p.stem for p in FOLDER.glob("*.sa")} == set(CASES) == {p.stem for p in FOLDER.glob("*.c")}


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_the_c_function(name: str, library: ctypes.CDLL) -> None:
    make, sizes = CASES[name]
    runs = [make(np.random.default_rng(1), *size) for size in sizes]
    assert_as_c(FOLDER / f"{name}.sa", library, runs, RESULTS.get(name, ctypes.c_int))


@pytest.mark.parametrize("name", ["absmax", "clip"])
def test_forward_branches_in_a_loop_become_predicates(name: str) -> None:
    (loop,) = scheduled(FOLDER / f"{name}.sa").scheduled.loops
    assert loop.pipelined
