"""Whether what the compiler prints for a machine is read back as what it was: each row of its ISA file, with samples of
its operands, alone, under predicates and beside another instruction.

Codes: DG134 a text that isn't read back, DG135 a text that two rows share.
"""

from __future__ import annotations

from dspgen.emit.text import nop_mnemonic, print_lines
from dspgen.errors import IsaError, Problem
from dspgen.sched.ir.packets import Nop, Packet, Placed
from dspgen.sim.text.row_forms import Forms
from dspgen.sim.text.samples import LABEL, SAMPLES, placed
from dspgen.sim.text.statements import Line, Reader
from dspgen.target.isa.model import Instruction, Operand, Target
from dspgen.target.schema.structure import Fault
from dspgen.target.schema.toml_positions import Path


def illegible(target: Target) -> list[Fault]:
    """What can't be read back, a fault a row at most."""
    return _Check(target).faults()


def refuse_illegible(target: Target) -> None:
    """Raises IsaError where code that can't be read is the ISA file's fault."""
    if illegible(target):
        message = f"the texts of some instructions of {target.name} can't be read back"
        raise IsaError(Problem("DG134", message, None, f"see dspgen isa check {target.path}"))


class _Check:
    def __init__(self, target: Target) -> None:
        self.target = target
        self.forms = Forms(target)
        self.forms.symbols = self.forms.code_labels = frozenset({LABEL})
        self.told: set[str] = set()  # rows whose text is another's
        # By a mark's key in `text`, and the mark: the rows whose texts hold it, and these texts.
        self.marks: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def faults(self) -> list[Fault]:
        rows = [row for row in self.target.instructions if not row.packet_end]
        faults = {row.id: self.row(row) for row in rows}
        companion = next((placed(row, self.target, 0) for row in rows if faults[row.id] is None), None)
        for row in self.target.instructions:
            if row.packet_end and companion is not None:
                faults[row.id] = self.misread(row, (companion, Placed(row, row.units[0], ())))
        whole = (self.idle(), self.parallel())
        found = [fault for fault in (*faults.values(), *whole) if fault is not None and fault.path]
        return [*found, *(self.marked(key, mark) for key, mark in self.marks)]

    def row(self, row: Instruction) -> Fault | None:
        """The first sample that isn't read back."""
        plain = list(dict.fromkeys(placed(row, self.target, n) for n in range(SAMPLES)))
        under = [
            Placed(row, plain[0].unit, plain[0].operands, register, no)
            for register in self.predicates(row)[:1]
            for no in (False, True)
        ]
        packets: list[tuple[Placed, ...]] = [(p,) for p in (*plain, *under)]
        if self.target.packets.issue > 1 and self.parallel() is None:
            packets += [(plain[0], plain[-1]), *((p, p) for p in under[:1])]
        return next((fault for members in packets if (fault := self.misread(row, members)) is not None), None)

    def predicates(self, row: Instruction) -> tuple[str, ...]:
        known = self.target.predicates
        return {"none": (), "scalar": known.scalar, "lane": known.lane}[row.predicable]

    def misread(self, row: Instruction, members: tuple[Placed, ...]) -> Fault | None:
        """What is wrong with the packet's text, if anything is."""
        text = print_lines([Packet(members)], self.target)
        path: Path = ("instructions", row.id)
        shown = " ".join(text.split())
        if (mark := self.mark_in(text)) is not None:
            self.marks.setdefault(mark, []).append((row.id, shown))
            return Fault("DG134", (), "told of the mark")
        reader = Reader(self.target, "", self.forms.mnemonics, self.forms.grammar)
        lines = list(reader.lines(text))
        if reader.problems or [x.kind for x in lines] != ["instruction"] * len(members):
            told = reader.problems[0].message if reader.problems else "it is no instruction"
            return self.unread(path, shown, told)
        for n, (line, member) in enumerate(zip(lines, members, strict=True)):
            if line.joined is not (n > 0):
                return self.unread(path, shown, "its instructions are not those of one packet")
            if member.instruction is row and (fault := self.other(path, shown, line, member)):
                return fault
        return None

    def mark_in(self, text: str) -> tuple[str, str] | None:
        """A mark that cuts an instruction's text, with the key of `text` that makes it one."""
        syntax = self.target.text
        inner = "".join(text.splitlines()[1:-1]) if syntax.packet_open else text
        marks = [("comment", syntax.comment), *(("comment_alternatives", m) for m in syntax.comment_alternatives)]
        if self.forms.grammar is not None:
            marks += [(key, getattr(syntax, key)) for key in ("packet_open", "packet_close", "separator")]
        return next(((key, mark) for key, mark in marks if mark and mark in inner), None)

    def marked(self, key: str, mark: str) -> Fault:
        rows = self.marks[key, mark]
        more = f", and of {len(rows) - 1} more" if len(rows) > 1 else ""
        message = f"`{mark}` stands in `{rows[0][1]}` too, the text of `{rows[0][0]}`{more}: it is not read back"
        return Fault("DG134", ("text", key), message, "choose a mark that stands in no instruction's text")

    def other(self, path: Path, shown: str, line: Line, member: Placed) -> Fault | None:
        """The fault where the line isn't read as the instruction, or as another's as well."""
        row = member.instruction
        if line.word not in self.forms.mnemonics:
            return self.unread(path, shown, f"its pieces are `{line.word}`, as in no row's text")
        candidates, problem = self.forms.candidates(line)
        if problem is not None:
            return self.unread(path, shown, problem.message)
        own = [c for c in candidates if c.instruction.id == row.id and c.operands == member.operands]
        if not own:
            return self.unread(path, shown, "it is read with other operands")
        if (line.predicate, line.negated) != (member.predicate, member.negated):
            return self.unread(path, shown, "its predicate is not")
        for twin in (c.instruction for c in candidates):
            if twin.id not in (row.id, *self.told) and twin.semantics != row.semantics and self.alike(row, twin):
                self.told.add(row.id)
                message = f"`{shown}` is the text of `{twin.id}` too, which does something else"
                return Fault("DG135", path, message, "write one of them in another way", at_key=True)
        return None

    def alike(self, row: Instruction, other: Instruction) -> bool:
        """Whether the rows' operands are of one kind: else registers are shared by numbers and addresses."""
        return all(
            a.kind != "register" or b.kind != "register" or self.kinds(a) & self.kinds(b)
            for a, b in zip(row.operands, other.operands, strict=True)
        )

    def kinds(self, operand: Operand) -> set[str]:
        return {self.target.register_class(c).kind for c in operand.classes}

    def unread(self, path: Path, shown: str, why: str) -> Fault:
        remedy = "what may stand in texts: docs/isa.md#texts-by-templates"
        return Fault("DG134", path, f"`{shown}` is not read back: {why}", remedy, at_key=True)

    def parallel(self) -> Fault | None:
        """The fault of packets whose members nothing joins."""
        syntax = self.target.text
        if self.target.packets.issue == 1 or syntax.parallel.strip() or syntax.packet_open:
            return None
        remedy = "give it a mark, or give `packet_open` and `packet_close`"
        return Fault("DG134", ("text", "parallel"), "is empty: nothing shows which instructions are one packet", remedy)

    def idle(self) -> Fault | None:
        """The fault of the instruction that lets cycles pass."""
        most = max(self.target.text.nop_max, 1)
        text = print_lines([Nop(most)], self.target)
        reader = Reader(self.target, "", self.forms.mnemonics, self.forms.grammar)
        words = [line.word for line in reader.lines(text)]
        if reader.problems or words != [nop_mnemonic(self.target)] * bool(text):
            return self.unread(("text", "nop"), text.strip(), "it is no instruction")
        return None
