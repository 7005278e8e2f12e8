"""What the tile model asks of a machine: which units an operation may use, how many registers and lanes there are."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.target.isa.model import Instruction, Target
from dspgen.target.query.crossing import elements_of, word_shuffle
from dspgen.target.query.operations import Form, OperationTable, bits_elem
from dspgen.target.query.subword_access import in_word, turns
from dspgen.tiling.loops.loop_nests import FlatAccess

# The share of loads that remain where pairs of them go in one instruction: alignment lets about half of them pair.
_PAIRED = 0.75
_TWO = 2  # elements in a lane, where accesses are thought of as of twos
# Where each lane has an index, that is loaded as well, or moved to a scalar register.
_INDEXED = 1.5
# A stride from which on elements are reached by whole vectors and shuffles, where these are few.
_FAR = 8
_STANDS_IN = {"add": "mac", "sub": "mac", "mul": "mac"}


@dataclass(frozen=True, slots=True)
class Across:
    """The elements of one access on the lanes: `stride` apart, None where computed for each; in `pieces` runs. The last
    lane's lies `reach` from the first one's, where that is known."""

    stride: int | None
    pieces: int = 1
    reach: int = 0


class Machine:
    """Unit pressure of operations, spread evenly over the members that can do each."""

    def __init__(self, target: Target, table: OperationTable) -> None:
        self.target = target
        self.table = table
        self.lanes = target.lanes
        vectors = next((c for c in target.registers if c.kind == "vector" and c.pair_of is None), None)
        scalar = target.register_class(target.abi.scalar_class)
        self.vectors = vectors is not None
        self.registers = len((vectors or scalar).names)  # for what tiles have in registers
        self.scalar_class = scalar.name
        self._elements = elements_of(target, table)
        self._shuffle = word_shuffle(target, table)
        self.joins_rows = self._shuffle is not None  # several vectors' sums at once, see `vecdsl.joined_rows`
        self.turns = turns(target)
        self._forms: dict[tuple[str, str, bool], Form | None] = {}
        self._accesses: dict[tuple[int, str, bool], bool] = {}
        self._vectors: dict[Across, int] = {}

    def form(self, op: str, elem: str, *, vector: bool) -> Form | None:
        """A form of the operation on vectors or scalars, the one on the most units."""
        key = (op, elem, vector)
        if key not in self._forms:
            self._forms[key] = self._widest(op, elem, "vector" if vector else "scalar")
        return self._forms[key]

    def _widest(self, op: str, elem: str, side: str) -> Form | None:
        forms = [
            f
            for f in self.table.forms(op, elem)
            if any(self._kind(c) == side for c in (f.result_operand if f.result else f.operand(1)).classes)
        ]
        return max(forms, key=lambda f: (len(f.instruction.units), f.instruction.id), default=None)

    def _kind(self, cls: str) -> str:
        found = self.target.register_class(cls)
        if found.pair_of is not None:
            return self.target.register_class(found.pair_of).kind
        return found.kind

    def pair_granule(self, elem: str) -> int:
        """How many elements lie between places where loads of two vectors may begin; 1 where there are none."""
        forms = [f for f in self.table.forms("vld_pair", bits_elem(elem)) if f.shape and f.shape[0] == 1]
        aligns = [f.instruction.memory.align for f in forms if f.instruction.memory is not None]
        return max(min(aligns, default=1) // (int(elem[1:]) // 8), 1)

    def add(self, pressure: dict[str, float], op: str, elem: str, vector: bool, count: float) -> None:
        form = self.form(_STANDS_IN.get(op, op), elem, vector=vector) or self.form(op, elem, vector=vector)
        if form is not None:
            self._spread(pressure, form, count)

    def _spread(self, pressure: dict[str, float], form: Form, count: float) -> None:
        self._press(pressure, form.instruction, count)

    def _press(self, pressure: dict[str, float], instruction: Instruction, count: float) -> None:
        for unit in instruction.units:
            pressure[unit] = pressure.get(unit, 0.0) + count * instruction.busy / len(instruction.units)

    def add_scan(self, pressure: dict[str, float], elem: str, count: float) -> None:
        """Steps of prefixes across lanes: a shift of the lanes and a multiply-add each."""
        self.add(pressure, "mac", elem, True, count)
        if self._shuffle is not None:
            self._press(pressure, self._shuffle.instruction, count)
        else:
            self.add(pressure, "align", "i32", True, count)

    @property
    def vector_streams(self) -> int:
        """How many address registers vector accesses may use freely."""
        kept = {*self.target.abi.reserved, *self.target.abi.callee_saved}
        names = self.target.register_class(self.target.address_modes.base_classes["vector"]).names
        return sum(n not in kept for n in names)

    def step_latency(self, elem: str) -> int:
        """Cycles from one step of prefixes to the next; one by one, where they share the shuffle's mode."""
        if self._shuffle is None:
            return 0
        shift = self._shuffle.instruction.latency + self._shuffle.select.instruction.latency
        return shift + self.latency("mac", elem, vector=True)

    def latency(self, op: str, elem: str, *, vector: bool) -> int:
        form = self.form(op, elem, vector=vector)
        return form.instruction.latency if form is not None else 1

    def has_vector_access(self, stride: int, elem: str, *, store: bool) -> bool:
        """Whether lanes with this element stride can be loaded or stored at all (in pairs, or reversed, counts)."""
        known = (stride, elem, store)
        if known not in self._accesses:
            self._accesses[known] = self._accesses_vector(stride, elem, store)
        return self._accesses[known]

    def _accesses_vector(self, stride: int, elem: str, store: bool) -> bool:
        key = bits_elem(elem)
        if stride == 1:
            return self.form("vst" if store else "vld", key, vector=True) is not None
        if stride == -1:
            return self._has_reverse(key)
        if self.turns.reaches(elem, stride, store=store):
            return True
        pair = "vst_pair" if store else "vld_pair"
        return any(f.shape[:1] == (stride,) and len(f.shape) == 4 for f in self.table.forms(pair, key))

    def _has_reverse(self, elem: str) -> bool:
        macro = any(m.implements == f"reverse.{elem}" for m in self.target.macros)
        return macro or bool(self.table.forms("reverse", elem))

    def add_access(
        self,
        pressure: dict[str, float],
        access: FlatAccess,
        across: Across | None,
        distinct: int,
        written: bool,
        *,
        read: bool,
    ) -> None:
        """`across` is None where the comp is scalar."""
        elem = bits_elem(access.elem)
        stride = None if across is None else across.stride
        if across is not None and (vectors := self._dealt(across)):
            self._add_dealt(pressure, elem, vectors, distinct, written, read=read)
            return
        if across is not None and across.pieces > 1 and stride == 1 and self.target.packed == 1:
            distinct *= across.pieces
            self.add(pressure, "add", "i32", True, distinct)
        elif self.lane_by_lane(access, across, written=written, read=read):
            indexed = across is not None and across.stride is None
            self._spread_lanes(pressure, elem, distinct * (_INDEXED if indexed else 1.0), written, read)
            return
        elif self.target.packed > 1 and across is not None and (across.pieces > 1 or stride not in (0, 1, -1)):
            self._add_twos(pressure, elem, across, distinct, written, read=read)
            return
        vector = bool(stride)
        if vector and stride is not None and self._in_turns(pressure, elem, stride, distinct, written, read=read):
            return
        if read and (form := self.form("vld" if vector else "ld", elem, vector=vector)) is not None:
            self._spread(pressure, form, distinct * (_PAIRED if self.table.forms("vld_pair", elem) else 1.0))
        if read and stride == 0 and (form := self.form("bcast", "i32", vector=True)) is not None:
            self._spread(pressure, form, distinct)
        if written and (form := self.form("vst" if vector else "st", elem, vector=vector)) is not None:
            self._spread(pressure, form, distinct)
        if stride is not None and stride < 0:
            self._spread_reverse(pressure, distinct)

    def _in_turns(
        self, pressure: dict[str, float], elem: str, stride: int, distinct: float, written: bool, *, read: bool
    ) -> bool:
        """Where so many vectors take turns: each access is shared by those in one word; lanes are taken out of words,
        or put there, and vectors interleaved."""
        size = in_word(elem)
        ways = [w for w, wanted in (("vld", read), ("vst", written)) if wanted]
        if not all(self.turns.reaches(elem, stride, store=w == "vst") for w in ways):
            return False
        for way in ways:
            if (form := self.form(way, "i32", vector=True)) is not None:
                self._spread(pressure, form, distinct / size)
            if size > 1:
                self.add(pressure, "shl", "i32", True, distinct)
            if stride > size:
                self.add_macro(pressure, "zip_lo.i32" if way == "vst" else "even.i32", distinct / size)
        return True

    def add_macro(self, pressure: dict[str, float], implements: str, count: float) -> None:
        """A macro's instructions, on the units of each."""
        macro = next((m for m in self.target.macros if m.implements == implements), None)
        rows = {row.id: row for row in self.target.instructions}
        for line in macro.body if macro is not None else ():
            if (row := rows.get(line.split()[0])) is not None:
                self._press(pressure, row, count)

    def _dealt(self, across: Across) -> int:
        """How many vectors, shuffled, hold the elements of irregular lanes; 0 where that isn't how they are reached."""
        if across not in self._vectors:
            self._vectors[across] = self._vectors_dealt(across)
        return self._vectors[across]

    def _vectors_dealt(self, across: Across) -> int:
        stride = across.stride
        if self._shuffle is None or stride is None or (across.pieces == 1 and abs(stride) < _FAR):
            return 0
        steps = [s for s in (4, 2) if stride % s == 0 and across.reach % s == 0 and self._pairs(s)]
        run = self.lanes * max(steps, default=1)
        vectors = -(-(abs(across.reach) + 1) // run)
        if across.pieces > 1:
            vectors = min(vectors, across.pieces * -(-(abs(stride) * (self.lanes // across.pieces - 1) + 1) // run))
        return vectors if vectors <= self.lanes // 2 else 0

    def _pairs(self, stride: int) -> bool:
        return self.has_vector_access(stride, "f32", store=False) and self.has_vector_access(stride, "f32", store=True)

    def _add_dealt(
        self, pressure: dict[str, float], elem: str, vectors: int, distinct: float, written: bool, *, read: bool
    ) -> None:
        """A vector is loaded or stored for each of the accesses that share it, and shuffled for each."""
        for op, wanted in (("vld", read), ("vst", written)):
            if wanted and (form := self.form(op, elem, vector=True)) is not None:
                self._spread(pressure, form, distinct)
                if self._shuffle is not None:
                    self._press(pressure, self._shuffle.instruction, distinct * max(vectors - 1, 1))

    def lane_by_lane(self, access: FlatAccess, across: Across | None, *, written: bool, read: bool) -> bool:
        """Whether the access takes an instruction, or several, for each lane."""
        if (
            across is not None
            and self.target.packed > 1
            and (across.pieces > 1 or across.stride not in (0, 1, -1, None))
        ):
            return not self._in_twos(across, access.elem, written=written, read=read)
        if across is None or self._dealt(across) or across.stride == 0 or (across.pieces > 1 and across.stride == 1):
            return False
        if across.stride is None or across.pieces > 1:
            return True
        return not self._has_both(across.stride, access.elem, written, read)

    def _has_both(self, stride: int, elem: str, written: bool, read: bool) -> bool:
        return (not written or self.has_vector_access(stride, elem, store=True)) and (
            not read or self.has_vector_access(stride, elem, store=False)
        )

    def _in_twos(self, across: Across, elem: str, *, written: bool, read: bool) -> bool:
        """Whether the access is one of twos of elements at such distances, or shuffles these."""
        ways = [self.table.twos(elem, store=store) for store, wanted in ((True, written), (False, read)) if wanted]
        if across.pieces == 1:
            return across.stride == _TWO and all(2 * _TWO in way for way in ways)
        if across.pieces * _TWO != self.lanes or across.stride not in (0, 1):
            return False
        apart = (across.reach - across.stride) // (across.pieces - 1)
        return all(apart in way or (apart == _TWO and not across.stride) for way in ways)

    def _add_twos(
        self, pressure: dict[str, float], elem: str, across: Across, distinct: float, written: bool, *, read: bool
    ) -> None:
        """Half of a pair each, and a shuffle, unless it is of twos."""
        for op, wanted in (("vst_pair", written), ("vld_pair", read)):
            if wanted and (form := next(iter(self.table.forms(op, elem)), None)) is not None:
                self._spread(pressure, form, distinct / 2 if across.stride else distinct)
        if across.stride != 1:
            self.add_macro(pressure, "shuffle2.i32", distinct)

    def _spread_lanes(self, pressure: dict[str, float], elem: str, count: float, written: bool, read: bool) -> None:
        """Lane by lane, through scalar accesses and the element registers."""
        moves = self._elements
        forms: list[tuple[Form | None, float]] = []
        if read:
            forms += [(self.form("ld", elem, vector=False), self.lanes)]
            forms += [(moves.write, self.lanes), (moves.take, 1)] if moves is not None else []
        if written:
            forms += [(self.form("st", elem, vector=False), self.lanes)]
            forms += [(moves.put, 1), (moves.read, self.lanes)] if moves is not None else []
        for form, times in forms:
            if form is not None:
                self._spread(pressure, form, count * times)

    def _spread_reverse(self, pressure: dict[str, float], count: float) -> None:
        """Reversing lanes, by an instruction or by a macro, which runs alone."""
        if (form := next(iter(self.table.forms("reverse", "i32")), None)) is not None:
            self._spread(pressure, form, count)
            return
        for macro in self.target.macros:
            if macro.implements == "reverse.i32":
                for unit in self.target.unit_members:
                    pressure[unit] = pressure.get(unit, 0.0) + count * len(macro.body)
