"""Random programs of the vector DSL with accesses of every shape, and their way through assembly to a result.

`Accesses` has one statement after the other, in arrays that are far from their ends. `Conditional` has what code that
chooses by conditions is made of: vectors and masks with names, used several times and later, by selects and by accesses
under masks, of elements of every type; and arrays that end where the last access does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dspgen.asmir.ir.verify import verify
from dspgen.asmir.lower import lower
from dspgen.emit.text import print_lines
from dspgen.sched.scheduler import schedule
from dspgen.sim.run import Engine, simulate
from dspgen.target.isa.model import Target
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir.evaluate import _Machine
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Carried,
    Const,
    Elem,
    If,
    Let,
    Load,
    Loop,
    Op,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from dspgen.vecdsl.ir.semantics import IEEE
from dspgen.vecdsl.ir.terms import register_elem
from plant_core.ir.c_semantics import NUMPY
from tests.support.vector_programs import shift

I32, F32 = VType("i32", False), VType("f32", False)
VI32, VF32 = VType("i32", True), VType("f32", True)
SIZE = 4096
_READ = {"a": "f32", "n": "i32", "h": "i16"}
_WRITTEN = {"b": "f32", "m": "i32", "g": "i16"}
_WHOLE = (
    "add", "sub", "mul", "min", "max", "lt", "le", "gt", "ge", "eq", "ne", "ltu", "add_sat", "sub_sat", "mul16", "and",
    "or", "xor",
)  # fmt: skip
_FLOATS = ("add", "sub", "mul", "min", "max", "cmul_re", "cmul_im")
_SINGLE = ("sat8", "sat16", "satu8", "satu16", "neg", "abs", "not", "sext16", "zext8", "reverse", "all_add", "all_max")
_REDUCTIONS = ("reduce_add", "reduce_min", "reduce_max", "reduce_mul", "reduce_and", "reduce_or", "reduce_xor")


class Accesses:
    """One random program for a machine of so many lanes."""

    def __init__(self, seed: int, lanes: int) -> None:
        self.random = random.Random(seed)
        self.lanes = lanes
        self.count = 0

    def program(self) -> Program:
        pick = self.random.random()
        body = self.statements("i" if pick < 0.8 else None)
        if pick < 0.8:
            trip = self.random.choice((1, 2, 5))
            loop = Loop(
                "i", Const(0, I32), Const(trip, I32), self.random.choice((1, 1, self.lanes)), (), body, trip, trip
            )
            body = (loop,)
            if pick < 0.2:
                body = (Loop("j", Const(1, I32), Const(2, I32), 1, (), body, 2, 2),)
        arrays = [ArrayDecl(n, e, SIZE, False, n in _READ) for n, e in (_READ | _WRITTEN).items()]  # type: ignore[arg-type]
        return Program("f", tuple(a.name for a in arrays), tuple(arrays), (), body)

    def statements(self, iterator: str | None) -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        for _ in range(self.random.randint(1, 3)):
            if self.random.random() < 0.3:
                name = f"v{self.count}"
                self.count += 1
                body.append(Let(name, self.vector(VI32, iterator, 1)))
                body.append(self.store(iterator, Var(name, VI32)))
            elif self.random.random() < 0.2:
                body.append(self.scalar_store(iterator))
            else:
                body.append(self.store(iterator, None))
        return tuple(body)

    def address(self, iterator: str | None) -> Address:
        terms = ((iterator, self.random.choice((1, 1, 4, -1))),) if iterator and self.random.random() < 0.7 else ()
        return Address(SIZE // 2 + self.random.choice((0, 0, 1, 2, 7)), terms)

    def shape(self) -> tuple[int, int, int]:
        """Stride, period and jump."""
        if self.random.random() < 0.5:
            return self.random.choice((1, 1, 2, -1, 3, -2, 5, 0, 40)), 0, 0
        period = self.random.choice([p for p in range(1, self.lanes) if self.lanes % p == 0])
        return self.random.choice((1, 1, 1, 2, -1)), period, self.random.choice((period, 1, 0, -3, 20, period + 1))

    def index(self, iterator: str | None) -> Term | None:
        if self.random.random() < 0.7:
            return None
        if self.random.random() < 0.3:
            return Op("bcast", (Load("n", self.address(iterator), 1, "i32", I32),), VI32)
        return Load("n", self.address(iterator), 1, "i32", VI32)

    def mask(self, iterator: str | None) -> Term | None:
        choice = self.random.random()
        if choice < 0.6:
            return None
        if choice < 0.75:
            return Op("mask_first", (), VI32, (self.random.randrange(1, self.lanes),))
        if choice < 0.85:
            return Op("mask_period", (), VI32, (4, self.random.randrange(2), 3))
        return Op("lt", (Load("n", self.address(iterator), 1, "i32", VI32), Const(1, VI32)), VI32)

    def load(self, type: VType, iterator: str | None) -> Load:
        array = self.random.choice([n for n, e in _READ.items() if (e == "f32") == (type.elem == "f32")])
        stride, period, jump = self.shape()
        return Load(
            array, self.address(iterator), stride, _READ[array], type, period, jump,  # type: ignore[arg-type]
            self.index(iterator), self.mask(iterator),
        )  # fmt: skip

    def vector(self, type: VType, iterator: str | None, depth: int) -> Term:
        if depth == 0 or self.random.random() < 0.3:
            return self.load(type, iterator)
        choice = self.random.random()
        first = self.vector(type, iterator, depth - 1)
        if choice < 0.35:
            return self.crossed(first, self.vector(type, iterator, depth - 1), iterator)
        if type.elem == "f32":
            return self.floats(first, iterator, depth)
        if choice < 0.6:
            return Op(self.random.choice(_SINGLE), (first,), type)
        return Op(self.random.choice(_WHOLE), (first, self.vector(type, iterator, depth - 1)), type)

    def floats(self, first: Term, iterator: str | None, depth: int) -> Term:
        type, name = first.type, self.random.choice(_FLOATS)
        second = self.vector(type, iterator, depth - 1)
        if name.startswith("cmul"):
            pairs = (Op("pair", (first, second), type), Op("pair", (second, first), type))
            return Op(name, pairs, type)
        if self.random.random() < 0.3:
            test = Op(self.random.choice(("lt", "le", "gt", "ge", "eq", "ne")), (first, second), VI32)
            return Op("select", (test, first, Const(1.5, type)), type)
        return Op(name, (first, second), type)

    def crossed(self, a: Term, b: Term, iterator: str | None) -> Term:
        name = self.random.choice(
            ("shuffle", "shuffle2", "transpose", "concat", "vec", "zip_lo", "odd", "align", "bcast")
        )
        lanes, type = self.lanes, a.type
        match name:
            case "shuffle":
                return Op(name, (a,), type, tuple(self.random.randrange(lanes) for _ in range(lanes)))
            case "shuffle2":
                return Op(name, (a, b), type, tuple(self.random.randrange(2 * lanes) for _ in range(lanes)))
            case "transpose":
                return Op(name, (a,), type, (self.random.choice([r for r in range(1, lanes + 1) if lanes % r == 0]),))
            case "concat" | "align":
                return Op(name, (a, b), type, (self.random.randrange(1, lanes),))
            case "vec":
                return Op(name, tuple(self.scalar(type.elem, k, iterator) for k in range(lanes)), type)
            case "bcast":
                pool = _REDUCTIONS if type.elem == "i32" else ("reduce_min", "reduce_max")
                return Op(name, (Op(self.random.choice(pool), (a,), VType(type.elem, False)),), type)
            case _:
                return Op(name, (a, b), type)

    def scalar(self, elem: str, k: int, iterator: str | None) -> Term:
        type = VType(elem, False)  # type: ignore[arg-type]
        if self.random.random() < 0.6:
            return Const(float(k % 3) if elem == "f32" else k % 3, type)
        return self.scalar_load(type, iterator)

    def scalar_load(self, type: VType, iterator: str | None) -> Load:
        array = "a" if type.elem == "f32" else self.random.choice(("n", "h"))
        index = Load("n", self.address(iterator), 1, "i32", I32) if self.random.random() < 0.5 else None
        mask = Load("n", self.address(iterator), 1, "i32", I32) if self.random.random() < 0.3 else None
        elem = _READ[array]
        return Load(array, self.address(iterator), 1, elem, type, index=index, mask=mask)  # type: ignore[arg-type]

    def scalar_store(self, iterator: str | None) -> Store:
        index = Load("n", self.address(iterator), 1, "i32", I32) if self.random.random() < 0.6 else None
        mask = Load("n", self.address(iterator), 1, "i32", I32) if self.random.random() < 0.4 else None
        value = self.scalar_load(I32, iterator)
        return Store("m", self.address(iterator), 1, "i32", value, None, None, index=index, mask=mask)

    def store(self, iterator: str | None, value: Term | None) -> Store:
        array = "m" if value is not None else self.random.choice(list(_WRITTEN))
        elem = _WRITTEN[array]
        type = VF32 if elem == "f32" else VI32
        value = self.vector(type, iterator, 2) if value is None else value
        if value.type == VF32 and self.random.random() < 0.15:
            pair = Op("pair", (value, self.vector(type, iterator, 1)), type)
            return Store(array, self.address(iterator), self.random.choice((1, 2, 3)), elem, pair)  # type: ignore[arg-type]
        stride, period, jump = self.shape()
        active = self.random.choice((None, None, 1, self.lanes - 1))
        return Store(
            array, self.address(iterator), stride, elem, value, active, None, period, jump,  # type: ignore[arg-type]
            self.index(iterator), self.mask(iterator),
        )  # fmt: skip


_KINDS: dict[str, Elem] = {"i8": "i8", "u8": "u8", "u16": "u16", "i16": "i16", "i32": "i32", "f32": "f32", "f64": "f64"}
_OFFSETS = (1, 1, 2, -1, -2, 3, 5, 7, 16, -16, 19, -19, 40, -40, 0)


class Conditional(Accesses):
    """One random program of vectors that are chosen by masks; `elems` are the types of its arrays, which are read under
    the name of their type and stored to under that with `_out`. Arrays hold what is accessed only."""

    def __init__(self, seed: int, lanes: int, elems: Sequence[str] = ("i8", "u8", "u16", "i16", "i32", "f32")) -> None:
        super().__init__(seed, lanes)
        self.elems = elems
        self.masks: list[Var] = []
        self.values: dict[str, list[Term]] = {}

    def drawn(self) -> tuple[Program, dict[str, Any]]:
        """A program, and inputs on which no access is outside its array; on others one under a mask may be."""
        arrays = [ArrayDecl(n, e, SIZE, False, True) for n, e in _KINDS.items()]
        arrays += [ArrayDecl(f"{n}_out", e, SIZE, False) for n, e in _KINDS.items()]
        arrays = [a for a in arrays if a.elem in self.elems or a.name == "i32"]
        iterator = "i" if self.random.random() < 0.6 else None
        body = self.statements(iterator)
        if iterator:
            trip = self.random.choice((1, 2, 5))
            step = self.random.choice((1, 1, 2, self.lanes, -1))
            body = (Loop("i", Const(3, I32), Const(trip, I32), step, (), body, trip, trip),)
        program = Program("f", tuple(a.name for a in arrays), tuple(arrays), (), body)
        return cut(program, self.lanes, inputs_for(program, self.random.randrange(1 << 30)))

    def statements(self, iterator: str | None) -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        for _ in range(self.random.choice((1, 1, 2))):
            body.append(Let(f"m{len(self.masks)}", self.condition(iterator)))
            self.masks.append(Var(f"m{len(self.masks)}", VI32))
        for _ in range(self.random.choice((1, 2, 4))):
            elem = register_elem(self.random.choice(self.elems))
            value = self.place(elem, iterator)
            if self.random.random() < 0.6:
                name = f"v{sum(map(len, self.values.values()))}"
                body.append(Let(name, value))
                value = Var(name, value.type)
            self.values.setdefault(elem, []).append(value)
        for _ in range(self.random.choice((1, 2, 4))):
            body.append(self.chosen(iterator))
        if iterator and self.random.random() < 0.15:
            test = Op("lt", (Var(iterator, I32), Const(4, I32)), I32)
            body.append(If(test, (self.chosen(iterator),)))
        return tuple(body)

    def condition(self, iterator: str | None) -> Term:
        pick, number = self.random.random(), Op("bcast", (Load("i32", self.address(iterator), 1, "i32", I32),), VI32)
        name = self.random.choice(("lt", "gt", "le", "ge", "eq", "ne"))
        if pick < 0.15:
            return Op("mask_first", (), VI32, (self.random.randrange(1, self.lanes),))
        if pick < 0.25:
            period = self.random.randrange(2, self.lanes + 1)
            first = self.random.randrange(period)
            return Op("mask_period", (), VI32, (period, first, self.random.randrange(first, period + 1)))
        if pick < 0.4:
            return Op(name, (Op("iota", (), VI32), number), VI32)
        if pick < 0.5:
            return Op(name, (number, Const(1, VI32)), VI32)
        shape = self.shape() if pick < 0.7 else (1, 0, 0)
        data = Load("i32", self.address(iterator), shape[0], "i32", VI32, *shape[1:])
        if pick < 0.6 and self.masks:
            return Op("select", (self.masks[-1], Op(name, (data, Const(1, VI32)), VI32), Const(0, VI32)), VI32)
        return Op(name, (data, self.random.choice((Const(1, VI32), number))), VI32)

    def shape(self) -> tuple[int, int, int]:
        periods = [p for p in range(1, self.lanes) if self.lanes % p == 0]
        if self.random.random() < 0.6 or not periods:
            return self.random.choice(_OFFSETS), 0, 0
        period = self.random.choice(periods)
        return self.random.choice(_OFFSETS), period, self.random.choice((period, 0, -period, 20, -20, 37, period + 1))

    def mask(self, iterator: str | None) -> Term | None:
        return self.random.choice(self.masks) if self.random.random() < 0.4 else None

    def index(self, iterator: str | None) -> Term | None:
        if self.random.random() < 0.85:
            return None
        number = Load("i32", self.address(iterator), 1, "i32", self.random.choice((I32, VI32)))
        return number if number.type.vector else Op("bcast", (number,), VI32)

    def place(self, elem: str, iterator: str | None) -> Load:
        array = self.random.choice([n for n in self.elems if register_elem(_KINDS[n]) == elem])
        stride, period, jump = self.shape()
        return Load(
            array, self.address(iterator), stride, _KINDS[array], VType(elem, True), period, jump,  # type: ignore[arg-type]
            self.index(iterator), self.mask(iterator),
        )  # fmt: skip

    def chosen(self, iterator: str | None) -> Store:
        """A choice between two of the vectors there are, stored."""
        elem = self.random.choice(list(self.values))
        type = VType(elem, True)  # type: ignore[arg-type]
        first = self.random.choice(self.values[elem])
        second = self.random.choice([*self.values[elem], Const(2.5 if elem[0] == "f" else 5, type)])
        value: Term = Op("select", (self.random.choice(self.masks), first, second), type)
        if self.random.random() < 0.2:
            value = first
        array = self.random.choice([n for n in self.elems if register_elem(_KINDS[n]) == elem])
        stride, period, jump = self.shape()
        active = self.random.choice((None, None, None, self.random.randrange(1, self.lanes)))
        return Store(
            f"{array}_out", self.address(iterator), stride, _KINDS[array], value, active, None, period, jump,
            self.index(iterator), self.mask(iterator),
        )  # fmt: skip


class _Touching(_Machine):
    """An evaluation that keeps the least and the greatest element of each array that is accessed."""

    def __init__(self, lanes: int, arrays: dict[str, Any]) -> None:
        super().__init__(lanes, arrays, 0, IEEE)
        self.touched: dict[str, tuple[int, int]] = {}

    def exact(self, term: Term, names: dict[str, Any]) -> Any:
        return np.asarray(self.term(term, names)).astype(np.int64)

    def write(self, stmt: Store, where: Any, value: Any) -> None:
        self._touch(stmt.array, where)
        super().write(stmt, where, value)

    def read(self, load: Load, where: Any, asked: Any) -> Any:
        self._touch(load.array, where[asked])
        return super().read(load, where, asked)

    def _touch(self, array: str, where: Any) -> None:
        if where.size:
            low, high = self.touched.get(array, (SIZE, 0))
            self.touched[array] = min(low, int(where.min())), max(high, int(where.max()))


def cut(program: Program, lanes: int, inputs: Mapping[str, Any]) -> tuple[Program, dict[str, Any]]:
    """The program and its inputs, with arrays of those elements only that it touches on them."""
    machine = _Touching(lanes, {name: array.copy() for name, array in inputs.items()})
    machine.block(program.body, {})
    touched = {a.name: machine.touched.get(a.name, (0, 0)) for a in program.arrays}
    arrays = tuple(replace(a, size=touched[a.name][1] - touched[a.name][0] + 1) for a in program.arrays)
    body = tuple(shift(s, {name: low for name, (low, _) in touched.items()}) for s in program.body)
    parts = {name: inputs[name][low : high + 1].copy() for name, (low, high) in touched.items()}
    return replace(program, arrays=arrays, body=body), parts


def inputs_for(program: Program, seed: int) -> dict[str, Any]:
    """Small numbers, so that sums are exact and indices stay inside their arrays."""
    source = np.random.default_rng(seed)
    return {a.name: source.integers(-6, 7, a.size).astype(NUMPY[a.elem]) for a in program.arrays}  # type: ignore[index]


def run_assembly(
    program: Program, target: Target, inputs: dict[str, Any], *, pipeline: bool = True, engine: Engine = "python"
) -> dict[str, Any]:
    """The arrays after the program's assembly has run on the simulator."""
    assembly = verify(lower(program, target, pipeline=pipeline, readable=readable(program)), target)
    scheduled = schedule(assembly, target, pipeline=pipeline)
    head = [s.replace("{name}", program.name) for s in (target.text.global_directive, target.text.label)]
    text = "\n".join([*head, print_lines(scheduled.lines, target)])
    arguments = [(name, np.array(inputs[name])) for name in program.params]
    result = simulate(text, target.real, function=program.name, arguments=arguments, engine=engine, stack=8192)
    return dict(result.outputs)


__all__ = ["Accesses", "Carried", "inputs_for", "run_assembly"]
