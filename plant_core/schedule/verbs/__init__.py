"""The computation schedule's verbs: pure functions from one legal schedule to another. See PLANT, 3.2."""

from plant_core.schedule.verbs.inline import inline
from plant_core.schedule.verbs.loops import apply_sch, fuse, reorder, separate, shift, skew, split, tile
from plant_core.schedule.verbs.statement_order import after, compute_at
from plant_core.schedule.verbs.tags import option, set_constraint, tag

__all__ = [
    "after", "apply_sch", "compute_at", "fuse", "inline", "option", "reorder", "separate", "set_constraint", "shift",
    "skew", "split", "tag", "tile",
]  # fmt: skip
