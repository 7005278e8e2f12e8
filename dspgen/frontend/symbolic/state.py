"""What symbolic execution knows at one place of a function: the values of its integers, and where pointers point."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pycparser import c_ast, c_generator

from dspgen.frontend.symbolic.polynomials import Atom, Name, Opaque, Poly, Read, atom


@dataclass(frozen=True, slots=True)
class Integer:
    """A scalar whose values are followed. `exact`: int itself, so that C's arithmetic on ints gives its values.

    A narrow one, which may wrap at each assignment, is followed as a loop's counter only.
    """

    signed: bool
    wide: bool
    narrow: bool = False

    @property
    def exact(self) -> bool:
        return self.signed and not self.wide and not self.narrow

    def name(self) -> str:
        """The type in C."""
        return f"{'' if self.signed else 'unsigned '}{'long' if self.wide else 'int'}"


@dataclass(frozen=True, slots=True)
class Pointer:
    """`rank` is the number of subscripts that lead to an element."""

    element: str
    rank: int


@dataclass(frozen=True, slots=True)
class Base:
    """The array into which a pointer points, behind the row that the first subscripts choose."""

    array: str
    row: tuple[Poly, ...] = ()


Place = tuple[Base, Poly]
"""An array's row and the index in it."""


@dataclass(slots=True)
class State:
    """`bases` has None for a pointer that may point into several arrays."""

    values: dict[str, Poly] = field(default_factory=dict)
    bases: dict[str, Base | None] = field(default_factory=dict)
    facts: tuple[Poly, ...] = ()

    def copy(self) -> State:
        return State(dict(self.values), dict(self.bases), self.facts)

    def holds(self, poly: Poly) -> bool:
        """Whether every name in it still has, in memory, the value that is meant."""
        return all(self.values.get(name.name) == atom(name) for name in poly.names)


@dataclass(slots=True)
class Types:
    """The declared objects of a function, by name. `consts` are the values of the file's integer constants."""

    typedefs: dict[str, c_ast.Node]
    consts: dict[str, Poly] = field(default_factory=dict)
    integers: dict[str, Integer] = field(default_factory=dict)
    pointers: dict[str, Pointer] = field(default_factory=dict)
    arrays: dict[str, Pointer] = field(default_factory=dict)
    versions: int = 0

    def fresh(self, name: str) -> Poly:
        """A value that isn't known in terms of others."""
        self.versions += 1
        return atom(Name(name, self.versions))

    def kind(self, node: c_ast.Node) -> tuple[bool, bool] | None:
        """Of a type that has 32 bits or more, whether it is signed and has 64; None for other types."""
        found = self._integer(node)
        return None if found is None or found.narrow else (found.signed, found.wide)

    def _integer(self, node: c_ast.Node) -> Integer | None:
        while isinstance(node, c_ast.TypeDecl):
            node = node.type
        if not isinstance(node, c_ast.IdentifierType):
            return None
        names = list(node.names)
        if len(names) == 1 and names[0] in self.typedefs:
            return self._integer(self.typedefs[names[0]])
        if {"short", "char"} & set(names):
            # As an operand it is an int.
            return Integer(True, False, True)
        if not set(names) <= {"int", "unsigned", "signed", "long"} or not names:
            return None
        return Integer("unsigned" not in names, "long" in names)

    def element(self, node: c_ast.Node) -> str:
        """A text that equal types share, qualifiers left out."""
        while isinstance(node, c_ast.TypeDecl):
            node = node.type
        if isinstance(node, c_ast.IdentifierType):
            names = list(node.names)
            if len(names) == 1 and names[0] in self.typedefs:
                return self.element(self.typedefs[names[0]])
            kept = [n for n in names if n != "signed" or "char" in names]
            kept = [n for n in kept if n != "int" or len(kept) == 1]
            return " ".join(sorted(kept)) or "int"
        return str(c_generator.CGenerator().visit(c_ast.Typename(None, [], None, node)))

    def declare(self, node: c_ast.Decl) -> None:
        kind = node.type
        if isinstance(kind, c_ast.TypeDecl) and (target := self._pointer_typedef(kind)) is not None:
            kind = target
        match kind:
            case c_ast.PtrDecl(type=inner):
                pointed, rank = _element(inner)
                if not isinstance(pointed, c_ast.PtrDecl | c_ast.FuncDecl):
                    self.pointers[node.name] = Pointer(self.element(pointed), rank + 1)
            case c_ast.ArrayDecl():
                pointed, rank = _element(kind)
                if not isinstance(pointed, c_ast.PtrDecl | c_ast.FuncDecl):
                    self.arrays[node.name] = Pointer(self.element(pointed), rank)
            case c_ast.TypeDecl():
                if (found := self._integer(kind)) is not None and "volatile" not in kind.quals:
                    self.integers[node.name] = found

    def _pointer_typedef(self, node: c_ast.Node) -> c_ast.PtrDecl | None:
        inner = node.type
        if isinstance(inner, c_ast.IdentifierType) and len(inner.names) == 1 and inner.names[0] in self.typedefs:
            target = self.typedefs[inner.names[0]]
            return target if isinstance(target, c_ast.PtrDecl) else None
        return None

    def read(self, name: str, state: State) -> Read | None:
        if name in self.consts and name not in state.values:
            return Read(self.consts[name], True, natural=(self.consts[name].constant or 0) >= 0)
        known = self.integers.get(name)
        if known is None or name not in state.values:
            return None
        value = state.values[name]
        return Read(value, known.signed, known.wide, self._natural(value))

    def _natural(self, poly: Poly) -> bool:
        """Whether the value can't be negative, as far as the types tell."""

        def one(item: Atom) -> bool:
            match item:
                case Name(name):
                    return (known := self.integers.get(name)) is not None and not known.signed
                case Opaque("max0", _):
                    return True
                case _:
                    return all(self._natural(arg) for arg in item.args)

        return all(factor > 0 and all(one(item) for item in monomial) for monomial, factor in poly.terms)

    def exact(self, names: Iterable[Name]) -> bool:
        return all((known := self.integers.get(n.name)) is not None and known.exact for n in names)


def _element(node: c_ast.Node) -> tuple[c_ast.Node, int]:
    rank = 0
    while isinstance(node, c_ast.ArrayDecl):
        node, rank = node.type, rank + 1
    return node, rank
