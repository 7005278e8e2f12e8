"""Programs for a small function with all loops unrolled: the ways to group its outputs into lanes, and the whole code
of one such way. Which way is best is for the rest of the road to tell; see `pack` for how a group becomes code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dspgen.errors import NoSchedule
from dspgen.straight.latency import Latency
from dspgen.straight.operand_layout import Layout
from dspgen.straight.reroll import rerolled
from dspgen.straight.slp import Group, Packer, Style, Window
from dspgen.straight.trace import Element, Trace, refused, trace
from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Const,
    Elem,
    Let,
    Load,
    Loop,
    Program,
    ScalarDecl,
    Stmt,
    Store,
    Var,
    VType,
)
from dspgen.vecdsl.ir.terms import Names, register_elem, terms_in
from plant_core.ir.accesses import all_bufs
from plant_core.ir.func import Buf, Func

MOST_INSTANCES = 8192
MOST_STATEMENTS = 500
MOST_ANEW = 1.5  # times as many operations where groups share none
MOST_ROLLED = 4  # times as many, before loops are found again
MOST_DEPTH = 150  # operations in a chain
MOST_UNROLLED = 4000  # operations, with loops found again beyond
FEWEST_ROLLED = 6  # vectors, from which on it is tried to find loops again
FEW_VECTORS = 6
MOST_BY_COLUMNS = 64  # outputs
_WORK_AT_ONCE = 18  # vector operations under way, to hide their latency


@dataclass(frozen=True, slots=True)
class Straight:
    """A way to vectorize the whole function; `title` names it."""

    title: str
    program: Program


def straight_programs(func: Func, target: Target, *, reassoc: bool, most: int = 4) -> Iterator[Straight]:
    """Programs that do what `func` does, without loops, each with other groups of outputs in lanes; the likely best
    ones first, at most `most`.

    Raises NoSchedule where `func` is too large, or its control or subscripts aren't known beforehand. Vector loads
    start inside their array and may reach up to `lanes` elements beyond its end.
    """
    graph = trace(func, most=MOST_INSTANCES)
    if graph.depth() > MOST_DEPTH:
        raise refused(f"a chain of {graph.depth()} operations gains nothing from being unrolled", func)
    fused = fused_forms(target)
    latency = Latency(target)
    found: dict[tuple[Stmt, ...], tuple[float, Straight]] = {}
    small = sum(graph.live()) <= MOST_UNROLLED
    seen: set[Grouped] = set()
    for shape, groups in groupings(graph, target.lanes):
        if groups in seen:
            continue
        seen.add(groups)
        vectors = sum(len(g) > 1 for g in groups)
        widest = min(4, max(1, -(-_WORK_AT_ONCE // max(1, vectors))))
        for chains in sorted({1, widest} if vectors <= FEW_VECTORS else {widest}):
            title = f"unrolled, {shape}" + (f", sums in {chains} parts" if chains > 1 else "")
            style = Style(reassoc, fused, chains)
            if small and (program := _assembled(graph, groups, target.lanes, style)) is not None:
                found.setdefault(program.body, (latency.of(program), Straight(title, program)))
            if vectors >= FEWEST_ROLLED and _independent(graph, groups):
                program = _assembled(graph, groups, target.lanes, style, roll=True)
                if program is not None and any(isinstance(s, Loop) for s in program.body):
                    found.setdefault(program.body, (latency.of(program), Straight(f"{title}, rolled", program)))
    ranked = sorted(found.values(), key=lambda x: x[0])
    yield from (straight for _, straight in ranked[:most])


def _assembled(graph: Trace, groups: Grouped, lanes: int, style: Style, *, roll: bool = False) -> Program | None:
    """The program of these groups; None where it is too large, or operations wait for each other in too long a
    chain."""
    most = MOST_STATEMENTS * MOST_ROLLED if roll else MOST_STATEMENTS
    try:
        program = assemble(graph, groups, lanes, style, roll=roll, most=most)
    except (NoSchedule, RecursionError):
        return None
    return program if len(program.body) <= MOST_STATEMENTS else None


def _independent(graph: Trace, groups: Grouped) -> bool:
    """Whether the groups by themselves need not many more operations than together."""
    each = [graph.operations(graph.outputs[e] for e in elements) for elements in groups]
    return sum(map(len, each)) <= MOST_ANEW * len(set().union(*each))


def fused_forms(target: Target) -> frozenset[tuple[str, VType]]:
    """The multiply-adds of the machine, by the side that does them."""
    table = OperationTable(target)
    elems: tuple[Elem, ...] = ("f32", "f64", "i32")
    found: set[tuple[str, VType]] = set()
    for name in ("mac", "nmac"):
        for elem in elems:
            for form in table.forms(name, elem):
                kinds = {target.register_class(c).kind for c in form.result_operand.classes}
                found |= {(name, VType(elem, kind == "vector")) for kind in kinds if kind in ("vector", "scalar")}
    return frozenset(found)


Grouped = tuple[tuple[Element, ...], ...]


def groupings(graph: Trace, lanes: int) -> Iterator[tuple[str, Grouped]]:
    """Ways to cut the outputs into groups of neighbours. Where there are several arrays of rows, each may go by its
    rows or by its columns."""
    arrays = list(dict.fromkeys(array for array, _ in graph.outputs))
    outputs = {a: [e for e in graph.outputs if e[0] == a] for a in arrays}
    across = [_cut(outputs[a], lanes, 1, lambda e: 0) for a in arrays]
    yield "vectors across rows", tuple(g for groups in across for g in groups)
    rows = {a: _row_length(graph, a) for a in arrays}
    turned = min(len(arrays), 3) if len(graph.outputs) <= MOST_BY_COLUMNS else 0
    for choice in itertools.product((False, True), repeat=turned):
        columns = dict(zip(arrays, choice, strict=False))
        groups = [g for a in arrays for g in _lines(outputs[a], lanes, rows[a], columns.get(a, False))]
        names = ", ".join(f"{a} by {'columns' if columns.get(a, False) else 'rows'}" for a in arrays)
        yield names, tuple(groups)

    def step(element: Element) -> tuple[int, int, str]:
        node = graph.outputs[element]
        written = graph.written.get(node)
        return element[1] // rows[element[0]], written.version if written else 0, graph.nodes[node].name

    steps = [_cut(outputs[a], lanes, 1, step) for a in arrays]
    yield "vectors by steps", tuple(g for groups in steps for g in groups)
    yield "scalar", tuple((e,) for e in graph.outputs)


def _row_length(graph: Trace, array: str) -> int:
    extents = graph.func.buf(array).extents
    return extents[-1] if extents else 1


def _lines(outputs: list[Element], lanes: int, row: int, columns: bool) -> Grouped:
    if not columns:
        return _cut(outputs, lanes, 1, lambda e: e[1] // row)
    return _cut(sorted(outputs, key=lambda e: (e[1] % row, e[1])), lanes, row, lambda e: e[1] % row)


def _cut(outputs: list[Element], lanes: int, stride: int, key: Callable[[Element], object]) -> Grouped:
    """Maximal runs of elements `stride` apart with equal keys, at most `lanes` long."""
    groups: list[list[Element]] = []
    for element in outputs:
        last = groups[-1] if groups else []
        near = bool(last) and element == (last[-1][0], last[-1][1] + stride)
        if near and len(last) < lanes and key(element) == key(last[-1]):
            last.append(element)
        else:
            groups.append([element])
    return tuple(tuple(g) for g in groups)


def assemble(
    graph: Trace, groups: Grouped, lanes: int, style: Style, *, roll: bool = False, most: int | None = None
) -> Program:
    """The program that stores each group at once. What it loads is what the arrays held on entry.

    With `roll`, groups share no values, and those with the same code become loops. Raises NoSchedule where groups make
    over `most` statements.
    """
    func = graph.func
    bufs = all_bufs(func)
    names = Names([*bufs, *(p.name for p in func.params)])
    packer = Packer(graph, lanes, style, names, most)
    if roll:
        for elements in groups:
            _store(graph, packer, elements, lanes)
        known = packer.layouts
        packer = Packer(graph, lanes, style, names, most, layouts=known, copied=tuple(known.layouts))
    live = graph.live()
    read = [element for n, alive in enumerate(live) if alive and (element := graph.element(n)) is not None]
    loaded, written = {array for array, _ in read}, {array for array, _ in graph.outputs}
    stretches: list[list[Let | Window | Store]] = []
    late: list[Store] = []
    # In the order of the function itself, so that values wait little.
    for elements in sorted(groups, key=lambda g: max(graph.outputs[e] for e in g)) if not roll else groups:
        if roll:
            packer.forget()
        store = _store(graph, packer, elements, lanes)
        stretches.append([*packer.body])
        packer.body.clear()
        if elements[0][0] not in loaded:
            stretches[-1].append(store)
            continue
        if any(isinstance(t, Load) and t.array in written for t in terms_in([store])):
            # Another late store may change what this one still is to load.
            kept = Let(packer.names.fresh("m"), store.value)
            stretches[-1].append(kept)
            store = replace(store, value=Var(kept.name, kept.value.type))
        late.append(store)
    copies = _Copies(packer, bufs, lanes)
    resolved = [tuple(copies.resolved(s) if isinstance(s, Window) else s for s in part) for part in stretches]
    # A store that waits for the end reads what no loop may hold.
    stmts = rerolled(resolved, packer.names) if roll and not late else [s for part in resolved for s in part]
    arrays = [ArrayDecl(b.name, b.dtype, _size(b), False, b.const) for b in func.params if isinstance(b, Buf)]
    scalars = tuple(ScalarDecl(p.name, p.dtype) for p in func.params if not isinstance(p, Buf))
    params = tuple(p.name for p in func.params)
    fill = rerolled([(s,) for s in copies.before], packer.names) if roll else copies.before
    return Program(func.name, params, (*arrays, *copies.arrays), scalars, (*fill, *stmts, *late))


def _store(graph: Trace, packer: Packer, elements: tuple[Element, ...], lanes: int) -> Store:
    array, first = elements[0]
    elem = all_bufs(graph.func)[array].dtype
    loc = graph.func.loc
    if len(elements) == 1:
        return Store(array, Address(first), 1, elem, packer.scalar(graph.outputs[elements[0]]), None, loc)
    group: Group = (*(graph.outputs[e] for e in elements), *([None] * (lanes - len(elements))))
    active = None if len(elements) == lanes else len(elements)
    stride = elements[1][1] - first
    return Store(array, Address(first), stride, elem, packer.vector(group), active, loc)


def _size(buf: Buf) -> int:
    size = 1
    for extent in buf.extents:
        size *= extent
    return size


class _Copies:
    """The copies in the frame that windows are loaded from, and the statements that fill them."""

    def __init__(self, packer: Packer, bufs: dict[str, Buf], lanes: int) -> None:
        self.lanes = lanes
        self.bufs = bufs
        self.arrays: list[ArrayDecl] = []
        self.before: list[Store] = []
        self.places: dict[int, tuple[str, int]] = {}
        for layout in packer.layouts.layouts:
            self._fill(layout, packer.names.fresh("copy"))

    def _fill(self, layout: Layout, name: str) -> None:
        base = min(min(layout.cells), *layout.windows.values())
        size = max(max(layout.cells) + 1, max(layout.windows.values()) + self.lanes) - base
        (elem,) = {self.bufs[array].dtype for array, _ in layout.places}
        self.arrays.append(ArrayDecl(name, elem, size, True))
        type = VType(register_elem(elem), True)
        zero = Const(0.0 if elem in ("f32", "f64") else 0, type)
        done = base
        for place in layout.zeros():
            if place >= done:
                start = min(place, base + size - self.lanes)
                self.before.append(Store(name, Address(start - base), 1, elem, zero))
                done = start + self.lanes
        for place, (array, first), count in layout.runs():
            for part in range(0, count, self.lanes):
                active = min(self.lanes, count - part)
                self.before.append(self._copied(name, place - base + part, array, first + part, active, elem))
        self.places |= {number: (name, at - base) for number, at in layout.windows.items()}

    def _copied(self, name: str, place: int, array: str, first: int, active: int, elem: Elem) -> Store:
        vector = active > 1
        load = Load(array, Address(first), 1, elem, VType(register_elem(elem), vector))
        return Store(name, Address(place), 1, elem, load, active if vector and active < self.lanes else None)

    def resolved(self, window: Window) -> Let:
        name, at = self.places[window.number]
        elem = next(a.elem for a in self.arrays if a.name == name)
        return Let(window.name, Load(name, Address(at), 1, elem, window.type))
