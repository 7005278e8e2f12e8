"""Nothing in the sources knows a machine: one with other names and other latencies works as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.options import Options
from dspgen.pipeline import run_file
from dspgen.target.load import isa_path, load_target
from dspgen.target.model import Target
from tests.support.examples import SMALL, defines
from tests.support.rename_isa import redraw_latencies, rename


def strange(seed: int, folder: Path) -> Target:
    text = isa_path("ft_m7002").read_text(encoding="utf-8")
    path = folder / "strange.toml"
    path.write_text(redraw_latencies(rename(text, seed), seed), encoding="utf-8")
    return load_target(str(path))


def test_no_name_is_left(tmp_path: Path, ft_m7002: Target) -> None:
    other = strange(1, tmp_path)
    assert len(other.instructions) == len(ft_m7002.instructions)
    assert not {i.mnemonic for i in other.instructions} & {i.mnemonic for i in ft_m7002.instructions}
    assert not set(other.unit_members) & set(ft_m7002.unit_members)
    registers = {name for c in ft_m7002.registers for name in c.names}
    assert not {name for c in other.registers for name in c.names} & registers


@pytest.mark.parametrize("name", SMALL)
def test_verified(name: str, examples: Path, tmp_path: Path) -> None:
    result = run_file(str(examples / f"{name}.c"), strange(7, tmp_path), Options(defines=defines(name)))
    assert result.verified


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SMALL)
def test_verified_on_many(name: str, seed: int, examples: Path, tmp_path: Path) -> None:
    result = run_file(str(examples / f"{name}.c"), strange(seed, tmp_path), Options(defines=defines(name)))
    assert result.verified
