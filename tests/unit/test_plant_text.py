"""Programs and schedules as text: printing loses nothing, parsing gives the same program, errors have their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from random import Random
from typing import get_args

import islpy as isl
import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.c_semantics import is_float, limits
from plant_core.ir.func import (
    Access,
    Alloc,
    Binary,
    BinaryOp,
    Buf,
    Call,
    Cast,
    Comp,
    DType,
    Effect,
    Expr,
    Free,
    Func,
    Iter,
    Load,
    Memcpy,
    Param,
    Ramp,
    ScalarParam,
    Select,
    Unary,
    UnaryOp,
    Val,
    Verbatim,
)
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.parser import parse_expr, parse_func, parse_scheduled
from plant_core.ir.printer import print_expr, print_func, print_scheduled
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.lang.program import Program
from plant_core.scan import scan
from plant_core.support.location import Loc, PlantError
from tests.generators.nests import random_program
from tests.support.plant_builder import matmul
from tests.support.plant_random import random_func, random_inputs

DTYPES: tuple[DType, ...] = get_args(DType)


def same(a: Func, b: Func) -> bool:
    """Equal but for the names and places that isl's sets don't have."""

    def plain(func: Func) -> Func:
        none_set, none_map = isl.Set("{ : }"), isl.Map("{ [] -> [] }")
        return replace(
            func,
            comps=tuple(replace(c, domain=none_set, schedule=none_map) for c in func.comps),
            effects=tuple(replace(e, domain=none_set, schedule=none_map) for e in func.effects),
            context=None,
        )

    def equal(x: isl.Set | None, y: isl.Set | None) -> bool:
        return x is y if x is None or y is None else bool(x.is_equal(y))

    statements = zip((*a.comps, *a.effects), (*b.comps, *b.effects), strict=True)
    return (
        str(plain(a)) == str(plain(b))  # not ==: a NaN isn't equal to itself
        and equal(a.context, b.context)
        and all(equal(s.domain, t.domain) and equal(s.schedule, t.schedule) for s, t in statements)
    )


def round_trip(func: Func) -> Func:
    text = print_func(func)
    assert print_func(parse_func(text)) == text
    exact = print_func(func, places=True)
    found = parse_func(exact)
    assert print_func(found, places=True) == exact
    assert same(found, func)
    return found


@pytest.mark.parametrize("seed", range(120))
def test_random_programs(seed: int) -> None:
    func = random_func(seed)
    found = round_trip(func)
    inputs = random_inputs(func, seed)
    for name, array in evaluate(func, inputs).items():
        assert np.array_equal(array, evaluate(found, inputs)[name])


@pytest.mark.parametrize("seed", range(60))
def test_programs_from_c(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    program = random_program(Random(seed))
    path.write_text(program.text)
    # With other sizes than its own, a program may leave its arrays.
    given = program.given if seed % 2 else {}
    round_trip(read_c(str(path), defines=tuple((name, str(value)) for name, value in given.items())))


# --- every kind of expression -------------------------------------------------------------------------------------

ARRAYS = {"A": 2, "B": 1, "s": 0, "min": 1, "n": 0, "iter": 0, "f32": 0, "call": 1}


class Maker:
    """Random expressions, well-typed or not: the text keeps both."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def dtype(self) -> DType:
        return self.rng.choice(DTYPES)

    def number(self) -> Val:
        dtype = self.dtype()
        if is_float(dtype):
            return Val(self.rng.choice([0.0, -0.0, 1.5, -2.25, 1e30, 1e-7, inf, -inf, nan, 3, -3]), dtype)
        low, high = limits(dtype)
        return Val(self.rng.choice([0, 1, 7, low, high, -5, 2.0]), dtype)

    def leaf(self) -> Expr:
        match self.rng.randrange(5):
            case 0:
                return self.number()
            case 1:
                return Iter(self.rng.choice("ijq"))
            case 2:
                return Param(self.rng.choice(["n", "m", "i", "unknown", "max"]), self.dtype())
            case 3:
                return Verbatim(self.rng.choice(["f(x)", "it's", 'say "no"', "a\\n\n", "", "größer"]), self.dtype())
            case _:
                return Load(self.rng.choice(["s", "n", "i", "iter", "f32", "lost"]), (), self.dtype(), self.loc())

    def loc(self) -> Loc | None:
        return self.rng.choice([None, Loc("t.c", 3, 4), Loc("other file.c", 9, 1)])

    def load(self, depth: int) -> Load:
        name = self.rng.choice(sorted(ARRAYS))
        return Load(name, tuple(self.expr(depth) for _ in range(ARRAYS[name])), self.dtype(), self.loc())

    def expr(self, depth: int) -> Expr:
        if depth == 0 or self.rng.random() < 0.1:
            return self.leaf()
        inner = depth - 1
        match self.rng.randrange(9):
            case 0:
                return Cast(self.dtype(), self.expr(inner))
            case 1:
                return Unary(self.rng.choice(get_args(UnaryOp)), self.expr(inner), self.dtype())
            case 2 | 3 | 4:
                return Binary(self.rng.choice(get_args(BinaryOp)), self.expr(inner), self.expr(inner), self.dtype())
            case 5:
                return Select(self.expr(inner), self.expr(inner), self.expr(inner), self.dtype())
            case 6:
                name = self.rng.choice(["exp", "pow", "S0", "min", "floor", "ramp", "call"])
                return Call(name, tuple(self.expr(inner) for _ in range(self.rng.randrange(3))), self.dtype())
            case 7:
                name = self.rng.choice(["S0", "call", "max", "lost"])
                return Access(name, (self.expr(inner),), self.dtype(), self.loc())
            case _:
                if self.rng.random() < 0.5:
                    return Ramp(self.load(inner), self.expr(inner), self.rng.choice([1, 4, 16]), self.dtype())
                return self.load(inner)


def odd_func(maker: Maker) -> Func:
    """A program with everything that the grammar has, and names that are also its words."""
    n = Param("n", "i32")
    params = (
        Buf("A", "f32", (4, Binary("add", n, Val(1, "i32"), "i32")), "param", True, Loc("t.c", 1, 5)),
        ScalarParam("n", "i32", Loc("t.c", 1, 9)),
        ScalarParam("max", "f64"),
        Buf("s", "i8", (), "param"),
    )
    bufs = (
        Buf("B", "f64", (n,), "local", False, Loc("my head.h", 2, 2), "stack", 64, ("S0", "i")),
        params[0],
        Buf("min", "u8", (3,), "local", True, location="gpu_shared"),
        params[3],
        Buf("n0", "i16", (), "local"),
        Buf("iter", "i32", (), "local"),
        Buf("call", "i32", (9,), "local"),
        Buf("f32", "u32", (), "local"),
        Buf("m", "i32", (), "local"),
    )
    assert isinstance(params[0], Buf) and isinstance(params[3], Buf)
    zero = Load("call", (Val(0, "i32"),), "i32")

    def comp(name: str, iters: str, domain: str, time: str, target: Load, value: Expr, file: str = "t.c") -> Comp:
        point = f"{name}[{iters}]"
        schedule = isl.Map(f"{{ {point} -> [{time}] }}")
        names = tuple(iters.split(",")) if iters else ()
        return Comp(
            name, names, isl.Set(domain), schedule, target, value, Loc(file, 4, 2), "m" if name == "m" else None
        )

    comps = (
        comp("m", "", "{ m[] }", "0, 0, 0, 0, 0", Load("m", (), "i32"), zero),
        comp("S0", "i", "[n, m] -> { S0[i] : 0 <= i < n - m }", "1, i, 0, 0, 0", maker.load(1), maker.expr(4)),
        comp("call", "i,j", "{ call[i, j] : i = 2j }", "2, i, 0, -j, 0", Load("s", (), "f32"), maker.expr(5), "a b.h"),
        comp("max", "", "{ max[] : false }", "3, 0, 0, 0, 0", Load("iter", (), "i32"), maker.expr(2)),
    )
    actions = (Memcpy("B", "A"), Alloc("B"), Free("B"), Verbatim("barrier('x');", maker.dtype()))
    times = [isl.Map(f"{{ E{k}[i] -> [4, i, {k}, 0, 0] }}") for k in range(4)]
    effects = tuple(
        Effect(f"E{k}", ("i",), isl.Set(f"{{ E{k}[i] }}"), times[k], action, Loc("t.c", 6))
        for k, action in enumerate(actions)
    )
    return Func("odd", params, bufs, comps, Loc("t.c", 1, 6), effects, isl.Set("[n, m] -> { : n > m }"))


@pytest.mark.parametrize("seed", range(300))
def test_every_kind(seed: int) -> None:
    func = odd_func(Maker(seed))
    round_trip(func)
    assert "\n" not in print_expr(func.comp("call").value)


def test_schedules() -> None:
    func = odd_func(Maker(1))
    plain = as_written(func)
    nests = tuple(
        replace(n, tags=(("i", "parallel"),), options=(("i", "isolate"),)) if "i" in n.loops else n for n in plain.nests
    )
    tagged = Scheduled(func, nests, True, plain)
    other = Scheduled(matmul(3, 4, 5), as_written(matmul(3, 4, 5)).nests, False, tagged)
    for scheduled in (plain, tagged, other, replace(plain, origin=plain)):
        text = print_scheduled(scheduled, places=True)
        found = parse_scheduled(text)
        assert print_scheduled(found, places=True) == text
        for a, b in zip(found.nests, scheduled.nests, strict=True):
            assert (a.name, a.loops, a.tags, a.options) == (b.name, b.loops, b.tags, b.options)
            assert a.relation.is_equal(b.relation)
        assert (found.reassoc, found.origin is None) == (scheduled.reassoc, scheduled.origin is None)
    assert print_scheduled(tagged).count("func ") == 1
    assert print_scheduled(other).count("func ") == 2


def test_text_of_a_program() -> None:
    assert print_scheduled(as_written(matmul(3, 4, 5))) == (
        "func kernel(const f32 A[3][5], const f32 B[5][4], f32 C[3][4]) at t.c:1:1\n"
        "  S0[i, j] at 2:3\n"
        "    domain   { S0[i, j] : 0 <= i <= 2 and 0 <= j <= 3 }\n"
        "    schedule { S0[i, j] -> [0, i, 0, j, 0, 0, 0] }\n"
        "    C[i][j] = 0.0f\n"
        "  S1[i, j, k] at 3:3\n"
        "    domain   { S1[i, j, k] : 0 <= i <= 2 and 0 <= j <= 3 and 0 <= k <= 4 }\n"
        "    schedule { S1[i, j, k] -> [0, i, 0, j, 1, k, 0] }\n"
        "    C[i][j] = C[i][j] + A[i][k] * B[k][j]\n"
        "scheduled\n"
        "  nest S0[i, j]\n"
        "    relation { S0[i, j] -> [0, i, 0, j, 0] }\n"
        "  nest S1[i, j, k]\n"
        "    relation { S1[i, j, k] -> [0, i, 0, j, 1, k, 0] }\n"
    )


def _change(program: Program, rng: Random) -> None:
    statement = program[rng.choice(program.statements)]
    loops = statement.loops
    loop, other = rng.choice(loops), rng.choice(loops)
    array = rng.choice([b.name for b in program.func.bufs])
    changes: list[Callable[[], object]] = [
        lambda: statement.split(loop, rng.choice([2, 3])),
        lambda: statement.shift(loop, rng.choice([1, -2])),
        lambda: statement.separate(loop, 2),
        lambda: statement.tag(loop, rng.choice(["parallel", "unroll", "vectorize", "gpu_block_x"])),
        lambda: statement.option(loop, rng.choice(["isolate", "separate", "atomic"])),
        lambda: statement.skew(loop, other, rng.choice([1, -1])),
        lambda: statement.reorder(loop, other),
        lambda: statement.fuse(loop, loops[min(loops.index(loop) + 1, len(loops) - 1)]),
        lambda: statement.tile(loop, other, 2, 3),
        lambda: statement.cache_identity(array, loop),
        lambda: statement.after(rng.choice(program.statements), rng.choice([loop, None])),
        lambda: statement.inline(),
        lambda: statement.compute_at(rng.choice(program.statements), loop),
        lambda: program.set_loc(array, "stack"),
    ]
    rng.choice(changes)()


def _tree(scheduled: Scheduled) -> str:
    try:
        return print_tree(scan(scheduled))
    except PlantError as error:
        return error.message


@pytest.mark.parametrize("seed", range(50))
def test_schedules_that_verbs_make(seed: int) -> None:
    """Whatever verbs have done, the text is that of the same schedule, down to the loop tree."""
    rng = Random(seed)
    program = Program(random_func(seed), reassoc=seed % 2 == 1)
    for _ in range(5):
        try:
            _change(program, rng)
        except PlantError:
            continue
    text = print_scheduled(program.scheduled)
    found = parse_scheduled(text)
    assert print_scheduled(found) == text
    for a, b in zip(found.nests, program.scheduled.nests, strict=True):
        assert a.relation.is_equal(b.relation) and (a.loops, a.tags, a.options) == (b.loops, b.tags, b.options)
    assert _tree(found) == _tree(program.scheduled)


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("1 + 2 * 3", "1 + 2 * 3"),
        ("(1 + 2) * 3", "(1 + 2) * 3"),
        ("1 - (2 - 3)", "1 - (2 - 3)"),
        ("-3", "-3"),
        ("-(3)", "-(3)"),
        ("- (3)", "-(3)"),
        ("min(1,  max(2, 3)) // 4", "min(1, max(2, 3)) // 4"),
        ("(f32)1.5 < 2.0f ? 1 : 0", "(f32)1.5 < 2.0f ? 1 : 0"),
        ("1 < 2 && 3 < 4 || !5", "1 < 2 && 3 < 4 || !5"),
    ],
)
def test_expressions(text: str, expr: str) -> None:
    found = parse_expr(text)
    assert parse_expr(print_expr(found)) == parse_expr(expr)


BROKEN = print_func(matmul(3, 4, 5))


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "message"),
    [
        ("func", "fun", "DG220", 1, "'func' should stand before 'fun kernel(c'"),
        (" at t.c:1:1", "", "DG220", 1, "a program's first line ends in ' at FILE:LINE:COLUMN'"),
        ("const f32 A", "const f33 A", "DG220", 1, "a type (f32, f64, i8, i16, i32, i64, u8, u16, u32) should stand"),
        ("A[3][5], const", "A[3][5], const f32 A[2], const", "DG221", 1, "'A' is declared twice"),
        ("= 0.0f", "= Q[i]", "DG221", 5, "'Q' isn't declared"),
        ("= 0.0f", "= q", "DG221", 5, "'q' isn't declared"),
        ("= 0.0f", "= 0.0f +", "DG220", 5, "a name should stand at the end of this line"),
        ("= 0.0f", "= (0.0f", "DG220", 5, "')' should stand at the end of this line"),
        ("= 0.0f", "= 0.0q", "DG220", 5, "a number should stand before '0.0q'"),
        ("= 0.0f", "= 0.0f 1", "DG220", 5, "this line should end before '1'"),
        ("= 0.0f", "= ramp(1, 1, 4)", "DG220", 5, "a ramp starts at an element of an array"),
        ("= 0.0f", "= min(1)", "DG220", 5, "'min' doesn't have 1 operands"),
        ("C[i][j] = 0", "D[i][j] = 0", "DG221", 5, "'D[i][j] = 0.0f' assigns to nothing that is declared"),
        ("0 <= i <= 2 and", "0 <= i <=< 2 and", "DG222", 3, "isl can't read this as a set"),
        ("[0, i, 0, j, 0, 0, 0]", "[0, i, 0, j", "DG222", 4, "isl can't read this as a map"),
        ("    domain ", "    realm ", "DG220", 3, "'domain' should stand before"),
        ("  S0[i, j] at 2:3", "  S0[i, j at 2:3", "DG220", 2, "a type"),
    ],
)
def test_errors(old: str, new: str, code: str, line: int, message: str) -> None:
    with pytest.raises(PlantError) as error:
        parse_func(BROKEN.replace(old, new, 1), file="p.txt")
    assert error.value.message.startswith(message)
    assert error.value.code == code
    assert error.value.loc is not None and (error.value.loc.file, error.value.loc.line) == ("p.txt", line)


def test_the_text_ends_early() -> None:
    for end in range(1, BROKEN.count("\n")):
        text = "\n".join(BROKEN.splitlines()[:end]) + "\n"
        try:
            parse_func(text)
        except PlantError as error:
            assert error.code in ("DG220", "DG221") and error.loc is not None


def test_mangled_texts_are_refused_or_read() -> None:
    """Whatever is done to a text, the answer is a program or a PlantError with a place."""
    rng = Random(5)
    text = print_scheduled(as_written(odd_func(Maker(3))), places=True)
    for _ in range(600):
        at = rng.randrange(len(text))
        mangled = (
            text[:at] + rng.choice(["", " ", "[", ")", "9", "x", "\n", "'", ":", "."]) + text[at + rng.randrange(3) :]
        )
        try:
            parse_scheduled(mangled)
        except PlantError as error:
            assert error.loc is not None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nest S0", "nest S7", "there is no statement 'S7'"),
        ("scheduled", "scheduled twice", "this line should end before"),
        ("relation", "relatives", "'relation' should stand before"),
        ("0, j, 0] }\n  nest S1", "0, j, 0] }\n    tag q parallel\n  nest S1", "S0 has no loop 'q'"),
        ("0, j, 0] }\n  nest S1", "0, j, 0] }\n    tag i fast\n  nest S1", "there is no tag 'fast'"),
    ],
)
def test_errors_of_schedules(old: str, new: str, message: str) -> None:
    text = print_scheduled(as_written(matmul(3, 4, 5)))
    with pytest.raises(PlantError) as error:
        parse_scheduled(text.replace(old, new, 1))
    assert error.value.message.startswith(message)


def test_deep_nesting_is_refused_not_fatal() -> None:
    with pytest.raises(PlantError, match="nested too deeply"):
        parse_expr("(" * 20000 + "1" + ")" * 20000)
