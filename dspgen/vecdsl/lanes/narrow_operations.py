"""One operation on several wide vectors in turn, as one on a vector that holds the low bits of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dspgen.vecdsl.analysis.intervals import Interval
from dspgen.vecdsl.ir.min_max_select import plain
from dspgen.vecdsl.ir.program import ELEM_BYTES, Const, Elem, Op, Term, VType

RangeOf = Callable[[Term], Interval | None]
Able = Callable[[str, str], bool]
Column = tuple[Term, ...]  # what stands in one place of the operations, in turn

# Their low bits depend on the low bits of their operands only.
_LOW = frozenset({"add", "sub", "mul", "neg"})
_BITWISE = frozenset({"and", "or", "xor", "not"})
_COMPARED = {"lt": "ltu", "gt": "", "le": "", "ge": "", "eq": "eq", "ne": "ne"}  # as unsigned, where there is a way
_EXTENDED = {"sext8": 8, "zext8": 8, "sext16": 16, "zext16": 16}
_LIMITS = {"sat8": (-128, 127), "satu8": (0, 255)}


@dataclass(frozen=True, slots=True)
class Step:
    """`made` gives the narrow term from those of `args`: columns that are to be narrow. `cost`: in operations."""

    args: tuple[Column, ...]
    made: Callable[[tuple[Term, ...]], Term]
    cost: int = 1


def step_of(given: Sequence[Op], elem: Elem, range_of: RangeOf, able: Able) -> Step | None:
    """The operations, all on words, as one on elements of the narrow type; None where there is no way."""
    ops = [plain(op) for op in given]
    first = ops[0]
    if any((op.name, op.imm, len(op.args)) != (first.name, first.imm, len(first.args)) for op in ops):
        return None
    if any(op.type.elem != "i32" or not op.type.vector for op in ops):
        return None
    columns = tuple(zip(*(op.args for op in ops), strict=True))
    return _Narrow(VType(elem, True), range_of, able).step(first.name, columns)


@dataclass(frozen=True, slots=True)
class _Narrow:
    type: VType
    range_of: RangeOf
    able: Able

    @property
    def bits(self) -> int:
        return 8 * ELEM_BYTES[self.type.elem]

    def step(self, name: str, columns: tuple[Column, ...]) -> Step | None:
        match name:
            case _ if name in _LOW or name in _BITWISE:
                return self._same(name, columns)
            case "shl" | "shr" | "shru":
                return self._shifted(name, columns)
            case "min" | "max":
                return self._same(name if self._signed(columns) else f"{name}u", columns, self._either(columns))
            case "abs":
                return self._magnitude(columns)
            case _ if name in _COMPARED:
                return self._compared(name, columns)
            case "ltu":
                return self._same(name, columns, self._unsigned(columns))
            case "select":
                return self._same(name, columns, self._either(columns[:1]))
            case _ if name in _EXTENDED:
                return self._extended(name, columns)
            case _ if name in _LIMITS and self.bits > 8 and self._signed(columns):
                low, high = (Const(limit, self.type) for limit in _LIMITS[name])
                fits = self.able("min", self.type.elem) and self.able("max", self.type.elem)
                return Step(columns, lambda a: self._op("min", self._op("max", *a, low), high), 2) if fits else None
            case "bcast" if len(set(columns[0])) == 1 and self.able(name, self.type.elem):
                return Step((), lambda _: Op("bcast", columns[0][:1], self.type), 0)
            case _:
                return None

    def _op(self, name: str, *args: Term) -> Op:
        return Op(name, args, self.type)

    def _same(self, name: str, columns: tuple[Column, ...], fits: bool = True) -> Step | None:
        able = self.able(name, self.type.elem) or (name in _BITWISE and self.able(name, "i32"))
        return Step(columns, lambda a: self._op(name, *a)) if fits and able else None

    def _shifted(self, name: str, columns: tuple[Column, ...]) -> Step | None:
        """By one number for all lanes."""
        counts = [int(c.value) if isinstance(c, Const) else -1 for c in columns[1]]
        count, values = counts[0], columns[:1]
        if any(c != count for c in counts) or not 0 <= count < 32:
            return None
        if name == "shl" or self._unsigned(values):
            if count >= self.bits:
                return Step((), lambda _: Const(0, self.type), 0)
            name = name if name == "shl" else "shru"
        elif name == "shru" or not self._signed(values):
            return None
        number = Const(min(count, self.bits - 1), self.type)
        return Step(values, lambda a: self._op(name, *a, number)) if self.able(name, self.type.elem) else None

    def _magnitude(self, columns: tuple[Column, ...]) -> Step | None:
        inner = [t for t in columns[0] if isinstance(t, Op) and t.name == "sub"]
        if len(inner) == len(columns[0]):
            parts = tuple(zip(*(op.args for op in inner), strict=True))
            if self._unsigned(parts) and self.able("absdu", self.type.elem):
                return self._same("absdu", parts)
        return self._same("abs", columns, self._signed(columns))

    def _compared(self, name: str, columns: tuple[Column, ...]) -> Step | None:
        if self._signed(columns):
            return self._same(name, columns)
        if not self._unsigned(columns):
            return None
        if name == "gt":
            return self._same("ltu", columns[::-1])
        return self._same(_COMPARED[name], columns, bool(_COMPARED[name]))

    def _extended(self, name: str, columns: tuple[Column, ...]) -> Step | None:
        bits = _EXTENDED[name]
        if bits >= self.bits:
            return Step(columns, lambda a: a[0], 0)
        if name.startswith("zext"):
            return Step(columns, lambda a: self._op("and", *a, Const((1 << bits) - 1, self.type)))
        by = Const(self.bits - bits, self.type)
        fits = self.able("shl", self.type.elem) and self.able("shr", self.type.elem)
        return Step(columns, lambda a: self._op("shr", self._op("shl", *a, by), by), 2) if fits else None

    # -- ranges

    def _within(self, columns: tuple[Column, ...], low: int, high: int) -> bool:
        ranges = [self.range_of(term) for column in columns for term in column]
        return all(r is not None and low <= r[0] and r[1] <= high for r in ranges)

    def _signed(self, columns: tuple[Column, ...]) -> bool:
        return self._within(columns, -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)

    def _unsigned(self, columns: tuple[Column, ...]) -> bool:
        return self._within(columns, 0, (1 << self.bits) - 1)

    def _either(self, columns: tuple[Column, ...]) -> bool:
        return self._signed(columns) or self._unsigned(columns)
