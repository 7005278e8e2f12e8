"""Functions, buffers and computations of the embedded language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import NoReturn, overload
from typing import cast as as_type

from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Action, Buf, DType, Func, Location
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.lang.args import Domain, Size, action_of, check_dtype, check_location, check_rank, conditions, fail
from plant_core.lang.build import buf_of, build, context_of
from plant_core.lang.check import check_storage
from plant_core.lang.domain import with_loc
from plant_core.lang.program import Program, Statement
from plant_core.lang.terms import (
    Number,
    Term,
    caller,
    check_name,
    iterator,
    lift,
)
from plant_core.lang.types import typed
from plant_core.normalize.bind_storage import resolve_scheduled
from plant_core.support.location import Loc, PlantError


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
        check_rank(f"buffer '{self.name}'", len(self.shape), "dimension", len(given), self.shape)
        return Term("load", tuple(map(lift, given)), self)

    def __call__(self, *indices: Term | Number) -> Term:
        return self[indices]

    def __iter__(self) -> NoReturn:
        fail("DG229", "a buffer can't be iterated over", "use its elements")

    def set_loc(self, location: Location) -> Buffer:
        """Which memory the array is in."""
        self.function._memory_verb("set_loc", self, location)
        return self


class Computation:
    """A named assignment over a domain; `c[i, j]` is the value that its instance computes.

    Every verb of `plant_core.lang.program.Statement` can be called on it, and returns the computation again.
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
        self.follows: tuple[str, int] | None = None

    def __getitem__(self, indices: Term | Number | tuple[Term | Number, ...]) -> Term:
        given = indices if isinstance(indices, tuple) else (indices,)
        check_rank(f"computation '{self.name}'", len(self.iters), "iterator", len(given), self.iters)
        return Term("access", tuple(map(lift, given)), self)

    def __call__(self, *indices: Term | Number) -> Term:
        return self[indices]

    def __iter__(self) -> NoReturn:
        fail("DG229", "a computation can't be iterated over", "use its value at subscripts")

    def define(self, value: Term | Number) -> Computation:
        """Gives the value of a computation that reads itself."""
        if self.value is not None:
            fail("DG224", f"'{self.name}' has a value already", "define another computation")
        self.function._open()
        self.value = lift(value)
        return self

    def store(self, buffer: Buffer, indices: Term | int | Sequence[Term | Number] | None = None) -> Computation:
        """Keeps the results in `buffer`, at `indices` (the iterators, where none are given).

        Before the first verb this is part of the algorithm. After it, it is checked that each value still is there
        when it is read, in the order that the verbs made.
        """
        if not isinstance(buffer, Buffer):
            fail("DG226", f"{buffer!r} is no buffer of the function", "declare one with output() or local()")
        if buffer.kind == "input":
            fail("DG224", f"'{buffer.name}' is an input, which is only read", "declare it with output()")
        places = [indices] if isinstance(indices, Term | int) else indices
        given = tuple(map(iterator, self.iters)) if places is None else tuple(map(lift, places))
        check_rank(f"buffer '{buffer.name}'", len(buffer.shape), "dimension", len(given), buffer.shape)
        if self.function._program is None:
            self.stored = (buffer, given)
            return self
        exprs = tuple(typed(t, {}) for t in given)
        self.function._verb(self.name, "store", (buffer.name, exprs), {})
        return self

    @property
    def loops(self) -> tuple[str, ...]:
        """The loops that run it at present, from the outermost in."""
        return self.nest.loops

    @property
    def nest(self) -> Nest:
        """Its part of the present schedule."""
        return self.function.program[self.name].nest

    def __getattr__(self, verb: str) -> Callable[..., Computation]:
        if verb.startswith("_") or "function" not in self.__dict__:
            raise AttributeError(verb)
        if not callable(getattr(Statement, verb, None)):
            raise AttributeError(f"a computation has no verb '{verb}'")

        def apply(*args: object, **options: object) -> Computation:
            self.function._verb(self.name, verb, args, options)
            return self

        return apply


class Together:
    """Several computations, whose loops a verb changes at once: `f["A", "B"].split("i", 8)`."""

    def __init__(self, function: Function, names: tuple[str, ...]) -> None:
        self.function = function
        self.names = names

    def __getattr__(self, verb: str) -> Callable[..., Together]:
        if verb.startswith("_") or "function" not in self.__dict__:
            raise AttributeError(verb)
        if not callable(getattr(Statement, verb, None)):
            raise AttributeError(f"computations have no verb '{verb}'")

        def apply(*args: object, **options: object) -> Together:
            self.function._verb(self.names, verb, args, options)
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
        check_dtype(dtype)
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
        check_location(location)
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
        after: tuple[Computation, Term | str] | None = None,
    ) -> Computation:
        """A computation over `domain`, from the outermost iterator in: `{i: n}` counts from 0, `{i: (1, n)}` from 1,
        `{i: (1, n, 2)}` by 2; bounds may use the iterators before. `where`: further affine conditions. Without
        `value`, `define` gives it. `dtype` is that of the array it is stored to, else `dtype`, else the value's.
        `after=(c, i)`: it runs in `c`'s loops down to `i`, after it, from the start, as computations must that need
        each other's values. Those of its outer iterators are `c`'s then.
        """
        self._open()
        loc = self._declare(name)
        names, bounds = conditions(domain, where)
        found = Computation(self, name, names, bounds, loc)
        if dtype is not None:
            check_dtype(dtype)
        found.dtype = dtype
        found.value = None if value is None else lift(value)
        found.follows = _follows(found, after) if after is not None else None
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
        check_dtype(dtype)
        if is_float(dtype):
            fail("DG226", f"'{name}' is {dtype}, and parameters are integers", "use comp() for values of other types")
        names, bounds = conditions(domain, where)
        found = Parameter(self, name, names, bounds, loc, dtype)
        found.value = lift(value)
        self.statements.append(found)
        return found

    def effect(
        self,
        name: str,
        domain: Domain,
        action: Action | str,
        *,
        where: Term | Sequence[Term] = (),
        after: tuple[Computation, Term | str] | None = None,
    ) -> Computation:
        """A statement that assigns nothing: a block copy, memory management, or text of the target language. `after`
        is as for `comp`."""
        self._open()
        loc = self._declare(name)
        names, bounds = conditions(domain, where)
        found = Computation(self, name, names, bounds, loc)
        found.follows = _follows(found, after) if after is not None else None
        self.statements.append((found, action_of(action)))
        return found

    def set_constraint(self, *conditions: Term) -> Function:
        """What is known of the integer parameters. PLANT, 3.4."""
        self.constraints += map(lift, conditions)
        if self._program is not None:
            self._program.set_constraint(context_of(self))
        return self

    @overload
    def __getitem__(self, name: str) -> Computation: ...

    @overload
    def __getitem__(self, name: tuple[str | Computation, ...]) -> Together: ...

    def __getitem__(self, name: str | tuple[str | Computation, ...]) -> Computation | Together:
        """The computation of this name; with several, a handle that changes them at once."""
        if isinstance(name, tuple):
            return Together(self, tuple(one.name if isinstance(one, Computation) else self[one].name for one in name))
        found = {c.name: c for c in self._computations()}
        if name not in found:
            fail("DG210", f"there is no statement '{name}'", f"one of: {', '.join(found) or 'none'}")
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
            fail("DG224", f"'{name}' is declared already, at {self._names[name]}", "choose another name")
        self._names[name] = loc
        return loc

    def _open(self) -> None:
        if self._program is not None:
            fail("DG224", "the schedule has begun", "define every computation before the first verb")

    def _buffer(self, name: str, dtype: DType, shape: Size | Sequence[Size], kind: str) -> Buffer:
        loc = self._declare(name)
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        for size in sizes:
            if not isinstance(size, Term | Integral) or (isinstance(size, Integral) and int(size) < 0):
                fail("DG225", f"{size!r} is no extent of '{name}'", "use whole numbers and integer parameters")
        check_dtype(dtype)
        buffer = Buffer(self, name, dtype, sizes, kind, loc)
        if kind == "local":
            self.locals.append(buffer)
        else:
            self.params.append(buffer)
        if self._program is not None:
            self._program.scheduled = _with_buf(self._program.scheduled, buf_of(buffer))
        return buffer

    def _verb(
        self, name: str | tuple[str, ...], verb: str, args: Sequence[object], options: Mapping[str, object]
    ) -> None:
        loc = caller()
        try:
            method = getattr(self.program[name], verb)
            method(*map(_plain, args), **{key: _option(key, value) for key, value in options.items()})
        except PlantError as error:
            raise with_loc(error, loc) from None

    def _memory_verb(self, verb: str, buffer: Buffer, *args: object) -> None:
        loc = caller()
        if self._program is None and verb == "set_loc":
            check_location(str(args[0]))
            buffer.location = as_type(Location, args[0])
            return
        try:
            getattr(self.program, verb)(buffer.name, *args)
        except PlantError as error:
            raise with_loc(error, loc) from None


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


def _follows(comp: Computation, after: tuple[Computation, Term | str]) -> tuple[str, int]:
    """The computation whose loops it shares, and how many of them."""
    if not isinstance(after, tuple) or len(after) != 2 or not isinstance(after[0], Computation):
        fail("DG227", "after= names a computation and one of its iterators", "give both: after=(computation, iterator)")
    other, loop = after
    name = loop.data if isinstance(loop, Term) else loop
    if other.function is not comp.function:
        fail("DG227", f"'{other.name}' belongs to another function, '{other.function.name}'", "name one of this one")
    if name not in other.iters:
        fail("DG227", f"'{name}' is no iterator of '{other.name}'", f"one of: {', '.join(other.iters) or 'none'}")
    return other.name, other.iters.index(str(name)) + 1


def _option(key: str, value: object) -> object:
    """An argument given by name: subscripts are expressions even where they are just an iterator."""
    if key in ("to", "source", "use") and isinstance(value, tuple | list):
        return tuple(typed(lift(one), {}) for one in value)
    return _plain(value)


def _with_buf(scheduled: Scheduled, buf: Buf) -> Scheduled:
    """The program and its origins with one more array."""
    func = scheduled.func
    params = (*func.params, buf) if buf.kind == "param" else func.params
    origin = None if scheduled.origin is None else _with_buf(scheduled.origin, buf)
    return replace(scheduled, func=replace(func, params=params, bufs=(*func.bufs, buf)), origin=origin)
