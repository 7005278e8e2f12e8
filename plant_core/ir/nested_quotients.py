"""Quotients of quotients: as subscripts exact in principle, but isl takes hours over sets of such places.

`s * (i / s) + (i + n - 16 * i / n) % s`, with `i = 12 * (k % 16) + k / 16`, is one, an interleaver's. What is a plain
quotient after all, such as `(i % 16) / 4`, isl has found out before.
"""

from __future__ import annotations

import islpy as isl


def tangled(value: isl.PwAff) -> bool:
    """Whether a quotient is made of others in a value."""
    return any(_is_nested(aff) for _, aff in value.get_pieces())


def _is_nested(aff: isl.Aff) -> bool:
    return any(aff.get_div(k).involves_dims(isl.dim_type.div, 0, k) for k in range(1, aff.dim(isl.dim_type.div)))
