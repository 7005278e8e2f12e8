"""Rules of loads: pairs, windows, strides, two levels of lanes, gathers, masks."""

from __future__ import annotations

from dspgen.rewrite.rules.row import Rule, both, lower, row, start

_LOADS = (
    both("pair-scalar", "(ld.T ?m ?c) (ld.T ?m ?c+1)", "(lo.T (ld_pair.T ?m ?c)) (hi.T (ld_pair.T ?m ?c))", "",
         "one access for two"),
    both("pair-vector", "(ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1)", "(lo.T (ld_pair.T ?m ?c 1)) (hi.T (ld_pair.T ?m ?c 1))",
         "", "one access for two"),
    *(both(f"pair-stride-{s}", f"(ld.T ?m ?c {s}) (ld.T ?m ?c+1 {s})",
           f"(lo.T (ld_pair.T ?m ?c {s})) (hi.T (ld_pair.T ?m ?c {s}))", "", "the access that deals out its elements")
      for s in (2, 4)),
    row("pair-broadcast", "(bcast.T (lo.T ?p)) (bcast.T (hi.T ?p))",
         "(lo.T (bcast_pair.T ?p)) (hi.T (bcast_pair.T ?p))", "", "one broadcast for two"),
    row("lo-pair", "(lo.T (pair.T ?a ?b))", "?a"),
    row("hi-pair", "(hi.T (pair.T ?a ?b))", "?b"),
    both("load-as-align", "(ld.T ?m ?c 1) (ld.T ?m ?d 1) (ld.T ?m ?d+lanes 1)",
         "(align.T.?k (ld.T ?m ?d 1) (ld.T ?m ?d+lanes 1))", "?k = ?c-?d, ?k > 0, ?k < lanes",
         "a window over two loads"),
    both("align-as-load", "(align.T.?k (ld.T ?m ?d 1) (ld.T ?m ?d+lanes 1))", "(ld.T ?m ?d+?k 1)"),
    both("load-as-even", "(ld.T ?m ?c 2) (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1)",
         "(even.T (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1))"),
    both("load-as-odd", "(ld.T ?m ?c+1 2) (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1)",
         "(odd.T (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1))"),
    both("even-as-load", "(even.T (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1))", "(ld.T ?m ?c 2)"),
    both("odd-as-load", "(odd.T (ld.T ?m ?c 1) (ld.T ?m ?c+lanes 1))", "(ld.T ?m ?c+1 2)"),
    lower("load-as-reverse", "(ld.T ?m ?c -1)", "(reverse.T (ld.T ?m ?c-lanes+1 1))"),
    both("reverse-as-load", "(reverse.T (ld.T ?m ?c 1))", "(ld.T ?m ?c+lanes-1 -1)"),
)  # fmt: skip

_STRIDES = (
    both("load-as-even-of-even", "(ld.T ?m ?c 4) (ld.T ?m ?c 2) (ld.T ?m ?c+2*lanes 2)",
         "(even.T (ld.T ?m ?c 2) (ld.T ?m ?c+2*lanes 2))"),
    both("even-of-even-as-load", "(even.T (ld.T ?m ?c 2) (ld.T ?m ?c+2*lanes 2))", "(ld.T ?m ?c 4)"),
    both("odd-of-even-as-load", "(odd.T (ld.T ?m ?c 2) (ld.T ?m ?c+2*lanes 2))", "(ld.T ?m ?c+2 4)"),
    both("concat-as-load", "(concat.T.?k (ld.T ?m ?c 1) (ld.T ?m ?c+?k 1))", "(ld.T ?m ?c 1)"),
    both("two-level-of-concat", "(concat.T.?k (ld.T ?m ?c 1) (ld.T ?m ?d 1))", "(ld2.T ?m ?c 1 ?k ?d-?c)",
         "lanes = ?k+?k"),
)  # fmt: skip

# What may be seen of an index where the access has a mask too ("xm", the mask being ?mask) or not ("x").
_PLACES = (("x", "ld", ""), ("xm", "ldm", " ?mask"))
_SMALL = "?n > -1048576, ?n < 1048576"  # so that 32 bits hold the sum, as the element is one of the array's
_INDEXED = tuple(
    rule
    for x, plain, mask in _PLACES
    for rule in (
        row(f"ld{x}-constant", f"(ld{x}.T ?m ?c ?s ?i{mask})", f"({plain}.T ?m ?c+?n ?s{mask})",
            f"number ?i ?n, {_SMALL}", "a known place"),
        row(f"ld{x}-constant-scalar", f"(ld{x}.T ?m ?c ?i{mask})", f"({plain}.T ?m ?c+?n{mask})",
            f"number ?i ?n, {_SMALL}"),
        *(row(f"ld{x}-{name}", f"(ld{x}.T ?m ?c ?s {sum}{mask})", f"(ld{x}.T ?m ?c+?n ?s ?i{mask})",
              f"number ?k ?n, {_SMALL}", "the constant goes into the address")
          for name, sum in (("add", "(add.i32 ?i ?k)"), ("add-swapped", "(add.i32 ?k ?i)"))),
        row(f"ld{x}-sub", f"(ld{x}.T ?m ?c ?s (sub.i32 ?i ?k){mask})", f"(ld{x}.T ?m ?c-?n ?s ?i{mask})",
            f"number ?k ?n, {_SMALL}"),
        *(row(f"ld{x}-{name}-scalar", f"(ld{x}.T ?m ?c {sum}{mask})", f"(ld{x}.T ?m ?c+?n ?i{mask})",
              f"number ?k ?n, {_SMALL}")
          for name, sum in (("add", "(add.i32 ?i ?k)"), ("add-swapped", "(add.i32 ?k ?i)"))),
        row(f"ld{x}-sub-scalar", f"(ld{x}.T ?m ?c (sub.i32 ?i ?k){mask})", f"(ld{x}.T ?m ?c-?n ?i{mask})",
            f"number ?k ?n, {_SMALL}"),
        row(f"ld{x}-iota", f"(ld{x}.T ?m ?c ?s (iota.i32){mask})", f"({plain}.T ?m ?c ?s+1{mask})", "",
            "lane after lane"),
        *(row(f"ld{x}-iota-{name}", f"(ld{x}.T ?m ?c ?s ({sum}){mask})", f"({plain}.T ?m ?c ?s+?n{mask})",
              f"number ?k ?n, {_SMALL}", "a stride")
          for name, sum in (("mul", "mul.i32 (iota.i32) ?k"), ("mul-swapped", "mul.i32 ?k (iota.i32)"))),
        row(f"ld{x}-iota-shl", f"(ld{x}.T ?m ?c ?s (shl.i32 (iota.i32) ?k){mask})",
            f"({plain}.T ?m ?c ?s+?n{mask})", f"log2 ?p ?k, number ?p ?n, {_SMALL}", "a stride"),
        *(row(f"ld{x}-add-iota-{name}", f"(ld{x}.T ?m ?c ?s (add.i32 {sum}){mask})",
              f"(ld{x}.T ?m ?c ?s+{step} ?i{mask})", when, "lane after lane from a computed place")
          for name, sum, step, when in (
              ("right", "?i (iota.i32)", "1", ""), ("left", "(iota.i32) ?i", "1", ""),
              ("scaled-right", "?i (mul.i32 (iota.i32) ?k)", "?n", f"number ?k ?n, {_SMALL}"),
              ("scaled-left", "(mul.i32 (iota.i32) ?k) ?i", "?n", f"number ?k ?n, {_SMALL}"),
              ("shifted-right", "?i (shl.i32 (iota.i32) ?k)", "?n", f"log2 ?p ?k, number ?p ?n, {_SMALL}"),
              ("shifted-left", "(shl.i32 (iota.i32) ?k) ?i", "?n", f"log2 ?p ?k, number ?p ?n, {_SMALL}"))),
    )
) + (
    both("gather-one", "(ldx.T ?m ?c 0 (bcast.i32 ?i))", "(bcast.T (ldx.T ?m ?c ?i))", "", "all lanes read it"),
)  # fmt: skip

_MASKED = (
    row("load-all", "(ldm.T ?m ?c ?s ?k)", "(ld.T ?m ?c ?s)", "number ?k ?n, ?n != 0"),
    row("load-none", "(ldm.T ?m ?c ?s ?k)", "0", "number ?k ?n, ?n = 0"),
    row("gather-all", "(ldxm.T ?m ?c ?s ?i ?k)", "(ldx.T ?m ?c ?s ?i)", "number ?k ?n, ?n != 0"),
    both("masked-as-select", "(ldm.T ?m ?c ?s ?k) (ld.T ?m ?c ?s)", "(select.T ?k (ld.T ?m ?c ?s) 0)", "",
         "what is there may be read"),
    both("select-as-masked", "(select.T ?k (ld.T ?m ?c ?s) 0)", "(ldm.T ?m ?c ?s ?k)", "", "no lane is read in vain"),
    row("masked-select", "(select.T ?k (ldm.T ?m ?c ?s ?k) 0)", "(ldm.T ?m ?c ?s ?k)"),
    row("masked-select-load", "(select.T ?k (ldm.T ?m ?c ?s ?k) ?b) (ld.T ?m ?c ?s)",
        "(select.T ?k (ld.T ?m ?c ?s) ?b)"),
    row("masked-twice", "(select.T ?j (ldm.T ?m ?c ?s ?k) 0)", "(ldm.T ?m ?c ?s (and.i32 ?j ?k))", "flag ?j, flag ?k"),
)  # fmt: skip

MEMORY: tuple[Rule, ...] = (
    *_LOADS, *_STRIDES, *start("ldx ldxm", _INDEXED), *start("ldm ldxm", _MASKED),
)  # fmt: skip
