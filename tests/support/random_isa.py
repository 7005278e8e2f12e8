"""Machines near those that there are: other figures, fewer registers, fewer instructions; drawn by Hypothesis.

A `Variation` tells what was changed, so that a machine can be made again from what a failing test prints.
"""

from __future__ import annotations

import copy
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from dspgen.target.build.target_builder import build_target
from dspgen.target.build.usability import findings
from dspgen.target.isa.model import Target
from dspgen.target.load import isa_names, isa_path, load_target
from dspgen.target.schema.structure import Fault, expand_names, structure
from tests.support.machinery import with_early_source, with_hardware_loops, with_new_stores

FOLDER = Path(__file__).parents[1] / "isa"
BASES = (*sorted(p.stem for p in FOLDER.glob("*.toml")), *isa_names())


@dataclass(frozen=True)
class Variation:
    """`figures` are dotted keys with values; `spare` are register classes, each with how many pairs of registers are
    left besides those that the file names; `without` are instructions taken away, and the macros that need them;
    `loops` are hardware loops: how many, the most iterations by a number, and the slots that beginning one takes.
    `early` operands are wanted before issue, where packets wait; `new`: stores may take what is just being made."""

    base: str
    figures: tuple[tuple[str, Any], ...] = ()
    spare: tuple[tuple[str, int], ...] = ()
    without: tuple[str, ...] = ()
    loops: tuple[int, int, int] = (0, 0, 1)
    early: tuple[tuple[str, str, int], ...] = ()
    new: bool = False


def path_of(base: str) -> Path:
    return isa_path(base) if base in isa_names() else FOLDER / f"{base}.toml"


@cache
def _raw(base: str) -> dict[str, Any]:
    return tomllib.loads(path_of(base).read_text(encoding="utf-8"))


@cache
def _target(base: str) -> Target:
    return load_target(str(path_of(base)))


def machine(variation: Variation) -> tuple[Target | None, list[Fault]]:
    """The machine, None where it isn't even legal, and all that `isa check` has to say of it."""
    raw = copy.deepcopy(_raw(variation.base))
    for key, value in variation.figures:
        *path, last = key.split(".")
        table = raw
        for word in path:
            table = table.setdefault(word, {})
        table[last] = value
    for name, count in variation.spare:
        raw["registers"][name]["names"] = _shortened(raw, name, count)
    words = {raw["instructions"].pop(row).get("mnemonic", row) for row in variation.without}
    words -= {row.get("mnemonic", name) for name, row in raw["instructions"].items()}
    for name, macro in list(raw.get("macros", {}).items()):
        if words & set(str(macro["body"] + macro.get("setup", [])).replace('"', " ").replace("'", " ").split()):
            del raw["macros"][name]
    if not raw["pipeline"]["exposed"]:
        for row, name, cycles in variation.early:
            with_early_source(raw, row, name, cycles)
    if variation.new:
        with_new_stores(raw)
    if variation.loops[0]:
        with_hardware_loops(raw, *variation.loops)
    isa = structure(raw)
    if isinstance(isa, list):
        return None, isa
    target, faults = build_target(isa, f"{variation.base}.toml")
    return (None, faults) if faults else (target, findings(target))


def _shortened(raw: dict[str, Any], name: str, spare: int) -> list[str]:
    """The registers of a class that the file names elsewhere, and `spare` pairs: all by pairs, as classes may have."""
    names = raw["registers"][name]["names"]
    all_names = expand_names([names] if isinstance(names, str) else names, {"lanes": raw["lanes"]})
    target = _target(raw["name"])
    abi, predicates = target.abi, target.predicates
    kept = {*abi.arguments, *abi.callee_saved, *abi.reserved, abi.result, *abi.return_address.split(":")}
    kept |= {abi.return_operand, abi.scalar_stack, abi.vector_stack, *predicates.scalar, *predicates.lane}
    pairs = [all_names[k : k + 2] for k in range(0, len(all_names), 2)]
    free = [pair for pair in pairs if not kept & {*pair}][:spare]
    return [register for pair in pairs if kept & {*pair} or pair in free for register in pair]


def variations() -> st.SearchStrategy[Variation]:
    """Any base; some of its figures drawn anew, some registers and some instructions taken away."""
    return st.integers(0, 2**40).map(lambda seed: varied(Random(seed)))


def varied(rng: Random) -> Variation:
    base = rng.choice(BASES)
    raw = _raw(base)
    units, rows = sorted(raw["units"]), sorted(raw["instructions"])
    without = rng.sample(rows, rng.choice((0, 0, 1, 2, 4)))
    figures: dict[str, Any] = {}
    if rng.random() < 0.5:
        figures["lanes"] = rng.choice((2, 4, 8, 16))
    if rng.random() < 0.5:
        delay, exposed = rng.randint(0, 8), rng.random() < 0.7
        figures["pipeline.exposed"], figures["pipeline.equals"] = exposed, exposed and rng.random() < 0.5
        figures["pipeline.branch_delay"] = delay
        figures["packets.minimum_ii"] = rng.choice((1, delay + 1))
    for unit in rng.sample(units, rng.randint(0, 2)):
        figures[f"units.{unit}.count"] = rng.randint(1, 4)
    if rng.random() < 0.4:
        figures["packets.issue"] = rng.randint(1, 11)
    if rng.random() < 0.3:
        limit = {"units": sorted(rng.sample(units, rng.randint(1, 3))), "most": rng.randint(1, 3)}
        figures["packets.limits.drawn"] = limit
    for key in ("increment", "decrement"):
        if rng.random() < 0.3:
            figures[f"address_modes.{key}"] = [1, rng.randint(1, 15)]
    if rng.random() < 0.3:
        figures["address_modes.update_latency"] = rng.randint(1, 3)
    for row in rng.sample(rows, rng.choice((0, len(rows) // 4, len(rows)))):
        if row not in without:
            figures |= _times(rng, row, "memory" in raw["instructions"][row])
    classes = [c for c in sorted(raw["registers"]) if "names" in raw["registers"][c]]
    plain = [c for c in classes if raw["registers"][c]["kind"] in ("scalar", "vector", "address", "offset")]
    spare = tuple((c, rng.randint(2, 24)) for c in rng.sample(plain, rng.randint(0, 2)))
    loops = (rng.choice((0, 1, 2)), rng.choice((3, 1000)), rng.choice((1, 2)))
    if base in isa_names():
        loops = (0, 0, 1)  # as its file has them
    sources = [
        (row, name) for row in rows if row not in without for name in raw["instructions"][row].get("operands", ())
    ]
    early = tuple((row, name, rng.randint(1, 2)) for row, name in rng.sample(sources, rng.randint(0, 12)))
    return Variation(base, tuple(figures.items()), spare, tuple(sorted(without)), loops, early, rng.random() < 0.3)


def _times(rng: Random, row: str, memory: bool) -> dict[str, Any]:
    """How long an instruction takes, and what it holds."""
    path = f"instructions.{row}"
    found: dict[str, Any] = {f"{path}.latency": rng.randint(1, 9)}
    if rng.random() < 0.1:
        found[f"{path}.resources"] = [{"name": rng.choice(("port", "bus"))}]
    if rng.random() < 0.1:
        found[f"{path}.busy"] = 2
    if memory and rng.random() < 0.3:
        found[f"{path}.memory.store_latency"] = rng.randint(1, 3)
    return found
