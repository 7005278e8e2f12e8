"""A home in memory for operands that lie there in pieces: where each element must stand so that each wanted vector is
one contiguous load, elements before, between and after them being 0 where they must be.

A window asks for elements at lanes; two elements of one window stand as far apart as their lanes. Windows that share
elements thereby fix one layout for all of them, or contradict each other, and the later one is refused. The windows
of a full convolution agree on the image with rows as far apart as those of the result and zeros between them, so
that the sums over two dimensions become sums over one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dspgen.straight.trace import Element

Cells = tuple[Element | None | bool, ...]
"""What a window needs on each lane: an element; False for a zero; None for anything."""


@dataclass(slots=True)
class Layout:
    """Elements and zeros by place, places being relative to each other only."""

    cells: dict[int, Element | None] = field(default_factory=dict)  # None is a zero
    places: dict[Element, int] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)  # the window's number, and where its first lane stands

    def admits(self, cells: Cells, at: int) -> bool:
        for lane, cell in enumerate(cells):
            if cell is None:
                continue
            wanted = cell if cell else None
            if at + lane in self.cells and self.cells[at + lane] != wanted:
                return False
            if isinstance(wanted, tuple) and self.places.get(wanted, at + lane) != at + lane:
                return False
        return True

    def put(self, number: int, cells: Cells, at: int) -> None:
        self.windows[number] = at
        for lane, cell in enumerate(cells):
            if cell is not None:
                self._set(at + lane, cell if isinstance(cell, tuple) else None)

    def absorb(self, other: Layout, shift: int) -> bool:
        """Take over all of `other`, moved by `shift`; False, with nothing changed, where the two contradict."""
        for place, cell in other.cells.items():
            if self.cells.get(place + shift, cell) != cell:
                return False
            if cell is not None and self.places.get(cell, place + shift) != place + shift:
                return False
        for place, cell in other.cells.items():
            self._set(place + shift, cell)
        self.windows |= {number: at + shift for number, at in other.windows.items()}
        return True

    def _set(self, place: int, cell: Element | None) -> None:
        self.cells[place] = cell
        if cell is not None:
            self.places[cell] = place

    def runs(self) -> list[tuple[int, Element, int]]:
        """Elements that stand as in their own array: place, first element, count."""
        found: list[tuple[int, Element, int]] = []
        for place in sorted(self.cells):
            cell = self.cells[place]
            if cell is None:
                continue
            if found:
                start, (array, first), count = found[-1]
                if place == start + count and cell == (array, first + count):
                    found[-1] = (start, (array, first), count + 1)
                    continue
            found.append((place, cell, 1))
        return found

    def zeros(self) -> list[int]:
        return sorted(p for p, cell in self.cells.items() if cell is None)


class Layouts:
    """All windows that were asked for. Each is in one of `layouts`, under its number."""

    def __init__(self) -> None:
        self.layouts: list[Layout] = []
        self.asked: dict[Cells, int] = {}

    def ask(self, cells: Cells) -> int | None:
        """The window's number, or None where it contradicts those before it."""
        if cells in self.asked:
            return self.asked[cells]
        if self._contradicts_itself(cells):
            return None
        number = len(self.asked)
        touched: list[tuple[Layout, int]] = []
        for layout in self.layouts:
            starts = {layout.places[c] - lane for lane, c in enumerate(cells) if c and c in layout.places}
            if len(starts) > 1:
                return None
            touched += [(layout, start) for start in starts]
        merged = Layout()
        for layout, start in touched:
            if not merged.absorb(layout, -start):
                return None
        if not merged.admits(cells, 0):
            return None
        merged.put(number, cells, 0)
        kept = [x for x in self.layouts if not any(x is t for t, _ in touched)]
        self.layouts = [*kept, merged]
        self.asked[cells] = number
        return number

    @staticmethod
    def _contradicts_itself(cells: Cells) -> bool:
        elements = [c for c in cells if c]
        return len(set(elements)) < len(elements)
