"""Vector DSL to linear assembly: instruction selection, address streams, loops.

Before: a `vecdsl` Program (after rewriting and extraction).
After:  an `asmir` Function on virtual registers, what no instruction does being spelled out (`legalise`); constants and
        lane masks are made before the loops that use them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dspgen.asmir.ir.function import Function, If, Item, Loop, Mem, MemRef, Predicate, Reg, Stream, VReg
from dspgen.asmir.legalize.legalize import Readable, legalise
from dspgen.asmir.legalize.sign_extension import InWord, extend
from dspgen.asmir.passes.constant_hoisting import constants_apart
from dspgen.asmir.passes.copy_coalescing import coalesce_moves
from dspgen.asmir.passes.merge_branches import with_other_sides
from dspgen.asmir.passes.predication import predicate_operations
from dspgen.asmir.select.access_rows import is_pair_term, pair_reach, scattered, store_forms
from dspgen.asmir.select.access_streams import (
    Access,
    StreamKey,
    accesses_below,
    arrays_read,
    body_accesses,
    cluster,
    load_access,
    loops_of,
    made_below,
    store_access,
    stores_below,
    uses_value,
    with_registers,
)
from dspgen.asmir.select.base_pointers import Pointers, address_registers
from dspgen.asmir.select.carried_registers import begin_carried, end_carried, exit_of
from dspgen.asmir.select.emitter import Emitter
from dspgen.asmir.select.shuffle_mode_order import by_mode
from dspgen.target.isa.model import Side, Target
from dspgen.target.query.instructions import Index
from dspgen.target.query.operations import Form, OperationTable
from dspgen.vecdsl.analysis.congruence import Congruences
from dspgen.vecdsl.ir import program as v
from dspgen.vecdsl.ir.program import ELEM_BYTES, Const, Let, Load, Op, Program, Stmt, Store, Term, Var, VType, covered

I32 = VType("i32", False)
_KEPT = 2  # one address register in so many is kept from one statement to the next, outside of loops
_SHORT = 4


def lower(
    program: Program,
    target: Target,
    *,
    pipeline: bool = True,
    readable: Readable | None = None,
    in_word: InWord | None = None,
    most: int | None = None,
) -> Function:
    """Lower a whole program. Raises NoSchedule where the machine lacks an operation or the ABI an argument; TooLarge
    where it comes to over `most` instructions. `readable(array, address, low, high)` tells whether elements
    `address + low` to `address + high` may be read, though the program may not; `in_word(term)` whether it fits a word.
    """
    emitter = Emitter(target, OperationTable(target), most)
    legal = extend(legalise(program, emitter, readable), target, in_word)
    return _Lowering(legal, target, pipeline, emitter).run()


@dataclass(frozen=True, slots=True)
class _Level:
    """An enclosing loop: its iterator, step, and the byte-scaled copies of the iterator that addresses need."""

    iterator: str
    step: int
    scaled: dict[int, VReg]


class _Lowering:
    def __init__(self, program: Program, target: Target, pipeline: bool, emitter: Emitter) -> None:
        self.program = program
        self.target = target
        self.pipeline = pipeline
        self.emitter = emitter
        self.levels: list[_Level] = []
        self.streams: dict[Access, tuple[StreamKey, VReg]] = {}
        self.keys: dict[Access, StreamKey] = {}
        self.straight: dict[StreamKey, VReg] = {}
        self.lanes = target.lanes
        self.labels = 0
        self.masks: dict[int, VReg] = {}
        self.pointers = Pointers(program, target, self.emitter)
        self.address_registers = address_registers(target)
        self.sizes = {a.name: a.size for a in program.arrays}
        emitter.congruences = Congruences(program)
        self.sums = {s: Index(target).address_add(c) for s, c in target.address_modes.base_classes.items()}
        if emitter.shuffles is not None:
            emitter.shuffles.address = self.pointers.constant

    def run(self) -> Function:
        emitter = self.emitter
        inputs = self.pointers.inputs()
        items: list[Item] = []
        emitter.sink = items
        self._take(items, self.pointers.enter)
        items += self._by_statements(self.program.body)
        below: tuple[tuple[Side, int], ...] = (("vector", max(self.pointers.frame.values(), default=0)),)
        entry = [] if emitter.shuffles is None else emitter.shuffles.entry
        return Function(
            self.program.name,
            inputs,
            tuple(coalesce_moves(predicate_operations(entry + items))),
            below=below,
            parameters=self.pointers.parameters,
            entry=self.pointers.entry,
        )

    def _by_statements(self, body: tuple[Stmt, ...]) -> list[Item]:
        """Statements that are in no loop, and what each needs in front of it: loops have constants of their own."""
        emitter = self.emitter
        items: list[Item] = []
        stmts = list(by_mode(body, emitter))
        for k, stmt, other in with_other_sides(stmts):
            if k == 0 or isinstance(stmt, v.Loop | v.If) or isinstance(stmts[k - 1], v.Loop | v.If):
                self._begin_run(stmts[k:])
            if isinstance(stmt, v.Loop | v.If):
                self._forget_constants()
            emitter.sink = []
            block: list[Item] = []
            self._take(block, lambda stmt=stmt, other=other: self._stmt(stmt, other))
            items += emitter.sink + block
        return items

    def _forget_constants(self) -> None:
        for known in (self.emitter.constants, self.emitter.prepared, self.emitter.vectors, self.masks):
            known.clear()

    def _take(self, items: list[Item], action: object) -> None:
        """Run `action` with the emitter appending to `items`."""
        saved, self.emitter.items = self.emitter.items, items
        self.emitter.forget_registers()
        action()  # type: ignore[operator]
        self.emitter.forget_registers()
        self.emitter.items = saved

    def _begin_run(self, stmts: list[Stmt]) -> None:
        """Statements up to the next loop share address registers; a loop has its own."""
        first = next((k for k, s in enumerate(stmts) if isinstance(s, v.Loop | v.If)), len(stmts))
        self.keys = cluster(body_accesses((), tuple(stmts[: max(first, 1)])), self.target, share=1.0)
        self.straight = {}

    # -- statements

    def _body(self, body: tuple[Stmt, ...]) -> None:
        for stmt in by_mode(body, self.emitter):
            self._stmt(stmt)

    def _stmt(self, stmt: Stmt, otherwise: tuple[Stmt, ...] = ()) -> None:
        self.emitter.address_of = self._load_operand
        match stmt:
            case Let(name, value):
                self.emitter.names[name] = self.emitter.lower(value)
            case Store():
                self._store(stmt)
            case v.Loop(trip=Const(value=1), carried=()):
                self._once(stmt)
            case v.Loop():
                self._loop(stmt)
            case v.If():
                self._if(stmt, otherwise)

    def _store(self, stmt: Store) -> None:
        emitter = self.emitter
        emitter.loc = stmt.loc or emitter.loc
        value = emitter.lower(stmt.value)
        vector = stmt.value.type.vector
        if stmt.mask is not None and not vector and not self._predicated_stores(stmt):
            self._guarded_store(stmt)
            return
        predicate = None
        if stmt.mask is not None:
            predicate = Predicate(emitter.whole(emitter.lower(stmt.mask)), lane=vector)
        elif stmt.active is not None and stmt.active < self.lanes:
            predicate = Predicate(self._mask(stmt.active), lane=True)
        memory, index = self._store_operands(stmt)
        emitter.store(stmt, value, memory, index, predicate)
        self._forget(stmt.array)

    def _predicated_stores(self, stmt: Store) -> bool:
        forms = store_forms(self.emitter.table, stmt, self.lanes)
        return any(f.instruction.predicable == "scalar" for f in forms)

    def _guarded_store(self, stmt: Store) -> None:
        """A scalar store under a condition, where stores carry no predicate."""
        if stmt.mask is not None:
            self._if(v.If(stmt.mask, (replace(stmt, mask=None),)))

    def _store_operands(self, stmt: Store) -> tuple[Mem, Reg | None]:
        """The memory operand, and the register of a scatter's indices."""
        size, access = ELEM_BYTES[stmt.elem], store_access(stmt)
        vector = stmt.value.type.vector
        if stmt.index is not None:
            if not scattered(stmt):
                return self._indexed(access, stmt.index, size), None
            return self._anywhere(access, size), self.emitter.lower(stmt.index)
        count = (stmt.active or self.lanes) if vector else 1
        if is_pair_term(stmt.value):
            return self._operand(access, pair_reach(stmt, count), size, size), None
        return self._operand(access, count, stmt.stride * size, size * covered(stmt.elem)), None

    def _forget(self, array: str) -> None:
        """Loads of a stored array must be done again."""
        stale = [t for t in self.emitter.values if array in arrays_read(t, self.emitter.arrays_read)]
        for term in stale:
            del self.emitter.values[term]

    def _mask(self, active: int) -> VReg:
        """A register that lasts for the whole statement, which one that is known where it is asked for may not."""
        if active not in self.masks:
            emitter = self.emitter
            saved = emitter.items, emitter.values
            emitter.items, emitter.values = emitter.sink, {}
            mask = emitter.lower(Op("mask_first", (), VType("i32", True), (active,)))
            emitter.items, emitter.values = saved
            self.masks[active] = mask.vreg
        return self.masks[active]

    def _if(self, stmt: v.If, otherwise: tuple[Stmt, ...] = ()) -> None:
        emitter = self.emitter
        condition = emitter.whole(emitter.lower(stmt.condition))
        sides = [self._side(body) for body in (stmt.then, otherwise)]
        for store in stores_below((*stmt.then, *otherwise)):
            self._forget(store.array)
        emitter.items.append(If(condition, *sides))

    def _side(self, body: tuple[Stmt, ...]) -> tuple[Item, ...]:
        """What runs on one side of a condition."""
        emitter, items = self.emitter, list[Item]()
        saved, straight = dict(emitter.values), dict(self.straight)
        if self.levels:
            self._take(items, lambda: self._body(body))
        else:
            sink, keys = emitter.sink, self.keys
            self._take(items, lambda: items.extend(self._by_statements(body)))
            emitter.sink, self.keys = sink, keys
            self._forget_constants()
        emitter.values, self.straight = saved, straight
        return tuple(items)

    # -- loops

    def _once(self, stmt: v.Loop) -> None:
        """A loop of one iteration is its body, with a name for its start."""
        level = self._enter_level(stmt, innermost=False)
        saved = self.keys, self.straight
        self.levels.append(level)
        self.keys, self.straight = {**self.keys, **self._keys_of(stmt)}, dict(self.straight)
        if 1 in level.scaled:
            self.emitter.names[stmt.iterator] = Reg(level.scaled[1])
        self._body(stmt.body)
        self.levels.pop()
        self.keys, self.straight = saved

    def _loop(self, stmt: v.Loop) -> None:
        emitter = self.emitter
        emitter.loc = stmt.loc or emitter.loc
        trip = self._trip(stmt)
        carried = begin_carried(stmt, self.emitter)
        for store in stores_below(stmt.body):
            self._forget(store.array)
        innermost = not any(_repeats(inner) for inner in loops_of(stmt.body))
        level = self._enter_level(stmt, innermost)
        saved_keys, self.straight = self.keys, {}
        streams = self._bind_streams(stmt) if innermost else ()
        saved_values = dict(emitter.values)
        body: list[Item] = []
        self.levels.append(level)
        self._take(body, lambda: self._loop_body(stmt, carried, level, innermost))
        self.levels.pop()
        self.streams, self.straight, self.keys, emitter.values = {}, {}, saved_keys, saved_values
        if emitter.shuffles is not None:
            mode, body = emitter.shuffles.hoisted(body)
            emitter.items += mode
        keep = frozenset(r.vreg for r in carried) | set(level.scaled.values())
        behind = exit_of(stmt, carried, emitter, f"{self.program.name}_exit{self.labels}", body)
        if isinstance(trip, VReg) and stmt.max_trip == 1 and not (level.scaled or streams):  # a condition with results
            emitter.items.append(If(trip, tuple(coalesce_moves(predicate_operations(body, keep), keep))))
            return
        self.labels += 1
        if innermost:
            numbers, body = constants_apart(body, keep)
            emitter.items += numbers
        emitter.items.append(
            Loop(
                label=f"{self.program.name}_L{self.labels}",
                iterator=stmt.iterator,
                step=stmt.step,
                trip=trip,
                streams=streams,
                body=tuple(coalesce_moves(predicate_operations(body, keep), keep)),
                min_trip=trip if isinstance(trip, int) else stmt.min_trip,
                pipeline=self.pipeline and behind is None and not _always_short(stmt),
                loc=stmt.loc or next((x.loc for x in stores_below(stmt.body) if x.loc), None),
                fixed=isinstance(stmt.start, Const),
                varying=frozenset(made_below(stmt.body)),
            )
        )
        if behind is not None:
            emitter.items.append(behind)

    def _trip(self, stmt: v.Loop) -> int | VReg:
        if isinstance(stmt.trip, Const):
            return int(stmt.trip.value)
        return self.emitter.whole(self.emitter.lower(stmt.trip))

    def _enter_level(self, stmt: v.Loop, innermost: bool) -> _Level:
        """Make the byte-scaled iterators that addresses below need (1: the iterator itself, where it is a value)."""
        factors: dict[int, None] = {}
        if uses_value(stmt, stmt.iterator):
            factors[1] = None
        for inner in loops_of(stmt.body):
            for access in accesses_below(inner):
                _add_factor(factors, access, stmt.iterator)
        accesses = body_accesses([c.next for c in stmt.carried], stmt.body)
        streams = self._streams(stmt) if innermost else {}
        for access in accesses:
            if access not in streams:
                _add_factor(factors, access, stmt.iterator)
        scaled: dict[int, VReg] = {}
        for factor in factors:
            register = self.emitter.fresh(self.emitter.classes.scalar.name, "i")
            self.emitter.lower(_times(stmt.start, factor), Reg(register))
            scaled[factor] = register
        return _Level(stmt.iterator, stmt.step, scaled)

    def _loop_body(self, stmt: v.Loop, carried: list[Reg], level: _Level, innermost: bool) -> None:
        emitter = self.emitter
        if 1 in level.scaled:
            emitter.names[stmt.iterator] = Reg(level.scaled[1])
        self.keys = self._keys_of(stmt)
        self._body(stmt.body)
        emitter.address_of = self._load_operand
        end_carried(stmt, carried, self.emitter)
        for factor, register in level.scaled.items():
            self._advance(register, factor * stmt.step)

    def _keys_of(self, stmt: v.Loop) -> dict[Access, StreamKey]:
        accesses = body_accesses([c.next for c in stmt.carried], stmt.body)
        return cluster((a for a in accesses if a not in self.streams), self.target, share=1.0)

    def _advance(self, register: VReg, step: int) -> None:
        emitter = self.emitter
        name = f"{register.name}.value"
        emitter.names[name] = Reg(register)
        emitter.lower(Op("add", (Var(name, I32), Const(step, I32)), I32), Reg(register))

    # -- addresses

    def _bind_streams(self, stmt: v.Loop) -> tuple[Stream, ...]:
        """Innermost loop: one address register for each stream, advancing with the loop, as far as there are any.

        Accesses beyond that find their address anew each time.
        """
        registers: dict[StreamKey, VReg] = {}
        self.streams = {}
        for access, key in self._streams(stmt).items():
            if key not in registers:
                registers[key] = self._base_register(key, stmt)
            self.streams[access] = (key, registers[key])
        streams = []
        for key, register in registers.items():
            step = dict(key.terms).get(stmt.iterator, 0) * stmt.step
            if step:
                streams.append(Stream(register, step, key.side))
        return tuple(streams)

    def _streams(self, stmt: v.Loop) -> dict[Access, StreamKey]:
        accesses = body_accesses([c.next for c in stmt.carried], stmt.body)
        return with_registers(
            accesses,
            stmt.iterator,
            self.address_registers,
            self.target,
            sums={s for s, found in self.sums.items() if found},
        )

    def _straight_register(self, key: StreamKey) -> VReg:
        """Straight code: an address register made where it is first needed, kept until the next loop, or until others
        have been needed since: outside of loops, few are kept."""
        if key not in self.straight:
            classes = self.target.address_modes.base_classes
            same = [k for k in self.straight if classes[k.side] == classes[key.side]]
            if not self.levels and len(same) >= max(1, self.address_registers[key.side] // _KEPT):
                del self.straight[same[0]]
            elif sum(k.side == key.side for k in same) >= self.address_registers[key.side]:
                self.straight = {k: r for k, r in self.straight.items() if k.side != key.side}
            self.straight[key] = self._base_register(key, None)
        self.straight[key] = self.straight.pop(key)
        return self.straight[key]

    def _base_register(self, key: StreamKey, loop: v.Loop | None, distance: Term | None = None) -> VReg:
        parts: list[Term] = [] if distance is None else [distance]
        scaled: list[VReg] = []
        constant = key.low
        for name, factor in key.terms:
            level = next((x for x in self.levels if x.iterator == name), None)
            if level is not None:
                scaled.append(level.scaled[factor])
            elif loop is not None and name == loop.iterator:
                if isinstance(loop.start, Const):
                    constant += int(loop.start.value) * factor
                else:
                    parts.append(_times(loop.start, factor))
            else:
                parts.append(_times(Var(name, I32), factor))
        return self.pointers.address(key.array, key.side, constant, scaled, parts)

    def _load_operand(self, load: Load, pair: bool) -> Mem:
        size, access = ELEM_BYTES[load.elem], load_access(load)
        count = self.lanes if load.type.vector else 1
        if load.index is not None:
            return self._anywhere(access, size) if scattered(load) else self._indexed(access, load.index, size)
        if pair:
            return self._operand(access, pair_reach(load, count), size, size)
        return self._operand(access, count, load.stride * size, size * covered(load.elem))

    def _anywhere(self, access: Access, size: int) -> Mem:
        """The access's place, as an operand that may touch all of the array."""
        return replace(self._operand(access, 1, size, size), access=self._all_of(access, size))

    def _all_of(self, access: Access, size: int) -> MemRef:
        return MemRef(access.array, 0, (), size, self.sizes[access.array], size)

    def _indexed(self, access: Access, index: Term, size: int) -> Mem:
        """A place at a computed distance from the access's: by an addition on the address side, where there is one."""
        emitter = self.emitter
        distance = emitter.lower(self._distance(index, size))
        cls = emitter.target.address_modes.base_classes[access.side]
        for match in self.sums[access.side]:
            fits = cls in match.operand("b").classes and emitter.part_class(distance) in match.operand("a").classes
            if fits and match.instruction.compile:
                place = self._anywhere(access, size)
                base = Reg(place.base) if isinstance(place.base, VReg) else place.base
                register = emitter.fresh(cls, "a")
                form = Form(match.instruction, match.binding["d"], (match.binding["a"], match.binding["b"]))
                emitter.emit(form, {form.result: Reg(register), form.args[0]: distance, form.args[1]: base})
                return replace(place, base=register)
        name = f"distance.{distance.vreg.name}.{distance.part}"
        emitter.names[name] = distance
        key = self.keys[access]
        register = self._base_register(key, None, Var(name, I32))
        return Mem(register, access.bytes - key.low, self._all_of(access, size))

    def _distance(self, index: Term, size: int) -> Term:
        """The index in bytes; a vector's lanes may have been multiplied together."""
        match index:
            case Op("lane", (Var(name),)) if (product := self.emitter.distances.get((name, size))) is not None:
                return Op("lane", (product,), I32, index.imm)
            case _:
                ways = (_times(index, size), Op("mul", (index, Const(size, I32)), I32))
                return max(ways, key=self._alternatives) if size > 1 else index

    def _alternatives(self, term: Term) -> int:
        """On how many units the operation can go."""
        choice = self.emitter.choose(term) if isinstance(term, Op) else None
        return 0 if choice is None else len(choice[0].instruction.units)

    def _operand(self, access: Access, count: int, stride: int, size: int) -> Mem:
        if access in self.streams:
            key, register = self.streams[access]
        else:
            key = self.keys[access]
            register = self._straight_register(key)
        reference = MemRef(access.array, access.bytes, access.byte_terms, stride, count, size)
        return Mem(register, access.bytes - key.low, reference)


def _repeats(loop: v.Loop) -> bool:
    """Whether a loop is one, or has one in it, of more than one iteration."""
    return loop.trip != Const(1, I32) or bool(loop.carried) or any(map(_repeats, loops_of(loop.body)))


def _always_short(loop: v.Loop) -> bool:
    """Too few iterations, in a number known at run time only, to pay for the guards of a pipelined loop."""
    return not isinstance(loop.trip, Const) and loop.max_trip is not None and loop.max_trip <= _SHORT


def _times(term: Term, factor: int) -> Term:
    if factor == 1:
        return term
    if isinstance(term, Const):
        return Const(int(term.value) * factor, I32)
    if factor > 0 and factor & (factor - 1) == 0:
        return Op("shl", (term, Const(factor.bit_length() - 1, I32)), I32)
    return Op("mul", (term, Const(factor, I32)), I32)


def _add_factor(factors: dict[int, None], access: Access, iterator: str) -> None:
    factor = dict(access.byte_terms).get(iterator, 0)
    if factor:
        factors[factor] = None
