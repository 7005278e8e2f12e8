"""Typing rules: the element type and the side (scalar, vector or open) of each of their terms."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspgen.rewrite.graph.patterns import (
    Apply,
    Comparison,
    Condition,
    Hole,
    Lanes,
    LoadPattern,
    Number,
    Pattern,
    Relation,
    RuleError,
    all_nodes,
    apply_nodes,
    argument_elems,
    argument_sides,
    integer_expressions,
    own_side,
    parse_side,
    result_elem,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a pattern node is: `side` is "s", "v" or a variable's name; `elem` may be "" where nothing tells."""

    elem: str
    side: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A rule for one element type. `holes` has each term name's kind; `sides` the open side variables."""

    left: tuple[Pattern, ...]
    right: tuple[Pattern, ...]
    comparisons: tuple[Comparison, ...]
    relations: tuple[Relation, ...]
    roots: tuple[Kind, ...]
    holes: tuple[tuple[str, Kind], ...]
    kinds: dict[int, Kind] = field(compare=False)

    def kind(self, pattern: Pattern) -> Kind:
        """The kind of a node of `left` or `right` (by identity: equal numbers may differ in kind)."""
        return self.kinds[id(pattern)]


class _Sides:
    """Union-find over side variables, with "s" and "v" as constants."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"?side{self.count}"

    def find(self, side: str) -> str:
        while side in self.parent:
            side = self.parent[side]
        return side

    def unite(self, a: str, b: str) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        if a in ("s", "v") and b in ("s", "v"):
            raise RuleError("a scalar and a vector where both must be of one kind")
        if a in ("s", "v"):
            a, b = b, a
        self.parent[a] = b


def infer(left: str, right: str, condition: Condition, elem: str) -> Typed:
    """Type a rule for the element type `elem` (which stands for T)."""
    sides = _Sides()
    holes: dict[str, Kind] = {}
    raw: dict[int, tuple[str, str]] = {}

    def visit(pattern: Pattern, want: str, side: str) -> None:
        if id(pattern) in raw:
            sides.unite(raw[id(pattern)][1], side)
            return
        match pattern:
            case Hole(name):
                if name in holes:
                    sides.unite(holes[name].side, side)
                    if not holes[name].elem:
                        holes[name] = Kind(want, holes[name].side)
                else:
                    holes[name] = Kind(want, side)
            case Number():
                pass
            case Lanes():
                sides.unite(side, "v")
            case LoadPattern():
                sides.unite(side, "s" if pattern.stride is None else "v")
                for arg in pattern.args:
                    visit(arg, "i32", side)
            case Apply(op=op):
                if (own := own_side(op)) is not None:
                    sides.unite(side, own)
                own_elem = elem if pattern.elem == "T" else pattern.elem
                count = len(pattern.args)
                elems, arg_sides = argument_elems(op, own_elem, count), argument_sides(op, side, count)
                for arg, arg_elem, arg_side in zip(pattern.args, elems, arg_sides, strict=True):
                    fresh = sides.fresh()
                    sides.unite(fresh, arg_side)
                    visit(arg, arg_elem, fresh)
        raw[id(pattern)] = (want, side)

    lefts, rights = side_of(left, "left"), side_of(right, "right")
    if len(rights) > len(lefts):
        raise RuleError("more terms on the right than on the left")
    unbound = _names(rights) - _names(lefts) - _bound_by(condition)
    if unbound:
        raise RuleError(f"the right side's {', '.join(sorted(unbound))} stands nowhere on the left")
    roots = []
    for index, pattern in enumerate(lefts):
        root_elem = _root_elem(pattern, elem)
        side = sides.fresh()
        visit(pattern, root_elem, side)
        if index < len(rights):
            visit(rights[index], root_elem, side)
        roots.append((root_elem, side))
    if "vector" in condition.words or "scalar" in condition.words:
        sides.unite(roots[0][1], "v" if "vector" in condition.words else "s")
    for relation in condition.relations:
        kinds = [holes[h] for h in relation.holes if h in holes]
        for hole in relation.holes:
            holes.setdefault(hole, kinds[0] if kinds else Kind(elem, sides.fresh()))
            sides.unite(holes[hole].side, holes[relation.holes[0]].side)
    return Typed(
        lefts,
        rights,
        condition.comparisons,
        condition.relations,
        tuple(Kind(e, sides.find(s)) for e, s in roots),
        tuple((n, Kind(k.elem, sides.find(k.side))) for n, k in holes.items()),
        {key: Kind(e, sides.find(s)) for key, (e, s) in raw.items()},
    )


def side_of(text: str, side: str) -> tuple[Pattern, ...]:
    try:
        return parse_side(text)
    except RuleError as error:
        raise RuleError(f"{error}, in its {side} side") from None


def _names(patterns: tuple[Pattern, ...]) -> set[str]:
    """All ?names of terms, memories and integers."""
    found = {p.name for p in all_nodes(patterns) if isinstance(p, Hole)}
    for node in apply_nodes(patterns):
        if isinstance(node, LoadPattern):
            found.add(node.memory)
        found |= {name for e in integer_expressions(node) for name, _ in e.terms}
    return found


def _bound_by(condition: Condition) -> set[str]:
    found = {h for r in condition.relations for h in (*r.holes, r.integer)}
    return found | {c.left.bare for c in condition.comparisons if c.op == "=" and c.left.bare is not None}


def _root_elem(pattern: Pattern, elem: str) -> str:
    match pattern:
        case Apply():
            return result_elem(pattern.op, elem if pattern.elem == "T" else pattern.elem)
        case LoadPattern():
            return elem if pattern.elem == "T" else pattern.elem
        case _:
            raise RuleError("the left side must be an operation")
