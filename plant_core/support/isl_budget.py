"""A limit on isl's work, counted in its own operations: the same input always gets as far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import islpy as isl

from plant_core.support.location import PlantError


@contextmanager
def at_most(operations: int | None) -> Iterator[None]:
    """Run the body with at most so many isl operations (some four in a microsecond); None is no limit.

    Raises PlantError DG235 where there are more. Not to be nested.
    """
    if operations is None:
        yield
        return
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        yield
    except isl.Error as error:
        if not _is_spent():
            raise
        raise PlantError(
            f"more than {operations} operations on integer sets are needed",
            code="DG235",
            remedy="use smaller or fewer tiles",
        ) from error
    finally:
        context.set_max_operations(0)


def _is_spent() -> bool:
    """Whether isl does nothing any more; its messages don't always tell, as where it was reading text."""
    try:
        isl.Set("{ [i] : 0 <= i < 2 }").is_empty()
    except isl.Error:
        return True
    return False
