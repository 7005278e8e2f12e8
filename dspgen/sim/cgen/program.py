"""Writes a program as one C function: straight code for each static state, registers in a static record.

    run(head, tables, counts, written, warned, registers, engine) -> 0, or 1 after a fault

`head` gives the limit and takes the cycles and the fault; `tables` has the objects and the memories; `counts` takes how
often each block ran; `registers` is the register file in cell order, as NumPy lays it out; `engine` has the table and
the functions of the DMA engine. A block is a run of states entered only at its top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspgen.sim.cgen.frame import Frame, bits_of
from dspgen.sim.cgen.landing import Landing
from dspgen.sim.cgen.static_states import RETURN, State, Step, always_written, explore
from dspgen.sim.ir.memory import FAR, MISALIGNED, TOGETHER
from dspgen.sim.ir.program import Cell, Code, Node, Op, PredicateRead, Store
from dspgen.sim.lowering.packet_accesses import Pair, pairs, span
from dspgen.sim.machine.in_flight import InFlight, started
from dspgen.target.isa.model import Dma

HEAD = 8


@dataclass(frozen=True, slots=True)
class Block:
    """States that always run together: `packets` issue, over `cycles`; in `idle` of them a no-operation, in `stalls` an
    interlock holds a packet back."""

    packets: tuple[int, ...]
    cycles: int
    idle: int
    stalls: int


@dataclass(frozen=True, slots=True)
class Generated:
    """`checks` are the (op, cell) pairs behind the `warned` flags."""

    text: str
    blocks: tuple[Block, ...]
    checks: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Writer:
    frame: Frame
    entry: int
    delay: int
    return_address: int
    initial: frozenset[int]
    labels: dict[State, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    steps: dict[State, Step] = field(default_factory=dict)
    known: dict[State, int] = field(default_factory=dict)
    landing: Landing = field(init=False)

    # The whole function

    def generate(self) -> Generated:
        self.steps = explore(self.frame.code, self.entry, self.delay)
        first = State(self.entry, 0)
        self.known = always_written(self.frame.code, self.steps, first, self.initial)
        self.frame.lanes = next((c.lanes for c in self.frame.code.cells if c.lanes), 1)
        code = self.frame.code
        mask_changes = any(w.cell == code.mask_cell for op in code.ops for w in op.writes)
        self.landing = Landing(self.frame, self._unsure_reads(), mask_changes)
        heads = self._heads(first)
        self.labels = {state: i for i, state in enumerate(s for s in self.steps if s in heads)}
        for state in self.labels:
            self._block(state)
        return Generated(self._text(first), tuple(self.blocks), tuple(self.frame.checks))

    def _unsure_reads(self) -> frozenset[int]:
        """Cells that some state may read before anything was written to them."""
        unsure: set[int] = set()
        for state, step in self.steps.items():
            unsure |= {c for _, c in self._read_now(step) if not self.known[state] >> c & 1}
            if state.wait or state.at >= len(self.frame.code.slots):
                continue
            for op in self.frame.code.slots[state.at].ops:
                cells = (*op.reads, op.predicate.cell) if op.predicate is not None else op.reads
                unsure |= {c for c in cells if not self.known[state] >> c & 1}
            for op in self.frame.code.slots[state.at].ops:
                unsure |= {c for c, _ in op.late}  # which may also be read after the return
        return frozenset(unsure)

    def _read_now(self, step: Step) -> list[tuple[Op, int]]:
        """The registers that instructions in flight read in this state."""
        return [(op := self.frame.code.ops[f.uid], op.late[f.index][0]) for f in step.reading]

    def _heads(self, first: State) -> set[State]:
        """States where blocks begin: all but those with one way in, by plain succession."""
        entries: dict[State, int] = {first: 2}
        for step in self.steps.values():
            plain = len(step.next) == 1 and not step.dispatch
            for follower in step.next.values():
                entries[follower] = entries.get(follower, 0) + (1 if plain else 2)
            for table in step.dispatch.values():
                for target in table.values():
                    if target is not None:
                        entries[target] = 2
        return {state for state, count in entries.items() if count > 1}

    def _block(self, head: State) -> None:
        packets: list[int] = []
        cycles = idle = stalls = 0
        body: list[str] = []
        outer, self.frame.lines = self.frame.lines, body
        state: State | None = head
        while state is not None:
            step = self.steps[state]
            stalls += step.stalled
            if state.wait == 0 and not step.off_end and not step.stalled:
                packets.append(state.at)
                idle += bool(self.frame.code.slots[state.at].idle and not self.frame.code.slots[state.at].ops)
            cycles += 1
            idle += state.wait > 0
            self._tell_time(step, cycles - 1)
            state = self._state(step)
            if state is not None and state in self.labels:
                body.append(f"goto L{self.labels[state]};")
                state = None
        self.frame.lines = outer
        number = self.labels[head]
        limit = self.frame.fault("limit", head.at)
        self.frame.lines += [
            f"L{number}:; if (UNLIKELY(t >= limit)) {limit}",
            f"counts[{number}]++; {'begun = t; ' if self.frame.dma else ''}t += {cycles};",
            *body,
        ]
        self.blocks.append(Block(tuple(packets), cycles, idle, stalls))

    def _tell_time(self, step: Step, cycle: int) -> None:
        """The cycle of a state, for the DMA engine, where it may be told something."""
        if self.frame.dma is None:
            return
        idle = step.state.wait or step.off_end or step.stalled
        issued = () if idle else self.frame.code.slots[step.state.at].ops
        landing = (self.frame.code.ops[f.uid] for f in step.landing if f.kind == "store")
        if any(op.access is not None and op.access.side == "scalar" for op in (*issued, *landing)):
            self.frame.lines.append(f"now = begun + {cycle};")

    def _text(self, first: State) -> str:
        load, save = [], []
        offset = 0
        for cell in self.frame.code.cells:
            size = cell.storage // 8 * max(cell.lanes, 1)
            if f"r{cell.index}" in self.frame.fields:
                load.append(f"memcpy(&s.r{cell.index}, registers + {offset}, {size});")
                save.append(f"memcpy(registers + {offset}, &s.r{cell.index}, {size});")
            offset += size
        record = "\n".join(f"  {ctype} {name};" for name, ctype in self.frame.fields.items())
        record += "".join(f"\n  u8 *{name}[{lanes}];" for name, lanes in self.frame.arrays.items())
        regions, start = self.frame.memory_text()
        finders = "\n".join(self.frame.finders.values())
        return "\n".join(
            [
                self.frame.ops.text(),
                regions,
                f"static struct {{\n{record}\n  u32 none;\n}} s;",
                finders,
                "int run(u64 *head, u64 **tables, u64 *counts, u8 *written, u64 *warned, u8 *registers,",
                "        void **engine) {",
                "  u64 t = 0, limit = head[0];",
                "  memset(&s, 0, sizeof s);",
                *start,
                *load,
                f"  goto L{self.labels[first]};",
                *self.frame.lines,
                "done:;",
                *save,
                "head[4] = t; return 0;",
                "}",
                "",
            ]
        )

    # One state

    def _state(self, step: Step) -> State | None:
        """Code for one cycle; gives the only following state, or None where the code went on by itself."""
        state = step.state
        for entry in step.reading:
            self._read_late(entry, state)
        if step.off_end:
            self.frame.lines.append(self.frame.fault("end", state.at))
            return None
        if state.wait == 0 and not step.stalled:
            self.frame.lines.append(
                f"{{ /* line {self.frame.code.slots[state.at].loc.line} */ int taken = -1; (void)taken;"
            )
            beside = () if self.frame.strict else pairs(self.frame.code.slots[state.at])
            named = dict.fromkeys(op.uid for pair in beside for op in (pair.load, pair.store))
            self.frame.lines += [f"i64 at{uid} = INT64_MIN / 2;" for uid in named]
            issued = list(enumerate(zip(self.frame.code.slots[state.at].ops, step.copies, strict=False)))
            self.frame.copies = {op.uid: copy for _, (op, copy) in issued}
            for place, (op, copy) in sorted(issued, key=lambda each: each[1][0].after_makers):
                self._issue(op, copy, place, state, told=op.uid in named)
            self._tell_together(beside)
            if step.refused is not None:
                op = self.frame.code.slots[state.at].ops[step.refused[0]]
                self.frame.lines.append(self.frame.fault(step.refused[1], op.uid) + " }")
                return None
            self._short_idle(step)
        else:
            self.frame.lines.append("{ const int taken = -1; (void)taken;")
        self.landing.land(step.landing)
        follower = self._follow(step)
        self.frame.lines.append("}")
        return follower

    def _short_idle(self, step: Step) -> None:
        predicate = self.frame.code.slots[step.state.at].idle_predicate
        if predicate is not None and any(short for _, short in [*step.next, *step.dispatch]):
            self.frame.lines.append(f"int brief = !({self._condition(predicate)});")

    def _follow(self, step: Step) -> State | None:
        ways = [*step.next, *step.dispatch]
        if len(ways) == 1 and ways[0] in step.next:
            return step.next[ways[0]]
        shorts = {short for _, short in ways}
        for taken, short in ways:
            tests = [] if len({w for w, _ in ways}) == 1 else [f"taken == {-1 if taken is None else taken}"]
            if len(shorts) > 1:
                tests.append("brief" if short else "!brief")
            self.frame.lines.append(f"if ({' && '.join(tests) or '1'}) {{")
            if (taken, short) in step.next:
                self.frame.lines.append(f"goto L{self.labels[step.next[taken, short]]};")
            else:
                self._dispatch(step, step.dispatch[taken, short])
            self.frame.lines.append("}")
        self.frame.lines.append("__builtin_unreachable();")
        return None

    def _dispatch(self, step: Step, table: dict[int, State | None]) -> None:
        self.frame.fields.setdefault("target", "int")
        self.frame.lines.append("switch (s.target) {")
        for target, state in table.items():
            if state is not None:
                self.frame.lines.append(f"case {target}: goto L{self.labels[state]};")
        self.frame.lines.append(f"case {RETURN}: {{")
        later = [*step.state.flight, *self._started(step)]
        reads = [f for f in later if f.kind == "read" and f.left > 0]
        # Who calls an interlocked machine's function gets the results that are on their way at the return.
        kinds = ("store", "write") if self.frame.code.interlocked else ("store",)
        landing = [f for f in later if f.kind in kinds and f.left > 1]
        if not self.frame.code.interlocked:
            for entry in sorted(reads, key=lambda f: f.left):
                self._read_late(entry, None)
            reads = []
        for left in sorted({f.left for f in (*landing, *reads)}):
            self.landing.land(tuple(f for f in landing if f.left == left))
            for entry in (f for f in reads if f.left == left):
                self._read_late(entry, None)
        self.frame.lines.append("goto done; } }")

    def _started(self, step: Step) -> list[InFlight]:
        """What this very cycle issued."""
        if step.state.wait or step.stalled:
            return []
        members = zip(self.frame.code.slots[step.state.at].ops, step.copies, strict=True)
        return [f for op, copy in members for f in started(op, copy)]

    # Issue

    def _condition(self, predicate: PredicateRead) -> str:
        return f"{self.frame.cell(predicate.cell)} {'==' if predicate.negated else '!='} 0"

    def _tell_together(self, beside: Sequence[Pair]) -> None:
        for pair in beside:
            number = self.frame.check(pair.load, TOGETHER - pair.store.uid)
            a, b = f"at{pair.load.uid}", f"at{pair.store.uid}"
            (low, high), (first, last) = pair.loaded, pair.stored
            both = f"{a} >= 0 && {b} >= 0"
            meet = f"{a} + ({low}) < {b} + ({last}) && {b} + ({first}) < {a} + ({high})"
            self.frame.lines.append(f"if (UNLIKELY({both} && {meet})) warned[{number}] = 1;")

    def _issue(self, op: Op, copy: int, place: int, state: State, *, told: bool = False) -> None:
        known = self.known[state]
        if op.predicate is not None:
            self._check_settled(op, op.predicate.cell, None, state)
            self._check_read(op, op.predicate.cell, known)
        if op.condition is not None:
            self._check_reads(op, state)
        if op.unsure:
            self.frame.lines.append(f"{{ const int active = {self._active(op, copy)};")
            if op.writes or op.stores or op.late:
                flag = self.frame.slot("a", op.uid, 0, copy, "int")
                self.frame.lines.append(f"{flag} = active;")
            self.frame.lines.append("if (active) {")
        else:
            self.frame.lines.append("{ {")
        if op.condition is None:
            self._check_reads(op, state)
        mask = self._mask(op, copy)
        if op.address is not None and op.access is not None:
            self.frame.fetch_address(op, self._misaligned(op))
            if op.access.home and not self.frame.strict:
                near = " || ".join(f"(address >= {low}ll && address < {high}ll)" for low, high in op.access.home)
                self.frame.lines.append(f"if (UNLIKELY(!({near}))) warned[{self.frame.check(op, FAR)}] = 1;")
            if told:
                self.frame.lines.append(f"{'' if mask is None else f'if ({mask}) '}at{op.uid} = (i64)address;")
        for write in op.writes:
            self._check_settled(op, write.cell, write.lane, state)
        if op.late:
            for cell in op.reads:
                self.frame.lines.append(f"{self._held(op, cell, 0, copy)} = {self.frame.cell(cell)};")
        for index, store in enumerate(op.stores):
            self._place_store(op, index, store, copy, mask)
        self._results(op, copy, 0, mask)
        if op.branch is not None:
            self._take(op, place, state)
        self.frame.lines.append("} }")

    def _check_reads(self, op: Op, state: State) -> None:
        for cell in op.reads:
            self._check_settled(op, cell, op.lane_read(cell), state)
            self._check_read(op, cell, self.known[state])

    def _active(self, op: Op, copy: int) -> str:
        """Whether it does anything."""
        tests = [self._condition(op.predicate)] if op.predicate is not None and not op.predicate.lane else []
        if op.condition is not None:
            tests.append(f"({self.frame.value(op, op.condition, None, lambda n: self._leaf(op, n, copy))}) != 0")
        return " && ".join(tests)

    def _misaligned(self, op: Op) -> str:
        assert op.access is not None
        if self.frame.strict:
            return self.frame.fault("misaligned", op.uid, "address")
        if op.access.force or op.access.align == 1:
            return ""
        number = self.frame.check(op, MISALIGNED)
        return f"warned[{number}] = 1; address -= address % {op.access.granule};"

    def _held(self, op: Op, cell: int, cycle: int, copy: int) -> str:
        """Where an instruction keeps what it has read until it has read all."""
        spec = self.frame.code.cells[cell]
        return self.frame.slot(f"c{cycle}_", op.uid, cell, copy, self.frame.ops.type(f"u{spec.storage}", spec.lanes))

    def _read_late(self, entry: InFlight, state: State | None) -> None:
        """An instruction in flight reads a register; without a state, after the return."""
        op = self.frame.code.ops[entry.uid]
        cell, cycle = op.late[entry.index]
        self.frame.lines.append(f"if ({self.landing.guard(entry)}) {{")
        if state is not None:
            self._check_settled(op, cell, op.lane_read(cell), state, entry.copy)
        self._check_read(op, cell, self.known[state] if state is not None else 0)
        self.frame.lines.append(f"{self._held(op, cell, cycle, entry.copy)} = {self.frame.cell(cell)};")
        if entry.index + 1 == len(op.late) or op.late[entry.index + 1][1] != cycle:
            self._results(op, entry.copy, cycle, None)
        self.frame.lines.append("}")

    def _leaf(self, op: Op, node: Node, copy: int) -> str:
        """Where the value of a leaf is: with those that are read late, or of the packet's own."""
        if node.op == "new":
            uid, number = next((uid, number) for cell, uid, number in op.new if cell == node.value)
            return self.frame.issued("p", uid, number, self.frame.copies[uid])
        if node.op == "read" and node.imm:
            return self._held(op, node.value, node.imm[0], copy)
        if node.op == "read_lane" and len(node.imm) > 1:
            return f"{self._held(op, node.value, node.imm[1], copy)}[{node.imm[0]}]"
        return self.frame.leaf(node)

    def _results(self, op: Op, copy: int, cycle: int, mask: str | None) -> None:
        """The results that are known once the registers of this cycle from issue are read."""

        def held(node: Node) -> str:
            return self._leaf(op, node, copy)

        for index, write in enumerate(op.writes):
            spec = self.frame.code.cells[write.cell]
            lanes = 0 if write.lane is not None else spec.lanes
            if write.cycle == cycle:
                variable = self.frame.slot("p", op.uid, index, copy, self.frame.ops.type(f"u{spec.storage}", lanes))
                self.frame.lines.append(f"{variable} = {self.frame.value(op, write.value, mask, held)};")
        for index, store in enumerate(op.stores):
            if store.cycle == cycle:
                kind = self.frame.ops.raw(store.value)
                variable = self.frame.slot("p", op.uid, len(op.writes) + index, copy, kind)
                self.frame.lines.append(f"{variable} = {self.frame.value(op, store.value, mask, held)};")

    def _check_settled(self, op: Op, cell: int, lane: int | None, state: State, copy: int | None = None) -> None:
        """No result of an earlier packet is on its way to the register, but from `copy` of the instruction itself."""
        for entry in state.flight if self.frame.code.settled else ():
            if entry.kind != "write" or (entry.uid == op.uid and entry.copy == copy):
                continue
            write = self.frame.code.ops[entry.uid].writes[entry.index]
            if write.cell == cell and (lane is None or write.lane is None or lane == write.lane):
                fault = self.frame.fault("unsettled", op.uid, str(cell))
                self.frame.lines.append(f"if ({self.landing.guard(entry)}) {fault}")

    def _check_read(self, op: Op, cell: int, known: int) -> None:
        if known >> cell & 1:
            return
        if self.frame.strict:
            action = self.frame.fault("unwritten", op.uid, str(cell))
        else:
            number = self.frame.check(op, cell)
            action = f"warned[{number}] = 1;"
        self.frame.lines.append(f"if (UNLIKELY(!written[{cell}])) {action}")

    def _mask(self, op: Op, copy: int) -> str | None:
        """The variable with the bits of the lanes that are active; None where all are, always."""
        lane = op.predicate is not None and op.predicate.lane
        needed = any(w.masked for w in op.writes) or any(s.masked for s in op.stores)
        if not needed or not (lane or (op.masked and self.landing.mask_changes)):
            return None
        variable = self.frame.slot("m", op.uid, 0, copy, "u64")
        full = bits_of(self.frame.lanes)
        start = (
            f"{self.frame.cell(self.frame.code.mask_cell)} & {full}"
            if op.masked and self.frame.code.mask_cell is not None
            else full
        )
        self.frame.lines.append(f"{variable} = {start};")
        if lane and op.predicate is not None:
            cell = self.frame.code.cells[op.predicate.cell]
            bits = f"bits_{cell.storage}(&{self.frame.cell(cell.index)}, {self.frame.lanes})"
            self.frame.lines.append(f"{variable} &= {'~' if op.predicate.negated else ''}{bits};")
        return variable

    def _place_store(self, op: Op, index: int, store: Store, copy: int, mask: str | None) -> None:
        """Where the store goes: known at issue, as is that it may go there."""
        if store.index is not None:
            places = self.frame.places(op.uid, index, copy, store.value.lanes)
            self.frame.scatter(op, store.index, store.value, places, mask if store.masked else None)
            return
        where = self.frame.slot("q", op.uid, index, copy, "u8 *")
        size, lanes = store.value.width // 8, max(store.value.lanes, 1)
        low, high = span(size, lanes, store.stride, store.first)
        found = self.frame.found(op, f"address + {low}ll", str(high - low), store=True)
        whole = f"{{ {found} {where} = q - ({low}); }}"
        if store.masked and mask is not None and store.value.lanes == self.frame.lanes:
            self.frame.lines.append(f"if (UNLIKELY({mask} != {bits_of(self.frame.lanes)})) {{")
            self.frame.masked_span(op, size, store.stride, store.first, mask, store=True)
            self.frame.lines.append(f"{where} = q - low; }} }} else {whole}")
        else:
            self.frame.lines.append(whole)

    def _take(self, op: Op, place: int, state: State) -> None:
        fault = self.frame.fault("branches", op.uid)
        if op.again is not None:
            start, count = self.frame.cell(op.again.start), self.frame.cell(op.again.count)
            other = self.frame.fault("begun", op.uid, start)
            self.frame.lines.append(f"if (UNLIKELY({start} != {op.again.address}ull)) {other}")
            fault = f"if ({count} > 1) {fault}"
        if state.branch is not None:
            self.frame.lines.append(fault)
            return
        self.frame.lines.append(f"if (taken >= 0) {{ {fault} }}")
        if isinstance(op.branch, Node):
            self.frame.fields.setdefault("target", "int")
            cases = "".join(
                f" case {a}ull: s.target = {p}; break;" for a, p in sorted(self.frame.code.addresses.items())
            )
            wrong = self.frame.fault("target", op.uid, "to")
            self.frame.lines.append(
                f"{{ u64 to = {self.frame.ops.expression(op.branch, self.frame.leaf)}; switch (to) {{ "
                f"case {self.return_address}ull: s.target = {RETURN}; break;{cases} default: {wrong} }} }}"
            )
        more = f"if ({self.frame.cell(op.again.count)} > 1) " if op.again is not None else ""
        self.frame.lines.append(f"{more}taken = {place};")


def generate(
    code: Code,
    *,
    dma: Dma | None = None,
    entry: int,
    delay: int,
    return_address: int,
    strict: bool,
    initial: frozenset[int],
) -> Generated:
    """The program as C. Raises TooManyStates where its paths can't be told apart statically."""
    return _Writer(Frame(code, dma, strict), entry, delay, return_address, initial).generate()


def register_bytes(cells: tuple[Cell, ...]) -> int:
    return sum(c.storage // 8 * max(c.lanes, 1) for c in cells)
