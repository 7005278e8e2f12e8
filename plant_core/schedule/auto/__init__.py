"""The default schedule, for programs without verbs: loops distributed, ordered, tiled, vectorized, made parallel."""

from plant_core.schedule.auto.default import default_schedule
from plant_core.schedule.auto.tile_shapes import Machine

__all__ = ["Machine", "default_schedule"]
