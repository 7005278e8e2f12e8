"""The variables of the code between blocks, by name."""

from __future__ import annotations

from plant_core.scratchpad.buffers import Window


def at(counter: int) -> str:
    """Which block of a counter is at hand."""
    return f"block.{counter}"


def following(counter: int) -> str:
    """The same of the block after it."""
    return f"next.{counter}"


def stepping(counter: int) -> str:
    """Whether the next block is another one of the counter: all counters inside of it are at their last."""
    return f"step.{counter}"


def last(counter: int) -> str:
    """Whether the block is the counter's last."""
    return f"last.{counter}"


def near(window: Window) -> str:
    """Where the window of the block at hand is, of those that have two places."""
    return f"near.{window.name}"


def both(window: Window) -> str:
    """The sum of both places."""
    return f"both.{window.name}"


def ahead_of(window: Window) -> str:
    """Where the next block's window is, of those that slide."""
    return f"ahead.{window.name}"


def fresh(window: Window) -> str:
    """Whether all of a window that slides is to be fetched."""
    return f"fresh.{window.name}"


FINAL = "final"  # whether the block is the last of all
