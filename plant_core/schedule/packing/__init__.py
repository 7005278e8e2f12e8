"""Packing: which arrays to copy at which loop in which layout, after GPAT (Rohwedder et al., CC 2023)."""

from plant_core.schedule.packing.analyse import Candidate, Packing
from plant_core.schedule.packing.apply import pack
from plant_core.schedule.packing.caches import Caches

__all__ = ["Caches", "Candidate", "Packing", "pack"]
