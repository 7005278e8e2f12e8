"""Makes operations, and computes those whose operands are all constants."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dspgen.vecdsl.ir.program import OPS, Const, Load, Op, Store, Term, Var, VType
from dspgen.vecdsl.ir.semantics import IEEE, apply
from dspgen.vecdsl.ir.terms import linear_address, make_address, register_elem


def make(name: str, args: tuple[Term, ...], type: VType, imm: tuple[int, ...] = ()) -> Term:
    """The operation, or its value where it is a lane-wise one of constants; a decided selection is its choice."""
    if name == "select" and isinstance(args[0], Const):
        return args[1] if args[0].value else args[2]
    if (
        args
        and OPS[name].kind in ("lane", "bits")
        and type.elem == register_elem(type.elem)
        and all(isinstance(a, Const) for a in args)
    ):
        values = tuple(IEEE.register(np.asarray(a.value), a.type.elem) for a in args if isinstance(a, Const))
        result = apply(IEEE, name, type, imm, values, 1)
        if isinstance(result, np.ndarray) and (found := constant(result.item(), type)) is not None:
            return found
    return Op(name, args, type, imm)


def constant(value: int | float, type: VType) -> Const | None:
    """A constant as the register holds it; None for -0.0 and not-a-number, which no Const may be."""
    held = IEEE.register(np.asarray(value), type.elem).item()
    if isinstance(held, float) and (math.isnan(held) or (held == 0 and math.copysign(1, held) < 0)):
        return None
    return Const(held, type)


def refold(term: Term, indices: Container[str] = ()) -> Term:
    """`term` with constant operations computed, and integer identities removed, bottom up.

    `indices` are the names that addresses may use: a load's index that is affine in these joins its address.
    """
    if isinstance(term, Load):
        return _load(term, indices)
    if not isinstance(term, Op):
        return term
    args = tuple(refold(a, indices) for a in term.args)
    if all(new is old for new, old in zip(args, term.args, strict=True)) and not _reducible(term):
        return term
    if term.name == "ld_pair":
        return term
    return _identity(make(term.name, args, term.type, term.imm))


def with_values(term: Term, values: Mapping[str, Const]) -> Term:
    """`term` where these variables have known values, folded."""
    if not values or isinstance(term, Load | Const):
        return term
    if isinstance(term, Var):
        return values.get(term.name, term)
    return refold(replace(term, args=tuple(with_values(a, values) for a in term.args)))


def _load(load: Load, indices: Container[str]) -> Term:
    if load.index is None and load.mask is None:
        return load
    index, mask = (None if t is None else refold(t, indices) for t in (load.index, load.mask))
    if isinstance(mask, Const):
        if not mask.value:
            return Const(0.0 if load.type.elem in ("f32", "f64") else 0, load.type)
        mask = None
    return placed(replace(load, index=index, mask=mask), indices)


Access = TypeVar("Access", Load, Store)


def placed(access: Access, indices: Container[str]) -> Access:
    """The access with an index that is the same affine form on all lanes added to its address."""
    index = access.index
    if isinstance(index, Op) and index.name == "bcast":
        index = index.args[0]
    form = None if index is None else linear_address(index)
    if form is None or any(name not in indices for name, _ in form.terms):
        return access
    terms = dict(access.address.terms)
    for name, coefficient in form.terms:
        terms[name] = terms.get(name, 0) + coefficient
    address = make_address(access.address.constant + form.constant, terms)
    return replace(access, address=address, index=None)


def _reducible(op: Op) -> bool:
    constants = [isinstance(a, Const) for a in op.args]
    return bool(constants) and (all(constants) or (op.type.elem == "i32" and any(constants)))


def _identity(term: Term) -> Term:
    if not isinstance(term, Op) or len(term.args) != 2 or term.type.elem != "i32":
        return term
    left, right = term.args
    if isinstance(right, Const):
        match term.name, right.value:
            case ("add" | "sub" | "shl" | "shr" | "shru" | "or" | "xor", 0) | ("mul" | "div", 1):
                return left
            case ("mul" | "and", 0):
                return right
    if isinstance(left, Const):
        match term.name, left.value:
            case ("add" | "or" | "xor", 0) | ("mul", 1):
                return right
            case ("mul" | "and", 0):
                return left
    return term
