"""Rules between lanes and between the sides: broadcasts, reductions, shuffles, complex numbers."""

from __future__ import annotations

from itertools import product

from dspgen.rewrite.rules.row import Rule, both, dearer, given, lower, row, start

_BROADCASTS = (
    *(row(f"bcast-out-{op}", f"({op}.T (bcast.T ?a) (bcast.T ?b))", f"(bcast.T ({op}.T ?a ?b))")
      for op in ("add", "sub", "mul", "min", "max")),
    *(row(f"bcast-in-{op}", f"(bcast.T ({op}.T ?a ?b))", f"({op}.T (bcast.T ?a) (bcast.T ?b))")
      for op in ("add", "sub", "mul", "min", "max")),
    row("bcast-out-neg", "(neg.T (bcast.T ?a))", "(bcast.T (neg.T ?a))"),
    row("bcast-in-neg", "(bcast.T (neg.T ?a))", "(neg.T (bcast.T ?a))"),
    row("bcast-out-mac", "(mac.T (bcast.T ?a) (bcast.T ?b) (bcast.T ?c))", "(bcast.T (mac.T ?a ?b ?c))"),
    row("bcast-in-mac", "(bcast.T (mac.T ?a ?b ?c))", "(mac.T (bcast.T ?a) (bcast.T ?b) (bcast.T ?c))"),
    row("bcast-load-as-dup", "(bcast.T (ld.T ?m ?c)) (ld.T ?m ?d 1)", "(dup_lane.T.?k (ld.T ?m ?d 1))",
         "?k = ?c-?d, ?k >= 0, ?k < lanes", "the vector side reads and spreads the scalar"),
    both("dup-as-bcast-load", "(dup_lane.T.?k (ld.T ?m ?d 1))", "(bcast.T (ld.T ?m ?d+?k))"),
    both("dup-as-bcast-lane", "(dup_lane.T.?k ?a)", "(bcast.T (lane.T.?k ?a))"),
    both("bcast-lane-as-dup", "(bcast.T (lane.T.?k ?a))", "(dup_lane.T.?k ?a)"),
    both("lane-of-load", "(lane.T.?k (ld.T ?m ?c 1))", "(ld.T ?m ?c+?k)"),
    row("lane-of-bcast", "(lane.T.?k (bcast.T ?a))", "?a"),
    row("dup-of-bcast", "(dup_lane.T.?k (bcast.T ?a))", "(bcast.T ?a)"),
    row("reverse-reverse", "(reverse.T (reverse.T ?a))", "?a"),
)  # fmt: skip

_UNIFORM = (
    *(row(f"bcast-out-{op}", f"({op}.T (bcast.T ?a) (bcast.T ?b))", f"(bcast.{out} ({op}.T ?a ?b))", when)
      for op, out, when in (("and", "T", "int"), ("or", "T", "int"), ("xor", "T", "int"), ("shl", "T", "int"),
                            ("shr", "T", "int"), ("shru", "T", "int"), ("div", "T", ""), ("lt", "i32", ""),
                            ("le", "i32", ""), ("gt", "i32", ""), ("ge", "i32", ""), ("eq", "i32", ""),
                            ("ne", "i32", ""))),
    *(row(f"bcast-in-{op}", f"(bcast.T ({op}.T ?a ?b))", f"({op}.T (bcast.T ?a) (bcast.T ?b))", "int")
      for op in ("and", "or", "xor")),
    *(row(f"bcast-out-{op}", f"({op}.T (bcast.T ?a) (bcast.T ?b) (bcast.T ?c))", f"(bcast.T ({op}.T ?a ?b ?c))")
      for op in ("msub", "nmac")),
    row("bcast-out-select", "(select.T (bcast.i32 ?a) (bcast.T ?b) (bcast.T ?c))", "(bcast.T (select.T ?a ?b ?c))"),
    *(row(f"bcast-in-{op}", f"(bcast.T ({op}.T ?a ?b ?c))", f"({op}.T (bcast.T ?a) (bcast.T ?b) (bcast.T ?c))")
      for op in ("msub", "nmac")),
    *(row(f"bcast-out-{op}", f"({op}.T (bcast.T ?a))", f"(bcast.T ({op}.T ?a))", when)
      for op, when in (("abs", ""), ("sqrt", "float"))),
    row("bcast-in-abs", "(bcast.T (abs.T ?a))", "(abs.T (bcast.T ?a))"),
    both("bcast-load", "(bcast.T (ld.T ?m ?c))", "(ld.T ?m ?c 0)", "", "an access that spreads one element"),
    both("load-bcast", "(ld.T ?m ?c 0)", "(bcast.T (ld.T ?m ?c))"),
    *(row(f"{op}-of-bcast", f"({op}.T{imm} (bcast.T ?a) (bcast.T ?a))", "(bcast.T ?a)")
      for op, imm in (("align", ".?k"), ("concat", ".?k"), ("even", ""), ("odd", ""), ("zip_lo", ""), ("zip_hi", ""))),
)  # fmt: skip

# A move of lanes, its immediate, and what a region has that may be one.
_MOVED = (("reverse", "", "reverse ld.-1"), ("shuffle", ".?p", "shuffle"), ("transpose", ".?r", "transpose"))


def _outward(move: str, imm: str) -> tuple[Rule, ...]:
    """The rules that take a move of lanes out of sums and products, so that there is one in place of several."""
    a, b, c = (f"({move}.T{imm} ?{x})" for x in "abc")
    found = [
        row(f"{move}-out-{op}", f"({op}.T {a} {b})", f"({move}.T{imm} ({op}.T ?a ?b))", "", "one move for two")
        for op in ("add", "sub", "mul", "min", "max")
    ]
    for op in ("add", "sub", "mul"):
        found += [
            row(f"{move}-out-{op}-left", f"({op}.T {a} (bcast.T ?b))", f"({move}.T{imm} ({op}.T ?a (bcast.T ?b)))"),
            row(f"{move}-out-{op}-right", f"({op}.T (bcast.T ?a) {b})", f"({move}.T{imm} ({op}.T (bcast.T ?a) ?b))"),
        ]
    found += [
        row(f"{move}-out-mac", f"(mac.T {a} {b} {c})", f"({move}.T{imm} (mac.T ?a ?b ?c))"),
        row(f"{move}-out-mac-scaled", f"(mac.T {a} (bcast.T ?b) {c})", f"({move}.T{imm} (mac.T ?a (bcast.T ?b) ?c))"),
        row(f"{move}-out-neg", f"(neg.T {a})", f"({move}.T{imm} (neg.T ?a))"),
        row(f"{move}-of-bcast", f"({move}.T{imm} (bcast.T ?a))", "(bcast.T ?a)"),
    ]
    return tuple(found)


_OUTWARD = (
    *(rule for move, imm, there in _MOVED for rule in start(there, _outward(move, imm))),
    *(row(f"reduce-{op}-of-{move}", f"(reduce_{op}.T ({move}.T{imm} ?a))", f"(reduce_{op}.T ?a)", "reassoc")
      for op in ("add", "min", "max") for move, imm in (("reverse", ""), ("transpose", ".?r"))),
    row("even-of-zips", "(even.T (zip_lo.T ?a ?b) (zip_hi.T ?a ?b))", "?a"),
    row("odd-of-zips", "(odd.T (zip_lo.T ?a ?b) (zip_hi.T ?a ?b))", "?b"),
    row("zip-lo-of-parts", "(zip_lo.T (even.T ?a ?b) (odd.T ?a ?b))", "?a"),
    row("zip-hi-of-parts", "(zip_hi.T (even.T ?a ?b) (odd.T ?a ?b))", "?b"),
    row("lane-of-dup", "(lane.T.?j (dup_lane.T.?k ?a))", "(lane.T.?k ?a)"),
)  # fmt: skip

# The products of two complex numbers' parts, in either order of their factors.
_PRODUCTS = (("", "{0} {1}"), ("-swapped", "{1} {0}"))
_P, _Q = ("(lo.T ?p)", "(hi.T ?p)"), ("(lo.T ?q)", "(hi.T ?q)")


def _complex(name: str, right: tuple[str, str], made: str) -> tuple[Rule, ...]:
    """Both parts of a product of the pair ?p and the parts `right`, as sums of products and as multiply-adds."""
    found = []
    for swapped, order in _PRODUCTS:
        rr, ii = order.format(_P[0], right[0]), order.format(_P[1], right[1])
        ri, ir = order.format(_P[0], right[1]), order.format(_P[1], right[0])
        real, imaginary = f"(cmul_re.T ?p {made})", f"(cmul_im.T ?p {made})"
        found += [
            row(f"{name}-re{swapped}", f"(sub.T (mul.T {rr}) (mul.T {ii}))", real, "", "one operation for three"),
            row(f"{name}-im{swapped}", f"(add.T (mul.T {ri}) (mul.T {ir}))", imaginary),
            row(f"{name}-im{swapped}-added", f"(add.T (mul.T {ir}) (mul.T {ri}))", imaginary),
        ]
    return tuple(found)


def _loose() -> tuple[Rule, ...]:
    """Both parts of a product of loose parts a + ib and c + id, in any order of the factors and of the imaginary sum.

    With c and d exchanged, these are also the parts of a - ib times d + ic, so conjugates need no rows of their own.
    The parts may be added to sums one product at a time.
    """
    found = []
    for number, (bd, ad, bc, late) in enumerate(product((False, True), repeat=4)):
        ac, bd_text = "(mul.T ?a ?c)", _times("b", "d", bd)
        first, second = (_times("a", "d", ad), _times("b", "c", bc))[:: -1 if late else 1]
        parts = "(pair.T ?a ?b) (pair.T ?c ?d)"
        real, imaginary = f"(cmul_re.T {parts})", f"(cmul_im.T {parts})"
        left = f"(sub.T {ac} {bd_text}) (add.T {first} {second})"
        found.append(row(f"complex-loose-{number}", left, f"{real} {imaginary}", "", "two operations for six"))
        sums = f"(add.T ?s {real}) (add.T ?t {imaginary})"
        im = f"(add.T (add.T ?t {first}) {second})"
        found += [
            row(f"complex-sum-{number}", f"(sub.T (add.T ?s {ac}) {bd_text}) {im}", sums, "reassoc"),
            row(f"complex-sum-{number}-less-first", f"(add.T (sub.T ?s {bd_text}) {ac}) {im}", sums, "reassoc"),
        ]
    return tuple(found)


def _times(one: str, other: str, swapped: bool) -> str:
    first, second = (other, one) if swapped else (one, other)
    return f"(mul.T ?{first} ?{second})"


_BOTH_HALVES = tuple(
    rule
    for name, low, high in (("zip", "zip_lo", "zip_hi"), ("unzip", "even", "odd"))
    for rule in given(name, [row(f"{name}-both", f"({low}.T ?a ?b) ({high}.T ?a ?b)",
                                 f"(lo.T ({name}.T ?a ?b)) (hi.T ({name}.T ?a ?b))", "", "both halves at once")])
)  # fmt: skip

_COMPLEX = (
    *given("cmul_re cmul", _complex("complex", _Q, "?q")),
    *start("sub", given("cmul_re cmul", dearer("mul mul mac mac", _loose()))),
    *given("cmul_re cmul", [row("pair-of-halves", "(pair.T (lo.T ?p) (hi.T ?p))", "?p")]),
    both("cmul", "(cmul_re.T ?p ?q) (cmul_im.T ?p ?q)", "(lo.T (cmul.T ?p ?q)) (hi.T (cmul.T ?p ?q))", "",
         "both parts in one"),
    row("cmac", "(add.T (cmul_re.T ?p ?q) ?a) (add.T (cmul_im.T ?p ?q) ?b)",
        "(lo.T (cmac.T ?p ?q (pair.T ?a ?b))) (hi.T (cmac.T ?p ?q (pair.T ?a ?b)))"),
    row("cmac-swapped", "(add.T ?a (cmul_re.T ?p ?q)) (add.T ?b (cmul_im.T ?p ?q))",
        "(lo.T (cmac.T ?p ?q (pair.T ?a ?b))) (hi.T (cmac.T ?p ?q (pair.T ?a ?b)))"),
    lower("cmul-re-apart", "(cmul_re.T ?p ?q)",
          "(sub.T (mul.T (lo.T ?p) (lo.T ?q)) (mul.T (hi.T ?p) (hi.T ?q)))"),
    lower("cmul-im-apart", "(cmul_im.T ?p ?q)",
          "(add.T (mul.T (lo.T ?p) (hi.T ?q)) (mul.T (hi.T ?p) (lo.T ?q)))"),
    lower("lo-cmul", "(lo.T (cmul.T ?p ?q))", "(cmul_re.T ?p ?q)"),
    lower("hi-cmul", "(hi.T (cmul.T ?p ?q))", "(cmul_im.T ?p ?q)"),
    lower("cmul-as-pair", "(cmul.T ?p ?q)", "(pair.T (cmul_re.T ?p ?q) (cmul_im.T ?p ?q))"),
    lower("cmac-as-pair", "(cmac.T ?p ?q ?r)",
          "(pair.T (add.T (cmul_re.T ?p ?q) (lo.T ?r)) (add.T (cmul_im.T ?p ?q) (hi.T ?r)))"),
)  # fmt: skip

_REDUCTIONS = (
    row("reduce-merge", "(add.T (reduce_add.T ?a) (reduce_add.T ?b))", "(reduce_add.T (add.T ?a ?b))", "reassoc",
         "one reduction less"),
    row("reduce-merge-sub", "(sub.T (reduce_add.T ?a) (reduce_add.T ?b))", "(reduce_add.T (sub.T ?a ?b))", "reassoc"),
    row("reduce-merge-left", "(add.T (add.T ?c (reduce_add.T ?a)) (reduce_add.T ?b))",
         "(add.T ?c (reduce_add.T (add.T ?a ?b)))", "reassoc"),
    row("reduce-merge-right", "(add.T (reduce_add.T ?a) (add.T (reduce_add.T ?b) ?c))",
         "(add.T (reduce_add.T (add.T ?a ?b)) ?c)", "reassoc"),
    row("reduce-merge-min", "(min.T (reduce_min.T ?a) (reduce_min.T ?b))", "(reduce_min.T (min.T ?a ?b))", "reassoc"),
    row("reduce-merge-max", "(max.T (reduce_max.T ?a) (reduce_max.T ?b))", "(reduce_max.T (max.T ?a ?b))", "reassoc"),
    *(row(f"reduce-merge-{op}", f"({op}.T (reduce_{op}.T ?a) (reduce_{op}.T ?b))", f"(reduce_{op}.T ({op}.T ?a ?b))",
          when) for op, when in (("mul", "reassoc"), ("and", "int"), ("or", "int"), ("xor", "int"))),
    *(row(f"reduce-{op}-of-bcast", f"(reduce_{op}.T (bcast.T ?a))", "?a", when)
      for op, when in (("min", ""), ("max", ""), ("and", "int"), ("or", "int"))),
    *given("all_add all_min all_max",
           (both(f"all-{op}", f"(bcast.T (reduce_{op}.T ?a))", f"(all_{op}.T ?a)", "", "the sum stays where it is")
            for op in ("add", "min", "max"))),
    *(both(f"all-{op}-apart", f"(all_{op}.T ?a)", f"(bcast.T (reduce_{op}.T ?a))") for op in ("add", "min", "max")),
    *(row(f"all-{op}-merge", f"({op}.T (all_{op}.T ?a) (all_{op}.T ?b))", f"(all_{op}.T ({op}.T ?a ?b))", "reassoc")
      for op in ("add", "min", "max")),
    *(row(f"all-{op}-again", f"(all_{op}.T (all_{op}.T ?a))", f"(all_{op}.T ?a)") for op in ("min", "max")),
    *(row(f"lane-of-all-{op}", f"(lane.T.?k (all_{op}.T ?a))", f"(reduce_{op}.T ?a)") for op in ("add", "min", "max")),
    row("reduce-scale-left", "(reduce_add.T (mul.T (bcast.T ?s) ?a))", "(mul.T ?s (reduce_add.T ?a))", "reassoc"),
    row("reduce-scale-right", "(reduce_add.T (mul.T ?a (bcast.T ?s)))", "(mul.T (reduce_add.T ?a) ?s)", "reassoc"),
    row("reduce-neg", "(reduce_add.T (neg.T ?a))", "(neg.T (reduce_add.T ?a))", "reassoc"),
)  # fmt: skip

LANES: tuple[Rule, ...] = (*_BROADCASTS, *_UNIFORM, *_OUTWARD, *_BOTH_HALVES, *_COMPLEX, *_REDUCTIONS)
