"""Products of complex numbers become the machine's own where it makes them in less."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.rewrite.optimize import optimise
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.printer import print_program
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Const, Load, Loop, Op, Program, Store, Term, VType
from dspgen.vecdsl.ir.verify import verify

LANES = 4
F = VType("f32", True)
N = VType("i32", False)


def machine(busy: int) -> Target:
    sets = [(f"instructions.{row}.busy", str(busy)) for row in ("VFCREAL32", "VFCIMAG32")]
    return load_target("ft_m7002", [("lanes", str(LANES)), *sets])


def op(name: str, *args: Term) -> Op:
    return Op(name, args, F)


def part(array: str, constant: int, stride: int) -> Load:
    return Load(array, Address(constant, (("i", LANES * stride),)), stride, "f32", F)


def looped(*values: Term) -> Program:
    stores = tuple(
        Store(array, Address(0, (("i", LANES),)), 1, "f32", v) for array, v in zip("YZ", values, strict=True)
    )
    arrays = tuple(ArrayDecl(n, "f32", 1024, False) for n in ("A", "B", "C", "D", "Y", "Z"))
    return Program(
        "p", tuple(a.name for a in arrays), arrays, (), (Loop("i", Const(0, N), Const(8, N), 1, (), stores, 8, 8),)
    )


def rewritten(given: Program, target: Target) -> str:
    changed = verify(optimise(given, target).program)
    values = np.random.default_rng(3)
    inputs = {a.name: values.uniform(-2, 2, a.size).astype(np.float32) for a in given.arrays}
    before, after = evaluate(given, LANES, inputs), evaluate(changed, LANES, inputs, slack=8 * LANES)
    for name in before:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-4, atol=1e-4, err_msg=name)
    return print_program(changed)


def loose(conjugate: bool, swapped: bool) -> Program:
    a, b, c, d = (part(n, 0, 1) for n in "ABCD")
    pairs = [(a, c), (b, d), (a, d), (b, c)]
    ac, bd, ad, bc = (op("mul", *(p[::-1] if swapped and i % 2 else p)) for i, p in enumerate(pairs))
    return looped(op("add", ac, bd), op("sub", ad, bc)) if conjugate else looped(op("sub", ac, bd), op("add", bc, ad))


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_loose_parts(conjugate: bool, swapped: bool) -> None:
    text = rewritten(loose(conjugate, swapped), machine(1))
    assert text.count("cmul_re") == 1 and text.count("cmul_im") == 1 and "(mul." not in text


def test_slow_products_are_left_alone_where_multipliers_are_the_bound() -> None:
    text = rewritten(loose(False, False), machine(4))
    assert "cmul" not in text


def interleaved(at: int) -> tuple[Load, Load, Load, Load]:
    return part("A", 2 * at, 2), part("A", 2 * at + 1, 2), part("B", 2 * at, 2), part("B", 2 * at + 1, 2)


def test_a_complex_filter_of_interleaved_parts() -> None:
    real: Term = part("C", 0, 1)
    imaginary: Term = part("D", 0, 1)
    for tap in range(3):
        a, b, c, d = interleaved(tap)
        real = op("sub", op("add", real, op("mul", a, c)), op("mul", b, d))
        imaginary = op("add", op("add", imaginary, op("mul", a, d)), op("mul", b, c))
    text = rewritten(looped(real, imaginary), machine(1))
    assert text.count("cmul_re") == 3 and text.count("cmul_im") == 3 and "(mul." not in text
