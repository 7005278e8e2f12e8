"""The C of a cycle's end: results and stores that land."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.sim.cgen.frame import Frame, bits_of
from dspgen.sim.ir.program import Write
from dspgen.sim.lowering.packet_accesses import span
from dspgen.sim.machine.in_flight import InFlight


@dataclass(slots=True)
class Landing:
    """`tracked` are cells that are marked when they are written; `mask_changes`: the lane mask may be any."""

    frame: Frame
    tracked: frozenset[int]
    mask_changes: bool

    def land(self, landing: tuple[InFlight, ...]) -> None:
        for entry in landing:
            if entry.kind == "store":
                self.land_store(entry)
        writes = [f for f in landing if f.kind == "write"]
        for i, entry in enumerate(writes):
            for other in writes[:i]:
                self._conflict(entry, other)
        for entry in writes:
            self._land_write(entry)

    def guard(self, entry: InFlight) -> str:
        op = self.frame.code.ops[entry.uid]
        if not op.unsure:
            return "1"
        return self.frame.issued("a", entry.uid, 0, entry.copy)

    def _entry_mask(self, entry: InFlight, masked: bool) -> str | None:
        op = self.frame.code.ops[entry.uid]
        lane = op.predicate is not None and op.predicate.lane
        if not masked or not (lane or (op.masked and self.mask_changes)):
            return None
        return self.frame.issued("m", entry.uid, 0, entry.copy)

    def _write(self, entry: InFlight) -> Write:
        return self.frame.code.ops[entry.uid].writes[entry.index]

    def _conflict(self, entry: InFlight, other: InFlight) -> None:
        """Two writes land on one register in one cycle: an error unless they leave each other alone."""
        a, b = self._write(entry), self._write(other)
        if a.cell != b.cell or (a.lane is not None and b.lane is not None and a.lane != b.lane):
            return
        tests = [g for g in (self.guard(entry), self.guard(other)) if g != "1"]
        masks = self._entry_mask(entry, a.masked), self._entry_mask(other, b.masked)
        if a.lane is None and b.lane is None and (known := [m for m in masks if m is not None]):
            tests.append(f"({' & '.join(known)})")
        ops = self.frame.code.ops[entry.uid], self.frame.code.ops[other.uid]
        if any(not op.certain for op in ops) and a.lane == b.lane:
            first, second = (self.frame.issued("p", f.uid, f.index, f.copy) for f in (entry, other))
            spec = self.frame.code.cells[a.cell]
            size = spec.storage // 8 * (max(spec.lanes, 1) if a.lane is None else 1)
            tests.append(f"memcmp(&{first}, &{second}, {size})")
        both = other.uid * len(self.frame.code.cells) + a.cell
        self.frame.lines.append(f"if ({' && '.join(tests) or '1'}) {self.frame.fault('double', entry.uid, str(both))}")

    def _land_write(self, entry: InFlight) -> None:
        write = self._write(entry)
        cell = self.frame.code.cells[write.cell]
        target = self.frame.cell(write.cell)
        value = self.frame.issued("p", entry.uid, entry.index, entry.copy)
        code = f"{target}[{write.lane}] = {value};" if write.lane is not None else f"{target} = {value};"
        mask, full = self._entry_mask(entry, write.masked), bits_of(self.frame.lanes)
        if mask is not None and cell.lanes == self.frame.lanes and write.lane is None:
            code = f"if (UNLIKELY({mask} != {full})) blend_{cell.storage}(&{target}, &{value}, {mask}); else {code}"
        if write.cell in self.tracked:
            code += f" written[{write.cell}] = 1;"
        guard = self.guard(entry)
        self.frame.lines.append(code if guard == "1" else f"if ({guard}) {{ {code} }}")

    def land_store(self, entry: InFlight) -> None:
        op = self.frame.code.ops[entry.uid]
        store = op.stores[entry.index]
        value = self.frame.issued("p", entry.uid, len(op.writes) + entry.index, entry.copy)
        size, lanes = store.value.width // 8, store.value.lanes
        if store.index is not None:
            self._land_scatter(entry, value, size, lanes)
            return
        where = self.frame.issued("q", entry.uid, entry.index, entry.copy)
        mask = self._entry_mask(entry, store.masked and lanes == self.frame.lanes)
        step = store.stride * size
        part = f"scatter_{8 * size}({where}, &{value}, %s, {store.first * size}, {step});"
        if store.stride == 1 or lanes == 0:
            code = f"memcpy({where} + {store.first * size}, &{value}, {max(lanes, 1) * size});"
        else:
            code = part % bits_of(lanes)
        if mask is not None:
            code = f"if (UNLIKELY({mask} != {bits_of(self.frame.lanes)})) {part % mask} else {code}"
        if self.frame.dma is not None and op.access is not None and op.access.side == "scalar":
            low, high = span(size, max(lanes, 1), store.stride, store.first)
            place = f"(u64)({where} + {low} - words)"
            refused = self.frame.fault("transfer", op.uid)
            code += f" if (UNLIKELY({place} < {self.frame.dma.size}) && !stored({place}, {high - low}, {op.uid}))"
            code += f" {refused}"
        guard = self.guard(entry)
        self.frame.lines.append(code if guard == "1" else f"if ({guard}) {{ {code} }}")

    def _land_scatter(self, entry: InFlight, value: str, size: int, lanes: int) -> None:
        store = self.frame.code.ops[entry.uid].stores[entry.index]
        mask = self._entry_mask(entry, store.masked and lanes == self.frame.lanes)
        skip = f"if (!({mask} >> k & 1)) continue; " if mask is not None else ""
        places, guard = self.frame.places(entry.uid, entry.index, entry.copy, lanes), self.guard(entry)
        self.frame.lines.append(
            f"if ({guard}) for (int k = 0; k < {lanes}; k++) "
            f"{{ {skip}memcpy({places}[k], (u8 *)&{value} + k * {size}, {size}); }}"
        )
