"""Everything that a user can ask for, in one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RewriteMode = Literal["off", "vector", "full"]
REWRITE_MODES: tuple[RewriteMode, ...] = ("off", "vector", "full")  # each with all rules of the ones before
SchedMode = Literal["dp", "list", "exact", "order"]
SCHED_MODES: tuple[SchedMode, ...] = ("dp", "list", "exact")  # those for users
Tiler = Literal["feedback", "model", "exhaustive", "evolve"]
TILERS: tuple[Tiler, ...] = ("feedback", "model", "exhaustive", "evolve")
Pack = Literal["gpat", "panels", "off"]
Data = Literal["onchip", "ddr"]
Runner = Literal["sim", "qemu"]
RUNNERS: tuple[Runner, ...] = ("sim", "qemu")
PACKS: tuple[Pack, ...] = ("gpat", "panels", "off")


@dataclass(frozen=True, slots=True)
class Options:
    """`defines` and `sets` are pairs of name and text, as given by -D and --set; `includes` are the folders of -I.

    `data`: arrays are on the chip, or the code moves them there and back ("ddr": on the command line the default for
    machines that can). `rewrite`: "off" selects instructions as a plain compiler does, "vector" leaves out rules that
    mention the scalar side. `tile` "one": a single vector of each statement in an iteration, no register tiles. Without
    `vectorize`: scalar code only. `sched`: "list" takes the first packets that list scheduling finds, "dp" searches for
    shorter ones, "exact" proves them the shortest where it can; "order" packs what is independent in the order of the
    program, loops as they are, for the benches to compare with. `tiler` tells which register tiles are compiled:
    "feedback" those that the model, corrected by what others took, expects to win; "model" its first that works;
    "exhaustive" all that it knows; "evolve" some of all, bred from the best. `pack`, on this computer: copied is
    what the analysis of `plant_core.schedule.packing` chooses, or the default schedule's own "panels", or nothing.
    """

    function: str | None = None
    defines: tuple[tuple[str, str], ...] = ()
    includes: tuple[str, ...] = ()
    sets: tuple[tuple[str, str], ...] = ()
    fp: Literal["strict", "reassoc"] = "reassoc"
    data: Data = "onchip"
    rewrite: RewriteMode = "full"
    tile: Literal["search", "one"] = "search"
    vectorize: bool = True
    pipeline: bool = True
    sched: SchedMode = "dp"
    tiler: Tiler = "feedback"
    pack: Pack = "gpat"
