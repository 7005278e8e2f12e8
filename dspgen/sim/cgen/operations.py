"""Nodes as C: one small inline function for each operation, type and lane count that a program uses.

Values are unsigned elements, as in the Python machine: `u32` for a scalar, `u32x16` for 16 lanes (rounded up to a power
of two: lanes beyond the last hold nothing that is ever used). Each function views them as its operation's own type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dspgen.sim.ir.program import Node
from dspgen.sim.ir.semantics import ONE_NAN

PRELUDE = r"""
#include <stdint.h>
#include <string.h>
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
typedef int8_t i8; typedef int16_t i16; typedef int32_t i32; typedef int64_t i64;
typedef float f32; typedef double f64;
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline, unused))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
INLINE f32 rcp_f32(f32 a) {
  u32 b; a = 1.0f / a; memcpy(&b, &a, 4);
  if ((b & 0x7F800000u) != 0x7F800000u) b = (b + 0x3FFFu + ((b >> 15) & 1)) & ~0x7FFFu;
  memcpy(&a, &b, 4); return a; }
INLINE f64 round8_f64(f64 a) {
  u64 b; memcpy(&b, &a, 8);
  if ((b & 0x7FF0000000000000ull) != 0x7FF0000000000000ull)
    b = (b + ((1ull << 43) - 1) + ((b >> 44) & 1)) & ~((1ull << 44) - 1);
  memcpy(&a, &b, 8); return a; }
INLINE f64 rcp_f64(f64 a) { return round8_f64(1.0 / a); }
INLINE f32 rsqrt_f32(f32 a) {
  u32 b; a = (f32)(1.0 / __builtin_sqrt((f64)a)); memcpy(&b, &a, 4);
  if ((b & 0x7F800000u) != 0x7F800000u) b = (b + 0x3FFFu + ((b >> 15) & 1)) & ~0x7FFFu;
  memcpy(&a, &b, 4); return a; }
INLINE f64 rsqrt_f64(f64 a) { return round8_f64(1.0 / __builtin_sqrt(a)); }
INLINE i64 clamp(i64 a, i64 low, i64 high) { return a < low ? low : a > high ? high : a; }
INLINE i32 to_i32(f64 a) {
  return a != a ? 0 : a <= -2147483648.0 ? INT32_MIN : a >= 2147483647.0 ? INT32_MAX : (i32)a; }

static __attribute__((noinline, cold)) int refuse(u64 *head, u64 kind, u64 where, u64 detail) {
  head[1] = kind; head[2] = where; head[3] = detail; return 1; }
APART void span_of(u64 mask, i64 first, i64 step, i64 size, i64 *low, i64 *high) {
  *low = INT64_MAX; *high = INT64_MIN;
  for (i64 at = first; mask; at += step, mask >>= 1) if (mask & 1) {
    if (at < *low) *low = at;
    if (at + size > *high) *high = at + size; } }
#define LANES(W) \
APART u64 bits_##W(const void *v, int n) { u64 m = 0; u##W e; \
  for (int k = 0; k < n; k++) { memcpy(&e, (const u8 *)v + k * sizeof e, sizeof e); m |= (u64)(e != 0) << k; } \
  return m; } \
APART void blend_##W(void *d, const void *v, u64 m) { \
  for (int k = 0; m; k++, m >>= 1) if (m & 1) memcpy((u8 *)d + k * (W / 8), (const u8 *)v + k * (W / 8), W / 8); } \
APART void gather_##W(void *d, const u8 *q, u64 m, i64 first, i64 step) { \
  for (int k = 0; m; k++, m >>= 1) if (m & 1) memcpy((u8 *)d + k * (W / 8), q + first + k * step, W / 8); } \
APART void scatter_##W(u8 *q, const void *v, u64 m, i64 first, i64 step) { \
  for (int k = 0; m; k++, m >>= 1) if (m & 1) memcpy(q + first + k * step, (const u8 *)v + k * (W / 8), W / 8); }
LANES(8) LANES(16) LANES(32) LANES(64)
"""

# C for one element; a, b, c are typed. %E is the element type, %U its unsigned twin, %W its bits, %F the float suffix.
_ELEMENT = {
    "add": "a + b",
    "sub": "a - b",
    "mul": "a * b",
    "neg": "-a",
    "and": "a & b",
    "or": "a | b",
    "xor": "a ^ b",
    "not": "~a",
    "mov": "a",
    "min": "(a < b || b != b) ? a : b",
    "max": "(a > b || b != b) ? a : b",
    "shl": "(%U)b >= %W ? 0 : (%E)((%U)a << b)",
    "shru": "(%U)b >= %W ? 0 : (%E)((%U)a >> b)",
    "lt": "a < b",
    "gt": "a > b",
    "le": "a <= b",
    "ge": "a >= b",
    "eq": "a == b",
    "ne": "a != b",
    "select": "a != 0 ? b : c",
    "sext8": "(i8)a",
    "sext16": "(i16)a",
    "zext8": "(u8)a",
    "zext16": "(u16)a",
    "mac16": "(%E)(i16)a * (%E)(i16)b + c",
    "mul16": "(%E)(i16)a * (%E)(i16)b",
    "add_sat": "(i32)clamp((i64)a + b, INT32_MIN, INT32_MAX)",
    "sub_sat": "(i32)clamp((i64)a - b, INT32_MIN, INT32_MAX)",
    "sat8": "(i32)clamp(a, -128, 127)",
    "sat16": "(i32)clamp(a, -32768, 32767)",
    "satu8": "(i32)clamp(a, 0, 255)",
    "satu16": "(i32)clamp(a, 0, 65535)",
    "rcp_est": "rcp_%E(a)",
    "rsqrt_est": "rsqrt_%E(a)",
    "sqrt": "__builtin_sqrt%F(a)",
    "cvt_i32_f32": "(f32)a",
    "cvt_u32_f32": "(f32)a",
    "cvt_i32_f64": "(f64)a",
    "cvt_f32_i32": "to_i32(a)",
    "cvt_f64_i32": "to_i32(a)",
    "cvt_f32_f64": "(f64)a",
    "cvt_f64_f32": "(f32)a",
}
_FLOAT = {
    "mac": "__builtin_fma%F(a, b, c)",
    "msub": "__builtin_fma%F(a, b, -c)",
    "nmac": "__builtin_fma%F(-a, b, c)",
    "abs": "__builtin_fabs%F(a)",
    "div": "a / b",
}
_INTEGER = {"mac": "a * b + c", "msub": "a * b - c", "nmac": "c - a * b"}
_SIGNED = {
    "abs": "a < 0 ? -a : a",
    "shr": "a >> ((%U)b >= %W ? %W - 1 : (%U)b)",
    "div": "b == 0 ? 0 : b == -1 ? -a : a / b",
    "mod": "b == 0 || b == -1 ? 0 : a % b",
    "mulhi": "(%E)(((%D)a * (%D)b) >> %W)",
}
_UNSIGNED = {
    "abs": "a",
    "shr": "(%U)b >= %W ? 0 : a >> b",
    "div": "b == 0 ? 0 : a / b",
    "mod": "b == 0 ? 0 : a % b",
    "mulhi": "(%E)(((%D)a * (%D)b) >> %W)",
}
_NAN_BITS = {
    32: ("0x7FC00000u", "0x7F800000u", "0x7FFFFFFFu"),
    64: ("0x7FF8000000000000ull", "0x7FF0000000000000ull", "0x7FFFFFFFFFFFFFFFull"),
}
_DOUBLED = {"i8": "i16", "i16": "i32", "i32": "i64", "u8": "u16", "u16": "u32", "u32": "u64"}
_WHOLE = frozenset({"add", "sub", "mul", "neg", "and", "or", "xor", "not", "mov", "zext16", "zext8"})
_WHOLE_COMPARE = {"lt": "<", "gt": ">", "le": "<=", "ge": ">=", "eq": "==", "ne": "!="}
_FUSED = {"mac": ("a", "c"), "msub": ("a", "-c"), "nmac": ("-a", "c")}


def lanes_of_type(lanes: int) -> int:
    """Lanes of the C vector type that holds `lanes`."""
    return max(2, 1 << (lanes - 1).bit_length())


def ctype(elem: str, lanes: int) -> str:
    return f"{elem}x{lanes_of_type(lanes)}" if lanes else elem


def raw(node: Node) -> str:
    return ctype(f"u{node.width}", node.lanes)


@dataclass(slots=True)
class Operations:
    """The types and functions that a program's nodes need, in order of first use."""

    types: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)

    def type(self, elem: str, lanes: int) -> str:
        name = ctype(elem, lanes)
        if lanes and name not in self.types:
            size = int(elem[1:]) // 8 * lanes_of_type(lanes)
            self.types[name] = f"typedef {elem} {name} __attribute__((vector_size({size})));"
        return name

    def raw(self, node: Node) -> str:
        return self.type(f"u{node.width}", node.lanes)

    def text(self) -> str:
        return "\n".join([PRELUDE, *self.types.values(), *self.functions.values(), ""])

    def expression(self, node: Node, leaf: Callable[[Node], str]) -> str:
        """C for the node's value; `leaf` gives registers, the address, and what memory held."""
        match node.op:
            case "const":
                return f"(u{node.width})0x{node.value:x}ull"
            case "read" | "read_lane" | "new" | "address" | "load" | "gather" | "perm":
                return leaf(node)
            case "retag":
                return self.expression(node.args[0], leaf)
        args = [self.expression(a, leaf) for a in node.args]
        if node.op == "cast" and node.lanes == 0:
            return self._scalar_cast(node, args[0])
        return f"{self._function(node)}({', '.join(args)})"

    @staticmethod
    def _scalar_cast(node: Node, arg: str) -> str:
        (source,) = node.args
        if node.width <= source.width or not (node.elem[0] == "i" and source.elem[0] == "i"):
            return f"(u{node.width})({arg})"
        return f"(u{node.width})(i{node.width})(i{source.width})({arg})"

    def _function(self, node: Node) -> str:
        kinds = "_".join(f"{a.elem}{'v' if a.lanes else ''}" for a in node.args)
        imm = "_".join(str(i).replace("-", "m") for i in node.imm)
        name = f"op_{node.op}_{node.elem}_{node.lanes}_{kinds}_{imm}"
        if name not in self.functions:
            parameters = ", ".join(f"{self.raw(a)} {n}" for a, n in zip(node.args, "xyz", strict=False)) or "void"
            body = self._body(node)
            # Short bodies are inlined; a call is cheap beside a loop over lanes, and compiles much faster.
            how = "APART" if "for (" in body or node.lanes * node.width > 512 else "INLINE"
            self.functions[name] = f"{how} {self.raw(node)} {name}({parameters}) {{ {body} }}"
        return name

    def _body(self, node: Node) -> str:
        structural = getattr(self, "_do_" + node.op, None)
        if structural is not None:
            return str(structural(node))
        if node.lanes and all(a.lanes for a in node.args):
            return self._one_nan(node, self._vector(node))
        (elem,) = {node.elem} if not node.args else {node.args[-1].elem}
        text = self._element(node.op, elem if node.op not in ("cvt",) else node.elem)
        declared = "".join(
            f"{a.elem} {n}; memcpy(&{n}, &{v}, sizeof {n}); " for a, n, v in zip(node.args, "abc", "xyz", strict=False)
        )
        return self._one_nan(
            node, f"{declared}{node.elem} r = {text}; u{node.width} o; memcpy(&o, &r, sizeof o); return o;"
        )

    def _one_nan(self, node: Node, body: str) -> str:
        """Arithmetic's NaN is always the same one; see `dspgen.sim.ir.semantics`."""
        if node.op not in ONE_NAN or node.elem[0] != "f":
            return body
        head, _, value = body.rpartition("return ")
        quiet, infinity, magnitude = _NAN_BITS[node.width]
        out = self.raw(node)
        keep = f"{head}{out} w = {value} "
        if node.lanes == 0:
            return f"{keep}return (w & {magnitude}) > {infinity} ? {quiet} : w;"
        # No comparison: GCC would make it a masked load of the constant, and a masked load that no lane takes costs a
        # microcode assist each time for as long as nothing has touched the constant's page.
        sign = self.type(f"i{node.width}", node.lanes)
        test = f"({sign})({infinity} - (w & {magnitude})) >> {node.width - 1}"
        return f"{keep}{out} n = ({out})({test}); return (w & ~n) | (n & {quiet});"

    @staticmethod
    def _element(op: str, elem: str) -> str:
        table = _FLOAT if elem[0] == "f" else _INTEGER | (_SIGNED if elem[0] == "i" else _UNSIGNED)
        text = table.get(op) or _ELEMENT[op]
        twin = "u" + elem[1:]
        for key, value in (
            ("%E", elem),
            ("%U", twin),
            ("%W", elem[1:]),
            ("%F", "f" if elem == "f32" else ""),
            ("%D", _DOUBLED.get(elem, "__int128" if elem == "i64" else "unsigned __int128")),
        ):
            text = text.replace(key, value)
        return text

    def _vector(self, node: Node) -> str:
        views = [self.type(a.elem, a.lanes) for a in node.args]
        typed = "".join(f"{t} {n} = ({t}){v}; " for t, n, v in zip(views, "abc", "xyz", strict=False))
        elem, result = node.args[-1].elem, self.type(node.elem, node.lanes)
        out = self.raw(node)
        if node.op in _WHOLE and node.elem == elem:
            whole = {"zext16": "a & 0xFFFF", "zext8": "a & 0xFF"}.get(node.op) or _ELEMENT[node.op]
            return f"{typed}return ({out})({whole});"
        if node.op in _WHOLE_COMPARE and int(elem[1:]) == node.width:
            return f"{typed}return ({out})(a {_WHOLE_COMPARE[node.op]} b) & 1;"
        if node.op == "select":
            mask = self.type(node.args[0].elem, node.lanes)
            return f"{typed}{mask} m = a != 0; return ({out})(({mask})b & m | ({mask})c & ~m);"
        if node.op in ("shl", "shru", "shr") and elem[0] in "iu":
            return self._shift(node, elem)
        if node.op in _FUSED and elem[0] == "f":
            a, c = _FUSED[node.op]
            return f"{typed}return ({out}){self._fma(elem, node.lanes)}({a}, b, {c});"
        if node.op in _FUSED:
            return f"{typed}return ({out})({_INTEGER[node.op]});"
        text = self._element(node.op, elem)
        names = "".join(f"{a.elem} {n} = v{n}[k]; " for a, n in zip(node.args, "abc", strict=False))
        vectors = "".join(f"{t} v{n} = ({t}){v}; " for t, n, v in zip(views, "abc", "xyz", strict=False))
        loop = f"for (int k = 0; k < {node.lanes}; k++) {{ {names}r[k] = {text}; }}"
        return f"{vectors}{result} r = {{0}}; {loop} return ({out})r;"

    def _shift(self, node: Node, elem: str) -> str:
        width = int(elem[1:])
        u, s = self.type(f"u{width}", node.lanes), self.type(f"i{width}", node.lanes)
        if node.op == "shr" and elem[0] == "i":
            return f"{u} m = ({u})(y < {width}); {u} n = (y & m) | ({width - 1} & ~m); return ({u})(({s})x >> ({s})n);"
        sign = "<<" if node.op == "shl" else ">>"
        return f"{u} m = ({u})(y < {width}); return (x {sign} (y & {width - 1})) & m;"

    def _fma(self, elem: str, lanes: int) -> str:
        """A whole-vector fused multiply-add; inline assembly, as generic C has no vector form that always fuses."""
        name, vector = f"fma_{elem}_{lanes_of_type(lanes)}", self.type(elem, lanes)
        size = int(elem[1:]) // 8 * lanes_of_type(lanes)
        if name in self.functions:
            return name
        letters = "ps" if elem == "f32" else "pd"
        loop = (
            f"{vector} r; for (int k = 0; k < {lanes_of_type(lanes)}; k++) "
            f"r[k] = __builtin_fma{'f' if elem == 'f32' else ''}(a[k], b[k], c[k]); return r;"
        )
        versions = []
        for guard, chunk, constraint in (("__AVX512F__", 64, "v"), ("__FMA__", 32, "x"), ("__FMA__", 16, "x")):
            if size % chunk:
                continue
            part = f"{elem}x{chunk * 8 // int(elem[1:])}"
            self.type(elem, chunk * 8 // int(elem[1:]))
            step = (
                f'__asm__("vfmadd213{letters} %2, %1, %0" : "+{constraint}"(p) : "{constraint}"(q), "{constraint}"(r));'
            )
            if size == chunk:
                code = f"{part} p = a, q = b, r = c; {step} return p;"
            else:
                code = (
                    f"for (int k = 0; k < {size // chunk}; k++) {{ {part} p, q, r; "
                    f"memcpy(&p, (char*)&a + {chunk} * k, {chunk}); memcpy(&q, (char*)&b + {chunk} * k, {chunk}); "
                    f"memcpy(&r, (char*)&c + {chunk} * k, {chunk}); {step} "
                    f"memcpy((char*)&a + {chunk} * k, &p, {chunk}); }} return a;"
                )
            versions.append((guard, code))
        text = f"INLINE {vector} {name}({vector} a, {vector} b, {vector} c) {{\n"
        for i, (guard, code) in enumerate(versions):
            text += f"#{'el' if i else ''}if defined({guard})\n{code}\n"
        text += f"#else\n{loop}\n#endif\n}}" if versions else f"{loop}\n}}"
        self.functions[name] = text
        return name

    # Structural operations: each gives a function body over x, y, z

    def _do_cast(self, node: Node) -> str:
        (arg,) = node.args
        sign = "i" if node.elem[0] == "i" and arg.elem[0] == "i" else "u"
        source, target = self.type(f"{sign}{arg.width}", node.lanes), self.type(f"{sign}{node.width}", node.lanes)
        return f"return ({self.raw(node)})__builtin_convertvector(({source})x, {target});"

    def _do_view(self, node: Node) -> str:
        size = node.width // 8 * node.lanes
        return f"{self.raw(node)} r = {{0}}; memcpy(&r, &x, {size}); return r;"

    def _do_splat(self, node: Node) -> str:
        return f"return x - ({self.raw(node)}){{0}};"

    def _do_cat(self, node: Node) -> str:
        half = node.args[0].width
        if node.lanes == 0:
            return f"return (u{node.width})x | ((u{node.width})y << {half});"
        wide = self.raw(node)
        return f"return __builtin_convertvector(x, {wide}) | (__builtin_convertvector(y, {wide}) << {half});"

    def _half(self, node: Node, shift: int) -> str:
        if node.lanes == 0:
            return f"return (u{node.width})(x >> {shift});"
        return f"return __builtin_convertvector(x >> {shift}, {self.raw(node)});"

    def _do_lo(self, node: Node) -> str:
        return self._half(node, 0)

    def _do_hi(self, node: Node) -> str:
        return self._half(node, node.width)

    def _extend(self, node: Node, sign: str) -> str:
        up = node.width - node.imm[0]
        if up <= 0:
            return "return x;"
        kind = self.type(f"{sign}{node.width}", node.lanes)
        return f"return ({self.raw(node)})(({kind})(x << {up}) >> {up});"

    def _do_sext(self, node: Node) -> str:
        return self._extend(node, "i")

    def _do_zext(self, node: Node) -> str:
        return self._extend(node, "u")

    def _do_bits(self, node: Node) -> str:
        high, low = node.imm
        return f"return (x >> {low}) & (u{node.width})0x{(1 << (high - low + 1)) - 1:x}ull;"

    def _do_set_high(self, node: Node) -> str:
        keep = ~0xFFFF0000 & ((1 << node.width) - 1)
        return f"return (x & (u{node.width})0x{keep:x}ull) | ((y & 0xFFFF) << 16);"

    def _do_iota(self, node: Node) -> str:
        return self._fill(node, "k")

    def _do_mask_first(self, node: Node) -> str:
        return self._fill(node, f"k < {node.imm[0]}")

    def _do_mask_period(self, node: Node) -> str:
        period, low, high = node.imm
        return self._fill(node, f"{low} <= k % {period} && k % {period} < {high}")

    def _fill(self, node: Node, text: str) -> str:
        kind = self.type(node.elem, node.lanes)
        return f"{kind} r = {{0}}; for (int k = 0; k < {node.lanes}; k++) r[k] = {text}; return ({self.raw(node)})r;"

    def _do_lane(self, node: Node) -> str:
        return f"return x[{node.imm[0] % node.args[0].lanes}];"

    def _do_insert(self, node: Node) -> str:
        return f"x[{node.imm[0] % node.lanes}] = y; return x;"

    def _do_rotate(self, node: Node) -> str:
        place = f"(u64)(k + (i64)(i32)y + (1ll << 40) * {node.lanes}) % {node.lanes}"
        return f"{self.raw(node)} r; for (int k = 0; k < {node.lanes}; k++) r[k] = x[{place}]; return r;"

    def _do_slide(self, node: Node) -> str:
        return self._pick(node, f"k + ((u32)z) % {node.lanes}")

    def _do_dup_lane(self, node: Node) -> str:
        return f"return x[{node.imm[0] % node.lanes}] - ({self.raw(node)}){{0}};"

    def _pick(self, node: Node, index: str) -> str:
        n = node.lanes
        both = f"u{node.width} t[{2 * n}]; for (int k = 0; k < {n}; k++) {{ t[k] = x[k]; t[{n} + k] = y[k]; }} "
        return f"{both}{self.raw(node)} r = {{0}}; for (int k = 0; k < {n}; k++) r[k] = t[{index}]; return r;"

    def _do_align(self, node: Node) -> str:
        return self._pick(node, f"k + {node.imm[0]}")

    def _do_even(self, node: Node) -> str:
        return self._pick(node, "2 * k")

    def _do_odd(self, node: Node) -> str:
        return self._pick(node, "2 * k + 1")

    def _do_zip_lo(self, node: Node) -> str:
        return self._pick(node, f"k / 2 + (k & 1) * {node.lanes}")

    def _do_zip_hi(self, node: Node) -> str:
        n = node.lanes
        return self._pick(node, f"(k + {n}) / 2 + ((k + {n}) & 1) * {n}")

    def _taken(self, node: Node, pattern: Sequence[int]) -> str:
        """Lane k is lane pattern[k] of the arguments one after the other."""
        table = f"static const u16 from[{node.lanes}] = {{{', '.join(str(max(p, 0)) for p in pattern)}}}; "
        both = node if len(node.args) == 2 else replace(node, args=node.args * 2)
        return table + self._pick(both, "from[k]").replace("y[k]", "x[k]" if len(node.args) == 1 else "y[k]")

    def _do_shuffle(self, node: Node) -> str:
        return self._taken(node, node.imm)

    def _do_shuffle2(self, node: Node) -> str:
        return self._taken(node, node.imm)

    def _do_transpose(self, node: Node) -> str:
        (rows,) = node.imm
        return self._taken(node, [k % rows * (node.lanes // rows) + k // rows for k in range(node.lanes)])

    def _do_concat(self, node: Node) -> str:
        (count,) = node.imm
        return self._taken(node, [k if k < count else node.lanes + k - count for k in range(node.lanes)])

    def _everywhere(self, node: Node, op: str) -> str:
        (arg,) = node.args
        kind, elem = self.type(arg.elem, arg.lanes), arg.elem
        out, twin = self.raw(node), f"u{node.width}"
        return (
            f"{kind} v = ({kind})x; {elem} a = v[0]; "
            f"for (int k = 1; k < {arg.lanes}; k++) {{ {elem} b = v[k]; a = {op}; }} "
            f"{twin} o; memcpy(&o, &a, sizeof o); return o - ({out}){{0}};"
        )

    def _do_all_add(self, node: Node) -> str:
        return self._one_nan(node, self._everywhere(node, "a + b"))

    def _do_all_min(self, node: Node) -> str:
        return self._everywhere(node, _ELEMENT["min"])

    def _do_all_max(self, node: Node) -> str:
        return self._everywhere(node, _ELEMENT["max"])

    def _do_reduce_mul(self, node: Node) -> str:
        return self._one_nan(node, self._fold(node, "a * b"))

    def _do_reduce_and(self, node: Node) -> str:
        return self._fold(node, "a & b")

    def _do_reduce_or(self, node: Node) -> str:
        return self._fold(node, "a | b")

    def _do_reduce_xor(self, node: Node) -> str:
        return self._fold(node, "a ^ b")

    def _do_reverse(self, node: Node) -> str:
        n = node.lanes
        return f"{self.raw(node)} r = {{0}}; for (int k = 0; k < {n}; k++) r[k] = x[{n - 1} - k]; return r;"

    def _fold(self, node: Node, text: str) -> str:
        (arg,) = node.args
        kind, elem = self.type(arg.elem, arg.lanes), arg.elem
        return (
            f"{kind} v = ({kind})x; {elem} a = v[0]; "
            f"for (int k = 1; k < {arg.lanes}; k++) {{ {elem} b = v[k]; a = {text}; }} "
            f"u{node.width} o; memcpy(&o, &a, sizeof o); return o;"
        )

    def _do_reduce_add(self, node: Node) -> str:
        return self._one_nan(node, self._fold(node, "a + b"))

    def _do_reduce_min(self, node: Node) -> str:
        return self._fold(node, _ELEMENT["min"])

    def _do_reduce_max(self, node: Node) -> str:
        return self._fold(node, _ELEMENT["max"])
