"""Wrong variants of rewrite rules: one operand, operation, number, place, lane or condition changed."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dspgen.rewrite.graph.patterns import Apply, LoadPattern, Pattern, RuleError, apply_nodes
from dspgen.rewrite.rules.row import Rule
from dspgen.rewrite.rules.table import Instance, instances_of
from dspgen.vecdsl.ir.program import OPS
from dspgen.vecdsl.ir.semantics import IEEE
from tests.support.rule_samples import LANES, Sample, as_bits, differs, same

_SIBLINGS = (
    ("add", "sub", "mul", "min", "max", "and", "or", "xor"),
    ("mac", "msub", "nmac"),
    ("lt", "le", "gt", "ge", "eq", "ne"),
    ("lo", "hi"),
    ("even", "odd", "zip_lo", "zip_hi"),
    ("cmul_re", "cmul_im"),
    ("shl", "shr", "shru"),
    ("sext8", "sext16", "zext8", "zext16"),
    ("sat8", "sat16", "satu8", "satu16"),
    ("reduce_add", "reduce_min", "reduce_max", "reduce_mul"),
    ("add_sat", "sub_sat"),
)
_COMMUTATIVE = frozenset(
    "add mul min max and or xor mac msub nmac mul16 mac16 eq ne add_sat cmul cmul_re cmul_im cmac".split()
)
_NUMBER = re.compile(r"(?<![\w?.\[,*])(-?\d+)(?=[\s)])")
_IMMEDIATE = re.compile(r"(?<=\.)(\d+)(?=[.\s])")


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Each with what was done to it. Some are no rules at all, some mean the same."""
    right = rule.right
    for group in _SIBLINGS:
        for op, other in itertools.permutations(group, 2):
            for at in re.finditer(rf"\({op}\.", right):
                yield f"{op} to {other}", replace(rule, right=f"{right[: at.start()]}({other}.{right[at.end() :]}")
    for at in re.finditer(r"(\?\w+) (\?\w+)", right):
        if at[1] != at[2]:
            swapped = f"{right[: at.start()]}{at[2]} {at[1]}{right[at.end() :]}"
            yield f"{at[1]} and {at[2]} swapped", replace(rule, right=swapped)
    for pattern in (_NUMBER, _IMMEDIATE):
        for at in pattern.finditer(right):
            changed = f"{right[: at.start()]}{int(at[1]) + 1}{right[at.end() :]}"
            yield f"{at[1]} plus 1", replace(rule, right=changed)
    for at in re.finditer(r"\[([\d,-]+)\]", right):
        lanes = [int(k) for k in at[1].split(",")]
        lanes[0], lanes[-1] = lanes[-1], lanes[0]
        text = f"{right[: at.start()]}[{','.join(map(str, lanes))}]{right[at.end() :]}"
        yield "lanes swapped", replace(rule, right=text)
    for at in re.finditer(r"\(ld[\w]*\.T \?m (\S+?)(?=[\s)])", right):
        yield "place plus 1", replace(rule, right=f"{right[: at.end()]}+1{right[at.end() :]}")
    items = [w.strip() for w in rule.when.split(",") if w.strip()]
    for item in (w for w in items if w.split()[0] not in ("factor", "vector", "scalar")):  # these tell what is worth it
        kept = ", ".join(w for w in items if w != item)
        yield f"without `{item}`", replace(rule, when=kept)


def tried(rule: Rule) -> list[Instance]:
    """The rule's instances, none where it is no rule."""
    try:
        return instances_of(rule, ("i32", "f32"), "reassoc", LANES)
    except (RuleError, KeyError):
        return []


def caught(rule: Rule, trials: int) -> bool | None:
    """Whether the soundness test sees that the rule is wrong; None where there is nothing to try."""
    found = tried(rule)
    if not found:
        return None
    for instance in found:
        try:
            if differs(instance, trials) is not None:
                return True
        except (AssertionError, ValueError, IndexError, KeyError, TypeError):
            return True  # no value at all, or one of the wrong shape
    return False


_SMALL = (0, 1, -1, 2, -2, 3, 2**31 - 1, -(2**31), 2**30, 65535, -32768, 32768)
_REALS = (0.0, 1.0, -1.0, 0.5, 2.0, -3.5, 7.25)


def proved(mutant: Rule, original: Rule) -> bool:
    """Whether the mutant is right: the original up to the order of operands, or equal on every choice of values.

    The choices are small and extreme values for up to three names, of operations that work on each lane alone.
    """
    made = tried(mutant)
    if mutant.when == original.when and all(
        _ordered(x) == _ordered(y)
        for new, old in zip(made, tried(original), strict=False)
        for x, y in zip(new.typed.right, old.typed.right, strict=True)
    ):
        return True
    return all(_agrees(i) for i in made)


def _ordered(pattern: Pattern) -> str:
    """The pattern with the operands of commutative operations in a fixed order."""
    match pattern:
        case Apply(op=op):
            args = [_ordered(a) for a in pattern.args]
            count = 2 if op in _COMMUTATIVE else 0
            return f"({op} {pattern.elem} {pattern.imm} {sorted(args[:count]) + args[count:]})"
        case LoadPattern():
            return f"({replace(pattern, args=())} {[_ordered(a) for a in pattern.args]})"
        case _:
            return str(pattern)


def _agrees(instance: Instance) -> bool:
    nodes = apply_nodes((*instance.typed.left, *instance.typed.right))
    holes = [n for n, _ in instance.typed.holes]
    plain = all(isinstance(n, Apply) and OPS[n.op].kind in ("lane", "bits") for n in nodes)
    if not plain or instance.typed.relations or len(holes) > 3:
        return False
    kinds = dict(instance.typed.holes)
    domains = [_REALS if (kinds[h].elem or instance.elem) in ("f32", "f64") else _SMALL for h in holes]
    if any(n.op in ("div", "mod") for n in nodes):
        domains = [tuple(v for v in d if v) for d in domains]
    tuples = list(itertools.product(*domains))
    sample = Sample(instance, IEEE, random.Random(1), gentle=False, lanes=len(tuples))
    sample.sides = dict.fromkeys(sample.sides, "v")
    for h, column in zip(holes, zip(*tuples, strict=True), strict=True):
        sample.values[h] = np.array(column).astype(sample.values[h].dtype)
    for left, right in zip(instance.typed.left, instance.typed.right, strict=False):
        x, y = sample.evaluate(left), sample.evaluate(right)
        if not same(x, as_bits(y, instance.elem) if isinstance(x, np.ndarray) else y, tolerant=False):
            return False
    return True


@dataclass(frozen=True)
class Campaign:
    """How many mutants there were, how many the soundness test saw, and those that are right or that it missed."""

    caught: int
    right: int
    missed: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of the wrong ones, those that were seen."""
        return self.caught / (self.caught + len(self.missed))


def campaign(rules: Iterable[Rule], trials: int) -> Campaign:
    seen = right = 0
    missed = []
    for rule in rules:
        for what, mutant in mutants(rule):
            found = caught(mutant, trials)
            if found:
                seen += 1
            elif found is not None and proved(mutant, rule):
                right += 1
            elif found is not None:
                missed.append(f"{rule.name}: {what}")
    return Campaign(seen, right, tuple(missed))
