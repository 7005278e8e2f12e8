"""Random small programs, and random verbs for whatever program is given.

for step, scheduled in draw_verbs(rng, as_written(func)):
    ...   `scheduled` is the program after `step`, the verbs before it included
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import islpy as isl

from plant_core.ir.accesses import read_accesses
from plant_core.ir.func import Binary, Buf, Comp, DType, Expr, Func, Iter, Param, Val
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.schedule import memory, verbs
from plant_core.schedule.legality import dependences_in
from plant_core.support.location import PlantError
from tests.support.plant_builder import Builder

SIZES = {"A": (24,), "B": (24,), "X": (24,), "D": (20, 20), "L": (24,), "M": (20, 20), "s": ()}
LOCAL = ("L", "M", "s")
_LONGEST = 8
_MIDDLE = {"A": 10, "B": 10, "X": 10, "L": 10, "D": 9, "M": 9}


@dataclass
class _Maker:
    rng: Random
    builder: Builder
    names: list[str] = field(default_factory=list)
    bounds: list[str] = field(default_factory=list)
    times: list[int | str] = field(default_factory=list)

    def body(self, depth: int) -> None:
        for place in range(self.rng.choice([1, 1, 2, 3] if depth else [1, 2, 2, 3])):
            if depth < 3 and (depth == 0 or self.rng.random() < (0.6, 0.5, 0.25)[depth]):
                self.loop(place, depth)
            elif depth > 0 and len(self.builder.comps) < 4:
                self.statement(place)

    def loop(self, place: int, depth: int) -> None:
        name = "ijk"[depth]
        low, high = self.rng.choice([0, 0, 1]), self.rng.choice(["3", "4", "5", "n"] if depth < 2 else ["2", "3"])
        bound = f"{low} <= {name} < {high}"
        if self.names and self.rng.random() < 0.25:
            outer = self.rng.choice(self.names)
            bound = self.rng.choice(
                [f"{outer} <= {name} < 4", f"0 <= {name} <= {outer}", f"{outer} <= {name} < {outer} + 3"]
            )
        self.names.append(name)
        self.bounds.append(bound)
        self.times += [place, f"-{name}" if self.rng.random() < 0.08 else name]
        self.body(depth + 1)
        if not any(c[0].split(",")[: depth + 1] == self.names for c in self.builder.comps[-1:]):
            self.statement(9)
        del self.names[-1], self.bounds[-1], self.times[-2:]

    def statement(self, place: int) -> None:
        domain = " and ".join(self.bounds)
        if self.rng.random() < 0.12:
            a, b = self.rng.choice(self.names), self.rng.choice(self.names)
            domain += self.rng.choice([f" and {a} + {b} <= 4", f" and ({a} <= 1 or {b} >= 3)", f" and {a} != 2"])
        target = self.access(self.rng.choice(["A", "B", "D", "L", "L", "L", "M", "s"]))
        kind = self.rng.random()
        if kind < 0.35:
            op = self.rng.choice(["{t} + {e}", "{e} + {t}", "{t} - {e}", "max({t}, {e})", "{t} * {e}"])
            value = op.format(t=target, e=self.read())
        elif kind < 0.5:
            value = f"{self.read()} * {self.read()} + 1"
        elif kind < 0.6:
            value = "0"
        else:
            value = f"{self.read()} + {self.read()}"
        self.builder.comp(",".join(self.names), domain, [*self.times, place], f"{target} = {value}")

    def read(self) -> str:
        return self.access(self.rng.choice(["A", "B", "X", "D", "L", "L", "M", "s"]))

    def access(self, buf: str) -> str:
        indices = []
        for _ in SIZES[buf]:
            offset = _MIDDLE[buf] + self.rng.choice([0, 0, 0, 0, 1, -1])
            kind = self.rng.random()
            if kind < 0.75:
                name = self.names[min(len(indices), len(self.names) - 1)]
                indices.append(f"{name} + {offset}" if self.rng.random() < 0.9 else f"{offset} - {name}")
            elif kind < 0.9:
                indices.append(f"{self.rng.choice(self.names)} + {offset}")
            else:
                indices.append(f"{offset}")
        return f"{buf}[{', '.join(indices)}]" if indices else buf


def small_func(rng: Random, dtype: DType = "i32") -> Func:
    """One to three nests of up to three loops and a few iterations each; the parameter n is from 0 to 5."""
    builder = Builder(SIZES, local=LOCAL, const=("X",), params=("n",), dtype=dtype)
    _Maker(rng, builder).body(0)
    return replace(builder.func(), context=isl.Set("[n] -> { : 0 <= n <= 5 }"))


# --- verbs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    verb: str
    given: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def apply(self, scheduled: Scheduled) -> Scheduled:
        done = getattr(memory if hasattr(memory, self.verb) else verbs, self.verb)(
            scheduled, *self.given, **self.options
        )
        assert isinstance(done, Scheduled)
        return done


def _names(rng: Random, scheduled: Scheduled, nest: Nest) -> Any:
    """The statement, or all that begin with the same loops."""
    if rng.random() < 0.4:
        return nest.name
    first = nest.relation.range().dim_min_val(0) if nest.loops else None
    return tuple(
        n.name for n in scheduled.nests if n is nest or (n.loops[:1] == nest.loops[:1] and n.loops and first is not None
        and n.relation.range().dim_min_val(0).eq(first))
    )  # fmt: skip


def draw_step(rng: Random, scheduled: Scheduled) -> Step:
    """Mostly sensible, now and then nonsense."""
    nest = rng.choice(scheduled.nests)
    other = rng.choice(scheduled.nests)
    producer, consumer = _flow(rng, scheduled, nest.name, other.name)
    loops = list(nest.loops) or ["i"]
    loop = rng.choice(loops if rng.random() < 0.97 else [*loops, "nowhere"])
    factor = rng.choice([1, 2, 2, 3, 4] if rng.random() < 0.97 else [0, -1, 2])
    several = _names(rng, scheduled, nest)
    depth = nest.loops.index(loop) if loop in nest.loops else 0
    inner = loops[min(depth + 1, len(loops) - 1)]
    choices: list[tuple[int, Callable[[], Step]]] = [
        (3, lambda: Step("split", (several, loop, factor))),
        (2, lambda: Step("fuse", (several, loop, inner))),
        (3, lambda: Step("reorder", (several, *rng.sample(loops, min(len(loops), rng.choice([2, 2, 3])))))),
        (2, lambda: Step("tile", (several, {loop: factor, inner: rng.choice([2, 3])}))),
        (2, lambda: Step("skew", (several, loop, rng.choice(loops), rng.choice([-1, 1, 1, 2])))),
        (2, lambda: Step("shift", (several, loop, rng.choice([-2, 1, 3, Param("n", "i32")])))),
        (4, lambda: Step("after", (nest.name, other.name, rng.choice([None, *other.loops])))),
        (3, lambda: Step("separate", (several, loop, factor))),
        (3, lambda: Step("inline", (producer,))),
        (4, lambda: Step("compute_at", (producer, consumer, rng.choice(scheduled.nest(consumer).loops or ("i",))))),
        (1, lambda: Step("apply_sch", (nest.name, _affine(rng, len(nest.loops))))),
        (2, lambda: Step("tag", (several, loop, rng.choice(["parallel", "parallel", "vectorize", "unroll", None])))),
    ]
    weights = [weight for weight, _ in choices]
    return rng.choices([make for _, make in choices], weights)[0]()


def draw_memory_step(rng: Random, scheduled: Scheduled) -> Step:
    """A memory verb, mostly a sensible one."""
    comp = rng.choice(scheduled.func.comps)
    loops = scheduled.nest(comp.name).loops or ("i",)
    used = sorted({a.buf for a in (comp.target, *read_accesses(comp))})
    buf = rng.choice(used)
    local = [b.name for b in scheduled.func.bufs if b.kind == "local"] or used
    choices: list[tuple[int, Callable[[], Step]]] = [
        (4, lambda: Step("cache_identity", (comp.name, buf, rng.choice(loops)), {"exact": rng.random() < 0.8})),
        (3, lambda: _store(rng, scheduled, comp)),
        (2, lambda: Step("alloc_at", (rng.choice(local), comp.name, rng.choice(loops)))),
        (1, lambda: Step("set_loc", (rng.choice(local), rng.choice(["stack", "heap"])))),
    ]
    return rng.choices([make for _, make in choices], [weight for weight, _ in choices])[0]()


def _store(rng: Random, scheduled: Scheduled, comp: Comp) -> Step:
    """In fewer dimensions than its iterators, in a ring of cells, or with all of them."""
    kept = [k for k in range(len(comp.iters)) if rng.random() < 0.7]
    indices: list[Expr] = [Iter(comp.iters[k]) for k in kept]
    shape = [_LONGEST] * len(kept)
    if kept and rng.random() < 0.3:
        shape[0] = rng.choice([1, 2, 3])
        indices[0] = Binary("mod", indices[0], Val(shape[0], "i32"), "i32")
    names = {b.name for b in scheduled.func.bufs}
    fresh = next(f"K{k}" for k in range(99) if f"K{k}" not in names)
    place = Buf(fresh, comp.target.dtype, tuple(shape), "local")
    return Step("store", (comp.name, place, tuple(indices)))


def _flow(rng: Random, scheduled: Scheduled, name: str, other: str) -> tuple[str, str]:
    """A statement and a reader of its local array, where there is such a pair."""
    found = [(d.source, d.sink) for d in dependences_in(scheduled) if d.kind == "flow" and d.buf in LOCAL]
    found = [pair for pair in found if pair[0] != pair[1]]
    return rng.choice(found) if found and rng.random() < 0.9 else (name, other)


def _affine(rng: Random, count: int) -> str:
    names = [f"x{k}" for k in range(count)]
    out = rng.sample(names, count)
    if count > 1 and rng.random() < 0.7:
        out[-1] = f"{out[-1]} + {rng.choice([-1, 1, 2])} * {out[0]}"
    elif out and rng.random() < 0.5:
        out[0] = f"-{out[0]}"
    return f"{{ [{', '.join(names)}] -> [{', '.join(out)}] }}"


def draw_verbs(
    rng: Random, scheduled: Scheduled, most: int = 4, *, memory: float = 0.0
) -> Iterator[tuple[Step, Scheduled | PlantError]]:
    """Up to `most` verbs, each with the program after it, or with the error that refuses it; `memory`: how many of
    them are memory verbs."""
    for _ in range(rng.randint(1, most)):
        if not scheduled.nests:
            return
        step = draw_memory_step(rng, scheduled) if rng.random() < memory else draw_step(rng, scheduled)
        try:
            scheduled = step.apply(scheduled)
        except PlantError as error:
            yield step, error
        else:
            yield step, scheduled
