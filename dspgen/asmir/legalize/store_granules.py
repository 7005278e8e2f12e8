"""Accesses that the machine does in granules of several elements: windows between granules, stores of some of them."""

from __future__ import annotations

from dataclasses import replace

from dspgen.asmir.legalize.capabilities import Abilities
from dspgen.vecdsl.analysis.congruence import Congruences
from dspgen.vecdsl.ir.program import ELEM_BYTES, Load, Op, Store


def slid(load: Load, able: Abilities, congruences: Congruences) -> Op | None:
    """The contiguous vector `load` as a shuffle of two, one granule of the alignment apart; None where it isn't known
    how far the address is from a granule's begin, or the machine has no such shuffle."""
    if not load.plain or load.stride != 1 or not able.load(load):
        return None
    group = able.alignment(load, pair=False) // ELEM_BYTES[load.elem]
    shift = congruences.modulo(load.address, group)
    if not shift or able.lanes % group:
        return None
    low, high = (replace(load, address=load.address.plus(k - shift)) for k in (0, group))
    window = Op("shuffle2", (low, high), load.type, _between(able.lanes, group, shift))
    return window if able.direct(window) else None


def _between(lanes: int, group: int, shift: int) -> tuple[int, ...]:
    """In each group of lanes, those of the first vector from `shift` on, then as many as are missing of the second."""
    return tuple(k + shift if k % group + shift < group else lanes + k + shift - group for k in range(lanes))


def whole_groups(stmt: Store, able: Abilities) -> Store | None:
    """The part of a store of some first lanes that predicates can do which govern several lanes each."""
    rest = (stmt.active or 0) % able.group
    if stmt.active is None or not rest or rest == stmt.active:
        return None
    groups = replace(stmt, active=stmt.active - rest)
    return groups if able.store(groups) else None
