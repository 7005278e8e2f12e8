"""What the command line shows: one JSON object, or tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dspgen.asmir.ir.function import Function
from dspgen.driver.pipeline import RunResult
from dspgen.emit.linear import emit_linear
from dspgen.emit.manifest import loop_object
from dspgen.emit.text import print_lines
from dspgen.errors import Problem
from dspgen.rewrite.optimize import Remark
from dspgen.sched.ir.packets import LoopReport, Scheduled
from dspgen.target.isa.model import Target
from dspgen.tiling.candidates import Choice
from dspgen.vecdsl.ir.printer import print_program
from dspgen.vecdsl.ir.program import Program
from plant_core.ir import scheduled as nest
from plant_core.ir.func import Func
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.printer import print_func, print_scheduled

if TYPE_CHECKING:
    from dspgen.driver.cpu import CpuResult
    from dspgen.driver.emulator import EmulatedResult

WIDE = 140  # columns where the output is no terminal
PATIENCE = 2.0  # seconds that a kernel may take from C text to C++ text


def console(*, stderr: bool = False, width: int = WIDE) -> Console:
    """A console that never folds a table because its output is a file or a pipe, which are `width` columns wide."""
    out = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return out if out.is_terminal else Console(stderr=stderr, highlight=False, width=width)


def result_object(**found: Any) -> dict[str, Any]:
    """The object of `--json`: every key of the contract (null where unknown), then whatever else is given."""
    keys = "kernel isa cycles bound_cycles efficiency verified max_error compile_seconds simulate_seconds".split()
    base: dict[str, Any] = dict.fromkeys(keys)
    base |= {"wrong": {}, "ill_conditioned": {}, "unit_busy": {}, "tiles": [], "loops": [], "remarks": []}
    return {k: plain(v) for k, v in (base | found).items()}


def plain(value: Any) -> Any:
    """A value that JSON can hold; numbers that are not finite become null."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case Sequence():
            return [plain(v) for v in value]
    return plain(value.item())  # a NumPy scalar


def isa_size(target: Target) -> str:
    """How large a machine is, in words."""
    units, forms = len(target.unit_members), len(target.instructions)
    return f"{units} units, {forms} instruction forms, {target.lanes} lanes"


def isa_row(path: str, target: Target | None, problems: Iterable[Problem]) -> dict[str, Any]:
    """What `isa check` found, as one object; `target` None: the file has errors."""
    told = [
        {
            "severity": p.severity,
            "code": p.code,
            "message": p.message,
            "file": p.loc.file if p.loc else None,
            "line": p.loc.line if p.loc else None,
            "column": p.loc.column if p.loc else None,
            "help": p.remedy or None,
        }
        for p in problems
    ]
    name, file = (target.name, target.path) if target is not None else (None, path)
    return {"isa": name, "path": file, "sound": target is not None, "problems": told}


def results_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """One line for each kernel: cycles, bound, efficiency, whether it was right, and what it took."""
    rows = list(rows)
    emulated = any(row.get("runner") == "qemu" for row in rows)
    title = "packets in the emulator" if emulated else "cycles on the simulator, against the bound of the machine"
    table = Table(title=f"dspgen: {title}")
    table.add_column("kernel", no_wrap=True)
    for name in ("packets" if emulated else "cycles", "bound", "efficiency"):
        table.add_column(name, justify="right")
    table.add_column("verified")
    for name in ("max error", "compile s", "simulate s"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row["kernel"],
            _number(row.get("packets") if emulated else row["cycles"]),
            _number(row["bound_cycles"]),
            _format(row["efficiency"], "{:.1%}"),
            row_verdict(row),
            _format(row["max_error"], "{:.1e}"),
            _format(row["compile_seconds"], "{:.2f}"),
            _format(row["simulate_seconds"], "{:.2f}"),
        )
    return table


def run_object(result: RunResult) -> dict[str, Any]:
    """The object of `--json` for a run on a machine's simulator."""
    names = (
        "kernel isa data cycles packets bound_cycles efficiency verified max_error wrong ill_conditioned "
        "compile_seconds simulate_seconds unit_busy tiles"
    )
    return result_object(
        **{name: getattr(result, name) for name in names.split()},
        loops=[loop_object(loop) for loop in result.loops],
        search=[search_object(choice) for choice in result.choices],
        remarks=[remark_object(r) for r in result.remarks],
    )


def emulated_object(result: EmulatedResult) -> dict[str, Any]:
    """The object of `--json` for a run in an emulator."""
    names = (
        "kernel isa data packets bound_cycles verified max_error wrong ill_conditioned compile_seconds "
        "simulate_seconds tiles"
    )
    return result_object(
        **{name: getattr(result, name) for name in names.split()},
        runner="qemu",
        loops=[loop_object(loop) for loop in result.loops],
        search=[search_object(choice) for choice in result.choices],
        remarks=[remark_object(r) for r in result.remarks],
    )


def search_object(choice: Choice) -> dict[str, Any]:
    """How the tile of a nest was found: each candidate in the order in which it was looked at, what the model expected
    of it, and its cycles or why there are none."""
    trials = [
        {"tile": t.title, "expected": t.estimate, "cycles": t.cycles, "refused": t.refused or None}
        for t in choice.trials
    ]
    evaluations = sum(t.tried for t in choice.trials)
    return {"tile": choice.candidate.title, "evaluations": evaluations, "trials": trials}


def cpu_object(result: CpuResult) -> dict[str, Any]:
    """The object of `--json` for a run on this computer."""
    names = "kernel verified max_error wrong ill_conditioned compile_seconds build_seconds seconds threads"
    found = {name: getattr(result, name) for name in names.split()}
    return result_object(backend="cpu", remarks=[remark_object(r) for r in result.remarks], **found)


def remark_object(remark: Remark) -> dict[str, Any]:
    return {"line": remark.loc.line if remark.loc else None, "kind": remark.kind, "message": remark.message}


def cpu_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """One line for each kernel that ran on this computer; its size where the rows have a name for it."""
    sized = any(row.get("size") for row in rows)
    table = Table(title="dspgen: kernels on this computer")
    table.add_column("kernel", no_wrap=True)
    if sized:
        table.add_column("size")
    table.add_column("verified")
    for name in ("max error", "C to C++ s", "build s", "run ms"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row["kernel"],
            *([row.get("size") or ""] if sized else []),
            row_verdict(row),
            _format(row["max_error"], "{:.1e}"),
            Text(_format(row["compile_seconds"], "{:.2f}"), "red" if (row["compile_seconds"] or 0) > PATIENCE else ""),
            _format(row.get("build_seconds"), "{:.2f}"),
            _milliseconds(row.get("seconds")),
        )
    return table


def speed_table(rows: Iterable[Mapping[str, Any]], peers: Sequence[str]) -> Table:
    """One line for each kernel: milliseconds of ours and of each peer, and how many times as fast as it ours is."""
    table = Table(title="dspgen against its peers on this computer: milliseconds, and times as fast")
    table.add_column("kernel", no_wrap=True)
    for name in ("size", "threads", "ours"):
        table.add_column(name, justify="right")
    keys = [
        (name.replace("clang-", ""), "ratio" if name == "gcc" else f"{name.replace('clang-', '')}_ratio")
        for name in peers
    ]
    for name, _ in keys:
        table.add_column(name, justify="right")
        table.add_column(f"/ {name}", justify="right")
    table.add_column("verified")
    for row in rows:
        cells: list[str | Text] = []
        for name, ratio in keys:
            slower = row[ratio] is not None and row[ratio] < 1
            cells.append(_milliseconds(row[f"{name}_seconds"]))
            cells.append(Text(_format(row[ratio], "{:.2f}"), "red" if slower else ""))
        ours = _milliseconds(row["ours_seconds"])
        table.add_row(row["kernel"], row["size"], str(row["threads"]), ours, *cells, verdict(row["verified"]))
    return table


def breakdown_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """One line for each kernel: cycles without rewriting, with the vector side's rules, with all; then with tiles."""
    table = Table(title="dspgen: cycles without rewriting, with the vector side's rules, with all rules")
    table.add_column("kernel", no_wrap=True)
    for name in ("off", "vector", "full", "gain", "tiled: off", "vector", "full", "gain", "in order", "gain"):
        table.add_column(name, justify="right")
    table.add_column("verified")
    for row in rows:
        cells: list[str] = []
        for cycles in (row["cycles"]["one"], row["cycles"]["search"]):
            off, full = cycles["off"], cycles["full"]
            cells += [_number(cycles[mode]) for mode in ("off", "vector", "full")]
            cells.append(_format(None if off is None or full is None else off / full, "{:.2f}"))
        in_order = row["in_order"]
        cells += [_number(in_order), _format(None if in_order is None or full is None else in_order / full, "{:.2f}")]
        table.add_row(row["kernel"], *cells, verdict(row["verified"]))
    return table


def table1_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """One line for each kernel: cycles and bound, how simpler code compares, what it took to compile, and the paper."""
    table = Table(
        title="dspgen: Table 1's kernels; speed-ups, of data on the chip, over scalar code, plain vector code, and "
        "without rules between the sides"
    )
    table.add_column("kernel", no_wrap=True)
    heads = "cycles,bound,efficiency,least,× scalar,× vector,× apart,tried,compile s,paper: rounds,minutes"
    for name in heads.split(","):
        table.add_column(name, justify="right")
    table.add_column("verified")
    for row in rows:
        least = _number(row["least_cycles"])
        table.add_row(
            row["kernel"],
            _number(row["cycles"]),
            _number(row["bound_cycles"]),
            _format(row["efficiency"], "{:.1%}"),
            f"{least} ({_format(row['over_least'], '{:.2f}')})" if row["least_cycles"] is not None else "",
            *(_format(row[f"over_{way}"], "{:.2f}") for way in ("scalar", "vector", "apart")),
            _number(row.get("candidates")),
            _format(row["compile_seconds"], "{:.1f}"),
            _number(row["seed_rounds"]),
            _format(row["seed_minutes"], "{:g}"),
            verdict(row["verified"]),
        )
    return table


def table2_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """One line for each kernel and machine: how fast it is, how fast it could be, and the paper's speed-up."""
    table = Table(title="dspgen: Table 2's kernels; speed-ups over one lane and one multiply-add unit")
    table.add_column("kernel", no_wrap=True)
    for name in ("lanes", "units", "cycles", "bound", "efficiency", "speed-up", "paper's", "linear", "at most"):
        table.add_column(name, justify="right")
    table.add_column("verified")
    for row in rows:
        less = row["speedup"] is not None and row["seed_speedup"] is not None and row["speedup"] < row["seed_speedup"]
        table.add_row(
            row["kernel"],
            str(row["lanes"]),
            str(row["macs"]),
            _number(row["cycles"]),
            _number(row["bound_cycles"]),
            _format(row["efficiency"], "{:.1%}"),
            Text(_format(row["speedup"], "{:.2f}"), "red" if less else ""),
            *(_format(row[key], "{:.2f}") for key in ("seed_speedup", "linear", "speedup_limit")),
            verdict(row["verified"]),
        )
    return table


def emulated_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """One line for each kernel: packets in the emulator, and the fewest of any rival's code."""
    table = Table(title="dspgen: packets in the emulator, and the fewest of other compilers'")
    table.add_column("kernel", no_wrap=True)
    for name in ("packets", "best rival's", "rival / ours"):
        table.add_column(name, justify="right")
    for name in ("rival", "simulator agrees", "verified"):
        table.add_column(name)
    for row in rows:
        behind = row["over_peer"] is not None and row["over_peer"] < 1
        table.add_row(
            row["kernel"],
            _number(row["packets"]),
            _number(row["best_peer"]),
            Text(_format(row["over_peer"], "{:.2f}"), "red" if behind else ""),
            row["best_peer_name"] or "",
            verdict(row["agree"]),
            verdict(row["verified"]),
        )
    return table


def _milliseconds(seconds: float | None) -> str:
    return _format(None if seconds is None else 1e3 * seconds, "{:.3f}")


def row_verdict(row: Mapping[str, Any]) -> Text:
    """Return the word for a run of the DSP or the CPU, which tells wrong elements from ill-conditioned ones."""
    if row["verified"] is False and not row["wrong"]:
        return Text("ill-conditioned", "yellow")
    return verdict(row["verified"])


def verdict(verified: bool | None) -> Text:
    match verified:
        case True:
            return Text("yes", "green")
        case False:
            return Text("NO", "bold red")
    return Text("refused", "red")


def loops_table(loops: Sequence[LoopReport]) -> Table:
    table = Table(title="loops")
    for name in (
        "line",
        "ii",
        "resource bound",
        "recurrence bound",
        "its arithmetic alone",
        "the source's",
        "iterations in parallel",
        "unroll",
        "trip",
        "busiest",
    ):
        table.add_column(name, justify="right")
    for loop in loops:
        busiest = max(loop.resource_bounds, key=lambda pair: pair[1], default=("", 0))[0]
        table.add_row(
            str(loop.loc.line) if loop.loc else "",
            f"{loop.ii} ({_proof(loop)})",
            str(loop.res_mii),
            str(loop.rec_mii),
            str(loop.arithmetic_mii),
            str(loop.source_mii) if loop.source_mii is not None else "",
            str(loop.stages),
            str(loop.unroll),
            str(loop.trip) if loop.trip is not None else "unknown",
            busiest,
        )
    return table


def _proof(loop: LoopReport) -> str:
    if not loop.pipelined:
        return "not pipelined"
    return "proven optimal" if loop.optimal else f"{loop.bound} at least"


def busy_table(unit_busy: Mapping[str, float]) -> Table:
    table = Table(title="busy share of each unit")
    for name in unit_busy:
        table.add_column(name, justify="right")
    table.add_row(*(f"{share:.1%}" for share in unit_busy.values()))
    return table


def description_tables(description: Mapping[str, Any]) -> list[Table]:
    """`dspgen isa show`: one table for each part of the description that is a list of rows, one for the rest."""
    facts = Table("fact", "value", title=str(description.get("name", "")))
    tables = [facts]
    for key, value in description.items():
        rows = value if isinstance(value, list) else []
        if rows and all(isinstance(row, Mapping) for row in rows):
            columns = list(dict.fromkeys(name for row in rows for name in row))
            table = Table(*columns, title=key)
            for row in rows:
                table.add_row(*(Text(_words(row.get(c))) for c in columns))
            tables.append(table)
        else:
            facts.add_row(Text(key), Text(_words(value)))
    return tables


def stage_text(value: object, target: Target | None) -> str | None:
    """The program after a stage, as text; None for a stage whose result has no text."""
    match value:
        case str():
            return value
        case Func():
            return print_func(value)
        case For() | If() | Seq() | Leaf() | Do():
            return print_tree(value)
        case Program():
            return print_program(value)
        case nest.Scheduled():
            return print_scheduled(value)
        case Function() if target is not None:
            return emit_linear(value, target)
        case Scheduled() if target is not None:
            return print_lines(value.lines, target)
        case tuple():
            return "".join(f"{line}\n" for choice in value if isinstance(choice, Choice) for line in _choice(choice))
    return None


def _choice(choice: Choice) -> Iterator[str]:
    yield f"chosen: {choice.candidate.title}"
    for trial in choice.trials:
        outcome = f"{trial.cycles:.0f} cycles" if trial.cycles is not None else f"refused: {trial.refused}"
        yield f"  tried {trial.title}: estimated {trial.estimate:.0f}, {outcome}"


def _number(value: int | float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _format(value: float | None, how: str) -> str:
    return "-" if value is None else how.format(value)


def _words(value: Any) -> str:
    match value:
        case None:
            return ""
        case list() | tuple():
            return ", ".join(_words(v) for v in value)
        case Mapping():
            return ", ".join(f"{k} {_words(v)}" for k, v in value.items())
    return str(value)
