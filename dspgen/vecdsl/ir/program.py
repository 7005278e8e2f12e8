"""The vector DSL: lane-abstract terms, and the structured programs that hold them.

    Program ::= arrays: ArrayDecl*, scalars: ScalarDecl*, body: Stmt*
    Stmt    ::= Let(name, value) | Store(array, address, stride, value, active) | Loop | If
    Loop    ::= iterator, start, trip, step, carried: (name, init, next)*, body: Stmt*, going: name?
    Term    ::= Const | Var | Load | Op

A term has a `VType`: an element type and whether it is one scalar or one vector of `lanes` elements; the number of
lanes is the machine's and appears in no term. An `Address` is affine in loop iterators and integer parameters, in
elements of its array (row-major, flattened). A vector access names lane k as element `address + k * stride`, so
stride 1 is contiguous, -1 reversed, k strided; a uniform value is a scalar Load under a `bcast`. With a `period` p,
lane k is element `address + (k % p) * stride + (k // p) * jump`: lanes over two loops. An `index` (i32, one for each
lane) is added to that: gathers and scatters, and scalar accesses at computed places. A `mask` (i32, one for each lane)
tells which lanes are accessed at all, where not 0; a lane that isn't loaded is 0.
A vector of type i16 or i8 has two or four elements on each lane, in memory's order: as many as the lanes have bits
for. So has each operation on such vectors, and an access of one counts these elements as its lanes.
Narrow integers may be accessed several at once: a vector access of type w8 (w16) has on each lane the 32-bit word that
begins at the lane's element of 8 (16) bits, little-endian. Its stride is the elements of a word, 4 (2).

Value semantics: a `Let` or a carried variable is bound once per execution of its block. A Loop's carried variable has
the value `init` in the first iteration, `next` (a term over the body's names) in the following one, and after the
loop its name holds the last `next` (`init` where the trip is 0). Names are unique in a Program.
Terms are compared and hashed by structure; equal terms are the same computation, done once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plant_core.support.location import Loc

Elem = Literal["f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "w8", "w16"]

ELEM_BYTES = {
    "f32": 4, "f64": 8, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "w8": 1, "w16": 2,
}  # fmt: skip
WORDS: dict[str, int] = {"w8": 4, "w16": 2}  # types of whole words, and how many elements each has


NARROW: tuple[Elem, ...] = ("i16", "i8")  # of vectors that hold several elements on each lane


def covered(elem: str) -> int:
    """How many elements one lane of an access touches."""
    return WORDS.get(elem, 1)


@dataclass(frozen=True, slots=True)
class VType:
    elem: Elem
    vector: bool


def lanes_of(type: VType, lanes: int) -> int:
    """The elements of a vector of the type, on a machine of so many lanes of words."""
    return lanes * 4 // ELEM_BYTES[type.elem] if type.elem in NARROW else lanes


@dataclass(frozen=True, slots=True)
class Address:
    """`constant + sum(coefficient * name)`, in elements; `terms` sorted by name, no zero coefficient."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()

    def plus(self, delta: int) -> Address:
        return Address(self.constant + delta, self.terms)

    def coefficient(self, name: str) -> int:
        return dict(self.terms).get(name, 0)


@dataclass(frozen=True, slots=True)
class Const:
    value: int | float
    type: VType


@dataclass(frozen=True, slots=True)
class Var:
    """A Let, a carried variable, a loop iterator (scalar i32) or a scalar parameter."""

    name: str
    type: VType


@dataclass(frozen=True, slots=True)
class Load:
    """Memory elements of type `elem`; integers narrower than `type.elem` are sign- or zero-extended."""

    array: str
    address: Address
    stride: int
    elem: Elem
    type: VType
    period: int = 0
    jump: int = 0
    index: Term | None = None
    mask: Term | None = None

    @property
    def plain(self) -> bool:
        """Whether address and stride tell all."""
        return not self.period and self.index is None and self.mask is None


@dataclass(frozen=True, slots=True)
class Op:
    """An operation of `OPS` below; `imm` has its compile-time integers (a lane number, a shuffle pattern)."""

    name: str
    args: tuple[Term, ...]
    type: VType
    imm: tuple[int, ...] = ()


Term = Const | Var | Load | Op


@dataclass(frozen=True, slots=True)
class OpInfo:
    """`arity` -1: one argument for each lane."""

    arity: int
    kind: Literal["lane", "bits", "cross", "pair"]
    doc: str


# lane: the same on each lane, typed by the result's elem (comparisons: by the operands', result i32 0/1).
# bits: moves bits, so an f32 one is done by the i32 instruction. cross: between lanes or sides. pair: two registers.
OPS: dict[str, OpInfo] = {
    "add": OpInfo(2, "lane", "a + b"),
    "sub": OpInfo(2, "lane", "a - b"),
    "mul": OpInfo(2, "lane", "a * b"),
    "mac": OpInfo(3, "lane", "a * b + c, rounded once"),
    "msub": OpInfo(3, "lane", "a * b - c, rounded once"),
    "nmac": OpInfo(3, "lane", "c - a * b, rounded once"),
    "neg": OpInfo(1, "lane", "-a"),
    "abs": OpInfo(1, "lane", "|a|"),
    "min": OpInfo(2, "lane", "smaller; C's fminf for floats"),
    "max": OpInfo(2, "lane", "larger; C's fmaxf for floats"),
    "minu": OpInfo(2, "lane", "smaller, unsigned"),
    "maxu": OpInfo(2, "lane", "larger, unsigned"),
    "absdu": OpInfo(2, "lane", "|a - b|, unsigned"),
    "div": OpInfo(2, "lane", "a / b"),
    "mod": OpInfo(2, "lane", "a % b as in C"),
    "sqrt": OpInfo(1, "lane", "square root"),
    "rcp_est": OpInfo(1, "lane", "1 / a rounded to 8 bits of fraction"),
    "rsqrt_est": OpInfo(1, "lane", "1 / sqrt(a) rounded to 8 bits of fraction"),
    "mac16": OpInfo(3, "lane", "i32: sext16(a) * sext16(b) + c"),
    "mulhi": OpInfo(2, "lane", "high half of the double-width signed product"),
    "mul16": OpInfo(2, "lane", "i32: sext16(a) * sext16(b)"),
    "add_sat": OpInfo(2, "lane", "a + b, at the type's end where beyond it (i32)"),
    "sub_sat": OpInfo(2, "lane", "a - b, at the type's end where beyond it (i32)"),
    "sat8": OpInfo(1, "lane", "a brought into -128..127"),
    "sat16": OpInfo(1, "lane", "a brought into -32768..32767"),
    "satu8": OpInfo(1, "lane", "a brought into 0..255"),
    "satu16": OpInfo(1, "lane", "a brought into 0..65535"),
    "shl": OpInfo(2, "lane", "a << b"),
    "shr": OpInfo(2, "lane", "a >> b, arithmetic"),
    "shru": OpInfo(2, "lane", "a >> b, zero fill"),
    "lt": OpInfo(2, "lane", "a < b"),
    "ltu": OpInfo(2, "lane", "a < b, unsigned"),
    "gt": OpInfo(2, "lane", "a > b"),
    "le": OpInfo(2, "lane", "a <= b"),
    "ge": OpInfo(2, "lane", "a >= b"),
    "eq": OpInfo(2, "lane", "a == b"),
    "ne": OpInfo(2, "lane", "a != b"),
    "sext8": OpInfo(1, "lane", "low 8 bits, sign-extended"),
    "sext16": OpInfo(1, "lane", "low 16 bits, sign-extended"),
    "zext8": OpInfo(1, "lane", "low 8 bits"),
    "zext16": OpInfo(1, "lane", "low 16 bits"),
    "dup16": OpInfo(1, "lane", "the low 16 bits in both halves of a word"),
    "cvt_i32_f32": OpInfo(1, "lane", "signed integer to float"),
    "cvt_u32_f32": OpInfo(1, "lane", "unsigned integer to float"),
    "cvt_i32_f64": OpInfo(1, "lane", "signed integer to double"),
    "cvt_f32_i32": OpInfo(1, "lane", "float to integer, toward zero"),
    "cvt_f64_i32": OpInfo(1, "lane", "double to integer, toward zero"),
    "cvt_f32_f64": OpInfo(1, "lane", "float to double"),
    "cvt_f64_f32": OpInfo(1, "lane", "double to float"),
    "and": OpInfo(2, "bits", "bitwise and"),
    "or": OpInfo(2, "bits", "bitwise or"),
    "xor": OpInfo(2, "bits", "bitwise exclusive or"),
    "not": OpInfo(1, "bits", "bitwise complement"),
    "select": OpInfo(3, "bits", "a != 0 ? b : c; a is i32"),
    "mov": OpInfo(1, "bits", "a"),
    "view": OpInfo(1, "cross", "the bits of integers' vector a as elements of another width"),
    "join": OpInfo(2, "cross", "elements of half the width, in turns: the low halves of a's and of b's elements"),
    "bcast": OpInfo(1, "cross", "every lane = scalar a"),
    "iota": OpInfo(0, "cross", "lane k = k"),
    "lane": OpInfo(1, "cross", "scalar: lane imm[0] of vector a"),
    "insert": OpInfo(2, "cross", "vector a with lane imm[0] replaced by scalar b"),
    "dup_lane": OpInfo(1, "cross", "every lane = lane imm[0] of a"),
    "align": OpInfo(2, "cross", "lanes imm[0] .. imm[0]+lanes-1 of the concatenation a, b"),
    "even": OpInfo(2, "cross", "lanes 0, 2, 4, ... of the concatenation a, b"),
    "odd": OpInfo(2, "cross", "lanes 1, 3, 5, ... of the concatenation a, b"),
    "zip_lo": OpInfo(2, "cross", "a0 b0 a1 b1 ...: the first `lanes` of the interleaving"),
    "zip_hi": OpInfo(2, "cross", "the rest of the interleaving"),
    "reverse": OpInfo(1, "cross", "lane k = lane lanes-1-k of a"),
    "reduce_add": OpInfo(1, "cross", "scalar: sum of all lanes"),
    "reduce_min": OpInfo(1, "cross", "scalar: least lane"),
    "reduce_max": OpInfo(1, "cross", "scalar: greatest lane"),
    "reduce_mul": OpInfo(1, "cross", "scalar: product of all lanes"),
    "reduce_and": OpInfo(1, "cross", "scalar: bitwise and of all lanes"),
    "reduce_or": OpInfo(1, "cross", "scalar: bitwise or of all lanes"),
    "reduce_xor": OpInfo(1, "cross", "scalar: bitwise exclusive or of all lanes"),
    "all_add": OpInfo(1, "cross", "every lane = sum of all lanes"),
    "all_min": OpInfo(1, "cross", "every lane = least lane"),
    "all_max": OpInfo(1, "cross", "every lane = greatest lane"),
    "mask_first": OpInfo(0, "cross", "i32 vector: 1 in lanes k < imm[0], else 0"),
    "mask_period": OpInfo(0, "cross", "i32 vector: 1 in lanes k with imm[1] <= k % imm[0] < imm[2], else 0"),
    "alike": OpInfo(
        1, "cross", "i32 vector a, which is 0 in all lanes or in none of each group that a predicate governs"
    ),
    "vec": OpInfo(-1, "cross", "lane k = scalar args[k]"),
    "shuffle": OpInfo(1, "cross", "lane k = lane imm[k] of a; where imm[k] is -1, anything"),
    "shuffle2": OpInfo(2, "cross", "lane k = lane imm[k] of the concatenation a, b; where imm[k] is -1, anything"),
    "transpose": OpInfo(1, "cross", "a as imm[0] rows, row-major, transposed"),
    "concat": OpInfo(2, "cross", "the first imm[0] lanes of a, then the first lanes of b"),
    "pair": OpInfo(2, "pair", "two values in a register pair, the first one low"),
    "lo": OpInfo(1, "pair", "low half of a pair"),
    "hi": OpInfo(1, "pair", "high half of a pair"),
    # A pair load gives (lo, hi): contiguous halves [A, A+lanes) and [A+lanes, A+2 lanes) for stride 1; the even and
    # the odd elements for stride 2; elements 4k and 4k+1 for stride 4. Scalar: elements A and A+1.
    # It is written Op("ld_pair", (Load(...),), imm=()) over the Load of its low half.
    "ld_pair": OpInfo(1, "pair", "the pair load whose low half is the Load a"),
    "bcast_pair": OpInfo(1, "pair", "vector pair: low = bcast of the pair's low half, high = of its high half"),
    # Complex numbers as pairs, the real part low; each product and each sum is rounded. `c*_re` and `c*_im` give one
    # half each.
    "cmul": OpInfo(2, "pair", "complex a * b"),
    "cmul_re": OpInfo(2, "pair", "real part of a * b"),
    "cmul_im": OpInfo(2, "pair", "imaginary part of a * b"),
    "cmac": OpInfo(3, "pair", "complex a * b + c"),
    "zip": OpInfo(2, "pair", "low = zip_lo(a, b), high = zip_hi(a, b)"),
    "unzip": OpInfo(2, "pair", "low = even(a, b), high = odd(a, b)"),
    # The 16-bit halves of words, low and high, as pairs.
    "unpack16": OpInfo(1, "pair", "i32: low = sext16(a), high = a >> 16"),
    "unpacku16": OpInfo(1, "pair", "i32: low = zext16(a), high = a >> 16, zero fill"),
    "unpack8": OpInfo(1, "pair", "i16: low = sext8(a), high = a >> 8"),
    "unpacku8": OpInfo(1, "pair", "i16: low = zext8(a), high = a >> 8, zero fill"),
    "mul16_pair": OpInfo(2, "pair", "i32: low = sext16(a) * sext16(b), high = (a >> 16) * (b >> 16)"),
    "mac16_pair": OpInfo(3, "pair", "mul16_pair(a, b) + the pair c, half by half"),
}
PAIRS = frozenset(
    {"pair", "ld_pair", "bcast_pair", "cmul", "cmac", "zip", "unzip", "mul16_pair", "mac16_pair"}
    | {"unpack16", "unpacku16", "unpack8", "unpacku8"}
)


@dataclass(frozen=True, slots=True)
class ArrayDecl:
    """`size` in elements. `local` arrays live in the function's own frame."""

    name: str
    elem: Elem
    size: int
    local: bool
    const: bool = False


@dataclass(frozen=True, slots=True)
class ScalarDecl:
    name: str
    elem: Elem


@dataclass(frozen=True, slots=True)
class Let:
    name: str
    value: Term


@dataclass(frozen=True, slots=True)
class Store:
    """`value` to lane k's element (see above); only the first `active` lanes, if given. Of lanes that meet in one
    element, the last one's value stays. A pair is stored as `ld_pair` loads it."""

    array: str
    address: Address
    stride: int
    elem: Elem
    value: Term
    active: int | None = None
    loc: Loc | None = None
    period: int = 0
    jump: int = 0
    index: Term | None = None
    mask: Term | None = None

    @property
    def plain(self) -> bool:
        """Whether address, stride and `active` tell all."""
        return not self.period and self.index is None and self.mask is None


@dataclass(frozen=True, slots=True)
class Carried:
    name: str
    init: Term
    next: Term


@dataclass(frozen=True, slots=True)
class Loop:
    """`iterator` runs start, start + step, ...: `trip` times (both scalar i32 terms, Const where known).

    `max_trip` is an upper bound of the trip where one is known; `min_trip` a lower bound (0 when unknown).
    `going` names a carried scalar of type i32: behind an iteration that makes it 0, others change nothing that is read,
    and need not run.
    """

    iterator: str
    start: Term
    trip: Term
    step: int
    carried: tuple[Carried, ...]
    body: tuple[Stmt, ...]
    min_trip: int = 0
    max_trip: int | None = None
    loc: Loc | None = None
    going: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """Runs `then` where the scalar i32 `condition` is not 0. Binds no names for the statements after it."""

    condition: Term
    then: tuple[Stmt, ...]


Stmt = Let | Store | Loop | If


@dataclass(frozen=True, slots=True)
class Program:
    """`params` has array and scalar names in the C function's order."""

    name: str
    params: tuple[str, ...]
    arrays: tuple[ArrayDecl, ...]
    scalars: tuple[ScalarDecl, ...]
    body: tuple[Stmt, ...]
