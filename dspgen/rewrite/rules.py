"""The rewrite rules, one named row each; `patterns` has the grammar of their text.

A row holds for scalars and vectors alike where its operations do, and for each element type in place of T. Conditions:
`int`, `float` or a type (what T may be); `vector`, `scalar` (the result); `reassoc` (not exact in floating point, up to
signed zeros and rounding; exact for integers); `contract` (one rounding where there were two, or the reverse);
`log2 ?c ?k` (?c is the constant 2**?k), `negated ?c ?d`, `inverse ?c ?r` (1/?c, exact), `reciprocal ?c ?r` (1/?c,
rounded), `short16 ?a` (always within 16 bits, signed); and integer comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dspgen.rewrite.patterns import (
    ELEMS,
    FLOATS,
    Apply,
    Condition,
    LoadPattern,
    RuleError,
    Typed,
    apply_nodes,
    infer,
    parse_side,
    parse_when,
)
from dspgen.target.model import Target

FpMode = Literal["strict", "reassoc"]


@dataclass(frozen=True, slots=True)
class Rule:
    """`use`: "gain" may make code cheaper; "lowering" replaces what the machine lacks, and is used only then; "both"
    is either; "optional" is used on request. A row is not used where the machine has one of the operations `unless`:
    other rows do the same with fewer terms."""

    name: str
    left: str
    right: str
    when: str = ""
    why: str = ""
    use: Literal["gain", "lowering", "both", "optional"] = "gain"
    unless: tuple[str, ...] = ()


def _row(name: str, left: str, right: str, when: str = "", why: str = "") -> Rule:
    return Rule(name, left, right, when, why)


def _lower(name: str, left: str, right: str, when: str = "", why: str = "", unless: tuple[str, ...] = ()) -> Rule:
    return Rule(name, left, right, when, why, "lowering", unless)


def _both(name: str, left: str, right: str, when: str = "", why: str = "", unless: tuple[str, ...] = ()) -> Rule:
    return Rule(name, left, right, when, why, "both", unless)


_MULTIPLY_ADD = (
    _row("mac", "(add.T (mul.T ?a ?b) ?c)", "(mac.T ?a ?b ?c)", "contract", "one operation for two"),
    _row("mac-swapped", "(add.T ?c (mul.T ?a ?b))", "(mac.T ?a ?b ?c)", "contract", "one operation for two"),
    _row("msub", "(sub.T (mul.T ?a ?b) ?c)", "(msub.T ?a ?b ?c)", "contract", "one operation for two"),
    _row("nmac", "(sub.T ?c (mul.T ?a ?b))", "(nmac.T ?a ?b ?c)", "contract", "one operation for two"),
    _row("mac-of-neg", "(add.T ?c (neg.T (mul.T ?a ?b)))", "(nmac.T ?a ?b ?c)", "contract", "absorbs the sign"),
    _row("nmac-of-neg", "(mac.T (neg.T ?a) ?b ?c)", "(nmac.T ?a ?b ?c)", "", "absorbs the sign"),
    _both("add-as-mac", "(add.T ?a ?b)", "(mac.T ?a 1 ?b)", "", "more units multiply and add than only add"),
    _both("sub-as-msub", "(sub.T ?a ?b)", "(msub.T ?a 1 ?b)", "", "as add-as-mac"),
    _both("sub-as-nmac", "(sub.T ?a ?b)", "(nmac.T ?b 1 ?a)", "", "as add-as-mac", unless=("msub",)),
    _both("sub-as-mac", "(sub.T ?a ?b)", "(mac.T ?b -1 ?a)", "", "as add-as-mac", unless=("msub", "nmac")),
    _both(
        "nmac-as-mac",
        "(nmac.T ?a ?b ?c)",
        "(mac.T (neg.T ?a) ?b ?c)",
        "",
        "free where ?a does not change",
        unless=("nmac",),
    ),
    _both(
        "nmac-as-mac-second", "(nmac.T ?a ?b ?c)", "(mac.T ?a (neg.T ?b) ?c)", "", "as nmac-as-mac", unless=("nmac",)
    ),
    _lower(
        "nmac-as-msub",
        "(nmac.T ?a ?b ?c)",
        "(neg.T (msub.T ?a ?b ?c))",
        "reassoc",
        "signs of zeros differ",
        unless=("mac",),
    ),
    _both(
        "msub-as-mac",
        "(msub.T ?a ?b ?c)",
        "(mac.T ?a ?b (neg.T ?c))",
        "",
        "free where ?c does not change",
        unless=("msub",),
    ),
    _lower("mac-apart", "(mac.T ?a ?b ?c)", "(add.T (mul.T ?a ?b) ?c)", "contract"),
    _lower("msub-apart", "(msub.T ?a ?b ?c)", "(sub.T (mul.T ?a ?b) ?c)", "contract", unless=("mac",)),
    _lower("nmac-apart", "(nmac.T ?a ?b ?c)", "(sub.T ?c (mul.T ?a ?b))", "contract", unless=("mac", "msub")),
    _lower("mul-as-mac", "(mul.T ?a ?b)", "(mac.T ?a ?b 0)", "reassoc", "a zero's sign may differ"),
    _both("mac16", "(mac.i32 ?a ?b ?c)", "(mac16.i32 ?a ?b ?c)", "short16 ?a, short16 ?b"),
    _both("mac16-of-mul", "(mul.i32 ?a ?b)", "(mac16.i32 ?a ?b 0)", "short16 ?a, short16 ?b"),
)

_SIGNS = (
    _row("mul-minus-one", "(mul.T ?a -1)", "(neg.T ?a)"),
    _row("neg-neg", "(neg.T (neg.T ?a))", "?a"),
    _row("mul-neg-neg", "(mul.T (neg.T ?a) (neg.T ?b))", "(mul.T ?a ?b)"),
    _row("sub-neg", "(sub.T ?a (neg.T ?b))", "(add.T ?a ?b)"),
    _row("add-neg", "(add.T ?a (neg.T ?b))", "(sub.T ?a ?b)"),
    _lower("sub-as-add", "(sub.T ?a ?b)", "(add.T ?a (neg.T ?b))"),
    _row("neg-sub", "(neg.T (sub.T ?a ?b))", "(sub.T ?b ?a)", "reassoc", "the sign of zero differs"),
    _row("nmac-constant", "(nmac.T ?a ?k ?c)", "(mac.T ?a ?n ?c)", "negated ?k ?n", "the sign goes into the constant"),
    _row("mul-neg-constant", "(neg.T (mul.T ?a ?k))", "(mul.T ?a ?n)", "negated ?k ?n"),
    _lower("neg-as-mul", "(neg.T ?a)", "(mul.T ?a -1)"),
    _lower("neg-as-sub", "(neg.T ?a)", "(sub.T 0 ?a)", "reassoc", "0 - 0 is +0"),
    _lower("neg-as-xor", "(neg.f32 ?a)", "(xor.i32 ?a -2147483648)", "", "flips the sign bit"),
    _lower("neg-as-xor-double", "(neg.f64 ?a)", "(xor.i64 ?a -9223372036854775808)", "", "flips the sign bit"),
    _both("abs-as-and", "(abs.f32 ?a)", "(and.i32 ?a 2147483647)", "", "clears the sign bit"),
    _both("abs-as-and-double", "(abs.f64 ?a)", "(and.i64 ?a 9223372036854775807)", "", "clears the sign bit"),
    _lower("abs-as-max", "(abs.T ?a)", "(max.T ?a (neg.T ?a))", "reassoc", unless=("abs",)),
    _lower("abs-as-select", "(abs.T ?a)", "(select.T (lt.T ?a 0) (neg.T ?a) ?a)", "reassoc"),
    _row("abs-neg", "(abs.T (neg.T ?a))", "(abs.T ?a)"),
    _row("select-abs", "(select.T (lt.T ?a 0) (neg.T ?a) ?a)", "(abs.T ?a)", "reassoc"),
    _row("max-neg-abs", "(max.T ?a (neg.T ?a))", "(abs.T ?a)", "reassoc"),
)

_UNITS_OF_ARITHMETIC = (
    _row("mul-one", "(mul.T ?a 1)", "?a"),
    _row("mul-one-swapped", "(mul.T 1 ?a)", "?a"),
    _row("add-zero", "(add.T ?a 0)", "?a", "reassoc", "-0 + 0 is +0"),
    _row("add-zero-swapped", "(add.T 0 ?a)", "?a", "reassoc", "-0 + 0 is +0"),
    _row("sub-zero", "(sub.T ?a 0)", "?a"),
    _row("mac-zero", "(mac.T ?a ?b 0)", "(mul.T ?a ?b)", "reassoc", "a zero's sign may differ"),
    _row("mac-one", "(mac.T ?a 1 ?b)", "(add.T ?a ?b)"),
    _row("mac-one-swapped", "(mac.T 1 ?a ?b)", "(add.T ?a ?b)"),
    _row("mul-zero", "(mul.T ?a 0)", "0", "int"),
    _row("shl-zero", "(shl.T ?a 0)", "?a", "int"),
    _row("shr-zero", "(shr.T ?a 0)", "?a", "int"),
    _row("min-same", "(min.T ?a ?a)", "?a"),
    _row("max-same", "(max.T ?a ?a)", "?a"),
    _row("select-same", "(select.T ?c ?a ?a)", "?a"),
    _row("mov", "(mov.T ?a)", "?a"),
)

_FACTORS = (
    _row("factor-left", "(add.T (mul.T ?a ?b) (mul.T ?a ?c))", "(mul.T ?a (add.T ?b ?c))", "reassoc", "less work"),
    _row("factor-right", "(add.T (mul.T ?b ?a) (mul.T ?c ?a))", "(mul.T (add.T ?b ?c) ?a)", "reassoc", "less work"),
    _row("factor-outer", "(add.T (mul.T ?a ?b) (mul.T ?c ?a))", "(mul.T ?a (add.T ?b ?c))", "reassoc"),
    _row("factor-inner", "(add.T (mul.T ?b ?a) (mul.T ?a ?c))", "(mul.T ?a (add.T ?b ?c))", "reassoc"),
    _row("factor-sub-left", "(sub.T (mul.T ?a ?b) (mul.T ?a ?c))", "(mul.T ?a (sub.T ?b ?c))", "reassoc"),
    _row("factor-sub-right", "(sub.T (mul.T ?b ?a) (mul.T ?c ?a))", "(mul.T (sub.T ?b ?c) ?a)", "reassoc"),
    *(_row(f"factor-mac-{n}", f"(add.T {x} {y})", made, "reassoc", "as the others, further down a sum")
      for n, x, y, made in (
          ("left", "(mul.T ?a ?b)", "(mac.T ?a ?c ?d)", "(mac.T ?a (add.T ?b ?c) ?d)"),
          ("left-swapped", "(mac.T ?a ?c ?d)", "(mul.T ?a ?b)", "(mac.T ?a (add.T ?c ?b) ?d)"),
          ("right", "(mul.T ?b ?a)", "(mac.T ?c ?a ?d)", "(mac.T (add.T ?b ?c) ?a ?d)"),
          ("right-swapped", "(mac.T ?c ?a ?d)", "(mul.T ?b ?a)", "(mac.T (add.T ?c ?b) ?a ?d)"),
      )),
    Rule("associate-left", "(add.T ?a (add.T ?b ?c))", "(add.T (add.T ?a ?b) ?c)", "reassoc", use="optional"),
    Rule("associate-right", "(add.T (add.T ?a ?b) ?c)", "(add.T ?a (add.T ?b ?c))", "reassoc", use="optional"),
)  # fmt: skip

_BROADCASTS = (
    *(_row(f"bcast-out-{op}", f"({op}.T (bcast.T ?a) (bcast.T ?b))", f"(bcast.T ({op}.T ?a ?b))")
      for op in ("add", "sub", "mul", "min", "max")),
    *(_row(f"bcast-in-{op}", f"(bcast.T ({op}.T ?a ?b))", f"({op}.T (bcast.T ?a) (bcast.T ?b))")
      for op in ("add", "sub", "mul", "min", "max")),
    _row("bcast-out-neg", "(neg.T (bcast.T ?a))", "(bcast.T (neg.T ?a))"),
    _row("bcast-in-neg", "(bcast.T (neg.T ?a))", "(neg.T (bcast.T ?a))"),
    _row("bcast-out-mac", "(mac.T (bcast.T ?a) (bcast.T ?b) (bcast.T ?c))", "(bcast.T (mac.T ?a ?b ?c))"),
    _row("bcast-in-mac", "(bcast.T (mac.T ?a ?b ?c))", "(mac.T (bcast.T ?a) (bcast.T ?b) (bcast.T ?c))"),
    _row("bcast-load-as-dup", "(bcast.T (ld.T ?m ?c)) (ld.T ?m ?d 1)", "(dup_lane.T.?k (ld.T ?m ?d 1))",
         "?k = ?c-?d, ?k >= 0, ?k < lanes", "the vector side reads and spreads the scalar"),
    _both("dup-as-bcast-load", "(dup_lane.T.?k (ld.T ?m ?d 1))", "(bcast.T (ld.T ?m ?d+?k))"),
    _both("dup-as-bcast-lane", "(dup_lane.T.?k ?a)", "(bcast.T (lane.T.?k ?a))"),
    _both("bcast-lane-as-dup", "(bcast.T (lane.T.?k ?a))", "(dup_lane.T.?k ?a)"),
    _both("lane-of-load", "(lane.T.?k (ld.T ?m ?c 1))", "(ld.T ?m ?c+?k)"),
    _row("lane-of-bcast", "(lane.T.?k (bcast.T ?a))", "?a"),
    _row("dup-of-bcast", "(dup_lane.T.?k (bcast.T ?a))", "(bcast.T ?a)"),
    _row("reverse-of-bcast", "(reverse.T (bcast.T ?a))", "(bcast.T ?a)"),
    _row("reverse-reverse", "(reverse.T (reverse.T ?a))", "?a"),
)  # fmt: skip

_LOADS = (
    _both("pair-scalar", "(ld.T ?m ?c) (ld.T ?m ?c+1)", "(lo.T (ld_pair.T ?m ?c)) (hi.T (ld_pair.T ?m ?c))", "",
         "one access for two"),
    _both("pair-vector", "(ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1)", "(lo.T (ld_pair.T ?m ?c 1)) (hi.T (ld_pair.T ?m ?c 1))",
         "", "one access for two"),
    *(_both(f"pair-stride-{s}", f"(ld.T ?m ?c {s}) (ld.T ?m ?c+1 {s})",
           f"(lo.T (ld_pair.T ?m ?c {s})) (hi.T (ld_pair.T ?m ?c {s}))", "", "the access that deals out its elements")
      for s in (2, 4)),
    _row("pair-broadcast", "(bcast.T (lo.T ?p)) (bcast.T (hi.T ?p))",
         "(lo.T (bcast_pair.T ?p)) (hi.T (bcast_pair.T ?p))", "", "one broadcast for two"),
    _row("lo-pair", "(lo.T (pair.T ?a ?b))", "?a"),
    _row("hi-pair", "(hi.T (pair.T ?a ?b))", "?b"),
    _both("load-as-align", "(ld.T ?m ?c 1) (ld.T ?m ?d 1) (ld.T ?m ?d+lanes 1)",
         "(align.T.?k (ld.T ?m ?d 1) (ld.T ?m ?d+lanes 1))", "?k = ?c-?d, ?k > 0, ?k < lanes",
         "a window over two loads"),
    _both("align-as-load", "(align.T.?k (ld.T ?m ?d 1) (ld.T ?m ?d+lanes 1))", "(ld.T ?m ?d+?k 1)"),
    _both("load-as-even", "(ld.T ?m ?c 2) (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1)",
         "(even.T (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1))"),
    _both("load-as-odd", "(ld.T ?m ?c+1 2) (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1)",
         "(odd.T (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1))"),
    _both("even-as-load", "(even.T (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1))", "(ld.T ?m ?c 2)"),
    _both("odd-as-load", "(odd.T (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1))", "(ld.T ?m ?c+1 2)"),
    _lower("load-as-reverse", "(ld.T ?m ?c -1)", "(reverse.T (ld.T ?m ?c-lanes+1 1))"),
    _both("reverse-as-load", "(reverse.T (ld.T ?m ?c 1))", "(ld.T ?m ?c+lanes-1 -1)"),
)  # fmt: skip

_REDUCTIONS = (
    _row("reduce-merge", "(add.T (reduce_add.T ?a) (reduce_add.T ?b))", "(reduce_add.T (add.T ?a ?b))", "reassoc",
         "one reduction less"),
    _row("reduce-merge-sub", "(sub.T (reduce_add.T ?a) (reduce_add.T ?b))", "(reduce_add.T (sub.T ?a ?b))", "reassoc"),
    _row("reduce-merge-left", "(add.T (add.T ?c (reduce_add.T ?a)) (reduce_add.T ?b))",
         "(add.T ?c (reduce_add.T (add.T ?a ?b)))", "reassoc"),
    _row("reduce-merge-right", "(add.T (reduce_add.T ?a) (add.T (reduce_add.T ?b) ?c))",
         "(add.T (reduce_add.T (add.T ?a ?b)) ?c)", "reassoc"),
    _row("reduce-merge-min", "(min.T (reduce_min.T ?a) (reduce_min.T ?b))", "(reduce_min.T (min.T ?a ?b))", "reassoc"),
    _row("reduce-merge-max", "(max.T (reduce_max.T ?a) (reduce_max.T ?b))", "(reduce_max.T (max.T ?a ?b))", "reassoc"),
    _row("reduce-scale-left", "(reduce_add.T (mul.T (bcast.T ?s) ?a))", "(mul.T ?s (reduce_add.T ?a))", "reassoc"),
    _row("reduce-scale-right", "(reduce_add.T (mul.T ?a (bcast.T ?s)))", "(mul.T (reduce_add.T ?a) ?s)", "reassoc"),
    _row("reduce-neg", "(reduce_add.T (neg.T ?a))", "(neg.T (reduce_add.T ?a))", "reassoc"),
)  # fmt: skip

_COMPARISONS = (
    _lower("gt-as-lt", "(gt.T ?a ?b)", "(lt.T ?b ?a)"),
    _lower("lt-as-gt", "(lt.T ?a ?b)", "(gt.T ?b ?a)"),
    _lower("ge-as-le", "(ge.T ?a ?b)", "(le.T ?b ?a)"),
    _lower("le-as-ge", "(le.T ?a ?b)", "(ge.T ?b ?a)"),
    _lower("le-as-not-lt", "(le.T ?a ?b)", "(eq.i32 (lt.T ?b ?a) 0)", "int", "for floats, NaN forbids it"),
    _lower("le-as-xor-lt", "(le.T ?a ?b)", "(xor.i32 (lt.T ?b ?a) 1)", "int", "for floats, NaN forbids it"),
    _lower("le-as-or", "(le.T ?a ?b)", "(or.i32 (lt.T ?a ?b) (eq.T ?a ?b))"),
    _lower("ne-as-eq-zero", "(ne.T ?a ?b)", "(eq.i32 (eq.T ?a ?b) 0)"),
    _lower("ne-as-xor-eq", "(ne.T ?a ?b)", "(xor.i32 (eq.T ?a ?b) 1)"),
    _lower("ltu-as-lt", "(ltu.i32 ?a ?b)", "(lt.i32 (xor.i32 ?a -2147483648) (xor.i32 ?b -2147483648))"),
    _row("select-not", "(select.T (eq.i32 ?c 0) ?a ?b)", "(select.T ?c ?b ?a)"),
    _row("select-nonzero", "(select.T (ne.i32 ?c 0) ?a ?b)", "(select.T ?c ?a ?b)"),
    _row("select-min", "(select.T (lt.T ?a ?b) ?a ?b)", "(min.T ?a ?b)", "reassoc"),
    _row("select-max", "(select.T (lt.T ?a ?b) ?b ?a)", "(max.T ?a ?b)", "reassoc"),
    _row("select-min-le", "(select.T (le.T ?a ?b) ?a ?b)", "(min.T ?a ?b)", "reassoc"),
    _row("select-max-le", "(select.T (le.T ?a ?b) ?b ?a)", "(max.T ?a ?b)", "reassoc"),
    _lower("min-as-select", "(min.T ?a ?b)", "(select.T (lt.T ?a ?b) ?a ?b)", "reassoc"),
    _lower("max-as-select", "(max.T ?a ?b)", "(select.T (lt.T ?b ?a) ?a ?b)", "reassoc"),
    _lower("min-of-numbers", "(min.T ?a ?b)", "(select.T (lt.T ?a ?b) ?a (select.T (eq.T ?b ?b) ?b ?a))", "float",
           "the other operand where one is not a number"),
    _lower("max-of-numbers", "(max.T ?a ?b)", "(select.T (lt.T ?b ?a) ?a (select.T (eq.T ?b ?b) ?b ?a))", "float",
           "the other operand where one is not a number"),
    _lower("max-by-sign", "(max.T ?a ?b)", "(neg.T (min.T (neg.T ?a) (neg.T ?b)))", "float", unless=("lt",)),
    _lower("min-by-sign", "(min.T ?a ?b)", "(neg.T (max.T (neg.T ?a) (neg.T ?b)))", "float", unless=("lt",)),
)  # fmt: skip

_BITS = (
    _both("mul-as-shl", "(mul.T ?a ?c)", "(shl.T ?a ?k)", "int, log2 ?c ?k"),
    _both("mul-as-shl-swapped", "(mul.T ?c ?a)", "(shl.T ?a ?k)", "int, log2 ?c ?k"),
    _lower("shl-as-mul", "(shl.T ?a ?k)", "(mul.T ?a ?c)", "int, log2 ?c ?k"),
    _row("double-as-shl", "(add.T ?a ?a)", "(shl.T ?a 1)", "int"),
    _lower("shl-as-double", "(shl.T ?a 1)", "(add.T ?a ?a)", "int"),
    _both("div-as-shr", "(div.i32 ?a ?c)",
          "(shr.i32 (add.i32 ?a (shru.i32 (shr.i32 ?a 31) (sub.i32 32 ?k))) ?k)", "log2 ?c ?k",
          "C rounds toward zero"),
    _lower("mod-apart", "(mod.T ?a ?b)", "(sub.T ?a (mul.T (div.T ?a ?b) ?b))", "int"),
    _lower("not-as-xor", "(not.T ?a)", "(xor.T ?a -1)", "int"),
    _lower("not-as-sub", "(not.T ?a)", "(sub.T -1 ?a)", "int"),
    _lower("sext16-as-shifts", "(sext16.i32 ?a)", "(shr.i32 (shl.i32 ?a 16) 16)"),
    _lower("sext8-as-shifts", "(sext8.i32 ?a)", "(shr.i32 (shl.i32 ?a 24) 24)"),
    _row("shifts-as-sext16", "(shr.i32 (shl.i32 ?a 16) 16)", "(sext16.i32 ?a)"),
    _lower("zext16-as-and", "(zext16.i32 ?a)", "(and.i32 ?a 65535)"),
    _lower("zext8-as-and", "(zext8.i32 ?a)", "(and.i32 ?a 255)"),
    _row("sext16-of-short", "(sext16.i32 ?a)", "?a", "short16 ?a"),
)  # fmt: skip

_DIVISION = (
    _row("div-by-power", "(div.T ?a ?c)", "(mul.T ?a ?r)", "float, inverse ?c ?r", "exact: ?c is a power of two"),
    _row("div-by-constant", "(div.T ?a ?c)", "(mul.T ?a ?r)", "float, reassoc, reciprocal ?c ?r"),
    _both("div-as-reciprocal", "(div.T ?a ?b)", "(mul.T ?a (div.T 1 ?b))", "float, reassoc",
           "one division for many by the same divisor"),
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    *_MULTIPLY_ADD, *_SIGNS, *_UNITS_OF_ARITHMETIC, *_FACTORS, *_BROADCASTS, *_LOADS, *_REDUCTIONS, *_COMPARISONS,
    *_BITS, *_DIVISION,
)  # fmt: skip


def lane_rules(lanes: int) -> tuple[Rule, ...]:
    """Reductions as a tree over lanes taken one by one, for machines that have nothing better."""
    if lanes > 64:
        return ()
    found = []
    for op in ("add", "min", "max"):
        level = [f"(lane.T.{k} ?a)" for k in range(lanes)]
        while len(level) > 1:
            joined = [f"({op}.T {x} {y})" for x, y in zip(level[::2], level[1::2], strict=False)]
            level = joined + level[len(joined) * 2 :]
        found.append(_lower(f"reduce-{op}-by-lanes", f"(reduce_{op}.T ?a)", level[0], "reassoc"))
    return tuple(found)


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


# Operation, element type, stride of a vector load (0 else), and "s", "v" or "" where the side is open.
OpKey = tuple[str, str, int, str]


def _key(node: Apply | LoadPattern, elem: str, typed: Typed, lanes: int) -> OpKey:
    own = elem if node.elem == "T" else node.elem
    side = typed.kind(node).side
    shown = side if side in ("s", "v") else ""
    if isinstance(node, Apply):
        return (node.op, own, 0, shown)
    if node.stride is None:
        return (node.op, own, 0, "s")
    return (node.op, own, 0 if node.stride.terms else node.stride.value(lanes, {}), "v")


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
        if not all(isinstance(p, Apply | LoadPattern) for p in parse_side(rule.left)):
            raise RuleError("the left side must be an operation")
        found = []
        for elem in _elems_of(rule, elems):
            if not allowed(condition, elem, fp):
                continue
            typed = infer(rule.left, rule.right, condition, elem)
            needs = frozenset(_key(n, elem, typed, lanes) for n in apply_nodes(typed.left))
            makes = frozenset(_key(n, elem, typed, lanes) for n in apply_nodes(typed.right))
            found.append(Instance(rule, elem, typed, needs, makes))
        return found
    except RuleError as error:
        raise RuleError(f"rewrite rule `{rule.name}`: {error}") from None


def _elems_of(rule: Rule, elems: tuple[str, ...]) -> tuple[str, ...]:
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
