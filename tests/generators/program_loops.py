"""Random loops: their bounds, steps and forms, with the trip counts that vectorizers get wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.generators.program_expressions import Expressions, Loop
from tests.generators.program_tree import Bin, Cond, Elem, Expr, For, Num, Stmt, Var, plus

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 31, 32, 33, 40, 47, 63, 64, 65, 70, 96, 128, 130)
Block = tuple[Stmt, ...]


@dataclass(slots=True)
class Loops(Expressions):
    # Loops

    def size(self, most: int = 130) -> tuple[Expr, int, str]:
        """A number of iterations: its expression, value, and the parameter if it is one."""
        names = [n for n, v in self.symbols.items() if v <= most]
        if names and self.chance(0.6):
            name = self.pick(names)
            return Var(name), self.symbols[name], name
        number = self.pick([s for s in SIZES if s <= most])
        return Num(number), number, ""

    def loop(self, body: Callable[[], Block], most: int = 130, *, plain: bool = False, jumps: bool = False) -> For:
        """A loop round what `body` makes within it. `plain`: from 0 up by 1. `jumps`: it may be left or go on early."""
        name = self.fresh("i")
        bound, size, symbol = self.size(most)
        low, highs, op, step, joint = Num(0), (bound,), "<", 1, "&&"
        style = "for"
        if not plain:
            low, highs, op, step, joint = self.header(bound, size)
            odd = self.rng.random()
            if odd < 0.05 and not jumps:
                style = "while"
            elif odd < 0.07 and not jumps:
                style = "do"
            elif odd < 0.1:
                style = "outer"
            elif odd < 0.12 and size < 70 and not symbol:
                style, low, highs, op = "double", Num(1), (Num(max(size, 2)),), "<"  # type: ignore[assignment]
        self.loops.append(Loop(name, size, symbol))
        inner = body()
        self.loops.pop()
        return For(name, low, op, highs, step, inner, joint, style)

    def header(self, bound: Expr, size: int) -> tuple[Expr, tuple[Expr, ...], str, int, str]:
        low: Expr = Num(self.weighted((7, 0), (2, 1), (1, self.rng.randint(2, 5))))
        high, highs_more, joint = bound, (), "&&"
        kind = self.rng.random()
        if self.loops and kind < 0.3:
            low, high, highs_more, joint = self.following(low, bound)
        elif kind < 0.36:
            high = plus(bound, self.rng.randint(-3, 3))
        elif kind < 0.4:
            high = Bin("/", plus(bound, self.pick((0, 1))), Num(2))
        elif kind < 0.42 and self.room > 2:
            high = Cond(Bin("<", bound, self.number("int", self.pick(SIZES))), bound, Num(size // 2))
        step = self.weighted((12, 1), (1, 2), (1, 3), (0.6, 4))
        if self.chance(0.14):  # downwards
            return plus(high, -1), (low,), self.pick((">=", ">=", ">")), -step, "&&"
        op = "!=" if self.chance(0.04) and step == 1 and not highs_more else self.weighted((8, "<"), (1, "<="))
        return low, (high, *highs_more), op, step, joint

    def following(self, low: Expr, bound: Expr) -> tuple[Expr, Expr, tuple[Expr, ...], str]:
        """Bounds that depend on an outer iterator."""
        outer: Expr = Var(self.pick(self.loops).name)
        other = plus(outer, self.rng.randint(-2, 4))
        kind = self.rng.random()
        if kind < 0.25:
            return other, bound, (), "&&"
        if kind < 0.5:
            return low, other, (), "&&"
        if kind < 0.6:
            return Cond(Bin(">", other, Num(2)), plus(other, -2), Num(0)), bound, (), "&&"
        if kind < 0.72:
            return low, Cond(Bin("<", other, bound), other, bound), (), "&&"
        if kind < 0.8:
            return low, bound, (other,), self.pick(("&&", "&"))
        if kind < 0.86:
            return low, Bin("/", other, Num(self.pick((2, 3)))), (), "&&"
        if kind < 0.9:
            shown = Bin(">", outer, Num(5))
            return low, self.pick((Bin("<<", outer, shown), Bin("/", outer, Cond(shown, Num(3), Num(2))))), (), "&&"
        if kind < 0.95:
            return low, Bin("-", bound, outer), (), "&&"
        return low, Elem(self.indices().name, (outer,)), (), "&&"
