"""The scripts of `bench/` that make the documents' tables: each starts, and does the smallest thing that it does."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from dspgen.target.isa.model import Target
from tests.support.straight_blocks import Blocks

Script = Callable[[str], ModuleType]


@pytest.fixture
def script(root: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """A module of `bench/` by name, as it is where the script is started."""
    monkeypatch.syspath_prepend(str(root / "bench"))
    for path in (root / "bench").glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return importlib.import_module


def test_all_are_read_for_types(root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["mypy"]["modules"] == sorted(p.stem for p in (root / "bench").glob("*.py"))


def test_tables_replace_what_stands_after_their_mark(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = script("tables")
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("text\n<!-- table: bench/one.py -->\n| old |\n\n## Next\n", encoding="utf-8")
    tables.write_table("page.md", "one", ["| new |"])
    assert page.read_text(encoding="utf-8") == "text\n<!-- table: bench/one.py -->\n| new |\n\n## Next\n"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("cyclic", ["2"], "2 of 2 have the least interval"),
        ("intervals", ["stencil3"], "1 of 1 loops have their least interval"),
        ("loop_speed", ["1"], "| random, ft_m7002 | 1 |"),
        ("packing_default", ["trisolv", "--seconds", "0"], "over 0 rows"),
        ("rewrite_speed", ["saxpy"], "optimise"),
        ("rewriting", ["saxpy"], "| saxpy | "),
        ("sim_speed", ["1"], "right"),
        ("irregular", ["quaternion"], "| quaternion | "),
    ],
)
def test_of_one_kernel(
    name: str,
    arguments: list[str],
    said: str,
    script: Script,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    script(name).main()
    assert said in capsys.readouterr().out


def test_a_transform_of_four_points(script: Script) -> None:
    assert script("fft").row("split", 4).startswith("| split | 4 | yes | ")


def test_a_kernel_by_all_tilers(script: Script) -> None:
    assert script("tilers").row("stencil").endswith(" | 1.000 |")


def test_any_size_and_one(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = script("sizes")
    saxpy = sizes.KERNELS["saxpy"]
    assert "int n, float a" in saxpy.source(known=False) and "int n" not in saxpy.source(known=True)
    monkeypatch.setitem(sizes.KERNELS, "saxpy", sizes.Kernel(saxpy.text, saxpy.names, ((100,),)))
    ((line, share),) = sizes.rows("saxpy", "onchip", tmp_path)
    assert line.startswith("| saxpy | 100 | ") and "wrong" not in line and share > 0.1


def test_a_kernel_packed(script: Script) -> None:
    packing = script("packing")
    lines = packing.rows("contract3d", packing.CASES["contract3d"], "mini", 0)
    assert [line.split(" | ")[1] for line in lines] == ["text", "tiles of 32", "default"]
    assert all("wrong" not in line for line in lines)


def test_a_default_schedule_packed(script: Script) -> None:
    default = script("packing_default")
    defines = (("NI", "96"), ("NJ", "256"), ("NK", "256"))
    assert default.row("trisolv", "mini", (("N", "40"),), 0) is None
    found = default.row("gemm", "own", defines, 0)
    assert found is None or "wrong" not in found[0]  # what is packed depends on this computer


def test_a_loop_beside_scalar_code(script: Script) -> None:
    loops = script("loops")
    row = loops.row(*next(k for k in loops.kernels() if k[1] == "scale_and_add"))
    assert row.vectorized == row.loops == 1 and row.gain > 1


def test_a_random_block(script: Script, ft_m7002: Target) -> None:
    straight = script("straight")
    row = straight.random_row(Blocks(ft_m7002), 0)
    assert row.found == row.optimum <= row.listed
    assert straight.line("random", [row]).startswith("| random | 1 | 1 | 1 | ")


def test_the_blocks_of_an_example(script: Script, examples: Path, ft_m7002: Target) -> None:
    assert script("straight").captured(examples / "saxpy.c", "saxpy", ft_m7002)
