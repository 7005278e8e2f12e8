"""The memory schedule: where results are kept, and which copies of them there are. See PLANT, Table 3.2.

Each verb is a function from a Scheduled to a new one; the order that it has then is the one that defines its meaning.
"""

from plant_core.schedule.memory.cache import cache, cache_identity
from plant_core.schedule.memory.placement import alloc_at, set_loc
from plant_core.schedule.memory.store import store
from plant_core.schedule.memory.transfer import auto_transfer

__all__ = ["alloc_at", "auto_transfer", "cache", "cache_identity", "set_loc", "store"]
