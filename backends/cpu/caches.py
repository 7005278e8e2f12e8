"""The data caches of the computer at hand, as Linux tells them."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from plant_core.schedule.packing.caches import Caches

_TOLD = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@lru_cache(maxsize=4)
def caches(told: Path = _TOLD) -> Caches:
    """What `told` says of the data caches, and the size of a page; usual figures for the rest. No file says how many
    entries the first TLB has."""
    usual = Caches()
    found: dict[int, int] = {}
    lines: list[int] = []
    for folder in sorted(told.glob("index*")):
        try:
            kind, level, size, line = (
                (folder / name).read_text(encoding="ascii").strip()
                for name in ("type", "level", "size", "coherency_line_size")
            )
            if kind in ("Data", "Unified"):
                found[int(level)] = _bytes(size)
                lines.append(int(line))
        except (OSError, ValueError):
            continue
    sizes = tuple(size for _, size in sorted(found.items()))
    return Caches(sizes or usual.sizes, min(lines, default=usual.line), os.sysconf("SC_PAGESIZE"), usual.entries)


def _bytes(text: str) -> int:
    unit = _UNITS.get(text[-1:])
    return int(text[:-1]) * unit if unit else int(text)
