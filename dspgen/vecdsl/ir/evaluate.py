"""Runs programs and single terms of the vector DSL over NumPy; `dspgen.vecdsl.ir.semantics` has the operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dspgen.vecdsl.ir.program import (
    Address,
    Const,
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
    covered,
    lanes_of,
)
from dspgen.vecdsl.ir.semantics import IEEE, Arithmetic, Array, Value, apply
from dspgen.vecdsl.ir.terms import register_elem, second_half

Slack = int | Mapping[str, tuple[int, int]]


class OutOfBounds(Exception):
    """An access outside its array and outside the slack around it."""


def evaluate(
    program: Program,
    lanes: int,
    inputs: Mapping[str, Any],
    *,
    slack: Slack = 0,
    arithmetic: Arithmetic = IEEE,
) -> dict[str, Array]:
    """The contents of every parameter array that isn't const, after the run, in the input's shape.

    `inputs` has an array (any shape, row-major) or number for each parameter. `slack` allows vector loads that many
    elements before and after each array, read as 0. Local arrays start as 0. Raises OutOfBounds.
    """
    arrays = dict[str, Array]()
    for decl in program.arrays:
        given = np.zeros(decl.size) if decl.local else np.asarray(inputs[decl.name])
        if given.size != decl.size:
            raise ValueError(f"array '{decl.name}' has {decl.size} elements, {given.size} were given")
        arrays[decl.name] = arithmetic.memory(given.reshape(-1), decl.elem).copy()
    names: dict[str, Value] = {
        s.name: arithmetic.register(np.asarray(inputs[s.name]), register_elem(s.elem)) for s in program.scalars
    }
    machine = _Machine(lanes, arrays, slack, arithmetic)
    machine.block(program.body, names)
    return {
        d.name: arrays[d.name].reshape(np.shape(inputs[d.name])) for d in program.arrays if not d.local and not d.const
    }


def evaluate_term(
    term: Term,
    lanes: int,
    names: Mapping[str, Any],
    arrays: Mapping[str, Any],
    *,
    slack: Slack = 0,
    arithmetic: Arithmetic = IEEE,
) -> Value:
    """The value of one term; `names` has the values of variables (an int for one used in addresses)."""
    memory = {name: np.asarray(a).reshape(-1) for name, a in arrays.items()}
    machine = _Machine(lanes, memory, slack, arithmetic)
    return machine.term(term, {n: v if isinstance(v, tuple) else np.asarray(v) for n, v in names.items()})


class _Machine:
    def __init__(self, lanes: int, arrays: dict[str, Array], slack: Slack, arithmetic: Arithmetic) -> None:
        self.lanes = lanes
        self.arrays = arrays
        self.slack = slack
        self.arithmetic = arithmetic

    def block(self, body: tuple[Stmt, ...], names: dict[str, Value]) -> None:
        for stmt in body:
            match stmt:
                case Let():
                    names[stmt.name] = self.term(stmt.value, names)
                case Store():
                    self.store(stmt, names)
                case If():
                    if self.integer(stmt.condition, names):
                        self.block(stmt.then, dict(names))
                case Loop():
                    self.loop(stmt, names)

    def loop(self, loop: Loop, names: dict[str, Value]) -> None:
        start, trip = self.integer(loop.start, names), self.integer(loop.trip, names)
        if trip < loop.min_trip or (loop.max_trip is not None and trip > loop.max_trip):
            raise ValueError(f"loop '{loop.iterator}' has {trip} iterations, outside its declared range")
        current = {c.name: self.term(c.init, names) for c in loop.carried}
        for number in range(trip):
            inner = {**names, **current, loop.iterator: np.asarray(start + number * loop.step, dtype=np.int32)}
            self.block(loop.body, inner)
            current = {c.name: self.term(c.next, inner) for c in loop.carried}
            if loop.going and not current[loop.going]:
                break
        names.update(current)

    def integer(self, term: Term, names: dict[str, Value]) -> int:
        return int(self.exact(term, names))

    def address(self, address: Address, names: dict[str, Value]) -> int:
        total = address.constant
        for name, coefficient in address.terms:
            value = names[name]
            if isinstance(value, tuple):
                raise ValueError("a pair stands in an address")
            total += coefficient * int(value)
        return total

    def store(self, stmt: Store, names: dict[str, Value]) -> None:
        value = self.term(stmt.value, names)
        where = self.places(stmt, stmt.value.type, names)
        if isinstance(value, tuple):
            self.write(stmt, where, value[0])
            self.write(stmt, where + second_half(stmt, self.lanes), value[1])
            return
        asked = self.mask(stmt.mask, where.size, names)
        if stmt.active is not None:
            asked &= np.arange(where.size) < stmt.active
        self.write(stmt, where[asked], value.reshape(-1)[asked])

    def write(self, stmt: Store, where: Array, value: Array) -> None:
        memory = self.arrays[stmt.array]
        if (words := covered(stmt.elem)) > 1:
            value = value.reshape(-1).astype(np.int32).view(memory.dtype)
            where = (where[:, None] + np.arange(words)).reshape(-1)
        if where.size and (where.min() < 0 or where.max() >= memory.size):
            raise OutOfBounds(f"store to {stmt.array}[{where.min()}..{where.max()}] of {memory.size} elements")
        with np.errstate(all="ignore"):
            memory[where] = value if words > 1 else self.arithmetic.memory(value.reshape(-1), stmt.elem)

    def places(self, access: Load | Store, type: VType, names: dict[str, Value]) -> Array:
        """The element that each lane accesses, one for a scalar."""
        lane = np.arange(lanes_of(type, self.lanes) if type.vector else 1)
        where = self.address(access.address, names) + _offsets(access, lane)
        return where if access.index is None else where + self.exact(access.index, names)

    def mask(self, mask: Term | None, size: int, names: dict[str, Value]) -> Array:
        if mask is None:
            return np.ones(size, dtype=bool)
        return np.asarray(np.broadcast_to(self.exact(mask, names) != 0, size)).copy()

    def exact(self, term: Term, names: dict[str, Value]) -> Array:
        """An i32 term's value in the machine's arithmetic, whatever the elements' own, of int64."""
        value = _Machine(self.lanes, self.arrays, self.slack, IEEE).term(term, names)
        if isinstance(value, tuple):
            raise ValueError("a pair stands where numbers are wanted")
        return value.astype(np.int64)

    def term(self, term: Term, names: dict[str, Value]) -> Value:
        match term:
            case Const():
                value = self.arithmetic.register(np.asarray(term.value), term.type.elem)
                return np.full(lanes_of(term.type, self.lanes), value) if term.type.vector else value
            case Var():
                found = names[term.name]
                if isinstance(found, np.ndarray):
                    return self.arithmetic.register(found, term.type.elem)
                return found
            case Load():
                where = self.places(term, term.type, names)
                return self.read(term, where, self.mask(term.mask, where.size, names))
            case Op(name="ld_pair", args=(Load() as low,)):
                return self.load_pair(low, names)
            case Op():
                args = tuple(self.term(a, names) for a in term.args)
                return apply(self.arithmetic, term.name, term.type, term.imm, args, self.lanes)

    def load_pair(self, low: Load, names: dict[str, Value]) -> Value:
        where = self.places(low, low.type, names)
        asked = np.ones(where.size, dtype=bool)
        second = where + second_half(low, self.lanes)
        return self.read(low, where, asked), self.read(low, second, asked)

    def read(self, load: Load, where: Array, asked: Array) -> Array:
        memory = self.arrays[load.array]
        before, after = self.slack.get(load.array, (0, 0)) if isinstance(self.slack, Mapping) else (self.slack,) * 2
        if not load.type.vector or load.index is not None:
            before = after = 0
        words = covered(load.elem)
        touched = where[asked]
        touched = np.concatenate([touched, touched + words - 1])
        if touched.size and (touched.min() < -before or touched.max() >= memory.size + after):
            raise OutOfBounds(f"load of {load.array}[{touched.min()}..{touched.max()}] of {memory.size} elements")
        parts = []
        for place in (where + k for k in range(words)):
            inside = asked & (place >= 0) & (place < memory.size)
            parts.append(np.where(inside, memory[np.where(inside, place, 0)], np.zeros((), memory.dtype)))
        values = parts[0] if words == 1 else np.stack(parts, axis=1).view(np.int32).reshape(-1)
        return self.arithmetic.register(values if load.type.vector else values[0], load.type.elem)


def _offsets(access: Load | Store, lane: Array) -> Array:
    if not access.period:
        return np.asarray(lane * access.stride)
    return np.asarray(lane % access.period * access.stride + lane // access.period * access.jump)
