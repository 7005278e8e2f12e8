"""Nothing in the sources knows a machine: one with other names and other latencies works as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.target.load import isa_names, isa_path, load_target
from tests.support.examples import SMALL, defines
from tests.support.rename_isa import redraw_latencies, rename

LONG = ("conv2d_valid", "fft256", "fir16", "matmul")  # to compile: in `make nightly` only


def strange(seed: int, folder: Path, isa: str = "ft_m7002") -> Target:
    text = isa_path(isa).read_text(encoding="utf-8")
    path = folder / "strange.toml"
    path.write_text(redraw_latencies(rename(text, seed), seed), encoding="utf-8")
    return load_target(str(path))


@pytest.mark.parametrize("isa", isa_names())
def test_no_name_is_left(isa: str, tmp_path: Path) -> None:
    machine, other = load_target(isa), strange(1, tmp_path, isa)
    assert len(other.instructions) == len(machine.instructions)
    assert not {i.mnemonic for i in other.instructions} & {i.mnemonic for i in machine.instructions}
    assert not set(other.unit_members) & set(machine.unit_members)
    registers = {name for c in machine.registers for name in c.names}
    assert not {name for c in other.registers for name in c.names} & registers


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in SMALL])
def test_verified(name: str, examples: Path, tmp_path: Path) -> None:
    result = run_file(str(examples / f"{name}.c"), strange(7, tmp_path), Options(defines=defines(name)))
    assert result.verified


@pytest.mark.parametrize("isa", isa_names())
@pytest.mark.parametrize("name", ["dot", "saxpy", "stencil3"])
def test_every_machine_is_verified(name: str, isa: str, examples: Path, tmp_path: Path) -> None:
    result = run_file(str(examples / f"{name}.c"), strange(5, tmp_path, isa), Options(defines=defines(name)))
    assert result.verified


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("isa", isa_names())
@pytest.mark.parametrize("name", SMALL)
def test_verified_on_many(name: str, isa: str, seed: int, examples: Path, tmp_path: Path) -> None:
    result = run_file(str(examples / f"{name}.c"), strange(seed, tmp_path, isa), Options(defines=defines(name)))
    assert result.verified
