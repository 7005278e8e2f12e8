"""The C library's functions of floats, by the names that a `Call` may have."""

from __future__ import annotations

from plant_core.ir.func import DType
from plant_core.support.location import PlantError

ARITY = {
    **dict.fromkeys(
        """acos asin atan cbrt ceil cos cosh erf exp exp2 expm1 fabs floor log log10 log1p log2 lgamma tgamma nearbyint
        rint round sin sinh sqrt tan tanh trunc""".split(),
        1,
    ),
    **dict.fromkeys("atan2 copysign fmod hypot pow fmin fmax".split(), 2),
    "fma": 3,
}
VECTOR_FORMS = frozenset({"sin", "cos", "exp", "log", "pow"})
"""What the GNU C library has vector forms of since its version 2.22."""


def base_name(name: str) -> str | None:
    """The function without the `f` for floats; None where it isn't one of the library's."""
    if name in ARITY:
        return name
    return name[:-1] if name.endswith("f") and name[:-1] in ARITY else None


def function(name: str, dtype: DType) -> str:
    """The C function that computes `name` in `dtype`; PlantError where there is none."""
    base = base_name(name)
    if base is None or dtype not in ("f32", "f64"):
        raise PlantError(
            f"the function '{name}' on {dtype} has no definition",
            code="DG602",
            remedy=f"the functions are: {', '.join(sorted(ARITY))}, on f32 and f64",
        )
    return f"{base}f" if dtype == "f32" else base
