"""Rules of comparisons, selections and bits: least and greatest, saturation, widening products, masks."""

from __future__ import annotations

from dspgen.rewrite.rules.row import Rule, both, given, lower, row, start

_COMPARISONS = (
    lower("gt-as-lt", "(gt.T ?a ?b)", "(lt.T ?b ?a)"),
    lower("lt-as-gt", "(lt.T ?a ?b)", "(gt.T ?b ?a)"),
    lower("lt-as-sign", "(lt.i32 ?a ?b)", "(shru.i32 (sub.i32 ?a ?b) 31)", "short31 ?a, short31 ?b",
          "a difference that does not wrap"),
    lower("ge-as-le", "(ge.T ?a ?b)", "(le.T ?b ?a)"),
    lower("le-as-ge", "(le.T ?a ?b)", "(ge.T ?b ?a)"),
    lower("le-as-not-lt", "(le.T ?a ?b)", "(eq.i32 (lt.T ?b ?a) 0)", "int", "for floats, NaN forbids it"),
    lower("le-as-xor-lt", "(le.T ?a ?b)", "(xor.i32 (lt.T ?b ?a) 1)", "int", "for floats, NaN forbids it"),
    lower("le-as-or", "(le.T ?a ?b)", "(or.i32 (lt.T ?a ?b) (eq.T ?a ?b))"),
    lower("ne-as-eq-zero", "(ne.T ?a ?b)", "(eq.i32 (eq.T ?a ?b) 0)"),
    lower("ne-as-xor-eq", "(ne.T ?a ?b)", "(xor.i32 (eq.T ?a ?b) 1)"),
    lower("ltu-as-lt", "(ltu.i32 ?a ?b)", "(lt.i32 (xor.i32 ?a -2147483648) (xor.i32 ?b -2147483648))"),
    row("select-not", "(select.T (eq.i32 ?c 0) ?a ?b)", "(select.T ?c ?b ?a)"),
    row("select-nonzero", "(select.T (ne.i32 ?c 0) ?a ?b)", "(select.T ?c ?a ?b)"),
    *(row(f"select-{op}-{less}", f"(select.T ({less}.T ?a ?b) {arms})", f"({op}.T ?a ?b)", "reassoc",
          "not of numbers, the second is taken")
      for less, same, other in (("lt", "min", "max"), ("le", "min", "max"), ("gt", "max", "min"), ("ge", "max", "min"))
      for op, arms in ((same, "?a ?b"), (other, "?b ?a"))),
    lower("min-as-select", "(min.T ?a ?b)", "(select.T (lt.T ?a ?b) ?a ?b)", "reassoc"),
    lower("max-as-select", "(max.T ?a ?b)", "(select.T (lt.T ?b ?a) ?a ?b)", "reassoc"),
    lower("min-of-numbers", "(min.T ?a ?b)", "(select.T (lt.T ?a ?b) ?a (select.T (eq.T ?b ?b) ?b ?a))", "float",
           "the other operand where one is not a number"),
    lower("max-of-numbers", "(max.T ?a ?b)", "(select.T (lt.T ?b ?a) ?a (select.T (eq.T ?b ?b) ?b ?a))", "float",
           "the other operand where one is not a number"),
    lower("max-by-sign", "(max.T ?a ?b)", "(neg.T (min.T (neg.T ?a) (neg.T ?b)))", "float", unless=("lt",)),
    lower("min-by-sign", "(min.T ?a ?b)", "(neg.T (max.T (neg.T ?a) (neg.T ?b)))", "float", unless=("lt",)),
)  # fmt: skip

_SELECTIONS = (
    row("select-then", "(select.T ?c (select.T ?c ?a ?b) ?d)", "(select.T ?c ?a ?d)"),
    row("select-else", "(select.T ?c ?a (select.T ?c ?b ?d))", "(select.T ?c ?a ?d)"),
    row("select-either", "(select.T ?c ?a (select.T ?d ?a ?b))", "(select.T (or.i32 ?c ?d) ?a ?b)"),
    row("select-both", "(select.T ?c (select.T ?d ?a ?b) ?b)", "(select.T (and.i32 ?c ?d) ?a ?b)", "flag ?c, flag ?d"),
    row("select-only-not", "(select.T ?c (select.T ?d ?b ?a) ?b)", "(select.T (gt.i32 ?c ?d) ?a ?b)",
        "flag ?c, flag ?d"),
    row("select-unless", "(select.T ?c ?a (select.T ?d ?b ?a))", "(select.T (gt.i32 ?d ?c) ?b ?a)", "flag ?c, flag ?d"),
    row("select-flag", "(select.i32 ?c 1 0)", "?c", "flag ?c"),
    row("select-not-flag", "(select.i32 ?c 0 1)", "(eq.i32 ?c 0)"),
    row("flag-of-flag", "(ne.i32 ?c 0)", "?c", "flag ?c"),
    row("flag-not-not", "(eq.i32 (eq.i32 ?c 0) 0)", "?c", "flag ?c"),
    row("flag-xor-xor", "(xor.i32 (xor.i32 ?c 1) 1)", "?c"),
    row("flag-and-one", "(and.i32 ?c 1)", "?c", "flag ?c"),
    row("select-known", "(select.T ?c ?a ?b)", "?a", "number ?c ?n, ?n != 0"),
    row("select-never", "(select.T ?c ?a ?b)", "?b", "number ?c ?n, ?n = 0"),
    *(row(f"not-{less}", f"(eq.i32 ({less}.T ?a ?b) 0)", f"({other}.T ?a ?b)", when)
      for less, other, when in (("lt", "ge", "int"), ("le", "gt", "int"), ("gt", "le", "int"), ("ge", "lt", "int"),
                                ("eq", "ne", ""), ("ne", "eq", ""))),
    row("select-add", "(select.T ?c (add.T ?s ?x) ?s)", "(add.T ?s (select.T ?c ?x 0))", "reassoc",
        "what is carried is chosen no more"),
    row("select-add-swapped", "(select.T ?c (add.T ?x ?s) ?s)", "(add.T (select.T ?c ?x 0) ?s)", "reassoc"),
    row("select-sub", "(select.T ?c (sub.T ?s ?x) ?s)", "(sub.T ?s (select.T ?c ?x 0))", "reassoc"),
    row("select-mac", "(select.T ?c (mac.T ?a ?b ?s) ?s)", "(add.T ?s (select.T ?c (mul.T ?a ?b) 0))",
        "reassoc, contract"),
    *(row(f"select-pull-{op}", f"(select.T ?c ({op}.T ?a ?d) ({op}.T ?b ?d))", f"({op}.T (select.T ?c ?a ?b) ?d)")
      for op in ("add", "sub", "mul", "min", "max")),
    *(row(f"select-pull-second-{op}", f"(select.T ?c ({op}.T ?d ?a) ({op}.T ?d ?b))",
          f"({op}.T ?d (select.T ?c ?a ?b))") for op in ("add", "sub", "mul", "min", "max")),
    *(row(f"select-by-flag-{side}", f"(mul.i32 {args})", "(select.i32 ?c ?a 0)", "flag ?c", "a product with 0 or 1")
      for side, args in (("left", "?c ?a"), ("right", "?a ?c"))),
)  # fmt: skip

_TOP, _BOTTOM = 2147483647, -2147483648
_SATURATED = (("sat8", -128, 127), ("sat16", -32768, 32767), ("satu8", 0, 255), ("satu16", 0, 65535))
_CLAMPS = tuple(
    row(f"clamp-{name}-{number}", pattern, f"({name}.i32 ?a)")
    for name, low, high in _SATURATED
    for number, pattern in enumerate(
        f"({second}.i32 {(y + ' ' + inner) if swapped else (inner + ' ' + y)})"
        for first, x, second, y in (("max", str(low), "min", str(high)), ("min", str(high), "max", str(low)))
        for inner in (f"({first}.i32 ?a {x})", f"({first}.i32 {x} ?a)")
        for swapped in (False, True)
    )
)
_SUM, _DIFFERENCE = "(add.i32 ?a ?b)", "(sub.i32 ?a ?b)"
_ENDS = (
    f"(select.i32 (lt.i32 ?a 0) {_BOTTOM} {_TOP})",
    f"(select.i32 (ge.i32 ?a 0) {_TOP} {_BOTTOM})",
    f"(select.i32 (gt.i32 ?b 0) {_TOP} {_BOTTOM})",
    f"(select.i32 (lt.i32 ?b 0) {_BOTTOM} {_TOP})",
    f"(xor.i32 (shr.i32 ?a 31) {_TOP})",
)
_ADD_BEYOND = "(and.i32 (xor.i32 ?a (add.i32 ?a ?b)) (xor.i32 ?b (add.i32 ?a ?b)))"
_SUB_BEYOND = "(and.i32 (xor.i32 ?a ?b) (xor.i32 ?a (sub.i32 ?a ?b)))"
_SATURATION = (
    *_CLAMPS,
    *(lower(f"{name}-as-clamp", f"({name}.i32 ?a)", f"(min.i32 (max.i32 ?a {low}) {high})")
      for name, low, high in _SATURATED),
    *(row(f"{name}-twice", f"({name}.i32 ({name}.i32 ?a))", f"({name}.i32 ?a)") for name, _, _ in _SATURATED),
    *(row(f"{extend}-of-{name}", f"({extend}.i32 ({name}.i32 ?a))", f"({name}.i32 ?a)")
      for extend, name in (("sext8", "sat8"), ("sext16", "sat16"), ("zext8", "satu8"), ("zext16", "satu16"),
                           ("sext16", "sat8"), ("sext16", "satu8"), ("zext16", "satu8"))),
    *(row(f"add-saturated-{k}", f"(select.i32 (lt.i32 {_ADD_BEYOND} 0) {end} {_SUM})", "(add_sat.i32 ?a ?b)")
      for k, end in enumerate(_ENDS)),
    *(row(f"sub-saturated-{k}", f"(select.i32 (lt.i32 {_SUB_BEYOND} 0) {end} {_DIFFERENCE})", "(sub_sat.i32 ?a ?b)")
      for k, end in enumerate((_ENDS[0], _ENDS[1], _ENDS[4]))),
    lower("add-sat-apart", "(add_sat.i32 ?a ?b)",
          f"(select.i32 (lt.i32 {_ADD_BEYOND} 0) {_ENDS[4]} {_SUM})"),
    lower("sub-sat-apart", "(sub_sat.i32 ?a ?b)",
          f"(select.i32 (lt.i32 {_SUB_BEYOND} 0) {_ENDS[4]} {_DIFFERENCE})"),
    lower("add-sat-by-clamp", "(add_sat.i32 ?a ?b)",
          f"(add.i32 ?a (min.i32 (max.i32 ?b (sub.i32 {_BOTTOM} (min.i32 ?a 0))) (sub.i32 {_TOP} (max.i32 ?a 0))))",
          "", "what is added is brought into what there is room for"),
    lower("sub-sat-by-clamp", "(sub_sat.i32 ?a ?b)",
          f"(sub.i32 ?a (min.i32 (max.i32 ?b (sub.i32 (max.i32 ?a -1) {_TOP})) (sub.i32 (min.i32 ?a -1) {_BOTTOM})))",
          "", "as for sums"),
)  # fmt: skip

_DUP = "(bcast.i32 (dup16.i32 ?c))"

_WIDENING = (
    row("mul16", "(mul.i32 (sext16.i32 ?a) (sext16.i32 ?b))", "(mul16.i32 ?a ?b)", "", "a product of short numbers"),
    both("mul16-of-short", "(mul.i32 ?a ?b)", "(mul16.i32 ?a ?b)", "short16 ?a, short16 ?b"),
    row("mul16-sext-left", "(mul16.i32 (sext16.i32 ?a) ?b)", "(mul16.i32 ?a ?b)"),
    row("mul16-sext-right", "(mul16.i32 ?a (sext16.i32 ?b))", "(mul16.i32 ?a ?b)"),
    row("mac16-sext-left", "(mac16.i32 (sext16.i32 ?a) ?b ?c)", "(mac16.i32 ?a ?b ?c)"),
    row("mac16-sext-right", "(mac16.i32 ?a (sext16.i32 ?b) ?c)", "(mac16.i32 ?a ?b ?c)"),
    row("mac-as-mac16", "(mac.i32 (sext16.i32 ?a) (sext16.i32 ?b) ?c)", "(mac16.i32 ?a ?b ?c)"),
    both("mac16-of-mul16", "(add.i32 (mul16.i32 ?a ?b) ?c)", "(mac16.i32 ?a ?b ?c)"),
    both("mac16-of-mul16-swapped", "(add.i32 ?c (mul16.i32 ?a ?b))", "(mac16.i32 ?a ?b ?c)"),
    lower("mac16-apart", "(mac16.i32 ?a ?b ?c)", "(add.i32 (mul16.i32 ?a ?b) ?c)"),
    lower("mul16-as-mac16", "(mul16.i32 ?a ?b)", "(mac16.i32 ?a ?b 0)"),
    lower("mul16-apart", "(mul16.i32 ?a ?b)", "(mul.i32 (sext16.i32 ?a) (sext16.i32 ?b))"),
)  # fmt: skip


def _halves() -> tuple[Rule, ...]:
    """Products of both halves of words, by the halves of other words or by one short number, and sums with these."""
    found = list[Rule]()
    unpacked = [
        row(
            "unpack16",
            "(sext16.i32 ?w) (shr.i32 ?w 16)",
            "(lo.i32 (unpack16.i32 ?w)) (hi.i32 (unpack16.i32 ?w))",
            "",
            "both halves at once",
        )
    ]
    ways = (
        ("-words", "(sext16.i32 ?w) (sext16.i32 ?v)", "(shr.i32 ?w 16) (shr.i32 ?v 16)", "?v", ""),
        ("", "(sext16.i32 ?w) (bcast.i32 ?c)", "(shr.i32 ?w 16) (bcast.i32 ?c)", _DUP, "short16 ?c"),
        ("-swapped", "(bcast.i32 ?c) (sext16.i32 ?w)", "(bcast.i32 ?c) (shr.i32 ?w 16)", _DUP, "short16 ?c"),
    )
    for name, low, high, factor, when in ways:
        one, other = f"(mul.i32 {low})", f"(mul.i32 {high})"
        made = f"(mul16_pair.i32 ?w {factor})"
        found.append(
            row(
                f"mul16-pair{name}",
                f"{one} {other}",
                f"(lo.i32 {made}) (hi.i32 {made})",
                when,
                "both halves' products at once",
            )
        )
        made = f"(mac16_pair.i32 ?w {factor} (pair.i32 ?x ?y))"
        for form, left in (
            ("", f"(add.i32 {one} ?x) (add.i32 {other} ?y)"),
            ("-after", f"(add.i32 ?x {one}) (add.i32 ?y {other})"),
            ("-of-mac", f"(mac.i32 {low} ?x) (mac.i32 {high} ?y)"),
        ):
            found.append(row(f"mac16-pair{name}{form}", left, f"(lo.i32 {made}) (hi.i32 {made})", when))
    found.append(row("pair-of-half-words", "(pair.T (lo.T ?p) (hi.T ?p))", "?p"))
    return (*given("unpack16", unpacked), *_unpacked(), *given("mul16_pair mac16_pair", found))


def _unpacked() -> tuple[Rule, ...]:
    """Both parts of each element of a vector, as the passes that make vectors of narrow elements write them."""
    ways = (
        ("unpacku16", "i32", "(zext16.i32 ?w)", "(shru.i32 ?w 16)"),
        ("unpacku8", "i16", "(and.i16 ?w 255)", "(shru.i16 ?w 8)"),
        ("unpack8", "i16", "(shr.i16 (shl.i16 ?w 8) 8)", "(shr.i16 ?w 8)"),
    )
    found = list[Rule]()
    for name, elem, low, high in ways:
        made = f"({name}.{elem} ?w)"
        found += given(name, [row(name, f"{low} {high}", f"(lo.{elem} {made}) (hi.{elem} {made})", "", "both at once")])
    return tuple(found)


_SIGN = "(shr.i32 ?v 31)"
_BY_SIGN = (
    *(lower(f"{op}-by-sign-{side}", f"({op}.i32 {args})", f"(select.i32 {_SIGN} {negative} {other})", "",
            "all bits of a sign are alike")
      for op, negative, other in (("and", "?a", "0"), ("or", "-1", "?a"), ("xor", "(sub.i32 -1 ?a)", "?a"))
      for side, args in (("right", f"?a {_SIGN}"), ("left", f"{_SIGN} ?a"))),
    *(lower(f"and-by-no-sign-{side}", f"(and.i32 {args})", f"(select.i32 {_SIGN} 0 ?a)")
      for side, args in (("right", f"?a (not.i32 {_SIGN})"), ("left", f"(not.i32 {_SIGN}) ?a"))),
    *(row(f"neg-by-sign-{side}", f"(sub.i32 (xor.i32 {args}) {_SIGN})", f"(select.i32 {_SIGN} (neg.i32 ?a) ?a)")
      for side, args in (("right", f"?a {_SIGN}"), ("left", f"{_SIGN} ?a"))),
)  # fmt: skip
_MIDDLE = "(shl.i32 (sub.i32 (shr.i32 ?a ?k) (shl.i32 (shr.i32 (shr.i32 ?a ?k) ?n) ?n)) ?k)"
_BITS = (
    both("mul-as-shl", "(mul.T ?a ?c)", "(shl.T ?a ?k)", "int, log2 ?c ?k"),
    both("mul-as-shl-swapped", "(mul.T ?c ?a)", "(shl.T ?a ?k)", "int, log2 ?c ?k"),
    lower("shl-as-mul", "(shl.T ?a ?k)", "(mul.T ?a ?c)", "int, log2 ?c ?k"),
    row("double-as-shl", "(add.T ?a ?a)", "(shl.T ?a 1)", "int"),
    lower("shl-as-double", "(shl.T ?a 1)", "(add.T ?a ?a)", "int"),
    both("div-as-shr", "(div.i32 ?a ?c)",
          "(shr.i32 (add.i32 ?a (shru.i32 (shr.i32 ?a 31) (sub.i32 32 ?k))) ?k)", "log2 ?c ?k",
          "C rounds toward zero"),
    lower("mod-apart", "(mod.T ?a ?b)", "(sub.T ?a (mul.T (div.T ?a ?b) ?b))", "int"),
    lower("and-of-flags", "(and.i32 ?c ?d)", "(select.i32 ?c ?d 0)", "flag ?c, flag ?d"),
    lower("and-of-flags-as-mul", "(and.i32 ?c ?d)", "(mul.i32 ?c ?d)", "flag ?c, flag ?d"),
    lower("and-of-flags-as-min", "(and.i32 ?c ?d)", "(min.i32 ?c ?d)", "flag ?c, flag ?d"),
    lower("or-of-flags", "(or.i32 ?c ?d)", "(select.i32 ?c 1 ?d)", "flag ?c, flag ?d"),
    lower("or-of-flags-as-max", "(or.i32 ?c ?d)", "(max.i32 ?c ?d)", "flag ?c, flag ?d"),
    lower("xor-of-flags", "(xor.i32 ?c ?d)", "(select.i32 ?c (eq.i32 ?d 0) ?d)", "flag ?c, flag ?d"),
    *(lower(f"{op}-as-add", f"({op}.i32 ?a ?b)", "(add.i32 ?a ?b)", "apart ?a ?b", "nothing is carried")
      for op in ("or", "xor")),
    *(lower(f"{op}-{bits.split('_')[0]}", f"({op}.i32 ?a ?c)", right.replace("?both", both), f"{bits} {names}")
      for bits, names, both in (("low_bits", "?c ?n", "(sub.i32 ?a (shl.i32 (shr.i32 ?a ?n) ?n))"),
                                ("high_bits", "?c ?k", "(shl.i32 (shr.i32 ?a ?k) ?k)"),
                                ("mid_bits", "?c ?k ?n", _MIDDLE),
                                ("several_bits", "?c ?d ?e", "(add.i32 (and.i32 ?a ?d) (and.i32 ?a ?e))"))
      for op, right in (("and", "?both"), ("or", "(add.i32 (sub.i32 ?a ?both) ?c)"),
                        ("xor", "(sub.i32 (add.i32 ?a ?c) (shl.i32 ?both 1))"))),
    lower("xor-all", "(xor.i32 ?a -1)", "(sub.i32 -1 ?a)"),
    lower("not-as-xor", "(not.T ?a)", "(xor.T ?a -1)", "int"),
    lower("not-as-sub", "(not.T ?a)", "(sub.T -1 ?a)", "int"),
    lower("sext16-as-shifts", "(sext16.i32 ?a)", "(shr.i32 (shl.i32 ?a 16) 16)"),
    lower("sext8-as-shifts", "(sext8.i32 ?a)", "(shr.i32 (shl.i32 ?a 24) 24)"),
    row("shifts-as-sext16", "(shr.i32 (shl.i32 ?a 16) 16)", "(sext16.i32 ?a)"),
    lower("zext16-as-and", "(zext16.i32 ?a)", "(and.i32 ?a 65535)"),
    lower("zext8-as-and", "(zext8.i32 ?a)", "(and.i32 ?a 255)"),
    row("shifts-as-sext8", "(shr.i32 (shl.i32 ?a 24) 24)", "(sext8.i32 ?a)"),
    row("shifts-as-zext16", "(shru.i32 (shl.i32 ?a 16) 16)", "(zext16.i32 ?a)"),
    row("shifts-as-zext8", "(shru.i32 (shl.i32 ?a 24) 24)", "(zext8.i32 ?a)"),
    row("and-as-zext16", "(and.i32 ?a 65535)", "(zext16.i32 ?a)"),
    row("and-as-zext8", "(and.i32 ?a 255)", "(zext8.i32 ?a)"),
    row("shl-shl", "(shl.i32 (shl.i32 ?a 1) 1)", "(shl.i32 ?a 2)"),
    *(row(f"{op}-same", f"({op}.T ?a ?a)", "?a", "int") for op in ("and", "or")),
    row("xor-same", "(xor.T ?a ?a)", "0", "int"),
    row("sub-same", "(sub.T ?a ?a)", "0", "int"),
    row("not-not", "(not.T (not.T ?a))", "?a", "int"),
    row("or-zero", "(or.T ?a 0)", "?a", "int"),
    row("xor-zero", "(xor.T ?a 0)", "?a", "int"),
    row("and-ones", "(and.T ?a -1)", "?a", "int"),
    row("sext16-of-short", "(sext16.i32 ?a)", "?a", "short16 ?a"),
)  # fmt: skip

LOGIC: tuple[Rule, ...] = (
    *_COMPARISONS, *start("select", _SELECTIONS), *_SATURATION, *_WIDENING, *_halves(), *_BY_SIGN, *_BITS,
)  # fmt: skip
