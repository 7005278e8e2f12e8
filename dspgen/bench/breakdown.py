"""What each layer of rewriting is worth: the breakdown of "Kernel Code Automatic Generation Framework on FT-Matrix"
(2023), Fig. 15, over the kernels of its Table 1 that fit in on-chip memory.

Every kernel is compiled with rewriting off (instructions selected as a plain compiler does: what the machine lacks is
expanded, products and sums are contracted), with the rules that mention the vector side alone, and with all rules; each
once with a single vector of each statement in an iteration and once with the register tiles that the search finds.
What scheduling is worth is told against packets in the order of the program: the same instructions at single vectors,
loops neither unrolled nor pipelined, each packet filled with what comes next while it is independent and has a unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dspgen.bench.programs import program
from dspgen.errors import DspgenError, Problem
from dspgen.options import REWRITE_MODES, Options
from dspgen.pipeline import run_file
from dspgen.target.model import Target
from dspgen.target.structure import suggest
from plant_core.loc import PlantError

TileMode = Literal["one", "search"]
Row = dict[str, Any]
TILES: tuple[TileMode, ...] = ("one", "search")
SEED_GAIN = 3.49  # Fig. 15: rewriting across scalar and vector units over the vectorization that it starts from
SEED_SCHEDULING_GAIN = 4.67  # the same: instruction-level optimization


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    file: str
    defines: tuple[tuple[str, str], ...] = ()


def _kernels() -> dict[str, Kernel]:
    found = [Kernel(f"autocor_{n}", "autocor.c", (("N", str(n)),)) for n in (10, 16, 256, 512)]
    found += [Kernel(f"fft_{1 << k}", f"bench/fft_{1 << k}.c") for k in range(2, 11)]
    for n, f in ((4, 2), (16, 2), (256, 4)):
        sizes = (("H", str(n)), ("W", str(n)), ("F", str(f)))
        found += [Kernel(f"conv2d_{kind}_{n}_{f}", f"conv2d_{kind}.c", sizes) for kind in ("valid", "full")]
    found += [Kernel(f"matmul_{n}", "matmul.c", (("N", str(n)),)) for n in (4, 8, 16, 256)]
    return {k.name: k for k in found}


KERNELS = _kernels()


def chosen(only: Sequence[str]) -> tuple[Kernel, ...]:
    """The kernels named by --only, names between commas, a name's beginning standing for all that begin so.

    Raises DspgenError for a name that begins no kernel's.
    """
    names = [name.strip() for text in only for name in text.split(",") if name.strip()]
    unknown = [name for name in dict.fromkeys(names) if not any(k.startswith(name) for k in KERNELS)]
    if unknown or only and not names:
        remedy = f"the kernels are {', '.join(KERNELS)}"
        told = unknown or [""]
        raise DspgenError(
            *(Problem("DG510", f"--only {n}: there is no such kernel", remedy=_suggestion(n) or remedy) for n in told)
        )
    return tuple(k for name, k in KERNELS.items() if not names or any(name.startswith(n) for n in names))


def _suggestion(name: str) -> str:
    return suggest(name, list(KERNELS)) if name else ""


def source(kernel: Kernel) -> str:
    """The kernel's C file. Raises DspgenError where this installation came without the examples."""
    return program(kernel.file)


def measure(
    kernels: Iterable[Kernel],
    target: Target,
    on_start: Callable[[str], None],
    on_row: Callable[[Row], None],
    on_refusal: Callable[[str, DspgenError | PlantError], None],
) -> list[Row]:
    """A row for each kernel: `cycles[tile][mode]` and `in_order`, the cycles of packets in the program's order, None
    where it was refused; `verified` if all results were right."""
    rows = []
    for kernel in kernels:
        row: Row = {"kernel": kernel.name, "isa": target.name, "verified": None, "refused": None, "cycles": {}}
        row["details"] = []
        for tile in TILES:
            for mode in REWRITE_MODES:
                on_start(f"{kernel.name}, {mode}, {tile}")
                options = Options(defines=kernel.defines, rewrite=mode, tile=tile)
                row["cycles"].setdefault(tile, {})[mode] = _cycles(row, kernel, target, options, on_refusal)
        on_start(f"{kernel.name}, in order")
        options = Options(defines=kernel.defines, tile="one", pipeline=False, sched="order")
        row["in_order"] = _cycles(row, kernel, target, options, on_refusal)
        rows.append(row)
        on_row(row)
    return rows


def _cycles(
    row: Row,
    kernel: Kernel,
    target: Target,
    options: Options,
    on_refusal: Callable[[str, DspgenError | PlantError], None],
) -> int | None:
    try:
        result = run_file(source(kernel), target, options)
    except (DspgenError, PlantError) as error:
        if row["refused"] is None:
            on_refusal(kernel.name, error)
            row["refused"] = str(error)
        return None
    row["verified"] = result.verified if row["verified"] is None else row["verified"] and result.verified
    row["details"] += result.details
    return result.cycles


def summary(rows: Sequence[Row]) -> Row:
    """Gains as geometric means: of all rules over none, and over those of the vector side, without register tiles and
    with them; of scheduling over packets in order, with all that we do and (`_alone`) at single vectors, too; and where
    all rules lost to fewer, or the schedule to the order of the program."""
    whole = [r for r in rows if r["refused"] is None]
    found: Row = {
        "kernels": len(rows),
        "verified": sum(r["verified"] is True and r["refused"] is None for r in rows),
        "wrong": sum(r["verified"] is False for r in rows),
        "refused": len(rows) - len(whole),
        "seed_gain": SEED_GAIN,
        "seed_scheduling_gain": SEED_SCHEDULING_GAIN,
        "slower": [
            r["kernel"] for r in whole if any(r["cycles"][t]["full"] > min(r["cycles"][t].values()) for t in TILES)
        ],
    }
    found["slower_than_in_order"] = [r["kernel"] for r in whole if _best(r) > r["in_order"]]
    found["scheduling_gain"] = _mean([r["in_order"] / _best(r) for r in whole])
    found["scheduling_gain_alone"] = _mean([r["in_order"] / r["cycles"]["one"]["full"] for r in whole])
    for tile, suffix in (("one", ""), ("search", "_tiled")):
        found[f"rewriting_gain{suffix}"] = _gain(whole, tile, "off")
        found[f"scalar_vector_gain{suffix}"] = _gain(whole, tile, "vector")
    return found


def _gain(rows: Sequence[Row], tile: str, mode: str) -> float | None:
    return _mean([r["cycles"][tile][mode] / r["cycles"][tile]["full"] for r in rows])


def _best(row: Row) -> int:
    return int(row["cycles"]["search"]["full"])


def _mean(ratios: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
