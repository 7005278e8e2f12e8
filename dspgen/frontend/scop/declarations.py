"""Declarations: parameters, variables, arrays and their initialisers, enumerations, constants of the file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pycparser import c_ast

from dspgen.errors import SourceError
from dspgen.frontend.parse.assigned_names import walk
from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.scop import initializers as initialisers
from dspgen.frontend.scop.affine_sets import ISL_WORDS, Nest
from dspgen.frontend.scop.c_types import CType, Type, represented, storable
from dspgen.frontend.scop.scope import Array, Broken, Constant, Typed, Variable
from plant_core.ir.c_semantics import is_float, limits
from plant_core.ir.func import Buf, DType, Expr, Iter, Load, Param, ScalarParam, Val
from plant_core.support.location import Loc

if TYPE_CHECKING:
    from dspgen.frontend.scop.statements import StatementReader


def enumerators(reader: StatementReader, node: c_ast.Node) -> None:
    """Declares the constants of every enumeration that the declaration spells out."""
    for enum in (n for n in walk(node) if isinstance(n, c_ast.Enum) and n.values is not None):
        following = 0
        for item in enum.values.enumerators:
            if item.value is not None:
                value = reader.expressions.constant(item.value)
                if value is None:
                    fail("DG018", f"'{item.name}' must be an integer constant", reader.place(item.value))
                following = value
            reader.scope.declare(item.name, Constant(Typed(Val(following, "i32"), "i32")))
            following += 1


def shared_enumerators(reader: StatementReader, node: c_ast.Node) -> None:
    """As `enumerators`, for a declaration of the file; what is wrong with it counts only if a name is used."""
    try:
        enumerators(reader, node)
    except SourceError as error:
        for enum in (n for n in walk(node) if isinstance(n, c_ast.Enum) and n.values is not None):
            for item in enum.values.enumerators:
                if reader.scope.find(item.name) is None:
                    reader.scope.declare(item.name, Broken(error.problems))


def local(reader: StatementReader, node: c_ast.Decl) -> None:
    """A declaration in a block. A name that is refused stays known as such."""
    try:
        _declare(reader, node, shared=False)
    except SourceError as error:
        if node.name is not None:
            reader.scope.declare(node.name, Broken(error.problems))
        raise


def shared(reader: StatementReader, node: c_ast.Decl) -> None:
    """A declaration of the file; what is wrong with it counts only if the name is used."""
    try:
        _declare(reader, node, shared=True)
    except SourceError as error:
        reader.scope.declare(node.name, Broken(error.problems))


def _declare(reader: StatementReader, node: c_ast.Decl, *, shared: bool) -> None:
    loc = reader.place(node)
    enumerators(reader, node)
    if node.name is None or isinstance(node.type, c_ast.FuncDecl):
        return
    declared = reader.expressions.types.read(node.type, loc, open_size=node.init is not None)
    if (shared or "static" in node.storage or "extern" in node.storage) and not declared.const:
        message = f"'{node.name}' keeps its value between calls"
        fail("DG018", message, loc, "make it a parameter, or declare it const with its values")
    if "extern" in node.storage:
        fail("DG018", f"the values of '{node.name}' are in another file", loc, "make it a parameter")
    if declared.shape:
        _array(reader, node, declared, loc)
    else:
        _scalar(reader, node, declared, loc)


def _defined(reader: StatementReader, node: c_ast.Decl, declared: Type, loc: Loc) -> None:
    """A scalar that is a parameter from here on: its value comes from memory and bounds loops."""
    value = reader.expressions.convert(reader.expressions.read(node.init), declared.ctype, loc).expr
    buf = Buf(node.name, storable(declared.ctype, loc), (), "local", loc=loc)
    reader.recorder.bufs[buf.name] = buf
    target = Load(buf.name, (), buf.dtype, loc)
    reader.recorder.record(reader.nest, target, value, loc, defines=buf.name)
    reader.scope.declare(node.name, Constant(Typed(Param(buf.name, buf.dtype), declared.ctype)))


def _scalar(reader: StatementReader, node: c_ast.Decl, declared: Type, loc: Loc) -> None:
    if node.name in reader.defines:
        _defined(reader, node, declared, loc)
        return
    counts = node.name in reader.counters
    variable = Variable(node.name, declared.ctype, loc, counts, reader.guard)
    if node.init is None:
        reader.scope.declare(node.name, variable)
        return
    init = node.init
    while isinstance(init, c_ast.InitList) and len(init.exprs or []) == 1:
        init = init.exprs[0]
    assigns = isinstance(init, c_ast.Assignment)
    value = reader.assignment(init) if assigns else reader.expressions.read(init)
    if declared.const:
        constant = reader.expressions.convert(value, declared.ctype, loc)
        if isinstance(constant.expr, Val):
            reader.scope.declare(node.name, Constant(constant))
            return
    reader.scope.declare(node.name, variable)
    reader.set_variable(variable, value, loc)


def _array(reader: StatementReader, node: c_ast.Decl, declared: Type, loc: Loc) -> None:
    dtype = storable(declared.ctype, loc)
    size, place = reader.expressions.constant, reader.place
    shape, found = declared.shape, None
    if node.init is not None:
        if not isinstance(node.init, c_ast.InitList):
            fail("DG018", "an array's initialiser must be a list in braces", loc)
        fixed = tuple(n for n in shape if isinstance(n, int))
        if len(fixed) != len(shape):
            fail(
                "DG018", "an array with an initialiser must have a constant size", loc, "assign its elements in a loop"
            )
        found = initialisers.elements(node.init, fixed, size, place)
        if fixed[0] == 0:
            shape = (max(found, default=0) // math.prod(fixed[1:]) + 1, *fixed[1:])
    buf = Buf(reader.scope.fresh(node.name), dtype, shape, "local", declared.const, loc)
    reader.recorder.bufs[buf.name] = buf
    reader.scope.declare(node.name, Array(buf))
    if found is not None:
        _initialise(reader, buf, found, loc)


def _initialise(reader: StatementReader, buf: Buf, found: dict[int, c_ast.Node], loc: Loc) -> None:
    """Stores the values: those that vary one by one, equal constants by one statement, the rest zero."""
    constants: dict[str, tuple[Val, list[int]]] = {}
    zero = Val(0.0 if is_float(buf.dtype) else 0, buf.dtype)
    for flat in sorted(found):
        place = reader.place(found[flat])
        value = reader.expressions.convert(reader.expressions.read(found[flat]), buf.dtype, place).expr
        if isinstance(value, Val):
            if repr(value) != repr(zero):
                constants.setdefault(repr(value), (value, []))[1].append(flat)
            continue
        constants[f"at {flat}"] = (zero, [flat])
        _store_one(reader, buf, flat, value, place)
    explicit = {flat for _, group in constants.values() for flat in group}
    if len(explicit) < math.prod(buf.extents):
        _store_many(reader, buf, sorted(explicit), zero, loc, others=True)
    for key, (value, group) in constants.items():
        if key.startswith("at "):
            continue
        if len(group) == 1:
            _store_one(reader, buf, group[0], value, loc)
        else:
            _store_many(reader, buf, group, value, loc, others=False)


def _store_one(reader: StatementReader, buf: Buf, flat: int, value: Expr, loc: Loc) -> None:
    indices = tuple(Val(k, "i32") for k in initialisers.position(flat, buf.extents))
    reader.recorder.record(reader.nest, Load(buf.name, indices, buf.dtype, loc), value, loc)


def _store_many(reader: StatementReader, buf: Buf, group: list[int], value: Val, loc: Loc, *, others: bool) -> None:
    names = tuple(reader.iterator_name(f"{buf.name}_{k}") for k in range(len(buf.extents)))
    nest = initialisers.box(reader.nest, names, buf.extents)
    chosen = initialisers.points(nest, [initialisers.position(flat, buf.extents) for flat in group])
    nest = nest.without(chosen) if others else nest.within(chosen)
    nest = Nest(nest.iters, nest.domain.coalesce())
    target = Load(buf.name, tuple(Iter(name) for name in names), buf.dtype, loc)
    reader.recorder.record(nest, target, value, loc, names)


def parameters(
    reader: StatementReader, function: c_ast.FuncDef, fixed: dict[str, int], assigned: set[str]
) -> tuple[tuple[Buf | ScalarParam, ...], Nest]:
    """The function's parameters, declared in the scope, and the nest outside all loops. Those that are `fixed` are
    constants, and no parameters of the result."""
    found: list[tuple[Buf | ScalarParam, CType]] = []
    symbolic: list[tuple[str, DType]] = []
    root = Nest.root(())
    given = function.decl.type.args.params if function.decl.type.args else []
    for name in fixed.keys() - {node.name for node in given if isinstance(node, c_ast.Decl)}:
        what = f"-D {name}={fixed[name]}: '{name}' is a parameter in this file, but none of {function.decl.name}"
        fail("DG022", what, reader.place(function.decl), "fix parameters of the kernel only")
    # A dimension that was recovered from subscripts may name a parameter that comes later.
    for node in sorted(given, key=_is_array):
        if not isinstance(node, c_ast.Decl):
            if isinstance(node, c_ast.Typename) and len(given) == 1:
                continue
            fail("DG006", "a variable number of arguments isn't supported", reader.place(function.decl))
        try:
            item, ctype = _parameter(reader, node, fixed)
        except SourceError as error:
            reader.scope.declare(node.name, Broken(error.problems))
            reader.recorder.report(error)
            continue
        found.append((item, ctype))
        if isinstance(item, ScalarParam) and not is_float(item.dtype) and item.name not in fixed:
            symbolic.append((item.name, "u32" if ctype == "u64" else item.dtype))
            # The extents of the arrays that follow may depend on it.
            root = Nest.root(symbolic)
            reader.expressions.nest = root
    order = [node.name for node in given if isinstance(node, c_ast.Decl)]
    found.sort(key=lambda one: order.index(one[0].name))
    for item, ctype in found:
        if isinstance(item, ScalarParam) and item.name in assigned:
            value = reader.expressions.read(c_ast.ID(item.name, _coord(given, item.name)))
            loc = item.loc or reader.place(function.decl)
            counts = item.name in reader.counters
            variable = Variable(item.name, ctype, loc, counts, None)
            reader.scope.declare(item.name, variable)
            reader.set_variable(variable, value, loc)
    return tuple(item for item, _ in found if item.name not in fixed), root


def _is_array(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.PtrDecl | c_ast.ArrayDecl)


def _coord(nodes: list[c_ast.Node], name: str) -> object:
    return next(n.coord for n in nodes if isinstance(n, c_ast.Decl) and n.name == name)


def _parameter(reader: StatementReader, node: c_ast.Decl, fixed: dict[str, int]) -> tuple[Buf | ScalarParam, CType]:
    loc = reader.place(node)
    if node.name is None:
        fail("DG022", "a parameter without a name", loc, "give it a name")
    reader.scope.taken.add(node.name)
    declared = reader.expressions.types.parameter(node.type, node.name, loc)
    if declared.shape:
        if node.name in fixed:
            fail("DG022", f"-D can fix integer parameters only, but '{node.name}' is an array", loc)
        buf = Buf(node.name, storable(declared.ctype, loc), declared.shape, "param", declared.const, loc)
        reader.recorder.bufs[buf.name] = buf
        reader.scope.declare(node.name, Array(buf))
        return buf, declared.ctype
    dtype = represented(declared.ctype)
    value: Expr = Param(node.name, dtype)
    if node.name in fixed:
        if is_float(dtype):
            fail("DG022", f"-D can fix integer parameters only, but '{node.name}' isn't one", loc)
        low, high = limits(dtype)
        if not low <= fixed[node.name] <= high:
            fail("DG022", f"-D {node.name}={fixed[node.name]} doesn't fit the parameter's type", loc)
        value = Val(fixed[node.name], dtype)
    elif not is_float(dtype) and node.name in ISL_WORDS:
        fail("DG022", f"an integer parameter can't be called '{node.name}' here", loc, "rename it")
    reader.scope.declare(node.name, Constant(Typed(value, declared.ctype)))
    return ScalarParam(node.name, dtype, loc), declared.ctype
