"""The C function being written: its names, its lines, and its accesses to memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dspgen.sim.cgen.operations import Operations, lanes_of_type
from dspgen.sim.ir.dma import FIELDS, table_size
from dspgen.sim.ir.memory import SIZE_SHIFT, STRAY
from dspgen.sim.ir.program import Code, Node, Op
from dspgen.sim.lowering.bounds_checks import KINDS, OBJECT_FIELDS, STORES, WORDS
from dspgen.sim.lowering.packet_accesses import span
from dspgen.target.isa.model import Dma, Side

FAULTS = (
    "", "end", "limit", "outside", "misaligned", "double", "branches", "unwritten", "target", "unit", "port",
    "transfer", "unsettled", "begun",
)  # fmt: skip
# Objects are looked for in a table, as `dspgen.sim.lowering.bounds_checks.object_tables` makes it; `near_t` keeps what
# an instruction found last: how far from `low` an access may begin, and where addresses are in the host's memory.
OBJECTS = """
typedef struct { u64 low, room, to; } near_t;
static u64 *objects, *regions;
static __attribute__((noinline)) u8 *look_up(u64 *table, near_t *near, u64 a, u64 n, u64 kind, int fixed) {
  for (u64 k = 0, *s = table + 1; k < table[0]; k++, s += %(fields)d) {
    u64 low = s[kind & %(stores)d ? 2 : 0], high = s[kind & %(stores)d ? 3 : 1];
    if (!(s[5] & kind & ~%(stores)dull) || a < low || high - low < n || a - low > high - low - n) continue;
    %(tell)s
    if (near) { near->low = low; near->room = high - low - (fixed ? n - 1 : 0); near->to = s[4]; }
    return (u8 *)(a + s[4]);
  }
  return 0; }
static __attribute__((noinline, cold)) int stray(u64 *head, u64 kind, u64 where, u64 a, u64 n, u64 store) {
  head[5] = n; head[6] = store; return refuse(head, kind, where, a); }"""
# What the DMA engine's own functions, in Python, are told and tell: see `dspgen.sim.ir.dma.Transfers`.
ENGINE = """
static u64 begun, now, held, *spans;
static u8 *words;
static void (*tell_load)(u64, u64, u64);
static int (*tell_store)(u64, u64, u64, u64);
static __attribute__((noinline)) void loaded(u64 o, u64 n) { tell_load(now, o, n); held = spans[0]; }
static __attribute__((noinline)) int stored(u64 o, u64 n, u64 uid) {
  int done = tell_store(now + 1, o, n, uid); held = spans[0]; return done; }
static __attribute__((noinline)) int barred(u64 a, u64 n, int store) {
  for (u64 k = 0, *s = spans + 1; k < spans[0]; k++, s += %(fields)d) {
    if ((!store && !s[4]) || a + n <= s[0] || a >= s[0] + (s[1] - 1) * s[3] + s[2]) continue;
    u64 row = (a + n - 1 - s[0]) / s[3];
    if (row >= s[1]) row = s[1] - 1;
    if (s[0] + row * s[3] + s[2] > a) { spans[%(last)d] = 1; return 1; }
  }
  return 0;
}"""


@dataclass(slots=True)
class Frame:
    """`fields` are the static record's: registers `r`, values in flight `p`, their masks `m`, flags `a`, places `q`."""

    code: Code
    dma: Dma | None = None
    strict: bool = True
    ops: Operations = field(default_factory=Operations)
    fields: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, int] = field(default_factory=dict)
    finders: dict[str, str] = field(default_factory=dict)
    near: dict[tuple[object, ...], int] = field(default_factory=dict)  # numbers of `near_t`
    checks: dict[tuple[int, int], int] = field(default_factory=dict)  # numbers of warnings, by instruction and kind
    lines: list[str] = field(default_factory=list)
    lanes: int = 1
    temporaries: int = 0
    copies: dict[int, int] = field(default_factory=dict)  # of the operations of the packet at hand

    def cell(self, index: int) -> str:
        cell = self.code.cells[index]
        name = f"r{index}"
        if name not in self.fields:
            self.fields[name] = self.ops.type(f"u{cell.storage}", cell.lanes)
        return f"s.{name}"

    def slot(self, kind: str, uid: int, index: int, copy: int, ctype: str) -> str:
        name = f"{kind}{uid}_{index}_{copy}"
        self.fields.setdefault(name, ctype)
        return f"s.{name}"

    def issued(self, kind: str, uid: int, index: int, copy: int) -> str:
        """A slot that an earlier state's code has filled."""
        name = f"{kind}{uid}_{index}_{copy}"
        if name not in self.fields:
            raise KeyError(name)
        return f"s.{name}"

    def places(self, uid: int, index: int, copy: int, lanes: int) -> str:
        """The array that keeps where each lane of a scatter goes."""
        name = f"w{uid}_{index}_{copy}"
        self.arrays[name] = lanes
        return f"s.{name}"

    def fault(self, kind: str, where: int, detail: str = "0") -> str:
        return f"return refuse(head, {FAULTS.index(kind)}, {where}, {detail});"

    def check(self, op: Op, kind: int) -> int:
        """The number of a warning."""
        return self.checks.setdefault((op.uid, kind), len(self.checks))

    def leaf(self, node: Node) -> str:
        match node.op:
            case "read":
                return self.cell(node.value)
            case "read_lane":
                return f"{self.cell(node.value)}[{node.imm[0]}]"
            case "address":
                return "address"
        raise ValueError(node.op)

    # Memory

    def fetch_address(self, op: Op, misaligned: str) -> None:
        """`misaligned` is what to do at an address that is no multiple and that the access does not force to be one."""
        assert op.address is not None and op.access is not None
        self.lines.append(f"u64 address = {self.ops.expression(op.address, self.leaf)};")
        align = op.access.align
        if align > 1 and op.access.force:
            self.lines.append(f"address -= address % {align};")
        elif align > 1:
            self.lines.append(f"if (UNLIKELY(address % {align})) {{ {misaligned} }}")

    def value(self, op: Op, node: Node, mask: str | None, leaf: Callable[[Node], str] | None = None) -> str:
        """`leaf` gives the registers, in the place of `self.leaf`."""
        names: dict[Node, str] = {}
        self._fetch(op, node, mask, names)
        return self.ops.expression(node, lambda n: names[n] if n in names else (leaf or self.leaf)(n))

    def _fetch(self, op: Op, node: Node, mask: str | None, names: dict[Node, str]) -> None:
        """Puts what the node loads into temporaries, in the order in which the Python machine loads."""
        for arg in node.args:
            self._fetch(op, arg, mask, names)
        if node.op not in ("load", "gather", "perm") or node in names:
            return
        self.temporaries += 1
        name = names[node] = f"t{self.temporaries}"
        self.lines.append(f"{self.ops.raw(node)} {name};")
        if node.op == "perm":
            self._perm(op, node, name, names)
        elif node.op == "gather":
            self._gather(op, node, name, mask, names)
        else:
            self._load(op, node, name, mask)

    def _load(self, op: Op, node: Node, name: str, mask: str | None) -> None:
        assert op.access is not None
        size, lanes = node.width // 8, max(node.lanes, 1)
        stride, first = node.imm
        low, high = span(size, lanes, stride, first)
        if node.lanes and (stride != 1 or lanes * size != self._bytes_of(node)):
            self.lines.append(f"{name} = ({self.ops.raw(node)}){{0}};")
        whole = f"{{ {self.found(op, f'address + {low}ll', str(high - low))} "
        gather = f"gather_{node.width}(&{name}, q - low, %s, {first * size}, {stride * size});"
        if stride == 1 or node.lanes == 0:
            whole += f"memcpy(&{name}, q, {lanes * size}); }}"
        else:
            whole += f"const i64 low = {low}; {gather % bits_of(lanes)} }}"
        if mask is None or node.lanes != self.lanes:
            self.lines.append(whole)
            return
        self.lines.append(f"if (UNLIKELY({mask} != {bits_of(self.lanes)})) {{ {name} = ({self.ops.raw(node)}){{0}};")
        self.masked_span(op, size, stride, first, mask)
        self.lines.append(f"{gather % mask} }} }} else {whole}")

    def _gather(self, op: Op, node: Node, name: str, mask: str | None, names: dict[Node, str]) -> None:
        assert op.access is not None
        size = node.width // 8
        index = self.ops.expression(node.args[0], lambda n: names[n] if n in names else self.leaf(n))
        self.lines.append(f"{name} = ({self.ops.raw(node)}){{0}}; {{ {self.ops.raw(node.args[0])} x = {index};")
        self.lines.append(
            f"{self._each_place(op, size, node.lanes, mask if node.lanes == self.lanes else None)} "
            f"memcpy((u8 *)&{name} + k * {size}, q, {size}); }} }}"
        )

    def _each_place(self, op: Op, size: int, lanes: int, mask: str | None, *, store: bool = False) -> str:
        """The head of a loop over the active lanes of indices `x`, with each one's place in `q`."""
        skip = f"if (!({mask} >> k & 1)) continue; " if mask is not None else ""
        return (
            f"for (int k = 0; k < {lanes}; k++) {{ {skip}u64 where = address + (i64)(i32)x[k] * {size}; "
            f"{self.found(op, 'where', str(size), store=store)}"
        )

    def scatter(self, op: Op, index: Node, value: Node, places: str, mask: str | None) -> None:
        """Keeps each active lane's place in the array `places`."""
        expression = self.value(op, index, mask)
        self.lines.append(f"{{ {self.ops.raw(index)} x = {expression};")
        only = mask if value.lanes == self.lanes else None
        head = self._each_place(op, value.width // 8, value.lanes, only, store=True)
        self.lines.append(f"{head} {places}[k] = q; }} }}")

    def _bytes_of(self, node: Node) -> int:
        return lanes_of_type(node.lanes) * node.width // 8

    def masked_span(self, op: Op, size: int, stride: int, first: int, mask: str, *, store: bool = False) -> None:
        """Finds the bytes from the lowest to the highest active lane; opens a block that runs if a lane is active."""
        self.lines.append(
            f"i64 low, high; span_of({mask}, {first * size}, {stride * size}, {size}, &low, &high); "
            f"if (high > low) {{ {self.found(op, 'address + low', 'high - low', store=store)}"
        )

    def _perm(self, op: Op, node: Node, name: str, names: dict[Node, str]) -> None:
        def leaf(n: Node) -> str:
            return names[n] if n in names else self.leaf(n)

        a, b, mode = (self.ops.expression(x, leaf) for x in node.args)
        n, kind = node.lanes, self.ops.raw(node)
        fault = self.fault("outside", op.uid, "where")
        self.lines.append(
            f"{{ {kind} x = {a}, y = {b}; u64 where = {node.value}ull + {node.imm[0]}ull * ({mode}); "
            f"u8 *q = look_up(regions, 0, where, {n}, {KINDS[None]}, 0); if (UNLIKELY(!q)) {fault} "
            f"{name} = ({kind}){{0}}; for (int k = 0; k < {n}; k++) {{ int p = q[k] % {2 * n}; "
            f"{name}[k] = q[k] & 0x80 ? 0 : p < {n} ? x[p] : y[p - {n}]; }} }}"
        )

    def memory_text(self) -> tuple[str, list[str]]:
        """The declarations of what finds objects, and what sets it at a start."""
        told = ""
        if self.dma is not None:
            loaded = f"if (!(kind & {STORES}) && table == objects) loaded(a - s[0], n);"
            told = f"if (s[5] & {WORDS}) {{ {loaded} return (u8 *)(a + s[4]); }}"
        declared = [OBJECTS % {"fields": OBJECT_FIELDS, "stores": STORES, "tell": told}]
        declared.append(f"static near_t near[{max(len(self.near), 1)}];")
        start = ["  objects = tables[0]; regions = tables[1]; memset(near, 0, sizeof near);"]
        if self.dma is not None:
            declared.insert(0, ENGINE % {"fields": FIELDS, "last": table_size(self.dma) - 1})
            start.append(
                "  spans = engine[0]; tell_load = engine[1]; tell_store = engine[2]; words = engine[3]; held = 0;"
            )
        return "\n".join(declared), start

    def found(self, op: Op, address: str, size: str, *, store: bool = False) -> str:
        """Code that sets `q` to the host's pointer to bytes that the instruction may access, or ends the run."""
        assert op.access is not None
        fixed = size.isdigit()
        finder = self.finder(op.access.side, store=store, fixed=fixed)
        near = self.near.setdefault((op.uid, store, size if fixed else ""), len(self.near))
        refused = f"return stray(head, {FAULTS.index('outside')}, {op.uid}, {address}, {size}, {int(store)});"
        if not self.strict:
            number = self.check(op, STRAY)
            mark = f"if (!warned[{number}]) warned[{number}] = (u64)({size}) << {SIZE_SHIFT} | ({address}) + 1;"
            refused = f"{{ q = {finder}_anywhere({address}, {size}); if (!q) {refused} {mark} }}"
        return f"u8 *q = {finder}(near + {near}, {address}, {size}); if (UNLIKELY(!q)) {refused}"

    def finder(self, side: Side, *, store: bool, fixed: bool) -> str:
        """The function that turns an address into a host pointer, or null where no object of the side has it all, a
        transfer bars it, or it is below the stack pointer and to be written; the `_anywhere` one looks in all memory.
        `fixed`: each place asks for the same number of bytes every time."""
        name = f"find_{side}{'_to_store' if store else ''}{'' if fixed else '_span'}"
        if name not in self.finders:
            kind = KINDS[side] | (STORES if store else 0)
            barred = ""
            if self.dma is not None:
                barred = f"if (UNLIKELY(held) && barred(a, n, {int(store)})) return 0; "
            if store and self.code.stack is not None:
                pointer, lowest, zone = self.code.stack
                barred += f"if (UNLIKELY(a >= {lowest}ull && a + {zone} < {self.cell(pointer)})) return 0; "
            near = f"u64 o = a - near->low; if (o < near->room{'' if fixed else ' && n <= near->room - o'}) "
            near += f"return (u8 *)(a + near->to); return look_up(objects, near, a, n, {kind}, {int(fixed)});"
            self.finders[name] = f"INLINE u8 *{name}(near_t *near, u64 a, u64 n) {{ {barred}{near} }}"
            if not self.strict:
                rest = f"{barred}return look_up(regions, 0, a, n, {kind}, 0);"
                self.finders[name] += f"\nAPART u8 *{name}_anywhere(u64 a, u64 n) {{ {rest} }}"
        return name


def bits_of(lanes: int) -> str:
    """The mask with so many lanes active, in C."""
    return f"0x{(1 << lanes) - 1:x}ull"
