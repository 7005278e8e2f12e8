"""Pictures of what benches found, by matplotlib (the extra `report`)."""

from __future__ import annotations

import importlib
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dspgen.errors import DspgenError, Problem
from dspgen.io import write_files

Row = Mapping[str, Any]
Draw = Callable[[Any, Sequence[Row]], None]  # on matplotlib's axes


def table1_plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """`efficiency.svg` and, where tiles were searched, `search.svg`. Raises DspgenError."""
    searched = [r for r in rows if curve(r)]
    made = {folder / "efficiency.svg": _drawn(_efficiency, rows)}
    return _written(made | ({folder / "search.svg": _drawn(_search, searched)} if searched else {}))


def breakdown_plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """`breakdown.svg`. Raises DspgenError."""
    return _written({folder / "breakdown.svg": _drawn(_breakdown, rows)})


def table2_plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """`scaling.svg`. Raises DspgenError."""
    return _written({folder / "scaling.svg": _drawn(_scaling, rows)})


def curve(row: Row) -> list[float]:
    """After each tile that was compiled, the cycles of the nests' best tiles so far over those at the end."""
    best: list[float] = []
    steps: list[tuple[int, float]] = []
    for nest in row.get("search") or ():
        cycles = [t["cycles"] for t in nest["trials"] if t["cycles"] is not None]
        if cycles:
            best.append(cycles[0])
            steps += [(len(best) - 1, c) for c in cycles[1:]]
    sums = [sum(best)]
    for at, scheduled in steps:
        best[at] = min(best[at], scheduled)
        sums.append(sum(best))
    return [s / sums[-1] for s in sums] if best and sums[-1] else []


def _efficiency(axes: Any, rows: Sequence[Row]) -> None:
    known = [r for r in rows if r["efficiency"] is not None]
    axes.bar([r["kernel"] for r in known], [r["efficiency"] for r in known])
    axes.set_ylabel("bound / cycles")
    axes.set_ylim(0, 1)
    axes.tick_params(axis="x", rotation=90)


def _scaling(axes: Any, rows: Sequence[Row]) -> None:
    """Speed-ups by lanes times units, the paper's dashed, and what a machine so much wider ideally gives."""
    width = sorted({row["linear"] for row in rows})
    axes.plot(width, width, "k:", label="linear")
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        known = [r for r in rows if r["kernel"] == kernel and r["speedup"] is not None]
        (line,) = axes.plot([r["linear"] for r in known], [r["speedup"] for r in known], "o-", label=kernel)
        told = [r for r in known if r["seed_speedup"] is not None]
        axes.plot([r["linear"] for r in told], [r["seed_speedup"] for r in told], "x--", color=line.get_color())
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("lanes x multiply-add units (dashed: the paper)")
    axes.set_ylabel("speed-up over one lane and one unit")
    axes.legend(fontsize="x-small")


def _search(axes: Any, rows: Sequence[Row]) -> None:
    lines = itertools.cycle(("-", "--", ":"))
    for row in rows:
        found = curve(row)
        axes.plot(range(1, len(found) + 1), found, next(lines), label=row["kernel"], drawstyle="steps-post")
    axes.set_xlabel("tiles scheduled")
    axes.set_ylabel("best so far / best")
    axes.legend(fontsize="x-small", ncols=2)


def _breakdown(axes: Any, rows: Sequence[Row]) -> None:
    ways = list(dict.fromkeys((tile, mode) for row in rows for tile, modes in row["cycles"].items() for mode in modes))
    width = 0.8 / max(len(ways), 1)
    for number, (tile, mode) in enumerate(ways):
        known = [(k, c) for k, r in enumerate(rows) if (c := r["cycles"].get(tile, {}).get(mode)) is not None]
        title = f"{mode}, {'register tiles' if tile == 'search' else 'single vectors'}"
        axes.bar([k + number * width for k, _ in known], [c for _, c in known], width, label=title)
    axes.set_xticks([k + 0.4 for k in range(len(rows))], [r["kernel"] for r in rows], rotation=90)
    axes.set_yscale("log")
    axes.set_ylabel("cycles")
    axes.legend(fontsize="x-small")


def figure_of(columns: int) -> Any:
    """An empty matplotlib figure with room for so many columns. Raises DspgenError where the library is missing."""
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError:
        what = "`--plot` takes a library that is not installed"
        raise DspgenError(Problem("DG517", what, remedy="pip install 'dspgen[report]'")) from None
    return figures.Figure(figsize=(max(6.0, 0.4 * columns), 5), layout="constrained")


def _written(pictures: Mapping[Path, str]) -> list[Path]:
    write_files(pictures)
    return list(pictures)


def _drawn(draw: Draw, rows: Sequence[Row]) -> str:
    figure = figure_of(len(rows))
    draw(figure.subplots(), rows)
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()
