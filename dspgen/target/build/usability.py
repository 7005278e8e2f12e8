"""What is legal in an ISA file and yet wrong: machines that no loop runs on, rows that nothing can use, odd figures.

Errors are what can't work: code selection and the schedulers need it for any loop over arrays, or a row can never run.
Warnings are what only some programs miss, or what a machine seldom has.

Codes: DG120 registers that nothing writes or units don't reach, DG121 and DG122 arithmetic that memory doesn't feed or
take from, DG123 addresses, DG124 constants, DG125 vectors that nothing fills, DG126 odd times, DG127 branches, DG128
counting, DG129 memories out of reach, DG130 registers that can't be copied, DG131 units without work, DG132 the calling
convention, DG133 classes without a free register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dspgen.target.isa.model import Instruction, RegisterClass, SemExpr, Side, Target
from dspgen.target.query.flows import Flows
from dspgen.target.query.hardware_loops import hardware_loops, registers_of_end
from dspgen.target.query.instructions import Index, Match
from dspgen.target.query.operations import OperationTable, bits_elem
from dspgen.target.query.views import views
from dspgen.target.schema.structure import Fault
from dspgen.target.schema.toml_positions import Path
from dspgen.vecdsl.ir.program import ELEM_BYTES, OPS

_TYPES = ("i32", "f32", "i64", "f64")
# Of a constant: 0 and 1; what counters and displacements take; and patterns of all 32 bits, such as floats.
_FAR = 1 << 15  # of immediates that are added to addresses: few steps go farther
_LEAST, _SMALL, _WIDE = (0, 1), (-1, 100, -100, 1000), (0x12345678, -0x12345678, 1 << 30, -(1 << 31), 0x7FFFFFFF)


def findings(target: Target) -> list[Fault]:
    """All that a sound machine shouldn't have, errors and warnings."""
    found: list[Fault] = []
    machine = Machine(views(target)[0])
    for rule in _RULES:
        found += rule(machine)
    return found


class Machine:
    """A machine with what the rules ask of it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.index = Index(target)
        self.table = OperationTable(target)
        self.flows = Flows(target)
        self.rows = [row for row in target.instructions if row.compile]
        self.scalar = target.register_class(target.abi.scalar_class)

    @property
    def vectors(self) -> list[RegisterClass]:
        """The classes of whole vectors that some row computes on, stores or loads."""
        used = {c for row in self.rows for o in row.operands for c in o.classes}
        return [c for c in self.target.registers if c.kind == "vector" and c.pair_of is None and c.name in used]

    def sides(self) -> list[Side]:
        """The sides that reach memory, the scalar one in any case."""
        found = {row.memory.side for row in self.rows if row.memory is not None}
        return [s for s in ("scalar", "vector") if s == "scalar" or s in found]


def _error(code: str, path: Path, message: str, remedy: str = "") -> Fault:
    return Fault(code, path, message, remedy, at_key=True)


def _warning(code: str, path: Path, message: str, remedy: str = "") -> Fault:
    return Fault(code, path, message, remedy, at_key=True, severity="warning")


def _row(semantics: str, *operands: str) -> str:
    return f"describe an instruction with `{semantics}`" + (f", {', '.join(operands)}" if operands else "")


# -- registers


def _unwritten(machine: Machine) -> Iterator[Fault]:
    for row in machine.rows:
        for operand in row.operands:
            if machine.flows.reads_nothing(operand) and not _given(machine.target, operand.classes):
                what = f"it reads registers of {_classes(operand.classes)}, which no instruction writes"
                remedy = "describe an instruction that writes them, or name another class"
                yield _error("DG120", ("instructions", row.id, "operands", operand.name), what, remedy)


def _sides(machine: Machine) -> Iterator[Fault]:
    """Rows on units of a side that their registers, or their memory, aren't on."""
    target = machine.target
    side_of = {member: unit.side for unit in target.units for member in unit.members}
    reached = {side for memory in target.memories for side in memory.sides}
    for row in machine.rows:
        path: Path = ("instructions", row.id, "units")
        sides = list(dict.fromkeys(side_of[unit] for unit in row.units))
        if len(sides) > 1:
            what = f"they are on both sides: its predicates, and addresses, are those of the {sides[0]} side on all"
            yield _warning("DG120", path, what, "describe two instructions of one `mnemonic`, or say `predicate`")
        kinds = {_kind(target, c) for o in row.operands for c in o.classes}
        other = "vector" if sides[:1] == ["scalar"] else "scalar"
        told = row.memory is not None and row.memory.side == other  # by a `side` of its own
        if kinds == {other} and not told:
            what = f"it names {other} registers alone, but its units are on the {sides[0]} side"
            own = ", or give `memory` its own" if row.memory is not None else ""
            yield _warning("DG120", path, what, f'name units with `side = "{other}"`, or correct the unit\'s{own}')
        if row.memory is not None and row.memory.side not in reached:
            what = f"it is an access of the {row.memory.side} side, which no memory has among its `sides`"
            yield _error("DG129", path, what, "add the side to a memory's `sides`")
    for side, name in target.address_modes.base_classes.items():
        serves = target.register_class(name).side
        if serves is not None and serves != side:
            what = f"`{name}` is of the {serves} side"
            yield _error("DG120", ("address_modes", side, "base"), what, "name another class, or correct its `side`")


def _kind(target: Target, name: str) -> str:
    cls = target.register_class(name)
    return "vector" if cls.vector else cls.kind


def _given(target: Target, classes: tuple[str, ...]) -> bool:
    """Whether registers of the classes have values at entry: control registers have those of reset."""
    return any(target.register_class(c).kind in ("control", "element") for c in classes)


def _classes(names: tuple[str, ...]) -> str:
    return f"class `{names[0]}`" if len(names) == 1 else f"the classes {', '.join(f'`{n}`' for n in names)}"


def _copies(machine: Machine) -> Iterator[Fault]:
    for cls in [machine.scalar, *machine.vectors]:
        if not machine.index.move(cls.name):
            what = "no instruction copies one register of the class to another; loops that need it are refused (DG302)"
            yield _warning("DG130", ("registers", cls.name), what, _row("d = mov.i32(a)", f"both of `{cls.name}`"))


def _free(machine: Machine) -> Iterator[Fault]:
    """Registers that code may use, besides those that the calling convention keeps for others."""
    target, abi = machine.target, machine.target.abi
    kept = {*abi.reserved, *abi.callee_saved, abi.scalar_stack, abi.vector_stack, *abi.return_address.split(":")}
    bases = [target.register_class(target.address_modes.base_classes[side]) for side in machine.sides()]
    for cls in dict.fromkeys([machine.scalar, *bases]):
        if not {*cls.names} - kept:
            what = "the calling convention leaves none of its registers free"
            keys = [k for k in ("callee_saved", "reserved") if {*cls.names} & {*getattr(abi, k)}]
            shorter = "".join(f", or shorten `{key}`" for key in keys)
            yield _error("DG133", ("registers", cls.name), what, f"add registers{shorter}")


# -- arithmetic and memory


def _arithmetic(machine: Machine) -> Iterator[tuple[Instruction, SemExpr, str, str]]:
    """The first row of each type of arithmetic on each class: row, operation, the class that it reads and it writes."""
    seen: set[tuple[str, str]] = set()
    for row in machine.rows:
        if len(row.semantics) != 1 or row.memory is not None:
            continue
        value, target = row.semantics[0].value, row.semantics[0].target
        if value.op not in OPS or OPS[value.op].kind != "lane" or value.type not in _TYPES or target is None:
            continue
        places = [a.name for a in value.args if a.op == "place"]
        read = [c for o in row.operands if o.name in places for c in o.classes[:1]]
        written = [c for o in row.operands if o.name == target.name for c in o.classes[:1]]
        kinds = {machine.target.register_class(c).kind for c in (*read, *written)}
        if len(value.args) < 2 or not read or not written or not kinds <= {"scalar", "vector"}:
            continue
        if (value.type, read[0]) not in seen:
            seen.add((value.type, read[0]))
            yield row, value, read[0], written[0]


def _memory(machine: Machine) -> Iterator[Fault]:
    flows, done = machine.flows, set()
    for row, value, read, written in _arithmetic(machine):
        path: Path = ("instructions", row.id)
        vector = machine.target.register_class(read).kind == "vector"
        load, store = _accesses(value.type, vector)
        for code, ok, cls, what, access in (
            ("DG121", flows.feeds, read, "its operands can't come from memory: nothing leads from a load to", load),
            ("DG122", flows.drains, written, "its results can't come to memory: nothing leads to a store from", store),
        ):
            if (code, cls) not in done and not ok(cls):
                done.add((code, cls))
                yield _error(code, path, f"{what} class `{cls}`", _row(access, f"with `{cls}`"))
        for code, cls, kind, access in (("DG121", read, "loads", load), ("DG122", read, "stores", store)):
            if (code, cls) not in done and not _direct(machine, kind, value.type, cls, vector):
                what = f"it computes on {value.type}, but no instruction {kind} {value.type} in class `{cls}`"
                yield _warning(code, path, what, _row(access, f"with `{cls}`"))


def _accesses(type: str, vector: bool) -> tuple[str, str]:
    elem = bits_elem(type)
    if vector:
        return f"d = vld.{elem}(m, 1, 0)", f"vst.{elem}(m, 1, 0, a)"
    return f"d = ld.{elem}(m)", f"st.{elem}(m, a)"


def _direct(machine: Machine, kind: str, type: str, cls: str, vector: bool) -> bool:
    """Whether a row loads or stores elements of the type as they lie in memory."""
    load, elem = kind == "loads", bits_elem(type)
    op = ("v" if vector else "") + ("ld" if load else "st")
    for form in machine.table.forms(op, elem):
        operand = form.result_operand if load else form.operand(1)
        if cls in operand.classes and (not vector or form.shape == (1, 0)):
            return True
    return False


def _vectors(machine: Machine) -> Iterator[Fault]:
    flows = machine.flows
    for cls in machine.vectors:
        scalar, path = flows.leads(machine.scalar.name, cls.name), ("registers", cls.name)
        remedy = _row("d = bcast.i32(a)", f"`a` of `{machine.scalar.name}`, `d` of `{cls.name}`")
        if not scalar and not flows.feeds(cls.name):
            yield _error("DG125", path, "nothing fills vectors: they come neither from memory nor from scalars", remedy)
        elif not scalar:
            what = "no instruction brings scalars to vectors: what multiplies arrays by a number gets no lanes"
            yield _warning("DG125", path, what, remedy)


def _places(machine: Machine) -> Iterator[Fault]:
    target = machine.target
    data = [m for m in target.memories if m.purpose == "data"]
    if not any({*m.sides} == {"scalar", "vector"} for m in data):
        what = "arrays have no place: no memory for data has both `scalar` and `vector` among its `sides`"
        yield _error("DG129", ("memories",), what, 'give one `sides = ["scalar", "vector"]`')
    accesses = {row.memory.side for row in machine.rows if row.memory is not None}
    for memory in target.memories:
        path: Path = ("memories", memory.name)
        if not accesses & {*memory.sides}:
            make = _error if memory.name == target.abi.stack_memory else _warning
            sides = " or ".join(memory.sides) or "no"
            yield make(
                "DG129", path, f"no load or store of the {sides} side reaches it", "describe one, or its `sides`"
            )
            continue
        for side in memory.sides:
            cls = target.register_class(target.address_modes.base_classes[side])
            if side in accesses and memory.base + memory.size > 1 << cls.bits:
                what = f"it ends at {memory.base + memory.size:#x}, beyond the {cls.bits} bits of `{cls.name}`"
                yield _error("DG129", path, what, "make the registers wider, or the memory smaller")
    patterns = target.pattern_memory
    if patterns is not None and not any(m.base <= patterns.base < m.base + m.size for m in target.memories):
        yield _warning("DG129", ("pattern_memory", "base"), f"{patterns.base:#x} is in no memory: shuffles aren't used")


# -- addresses and constants


def _addresses(machine: Machine) -> Iterator[Fault]:
    target, index = machine.target, machine.index
    pointer = target.abi.pointer_class
    for side in machine.sides():
        cls = target.address_modes.base_classes[side]
        path: Path = ("address_modes", side, "base")
        made = [f for f in machine.table.forms("addr", "") if cls in f.result_operand.classes]
        if not any(pointer in f.operand(0).classes for f in made) and not index.find(
            "d = addr(zext(a, 32))", {"d": cls, "a": machine.scalar.name}
        ):
            what = f"no instruction makes an address: one of `{cls}` from a pointer, of class `{pointer}`"
            yield _error("DG123", path, what, _row("d = addr(a)", f"`a` of `{pointer}`, `d` of `{cls}`"))
        steps = [*index.add_immediate(cls), *index.subtract_immediate(cls), *index.address_add(cls)]
        if not steps:
            what = f"no instruction adds to an address of `{cls}`"
            yield _error("DG123", path, what, _row("d = add.i64(b, a)", f"`a` an immediate, `b` and `d` of `{cls}`"))
        elif not index.address_add(cls) and not _large(steps):
            what = (
                f"only small immediates are added to addresses of `{cls}`: loops with larger steps are refused (DG302)"
            )
            yield _warning("DG123", path, what, _row("d = add.i64(b, a)", f"`a` of `{machine.scalar.name}`"))
        offset = target.address_modes.offset_classes.get(side)
        if offset is not None and not machine.flows.writes(offset):
            what = f"nothing writes offsets of class `{offset}`: steps beyond the immediates take more instructions"
            yield _warning("DG123", ("address_modes", side, "offset"), what, _row("d = addr(a)", f"`d` of `{offset}`"))
    stack = target.address_modes.base_classes["scalar"]
    if not machine.flows.leads(stack, machine.scalar.name):
        what = f"no instruction copies an address of `{stack}` to a scalar: functions can't have arrays of their own"
        yield _warning("DG123", ("registers", stack), what, _row("d = trunc(a)", f"`a` of `{stack}`"))


def _large(steps: list[Match]) -> bool:
    """Whether immediates go as far as those of constants."""
    return any(m.operand("a").imm is not None and _reach(m) >= _FAR for m in steps)


def _reach(match: Match) -> int:
    return max(map(abs, match.operand("a").imm or (0,)))


def _constants(machine: Machine) -> Iterator[Fault]:
    cls = machine.scalar.name
    path: Path = ("abi", "scalar_class")
    low = _row("d = sext(x, 16)", "`x = { imm = [-32768, 32767] }`", f"`d` of `{cls}`")
    high = _row("d = set_high(d, x)", "`x = { imm = [0, 65535] }`", f"`d` of `{cls}`")

    def lacks(values: tuple[int, ...]) -> list[int]:
        return [v for v in values if not machine.index.load_constant(cls, v)]

    if lacking := lacks(_LEAST):
        yield _error("DG124", path, f"no instruction puts {lacking[0]} into a register of class `{cls}`", low)
    elif lacking := lacks(_SMALL):
        yield _warning("DG124", path, f"no instructions put {lacking[0]} into a register of class `{cls}`", low)
    elif lacking := lacks(_WIDE):
        what = (
            f"no instructions put all 32 bits of a constant into a register of class `{cls}`, such as {lacking[0]:#x}"
        )
        yield _warning("DG124", path, what, high)


# -- time


def _times(machine: Machine) -> Iterator[Fault]:
    target = machine.target
    delay, interval = target.pipeline.branch_delay, target.packets.minimum_ii
    if 1 < interval <= delay:
        what = f"has no effect: a branch of {delay} delay slots makes it {delay + 1} at least"
        yield _warning("DG126", ("packets", "minimum_ii"), what, "raise it, or leave it out")
    waits = target.pipeline.exposed or target.text.nop
    for row in machine.rows:
        path: Path = ("instructions", row.id)
        if not waits and row.memory is not None and row.memory.store_latency > 1:
            what = f"loads find what it stores after {row.memory.store_latency} cycles, and nothing can wait for that"
            yield _error("DG126", path, what, "give `text.nop` a text, or leave `store_latency` out")
        if not row.branch and row.latency and row.latency < row.busy:
            what = f"its results can be read after {row.latency} cycles, but its unit works on it for {row.busy}"
            yield _warning("DG126", path, what, "`latency` counts from issue, and is seldom less than `busy`")
        end = max([first + cycles for _, first, cycles in row.resources], default=0)
        last = max(row.latency, row.busy, row.memory.store_latency if row.memory is not None else 1)
        if end > last:
            what = f"it holds something until cycle {end}, though all is done after {last}"
            yield _warning("DG126", path, what, "`first` and `cycles` of its `resources` count from issue")


# -- loops


def _branches(machine: Machine) -> Iterator[Fault]:
    target, abi = machine.target, machine.target.abi
    labels = machine.index.find("branch(t)", {"t": "label"})
    if not labels:
        what = "no instruction branches to a label: there are no loops"
        yield _error("DG127", ("instructions",), what, _row("branch(t)", '`t = "target"`'))
    free = {*target.predicates.scalar} & {*machine.scalar.names} - {*abi.callee_saved, *abi.reserved}
    if not free:
        what = f"no register of class `{machine.scalar.name}` can be a predicate: loops can't end"
        yield _error("DG127", ("predicates",), what, "name some as `scalar` that a function may use")
    elif labels and not any(m.instruction.predicable == "scalar" for m in labels):
        path = ("instructions", labels[0].instruction.id)
        yield _error(
            "DG127", path, "no branch to a label takes a predicate: loops can't end", 'say `predicate = "scalar"`'
        )
    if not machine.index.find("branch(t)", {"t": _class_of(target, abi.return_operand)}):
        what = f"no instruction branches to the address in `{abi.return_operand}`: functions can't return"
        yield _error("DG127", ("abi", "return_operand"), what, _row("branch(t)", "`t` of its class"))
    if target.predicates.lane and not any(
        {*target.predicates.lane} & {*c.names} for c in target.registers if c.kind == "vector"
    ):
        yield _error("DG127", ("predicates", "lane"), "lanes' predicates are vector registers, and these are none")


def _hardware(machine: Machine) -> Iterator[Fault]:
    begun = {loop.end.id for loop in hardware_loops(machine.target)}
    for row in machine.rows:
        if row.packet_end and row.id not in begun:
            what = "it ends a hardware loop that no instruction begins"
            start, count = registers_of_end(row) or ("", "")
            remedy = _row(f"{count} = n; {start} = addr(t)", '`t = "target"`', "`n` a number or a scalar register")
            yield _warning("DG127", ("instructions", row.id), what, remedy)


def _counting(machine: Machine) -> Iterator[Fault]:
    cls, target = machine.scalar.name, machine.target
    path: Path = ("abi", "scalar_class")
    for op, code, make, without in (
        ("add", "DG128", _error, "loops can't count"),
        ("lt", "DG128", _warning, "bounds known at run time, and conditions, can't be tested"),
        ("mul", "DG128", _warning, "places in arrays of extents known at run time can't be computed"),
        ("shl", "DG128", _warning, "subscripts known at run time can't be made addresses"),
    ):
        rows = machine.table.forms(op, "i32")
        swapped = machine.table.forms("gt", "i32") if op == "lt" else []
        macros = [m for m in target.macros if m.implements == f"{op}.i32" and m.result_class == cls]
        if not macros and not any(cls in f.result_operand.classes for f in (*rows, *swapped)):
            what = f"no instruction computes `{op}.i32` in class `{cls}`: {without}"
            yield make(code, path, what, _row(f"d = {op}.i32(a, b)", f"all of `{cls}`"))


# -- the rest


def _units(machine: Machine) -> Iterator[Fault]:
    used = {unit for row in machine.target.instructions for unit in row.all_units}
    for unit in machine.target.units:
        if not used & {*unit.members}:
            yield _warning("DG131", ("units", unit.name), "no instruction runs on it", "name it in `units` of some")


def _convention(machine: Machine) -> Iterator[Fault]:
    target, abi = machine.target, machine.target.abi
    names = machine.scalar.names
    pairs = any(target.register_class(c).pair_of is not None for c in (abi.pointer_class, abi.wide_class))
    both = abi.wide_registers == 2
    for k, name in enumerate((*abi.arguments, abi.result)):
        path: Path = ("abi", "result" if name not in abi.arguments else "arguments")
        if name not in names:
            yield _error("DG132", path, f"`{name}` is not of `scalar_class`, which is `{machine.scalar.name}`")
        elif pairs and k < len(abi.arguments) and names.index(name) % 2 != k % 2 * both:
            what = f"`{name}` is the high half of a pair; what takes pairs is passed from its low half on"
            yield _error("DG132", path, what, "name low halves")
    for side, name in (("scalar", abi.scalar_stack), ("vector", abi.vector_stack)):
        base = target.address_modes.base_classes["scalar" if side == "scalar" else "vector"]
        if name not in target.register_class(base).names:
            yield _error(
                "DG132", ("abi", f"{side}_stack"), f"`{name}` is no base of the {side} side's accesses, `{base}`"
            )
    if ELEM_BYTES["i32"] * 8 > machine.scalar.bits:
        yield _error(
            "DG132", ("abi", "scalar_class"), f"`{machine.scalar.name}` has {machine.scalar.bits} bits, not 32"
        )


def _class_of(target: Target, register: str) -> str:
    return next((c.name for c in target.registers if register in c.names), "")


_RULES: tuple[Callable[[Machine], Iterator[Fault]], ...] = (
    _unwritten,
    _sides,
    _copies,
    _free,
    _memory,
    _vectors,
    _places,
    _addresses,
    _constants,
    _times,
    _branches,
    _hardware,
    _counting,
    _units,
    _convention,
)
