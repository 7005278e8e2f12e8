"""A machine whose packets take only so many instructions on some groups of its units."""

from __future__ import annotations

from dataclasses import replace

from dspgen.target.isa.model import PacketLimit, Target


def limited(target: Target, *limits: tuple[str, int]) -> Target:
    """With limits such as ("VMAC1 VMAC2 VIEU", 2)."""
    groups = tuple(PacketLimit(f"g{k}", frozenset(units.split()), most) for k, (units, most) in enumerate(limits))
    return replace(target, packets=replace(target.packets, limits=groups))


VECTOR = ("VMAC1 VMAC2 VMAC3 VIEU VLDST1 VLDST2", 3)
MIXED = ("SMAC2 SIEU VMAC1 VMAC2 VLDST1", 2)  # of several kinds of units some members
KINDS = ((VECTOR,), (MIXED,), (VECTOR, MIXED, ("SLDST VLDST2", 1)))
