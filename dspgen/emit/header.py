"""The kernel's C signature, and the header file that declares it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from dspgen.target.isa.model import Target
from dspgen.target.query.arguments import Place, argument_places, by_structure, structure_register
from plant_core.ir.func import Buf, Func
from plant_core.ir.printer import print_expr

_C_TYPES = {
    "f32": "float",
    "f64": "double",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
}
_NARROW = ("i8", "i16", "u8", "u16")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the kernel. `shape` is in elements, row-major, extents that are parameters as C text; None for a
    scalar."""

    name: str
    elem: str
    shape: tuple[int | str, ...] | None
    const: bool = False

    @property
    def c_text(self) -> str:
        """The declaration as the user would write it: `const float A[64][64]`."""
        const = "const " if self.const else ""
        return f"{const}{_C_TYPES[self.elem]} {self.name}" + "".join(f"[{n}]" for n in self.shape or ())

    @property
    def c_prototype(self) -> str:
        """The declaration as a restricted pointer: `const float (*restrict A)[64]`; to an element where rows have no
        size that is known."""
        if self.shape is None:
            return self.c_text
        const = "const " if self.const else ""
        inner = "".join(f"[{n}]" for n in self.shape[1:])
        pointer = f"*DSPGEN_RESTRICT {self.name}"
        known = inner and all(isinstance(n, int) for n in self.shape[1:])
        return f"{const}{_C_TYPES[self.elem]} " + (f"({pointer}){inner}" if known else pointer)

    @property
    def c_member(self) -> str:
        """The declaration as a member of the structure of arguments, where numbers are words at least."""
        if self.shape is None and self.elem in _NARROW:
            return f"int32_t {self.name};  /* as {_C_TYPES[self.elem]} */"
        return f"{self.c_prototype};"


@dataclass(frozen=True, slots=True)
class Signature:
    """`source` is the name of the C file, without its folder."""

    name: str
    parameters: tuple[Parameter, ...]
    source: str

    def places(self, target: Target) -> tuple[Place, ...]:
        """Where the calling convention has the parameters at entry; see `argument_places`."""
        return argument_places(target, [p.elem if p.shape is None else None for p in self.parameters])

    @property
    def structure(self) -> str:
        """The name of the structure that holds the arguments where one does."""
        return f"{self.name}_args"


def signature_of(func: Func) -> Signature:
    parameters = tuple(
        Parameter(p.name, p.dtype, _shape(p), p.const) if isinstance(p, Buf) else Parameter(p.name, p.dtype, None)
        for p in func.params
    )
    return Signature(func.name, parameters, PurePath(func.loc.file).name)


def _shape(buf: Buf) -> tuple[int | str, ...]:
    return tuple(n if isinstance(n, int) else print_expr(n) for n in buf.shape)


def place_text(place: Place, target: Target) -> str:
    """Where an argument is at entry, in words of the listing: a register, the stack, or bytes from an address."""
    if isinstance(place, str):
        return place
    return "stack" if isinstance(place, int) else f"{structure_register(target)}+{place.offset}"


def emit_header(signature: Signature, target: Target, needs: tuple[str, ...]) -> str:
    """The header file: a prototype with restricted pointers, and what a caller must see to (`needs`). Where arguments
    come in a structure, it is declared, too."""
    guard = f"DSPGEN_{''.join(c if c.isalnum() else '_' for c in signature.name).upper()}_H"
    parameters = ", ".join(p.c_prototype for p in signature.parameters) or "void"
    structure = ""
    if by_structure(signature.places(target)):
        members = "\n".join(f"  {p.c_member}" for p in signature.parameters)
        reached = ", ".join(m.name for m in target.memories if "scalar" in m.sides and m.purpose == "data")
        structure = f"""/* All arguments, in memory that scalar units reach ({reached}).
   They are only read, and not any more when {signature.name} has returned. */
struct {signature.structure} {{
{members}
}};

"""
        parameters = f"const struct {signature.structure} *DSPGEN_RESTRICT args"
    notes = "\n".join(f" * - {need}" for need in needs)
    return f"""/* {signature.name}, from {signature.source}. The caller sees to it that:
{notes}
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
#define DSPGEN_RESTRICT __restrict
extern "C" {{
#else
#define DSPGEN_RESTRICT restrict
#endif

{structure}void {signature.name}({parameters});

#ifdef __cplusplus
}}
#endif
#undef DSPGEN_RESTRICT

#endif
"""
