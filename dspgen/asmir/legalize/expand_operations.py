"""Operations in terms of others, for machines that lack them. Each way gives the same bits as the operation.

Where float comparisons decide, not-a-number counts as the operation's own definition says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dspgen.asmir.select.access_rows import is_pair_term
from dspgen.asmir.select.shuffles import pattern_of
from dspgen.vecdsl.ir.program import Const, Op, Term, VType

if TYPE_CHECKING:
    from dspgen.asmir.legalize.capabilities import Abilities

_LIMITS = {
    "sat8": (-(1 << 7), (1 << 7) - 1),
    "sat16": (-(1 << 15), (1 << 15) - 1),
    "satu8": (0, (1 << 8) - 1),
    "satu16": (0, (1 << 16) - 1),
}
_SIGN = -(1 << 31)


def lane_of(vector: Term, lane: int) -> Term:
    """One lane of a vector, as simply as it can be told."""
    scalar = VType(vector.type.elem, False)
    match vector:
        case Const(value):
            return Const(value, scalar)
        case Op("bcast", (inner,)):
            return inner
        case Op("vec", args):
            return args[lane]
        case Op("iota"):
            return Const(lane, scalar)
        case Op("mask_first", imm=(count,)):
            return Const(int(lane < count), scalar)
        case _:
            return Op("lane", (vector,), scalar, (lane,))


def half_of(pair: Term, part: str) -> Term:
    """The part `lo` or `hi` of a pair, as simply as it can be told."""
    if isinstance(pair, Op) and pair.name == "pair":
        return pair.args[part == "hi"]
    return Op(part, (pair,), pair.type)


def expanded(op: Op, able: Abilities, active: frozenset[tuple[str, VType]] = frozenset()) -> Term | None:
    """An equal term all of whose operations the machine can do, or None. The arguments, which it can do, are used
    several times."""
    key = (op.name, op.type)
    if key in active:
        return None
    for term in _ways(op, able.lanes):
        if (made := _spelled_out(term, op.args, able, active | {key})) is not None:
            return made
    return None


def _spelled_out(
    term: Term, given: tuple[Term, ...], able: Abilities, active: frozenset[tuple[str, VType]]
) -> Term | None:
    if not isinstance(term, Op) or any(term is a for a in given):
        return term
    args = []
    for arg in term.args:
        if (made := _spelled_out(arg, given, able, active)) is None:
            return None
        args.append(made)
    op = Op(term.name, tuple(args), term.type, term.imm)
    return op if able.direct(op) else expanded(op, able, active)


def _ways(op: Op, lanes: int) -> Iterator[Op]:
    """Candidates, the cheapest first."""
    if op.name.startswith("reduce_") and op.type.elem:
        yield _tree(op, lanes)
    elif op.name.startswith("all_"):
        scalar = VType(op.type.elem, False)
        yield Op("bcast", (Op(f"reduce_{op.name[4:]}", op.args, scalar),), op.type)
    elif (pattern := pattern_of(op, lanes)) is not None:
        yield from _shuffle(op, pattern, lanes)
    elif (way := _WAYS.get(op.name)) is not None:
        yield from way(op)


def _tree(op: Op, lanes: int) -> Op:
    """The reduction as its definition has it: the first half with the second, again and again."""
    name, scalar = op.name.removeprefix("reduce_"), op.type
    values = [lane_of(op.args[0], k) for k in range(lanes)]
    while len(values) > 1:
        half = len(values) // 2
        joined: list[Term] = [Op(name, (values[k], values[half + k]), scalar) for k in range(half)]
        values = joined + values[2 * half :]
    result = values[0]
    return result if isinstance(result, Op) else Op("mov", (result,), scalar)


def _shuffle(op: Op, pattern: tuple[int, ...], lanes: int) -> Iterator[Op]:
    """Another kind of shuffle with the same pattern, else lane by lane."""
    first, second = op.args[0], op.args[-1]
    if op.name != "shuffle2":
        yield Op("shuffle2", (first, second), op.type, pattern)
    if len(set(pattern)) == 1 and pattern[0] >= 0:
        source = first if pattern[0] < lanes else second
        yield Op("bcast", (lane_of(source, pattern[0] % lanes),), op.type)
    parts = tuple(
        Const(0, VType(op.type.elem, False)) if p < 0 else lane_of(first if p < lanes else second, p % lanes)
        for p in pattern
    )
    yield Op("vec", parts, op.type)


def _same(op: Op) -> Callable[..., Op]:
    """Makes operations of the type of `op`."""
    return lambda name, *args: Op(name, args, op.type)


def _constant(op: Op) -> Callable[[int], Const]:
    return lambda value: Const(value, op.type)


def _clamped(op: Op) -> Iterator[Op]:
    low, high = _LIMITS[op.name]
    make, number = _same(op), _constant(op)
    yield make("min", make("max", op.args[0], number(low)), number(high))


def _saturating(op: Op) -> Iterator[Op]:
    """a + b went beyond the end where it has another sign than a and than b; a - b likewise with ~b."""
    make, number = _same(op), _constant(op)
    a, b = op.args
    total = make("add" if op.name == "add_sat" else "sub", a, b)
    end = make("add", make("shr", a, number(31)), number(_SIGN))
    end = make("sub", number(-1), end)  # the least number where a is negative, else the greatest
    if op.name == "add_sat":
        # With b >= 0 the sum must not be less than a, else not greater.
        wrong = make("select", make("lt", b, number(0)), make("lt", a, total), make("lt", total, a))
    else:
        wrong = make("select", make("lt", b, number(0)), make("lt", total, a), make("lt", a, total))
    yield make("select", wrong, end, total)


def _mul16(op: Op) -> Iterator[Op]:
    make, number = _same(op), _constant(op)
    a, b = op.args
    yield make("mac16", a, b, number(0))
    yield make("mul", make("sext16", a), make("sext16", b))


def _mac16(op: Op) -> Iterator[Op]:
    make = _same(op)
    a, b, c = op.args
    yield make("add", make("mul", make("sext16", a), make("sext16", b)), c)


def _extension(op: Op) -> Iterator[Op]:
    make, number = _same(op), _constant(op)
    bits = int(op.name[4:])
    shift = number(32 - bits)
    if op.name.startswith("sext"):
        yield make("shr", make("shl", op.args[0], shift), shift)
    else:
        yield make("and", op.args[0], number((1 << bits) - 1))
        yield make("shru", make("shl", op.args[0], shift), shift)


def _extreme(op: Op) -> Iterator[Op]:
    """Of a number and not-a-number, the number."""
    a, b = op.args
    condition = VType("i32", op.type.vector)
    first = Op("lt", (a, b) if op.name == "min" else (b, a), condition)
    if op.type.elem not in ("f32", "f64"):
        yield Op("select", (first, a, b), op.type)
        return
    rest = Op("select", (Op("eq", (b, b), condition), b, a), op.type)
    yield Op("select", (first, a, rest), op.type)


def _comparison(op: Op) -> Iterator[Op]:
    """By the other comparisons; not-a-number compares false, but for `ne`."""
    make, number = _same(op), _constant(op)
    a, b = op.args
    whole = a.type.elem not in ("f32", "f64")
    flipped = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
    if op.name in flipped:
        yield make(flipped[op.name], b, a)
    if op.name == "ne":
        yield make("sub", number(1), make("eq", a, b))
        yield make("select", make("eq", a, b), number(0), number(1))
    if op.name == "eq" and whole:
        yield make("select", make("sub", a, b), number(0), number(1))
    if op.name == "eq" and not whole:
        yield make("select", make("le", a, b), make("le", b, a), number(0))
    if op.name in ("le", "ge") and whole:
        yield make("sub", number(1), make("lt", *((b, a) if op.name == "le" else (a, b))))
    if op.name in ("le", "ge") and not whole:
        left, right = (a, b) if op.name == "le" else (b, a)
        yield make("select", make("eq", a, b), number(1), make("lt", left, right))
    if op.name == "ltu":
        yield make("lt", make("add", a, number(_SIGN)), make("add", b, number(_SIGN)))
    if op.name == "lt" and whole:
        yield _without_overflow(op)


def _without_overflow(op: Op) -> Op:
    """The sign of the difference of halves, which can't overflow; the last bits decide where that is zero."""
    make, number = _same(op), _constant(op)
    a, b = op.args
    x, y = make("shr", a, number(1)), make("shr", b, number(1))
    last = make("sub", make("sub", a, make("add", x, x)), make("sub", b, make("add", y, y)))
    difference = make("add", make("sub", x, y), make("shr", last, number(1)))
    return make("neg", make("shr", difference, number(31)))


def _negated(op: Op) -> Iterator[Op]:
    zero = Const(-0.0 if op.type.elem in ("f32", "f64") else 0, op.type)
    yield Op("sub", (zero, op.args[0]), op.type)


def _difference(op: Op) -> Iterator[Op]:
    make = _same(op)
    yield make("add", op.args[0], make("neg", op.args[1]))


def _absolute(op: Op) -> Iterator[Op]:
    if op.type.elem not in ("f32", "f64"):
        make = _same(op)
        yield make("max", op.args[0], make("neg", op.args[0]))


def _multiply_add(op: Op) -> Iterator[Op]:
    make = _same(op)
    a, b, c = op.args
    whole = op.type.elem not in ("f32", "f64")
    match op.name:
        case "mac" if whole:
            yield make("add", make("mul", a, b), c)
        case "msub":
            yield make("mac", a, b, make("neg", c))
            if whole:
                yield make("sub", make("mul", a, b), c)
        case "nmac":
            yield make("mac", make("neg", a), b, c)
            if whole:
                yield make("sub", c, make("mul", a, b))


def _bits(op: Op) -> Iterator[Op]:
    """The complement, and what there is of and, or, exclusive or in terms of the others."""
    make, number = _same(op), _constant(op)
    if op.type.elem in ("f32", "f64"):
        return
    if op.name == "not":
        yield make("sub", number(-1), op.args[0])
        return
    a, b = op.args
    match op.name:
        case "and":
            yield make("sub", make("add", a, b), make("or", a, b))
        case "or":
            yield make("sub", make("add", a, b), make("and", a, b))
        case _:
            yield make("sub", make("or", a, b), make("and", a, b))


def _complex(op: Op) -> Iterator[Op]:
    make = _same(op)
    a, b = op.args[:2]
    (ar, ai), (br, bi) = ((half_of(x, "lo"), half_of(x, "hi")) for x in (a, b))
    match op.name:
        case "cmul_re":
            yield make("sub", make("mul", ar, br), make("mul", ai, bi))
        case "cmul_im":
            yield make("add", make("mul", ar, bi), make("mul", ai, br))
        case "cmul":
            yield make("pair", make("cmul_re", a, b), make("cmul_im", a, b))
        case _:
            c = op.args[2]
            real = make("add", make("cmul_re", a, b), half_of(c, "lo"))
            yield make("pair", real, make("add", make("cmul_im", a, b), half_of(c, "hi")))


def _both_halves(op: Op) -> Iterator[Op]:
    make = _same(op)
    low, high = ("zip_lo", "zip_hi") if op.name == "zip" else ("even", "odd")
    yield make("pair", make(low, *op.args), make(high, *op.args))


def _by_halves(op: Op) -> Iterator[Op]:
    make, sixteen = _same(op), Const(16, op.type)
    if op.name == "dup16":
        yield make("or", make("zext16", op.args[0]), make("shl", op.args[0], sixteen))
        return
    low, high = ([make(name, a, *more) for a in op.args[:2]] for name, more in (("sext16", ()), ("shr", (sixteen,))))
    made = [make("mul", *half) if len(half) > 1 else half[0] for half in (low, high)]
    if op.name == "mac16_pair":
        made = [make("add", x, half_of(op.args[2], part)) for x, part in zip(made, ("lo", "hi"), strict=True)]
    yield make("pair", *made)


def _pair_broadcast(op: Op) -> Iterator[Op]:
    if is_pair_term(op.args[0]):
        low, high = (Op("bcast", (half_of(op.args[0], part),), op.type) for part in ("lo", "hi"))
        yield Op("pair", (low, high), op.type)


_WAYS: dict[str, Callable[[Op], Iterator[Op]]] = {
    **dict.fromkeys(_LIMITS, _clamped),
    **dict.fromkeys(("add_sat", "sub_sat"), _saturating),
    **dict.fromkeys(("sext8", "sext16", "zext8", "zext16"), _extension),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("lt", "ltu", "gt", "le", "ge", "eq", "ne"), _comparison),
    **dict.fromkeys(("mac", "msub", "nmac"), _multiply_add),
    **dict.fromkeys(("and", "or", "xor", "not"), _bits),
    **dict.fromkeys(("cmul", "cmul_re", "cmul_im", "cmac"), _complex),
    **dict.fromkeys(("zip", "unzip"), _both_halves),
    **dict.fromkeys(("dup16", "unpack16", "mul16_pair", "mac16_pair"), _by_halves),
    "mul16": _mul16,
    "mac16": _mac16,
    "neg": _negated,
    "sub": _difference,
    "abs": _absolute,
    "bcast_pair": _pair_broadcast,
}
