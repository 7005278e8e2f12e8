"""How often a loop runs whose branch back tests a counter: a number, or code that computes one.

In the loop a counter x moves by a constant step d; after each round the loop goes on while `x rel m`, m a constant or
a register that the loop leaves alone. With x0 the value that the first test sees, the loop runs once and then as often
as the test holds: for `x != m`, (m - x0) / d times, for `x < m`, ceil((m - x0) / d) times or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from dspgen.asmir.ir.function import Imm, Instr, Predicate, Reg, VReg
from dspgen.lasm.values import Atom, Compare, Start, State, Sum, compares, signed
from dspgen.target.isa.model import Instruction, Target
from dspgen.target.query.instructions import Index, Match, Step

_BITS = 32
_INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_INVERSE |= {"ltu": "geu", "geu": "ltu", "gtu": "leu", "leu": "gtu"}
_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_SWAPPED |= {"ltu": "gtu", "gtu": "ltu", "leu": "geu", "geu": "leu"}


@dataclass(frozen=True, slots=True)
class Test:
    """The loop goes on while `counter rel limit`; `counter` moves by `step` in each round."""

    rel: str
    counter: Sum
    limit: Sum
    step: int


def back_test(state: State, predicate: Predicate | None, steps: Callable[[Hashable], int | None]) -> Test | None:
    """The test of a branch back with this predicate, from the state at the end of the body."""
    if predicate is None:
        return None
    value = state.of((predicate.register, ""))
    if isinstance(value, Sum):
        value = Compare("ne", value, Sum(None, 0))
    rel = _INVERSE[value.op] if predicate.negated else value.op
    moves = [steps(s.root) for s in (value.first, value.second)]
    first, second = value.first, value.second
    if moves[0] == 0:
        first, second, rel, moves = second, first, _SWAPPED[rel], moves[::-1]
    if moves[0] is None or moves[0] == 0 or moves[1] != 0:
        return None
    if not all(s.root is None or isinstance(s.root, Start) for s in (first, second)):
        return None
    return Test(rel, first, second, moves[0])


def count(test: Test, first: int, limit: int) -> int | None:
    """The trips of a loop whose first test sees `first`; None where the counter has to wrap around to end it."""
    d = test.step
    rel = test.rel
    if rel.endswith("u") and rel not in ("eq", "ne"):
        rel, first, limit = rel[:-1], first & 0xFFFFFFFF, limit & 0xFFFFFFFF
    if not compares(rel, first, limit):
        return 1
    match rel:
        case "eq":
            return 2
        case "ne":
            away = (limit - first if d > 0 else first - limit) & 0xFFFFFFFF
            return None if away % abs(d) else away // abs(d) + 1
        case "le" | "ge":
            limit += 1 if rel == "le" else -1
    away = limit - first if rel in ("lt", "le") else first - limit
    if (d > 0) != (rel in ("lt", "le")):
        return None
    return -(-away // abs(d)) + 1


class Maker:
    """Code that computes a trip count on scalar registers, from rows found by what they do."""

    def __init__(self, target: Target, index: Index, fresh: Callable[[str, str], VReg]) -> None:
        self.target, self.index, self.fresh = target, index, fresh
        self.cls = target.abi.scalar_class
        self.code: list[Instr] = []

    def trip(self, test: Test, places: Callable[[Atom], Reg], least: int) -> VReg | None:
        """The register that holds the trip count; None where this machine or this test has no code for it."""
        d, rel = test.step, test.rel
        if abs(d) & (abs(d) - 1) or rel == "eq":
            return None
        up = d > 0
        if rel != "ne" and up != (rel.rstrip("u") in ("lt", "le")):
            return None
        limit = test.limit
        if rel.rstrip("u") in ("le", "ge") and rel != "ne":
            limit = Sum(limit.root, limit.offset + (1 if up else -1))
            rel = ("lt" if up else "gt") + ("u" if rel.endswith("u") else "")
        high, low = (limit, test.counter) if up else (test.counter, limit)
        runs = self._difference(high, low, places, 0 if rel != "ne" or abs(d) > 1 else 1)
        if runs is None:
            return None
        if rel == "ne" and abs(d) == 1:
            return self._own(runs)
        if abs(d) > 1:
            runs = self.binary("add", runs, abs(d) - 1) if rel != "ne" else runs
            runs = None if runs is None else self.binary("shru", runs, abs(d).bit_length() - 1)
        if rel != "ne" and least < 2:
            runs = self._unless(rel, low if up else high, high if up else low, places, runs)
        runs = None if runs is None else self.binary("add", runs, 1)
        return None if runs is None else self._own(runs)

    def _difference(self, high: Sum, low: Sum, places: Callable[[Atom], Reg], more: int) -> Reg | None:
        """`high - low + more`."""
        offset = signed(high.offset - low.offset + more, _BITS)
        if low.root is None:
            return self._moved(high, places, offset)
        if high.root is None:
            return self.binary("sub", offset, self._at(low, places))
        apart = self.binary("sub", self._at(high, places), self._at(low, places))
        return apart if offset == 0 or apart is None else self.binary("add", apart, offset)

    def _moved(self, value: Sum, places: Callable[[Atom], Reg], offset: int) -> Reg | None:
        register = self._at(value, places)
        return register if offset == 0 else self.binary("add", register, offset)

    def _at(self, value: Sum, places: Callable[[Atom], Reg]) -> Reg:
        assert isinstance(value.root, Start)
        return places(value.root.atom)

    def _unless(
        self, rel: str, counter: Sum, limit: Sum, places: Callable[[Atom], Reg], runs: Reg | None
    ) -> Reg | None:
        """`runs`, or nothing where the first test fails."""
        base = rel.rstrip("u")
        kind = "lt" + ("u" if rel.endswith("u") else "")
        pair = (counter, limit) if base == "lt" else (limit, counter)
        sides: list[Reg | int | None] = [s.offset if s.root is None else self._moved(s, places, s.offset) for s in pair]
        if runs is None or sides[0] is None or sides[1] is None:
            return None
        holds = self.binary(kind, sides[0], sides[1])
        steps = next(iter(self.index.load_constant(self.cls, 0)), None)
        if holds is None or steps is None or len(steps) != 1 or steps[0].instruction.predicable != "scalar":
            return None
        kept = self._own(runs, always=True)
        condition = self._own(holds)
        if kept is None or condition is None:
            return None
        self.code.append(self._step(steps[0], Reg(kept), Predicate(condition, negated=True)))
        return Reg(kept)

    def _own(self, value: Reg, *, always: bool = False) -> VReg | None:
        """The value in a register that is no half of another, and that nothing else writes."""
        if not value.part and not always and self._is_made(value):
            return value.vreg
        copy = self.fresh(self.cls, "trip")
        for match in self.index.move(self.cls)[:1]:
            self._add(match, {"d": Reg(copy), "a": value})
            return copy
        return None

    def _is_made(self, value: Reg) -> bool:
        return any(isinstance(v, Reg) and v == value for i in self.code for v in i.operands)

    def binary(self, op: str, a: Reg | int, b: Reg | int) -> Reg | None:
        """`op(a, b)` in a register of its own; a number goes into the instruction where one fits."""
        for fold in (False, True):
            for match in self.index.find(f"d = {op}.i{_BITS}(a, b)", {"d": self.cls}):
                values = {n: self._value(match, n, v, fold) for n, v in (("a", a), ("b", b))}
                if any(v is None for v in values.values()):
                    continue
                result = Reg(self.fresh(self.cls, "trip"))
                self._add(match, {"d": result, **{n: v for n, v in values.items() if v is not None}})
                return result
            if op == "add" and not fold and isinstance(b, int):
                for match in self.index.find(f"d = add.i{_BITS}(b, a)", {"d": self.cls, "b": "immediate"}):
                    if self._value(match, "b", b, False) is not None:
                        result = Reg(self.fresh(self.cls, "trip"))
                        self._add(match, {"d": result, "a": a if isinstance(a, Reg) else Imm(a), "b": Imm(b)})
                        return result
        return None

    def _value(self, match: Match, name: str, value: Reg | int, load: bool) -> Reg | Imm | None:
        operand = match.operand(name)
        if isinstance(value, Reg):
            return value if self.cls in operand.classes else None
        if operand.imm is not None and operand.imm[0] <= value <= operand.imm[1]:
            return Imm(value)
        if not load or self.cls not in operand.classes:
            return None
        steps = next(iter(self.index.load_constant(self.cls, value)), None)
        if steps is None:
            return None
        register = Reg(self.fresh(self.cls, "trip"))
        self.code += [self._step(s, register) for s in steps]
        return register

    def _step(self, step: Step, register: Reg, predicate: Predicate | None = None) -> Instr:
        row: Instruction = step.instruction
        return Instr(row, tuple(register if v is None else Imm(v) for v in step.operands), predicate)

    def _add(self, match: Match, values: dict[str, Reg | Imm]) -> None:
        row = match.instruction
        by_operand = {match.binding[name]: value for name, value in values.items()}
        self.code.append(Instr(row, tuple(by_operand[o.name] for o in row.operands)))
