"""Flattened subscripts with symbolic row lengths, as subscripts of an array with several dimensions.

Before: `void f(float *A, int n) { ... A[i * n + j] ... A[(i + 1) * n] ... }`
After:  `void f(float (*A)[n], int n) { ... A[i][j] ... A[i + 1][0] ... }`

The row lengths are the factors of the iterators in all of the array's subscripts together. That the last subscripts
stay in their rows is proven later, by `lower_extents`; data in memory is the same either way.
Requires: subscripts that are polynomials of iterators and parameters; any other leaves the array as it is, and so does
a constant extent in the declaration: what has a number of elements of its own has no symbolic rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import walk
from dspgen.frontend.parse.syntax_tree import assigned_names
from dspgen.frontend.symbolic.polynomials import Monomial, Name, Poly, Read, atom, from_ast, number, to_ast
from dspgen.frontend.symbolic.state import Types


def recovered(function: c_ast.FuncDef, types: Types, fixed: Mapping[str, int]) -> set[str]:
    """Changes the function in place; gives the arrays that got dimensions."""
    given = function.decl.type.args.params if function.decl.type.args else []
    params = [p for p in given if isinstance(p, c_ast.Decl) and p.name is not None]
    for node in [*params, *(n for n in walk(function.body) if isinstance(n, c_ast.Decl) and n.name is not None)]:
        types.declare(node)
    changing = assigned_names(function.body)
    stable = {p.name for p in params if p.name in types.integers and p.name not in changing and p.name not in fixed}
    values = {name: number(fixed[name]) for name in fixed}
    found: set[str] = set()
    local = {n.name for n in walk(function.body) if isinstance(n, c_ast.Decl)}
    for param in params:
        if param.name not in local and _is_flat(param.type):
            recovery = _Recovery(types, stable, values)
            if not recovery.has_size(param.type) and recovery.array(function, param):
                found.add(param.name)
    return found


def _is_flat(kind: c_ast.Node) -> bool:
    """Whether the parameter is a pointer to elements, or an array of one dimension."""
    return isinstance(kind, c_ast.PtrDecl | c_ast.ArrayDecl) and isinstance(kind.type, c_ast.TypeDecl)


class _Recovery:
    def __init__(self, types: Types, stable: set[str], values: dict[str, Poly]) -> None:
        self._types = types
        self._stable = stable
        self._values = values

    def _lookup(self, name: str) -> Read | None:
        known = self._types.integers.get(name)
        if name in self._types.consts:
            return Read(self._types.consts[name], True)
        if known is None:
            return None
        return Read(self._values.get(name, atom(Name(name))), known.signed, known.wide)

    def has_size(self, kind: c_ast.Node) -> bool:
        """Whether the declaration gives a constant extent."""
        extent = kind.dim if isinstance(kind, c_ast.ArrayDecl) else None
        read = from_ast(extent, self._lookup, self._types.kind) if extent is not None else None
        return read is not None and read.poly.constant is not None

    def array(self, function: c_ast.FuncDef, param: c_ast.Decl) -> bool:
        places = [
            n
            for n in walk(function.body)
            if isinstance(n, c_ast.ArrayRef) and isinstance(n.name, c_ast.ID) and n.name.name == param.name
        ]
        reads = [from_ast(n.subscript, self._lookup, self._types.kind) for n in places]
        uses = sum(isinstance(n, c_ast.ID) and n.name == param.name for n in walk(function.body))
        if not places or uses != len(places) or any(r is None for r in reads):
            return False
        polys = [r.poly for r in reads if r is not None]
        strides = self._strides(polys)
        if not strides:
            return False
        split = [self._split(p, strides) for p in polys]
        extents = [_quotient(outer, inner) for outer, inner in zip(strides, [*strides[1:], number(1)], strict=True)]
        rows = [s for s in split if s is not None]
        if len(rows) != len(split) or any(e is None for e in extents):
            return False
        for node, indices in zip(places, rows, strict=True):
            base: c_ast.Node = node.name
            for index in indices[:-1]:
                base = c_ast.ArrayRef(base, to_ast(index, node.subscript.coord), node.coord)
            node.name, node.subscript = base, to_ast(indices[-1], node.subscript.coord)
        kind = param.type.type
        for extent in reversed(extents):
            kind = c_ast.ArrayDecl(kind, to_ast(extent or Poly(), param.coord), [], param.coord)
        param.type = c_ast.PtrDecl([], kind, param.type.coord)
        return True

    def _is_stable(self, one: object) -> bool:
        if isinstance(one, Name):
            return one.name in self._stable
        return all(n.name in self._stable for arg in getattr(one, "args", ()) for n in arg.names)

    def _factors(self, poly: Poly) -> dict[Monomial, Poly]:
        """For each product of iterators, `()` among them, what it is multiplied by."""
        found: dict[Monomial, Poly] = {}
        for monomial, factor in poly.terms:
            moving = tuple(a for a in monomial if not self._is_stable(a))
            fixed = Poly(((tuple(a for a in monomial if self._is_stable(a)), factor),))
            found[moving] = found.get(moving, Poly()) + fixed
        return found

    def _strides(self, polys: list[Poly]) -> list[Poly]:
        """The row lengths, longest first, each a multiple of the next; empty where all is affine already."""
        found: dict[Poly, int] = {}
        affine = True
        contents: dict[Poly, int] = {}
        for poly in polys:
            factors = self._factors(poly)
            for moving, factor in factors.items():
                if len(moving) > 1:
                    return []
                if factor.constant is not None:
                    continue
                if moving or any(len(m) > 1 for m, _ in factor.terms):
                    affine = False
                for part in [factor] if moving else [Poly((t,)) for t in factor.terms if t[0]]:
                    content = math.gcd(*(c for _, c in part.terms))
                    whole = part.divided(content) or part
                    if whole.terms[-1][1] < 0:
                        whole = whole.scaled(-1)
                    contents[whole] = math.gcd(contents.get(whole, 0), content)
                    if moving:
                        found[whole] = 0
        if affine:
            return []
        for candidate in (list(found), self._monomials(polys)):
            scaled = [p.scaled(contents.get(p, 1)) for p in candidate]
            ordered = sorted(scaled, key=lambda p: (-max(len(m) for m, _ in p.terms), repr(p)))
            pairs = zip(ordered, ordered[1:], strict=False)
            if ordered and all(_quotient(a, b) is not None for a, b in pairs):
                if all(self._split(p, ordered) is not None for p in polys):
                    return ordered
        return []

    def _monomials(self, polys: list[Poly]) -> list[Poly]:
        found: dict[Poly, None] = {}
        for poly in polys:
            for moving, factor in self._factors(poly).items():
                best = max((m for m, _ in factor.terms), key=len)
                if moving and best:
                    found[Poly(((best, 1),))] = None
        return list(found)

    def _split(self, poly: Poly, strides: list[Poly]) -> list[Poly] | None:
        """The subscripts, each affine, or None where something is left that isn't."""
        indices: list[Poly] = []
        rest = self._factors(poly)
        for stride in strides:
            index = Poly()
            for moving in list(rest):
                quotient, rest[moving] = _divided(rest[moving], stride)
                index = index + quotient * Poly(((moving, 1),))
            indices.append(index)
        last = Poly()
        for moving, factor in rest.items():
            last = last + factor * Poly(((moving, 1),))
        indices.append(last)
        for level, outer in enumerate(strides):
            inner = strides[level + 1] if level + 1 < len(strides) else number(1)
            extent = _quotient(outer, inner)
            if extent is not None and self._descends(indices[level + 1]):
                # What counts down from a row's end starts in that row, not in the next.
                indices[level] = indices[level] - number(1)
                indices[level + 1] = indices[level + 1] + extent
        return indices if all(self._affine(i) for i in indices) else None

    def _descends(self, index: Poly) -> bool:
        """Whether all iterators are subtracted, and from nothing."""
        moving = [c for m, c in index.terms if m and not all(self._is_stable(a) for a in m)]
        others = [c for m, c in index.terms if m and all(self._is_stable(a) for a in m)]
        return bool(moving) and all(c < 0 for c in moving) and not any(c > 0 for c in others)

    def _affine(self, poly: Poly) -> bool:
        return all(len(m) <= 1 for m, _ in poly.terms)


def _leading(poly: Poly) -> tuple[Monomial, int]:
    return max(poly.terms, key=lambda t: (len(t[0]), repr(t[0])))


def _divided(poly: Poly, by: Poly) -> tuple[Poly, Poly]:
    """Quotient and remainder of polynomials, by leading terms."""
    lead, factor = _leading(by)
    quotient, rest, left = Poly(), Poly(), poly
    while left.terms:
        monomial, amount = _leading(left)
        remaining = list(monomial)
        fits = amount % factor == 0
        for one in lead:
            if one in remaining:
                remaining.remove(one)
            else:
                fits = False
        term = Poly(((monomial, amount),))
        if fits:
            part = Poly(((tuple(remaining), amount // factor),))
            quotient = quotient + part
            left = left - part * by
        else:
            rest, left = rest + term, left - term
    return quotient, rest


def _quotient(poly: Poly, by: Poly) -> Poly | None:
    quotient, rest = _divided(poly, by)
    return None if rest.terms else quotient
