"""Where values of a machine can go: from memory to registers, from one class of registers to another, and back.

A row that reads one class and writes another is a way between them, whatever it computes. A pair class and its base are
one place, and so are a control register of lanes and the registers that are its elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dspgen.target.isa.model import Instruction, Operand, Target


class Flows:
    """Places of a machine by class name, and the ways between them."""

    def __init__(self, target: Target) -> None:
        self.place = _places(target)
        self.ways: dict[str, set[str]] = {}
        self.loaded: set[str] = set()
        self.stored: set[str] = set()
        self.written = {
            p
            for name in (*target.abi.arguments, *target.abi.return_address.split(":"))
            for p in self._holding(target, name)
        }
        for row in target.instructions:
            if row.compile:
                self._learn(row)
        for macro in target.macros:
            self.written |= self._of([macro.result_class])
            for _, cls in macro.operands:
                for source in self._of([cls] if cls in self.place else []):
                    self.ways.setdefault(source, set()).update(self._of([macro.result_class]))

    def _learn(self, row: Instruction) -> None:
        sources = [o for o in row.operands if o.read and o.kind == "register"]
        results = self._of(c for o in row.operands if o.write for c in o.classes)
        self.written |= results
        if row.memory is not None and row.memory.store:
            self.stored |= self._of(c for o in sources for c in o.classes)
        elif row.memory is not None:
            self.loaded |= results
        for source in self._of(c for o in sources for c in o.classes):
            self.ways.setdefault(source, set()).update(results)

    def _of(self, classes: Iterable[str]) -> set[str]:
        return {self.place[c] for c in classes}

    def _holding(self, target: Target, register: str) -> Iterator[str]:
        return (self.place[c.name] for c in target.registers if register in c.names)

    def writes(self, cls: str) -> bool:
        """Whether anything writes registers of the class; arguments come in some."""
        return self.place[cls] in self.written

    def feeds(self, cls: str) -> bool:
        """Whether what is in memory can come to registers of the class."""
        return self.place[cls] in _reached(self.loaded, self.ways)

    def drains(self, cls: str) -> bool:
        """Whether what is in registers of the class can come to memory."""
        return bool(_reached({self.place[cls]}, self.ways) & self.stored)

    def leads(self, source: str, cls: str) -> bool:
        """Whether values come from one class to another without memory."""
        return self.place[cls] in _reached({self.place[source]}, self.ways)

    def reads_nothing(self, operand: Operand) -> bool:
        """Whether the operand reads registers that nothing writes."""
        return operand.kind == "register" and operand.read and not any(self.writes(c) for c in operand.classes)


def _reached(start: set[str], ways: Mapping[str, set[str]]) -> set[str]:
    found, waiting = set(start), list(start)
    while waiting:
        new = ways.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _places(target: Target) -> dict[str, str]:
    """Of each class the name of its place."""
    found: dict[str, str] = {}
    for cls in target.registers:
        found[cls.name] = found.get(cls.pair_of or "", cls.name)
    for cls in target.registers:
        view = next((c.name for c in target.registers if cls.element_of in (c.name, *c.names) and c is not cls), None)
        if cls.element_of is not None and view is not None:
            found[cls.name] = found[view]
    return found
