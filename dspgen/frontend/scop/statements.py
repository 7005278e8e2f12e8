"""C statements as statements of the polyhedral program: loops and affine conditions become domains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pycparser import c_ast

from dspgen.errors import SourceError
from dspgen.frontend.parse.assigned_names import targets, walk
from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.scop import declarations, loops
from dspgen.frontend.scop.affine_sets import Nest, NotAffine, condition, is_data_dependent, is_irregular, piecewise
from dspgen.frontend.scop.c_types import CType, represented
from dspgen.frontend.scop.expr_walk import accesses, without_places
from dspgen.frontend.scop.expressions import ExpressionReader
from dspgen.frontend.scop.func_builder import Recorder
from dspgen.frontend.scop.scope import Array, Constant, Iterator, Scope, Symbol, Typed, Variable
from plant_core.ir.c_semantics import dtype_of, is_float, limits
from plant_core.ir.func import Binary, BinaryOp, Buf, Cast, Expr, Extent, Iter, Load, Select, Unary, Val
from plant_core.support.location import Loc

_REFUSED: dict[type, tuple[str, str]] = {
    c_ast.Goto: ("this 'goto' isn't supported", "jump ahead and not into a block, or use 'for' and 'if'"),
    c_ast.Label: ("this label isn't supported", "jump ahead and not into a block, or use 'for' and 'if'"),
    c_ast.Switch: ("'switch' isn't supported", "use 'if' and 'else'"),
    c_ast.Break: ("'break' isn't supported", "put the condition into the loop's bounds, or guard the statements"),
    c_ast.Continue: ("'continue' isn't supported", "guard the rest of the body with 'if'"),
}

Action = Callable[[], None]


@dataclass(slots=True)
class StatementReader:
    """Walks the kernel's body in text order; `guard` is the data-dependent condition around, if any.

    `defines` are scalars that stand for integer parameters from where they are declared on.
    """

    expressions: ExpressionReader
    recorder: Recorder
    counters: set[str]
    guard: Expr | None = None
    active: list[str] = field(default_factory=list)
    defines: tuple[str, ...] = ()

    @property
    def scope(self) -> Scope:
        return self.expressions.scope

    @property
    def nest(self) -> Nest:
        return self.expressions.nest

    def place(self, node: c_ast.Node) -> Loc:
        return self.expressions.place(node)

    def statement(self, node: c_ast.Node) -> None:
        """One statement; what is wrong with it is reported, and reading goes on behind it."""
        try:
            self._statement(node)
        except SourceError as error:
            self.recorder.report(error)

    def _statement(self, node: c_ast.Node) -> None:
        loc = self.place(node)
        if isinstance(node, c_ast.While | c_ast.DoWhile):
            loops.refuse_uncounted(node, loc)
        if type(node) in _REFUSED:
            message, remedy = _REFUSED[type(node)]
            fail("DG008", message, loc, remedy)
        match node:
            case c_ast.Compound():
                self._block(node.block_items or [])
            case c_ast.Decl():
                declarations.local(self, node)
            case c_ast.DeclList():
                for decl in node.decls:
                    self.statement(decl)
            case c_ast.For():
                self._loop(node, loc)
            case c_ast.If():
                self._if(node)
            case c_ast.Assignment() | c_ast.UnaryOp(op="p++" | "p--" | "++" | "--"):
                self.assignment(node)
            case c_ast.ExprList():
                for part in node.exprs:
                    self.statement(part)
            case c_ast.EmptyStatement():
                pass
            case c_ast.Typedef():
                self.expressions.typedefs[node.name] = node.type
            case c_ast.Pragma():
                self._pragma(node.string, loc)
            case c_ast.Return():
                fail("DG008", "'return' is supported only at the end of the function", loc, "guard the rest with 'if'")
            case c_ast.FuncCall():
                name = node.name.name if isinstance(node.name, c_ast.ID) else "?"
                remedy = "write its body in its place"
                if name not in self.expressions.functions:
                    remedy = "the file doesn't define it: move the call out of the kernel, or write what it does"
                fail("DG008", f"the call of '{name}' can't be a statement", loc, remedy)
            case c_ast.Cast():
                pass
            case _:
                self.expressions.read(node)

    def _pragma(self, text: str, loc: Loc) -> None:
        if text.split()[:1] in (["scop"], ["endscop"]):
            fail("DG019", f"#pragma {text} inside a statement", loc, "place it in the function's outermost block")

    def _block(self, items: list[c_ast.Node]) -> None:
        self.scope.enter()
        outer_types = dict(self.expressions.typedefs)
        for item in items:
            self.statement(item)
        self.expressions.typedefs = outer_types
        self.scope.leave()

    # Assignments

    def assignment(self, node: c_ast.Node) -> Typed:
        """An assignment statement, `++` and `--` included; gives the assigned object's new value."""
        loc = self.place(node)
        one = Typed(Val(1, "i32"), "i32")
        if isinstance(node, c_ast.UnaryOp):
            operator, value, target = node.op[-1], one, node.expr
        else:
            operator, target = node.op[:-1], node.lvalue
            nested = isinstance(node.rvalue, c_ast.Assignment)
            value = self.assignment(node.rvalue) if nested else self.expressions.read(node.rvalue)
        if isinstance(target, c_ast.ArrayRef):
            return self._store(target, operator, value, loc)
        if not isinstance(target, c_ast.ID):
            fail("DG013", "only variables and array elements can be assigned", self.place(target), "use an array")
        symbol = self.scope.need(target.name, self.place(target))
        match symbol:
            case Variable():
                if operator:
                    current = self.expressions.read(target)
                    value = self.expressions.operate(operator, current, value, loc)
                return self.set_variable(symbol, value, loc)
            case Iterator():
                fail(
                    "DG015",
                    f"the loop iterator '{target.name}' is assigned in its loop",
                    self.place(target),
                    "use another variable, or change the loop's step",
                )
            case _:
                fail("DG021", f"'{target.name}' can't be assigned", self.place(target), "assign to a variable")

    def _store(self, target: c_ast.ArrayRef, operator: str, value: Typed, loc: Loc) -> Typed:
        access = self._reachable(self.expressions.element(target))
        element = Typed(access, access.dtype)
        if operator:
            value = self.expressions.operate(operator, element, value, loc)
        converted = self.expressions.convert(value, access.dtype, loc).expr
        self.recorder.record(self.nest, access, self._guarded(converted, access), loc)
        return element

    def _reachable(self, access: Load) -> Load:
        """The element that is written under the guard; where that is false, one that exists is left as it is."""
        if self.guard is None:
            return access
        shape = self.recorder.bufs[access.buf].shape
        indices = tuple(
            Select(self.guard, index, Val(0, dtype_of(index)), dtype_of(index)) if _may_leave(index, extent) else index
            for index, extent in zip(access.indices, shape, strict=True)
        )
        return replace(access, indices=indices)

    def set_variable(self, variable: Variable, value: Typed, loc: Loc) -> Typed:
        converted = self.expressions.convert(value, variable.ctype, loc)
        fresh = variable.guard is self.guard
        variable.known = self._known(converted) if fresh else None
        if variable.counts or variable.ctype == "u64":
            if variable.known is None:
                why = "counts a loop elsewhere" if variable.counts else "is 64-bit unsigned"
                message = f"'{variable.name}' {why}, so its value must be affine here"
                fail("DG015" if variable.counts else "DG006", message, loc, "use another variable, of type int")
            return variable.known
        buf = self.expressions.storage(variable)
        self.recorder.bufs[buf.name] = buf
        access = Load(buf.name, (), buf.dtype, loc)
        expr = converted.expr if fresh else self._guarded(converted.expr, access)
        self.recorder.record(self.nest, access, expr, loc)
        return variable.known or Typed(access, variable.ctype)

    def _guarded(self, value: Expr, target: Load) -> Expr:
        return value if self.guard is None else Select(self.guard, value, target, target.dtype)

    def _known(self, value: Typed) -> Typed | None:
        """The value itself, if it may stand for the variable as long as that isn't assigned again."""
        if is_float(represented(value.ctype)) or is_data_dependent(value.expr):
            return None
        try:
            piecewise(value.expr, self.nest)
        except NotAffine:
            return None
        return value

    def forget(self, *bodies: c_ast.Node | None) -> None:
        """Drops what is known of the variables that these statements assign."""
        for body in bodies:
            for name in targets(body):
                symbol = self.scope.find(name)
                if isinstance(symbol, Variable):
                    symbol.known = None

    # Conditions

    def _if(self, node: c_ast.If) -> None:
        test = self.expressions.condition(node.cond)
        self._branch(
            test,
            lambda: self._arm(node.iftrue),
            (lambda: self._arm(node.iffalse)) if node.iffalse is not None else None,
            node,
        )
        self.forget(node.iftrue, node.iffalse)

    def _arm(self, body: c_ast.Node) -> None:
        """One branch, as a block of its own, leaving what is known of the variables as it was."""
        before = [(v, v.known) for v in self.scope.variables()]
        self.scope.enter()
        self.statement(body)
        self.scope.leave()
        for variable, known in before:
            variable.known = known

    def _branch(self, test: Expr, then: Action, other: Action | None, node: c_ast.If) -> None:
        try:
            chosen = condition(test, self.nest)
        except NotAffine:
            self._by_data(test, then, other, node)
            return
        outer = self.nest
        self._inside(outer.within(chosen), then)
        if other is not None:
            self._inside(outer.without(chosen), other)

    def _inside(self, nest: Nest, action: Action) -> None:
        outer = self.nest
        if nest.domain.is_empty():
            return
        self.expressions.nest = Nest(nest.iters, nest.domain.coalesce())
        try:
            action()
        finally:
            self.expressions.nest = outer

    def _is_affine(self, test: Expr) -> bool:
        try:
            condition(test, self.nest)
        except NotAffine:
            return False
        return True

    def _by_data(self, test: Expr, then: Action, other: Action | None, node: c_ast.If) -> None:
        """A condition that isn't affine as a whole: its affine parts become domains, the rest a guard."""

        def first_then(one: Expr, rest: Expr, op: str) -> None:
            if op == "land":
                self._branch(one, lambda: self._branch(rest, then, other, node), other, node)
            else:
                self._branch(one, then, lambda: self._branch(rest, then, other, node), node)

        match test:
            case Binary("land" | "lor" as op, left, right) if self._is_affine(left):
                first_then(left, right, op)
            case Binary("land" | "lor" as op, left, right) if self._is_affine(right):
                first_then(right, left, op)
            case Unary("lnot", Binary("land" | "lor" as op, left, right)) if self._has_affine_part(left, right):
                opposite: BinaryOp = "lor" if op == "land" else "land"
                parts = Unary("lnot", left, "i32"), Unary("lnot", right, "i32")
                self._branch(Binary(opposite, *parts, "i32"), then, other, node)
            case _:
                self._guard(test, then, other, node)

    def _has_affine_part(self, left: Expr, right: Expr) -> bool:
        return self._is_affine(left) or self._is_affine(right)

    def _guard(self, test: Expr, then: Action, other: Action | None, node: c_ast.If) -> None:
        """The condition on each assignment in the arms, those in loops included."""
        with self.expressions.assuming(test, True):
            if self._merged(test, node):
                return
            if self._spoiled(test, node):
                test = self._saved(test, node)
            outer = self.guard
            self.guard = _both(outer, test)
            then()
            if other is not None:
                self.guard = _both(outer, Unary("lnot", test, "i32"))
                other()
            self.guard = outer

    def _merged(self, test: Expr, node: c_ast.If) -> bool:
        """`if (c) x = a; else x = b;` as one statement."""
        arms = [_only_assignment(node.iftrue), _only_assignment(node.iffalse)]
        if any(arm is None or not isinstance(arm.lvalue, c_ast.ArrayRef | c_ast.ID) for arm in arms):
            return False
        places = [
            self.expressions.read(arm.lvalue) for arm in arms if arm is not None and self._has_storage(arm.lvalue)
        ]
        if len(places) != 2 or without_places(places[0].expr) != without_places(places[1].expr):
            return False
        target = places[0].expr
        if not isinstance(target, Load):
            return False
        values = []
        for arm in arms:
            if arm is not None:
                value = self.expressions.read(arm.rvalue)
                if arm.op != "=":
                    value = self.expressions.operate(arm.op[:-1], Typed(target, target.dtype), value, self.place(arm))
                values.append(self.expressions.convert(value, target.dtype, self.place(arm)).expr)
        chosen = Select(test, values[0], values[1], target.dtype)
        if target.buf not in self.recorder.bufs:
            self.recorder.bufs[target.buf] = self._buf_of(target.buf)
        self.recorder.record(self.nest, target, self._guarded(chosen, target), self.place(node))
        return True

    def _has_storage(self, node: c_ast.Node) -> bool:
        """Whether the place is in memory whatever is known of its value; a variable's value is then unknown."""
        if not isinstance(node, c_ast.ID):
            return True
        symbol = self.scope.find(node.name)
        if not isinstance(symbol, Variable) or symbol.counts:
            return False
        symbol.known = None
        return True

    def _buf_of(self, name: str) -> Buf:
        return next(v.buf for v in self.scope.variables() if v.buf is not None and v.buf.name == name)

    def _spoiled(self, test: Expr, node: c_ast.If) -> bool:
        """Whether the arms may change what the condition reads while they still need it."""
        assigned = targets(node.iftrue) + targets(node.iffalse)
        if len(assigned) < 2 and not any(isinstance(n, c_ast.For) for n in walk(node)):
            return False
        changed = {buf.name for name in assigned if (buf := _storage_of(self.scope.find(name))) is not None}
        return any(access.buf in changed for access in accesses(test))

    def _saved(self, test: Expr, node: c_ast.If) -> Expr:
        """The condition's outcome in a variable of its own."""
        loc = self.place(node.cond)
        buf = Buf(self.scope.fresh("condition"), "i32", (), "local", loc=loc, meaning="the condition's outcome")
        self.recorder.bufs[buf.name] = buf
        kept = Load(buf.name, (), "i32", loc)
        self.recorder.record(self.nest, kept, test, loc)
        return Binary("ne", kept, Val(0, "i32"), "i32")

    # Loops

    def _loop(self, node: c_ast.For, loc: Loc) -> None:
        head = loops.header(node, loc)
        self.scope.enter()
        try:
            for part in head.before:
                self._statement(part)
            self._counted(node, head, loc)
        finally:
            self.scope.leave()
        self.forget(node)

    def _counted(self, node: c_ast.For, head: loops.Header, loc: Loc) -> None:
        ctype, start = self._start(head, node, loc)
        self.forget(node.stmt, node.next)
        step = head.step if isinstance(head.step, int) else self.expressions.constant(head.step)
        if step is None or step == 0:
            place = loc if isinstance(head.step, int) else self.place(head.step)
            remedy = "use a constant step"
            if isinstance(head.step, c_ast.ID) and isinstance(self.scope.find(head.step.name), Constant):
                remedy = f"use a constant step, or fix the parameter: -D {head.step.name}=1, with its own value"
            fail("DG009", "the loop's step must be a constant other than zero", place, remedy)
        iterator = self.iterator_name(head.name)
        loops.need_shallow(self.nest, loc)
        count = loops.Count(iterator, ctype, start, -step if head.negative else step, self.place(node.cond))
        outer = self.nest
        self.expressions.nest = loops.reachable(outer, count)
        value: Expr = Iter(iterator)
        if ctype in ("u32", "i64", "u64"):
            value = Cast(represented(ctype), value)
        shown: CType = ctype if ctype in ("u32", "i64", "u64") else "i32"
        self.scope.enter()
        self.scope.declare(head.name, Iterator(Typed(value, shown)))
        self.active.append(iterator)
        try:
            test = self.expressions.condition(node.cond)
            self.expressions.nest = loops.body(self.nest, test, count)
            if not self.nest.domain.is_empty():
                before = self.recorder.enter(iterator, count.step)
                self.statement(node.stmt)
                self.recorder.leave(before)
        finally:
            self.active.pop()
            self.scope.leave()
            self.expressions.nest = outer

    def _start(self, head: loops.Header, node: c_ast.For, loc: Loc) -> tuple[CType, Expr]:
        """The iterator's type and first value."""
        if head.declared is not None:
            ctype = self.expressions.types.read(head.declared.type, self.place(head.declared)).ctype
        else:
            match self.scope.need(head.name, loc):
                case Variable(ctype=ctype):
                    pass
                case _:
                    fail("DG015", f"'{head.name}' already counts an outer loop", loc, "use another iterator")
        if is_float(represented(ctype)) or ctype == "bool":
            fail("DG009", "the loop's iterator isn't an integer", loc, "count in an int")
        named = head.start if head.start is not None else c_ast.ID(head.name, node.cond.coord)
        first = self.expressions.read(named)
        value = self.expressions.convert(first, ctype, loc)
        if ctype == "u64":
            self.expressions.need_exact(value, loc)
        return ctype, value.expr

    def iterator_name(self, name: str) -> str:
        """As in C, unless an enclosing loop, an array or a parameter has the name."""
        taken = self.scope.taken | set(self.active)
        count, chosen = 0, name
        while chosen in taken:
            count += 1
            chosen = f"{name}_{count}"
        self.scope.iterators.add(chosen)
        return chosen


def _storage_of(symbol: Symbol | None) -> Buf | None:
    return symbol.buf if isinstance(symbol, Array | Variable) else None


def _both(outer: Expr | None, test: Expr) -> Expr:
    return test if outer is None else Binary("land", outer, test, "i32")


def _may_leave(index: Expr, extent: Extent) -> bool:
    """Whether a subscript from memory may be one outside the array, as far as its type tells."""
    if not is_irregular(index):
        return False
    inner = index.operand if isinstance(index, Cast) else index
    low, high = limits(dtype_of(inner))
    return low < 0 or not isinstance(extent, int) or high >= extent


def _only_assignment(node: c_ast.Node | None) -> c_ast.Assignment | None:
    while isinstance(node, c_ast.Compound) and node.block_items and len(node.block_items) == 1:
        node = node.block_items[0]
    return node if isinstance(node, c_ast.Assignment) and not isinstance(node.rvalue, c_ast.Assignment) else None
