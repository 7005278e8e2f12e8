"""The embedded language: algorithm, computation schedule and memory schedule of a function, written in Python.

    n, m, s = 1024, 1024, 1024
    f = Function("matmul")
    i, j, k = iters("i j k")

    a, b = f.input("a", "f32", (n, s)), f.input("b", "f32", (s, m))     # the algorithm
    c_init = f.comp("C_init", {i: n, j: m}, 0)
    c = f.comp("C", {i: n, j: m, k: s})
    c.define(a[i, k] * b[k, j] + c[i, j, k - 1])

    c_init.tile("i", "j", 32, 32)                                       # the computation schedule
    c.tile("i", "j", 32, 32).after(c_init, "j_i").tag("i_o", "parallel")

    out = f.output("c", "f32", (n, m))                                  # the memory schedule
    c_init.store(out)
    c.store(out, (i, j))

After PLANT, chapters 2 and 3. Computations run in the order of their definition, each in loops of its own, until verbs
say otherwise. `/` and `%` are C's, rounding towards zero; `//` rounds down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import NoReturn, get_args
from typing import cast as as_type

from plant_core.ir import Action, Buf, DType, Func, Location
from plant_core.lang_build import buf_of, build, check_storage, context_of
from plant_core.lang_domain import with_loc
from plant_core.lang_terms import (
    Number,
    Term,
    call,
    caller,
    cast,
    check_name,
    exp,
    iterator,
    iters,
    lift,
    maximum,
    minimum,
    ramp,
    sqrt,
    val,
    verbatim,
    where,
)
from plant_core.lang_types import typed
from plant_core.loc import Loc, PlantError
from plant_core.nest import Scheduled
from plant_core.program import Program, Statement
from plant_core.resolve import resolve_scheduled
from plant_core.values import is_float

__all__ = [
    "Buffer", "Computation", "Function", "Parameter", "Term", "call", "cast", "exp", "iterator", "iters", "maximum",
    "minimum", "ramp", "sqrt", "val", "verbatim", "where",
]  # fmt: skip

Size = Term | int
Bounds = Size | tuple[Size, Size] | tuple[Size, Size, int]
Domain = Mapping[Term, Bounds] | Sequence[Term]


class Buffer:
    """An array of the function; `a[i, k]` is its element, `s[()]` that of an array of no dimensions."""

    def __init__(
        self, function: Function, name: str, dtype: DType, shape: tuple[Size, ...], kind: str, loc: Loc
    ) -> None:
        self.function = function
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.kind = kind
        self.location: Location = "heap"
        self.loc = loc

    def __getitem__(self, indices: Term | Number | tuple[Term | Number, ...]) -> Term:
        given = indices if isinstance(indices, tuple) else (indices,)
        _check_rank(f"buffer '{self.name}'", len(self.shape), "dimension", len(given), self.shape)
        return Term("load", tuple(map(lift, given)), self)

    def __call__(self, *indices: Term | Number) -> Term:
        return self[indices]

    def __iter__(self) -> NoReturn:
        _fail("DG229", "a buffer can't be iterated over", "use its elements")

    def set_loc(self, location: Location) -> Buffer:
        """Which memory the array is in."""
        self.function._memory_verb("set_loc", self, location)
        return self


class Computation:
    """A named assignment over a domain; `c[i, j]` is the value that its instance computes.

    Every verb of `plant_core.program.Statement` can be called on it, and returns the computation again.
    """

    def __init__(
        self, function: Function, name: str, iters: tuple[str, ...], conditions: tuple[Term, ...], loc: Loc
    ) -> None:
        self.function = function
        self.name = name
        self.iters = iters
        self.conditions = conditions
        self.at = loc
        self.value: Term | None = None
        self.dtype: DType | None = None
        self.stored: tuple[Buffer, tuple[Term, ...]] | None = None

    def __getitem__(self, indices: Term | Number | tuple[Term | Number, ...]) -> Term:
        given = indices if isinstance(indices, tuple) else (indices,)
        _check_rank(f"computation '{self.name}'", len(self.iters), "iterator", len(given), self.iters)
        return Term("access", tuple(map(lift, given)), self)

    def __call__(self, *indices: Term | Number) -> Term:
        return self[indices]

    def __iter__(self) -> NoReturn:
        _fail("DG229", "a computation can't be iterated over", "use its value at subscripts")

    def define(self, value: Term | Number) -> Computation:
        """Gives the value of a computation that reads itself."""
        if self.value is not None:
            _fail("DG224", f"'{self.name}' has a value already", "define another computation")
        self.function._open()
        self.value = lift(value)
        return self

    def store(self, buffer: Buffer, indices: Sequence[Term | Number] | None = None) -> Computation:
        """Keeps the results in `buffer`, at `indices` (the iterators, where none are given).

        Before the first verb this is part of the algorithm. After it, it is checked that each value still is there
        when it is read, in the order that the verbs made.
        """
        if not isinstance(buffer, Buffer):
            _fail("DG226", f"{buffer!r} is no buffer of the function", "declare one with output() or local()")
        if buffer.kind == "input":
            _fail("DG224", f"'{buffer.name}' is an input, which is only read", "declare it with output()")
        given = tuple(map(lift, indices)) if indices is not None else tuple(map(iterator, self.iters))
        _check_rank(f"buffer '{buffer.name}'", len(buffer.shape), "dimension", len(given), buffer.shape)
        if self.function._program is None:
            self.stored = (buffer, given)
            return self
        exprs = tuple(typed(t, {}) for t in given)
        self.function._verb(self.name, "store", (buffer.name, exprs), {})
        return self

    def __getattr__(self, verb: str) -> Callable[..., Computation]:
        if verb.startswith("_") or "function" not in self.__dict__:
            raise AttributeError(verb)
        if not hasattr(Statement, verb):
            raise AttributeError(f"a computation has no verb '{verb}'")

        def apply(*args: object, **options: object) -> Computation:
            self.function._verb(self.name, verb, args, options)
            return self

        return apply


class Parameter(Computation, Term):
    """A computation whose value is an integer parameter of the statements after it in its loops. PLANT, 3.4."""

    def __init__(
        self,
        function: Function,
        name: str,
        iters: tuple[str, ...],
        conditions: tuple[Term, ...],
        loc: Loc,
        dtype: DType,
    ) -> None:
        Computation.__init__(self, function, name, iters, conditions, loc)
        Term.__init__(self, "param", (), (name, dtype), loc)
        self.dtype = dtype

    __hash__ = Term.__hash__


class Function:
    """A function in the making: declarations, then verbs. `build()` is the program, `scheduled` its schedule."""

    def __init__(self, name: str, *, reassoc: bool = False) -> None:
        self.name = name
        self.loc = caller()
        check_name(name, self.loc)
        self.reassoc = reassoc
        self._names: dict[str, Loc] = {}
        self.params: list[Buffer | tuple[str, DType, Loc]] = []
        self.locals: list[Buffer] = []
        self.statements: list[Computation | tuple[Computation, Action]] = []
        self.constraints: list[Term] = []
        self._program: Program | None = None

    # Declarations

    def param(self, name: str, dtype: DType = "i32") -> Term:
        """A scalar argument; an integer one may stand in extents, bounds and subscripts."""
        loc = self._declare(name)
        _check_dtype(dtype)
        self.params.append((name, dtype, loc))
        return Term("param", (), (name, dtype), loc)

    def input(self, name: str, dtype: DType, shape: Size | Sequence[Size]) -> Buffer:
        """An array argument that is only read."""
        return self._buffer(name, dtype, shape, "input")

    def output(self, name: str, dtype: DType, shape: Size | Sequence[Size]) -> Buffer:
        """An array argument that is written, and may be read."""
        return self._buffer(name, dtype, shape, "output")

    def local(self, name: str, dtype: DType, shape: Size | Sequence[Size], *, location: Location = "heap") -> Buffer:
        """An array of the function's own."""
        buffer = self._buffer(name, dtype, shape, "local")
        buffer.location = location
        return buffer

    def comp(
        self,
        name: str,
        domain: Domain,
        value: Term | Number | None = None,
        *,
        where: Term | Sequence[Term] = (),
        dtype: DType | None = None,
    ) -> Computation:
        """A computation over `domain`, from the outermost iterator in: `{i: n}` counts from 0, `{i: (1, n)}` from 1,
        `{i: (1, n, 2)}` by 2; bounds may use the iterators before. `where`: further affine conditions. Without
        `value`, `define` gives it. `dtype` is that of the array it is stored to, else `dtype`, else the value's.
        """
        self._open()
        loc = self._declare(name)
        names, conditions = _conditions(domain, where)
        found = Computation(self, name, names, conditions, loc)
        if dtype is not None:
            _check_dtype(dtype)
        found.dtype = dtype
        found.value = None if value is None else lift(value)
        self.statements.append(found)
        return found

    def parameter(
        self,
        name: str,
        domain: Domain,
        value: Term | Number,
        *,
        where: Term | Sequence[Term] = (),
        dtype: DType = "i32",
    ) -> Parameter:
        """A value known only when the program runs, to be used as an extent, a bound or in subscripts, by statements
        of the same outer iterators that are defined later. PLANT, 3.4."""
        self._open()
        loc = self._declare(name)
        _check_dtype(dtype)
        if is_float(dtype):
            _fail("DG226", f"'{name}' is {dtype}, and parameters are integers", "use comp() for values of other types")
        names, conditions = _conditions(domain, where)
        found = Parameter(self, name, names, conditions, loc, dtype)
        found.value = lift(value)
        self.statements.append(found)
        return found

    def effect(self, name: str, domain: Domain, action: Action, *, where: Term | Sequence[Term] = ()) -> Computation:
        """A statement that assigns nothing: a block copy, or text of the target language."""
        self._open()
        loc = self._declare(name)
        names, conditions = _conditions(domain, where)
        found = Computation(self, name, names, conditions, loc)
        self.statements.append((found, action))
        return found

    def set_constraint(self, *conditions: Term) -> Function:
        """What is known of the integer parameters. PLANT, 3.4."""
        self.constraints += map(lift, conditions)
        if self._program is not None:
            self._program.set_constraint(context_of(self))
        return self

    def __getitem__(self, name: str) -> Computation:
        found = {c.name: c for c in self._computations()}
        if name not in found:
            _fail("DG210", f"there is no statement '{name}'", f"one of: {', '.join(found) or 'none'}")
        return found[name]

    # Results

    def build(self) -> Func:
        """The program in the order of definition; computations still read each other by Access."""
        func = build(self)
        check_storage(func, self._implicit(func))
        return func

    @property
    def program(self) -> Program:
        """The handle that verbs work on, made on first use; after that nothing more can be defined."""
        if self._program is None:
            self._program = Program(build(self), reassoc=self.reassoc)
        return self._program

    @property
    def scheduled(self) -> Scheduled:
        """The program with the schedule that the verbs made, every access resolved to memory: what `scan` takes."""
        found = self.program.scheduled
        check_storage(found.func, self._implicit(found.func))
        return resolve_scheduled(found)

    # Inner

    def _implicit(self, func: Func) -> frozenset[str]:
        """The arrays that computations were given of their own."""
        return frozenset(b.name for b in func.bufs) & frozenset(c.name for c in self._computations())

    def _computations(self) -> list[Computation]:
        return [s if isinstance(s, Computation) else s[0] for s in self.statements]

    def _declare(self, name: str) -> Loc:
        loc = caller()
        check_name(name, loc)
        if name in self._names:
            _fail("DG224", f"'{name}' is declared already, at {self._names[name]}", "choose another name")
        self._names[name] = loc
        return loc

    def _open(self) -> None:
        if self._program is not None:
            _fail("DG224", "the schedule has begun", "define every computation before the first verb")

    def _buffer(self, name: str, dtype: DType, shape: Size | Sequence[Size], kind: str) -> Buffer:
        loc = self._declare(name)
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        for size in sizes:
            if not isinstance(size, Term | Integral):
                _fail("DG225", f"{size!r} is no extent of '{name}'", "use whole numbers and integer parameters")
        _check_dtype(dtype)
        buffer = Buffer(self, name, dtype, sizes, kind, loc)
        if kind == "local":
            self.locals.append(buffer)
        else:
            self.params.append(buffer)
        if self._program is not None:
            self._program.scheduled = _with_buf(self._program.scheduled, buf_of(buffer))
        return buffer

    def _verb(self, name: str, verb: str, args: Sequence[object], options: Mapping[str, object]) -> None:
        loc = caller()
        try:
            method = getattr(self.program[name], verb)
            method(*map(_plain, args), **{key: _plain(value) for key, value in options.items()})
        except PlantError as error:
            raise with_loc(error, loc) from None

    def _memory_verb(self, verb: str, buffer: Buffer, *args: object) -> None:
        loc = caller()
        if self._program is None and verb == "set_loc":
            buffer.location = as_type(Location, args[0])
            return
        try:
            getattr(self.program, verb)(buffer.name, *args)
        except PlantError as error:
            raise with_loc(error, loc) from None


def _fail(code: str, message: str, remedy: str) -> NoReturn:
    raise PlantError(message, loc=caller(), code=code, remedy=remedy)


def _check_dtype(dtype: str) -> None:
    if dtype not in get_args(DType):
        _fail("DG226", f"there is no type '{dtype}'", f"one of: {', '.join(get_args(DType))}")


def _check_rank(what: str, rank: int, part: str, given: int, names: Sequence[object]) -> None:
    if rank != given:
        _fail(
            "DG223",
            f"{what} has {rank} {part}{'s' * (rank != 1)}, but {given} subscript{'s' * (given != 1)} "
            f"{'are' if given != 1 else 'is'} given",
            f"give one subscript for each {part}",
        )


def _plain(value: object) -> object:
    """An argument of a verb in the terms of the IR: names for computations, buffers and iterators."""
    match value:
        case Computation() | Buffer():
            return value.name
        case Term(op="iter"):
            return value.data
        case Term():
            return typed(value, {})
        case tuple() | list():
            return type(value)(map(_plain, value))
        case dict():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case _:
            return value


def _conditions(domain: Domain, where: Term | Sequence[Term]) -> tuple[tuple[str, ...], tuple[Term, ...]]:
    """Names of the iterators, and what bounds them."""
    bounds = domain.items() if isinstance(domain, Mapping) else [(one, None) for one in domain]
    names: list[str] = []
    conditions: list[Term] = []
    for one, bound in bounds:
        if not isinstance(one, Term) or one.op != "iter":
            _fail("DG227", f"{one!r} is no iterator", "make iterators with iters()")
        if one.data in names:
            _fail("DG224", f"'{one.data}' is twice among the iterators", "use another iterator")
        names.append(str(one.data))
        if bound is not None:
            conditions += _bounds(one, bound)
    conditions += [where] if isinstance(where, Term) else map(lift, where)
    return tuple(names), tuple(conditions)


def _bounds(one: Term, bound: Bounds) -> list[Term]:
    match bound:
        case (low, high):
            return [one >= low, one < high]
        case (low, high, step) if not isinstance(step, Term) and step > 0:
            return [one >= low, one < high, (one - low) % int(step) == 0]
        case Term() | Integral():
            return [one >= 0, one < bound]
        case _:
            _fail("DG225", f"{bound!r} doesn't bound '{one.data}'", "give n, (low, high) or (low, high, step > 0)")


def _with_buf(scheduled: Scheduled, buf: Buf) -> Scheduled:
    """The program and its origins with one more array."""
    func = scheduled.func
    params = (*func.params, buf) if buf.kind == "param" else func.params
    origin = None if scheduled.origin is None else _with_buf(scheduled.origin, buf)
    return replace(scheduled, func=replace(func, params=params, bufs=(*func.bufs, buf)), origin=origin)
