"""Tools that some tests need besides Python and the host's C compiler: programs on PATH, and modules of extras."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from dspgen.bench import peers
from dspgen.sim.external import missing_tools
from dspgen.target.load import isa_names, load_target

# Programs and modules by the name that a test gives: any one of the programs will do; what to install.
PROGRAMS = {
    "clang++": (("clang++", "clang++-19"), "clang-19"),
    "clang++-19": (("clang++-19",), "clang-19"),
}
MODULES = {"ortools": "exact", "matplotlib": "report", "halide": "rivals"}


@cache
def lacking(name: str) -> str:
    """Return why a tool is missing, or nothing. A machine's name stands for the tools that its ISA file names."""
    if name in PROGRAMS:
        programs, package = PROGRAMS[name]
        return "" if any(map(shutil.which, programs)) else f"{programs[0]} not found: install {package}"
    if name in peers.NAMES:
        with tempfile.TemporaryDirectory(prefix="dspgen-peers-") as folder:
            return "" if name in peers.installed(Path(folder)) else f"{name} not found: install clang-19"
    if name in MODULES:
        return "" if find_spec(name) is not None else f"{name} not found: install the extra `{MODULES[name]}`"
    assert name in isa_names(), f"no tool is called {name}"
    return missing_tools(load_target(name))


def see_to(names: Iterable[str]) -> None:
    """Skip the test where a tool is missing; on continuous integration, which is to have all, fail."""
    if told := "; ".join(filter(None, map(lacking, names))):
        if os.environ.get("CI") == "true":
            pytest.fail(told, pytrace=False)
        pytest.skip(told)
