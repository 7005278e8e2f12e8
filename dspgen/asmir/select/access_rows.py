"""Which rows of the ISA file do an access of the vector DSL, and small questions about its terms."""

from __future__ import annotations

from dspgen.target.query.operations import Form, OperationTable, bits_elem, word_keys
from dspgen.vecdsl.ir.program import PAIRS, Const, Load, Op, Store, Term, VType
from dspgen.vecdsl.ir.terms import leaves, second_half


def is_pair_term(term: Term) -> bool:
    """Whether a term's value is a register pair of two values (a 64-bit element is one value)."""
    match term:
        case Op(name) if name in PAIRS:
            return True
        case Op("mov", (inner,)) | Op("select", (_, inner, _)):
            return is_pair_term(inner)
        case _:
            return False


def is_word(type: VType) -> bool:
    """Whether a lane of the type is 32 bits wide."""
    return type.elem not in ("f64", "i64")


def loads_any(term: Term, arrays: set[str]) -> bool:
    """Whether the term loads from one of the arrays."""
    return any(isinstance(leaf, Load) and leaf.array in arrays for leaf in leaves(term))


def lane_constants(term: Op, lanes: int) -> tuple[int | float, ...] | None:
    """The lanes of a vector that is known beforehand."""
    match term.name, term.imm:
        case "vec", _ if all(isinstance(a, Const) for a in term.args):
            return tuple(a.value for a in term.args if isinstance(a, Const))
        case "iota", _:
            return tuple(range(lanes))
        case "mask_first", (count,):
            return tuple(int(k < count) for k in range(lanes))
        case "mask_period", (period, first, end):
            return tuple(int(first <= k % period < end) for k in range(lanes))
        case _:
            return None


def scattered(access: Load | Store) -> bool:
    """Whether each lane's place is computed by itself."""
    return access.index is not None and access.index.type.vector


def load_forms(table: OperationTable, load: Load) -> list[Form]:
    """The rows that do a load with its stride, or a gather by its index; whatever its mask."""
    elem = bits_elem(load.elem)
    if not load.type.vector:
        return table.forms("ld", elem)
    if scattered(load):
        plain = not load.period and load.stride == 0
        return table.forms("gather", elem) if plain else []
    return [] if load.period else table.lanes("vld", load.elem, load.stride)


def pair_load_forms(table: OperationTable, load: Load, lanes: int) -> list[Form]:
    """The rows that do the pair load whose low half is `load`."""
    elem = bits_elem(load.elem)
    if load.index is not None or load.mask is not None:
        return []
    if load.type.vector:
        return [f for f in table.forms("vld_pair", elem) if f.shape == _pair_shape(load, lanes)]
    return table.forms("ld_pair", elem) + (table.forms("ld", "i64") if elem == "i32" else [])


def store_forms(table: OperationTable, stmt: Store, lanes: int) -> list[Form]:
    """The rows that do a store with its stride, a scatter by its index, or a pair store; whatever its mask."""
    elem, vector = bits_elem(stmt.elem), stmt.value.type.vector
    if is_pair_term(stmt.value):
        if vector:
            return [f for f in table.forms("vst_pair", elem) if f.shape == _pair_shape(stmt, lanes)]
        return table.forms("st_pair", elem) + (table.forms("st", "i64") if elem == "i32" else [])
    if not vector:
        return table.forms("st", elem)
    if scattered(stmt):
        return table.forms("scatter", elem) if not stmt.period and stmt.stride == 0 else []
    return [] if stmt.period else table.lanes("vst", stmt.elem, stmt.stride)


def _pair_shape(access: Load | Store, lanes: int) -> tuple[int, ...]:
    high = second_half(access, lanes)
    if not access.period:
        return access.stride, 0, access.stride, high
    apart = access.jump, 0, access.period, access.jump, high, access.period
    return apart if access.stride == 1 else ()


def pair_reach(access: Load | Store, lanes: int) -> int:
    """All elements from the low half's first to the high half's last."""
    if lanes > 1 and access.period:
        return access.jump * (lanes // access.period - 1) + 2 * access.period
    return 2 * lanes if access.stride == 1 else access.stride * (lanes - 1) + 2


def scalar_pair(load: Load, lane: int) -> Op:
    """The scalars of a vector load's lanes `lane` and the next."""
    scalar = VType(load.type.elem, False)
    return Op("ld_pair", (Load(load.array, load.address.plus(lane), 1, load.elem, scalar),), scalar)


def operand_elem(term: Op) -> str:
    """The type that names the operation: that of the operands for comparisons, else the result's."""
    if term.name in ("lt", "ltu", "gt", "le", "ge", "eq", "ne") and term.args:
        return term.args[0].type.elem
    return term.type.elem


def operand_vector(term: Op) -> bool:
    return term.type.vector or any(a.type.vector for a in term.args)


def macro_key(term: Op) -> str:
    if term.name == "select":
        return f"{term.name}.{word_keys(term.type.elem)[0]}"
    return (
        term.name
        if not term.args
        else f"{term.name}.{bits_elem(operand_elem(term)) if moves_bits(term.name) else operand_elem(term)}"
    )


def moves_bits(name: str) -> bool:
    return name in (
        "bcast", "lane", "mov", "dup_lane", "align", "even", "odd", "zip_lo", "zip_hi", "reverse", "and", "or", "xor",
        "not", "bcast_pair", "insert", "shuffle", "shuffle2", "transpose", "concat", "reduce_and", "reduce_or",
        "reduce_xor", "zip", "unzip",
    )  # fmt: skip
