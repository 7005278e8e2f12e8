"""The rewrite rules, one named row each; `patterns` has the grammar of their text.

A row holds for scalars and vectors alike where its operations do, and for each element type in place of T. Conditions:
`int`, `float` or a type (what T may be); `vector`, `scalar` (the result); `reassoc` (not exact in floating point, up to
signed zeros and rounding; exact for integers); `contract` (one rounding where there were two, or the reverse);
`log2 ?c ?k` (?c is the constant 2**?k), `negated ?c ?d`, `inverse ?c ?r` (1/?c, exact), `reciprocal ?c ?r` (1/?c,
rounded), `short16 ?a` (always within 16 bits, signed), `short31 ?a` (within 31 bits), `flag ?a` (always 0 or 1),
`apart ?a ?b` (no bit is ever set in both), `low_bits ?c ?n` (?c is the constant of the ?n lowest bits),
`high_bits ?c ?k` (of all but the ?k lowest), `mid_bits ?c ?k ?n` (of ?n bits above the ?k lowest),
`several_bits ?c ?d ?e` (?c's lowest bits that are side by side are ?d, the others ?e),
`number ?a ?n` (the constant of value ?n, which integer expressions may use), `factor ?a` (a term of the program that is
not 0, 1 or -1), `reused ?a` (a factor that the loop around does not change, or of two subtracted products);
`signed_factor ?c ?m ?s`,
`unsigned_factor` (the high half of a product with ?m, shifted by ?s, is a quotient by ?c), `wide_signed_factor`,
`wide_unsigned_factor` (?m lacks its bit 32, and ?s is one less); and integer comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dspgen.rewrite.graph.patterns import (
    ELEMS,
    FLOATS,
    Apply,
    Condition,
    LoadPattern,
    RuleError,
    apply_nodes,
    parse_when,
)
from dspgen.rewrite.rules.arithmetic import ARITHMETIC
from dspgen.rewrite.rules.lanes import LANES
from dspgen.rewrite.rules.logic import LOGIC
from dspgen.rewrite.rules.memory import MEMORY
from dspgen.rewrite.rules.row import Rule
from dspgen.rewrite.rules.type_inference import Typed, infer, side_of
from dspgen.target.isa.model import Target
from dspgen.vecdsl.ir.program import NARROW, OPS

FpMode = Literal["strict", "reassoc"]
RewriteMode = Literal["off", "vector", "full"]


# Operations across lanes that are alike for any number of elements.
_PLACED_ALIKE = frozenset({"bcast", "lo", "hi", "pair", "zip", "unzip", "even", "odd", "zip_lo", "zip_hi"})

RULES: tuple[Rule, ...] = (*ARITHMETIC, *LANES, *MEMORY, *LOGIC)


def target_rules(target: Target) -> tuple[Rule, ...]:
    """The ISA file's own rows. They replace operations that the machine lacks."""
    return tuple(Rule(r.name, r.left, r.right, r.when, r.why, "both") for r in target.rewrites)


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One rule for one element type, compared by identity. `needs` and `makes` are its sides' operations."""

    rule: Rule
    elem: str
    typed: Typed
    needs: frozenset[OpKey]
    makes: frozenset[OpKey]


# Operation, element type, stride of a vector load (0: open, or no load), and "s", "v" or "" where the side is open.
# A load of one element on all lanes is "ld0".
OpKey = tuple[str, str, int, str]


def _key(node: Apply | LoadPattern, elem: str, typed: Typed, lanes: int) -> OpKey:
    own = elem if node.elem == "T" else node.elem
    side = typed.kind(node).side
    shown = side if side in ("s", "v") else ""
    if isinstance(node, Apply):
        return (node.op, own, 0, shown)
    if node.stride is None:
        return (node.op, own, 0, "s")
    if node.stride.terms:
        return (node.op, own, 0, "v")
    return load_key(node.op, own, node.stride.value(lanes, {}))


def load_key(op: str, elem: str, stride: int) -> OpKey:
    """The key of a vector load of known stride."""
    return ("ld0" if op == "ld" and stride == 0 else op, elem, stride, "v")


def allowed(condition: Condition, elem: str, fp: FpMode) -> bool:
    """Whether a rule may be used for element type `elem` under the floating-point mode."""
    is_float = elem in FLOATS
    for word in condition.words:
        match word:
            case "int" if is_float:
                return False
            case "float" if not is_float:
                return False
            case "reassoc" | "contract" if is_float and fp == "strict":
                return False
            case _ if word in ELEMS and word != elem:
                return False
            case _:
                pass
    return True


def instances_of(rule: Rule, elems: tuple[str, ...], fp: FpMode, lanes: int = 16) -> list[Instance]:
    """The rule for each element type that it may be used for."""
    try:
        condition = parse_when(rule.when)
        if not all(isinstance(p, Apply | LoadPattern) for p in side_of(rule.left, "left")):
            raise RuleError("the left side must be an operation")
        found = []
        for elem in elems_of(rule, elems):
            if not allowed(condition, elem, fp) or (elem in NARROW and ".T" in rule.left and not _of_elements(rule)):
                continue
            typed = infer(rule.left, rule.right, condition, elem)
            needs = frozenset(_key(n, elem, typed, lanes) for n in apply_nodes(typed.left))
            makes = frozenset(_key(n, elem, typed, lanes) for n in apply_nodes(typed.right))
            found.append(Instance(rule, elem, typed, needs, makes))
        return found
    except RuleError as error:
        raise RuleError(f"rewrite rule `{rule.name}`: {error}") from None


def _of_elements(rule: Rule) -> bool:
    """Whether a rule of any type holds for vectors of several elements a lane, too: where it tells nothing of places
    among lanes or in memory, nor names a type, such as that of conditions, which are as narrow as what they choose."""
    nodes = apply_nodes((*side_of(rule.left, "left"), *side_of(rule.right, "right")))
    return all(isinstance(n, Apply) and n.elem == "T" and _elementwise(n.op) for n in nodes)


def _elementwise(op: str) -> bool:
    return (OPS[op].kind in ("lane", "bits") and op not in ("div", "mod")) or op in _PLACED_ALIKE


def elems_of(rule: Rule, elems: tuple[str, ...]) -> tuple[str, ...]:
    """The types to try: all for a rule of T, else the one that its left side names."""
    if ".T" in rule.left:
        return elems
    concrete = [e for e in ELEMS if f".{e} " in rule.left or f".{e}." in rule.left or f".{e})" in rule.left]
    floats = [e for e in concrete if e in FLOATS]
    return tuple(floats[:1] or concrete[:1])


def check_rule(rule: Rule) -> str | None:
    """Why the rule's text is wrong, or None."""
    try:
        made = [i for elem in ("i32", "f32") for i in instances_of(rule, (elem,), "reassoc")]
    except RuleError as error:
        return str(error)
    return None if made else f"rewrite rule `{rule.name}`: its conditions exclude every type"
