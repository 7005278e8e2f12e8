"""What the analysis knows of a machine: its data caches, and how much memory the first TLB reaches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caches:
    """`sizes` of the data caches in bytes, from the first on; `line` and `page` in bytes; `entries` of the first data
    TLB. The defaults are those of a current x86 core."""

    sizes: tuple[int, ...] = (32 << 10, 512 << 10, 32 << 20)
    line: int = 64
    page: int = 4 << 10
    entries: int = 64

    def target(self, footprint: int) -> int | None:
        """The level, from 0, where packed arrays have to stay: the largest that doesn't hold all of `footprint` bytes.
        None where the first one does."""
        small = [level for level, size in enumerate(self.sizes) if size < footprint]
        return max(small, default=None)

    def pages(self, part: tuple[int, ...], whole: tuple[int, ...], elem: int) -> int:
        """TLB entries for a box of extents `part` in a row-major array of extents `whole`, `elem` bytes an element.

        Rows with less than a page between them share entries; further apart, each has its own.
        """
        span, rows, step = elem, 1, elem
        for extent, size in zip(reversed(part), reversed(whole), strict=True):
            if extent > 1:
                if rows == 1 and step - span < self.page:
                    span += (extent - 1) * step
                else:
                    rows *= extent
            step *= size
        return rows * -(-span // self.page)
