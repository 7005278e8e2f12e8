"""Pointers as subscripts: every element that is reached through a pointer becomes one of a named array.

Before: `float *p = a + 4 * i;  ... p[j] ... *(p + 1) ... &p[2] ...  p < end`
After:  `int p = 4 * i;         ... a[4 * i + j] ... a[4 * i + 1] ...   4 * i < end`, the pointer now being an index.

Requires: the places of `lower_state.State`. A pointer that may point into several arrays is refused where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pycparser import c_ast

from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.parse.syntax_tree import rebuilt
from dspgen.frontend.symbolic.polynomials import Poly, Read, assumed, atom, from_ast, to_ast
from dspgen.frontend.symbolic.state import Base, Integer, State, Types
from plant_core.support.location import Loc

COMPARED = ("<", "<=", ">", ">=", "==", "!=", "-")
LOCAL_ARRAY = "declare a local array in its place (`float t[64];`), or take one as a parameter"
ONE_ARRAY = "use one pointer for each array, or write 'name[subscript]'"


@dataclass(frozen=True, slots=True)
class Where:
    """A place in memory: an array, its row, and the index there as a polynomial, if it is one, and as C."""

    base: Base
    poly: Poly | None
    index: c_ast.Node


@dataclass(slots=True)
class Rewriter:
    """Rewrites expressions at a given state. `flat` collects arrays with pointers into their rows."""

    types: Types
    place: Callable[[c_ast.Node], Loc]
    flat: set[str] = field(default_factory=set)

    def read(self, node: c_ast.Node, state: State) -> Read | None:
        return from_ast(node, lambda name: self.types.read(name, state), self.types.kind)

    def printable(self, poly: Poly, state: State) -> Poly | None:
        found = assumed(poly, state.facts)
        return found if state.holds(found) else None

    # Values

    def value(self, node: c_ast.Node, state: State, *, bound: bool = False) -> c_ast.Node:
        """The expression without pointers, and with ints that are known replaced; in a loop's bound, all integers."""
        match node:
            case c_ast.ID():
                return self._name(node, state, bound)
            case c_ast.ArrayRef():
                return self._element(node, state)
            case c_ast.UnaryOp(op="*"):
                found = self._dereferenced(node, node.expr, None, state)
                return found if found is not None else node
            case c_ast.UnaryOp(op="sizeof"):
                return node
            case c_ast.BinaryOp(op=op) if op in COMPARED:
                left, right = self.where(node.left, state), self.where(node.right, state)
                if left is not None and right is not None:
                    return self._compared(node, left, right, state)
            case c_ast.FuncCall():
                args = None if node.args is None else rebuilt(node.args, lambda n: self.value(n, state, bound=bound))
                return c_ast.FuncCall(node.name, args, node.coord) if args is not node.args else node
        return rebuilt(node, lambda n: self.value(n, state, bound=bound))

    def _name(self, node: c_ast.ID, state: State, bound: bool) -> c_ast.Node:
        kind, poly = self.types.integers.get(node.name), state.values.get(node.name)
        if node.name in self.types.pointers and node.name not in self.types.arrays:
            fail("DG013", f"the pointer '{node.name}' is used as a value", self.place(node), ONE_ARRAY)
        if kind is None or poly is None or self.is_own(node.name, poly):
            return node
        shown = self.printable(poly, state)
        if shown is None or not (bound or shown.constant is not None or (kind.exact and self.types.exact(shown.names))):
            return node
        made = to_ast(shown, node.coord)
        return made if kind.exact else cast(made, kind)

    def is_own(self, name: str, poly: Poly) -> bool:
        """Whether the value is just what the variable has."""
        return len(poly.terms) == 1 and [n.name for n in poly.names] == [name] and poly == atom(next(iter(poly.names)))

    def subscript(self, node: c_ast.Node, state: State) -> c_ast.Node:
        """The subscript with every known variable replaced; as it was, where nothing is."""
        found = self.read(node, state)
        if found is None or not self._moves(node, state):
            return self.value(node, state, bound=True)
        shown = self.printable(found.poly, state)
        return to_ast(shown, node.coord) if shown is not None else self.value(node, state, bound=True)

    def _moves(self, node: c_ast.Node, state: State) -> bool:
        if isinstance(node, c_ast.ID):
            poly = state.values.get(node.name)
            return poly is not None and not self.is_own(node.name, poly)
        return any(self._moves(child, state) for _, child in node.children())

    # Places

    def _rank(self, base: Base) -> int:
        return self.types.arrays[base.array].rank - len(base.row)

    def where(self, node: c_ast.Node, state: State) -> Where | None:
        """The place that an expression points to, or None if it isn't a pointer."""
        match node:
            case c_ast.ID() if node.name in self.types.arrays:
                return Where(Base(node.name), Poly(), to_ast(Poly(), node.coord))
            case c_ast.ID() if node.name in self.types.pointers and node.name in state.bases:
                base = state.bases[node.name]
                if base is None:
                    message = f"'{node.name}' may point into more than one array here, or isn't set"
                    fail("DG013", message, self.place(node), ONE_ARRAY)
                return Where(base, state.values.get(node.name), c_ast.ID(node.name, node.coord))
            case c_ast.BinaryOp(op="+" | "-" as op):
                left = self.where(node.left, state)
                if left is not None:
                    return None if self._is_pointer(node.right, state) else self._moved(left, op, node.right, state)
                right = self.where(node.right, state) if op == "+" else None
                return None if right is None else self._moved(right, "+", node.left, state)
            case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef() as element):
                inner = self.where(element.name, state)
                return None if inner is None else self._moved(inner, "+", element.subscript, state)
            case c_ast.UnaryOp(op="&", expr=c_ast.UnaryOp(op="*", expr=inner)):
                return self.where(inner, state)
            case c_ast.ArrayRef():
                return self._row(node.name, node.subscript, node, state)
            case c_ast.UnaryOp(op="*"):
                return self._row(node.expr, None, node, state)
            case c_ast.Cast():
                return self._cast(node, state)
            case c_ast.TernaryOp():
                if self._is_pointer(node.iftrue, state) or self._is_pointer(node.iffalse, state):
                    message = "a pointer that may point into one of two arrays"
                    fail("DG013", message, self.place(node), "use 'if' with the loop in both branches")
        return None

    def _is_pointer(self, node: c_ast.Node, state: State) -> bool:
        return self.where(node, state) is not None

    def _moved(self, start: Where, op: str, amount: c_ast.Node, state: State) -> Where:
        read = self.read(amount, state)
        poly = None
        if read is not None and start.poly is not None and not (read.wraps and not read.wide):
            poly = start.poly + read.poly.scaled(1 if op == "+" else -1)
        by = self.value(amount, state, bound=True)
        zero = start.poly is not None and start.poly.constant == 0
        index = by if zero and op == "+" else c_ast.BinaryOp(op, start.index, by, amount.coord)
        return Where(start.base, poly, index)

    def _row(self, pointer: c_ast.Node, subscript: c_ast.Node | None, node: c_ast.Node, state: State) -> Where | None:
        start = self.where(pointer, state)
        if start is None or self._rank(start.base) < 2:
            return None
        moved = start if subscript is None else self._moved(start, "+", subscript, state)
        if moved.poly is None:
            fail("DG013", "a pointer to a row that isn't known in advance", self.place(node), ONE_ARRAY)
        return Where(Base(start.base.array, (*start.base.row, moved.poly)), Poly(), to_ast(Poly(), node.coord))

    def _cast(self, node: c_ast.Cast, state: State) -> Where | None:
        inner = self.where(node.expr, state)
        target = node.to_type.type
        if inner is None or not isinstance(target, c_ast.PtrDecl):
            return inner
        if self.types.element(target.type) != self.types.arrays[inner.base.array].element:
            fail(
                "DG013", "an array's elements are taken as another type", self.place(node), "use an array of that type"
            )
        return inner

    # Elements

    def _element(self, node: c_ast.ArrayRef, state: State) -> c_ast.Node:
        root, count = node.name, 1
        while isinstance(root, c_ast.ArrayRef):
            root, count = root.name, count + 1
        if isinstance(root, c_ast.ID) and root.name not in self.types.pointers:
            return self._plain(node, state)
        found = self._dereferenced(node, node.name, node.subscript, state)
        return found if found is not None else rebuilt(node, lambda n: self.value(n, state))

    def _plain(self, node: c_ast.Node, state: State) -> c_ast.Node:
        if not isinstance(node, c_ast.ArrayRef):
            return node
        name, subscript = self._plain(node.name, state), self.subscript(node.subscript, state)
        unchanged = name is node.name and subscript is node.subscript
        return node if unchanged else c_ast.ArrayRef(name, subscript, node.coord)

    def _dereferenced(
        self, node: c_ast.Node, pointer: c_ast.Node, subscript: c_ast.Node | None, state: State
    ) -> c_ast.Node | None:
        start = self.where(pointer, state)
        if start is None:
            return None
        if self._rank(start.base) != 1:
            fail("DG020", f"a row of '{start.base.array}' is used as a value", self.place(node), "name one element")
        moved = start if subscript is None else self._moved(start, "+", subscript, state)
        made: c_ast.Node = c_ast.ID(start.base.array, node.coord)
        for row in start.base.row:
            shown = self.printable(row, state)
            if shown is None:
                message = f"the row of '{start.base.array}' that the pointer is in isn't known here"
                fail("DG013", message, self.place(node), ONE_ARRAY)
            made = c_ast.ArrayRef(made, to_ast(shown, node.coord), node.coord)
        if start.base.row:
            self.flat.add(start.base.array)
        return c_ast.ArrayRef(made, self.index(moved, node.coord, state), node.coord)

    def index(self, where: Where, coord: object, state: State) -> c_ast.Node:
        shown = None if where.poly is None else self.printable(where.poly, state)
        return where.index if shown is None else to_ast(shown, coord)

    def _compared(self, node: c_ast.BinaryOp, left: Where, right: Where, state: State) -> c_ast.Node:
        if left.base != right.base:
            fail("DG013", "pointers into different arrays are compared", self.place(node), ONE_ARRAY)
        sides = [self.index(w, node.coord, state) for w in (left, right)]
        return c_ast.BinaryOp(node.op, *sides, node.coord)


def cast(node: c_ast.Node, kind: Integer) -> c_ast.Cast:
    declared = c_ast.TypeDecl(None, [], None, c_ast.IdentifierType(kind.name().split(), node.coord), coord=node.coord)
    return c_ast.Cast(c_ast.Typename(None, [], None, declared, coord=node.coord), node, node.coord)
