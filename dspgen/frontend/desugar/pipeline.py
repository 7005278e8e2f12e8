"""C as DSP libraries write it, brought to the plain form that the reader takes.

Before: pointers that walk, `while` and geometric loops, induction variables, calls of small functions.
After:  counted `for` loops, subscripts of named arrays, assignments of scalars; the same value everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pycparser import c_ast

from dspgen.frontend.desugar.delinearize import recovered
from dspgen.frontend.desugar.early_returns import handed_back, returning, settled
from dspgen.frontend.desugar.inline_calls import inlined
from dspgen.frontend.desugar.loop_exits import stopping, structured
from dspgen.frontend.desugar.memory_bounds import hoisted
from dspgen.frontend.desugar.memory_calls import with_loops
from dspgen.frontend.desugar.side_effects import without_effects
from dspgen.frontend.parse.assigned_names import names, walk
from dspgen.frontend.parse.syntax_tree import (
    STEPS,
    assigned_names,
    cloned,
    outlives,
    reads,
    rebuilt,
    step_of,
    variable,
)
from dspgen.frontend.parse.unique_names import Fresh, renamed, unique_names
from dspgen.frontend.symbolic.executor import Executor
from dspgen.frontend.symbolic.pointers import Rewriter
from dspgen.frontend.symbolic.polynomials import Name, Poly, Read, atom, from_ast, number
from dspgen.frontend.symbolic.state import Base, Integer, Pointer, State, Types
from plant_core.support.location import Loc

Place = Callable[[c_ast.Node], Loc]


@dataclass(frozen=True, slots=True)
class Lowered:
    """The inner subscripts of `flat_arrays` have to be proven inside; `recovered` tells that some of these dimensions
    are only suggested by the subscripts; `defines` are scalars that bound loops with values
    from memory; `meanings` tell what variables stand for that aren't the program's own."""

    function: c_ast.FuncDef
    flat_arrays: frozenset[str] = field(default_factory=frozenset)
    recovered: bool = False
    defines: tuple[str, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)


def lower(
    tree: c_ast.FileAST, function: c_ast.FuncDef, fixed: Mapping[str, int], place: Place, *, recover: bool = True
) -> Lowered:
    """The function in plain form; `fixed` are the values of integer parameters that are known; `recover` tells whether
    arrays may get back the dimensions that their subscripts suggest.

    A function that is in plain form already comes back as it is. Raises SourceError where a pointer can't be followed.
    """
    functions = {n.decl.name: n for n in tree.ext if isinstance(n, c_ast.FuncDef) and n.decl.name != function.decl.name}
    known = {**functions, function.decl.name: function}
    changed: c_ast.FuncDef = cloned(function)
    fresh = Fresh(tree)
    stopping(changed)
    changed.body.block_items = _without_region(changed.body.block_items or [])
    structured(changed, fresh, fixed.keys())
    body = changed.body.block_items or []
    if any(isinstance(n, c_ast.Return) for item in body for n in walk(item)):
        changed.body = c_ast.Compound(returning(body), changed.body.coord)
        if settled(changed.body.block_items):
            changed.body = _without_returns(changed.body)
    handed_back(changed, fresh)
    if any(_calls(node, known) for node in walk(function.body)):
        inlined(changed, known, fresh, place)
    with_loops(changed, known, _types(tree), fresh)
    flat: set[str] = set()
    bounds: list[str] = []
    if _needs(changed):
        unique_names(changed, fresh)
        without_effects(changed)
        types = _types(tree)
        run = _executed(changed, types, fixed, fresh, place)
        flat |= run.rewriter.flat
        bounds += run.bounds
    guessed = recovered(changed, _types(tree), fixed) if recover else set()
    defines = hoisted(changed, _types(tree), fixed, fresh)
    return Lowered(
        changed, frozenset(flat | guessed), bool(guessed), (*bounds, *defines, *fresh.parameters), fresh.meanings
    )


def _without_region(nodes: list[c_ast.Node]) -> list[c_ast.Node]:
    """Without the region's pragmas where a return leaves the region early: what it skips goes past the region's end."""
    if not any(isinstance(n, c_ast.Return) for node in nodes[:-1] for n in walk(node)):
        return nodes
    return [n for n in nodes if not (isinstance(n, c_ast.Pragma) and n.string.split()[:1] in (["scop"], ["endscop"]))]


def _without_returns(node: c_ast.Node) -> c_ast.Node:
    """Without plain returns, all of which are the last thing that is done."""
    if isinstance(node, c_ast.Return) and node.expr is None:
        return c_ast.EmptyStatement(node.coord)
    return rebuilt(node, _without_returns) if isinstance(node, c_ast.If | c_ast.Compound) else node


def _calls(node: c_ast.Node, functions: Mapping[str, c_ast.FuncDef]) -> bool:
    return isinstance(node, c_ast.FuncCall) and isinstance(node.name, c_ast.ID) and node.name.name in functions


def _params(function: c_ast.FuncDef) -> list[c_ast.Decl]:
    given = function.decl.type.args.params if function.decl.type.args else []
    return [p for p in given if isinstance(p, c_ast.Decl) and p.name is not None]


def _types(tree: c_ast.FileAST) -> Types:
    types = Types({n.name: n.type for n in tree.ext if isinstance(n, c_ast.Typedef)})

    def lookup(name: str) -> Read | None:
        return Read(types.consts[name], True) if name in types.consts else None

    for node in tree.ext:
        for enum in (n for n in walk(node) if isinstance(n, c_ast.Enum) and n.values is not None):
            following: Poly | None = Poly()
            for item in enum.values.enumerators:
                if item.value is not None:
                    read = from_ast(item.value, lookup, types.kind)
                    following = None if read is None else read.poly
                if following is not None and following.constant is not None:
                    types.consts[item.name] = following
                    following = following + number(1)
        if isinstance(node, c_ast.Decl) and node.name is not None:
            if isinstance(node.type, c_ast.ArrayDecl):
                types.declare(node)
            elif "const" in node.quals and node.init is not None and not isinstance(node.init, c_ast.InitList):
                read = from_ast(node.init, lookup, types.kind)
                if read is not None and read.poly.constant is not None and types.kind(node.type) is not None:
                    types.consts[node.name] = read.poly
    return types


# When there is something to do


def _needs(function: c_ast.FuncDef) -> bool:
    """Whether the function has anything that isn't in plain form."""
    steppers = {c for node in walk(function.body) if isinstance(node, c_ast.For) for c in assigned_names(node.next)}
    inside: set[str] = set()
    for node in walk(function.body):
        match node:
            case c_ast.While() | c_ast.DoWhile() | c_ast.PtrDecl():
                return True
            case c_ast.UnaryOp(op="*" | "&"):
                return True
            case c_ast.For():
                if not _plain_header(node) or _leftover(node):
                    return True
                if any(outlives(name, function.body) for name in assigned_names(node.init)):
                    return True
            case c_ast.ArrayRef() | c_ast.Assignment() | c_ast.Decl() | c_ast.If():
                if _has_step(node):
                    return True
        if isinstance(node, c_ast.ArrayRef):
            inside |= set(reads(node.subscript))
    params = {p.name for p in _params(function)}
    arrays = {p.name for p in _params(function) if isinstance(p.type, c_ast.PtrDecl | c_ast.ArrayDecl)}
    if arrays & assigned_names(function.body):
        return True
    changing = assigned_names(function.body) | {
        n.name for n in walk(function.body) if isinstance(n, c_ast.Decl) and n.init is not None
    }
    return bool(inside & (changing - steppers)) or bool(params & assigned_names(function.body) & inside)


def _plain_header(node: c_ast.For) -> bool:
    step = step_of(node.next) if node.next is not None else None
    if step is None or node.cond is None or isinstance(node.init, c_ast.ExprList):
        return False
    if isinstance(node.init, c_ast.DeclList) and len(node.init.decls) > 1:
        return False
    if isinstance(node.next, c_ast.Assignment) and node.next.op not in ("=", "+=", "-="):
        return False
    return step[0] not in assigned_names(node.stmt) and not names(step[2])


def _leftover(node: c_ast.For) -> bool:
    return node.init is None


def _has_step(node: c_ast.Node) -> bool:
    return any(
        isinstance(n, c_ast.UnaryOp) and n.op in STEPS
        for _, child in node.children()
        for n in walk(child)
        if not isinstance(node, c_ast.If) or child is node.cond
    )


# Doing it


def _executed(function: c_ast.FuncDef, types: Types, fixed: Mapping[str, int], fresh: Fresh, place: Place) -> Executor:
    """Symbolic execution of the body, in place."""
    changed = assigned_names(function.body)
    state = State()
    first: list[c_ast.Node] = []
    for param in _params(function):
        types.declare(param)
        name = param.name
        pointer = types.pointers.pop(name, None) or types.arrays.get(name)
        if pointer is not None:
            types.arrays[name] = pointer
            if name in changed:
                own = fresh(f"{name}_at")
                renamed(function.body, {name: own})
                types.pointers[own] = Pointer(pointer.element, pointer.rank)
                types.integers[own] = Integer(True, False)
                state.bases[own], state.values[own] = Base(name), Poly()
                first.append(variable(own, c_ast.Constant("int", "0", param.coord), param.coord))
        elif name in types.integers:
            value = number(fixed[name]) if name in fixed else atom(Name(name))
            state.values[name] = value
            if name in changed:
                own = fresh(f"{name}_now")
                renamed(function.body, {name: own})
                kind = types.integers[name]
                types.integers[own] = kind
                state.values[own] = value
                typed = c_ast.Decl(own, [], [], [], [], _scalar(kind, own, param.coord), None, None, coord=param.coord)
                typed.init = c_ast.ID(name, param.coord)
                first.append(typed)
    run = Executor(types, Rewriter(types, place), place, fresh)
    body = run.block(function.body.block_items or [], state)
    function.body = c_ast.Compound([*first, *body], function.body.coord)
    _without_unread(function, set(types.integers))
    return run


def _scalar(kind: Integer, name: str, coord: object) -> c_ast.TypeDecl:
    return c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(kind.name().split(), coord), coord=coord)


def _without_unread(function: c_ast.FuncDef, candidates: set[str]) -> None:
    """Drops the integers that nothing reads, in place."""
    params = {p.name for p in _params(function)}
    while True:
        used = set(reads(function.body))
        unread = (
            {name for name in assigned_names(function.body) | _declared(function.body) if name in candidates}
            - used
            - params
        )
        unread -= {name for node in walk(function.body) if (name := _set_by_call(node)) is not None}
        if not unread or not _dropped(function.body, unread):
            return


def _declared(node: c_ast.Node) -> set[str]:
    return {n.name for n in walk(node) if isinstance(n, c_ast.Decl) and isinstance(n.type, c_ast.TypeDecl)}


def _dropped(node: c_ast.Node, unread: set[str]) -> bool:
    """Whether something was dropped. Loops keep their iterators: these are read by their tests."""
    found = False
    for inner in walk(node):
        if not isinstance(inner, c_ast.Compound) or not inner.block_items:
            continue
        kept = [item for item in inner.block_items if not _sets_only(item, unread)]
        if len(kept) < len(inner.block_items):
            found = True
            inner.block_items = kept
    return found


def _sets_only(node: c_ast.Node, unread: set[str]) -> bool:
    return _set_by(node) in unread


def _set_by(node: c_ast.Node) -> str | None:
    """The variable that a declaration or statement sets."""
    if isinstance(node, c_ast.Decl):
        name: str | None = node.name
        return name
    step = step_of(node)
    return None if step is None else step[0]


def _set_by_call(node: c_ast.Node) -> str | None:
    """The variable set by what has to stay: a call might be one that the reader has to refuse."""
    if not any(isinstance(n, c_ast.FuncCall | c_ast.Assignment) for _, c in node.children() for n in walk(c)):
        return None
    return _set_by(node)
