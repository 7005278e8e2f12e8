"""Compiles a program's C with the host compiler and runs it; compiled programs are kept in a cache directory."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dspgen.errors import DspgenError, Problem
from dspgen.sim.cgen.frame import FAULTS
from dspgen.sim.cgen.program import HEAD, Block, Generated, generate, register_bytes
from dspgen.sim.ir.dma import Transfers
from dspgen.sim.ir.memory import fault, transfer_warnings, warning
from dspgen.sim.ir.program import Code
from dspgen.sim.lowering.bounds_checks import object_tables
from dspgen.sim.lowering.load import Loaded
from dspgen.sim.machine.interpreter import Outcome
from dspgen.target.isa.model import Target
from plant_core.support.memoize import few_by_identity
from plant_core.support.shared_objects import loaded as shared_object

# A thousand packets of straight code take the optimizer seconds; unoptimized they still run by the million a second.
LONG_TEXT = 600_000
# Unoptimized, each temporary of the one long function has a place of its own: vectors of 64 bytes, some ten for a line
# of a hundred characters. What is not touched takes no memory.
LEAST_STACK = 8 << 20
STACK_FOR_TEXT = 64
FLAGS = ("-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-w", "-Wno-psabi", "-shared", "-fPIC")
COMPILERS = ("cc", "gcc", "clang")
Array = Any
_lock = threading.Lock()


@functools.cache
def compiler() -> tuple[str, str] | None:
    """The host compiler's path and version, or None."""
    for name in COMPILERS:
        path = shutil.which(name)
        if path is not None:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return path, done.stdout.split("\n")[0]
    return None


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "dspgen" / "sim"


def run(loaded: Loaded, target: Target, cache_dir: str | None = None) -> Outcome:
    """Runs to the return, as `Machine.run` does, from the same state to the same result. Raises TooManyStates."""
    start, known = loaded.start, _generated(loaded.code, target)
    key = start.entry, start.return_address, start.strict, start.written
    if key not in known:
        known[key] = generate(
            loaded.code,
            dma=target.dma,
            entry=start.entry,
            delay=target.pipeline.branch_delay,
            return_address=start.return_address,
            strict=start.strict,
            initial=start.written,
        )
    made = known[key]
    path = _library(made.text, Path(cache_dir) if cache_dir is not None else default_cache())
    with shared_object(path) as library:
        return _call(library, made, loaded, max(LEAST_STACK, STACK_FOR_TEXT * len(made.text)))


@few_by_identity
def _generated(code: Code, target: Target) -> dict[object, Generated]:
    """The C text of a program that is run again and again, by how it is entered."""
    return {}


def _library(text: str, cache: Path) -> Path:
    found = compiler()
    if found is None:
        raise DspgenError(
            Problem("DG440", "the native simulator needs a C compiler", remedy="install cc, gcc or clang")
        )
    path, version = found
    flags = ("-O1" if len(text) < LONG_TEXT else "-O0", *FLAGS, *_machine_flag(path))
    key = hashlib.sha256("\0".join([text, version, *flags, *_processor()]).encode()).hexdigest()[:32]
    library = cache / f"{key}.so"
    if not library.exists():
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError:
            cache = Path(tempfile.mkdtemp(prefix="dspgen-sim-"))
            library = cache / f"{key}.so"
        _compile(path, flags, text, library)
    return library


@functools.cache
def _processor() -> tuple[str, ...]:
    """What -march=native depends on: a cache on a shared disk may serve several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(line for line in lines if line.startswith(("flags", "Features")))[:1]


@functools.cache
def _machine_flag(path: str) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "empty.c"
        source.write_text("int empty;\n", encoding="utf-8")
        command = [path, "-march=native", "-c", str(source), "-o", str(source) + ".o"]
        return ("-march=native",) if subprocess.run(command, capture_output=True, check=False).returncode == 0 else ()


def _compile(path: str, flags: tuple[str, ...], text: str, library: Path) -> None:
    """Compiles beside the final name and renames, so that another process never sees half a file."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        source, made = Path(folder) / "program.c", Path(folder) / "program.so"
        source.write_text(text, encoding="utf-8")
        command = [path, *flags, str(source), "-o", str(made), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{path} refused the simulator's own C:\n{done.stderr[:2000]}")
        os.replace(made, library)


def on_stack(size: int, function: Callable[[], int]) -> int:
    """What `function` gives, called where it has `size` bytes of stack, which a process may have less of."""
    given: list[int] = []
    before = threading.stack_size(size + -size % 4096)
    try:
        thread = threading.Thread(target=lambda: given.append(function()), daemon=True)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return given[0]


def _call(library: ctypes.CDLL, made: Generated, loaded: Loaded, stack: int) -> Outcome:
    code, start = loaded.code, loaded.start
    head = np.zeros(HEAD, dtype=np.uint64)
    head[0] = start.limit
    counts = np.zeros(max(len(made.blocks), 1), dtype=np.uint64)
    written = np.zeros(len(code.cells), dtype=np.uint8)
    written[sorted(start.written)] = 1
    warned = np.zeros(max(len(made.checks), 1), dtype=np.uint64)
    packed = b"".join(r.tobytes() for r in start.registers)
    registers = np.frombuffer(packed, dtype=np.uint8).copy()
    assert len(registers) == register_bytes(code.cells)
    tables = object_tables(loaded.memories)
    memories = (ctypes.c_void_p * len(tables))(*(table.ctypes.data for table in tables))
    transfers = loaded.memories.transfers
    with _lock, _engine(transfers) as engine:
        arrays = (ctypes.c_void_p(a.ctypes.data) for a in (counts, written, warned, registers))
        call = functools.partial(library.run, ctypes.c_void_p(head.ctypes.data), memories, *arrays, engine)
        status = on_stack(stack, call)
    if transfers is not None and not status and transfers.running:
        raise fault(code, "early", transfers.running[0].uid, 0, loaded.memories)
    if status:
        kind = "barred" if transfers is not None and transfers.table[-1] else FAULTS[int(head[1])]
        size, store = int(head[5]) or 1, bool(head[6])
        raise fault(code, kind, int(head[2]), int(head[3]), loaded.memories, start.limit, size=size, store=store)
    warnings = [warning(code, u, c, loaded.memories, w) for (u, c), w in _sorted(made, warned) if w]
    warnings += transfer_warnings(code, loaded.memories)
    visits, idle, stalls = _visits(made.blocks, counts, len(code.slots))
    return Outcome(int(head[4]), idle, visits, _unpack(loaded, registers), warnings, stalls=stalls)


_LOADED = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
_STORED = ctypes.CFUNCTYPE(ctypes.c_int, *(4 * [ctypes.c_uint64]))


@contextmanager
def _engine(transfers: Transfers | None) -> Iterator[ctypes.Array[ctypes.c_void_p] | None]:
    """The DMA engine as the C function sees it: its table, and its functions while the block runs."""
    if transfers is None:
        yield None
        return
    told = _LOADED(transfers.loaded), _STORED(transfers.stored)
    pointers = [ctypes.cast(f, ctypes.c_void_p).value for f in told]
    yield (ctypes.c_void_p * 4)(transfers.table.ctypes.data, *pointers, transfers.words.ctypes.data)


def _sorted(made: Generated, warned: Array) -> list[tuple[tuple[int, int], int]]:
    return sorted((pair, int(warned[i])) for i, pair in enumerate(made.checks))


def _visits(blocks: tuple[Block, ...], counts: Array, slots: int) -> tuple[list[int], int, int]:
    visits, idle, stalls = [0] * slots, 0, 0
    for block, count in zip(blocks, counts.tolist(), strict=False):
        idle += block.idle * count
        stalls += block.stalls * count
        for packet in block.packets:
            visits[packet] += count
    return visits, idle, stalls


def _unpack(loaded: Loaded, registers: Array) -> list[Array]:
    out, offset = [], 0
    for cell, old in zip(loaded.code.cells, loaded.start.registers, strict=True):
        size = cell.storage // 8 * max(cell.lanes, 1)
        out.append(registers[offset : offset + size].view(old.dtype).copy())
        offset += size
    return out
