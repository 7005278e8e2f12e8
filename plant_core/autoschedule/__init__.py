"""The default schedule, for programs without verbs: loops distributed, ordered, tiled, vectorized, made parallel."""

from plant_core.autoschedule.default import default_schedule
from plant_core.autoschedule.shapes import Machine

__all__ = ["Machine", "default_schedule"]
