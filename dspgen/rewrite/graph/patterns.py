"""The text of rewrite rules, parsed and typed.

    side    ::= let* term+                    several terms: one equality for each
    let     ::= "(let" "?"name term ")"       the one term that the name stands for after it, however often
    term    ::= "?"name | number | "(" head argument* ")"
    head    ::= op "." elem ("." immediate)*  elem: f32, i32, ... or T, the rule's own element type
    loads       "(ld.T ?m offset)"            scalar; "?m" is the array and the variable part of the address
                "(ld.T ?m offset stride)"     vector; ld_pair likewise
                "(ld2.T ?m offset stride period jump)", "(ldx.T ?m offset stride index)", "(ldm.T ?m offset stride
                mask)", "(ld2xm.T ...)": the name tells what follows, in this order; index and mask are terms
    offset, stride, immediate ::= integer expressions of ?names, `lanes` and numbers with + and -: ?c+2*lanes-1
    shuffle, shuffle2 have one immediate, their whole pattern: ?p or [0,2,-1,...]; the term [1,0,2.5,...] is a constant
    vector.

Scalar or vector is inferred: the operands of a lane operation are of its own kind, `bcast` makes a vector of a scalar,
and so on. What stays open holds for both kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dspgen.vecdsl.ir.program import NARROW, OPS

COMPARISONS = frozenset({"lt", "ltu", "gt", "le", "ge", "eq", "ne"})
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32")
FLOATS = ("f32", "f64")
ELEMS = INTEGERS + FLOATS
# How many names a fact takes; the last one of a "number" is an integer, all others are terms.
RELATIONS = {"log2": 2, "negated": 2, "inverse": 2, "reciprocal": 2, "short16": 1, "short31": 1, "flag": 1,
             "factor": 1, "reused": 1, "number": 2, "signed_factor": 3, "wide_signed_factor": 3, "unsigned_factor": 3,
             "wide_unsigned_factor": 3, "apart": 2, "low_bits": 2, "high_bits": 2, "mid_bits": 3,
             "several_bits": 3}  # fmt: skip
INTEGER_LAST = frozenset({"number"})
SHUFFLES = frozenset({"shuffle", "shuffle2"})
_LOAD = re.compile(r"^(ld_pair|ld(2?)(x?)(m?))$")
_VECTOR_TO_SCALAR = frozenset({"lane"} | {f"reduce_{op}" for op in ("add", "min", "max", "mul", "and", "or", "xor")})
_SCALAR_TO_VECTOR = frozenset({"bcast", "bcast_pair", "vec"})
_VECTOR_ONLY = frozenset(
    "iota dup_lane align even odd zip_lo zip_hi reverse mask_first mask_period insert all_add all_min all_max "
    "shuffle shuffle2 transpose concat zip unzip view join unpack16 unpacku16 unpack8 unpacku8".split()
)
_INT_RESULT = frozenset(
    "sext8 sext16 zext8 zext16 dup16 unpack16 mul16_pair mac16_pair mac16 mul16 sat8 sat16 satu8 satu16 "
    "iota mask_first mask_period".split()
)


class RuleError(ValueError):
    """A rule's text that can't be read; the message names the rule."""


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant + lanes_factor * lanes + sum(coefficient * ?name)`."""

    constant: int = 0
    lanes_factor: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @property
    def bare(self) -> str | None:
        """The name, where the expression is a name alone."""
        if self.constant == 0 and self.lanes_factor == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def value(self, lanes: int, names: dict[str, int]) -> int:
        return self.constant + self.lanes_factor * lanes + sum(names[n] * k for n, k in self.terms)


@dataclass(frozen=True, slots=True)
class Hole:
    """`?name`: any term."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    value: int | float


@dataclass(frozen=True, slots=True)
class Lanes:
    """A constant for each lane: a vector, or a shuffle's pattern."""

    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    op: str
    elem: str
    args: tuple[Pattern, ...] = ()
    imm: tuple[Linear | Lanes, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadPattern:
    """`stride` None: a scalar load. `levels`: the period and the jump, or nothing. `args`: the index, the mask."""

    op: str
    elem: str
    memory: str
    offset: Linear
    stride: Linear | None
    levels: tuple[Linear, ...] = ()
    args: tuple[Pattern, ...] = ()


Pattern = Hole | Number | Lanes | Apply | LoadPattern


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right` between integer expressions of the rule's names; `=` may bind a name."""

    left: Linear
    op: str
    right: Linear


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact about constants or ranges, such as `log2 ?c ?k`; `integer` is the name of a number, not of a term."""

    name: str
    holes: tuple[str, ...]
    integer: str = ""


_NAME = re.compile(r"^\?\w+$")
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")
_LINEAR = re.compile(r"([+-]?)(?:(\d+)\*)?(\?\w+|lanes|\d+)")


def parse_linear(text: str) -> Linear:
    constant = lanes = position = 0
    terms: dict[str, int] = {}
    text = text.replace(" ", "")
    while position < len(text):
        match = _LINEAR.match(text, position)
        if match is None or (position and not match[1]):
            raise RuleError(f"`{text}` is no integer expression")
        factor = (-1 if match[1] == "-" else 1) * int(match[2] or 1)
        if match[3] == "lanes":
            lanes += factor
        elif match[3].startswith("?"):
            terms[match[3]] = terms.get(match[3], 0) + factor
        else:
            constant += factor * int(match[3])
        position = match.end()
    if not text:
        raise RuleError("an integer expression is missing")
    return Linear(constant, lanes, tuple((n, k) for n, k in sorted(terms.items()) if k))


def parse_side(text: str) -> tuple[Pattern, ...]:
    """All terms of one side of a rule."""
    tokens = _TOKEN.findall(text)
    found: list[Pattern] = []
    names: dict[str, Pattern] = {}
    position = 0
    while tokens[position : position + 2] == ["(", "let"]:
        position = _let(tokens, position + 2, names)
    while position < len(tokens):
        pattern, position = _parse(tokens, position, names)
        found.append(_as_pattern(pattern))
    if not found:
        raise RuleError("a side of the rule is empty")
    return tuple(found)


def _let(tokens: list[str], position: int, names: dict[str, Pattern]) -> int:
    """Give a term its name; both stand at a position."""
    if position + 1 >= len(tokens) or not _NAME.match(tokens[position]):
        raise RuleError("`let` needs a ?name and its term")
    pattern, end = _parse(tokens, position + 1, names)
    if end >= len(tokens) or tokens[end] != ")":
        raise RuleError("`let` has one term")
    names[tokens[position]] = _as_pattern(pattern)
    return end + 1


def _parse(
    tokens: list[str], position: int, names: Mapping[str, Pattern], *, linear: bool = False
) -> tuple[Pattern | Linear, int]:
    """The term at a position; `linear`: or an integer expression."""
    token = tokens[position]
    if token == ")":
        raise RuleError("`)` without `(`")
    if token != "(":
        return _atom(token, names, linear=linear), position + 1
    end = position + 1
    if end >= len(tokens) or tokens[end] in "()":
        raise RuleError("an operation's name must follow `(`")
    name, elem, imm = _head(tokens[end])
    end += 1
    load = _LOAD.match(name) is not None
    args: list[Pattern | Linear] = []
    while end < len(tokens) and tokens[end] != ")":
        arg, end = _parse(tokens, end, names, linear=load)
        args.append(arg)
    if end >= len(tokens):
        raise RuleError("`(` without `)`")
    if load:
        return _load(name, elem, args), end + 1
    if OPS[name].arity not in (-1, len(args)):
        raise RuleError(f"`{name}` takes {OPS[name].arity} operands, not {len(args)}")
    return Apply(name, elem, tuple(_as_pattern(a) for a in args), imm), end + 1


def _head(token: str) -> tuple[str, str, tuple[Linear | Lanes, ...]]:
    name, *parts = token.split(".")
    if name not in OPS and not _LOAD.match(name):
        raise RuleError(f"unknown operation `{name}`")
    if not parts or (parts[0] != "T" and parts[0] not in ELEMS):
        raise RuleError(f"`{token}` needs an element type after its name, such as .f32 or .T")
    imm = [_lanes(p) if p.startswith("[") else parse_linear(p) for p in parts[1:] if p not in ("v", "s")]
    if name in SHUFFLES:
        if len(imm) != 1 or (isinstance(imm[0], Linear) and imm[0].bare is None):
            raise RuleError(f"`{token}` needs its pattern, ?p or [0,1,...]")
    elif any(isinstance(i, Lanes) for i in imm):
        raise RuleError(f"`{token}` takes no pattern")
    return name, parts[0], tuple(imm)


def _load(name: str, elem: str, words: list[Pattern | Linear]) -> LoadPattern:
    """A load from what stands after its head."""
    shape = _LOAD.match(name)
    assert shape is not None
    levels, terms = 2 * bool(shape[2]), len((shape[3] or "") + (shape[4] or ""))
    integers, args = words[: len(words) - terms], words[len(words) - terms :]
    memory, *expressions = [_as_linear(name, w) for w in integers] or [Linear()]
    counts = (1 + 1 + levels,) if levels else (1, 2)
    if memory.bare is None or len(expressions) not in counts:
        shapes = " or ".join(" ".join(("offset", "stride", "period", "jump")[:n]) for n in counts)
        tail = "".join(f" {w}" for w, there in (("index", shape[3]), ("mask", shape[4])) if there)
        raise RuleError(f"a load is ({name}.T ?m {shapes}{tail})")
    stride = expressions[1] if len(expressions) > 1 else None
    return LoadPattern(
        name,
        elem,
        memory.bare,
        expressions[0],
        stride,
        tuple(expressions[2:]),
        tuple(_as_pattern(a) for a in args),
    )


def _as_linear(name: str, word: Pattern | Linear) -> Linear:
    match word:
        case Linear():
            return word
        case Hole(hole):
            return Linear(0, 0, ((hole, 1),))
        case Number(value) if isinstance(value, int):
            return Linear(value)
        case _:
            raise RuleError(f"`{name}` has a term where an integer expression must stand")


def _as_pattern(word: Pattern | Linear) -> Pattern:
    if isinstance(word, Linear):
        raise RuleError("an integer expression stands where a term must")
    return word


def _lanes(text: str) -> Lanes:
    if not text.endswith("]"):
        raise RuleError(f"`{text}` is no list of lanes")
    try:
        return Lanes(tuple(float(w) if "." in w else int(w, 0) for w in text[1:-1].split(",")))
    except ValueError:
        raise RuleError(f"`{text}` is no list of lanes") from None


def _atom(token: str, names: Mapping[str, Pattern], *, linear: bool) -> Pattern | Linear:
    if _NAME.match(token):
        found = names.get(token, Hole(token))
        return found if isinstance(found, Apply | LoadPattern) else replace(found)  # kinds are those of each place
    if token.startswith("["):
        return _lanes(token)
    try:
        return Number(int(token, 0))
    except ValueError:
        pass
    try:
        return Number(float(token.removesuffix("f")))
    except ValueError:
        if linear:
            return parse_linear(token)
        raise RuleError(f"`{token}` is neither ?name nor number") from None


_COMPARISON = re.compile(r"^(.*?)(<=|>=|!=|<|>|=)(.*)$")


@dataclass(frozen=True, slots=True)
class Condition:
    """A rule's `when`, taken apart. `words` are the named conditions."""

    words: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    relations: tuple[Relation, ...]


WORDS = ("int", "float", "reassoc", "contract", "vector", "scalar", *ELEMS)


def parse_when(text: str) -> Condition:
    words: list[str] = []
    comparisons: list[Comparison] = []
    relations: list[Relation] = []
    for item in (t.strip() for t in text.split(",")):
        first, *rest = item.split() or [""]
        if not item:
            continue
        if item in WORDS:
            words.append(item)
        elif first in RELATIONS:
            if len(rest) != RELATIONS[first] or not all(r.startswith("?") for r in rest):
                raise RuleError(f"`{first}` takes {RELATIONS[first]} ?names")
            integer = rest.pop() if first in INTEGER_LAST else ""
            relations.append(Relation(first, tuple(rest), integer))
        elif (match := _COMPARISON.match(item)) is not None:
            comparisons.append(Comparison(parse_linear(match[1]), match[2], parse_linear(match[3])))
        else:
            raise RuleError(f"unknown condition `{item}`; there are {', '.join((*WORDS, *RELATIONS))}, and comparisons")
    return Condition(tuple(words), tuple(comparisons), tuple(relations))


def result_elem(op: str, elem: str) -> str:
    """The element type of a result, from the type that names the operation."""
    return "i32" if (op in COMPARISONS and elem not in NARROW) or op in _INT_RESULT else elem


def argument_elems(op: str, elem: str, count: int = 0) -> tuple[str, ...]:
    """The element types of the operands of `op` named with `elem`; `count` of them where the operation leaves it."""
    if op.startswith("cvt_"):
        return (op.split("_")[1].replace("u32", "i32"),)
    if op == "select":
        return (elem if elem in NARROW else "i32", elem, elem)
    own = "i32" if op in _INT_RESULT else elem
    return (own,) * (OPS[op].arity if OPS[op].arity >= 0 else count)


def argument_sides(op: str, side: str, count: int = 0) -> tuple[str, ...]:
    """The sides of the operands of `op` whose result is on `side`."""
    if op == "insert":
        return ("v", "s")
    own = "s" if op in _SCALAR_TO_VECTOR else "v" if op in _VECTOR_TO_SCALAR else side
    return (own,) * (OPS[op].arity if OPS[op].arity >= 0 else count)


def own_side(op: str) -> str | None:
    """The side of the result where the operation fixes it."""
    if op in _SCALAR_TO_VECTOR or op in _VECTOR_ONLY:
        return "v"
    return "s" if op in _VECTOR_TO_SCALAR else None


def integer_expressions(node: Apply | LoadPattern) -> list[Linear]:
    """Those of an operation's immediates, or of a load's place."""
    if isinstance(node, Apply):
        return [i for i in node.imm if isinstance(i, Linear)]
    return [node.offset, *([] if node.stride is None else [node.stride]), *node.levels]


def apply_nodes(patterns: tuple[Pattern, ...]) -> list[Apply | LoadPattern]:
    """All operations and loads of the patterns."""
    return [p for p in all_nodes(patterns) if isinstance(p, Apply | LoadPattern)]


def all_nodes(patterns: tuple[Pattern, ...]) -> list[Pattern]:
    """All that the patterns are made of, what has a name once."""
    found: dict[int, Pattern] = {}
    stack = list(patterns)
    while stack:
        pattern = stack.pop()
        if id(pattern) not in found:
            found[id(pattern)] = pattern
            if isinstance(pattern, Apply | LoadPattern):
                stack.extend(pattern.args)
    return list(found.values())
