"""Rules that are written for a number of lanes, and for the shapes of a region's accesses, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dspgen.rewrite.graph.patterns import argument_elems, result_elem
from dspgen.rewrite.rules.row import Rule, both, given, lower, row, start

_MOST_LANES = 64
MOST_LOADS = 4  # that a window of shuffles may span
_REDUCED = (("add", "reassoc"), ("min", "reassoc"), ("max", "reassoc"), ("mul", "reassoc"), ("and", "int"),
            ("or", "int"), ("xor", "int"))  # fmt: skip


@lru_cache(maxsize=8)
def lane_rules(lanes: int) -> tuple[Rule, ...]:
    """Reductions and gathers lane by lane, moves between lanes as shuffles and the reverse, merges of rows."""
    if lanes > _MOST_LANES or lanes < 2:
        return ()
    return (*_reductions(lanes), *_moves(lanes), *_gathers(lanes), *_merges(lanes))


def _reductions(lanes: int) -> list[Rule]:
    """As a tree over lanes taken one by one, for machines that have nothing better."""
    found = []
    for op, when in _REDUCED:
        level = [f"(lane.T.{k} ?a)" for k in range(lanes)]
        while len(level) > 1:
            joined = [f"({op}.T {x} {y})" for x, y in zip(level[::2], level[1::2], strict=False)]
            level = joined + level[len(joined) * 2 :]
        found.append(lower(f"reduce-{op}-by-lanes", f"(reduce_{op}.T ?a)", level[0], when))
    found.append(row("reduce-add-of-bcast", "(reduce_add.T (bcast.T ?a))", f"(mul.T ?a {lanes})", "reassoc"))
    return found


def _text(pattern: Sequence[int]) -> str:
    return f"[{','.join(map(str, pattern))}]"


def _moves(lanes: int) -> list[Rule]:
    """Moves that have names, as shuffles of one vector or of two."""
    every = range(lanes)
    one = [("reverse", [lanes - 1 - k for k in every])]
    one += [(f"dup_lane.T.{k}", [k] * lanes) for k in every]
    for rows in (r for r in range(2, lanes) if lanes % r == 0):
        columns = lanes // rows
        one.append((f"transpose.T.{rows}", [k % rows * columns + k // rows for k in every]))
    two = [("even", [2 * k for k in every]), ("odd", [2 * k + 1 for k in every])]
    two += [("zip_lo", [k // 2 + k % 2 * lanes for k in every])]
    two += [("zip_hi", [(k + lanes) // 2 + k % 2 * lanes for k in every])]
    two += [(f"align.T.{n}", [k + n for k in every]) for n in range(1, lanes)]
    two += [(f"concat.T.{n}", [k if k < n else lanes + k - n for k in every]) for n in range(1, lanes)]
    found = [lower("shuffle-as-shuffle2", "(shuffle.T.?p ?a)", "(shuffle2.T.?p ?a ?a)")]
    found += start("shuffle", [row("shuffle-none", f"(shuffle.T.{_text(every)} ?a)", "?a")])
    for shuffle, args, moves in (("shuffle", "?a", one), ("shuffle2", "?a ?b", two)):
        for move, pattern in moves:
            head = move if ".T" in move else f"{move}.T"
            name = head.replace(".T", "").replace(".", "-")
            named, shuffled = f"({head} {args})", f"({shuffle}.T.{_text(pattern)} {args})"
            found += given("shuffle shuffle2", [lower(f"{name}-as-shuffle", named, shuffled)])
            found += start("shuffle shuffle2 ld2 ldx", [both(f"shuffle-as-{name}", shuffled, named)])
    for rows in (r for r in range(2, lanes) if lanes % r == 0):
        back = f"(transpose.T.{rows} (transpose.T.{lanes // rows} ?a))"
        found += start("transpose", [row(f"transpose-{rows}-back", back, "?a")])
    return found


def _gathers(lanes: int) -> list[Rule]:
    """A gather whose index is loaded: its indices by scalar loads, and its elements one by one."""
    elements = " ".join(f"(ldx.T ?m ?c (ld.i32 ?n ?d+{k}))" for k in range(lanes))
    spread = " ".join("?a" for _ in range(lanes))
    return [
        both("gather-by-scalars", "(ldx.T ?m ?c 0 (ld.i32 ?n ?d 1))", f"(vec.T {elements})", "",
             "the scalar side reads the indices"),
        row("vec-of-one", f"(vec.T {spread})", "(bcast.T ?a)"),
    ]  # fmt: skip


def _merges(lanes: int) -> list[Rule]:
    """Rows of lanes from one load each: the load of row r begins r rows of lanes early, so that its row is in place."""
    found = []
    for rows in (r for r in (2, 4) if lanes % r == 0 and lanes > r):
        columns = lanes // rows
        place = [f"?c+{r}*?j-{r * columns}" if r else "?c" for r in range(rows)]
        loads = [f"(ld.T ?m {p} 1)" for p in place]
        merged = loads[-1]
        for r in range(rows - 2, -1, -1):
            merged = f"(select.T (mask_first.i32.{(r + 1) * columns}) {loads[r]} {merged})"
        left = f"(ld2.T ?m ?c 1 {columns} ?j) {' '.join(loads)}"
        found.append(both(f"rows-merged-{rows}", left, merged, "", "each load has its row in place"))
    half = lanes // 2
    if lanes % 2 == 0:
        halves = "(ld.T ?m ?c 1) (ld.T ?m ?c+?j 1)"
        found.append(both("rows-joined", f"(ld2.T ?m ?c 1 {half} ?j) {halves}", f"(concat.T.{half} {halves})"))
    return found


@lru_cache(maxsize=256)
def by_lanes(op: str, elem: str, lanes: int) -> Rule:
    """An operation of vectors as one of scalars for each lane, for what the machine does on the scalar side only."""
    elems = argument_elems(op, elem)
    parts = [" ".join(f"(lane.{e}.{k} ?{a})" for a, e in zip("abc", elems, strict=False)) for k in range(lanes)]
    holes = " ".join(f"?{a}" for a, _ in zip("abc", elems, strict=False))
    made = f"(vec.{result_elem(op, elem)} {' '.join(f'({op}.{elem} {p})' for p in parts)})"
    return lower(f"{op}-{elem}-by-lanes", f"({op}.{elem} {holes})", made, "vector")


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """An access of known places: lane k reads `offsets[k]` elements after its address. `text` is its pattern, with
    `?c` for the constant part of the address; `start` is where the loads begin that cover it, each `lanes` on."""

    text: str
    offsets: tuple[int, ...]
    start: int
    loads: int


def shape_rule(shape: Shape, lanes: int) -> Rule:
    """The access as shuffles of contiguous loads, which must be there."""
    loads = [f"(ld.T ?m {_from('?c', shape.start + n * lanes)} 1)" for n in range(shape.loads)]
    where = [o - shape.start for o in shape.offsets]
    name = f"window-{shape.text.split('.')[0].strip('(')}-{'-'.join(map(str, where))}"
    return both(name, f"{shape.text} {' '.join(loads)}", _window(loads, where, lanes), "", "shuffles of a window")


def _from(name: str, delta: int) -> str:
    return f"{name}{delta:+d}" if delta else name


def _window(loads: Sequence[str], where: Sequence[int], lanes: int) -> str:
    """Elements of adjacent vectors, by shuffles of two at a time."""
    if len(loads) == 1:
        return f"(shuffle.T.{_text(where)} {loads[0]})"
    if len(loads) == 2:
        return f"(shuffle2.T.{_text(where)} {loads[0]} {loads[1]})"
    low = [w if w < 2 * lanes else -1 for w in where]
    first = f"(shuffle2.T.{_text(low)} {loads[0]} {loads[1]})"
    high = [w - 2 * lanes if w >= 2 * lanes else -1 for w in where]
    joined = [k if w < 2 * lanes else lanes + (k if len(loads) > 3 else w - 2 * lanes) for k, w in enumerate(where)]
    second = loads[2] if len(loads) == 3 else f"(shuffle2.T.{_text(high)} {loads[2]} {loads[3]})"
    return f"(shuffle2.T.{_text(joined)} {first} {second})"
