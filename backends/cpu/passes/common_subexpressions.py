"""Values that straight-line code computes more than once, computed once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from backends.cpu.ir.alias_analysis import Key, disjoint, key_of
from backends.cpu.ir.context import Lowering
from backends.cpu.ir.statements import (
    Cell,
    Const,
    Define,
    Get,
    Guard,
    Index,
    Lane,
    Let,
    Loop,
    Note,
    Op,
    Pack,
    Put,
    Reverse,
    Scalar,
    Set,
    Splat,
    Stmt,
    Temp,
    Value,
    Var,
    parts,
    stored,
    with_parts,
)
from plant_core.ir.accesses import accesses


def shared(low: Lowering, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Common subexpressions of neighbouring statements as temporaries.

    Before: `c[0] = a * x[i]; c[1] = a * x[i] + 1;`. After: `t = a * x[i]; c[0] = t; c[1] = t + 1;`.
    Requires: no `Accumulate`. Ensures: the same values; nothing is computed that wasn't.
    """
    made: list[Stmt] = []
    run: list[Stmt] = []
    for stmt in body:
        if stored(stmt) is not None or isinstance(stmt, Note):
            run.append(stmt)
            continue
        made += _run(low, run)
        run = []
        made.append(replace(stmt, body=shared(low, stmt.body)) if isinstance(stmt, Loop | Guard) else stmt)
    return (*made, *_run(low, run))


def _run(low: Lowering, run: list[Stmt]) -> list[Stmt]:
    if sum(stored(s) is not None for s in run) == 0:
        return run
    known = _Known()
    counts = _Table(known)
    for stmt in run:
        value = stored(stmt)
        if value is not None:
            counts.count(value)
            counts.forget(stmt)
    if all(n == 1 for n in counts.uses):
        return run
    return _Extraction(low, counts.uses, _Table(known)).statements(run)


@dataclass(slots=True)
class _Known:
    """Equal values under one number, and what each reads; quick, as values are deep and hashing them is slow.

    Values are looked up by identity first: the statements under work hold on to them.
    """

    of_object: dict[int, int] = field(default_factory=dict)
    of_shape: dict[tuple[object, ...], int] = field(default_factory=dict)
    reads: list[tuple[Value, ...]] = field(default_factory=list)
    keys: dict[int, Key | None] = field(default_factory=dict)

    def number(self, value: Value) -> int:
        found = self.of_object.get(id(value))
        if found is not None:
            return found
        inner = tuple(map(self.number, parts(value)))
        shape = (type(value).__name__, *_own(value), inner)
        found = self.of_shape.get(shape)
        if found is None:
            found = len(self.reads)
            self.of_shape[shape] = found
            below = {id(leaf): leaf for k in inner for leaf in self.reads[k]}
            self.reads.append((value,) if isinstance(value, Get | Index | Temp) else tuple(below.values()))
        self.of_object[id(value)] = found
        return found

    def key(self, cell: Cell) -> Key | None:
        if id(cell) not in self.keys:
            self.keys[id(cell)] = key_of(cell)
        return self.keys[id(cell)]

    def changed(self, value: Value, cell: Cell, lanes: int) -> bool:
        """Whether `value`, a leaf of others, may read one of the elements."""
        match value:
            case Get():
                if any(a.buf == cell.buf for i in value.cell.indices for a in accesses(i)):
                    return True
                if value.cell.buf != cell.buf:
                    return False
                one, two = self.key(value.cell), self.key(cell)
                return one is None or two is None or not disjoint(one, value.lanes, two, lanes, {})
            case Index(expr=expr):
                return any(a.buf == cell.buf for a in accesses(expr))
            case _:
                return False


def _own(value: Value) -> tuple[object, ...]:
    """What tells a value from others of its kind, its parts aside."""
    match value:
        case Const(value=number, dtype=dtype):
            return repr(number), dtype  # 0.0 and -0.0 are equal, and not the same
        case Get(cell=cell, dtype=dtype, lanes=lanes, active=active):
            return cell, dtype, lanes, active
        case Index(expr=expr):
            return (expr,)
        case Scalar(name=name) | Temp(name=name):
            return (name,)
        case Splat(lanes=lanes):
            return (lanes,)
        case Lane(lane=lane):
            return (lane,)
        case Op(name=name, dtype=dtype, lanes=lanes):
            return name, dtype, lanes
        case _:
            return ()


@dataclass(slots=True)
class _Table:
    """The generation of each value: one that memory or a variable changes under gets a new one."""

    known: _Known
    current: dict[int, int] = field(default_factory=dict)
    uses: list[int] = field(default_factory=list)
    of_place: dict[str, dict[int, None]] = field(default_factory=dict)

    def count(self, value: Value) -> None:
        if _worth(value):
            found = self.find(value)
            if found is not None:
                self.uses[found] += 1
                return
            self.add(value, len(self.uses))
            self.uses.append(1)
        for part in _certain(value):
            self.count(part)

    def find(self, value: Value) -> int | None:
        return self.current.get(self.known.number(value))

    def add(self, value: Value, generation: int) -> None:
        number = self.known.number(value)
        self.current[number] = generation
        for leaf in self.known.reads[number]:
            for place in _places(leaf):
                self.of_place.setdefault(place, {})[number] = None

    def forget(self, stmt: Stmt) -> None:
        """Drop what the statement changes."""
        match stmt:
            case Put(cell=cell, value=value):
                place, lanes = cell.buf, value.lanes
                verdicts: dict[int, bool] = {}
                gone = [n for n in self.of_place.get(place, ()) if self._changed(n, cell, lanes, verdicts)]
            case Set(temp=temp):
                place = f"={temp.name}"
                gone = list(self.of_place.get(place, ()))
            case _:
                return
        for number in gone:
            self.current.pop(number, None)
            self.of_place[place].pop(number)

    def _changed(self, number: int, cell: Cell, lanes: int, verdicts: dict[int, bool]) -> bool:
        for leaf in self.known.reads[number]:
            if id(leaf) not in verdicts:
                verdicts[id(leaf)] = self.known.changed(leaf, cell, lanes)
            if verdicts[id(leaf)]:
                return True
        return False


@dataclass(slots=True)
class _Extraction:
    low: Lowering
    uses: list[int]
    table: _Table
    temps: dict[int, Temp] = field(default_factory=dict)
    made: list[Stmt] = field(default_factory=list)
    next: int = 0

    def statements(self, run: list[Stmt]) -> list[Stmt]:
        for stmt in run:
            match stmt:
                case Put(value=value) | Let(value=value) | Var(value=value) | Set(value=value) | Define(value=value):
                    new = replace(stmt, value=self.value(value))
                    self.made.append(new)
                    self.table.forget(stmt)
                case _:
                    self.made.append(stmt)
        return self.made

    def value(self, value: Value) -> Value:
        number = -1
        if _worth(value):
            found = self.table.find(value)
            if found is not None:
                return self.temps.get(found, value)
            number = self.next
            self.next += 1
            self.table.add(value, number)
        certain = _certain(value)
        inner = tuple(self.value(p) if k < len(certain) else self.known(p) for k, p in enumerate(parts(value)))
        new = with_parts(value, inner) if inner else value
        if number < 0 or self.uses[number] == 1:
            return new
        temp = Temp(self.low.fresh(_stem(value)), value.dtype, value.lanes)
        self.temps[number] = temp
        self.made.append(Let(temp, new))
        return temp

    def known(self, value: Value) -> Value:
        """A value that may not be computed: only what there is already is used in it."""
        found = self.table.find(value) if _worth(value) else None
        if found is not None and found in self.temps:
            return self.temps[found]
        inner = tuple(map(self.known, parts(value)))
        return with_parts(value, inner) if inner else value


def _stem(value: Value) -> str:
    match value:
        case Get(cell=cell):
            return f"{cell.buf}_"
        case _:
            return "v" if value.lanes > 1 else "s"


def _worth(value: Value) -> bool:
    match value:
        case Get():
            return True
        case Op(name=name, args=args):
            return not name.startswith("text:") and not all(isinstance(a, Const | Index) for a in args)
        case Pack(parts=items):
            return not all(isinstance(p, Const) for p in items)
        case Reverse():
            return True
        case _:
            return False


def _certain(value: Value) -> tuple[Value, ...]:
    """The parts that are always computed; they come first."""
    match value:
        case Op(name="select", args=args) if args[0].lanes == 1:
            return args[:1]
        case Op(name="land" | "lor", lanes=1, args=args):
            return args[:1]
        case _:
            return parts(value)


def _places(value: Value) -> list[str]:
    match value:
        case Get(cell=cell):
            return [cell.buf, *(a.buf for i in cell.indices for a in accesses(i))]
        case Index(expr=expr):
            return [a.buf for a in accesses(expr)]
        case Temp(name=name):
            return [f"={name}"]
        case _:
            return []
