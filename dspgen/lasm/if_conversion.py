"""If-conversion of a loop's body: its forward branches become predicates (Allen, Kennedy, Porterfield and Warren, POPL
1983), so that the loop can be pipelined.

Before: `[c]BRANCH .over`, A, `.over:`, B.   After: `[!c]A`, B.

Where control may be is a set of cubes, each a set of branches with the way that they went. An instruction that has no
effect on the other ways runs on all of them: its results are read on none, and its operands are there on all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import Imm, Instr, Jump, Mark, Phys, Place, Predicate, Reg, VReg
from dspgen.lasm.flat_code import Builder
from dspgen.lasm.liveness import Atoms, read, written
from dspgen.lasm.trip_counts import Maker
from dspgen.lasm.values import Atom, State
from dspgen.target.isa.model import Target

Cube = tuple[tuple[int, bool], ...]  # (branch, taken), in the order of the branches
Ways = frozenset[Cube]

ALWAYS: Ways = frozenset({()})
_MOST = 128  # instructions in a body: longer ones gain nothing by running all of it
_MOST_CUBES = 16


class Unconvertible(Exception):
    """Why a body keeps its branches."""


def if_converted(
    body: Sequence[Instr | Mark | Jump], at: Mapping[str, Atoms], entry: Atoms, builder: Builder, target: Target
) -> list[Instr]:
    """The body of a loop, without the branch back, as instructions alone. Raises Unconvertible.

    `at` are the registers that may be read from each mark on, `entry` those where the body starts.
    """
    if sum(isinstance(x, Instr) for x in body) > _MOST:
        raise Unconvertible(f"over {_MOST} instructions with branches among them")
    work = _Conversion(body, at, entry, builder, target)
    work.run()
    code = work.made.code
    lanes = {i.predicate.register for i in code if i.predicate is not None and i.predicate.lane}
    if len(lanes) > len(target.predicates.lane):
        raise Unconvertible(f"{len(lanes)} lane predicates needed, {len(target.predicates.lane)} available")
    return code


class _Conversion:
    def __init__(
        self,
        body: Sequence[Instr | Mark | Jump],
        at: Mapping[str, Atoms],
        entry: Atoms,
        builder: Builder,
        target: Target,
    ) -> None:
        self.body, self.at, self.builder, self.target = body, at, builder, target
        self.made = Maker(target, builder.index, builder.fresh)
        self.state = State(target)
        self.sure = set(entry)  # what is set, whichever way control came
        self.ways: Ways = ALWAYS
        self.pending: dict[str, Ways] = {}
        self.branches: list[Predicate] = []
        self.versions: dict[Atom, int] = {}
        self.kept: dict[object, Predicate] = {}

    def run(self) -> None:
        for k, item in enumerate(self.body):
            match item:
                case Mark(name):
                    self.ways = simplified(self.ways | self.pending.pop(name, frozenset()))
                case Jump():
                    self._jump(item, self.body[k + 1 :])
                case Instr():
                    self._instruction(item)
        if self.pending:
            raise Unconvertible("a branch leaves it")
        if self.ways != ALWAYS:
            raise Unconvertible("not all ways lead to its branch back")

    def _jump(self, jump: Jump, later: Sequence[Instr | Mark | Jump]) -> None:
        if not any(isinstance(x, Mark) and x.name == jump.target for x in later):
            raise Unconvertible("a branch leaves it")
        predicate = jump.branch.predicate
        taken = self.ways
        if predicate is not None:
            k = len(self.branches)
            self.branches.append(self._lasting(predicate, later, jump))
            taken = frozenset((*cube, (k, True)) for cube in self.ways)
            self.ways = frozenset((*cube, (k, False)) for cube in self.ways)
        else:
            self.ways = frozenset()
        self.pending[jump.target] = simplified(self.pending.get(jump.target, frozenset()) | taken)

    def _lasting(self, predicate: Predicate, later: Sequence[Instr | Mark | Jump], jump: Jump) -> Predicate:
        """The condition in a register that keeps it to the end of the body."""
        atoms = set(self.state.atoms(predicate.register))
        if not any(isinstance(x, Instr) and written(x, self.state) & atoms for x in later):
            return predicate
        copy = self.builder.fresh(predicate.register.cls, predicate.register.name)
        assert jump.branch.loc is not None
        self.made.code += self.builder.move(Reg(copy), Reg(predicate.register), copy.cls, jump.branch.loc)
        return Predicate(copy, predicate.negated)

    def _instruction(self, instr: Instr) -> None:
        if not self.ways:
            return
        results = written(instr, self.state)
        if self.ways == ALWAYS or self._harmless(instr, results):
            self.made.code.append(instr)
            if instr.predicate is None or results <= self.sure:
                self.sure |= results
        else:
            self._guarded(instr)
        for atom in results:
            self.versions[atom] = self.versions.get(atom, 0) + 1

    def _harmless(self, instr: Instr, results: Collection[Atom]) -> bool:
        row = instr.instruction
        named = {o.name for o in row.operands}
        if row.memory is not None or row.implicit_writes or row.branch:
            return False
        if any(s.target is None or s.target.name not in named for s in row.semantics):
            return False
        if any(o.write and isinstance(v, Phys) for o, v in zip(row.operands, instr.operands, strict=True)):
            return False
        elsewhere = frozenset().union(*(self.at[name] for name in self.pending))
        return not elsewhere & set(results) and read(instr, self.state) <= self.sure

    def _guarded(self, instr: Instr) -> None:
        row, own = instr.instruction, instr.predicate
        if row.predicable not in ("scalar", "lane") or (row.predicable == "lane" and own is not None):
            raise Unconvertible(f"{row.mnemonic} can't have a condition more")
        condition = self._condition(self.ways)
        if row.predicable == "lane":
            self._in_lanes(instr, condition)
            return
        if own is not None:
            key = (self.ways, own, self.versions.get((own.register, ""), 0))
            if key not in self.kept:
                self.kept[key] = self._both(condition, own)
            condition = self.kept[key]
        self.made.code.append(replace(instr, predicate=condition))

    def _in_lanes(self, instr: Instr, condition: Predicate) -> None:
        """The instruction under a lane predicate, and what advances its address, which lanes don't hinder, apart."""
        lanes = self._of_lanes(condition)
        memory = instr.instruction.memory
        place = next((v for v in instr.operands if isinstance(v, Place) and v.updates), None)
        if place is None or memory is None:
            self.made.code.append(replace(instr, predicate=lanes))
            return
        if not isinstance(place.offset, int) or not isinstance(place.base, VReg) or instr.loc is None:
            raise Unconvertible(f"{instr.instruction.mnemonic} advances its address by a register, under a branch")
        amount = place.offset * memory.scale * (-1 if place.mode in ("post_dec", "pre_dec") else 1)
        steps = [replace(i, predicate=condition) for i in self.builder.advance(place.base, amount, instr.loc)]
        plain = replace(place, mode="none", offset=0)
        operands = tuple(plain if v is place else v for v in instr.operands)
        here = replace(instr, operands=operands, predicate=lanes)
        self.made.code += [*steps, here] if place.mode in ("pre_inc", "pre_dec") else [here, *steps]

    # -- conditions in registers

    def _condition(self, ways: Ways) -> Predicate:
        if ways not in self.kept:
            cubes = sorted(ways)
            others = sorted(complement(ways))
            if len(cubes) == 1:
                self.kept[ways] = self._cube(cubes[0])
            elif len(others) == 1:
                found = self._cube(others[0])
                self.kept[ways] = Predicate(found.register, not found.negated)
            else:
                result = self._constant(0)
                for cube in cubes:
                    self._constant(1, result, self._cube(cube))
                self.kept[ways] = Predicate(result)
        return self.kept[ways]

    def _cube(self, cube: Cube) -> Predicate:
        *before, (k, taken) = cube
        branch = self.branches[k]
        last = Predicate(branch.register, branch.negated is taken)
        if not before:
            return last
        key = ("cube", cube)
        if key not in self.kept:
            self.kept[key] = self._both(self._cube(tuple(before)), last)
        return self.kept[key]

    def _both(self, first: Predicate, second: Predicate) -> Predicate:
        """A register that is not zero where both hold."""
        value: Reg | None = Reg(second.register)
        if second.negated:
            value = self.made.binary("eq", 0, Reg(second.register))
        result = self._constant(0)
        for match in self.builder.index.move(self.made.cls)[:1] if value is not None else ():
            by_operand = {match.binding["d"]: Reg(result), match.binding["a"]: value}
            row = match.instruction
            if row.predicable == "scalar":
                operands = tuple(by_operand[o.name] for o in row.operands)
                self.made.code.append(Instr(row, tuple(v for v in operands if v is not None), first))
                return Predicate(result)
        raise Unconvertible("the machine can't join two conditions")

    def _constant(self, number: int, to: VReg | None = None, predicate: Predicate | None = None) -> VReg:
        register = to if to is not None else self.builder.fresh(self.made.cls, "way")
        for steps in self.builder.index.load_constant(register.cls, number)[:1]:
            if len(steps) == 1 and (predicate is None or steps[0].instruction.predicable == "scalar"):
                operands = tuple(Reg(register) if v is None else Imm(v) for v in steps[0].operands)
                self.made.code.append(Instr(steps[0].instruction, operands, predicate))
                return register
        raise Unconvertible("the machine can't join two conditions")

    def _of_lanes(self, condition: Predicate) -> Predicate:
        """The condition in each lane of a vector register."""
        key = ("lanes", condition.register)
        if key not in self.kept:
            names = set(self.target.predicates.lane)
            cls = next((c.name for c in self.target.registers if c.pair_of is None and names & set(c.names)), "")
            kinds = {"a": condition.register.cls, "d": cls}
            match = next(iter(self.builder.index.find("d = bcast.i32(a)", kinds)), None) if cls else None
            if match is None:
                raise Unconvertible("the machine can't bring a condition into lanes")
            vector = self.builder.fresh(cls, "way")
            values = {match.binding["a"]: Reg(condition.register), match.binding["d"]: Reg(vector)}
            row = match.instruction
            self.made.code.append(Instr(row, tuple(values[o.name] for o in row.operands)))
            self.kept[key] = Predicate(vector, lane=True)
        return Predicate(self.kept[key].register, condition.negated, lane=True)


def simplified(ways: Ways) -> Ways:
    """The same ways in fewer cubes. Raises Unconvertible where there are too many."""
    found = set(ways)
    changed = True
    while changed:
        changed = False
        if len(found) > _MOST_CUBES:
            raise Unconvertible("too many ways through it")
        for cube in sorted(found):
            for literal in cube:
                shorter = tuple(x for x in cube if x != literal)
                opposite = tuple(sorted((*shorter, (literal[0], not literal[1]))))
                if any(set(other) <= set(opposite) for other in found):
                    found = {other for other in found if not set(shorter) <= set(other)} | {shorter}
                    changed = True
                    break
            if changed:
                break
            if any(other != cube and set(other) <= set(cube) for other in found):
                found.discard(cube)
                changed = True
                break
    return frozenset(found)


def complement(ways: Ways) -> Ways:
    """All other ways."""
    found: set[Cube] = {()}
    for cube in sorted(ways):
        found = {
            tuple(sorted({*one, (k, not taken)})) for one in found for k, taken in cube if (k, taken) not in one
        }  # fmt: skip
        found = set(simplified(frozenset(found)))
    return frozenset(found)
