"""Checks a program: types, known operations and arrays, names bound once and before use, agreeing carried values."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dspgen.vecdsl.ir.program import (
    ELEM_BYTES,
    NARROW,
    OPS,
    WORDS,
    Address,
    ArrayDecl,
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
from dspgen.vecdsl.ir.terms import COMPARISONS, INTEGER, gives_pair, register_elem

_CONVERSIONS = {
    "cvt_i32_f32": ("i32", "f32"),
    "cvt_u32_f32": ("i32", "f32"),
    "cvt_i32_f64": ("i32", "f64"),
    "cvt_f32_i32": ("f32", "i32"),
    "cvt_f64_i32": ("f64", "i32"),
    "cvt_f32_f64": ("f32", "f64"),
    "cvt_f64_f32": ("f64", "f32"),
}
_FLOAT_ONLY = frozenset({"sqrt", "rcp_est", "rsqrt_est"})
_INTEGER_ONLY = frozenset({"mac16", "mulhi", "shl", "shr", "shru", "sext8", "sext16", "zext8", "zext16", "ltu"})
_WORDS_ONLY = frozenset({"mul16", "dup16", "add_sat", "sub_sat", "sat8", "sat16", "satu8", "satu16"})
_IMMEDIATES = {
    "lane": 1, "insert": 1, "dup_lane": 1, "align": 1, "mask_first": 1, "mask_period": 3, "transpose": 1, "concat": 1,
}  # fmt: skip
_LANES_ONLY = frozenset({
    "dup_lane", "align", "even", "odd", "zip_lo", "zip_hi", "reverse", "all_add", "all_min", "all_max",
    "shuffle", "shuffle2", "transpose", "concat",
})  # fmt: skip
_PATTERNS = frozenset({"shuffle", "shuffle2"})
_HALVED: dict[str, Elem] = {"i16": "i32", "i8": "i16"}  # the elements that are joined into narrower ones
_UNPACKED: dict[str, Elem] = {"unpack16": "i32", "unpacku16": "i32", "unpack8": "i16", "unpacku8": "i16"}
_BITS = {"f32": 32, "i32": 32, "u32": 32, "f64": 64, "i64": 64}


class InvalidProgram(Exception):
    """A program that breaks the rules of the vector DSL: a fault of the pass that made it."""


def verify(program: Program) -> Program:
    """`program` itself, if it is well formed; else raises InvalidProgram."""
    checker = _Checker({a.name: a for a in program.arrays}, {s.name for s in program.scalars})
    declared = [a.name for a in program.arrays] + [s.name for s in program.scalars]
    for name in declared:
        checker.bind(name)
    if sorted(program.params) != sorted(n for n in declared if n not in {a.name for a in program.arrays if a.local}):
        raise InvalidProgram(f"the parameters {program.params} are not the declared ones")
    checker.block(program.body, {s.name: VType(register_elem(s.elem), False) for s in program.scalars})
    return program


class _Checker:
    def __init__(self, arrays: Mapping[str, ArrayDecl], indices: set[str]) -> None:
        self.arrays = arrays
        self.indices = indices
        self.bound = dict[str, None]()

    def bind(self, name: str) -> None:
        if name in self.bound:
            raise InvalidProgram(f"name '{name}' is bound twice")
        self.bound[name] = None

    def block(self, body: tuple[Stmt, ...], scope: dict[str, VType]) -> dict[str, VType]:
        for stmt in body:
            match stmt:
                case Let():
                    self.term(stmt.value, scope)
                    self.bind(stmt.name)
                    scope[stmt.name] = stmt.value.type
                    self.indices.add(stmt.name)  # a parameter that the program defines
                case Store():
                    self.store(stmt, scope)
                case If():
                    self.expect(stmt.condition, INTEGER, scope, "a condition")
                    self.block(stmt.then, dict(scope))
                case Loop():
                    self.loop(stmt, scope)
        return scope

    def loop(self, loop: Loop, scope: dict[str, VType]) -> None:
        self.expect(loop.start, INTEGER, scope, "a loop's start")
        self.expect(loop.trip, INTEGER, scope, "a trip count")
        if loop.step == 0:
            raise InvalidProgram(f"loop '{loop.iterator}' has step 0")
        if isinstance(loop.trip, Const):
            count = int(loop.trip.value)
            if count < 0 or loop.min_trip > count or (loop.max_trip is not None and loop.max_trip < count):
                raise InvalidProgram(f"loop '{loop.iterator}' has {count} iterations, outside its declared range")
        if loop.going and not any(c.name == loop.going and c.init.type == INTEGER for c in loop.carried):
            raise InvalidProgram(f"loop '{loop.iterator}' carries no integer '{loop.going}'")
        inner = dict(scope)
        self.bind(loop.iterator)
        self.indices.add(loop.iterator)
        inner[loop.iterator] = INTEGER
        for carried in loop.carried:
            self.term(carried.init, scope)
            self.bind(carried.name)
            inner[carried.name] = carried.init.type
        body = self.block(loop.body, inner)
        for carried in loop.carried:
            self.expect(carried.next, carried.init.type, body, f"the next value of '{carried.name}'")
            scope[carried.name] = carried.init.type

    def store(self, stmt: Store, scope: dict[str, VType]) -> None:
        self.term(stmt.value, scope)
        array = self.array(stmt.array, stmt.elem)
        if array.const:
            raise InvalidProgram(f"store to const array '{stmt.array}'")
        if not _holds(stmt.value.type, stmt.elem):
            raise InvalidProgram(f"a {stmt.value.type.elem} value is stored as {stmt.elem}")
        if stmt.active is not None and (not stmt.value.type.vector or stmt.active < 1):
            raise InvalidProgram(f"a store to '{stmt.array}' has a bad count of active lanes")
        if gives_pair(stmt.value) and not (stmt.plain and stmt.active is None):
            raise InvalidProgram(f"a pair is stored to '{stmt.array}' otherwise than whole and at a constant stride")
        self.place(stmt, stmt.value.type.vector, scope)

    def place(self, access: Load | Store, vector: bool, scope: Mapping[str, VType]) -> None:
        self.address(access.address, scope)
        words = WORDS.get(access.elem)
        if words is not None and not (access.plain and vector and access.stride == words):
            raise InvalidProgram(f"words of '{access.array}' are accessed otherwise than one after the other")
        if access.period < 0 or (access.period and not vector) or (access.jump and not access.period):
            raise InvalidProgram(f"an access to '{access.array}' has a bad period or jump")
        for term, what in ((access.index, "an index"), (access.mask, "a mask")):
            if term is not None:
                self.expect(term, VType("i32", vector), scope, what)

    def array(self, name: str, elem: str) -> ArrayDecl:
        if name not in self.arrays:
            raise InvalidProgram(f"unknown array '{name}'")
        held = self.arrays[name].elem
        if held != elem and not (elem in WORDS and held[1:] == elem[1:]):
            raise InvalidProgram(f"'{name}' holds {self.arrays[name].elem}, accessed as {elem}")
        return self.arrays[name]

    def address(self, address: Address, scope: Mapping[str, VType]) -> None:
        names = [n for n, _ in address.terms]
        if names != sorted(set(names)) or any(c == 0 for _, c in address.terms):
            raise InvalidProgram(f"address {address} is not in normal form")
        for name in names:
            if scope.get(name) != INTEGER or name not in self.indices:
                raise InvalidProgram(
                    f"'{name}' in an address is no iterator, integer parameter or name of an integer in scope"
                )

    def expect(self, term: Term, type: VType, scope: Mapping[str, VType], what: str) -> None:
        self.term(term, scope)
        if term.type != type:
            raise InvalidProgram(f"{what} has type {term.type}, not {type}")

    def term(self, term: Term, scope: Mapping[str, VType]) -> None:
        match term:
            case Const():
                floating = term.type.elem in ("f32", "f64")
                if isinstance(term.value, float) != floating or not (term.type.elem in _BITS or _narrow(term.type)):
                    raise InvalidProgram(f"constant {term.value!r} has type {term.type}")
                # Structural equality can't tell -0.0 from 0.0, nor a not-a-number from itself.
                if isinstance(term.value, float) and (
                    math.isnan(term.value) or (term.value == 0 and math.copysign(1, term.value) < 0)
                ):
                    raise InvalidProgram("a constant may be neither -0.0 nor a not-a-number")
            case Var():
                if scope.get(term.name) != term.type:
                    found = scope.get(term.name)
                    raise InvalidProgram(f"variable '{term.name}' of type {term.type} is bound as {found}")
            case Load():
                self.array(term.array, term.elem)
                self.place(term, term.type.vector, scope)
                # A load may widen an integer, it never changes a float.
                wide = term.elem not in ("f32", "f64", "u32", "i64") and term.type.elem == "i64"
                if not _holds(term.type, term.elem) and not wide:
                    raise InvalidProgram(f"a load of {term.elem} gives {term.type.elem}")
            case Op():
                for arg in term.args:
                    self.term(arg, scope)
                check_types(term)


def _narrow(type: VType) -> bool:
    """Whether a vector has several elements on each lane."""
    return type.vector and type.elem in NARROW


def _holds(type: VType, elem: Elem) -> bool:
    """Whether elements of memory are loaded to, and stored from, values of the type."""
    if _narrow(type):
        return elem not in WORDS and elem[0] in "iu" and ELEM_BYTES[elem] <= ELEM_BYTES[type.elem]
    return type.elem == register_elem(elem)


def check_types(op: Op) -> None:
    """Raises InvalidProgram if an operation's operands don't fit it; their own insides are not looked at."""
    if op.name not in OPS:
        raise InvalidProgram(f"unknown operation '{op.name}'")
    fitting = op.imm and min(op.imm) >= -1 if op.name in _PATTERNS else len(op.imm) == _IMMEDIATES.get(op.name, 0)
    if OPS[op.name].arity not in (len(op.args), -1) or not fitting:
        raise InvalidProgram(f"'{op.name}' has {len(op.args)} operands and {len(op.imm)} immediates")
    if not _fits(op, tuple(a.type for a in op.args)):
        raise InvalidProgram(f"'{op.name}' of type {op.type} can't take {[a.type for a in op.args]}")


def _fits(op: Op, args: tuple[VType, ...]) -> bool:
    elem, vector = op.type.elem, op.type.vector
    floating = elem in ("f32", "f64")
    scalar, wide = VType(elem, False), VType(elem, True)
    match op.name:
        case name if name in COMPARISONS:
            integers = name != "ltu" or args[0].elem not in ("f32", "f64")
            truth = args[0].elem if _narrow(args[0]) else "i32"
            return elem == truth and args[0] == args[1] and args[0].vector == vector and integers
        case name if name in _CONVERSIONS:
            source, result = _CONVERSIONS[name]
            return elem == result and args[0].elem == source and args[0].vector == vector
        case "select":
            return args == (op.type if _narrow(op.type) else VType("i32", vector), op.type, op.type)
        case "mov":
            return _BITS[args[0].elem] == _BITS[elem] and args[0].vector == vector
        case "div" | "mod" if elem == "u32":
            return all(a == VType("i32", vector) for a in args)
        case "alike":
            return vector and elem == "i32" and args == (op.type,)
        case "bcast":
            return vector and args == (VType("i32", False) if _narrow(op.type) else scalar,)
        case "view":
            return vector and all(t.vector and t.elem in ("i32", *NARROW) for t in (op.type, *args))
        case "join":
            return _narrow(op.type) and all(a == VType(_HALVED[elem], True) for a in args)
        case "minu" | "maxu" | "absdu":
            return _narrow(op.type) and all(a == op.type for a in args)
        case "iota" | "mask_first" | "mask_period":
            return vector and not floating
        case "vec":
            return vector and bool(args) and all(a == scalar for a in args)
        case "reduce_and" | "reduce_or" | "reduce_xor":
            return not floating and not vector and args == (wide,)
        case "lane" | "reduce_add" | "reduce_min" | "reduce_max" | "reduce_mul":
            return not vector and args == (wide,)
        case "insert":
            return vector and args == (wide, scalar)
        case name if name in _LANES_ONLY:
            return vector and all(a == wide for a in args)
        case "lo" | "hi":
            return args == (op.type,) and _is_pair(op.args[0])
        case "cmul" | "cmul_re" | "cmul_im" | "cmac":
            return all(a == op.type for a in args) and all(map(_is_pair, op.args))
        case "zip" | "unzip":
            return vector and all(a == wide for a in args)
        case name if name in _UNPACKED:
            return vector and elem == _UNPACKED[name] and args == (op.type,)
        case "mul16_pair" | "mac16_pair":
            return elem == "i32" and all(a == op.type for a in args) and (len(args) < 3 or _is_pair(op.args[2]))
        case "bcast_pair":
            return vector and args == (scalar,) and _is_pair(op.args[0])
        case "ld_pair":
            return args == (op.type,) and _paired(op.args[0])
        case name if name in _WORDS_ONLY:
            return (elem == "i32" or _narrow(op.type)) and all(a == op.type for a in args)
        case _:
            if op.name in _FLOAT_ONLY and not floating or op.name in _INTEGER_ONLY and floating:
                return False
            return elem != "u32" and all(a == op.type for a in args)


def _paired(term: Term) -> bool:
    """Whether it is a load that a pair load may be of."""
    return isinstance(term, Load) and term.index is None and term.mask is None


def _is_pair(term: Term) -> bool:
    return isinstance(term, Var) or gives_pair(term)
