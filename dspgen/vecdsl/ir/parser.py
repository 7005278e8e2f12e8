"""Reads back what `dspgen.vecdsl.ir.printer` writes."""

from __future__ import annotations

import json
import re
from typing import Literal, cast, get_args

from dspgen.errors import Problem, SourceError
from dspgen.vecdsl.ir.program import (
    NARROW,
    OPS,
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
from dspgen.vecdsl.ir.terms import COMPARISONS, make_address, register_elem
from plant_core.support.location import Loc

_ELEMS = get_args(Elem)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[(){}\[\]=@,]|[^\s(){}\[\]=@,"]+')


def parse_program(text: str, file: str = "<program>") -> Program:
    return _Parser(text, file).program()


def parse_term(text: str, file: str = "<term>") -> Term:
    parser = _Parser(text, file)
    term = parser.term()
    if parser.peek():
        raise parser.error(f"unexpected '{parser.peek()}' after the term")
    return term


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.tokens = [
            (m.group(), Loc(file, number, m.start() + 1))
            for number, line in enumerate(text.splitlines(), 1)
            for m in _TOKEN.finditer(line)
        ]
        self.at = 0
        self.end = Loc(file, len(text.splitlines()) or 1)

    def error(self, message: str, at: int | None = None) -> SourceError:
        """An error at the next token, or at token number `at`."""
        at = self.at if at is None else at
        loc = self.tokens[at][1] if at < len(self.tokens) else self.end
        return SourceError(Problem("DG320", message, loc))

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise self.error(f"expected '{expected or 'more text'}', found '{token or 'the end'}'")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def integer(self) -> int:
        token = self.peek()
        if not re.fullmatch(r"-?\d+", token):
            raise self.error(f"expected an integer, found '{token}'")
        return int(self.take())

    def elem(self, text: str) -> Elem:
        if text not in _ELEMS:
            raise self.error(f"'{text}' is not an element type", self.at - 1)
        return cast(Elem, text)

    def program(self) -> Program:
        self.take("program")
        name = self.take()
        self.take("(")
        params = list[str]()
        while not self.accept(")"):
            params.append(self.take())
            self.accept(",")
        self.take("{")
        arrays, scalars = list[ArrayDecl](), list[ScalarDecl]()
        while self.peek() in ("array", "local", "scalar"):
            if self.accept("scalar"):
                scalars.append(ScalarDecl(self.take(), self.elem(self.take())))
                continue
            local = self.accept("local")
            self.take("array")
            array = ArrayDecl(self.take(), self.elem(self.take()), self.integer(), local, False)
            arrays.append(ArrayDecl(array.name, array.elem, array.size, local, True) if self.accept("const") else array)
        body, _ = self.block()
        if self.peek():
            raise self.error(f"unexpected '{self.peek()}' after the program")
        return Program(name, tuple(params), tuple(arrays), tuple(scalars), body)

    def block(self) -> tuple[tuple[Stmt, ...], dict[str, Term]]:
        body, following = list[Stmt](), dict[str, Term]()
        while not self.accept("}"):
            if self.accept("next"):
                name = self.take()
                self.take("=")
                following[name] = self.term()
            else:
                body.append(self.statement())
        return tuple(body), following

    def statement(self) -> Stmt:
        keyword = self.take()
        if keyword == "let":
            name = self.take()
            self.take("=")
            return Let(name, self.term())
        if keyword.startswith("store."):
            return self.store(self.elem(keyword.removeprefix("store.")))
        if keyword == "if":
            condition = self.term()
            self.take("{")
            return If(condition, self.block()[0])
        if keyword == "loop":
            return self.loop()
        raise self.error(f"expected a statement, found '{keyword}'", self.at - 1)

    def store(self, elem: Elem) -> Store:
        array, address, stride = self.take(), self.address(), self.integer()
        period, jump, index, mask = self.place()
        active = self.integer() if self.accept("active") else None
        self.take("=")
        value = self.term()
        return Store(array, address, stride, elem, value, active, self.loc(), period, jump, index, mask)

    def place(self) -> tuple[int, int, Term | None, Term | None]:
        """What follows an access's stride: period, jump, index and mask."""
        period = jump = 0
        if self.accept("period"):
            period = self.integer()
            self.take("jump")
            jump = self.integer()
        index = self.term() if self.accept("index") else None
        mask = self.term() if self.accept("mask") else None
        return period, jump, index, mask

    def loop(self) -> Loop:
        iterator = self.take()
        self.take("start")
        start = self.term()
        self.take("trip")
        trip = self.term()
        self.take("step")
        step = self.integer()
        self.take("min")
        least = self.integer()
        most = self.integer() if self.accept("max") else None
        going = self.take() if self.accept("going") else ""
        loc = self.loc()
        self.take("{")
        initial = dict[str, Term]()
        while self.accept("carry"):
            name = self.take()
            self.take("=")
            initial[name] = self.term()
        body, following = self.block()
        if initial.keys() != following.keys():
            raise self.error(f"loop '{iterator}' has a 'carry' without its 'next', or the reverse")
        carried = tuple(Carried(n, init, following[n]) for n, init in initial.items())
        return Loop(iterator, start, trip, step, carried, body, least, most, loc, going)

    def loc(self) -> Loc | None:
        if not self.accept("@"):
            return None
        file = json.loads(self.take())
        return Loc(file, self.integer(), self.integer())

    def address(self) -> Address:
        self.take("[")
        constant, terms, sign = 0, dict[str, int](), 1
        while not self.accept("]"):
            token = self.take()
            if token in "+-":
                sign = -1 if token == "-" else 1
                continue
            if token.startswith("-"):
                sign, token = -sign, token[1:]
            factor, star, name = token.rpartition("*")
            if not star and re.fullmatch(r"\d+", token):
                constant += sign * int(token)
            elif not star or re.fullmatch(r"\d+", factor):
                terms[name] = terms.get(name, 0) + sign * (int(factor) if star else 1)
            else:
                raise self.error(f"'{token}' can't stand in an address", self.at - 1)
            sign = 1
        return make_address(constant, terms)

    def term(self) -> Term:
        if not self.accept("("):
            name, colon, written = self.take().partition(":")
            if not colon:
                raise self.error(f"variable '{name}' needs its type, as in '{name}:f32.v'", self.at - 1)
            return Var(name, self.type(written.split("."))[0])
        head, *parts = self.take().split(".")
        if head == "const":
            type = self.type(parts)[0]
            text = self.take()
            self.take(")")
            return Const(self.number(text, type), type)
        if head == "ld":
            return self.load(parts)
        start = self.at - 1
        if head not in OPS:
            raise self.error(f"unknown operation '{head}'", start)
        type, rest = self.type(parts)
        if not all(re.fullmatch(r"-?\d+", r) for r in rest):
            raise self.error(f"'{'.'.join(rest)}' are not immediates of '{head}'", start)
        imm = tuple(int(r) for r in rest)
        args = list[Term]()
        while not self.accept(")"):
            args.append(self.term())
        if OPS[head].arity not in (len(args), -1):
            raise self.error(f"'{head}' takes {OPS[head].arity} operands, {len(args)} were given", start)
        result = (
            VType("i32", type.vector) if head in COMPARISONS and not (type.vector and type.elem in NARROW) else type
        )
        return Op(head, tuple(args), result, imm)

    def number(self, text: str, type: VType) -> int | float:
        try:
            return float(text) if type.elem in ("f32", "f64") else int(text)
        except ValueError:
            raise self.error(f"'{text}' is not a number of type {type.elem}", self.at - 2) from None

    def load(self, parts: list[str]) -> Load:
        vector = parts[-1] == "v"
        elems = [self.elem(p) for p in (parts[:-1] if vector else parts)]
        if not 1 <= len(elems) <= 2:
            raise self.error("a load has one or two element types")
        kind = elems[1] if len(elems) == 2 else register_elem(elems[0])
        array, address, stride = self.take(), self.address(), self.integer()
        period, jump, index, mask = self.place()
        self.take(")")
        return Load(array, address, stride, elems[0], VType(kind, vector), period, jump, index, mask)

    def type(self, parts: list[str]) -> tuple[VType, list[str]]:
        if not parts:
            raise self.error("a type is missing")
        rest = parts[1:]
        vector: Literal[True, False] = bool(rest) and rest[0] == "v"
        return VType(self.elem(parts[0]), vector), rest[1:] if vector else rest
