"""C's scalar types, its conversions between them, and declared types from the syntax tree.

The host's model (LP64, plain `char` signed) is taken. `u64` is a type that only the front end knows: such a
value is carried as an `i64` that is proven not to be negative. `bool` is `_Bool`, of variables only, carried as a `u8`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pycparser import c_ast

from dspgen.frontend.parse.error_codes import fail
from plant_core.ir.func import DType, Extent, Param
from plant_core.support.location import Loc

CType = DType | Literal["u64", "bool"]

_NAMES: dict[tuple[str, ...], CType] = {
    ("float",): "f32",
    ("double",): "f64",
    ("char",): "i8",
    ("char", "signed"): "i8",
    ("char", "unsigned"): "u8",
    ("short",): "i16",
    ("short", "unsigned"): "u16",
    ("_Bool",): "bool",
    (): "i32",
    ("unsigned",): "u32",
    ("long",): "i64",
    ("long", "unsigned"): "u64",
    ("long", "long"): "i64",
    ("long", "long", "unsigned"): "u64",
}
_RANK: dict[CType, int] = {"i32": 1, "u32": 2, "i64": 3, "u64": 4, "f32": 5, "f64": 6}
_SUPPORTED = "use float, double, or a signed or unsigned char, short or int"
_NO_BOOL = "use unsigned char, with values 0 and 1"


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar, or an array of it if `shape` isn't empty; an extent of 0 is left open for the initialiser to say."""

    ctype: CType
    shape: tuple[Extent, ...] = ()
    const: bool = False


_OPEN = "?"
_MOST_ELEMENTS = (1 << 31) - 1  # subscripts are of 32 bits


def is_open(extent: Extent) -> bool:
    """Whether nothing is known of an array parameter's outermost extent, as in `float *x` and `float x[][4]`."""
    return isinstance(extent, Param) and extent.name.startswith(_OPEN)


@dataclass(frozen=True, slots=True)
class TypeReader:
    """`typedefs` maps names to their declared types; `size` evaluates an array's extent, or gives None."""

    typedefs: dict[str, c_ast.Node]
    size: Callable[[c_ast.Node], Extent | None]
    place: Callable[[c_ast.Node], Loc]

    def parameter(self, node: c_ast.Node, name: str, loc: Loc) -> Type:
        """A parameter's type, where a pointer is an array with an open extent."""
        declared, const = node, False
        while isinstance(declared, c_ast.TypeDecl) and isinstance(declared.type, c_ast.IdentifierType):
            names = list(declared.type.names)
            if len(names) != 1 or names[0] not in self.typedefs:
                break
            const = const or "const" in declared.quals
            declared = self.typedefs[names[0]]
        match declared:
            case c_ast.PtrDecl():
                # What a typedef's user qualifies is then the pointer, which doesn't matter.
                const = False
            case c_ast.ArrayDecl(dim=None):
                pass
            case _:
                found = self.read(node, loc)
                if found.ctype == "bool":
                    fail("DG006", "parameters of type bool aren't supported", loc, _NO_BOOL)
                return found
        if isinstance(declared.type, c_ast.PtrDecl):
            fail("DG007", "the extents behind a pointer to pointers aren't known", loc, f"use rows: '{name}[N][M]'")
        inner = self.read(declared.type, loc)
        if inner.ctype == "bool":
            fail("DG006", "arrays of bool aren't supported", loc, _NO_BOOL)
        return Type(inner.ctype, (Param(f"{_OPEN}{name}", "i32"), *inner.shape), const or inner.const)

    def read(self, node: c_ast.Node, loc: Loc, *, open_size: bool = False) -> Type:
        match node:
            case c_ast.TypeDecl():
                if "volatile" in node.quals:
                    fail("DG006", "volatile objects aren't supported", loc, "remove 'volatile'")
                inner = self.read(node.type, loc)
                return Type(inner.ctype, inner.shape, inner.const or "const" in node.quals)
            case c_ast.ArrayDecl():
                return self._array(node, loc, open_size)
            case c_ast.IdentifierType():
                return self._named(list(node.names), loc)
            case c_ast.PtrDecl():
                remedy = "declare it as an array of known size, such as 'float x[N]'"
                if isinstance(node.type, c_ast.TypeDecl) and isinstance(node.type.type, c_ast.IdentifierType):
                    element = " ".join(node.type.type.names)
                    name = node.type.declname or "x"
                    remedy = f"give the size: '{element} {name}[N]' with N a constant"
                fail("DG007", "a pointer's extent isn't known", loc, remedy)
            case c_ast.Struct() | c_ast.Union():
                fail("DG006", "structures and unions aren't supported", loc, "use one array for each member")
            case c_ast.Enum():
                fail("DG006", "variables of an enumeration type aren't supported", loc, "use int")
            case c_ast.FuncDecl():
                fail("DG006", "functions can't be declared here", loc, "remove the declaration")
            case _:
                fail("DG006", "this type isn't supported", loc, _SUPPORTED)

    def _array(self, node: c_ast.ArrayDecl, loc: Loc, open_size: bool) -> Type:
        if isinstance(node.type, c_ast.PtrDecl):
            fail("DG007", "the extents behind an array of pointers aren't known", loc, "use rows: 'float x[N][M]'")
        inner = self.read(node.type, loc)
        if inner.ctype == "bool":
            fail("DG006", "arrays of bool aren't supported", loc, _NO_BOOL)
        if node.dim is None:
            if not open_size:
                fail("DG007", "an array without its size", loc, "give the size, such as 'float x[N]' with N a constant")
            extent: Extent = 0
        else:
            found = self.size(node.dim)
            if found is None:
                fail(
                    "DG007",
                    "an array's size must be made of constants and integer parameters",
                    self.place(node.dim),
                    "use a macro, an enum constant or a parameter",
                )
            if isinstance(found, int) and found <= 0:
                fail("DG007", f"an array's size must be positive, not {found}", self.place(node.dim))
            extent = found
        count = math.prod(n for n in (extent, *inner.shape) if isinstance(n, int))
        if count > _MOST_ELEMENTS:
            what = f"the array is too large: {count} elements, of at most {_MOST_ELEMENTS}"
            fail("DG007", what, loc, "declare it smaller, or give only the part that is used")
        return Type(inner.ctype, (extent, *inner.shape), inner.const)

    def _named(self, names: list[str], loc: Loc) -> Type:
        if len(names) == 1 and names[0] in self.typedefs:
            return self.read(self.typedefs[names[0]], loc)
        kept = [n for n in names if n not in ("int", "signed") or ("char" in names and n == "signed")]
        found = _NAMES.get(tuple(sorted(kept)))
        if found is None:
            fail("DG006", f"the type '{' '.join(names)}' isn't supported", loc, _SUPPORTED)
        return Type(found)


def represented(ctype: CType) -> DType:
    """The type in the polyhedral program."""
    match ctype:
        case "u64":
            return "i64"
        case "bool":
            return "u8"
    return ctype


def promoted(ctype: CType) -> CType:
    """C's integer promotion."""
    return "i32" if ctype in ("i8", "i16", "u8", "u16", "bool") else ctype


def common(left: CType, right: CType) -> CType:
    """The type of the usual arithmetic conversions."""
    return max(promoted(left), promoted(right), key=_RANK.__getitem__)


def storable(ctype: CType, loc: Loc) -> DType:
    """The type as an array's or a variable's."""
    if ctype == "u64":
        fail("DG006", "64-bit unsigned values can't be stored", loc, "use int64_t, or a narrower type")
    return represented(ctype)
