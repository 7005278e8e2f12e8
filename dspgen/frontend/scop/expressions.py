"""C expressions as typed expressions of the polyhedral program, with C's conversions made explicit."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator as Iterating
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import islpy as isl
from pycparser import c_ast

from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.parse.syntax_tree import returned
from dspgen.frontend.scop.affine_sets import Nest, NotAffine, condition, is_irregular, piecewise
from dspgen.frontend.scop.c_types import CType, TypeReader, common, promoted, represented, storable
from dspgen.frontend.scop.check_bounds import far_shift, zero_divisor
from dspgen.frontend.scop.constants import fold, literal, truth
from dspgen.frontend.scop.expr_walk import accesses, children
from dspgen.frontend.scop.scope import Array, Constant, Iterator, Scope, Typed, Variable
from plant_core.ir.accesses import from_linear, linear
from plant_core.ir.c_semantics import COMPARISONS, LIBRARY, dtype_of, is_float, size_of
from plant_core.ir.func import (
    Binary,
    BinaryOp,
    Buf,
    Call,
    Cast,
    DType,
    Expr,
    Extent,
    Load,
    Param,
    Select,
    Unary,
    UnaryOp,
    Val,
)
from plant_core.ir.printer import print_expr
from plant_core.support.location import Loc

ARITHMETIC: dict[str, BinaryOp] = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
BITWISE: dict[str, BinaryOp] = {"&": "and", "|": "or", "^": "xor"}
SHIFTS: dict[str, BinaryOp] = {"<<": "shl", ">>": "shr"}
COMPARE: dict[str, BinaryOp] = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
LOGIC: dict[str, BinaryOp] = {"&&": "land", "||": "lor"}
FUNCTIONS: dict[str, tuple[UnaryOp | BinaryOp, DType]] = {
    "sqrtf": ("sqrt", "f32"),
    "sqrt": ("sqrt", "f64"),
    "fabsf": ("abs", "f32"),
    "fabs": ("abs", "f64"),
    "abs": ("abs", "i32"),
    "labs": ("abs", "i64"),
    "llabs": ("abs", "i64"),
    "fminf": ("min", "f32"),
    "fmin": ("min", "f64"),
    "fmaxf": ("max", "f32"),
    "fmax": ("max", "f64"),
}
LIBRARY_CALLS: dict[str, tuple[str, DType]] = {name: (name, "f64") for name in LIBRARY} | {
    f"{name}f": (name, "f32") for name in LIBRARY
}
ROUNDING: dict[str, tuple[str, DType]] = {
    "lround": ("round", "f64"),
    "lroundf": ("round", "f32"),
    "lrint": ("rint", "f64"),
    "lrintf": ("rint", "f32"),
}
SPECIAL_VALUES: dict[str, tuple[float, DType]] = {
    "inff": (1.0, "f32"),
    "huge_valf": (1.0, "f32"),
    "nanf": (0.0, "f32"),
    "inf": (1.0, "f64"),
    "huge_val": (1.0, "f64"),
    "nan": (0.0, "f64"),
}
"""What the compiler's headers name so, as a quotient by zero."""
_STEPPING = ("p++", "p--", "++", "--")


@dataclass(slots=True)
class ExpressionReader:
    """Reads expressions at one place: `nest` is the loops and conditions around it; `by_data`: a condition around it
    depends on data, so that it may be left out in any iteration.

    `functions` are the file's own functions, whose calls are replaced by the value if they are one return statement.
    """

    scope: Scope
    place: Callable[[c_ast.Node], Loc]
    typedefs: dict[str, c_ast.Node]
    functions: dict[str, c_ast.FuncDef]
    nest: Nest
    calls: list[str] = field(default_factory=list)
    by_data: bool = False

    @property
    def types(self) -> TypeReader:
        return TypeReader(self.typedefs, self.extent, self.place)

    def constant(self, node: c_ast.Node) -> int | None:
        """The value of an integer constant expression, or None if it isn't one."""
        expr = self.read(node).expr
        return expr.value if isinstance(expr, Val) and isinstance(expr.value, int) else None

    def extent(self, node: c_ast.Node) -> Extent | None:
        """The value of an expression of constants and integer parameters, or None if it is anything else."""
        expr = self.read(node).expr
        if not _is_fixed(expr):
            return None
        if (form := linear(expr)) is not None:
            expr = from_linear(form, ())
        match expr:
            case Val(value):
                return int(value) if isinstance(value, int) else None
            case _:
                return None if is_float(dtype_of(expr)) else expr

    def condition(self, node: c_ast.Node) -> Expr:
        return truth(self.read(node).expr, self.place(node))

    def read(self, node: c_ast.Node) -> Typed:
        loc = self.place(node)
        match node:
            case c_ast.Constant():
                return literal(node, loc)
            case c_ast.ID():
                return self._name(node.name, loc)
            case c_ast.ArrayRef():
                return self._element(node)
            case c_ast.UnaryOp():
                return self._unary(node, loc)
            case c_ast.BinaryOp():
                return self._binary(node, loc)
            case c_ast.TernaryOp():
                return self._ternary(node, loc)
            case c_ast.Cast():
                target = self.types.read(node.to_type.type, loc)
                return self.convert(self.read(node.expr), target.ctype, loc)
            case c_ast.FuncCall():
                return self._call(node, loc)
            case c_ast.Assignment():
                fail("DG013", "an assignment inside an expression", loc, "make it a statement of its own")
            case c_ast.ExprList():
                fail("DG013", "the comma operator isn't supported", loc, "write separate statements")
            case c_ast.StructRef():
                fail("DG006", "structures and unions aren't supported", loc, "use one array for each member")
            case _:
                fail("DG013", "this expression isn't supported", loc, "write it with operators, arrays and scalars")

    def convert(self, value: Typed, target: CType, loc: Loc) -> Typed:
        """C's conversion to `target`."""
        if value.ctype == target:
            return value
        if target == "u64":
            return Typed(self._cast(value.expr, "i64", loc), "u64")
        if target == "bool":
            zero = Val(0, dtype_of(value.expr))
            return Typed(self._cast(fold(Binary("ne", value.expr, zero, "i32"), loc), "u8", loc), "bool")
        if value.ctype == "u64" and is_float(target):
            self.need_exact(value, loc)
        return Typed(self._cast(value.expr, target, loc), target)

    def _cast(self, expr: Expr, dtype: DType, loc: Loc) -> Expr:
        return expr if dtype_of(expr) == dtype else fold(Cast(dtype, expr), loc)

    def need_exact(self, value: Typed, loc: Loc) -> None:
        """Refuses a 64-bit unsigned value that isn't provably affine and not negative here."""
        if isinstance(value.expr, Val):
            exact = value.expr.value >= 0
        else:
            try:
                exact = bool(self.nest.domain.is_subset(_at_least_zero(value.expr, self.nest)))
            except NotAffine:
                exact = False
        if not exact:
            fail(
                "DG017",
                f"'{print_expr(value.expr)}' is 64-bit unsigned and may wrap around",
                loc,
                "use int or int64_t",
            )

    @contextmanager
    def assuming(self, expr: Expr, outcome: bool) -> Iterating[None]:
        """Within, what is read runs only where the condition comes out so."""
        outer, by_data = self.nest, self.by_data
        try:
            chosen = condition(expr, outer)
            self.nest = outer.within(chosen) if outcome else outer.without(chosen)
        except NotAffine:
            self.by_data = True
        try:
            yield
        finally:
            self.nest, self.by_data = outer, by_data

    def _name(self, name: str, loc: Loc) -> Typed:
        match self.scope.need(name, loc):
            case Constant(value) | Iterator(value):
                return value
            case Variable() as variable:
                return self._variable(variable, loc)
            case _:
                fail("DG020", f"the array '{name}' is used without subscripts", loc, "name one element")

    def _variable(self, variable: Variable, loc: Loc) -> Typed:
        if variable.known is not None:
            return variable.known
        if variable.counts or variable.ctype == "u64":
            what = f"the loop iterator '{variable.name}' is read outside its loop"
            if not variable.counts:
                what = f"'{variable.name}' is 64-bit unsigned and its value isn't affine here"
            fail("DG015" if variable.counts else "DG006", what, loc, "keep the value in another variable, of type int")
        buf = self.storage(variable)
        return Typed(Load(buf.name, (), buf.dtype, loc), variable.ctype)

    def storage(self, variable: Variable) -> Buf:
        if variable.buf is None:
            dtype = storable(variable.ctype, variable.loc)
            name, meaning = self.scope.fresh(variable.name), self.scope.meanings.get(variable.name, "")
            variable.buf = Buf(name, dtype, (), "local", loc=variable.loc, meaning=meaning)
        return variable.buf

    def element(self, node: c_ast.ArrayRef) -> Load:
        """An array element; its indices are as written, not yet in one form. Subscripts are proven affine, unless they
        depend on the program's data."""
        loc = self.place(node)
        subscripts: list[c_ast.Node] = []
        base: c_ast.Node = node
        while isinstance(base, c_ast.ArrayRef):
            subscripts.insert(0, base.subscript)
            base = base.name
        if not isinstance(base, c_ast.ID):
            fail("DG013", "only elements of named arrays can be accessed", loc, "write 'name[subscript]'")
        symbol = self.scope.need(base.name, loc)
        if not isinstance(symbol, Array):
            fail("DG020", f"'{base.name}' isn't an array", loc)
        rank = len(symbol.buf.shape)
        if len(subscripts) != rank:
            fail(
                "DG020",
                f"'{base.name}' has {rank} dimension{'s' * (rank != 1)}, but {len(subscripts)} subscript"
                f"{'s' * (len(subscripts) != 1)} are given",
                loc,
                "name one element",
            )
        indices = tuple(self._subscript(base.name, subscript) for subscript in subscripts)
        return Load(symbol.buf.name, indices, symbol.buf.dtype, loc)

    def _subscript(self, array: str, node: c_ast.Node) -> Expr:
        loc = self.place(node)
        expr = self.read(node).expr
        try:
            piecewise(expr, self.nest)
        except NotAffine as error:
            memory = error.data and next(accesses(expr), None) is not None
            if not is_float(dtype_of(expr)) and (memory or (not error.wraps and is_irregular(expr))):
                return expr
            message = f"the subscript of '{array}' isn't affine: {error.reason}"
            remedy = "subscripts must be sums of loop iterators and parameters times constants"
            fail("DG017" if error.wraps else "DG011", message, loc, "use signed int" if error.wraps else remedy)
        return expr

    def _element(self, node: c_ast.ArrayRef) -> Typed:
        access = self.element(node)
        return Typed(access, access.dtype)

    def _unary(self, node: c_ast.UnaryOp, loc: Loc) -> Typed:
        if node.op == "sizeof":
            return self._sizeof(node.expr, loc)
        if node.op in _STEPPING:
            fail("DG013", "an expression with a side effect", loc, "step the variable in a statement of its own")
        if node.op in ("*", "&"):
            fail("DG013", "pointers aren't supported", loc, "write 'name[subscript]'")
        operand = self.read(node.expr)
        if node.op == "!":
            return Typed(fold(Unary("lnot", truth(operand.expr, loc), "i32"), loc), "i32")
        operand = self.convert(operand, promoted(operand.ctype), loc)
        match node.op:
            case "+":
                return operand
            case "-" | "~":
                op: UnaryOp = "neg" if node.op == "-" else "not"
                return Typed(fold(Unary(op, operand.expr, represented(operand.ctype)), loc), operand.ctype)
            case other:
                fail("DG013", f"the operator '{other}' isn't supported", loc)

    def _sizeof(self, operand: c_ast.Node, loc: Loc) -> Typed:
        count = 1
        if isinstance(operand, c_ast.Typename):
            declared = self.types.read(operand.type, loc)
            ctype: CType = declared.ctype
            shape = declared.shape
        else:
            depth, base = 0, operand
            while isinstance(base, c_ast.ArrayRef) or (isinstance(base, c_ast.UnaryOp) and base.op == "*"):
                depth, base = depth + 1, base.name if isinstance(base, c_ast.ArrayRef) else base.expr
            symbol = self.scope.find(base.name) if isinstance(base, c_ast.ID) else None
            if isinstance(symbol, Array):
                if depth == 0 and symbol.buf.kind == "param":
                    fail("DG013", "sizeof of an array parameter is the size of a pointer", loc, "use its constant size")
                ctype, shape = symbol.buf.dtype, symbol.buf.shape[depth:]
            else:
                ctype, shape = self.read(operand).ctype, ()
        for extent in shape:
            if not isinstance(extent, int):
                fail("DG013", "sizeof of something whose size isn't constant", loc, "use the parameters that size it")
            count *= extent
        return Typed(Val(count * size_of(represented(ctype)), "i64"), "u64")

    def _binary(self, node: c_ast.BinaryOp, loc: Loc) -> Typed:
        if node.op in LOGIC:
            left = self.condition(node.left)
            with self.assuming(left, node.op == "&&"):
                right = self.condition(node.right)
            return Typed(_logic(LOGIC[node.op], left, right, loc), "i32")
        return self.operate(node.op, self.read(node.left), self.read(node.right), loc)

    def operate(self, symbol: str, left: Typed, right: Typed, loc: Loc) -> Typed:
        """`left symbol right` for an arithmetic, bitwise, shift or comparison operator."""
        if symbol in SHIFTS:
            return self._shift(SHIFTS[symbol], left, right, loc)
        if (op := (ARITHMETIC | BITWISE | COMPARE).get(symbol)) is None:
            fail("DG013", f"the operator '{symbol}' isn't supported", loc)
        ctype = common(left.ctype, right.ctype)
        one, other = self.convert(left, ctype, loc), self.convert(right, ctype, loc)
        if op in ("div", "mod") and not is_float(represented(ctype)) and not self.by_data:
            if (when := zero_divisor(other.expr, self.nest)) is not None:
                remedy = "change the divisor or the loop's bounds, or guard the division with 'if'"
                fail("DG013", f"'{print_expr(right.expr)}' is zero{when}: an integer is divided by zero", loc, remedy)
        if ctype == "u64" and op not in ("add", "sub", "mul", "and", "or", "xor"):
            self.need_exact(one, loc)
            self.need_exact(other, loc)
        if op in COMPARISONS:
            return Typed(fold(Binary(op, one.expr, other.expr, "i32"), loc), "i32")
        return Typed(fold(Binary(op, one.expr, other.expr, represented(ctype)), loc), ctype)

    def _shift(self, op: BinaryOp, left: Typed, right: Typed, loc: Loc) -> Typed:
        ctype = promoted(left.ctype)
        dtype = represented(ctype)
        value = self.convert(left, ctype, loc)
        amount = self._cast(right.expr, dtype, loc)
        if isinstance(amount, Val) and not 0 <= amount.value < size_of(dtype) * 8:
            fail("DG013", f"a shift by {amount.value} bits of a value that has {size_of(dtype) * 8}", loc)
        if (wrong := far_shift(amount, size_of(dtype) * 8, self.nest)) is not None:
            remedy = "C leaves open what such a shift gives: keep the amount below the value's bits"
            fail(
                "DG013", f"'{print_expr(right.expr)}' shifts a value of {size_of(dtype) * 8} bits {wrong}", loc, remedy
            )
        if ctype == "u64" and op == "shr":
            self.need_exact(value, loc)
        return Typed(fold(Binary(op, value.expr, amount, dtype), loc), ctype)

    def _ternary(self, node: c_ast.TernaryOp, loc: Loc) -> Typed:
        chosen = self.condition(node.cond)
        with self.assuming(chosen, True):
            true = self.read(node.iftrue)
        with self.assuming(chosen, False):
            false = self.read(node.iffalse)
        ctype = common(true.ctype, false.ctype)
        one, other = self.convert(true, ctype, loc), self.convert(false, ctype, loc)
        return Typed(fold(Select(chosen, one.expr, other.expr, represented(ctype)), loc), ctype)

    def _call(self, node: c_ast.FuncCall, loc: Loc) -> Typed:
        name = node.name.name if isinstance(node.name, c_ast.ID) else "?"
        if (special := name.removeprefix("__builtin_")) in SPECIAL_VALUES and special != name:
            numerator, dtype = SPECIAL_VALUES[special]
            return Typed(Binary("div", Val(numerator, dtype), Val(0.0, dtype), dtype), dtype)
        given = [self.read(a) for a in node.args.exprs] if node.args else []
        if name in self.calls:
            fail("DG014", f"the function '{name}' calls itself", loc, "write it as a loop")
        if name in self.functions:
            return self._inlined(name, given, loc)
        written, name = name, name.removeprefix("__builtin_")
        if name in LIBRARY_CALLS:
            function, result = LIBRARY_CALLS[name]
            if len(given) != LIBRARY[function]:
                fail("DG014", f"'{name}' takes {LIBRARY[function]} arguments, not {len(given)}", loc)
            return Typed(Call(function, tuple(self.convert(v, result, loc).expr for v in given), result), result)
        if name in ROUNDING:
            function, source = ROUNDING[name]
            whole = Call(function, tuple(self.convert(v, source, loc).expr for v in given), source)
            return self.convert(Typed(whole, source), "i64", loc)
        if name not in FUNCTIONS:
            known = ", ".join(sorted({"abs", "labs", "fabs", "fmax", "fmin", "sqrt", "lround", "lrint", *LIBRARY}))
            fail("DG014", f"the function '{written}' isn't known", loc, f"these are, also with an f behind: {known}")
        op, dtype = FUNCTIONS[name]
        args = [self.convert(value, dtype, loc).expr for value in given]
        match op:
            case "sqrt" | "abs":
                return Typed(fold(Unary(op, args[0], dtype), loc), dtype)
            case "min" | "max":
                return Typed(fold(Binary(op, args[0], args[1], dtype), loc), dtype)
            case _:
                fail("DG014", f"the function '{name}' isn't known", loc)

    def _inlined(self, name: str, given: list[Typed], loc: Loc) -> Typed:
        """The value of a function that is nothing but `return expression;`, its scalar parameters replaced."""
        definition = self.functions[name]
        result_node = returned(definition)
        declaration = definition.decl.type
        params = declaration.args.params if declaration.args else []
        named = [p for p in params if isinstance(p, c_ast.Decl)]
        if result_node is None:
            remedy = "store its value in a variable before, outside '&&', '||', '?:' and the headers of loops"
            fail("DG014", f"the function '{name}' can't be called here", loc, remedy)
        bound: dict[str, Constant] = {}
        for param, value in zip(named, given, strict=False):
            declared = self.types.read(param.type, self.place(param))
            if declared.shape:
                fail("DG014", f"the function '{name}' takes an array", loc, "write its body in the kernel")
            bound[param.name] = Constant(self.convert(value, declared.ctype, loc))
        result = self.types.read(declaration.type, loc).ctype
        inner = replace(
            self, scope=Scope([self.scope.blocks[0], dict(bound)], self.scope.taken), calls=[*self.calls, name]
        )
        return self.convert(inner.read(result_node), result, loc)


def _logic(op: BinaryOp, left: Expr, right: Expr, loc: Loc) -> Expr:
    """`&&` and `||`, decided where the left side already decides."""
    if isinstance(left, Val):
        decided = (op == "land") != bool(left.value)
        return Val(int(op == "lor"), "i32") if decided else right
    return fold(Binary(op, left, right, "i32"), loc)


def _at_least_zero(expr: Expr, nest: Nest) -> isl.Set:
    return piecewise(expr, nest).ge_set(nest.constant(0))


def _is_fixed(expr: Expr) -> bool:
    """Whether constants and parameters alone make the value."""
    match expr:
        case Val():
            return True
        case Param(_, dtype):
            return not is_float(dtype)
        case Cast() | Unary() | Binary() | Select():
            return all(_is_fixed(e) for e in children(expr))
        case _:
            return False
