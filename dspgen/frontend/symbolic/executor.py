"""Symbolic execution of a function: each statement again, with what is known of integers and pointers put in.

Before: `float *p = a; for (i = 0; i < n; i++) { s += *p; p += 2; }`
After:  `int p = 0; for (i = 0; i < n; i++) { s += a[2 * i]; p = 2 * i + 2; }`

Ensures: every expression has the value that it had. Assignments are kept, so that a variable that can't be followed
still holds its value; `lower_all` drops those that nothing reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pycparser import c_ast

from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.parse.syntax_tree import assign, assigned_names, items, rebuilt, step_of, variable
from dspgen.frontend.parse.unique_names import Fresh
from dspgen.frontend.symbolic import induction_variables
from dspgen.frontend.symbolic.pointers import LOCAL_ARRAY, ONE_ARRAY, Rewriter, Where
from dspgen.frontend.symbolic.polynomials import Poly, converted, from_ast, to_ast
from dspgen.frontend.symbolic.state import Integer, State, Types
from plant_core.support.location import Loc

_ALLOCATORS = ("malloc", "calloc", "realloc", "alloca")


@dataclass(slots=True)
class Executor:
    """`budget` is what may still be unrolled, in syntax nodes; `bounds` are the variables made to bound loops."""

    types: Types
    rewriter: Rewriter
    place: Callable[[c_ast.Node], Loc]
    fresh: Fresh
    budget: int = 200_000
    bounds: list[str] = field(default_factory=list)

    def block(self, nodes: list[c_ast.Node], state: State) -> list[c_ast.Node]:
        """The statements of a block, whose declarations end with it."""
        out: list[c_ast.Node] = []
        for node in nodes:
            self.statement(node, state, out)
        # What a loop declares for its own use is in `out` alone.
        self.leave([*nodes, *out], state)
        return out

    def leave(self, nodes: list[c_ast.Node], state: State) -> None:
        for node in nodes:
            for inner in items(node) if isinstance(node, c_ast.DeclList) else [node]:
                if isinstance(inner, c_ast.Decl) and inner.name is not None:
                    state.values.pop(inner.name, None)
                    state.bases.pop(inner.name, None)

    def body(self, node: c_ast.Node, state: State) -> c_ast.Node:
        made = self.block(items(node), state)
        return c_ast.Compound(made, node.coord)

    def statement(self, node: c_ast.Node, state: State, out: list[c_ast.Node]) -> None:
        match node:
            case c_ast.Compound():
                out.append(self.body(node, state))
            case c_ast.DeclList() | c_ast.ExprList():
                for part in items(node):
                    self.statement(part, state, out)
            case c_ast.Decl():
                self._declaration(node, state, out)
            case c_ast.If():
                self._if(node, state, out)
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                induction_variables.loop(self, node, state, out)
            case _:
                if (step := step_of(node)) is not None and self._assignment(node, step, state, out):
                    return
                out.append(self.rewriter.value(node, state) if not _is_opaque(node) else node)
                self.forget(assigned_names(node), state)

    def forget(self, names: set[str], state: State) -> None:
        """Variables that now have values of their own."""
        for name in sorted(names):
            if name in state.values:
                state.values[name] = self.types.fresh(name)
            if name in state.bases:
                state.bases[name] = None

    # Declarations and assignments

    def _declaration(self, node: c_ast.Decl, state: State, out: list[c_ast.Node]) -> None:
        if node.name is None:
            out.append(node)
            return
        self.types.declare(node)
        if node.name in self.types.pointers and node.name not in self.types.arrays:
            state.values[node.name] = self.types.fresh(node.name)
            state.bases[node.name] = None
            self.types.integers[node.name] = Integer(True, False)
            if node.init is None:
                out.append(variable(node.name, None, node.coord))
                return
            where = self._target(node.name, node.init, state)
            out.append(variable(node.name, self.rewriter.index(where, node.coord, state), node.coord))
            self._point(node.name, where, state)
            return
        value = None
        if node.name in self.types.integers:
            value = self._converted(node.name, node.init, state) if node.init is not None else None
            state.values[node.name] = self.types.fresh(node.name)
        if node.init is not None:
            node = rebuilt(node, lambda n: self.rewriter.value(n, state) if n is node.init else n)
        out.append(node)
        self.forget(assigned_names(node.init), state)
        if value is not None:
            state.values[node.name] = value

    def _converted(self, name: str, node: c_ast.Node, state: State) -> Poly | None:
        read = self.rewriter.read(node, state)
        kind = self.types.integers[name]
        found = None if read is None else converted(read, kind.signed, kind.wide)
        if found is None or (
            kind.narrow and not 0 <= (found.poly.constant if found.poly.constant is not None else -1) < 128
        ):
            return None
        return found.poly

    def _target(self, name: str, node: c_ast.Node, state: State) -> Where:
        where = self.rewriter.where(node, state)
        if where is None:
            remedy = LOCAL_ARRAY if _allocates(node) else ONE_ARRAY
            fail("DG013", f"what '{name}' points to isn't known in advance", self.place(node), remedy)
        pointer, array = self.types.pointers[name], self.types.arrays[where.base.array]
        if pointer.element != array.element or pointer.rank != array.rank - len(where.base.row):
            message = f"'{name}' points into '{where.base.array}', whose elements are of another type"
            fail("DG013", message, self.place(node), "use a pointer of the array's type")
        return where

    def _point(self, name: str, where: Where, state: State) -> None:
        state.bases[name] = where.base
        state.values[name] = where.poly if where.poly is not None else self.types.fresh(name)

    def _assignment(
        self, node: c_ast.Node, step: tuple[str, str, c_ast.Node], state: State, out: list[c_ast.Node]
    ) -> bool:
        """An assignment to a variable that is followed; False for all others."""
        name, op, value = step
        if name in self.types.pointers and name in state.bases:
            self._pointer_assignment(node, step, state, out)
            return True
        if name not in self.types.integers or name not in state.values or assigned_names(value):
            return False
        whole = value if not op else c_ast.BinaryOp(op, c_ast.ID(name, node.coord), value, node.coord)
        poly = self._converted(name, whole, state)
        shown = self.rewriter.printable(poly, state) if poly is not None and self.types.integers[name].exact else None
        if shown is not None and self.types.exact(shown.names):
            out.append(assign(name, to_ast(shown, node.coord), node.coord))
        elif isinstance(node, c_ast.Assignment):
            out.append(c_ast.Assignment(node.op, node.lvalue, self.rewriter.value(value, state), node.coord))
        else:
            out.append(node)
        state.values[name] = poly if poly is not None else self.types.fresh(name)
        return True

    def _pointer_assignment(
        self, node: c_ast.Node, step: tuple[str, str, c_ast.Node], state: State, out: list[c_ast.Node]
    ) -> None:
        name, op, value = step
        if op not in ("", "+", "-"):
            fail("DG013", f"the pointer '{name}' is used as a value", self.place(node), ONE_ARRAY)
        named = c_ast.ID(name, node.coord)
        target = value if not op else c_ast.BinaryOp(op, named, value, node.coord)
        where = self._target(name, target, state)
        out.append(assign(name, self.rewriter.index(where, node.coord, state), node.coord))
        self._point(name, where, state)

    # Conditions

    def constant(self, node: c_ast.Node, state: State) -> bool | None:
        """How a condition on integers comes out, if that is known."""
        read = from_ast(node, lambda name: self.types.read(name, state), self.types.kind)
        if read is not None:
            return None if read.poly.constant is None else read.poly.constant != 0
        match node:
            case c_ast.UnaryOp(op="!"):
                inner = self.constant(node.expr, state)
                return None if inner is None else not inner
            case c_ast.BinaryOp(op="&&" | "||" as op):
                left, right = self.constant(node.left, state), self.constant(node.right, state)
                if left is None or left == (op == "&&"):
                    return None if left is None else right
                return left
            case c_ast.BinaryOp(op="<" | "<=" | ">" | ">=" | "==" | "!=" as op):
                sides = [self.rewriter.read(side, state) for side in (node.left, node.right)]
                values = [s.poly.constant for s in sides if s is not None and not s.wraps]
                match values:
                    case [int(one), int(other)]:
                        return _COMPARE[op](one, other)
        return None

    def _if(self, node: c_ast.If, state: State, out: list[c_ast.Node]) -> None:
        outcome = self.constant(node.cond, state)
        if outcome is not None:
            taken = node.iftrue if outcome else node.iffalse
            if taken is not None:
                out.append(self.body(taken, state))
            return
        test = self.rewriter.value(node.cond, state, bound=True)
        one, other = state.copy(), state.copy()
        true = self.body(node.iftrue, one)
        false = self.body(node.iffalse, other) if node.iffalse is not None else None
        out.append(c_ast.If(test, _plain(node.iftrue, true), _plain(node.iffalse, false), node.coord))
        self.join(state, one, other)

    def join(self, state: State, one: State, other: State) -> None:
        """What both branches agree on."""
        for name in sorted(state.values):
            value = one.values.get(name)
            state.values[name] = (
                value if value is not None and value == other.values.get(name) else self.types.fresh(name)
            )
        for name in sorted(state.bases):
            base = one.bases.get(name)
            state.bases[name] = base if base == other.bases.get(name) else None


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
    "!=": int.__ne__,
}


def _is_opaque(node: c_ast.Node) -> bool:
    """Statements without expressions of their own."""
    return isinstance(
        node, c_ast.Pragma | c_ast.EmptyStatement | c_ast.Break | c_ast.Continue | c_ast.Goto | c_ast.Typedef
    )


def _plain(old: c_ast.Node | None, new: c_ast.Node | None) -> c_ast.Node | None:
    """A branch that was one statement as one statement, so that the reader may join the branches."""
    if isinstance(new, c_ast.Compound) and not isinstance(old, c_ast.Compound) and len(new.block_items) == 1:
        return new.block_items[0]
    return new


def _allocates(node: c_ast.Node) -> bool:
    while isinstance(node, c_ast.Cast):
        node = node.expr
    return isinstance(node, c_ast.FuncCall) and isinstance(node.name, c_ast.ID) and node.name.name in _ALLOCATORS
