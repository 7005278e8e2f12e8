"""Every stage of a Fourier transform runs across lanes, the early ones too, whose inner loops are short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dspgen.bench.table1 import KERNELS
from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.load import load_target
from dspgen.tiling.candidates import Choice
from dspgen.vecdsl.ir.program import Loop, Program, Store
from dspgen.vecdsl.ir.terms import statements

EXAMPLES = Path(__file__).parents[2] / "examples"


FORMS = [("bench/fft_16.c", False), ("fft/split.c", False), ("fft/interleaved.c", True)]
QUICK = Options(tile="one", rewrite="off", sched="list")


@pytest.mark.parametrize(
    "options", [QUICK, pytest.param(Options(), marks=pytest.mark.slow)], ids=["single vectors", "searched"]
)
@pytest.mark.parametrize(("path", "interleaved"), FORMS, ids=["affine", "split", "interleaved"])
def test_every_stage_is_in_lanes(path: str, interleaved: bool, options: Options) -> None:
    size = 16
    options = replace(options, defines=() if path.startswith("bench") else (("N", str(size)),))
    seen: dict[str, object] = {}
    target = load_target("ft_m7002")
    result = run_file(str(EXAMPLES / path), target, options, on_stage=lambda k, v: seen.update({k: v}))
    assert result.verified
    choices = seen["plan"]
    assert isinstance(choices, tuple)
    stages: list[Choice] = list(choices[-(size.bit_length() - 1) :])
    assert all(c.candidate.laned == c.comps for c in stages), [c.candidate.title for c in stages]
    program = seen["rewritten"]
    assert isinstance(program, Program)
    reordered = {id(s) for top in program.body if isinstance(top, Loop) for s in statements((top,))}
    stores = [s for s in statements(program.body) if isinstance(s, Store) and id(s) not in reordered]
    assert stores and all(s.value.type.vector and s.index is None and not s.period for s in stores)
    if interleaved:  # both parts of whole vectors are stored at once
        assert len(stores) <= 2 * len(stages)


def test_of_unrolled_forms_those_most_in_lanes_are_tried_first() -> None:
    """Others would use up the statements that are tried: of 16 points, one of 336 is most of 600."""
    kernel = KERNELS["fft_loop_16"]
    result = run_file(kernel.source, load_target("ft_m7002"), Options(defines=kernel.defines))
    assert result.verified and result.tiles == ("unrolled, yr by columns, yi by columns",)
