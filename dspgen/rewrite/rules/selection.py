"""Which rules a region needs: those that can fire in it, and whose results the machine can do or other rules use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from dspgen.rewrite.cost.operation_costs import Machine
from dspgen.rewrite.graph.enodes import Node, TermGraph
from dspgen.rewrite.graph.patterns import Apply, Condition, parse_when
from dspgen.rewrite.rules.load_candidates import shapes_of
from dspgen.rewrite.rules.row import Rule
from dspgen.rewrite.rules.shapes import Shape, by_lanes, lane_rules, shape_rule
from dspgen.rewrite.rules.table import (
    RULES,
    FpMode,
    Instance,
    OpKey,
    RewriteMode,
    elems_of,
    instances_of,
    load_key,
    target_rules,
)
from dspgen.vecdsl.ir.program import NARROW, OPS

_MACHINES_KEPT = 4  # each as large as a megabyte with its rules; other results hold them as well
_CHOICES_KEPT = 64
_OPERATIONS_KEPT = 1024
_OPERATION = re.compile(r"\((\w+)\.")
_PARTS = ("cmul_re", "cmul_im")  # a machine may have them as one


def choose_rules(
    graph: TermGraph, machine: Machine, fp: FpMode, *, mode: RewriteMode, associate: bool = False
) -> tuple[Instance, ...]:
    """The rule instances to saturate with.

    Mode "off" is what a plain compiler's selection does: it replaces what the machine lacks, and contracts products and
    sums. "vector" has all rules that mention no value of the scalar side; "full" is all.
    """
    present = {_key(n) for n in graph.nodes}
    elems = tuple(sorted({n.elem for n in graph.nodes}))
    # With several elements in a lane there are few shuffles, and none that such rules could lead to.
    shapes = () if machine.target.packed > 1 and not machine.shuffles else shapes_of(graph, machine.lanes)
    return _chosen(machine, frozenset(present), elems, fp, mode, associate, shapes)


@lru_cache(maxsize=_CHOICES_KEPT)
def _chosen(
    machine: Machine,
    present: frozenset[OpKey],
    elems: tuple[str, ...],
    fp: FpMode,
    mode: RewriteMode,
    associate: bool,
    shapes: tuple[Shape, ...],
) -> tuple[Instance, ...]:
    shaped = tuple(map(_words, (shape_rule(s, machine.lanes) for s in shapes)))
    ops = {k[0] for k in present} | {f"ld.{k[2]}" for k in present if k[0] == "ld"}
    given = [w for w in (*_given(machine), *shaped) if not w.rule.start or not ops.isdisjoint(w.rule.start)]
    fitting = _readable(given, {k[0] for k in present} | _scalar_ops(machine, present))
    made = [i for rule in fitting for i in _instances(rule, elems, fp, machine.lanes)]
    found = [i for i in made if _wanted(i, machine, present, mode, associate=associate)]
    found += _by_lanes(found, machine, present, fp)
    reachable, seen = _reachable(found, present)
    return tuple(_useful(reachable, seen, machine))


def all_rules(machine: Machine) -> tuple[Rule, ...]:
    """The general rows, the ISA file's, and those over the machine's lanes."""
    return (*RULES, *target_rules(machine.target), *lane_rules(machine.lanes))


@dataclass(frozen=True, slots=True)
class _Words:
    """A rule, and the operations that its sides name: what tells without reading it that it can't fire."""

    rule: Rule
    left: frozenset[str]
    right: frozenset[str]


def _words(rule: Rule) -> _Words:
    left, right = (frozenset(_OPERATION.findall(side)) for side in (rule.left, rule.right))
    return _Words(rule, left, right)


@lru_cache(maxsize=_MACHINES_KEPT)
def _given(machine: Machine) -> tuple[_Words, ...]:
    """The rules that are for a machine like this."""
    return tuple(_words(rule) for rule in all_rules(machine) if _fits(rule, machine))


def _readable(given: Sequence[_Words], ops: Set[str]) -> list[Rule]:
    """The rules whose operations there may ever be in a region that has `ops`. A load is one whatever its stride."""
    there = {"ld" if op == "ld0" else op for op in ops}
    waiting, size = given, -1
    while size < len(there):
        size = len(there)
        still = []
        for words in waiting:
            if words.left <= there:
                there |= words.right
            else:
                still.append(words)
        waiting = still
    out = {id(words) for words in waiting}
    return [words.rule for words in given if id(words) not in out]


def _scalar_ops(machine: Machine, present: frozenset[OpKey]) -> set[str]:
    """The operations that rules by lanes make."""
    lacking = [(op, elem) for op, elem in _lane_wise(present) if not machine.has(op, elem, vector=True)]
    return {name for op, elem in lacking for name in _words(by_lanes(op, elem, machine.lanes)).right}


def _instances(rule: Rule, elems: tuple[str, ...], fp: FpMode, lanes: int) -> Iterator[Instance]:
    for elem in elems_of(rule, elems):
        yield from _instance(rule, elem, fp, lanes)


@lru_cache(maxsize=8192)
def _instance(rule: Rule, elem: str, fp: FpMode, lanes: int) -> tuple[Instance, ...]:
    return tuple(instances_of(rule, (elem,), fp, lanes))


def _key(node: Node) -> OpKey:
    if node.kind == "ld" and node.vector:
        return load_key(node.op, node.elem, node.stride)
    return ("const" if node.kind == "vec" else node.op, node.elem, node.stride, "v" if node.vector else "s")


def _fits(rule: Rule, machine: Machine) -> bool:
    """Whether the machine has what the rule is for."""
    if rule.dearer and not any(_gains(rule, machine, elem) for elem in ("i32", "f32", "f64")):
        return False
    return not rule.given or any(
        machine.has(op, elem, vector=True) for op in rule.given for elem in ("i32", "f32", "f64", *NARROW)
    )


def _gains(rule: Rule, machine: Machine, elem: str) -> bool:
    """Whether what the rule makes of vectors occupies less than the operations that it saves."""
    made = [machine.cycles(op, elem) for op in _PARTS if f"({op}." in rule.right]
    saved = [machine.cycles(op, elem) for op in rule.dearer]
    if None in made:
        made = [machine.cycles("cmul", elem)]
    if None in made:
        return False
    return None in saved or sum(c or 0 for c in made) < sum(c or 0 for c in saved)


def _by_lanes(found: Sequence[Instance], machine: Machine, present: frozenset[OpKey], fp: FpMode) -> list[Instance]:
    """Rules for vector operations of the region that the machine lacks, and that no other rule replaces."""
    replaced = {
        (node.op, i.elem if node.elem == "T" else node.elem)
        for i in found
        for node in i.typed.left[:1]
        if isinstance(node, Apply) and i.typed.roots[0].side != "s"
    }
    made: list[Instance] = []
    for op, elem in _lane_wise(present):
        if (op, elem) not in replaced and not machine.has(op, elem, vector=True):
            made += _instances(by_lanes(op, elem, machine.lanes), (elem,), fp, machine.lanes)
    return made


def _lane_wise(present: frozenset[OpKey]) -> list[tuple[str, str]]:
    """The operations of vectors that are done lane by lane, with their types."""
    return [(op, e) for op, e, _, side in sorted(present) if side == "v" and op in OPS and OPS[op].kind == "lane"]


def _matches(wanted: OpKey, have: OpKey) -> bool:
    """Whether an operation of a pattern may be that of a node (either may leave stride or side open)."""
    if wanted[:2] != have[:2] or (wanted[3] and have[3] and wanted[3] != have[3]):
        return False
    return not (wanted[2] and have[2] and wanted[2] != have[2])


@lru_cache(maxsize=_OPERATIONS_KEPT)
def _can(machine: Machine, key: OpKey) -> bool:
    op, elem, stride, side = key
    sides = [side == "v"] if side else [False, True]
    if op == "ld0":
        return machine.has_load("ld", 0, vector=True)
    if op.startswith("ld"):
        return any(machine.has_load(op, stride or 1, vector=v) for v in sides)
    return any(machine.has(op, elem, vector=v) for v in sides)


def _lacks(machine: Machine, key: OpKey, present: Iterable[OpKey]) -> bool:
    """Whether the machine lacks an operation on a side where the region may want it."""
    op, elem, stride, side = key
    if op in ("const", "var"):
        return False
    sides = [side] if side else sorted({k[3] for k in present})
    return not all(_can(machine, (op, elem, stride, s)) for s in sides)


def _has(machine: Machine, op: str, elem: str, side: str, present: Iterable[OpKey]) -> bool:
    """Whether the machine has an operation on the side, or on one of those that the region has."""
    sides = {side} if side else {k[3] for k in present}
    return any(_can(machine, (op, elem, 0, s)) for s in sides)


def _wanted(
    instance: Instance, machine: Machine, present: frozenset[OpKey], mode: RewriteMode, *, associate: bool
) -> bool:
    side = instance.typed.roots[0].side
    shown = side if side in ("s", "v") else ""
    if any(not _lacks(machine, (op, instance.elem, 0, shown), present) for op in instance.rule.unless):
        return False
    for name in instance.rule.only:
        op, _, elem = name.partition(".")
        if not _has(machine, op, elem or instance.elem, shown, present):
            return False
    gainful = mode == "full" or mode == "vector" and not _cooperates(instance)
    match instance.rule.use:
        case "optional":
            return associate and gainful
        case "gain":
            return gainful or "contract" in _condition(instance.rule.when).words
        case "both" if gainful:
            return True
        case _:
            return any(_lacks(machine, k, present) for k in instance.needs)


@lru_cache(maxsize=512)
def _condition(text: str) -> Condition:
    return parse_when(text)


def _cooperates(instance: Instance) -> bool:
    """Whether the rule mentions a value of the scalar side: a scalar load, what a broadcast spreads, a sum."""
    return any(kind.side == "s" for kind in instance.typed.kinds.values())


def _reachable(found: Sequence[Instance], present: frozenset[OpKey]) -> tuple[list[Instance], set[OpKey]]:
    """The rules that can fire, and all operations that there may then be."""
    seen = set(present)
    named: dict[tuple[str, str], list[OpKey]] = {}
    for key in present:
        named.setdefault(key[:2], []).append(key)
    fired: dict[int, None] = {}
    changed = True
    while changed:
        changed = False
        for index, instance in enumerate(found):
            if index not in fired and all(any(_matches(k, h) for h in named.get(k[:2], ())) for k in instance.needs):
                fired[index] = None
                for key in instance.makes - seen:
                    named.setdefault(key[:2], []).append(key)
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
