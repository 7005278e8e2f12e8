"""Writes a program as one C function: straight code for each static state, registers in a static record.

    run(head, memories, counts, written, warned, registers) -> 0, or 1 after a fault

`head` gives the limit and takes the cycles and the fault; `counts` takes how often each block ran; `registers` is the
register file in cell order, as NumPy lays it out. A block is a run of states entered only at its top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspgen.sim.cframe import Frame, bits_of
from dspgen.sim.ir import Cell, Code, Node, Op, PredicateRead, Store, Write
from dspgen.sim.memory import FAR, MISALIGNED, TOGETHER
from dspgen.sim.states import RETURN, InFlight, State, Step, always_written, explore
from dspgen.sim.touched import Pair, pairs, span
from dspgen.target.model import Memory

HEAD = 8


@dataclass(frozen=True, slots=True)
class Block:
    """States that always run together: `packets` issue, over `cycles`, `idle` of them with nothing issued."""

    packets: tuple[int, ...]
    cycles: int
    idle: int


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
    strict: bool
    initial: frozenset[int]
    labels: dict[State, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    checks: dict[tuple[int, int], int] = field(default_factory=dict)
    steps: dict[State, Step] = field(default_factory=dict)
    known: dict[State, int] = field(default_factory=dict)
    tracked: frozenset[int] = frozenset()
    mask_changes: bool = False

    # The whole function

    def generate(self) -> Generated:
        self.steps = explore(self.frame.code, self.entry, self.delay)
        first = State(self.entry, 0)
        self.known = always_written(self.frame.code, self.steps, first, self.initial)
        self.frame.lanes = next((c.lanes for c in self.frame.code.cells if c.lanes), 1)
        self.mask_changes = any(w.cell == self.frame.code.mask_cell for op in self.frame.code.ops for w in op.writes)
        self.tracked = self._unsure_reads()
        heads = self._heads(first)
        self.labels = {state: i for i, state in enumerate(s for s in self.steps if s in heads)}
        for state in self.labels:
            self._block(state)
        return Generated(self._text(first), tuple(self.blocks), tuple(self.checks))

    def _unsure_reads(self) -> frozenset[int]:
        """Cells that some state may read before anything was written to them."""
        unsure: set[int] = set()
        for state in self.steps:
            if state.wait or state.at >= len(self.frame.code.slots):
                continue
            for op in self.frame.code.slots[state.at].ops:
                cells = (*op.reads, op.predicate.cell) if op.predicate is not None else op.reads
                unsure |= {c for c in cells if not self.known[state] >> c & 1}
        return frozenset(unsure)

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
        cycles = idle = 0
        body: list[str] = []
        outer, self.frame.lines = self.frame.lines, body
        state: State | None = head
        while state is not None:
            step = self.steps[state]
            if state.wait == 0 and not step.off_end:
                packets.append(state.at)
                idle += bool(self.frame.code.slots[state.at].idle and not self.frame.code.slots[state.at].ops)
            cycles += 1
            idle += state.wait > 0
            state = self._state(step)
            if state is not None and state in self.labels:
                body.append(f"goto L{self.labels[state]};")
                state = None
        self.frame.lines = outer
        number = self.labels[head]
        limit = self.frame.fault("limit", head.at)
        self.frame.lines += [
            f"L{number}:; if (UNLIKELY(t >= limit)) {limit}",
            f"counts[{number}]++; t += {cycles};",
            *body,
        ]
        self.blocks.append(Block(tuple(packets), cycles, idle))

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
        regions = "\n".join(f"static u8 *memory{i};" for i in range(len(self.frame.memories)))
        start = "\n".join(f"  memory{i} = memories[{i}];" for i in range(len(self.frame.memories)))
        finders = "\n".join(self.frame.finders.values())
        return "\n".join(
            [
                self.frame.ops.text(),
                regions,
                finders,
                f"static struct {{\n{record}\n  u32 none;\n}} s;",
                "int run(u64 *head, u8 **memories, u64 *counts, u8 *written, u8 *warned, u8 *registers) {",
                "  u64 t = 0, limit = head[0];",
                "  memset(&s, 0, sizeof s);",
                start,
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
        if step.off_end:
            self.frame.lines.append(self.frame.fault("end", state.at))
            return None
        if state.wait == 0:
            self.frame.lines.append(
                f"{{ /* line {self.frame.code.slots[state.at].loc.line} */ int taken = -1; (void)taken;"
            )
            beside = () if self.strict else pairs(self.frame.code.slots[state.at])
            named = dict.fromkeys(op.uid for pair in beside for op in (pair.load, pair.store))
            self.frame.lines += [f"i64 at{uid} = INT64_MIN / 2;" for uid in named]
            for place, (op, copy) in enumerate(zip(self.frame.code.slots[state.at].ops, step.copies, strict=False)):
                self._issue(op, copy, place, state, told=op.uid in named)
            self._tell_together(beside)
            if step.refused is not None:
                op = self.frame.code.slots[state.at].ops[step.refused[0]]
                self.frame.lines.append(self.frame.fault(step.refused[1], op.uid) + " }")
                return None
            self._short_idle(step)
        else:
            self.frame.lines.append("{ const int taken = -1; (void)taken;")
        self._land(step.landing)
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
        later = sorted((f for f in step.state.flight if f.left > 1 and f.store), key=lambda f: f.left)
        issued = self._stores_of(step)
        for entry in sorted([*later, *issued], key=lambda f: f.left):
            self._land_store(entry)
        self.frame.lines.append("goto done; } }")

    def _stores_of(self, step: Step) -> list[InFlight]:
        """Stores that this very cycle issued and that have not landed with it."""
        if step.state.wait:
            return []
        members = zip(self.frame.code.slots[step.state.at].ops, step.copies, strict=True)
        return [
            InFlight(s.latency, op.uid, i, True, copy)
            for op, copy in members
            for i, s in enumerate(op.stores)
            if s.latency > 1
        ]

    # Issue

    def _condition(self, predicate: PredicateRead) -> str:
        return f"{self.frame.cell(predicate.cell)} {'==' if predicate.negated else '!='} 0"

    def _tell_together(self, beside: Sequence[Pair]) -> None:
        for pair in beside:
            number = self._check(pair.load, TOGETHER - pair.store.uid)
            a, b = f"at{pair.load.uid}", f"at{pair.store.uid}"
            (low, high), (first, last) = pair.loaded, pair.stored
            both = f"{a} >= 0 && {b} >= 0"
            meet = f"{a} + ({low}) < {b} + ({last}) && {b} + ({first}) < {a} + ({high})"
            self.frame.lines.append(f"if (UNLIKELY({both} && {meet})) warned[{number}] = 1;")

    def _check(self, op: Op, kind: int) -> int:
        return self.checks.setdefault((op.uid, kind), len(self.checks))

    def _issue(self, op: Op, copy: int, place: int, state: State, *, told: bool = False) -> None:
        known = self.known[state]
        if op.predicate is not None:
            self._check_read(op, op.predicate.cell, known)
        scalar = op.predicate is not None and not op.predicate.lane
        if scalar and op.predicate is not None:
            self.frame.lines.append(f"{{ const int active = {self._condition(op.predicate)};")
            if op.writes or op.stores:
                flag = self.frame.slot("a", op.uid, 0, copy, "int")
                self.frame.lines.append(f"{flag} = active;")
            self.frame.lines.append("if (active) {")
        else:
            self.frame.lines.append("{ {")
        for cell in op.reads:
            self._check_read(op, cell, known)
        mask = self._mask(op, copy)
        if op.address is not None and op.access is not None:
            self.frame.fetch_address(op, self._misaligned(op))
            if op.access.home and not self.strict:
                near = " || ".join(f"(address >= {low}ll && address < {high}ll)" for low, high in op.access.home)
                self.frame.lines.append(f"if (UNLIKELY(!({near}))) warned[{self._check(op, FAR)}] = 1;")
            if told:
                self.frame.lines.append(f"{'' if mask is None else f'if ({mask}) '}at{op.uid} = (i64)address;")
        for index, write in enumerate(op.writes):
            spec = self.frame.code.cells[write.cell]
            lanes = 0 if write.lane is not None else spec.lanes
            variable = self.frame.slot("p", op.uid, index, copy, self.frame.ops.type(f"u{spec.storage}", lanes))
            self.frame.lines.append(f"{variable} = {self.frame.value(op, write.value, mask)};")
        for index, store in enumerate(op.stores):
            self._issue_store(op, index, store, copy, mask)
        if op.branch is not None:
            self._take(op, place, state)
        self.frame.lines.append("} }")

    def _misaligned(self, op: Op) -> str:
        assert op.access is not None
        if self.strict:
            return self.frame.fault("misaligned", op.uid, "address")
        if op.access.force or op.access.align == 1:
            return ""
        number = self._check(op, MISALIGNED)
        return f"warned[{number}] = 1; address -= address % {op.access.granule};"

    def _check_read(self, op: Op, cell: int, known: int) -> None:
        if known >> cell & 1:
            return
        if self.strict:
            action = self.frame.fault("unwritten", op.uid, str(cell))
        else:
            number = self._check(op, cell)
            action = f"warned[{number}] = 1;"
        self.frame.lines.append(f"if (UNLIKELY(!written[{cell}])) {action}")

    def _mask(self, op: Op, copy: int) -> str | None:
        """The variable with the bits of the lanes that are active; None where all are, always."""
        lane = op.predicate is not None and op.predicate.lane
        needed = any(w.masked for w in op.writes) or any(s.masked for s in op.stores)
        if not needed or not (lane or (op.masked and self.mask_changes)):
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

    def _issue_store(self, op: Op, index: int, store: Store, copy: int, mask: str | None) -> None:
        assert op.access is not None
        value = self.frame.value(op, store.value, mask)
        variable = self.frame.slot("p", op.uid, len(op.writes) + index, copy, self.frame.ops.raw(store.value))
        self.frame.lines.append(f"{variable} = {value};")
        if store.index is not None:
            places = self.frame.places(op.uid, index, copy, store.value.lanes)
            self.frame.scatter(op, store.index, store.value, places, mask if store.masked else None)
            return
        where = self.frame.slot("q", op.uid, index, copy, "u8 *")
        size, lanes = store.value.width // 8, max(store.value.lanes, 1)
        low, high = span(size, lanes, store.stride, store.first)
        finder = self.frame.finder(op.access.side)
        fault = self.frame.fault("outside", op.uid, f"address + {low}ll")
        whole = (
            f"{{ u8 *q = {finder}(address + {low}ll, {high - low}); if (UNLIKELY(!q)) {fault} {where} = q - ({low}); }}"
        )
        if store.masked and mask is not None and store.value.lanes == self.frame.lanes:
            self.frame.lines.append(f"if (UNLIKELY({mask} != {bits_of(self.frame.lanes)})) {{")
            self.frame.masked_span(op, size, store.stride, store.first, mask)
            self.frame.lines.append(f"{where} = q - low; }} }} else {whole}")
        else:
            self.frame.lines.append(whole)

    def _take(self, op: Op, place: int, state: State) -> None:
        fault = self.frame.fault("branches", op.uid)
        if state.branch is not None:
            self.frame.lines.append(fault)
            return
        self.frame.lines.append(f"if (taken >= 0) {fault}")
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
        self.frame.lines.append(f"taken = {place};")

    # Landing

    def _land(self, landing: tuple[InFlight, ...]) -> None:
        for entry in landing:
            if entry.store:
                self._land_store(entry)
        writes = [f for f in landing if not f.store]
        for i, entry in enumerate(writes):
            for other in writes[:i]:
                self._conflict(entry, other)
        for entry in writes:
            self._land_write(entry)

    def _guard(self, entry: InFlight) -> str:
        op = self.frame.code.ops[entry.uid]
        if op.predicate is None or op.predicate.lane:
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
        tests = [g for g in (self._guard(entry), self._guard(other)) if g != "1"]
        masks = self._entry_mask(entry, a.masked), self._entry_mask(other, b.masked)
        if a.lane is None and b.lane is None and (known := [m for m in masks if m is not None]):
            tests.append(f"({' & '.join(known)})")
        ops = self.frame.code.ops[entry.uid], self.frame.code.ops[other.uid]
        if any(op.predicate is not None for op in ops) and a.lane == b.lane:
            first, second = (self.frame.issued("p", f.uid, f.index, f.copy) for f in (entry, other))
            spec = self.frame.code.cells[a.cell]
            size = spec.storage // 8 * (max(spec.lanes, 1) if a.lane is None else 1)
            tests.append(f"memcmp(&{first}, &{second}, {size})")
        self.frame.lines.append(
            f"if ({' && '.join(tests) or '1'}) {self.frame.fault('double', entry.uid, str(a.cell))}"
        )

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
        guard = self._guard(entry)
        self.frame.lines.append(code if guard == "1" else f"if ({guard}) {{ {code} }}")

    def _land_store(self, entry: InFlight) -> None:
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
        guard = self._guard(entry)
        self.frame.lines.append(code if guard == "1" else f"if ({guard}) {{ {code} }}")

    def _land_scatter(self, entry: InFlight, value: str, size: int, lanes: int) -> None:
        store = self.frame.code.ops[entry.uid].stores[entry.index]
        mask = self._entry_mask(entry, store.masked and lanes == self.frame.lanes)
        skip = f"if (!({mask} >> k & 1)) continue; " if mask is not None else ""
        places, guard = self.frame.places(entry.uid, entry.index, entry.copy, lanes), self._guard(entry)
        self.frame.lines.append(
            f"if ({guard}) for (int k = 0; k < {lanes}; k++) "
            f"{{ {skip}memcpy({places}[k], (u8 *)&{value} + k * {size}, {size}); }}"
        )


def generate(
    code: Code,
    memories: tuple[Memory, ...],
    *,
    entry: int,
    delay: int,
    return_address: int,
    strict: bool,
    initial: frozenset[int],
) -> Generated:
    """The program as C. Raises TooManyStates where its paths can't be told apart statically."""
    return _Writer(Frame(code, memories), entry, delay, return_address, strict, initial).generate()


def register_bytes(cells: tuple[Cell, ...]) -> int:
    return sum(c.storage // 8 * max(c.lanes, 1) for c in cells)
