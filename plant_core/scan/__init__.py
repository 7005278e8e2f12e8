"""From schedules to loop trees, by isl's AST generator."""

from plant_core.scan.generate import scan

__all__ = ["scan"]
