"""The default schedule, for programs without verbs: loops distributed, ordered, tiled, vectorized, made parallel."""

from plant_core.autoschedule.default import default_schedule

__all__ = ["default_schedule"]
