"""Between `Expr` and isl: access relations of a Comp, flattened accesses, and small folding constructors of `Expr`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import islpy as isl

from plant_core.ir.func import (
    Access,
    Binary,
    BinaryOp,
    Buf,
    Call,
    Cast,
    Comp,
    Effect,
    Expr,
    Func,
    Iter,
    Load,
    Param,
    Ramp,
    Select,
    Unary,
    Val,
    Verbatim,
)
from plant_core.ir.nested_quotients import tangled
from plant_core.ir.quasi_affine import product
from plant_core.support.location import PlantError
from plant_core.support.memoize import by_identity

Linear = tuple[int, dict[str, int]]
_INTEGERS = frozenset({"i8", "i16", "i32", "i64", "u8", "u16", "u32"})


def is_integer(dtype: str) -> bool:
    return dtype in _INTEGERS


def all_bufs(func: Func) -> dict[str, Buf]:
    """Every Buf of `func` by name, parameters included."""
    found = {b.name: b for b in func.bufs}
    for param in func.params:
        if isinstance(param, Buf):
            found.setdefault(param.name, param)
    return found


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Cast(operand=operand) | Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Select(condition=condition, true=true, false=false):
            return (condition, true, false)
        case Call(args=args):
            return args
        case Load(indices=indices) | Access(indices=indices):
            return indices
        case Ramp(load=load, stride=stride):
            return (load, stride)
        case Val() | Iter() | Param() | Verbatim():
            return ()


def rebuild(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """`expr` with its children replaced by `parts`."""
    match expr:
        case Cast(dtype=dtype):
            return Cast(dtype, parts[0])
        case Unary(op=op, dtype=dtype):
            return Unary(op, parts[0], dtype)
        case Binary(op=op, dtype=dtype):
            return Binary(op, parts[0], parts[1], dtype)
        case Select(dtype=dtype):
            return Select(parts[0], parts[1], parts[2], dtype)
        case Call(name=name, dtype=dtype):
            return Call(name, parts, dtype)
        case Load(buf=buf, dtype=dtype, loc=loc):
            return Load(buf, parts, dtype, loc)
        case Access(comp=comp, dtype=dtype, loc=loc):
            return Access(comp, parts, dtype, loc)
        case Ramp(lanes=lanes, dtype=dtype):
            load, stride = parts
            return Ramp(load, stride, lanes, dtype) if isinstance(load, Load) else expr
        case Val() | Iter() | Param() | Verbatim():
            return expr


def substitute(expr: Expr, iters: Mapping[str, Expr]) -> Expr:
    """`expr` with each iterator named in `iters` replaced."""
    if isinstance(expr, Iter):
        return iters.get(expr.name, expr)
    parts = children(expr)
    if not parts:
        return expr
    new = tuple(substitute(p, iters) for p in parts)
    return expr if new == parts else rebuild(expr, new)


def accesses(expr: Expr) -> Iterator[Load]:
    """Every Load that evaluating `expr` reads, those inside subscripts included."""
    if isinstance(expr, Load):
        yield expr
    for part in children(expr):
        yield from accesses(part)


# --- affine forms -------------------------------------------------------------------------------------------------


def linear(expr: Expr) -> Linear | None:
    """(constant, {name: coefficient}) over iterators and integer parameters, or None."""
    match expr:
        case Val(value=int() as value):
            return value, {}
        case Iter(name=name) | Param(name=name):
            return 0, {name: 1}
        case Cast(dtype=dtype, operand=operand) if dtype in ("i32", "i64"):
            return linear(operand)
        case Unary(op="neg", operand=operand):
            inner = linear(operand)
            return None if inner is None else _scale(inner, -1)
        case Binary(op=op, left=left, right=right):
            a, b = linear(left), linear(right)
            if a is None or b is None:
                return None
            return _linear_binary(op, a, b)
        case _:
            return None


def _linear_binary(op: BinaryOp, a: Linear, b: Linear) -> Linear | None:
    if op == "add":
        return _sum(a, b)
    if op == "sub":
        return _sum(a, _scale(b, -1))
    if op == "mul" and not b[1]:
        return _scale(a, b[0])
    if op == "mul" and not a[1]:
        return _scale(b, a[0])
    if op == "shl" and not b[1] and 0 <= b[0] < 31:
        return _scale(a, 1 << b[0])
    return None


def _scale(form: Linear, factor: int) -> Linear:
    return form[0] * factor, {n: c * factor for n, c in form[1].items() if c * factor}


def _sum(a: Linear, b: Linear) -> Linear:
    terms = dict(a[1])
    for name, coefficient in b[1].items():
        terms[name] = terms.get(name, 0) + coefficient
    return a[0] + b[0], {n: c for n, c in terms.items() if c}


def flatten(func: Func, access: Load) -> Linear | None:
    """The row-major element number of `access` as (constant, {name: coefficient}), or None where it is not affine."""
    shape = all_bufs(func)[access.buf].shape
    total: Linear = (0, {})
    for extent, index in zip(shape, access.indices, strict=True):
        form = linear(index)
        if form is None or not (isinstance(extent, int) or total == (0, {})):
            return None
        total = _sum(_scale(total, extent), form) if isinstance(extent, int) else form
    return total


def from_linear(form: Linear, iters: Collection[str] | None = None) -> Expr:
    """The Expr of a linear form; names in `iters` are iterators (all of them, by default), others i32 parameters."""
    terms: dict[Expr, int] = {
        Iter(n) if iters is None or n in iters else Param(n, "i32"): c for n, c in form[1].items()
    }
    return _from_terms(form[0], terms)


def to_pw_aff(expr: Expr, comp: Comp) -> isl.PwAff | None:
    """The value of an integer expression on `comp`'s iteration space, or None where it is not quasi-affine."""
    space = comp.domain.get_space().set_tuple_name(isl.dim_type.set, comp.name)
    return _pw_aff(expr, comp.iters, space)


def _pw_aff(expr: Expr, iters: tuple[str, ...], space: isl.Space) -> isl.PwAff | None:
    form = linear(expr)
    if form is not None:
        return _linear_aff(form, iters, space)
    match expr:
        case Cast(dtype=dtype, operand=operand) if dtype in ("i32", "i64"):
            return _pw_aff(operand, iters, space)
        case Unary(op="neg", operand=operand):
            inner = _pw_aff(operand, iters, space)
            return None if inner is None else inner.neg()
        case Binary(op=op, left=left, right=right):
            a, b = _pw_aff(left, iters, space), _pw_aff(right, iters, space)
            return None if a is None or b is None else pw_binary(op, a, b, linear(right))
        case _:
            return None


def with_param(space: isl.Space, name: str) -> isl.Space:
    """The space with one more parameter. Not by an `isl.Id`: one made here never equals one that isl read."""
    place = space.dim(isl.dim_type.param)
    return space.add_dims(isl.dim_type.param, 1).set_dim_name(isl.dim_type.param, place, name)


def _linear_aff(form: Linear, iters: tuple[str, ...], space: isl.Space) -> isl.PwAff:
    for name in form[1]:
        if name not in iters and space.find_dim_by_name(isl.dim_type.param, name) < 0:
            space = with_param(space, name)
    aff = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space)).set_constant_val(isl.Val(form[0]))
    for name, coefficient in form[1].items():
        if name in iters:
            aff = aff.set_coefficient_val(isl.dim_type.in_, iters.index(name), isl.Val(coefficient))
        else:
            place = space.find_dim_by_name(isl.dim_type.param, name)
            aff = aff.set_coefficient_val(isl.dim_type.param, place, isl.Val(coefficient))
    return isl.PwAff.from_aff(aff)


def pw_binary(op: BinaryOp, a: isl.PwAff, b: isl.PwAff, lb: Linear | None) -> isl.PwAff | None:
    """What an operation makes of two values, the right one in linear form `lb`; None where that isn't quasi-affine."""
    match op:
        case "add":
            return a.add(b)
        case "sub":
            return a.sub(b)
        case "min":
            return a.min(b)
        case "max":
            return a.max(b)
        case "mul":
            return product(a, b)
        case "floordiv" if lb is not None and not lb[1] and lb[0] > 0:
            return a.scale_down_val(isl.Val(lb[0])).floor()
        case "div" if lb is not None and not lb[1] and lb[0] > 0:
            return a.tdiv_q(b)
        case "mod" if lb is not None and not lb[1] and lb[0] > 0:
            return a.tdiv_r(b)
        case "shr" if lb is not None and not lb[1] and 0 <= lb[0] < 31:
            return a.scale_down_val(isl.Val(1 << lb[0])).floor()
        case _:
            return None


# --- access relations ---------------------------------------------------------------------------------------------


@by_identity
def domain_of(comp: Comp | Effect) -> isl.Set:
    """The Comp's domain with its own name on the tuple."""
    return comp.domain.set_tuple_name(comp.name)


@by_identity
def access_map(comp: Comp, access: Load) -> tuple[isl.Map, bool]:
    """`{ comp[i] -> buf[x] }` on the domain, and whether that is exact: what isn't affine, or tangled, may be any."""
    domain = domain_of(comp)
    space = domain.get_space()
    result = isl.Map.from_domain(domain)
    exact = True
    for index in access.indices:
        value = _pw_aff(index, comp.iters, space)
        if value is None or tangled(value):
            exact = False
            piece = isl.Map.from_domain(domain).add_dims(isl.dim_type.out, 1)
        else:
            piece = value.as_map()
        result = result.flat_range_product(piece)
    return result.set_tuple_name(isl.dim_type.out, access.buf), exact


def write(comp: Comp) -> isl.Map:
    """What `comp` writes, on its domain."""
    return access_map(comp, comp.target)[0]


@by_identity
def read_accesses(comp: Comp) -> tuple[Load, ...]:
    """The distinct accesses that `comp` reads, in text order (the locations of later equal ones are dropped)."""
    found: dict[tuple[str, tuple[Expr, ...]], Load] = {}
    for access in (*accesses(comp.value), *(a for i in comp.target.indices for a in accesses(i))):
        found.setdefault(access_key(access), access)
    return tuple(found.values())


def access_key(access: Load) -> tuple[str, tuple[Expr, ...]]:
    """Equal for two accesses of the same element, wherever they stand in the text."""
    return access.buf, tuple(_without_loc(i) for i in access.indices)


def _without_loc(expr: Expr) -> Expr:
    form = linear(expr)
    if form is not None:
        return from_linear((form[0], dict(sorted(form[1].items()))))
    parts = tuple(_without_loc(p) for p in children(expr))
    match expr:
        case Load(buf=buf, dtype=dtype):
            return Load(buf, parts, dtype)
        case _:
            return rebuild(expr, parts) if parts else expr


def reads(comp: Comp) -> list[tuple[Load, isl.Map]]:
    """What `comp` reads: each distinct access with its relation, on the domain."""
    return [(a, access_map(comp, a)[0]) for a in read_accesses(comp)]


# --- building Expr ------------------------------------------------------------------------------------------------


def integer(value: int) -> Val:
    return Val(int(value), "i32")


def _terms(expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Add `factor * expr` to `terms`, a sum over subexpressions that aren't sums; the constant is returned."""
    match expr:
        case Val(value=value):
            return int(value) * factor
        case Binary(op="add", left=left, right=right):
            return _terms(left, factor, terms) + _terms(right, factor, terms)
        case Binary(op="sub", left=left, right=right):
            return _terms(left, factor, terms) + _terms(right, -factor, terms)
        case (
            Binary(op="mul", left=Val(value=value), right=inner) | Binary(op="mul", left=inner, right=Val(value=value))
        ):
            return _terms(inner, int(value) * factor, terms)
        case Unary(op="neg", operand=operand):
            return _terms(operand, -factor, terms)
        case _:
            terms[expr] = terms.get(expr, 0) + factor
            return 0


def _from_terms(constant: int, terms: dict[Expr, int]) -> Expr:
    positive = [(e, c) for e, c in terms.items() if c > 0]
    negative = [(e, -c) for e, c in terms.items() if c < 0]
    result: Expr | None = None
    if not positive and negative and constant > 0:
        result, constant = integer(constant), 0
    for expr, factor in positive:
        part = _times(expr, factor)
        result = part if result is None else Binary("add", result, part, "i32")
    for expr, factor in negative:
        part = _times(expr, factor)
        result = Unary("neg", part, "i32") if result is None else Binary("sub", result, part, "i32")
    if result is None:
        return integer(constant)
    if constant:
        return Binary("add" if constant > 0 else "sub", result, integer(abs(constant)), "i32")
    return result


def _times(expr: Expr, factor: int) -> Expr:
    return expr if factor == 1 else Binary("mul", integer(factor), expr, "i32")


def combined(*parts: tuple[Expr, int]) -> Expr:
    """The sum of `factor * expr` over `parts`, like terms collected."""
    terms: dict[Expr, int] = {}
    constant = sum(_terms(expr, factor, terms) for expr, factor in parts)
    return _from_terms(constant, terms)


def add(a: Expr, b: Expr) -> Expr:
    """`a + b`; a constant moves into the operands of a `min` or `max`."""
    match a, b:
        case Binary(op="min" | "max" as op, left=left, right=right), Val():
            return Binary(op, add(left, b), add(right, b), "i32")
        case _:
            return combined((a, 1), (b, 1))


def sub(a: Expr, b: Expr) -> Expr:
    return add(a, integer(-int(b.value))) if isinstance(b, Val) else combined((a, 1), (b, -1))


def negate(a: Expr) -> Expr:
    return combined((a, -1))


def scaled(a: Expr, factor: int) -> Expr:
    return combined((a, factor))


def floordiv(a: Expr, divisor: int) -> Expr:
    match a:
        case Val(value=x):
            return integer(int(x) // divisor)
        case _ if divisor == 1:
            return a
        case _:
            return Binary("floordiv", a, integer(divisor), "i32")


def extremum(op: BinaryOp, parts: tuple[Expr, ...]) -> Expr:
    """The `min` or `max` of several, constants folded."""
    constants = [int(p.value) for p in parts if isinstance(p, Val)]
    others: list[Expr] = [p for p in parts if not isinstance(p, Val)]
    if constants:
        others.append(integer(min(constants) if op == "min" else max(constants)))
    result = others[0]
    for part in others[1:]:
        result = Binary(op, result, part, "i32")
    return result


_COMPARE: dict[str, BinaryOp] = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq"}


def from_ast(expr: isl.AstExpr, names: Mapping[str, Expr], *, truncating: bool = False) -> Expr:
    """An isl AST expression as an Expr; `names` has what each identifier stands for (others are i32 parameters).

    Where the dividend can't be negative, or the division is exact, `truncating` makes it C's `div` and `mod`, which
    are quicker than `floordiv`, the only one otherwise.
    """
    kind = expr.get_type()
    if kind == isl.ast_expr_type.int:
        return integer(expr.get_val().to_python())
    if kind == isl.ast_expr_type.id:
        name = expr.get_id().get_name()
        return names.get(name) or Param(name, "i32")
    op = expr.get_op_type()
    parts = tuple(from_ast(expr.get_op_arg(i), names, truncating=truncating) for i in range(expr.get_op_n_arg()))
    return _truncating(op, parts) if truncating else _from_operation(op, parts)


def _truncating(op: object, parts: tuple[Expr, ...]) -> Expr:
    kinds = isl.ast_expr_op_type
    if op in (kinds.div, kinds.pdiv_q, kinds.pdiv_r, kinds.zdiv_r) and not isinstance(parts[0], Val):
        divisor = _positive(parts[1])
        remainder = op in (kinds.pdiv_r, kinds.zdiv_r)
        if divisor > 1:
            return Binary("mod" if remainder else "div", parts[0], integer(divisor), "i32")
    return _from_operation(op, parts)


def _from_operation(op: object, parts: tuple[Expr, ...]) -> Expr:
    kinds = isl.ast_expr_op_type
    match op:
        case kinds.add:
            return add(*parts)
        case kinds.sub:
            return sub(*parts)
        case kinds.minus:
            return negate(parts[0])
        case kinds.mul:
            return _product(*parts)
        case kinds.min:
            return extremum("min", parts)
        case kinds.max:
            return extremum("max", parts)
        case kinds.div | kinds.fdiv_q | kinds.pdiv_q:
            return floordiv(parts[0], _positive(parts[1]))
        case kinds.pdiv_r | kinds.zdiv_r:
            divisor = _positive(parts[1])
            return sub(parts[0], scaled(floordiv(parts[0], divisor), divisor))
        case kinds.and_ | kinds.and_then:
            return Binary("land", parts[0], parts[1], "i32")
        case kinds.or_ | kinds.or_else:
            return Binary("lor", parts[0], parts[1], "i32")
        case kinds.cond | kinds.select:
            return Select(parts[0], parts[1], parts[2], "i32")
        case kinds.lt | kinds.le | kinds.gt | kinds.ge | kinds.eq:
            return Binary(_COMPARE[op.name], parts[0], parts[1], "i32")  # type: ignore[attr-defined]
        case _:
            raise PlantError(f"the loop generator used an operation that a loop tree lacks: {op}", code="DG299")


def _product(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Val):
        return scaled(b, int(a.value))
    if isinstance(b, Val):
        return scaled(a, int(b.value))
    return Binary("mul", a, b, "i32")


def _positive(divisor: Expr) -> int:
    if isinstance(divisor, Val) and int(divisor.value) > 0:
        return int(divisor.value)
    raise PlantError("the loop generator divided by something other than a positive constant", code="DG299")


_NEGATED: dict[str, BinaryOp] = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def negated(condition: Expr) -> Expr:
    """The opposite of an integer condition."""
    match condition:
        case Binary(op=op, left=left, right=right) if op in _NEGATED:
            return Binary(_NEGATED[op], left, right, "i32")
        case Binary(op="land" | "lor" as op, left=left, right=right):
            return Binary("lor" if op == "land" else "land", negated(left), negated(right), "i32")
        case _:
            return Unary("lnot", condition, "i32")
