"""The user's handle on a program: statements by name, and verbs that chain.

    p = Program(func, reassoc=True)
    p["S1"].tile("i", "j", 32, 32).tag("i_o", "parallel")
    p["S0", "S1"].split("i", 8)        several statements change together
    p.scheduled

A verb that raises leaves the program as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import islpy as isl

from plant_core.ir.func import Buf, Expr, Func, Location
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import AstOption, Nest, Scheduled, as_written
from plant_core.schedule import verbs
from plant_core.schedule.legality import check
from plant_core.schedule.verbs.time_maps import chosen
from plant_core.support.location import PlantError


class Program:
    """A schedule that changes in place; see `plant_core.schedule.verbs` and `plant_core.schedule.memory` for what each
    verb does."""

    def __init__(self, func: Func | Scheduled, *, reassoc: bool = False) -> None:
        """`reassoc`: reductions of floats may be reordered; a Scheduled says so itself."""
        self.scheduled = func if isinstance(func, Scheduled) else as_written(func, reassoc=reassoc)
        check(self.scheduled)

    def __getitem__(self, name: str | tuple[str, ...]) -> Statement:
        chosen(self.scheduled, name)
        return Statement(self, name)

    @property
    def func(self) -> Func:
        return self.scheduled.func

    @property
    def statements(self) -> tuple[str, ...]:
        return tuple(nest.name for nest in self.scheduled.nests)

    def set_constraint(self, constraint: str | isl.Set) -> Self:
        self.scheduled = verbs.set_constraint(self.scheduled, constraint)
        return self

    def set_loc(self, buf: str, location: Location) -> Self:
        from plant_core.schedule import memory

        self.scheduled = memory.set_loc(self.scheduled, buf, location)
        return self

    def alloc_at(self, buf: str, statement: str, loop: str) -> Self:
        from plant_core.schedule import memory

        self.scheduled = memory.alloc_at(self.scheduled, buf, statement, loop)
        return self

    def auto_transfer(self) -> Self:
        from plant_core.schedule import memory

        self.scheduled = memory.auto_transfer(self.scheduled)
        return self


class Statement:
    """One statement of a Program, or several that change together."""

    def __init__(self, program: Program, name: str | tuple[str, ...]) -> None:
        self._program = program
        self.name = name

    @property
    def loops(self) -> tuple[str, ...]:
        """The loops from the outermost in; of the first where there are several statements."""
        return self.nest.loops

    @property
    def nest(self) -> Nest:
        return self._program.scheduled.nest(self.name if isinstance(self.name, str) else self.name[0])

    def _does(self, verb: Callable[..., Scheduled], *given: Any, **options: Any) -> Self:
        self._program.scheduled = verb(self._program.scheduled, self.name, *given, **options)
        return self

    def _alone(self) -> str:
        if isinstance(self.name, str):
            return self.name
        raise PlantError(
            f"this is for one statement, and {len(self.name)} are named",
            code="DG215",
            remedy="name the statements one after the other",
        )

    # --- loops ---

    def split(self, loop: str, factor: int, *, outer: str | None = None, inner: str | None = None) -> Self:
        return self._does(verbs.split, loop, factor, outer=outer, inner=inner)

    def fuse(self, outer: str, inner: str, *, into: str | None = None) -> Self:
        return self._does(verbs.fuse, outer, inner, into=into)

    def reorder(self, *loops: str) -> Self:
        return self._does(verbs.reorder, *loops)

    def tile(self, *loops: str | int | Mapping[str, int], names: Mapping[str, tuple[str, str]] | None = None) -> Self:
        return self._does(verbs.tile, *loops, names=names)

    def skew(self, outer: str, inner: str, factor: int) -> Self:
        return self._does(verbs.skew, outer, inner, factor)

    def shift(self, loop: str, amount: int | Expr) -> Self:
        return self._does(verbs.shift, loop, amount)

    def separate(self, loop: str, factor: int) -> Self:
        return self._does(verbs.separate, loop, factor)

    def apply_sch(self, change: str | isl.Map, *, loops: Sequence[str] = ()) -> Self:
        return self._does(verbs.apply_sch, change, loops=loops)

    def after(self, other: str, loop: str | None) -> Self:
        return self._does(verbs.after, other, loop)

    def compute_at(self, consumer: str, loop: str, *, overlapped: bool = True) -> Self:
        self._alone()
        return self._does(verbs.compute_at, consumer, loop, overlapped=overlapped)

    def inline(self) -> Program:
        """The statement is gone afterwards, so that the chain goes on with the program."""
        self._program.scheduled = verbs.inline(self._program.scheduled, self._alone())
        return self._program

    def tag(self, loop: str, tag: Tag | None) -> Self:
        return self._does(verbs.tag, loop, tag)

    def option(self, loop: str, option: AstOption | None) -> Self:
        return self._does(verbs.option, loop, option)

    # --- memory ---

    def store(self, buf: Buf | str, indices: Sequence[Expr] | None = None) -> Self:
        from plant_core.schedule import memory

        self._alone()
        return self._does(memory.store, buf, indices)

    def cache_identity(self, of: str, loop: str, **options: Any) -> Self:
        from plant_core.schedule import memory

        return self._does(memory.cache_identity, of, loop, **options)

    def cache(self, *given: Any, **options: Any) -> Self:
        from plant_core.schedule import memory

        self._alone()
        return self._does(memory.cache, *given, **options)

    def alloc_at(self, buf: str, loop: str) -> Self:
        """Give every iteration of this statement's loop an array `buf` of its own."""
        self._program.alloc_at(buf, self._alone(), loop)
        return self
