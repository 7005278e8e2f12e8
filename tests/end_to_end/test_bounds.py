"""Compiled code keeps to its arrays and their padding; code that doesn't is not verified."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen import oracle
from dspgen.backend.array_padding import vector_bytes
from dspgen.backend.stages import Compiled, Padding, simulate_kernel
from dspgen.driver import pipeline
from dspgen.driver.pipeline import compile_file, run_compiled, run_file
from dspgen.errors import OutOfBounds
from dspgen.options import Options
from dspgen.sim.run import Engine
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.examples import defines

EXAMPLES = Path(__file__).parents[2] / "examples"
MACHINES = ("ft_m7002", "ft_mt3000", "ft_lite", "hexagon_v66")
ENGINES: tuple[Engine, ...] = ("python", "native")
KIB = 4_000_000


def compiled_on(isa: str, name: str) -> tuple[Compiled, Target, Options, str]:
    target, path = load_target(isa), str(EXAMPLES / f"{name}.c")
    options = Options(data="onchip", defines=defines(name))
    return compile_file(path, target, options), target, options, path


@pytest.mark.parametrize("isa", MACHINES)
@pytest.mark.parametrize("name", ["saxpy", "stencil3"])
def test_examples_keep_to_their_arrays(isa: str, name: str) -> None:
    compiled, target, options, path = compiled_on(isa, name)
    assert run_compiled(compiled, path, target, options).verified
    (told,) = [c for c in compiled.conditions if "before and after each array may be read" in c]
    assert int(told.split()[2]) >= vector_bytes(target.real) - 1 and told in compiled.asm


@pytest.mark.parametrize("isa", MACHINES)
def test_a_store_one_element_outside_is_told(isa: str) -> None:
    """The code is for 67 elements; an array of 66 makes its last store an element too many."""
    compiled, target, _, _ = compiled_on(isa, "saxpy")
    values = oracle.random_inputs(compiled.source, 0, {})
    values["y"] = np.asarray(values["y"])[:-1]
    messages = []
    for engine in ENGINES:
        with pytest.raises(OutOfBounds, match=r"writes \d+ bytes .* up to 4 bytes past the end of y") as caught:
            simulate_kernel(compiled, target, values, engine=engine)
        messages.append(caught.value.render())
    assert messages[0] == messages[1] and messages[0].startswith("<saxpy.s>:")


def test_a_load_beyond_the_padding_is_told() -> None:
    compiled, target, _, _ = compiled_on("ft_m7002", "saxpy")
    values = oracle.random_inputs(compiled.source, 0, {})
    short = replace(compiled, padding=dict.fromkeys(compiled.padding or {}, Padding(0, 0, 48)))
    for engine in ENGINES:
        with pytest.raises(OutOfBounds, match="reads .* up to 52 bytes past the end of"):
            simulate_kernel(short, target, values, engine=engine)


def test_the_command_ends_as_not_verified(
    dspgen: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "padding_of", lambda program, target, sized: {})
    path = str(EXAMPLES / "saxpy.c")
    given = ("-D", "N=67", "--isa", "ft_m7002", "--data", "onchip")
    for paths in ((path,), (path, path)):
        status, _, told = dspgen("run", *paths, *given)
        assert status == 1 and "error[DG436]" in told and "past the end of" in told and "<saxpy.s>:" in told


@pytest.mark.parametrize("given", [("--isa", "ft_m7002"), ("--isa", "hexagon_v66"), ("--backend", "cpu")])
def test_runs_where_little_address_space_is_given(given: tuple[str, ...]) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (KIB << 10, KIB << 10))

    command = [sys.executable, "-m", "dspgen", "run", str(EXAMPLES / "saxpy.c"), "-D", "N=67", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)  # noqa: PLW1509
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size, place", [(1, "13 * j"), (4, "j * j"), (20, "13 * j + i")])
def test_loads_that_no_lane_makes_keep_to_their_arrays(size: int, place: str, tmp_path: Path) -> None:
    """Iterations that don't run for small `n` read nothing, though all lanes would read one element."""
    path = tmp_path / "kernel.c"
    path.write_text(f"""void k(int n, const int x[{size}], int y[20]) {{
      for (int i = 1; i < 20; i++) {{
        int v = 0;
        for (int j = 0; j < (i < n ? i : n); j += 4) v = x[{place}] % 8;
        y[i] = v;
      }} }}""")
    target = load_target(str(EXAMPLES.parent / "tests" / "isa" / "quad.toml"))
    assert run_file(str(path), target, Options(), inputs={"n": 2}).verified


@pytest.mark.parametrize("isa", ["ft_lite", "ft_m7002", "ft_mt3000"])
@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 200; i++) { y[i] = 1; if (i < 140) y[i] += x[i + 9] > 0; }",
        "for (int i = 0; i < 200; i++) { y[i] = 1; if (i < 140) x[i + 9] = i; }",
        "for (int i = 151; i > 0; i -= 2) y[i] = i % 4 != 1 || x[i - 1] <= x[i];",
    ],
)
def test_transfers_keep_to_arrays_whose_sizes_only_the_run_tells(isa: str, body: str, tmp_path: Path) -> None:
    """Statements that run in a part of a loop touch less of an array than the loop's other iterations would."""
    path = tmp_path / "kernel.c"
    path.write_text(f"void k(int n, int y[200], float x[n + 148]) {{ {body} }}")
    assert run_file(str(path), load_target(isa), Options(data="ddr"), inputs={"n": 2}).verified
