"""Reading one line of program text: words, isl sets, places, and expressions by precedence climbing."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NoReturn, cast, get_args

import islpy as isl

from plant_core.ir.c_semantics import dtype_of
from plant_core.ir.func import (
    Access,
    Binary,
    BinaryOp,
    Call,
    Cast,
    DType,
    Expr,
    Iter,
    Load,
    Param,
    Ramp,
    Select,
    Unary,
    UnaryOp,
    Val,
    Verbatim,
)
from plant_core.ir.printer import INFIX, PREFIX, Names, natural_type
from plant_core.support.location import Loc, PlantError

_DTYPES = get_args(DType)
_DTYPE = "(?:" + "|".join(_DTYPES) + r")\b"
_IDENTIFIER = r"[A-Za-z_]\w*"
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:" + "|".join(_DTYPES) + r"|f)?(?!\w|\.\d)"
_STRING = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_SYMBOLS: dict[str, tuple[BinaryOp, int]] = {symbol: (op, level) for op, (symbol, level) in INFIX.items()}
_INFIX = "|".join(re.escape(s) for s in sorted(_SYMBOLS, key=lambda s: (-len(s), s)))
_PREFIXES: dict[str, UnaryOp] = {symbol: cast(UnaryOp, op) for op, symbol in PREFIX.items()}


class Reader:
    """A cursor on one line. Patterns skip the blanks before and after them."""

    def __init__(self, file: str, line: int, text: str) -> None:
        self.file = file
        self.line = line
        self.text = text
        self.at = 0

    def fail(self, message: str, remedy: str = "", *, code: str = "DG220") -> NoReturn:
        raise PlantError(message, loc=Loc(self.file, self.line, self.at + 1), code=code, remedy=remedy)

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def looking_at(self, pattern: str) -> bool:
        return re.compile(pattern).match(self.text, self.at) is not None

    def take(self, pattern: str) -> str:
        """What matches here, or the empty string."""
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        self.skip()
        return found[0]

    def need(self, pattern: str, wanted: str) -> str:
        found = self.take(pattern)
        if not found:
            here = self.text[self.at : self.at + 12]
            self.fail(f"{wanted} should stand {f'before {here!r}' if here else 'at the end of this line'}")
        return found

    def end(self) -> None:
        if self.at < len(self.text):
            self.fail(f"this line should end before {self.text[self.at :][:12]!r}")

    def identifier(self) -> str:
        return self.need(_IDENTIFIER, "a name")

    def names(self) -> list[str]:
        found = [self.identifier()]
        while self.take(","):
            found.append(self.identifier())
        self.end()
        return found

    def dtype(self) -> DType:
        return cast(DType, self.need(_DTYPE, f"a type ({', '.join(_DTYPES)})").strip())

    def bracketed(self) -> str:
        """The text between a bracket and the one that closes it."""
        start = self.at
        depth = 0
        while self.at < len(self.text):
            depth += {"[": 1, "]": -1}.get(self.text[self.at], 0)
            self.at += 1
            if depth == 0:
                inner = self.text[start + 1 : self.at - 1]
                self.skip()
                return inner
        self.at = start
        self.fail("this bracket is never closed")

    def place(self, file: str) -> Loc:
        """`line:column` in `file`, or `other:line:column`."""
        if self.looking_at(r"\d+:\d+(?!:?\d)"):
            line, column = self.take(r"\d+:\d+").split(":")
            return Loc(file, int(line), int(column))
        name = self.need(rf"(?:{_STRING}|[\w./+<>-]+)(?=:\d+:\d+)", "a place (FILE:LINE:COLUMN)")
        line, column = self.need(r":\d+:\d+", "':LINE:COLUMN'")[1:].split(":")
        return Loc(ast.literal_eval(name) if name[0] in "'\"" else name, int(line), int(column))

    def isl_set(self) -> isl.Set:
        return self._isl(isl.Set, "set")

    def isl_map(self) -> isl.Map:
        return self._isl(isl.Map, "map")

    def _isl(self, make: Callable[[str], isl.Set], kind: str) -> isl.Set:
        context = isl.DEFAULT_CONTEXT
        before = context.get_on_error()
        context.set_on_error(0)  # isl prints a warning of its own otherwise
        try:
            return make(self.text[self.at :])
        except isl.Error:
            self.fail(f"isl can't read this as a {kind}", "see isl's manual for the notation", code="DG222")
        finally:
            context.set_on_error(before)


class ExprReader(Reader):
    """Expressions of one statement. `source` is the file that places without a file are in."""

    def __init__(
        self,
        file: str,
        line: int,
        text: str,
        *,
        names: Names,
        iters: frozenset[str] = frozenset(),
        source: str = "",
    ) -> None:
        super().__init__(file, line, text)
        self._names = names
        self._iters = iters
        self._source = source
        self.skip()

    def whole(self) -> Expr:
        try:
            return self._select()
        except RecursionError:
            self.fail("an expression is nested too deeply", "store parts of it in variables")

    def target(self) -> Load:
        """What an assignment assigns to: a bare name is an array of no dimensions."""
        name = self.identifier()
        indices = self._indices()
        return self._load(name, indices)

    def _select(self) -> Expr:
        condition = self._binary(1)
        if not self.take(r"\?"):
            return condition
        true = self._binary(1)
        self.need(":", "':'")
        false = self._binary(1)
        return Select(condition, true, false, dtype_of(true))

    def _binary(self, level: int) -> Expr:
        left = self._prefixed()
        while True:
            start = self.at
            symbol = self.take(_INFIX)
            if not symbol or _SYMBOLS[symbol][1] < level:
                self.at = start
                return left
            op, own = _SYMBOLS[symbol]
            left = self._natural(Binary(op, left, self._binary(own + 1), "i32"))

    def _prefixed(self) -> Expr:
        if self.looking_at(r"-\d"):
            self.take("-")
            return self._number(negative=True)
        if cast_to := self.take(rf"\({_DTYPE}\)"):
            return Cast(cast(DType, cast_to.strip("()")), self._prefixed())
        if symbol := self.take("[-~]|!(?!=)"):
            return self._natural(Unary(_PREFIXES[symbol], self._prefixed(), "i32"))
        return self._postfix()

    def _postfix(self) -> Expr:
        if self.looking_at(r"\d"):
            return self._number(negative=False)
        if self.take(r"\("):
            inner = self._select()
            self.need(r"\)", "')'")
            return self._marked(inner)
        return self._named()

    def _number(self, *, negative: bool) -> Val:
        text = self.need(_NUMBER, "a number")
        split = re.fullmatch(rf"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)({'|'.join(_DTYPES)}|f)?", text)
        assert split is not None
        number, suffix = split[1], split[2]
        value: int | float = int(number) if number.isdigit() else float(number)
        plain: DType = "i32" if isinstance(value, int) else "f64"
        dtype = plain if suffix is None else "f32" if suffix == "f" else cast(DType, suffix)
        return Val(-value if negative else value, dtype)

    def _named(self) -> Expr:
        if special := self.take(rf"{_DTYPE}\.(?:inf|nan|minus_inf)\b"):
            dtype, word = special.split(".")
            return Val(float(word.replace("minus_", "-")), cast(DType, dtype))
        if found := self.take(rf"(?:iter|param|call|access)\s+(?={_IDENTIFIER})"):
            return self._escaped(found.strip())
        start = self.at
        name = self.identifier()
        if self.looking_at(r"\["):
            return self._load(name, self._indices())
        if self.take(r"\("):
            return self._applied(name)
        if name in self._iters:
            return Iter(name)
        if name in self._names.params:
            return self._marked(Param(name, self._names.params[name]))
        if name in self._names.bufs:
            return self._load(name, ())
        self.at = start
        self.fail(f"'{name}' isn't declared", "it is no iterator here, no parameter and no array", code="DG221")

    def _escaped(self, kind: str) -> Expr:
        name = self.identifier()
        match kind:
            case "iter":
                return Iter(name)
            case "param":
                return self._marked(Param(name, self._names.params.get(name, "i32")))
        self.need(r"\(", "'('")
        args = self._arguments()
        return self._call(name, args) if kind == "call" else self._access(name, args)

    def _applied(self, name: str) -> Expr:
        match name:
            case "verbatim":
                text = ast.literal_eval(self.need(_STRING, "a string"))
                self.need(r"\)", "')'")
                return self._marked(Verbatim(text))
            case "ramp":
                return self._ramp()
        args = self._arguments()
        match name, args:
            case "min" | "max", (left, right):
                return self._marked(self._natural(Binary(cast(BinaryOp, name), left, right, "i32")))
            case "abs" | "sqrt", (operand,):
                return self._marked(self._natural(Unary(cast(UnaryOp, name), operand, "i32")))
            case "min" | "max" | "abs" | "sqrt", _:
                self.fail(f"'{name}' doesn't have {len(args)} operands")
        return self._access(name, args) if name in self._names.comps else self._call(name, args)

    def _ramp(self) -> Expr:
        load = self._select()
        if not isinstance(load, Load):
            self.fail("a ramp starts at an element of an array")
        self.need(",", "','")
        stride = self._select()
        self.need(",", "','")
        lanes = int(self.need(r"\d+", "the number of lanes"))
        self.need(r"\)", "')'")
        return self._marked(Ramp(load, stride, lanes, load.dtype))

    def _arguments(self) -> tuple[Expr, ...]:
        found: list[Expr] = []
        while not self.take(r"\)"):
            if found:
                self.need(",", "',' or ')'")
            found.append(self._select())
        return tuple(found)

    def _indices(self) -> tuple[Expr, ...]:
        found: list[Expr] = []
        while self.take(r"\["):
            if self.take(r"\]"):
                break
            found.append(self._select())
            self.need(r"\]", "']'")
        return tuple(found)

    def _load(self, name: str, indices: tuple[Expr, ...]) -> Load:
        dtype = self._mark() or self._names.bufs.get(name)
        if dtype is None:
            self.fail(f"'{name}' isn't declared", "declare the array before the statements", code="DG221")
        return Load(name, indices, dtype, self._place())

    def _access(self, name: str, args: tuple[Expr, ...]) -> Access:
        dtype = self._mark() or self._names.comps.get(name)
        if dtype is None:
            self.fail(f"there is no computation '{name}'", code="DG221")
        return Access(name, args, dtype, self._place())

    def _call(self, name: str, args: tuple[Expr, ...]) -> Call:
        dtype = self._mark() or (dtype_of(args[0]) if args else None)
        if dtype is None:
            self.fail(f"the type of '{name}()' isn't known", f"write it after: {name}().f64")
        return Call(name, args, dtype)

    def _place(self) -> Loc | None:
        return self.place(self._source) if self.take("@") else None

    def _mark(self) -> DType | None:
        """The type that follows an expression, if one does."""
        found = self.take(rf"\.{_DTYPE}")
        return cast(DType, found[1:]) if found else None

    def _marked(self, expr: Expr) -> Expr:
        return _with_type(expr, self._mark())

    def _natural(self, expr: Expr) -> Expr:
        """With the type that the operands give it; a mark after it, if there is one, changes that."""
        return _with_type(expr, natural_type(expr, self._names))


def _with_type(expr: Expr, dtype: DType | None) -> Expr:
    if dtype is None:
        return expr
    match expr:
        case Unary(op, operand):
            return Unary(op, operand, dtype)
        case Binary(op, left, right):
            return Binary(op, left, right, dtype)
        case Select(condition, true, false):
            return Select(condition, true, false, dtype)
        case Param(name):
            return Param(name, dtype)
        case Ramp(load, stride, lanes):
            return Ramp(load, stride, lanes, dtype)
        case Verbatim(text):
            return Verbatim(text, dtype)
        case _:
            return expr
