"""Branches and choices that test what the code before them tests: rows with a condition of their own.

Before: `cmp p, x, y; mux c, p, 1, 0; [c] jump`. After: `cmp p, x, y; jump-if p`; and, on machines that have it, a
branch that compares x, as its own packet makes it, with y. What a row tests is read off its `condition`; and of rows
that choose one of two values, off what they compute: `cmp q, c, 0; mux d, q, b, a` becomes `mux d, p, a, b`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dspgen.asmir.ir.function import (
    Function,
    If,
    Imm,
    Instr,
    Item,
    Jump,
    Label,
    Loop,
    Mark,
    OperandValue,
    Reg,
    VReg,
    overwrites,
    writes,
)
from dspgen.sched.graph.liveness import NOTHING, Live, live_around, live_before, remove_dead
from dspgen.sched.machine.target_facts import Facts
from dspgen.target.isa.model import Instruction, SemExpr, Target
from dspgen.target.query.forwarding import new_operand

_COMPARISONS = ("eq", "ne", "lt", "ltu", "gt", "le", "ge")
_DEEPEST = 8  # instructions that a condition is traced back through


@dataclass(frozen=True, slots=True)
class _Tree:
    """An expression: of operands by `name` in a row; of registers as they are before instruction number `time`."""

    op: str
    type: str = ""
    args: tuple[_Tree, ...] = ()
    name: str = ""
    register: Reg | None = None
    time: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    """A branch to a label where `test` is true, or false where `negated`."""

    row: Instruction
    test: _Tree
    negated: bool


@dataclass(frozen=True, slots=True)
class _Choice:
    """A row that gives the operand `yes` where `test` is true, or false where `negated`, and else `no`."""

    test: _Tree
    negated: bool
    yes: str
    no: str


@dataclass(frozen=True, slots=True)
class Found:
    """A branch in place of another one. `new`: the register that it takes from its packet."""

    branch: Instr
    new: VReg | None


class Conditions:
    """The rows of a machine that branch under a condition, or choose by one."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        twins = {twin.id for twin, _ in facts.twins.values()}
        rows = (row for row in facts.target.instructions if row.id not in twins)
        self.rows = [found for row in rows if (found := _jump(row)) is not None]
        self.choices = _choices(facts.target)

    def others(self, before: Sequence[Instr], branch: Instr) -> Iterator[Found]:
        """Branches that do what this one does at the end of the code; those that test what came earlier come later."""
        predicate, targets = branch.predicate, [v for v in branch.operands if isinstance(v, Label)]
        if not self.rows or predicate is None or predicate.lane or len(targets) != 1:
            return
        test = _Tree("register", register=Reg(predicate.register), time=len(before))
        negated = predicate.negated
        for _ in range(_DEEPEST):
            for row in self.rows:
                bound = self._bound(row, test, negated, before)
                if bound is not None and (made := self._made(row.row, bound, targets[0], branch)) is not None:
                    yield made
            earlier = self._traced(test, before)
            if earlier is None:
                return
            test, other = _truth(earlier)
            negated ^= other

    def shortened(self, code: Sequence[Instr]) -> list[Instr]:
        """The code with choices that test what numbers were made of that they test; what made these stays."""
        made = list(code)
        for k, instr in enumerate(made):
            choice = self.choices.get(instr.instruction.id)
            if choice is not None and instr.predicate is None and not instr.masked:
                made[k] = self._choosing(choice, instr, made[:k])
        return made

    def _choosing(self, choice: _Choice, instr: Instr, before: Sequence[Instr]) -> Instr:
        row = instr.instruction
        given = {o.name: v for o, v in zip(row.operands, instr.operands, strict=True)}
        tree = _tree(row.semantics[0].value.args[0], given, len(before))
        negated = False
        for _ in range(_DEEPEST):
            if tree is None:
                break
            test, other = _truth(tree)
            negated ^= other
            bound: dict[str, OperandValue] = {}
            if self._matches(choice.test, test, bound, row, before):
                values = given | bound
                if negated != choice.negated:
                    values |= {choice.yes: given[choice.no], choice.no: given[choice.yes]}
                if all(_fits(row, name, values[name]) for name in (choice.yes, choice.no)):
                    instr = replace(instr, operands=tuple(values[o.name] for o in row.operands))
            tree = self._traced(test, before)
        return instr

    def _made(self, row: Instruction, bound: Mapping[str, OperandValue], target: Label, branch: Instr) -> Found | None:
        place = new_operand(row)
        operands = tuple(target if o.kind == "label" else bound[o.name] for o in row.operands)
        new = operands[place] if place is not None else None
        if new is not None and not isinstance(new, Reg):
            return None
        instr = Instr(row, operands, None, branch.loc, branch.comment)
        return Found(instr, new.vreg if new is not None else None)

    def _bound(self, row: _Row, test: _Tree, negated: bool, before: Sequence[Instr]) -> dict[str, OperandValue] | None:
        """The row's operands, if it jumps where the test is true, or false."""
        given = {o.name: Imm(o.imm[0]) for o in row.row.operands if not o.classes and o.imm and o.imm[0] == o.imm[1]}
        bound: dict[str, OperandValue] = dict(given)
        if row.negated == negated and self._matches(row.test, test, bound, row.row, before):
            return bound
        bound = dict(given)
        zero = _Tree("eq", "i32", (test, _Tree("int")))
        plain = test.op == "register" and self._bits(test) == 32
        if plain and row.negated != negated and self._matches(row.test, zero, bound, row.row, before):
            return bound
        return None

    def _matches(
        self, pattern: _Tree, tree: _Tree, bound: dict[str, OperandValue], row: Instruction, before: Sequence[Instr]
    ) -> bool:
        if pattern.op == "operand":
            value = self._value(tree, before)
            if value is None or not _fits(row, pattern.name, value) or bound.get(pattern.name, value) != value:
                return False
            bound[pattern.name] = value
            return True
        same = (pattern.op, pattern.type, pattern.value) == (tree.op, tree.type, tree.value)
        if not same or len(pattern.args) != len(tree.args):
            return False
        orders = [tree.args, tree.args[::-1]] if pattern.op == "eq" else [tree.args]
        for arguments in orders:
            tried = dict(bound)
            if all(self._matches(p, t, tried, row, before) for p, t in zip(pattern.args, arguments, strict=True)):
                bound.update(tried)
                return True
        return False

    def _value(self, tree: _Tree, before: Sequence[Instr]) -> OperandValue | None:
        """What an operand at the end of the code would have to be to have a value of the code's; None where that is no
        longer there, or so many others of its class are made since that keeping it could take too many."""
        if tree.op == "int":
            return Imm(tree.value)
        if tree.register is None:
            return None
        register = tree.register.vreg
        since = [made for instr in before[tree.time :] for made, _ in writes(instr) if made.cls == register.cls]
        few = len(since) <= max(len(self.facts.classes[register.cls].names) // 2, 1)
        return tree.register if few and register not in since else None

    def _bits(self, tree: _Tree) -> int:
        assert tree.register is not None
        return self.facts.classes[tree.register.vreg.cls].bits

    def _traced(self, test: _Tree, before: Sequence[Instr]) -> _Tree | None:
        """The same with what the one register in it was made of."""
        if test.op == "register":
            made = self._maker(test, before)
            return made if made is not None and (self._bits(test) == 32 or _is_flag(made)) else None
        if test.op == "and" and test.args[1] == _Tree("int", value=1) and test.args[0].op == "register":
            made = self._maker(test.args[0], before)
            return None if made is None else _Tree("and", test.type, (made, test.args[1]))
        return None

    def _maker(self, leaf: _Tree, before: Sequence[Instr]) -> _Tree | None:
        """What one instruction puts into the register."""
        assert leaf.register is not None
        register = leaf.register
        for time in range(leaf.time - 1, -1, -1):
            instr = before[time]
            if any(written == register.vreg for written, _ in writes(instr)):
                break
        else:
            return None
        row = instr.instruction
        if row.memory is not None or row.condition is not None or len(row.semantics) != 1 or instr.masked:
            return None
        if (register.vreg, "") not in overwrites(instr) or register.part or row.semantics[0].target is None:
            return None
        operands = {o.name: v for o, v in zip(row.operands, instr.operands, strict=True)}
        return _tree(row.semantics[0].value, operands, time)


def _fits(row: Instruction, name: str, value: OperandValue) -> bool:
    """Whether an operand of the row may be so."""
    operand = row.operand(name)
    if isinstance(value, Imm):
        return operand.imm is not None and operand.imm[0] <= value.value <= operand.imm[1]
    return isinstance(value, Reg) and not value.part and value.vreg.cls in operand.classes


def _choice(row: Instruction, scalars: Collection[str]) -> _Choice | None:
    if len(row.semantics) != 1 or row.semantics[0].value.op != "select" or row.condition is not None:
        return None
    target, value = row.semantics[0].target, row.semantics[0].value
    names = {o.name for o in row.operands if not o.new}
    if target is None or target.part or target.name not in names or row.memory is not None:
        return None
    if not all(c in scalars for c in row.operand(target.name).classes) or row.operand(target.name).read:
        return None
    if any(a.op != "place" or a.part or a.name not in names for a in value.args[1:]):
        return None
    tree = _tree(value.args[0], None, 0)
    return _Choice(*_truth(tree), value.args[1].name, value.args[2].name) if tree is not None else None


def _choices(target: Target) -> dict[str, _Choice]:
    scalars = {c.name for c in target.registers if c.kind == "scalar"}
    found = ((row.id, _choice(row, scalars)) for row in target.instructions)
    return {id: choice for id, choice in found if choice is not None}


def with_shorter_choices(function: Function, target: Target) -> Function:
    """The function with choices that test what the numbers that they test were made of."""
    if not _choices(target):
        return function
    return replace(function, body=shorter_choices(function.body, NOTHING, Conditions(Facts(target))))


def shorter_choices(items: Sequence[Item], after: Live, conditions: Conditions) -> tuple[Item, ...]:
    """A body with such choices, and without what is no longer read; `after` is what is read behind it."""
    facts = conditions.facts
    live = live_around(items, after, facts)
    made: list[Item] = []
    code: list[Instr] = []
    for k, item in enumerate([*items, None]):
        if isinstance(item, Instr):
            code.append(item)
            continue
        other = conditions.shortened(code)
        made += remove_dead(other, live[k], facts) if other != code else code
        code = []
        match item:
            case Loop():
                inside = live[k + 1] | live_before((item,), live[k + 1], facts)
                made.append(replace(item, body=shorter_choices(item.body, inside, conditions)))
            case If():
                then, otherwise = (shorter_choices(x, live[k + 1], conditions) for x in (item.then, item.otherwise))
                made.append(replace(item, then=then, otherwise=otherwise))
            case Mark() | Jump():
                made.append(item)
            case None:
                pass
    return tuple(made)


def _jump(row: Instruction) -> _Row | None:
    if row.condition is None or row.predicable != "none" or len(row.semantics) != 1 or row.memory is not None:
        return None
    value, labels = row.semantics[0].value, [o for o in row.operands if o.kind == "label"]
    if value.op != "branch" or len(labels) != 1 or value.args[0].name != labels[0].name:
        return None
    tree = _tree(row.condition, None, 0)
    return _Row(row, *_truth(tree)) if tree is not None else None


def _tree(expr: SemExpr, operands: Mapping[str, OperandValue] | None, time: int) -> _Tree | None:
    """The expression on an instruction's operands, or on those of a row; None where it has something else in it."""
    if expr.op == "int":
        return _Tree("int", value=expr.value)
    if expr.op == "place":
        if operands is None:
            return _Tree("operand", name=expr.name) if not expr.part else None
        match operands.get(expr.name):
            case Reg(part="") as register if not expr.part:
                return _Tree("register", register=register, time=time)
            case Imm(value=value):
                return _Tree("int", value=value)
            case _:
                return None
    arguments = [_tree(a, operands, time) for a in expr.args]
    known = tuple(a for a in arguments if a is not None)
    return _Tree(expr.op, expr.type, known) if len(known) == len(arguments) else None


def _truth(tree: _Tree) -> tuple[_Tree, bool]:
    """A simpler expression that isn't 0 where this one isn't; or where it is, if that is told."""
    negated = False
    while (simpler := _simpler(tree)) is not None:
        tree, other = simpler
        negated ^= other
    return tree, negated


def _simpler(tree: _Tree) -> tuple[_Tree, bool] | None:
    zero, one, words, floats = _Tree("int"), _Tree("int", value=1), tree.type == "i32", tree.type.startswith("f")
    match tree.op, tree.args:
        case "mov" | "neg", (inner,) if words:
            return inner, False
        case "ne", (inner, right) if right == zero and words:
            return inner, False
        case "eq", (inner, right) if right == zero and words:
            return inner, True
        case "xor", (inner, right) if right == one and _is_truth(inner):
            return inner, True
        case "and", (inner, right) if right == one and _is_flag(inner):
            return inner, False
        case "select", (inner, yes, no) if yes.op == no.op == "int" and bool(yes.value) != bool(no.value):
            return inner, not yes.value
        case "ne", (left, right):
            return _Tree("eq", tree.type, (left, right)), True
        case "gt", (left, right):
            return _Tree("lt", tree.type, (right, left)), False
        case "le", (left, right) if not floats:
            return _Tree("lt", tree.type, (right, left)), True
        case "ge", (left, right) if not floats:
            return _Tree("lt", tree.type, (left, right)), True
    return None


def _is_truth(tree: _Tree) -> bool:
    """Whether it is 0 or 1."""
    return tree.op in _COMPARISONS or (tree.op == "and" and tree.args[1] == _Tree("int", value=1))


def _is_flag(tree: _Tree) -> bool:
    """Whether its lowest bit tells if it is 0, in however few bits."""
    return _is_truth(tree) or (tree.op == "neg" and _is_truth(tree.args[0]))
