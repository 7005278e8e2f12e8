"""Stores of some lanes on machines whose stores know no lane predicates: what is in memory is loaded, the lanes that
run are put over it, and the whole vector is stored. Code has one thread, so that nobody sees bytes written back.

Only elements that are known to lie inside the array are loaded and stored so. What a block has just stored is
remembered: the row's vector before a partial one is merged into it without a load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from dspgen.asmir.legalize.capabilities import Abilities
from dspgen.asmir.select.access_rows import is_pair_term
from dspgen.vecdsl.ir.program import Address, Let, Load, Op, Stmt, Store, Term, Var, VType, covered
from dspgen.vecdsl.ir.terms import Names, is_atom

MASK = VType("i32", True)


@dataclass(slots=True)
class Blends:
    """The blended stores of one program.

    `inside(array, address, low, high)` tells whether elements `address + low` to `address + high` are in the array;
    `aligned` whether an access's address is as the machine demands; `bound` puts a term into a variable, `legal` spells
    it out, `emit` appends a statement, all where the walk is.
    """

    able: Abilities
    names: Names
    inside: Callable[[str, Address, int, int], bool]
    aligned: Callable[[Load | Store], bool]
    bound: Callable[[Term], Term]
    legal: Callable[[Term], Term]
    emit: Callable[[Stmt], None]
    entry: list[Stmt] = field(default_factory=list)  # masks, made once
    _masks: dict[int, Var] = field(default_factory=dict)
    _stored: dict[str, list[tuple[Address, Term]]] = field(default_factory=dict)  # whole vectors, still in memory

    # -- what memory holds

    def forget(self) -> None:
        """Another block: what memory holds is not known."""
        self._stored = {}

    def stored(self, stmt: Store, done: Sequence[Stmt]) -> None:
        """A store was done, by the last of the block's statements: of its array, what that stored and what it surely
        didn't touch is still in memory."""
        known = self._stored.pop(stmt.array, [])
        step = covered(stmt.elem)
        if not stmt.plain or stmt.stride != step or is_pair_term(stmt.value):
            return
        reach = self.able.lanes * step if stmt.value.type.vector else 1
        kept = [(a, v) for a, v in known if _apart(a, stmt.address, self.able.lanes * step, reach)]
        if done and _whole_vector(last := done[-1]) and last.array == stmt.array:
            kept.append((last.address, last.value))
        self._stored[stmt.array] = kept

    # -- stores

    def wanted(self, stmt: Store) -> bool:
        """Whether stores such as this never have lane predicates, and whole vectors of its kind are loaded, stored and
        selected from."""
        whole = replace(stmt, stride=covered(stmt.elem), period=0, jump=0, index=None, mask=None, active=None)
        return (
            not self.able.lane_predicates(whole)
            and self.able.store(whole)
            and self.able.load(_old(whole))
            and self.able.selects(whole.value.type)
        )

    def fits(self, window: Store) -> bool:
        """Whether some lanes of a window can be stored by a store of all."""
        whole = replace(window, mask=None, active=None)
        return self.wanted(whole) and self._whole(whole) and self._within(whole, 0, self.able.lanes - 1)

    def masked(self, window: Store) -> None:
        """Store the lanes of a window that fits where its mask isn't 0."""
        value, mask = self.bound(window.value), window.mask
        whole = replace(window, mask=None, active=None)
        if mask is not None:
            old = self._contents(whole.array, whole.address, whole)
            value = self.bound(self.legal(Op("select", (mask, value, old), value.type)))
        self.emit(replace(whole, value=value))

    def first(self, stmt: Store) -> bool:
        """Store the first `active` lanes of a contiguous vector; False where nothing can be done at once."""
        count = stmt.active
        if (
            count is None
            or count >= self.able.lanes
            or stmt.mask is not None
            or not stmt.plain
            or stmt.stride != covered(stmt.elem)
            or not self.wanted(stmt)
        ):
            return False
        stmt = replace(stmt, value=self.bound(stmt.value), active=None)
        return self._after_a_vector(stmt, count) or self._in_place(stmt, count) or self._earlier(stmt, count)

    def _after_a_vector(self, stmt: Store, count: int) -> bool:
        """The window that ends with the lanes, from the vector in memory before them and the value."""
        step, lanes = covered(stmt.elem), self.able.lanes
        before = stmt.address.plus(-lanes * step)
        known = any(a == before for a, _ in self._stored.get(stmt.array, ()))
        window = replace(stmt, address=stmt.address.plus((count - lanes) * step))
        if not self._whole(window) or not known and not self._within(stmt, -lanes, count - 1):
            return False
        if not known and not self.aligned(_old(replace(stmt, address=before))):
            return False
        if not self.able.direct(Op("align", (stmt.value, stmt.value), stmt.value.type, (count,))):
            return False
        old = self._contents(stmt.array, before, stmt)
        merged = self.bound(Op("align", (old, stmt.value), stmt.value.type, (count,)))
        self.emit(replace(window, value=merged))
        return True

    def _in_place(self, stmt: Store, count: int) -> bool:
        """The lanes' own window, the rest of which lies in the array too."""
        if not self.fits(stmt):
            return False
        self.masked(replace(stmt, mask=self._lanes_below(count)))
        return True

    def _earlier(self, stmt: Store, count: int) -> bool:
        """The window that ends with the lanes, the value turned round so that they come last."""
        rest, value = self.able.lanes - count, stmt.value
        window = replace(stmt, address=stmt.address.plus(-rest * covered(stmt.elem)))
        turned = Op("align", (value, value), value.type, (count,))
        if not self._whole(window) or not self._within(stmt, -rest, count - 1) or not self.able.direct(turned):
            return False
        old = self._contents(stmt.array, window.address, stmt)
        merged = Op("select", (self._lanes_below(rest), old, self.bound(turned)), value.type)
        self.emit(replace(window, value=self.bound(self.legal(merged))))
        return True

    def _lanes_below(self, count: int) -> Term:
        mask = Op("mask_first", (), MASK, (count,))
        if self.able.by_memory(mask) or not self.able.direct(mask):
            return self.bound(self.legal(mask))
        if count not in self._masks:
            self._masks[count] = Var(self.names.fresh("below"), MASK)
            self.entry.append(Let(self._masks[count].name, mask))
        return self._masks[count]

    def _whole(self, window: Store) -> bool:
        return self.aligned(window) and self.aligned(_old(window))

    def _within(self, stmt: Store, low: int, high: int) -> bool:
        """Whether these lanes of the contiguous vector, and all between them, are in the array."""
        step = covered(stmt.elem)
        return self.inside(stmt.array, stmt.address, low * step, high * step + step - 1)

    def _contents(self, array: str, address: Address, like: Store) -> Term:
        """The vector that memory holds at a place."""
        for place, value in reversed(self._stored.get(array, ())):
            if place == address and value.type == like.value.type:
                return value
        return self.bound(_old(replace(like, address=address)))


def _old(window: Store) -> Load:
    """The load of what a store of a whole vector overwrites."""
    return Load(window.array, window.address, covered(window.elem), window.elem, window.value.type)


def _apart(one: Address, other: Address, length: int, reach: int) -> bool:
    """Whether `length` elements from one address on and `reach` from the other on have none in common."""
    distance = one.constant - other.constant
    return one.terms == other.terms and (distance >= reach or distance <= -length)


def _whole_vector(stmt: Stmt) -> TypeGuard[Store]:
    """Whether a statement stores a whole vector whose value can be used again."""
    return (
        isinstance(stmt, Store)
        and stmt.value.type.vector
        and stmt.plain
        and stmt.stride == covered(stmt.elem)
        and stmt.active is None
        and is_atom(stmt.value)
    )
