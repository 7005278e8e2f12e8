"""The text of rewrite rules, parsed and typed.

    side    ::= term+                         several terms: one equality for each
    term    ::= "?"name | number | "(" head argument* ")"
    head    ::= op "." elem ("." immediate)*  elem: f32, i32, ... or T, the rule's own element type
    loads       "(ld.T ?m offset)"            scalar; "?m" is the array and the variable part of the address
                "(ld.T ?m offset stride)"     vector; ld_pair likewise
    offset, stride, immediate ::= integer expressions of ?names, `lanes` and numbers with + and -: ?c+lanes-1

Scalar or vector is inferred: the operands of a lane operation are of its own kind, `bcast` makes a vector of a scalar,
and so on. What stays open holds for both kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dspgen.vecdsl.ir import OPS

COMPARISONS = frozenset({"lt", "ltu", "gt", "le", "ge", "eq", "ne"})
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32")
FLOATS = ("f32", "f64")
ELEMS = INTEGERS + FLOATS
RELATIONS = {"log2": 2, "negated": 2, "inverse": 2, "reciprocal": 2, "short16": 1}
LOADS = ("ld", "ld_pair")
_VECTOR_TO_SCALAR = frozenset({"lane", "reduce_add", "reduce_min", "reduce_max"})
_SCALAR_TO_VECTOR = frozenset({"bcast", "bcast_pair"})
_VECTOR_ONLY = frozenset(
    {"iota", "dup_lane", "align", "even", "odd", "zip_lo", "zip_hi", "reverse", "mask_first", "insert"}
)
_INT_RESULT = frozenset({"sext8", "sext16", "zext8", "zext16", "mac16", "iota", "mask_first"})


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
class Apply:
    op: str
    elem: str
    args: tuple[Pattern, ...] = ()
    imm: tuple[Linear, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadPattern:
    """`stride` None: a scalar load."""

    op: str
    elem: str
    memory: str
    offset: Linear
    stride: Linear | None


Pattern = Hole | Number | Apply | LoadPattern


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right` between integer expressions of the rule's names; `=` may bind a name."""

    left: Linear
    op: str
    right: Linear


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact about constants or ranges, such as `log2 ?c ?k`."""

    name: str
    holes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a pattern node is: `side` is "s", "v" or a variable's name; `elem` may be "" where nothing tells."""

    elem: str
    side: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A rule for one element type. `holes` has each term name's kind; `sides` the open side variables."""

    left: tuple[Pattern, ...]
    right: tuple[Pattern, ...]
    comparisons: tuple[Comparison, ...]
    relations: tuple[Relation, ...]
    roots: tuple[Kind, ...]
    holes: tuple[tuple[str, Kind], ...]
    kinds: dict[int, Kind] = field(compare=False)

    def kind(self, pattern: Pattern) -> Kind:
        """The kind of a node of `left` or `right` (by identity: equal numbers may differ in kind)."""
        return self.kinds[id(pattern)]


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
    position = 0
    while position < len(tokens):
        pattern, position = _parse(tokens, position)
        found.append(pattern)
    if not found:
        raise RuleError("a side of the rule is empty")
    return tuple(found)


def _parse(tokens: list[str], position: int) -> tuple[Pattern, int]:
    token = tokens[position]
    if token == ")":
        raise RuleError("`)` without `(`")
    if token != "(":
        return _atom(token), position + 1
    end = position + 1
    if end >= len(tokens) or tokens[end] in "()":
        raise RuleError("an operation's name must follow `(`")
    name, elem, imm = _head(tokens[end])
    end += 1
    if name in LOADS:
        words = []
        while end < len(tokens) and tokens[end] != ")":
            words.append(tokens[end])
            end += 1
        if end >= len(tokens):
            raise RuleError("`(` without `)`")
        return _load(name, elem, words), end + 1
    args: list[Pattern] = []
    while end < len(tokens) and tokens[end] != ")":
        arg, end = _parse(tokens, end)
        args.append(arg)
    if end >= len(tokens):
        raise RuleError("`(` without `)`")
    if name not in OPS:
        raise RuleError(f"unknown operation `{name}`")
    if OPS[name].arity != len(args):
        raise RuleError(f"`{name}` takes {OPS[name].arity} operands, not {len(args)}")
    return Apply(name, elem, tuple(args), imm), end + 1


def _head(token: str) -> tuple[str, str, tuple[Linear, ...]]:
    name, *parts = token.split(".")
    if not parts or (parts[0] != "T" and parts[0] not in ELEMS):
        raise RuleError(f"`{token}` needs an element type after its name, such as .f32 or .T")
    return name, parts[0], tuple(parse_linear(p) for p in parts[1:] if p not in ("v", "s"))


def _load(name: str, elem: str, words: list[str]) -> LoadPattern:
    if len(words) not in (2, 3) or not words[0].startswith("?"):
        raise RuleError(f"a load is ({name}.T ?m offset) or ({name}.T ?m offset stride)")
    stride = parse_linear(words[2]) if len(words) == 3 else None
    return LoadPattern(name, elem, words[0], parse_linear(words[1]), stride)


def _atom(token: str) -> Pattern:
    if token.startswith("?"):
        return Hole(token)
    try:
        return Number(int(token, 0))
    except ValueError:
        pass
    try:
        return Number(float(token.removesuffix("f")))
    except ValueError:
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
            relations.append(Relation(first, tuple(rest)))
        elif (match := _COMPARISON.match(item)) is not None:
            comparisons.append(Comparison(parse_linear(match[1]), match[2], parse_linear(match[3])))
        else:
            raise RuleError(f"unknown condition `{item}`; there are {', '.join((*WORDS, *RELATIONS))}, and comparisons")
    return Condition(tuple(words), tuple(comparisons), tuple(relations))


def result_elem(op: str, elem: str) -> str:
    """The element type of a result, from the type that names the operation."""
    return "i32" if op in COMPARISONS or op in _INT_RESULT else elem


def argument_elems(op: str, elem: str) -> tuple[str, ...]:
    """The element types of the operands of `op` named with `elem`."""
    if op.startswith("cvt_"):
        return (op.split("_")[1].replace("u32", "i32"),)
    if op == "select":
        return ("i32", elem, elem)
    if op in _INT_RESULT:
        return ("i32",) * OPS[op].arity
    return (elem,) * OPS[op].arity


def argument_sides(op: str, side: str) -> tuple[str, ...]:
    """The sides of the operands of `op` whose result is on `side`."""
    if op in _SCALAR_TO_VECTOR:
        return ("s",)
    if op == "insert":
        return ("v", "s")
    if op in _VECTOR_TO_SCALAR:
        return ("v",)
    return (side,) * OPS[op].arity


def own_side(op: str) -> str | None:
    """The side of the result where the operation fixes it."""
    if op in _SCALAR_TO_VECTOR or op in _VECTOR_ONLY:
        return "v"
    return "s" if op in _VECTOR_TO_SCALAR else None


class _Sides:
    """Union-find over side variables, with "s" and "v" as constants."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"?side{self.count}"

    def find(self, side: str) -> str:
        while side in self.parent:
            side = self.parent[side]
        return side

    def unite(self, a: str, b: str) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        if a in ("s", "v") and b in ("s", "v"):
            raise RuleError("a scalar and a vector where both must be of one kind")
        if a in ("s", "v"):
            a, b = b, a
        self.parent[a] = b


def infer(left: str, right: str, condition: Condition, elem: str) -> Typed:
    """Type a rule for the element type `elem` (which stands for T)."""
    sides = _Sides()
    holes: dict[str, Kind] = {}
    raw: dict[int, tuple[str, str]] = {}

    def visit(pattern: Pattern, want: str, side: str) -> None:
        match pattern:
            case Hole(name):
                if name in holes:
                    sides.unite(holes[name].side, side)
                    if not holes[name].elem:
                        holes[name] = Kind(want, holes[name].side)
                else:
                    holes[name] = Kind(want, side)
            case Number():
                pass
            case LoadPattern():
                sides.unite(side, "s" if pattern.stride is None else "v")
            case Apply(op=op):
                if (own := own_side(op)) is not None:
                    sides.unite(side, own)
                own_elem = elem if pattern.elem == "T" else pattern.elem
                arguments = zip(pattern.args, argument_elems(op, own_elem), argument_sides(op, side), strict=True)
                for arg, arg_elem, arg_side in arguments:
                    fresh = sides.fresh()
                    sides.unite(fresh, arg_side)
                    visit(arg, arg_elem, fresh)
        raw[id(pattern)] = (want, side)

    lefts, rights = parse_side(left), parse_side(right)
    if len(rights) > len(lefts):
        raise RuleError("more terms on the right than on the left")
    unbound = _names(rights) - _names(lefts) - _bound_by(condition)
    if unbound:
        raise RuleError(f"the right side's {', '.join(sorted(unbound))} stands nowhere on the left")
    roots = []
    for index, pattern in enumerate(lefts):
        root_elem = _root_elem(pattern, elem)
        side = sides.fresh()
        visit(pattern, root_elem, side)
        if index < len(rights):
            visit(rights[index], root_elem, side)
        roots.append((root_elem, side))
    if "vector" in condition.words or "scalar" in condition.words:
        sides.unite(roots[0][1], "v" if "vector" in condition.words else "s")
    for relation in condition.relations:
        kinds = [holes[h] for h in relation.holes if h in holes]
        for hole in relation.holes:
            holes.setdefault(hole, kinds[0] if kinds else Kind(elem, sides.fresh()))
            sides.unite(holes[hole].side, holes[relation.holes[0]].side)
    return Typed(
        lefts,
        rights,
        condition.comparisons,
        condition.relations,
        tuple(Kind(e, sides.find(s)) for e, s in roots),
        tuple((n, Kind(k.elem, sides.find(k.side))) for n, k in holes.items()),
        {key: Kind(e, sides.find(s)) for key, (e, s) in raw.items()},
    )


def _names(patterns: tuple[Pattern, ...]) -> set[str]:
    """All ?names of terms, memories and integers."""
    found = {h.name for p in patterns for h in _holes(p)}
    for node in apply_nodes(patterns):
        if isinstance(node, LoadPattern):
            found.add(node.memory)
            expressions = [node.offset] + ([node.stride] if node.stride is not None else [])
        else:
            expressions = list(node.imm)
        found |= {name for e in expressions for name, _ in e.terms}
    return found


def _holes(pattern: Pattern) -> list[Hole]:
    match pattern:
        case Hole():
            return [pattern]
        case Apply():
            return [h for a in pattern.args for h in _holes(a)]
        case _:
            return []


def _bound_by(condition: Condition) -> set[str]:
    found = {h for r in condition.relations for h in r.holes}
    return found | {c.left.bare for c in condition.comparisons if c.op == "=" and c.left.bare is not None}


def _root_elem(pattern: Pattern, elem: str) -> str:
    match pattern:
        case Apply():
            return result_elem(pattern.op, elem if pattern.elem == "T" else pattern.elem)
        case LoadPattern():
            return elem if pattern.elem == "T" else pattern.elem
        case _:
            raise RuleError("the left side must be an operation")


def apply_nodes(patterns: tuple[Pattern, ...]) -> list[Apply | LoadPattern]:
    """All operations and loads of the patterns."""
    found: list[Apply | LoadPattern] = []
    stack = list(patterns)
    while stack:
        pattern = stack.pop()
        if isinstance(pattern, Apply | LoadPattern):
            found.append(pattern)
        if isinstance(pattern, Apply):
            stack.extend(pattern.args)
    return found
