"""Code that is too large for a candidate is given up while it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.asmir.ir.function import instruction_count
from dspgen.asmir.lower import lower
from dspgen.backend.stages import SPARE, assemble
from dspgen.driver.pipeline import compile_file
from dspgen.errors import TooLarge
from dspgen.options import Options
from dspgen.rewrite.optimize import Optimised
from dspgen.target.isa.model import Target


def test_lowering_stops_beyond_most(ft_m7002: Target) -> None:
    path = Path(__file__).parents[2] / "examples" / "stencil3.c"
    compiled = compile_file(str(path), ft_m7002, Options(tile="one"))
    size = instruction_count(compiled.assembly.body)
    assert instruction_count(lower(compiled.program, ft_m7002, most=2 * size).body) <= 2 * size
    with pytest.raises(TooLarge, match="over 3 instructions"):
        lower(compiled.program, ft_m7002, most=3)
    with pytest.raises(TooLarge, match=f"over {size // 2} instructions"):
        lower(compiled.program, ft_m7002, most=size // 2)  # though no loop or straight piece has so many


def test_code_given_up_while_it_is_made_counts_as_so_many_times_too_large(ft_m7002: Target) -> None:
    path = Path(__file__).parents[2] / "examples" / "stencil3.c"
    compiled = compile_file(str(path), ft_m7002, Options(tile="one"))
    rewritten = Optimised(compiled.program, compiled.remarks)
    with pytest.raises(TooLarge) as refusal:
        assemble(compiled.planned, rewritten, ft_m7002, Options(), 3)
    assert refusal.value.times == SPARE
