"""What the tile model asks of a machine: which units an operation may use, how many registers and lanes there are."""

from __future__ import annotations

from dspgen.target.model import Target
from dspgen.target.operations import Form, OperationTable, bits_elem
from dspgen.tiling.nests import FlatAccess

# The share of loads that remain where pairs of them go in one instruction: alignment lets about half of them pair.
_PAIRED = 0.75
_STANDS_IN = {"add": "mac", "sub": "mac", "mul": "mac"}


class Machine:
    """Unit pressure of operations, spread evenly over the members that can do each."""

    def __init__(self, target: Target, table: OperationTable) -> None:
        self.target = target
        self.table = table
        self.lanes = target.lanes
        vector = next(c for c in target.registers if c.kind == "vector" and c.pair_of is None)
        scalar = target.register_class(target.abi.scalar_class)
        self.vector_registers = len(vector.names)
        self.vector_class = vector.name
        self.scalar_class = scalar.name
        self.vector_bits = vector.bits

    def form(self, op: str, elem: str, *, vector: bool) -> Form | None:
        """A form of the operation on vectors or scalars, the one on the most units."""
        side = "vector" if vector else "scalar"
        forms = [
            f
            for f in self.table.forms(op, elem)
            if any(self._kind(c) == side for c in (f.result_operand if f.result else f.operand(1)).classes)
        ]
        return max(forms, key=lambda f: (len(f.instruction.units), f.instruction.id), default=None)

    def _kind(self, cls: str) -> str:
        found = self.target.register_class(cls)
        if found.pair_of is not None:
            return self.target.register_class(found.pair_of).kind
        return found.kind

    def add(self, pressure: dict[str, float], op: str, elem: str, vector: bool, count: float) -> None:
        form = self.form(_STANDS_IN.get(op, op), elem, vector=vector) or self.form(op, elem, vector=vector)
        if form is not None:
            self._spread(pressure, form, count)

    def _spread(self, pressure: dict[str, float], form: Form, count: float) -> None:
        units = form.instruction.units
        for unit in units:
            pressure[unit] = pressure.get(unit, 0.0) + count * form.instruction.busy / len(units)

    def latency(self, op: str, elem: str, *, vector: bool) -> int:
        form = self.form(op, elem, vector=vector)
        return form.instruction.latency if form is not None else 1

    def has_vector_access(self, stride: int, elem: str, *, store: bool) -> bool:
        """Whether lanes with this element stride can be loaded or stored at all (in pairs, or reversed, counts)."""
        key = bits_elem(elem)
        if stride == 1:
            return self.form("vst" if store else "vld", key, vector=True) is not None
        if stride == -1:
            return self._has_reverse(key)
        pair = "vst_pair" if store else "vld_pair"
        return any(f.shape[:1] == (stride,) for f in self.table.forms(pair, key))

    def _has_reverse(self, elem: str) -> bool:
        macro = any(m.implements == f"reverse.{elem}" for m in self.target.macros)
        return macro or bool(self.table.forms("reverse", elem))

    def add_access(
        self,
        pressure: dict[str, float],
        access: FlatAccess,
        stride: int | None,
        distinct: int,
        written: bool,
        *,
        read: bool,
    ) -> None:
        """`stride` across lanes; None where the comp is scalar."""
        elem = bits_elem(access.elem)
        vector = bool(stride)
        if read and (form := self.form("vld" if vector else "ld", elem, vector=vector)) is not None:
            self._spread(pressure, form, distinct * (_PAIRED if self.table.forms("vld_pair", elem) else 1.0))
        if read and stride == 0 and (form := self.form("bcast", "i32", vector=True)) is not None:
            self._spread(pressure, form, distinct)
        if written and (form := self.form("vst" if vector else "st", elem, vector=vector)) is not None:
            self._spread(pressure, form, distinct)
        if stride is not None and stride < 0:
            self._spread_reverse(pressure, distinct)

    def _spread_reverse(self, pressure: dict[str, float], count: float) -> None:
        """Reversing lanes, by an instruction or by a macro, which runs alone."""
        if (form := next(iter(self.table.forms("reverse", "i32")), None)) is not None:
            self._spread(pressure, form, count)
            return
        for macro in self.target.macros:
            if macro.implements == "reverse.i32":
                for unit in self.target.unit_members:
                    pressure[unit] = pressure.get(unit, 0.0) + count * len(macro.body)
