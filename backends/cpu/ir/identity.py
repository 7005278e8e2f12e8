"""What a reduction starts from."""

from __future__ import annotations

import math

from backends.cpu.ir.statements import Const, ReductionOp
from plant_core.ir.c_semantics import is_float, limits, wrap
from plant_core.ir.func import DType


def identity(op: ReductionOp, dtype: DType) -> Const:
    match op:
        case "add" | "or" | "xor":
            return Const(0, dtype)
        case "mul":
            return Const(1, dtype)
        case "and":
            return Const(wrap(-1, dtype), dtype)
        case "min" | "max":
            if is_float(dtype):
                return Const(math.inf if op == "min" else -math.inf, dtype)
            return Const(limits(dtype)[1 if op == "min" else 0], dtype)
