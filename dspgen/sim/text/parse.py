"""Assembly text to packets: picks each instruction's form and unit, and refuses what the machine would refuse."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

from dspgen.emit.text import nop_mnemonic
from dspgen.errors import Problem, SourceError
from dspgen.sched.ir.packets import Placed
from dspgen.sim.ir.program import AsmPacket, Assembled
from dspgen.sim.ir.unit_assignment import Candidate, match_units, match_within
from dspgen.sim.text.directives import DataReader
from dspgen.sim.text.row_forms import Forms
from dspgen.sim.text.statements import Line, Reader, decode
from dspgen.target.isa.model import Target
from dspgen.target.query.forwarding import maker, new_operand
from dspgen.target.query.hardware_loops import goes_back
from plant_core.support.location import Loc


def assemble(text: str | bytes, target: Target, file: str = "<text>") -> Assembled:
    """Reads scheduled assembly. Raises SourceError with every problem found, each at its place."""
    source = decode(text) if isinstance(text, bytes) else text
    assembler = _Assembler(target, file)
    assembler.collect(source)
    assembled = assembler.finish()
    if assembler.problems:
        problems = sorted(assembler.problems, key=lambda p: (p.loc.line, p.loc.column) if p.loc else (0, 0))
        raise SourceError(*problems)
    return assembled


@dataclass(slots=True)
class _Assembler:
    target: Target
    file: str
    problems: list[Problem] = field(default_factory=list)
    groups: list[list[Line]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    places: dict[str, Loc] = field(default_factory=dict)
    global_names: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)
    data: DataReader = field(default_factory=DataReader)
    forms: Forms = field(init=False)

    def __post_init__(self) -> None:
        self.forms = Forms(self.target)

    # First pass: lines into packets, labels to their packets

    def collect(self, text: str) -> None:
        reader = Reader(self.target, self.file, self.forms.mnemonics, self.forms.grammar)
        pending: list[str] = []
        global_word = self.target.text.global_directive.split()[0]
        for line in reader.lines(text):
            match line.kind:
                case "label":
                    self._label(line)
                    pending.append(line.word)
                case "directive":
                    names = [n.strip() for n in line.rest.split(",") if n.strip()]
                    if line.word in (global_word, ".global", ".globl"):
                        self.global_names += names
                    elif line.word in (".extern", ".weak"):
                        self.declared += names
                    if self.data.directive(line, pending):
                        pending = []
                case _:
                    self._instruction(line, pending)
                    pending = []
        for name in pending:
            self.labels[name] = len(self.groups)
        self.data.close()
        self.problems += reader.problems + self.data.problems

    def _label(self, line: Line) -> None:
        if line.word in self.places:
            first = self.places[line.word]
            self.problems.append(
                Problem("DG409", f"label {line.word} is defined twice (first in line {first.line})", line.loc)
            )
        self.places[line.word] = line.loc

    def _instruction(self, line: Line, pending: list[str]) -> None:
        self.data.close()
        if line.joined and not self.groups:
            self.problems.append(Problem("DG400", "the first instruction can't join a packet above it", line.loc))
        if line.joined and self.groups:
            self.groups[-1].append(line)
        else:
            self.groups.append([line])
        for name in pending:
            self.labels[name] = len(self.groups) - 1

    # Second pass: forms and units

    def finish(self) -> Assembled:
        symbols = {n for item in self.data.items for n, _ in item.symbols}
        self.forms.symbols = frozenset(symbols | set(self.labels))
        self.forms.code_labels = frozenset(self.labels)
        self.forms.declared = frozenset({*self.global_names, *self.declared} - self.forms.symbols)
        busy: dict[str, int] = {}
        packets = []
        at = 0
        for group in self.groups:
            packet = self._packet(group, busy, at)
            at += max(packet.idle, 1)
            packets.append(packet)
        self._data_symbols(symbols)
        self._loop_ends(packets)
        entry = next((n for n in self.global_names if n in self.labels), None)
        if not packets and not self.problems:
            self.problems.append(Problem("DG400", "there are no instructions", Loc(self.file, 1)))
        warnings = (*self.data.warnings, *self._external_warnings())
        external = tuple(self.forms.external)
        return Assembled(
            self.file, tuple(packets), dict(self.labels), tuple(self.data.items), entry, warnings, external
        )

    def _loop_ends(self, packets: Sequence[AsmPacket]) -> None:
        if self.problems:
            return  # what can't be read may be what begins a loop
        members = [p.members for p in packets]
        for at, k, label in goes_back([[(m.instruction, m.operands) for m in packet] for packet in members]):
            if label is None:
                text = f"no loop is begun above what ends here with {members[at][k].instruction.mnemonic}"
                self.problems.append(Problem("DG412", text, members[at][k].loc))

    def _data_symbols(self, symbols: set[str]) -> None:
        for item in self.data.items:
            for _, _, name, _ in item.fixups:
                if name not in symbols and name not in self.labels:
                    self.forms.external.setdefault(name, Loc(self.file, 1))

    def _external_warnings(self) -> list[str]:
        return [
            f"{loc}: {name} is not defined in this file; it gets an address where nothing is"
            for name, loc in self.forms.external.items()
        ]

    def _packet(self, group: list[Line], busy: dict[str, int], at: int) -> AsmPacket:
        idle, idle_predicate, idle_negated = 0, None, False
        lines: list[Line] = []
        candidates: list[list[Candidate]] = []
        for line in group:
            if line.word == nop_mnemonic(self.target):
                idle = self._idle(line)
                idle_predicate, idle_negated = self._predicate(line, "scalar"), line.negated
                continue
            found = self._candidates(line)
            if found:
                lines.append(line)
                candidates.append(found)
        members = self._place(lines, candidates, busy, at)
        if (slots := self._slots(members) if members else len(lines)) > self.target.packets.issue:
            text = f"a packet of {slots} instructions; the machine issues {self.target.packets.issue}"
            self.problems.append(Problem("DG407", text, group[0].loc))
        self._new_operands(members)
        return AsmPacket(members, group[0].loc, idle, idle_predicate, idle_negated)

    def _new_operands(self, members: Sequence[Placed]) -> None:
        """What instructions take from their own packet is made there."""
        for member in members:
            if (k := new_operand(member.instruction)) is None:
                continue
            unsure = [m.predicate is not None or m.instruction.condition is not None for m in members]
            others = [
                (m.instruction, m.operands, may) for m, may in zip(members, unsure, strict=True) if m is not member
            ]
            if maker(str(member.operands[k]), others) is None:
                text = f"nothing in its packet makes {member.operands[k]} for {member.instruction.mnemonic} in any case"
                self.problems.append(Problem("DG413", text, member.loc))

    def _slots(self, members: Sequence[Placed]) -> int:
        """How many instructions a packet's members count for."""
        slots = {member: unit.slots for unit in self.target.units for member in unit.members}
        return sum(slots[m.unit] for m in members if not m.instruction.packet_end)

    def _idle(self, line: Line) -> int:
        most = max(self.target.text.nop_max, 1)
        if not line.operands:
            return 1
        token = line.operands[0]
        if token.kind != "int" or len(line.operands) > 1 or not 1 <= token.value <= most:
            self.problems.append(Problem("DG404", f"{line.word} takes a number from 1 to {most}", token.loc))
            return 1
        return token.value

    def _predicate(self, line: Line, kind: str) -> str | None:
        """The predicate register's name, once it is known to be one of `kind`."""
        if line.predicate is None:
            return None
        name = line.predicate if self.target.text.case_sensitive else line.predicate.upper()
        allowed = self.target.predicates.scalar if kind == "scalar" else self.target.predicates.lane
        if kind != "none" and name in allowed:
            return name
        if kind == "none":
            text, remedy = f"{line.word} can't be predicated", ""
        else:
            text = f"{line.predicate} can't be the predicate of {line.word}"
            remedy = f"use one of {', '.join(allowed)}" if allowed else ""
        self.problems.append(Problem("DG408", text, line.loc, remedy))
        return None

    def _candidates(self, line: Line) -> list[Candidate]:
        if line.word not in self.forms.mnemonics:
            word, close = self._near(line)
            remedy = f"did you mean {close[0]}?" if close else ""
            self.problems.append(Problem("DG401", f"unknown instruction {word}", line.loc, remedy))
            return []
        found, problem = self.forms.candidates(line)
        if problem is not None:
            self.problems.append(problem)
            return []
        name = line.predicate if self.target.text.case_sensitive or line.predicate is None else line.predicate.upper()
        if name is None:
            return found
        fitting = [c for c in found if self._may_carry(c, name)]
        if not fitting:
            self._predicate(line, found[0].instruction.predicable)
        return fitting

    def _near(self, line: Line) -> tuple[str, list[str]]:
        """What is unknown of a line, and what it may be meant to be."""
        if self.forms.grammar is not None and (found := self.forms.grammar.strange_word(line.rest)) is not None:
            return found
        upper = [line.word.upper()] if line.word.upper() in self.forms.mnemonics else []
        return line.word, upper or difflib.get_close_matches(line.word, sorted(self.forms.mnemonics), 1)

    def _may_carry(self, candidate: Candidate, name: str) -> bool:
        match candidate.instruction.predicable:
            case "scalar":
                return name in self.target.predicates.scalar
            case "lane":
                return name in self.target.predicates.lane
            case _:
                return False

    def _place(
        self, lines: list[Line], candidates: list[list[Candidate]], busy: dict[str, int], at: int
    ) -> tuple[Placed, ...]:
        free = [[c for c in cs if busy.get(c.unit, 0) <= at] for cs in candidates]
        candidates_free = [f or c for f, c in zip(free, candidates, strict=True)]
        result = match_units(candidates_free)
        if isinstance(result, int):
            result = match_units(candidates)
        if isinstance(result, int):
            units = list(dict.fromkeys(c.unit for c in candidates[result]))
            text = f"no unit is left for {lines[result].word}: {' and '.join(units)} taken in this packet"
            self.problems.append(Problem("DG406", text, lines[result].loc))
            return ()
        if limits := self.target.packets.limits:
            narrow = (match_within(members, limits) for members in (candidates_free, candidates))
            within = next((found for found in narrow if found is not None), None)
            if within is None:
                told = " and ".join(f"{x.most} on {', '.join(sorted(x.units))}" for x in limits)
                text = f"too many instructions of one packet share units: at most {told}"
                self.problems.append(Problem("DG407", text, lines[0].loc))
                return ()
            result = within
        members = []
        for line, chosen in zip(lines, result, strict=True):
            busy[chosen.unit] = at + chosen.instruction.busy
            name = line.predicate
            if name is not None and not self.target.text.case_sensitive:
                name = name.upper()
            members.append(Placed(chosen.instruction, chosen.unit, chosen.operands, name, line.negated, loc=line.loc))
        return tuple(members)
