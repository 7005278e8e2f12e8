"""The kernel's C signature, and the header file that declares it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from dspgen.target.model import Target
from plant_core.ir import Buf, Func
from plant_core.printer import print_expr

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


@dataclass(frozen=True, slots=True)
class Signature:
    """`source` is the name of the C file, without its folder."""

    name: str
    parameters: tuple[Parameter, ...]
    source: str

    def places(self, target: Target) -> tuple[str | int | None, ...]:
        """Where the calling convention has the parameters at entry; see `Abi.places`."""
        pairs = target.register_class(target.abi.pointer_class).pair_of is not None
        wide = [p.elem in ("f64", "i64") if p.shape is None else pairs for p in self.parameters]
        return target.abi.places(wide)


def signature_of(func: Func) -> Signature:
    parameters = tuple(
        Parameter(p.name, p.dtype, _shape(p), p.const) if isinstance(p, Buf) else Parameter(p.name, p.dtype, None)
        for p in func.params
    )
    return Signature(func.name, parameters, PurePath(func.loc.file).name)


def _shape(buf: Buf) -> tuple[int | str, ...]:
    return tuple(n if isinstance(n, int) else print_expr(n) for n in buf.shape)


def emit_header(signature: Signature, needs: tuple[str, ...]) -> str:
    """The header file: a prototype with restricted pointers, and what a caller must see to (`needs`)."""
    guard = f"DSPGEN_{''.join(c if c.isalnum() else '_' for c in signature.name).upper()}_H"
    parameters = ", ".join(p.c_prototype for p in signature.parameters) or "void"
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

void {signature.name}({parameters});

#ifdef __cplusplus
}}
#endif
#undef DSPGEN_RESTRICT

#endif
"""
