"""Which forms of a mnemonic fit the operands of a line, and what is wrong where none does."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from dspgen.errors import Problem
from dspgen.sched.ir.packets import Address
from dspgen.sim.ir.symbols import literal_value
from dspgen.sim.ir.unit_assignment import Candidate
from dspgen.sim.text.grammar import Grammar
from dspgen.sim.text.statements import Line, Token
from dspgen.target.isa.model import Instruction, Operand, Side, Target
from plant_core.support.location import Loc

Value = str | int | Address


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why an operand does not fit; of several forms' misfits the user is told the one of highest `rank`."""

    rank: int
    code: str
    message: str
    loc: Loc
    remedy: str = ""


class Forms:
    """The target's instructions by mnemonic. `symbols` and `code_labels` are set once the text's labels are known.

    `external` takes the names, with where they first stand, that the text uses but leaves to other files to define: in
    an instruction that moves a part of an address any name may be one, elsewhere only those `declared`.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.symbols: frozenset[str] = frozenset()
        self.code_labels: frozenset[str] = frozenset()
        self.declared: frozenset[str] = frozenset()
        self.external: dict[str, Loc] = {}
        nop = target.text.nop.split()[:1]
        self.grammar = Grammar(target) if any(i.text for i in target.instructions) else None
        self._by_name: dict[str, list[Instruction]] = {}
        for instruction in target.instructions:
            self._by_name.setdefault(self._word(instruction), []).append(instruction)
        self.mnemonics = frozenset([*self._by_name, *nop])
        self._classes = {c.name: {self._fold(n): n for n in c.names} for c in target.registers}
        self._low = {c.name: self._low_names(c.name) for c in target.registers if c.pair_of is not None}
        self._names = sorted({n for table in self._classes.values() for n in table})
        self._known = frozenset(self._names)
        self._accepts = {m: u.accepts for u in target.units for m in u.members}

    def _word(self, instruction: Instruction) -> str:
        """What its lines have for a word."""
        own = self.grammar.word_of.get(instruction.id) if self.grammar is not None else None
        return own or self._fold(instruction.mnemonic)

    def _fold(self, text: str) -> str:
        return text if self.target.text.case_sensitive else text.upper()

    def _low_names(self, cls_name: str) -> dict[str, str]:
        cls = self.target.register_class(cls_name)
        halves = self.target.register_class(cls.pair_of or "").names
        return {self._fold(halves[2 * i]): n for i, n in enumerate(cls.names)}

    def candidates(self, line: Line) -> tuple[list[Candidate], Problem | None]:
        """Every reading of the line, those on units that need no suffix first."""
        forms = self._by_name[line.word]
        found: list[tuple[bool, Candidate]] = []
        misfits: list[Misfit] = []
        for form in forms:
            units = self._units(form, line.suffix)
            values = self._fit(form, line, misfits)
            if values is None:
                continue
            if not units:
                text = f"{line.word} has no form on .{line.suffix} with these operands"
                misfits.append(Misfit(6, "DG405", text, line.loc, self._suffix_remedy(form)))
            found += [(needs, Candidate(form, unit, values)) for needs, unit in units]
        if found:
            return [c for _, c in sorted(found, key=lambda f: f[0])], None
        worst = max(misfits, key=lambda m: m.rank)
        return [], Problem(worst.code, worst.message, worst.loc, worst.remedy)

    def _suffix_remedy(self, form: Instruction) -> str:
        texts = sorted({"." + s.lstrip(".") for _, s in form.suffixes if s})
        return f"it takes {', '.join(texts)}" if texts else "leave the suffix out"

    def _units(self, form: Instruction, suffix: str) -> list[tuple[bool, str]]:
        """Unit members that the suffix allows, each with whether its text usually needs one."""
        own = {m: s.lstrip(".") for m, s in form.suffixes}
        out = []
        for member in form.all_units:
            names = {own.get(member, ""), *(a.lstrip(".") for a in self._accepts.get(member, ()))}
            if not suffix or suffix in {self._fold(n) for n in names}:
                out.append((bool(own.get(member, "")), member))
        return out

    def _fit(self, form: Instruction, line: Line, misfits: list[Misfit]) -> tuple[Value, ...] | None:
        if len(form.operands) != len(line.operands):
            wanted = sorted({len(f.operands) for f in self._by_name[line.word]})
            text = f"{line.word} takes {' or '.join(map(str, wanted))} operands, not {len(line.operands)}"
            misfits.append(Misfit(1, "DG405", text, line.loc))
            return None
        values: list[Value] = []
        for position, (operand, token) in enumerate(zip(form.operands, line.operands, strict=True)):
            value = self._match(form, operand, token)
            if isinstance(value, Misfit):
                misfits.append(Misfit(value.rank + position * 0, value.code, value.message, value.loc, value.remedy))
                return None
            values.append(value)
        return tuple(values)

    def _match(self, form: Instruction, operand: Operand, token: Token) -> Value | Misfit:
        if token.kind == "bad":
            return Misfit(9, "DG400", f"'{token.text}' is no operand", token.loc)
        match operand.kind:
            case "memory":
                return self._memory(form, token)
            case "label":
                return self._label(token)
            case _:
                return self._register_or_number(operand, token)

    def _register_or_number(self, operand: Operand, token: Token) -> Value | Misfit:
        if token.kind == "int":
            if operand.imm is None and operand.kind != "immediate":
                return Misfit(2, "DG405", f"a register is needed here, not {token.text}", token.loc)
            return self._number(operand, token)
        if token.kind == "memory":
            return Misfit(2, "DG405", f"no memory operand can stand here: '{token.text}'", token.loc)
        folded = self._fold(token.text)
        for cls in operand.classes:
            table = self._low[cls] if operand.pair_text == "low" and cls in self._low else self._classes[cls]
            if folded in table and not token.addend:
                return table[folded]
            if folded in self._classes[cls] and not token.addend:
                return self._classes[cls][folded]
        if folded in self._known:
            wanted = ", ".join(operand.classes) or "a number"
            remedy = f"write one of {wanted}, or use another instruction"
            return Misfit(3, "DG405", f"{token.text} can't stand here (it takes {wanted})", token.loc, remedy)
        takes_symbol = operand.symbol_bits is not None or operand.kind == "immediate" or operand.imm is not None
        if operand.symbol_bits is not None and token.text not in self.symbols and ":" not in token.text:
            self.external.setdefault(token.text, token.loc)
        if takes_symbol and (token.text in self.symbols or token.text in self.external):
            sign = f"{token.addend:+d}" if token.addend else ""
            return f"@{token.text}{sign}"
        return self._unknown(token, labels=operand.kind == "immediate")

    def _unknown(self, token: Token, *, labels: bool) -> Misfit:
        if labels:
            close = difflib.get_close_matches(token.text, sorted(self.symbols), 1)
            text, code = f"unknown label or symbol {token.text}", "DG403"
        else:
            close = difflib.get_close_matches(self._fold(token.text), self._names, 1)
            text, code = f"unknown register {token.text}", "DG402"
            if remedy := self._pairs_near(self._fold(token.text)):
                return Misfit(5, code, text, token.loc, remedy)
        return Misfit(5, code, text, token.loc, f"did you mean {close[0]}?" if close else "")

    def _pairs_near(self, text: str) -> str:
        """The pairs that there are of the halves of a pair that there isn't."""
        halves = text.split(":")
        if len(halves) != 2:
            return ""
        turned = ":".join(reversed(halves))
        if turned in self._names:
            return f"did you mean {turned}?"
        found = sorted(n for n in self._names if ":" in n and set(n.split(":")) & set(halves))
        return f"{' and '.join(found)} {'are pairs' if len(found) > 1 else 'is a pair'}" if found else ""

    def _number(self, operand: Operand, token: Token) -> Value | Misfit:
        value = literal_value(operand, token.value, hexadecimal=token.hexadecimal)
        if operand.literal:
            if -(1 << 31) <= token.value < (1 << 36):
                return value
            return Misfit(4, "DG404", f"{token.text} does not fit 32 bits", token.loc)
        if operand.imm is not None and not operand.imm[0] <= value <= operand.imm[1]:
            low, high = operand.imm
            return Misfit(4, "DG404", f"{token.text} is out of range: {low} to {high}", token.loc)
        return value

    def _label(self, token: Token) -> Value | Misfit:
        if token.kind == "name" and token.text in self.code_labels and not token.addend:
            return f"@{token.text}"
        if token.kind == "name" and token.text in self.declared and not token.addend:
            self.external.setdefault(token.text, token.loc)
            return f"@{token.text}"
        if token.kind != "name" or self._fold(token.text) in self._known:
            return Misfit(2, "DG405", f"a label is needed here, not {token.text}", token.loc)
        close = difflib.get_close_matches(token.text, sorted(self.code_labels), 1)
        remedy = f"did you mean {close[0]}?" if close else "write the label before a packet of this text"
        return Misfit(5, "DG403", f"unknown label {token.text}", token.loc, remedy)

    def _memory(self, form: Instruction, token: Token) -> Value | Misfit:
        address = token.address
        if address is None or form.memory is None:
            return Misfit(2, "DG405", f"a memory operand is needed here, not {token.text}", token.loc)
        side = form.memory.side
        modes = self.target.address_modes
        base = self._address_register(address.base, modes.base_classes, side, token)
        if isinstance(base, Misfit):
            return base
        if isinstance(address.offset, str):
            offset = self._address_register(address.offset, modes.offset_classes, side, token)
            return offset if isinstance(offset, Misfit) else Address(base, address.mode, offset)
        low, high = self._range(address.mode, side)
        unit = form.memory.scale // form.memory.text_unit if self.grammar is not None else 1
        units, rest = divmod(address.offset, unit)
        if address.mode != "none" and (rest or not low <= units <= high):
            text = f"offset {address.offset} is out of range: {low * unit} to {high * unit} by {unit}"
            text = text.removesuffix(" by 1")
            return Misfit(4, "DG404", text, token.loc)
        return Address(base, address.mode, units)

    def _range(self, mode: str, side: Side) -> tuple[int, int]:
        modes = self.target.address_modes
        match mode:
            case "plus":
                low, high = modes.plus_imm[side]
                return min(low, 0), high
            case "minus":
                low, high = modes.minus_imm[side]
                return min(low, 0), high
            case "post_dec" | "pre_dec":
                return modes.decrement_imm
            case _:
                return modes.increment_imm

    def _address_register(self, name: str, classes: dict[Side, str], side: Side, token: Token) -> str | Misfit:
        folded = self._fold(name)
        if (own := classes.get(side)) is not None and folded in self._classes[own]:
            return self._classes[own][folded]
        if folded not in self._known:
            close = difflib.get_close_matches(folded, self._names, 1)
            remedy = f"did you mean {close[0]}?" if close else ""
            return Misfit(5, "DG402", f"unknown register {name}", token.loc, remedy)
        wanted = self.target.register_class(own).names if own else ()
        remedy = f"use {wanted[0]} to {wanted[-1]}" if wanted else ""
        return Misfit(4, "DG411", f"{name} can't address memory for the {side} side", token.loc, remedy)
