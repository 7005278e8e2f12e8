"""The few lines of C++ that emitted code relies on: vector types, loads and stores, and C's and isl's odd functions."""

from __future__ import annotations

from backends.cpu.ir.math import VECTOR_FORMS, base_name
from backends.cpu.text import C_TYPES, Writer, type_name
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import DType

_OPERATORS = {"add": "a + b", "mul": "a * b", "and": "a & b", "or": "a | b", "xor": "a ^ b"}


def prelude(writer: Writer) -> list[str]:
    """The definitions that the text written so far uses, and no others."""
    lines = ["#include <stdlib.h>"]
    if any(h.startswith(("load_first:", "store_first:")) for h in writer.helpers):
        lines += ["#if defined __AVX512F__ && defined __AVX512VL__", "#include <immintrin.h>", "#endif"]
    lines += _functions(writer)
    vectors = sorted(writer.vectors)
    if vectors:
        lines.append("")
    lines += [line for dtype, lanes in vectors for line in _vector_type(dtype, lanes, writer.helpers)]
    for helper in sorted(writer.helpers):
        if ":" not in helper and helper not in ("load", "store"):
            lines += ["", *_helper(helper, strict=writer.strict)]
    for helper in sorted(h for h in writer.helpers if ":" in h):
        lines += ["", *_typed(helper)]
    return lines


def _typed(helper: str) -> list[str]:
    """A helper of one vector type."""
    if helper.startswith("reversed:"):
        return _reversed(helper)
    return _reduce(helper) if helper.startswith("reduce_") else _partial(helper)


def _functions(writer: Writer) -> list[str]:
    if not writer.functions:
        return []
    lines = [
        "",
        "#if defined __x86_64__ && defined __GLIBC__ && defined __FAST_MATH__ && !defined __clang__",
        '#define WITH_VECTOR_FORM __attribute__((simd("notinbranch")))',
        "#else",
        "#define WITH_VECTOR_FORM",
        "#endif",
    ]
    for name, dtype, count in sorted(writer.functions):
        kind = C_TYPES[dtype]
        mark = "WITH_VECTOR_FORM " if base_name(name) in VECTOR_FORMS else ""
        lines.append(f'extern "C" {mark}{kind} {name}({", ".join([kind] * count)}) noexcept;')
    return lines


def _vector_type(dtype: DType, lanes: int, helpers: set[str]) -> list[str]:
    name = type_name(dtype, lanes)
    size = lanes * size_of(dtype)
    lines = [f"typedef {C_TYPES[dtype]} {name} __attribute__((vector_size({size})));"]
    if helpers & {"load", "store"}:
        place = f"{name}_in_memory"
        attributes = f"vector_size({size}), aligned({size_of(dtype)}), may_alias"
        lines.append(f"typedef {C_TYPES[dtype]} {place} __attribute__(({attributes}));")
    if "load" in helpers:
        lines.append(f"static inline {name} load_{name}(const void *from) {{ return *(const {place} *)from; }}")
    if "store" in helpers:
        lines.append(f"static inline void store(void *to, {name} value) {{ *({place} *)to = value; }}")
    return lines


def _helper(name: str, *, strict: bool) -> list[str]:
    match name:
        case "index_min":
            return ["static inline long index_min(long a, long b) { return a < b ? a : b; }"]
        case "index_max":
            return ["static inline long index_max(long a, long b) { return a > b ? a : b; }"]
        case "floordiv":
            return [
                "static inline long floordiv(long a, long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }"
            ]
        case "splat":
            return [
                "template <class V, class T>",
                "static inline V splat(T value) {",
                "    V lanes;",
                "    for (unsigned k = 0; k < sizeof lanes / sizeof lanes[0]; k++) lanes[k] = value;",
                "    return lanes;",
                "}",
            ]
        case "least" | "greatest":
            sign = "<" if name == "least" else ">"
            # A NaN gives way to the other operand; of zeros, the first is taken, as the C library does.
            test = f"(a {sign}= b) | (b != b)" if strict else f"a {sign} b"
            return ["template <class T>", f"static inline T {name}(T a, T b) {{ return {test} ? a : b; }}"]
        case "magnitude":
            return [
                "template <class T>",
                "static inline T magnitude(T x) { return x <= 0 ? 0 - x : x; }",
            ]
        case "root":
            return [
                "template <class V>",
                "static inline V root(V x) {",
                "    for (unsigned k = 0; k < sizeof x / sizeof x[0]; k++) x[k] = __builtin_sqrt(x[k]);",
                "    return x;",
                "}",
                "template <>",
                "inline float root(float x) { return __builtin_sqrtf(x); }",
                "template <>",
                "inline double root(double x) { return __builtin_sqrt(x); }",
            ]
        case "allocate":
            return [
                "static inline void *allocate(long bytes) {",
                "    void *found = aligned_alloc(64, (size_t)(bytes > 0 ? (bytes + 63) / 64 * 64 : 64));",
                "    if (!found) abort();",
                "    return found;",
                "}",
            ]
    return []


def _partial(helper: str) -> list[str]:
    """A load or store of a vector's first lanes, which leaves the memory behind the others alone."""
    kind, dtype_text, lanes_text = helper.split(":")
    dtype: DType = next(d for d in C_TYPES if d == dtype_text)
    lanes = int(lanes_text)
    name, scalar = type_name(dtype, lanes), C_TYPES[dtype]
    bits = lanes * size_of(dtype) * 8
    suffix = {"f32": "ps", "f64": "pd", "i64": "epi64"}.get(dtype, "epi32")
    kinds = {"f32": "", "f64": "d"}.get(dtype, "i")
    prefix = "_mm" if bits == 128 else f"_mm{bits}"
    mask = f"(__mmask{max(lanes, 8)})((1u << count) - 1)"
    if kind == "load_first":
        head = f"static inline {name} load_first_{name}(const {scalar} *from, long count) {{"
        fast = [f"    return ({name}){prefix}_maskz_loadu_{suffix}({mask}, from);"]
        slow = [
            f"    {name} lanes = {{}};",
            "    for (long k = 0; k < count; k++) lanes[k] = from[k];",
            "    return lanes;",
        ]
    else:
        head = f"static inline void store_first({scalar} *to, {name} lanes, long count) {{"
        fast = [f"    {prefix}_mask_storeu_{suffix}(to, {mask}, (__m{bits}{kinds})lanes);"]
        slow = ["    for (long k = 0; k < count; k++) to[k] = lanes[k];"]
    return [head, "#if defined __AVX512F__ && defined __AVX512VL__", *fast, "#else", *slow, "#endif", "}"]


def _reversed(helper: str) -> list[str]:
    _, dtype_text, lanes_text = helper.split(":")
    name = type_name(next(d for d in C_TYPES if d == dtype_text), int(lanes_text))
    order = ", ".join(str(k) for k in reversed(range(int(lanes_text))))
    return [f"static inline {name} reversed({name} x) {{ return __builtin_shufflevector(x, x, {order}); }}"]


def _reduce(helper: str) -> list[str]:
    """Halves combined until one lane is left."""
    kind, dtype_text, lanes_text = helper.removeprefix("reduce_").split(":")
    dtype: DType = next(d for d in C_TYPES if d == dtype_text)
    lanes = int(lanes_text)
    scalar = C_TYPES[dtype]
    lines = [f"static inline {scalar} reduce_{kind}({type_name(dtype, lanes)} x{lanes}) {{"]
    while lanes > 2:
        half = lanes // 2
        low = ", ".join(map(str, range(half)))
        high = ", ".join(map(str, range(half, lanes)))
        a = f"__builtin_shufflevector(x{lanes}, x{lanes}, {low})"
        b = f"__builtin_shufflevector(x{lanes}, x{lanes}, {high})"
        lines.append(f"    {type_name(dtype, half)} x{half} = {_combine(kind, a, b, type_name(dtype, half))};")
        lanes = half
    lines += [f"    return {_combine(kind, 'x2[0]', 'x2[1]', scalar)};", "}"]
    return lines


def _combine(kind: str, a: str, b: str, type_text: str) -> str:
    if kind in ("min", "max"):
        return f"{'least' if kind == 'min' else 'greatest'}<{type_text}>({a}, {b})"
    symbol = _OPERATORS[kind][2]
    return f"{a} {symbol} {b}"
