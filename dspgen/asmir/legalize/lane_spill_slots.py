"""Single lanes by way of memory, for machines without element registers: a vector is stored and its lanes loaded, or
scalars are stored and loaded as one vector.

The slots of one element type are one local array: first the slot that all vectors go through, then those of vectors of
constants, which are written at the program's entry, or at the beginning of the only branch that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dspgen.asmir.select.access_rows import lane_constants
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Const, Elem, If, Load, Op, Stmt, Store, Term, VType
from dspgen.vecdsl.ir.terms import Names, children, terms_in

CROSSING = frozenset({"lane", "insert", "vec", "iota", "mask_first", "mask_period"})


@dataclass(slots=True)
class _Array:
    """The slots of one element type: `held` is what is in the first, `constants` tells where each one is."""

    name: str
    held: Term | None = None
    constants: dict[tuple[str, ...], int] = field(default_factory=dict)


@dataclass(slots=True)
class Slots:
    """The slots of one program. `bound` puts a term into a variable, `emit` appends a statement where the walk is;
    `overwritten` is told each array that is stored to."""

    lanes: int
    names: Names
    bound: Callable[[Term], Term]
    emit: Callable[[Stmt], None]
    overwritten: Callable[[str], None]
    _written: list[tuple[Load, tuple[Stmt, ...]]] = field(default_factory=list)
    _arrays: dict[Elem, _Array] = field(default_factory=dict)

    def arrays(self) -> tuple[ArrayDecl, ...]:
        """The arrays that the program needs."""
        return tuple(
            ArrayDecl(a.name, elem, self.lanes * (1 + len(a.constants)), True) for elem, a in self._arrays.items()
        )

    def forget(self) -> None:
        """Another block: what the slots hold is not known."""
        for array in self._arrays.values():
            array.held = None

    def through(self, op: Op) -> Term:
        """The value of one of the operations of `CROSSING`, whose arguments are legal terms."""
        if op.name == "lane":
            array = self._stored(op.args[0])
            return self.bound(self._load(array, op.type, op.imm[0]))
        if (constants := lane_constants(op, self.lanes)) is not None:
            return self._constant(constants, op.type)
        if op.name == "insert":
            scalars = {op.imm[0]: self.bound(op.args[1])}
            array = self._stored(op.args[0])
        else:
            scalars = {lane: self.bound(arg) for lane, arg in enumerate(op.args)}
            array = self._array(op.type.elem)
        array.held = None
        for lane, value in scalars.items():
            self.emit(Store(array.name, Address(lane), 1, op.type.elem, value))
        self.overwritten(array.name)
        return self.bound(self._load(array, op.type, 0))

    def _stored(self, vector: Term) -> _Array:
        """The array whose first slot holds the vector."""
        vector = self.bound(vector)
        array = self._array(vector.type.elem)
        if array.held != vector:
            self.emit(Store(array.name, Address(0), 1, vector.type.elem, vector))
            self.overwritten(array.name)
            array.held = vector
        return array

    def _constant(self, values: tuple[int | float, ...], type: VType) -> Load:
        array, key = self._array(type.elem), tuple(map(repr, values))
        if key not in array.constants:
            array.constants[key] = start = self.lanes * (1 + len(array.constants))
            scalar = VType(type.elem, False)
            stores = tuple(
                Store(array.name, Address(start + lane), 1, type.elem, Const(value, scalar))
                for lane, value in enumerate(values)
            )
            self._written.append((self._load(array, type, start), stores))
        return self._load(array, type, array.constants[key])

    def with_constants(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The program's body with the stores of its vectors of constants."""
        for load, stores in reversed(self._written):
            body = _stored_before(body, load, stores)
        return body

    def _array(self, elem: Elem) -> _Array:
        if elem not in self._arrays:
            self._arrays[elem] = _Array(self.names.fresh(f"lanes_{elem}"))
        return self._arrays[elem]

    @staticmethod
    def _load(array: _Array, type: VType, place: int) -> Load:
        return Load(array.name, Address(place), 1, type.elem, type)


def _stored_before(body: Sequence[Stmt], load: Load, stores: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements behind the stores of a vector that some of them load, or with these in the branch that does."""
    using = [k for k, stmt in enumerate(body) if any(_has(t, load) for t in terms_in((stmt,)))]
    if len(using) == 1 and isinstance(branch := body[using[0]], If) and not _has(branch.condition, load):
        inner = replace(branch, then=_stored_before(branch.then, load, stores))
        return (*body[: using[0]], inner, *body[using[0] + 1 :])
    return (*stores, *body)


def _has(term: Term, load: Load) -> bool:
    return term == load or any(_has(child, load) for child in children(term))
