"""The arithmetic of each loop's statements as they were written: what is left of an interval when all else is free."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.ir.program import If, Loop, Op, Program, Stmt, Store, Term
from dspgen.vecdsl.ir.terms import own_terms, statements

_SUMS = frozenset({"add", "sub", "reduce_add", "all_add"})
_FUSED = frozenset({"mac", "msub", "nmac"})


def loop_arithmetic(program: Program, target: Target) -> dict[str, Fraction]:
    """For each innermost loop, by its iterator, the cycles that additions and multiplications of elements take while it
    advances by one: at full lanes on all units that can do them, a product and the sum that takes it counting as one.

    Requires: a program as built from the loop tree, each statement instance standing for itself.
    """
    rates = _Rates(target)
    return {
        stmt.iterator: (_cycles(stmt.body, rates) + sum((_of_term(c.next, rates) for c in stmt.carried), Fraction(0)))
        / abs(stmt.step)
        for stmt in statements(program.body)
        if isinstance(stmt, Loop) and not any(isinstance(s, Loop) for s in statements(stmt.body))
    }


class _Rates:
    """How long a vector operation, or the scalar one on a single element, takes of all units that can do it."""

    def __init__(self, target: Target) -> None:
        self.target, self.table = target, OperationTable(target)
        self.known: dict[tuple[str, str], Fraction] = {}

    def cycles(self, op: str, elem: str, *, vector: bool) -> Fraction:
        if (op, elem) not in self.known:
            forms = [f for o in ("mac", op, "mul", "add") for f in self.table.forms(o, elem) if f.result]
            vectors = [f for f in forms if any(self._is_vector(c) for c in f.result_operand.classes)]
            units = max((len(f.instruction.units) for f in vectors), default=0)
            self.known[op, elem] = Fraction(1, units) if units else Fraction(0)
        return self.known[op, elem] / (1 if vector else self.target.lanes)

    def _is_vector(self, cls: str) -> bool:
        found = self.target.register_class(cls)
        return self.target.register_class(found.pair_of or cls).kind == "vector"


def _cycles(body: Iterable[Stmt], rates: _Rates) -> Fraction:
    total = Fraction(0)
    for stmt in body:
        if isinstance(stmt, If):
            total += _cycles(stmt.then, rates)
        terms = (stmt.value,) if isinstance(stmt, Store) else own_terms(stmt)
        total += sum((_of_term(term, rates) for term in terms), Fraction(0))
    return total


def _of_term(term: Term, rates: _Rates) -> Fraction:
    """Places of accesses are no arithmetic of the statement's."""
    if not isinstance(term, Op):
        return Fraction(0)
    args = list(term.args)
    total = Fraction(0)
    if term.name in _SUMS or term.name in _FUSED or term.name == "mul":
        source = args[0].type if term.name.startswith(("reduce", "all")) else term.type
        op = {"reduce_add": "add", "all_add": "add"}.get(term.name, term.name)
        total += rates.cycles(op, source.elem, vector=source.vector)
    if term.name in _SUMS:
        fused = next((k for k, a in enumerate(args) if isinstance(a, Op) and a.name == "mul"), None)
        if fused is not None:
            product = args.pop(fused)
            args += product.args if isinstance(product, Op) else ()
    return total + sum((_of_term(a, rates) for a in args), Fraction(0))
