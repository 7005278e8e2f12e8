"""The register file: which cells a register name stands for."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.errors import IsaError, Problem
from dspgen.sim.ir.program import Cell
from dspgen.target.isa.model import RegisterClass, Target


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
        self._own: dict[str, list[int]] = {}  # of each class that is no pair or element, its registers' cells
        self._wide = {n for c in target.registers if c.bits > 32 for n in c.names}
        known: dict[str, int] = {}
        self._index: dict[str, dict[str, int]] = {}
        self._class = {c.name: c for c in target.registers}
        for cls in target.registers:
            self._index[cls.name] = {n: i for i, n in enumerate(cls.names)}
            if cls.pair_of is None and cls.kind != "element":
                self._add_class(cls, known)

    def _add_class(self, cls: RegisterClass, known: dict[str, int]) -> None:
        """Cells for the registers that aren't another class's already."""
        vector = cls.kind == "vector" or cls.vector
        if cls.bits > 64:
            raise IsaError(Problem("DG190", f"register class {cls.name}: the simulator takes at most 64 bits"))
        for name in cls.names:
            if name not in known:
                lanes = self.target.lanes if vector else 0
                storage = 64 if name in self._wide or cls.bits > 32 else 32
                known[name] = len(self.cells)
                self.cells.append(Cell(len(self.cells), name, lanes, cls.bits, storage))
        self._own[cls.name] = [known[name] for name in cls.names]

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
        return Place(cls, (self._own[cls.name][index],))

    def _vector_cell(self, name: str) -> int:
        """`element_of` may name the control vector's class or the register itself."""
        if name in self._own:
            return self._own[name][0]
        return next(c.index for c in self.cells if c.name == name)

    def names(self) -> list[str]:
        return sorted({n for table in self._index.values() for n in table})

    def class_of(self, name: str) -> RegisterClass | None:
        place = self.place(name)
        return place.cls if place else None

    def cell_of(self, name: str) -> int | None:
        place = self.place(name)
        return place.cells[0] if place and len(place.cells) == 1 and place.lane is None else None
