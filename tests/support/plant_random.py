"""Random small programs and plans for tests of plant_core, from a seeded generator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from plant_core.ir.func import Func
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan, Shape
from tests.support.plant_builder import Builder

_SIZE, _MIDDLE = 60, 20
_UPDATES = ("{t} + {e}", "{t} - {e}", "{e} + {t}", "max({t}, {e})", "{t} * {e}", "{t} + {e} - {f}")


@dataclass
class _Nest:
    random: Random
    builder: Builder
    names: list[str] = field(default_factory=list)
    bounds: list[str] = field(default_factory=list)
    times: list[int | str] = field(default_factory=list)
    statements: int = 0

    def body(self, depth: int) -> None:
        for place in range(self.random.choice([1, 1, 2, 3])):
            if depth < 3 and (depth == 0 or self.random.random() < 0.5):
                self.loop(place, depth)
            elif depth > 0 and self.statements < 5:
                self.statement(place)

    def loop(self, place: int, depth: int) -> None:
        name = "ijk"[depth]
        low = str(self.random.choice([0, 0, 0, 1, 2]))
        high = str(self.random.choice([3, 5, 6, 7]))
        if self.names and self.random.random() < 0.2:
            outer = self.random.choice(self.names)
            low, high = self.random.choice([(outer, "7"), ("0", f"{outer} + 1"), ("0", f"6 - {outer}")])
        down = self.random.random() < 0.12
        bound = f"{low} <= {name} < {high}"
        if self.random.random() < 0.1:
            bound += f" and ({name} - {low}) mod 2 = 0"
        self.names.append(name)
        self.bounds.append(bound)
        self.times += [place, f"-{name}" if down else name]
        self.body(depth + 1)
        if not self.builder.comps or self.builder.comps[-1][0].split(",")[: depth + 1] != self.names:
            self.statement(9)
        del self.names[-1], self.bounds[-1], self.times[-2:]

    def statement(self, place: int) -> None:
        self.statements += 1
        domain = " and ".join(self.bounds)
        if self.random.random() < 0.15:
            a, b = self.random.choice(self.names), self.random.choice(self.names)
            domain += self.random.choice([f" and {a} + {b} <= 5", f" and ({a} <= 1 or {b} >= 3)", f" and {a} != 2"])
        target = self.access(written=True)
        value = self.value(target)
        self.builder.comp(",".join(self.names), domain, [*self.times, place], f"{target} = {value}")

    def value(self, target: str) -> str:
        kind = self.random.random()
        if kind < 0.35:
            op = self.random.choice(_UPDATES)
            return op.format(t=target, e=self.access(), f=self.access())
        if kind < 0.5:
            return f"{self.access()} * {self.access()} + {self.random.choice(self.names)}"
        if kind < 0.6:
            return "0"
        return f"{self.access()} + {self.access()}"

    def access(self, written: bool = False) -> str:
        kind = self.random.random()
        if kind < 0.25:
            return self.random.choice("st")
        buf = self.random.choice(["A", "B", "D"] if written else ["A", "B", "X", "X", "D"])
        offset = self.random.choice([0, 0, 0, 1, -1, 2])
        if buf == "D":
            return f"D[{self.index(0)}, {self.index(offset)}]"
        return f"{buf}[{self.index(offset)}]"

    def index(self, offset: int) -> str:
        if self.random.random() < 0.6:
            return f"{self.random.choice(self.names)} + {_MIDDLE + offset}"
        terms = [f"{self.random.choice([-1, 1, 1, 2])} * {n}" for n in self.names if self.random.random() < 0.6]
        return " + ".join([*terms, str(_MIDDLE + offset)])


def random_func(seed: int) -> Func:
    """One or two nests of integer statements: imperfect, triangular, strided, downward, guarded."""
    random = Random(seed)
    sizes: dict[str, tuple[int, ...]] = {
        "A": (_SIZE,),
        "B": (_SIZE,),
        "X": (_SIZE,),
        "D": (_SIZE, _SIZE),
        "s": (),
        "t": (),
    }
    builder = Builder(sizes, local=("s", "t"), const=("X",), dtype="i32")
    _Nest(random, builder).body(0)
    return builder.func()


def random_inputs(func: Func, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {b.name: generator.integers(-9, 10, b.shape, np.int32) for b in func.bufs if b.kind == "param"}


def random_plan(func: Func, seed: int, *, rows: bool = False, deal: int = 1) -> Plan:
    """Mostly one shape for each loop name, so that neighbours fit together; sometimes nonsense.

    `rows`: some shapes have lanes of two loops, or rows that are cut short. `deal`: so many vectors take turns, where
    they may.
    """
    random = Random(seed)
    order = random.sample("ijk", 3) if random.random() < 0.4 else list("ijk")
    shapes = [_shape(random, list("ijk")) for _ in range(random.choice([1, 1, 2]))]
    if rows:
        shapes.append(_row(random))
        random.shuffle(shapes)
    shapes = [_dealt(shape, deal) for shape in shapes]
    plans = {}
    for comp in func.comps:
        if random.random() < 0.1:
            plans[comp.name] = CompPlan(comp.iters, (_shape(random, list(comp.iters)),))
            continue
        mine = tuple(tuple((n, s) for n, s in shape if n in comp.iters) for shape in shapes)
        mine = tuple(_sound(shape) for shape in mine)
        plans[comp.name] = CompPlan(tuple(n for n in order if n in comp.iters), mine)
    return Plan.of(plans)


def _shape(random: Random, names: list[str]) -> Shape:
    lane = random.choice([None, *names])
    found = []
    for name in names:
        span = random.choice([1, 2, 2, 3, 4]) if name != lane else random.choice([2, 3, 4, 6])
        if random.random() < 0.4 and name != lane:
            continue
        partial = random.random() < 0.15
        found.append((name, LoopShape(span, name == lane, partial and name == lane, partial and name != lane)))
    return tuple(found)


def _dealt(shape: Shape, deal: int) -> Shape:
    if any(s.inner or s.flip or s.scan or s.cut or s.row or s.part for _, s in shape):
        return shape
    return tuple((n, replace(s, deal=deal if s.lane else 1)) for n, s in shape)


def _row(random: Random) -> Shape:
    """Lanes of two loops, or a row cut short."""
    lane, inner = random.sample("ijk", 2)
    if random.random() < 0.5:
        cut = random.random() < 0.6
        return ((lane, LoopShape(random.choice([2, 4, 6]), True, reduce=random.random() < 0.2, cut=cut, row=not cut)),)
    shape = {
        lane: LoopShape(random.choice([1, 2, 3, 4]), lane=True),
        inner: LoopShape(random.choice([2, 4]), inner=True),
    }
    return tuple(sorted(shape.items(), key=lambda item: item[0]))


def _sound(shape: Shape) -> Shape:
    laned = any(s.lane for _, s in shape)
    return tuple(
        (n, replace(s, reduce=s.reduce and s.lane, inner=s.inner and laned, deal=s.deal if s.lane else 1))
        for n, s in shape
    )
