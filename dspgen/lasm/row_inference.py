"""Which row of the ISA file each instruction is, and which register class each variable has: both follow from use.

An instruction's row must fit its operands' shapes; a variable's class must fit every row in which it stands. Rows and
classes narrow each other until nothing changes. What stays open is settled by the quickest row.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from dspgen.errors import Problem, SourceError
from dspgen.lasm.ir import Program
from dspgen.lasm.missing_rows import missing_rows
from dspgen.sim.ir.symbols import literal_value
from dspgen.sim.text.statements import Line, Token
from dspgen.target.isa.model import Instruction, Operand, Target
from plant_core.support.location import Loc

_DECLARED = "its declaration"


@dataclass(frozen=True, slots=True)
class Slot:
    """A variable where it stands; `classes` may be there by one row."""

    name: str
    classes: frozenset[str]
    loc: Loc


@dataclass(frozen=True, slots=True)
class Row:
    """A row that fits an instruction's operands in shape, with the variables in them."""

    instruction: Instruction
    slots: tuple[Slot, ...]


@dataclass(slots=True)
class Misfit:
    rank: int
    message: str
    loc: Loc
    remedy: str = ""
    code: str = "DG344"


@dataclass(slots=True)
class Use:
    """An instruction of the text with the rows that are left for it."""

    line: Line
    rows: list[Row]
    misfit: Misfit | None = None  # why another form doesn't fit in shape

    @property
    def row(self) -> Instruction:
        return self.rows[0].instruction


@dataclass(slots=True)
class Classes:
    """`of` has the class of each variable (never a pair class), `uses` the row of each instruction statement."""

    of: dict[str, str]
    uses: dict[int, Use]
    physical: frozenset[str] = field(default_factory=frozenset)


def classify(program: Program, target: Target) -> Classes:
    """Rows and classes of a program. Raises SourceError with every problem found."""
    work = _Classifier(program, target)
    return work.run()


class _Classifier:
    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self.problems: list[Problem] = []
        self.by_name: dict[str, list[Instruction]] = {}
        for row in target.instructions:
            self.by_name.setdefault(self._fold(row.mnemonic), []).append(row)
        self.labels = {s.word for s in program.statements if s.kind == "label"}
        self.single = {c.name: c for c in target.registers if c.pair_of is None}
        self.pair_of = {c.name: c.pair_of for c in target.registers if c.pair_of is not None}
        self.control = {n: c.name for c in target.registers if c.kind in ("control", "element") for n in c.names}
        self.known = {n for c in target.registers for n in c.names}
        self.stacks = {n for n in (target.abi.scalar_stack, target.abi.vector_stack) if n}
        self.returns = {n for n in (target.abi.return_operand, target.abi.return_address) if n}
        self.predicates = {
            "scalar": self._classes_with(target.predicates.scalar),
            "lane": self._classes_with(target.predicates.lane),
        }
        self.domain = {name: self._declared_classes(d.kind) for name, d in program.declared.items()}
        self.why: dict[str, tuple[Loc, str]] = {}
        self.told: set[int] = set()  # conflicts that were told
        named = [s for row in target.instructions for _, s in row.suffixes]
        named += [a for unit in target.units for a in unit.accepts]
        self.suffixes = {self._fold(s.lstrip(".")) for s in named if s}

    def run(self) -> Classes:
        uses: dict[int, Use] = {}
        unknown: dict[str, list[Line]] = {}
        for k, statement in enumerate(self.program.statements):
            if statement.line is None:
                continue
            if statement.line.word not in self.by_name:
                unknown.setdefault(statement.line.word, []).append(statement.line)
            elif (rows := self._rows(statement.line)) is not None:
                uses[k] = Use(statement.line, *rows)
        self._outputs()
        self._settle(uses)
        self._unknown(unknown)
        if self.problems:
            raise SourceError(*sorted(self.problems, key=lambda p: (p.loc.line, p.loc.column) if p.loc else (0, 0)))
        return Classes({n: sorted(d)[0] for n, d in self.domain.items() if len(d) == 1}, uses)

    # -- rows that fit in shape

    def _rows(self, line: Line) -> tuple[list[Row], Misfit | None] | None:
        found: list[Row] = []
        misfits: list[Misfit] = []
        forms = self.by_name[line.word]
        if line.suffix and line.suffix not in self.suffixes:
            text = f"no unit is called .{line.suffix}"
            remedy = "leave it out: units are found by the scheduler"
            self.problems.append(Problem("DG344", text, line.loc, remedy))
            return None
        for form in forms:
            fit = self._fit(form, line)
            if isinstance(fit, Misfit):
                misfits.append(fit)
            else:
                found.append(Row(form, tuple(fit)))
        worst = max(misfits, key=lambda m: m.rank, default=None)
        if found or worst is None:
            return found, worst
        self.problems.append(Problem(worst.code, worst.message, worst.loc, worst.remedy))
        return None

    def _fit(self, form: Instruction, line: Line) -> list[Slot] | Misfit:
        if len(form.operands) != len(line.operands):
            wanted = sorted({len(f.operands) for f in self.by_name[line.word]})
            counts = " or ".join(map(str, wanted))
            apart = next((t for t in line.operands if t.kind == "bad" and len(t.text.split()) > 1), None)
            forms = {len(f.operands): ", ".join(o.name for o in f.operands) for f in reversed(self.by_name[line.word])}
            remedy = "it is " + " or ".join(f"{line.word} {forms[n]}".rstrip() for n in wanted)
            if apart is not None:
                remedy = f"'{apart.text}' is read as one: put commas between operands"
            return Misfit(1, f"{line.word} takes {counts} operands, not {len(line.operands)}", line.loc, remedy)
        slots: list[Slot] = []
        for operand, token in zip(form.operands, line.operands, strict=True):
            found = self._operand(form, operand, token)
            if isinstance(found, Misfit):
                return found
            slots += found
        if line.predicate is not None:
            classes = self.predicates.get(form.predicable, frozenset())
            if not classes:
                return Misfit(3, f"{line.word} can't be predicated", line.loc)
            if line.predicate not in self.domain:
                return self._undeclared(line.predicate, line.loc)
            slots.append(Slot(line.predicate, classes, line.loc))
        return slots

    def _operand(self, form: Instruction, operand: Operand, token: Token) -> list[Slot] | Misfit:
        if token.kind == "bad":
            whole = re.fullmatch(r"#\s*([+-]?\w+)", token.text)
            remedy = f"numbers have no mark: {whole.group(1)}" if whole is not None else ""
            return Misfit(9, f"'{token.text}' is no operand", token.loc, remedy)
        if operand.kind == "memory":
            return self._memory(form, token)
        if token.kind == "memory":
            return Misfit(2, f"no memory operand can stand here: '{token.text}'", token.loc)
        if operand.kind == "label":
            if token.kind == "name" and token.text in self.labels:
                return []
            if token.text in self.domain or token.text in self.returns or token.kind != "name":
                return Misfit(2, f"a label is needed here, not {token.text}", token.loc)
            close = difflib.get_close_matches(token.text, sorted(self.labels), 1)
            remedy = f"did you mean {close[0]}?" if close else ""
            return Misfit(7, f"unknown label {token.text}", token.loc, remedy, "DG345")
        if token.kind == "int":
            return self._number(operand, token)
        return self._name(form, operand, token)

    def _number(self, operand: Operand, token: Token) -> list[Slot] | Misfit:
        if operand.imm is None:
            return Misfit(2, f"a register is needed here, not {token.text}", token.loc)
        value = literal_value(operand, token.value, hexadecimal=token.hexadecimal)
        if operand.literal:
            if -(1 << 31) <= token.value < (1 << 36):
                return []
            return Misfit(4, f"{token.text} does not fit 32 bits", token.loc)
        low, high = operand.imm
        if not low <= value <= high:
            return Misfit(4, f"{token.text} is out of range: {low} to {high}", token.loc)
        return []

    def _name(self, form: Instruction, operand: Operand, token: Token) -> list[Slot] | Misfit:
        names = token.text.split(":")
        if all(n in self.domain for n in names) and not token.addend:
            return self._slots(form, operand, token, names)
        if len(names) == 1:
            cls = self.control.get(token.text)
            if cls is not None and not token.addend:
                if cls in operand.classes:
                    return []
                return Misfit(3, f"{token.text} can't stand here", token.loc)
            if form.branch and token.text in self.returns:
                return []
            if token.text in self.stacks and self._holds(operand.classes, token.text) and not operand.write:
                return []
            if operand.symbol_bits is not None:
                return []
        kinds = {self.single[c].kind for c in operand.classes if c in self.single}
        missing = next(n for n in names if n not in self.domain)
        return self._undeclared(missing, token.loc, address=bool(kinds) and kinds <= {"address", "offset"})

    def _slots(self, form: Instruction, operand: Operand, token: Token, names: list[str]) -> list[Slot] | Misfit:
        if form.branch:
            return Misfit(3, f"a label is needed here, not {token.text}", token.loc)
        classes = self._allowed(operand, len(names))
        if not classes:
            what = "a pair of variables" if len(names) == 1 else "a single variable"
            if not operand.classes:
                what = "a number"
            return Misfit(3, f"{what} is needed here, not {token.text}", token.loc)
        return [Slot(n, classes, token.loc) for n in names]

    def _holds(self, classes: tuple[str, ...], name: str) -> bool:
        return any(name in self.single[c].names for c in classes if c in self.single)

    def _undeclared(self, name: str, loc: Loc, *, address: bool = False) -> Misfit:
        if name[:1].isdigit():
            return Misfit(9, f"{name} is no whole number and no name", loc)
        close = difflib.get_close_matches(name, sorted(self.domain), 1)
        remedy = f"did you mean {close[0]}?" if close else f"declare it: .{'add' if address else 'gen'}_var {name}"
        return Misfit(6, f"{name} is not declared", loc, remedy, "DG341")

    def _allowed(self, operand: Operand, count: int) -> frozenset[str]:
        """Classes of each of `count` names (1, or the halves of a pair) that stand for the operand."""
        found: set[str] = set()
        for cls in operand.classes:
            base = self.pair_of.get(cls)
            if base is None and count == 1 and self.single[cls].kind not in ("control", "element"):
                found.add(cls)
            elif base is not None and (count == 2 or operand.pair_text == "low"):
                found.add(base)
        return frozenset(found)

    def _memory(self, form: Instruction, token: Token) -> list[Slot] | Misfit:
        address = token.address
        if address is None or form.memory is None:
            return Misfit(2, f"a memory operand is needed here, not {token.text}", token.loc)
        side, modes = form.memory.side, self.target.address_modes
        slots: list[Slot] = []
        wanted = [(address.base, modes.base_classes.get(side))]
        if isinstance(address.offset, str):
            wanted.append((address.offset, modes.offset_classes.get(side)))
        for name, cls in wanted:
            if name in self.stacks and name not in self.domain and cls is not None and self._holds((cls,), name):
                continue
            if name not in self.domain:
                return self._undeclared(name, token.loc, address=True)
            if cls is None:
                return Misfit(3, f"memory has no offset registers on the {side} side", token.loc)
            slots.append(Slot(name, frozenset({cls}), token.loc))
        return slots

    def _outputs(self) -> None:
        """What is returned can be in the result's register."""
        classes = self._classes_with((self.target.abi.result,))
        for group in self.program.outputs:
            for name in group.names:
                if name not in self.domain:
                    found = self._undeclared(name, group.loc)
                    self.problems.append(Problem(found.code, found.message, found.loc, found.remedy))
                elif self.domain[name] & classes:
                    self.domain[name] &= classes
                    self.why[name] = (group.loc, ".output")
                else:
                    self.problems.append(Problem("DG342", f"{name} can't be returned", group.loc))

    # -- narrowing

    def _settle(self, uses: dict[int, Use]) -> None:
        self._narrow(uses)
        while not self.problems:
            open_names = [n for n, d in self.domain.items() if len(d) > 1 and n in self._used(uses)]
            if not open_names:
                break
            name = open_names[0]
            self.domain[name] = {self._quickest(name, uses)}
            self._narrow(uses)
        for use in uses.values():
            use.rows.sort(key=lambda r: (r.instruction.latency, not r.instruction.compile, -len(r.instruction.units)))

    def _used(self, uses: dict[int, Use]) -> set[str]:
        return {s.name for use in uses.values() for row in use.rows for s in row.slots}

    def _quickest(self, name: str, uses: dict[int, Use]) -> str:
        """The class by which the instructions that name the variable take the fewest cycles."""
        order = {c.name: k for k, c in enumerate(self.target.registers)}

        def cost(cls: str) -> tuple[int, int]:
            total = 0
            for use in uses.values():
                fits = [r for r in use.rows if all(s.name != name or cls in s.classes for s in r.slots)]
                if any(s.name == name for r in use.rows for s in r.slots):
                    total += min((r.instruction.latency for r in fits), default=1000)
            return total, order[cls]

        return min(self.domain[name], key=cost)

    def _narrow(self, uses: dict[int, Use]) -> None:
        changed = True
        while changed:
            changed = False
            for use in list(uses.values()):
                fits = [r for r in use.rows if all(self.domain[s.name] & s.classes for s in r.slots)]
                if not fits:
                    if id(use) not in self.told:
                        self.told.add(id(use))
                        self._conflict(use)
                    continue
                changed |= len(fits) < len(use.rows)
                use.rows = fits
                for name in dict.fromkeys(s.name for s in fits[0].slots):
                    allowed = frozenset().union(*(self._classes_in(r, name) for r in fits))
                    if not self.domain[name] <= allowed:
                        self.domain[name] &= allowed
                        at = next(s.loc for s in fits[0].slots if s.name == name)
                        self.why[name] = (at, use.line.word)
                        changed = True

    def _classes_in(self, row: Row, name: str) -> frozenset[str]:
        found = [s.classes for s in row.slots if s.name == name]
        return frozenset.intersection(*found) if found else frozenset(self.single)

    def _conflict(self, use: Use) -> None:
        """No row is left: name the variable whose class, fixed elsewhere, does not fit."""
        slot = next(
            (s for r in use.rows for s in r.slots if not self.domain[s.name] & s.classes), use.rows[0].slots[0]
        )  # fmt: skip
        wanted = sorted({self._word(c) for r in use.rows for s in r.slots if s.name == slot.name for c in s.classes})
        have = sorted({self._word(c) for c in self.domain[slot.name]})
        declared = self.program.declared[slot.name]
        at, by = self.why.get(slot.name, (declared.loc, _DECLARED))
        remedy = "give the two uses variables of their own, and move the value between them"
        if by is _DECLARED and declared.kind != "input":
            remedy = f"declare it with {'.add_var' if declared.kind == 'general' else '.gen_var'}, or {remedy}"
        if use.misfit is not None:
            remedy += f"; or, for the other form of {use.line.word}: {use.misfit.message}"
        text = (
            f"{slot.name} would be {' or '.join(wanted)} register here, "
            f"but {by} in line {at.line}, column {at.column} makes it {' or '.join(have)} register"
        )
        self.problems.append(Problem("DG342", text, slot.loc, remedy))

    def _word(self, cls: str) -> str:
        found = self.single[cls]
        if found.side is not None:
            return f"a {found.side}-side {found.kind}"
        return f"{'an' if found.kind[0] in 'aeo' else 'a'} {found.kind}"

    # -- the rest

    def _unknown(self, unknown: dict[str, list[Line]]) -> None:
        for word, lines in unknown.items():
            upper = [word.upper()] if word.upper() in self.by_name else []
            close = upper or difflib.get_close_matches(word, sorted(self.by_name), 1)
            guess = f"did you mean {close[0]}? Else add" if close else "add"
            rows = missing_rows(word, lines, self.domain, self.target)
            text = f"{self.target.name} has no instruction {word}"
            self.problems.append(
                Problem("DG343", text, lines[0].loc, f"{guess} its rows to {self.target.path}:\n{rows}")
            )

    def _declared_classes(self, kind: str) -> set[str]:
        abi = self.target.abi
        if kind == "input":
            return set(self._classes_with(abi.arguments))
        kinds = ("scalar", "vector") if kind == "general" else ("address", "offset")
        return {c.name for c in self.single.values() if c.kind in kinds}

    def _classes_with(self, names: tuple[str, ...]) -> frozenset[str]:
        return frozenset(c.name for c in self.single.values() if set(names) & set(c.names))

    def _fold(self, text: str) -> str:
        return text if self.target.text.case_sensitive else text.upper()
