"""Conditions as bounds, guards, values and flags: they do exactly what the C compiler makes of them.

All functions of a test are compiled together; those that the front end refuses, with a reason, are left out.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dspgen.errors import SourceError
from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.func import Func
from tests.generators.conditions import EXTENT, PARAMETERS, conditional

_COMPILER = "cc -std=gnu11 -w -O1 -ffp-contract=off -fwrapv -fsigned-char -shared -fPIC -o".split()
_REFUSALS = {"DG010", "DG017"}  # bounds, and subscripts, that are no functions of the loops around

FORMS = {
    "and of comparisons ends a loop": "for (int j = 0; (j < i) & (j < 5); j++) a[j] += j - i;",
    "and of comparisons guards": "if ((i < 9) & (i > 3)) a[i] = 7;",
    "or of comparisons guards": "if ((i < 3) | (i > 7)) a[i] = 7;",
    "exclusive or of comparisons guards": "if ((i < 8) ^ (i > 3)) a[i] = 7;",
    "not and": "if (!((i < 9) & (i > 3))) a[i] = 7;",
    "flag of and": "int t = (i < 9) & (i > 3); if (t) a[i] = 7; else b[i] = 6;",
    "shift by a condition": "for (int j = 0; j < i >> (i > 5); j++) a[j] += i;",
    "shift of a constant by a choice": "for (int j = 0; j < 1 << (i > 5 ? 3 : 1); j++) a[j] += i;",
    "quotient by a choice": "for (int j = 0; j < i / (i > 5 ? 3 : 2); j++) a[j] += i;",
    "remainder by a choice": "for (int j = 0; j < i % (i > 5 ? 3 : 2); j++) a[j] += i;",
    "quotient by a choice that sizes tell": "for (int j = 0; j < i / (n > 5 ? 3 : 2); j++) a[j] += i;",
    "masked by a choice": "for (int j = 0; j < (i & (i > 5 ? 3 : 7)); j++) a[j] += i;",
    "divisor that is zero elsewhere": "if (i > 2) for (int j = 0; j < 9 / (i > 2 ? 2 : 0); j++) a[j] += i;",
    "data keep a divisor from being zero": "if (x[i] > 20) a[i] = 9 / i; else a[i] = x[i] > 20 && 7 % i;",
    "a choice by data keeps a divisor from being zero": "a[i] = x[i] > 20 ? 9 / i : x[i];",
    "unsigned sum that goes below zero": "int t = 1 != ((m + (-1)) <= i); if (1 == (t < i)) a[i] = 1;",
    "all bits of an unsigned": "if (((m + i) & 4294967295u) < 9 && i < 4294967295u) a[i] = 1;",
    "product with a choice": "for (int j = 0; j < i * (i > 2 ? 1 : 0); j++) a[j] += i;",
}


def inputs(seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed).integers
    arrays: dict[str, Any] = {
        name: draw(low, high, EXTENT).astype(dtype)
        for name, low, high, dtype in (
            ("a", -9, 9, np.int32),
            ("b", -9, 9, np.int32),
            ("x", -9, 9, np.int32),
            ("u", 0, 256, np.uint8),
            ("w", -9, 9, np.int16),
        )
    }
    arrays["f"] = draw(-5, 9, EXTENT).astype(np.float32) / 2
    return {
        **arrays,
        "n": int(draw(-3, 12)),
        "m": int(draw(0, 12)),
        "s": int(draw(-3, 12)),
        "q": float(draw(-5, 9)) / 2,
    }


def in_c(function: Any, given: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    held = {name: np.array(given[name]) for name in "abxfuw"}
    function(
        *(array.ctypes.data_as(ctypes.c_void_p) for array in held.values()),
        ctypes.c_int(given["n"]),
        ctypes.c_uint(given["m"]),
        ctypes.c_short(given["s"]),
        ctypes.c_float(given["q"]),
    )
    return held


def compare(folder: Path, texts: dict[str, str]) -> dict[str, Func]:
    """The functions read, after runs of each beside the C compiler's code."""
    source, library = folder / "all.c", folder / "all.so"
    source.write_text("\n".join(texts.values()))
    subprocess.run([*_COMPILER, str(library), str(source)], check=True)
    compiled, funcs = ctypes.CDLL(str(library)), dict[str, Func]()
    for seed, (name, text) in enumerate(texts.items()):
        path = folder / f"{name}.c"
        path.write_text(text)
        try:
            funcs[name] = read_c(str(path))
        except SourceError as error:
            assert {p.code for p in error.problems} <= _REFUSALS, text
            continue
        taken = {p.name for p in funcs[name].params}
        for each in (seed, seed + 1):
            given = inputs(each)
            expected = in_c(compiled[name], given)
            got = evaluate(funcs[name], {key: value for key, value in given.items() if key in taken})
            for key, array in got.items():
                np.testing.assert_array_equal(array, expected[key], err_msg=f"{key} of {text}")
    return funcs


def test_forms(tmp_path: Path) -> None:
    texts = {
        f"f{k}": f"void f{k}({PARAMETERS}) {{ for (int i = 0; i < 12; i++) {{ {body} }} }}"
        for k, body in enumerate(FORMS.values())
    }
    assert len(compare(tmp_path, texts)) == len(FORMS)


def test_random_conditions(tmp_path: Path) -> None:
    texts = {f"f{seed}": conditional(random.Random(seed), f"f{seed}") for seed in range(40)}
    assert len(compare(tmp_path, texts)) > 25


@pytest.mark.slow
def test_many_random_conditions(tmp_path: Path) -> None:
    texts = {f"f{seed}": conditional(random.Random(seed), f"f{seed}") for seed in range(1000, 2500)}
    assert len(compare(tmp_path, texts)) > 1000
