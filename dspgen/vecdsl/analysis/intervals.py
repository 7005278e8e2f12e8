"""What numbers an operation can give, from what its operands can be: 32-bit integers that do not wrap."""

from __future__ import annotations

from collections.abc import Sequence

from dspgen.vecdsl.ir.terms import COMPARISONS

Interval = tuple[int, int]

WORD: Interval = (-(1 << 31), (1 << 31) - 1)
NARROW_MEMORY: dict[str, Interval] = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535)}
_RESULTS: dict[str, Interval] = {
    **{f"sext{k}": NARROW_MEMORY[f"i{k}"] for k in (8, 16)},
    **{f"zext{k}": NARROW_MEMORY[f"u{k}"] for k in (8, 16)},
    **{f"sat{k}": NARROW_MEMORY[f"i{k}"] for k in (8, 16)},
    **{f"satu{k}": NARROW_MEMORY[f"u{k}"] for k in (8, 16)},
    **dict.fromkeys((*COMPARISONS, "mask_first", "mask_period"), (0, 1)),
}
# The result is one of the operands' lanes. A shuffle's isn't: its open lanes are anything.
_PASSES = frozenset("bcast lane dup_lane reverse lo hi align even odd zip_lo zip_hi pair bcast_pair mov insert "
                    "transpose concat vec all_min all_max reduce_min reduce_max".split())  # fmt: skip


def interval_of(name: str, elem: str, args: Sequence[Interval | None]) -> Interval | None:
    """Bounds of an operation's value; None where they aren't known to hold without wrapping."""
    if name in ("shr", "shru") and args[0] is None:
        return _shifted(name, elem, args[1])
    if name in _RESULTS:
        result, given = _RESULTS[name], args[0] if args else None
        kept = given is not None and name not in COMPARISONS and _within(given, result)
        return given if kept else result
    if name == "and" and (known := [a for a in args if a is not None and a[0] >= 0]):
        return _computed(name, args) if len(known) == len(args) else (0, min(a[1] for a in known))
    return _computed(name, args) if args else None


def _within(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _shifted(name: str, elem: str, count: Interval | None) -> Interval | None:
    """What a shift leaves of any word."""
    if count is None or count[0] != count[1] or not 0 <= count[0] < 32 or elem != "i32":
        return None
    low, high = WORD[0] >> count[0], WORD[1] >> count[0]
    return (low, high) if name == "shr" or count[0] == 0 else (0, high - low)


def _computed(name: str, given: Sequence[Interval | None]) -> Interval | None:
    args = [a for a in given if a is not None]
    if len(args) < len(given):
        return None
    low, high = min(a[0] for a in args), max(a[1] for a in args)
    match name:
        case op if op in _PASSES:
            pass
        case "min":
            high = min(a[1] for a in args)
        case "max":
            low = max(a[0] for a in args)
        case "abs":
            low, high = 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))
        case "and" if args[0][0] >= 0 or args[1][0] >= 0:
            low, high = 0, min(a[1] for a in args if a[0] >= 0)
        case "or" | "xor" if low >= 0:
            low, high = 0, (1 << high.bit_length()) - 1
        case "mul" | "mul16" if name == "mul" or all(_within(a, NARROW_MEMORY["i16"]) for a in args):
            products = [x * y for x in args[0] for y in args[1]]
            low, high = min(products), max(products)
        case "shl" if args[1][0] == args[1][1] and 0 <= args[1][0] < 32:
            low, high = args[0][0] << args[1][0], args[0][1] << args[1][0]
        case "shr" if args[1][0] == args[1][1] and 0 <= args[1][0] < 32:
            low, high = args[0][0] >> args[1][0], args[0][1] >> args[1][0]
        case "shru" if args[1][0] == args[1][1] and 0 <= args[1][0] < 32 and args[0][0] >= 0:
            low, high = args[0][0] >> args[1][0], args[0][1] >> args[1][0]
        case "add":
            low, high = args[0][0] + args[1][0], args[0][1] + args[1][1]
        case "sub":
            low, high = args[0][0] - args[1][1], args[0][1] - args[1][0]
        case "neg":
            low, high = -args[0][1], -args[0][0]
        case "select":
            low, high = min(a[0] for a in args[1:]), max(a[1] for a in args[1:])
        case _:
            return None
    return (low, high) if WORD[0] <= low and high <= WORD[1] else None
