"""Rules of sums and products: multiply-adds, signs, units, factors, divisions."""

from __future__ import annotations

from dspgen.rewrite.rules.row import Rule, both, lower, optional, row

_MULTIPLY_ADD = (
    row("mac", "(add.T (mul.T ?a ?b) ?c)", "(mac.T ?a ?b ?c)", "contract", "one operation for two"),
    row("mac-swapped", "(add.T ?c (mul.T ?a ?b))", "(mac.T ?a ?b ?c)", "contract", "one operation for two"),
    row("msub", "(sub.T (mul.T ?a ?b) ?c)", "(msub.T ?a ?b ?c)", "contract", "one operation for two"),
    row("nmac", "(sub.T ?c (mul.T ?a ?b))", "(nmac.T ?a ?b ?c)", "contract", "one operation for two", only=("nmac",)),
    *(
        row(
            f"nmac-of-reused-{place}",
            "(sub.T ?c (mul.T ?a ?b))",
            made,
            f"contract, reused {factor}",
            "one change of sign serves many products",
            unless=("nmac",),
        )
        for place, factor, made in (("first", "?a", "(nmac.T ?a ?b ?c)"), ("second", "?b", "(nmac.T ?b ?a ?c)"))
    ),
    row(
        "mac-of-neg",
        "(add.T ?c (neg.T (mul.T ?a ?b)))",
        "(nmac.T ?a ?b ?c)",
        "contract",
        "absorbs the sign",
        only=("nmac",),
    ),
    row("nmac-of-neg", "(mac.T (neg.T ?a) ?b ?c)", "(nmac.T ?a ?b ?c)", "", "absorbs the sign", only=("nmac",)),
    both("add-as-mac", "(add.T ?a ?b)", "(mac.T ?a 1 ?b)", "", "more units multiply and add than only add"),
    both("sub-as-msub", "(sub.T ?a ?b)", "(msub.T ?a 1 ?b)", "", "as add-as-mac"),
    both("sub-as-nmac", "(sub.T ?a ?b)", "(nmac.T ?b 1 ?a)", "", "as add-as-mac", unless=("msub",), only=("nmac",)),
    both("sub-as-mac", "(sub.T ?a ?b)", "(mac.T ?b -1 ?a)", "", "as add-as-mac", unless=("msub", "nmac")),
    lower("nmac-as-mac", "(nmac.T ?a ?b ?c)", "(mac.T (neg.T ?a) ?b ?c)"),
    lower(
        "nmac-as-msub",
        "(nmac.T ?a ?b ?c)",
        "(neg.T (msub.T ?a ?b ?c))",
        "reassoc",
        "signs of zeros differ",
        unless=("mac",),
    ),
    both(
        "msub-as-mac",
        "(msub.T ?a ?b ?c)",
        "(mac.T ?a ?b (neg.T ?c))",
        "",
        "free where ?c does not change",
        unless=("msub",),
    ),
    lower("mac-apart", "(mac.T ?a ?b ?c)", "(add.T (mul.T ?a ?b) ?c)", "contract"),
    lower("msub-apart", "(msub.T ?a ?b ?c)", "(sub.T (mul.T ?a ?b) ?c)", "contract", unless=("mac",)),
    lower("nmac-apart", "(nmac.T ?a ?b ?c)", "(sub.T ?c (mul.T ?a ?b))", "contract", unless=("mac", "msub")),
    lower("mul-as-mac", "(mul.T ?a ?b)", "(mac.T ?a ?b 0)", "reassoc", "a zero's sign may differ"),
    both("mac16", "(mac.i32 ?a ?b ?c)", "(mac16.i32 ?a ?b ?c)", "short16 ?a, short16 ?b"),
    both("mac16-of-mul", "(mul.i32 ?a ?b)", "(mac16.i32 ?a ?b 0)", "short16 ?a, short16 ?b"),
)

_SIGNS = (
    row("mul-minus-one", "(mul.T ?a -1)", "(neg.T ?a)"),
    both("neg-neg", "(neg.T (neg.T ?a))", "?a"),
    row("mul-neg-neg", "(mul.T (neg.T ?a) (neg.T ?b))", "(mul.T ?a ?b)"),
    row("sub-neg", "(sub.T ?a (neg.T ?b))", "(add.T ?a ?b)"),
    row("add-neg", "(add.T ?a (neg.T ?b))", "(sub.T ?a ?b)"),
    lower("sub-as-add", "(sub.T ?a ?b)", "(add.T ?a (neg.T ?b))"),
    row("neg-sub", "(neg.T (sub.T ?a ?b))", "(sub.T ?b ?a)", "reassoc", "the sign of zero differs"),
    row("nmac-constant", "(nmac.T ?a ?k ?c)", "(mac.T ?a ?n ?c)", "negated ?k ?n", "the sign goes into the constant"),
    row("mul-neg-constant", "(neg.T (mul.T ?a ?k))", "(mul.T ?a ?n)", "negated ?k ?n"),
    lower("neg-as-mul", "(neg.T ?a)", "(mul.T ?a -1)"),
    lower("neg-as-sub", "(neg.T ?a)", "(sub.T 0 ?a)", "reassoc", "0 - 0 is +0"),
    lower("neg-as-xor", "(neg.f32 ?a)", "(xor.i32 ?a -2147483648)", "", "flips the sign bit"),
    lower("neg-as-xor-double", "(neg.f64 ?a)", "(xor.i64 ?a -9223372036854775808)", "", "flips the sign bit"),
    both("abs-as-and", "(abs.f32 ?a)", "(and.i32 ?a 2147483647)", "", "clears the sign bit"),
    both("abs-as-and-double", "(abs.f64 ?a)", "(and.i64 ?a 9223372036854775807)", "", "clears the sign bit"),
    lower("abs-as-max", "(abs.T ?a)", "(max.T ?a (neg.T ?a))", "reassoc", unless=("abs",)),
    lower("abs-as-select", "(abs.T ?a)", "(select.T (lt.T ?a 0) (neg.T ?a) ?a)", "reassoc"),
    row("abs-neg", "(abs.T (neg.T ?a))", "(abs.T ?a)"),
    row("select-abs", "(select.T (lt.T ?a 0) (neg.T ?a) ?a)", "(abs.T ?a)", "reassoc"),
    row("max-neg-abs", "(max.T ?a (neg.T ?a))", "(abs.T ?a)", "reassoc"),
)

_UNITS_OF_ARITHMETIC = (
    row("mul-one", "(mul.T ?a 1)", "?a"),
    row("mul-one-swapped", "(mul.T 1 ?a)", "?a"),
    row("add-zero", "(add.T ?a 0)", "?a", "reassoc", "-0 + 0 is +0"),
    row("add-zero-swapped", "(add.T 0 ?a)", "?a", "reassoc", "-0 + 0 is +0"),
    row("sub-zero", "(sub.T ?a 0)", "?a"),
    row("mac-zero", "(mac.T ?a ?b 0)", "(mul.T ?a ?b)", "reassoc", "a zero's sign may differ"),
    row("mac-one", "(mac.T ?a 1 ?b)", "(add.T ?a ?b)"),
    row("mac-one-swapped", "(mac.T 1 ?a ?b)", "(add.T ?a ?b)"),
    row("mul-zero", "(mul.T ?a 0)", "0", "int"),
    row("shl-zero", "(shl.T ?a 0)", "?a", "int"),
    row("shr-zero", "(shr.T ?a 0)", "?a", "int"),
    row("min-same", "(min.T ?a ?a)", "?a"),
    row("max-same", "(max.T ?a ?a)", "?a"),
    row("select-same", "(select.T ?c ?a ?a)", "?a"),
    row("mov", "(mov.T ?a)", "?a"),
)

_FACTORS = (
    row("factor-left", "(add.T (mul.T ?a ?b) (mul.T ?a ?c))", "(mul.T ?a (add.T ?b ?c))", "reassoc", "less work"),
    row("factor-right", "(add.T (mul.T ?b ?a) (mul.T ?c ?a))", "(mul.T (add.T ?b ?c) ?a)", "reassoc", "less work"),
    row("factor-outer", "(add.T (mul.T ?a ?b) (mul.T ?c ?a))", "(mul.T ?a (add.T ?b ?c))", "reassoc"),
    row("factor-inner", "(add.T (mul.T ?b ?a) (mul.T ?a ?c))", "(mul.T ?a (add.T ?b ?c))", "reassoc"),
    row("factor-sub-left", "(sub.T (mul.T ?a ?b) (mul.T ?a ?c))", "(mul.T ?a (sub.T ?b ?c))", "reassoc"),
    row("factor-sub-right", "(sub.T (mul.T ?b ?a) (mul.T ?c ?a))", "(mul.T (sub.T ?b ?c) ?a)", "reassoc"),
    *(row(f"factor-mac-{n}", f"(add.T {x} {y})", made, "reassoc", "as the others, further down a sum")
      for n, x, y, made in (
          ("left", "(mul.T ?a ?b)", "(mac.T ?a ?c ?d)", "(mac.T ?a (add.T ?b ?c) ?d)"),
          ("left-swapped", "(mac.T ?a ?c ?d)", "(mul.T ?a ?b)", "(mac.T ?a (add.T ?c ?b) ?d)"),
          ("right", "(mul.T ?b ?a)", "(mac.T ?c ?a ?d)", "(mac.T (add.T ?b ?c) ?a ?d)"),
          ("right-swapped", "(mac.T ?c ?a ?d)", "(mul.T ?b ?a)", "(mac.T (add.T ?c ?b) ?a ?d)"),
      )),
)  # fmt: skip

_FACTORS_OF_MULTIPLY_ADDS = tuple(
    row(f"factor-mac-{outer}-{inner}", f"(mac.T {first} (mac.T {second} ?d))", "(mac.T ?a (add.T ?c ?b) ?d)",
        "reassoc, factor ?a", "two products of one factor")
    for outer, first in (("left", "?a ?b"), ("right", "?b ?a"))
    for inner, second in (("left", "?a ?c"), ("right", "?c ?a"))
) + tuple(
    row(f"factor-mac-mul-{outer}-{inner}", f"(mac.T {first} (mul.T {second}))", "(mul.T ?a (add.T ?c ?b))",
        "reassoc, factor ?a")
    for outer, first in (("left", "?a ?b"), ("right", "?b ?a"))
    for inner, second in (("left", "?a ?c"), ("right", "?c ?a"))
) + (
    row("factor-nmac-left", "(nmac.T ?a ?b (mul.T ?a ?c))", "(mul.T ?a (sub.T ?c ?b))", "reassoc, factor ?a"),
    row("factor-nmac-right", "(nmac.T ?b ?a (mul.T ?c ?a))", "(mul.T (sub.T ?c ?b) ?a)", "reassoc, factor ?a"),
    row("factor-msub-left", "(msub.T ?a ?b (mul.T ?a ?c))", "(mul.T ?a (sub.T ?b ?c))", "reassoc, factor ?a"),
    row("factor-msub-right", "(msub.T ?b ?a (mul.T ?c ?a))", "(mul.T (sub.T ?b ?c) ?a)", "reassoc, factor ?a"),
)  # fmt: skip

_GROUPING = (
    *(optional(f"associate-left-{op}", f"({op}.T ?a ({op}.T ?b ?c))", f"({op}.T ({op}.T ?a ?b) ?c)", when)
      for op, when in (("add", "reassoc"), ("mul", "reassoc"), ("min", ""), ("max", ""), ("and", "int"), ("or", "int"),
                       ("xor", "int"))),
    *(optional(f"associate-right-{op}", f"({op}.T ({op}.T ?a ?b) ?c)", f"({op}.T ?a ({op}.T ?b ?c))", when)
      for op, when in (("add", "reassoc"), ("mul", "reassoc"), ("min", ""), ("max", ""), ("and", "int"), ("or", "int"),
                       ("xor", "int"))),
    optional("associate-add-sub", "(add.T ?a (sub.T ?b ?c))", "(sub.T (add.T ?a ?b) ?c)", "reassoc"),
    optional("associate-sub-add", "(sub.T (add.T ?a ?b) ?c)", "(add.T ?a (sub.T ?b ?c))", "reassoc"),
    optional("associate-sub-sub", "(sub.T (sub.T ?a ?b) ?c)", "(sub.T ?a (add.T ?b ?c))", "reassoc"),
    optional("associate-mac", "(add.T ?d (mac.T ?a ?b ?c))", "(mac.T ?a ?b (add.T ?d ?c))", "reassoc"),
    optional("associate-mac-out", "(mac.T ?a ?b (add.T ?d ?c))", "(add.T ?d (mac.T ?a ?b ?c))", "reassoc"),
    optional("distribute-left", "(mul.T ?a (add.T ?b ?c))", "(add.T (mul.T ?a ?b) (mul.T ?a ?c))", "reassoc"),
    optional("distribute-right", "(mul.T (add.T ?b ?c) ?a)", "(add.T (mul.T ?b ?a) (mul.T ?c ?a))", "reassoc"),
    optional("distribute-sub-left", "(mul.T ?a (sub.T ?b ?c))", "(sub.T (mul.T ?a ?b) (mul.T ?a ?c))", "reassoc"),
    optional("distribute-sub-right", "(mul.T (sub.T ?b ?c) ?a)", "(sub.T (mul.T ?b ?a) (mul.T ?c ?a))", "reassoc"),
    optional("distribute-mac", "(mac.T ?a (add.T ?b ?c) ?d)", "(mac.T ?a ?b (mac.T ?a ?c ?d))", "reassoc"),
)  # fmt: skip

_DIVISION = (
    row("div-by-power", "(div.T ?a ?c)", "(mul.T ?a ?r)", "float, inverse ?c ?r", "exact: ?c is a power of two"),
    row("div-by-constant", "(div.T ?a ?c)", "(mul.T ?a ?r)", "float, reassoc, reciprocal ?c ?r"),
    both("div-as-reciprocal", "(div.T ?a ?b)", "(mul.T ?a (div.T 1 ?b))", "float, reassoc",
           "one division for many by the same divisor"),
)  # fmt: skip

_SIGN = "(shr.i32 (xor.i32 ?a ?b) 31)"
_HIGH = "(mov.i32 (mulhi.u32 ?a ?m))"
_EVEN_QUOTIENT = "(shl.i32 (div.i32 (shru.i32 ?a 1) ?b) 1)"
_LESS_IS_LEFT = f"(ltu.i32 (sub.i32 ?a (mul.i32 {_EVEN_QUOTIENT} ?b)) ?b)"

# Quotients of integers where the machine has none. By a constant: T. Granlund and P. Montgomery, "Division by invariant
# integers using multiplication", 1994.
_INTEGER_DIVISION = (
    lower("div-by-high-half", "(div.i32 ?a ?c)", "(sub.i32 (shr.i32 (mulhi.i32 ?a ?m) ?s) (shr.i32 ?a 31))",
          "signed_factor ?c ?m ?s", "the sign rounds toward zero"),
    lower("div-by-wide-factor", "(div.i32 ?a ?c)",
          "(sub.i32 (shr.i32 (add.i32 (mulhi.i32 ?a ?m) ?a) ?s) (shr.i32 ?a 31))",
          "wide_signed_factor ?c ?m ?s", "?m stands for 2**32 more"),
    lower("div-by-negative", "(div.i32 ?a ?c)", "(neg.i32 (div.i32 ?a ?n))", "negated ?c ?n, number ?c ?k, ?k < 0",
          only=("mulhi",)),
    lower("divu-by-high-half", "(div.u32 ?a ?c)", "(mov.u32 (shru.i32 (mov.i32 (mulhi.u32 ?a ?m)) ?s))",
          "unsigned_factor ?c ?m ?s"),
    lower("divu-by-wide-factor", "(div.u32 ?a ?c)",
          f"(mov.u32 (shru.i32 (add.i32 (shru.i32 (sub.i32 ?a {_HIGH}) 1) {_HIGH}) ?s))",
          "wide_unsigned_factor ?c ?m ?s", "?m stands for 2**32 more; half the difference keeps the sum a word"),
    lower("mod-as-rest", "(mod.i32 ?a ?b)", "(sub.i32 ?a (mul.i32 (div.i32 ?a ?b) ?b))"),
    lower("modu-as-rest", "(mod.u32 ?a ?b)", "(mov.u32 (sub.i32 ?a (mul.i32 (mov.i32 (div.u32 ?a ?b)) ?b)))"),
    lower("div-as-divu", "(div.i32 ?a ?b)",
          f"(sub.i32 (xor.i32 (mov.i32 (div.u32 (abs.i32 ?a) (abs.i32 ?b))) {_SIGN}) {_SIGN})", only=("div.u32",)),
    lower("divu-as-div", "(div.u32 ?a ?b)",
          "(mov.u32 (select.i32 (lt.i32 ?b 0) (xor.i32 (ltu.i32 ?a ?b) 1)"
          f" (add.i32 {_EVEN_QUOTIENT} (xor.i32 {_LESS_IS_LEFT} 1))))", "",
          "twice the quotient of half the dividend leaves less than two divisors", only=("div.i32",)),
)  # fmt: skip

ARITHMETIC: tuple[Rule, ...] = (
    *_MULTIPLY_ADD,
    *_SIGNS,
    *_UNITS_OF_ARITHMETIC,
    *_FACTORS,
    *_FACTORS_OF_MULTIPLY_ADDS,
    *_GROUPING,
    *_DIVISION,
    *_INTEGER_DIVISION,
)
