"""Pieces of code by themselves: what an action emits, in which constants are made where they are used."""

from __future__ import annotations

from collections.abc import Callable

from dspgen.asmir.ir.function import Item
from dspgen.asmir.select.emitter import Emitter
from dspgen.vecdsl.ir.program import Term


def section(emitter: Emitter, action: Callable[[], None]) -> list[Item]:
    """What `action` emits."""
    saved, sink = emitter.items, emitter.sink
    found: list[Item] = []
    emitter.items = emitter.sink = found
    forget(emitter)
    action()
    forget(emitter)
    emitter.items, emitter.sink = saved, sink
    return found


def forget(emitter: Emitter) -> None:
    """What registers hold is not known from here on."""
    emitter.values.clear()
    emitter.constants.clear()
    emitter.forget_registers()


def set_variable(emitter: Emitter, name: str, term: Term) -> None:
    """Give a variable a new value."""
    emitter.values.clear()
    emitter.lower(term, emitter.names[name])
    emitter.values.clear()
