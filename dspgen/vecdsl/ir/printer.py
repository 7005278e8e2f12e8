"""Text of terms and programs; `dspgen.vecdsl.ir.parser` reads it back to equal values.

term    ::= "(const." type number ")" | name ":" type | "(ld." elem ["." type] array place ")"
          | "(" op "." type ("." integer)* term* ")"
place   ::= address stride ["period" integer "jump" integer] ["index" term] ["mask" term]
type    ::= elem [".v"]        comparisons carry their operands' element type, everything else its own
address ::= "[" sum of integer, name, integer "*" name "]"
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
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
)
from dspgen.vecdsl.ir.terms import COMPARISONS, register_elem
from plant_core.support.location import Loc


def print_program(program: Program) -> str:
    lines = [f"program {program.name}({', '.join(program.params)})", "{"]
    lines += [f"  {_array(a)}" for a in program.arrays]
    lines += [f"  scalar {s.name} {s.elem}" for s in program.scalars]
    lines += [f"  {line}" for line in _block(program.body)]
    return "\n".join([*lines, "}", ""])


def print_term(term: Term) -> str:
    match term:
        case Const():
            return f"(const.{print_type(term.type)} {term.value!r})"
        case Var():
            return f"{term.name}:{print_type(term.type)}"
        case Load():
            head = f"ld.{term.elem}"
            if term.type.elem != register_elem(term.elem):
                head += f".{term.type.elem}"
            vector = ".v" if term.type.vector else ""
            return f"({head}{vector} {term.array} {_place(term)})"
        case Op():
            elem = term.args[0].type.elem if term.name in COMPARISONS else term.type.elem
            head = f"{term.name}.{print_type(VType(elem, term.type.vector))}"
            head += "".join(f".{i}" for i in term.imm)
            return "(" + " ".join([head, *map(print_term, term.args)]) + ")"


def _place(access: Load | Store) -> str:
    text = f"{print_address(access.address)} {access.stride}"
    if access.period:
        text += f" period {access.period} jump {access.jump}"
    if access.index is not None:
        text += f" index {print_term(access.index)}"
    if access.mask is not None:
        text += f" mask {print_term(access.mask)}"
    return text


def print_type(type: VType) -> str:
    return type.elem + (".v" if type.vector else "")


def print_address(address: Address) -> str:
    text = ""
    for name, coefficient in address.terms:
        sign = "-" if coefficient < 0 else "+"
        size = abs(coefficient)
        text += f" {sign} " + (name if size == 1 else f"{size}*{name}")
    if address.constant or not address.terms:
        text += f" {'-' if address.constant < 0 else '+'} {abs(address.constant)}"
    text = text.removeprefix(" + ")
    return "[" + ("-" + text.removeprefix(" - ") if text.startswith(" - ") else text) + "]"


def _array(array: ArrayDecl) -> str:
    local, const = "local " if array.local else "", " const" if array.const else ""
    return f"{local}array {array.name} {array.elem} {array.size}{const}"


def _loc(loc: Loc | None) -> str:
    return "" if loc is None else f" @ {json.dumps(loc.file)} {loc.line} {loc.column}"


def _block(body: tuple[Stmt, ...]) -> Iterator[str]:
    for stmt in body:
        match stmt:
            case Let():
                yield f"let {stmt.name} = {print_term(stmt.value)}"
            case Store():
                active = "" if stmt.active is None else f" active {stmt.active}"
                where = f"{stmt.array} {_place(stmt)}{active}"
                yield f"store.{stmt.elem} {where} = {print_term(stmt.value)}{_loc(stmt.loc)}"
            case If():
                yield f"if {print_term(stmt.condition)} {{"
                yield from (f"  {line}" for line in _block(stmt.then))
                yield "}"
            case Loop():
                most = "" if stmt.max_trip is None else f" max {stmt.max_trip}"
                head = f"loop {stmt.iterator} start {print_term(stmt.start)} trip {print_term(stmt.trip)}"
                going = f" going {stmt.going}" if stmt.going else ""
                yield f"{head} step {stmt.step} min {stmt.min_trip}{most}{going}{_loc(stmt.loc)} {{"
                yield from (f"  carry {c.name} = {print_term(c.init)}" for c in stmt.carried)
                yield from (f"  {line}" for line in _block(stmt.body))
                yield from (f"  next {c.name} = {print_term(c.next)}" for c in stmt.carried)
                yield "}"
