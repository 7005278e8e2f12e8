"""Random loops of the kind that vectorizers are judged by: right on every machine and in every mode, or refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.target.load import load_target
from tests.generators.guarded import random_guarded
from tests.generators.loops import random_loops

QUICK, ALL = 10, 400
FEW = 4
SEEDS = [pytest.param(s, marks=() if s < QUICK else pytest.mark.slow) for s in range(ALL)]
MODES = (
    Options(tile="one", rewrite="off"),
    Options(tile="one", rewrite="vector", fp="strict"),
    Options(tile="one"),
    Options(rewrite="off"),
    Options(tile="one", fp="strict"),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loops(seed: int, tmp_path: Path) -> None:
    program = random_loops(random.Random(seed))
    path = tmp_path / "kernel.c"
    path.write_text(program.text, encoding="utf-8")
    target = load_target("ft_m7002", [("lanes", ("16", "8", "4", "32")[seed % 4])])
    try:
        result = run_file(str(path), target, MODES[seed % len(MODES)], inputs=program.given)
    except DspgenError as refusal:
        assert all(p.loc is not None and p.remedy for p in refusal.problems), (program.text, str(refusal))
        return
    assert result.verified, (program.text, result.details)
    told = [r for r in result.remarks if r.kind in ("vectorized", "not-vectorized")]
    assert all(r.loc is not None and r.message for r in told), program.text


@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < FEW else pytest.mark.slow) for s in range(ALL)])
def test_random_guarded_nests(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(random_guarded(random.Random(seed)), encoding="utf-8")
    target = load_target("ft_m7002", [("lanes", ("16", "8", "4")[seed % 3])])
    result = run_file(str(path), target, (Options(), *MODES)[seed % 4])
    assert result.verified, (path.read_text(encoding="utf-8"), result.details)


def test_flattened_loops_that_start_elsewhere_each_time(tmp_path: Path, root: Path) -> None:
    """Rows begin where the loop around them stands, so a row's stores meet the next one's loads one element further."""
    sizes = (("H", "5"), ("W", "256"), ("F", "4"))
    result = run_file(
        str(root / "examples" / "conv2d_full.c"), load_target("ft_m7002"), Options(tile="one", defines=sizes)
    )
    assert result.verified, result.details
