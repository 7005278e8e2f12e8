"""Random programs of the vector DSL, with every access inside its array, and inputs for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from dspgen.vecdsl.analysis.footprint import loads_in, of_load, of_store, stores_in
from dspgen.vecdsl.analysis.integer_ranges import Ranges
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
    ScalarDecl,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from dspgen.vecdsl.ir.terms import INTEGER, make_address, register_elem, statements

LANES = 4
Access = TypeVar("Access", Load, Store)
ARRAYS: tuple[tuple[str, Elem, bool, bool], ...] = (
    ("A", "f32", False, False),
    ("B", "f32", False, True),
    ("C", "i32", False, False),
    ("D", "i16", False, False),
    ("T", "f32", True, False),
    ("U", "i32", True, False),
)


class Generator:
    """One random program. Small coefficients and offsets, so that accesses often meet.

    `every`: accesses also have periods, indices and masks, stores write pairs, and terms use more operations.
    """

    def __init__(self, seed: int, every: bool = False) -> None:
        self.random = random.Random(seed)
        self.every = every
        self.nested = 0
        self.count = 0

    def program(self) -> Program:
        body = self.block(0, {"n": INTEGER, "s": VType("f32", False)}, (), 3)
        arrays = tuple(ArrayDecl(name, elem, 1, local, const) for name, elem, local, const in ARRAYS)
        scalars = (ScalarDecl("n", "i32"), ScalarDecl("s", "f32"))
        params = ("A", "B", "n", "C", "D", "s")
        return sized(Program("random", params, arrays, scalars, body))

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def block(self, depth: int, scope: dict[str, VType], iterators: tuple[str, ...], size: int) -> tuple[Stmt, ...]:
        body, scope = list[Stmt](), dict(scope)
        for _ in range(self.random.randint(1, size)):
            choice = self.random.random()
            if choice < 0.15:
                name, type = self.fresh("v"), self.type()
                body.append(Let(name, self.term(type, scope, iterators, 2)))
                scope[name] = type
            elif choice < 0.6 or depth >= 3:
                body.append(self.store(scope, iterators))
            elif choice < 0.68 and iterators:
                condition = Op("lt", (Var(self.random.choice(iterators), INTEGER), Const(2, INTEGER)), INTEGER)
                body.append(If(condition, self.block(depth + 1, scope, iterators, 2)))
            else:
                body += self.loop(depth, scope, iterators)
        return tuple(body)

    def loop(self, depth: int, scope: dict[str, VType], iterators: tuple[str, ...]) -> list[Stmt]:
        name = self.fresh("i")
        step = self.random.choice((1, 1, 1, 2, -1))
        start: Term = Const(self.random.randint(0, 2), INTEGER)
        if iterators and self.random.random() < 0.3:
            start = Var(self.random.choice(iterators), INTEGER)
        count = self.random.choice((0, 1, 2, 3, 5))
        trip, low, high = Const(count, INTEGER), count, count
        dynamic: Term = trip
        if self.random.random() < 0.2:
            dynamic, low, high = Op("min", (Var("n", INTEGER), Const(3, INTEGER)), INTEGER), 0, 3
        carried = list[Carried]()
        inner = {**scope, name: INTEGER}
        for _ in range(self.random.choice((0, 0, 1, 2))):
            type = self.type()
            variable = self.fresh("c")
            carried.append(Carried(variable, self.term(type, scope, iterators, 1), Var(variable, type)))
            inner[variable] = type
        body = self.block(depth + 1, inner, (*iterators, name), 3)
        visible = {**inner, **{s.name: s.value.type for s in body if isinstance(s, Let)}}
        following = tuple(replace(c, next=self.term(c.init.type, visible, (*iterators, name), 2)) for c in carried)
        for c in carried:
            scope[c.name] = c.init.type
        return [Loop(name, start, dynamic, step, following, body, low, high)]

    def type(self) -> VType:
        return VType(self.random.choice(("f32", "i32")), self.random.random() < 0.5)

    def address(self, iterators: tuple[str, ...]) -> Address:
        if iterators and self.random.random() < 0.5:
            # Equal terms, so that values pass from one iteration to a later one.
            return make_address(self.random.randint(0, 5), {iterators[-1]: 1})
        terms = {i: self.random.choice((0, 1, 1, 2, 4, -1)) for i in iterators if self.random.random() < 0.6}
        return make_address(self.random.randint(0, 5), terms)

    def store(self, scope: dict[str, VType], iterators: tuple[str, ...]) -> Store:
        array, elem, _, _ = self.random.choice([a for a in ARRAYS if not a[3]])
        vector = self.random.random() < 0.5
        type = VType(register_elem(elem), vector)
        value = self.term(type, scope, iterators, 3)
        active = self.random.choice((None, None, 1, 3)) if vector else None
        stride = self.random.choice((1, 1, 1, 2, -1)) if vector else 1
        if self.every and self.random.random() < 0.1:
            pair = Op("pair", (value, self.term(type, scope, iterators, 2)), type)
            stride = self.random.choice((1, 2, 4)) if vector else 1
            return Store(array, self.address(iterators), stride, elem, pair)
        return self.bent(Store(array, self.address(iterators), stride, elem, value, active), vector, scope, iterators)

    def bent(self, access: Access, vector: bool, scope: dict[str, VType], iterators: tuple[str, ...]) -> Access:
        """Perhaps with a period, an index (of 0..3) or a mask; accesses of one kind often are of one place."""
        if not self.every or self.nested > 1 or self.random.random() < 0.6:
            return access
        kind = VType("i32", vector)
        self.nested += 1
        if vector and self.random.random() < 0.5:
            access = replace(access, period=self.random.choice((1, 2, 4)), jump=self.random.choice((0, 1, 2, 4, -2)))
        if self.random.random() < 0.3:
            low = Op("and", (self.term(kind, scope, iterators, 1), Const(3, kind)), kind)
            access = replace(access, index=self.random.choice((low, Const(2, kind))))
        if self.random.random() < 0.3:
            access = replace(access, mask=self.term(kind, scope, iterators, 1))
        self.nested -= 1
        return access

    def term(self, type: VType, scope: dict[str, VType], iterators: tuple[str, ...], depth: int) -> Term:
        choice = self.random.random()
        if depth == 0 or choice < 0.35:
            return self.leaf(type, scope, iterators)
        if choice < 0.45 and type.vector:
            return Op("bcast", (self.term(VType(type.elem, False), scope, iterators, depth - 1),), type)
        if choice < 0.5 and not type.vector:
            wide = VType(type.elem, True)
            name = self.random.choice(("reduce_add", "lane"))
            return Op(name, (self.term(wide, scope, iterators, depth - 1),), type, (1,) if name == "lane" else ())
        if choice < 0.6:
            condition = VType("i32", type.vector)
            args = tuple(self.term(t, scope, iterators, depth - 1) for t in (condition, type, type))
            return Op("select", args, type)
        if self.every and self.random.random() < 0.4:
            return self.other(type, scope, iterators, depth - 1)
        names = ["add", "sub", "mul", "min", "max"] + (["and", "xor", "sext16"] if type.elem == "i32" else ["mac"])
        name = self.random.choice(names)
        arity = {"mac": 3, "sext16": 1}.get(name, 2)
        return Op(name, tuple(self.term(type, scope, iterators, depth - 1) for _ in range(arity)), type)

    def other(self, type: VType, scope: dict[str, VType], iterators: tuple[str, ...], depth: int) -> Term:
        """One of the less common operations."""

        def term(of: VType = type) -> Term:
            return self.term(of, scope, iterators, depth)

        def pair() -> Term:
            return Op("pair", (term(), term()), type)

        pattern = tuple(self.random.randint(-1, 2 * LANES - 1) for _ in range(LANES))
        small = tuple(min(k, LANES - 1) for k in pattern)
        part = (self.random.randint(0, LANES),)
        wide, scalar = VType(type.elem, True), VType(type.elem, False)
        options: list[Callable[[], Term]] = [
            lambda: Op(self.random.choice(("cmul_re", "cmul_im")), (pair(), pair()), type),
            lambda: Op("hi", (Op("cmac", (pair(), pair(), pair()), type),), type),
        ]
        if type.elem == "i32":
            options += [
                lambda: Op(self.random.choice(("mul16", "add_sat", "sub_sat")), (term(), term()), type),
                lambda: Op(self.random.choice(("sat8", "sat16", "satu8", "satu16")), (term(),), type),
            ]
        if type.vector:
            options += [
                lambda: Op("vec", tuple(term(scalar) for _ in range(LANES)), type),
                lambda: Op("shuffle", (term(),), type, small),
                lambda: Op("shuffle2", (term(), term()), type, pattern),
                lambda: Op("transpose", (term(),), type, (2,)),
                lambda: Op("concat", (term(), term()), type, part),
                lambda: Op(self.random.choice(("all_add", "all_min", "all_max")), (term(),), type),
            ]
            if type.elem == "i32":
                options.append(lambda: Op("mask_period", (), type, (3, 1, 2)))
        else:
            names = ["reduce_mul", "reduce_min"] + (["reduce_and", "reduce_xor"] if type.elem == "i32" else [])
            options.append(lambda: Op(self.random.choice(names), (term(wide),), type))
        return self.random.choice(options)()

    def leaf(self, type: VType, scope: dict[str, VType], iterators: tuple[str, ...]) -> Term:
        variables = [n for n, t in scope.items() if t == type]
        if variables and self.random.random() < 0.4:
            return Var(self.random.choice(variables), type)
        if self.random.random() < 0.15:
            value = self.random.randint(-3, 3)
            return Const(float(value) if type.elem == "f32" else value, type)
        array, elem, _, _ = self.random.choice([a for a in ARRAYS if register_elem(a[1]) == type.elem])
        stride = self.random.choice((1, 1, 1, 2, -1)) if type.vector else 1
        load = Load(array, self.address(iterators), stride, elem, type)
        return self.bent(load, type.vector, {}, iterators)


def sized(program: Program) -> Program:
    """Moves every address of an array up to be non-negative, and makes each array as large as its accesses need."""
    ranges = Ranges()
    for stmt in statements(program.body):
        if isinstance(stmt, Loop):
            # A loop that never runs has no range; its accesses still get one.
            shown = stmt if stmt.max_trip else replace(stmt, trip=Const(1, INTEGER), max_trip=1)
            ranges = ranges.inside(shown)
    lows, highs = dict.fromkeys((a[0] for a in ARRAYS), 0), dict.fromkeys((a[0] for a in ARRAYS), 0)
    touched = [(x, of_load(x, LANES, paired)) for x, paired in loads_in(program.body)]
    written = [(x, of_store(x, LANES)) for x in stores_in(program.body)]
    for access, footprint in (*touched, *written):
        low, high = ranges.minimum(access.address), ranges.maximum(access.address)
        assert low is not None and high is not None
        first, last = footprint.reach
        lows[access.array] = min(lows[access.array], low + first)
        highs[access.array] = max(highs[access.array], high + last + (0 if access.index is None else 3))
    arrays = tuple(replace(a, size=highs[a.name] - lows[a.name] + 1) for a in program.arrays)
    return replace(program, arrays=arrays, body=tuple(shift(s, lows) for s in program.body))


def shift(stmt: Stmt, lows: Mapping[str, int]) -> Stmt:
    """The statement with each array's elements so many places lower."""

    def term(t: Term) -> Term:
        match t:
            case Load():
                return place(t)
            case Op():
                return replace(t, args=tuple(map(term, t.args)))
            case _:
                return t

    def place(access: Access) -> Access:
        index, mask = (None if t is None else term(t) for t in (access.index, access.mask))
        return replace(access, address=access.address.plus(-lows[access.array]), index=index, mask=mask)

    match stmt:
        case Let():
            return Let(stmt.name, term(stmt.value))
        case Store():
            return replace(place(stmt), value=term(stmt.value))
        case If():
            return If(term(stmt.condition), tuple(shift(s, lows) for s in stmt.then))
        case Loop():
            carried = tuple(Carried(c.name, term(c.init), term(c.next)) for c in stmt.carried)
            return replace(stmt, carried=carried, body=tuple(shift(s, lows) for s in stmt.body))


def random_program(seed: int, every: bool = False) -> Program:
    return Generator(seed, every).program()


def random_inputs(program: Program, seed: int) -> dict[str, Any]:
    source = np.random.default_rng(seed)
    inputs: dict[str, Any] = {"n": int(source.integers(0, 5)), "s": float(source.integers(-3, 4))}
    for array in program.arrays:
        if not array.local:
            values = source.integers(-4, 5, array.size)
            inputs[array.name] = values.astype({"f32": np.float32, "i32": np.int32, "i16": np.int16}[array.elem])
    return inputs
