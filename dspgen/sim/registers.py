"""The register file: which cells a register name stands for."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.errors import IsaError, Problem
from dspgen.sim.ir import Cell
from dspgen.target.model import RegisterClass, Target


@dataclass(frozen=True, slots=True)
class Place:
    """Cells of a register, low half first; `lane` for an element of a control vector."""

    cls: RegisterClass
    cells: tuple[int, ...]
    lane: int | None = None


class RegisterFile:
    """Cells for every register class of a target; pair classes and elements share their base's cells."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.cells: list[Cell] = []
        self._first: dict[str, int] = {}
        self._index: dict[str, dict[str, int]] = {}
        self._class = {c.name: c for c in target.registers}
        for cls in target.registers:
            self._index[cls.name] = {n: i for i, n in enumerate(cls.names)}
            if cls.pair_of is None and cls.kind != "element":
                self._add_class(cls)

    def _add_class(self, cls: RegisterClass) -> None:
        vector = cls.kind == "vector" or cls.vector
        if cls.bits > 64:
            raise IsaError(Problem("DG190", f"register class {cls.name}: the simulator takes at most 64 bits"))
        storage = 64 if cls.kind in ("address", "offset") or cls.bits > 32 else 32
        self._first[cls.name] = len(self.cells)
        for name in cls.names:
            lanes = self.target.lanes if vector else 0
            self.cells.append(Cell(len(self.cells), name, lanes, cls.bits, storage))

    def place(self, name: str, classes: tuple[str, ...] | None = None) -> Place | None:
        """The cells of register `name`, looked up in `classes` (None: in all, single registers first)."""
        order = classes if classes is not None else tuple(sorted(self._class, key=self._rank))
        for cls_name in order:
            index = self._index[cls_name].get(name)
            if index is not None:
                return self._resolve(self._class[cls_name], index)
        return None

    def _rank(self, name: str) -> int:
        cls = self._class[name]
        return (cls.pair_of is not None) + 2 * (cls.kind == "element")

    def _resolve(self, cls: RegisterClass, index: int) -> Place:
        if cls.pair_of is not None:
            low = self._resolve(self._class[cls.pair_of], 2 * index)
            high = self._resolve(self._class[cls.pair_of], 2 * index + 1)
            return Place(cls, low.cells + high.cells)
        if cls.kind == "element":
            return Place(cls, (self._vector_cell(cls.element_of or ""),), index)
        return Place(cls, (self._first[cls.name] + index,))

    def _vector_cell(self, name: str) -> int:
        """`element_of` may name the control vector's class or the register itself."""
        if name in self._first:
            return self._first[name]
        return next(c.index for c in self.cells if c.name == name)

    def names(self) -> list[str]:
        return sorted({n for table in self._index.values() for n in table})

    def class_of(self, name: str) -> RegisterClass | None:
        place = self.place(name)
        return place.cls if place else None

    def cell_of(self, name: str) -> int | None:
        place = self.place(name)
        return place.cells[0] if place and len(place.cells) == 1 and place.lane is None else None
