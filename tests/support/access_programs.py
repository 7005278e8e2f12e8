"""Random programs of the vector DSL with accesses of every shape, and their way through assembly to a result."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from dspgen.asmir.lower import lower
from dspgen.asmir.verify import verify
from dspgen.emit.text import print_lines
from dspgen.sched.schedule import schedule
from dspgen.sim.run import Engine, simulate
from dspgen.target.model import Target
from dspgen.vecdsl.ir import (
    Address,
    ArrayDecl,
    Carried,
    Const,
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
from dspgen.vecdsl.ranges import readable

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


def inputs_for(program: Program, seed: int) -> dict[str, Any]:
    """Small numbers, so that sums are exact and indices stay inside their arrays."""
    source = np.random.default_rng(seed)
    kinds = {"f32": np.float32, "i32": np.int32, "i16": np.int16, "f64": np.float64}
    return {a.name: source.integers(-6, 7, a.size).astype(kinds[a.elem]) for a in program.arrays}


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
