"""Every row of every ISA file, on random registers: what it computes, and that it lands in its cycle and no earlier."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.lowering.load import Loaded, load
from dspgen.sim.machine.interpreter import Machine
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Instruction, Operand, SemExpr, Target
from dspgen.target.load import isa_names, load_target
from dspgen.vecdsl.ir.program import NARROW
from tests.unit.test_target_views import signed, value_of

MACHINES = [load_target(name) for name in isa_names()]
SETTLED = 9  # cycles after which nothing changes any more
FIRST = 20  # of the registers of a class that operands take: those before it have other uses
INTEGER = frozenset({"add", "sub", "mul", "neg", "not", "mov", "bcast", "and", "or", "xor", "min", "max"}) | frozenset(
    {"lt", "eq", "ltu", "shl", "shr", "shru", "sext", "zext", "place", "set_high"}
)
FLOAT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mac": lambda a, b, c: a * b + c,
    "msub": lambda a, b, c: a * b - c,
    "nmac": lambda a, b, c: c - a * b,
    "abs": abs,
}


def written_as(operand: Operand, place: int, target: Target) -> Iterator[str]:
    """The operand's texts to try: a register of each class, the ends of its immediates."""
    if operand.kind == "memory":
        yield "*{base}"
    for name in operand.classes:
        names = target.register_class(name).names
        yield names[min(FIRST + 2 * place, len(names) - 1 - place) if len(names) > 2 * place else 0]
    if operand.imm is not None:
        yield from dict.fromkeys(str(v) for v in (*operand.imm, min(max(operand.imm[0], 3), operand.imm[1])))


def forms(row: Instruction, target: Target) -> Iterator[dict[str, str]]:
    """Texts for all operands; one operand differs from the first form in each of the others."""
    each = [list(written_as(o, k, target)) for k, o in enumerate(row.operands)]
    names = [o.name for o in row.operands]
    yield dict(zip(names, (texts[0] for texts in each), strict=True))
    for k, texts in enumerate(each):
        for text in texts[1:]:
            chosen = [other[0] for other in each]
            chosen[k] = text
            yield dict(zip(names, chosen, strict=True))


def elements(rng: np.random.Generator, elem: str, count: int, bits: int) -> np.ndarray:
    """Random contents of registers: of floats where the row computes on these."""
    if elem in ("f32", "f64"):
        width = int(elem[1:])
        raw = rng.uniform(-8, 8, count * max(bits // width, 1)).astype(f"f{width // 8}")
        if bits < width:
            return raw.view("u4")[:count].astype(np.uint64)
        return raw.view(f"u{bits // 8}").astype(np.uint64)
    small = rng.integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2)
    return small >> rng.integers(0, 60, count).astype(np.uint64)


_CONTENTS: dict[tuple[str, str, int], list[tuple[int, np.ndarray]]] = {}


def contents(target: Target, elem: str, seed: int, kept: frozenset[int]) -> list[tuple[int, np.ndarray]]:
    """What the registers hold before, but for those that are kept as they are."""
    key = (target.name, elem, seed)
    if key not in _CONTENTS:
        rng = np.random.default_rng(seed)
        _CONTENTS[key] = []
        for cell in RegisterFile(target).cells:
            raw = elements(rng, elem, max(cell.lanes, 1), cell.storage)
            dtype = np.dtype(f"u{cell.storage // 8}")
            _CONTENTS[key].append((cell.index, raw.astype(dtype) & dtype.type((1 << cell.bits) - 1)))
    return [(index, raw) for index, raw in _CONTENTS[key] if index not in kept]


class Bench:
    """One form of a row between no-operations, on given registers."""

    def __init__(
        self, row: Instruction, texts: dict[str, str], target: Target, file: RegisterFile | None = None
    ) -> None:
        self.row, self.texts, self.target = row, texts, target
        self.file = file or RegisterFile(target)
        self.elem = next((s.value.type for s in row.semantics if s.value.type.startswith("f")), "i64")
        self.back = next(r for r in target.instructions if r.branch and [o.kind for o in r.operands] == ["register"])
        side = row.memory.side if row.memory is not None else "scalar"
        self.base = target.register_class(target.address_modes.base_classes[side]).names[0]

    def place(self, operand: Operand) -> tuple[tuple[int, ...], int | None]:
        found = self.file.place(self.texts[operand.name], operand.classes) or self.file.place(self.texts[operand.name])
        assert found is not None
        return tuple(found.cells), found.lane

    def text(self, after: int) -> str:
        """The program whose return lands `after` cycles after the row issues; where packets wait for what they need, in
        the next packet."""
        return self.templated() if self.row.text else self.program({0: [self.line()]}, after)

    def line(self, **texts: str) -> str:
        """The row as it stands in a program, some of its operands and its `suffix` other than given."""
        suffix = texts.pop("suffix", self.row.suffixes[0][1] if self.row.suffixes else "")
        found = self.texts | texts
        operands = ",".join(found[o.name].format(base=self.base) for o in self.row.operands)
        return f"{self.row.mnemonic}{suffix} {operands}"

    def program(self, issues: Mapping[int, Sequence[str]], end: int) -> str:
        """A program that issues these lines in these cycles, and whose return lands in cycle `end`."""
        text, delay = self.target.text, self.target.pipeline.branch_delay
        start = max(0, delay + 1 - end)
        packets = {start + cycle: [*members] for cycle, members in issues.items()}
        packets.setdefault(start + end - 1 - delay, []).append(f"{self.back.mnemonic} {self.target.abi.return_operand}")
        lines, at = [], 0
        for cycle, members in (*sorted(packets.items()), (start + end, [])):
            while at < cycle:
                idle = min(cycle - at, text.nop_max)
                lines.append(f"\t{text.nop} {idle}")
                at += idle
            lines += [f"\t{text.parallel if k else ''}\t{m}" for k, m in enumerate(members)]
            at += bool(members)
        return f"{text.global_directive.format(name='f')}\nf:\n" + "\n".join(lines) + "\n"

    def templated(self) -> str:
        """The same in rows' own texts."""
        text = self.target.text
        place = text.address.format(base=self.base, offset=0)
        given = {name: place if value == "*{base}" else value for name, value in self.texts.items()}
        members = [re.sub(r"\{(\w+)\}", lambda found: given[found[1]], self.row.text)]
        members.append(re.sub(r"\{\w+\}", self.target.abi.return_operand, self.back.text))
        packets = [f"\t{text.packet_open} {m} {text.packet_close}\n" for m in members]
        return f"{text.global_directive.format(name='f')}\nf:\n" + "".join(packets)

    def run(self, after: int, seed: int) -> tuple[Loaded, list[np.ndarray], list[np.ndarray]]:
        """What was loaded, and the registers before and after."""
        return self.started(self.text(after), seed)

    def started(self, text: str, seed: int) -> tuple[Loaded, list[np.ndarray], list[np.ndarray]]:
        """The same of a program."""
        rng = np.random.default_rng(seed)
        memory = rng.integers(0, 256, 4096, dtype=np.uint8)
        program = assemble(text, self.target, "f.s")
        loaded = load(
            program, self.target, function=None, arguments=[("x", memory)], placement={}, strict=False, limit=1000
        )
        file, registers = self.file, loaded.start.registers
        patterns = self.target.pattern_memory
        unchanged = (self.target.abi.return_operand, self.target.mask_register, patterns and patterns.mode_register)
        kept = {c for n in unchanged if n for c in self.cells(n)}
        for index, raw in contents(self.target, self.elem, seed, frozenset(kept)):
            registers[index][:] = raw
        (base,) = file.place(self.base).cells  # type: ignore[union-attr]
        registers[base][:] = loaded.places[0][1] + 1024
        before = [r.copy() for r in registers]
        outcome = Machine(loaded.code, loaded.memories, loaded.start).run(self.target.pipeline.branch_delay)
        return loaded, before, outcome.registers

    def cells(self, name: str) -> tuple[int, ...]:
        found = self.file.place(name)
        return tuple(found.cells) if found is not None else ()


def known(expr: SemExpr) -> bool:
    """Whether `expected` tells it."""
    if expr.type.startswith("f"):
        return expr.op in FLOAT and all(a.op == "place" and not a.part for a in expr.args)
    return expr.op in INTEGER and not expr.part and all(known(a) or a.op == "int" for a in expr.args)


def expected(bench: Bench, expr: SemExpr, before: list[np.ndarray], lane: int, bits: int) -> int | float:
    """An element of a row's result, by the plain meaning of its operation."""
    given: dict[str, int] = {}
    for operand in bench.row.operands:
        if not bench.texts[operand.name].lstrip("-").isdigit():
            cells, own = bench.place(operand)
            given[operand.name], shift = 0, 0
            for cell in cells:
                value, spec = (
                    int(before[cell][own if own is not None else lane % len(before[cell])]),
                    bench.file.cells[cell],
                )
                given[operand.name] += (signed(value, spec.storage) if cell == cells[-1] else value) << shift
                shift += spec.bits
        else:
            given[operand.name] = int(bench.texts[operand.name])
    if not expr.type.startswith("f"):
        return value_of(expr, given) & ((1 << bits) - 1)
    kind, mask = ("f4", (1 << 32) - 1) if expr.type == "f32" else ("f8", (1 << 64) - 1)
    args = [np.array(given[a.name] & mask, dtype=f"u{kind[1]}").view(kind).astype("f8") for a in expr.args]
    return float(FLOAT[expr.op](*args))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_rows_compute_what_they_say(machine: Target) -> None:
    """Rows of one statement whose meaning is plain; the low element of each lane."""
    checked = 0
    for row in machine.instructions:
        if row.branch or row.memory is not None or len(row.semantics) != 1 or not known(row.semantics[0].value):
            continue
        (statement,) = row.semantics
        if statement.target is None or statement.target.part or any(o.literal or o.new for o in row.operands):
            continue
        for texts in forms(row, machine):
            bench = Bench(row, texts, machine)
            cells, own = bench.place(row.operand(statement.target.name))
            if len(cells) > 1:
                continue
            _, before, after = bench.run(SETTLED, 7)
            spec = bench.file.cells[cells[0]]
            for lane in (0, max(spec.lanes, 1) - 1):
                got = int(after[cells[0]][own if own is not None else lane])
                bits = spec.bits
                if spec.lanes and statement.value.type in NARROW:
                    bits = int(statement.value.type[1:])
                    got &= (1 << bits) - 1
                want = expected(bench, statement.value, before, lane, bits)
                if row.condition is not None and not expected(bench, row.condition, before, lane, 32):
                    want = int(before[cells[0]][own if own is not None else lane])
                if isinstance(want, float):
                    kind = "4" if statement.value.type == "f32" else "8"
                    real = np.array(got & ((1 << 8 * int(kind)) - 1), dtype=f"u{kind}").view(f"f{kind}")
                    assert float(real) == pytest.approx(want, rel=1e-4, abs=1e-4), (row.id, texts)
                else:
                    assert got == want, (row.id, texts, signed(got, 64), signed(want, 64))
                checked += 1
    assert checked > 100


@pytest.mark.parametrize("machine", [m for m in MACHINES if m.pipeline.exposed], ids=lambda m: m.name)
def test_rows_land_in_their_cycle(machine: Target) -> None:
    """A result is there after its latency, as it is much later; one cycle earlier there is the old value."""
    for row in machine.instructions:
        results = [o for o in row.operands if o.write]
        if any(s.value.op.startswith("perm") for s in row.semantics):
            continue  # reads a pattern where its control register points
        if row.branch or not results:
            continue
        texts = next(forms(row, machine))
        bench = Bench(row, texts, machine)
        for result in results:
            cells, _ = bench.place(result)
            late = bench.run(result.latency + SETTLED, 4)[2]
            _, before, there = bench.run(result.latency, 4)
            early = bench.run(result.latency - 1, 4)[2] if result.latency > 1 else before
            for cell in cells:
                assert np.array_equal(there[cell], late[cell]), row.id
                assert np.array_equal(early[cell], before[cell]), row.id
            assert any(not np.array_equal(there[c], before[c]) for c in cells), row.id
