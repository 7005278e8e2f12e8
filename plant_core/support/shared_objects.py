"""Shared objects that are loaded for one call, and unloaded after it."""

from __future__ import annotations

import ctypes
from _ctypes import dlclose
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def loaded(path: Path) -> Iterator[ctypes.CDLL]:
    """Load a shared object, and unload it at the end: a process can map only so many, and each holds some pages.

    Raises OSError where it can't be loaded. Requires: none of its functions or data is used after that.
    """
    library = ctypes.CDLL(str(path))
    try:
        yield library
    finally:
        unload(library)


def unload(library: ctypes.CDLL) -> None:
    """Give the process's hold on a shared object back; it is unmapped where that was the last one."""
    dlclose(library._handle)
