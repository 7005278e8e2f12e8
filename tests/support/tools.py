"""Tests that need the tools of an ISA file say what is missing where they are skipped; where none may be, they fail."""

from __future__ import annotations

import os

import pytest

from dspgen.emulator import missing_tools
from dspgen.target.model import Target


def needs_tools(target: Target) -> None:
    """Skips the test where a tool is missing; on continuous integration that is a failure."""
    if lacking := missing_tools(target):
        if os.environ.get("CI") == "true":
            pytest.fail(lacking)
        pytest.skip(lacking)
