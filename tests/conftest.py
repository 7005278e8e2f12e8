"""What all tests share: Hypothesis profiles, the examples and the machine."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from plant_core.support.fork_join import limit_processes
from plant_core.support.memoize import forget
from tests.support.tools import see_to

ROOT = Path(__file__).parent.parent

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=1000, derandomize=False)
settings.load_profile("default")

# As seldom as Python looks at new objects by default, a tenth of the time of all tests is spent on it. Old ones are
# looked at once a million new ones are there, if that is a quarter of them.
gc.set_threshold(100_000, 5, 2)
# Of the C library, where it has that: it keeps what compiled code frees in parts.
TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def examples(root: Path) -> Path:
    return root / "examples"


@pytest.fixture(scope="session")
def ft_m7002() -> Target:
    return load_target("ft_m7002")


@pytest.fixture(autouse=True)
def tools(request: pytest.FixtureRequest) -> None:
    """See to the tools that the test's marks `needs_tool` name."""
    see_to(name for mark in request.node.iter_markers("needs_tool") for name in mark.args)


@pytest.fixture(autouse=True, scope="module")
def results_are_dropped() -> Iterator[None]:
    """Drop the results remembered for one module's objects, and give memory that is free back to the system."""
    yield
    forget()
    if TRIM is not None:
        TRIM(0)


@pytest.fixture(autouse=True)
def one_process() -> None:
    """Tests run beside each other; those of several processes say so."""
    limit_processes(1)


@pytest.fixture(autouse=True)
def packets_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test compiles and runs is judged by the schedule checker, too, if it doesn't run for long."""
    from dspgen.driver import pipeline
    from tests.support.checking import STEPS, assert_checked

    simulate_kernel = pipeline.simulate_kernel

    def checked(compiled, machine, values, **how):  # type: ignore[no-untyped-def]
        result = None
        try:
            result = simulate_kernel(compiled, machine, values, **how)
        finally:
            if result is None or result.instructions <= 2 * STEPS:  # in packets some instructions run more often
                assert_checked(compiled, machine, values)
        return result

    monkeypatch.setattr(pipeline, "simulate_kernel", checked)


@pytest.fixture
def dspgen(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: exit status, stdout, stderr."""
    from dspgen.cli.main import main

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit:
            main(arguments)
        out, err = capsys.readouterr()
        assert isinstance(exit.value.code, int)
        return exit.value.code, out, err

    return run
