"""Checks over the whole ISA file: rows that look alike, names that nothing has, texts that can't be filled in."""

from __future__ import annotations

import re

from dspgen.target.build.context import Context
from dspgen.target.isa.model import Instruction, SemExpr
from dspgen.target.isa.semantics import places
from dspgen.target.schema import tables
from dspgen.target.schema.structure import suggest


def check_forms(instructions: tuple[Instruction, ...], context: Context) -> None:
    """Two rows that the assembler could not tell apart are a mistake."""
    seen: dict[object, str] = {}
    for row in instructions:
        shape = tuple((o.kind, o.classes, o.imm, o.pair_text) for o in row.operands)
        for unit in row.all_units:
            key = (row.mnemonic, unit, shape)
            if key in seen and seen[key] != row.id:
                message = f"same mnemonic, unit and operands as `{seen[key]}`"
                context.fault("DG108", ("instructions", row.id), message, at_key=True)
                break
            seen[key] = row.id


def check_rows(isa: tables.Isa, instructions: tuple[Instruction, ...], context: Context) -> None:
    """What rows say of time and control goes together."""
    _check_late_reads(instructions, context, exposed=isa.pipeline.exposed)
    _check_branches(instructions, isa.pipeline.branch_delay, context)
    _check_loop_ends(isa, instructions, context)
    _check_new(isa, instructions, context)


def _check_new(isa: tables.Isa, instructions: tuple[Instruction, ...], context: Context) -> None:
    """One operand of a row at most comes from its packet: a register that it reads, at issue, and does not write."""
    for row in instructions:
        new = [o for o in row.operands if o.new]
        if any(o.kind != "register" or not o.read or o.write or o.read_cycle for o in new) or len(new) > 1:
            message = "one operand may be `new`: a register that is read at issue and not written"
            context.fault("DG117", ("instructions", row.id), message, at_key=True)
        if new and isa.mask_register is not None:
            message = "where lanes are masked, registers keep some of what was there: no operand can be `new`"
            context.fault("DG117", ("instructions", row.id), message, at_key=True)


def _wrong(named: list[str], wanted: list[str]) -> str:
    """The first operand of a text that is at fault, where it isn't their order."""
    for name in (*named, *wanted):
        if name not in wanted:
            return f": `{{{name}}}` is no operand"
        if named.count(name) != 1:
            return f": `{{{name}}}` is {'there twice' if name in named else 'missing'}"
    return ""


def by_templates(isa: tables.Isa) -> bool:
    """Whether instructions are written by templates: where some row has a `text`, or packets are in brackets."""
    return bool(isa.text.packet_open) or any(row.text for row in isa.instructions.values())


def check_texts(isa: tables.Isa, context: Context) -> None:
    """The texts of rows name each operand once, in its order; those under a predicate its register besides."""
    templates = by_templates(isa)
    for id, row in isa.instructions.items():
        wanted = list(row.operands)
        for key, text, more in (
            ("text", row.text, 0),
            ("text_if", row.text_if, 1),
            ("text_unless", row.text_unless, 1),
            *(("accepts", text, 0) for text in row.accepts),
        ):
            named = re.findall(r"\{(\w+)\}", text)
            if more and named.count("predicate") == 1:
                named.remove("predicate")
            elif more and text:
                context.fault("DG104", ("instructions", id, key), "must hold `{predicate}` once")
                continue
            if key == "accepts" and not row.text:
                context.fault("DG103", ("instructions", id), "the key `text` is missing", at_key=True)
            if text and named != wanted:
                message = f"must hold each operand once, in their order{_wrong(named, wanted)}"
                context.fault("DG104", ("instructions", id, key), message)
        if templates and row.memory is not None and not isa.text.address:
            message = "the key `address` is missing: rows by templates reach memory"
            context.fault("DG103", ("text",), message, at_key=True)
    if bool(isa.text.packet_open) != bool(isa.text.packet_close):
        context.fault("DG104", ("text",), "`packet_open` and `packet_close` go together", at_key=True)
    if not isa.text.nop.strip() and (isa.pipeline.exposed or isa.pipeline.branch_delay):
        message = "may be empty only where packets wait (`pipeline.exposed = false`) and branches have no delay"
        context.fault("DG104", ("text", "nop"), message)


def _check_late_reads(instructions: tuple[Instruction, ...], context: Context, *, exposed: bool) -> None:
    """Operands read after issue: registers whose reader neither loads nor branches, read before the result lands."""
    for row in instructions:
        late = {o.name: o.read_cycle for o in row.operands if o.read_cycle}
        for name, cycle in late.items():
            if (cycle < 0 and exposed) or not row.operand(name).read or row.operand(name).kind != "register":
                message = "must be of a register that is read, and at least 0 where nothing waits"
                context.fault("DG111", ("instructions", row.id, "operands", name, "read_cycle"), message)
        for statement in row.semantics if max(late.values(), default=0) > 0 else ():
            if _operations(statement.value) & {"ld", "vld", "gather", "perm", "branch", "scatter"}:
                message = "what loads, scatters or branches reads its operands at issue"
                context.fault("DG111", ("instructions", row.id), message, at_key=True)
                continue
            last = max((late.get(p.name, 0) for p in places(statement.value)), default=0)
            if statement.target is None:
                lands = row.memory.store_latency if row.memory is not None else 1
            else:
                found = [o.latency for o in row.operands if o.name == statement.target.name]
                lands = found[0] if found else max(row.latency, 1)
            if lands <= last:
                message = f"the result lands after {lands} cycles, but an operand is read in cycle {last}"
                context.fault("DG111", ("instructions", row.id), message, at_key=True)


def _check_branches(instructions: tuple[Instruction, ...], delay: int, context: Context) -> None:
    """A branch holds nothing beyond its delay slots: what runs then is on other paths."""
    for row in instructions:
        held = max([row.busy, *(first + cycles for _, first, cycles in row.resources)])
        if row.branch and held > 1 + max(delay, 0):
            message = f"a branch of {delay} delay slots can't hold anything for {held} cycles"
            context.fault("DG111", ("instructions", row.id), message, at_key=True)


def _check_loop_ends(isa: tables.Isa, instructions: tuple[Instruction, ...], context: Context) -> None:
    """What repeats a hardware loop does only that, on two control registers, and is written at its packet's end."""
    controls = context.controls()
    for row in instructions:
        path = ("instructions", row.id)
        repeats = [s.value for s in row.semantics if s.value.op == "repeat"]
        if row.packet_end != bool(repeats):
            message = "what repeats a loop is written at its packet's end, and nothing else is (`packet_end`)"
            context.fault("DG117", path, message, at_key=True)
        if not repeats:
            continue
        if len(row.semantics) > 1 or row.operands or row.predicable != "none" or not row.text:
            message = "the end of a loop has a `text`, and no operands, predicates or other effects"
            context.fault("DG117", path, message, at_key=True)
        if any(a.op != "place" or a.name not in controls for a in repeats[0].args) or len({*repeats[0].args}) < 2:
            context.fault("DG109", (*path, "semantics"), "`repeat` takes two control registers")
        if not isa.text.packet_open:
            message = "a row is written at its packet's end: packets need `packet_open` and `packet_close`"
            context.fault("DG103", ("text",), message, at_key=True)


def _operations(expr: SemExpr) -> set[str]:
    return {expr.op}.union(*(_operations(a) for a in expr.args))


def check_names(isa: tables.Isa, context: Context) -> None:
    for key, registers in (("scalar", isa.predicates.scalar), ("lane", isa.predicates.lane)):
        for register in registers:
            context.check_register(("predicates", key), register)
    for key, side in (("scalar", isa.address_modes.scalar), ("vector", isa.address_modes.vector)):
        context.check_class(("address_modes", key, "base"), side.base)
        if side.offset is not None:
            context.check_class(("address_modes", key, "offset"), side.offset)
    for key, low, high in (
        ("increment", *isa.address_modes.increment),
        ("decrement", *isa.address_modes.decrement),
        ("scalar.plus", *isa.address_modes.scalar.plus),
        ("scalar.minus", *isa.address_modes.scalar.minus),
        ("vector.plus", *isa.address_modes.vector.plus),
        ("vector.minus", *isa.address_modes.vector.minus),
    ):
        if low > high:
            context.fault("DG111", ("address_modes", *key.split(".")), f"the range {low} to {high} is empty")
    check_templates(isa, context)
    abi = isa.abi
    for key in ("scalar_class", "pointer_class", "wide_class"):
        context.check_class(("abi", key), getattr(abi, key))
    for key in ("result", "return_address", "return_operand", "scalar_stack", "vector_stack"):
        context.check_register(("abi", key), getattr(abi, key))
    for key in ("arguments", "callee_saved", "reserved"):
        for register in getattr(abi, key):
            context.check_register(("abi", key), register)
    for register in abi.entry_values:
        context.check_register(("abi", "entry_values", register), register)
    if abi.stack_memory not in isa.memories:
        remedy = suggest(abi.stack_memory, tuple(isa.memories))
        context.fault("DG113", ("abi", "stack_memory"), f"`{abi.stack_memory}` is not a memory", remedy)
    if isa.mask_register is not None:
        context.check_register(("mask_register",), isa.mask_register)
    if isa.pattern_memory is not None:
        context.check_register(("pattern_memory", "mode_register"), isa.pattern_memory.mode_register)


def check_templates(isa: tables.Isa, context: Context) -> None:
    """Texts with a place in braces must be fit to be filled in."""
    templates = (
        (("predicates", "text"), isa.predicates.text, ("r",)),
        (("predicates", "negated"), isa.predicates.negated, ("r",)),
        (("text", "label"), isa.text.label, ("name",)),
        (("text", "global_directive"), isa.text.global_directive, ("name",)),
        (("text", "size_directive"), isa.text.size_directive, ("name",)),
        (("text", "address"), isa.text.address, ("base", "offset")),
        (("text", "address_update"), isa.text.address_update, ("base", "offset")),
    )
    for path, template, words in templates:
        wanted = [f"{{{word}}}" for word in words]
        try:
            fit = bool(template.format(**dict.fromkeys(words, "word"))) and all(w in template for w in wanted)
        except (KeyError, IndexError, ValueError, AttributeError):
            fit = False
        if template and not fit:
            context.fault("DG104", path, f"must hold {' and '.join(f'`{w}`' for w in wanted)}, and no other braces")
    if isa.text.nop_max < 1:
        context.fault("DG111", ("text", "nop_max"), f"must be at least 1, not {isa.text.nop_max}")
