"""Walking, rebuilding and making terms; the small vocabulary that every pass of this room shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from dspgen.vecdsl.ir.program import (
    PAIRS,
    Address,
    Carried,
    Const,
    Elem,
    If,
    Let,
    Load,
    Loop,
    Op,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)

INTEGER = VType("i32", False)
COMPARISONS = frozenset({"lt", "ltu", "gt", "le", "ge", "eq", "ne"})
SCALAR_STRIDE = 1


def register_elem(elem: Elem) -> Elem:
    """The element type a value of memory type `elem` has in a register: narrow and unsigned integers are i32."""
    return elem if elem in ("f32", "f64", "i64") else "i32"


def integer(value: int) -> Const:
    return Const(value, INTEGER)


def gives_pair(term: Term) -> bool:
    """Whether an operation gives a register pair; a variable's own text doesn't tell."""
    return isinstance(term, Op) and (
        term.name in PAIRS or (term.name in ("mov", "select") and bool(term.args) and gives_pair(term.args[-1]))
    )


def is_atom(term: Term) -> bool:
    return isinstance(term, Const | Var)


def map_leaves(term: Term, change: Callable[[Var | Load], Term]) -> Term:
    """`term` with each Var and Load replaced, those in a Load's index and mask first; the Load of a pair load stays a
    Load or stays as it was."""
    match term:
        case Const():
            return term
        case Var():
            return change(term)
        case Load():
            return change(map_places(term, change))
        case Op():
            args = tuple(map_leaves(a, change) for a in term.args)
            if all(new is old for new, old in zip(args, term.args, strict=True)):
                return term
            if term.name == "ld_pair" and not isinstance(args[0], Load):
                return term
            return Op(term.name, args, term.type, term.imm)


def map_places(load: Load, change: Callable[[Var | Load], Term]) -> Load:
    """`load` with the leaves of its index and mask replaced."""
    if load.index is None and load.mask is None:
        return load
    index = None if load.index is None else map_leaves(load.index, change)
    mask = None if load.mask is None else map_leaves(load.mask, change)
    return load if index is load.index and mask is load.mask else replace(load, index=index, mask=mask)


def children(term: Term) -> tuple[Term, ...]:
    """The terms that a term is made of, a Load's index and mask included."""
    match term:
        case Op():
            return term.args
        case Load():
            return tuple(t for t in (term.index, term.mask) if t is not None)
        case _:
            return ()


def second_half(access: Load | Store, lanes: int) -> int:
    """The element, from a pair access's address, at which its high half begins."""
    vector = (access.type if isinstance(access, Load) else access.value.type).vector
    if vector and access.period:
        return access.period
    return lanes if vector and access.stride == 1 else 1


def leaves(term: Term) -> Iterator[Const | Var | Load]:
    """Constants, variables and loads at any depth, those in a Load's index and mask too."""
    stack = [term]
    while stack:
        node = stack.pop()
        if not isinstance(node, Op):
            yield node
        stack.extend(reversed(children(node)))


def names_of(term: Term) -> Iterator[str]:
    """Every name that the term's value depends on, those in addresses included."""
    for leaf in leaves(term):
        if isinstance(leaf, Var):
            yield leaf.name
        elif isinstance(leaf, Load):
            for name, _ in leaf.address.terms:
                yield name


def own_terms(stmt: Stmt) -> tuple[Term, ...]:
    """The statement's terms that are evaluated where it stands: no bodies, no `next` terms."""
    match stmt:
        case Let():
            return (stmt.value,)
        case Store():
            return (stmt.value, *(t for t in (stmt.index, stmt.mask) if t is not None))
        case Loop():
            return (stmt.start, stmt.trip, *(c.init for c in stmt.carried))
        case If():
            return (stmt.condition,)


def block_of(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case Loop():
            return stmt.body
        case If():
            return stmt.then
        case _:
            return ()


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement at any depth, in text order."""
    for stmt in body:
        yield stmt
        yield from statements(block_of(stmt))


def terms_in(body: Iterable[Stmt]) -> Iterator[Term]:
    """Every term at any depth, `next` terms included."""
    for stmt in statements(body):
        yield from own_terms(stmt)
        if isinstance(stmt, Loop):
            yield from (c.next for c in stmt.carried)


def used_names(body: Iterable[Stmt]) -> Iterator[str]:
    for stmt in statements(body):
        if isinstance(stmt, Store):
            yield from (name for name, _ in stmt.address.terms)
    for term in terms_in(body):
        yield from names_of(term)


def map_terms(stmt: Stmt, change: Callable[[Term], Term]) -> Stmt:
    """`stmt` with every term of it, at any depth, changed; addresses of stores stay."""
    match stmt:
        case Let():
            value = change(stmt.value)
            return stmt if value is stmt.value else Let(stmt.name, value)
        case Store():
            return _changed(stmt, change)
        case Loop():
            return replace(
                stmt,
                start=change(stmt.start),
                trip=change(stmt.trip),
                carried=tuple(Carried(c.name, change(c.init), change(c.next)) for c in stmt.carried),
                body=tuple(map_terms(s, change) for s in stmt.body),
            )
        case If():
            return If(change(stmt.condition), tuple(map_terms(s, change) for s in stmt.then))


def _changed(stmt: Store, change: Callable[[Term], Term]) -> Store:
    value = change(stmt.value)
    index = None if stmt.index is None else change(stmt.index)
    mask = None if stmt.mask is None else change(stmt.mask)
    if value is stmt.value and index is stmt.index and mask is stmt.mask:
        return stmt
    return replace(stmt, value=value, index=index, mask=mask)


@dataclass(frozen=True, slots=True)
class Substitution:
    """Names to terms; a name that occurs in addresses needs an affine value too (see `linear_address`)."""

    terms: dict[str, Term]
    addresses: dict[str, Address]

    def address(self, address: Address) -> Address:
        if not any(name in self.addresses for name, _ in address.terms):
            return address
        constant, terms = address.constant, dict[str, int]()
        for name, coefficient in address.terms:
            value = self.addresses.get(name, Address(0, ((name, 1),)))
            constant += coefficient * value.constant
            for inner, factor in value.terms:
                terms[inner] = terms.get(inner, 0) + coefficient * factor
        return make_address(constant, terms)

    def term(self, term: Term) -> Term:
        return map_leaves(term, self._leaf)

    def _leaf(self, leaf: Var | Load) -> Term:
        if isinstance(leaf, Var):
            return self.terms.get(leaf.name, leaf)
        address = self.address(leaf.address)
        return leaf if address is leaf.address else replace(leaf, address=address)

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Let():
                value = self.term(stmt.value)
                return stmt if value is stmt.value else Let(stmt.name, value)
            case Store():
                return replace(_changed(stmt, self.term), address=self.address(stmt.address))
            case Loop():
                return replace(
                    stmt,
                    start=self.term(stmt.start),
                    trip=self.term(stmt.trip),
                    carried=tuple(Carried(c.name, self.term(c.init), self.term(c.next)) for c in stmt.carried),
                    body=tuple(self.stmt(s) for s in stmt.body),
                )
            case If():
                return If(self.term(stmt.condition), tuple(self.stmt(s) for s in stmt.then))


def make_address(constant: int, terms: dict[str, int]) -> Address:
    return Address(constant, tuple(sorted((n, c) for n, c in terms.items() if c)))


def linear_address(term: Term) -> Address | None:
    """The scalar integer term as an affine form, or None where it isn't one."""
    match term:
        case Const():
            return Address(int(term.value))
        case Var():
            return Address(0, ((term.name, 1),))
        case Op(name="neg", args=(operand,)):
            inner = linear_address(operand)
            return None if inner is None else _combine("mul", inner, Address(-1))
        case Op(name=name, args=(left, right)) if name in ("add", "sub", "mul", "shl"):
            a, b = linear_address(left), linear_address(right)
            if a is None or b is None:
                return None
            return _combine(name, a, b)
        case _:
            return None


def _combine(name: str, a: Address, b: Address) -> Address | None:
    if name in ("add", "sub"):
        sign = 1 if name == "add" else -1
        terms = dict(a.terms)
        for n, c in b.terms:
            terms[n] = terms.get(n, 0) + sign * c
        return make_address(a.constant + sign * b.constant, terms)
    if name == "shl":
        if b.terms or not 0 <= b.constant < 31:
            return None
        b = Address(1 << b.constant)
    if a.terms and b.terms:
        return None
    scaled, factor = (b, a.constant) if b.terms else (a, b.constant)
    return make_address(scaled.constant * factor, {n: c * factor for n, c in scaled.terms})


def address_term(address: Address) -> Term:
    """The scalar integer term that computes an affine form."""
    total: Term | None = None
    constant = address.constant
    if constant and all(c < 0 for _, c in address.terms):
        total, constant = integer(constant), 0
    # What is added comes first, so that no negation is needed.
    for name, coefficient in sorted(address.terms, key=lambda t: t[1] < 0):
        part = _scaled(name, abs(coefficient))
        if total is None:
            total = part if coefficient > 0 else Op("neg", (part,), INTEGER)
        else:
            total = Op("add" if coefficient > 0 else "sub", (total, part), INTEGER)
    if total is None:
        return integer(constant)
    return Op("add", (total, integer(constant)), INTEGER) if constant else total


def _scaled(name: str, factor: int) -> Term:
    variable = Var(name, INTEGER)
    if factor == 1:
        return variable
    if factor & (factor - 1) == 0:
        return Op("shl", (variable, integer(factor.bit_length() - 1)), INTEGER)
    return Op("mul", (variable, integer(factor)), INTEGER)


def as_vector(term: Term) -> Term:
    """`term` on every lane, if it isn't a vector already."""
    if term.type.vector:
        return term
    wide = VType(term.type.elem, True)
    return Const(term.value, wide) if isinstance(term, Const) else Op("bcast", (term,), wide)


def index_names(program: Program) -> frozenset[str]:
    """The names that addresses may use: loop iterators and integer parameters."""
    scalars = {s.name for s in program.scalars if register_elem(s.elem) == "i32"}
    return frozenset(scalars | {s.iterator for s in statements(program.body) if isinstance(s, Loop)})


class Names:
    """Fresh names for one program: the wanted one if free, else with a number."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = dict.fromkeys(taken, 0)

    @staticmethod
    def of(program: Program) -> Names:
        names = Names([a.name for a in program.arrays] + [s.name for s in program.scalars])
        for stmt in statements(program.body):
            if isinstance(stmt, Let):
                names.take(stmt.name)
            elif isinstance(stmt, Loop):
                names.take(stmt.iterator)
                for carried in stmt.carried:
                    names.take(carried.name)
        return names

    def take(self, name: str) -> None:
        self._taken.setdefault(name, 0)

    def fresh(self, wanted: str) -> str:
        if wanted not in self._taken:
            self._taken[wanted] = 0
            return wanted
        number = self._taken[wanted] + 1
        while f"{wanted}_{number}" in self._taken:
            number += 1
        self._taken[wanted] = number
        self._taken[f"{wanted}_{number}"] = 0
        return f"{wanted}_{number}"
