"""Sums whose products share factors, written again with each factor once.

The rules take a common factor out of neighbours in a sum. Here a sum of any length is looked at whole: of
`a*x + b*y + b*z + a*w`, as a symmetric filter has it, is made `a*(x + w) + b*(y + z)`, and that it is the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dspgen.rewrite.egraph.engine import Fact
from dspgen.rewrite.egraph.side_conditions import is_factor
from dspgen.rewrite.graph.enodes import Node, TermGraph
from dspgen.rewrite.graph.patterns import FLOATS

LONGEST = 64  # addends

# Of each operation: its addends, and the factors of its product, by argument with the sign of each.
_SUMS: dict[str, tuple[tuple[tuple[int, bool], ...], tuple[int, int] | None, bool]] = {
    "add": (((0, True), (1, True)), None, True),
    "sub": (((0, True), (1, False)), None, True),
    "mac": (((2, True),), (0, 1), True),
    "nmac": (((2, True),), (0, 1), False),
    "msub": (((2, False),), (0, 1), True),
}


@dataclass(frozen=True, slots=True)
class _Addend:
    """A term by number, or the product of two."""

    positive: bool
    terms: tuple[int, ...]


def propose_factors(graph: TermGraph, *, reassoc: bool) -> list[Fact]:
    """The sums that need fewer products, each the same as what it stands for; their terms are added to the graph."""
    uses = Counter(a for n in graph.nodes for a in n.args)
    uses.update(graph.roots)
    found = []
    inner = {a for n in graph.nodes if n.op in _SUMS for a in _summed(n) if uses[a] == 1}
    for number, node in enumerate(list(graph.nodes)):
        if node.kind != "op" or node.op not in _SUMS or (number in inner and uses[number] == 1):
            continue
        if node.elem in FLOATS and not reassoc:
            continue
        addends = _addends(graph, uses, number)
        groups = _groups(graph, addends)
        if len(addends) <= LONGEST and len(groups) < len(addends):
            found.append(Fact("same", (number, _sum(graph, node, groups))))
    return found


def _summed(node: Node) -> list[int]:
    return [node.args[place] for place, _ in _SUMS[node.op][0]]


def _addends(graph: TermGraph, uses: Counter[int], root: int) -> list[_Addend]:
    """What the sum is of, in its order. Terms that others need too stay whole."""
    kind = (graph.nodes[root].elem, graph.nodes[root].vector)
    found: list[_Addend] = []
    stack = [_Addend(True, (root,))]
    while stack:
        addend = stack.pop()
        number, positive = addend.terms[0], addend.positive
        node = graph.nodes[number]
        own = (node.elem, node.vector) == kind and (number == root or uses[number] == 1)
        if len(addend.terms) == 2 or node.kind != "op" or not own:
            found.append(addend)
        elif node.op == "mul":
            found.append(_Addend(positive, node.args))
        elif node.op in _SUMS:
            places, factors, sign = _SUMS[node.op]
            parts = [_Addend(positive == s, (node.args[p],)) for p, s in places]
            if factors is not None:
                parts.append(_Addend(positive == sign, tuple(node.args[f] for f in factors)))
            stack += reversed(parts)
        else:
            found.append(addend)
    return found


def _groups(graph: TermGraph, addends: list[_Addend]) -> list[list[_Addend]]:
    """The addends, those with a common factor together and with that factor first, in the order of their first."""
    left = list(range(len(addends)))
    groups: dict[int, list[_Addend]] = {}
    while True:
        count = Counter(
            t for i in left if len(addends[i].terms) == 2 for t in set(addends[i].terms) if is_factor(graph.nodes[t])
        )
        factor = max(count, key=lambda t: (count[t], -t), default=-1)
        if count[factor] < 2:
            break
        shared = [i for i in left if len(addends[i].terms) == 2 and factor in addends[i].terms]
        groups[shared[0]] = [_Addend(addends[i].positive, (factor, _other(addends[i], factor))) for i in shared]
        left = [i for i in left if i not in shared]
    groups.update({i: [addends[i]] for i in left})
    return [groups[i] for i in sorted(groups)]


def _other(addend: _Addend, factor: int) -> int:
    first, second = addend.terms
    return second if first == factor else first


def _sum(graph: TermGraph, like: Node, groups: list[list[_Addend]]) -> int:
    def make(op: str, *args: int) -> int:
        return graph.add(Node("op", op, like.elem, like.vector, args))

    def total(signed: list[tuple[bool, int]]) -> tuple[bool, int]:
        """The sum, and whether it is that or its opposite."""
        positive = any(s for s, _ in signed)
        first = next(i for i, (s, _) in enumerate(signed) if s == positive)
        result = signed[first][1]
        for sign, term in signed[:first] + signed[first + 1 :]:
            result = make("add" if sign == positive else "sub", result, term)
        return positive, result

    parts = []
    for group in groups:
        if len(group[0].terms) == 1:
            parts.append((group[0].positive, group[0].terms[0]))
            continue
        positive, inside = total([(a.positive, a.terms[1]) for a in group])
        parts.append((positive, make("mul", group[0].terms[0], inside)))
    positive, result = total(parts)
    return result if positive else make("neg", result)
