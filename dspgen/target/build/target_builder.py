"""`tables.Isa` becomes `model.Target`: patterns, groups and units spelled out, semantics parsed, all names resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dspgen.target.build.consistency import by_templates, check_forms, check_names, check_rows, check_texts
from dspgen.target.build.context import Context
from dspgen.target.build.macro_rows import build_macros, build_rewrites
from dspgen.target.build.registers import build_registers, build_units
from dspgen.target.isa.model import (
    DMA_WORDS,
    Abi,
    AddressModes,
    Dma,
    Instruction,
    Memory,
    MemoryAccess,
    Operand,
    PacketLimit,
    Packets,
    PatternMemory,
    Pipeline,
    Predicates,
    SemExpr,
    SemStatement,
    Side,
    Target,
    TextSyntax,
    Toolchain,
    Unit,
)
from dspgen.target.isa.semantics import LOADS, MEMORY_TYPES, STORES, Kind, SemanticsError, check, parse, places
from dspgen.target.schema import instructions as schema_rows
from dspgen.target.schema import tables
from dspgen.target.schema.structure import Fault, suggest
from dspgen.target.schema.toml_positions import Path


def build_target(isa: tables.Isa, path: str) -> tuple[Target, list[Fault]]:
    """The target, of use only where no fault comes with it."""
    context = Context(isa.lanes, isa.mask_register)
    context.predicates = {
        "scalar": "scalar" if isa.predicates.scalar else "none",
        "vector": "lane" if isa.predicates.lane else "none",
    }
    build_registers(isa, context)
    build_units(isa, context)
    instructions = tuple(_Row(context, id, row).build() for id, row in isa.instructions.items())
    instructions = _with_texts(_with_costs(instructions, isa, context), isa)
    check_forms(instructions, context)
    check_rows(isa, instructions, context)
    check_names(isa, context)
    check_texts(isa, context)
    memories = _memories(isa, context)
    target = Target(
        name=isa.name,
        path=path,
        description=isa.description,
        lanes=isa.lanes,
        registers=tuple(context.classes.values()),
        units=tuple(context.units.values()),
        instructions=instructions,
        predicates=Predicates(isa.predicates.scalar, isa.predicates.lane, isa.predicates.text, isa.predicates.negated),
        packets=_packets(isa, context),
        pipeline=_pipeline(isa, context),
        address_modes=_address_modes(isa, context),
        memories=memories,
        dma=_dma(isa.dma, memories, context) if isa.dma else None,
        abi=_abi(isa),
        text=_text(isa),
        toolchain=_toolchain(isa),
        pattern_memory=_patterns(isa),
        macros=build_macros(isa, context),
        rewrites=build_rewrites(isa, context),
        mask_register=isa.mask_register,
        provenance=_provenance(isa),
    )
    return target, context.faults


def _with_costs(instructions: tuple[Instruction, ...], isa: tables.Isa, context: Context) -> tuple[Instruction, ...]:
    """The rows with the table of costs, which wins over a row's own figure."""
    known = {row.id for row in instructions}
    for name, figure in isa.cost.items():
        if name not in known:
            message = f"`{name}` is not an instruction row"
            context.fault("DG107", ("cost", name), message, suggest(name, sorted(known)), at_key=True)
        elif figure < 0:
            context.fault("DG111", ("cost", name), f"must not be negative, but is {figure}")
    return tuple(replace(row, cost=isa.cost.get(row.id, row.cost)) for row in instructions)


def _with_texts(instructions: tuple[Instruction, ...], isa: tables.Isa) -> tuple[Instruction, ...]:
    """Where rows are written by templates, those without one are so, too: as their mnemonics and operands."""
    if not by_templates(isa):
        return instructions
    return tuple(row if row.text or row.packet_end else replace(row, text=_plain(row)) for row in instructions)


def _plain(row: Instruction) -> str:
    return f"{row.mnemonic} {', '.join('{' + o.name + '}' for o in row.operands)}".rstrip()


class _Row:
    """One instruction's row on its way into the model."""

    def __init__(self, context: Context, id: str, row: schema_rows.Instruction) -> None:
        self.context = context
        self.id = id
        self.row = row
        self.path: Path = ("instructions", id)

    def build(self) -> Instruction:
        row = self.row
        members = self.members(row.units)
        spare = self.members(row.spare) if row.spare else []
        statements = self.semantics(row.semantics, (*self.path, "semantics"))
        equivalents = tuple(
            self.semantics(text, (*self.path, "equivalents", n)) for n, text in enumerate(row.equivalents)
        )
        condition = self.condition(row.condition, (*self.path, "condition"))
        operands = tuple(self.operand(n, o, statements, condition) for n, o in row.operands.items())
        self.check_figures()
        controls = [c for c in self.context.controls() if c not in row.operands]
        read = {p.name for value in (*(s.value for s in statements), *condition) for p in places(value)}
        side: Side = members[0][1].side if members else "scalar"
        predicable = row.predicate or self.context.predicates[side]
        masked = (row.predicate == "lane" or (row.predicate is None and side == "vector")) and row.masked is not False
        mask = self.context.mask if masked or row.masked else None
        written = {s.target.name for s in statements if s.target is not None}
        for n, name in enumerate(row.implicit_reads):
            self.context.check_register((*self.path, "implicit_reads", n), name)
        return Instruction(
            id=self.id,
            mnemonic=row.mnemonic or self.id,
            operands=operands,
            units=tuple(m for m, _, _ in members),
            busy=row.busy,
            semantics=statements,
            condition=next(iter(condition), None),
            suffixes=tuple((m, suffix) for m, _, suffix in (*members, *spare)),
            memory=self.memory(statements, side),
            resources=tuple((r.name, r.first, r.cycles) for r in row.resources),
            implicit_reads=tuple(
                dict.fromkeys([*row.implicit_reads, *(c for c in controls if c in read), *([mask] if mask else [])])
            ),
            predicable=predicable,
            branch=any(s.value.op == "branch" for s in statements),
            label=row.label,
            source=row.source,
            cost=row.cost,
            compile=row.compile and not row.condition and not any(o.new for o in row.operands.values()),
            implicit_writes=tuple(c for c in controls if c in written),
            equivalents=tuple(e for e in equivalents if e),
            note=row.note,
            text=row.text,
            text_if=row.text_if,
            text_unless=row.text_unless,
            accepts=row.accepts,
            packet_end=row.packet_end,
            spare=tuple(m for m, _, _ in spare),
        )

    def members(self, units: Sequence[str]) -> list[tuple[str, Unit, str]]:
        """Each alternative's member name, unit and suffix, in the row's order."""
        members = self.context.members(units, self.path)
        return [(unit.members[k - 1], unit, unit.suffix.format(n=k)) for unit, k in members]

    def semantics(self, text: str, path: Path, *, condition: bool = False) -> tuple[SemStatement, ...]:
        context = self.context
        try:
            statements = parse(text, context.lanes)
        except SemanticsError as fault:
            context.fault("DG109", path, str(fault))
            return ()
        kinds = {name: self.kind(operand) for name, operand in self.row.operands.items()}
        for message in check(statements, kinds, context.controls(), condition=condition):
            context.fault("DG110" if "operand" in message else "DG109", path, message)
        return statements

    def condition(self, text: str, path: Path) -> tuple[SemExpr, ...]:
        """The expression without which the row has no effect, if it has one."""
        found = self.semantics(text, path, condition=True) if text else ()
        return tuple(s.value for s in found)

    def kind(self, operand: schema_rows.Operand) -> Kind:
        if operand.memory:
            return "memory"
        if operand.target:
            return "label"
        if not operand.reg:
            return "immediate"
        classes = [self.context.classes.get(c) for c in self.classes(operand)]
        return "pair" if any(c is not None and c.pair_of is not None for c in classes) else "register"

    def classes(self, operand: schema_rows.Operand) -> tuple[str, ...]:
        return tuple(c for name in operand.reg for c in self.context.groups.get(name, (name,)))

    def operand(
        self, name: str, row: schema_rows.Operand, statements: tuple[SemStatement, ...], condition: tuple[SemExpr, ...]
    ) -> Operand:
        path: Path = (*self.path, "operands", name)
        context = self.context
        for word in row.reg:
            if word not in context.groups and word not in context.classes:
                remedy = suggest(word, [*context.classes, *context.groups])
                context.fault("DG106", path, f"`{word}` is not a register class", remedy)
        if sum((bool(row.reg or row.imm), row.memory, row.target)) != 1:
            context.fault("DG104", path, "must be a register class, an immediate's range, `memory` or `target`")
        if row.imm is not None and row.imm[0] > row.imm[1]:
            context.fault("DG111", (*path, "imm"), f"the range {row.imm[0]} to {row.imm[1]} is empty")
        latency = self.row.latency if row.latency is None else row.latency
        if row.latency is not None and latency < 1:
            context.fault("DG111", (*path, "latency"), f"must be at least 1, not {latency}")
        targets = [s.target for s in statements if s.target is not None and s.target.name == name]
        read = any(p.name == name for value in (*(s.value for s in statements), *condition) for p in places(value))
        read |= self.partial(row, targets) or bool(condition and targets)
        fixed = row.imm is not None and not row.reg and row.imm[0] == row.imm[1]
        if statements and not (read or targets or fixed):
            context.fault("DG110", path, f"the operand `{name}` does not occur in the semantics", at_key=True)
        kind: Literal["register", "immediate", "memory", "label"] = "register"
        if not row.reg:
            kind = "memory" if row.memory else "label" if row.target else "immediate"
        return Operand(
            name=name,
            kind=kind,
            classes=self.classes(row),
            imm=row.imm,
            read=read,
            write=bool(targets),
            latency=latency,
            read_cycle=row.read_cycle,
            new=row.new,
            forward=row.forward,
            literal=row.literal,
            symbol_bits=row.symbol_bits,
            pair_text=row.pair_text,
        )

    def partial(self, row: schema_rows.Operand, targets: list[SemExpr]) -> bool:
        """A pair of which one half is written keeps the other: it is read as well."""
        parts = {t.part for t in targets}
        return self.kind(row) == "pair" and bool(parts) and "" not in parts and parts != {"lo", "hi"}

    def memory(self, statements: tuple[SemStatement, ...], side: Side) -> MemoryAccess | None:
        row = self.row.memory
        operations = {op for s in statements for op in _operations(s.value)}
        touches = bool(operations & {*LOADS, *STORES})
        if row is None:
            if touches or any(o.memory for o in self.row.operands.values()):
                self.context.fault("DG117", self.path, "an access to memory needs the key `memory`", at_key=True)
            return None
        if not touches and statements:
            self.context.fault("DG117", (*self.path, "memory"), "the semantics neither load nor store", at_key=True)
        figures = ("scale", row.scale), ("bytes", row.bytes), ("align", row.align), ("store_latency", row.store_latency)
        for key, figure in (*figures, ("text_unit", row.text_unit)):
            if figure is not None and figure < 1:
                self.context.fault("DG111", (*self.path, "memory", key), f"must be at least 1, not {figure}")
        if row.align > 0 and row.align & (row.align - 1):
            self.context.fault("DG111", (*self.path, "memory", "align"), f"must be a power of two, not {row.align}")
        if (moved := sum(_moved(s.value, self.context.lanes) for s in statements)) not in (0, row.bytes):
            self.context.fault(
                "DG117", (*self.path, "memory", "bytes"), f"the semantics move {moved} bytes, not {row.bytes}"
            )
        store = bool(operations & set(STORES))
        return MemoryAccess(
            row.side or side,
            row.scale,
            row.align,
            row.bytes,
            store,
            row.store_latency,
            row.force_align,
            row.scale if row.text_unit is None else row.text_unit,
        )

    def check_figures(self) -> None:
        row, context = self.row, self.context
        for key, figure in (("latency", row.latency), ("busy", row.busy)):
            if figure < 1:
                context.fault("DG111", (*self.path, key), f"must be at least 1, not {figure}")
        members = {member for unit in context.units.values() for member in unit.members}
        for n, taken in enumerate(row.resources):
            if taken.name in members:
                message = f"`{taken.name}` is a unit; what excludes what among units is for `packets.limits`"
                context.fault("DG108", (*self.path, "resources", n), message)
            if taken.first < 0 or taken.cycles < 1:
                context.fault("DG111", (*self.path, "resources", n), "is held from cycle 0 on, for 1 cycle or more")
        if not row.source:
            context.fault("DG103", (*self.path, "source"), "must say where the row's facts come from")


def _operations(expr: SemExpr) -> tuple[str, ...]:
    return (expr.op, *(o for a in expr.args for o in _operations(a)))


def _moved(expr: SemExpr, lanes: int) -> int:
    """How many bytes its loads and stores move."""
    inner = sum(_moved(a, lanes) for a in expr.args)
    if expr.op not in (*LOADS, *STORES) or expr.type not in MEMORY_TYPES:
        return inner
    return inner + int(expr.type[1:]) // 8 * (1 if expr.op in ("ld", "st") else lanes)


def _memories(isa: tables.Isa, context: Context) -> tuple[Memory, ...]:
    found: list[Memory] = []
    for name, row in isa.memories.items():
        path: Path = ("memories", name)
        for key, figure in (("size", row.size), ("bytes_per_cycle", row.bytes_per_cycle)):
            if figure < 1:
                context.fault("DG111", (*path, key), f"must be at least 1, not {figure}")
        for other in found:
            if row.base < other.base + other.size and other.base < row.base + row.size:
                context.fault("DG117", path, f"overlaps the memory `{other.name}`", at_key=True)
        found.append(
            Memory(name, row.base, row.size, row.bytes_per_cycle, row.sides, row.onchip, row.label, row.purpose)
        )
    return tuple(found)


def _dma(row: tables.Dma, memories: tuple[Memory, ...], context: Context) -> Dma:
    for key in ("bytes_per_cycle", "channels", "word_bytes", "transposed_bytes_per_cycle"):
        figure = getattr(row, key)
        if figure is not None and figure < 1:
            context.fault("DG111", ("dma", key), f"must be at least 1, not {figure}")
    if row.startup < 0:
        context.fault("DG111", ("dma", "startup"), f"must be at least 0, not {row.startup}")
    wanted = (*DMA_WORDS, "element") if row.transpose else DMA_WORDS
    if sorted(row.words) != sorted(wanted):
        wrong = [f"`{w}` is missing" for w in wanted if w not in row.words]
        wrong += [f"`{w}` is none of them" for w in dict.fromkeys(row.words) if w not in wanted]
        wrong += [f"`{w}` is there twice" for w in dict.fromkeys(row.words) if row.words.count(w) > 1]
        message = f"{', '.join(wrong)}; they must be {', '.join(wanted)}, in the machine's order"
        context.fault("DG118", ("dma", "words"), message)
    paces = row.bytes_per_cycle, row.transposed_bytes_per_cycle or row.bytes_per_cycle
    words = tuple(row.words)
    found = Dma(row.startup, paces[0], row.transpose, row.base, row.channels, words, row.word_bytes, paces[1])
    for memory in memories:
        if row.base < memory.base + memory.size and memory.base < row.base + found.size:
            context.fault("DG117", ("dma", "base"), f"the engine's words overlap the memory `{memory.name}`")
    return found


def _packets(isa: tables.Isa, context: Context) -> Packets:
    for key, figure in (("issue", isa.packets.issue), ("minimum_ii", isa.packets.minimum_ii)):
        if figure < 1:
            context.fault("DG111", ("packets", key), f"must be at least 1, not {figure}")
    limits = []
    for name, row in isa.packets.limits.items():
        path: Path = ("packets", "limits", name)
        if row.most < 1:
            context.fault("DG111", (*path, "most"), f"must be at least 1, not {row.most}")
        members = frozenset(unit.members[k - 1] for unit, k in context.members(row.units, path))
        limits.append(PacketLimit(name, members, row.most))
    return Packets(isa.packets.issue, isa.packets.minimum_ii, tuple(limits))


def _pipeline(isa: tables.Isa, context: Context) -> Pipeline:
    row = isa.pipeline
    if row.branch_delay < 0:
        context.fault("DG111", ("pipeline", "branch_delay"), f"must be at least 0, not {row.branch_delay}")
    if row.equals and not row.exposed:
        message = "an interlocked pipeline keeps no old values for readers to come"
        context.fault("DG111", ("pipeline", "equals"), message)
    return Pipeline(row.exposed, row.equals, row.branch_delay)


def _address_modes(isa: tables.Isa, context: Context) -> AddressModes:
    row = isa.address_modes
    if row.update_latency < 1:
        context.fault("DG111", ("address_modes", "update_latency"), f"must be at least 1, not {row.update_latency}")
    return AddressModes(
        plus_imm={"scalar": tuple(row.scalar.plus), "vector": tuple(row.vector.plus)},
        minus_imm={"scalar": tuple(row.scalar.minus), "vector": tuple(row.vector.minus)},
        increment_imm=tuple(row.increment),
        decrement_imm=tuple(row.decrement),
        update_latency=row.update_latency,
        base_classes={"scalar": row.scalar.base, "vector": row.vector.base},
        offset_classes=_offsets(row),
    )


def _offsets(row: tables.AddressModes) -> dict[Side, str]:
    found: dict[Side, str | None] = {"scalar": row.scalar.offset, "vector": row.vector.offset}
    return {side: cls for side, cls in found.items() if cls is not None}


def _abi(isa: tables.Isa) -> Abi:
    row = isa.abi
    same = "arguments scalar_class pointer_class wide_class result return_address return_operand scalar_stack"
    names = f"{same} vector_stack callee_saved stack_memory reserved".split()
    return Abi(
        **{key: getattr(row, key) for key in names},
        stack_arguments=None if row.stack_arguments is None else int(row.stack_arguments),
        stack_alignment=None if row.stack_alignment is None else int(row.stack_alignment),
        red_zone=None if row.red_zone is None else int(row.red_zone),
        entry_values={k: int(v) for k, v in row.entry_values.items()},
        wide_registers=_wide_registers(isa),
    )


def _wide_registers(isa: tables.Isa) -> int:
    """Two where both halves of a pair are among the arguments' registers."""
    row, wide = isa.abi, isa.registers.get(isa.abi.wide_class)
    names = isa.registers[wide.pair_of].names if wide is not None and wide.pair_of in isa.registers else ()
    both = any({*names[k : k + 2]} <= {*row.arguments} for k in range(0, len(names) - 1, 2))
    return 2 if both else 1


def _text(isa: tables.Isa) -> TextSyntax:
    row = isa.text
    return TextSyntax(
        parallel=row.parallel,
        comment=row.comment,
        comment_alternatives=row.comment_alternatives,
        nop=row.nop,
        nop_max=row.nop_max,
        label=row.label,
        global_directive=row.global_directive,
        size_directive=row.size_directive,
        case_sensitive=row.case_sensitive,
        packet_open=row.packet_open,
        packet_close=row.packet_close,
        separator=row.separator,
        address=row.address,
        address_update=row.address_update,
    )


def _toolchain(isa: tables.Isa) -> Toolchain | None:
    row = isa.toolchain
    if row is None:
        return None
    same = "assemble link run start argument stack_argument output data counter overhead compile halide support"
    texts = {name: getattr(row, name) for name in same.split()}
    return Toolchain(**texts, packages=tuple(row.packages), rivals=tuple(row.rivals.items()))


def _patterns(isa: tables.Isa) -> PatternMemory | None:
    row = isa.pattern_memory
    return PatternMemory(row.base, row.bytes_per_mode, row.mode_register) if row else None


def _provenance(isa: tables.Isa) -> tuple[tuple[str, str, str], ...]:
    found: list[tuple[str, str, str]] = []
    for table in ("registers", "units", "memories", "macros"):
        found += [(f"{table}.{name}", row.label, row.source) for name, row in getattr(isa, table).items()]
    for table in ("predicates", "packets", "pipeline", "address_modes", "dma", "abi", "pattern_memory", "toolchain"):
        if (row := getattr(isa, table)) is not None:
            found.append((table, row.label, row.source))
    return tuple(found)
