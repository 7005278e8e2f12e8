"""Loops that a `break` ends, as searches and loops up to there: against the host's compiler."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.oracle import run_c
from plant_core.interp.func import evaluate

LENGTH = 21
ENDS = (None, 0, 1, 7, 8, 9, 15, 20)


def program(seed: int) -> str:
    """A loop over `n` elements with some tests, and what is done before, between and behind them."""
    choice = random.Random(seed)
    kind, one, two = choice.choice([("float", "0.5f", "-0.5f"), ("int", "3", "-3"), ("short", "3", "-3")])
    tests = [
        f"a[i] > {one}",
        f"a[i] + b[i] > {one}",
        "x > w",
        f"a[i] < {two} && b[i] <= a[i]",
        "a[i] != b[i] + t",
        "m > w",
    ]
    work = [
        "s += b[i];", "c[i] = a[i];", "s += i;", "if (b[i] > a[i]) s += 2;", "m = a[i] > m ? a[i] : m;", "", "",
        "c[i] += 1; s++;", "for (int j = 0; j < 3; j++) d[j] += a[i];",
    ]  # fmt: skip
    hit = ["at = i;", "at = i; c[i] = 7;", "at = i; s = -s;", "", "s += a[i]; at = i + 1;"]
    parts = [f"{kind} x = a[i] - t; (void)x;"]
    for _ in range(choice.choice([1, 1, 2])):
        parts += [choice.choice(work), f"if ({choice.choice(tests)}) {{ {choice.choice(hit)} break; }}"]
    parts.append(choice.choice(work))
    inner = " ".join(parts).replace("(void)x;", "")
    size = choice.choice(["n", "n", str(LENGTH), "9"])
    loop = choice.choice(
        [
            f"for (int i = 0; i < {size}; i++) {{ {inner} }}",
            f"for (int i = {size} - 1; i >= 0; i--) {{ {inner} }}",
            f"{{ int i; for (i = 2; i < {size}; i++) {{ {inner} }} d[4] = i; }}",
            f"{{ int i = 0; while (i < {size}) {{ {inner} i++; }} d[4] = i; }}",
            f"for (int r = 0; r < 3; r++) {{ for (int i = r; i < {size}; i++) {{ {inner} }} d[5 + r] = at; }}",
        ]
    )
    return f"""void k(int n, const {kind} a[{LENGTH}], const {kind} b[{LENGTH}], {kind} t, {kind} w, {kind} c[{LENGTH}],
      int d[9]) {{ int s = 0, at = -1; {kind} m = 0; {loop} d[8] = s; d[3] = at; c[0] += m; }}"""


def inputs(func: object, seed: int, end: int | None, n: int) -> dict[str, np.ndarray | int | float]:
    """Data of which the element `end` is the first that many tests ask for."""
    made = np.random.default_rng(seed)
    kind = next(p.dtype for p in func.params if p.name == "a")  # type: ignore[attr-defined]
    numpy = {"f32": np.float32, "i32": np.int32, "i16": np.int16}[kind]
    b = (made.random(LENGTH) * 0.4).astype(numpy)
    a = b.copy()
    if end is not None:
        a[end] = 4 if seed % 2 else -4
    zeros = np.zeros(LENGTH, numpy)
    return {"n": n, "a": a, "b": b, "t": 0, "w": 2, "c": zeros, "d": np.zeros(9, np.int32)}


@pytest.mark.parametrize("seed", range(24))
def test_random_exits(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "k.c"
    path.write_text(program(seed))
    func = read_c(str(path), function="k")
    for number, end in enumerate(ENDS):
        given = inputs(func, seed + number, end, (LENGTH, 0, 5, 13)[number % 4])
        expected = run_c(str(path), func, given)
        for name, array in evaluate(func, given).items():
            assert np.array_equal(array, expected[name]), (
                f"{path.read_text()}\n{given}\n{name}: {array} {expected[name]}"
            )


def test_tests_on_memory_are_searches(tmp_path: Path) -> None:
    """No iteration depends on the one before it but by the least that was found."""
    path = tmp_path / "k.c"
    path.write_text("""void k(const float a[90], float b[90], int r[1]) { int i;
      for (i = 0; i < 90; i++) { if (a[i] > 1) break; b[i] = a[i]; } r[0] = i; }""")
    func = read_c(str(path), function="k")
    assert not [b.name for b in func.bufs if b.name.startswith("going")]
    copied = next(c for c in func.comps if c.target.buf == "b")
    assert "reached" in str(copied.domain)
