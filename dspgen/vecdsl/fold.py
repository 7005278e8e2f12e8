"""Makes operations, and computes those whose operands are all constants."""

from __future__ import annotations

import math

import numpy as np

from dspgen.vecdsl.ir import OPS, Const, Op, Term, VType
from dspgen.vecdsl.semantics import IEEE, apply
from dspgen.vecdsl.terms import register_elem


def make(name: str, args: tuple[Term, ...], type: VType, imm: tuple[int, ...] = ()) -> Term:
    """The operation, or its value where it is a lane-wise one of constants."""
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


def refold(term: Term) -> Term:
    """`term` with constant operations computed, and integer identities removed, bottom up."""
    if not isinstance(term, Op):
        return term
    args = tuple(refold(a) for a in term.args)
    if all(new is old for new, old in zip(args, term.args, strict=True)) and not _reducible(term):
        return term
    if term.name == "ld_pair":
        return term
    return _identity(make(term.name, args, term.type, term.imm))


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
