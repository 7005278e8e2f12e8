"""What a rewrite rule is, and the ways to write one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

Use = Literal["gain", "lowering", "both", "optional"]


@dataclass(frozen=True, slots=True)
class Rule:
    """`use`: "gain" may make code cheaper; "lowering" replaces what the machine lacks, and is used only then; "both"
    is either; "optional" is used on request. A row is not used where the machine has one of the operations `unless`:
    other rows do the same with fewer terms; nor where it lacks one of `only`, of the row's side, and of its type
    unless another is named (`div.u32`). It is used only where the machine has one of the operations `given`, and where
    the region as written has one of the operations `start`, if there are any; and not where the operations `dearer`
    together occupy no more of the machine than those of the right side."""

    name: str
    left: str
    right: str
    when: str = ""
    why: str = ""
    use: Use = "gain"
    unless: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    dearer: tuple[str, ...] = ()


def given(operations: str, rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules, for machines that have one of the operations."""
    return tuple(replace(r, given=tuple(operations.split())) for r in rules)


def start(operations: str, rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules, for regions that have one of the operations as written."""
    return tuple(replace(r, start=tuple(operations.split())) for r in rules)


def dearer(operations: str, rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules, for machines where these operations occupy more than those of the right side."""
    return tuple(replace(r, dearer=tuple(operations.split())) for r in rules)


def row(
    name: str,
    left: str,
    right: str,
    when: str = "",
    why: str = "",
    unless: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    *,
    use: Use = "gain",
) -> Rule:
    return Rule(name, left, right, when, why, use, unless, only)


lower = partial(row, use="lowering")
both = partial(row, use="both")


def optional(name: str, left: str, right: str, when: str = "", why: str = "") -> Rule:
    return Rule(name, left, right, when, why, "optional")
