"""Which rules a region needs: those that can fire in it, and whose results the machine can do or other rules use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from dspgen.rewrite.graph import TermGraph
from dspgen.rewrite.machine import Machine
from dspgen.rewrite.rules import RULES, FpMode, Instance, OpKey, Rule, instances_of, lane_rules, target_rules


def choose_rules(
    graph: TermGraph, machine: Machine, fp: FpMode, *, rewrite: bool, associate: bool = False
) -> tuple[Instance, ...]:
    """The rule instances to saturate with. With `rewrite` off: those that replace what the machine lacks."""
    present = {_key(n.op, n.elem, n.stride if n.kind in ("ld", "ld_pair") else 0, n.vector) for n in graph.nodes}
    elems = tuple(sorted({n.elem for n in graph.nodes}))
    return _chosen(machine, frozenset(present), elems, fp, rewrite, associate)


@lru_cache(maxsize=256)
def _chosen(
    machine: Machine, present: frozenset[OpKey], elems: tuple[str, ...], fp: FpMode, rewrite: bool, associate: bool
) -> tuple[Instance, ...]:
    made = [i for rule in all_rules(machine) for i in _instances(rule, elems, fp, machine.lanes)]
    found = [i for i in made if _wanted(i, machine, present, rewrite=rewrite, associate=associate)]
    reachable, seen = _reachable(found, present)
    if not rewrite and not any(_lacks(machine, k, present) for k in present):
        return ()
    return tuple(_useful(reachable, seen, machine))


def all_rules(machine: Machine) -> tuple[Rule, ...]:
    """The general rows, the ISA file's, and those over the machine's lanes."""
    return (*RULES, *target_rules(machine.target), *lane_rules(machine.lanes))


@lru_cache(maxsize=4096)
def _instances(rule: Rule, elems: tuple[str, ...], fp: FpMode, lanes: int) -> tuple[Instance, ...]:
    return tuple(instances_of(rule, elems, fp, lanes))


def _key(op: str, elem: str, stride: int, vector: bool) -> OpKey:
    return (op, elem, stride, "v" if vector else "s")


def _matches(wanted: OpKey, have: OpKey) -> bool:
    """Whether an operation of a pattern may be that of a node (either may leave stride or side open)."""
    if wanted[:2] != have[:2] or (wanted[3] and have[3] and wanted[3] != have[3]):
        return False
    return not (wanted[2] and have[2] and wanted[2] != have[2])


def _can(machine: Machine, key: OpKey) -> bool:
    op, elem, stride, side = key
    sides = [side == "v"] if side else [False, True]
    if op in ("ld", "ld_pair"):
        return any(machine.has_load(op, stride or 1, vector=v) for v in sides)
    return any(machine.has(op, elem, vector=v) for v in sides)


def _lacks(machine: Machine, key: OpKey, present: Iterable[OpKey]) -> bool:
    """Whether the machine lacks an operation on a side where the region may want it."""
    op, elem, stride, side = key
    if op in ("const", "var"):
        return False
    sides = [side] if side else sorted({k[3] for k in present})
    return not all(_can(machine, (op, elem, stride, s)) for s in sides)


def _wanted(instance: Instance, machine: Machine, present: frozenset[OpKey], *, rewrite: bool, associate: bool) -> bool:
    side = instance.typed.roots[0].side
    shown = side if side in ("s", "v") else ""
    if any(not _lacks(machine, (op, instance.elem, 0, shown), present) for op in instance.rule.unless):
        return False
    match instance.rule.use:
        case "optional":
            return associate and rewrite
        case "gain":
            return rewrite
        case "both" if rewrite:
            return True
        case _:
            return any(_lacks(machine, k, present) for k in instance.needs)


def _reachable(found: Sequence[Instance], present: frozenset[OpKey]) -> tuple[list[Instance], set[OpKey]]:
    """The rules that can fire, and all operations that there may then be."""
    seen = set(present)
    fired: dict[int, None] = {}
    changed = True
    while changed:
        changed = False
        for index, instance in enumerate(found):
            if index not in fired and all(any(_matches(k, h) for h in seen) for k in instance.needs):
                fired[index] = None
                seen |= instance.makes
                changed = True
    return [found[i] for i in sorted(fired)], seen


def _useful(rules: Sequence[Instance], seen: set[OpKey], machine: Machine) -> list[Instance]:
    """Without rules that make an operation which neither the machine nor another rule takes up."""
    kept = list(rules)
    while True:
        by_op: dict[tuple[str, str], list[Instance]] = {}
        for i in kept:
            for k in i.needs:
                by_op.setdefault(k[:2], []).append(i)
        still = []
        for instance in kept:
            ok = True
            for made in instance.makes:
                if made in instance.needs or _can(machine, made):
                    continue
                others = (k for i in by_op.get(made[:2], ()) if i is not instance for k in i.needs)
                if not any(_matches(k, made) for k in others):
                    ok = False
                    break
            if ok:
                still.append(instance)
        if len(still) == len(kept):
            return still
        kept = still
