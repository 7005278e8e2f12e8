"""Random C functions over all that the front end takes, in the spirit of Csmith: whatever they do is defined.

    made = random_source(random.Random(7), Features(("float", "int")))
    made.text        the C file; its function is called `kernel`, sizes and subscripts stand in its first comment
    made.program     its syntax tree, which `tests.support.program_reducer` makes smaller

Most loops have the trip counts that vectorizers get wrong: about multiples of 16, and tiny ones. A program that might
do something undefined, by the ranges of its subscripts, is drawn anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.generators.program_expressions import Features
from tests.generators.program_files import Source, source
from tests.generators.program_intervals import Undefined
from tests.generators.program_loops import SIZES, Block, Loops
from tests.generators.program_tree import (
    Advance,
    Array,
    Assign,
    Bin,
    Call,
    Cast,
    Deref,
    Elem,
    Expr,
    For,
    If,
    Jump,
    Label,
    Local,
    Num,
    Number,
    Pointer,
    Program,
    Stmt,
    Var,
    is_real,
    plus,
    walk_tree,
)

FAMILIES: tuple[tuple[str, ...], ...] = (
    ("float",),
    ("float", "int"),
    ("int",),
    ("int", "unsigned int"),
    ("short", "int"),
    ("short", "unsigned short", "int"),
    ("float", "int", "short"),
    ("double",),
    ("double", "int"),
    ("float", "double"),
    ("signed char", "short", "int"),
    ("unsigned char", "unsigned short", "unsigned int"),
    ("unsigned char", "int"),
    ("long", "int"),
    ("float", "double", "int", "unsigned int", "short", "unsigned short", "signed char", "unsigned char", "long"),
)
_TRIES = 300


def random_source(rng: random.Random, features: Features | None = None) -> Source:
    """A defined program; the same for the same state of `rng`."""
    chosen = features or Features(rng.choice(FAMILIES), strict=rng.random() < 0.3, wild=rng.random() < 0.15)
    most = rng.choices((50, 80, 120, 250), (5, 5, 3, 1))[0]
    for _ in range(_TRIES):
        try:
            made = source(_Maker(random.Random(rng.getrandbits(64)), chosen).program())
        except Undefined:
            continue
        if sum(1 for _ in walk_tree(made.program.body)) <= most and (not made.ranges.idle or rng.random() < 0.1):
            return made
    raise RuntimeError("no program that is defined")


@dataclass(slots=True)
class _Maker(Loops):
    # Statements

    def update(self, target: Expr, type_: str, depth: int | None = None) -> Block:
        value = self.value(type_, self.weighted((3, 1), (4, 2), (1, 3)) if depth is None else depth)
        kind = self.rng.random()
        if kind < 0.55:
            return (Assign(target, "=", value),)
        if kind < 0.75:
            return (Assign(target, "+=", value),)
        if is_real(type_):
            if kind < 0.83:
                return (Assign(target, "-=", value),)
            if kind < 0.87:
                return (Assign(target, "*=", self.constant(type_)),)
            if kind < 0.93 or not self.features.strict:
                name = self.pick(("fmin", "fmax")) + ("f" if type_ == "float" else "")
                return (Assign(target, "=", self.called(name, target, value)),)
            return (If(Bin(self.pick("<>"), value, target), (Assign(target, "=", value),)),)
        if kind < 0.82:
            return (If(Bin(self.pick("<>"), value, target), (Assign(target, "=", value),)),)
        if kind < 0.86:
            return (Assign(target, self.pick(("<<=", ">>=")), Num(self.rng.randint(1, 5))),)
        if kind < 0.88:
            return (Assign(target, self.pick(("/=", "%=")), Num(self.pick((3, 5, 16)))),)
        return (Assign(target, self.pick(("-=", "*=", "&=", "|=", "^=")), value),)

    def called(self, name: str, *args: Expr) -> Expr:
        return Call(name, args)

    def out(self, rank: int | None = None, type_: str | None = None) -> Array:
        return self.array("local" if self.chance(0.1) else "out", type_, rank)

    def assignment(self) -> Block:
        scalars = [(n, t) for n, t in self.temps if n.startswith("v")]
        if scalars and self.chance(0.15):
            name, type_ = self.pick(scalars)
            return self.update(Var(name), type_)
        array = self.out()
        return self.update(self.element(array), array.type)

    def statement(self) -> Block:
        kind = self.rng.random()
        if kind < 0.52:
            return self.assignment()
        if kind < 0.66:
            return self.temporary()
        if kind < 0.87:
            no = self.assignment() if self.chance(0.35) else ()
            yes = self.assignment() + (self.assignment() if self.chance(0.25) else ())
            if self.chance(0.15):
                yes = (If(self.condition(1), yes),)
            return (If(self.condition(2), yes, no),)
        if kind < 0.96:
            return self.jump()
        return self.swap()

    def temporary(self) -> Block:
        type_, name = self.pick(self.features.types), self.fresh("t")
        made: Block = (Local(type_, name, self.value(type_, 2)),)
        self.temps.append((name, type_))
        if self.chance(0.3):
            made += self.update(Var(name), type_, 1)
        if self.chance(0.3):
            made += (If(self.condition(1), self.update(Var(name), type_, 1)),)
        made += self.assignment()
        self.temps.pop()
        return made

    def jump(self) -> Block:
        """Forward: to the next iteration, out of the loop, or to a label."""
        test, kind = self.condition(1), self.rng.random()
        if kind < 0.4:
            return (If(test, (Jump("continue"),)), *self.assignment())
        if kind < 0.65:
            return (If(test, (Jump("break"),)), *self.assignment())
        label = self.fresh("L")
        return (If(test, (Jump("goto", label),)), *self.assignment(), Label(label), *self.assignment())

    def swap(self) -> Block:
        array = self.out()
        one, two, name = self.element(array), self.element(array), self.fresh("t")
        return (Local(array.type, name, one), Assign(one, "=", two), Assign(two, "=", Var(name)))

    def body(self) -> Block:
        made: Block = ()
        for _ in range(self.weighted((5, 1), (3, 2), (1, 3))):
            made += self.statement()
        return made

    # Parts of functions

    def nest(self, depth: int, most: int = 130) -> Block:
        def inner() -> Block:
            if depth <= 1:
                return self.body()
            before = self.assignment() if self.chance(0.2) else ()
            after = self.assignment() if self.chance(0.15) else ()
            middle = self.accumulation() if self.chance(0.2) else self.nest(depth - 1, 40 if depth == 2 else 12)
            return before + middle + after

        jumps = depth <= 1
        return (self.loop(inner, most if depth < 3 else 12, jumps=jumps),)

    def deep(self) -> Block:
        depth = self.weighted((5, 1), (6, 2), (2, 3))
        return self.nest(depth, {1: 130, 2: 40, 3: 12}[depth])

    def accumulation(self) -> Block:
        """A sum, product, extreme or the like in a scalar, over a loop, stored behind it."""
        type_, name = self.pick(self.features.types), self.fresh("v")
        start = Local(type_, name, self.weighted((4, Num(0)), (1, self.constant(type_)), (1, self.leaf(type_))))
        self.temps.append((name, type_))
        nested = self.chance(0.2)

        def inner() -> Block:
            if nested:
                return (self.loop(self.over(name, type_), 12),)
            return self.over(name, type_)()

        loop = self.loop(inner, 130 if not self.loops else 40, jumps=True)
        array = self.out(None, type_ if self.chance(0.7) else None)
        cast: Expr = Var(name)
        if is_real(type_) and not is_real(array.type):
            array = self.out(None, type_)
        store: Block = (Assign(self.element(array), self.pick(("=", "=", "+=")), cast),)
        self.temps.pop()
        return (start, loop, *store)

    def over(self, name: str, type_: str) -> Callable[[], Block]:
        def update() -> Block:
            self.temps = [t for t in self.temps if t[0] != name]
            made = self.update(Var(name), type_)
            self.temps.append((name, type_))
            if self.chance(0.25):
                return (If(self.condition(1), made),)
            return made

        return update

    def search(self) -> Block:
        """The first place, or the place of the extreme, or a count."""
        whole = self.pick(("int", *self.wholes)) if self.wholes else "int"
        place = self.fresh("k")
        type_ = self.pick(self.features.types)
        out = Elem(self.array("out", whole, 1).name, (Num(self.rng.randint(0, 3)),))
        kind = self.rng.random()
        if kind < 0.35:
            best = self.fresh("v")
            source = self.read(type_, fixed=True)
            first = self.read(type_, fixed=True)

            def better() -> Block:
                found = self.read(type_, fixed=True)
                op = self.pick(("<", ">", "<=", ">="))
                return (If(Bin(op, found, Var(best)), (Assign(Var(best), "=", found), self.at(place))),)

            loop = self.loop(better, plain=self.chance(0.6))
            value = first if self.chance(0.5) else source
            start = (Local(type_, best, value), Local("int", place, Num(self.pick((-1, 0)))))
            return (*start, loop, Assign(out, "=", Var(place)), *self.stored(best, type_))
        if kind < 0.7:

            def leave() -> Block:
                return (If(self.condition(1), (self.at(place), Jump("break"))),)

            loop = self.loop(leave, jumps=True)
            return (Local("int", place, Num(-1)), loop, Assign(out, "=", Var(place)))

        def count() -> Block:
            return (If(self.condition(1), (Advance(place, 1),)),)

        return (Local("int", place, Num(0)), self.loop(count), Assign(out, "=", Var(place)))

    def at(self, place: str) -> Assign:
        return Assign(Var(place), "=", Var(self.loops[-1].name))

    def stored(self, name: str, type_: str) -> Block:
        return (Assign(self.element(self.array("out", type_)), "=", Var(name)),)

    def counter(self) -> Block:
        """A subscript that goes on by itself: always, or where a condition holds."""
        name, array = self.fresh("k"), self.out(1)
        step, where = self.pick((1, 1, 2, 3, -1)), self.chance(0.5)

        def inner() -> Block:
            use = Assign(Elem(array.name, (plus(Var(name), self.pick((0, 0, 1))),)), "=", self.value(array.type, 1))
            pair: Block = (use, Advance(name, step)) if self.chance(0.7) else (Advance(name, step), use)
            return (If(self.condition(1), pair),) if where else pair

        return (Local("int", name, Num(self.rng.randint(0, 3))), self.loop(inner, 70))

    def pointers(self) -> Block:
        """Pointers that walk over arrays."""
        made: list[Stmt] = []
        array = self.out(1)
        source = self.array("in", None, 1)
        if is_real(source.type) and not is_real(array.type):
            source = self.array("in", array.type, 1)
        target, value = self.fresh("q"), self.fresh("q")
        backwards = self.chance(0.2)
        made += [Pointer(target, array.name, Num(0)), Pointer(value, source.name, Num(self.rng.randint(0, 4)))]
        kind = self.rng.random()

        def inner() -> Block:
            step = -1 if backwards else 1
            if kind < 0.5:
                return (Assign(Deref(target, 1), "=", self.mixed(Deref(value, step), array.type)),)
            if kind < 0.75:
                store = Assign(Deref(target, 0), self.pick(("=", "+=")), self.mixed(Deref(value, 0), array.type))
                return (store, Advance(target, self.pick((1, 2))), Advance(value, self.pick((1, 2, 3))))
            return (Assign(self.element(array), "+=", self.mixed(Deref(value, step), array.type)),)

        return (*made, self.loop(inner, 100))

    def mixed(self, one: Expr, type_: str) -> Expr:
        if self.chance(0.4):
            return one
        other = self.leaf(type_) if is_real(type_) else self.whole(type_, 0)
        return Bin(self.pick("+-*"), one, other)

    def carried(self) -> Block:
        """A value of the iteration before, or a recurrence along an array."""
        type_ = self.pick(self.features.types)
        array = self.out(1, type_)
        if self.chance(0.5):
            distance = self.pick((1, 1, 2, 3, 4, 7, 16, 17))

            def recur() -> Block:
                i: Expr = Var(self.loops[-1].name)
                old: Expr = Elem(array.name, (plus(i, -distance),))
                old = Bin("*", old, Num(0.5, type_)) if is_real(type_) else old
                value = Bin(self.pick("+-"), old, self.leaf(type_))
                store = Assign(Elem(array.name, (i,)), "=", value)
                return (If(self.condition(1), (store,)),) if self.chance(0.25) else (store,)

            return (self.loop(recur, plain=self.chance(0.5)),)
        name = self.fresh("v")

        def lag() -> Block:
            i: Expr = Var(self.loops[-1].name)
            read = self.read(type_, fixed=True)
            use = Assign(Elem(array.name, (i,)), "=", Bin(self.pick("+-"), Var(name), read))
            keep = Assign(Var(name), "=", read)
            return (use, If(self.condition(0), (keep,))) if self.chance(0.3) else (use, keep)

        return (Local(type_, name, self.leaf(type_)), self.loop(lag, plain=True))

    def product(self) -> Block:
        """Matrix products, filters and correlations."""
        type_ = self.pick(self.features.types)
        name, kind = self.fresh("v"), self.rng.random()
        in_rank = 2 if kind < 0.5 else 1
        out, one, two = (
            self.array("out", type_, 2 if kind < 0.5 else 1),
            *(self.array("in", type_, in_rank) for _ in "ab"),
        )
        loops: list[str] = []

        def term() -> Block:
            i, j, k = (Var(n) for n in (loops[0], loops[-2], self.loops[-1].name))
            if kind < 0.5:
                pair = Elem(one.name, (i, k)), Elem(two.name, self.pick(((k, j), (j, k))))
            else:
                at = self.pick((Bin("+", i, k), Bin("-", i, k), Bin("+", Bin("*", Num(2), i), k)))
                pair = Elem(one.name, (at,)), Elem(two.name, (k,))
            product = Bin("*", *(Cast("int", p) if type_ == "short" and self.chance(0.2) else p for p in pair))
            if kind < 0.5 and not scalar:
                return (Assign(Elem(out.name, (i, j)), "+=", product),)
            return (Assign(Var(name), "+=", product),)

        scalar = kind >= 0.5 or self.chance(0.6)

        def middle() -> Block:
            loops.append(self.loops[-1].name)
            if kind < 0.5 and len(loops) < 2:
                return (self.loop(middle, 20, plain=self.chance(0.7)),)
            if len(loops) < 2:
                loops.append(loops[0])
            loops.append(loops[-1])
            inner = self.loop(term, 20, plain=self.chance(0.8))
            place = Elem(out.name, tuple(Var(n) for n in (loops[0], loops[1])[: out.rank]))
            if not scalar:
                return (Assign(place, "=", Num(0)), inner) if self.chance(0.5) else (inner,)
            stored: Expr = Var(name)
            if type_ in ("short", "unsigned char", "signed char") and self.chance(0.5):
                stored = Bin(">>", stored, Num(self.pick((1, 4, 8))))
            return (Local(self.wider(type_), name, Num(0)), inner, Assign(place, "=", stored))

        return (self.loop(middle, 20 if kind < 0.5 else 70, plain=self.chance(0.7)),)

    def wider(self, type_: str) -> str:
        return "int" if type_ in ("short", "signed char", "unsigned char") and self.chance(0.8) else type_

    def staged(self) -> Block:
        """A local array between two nests, or of each iteration."""
        type_ = self.pick(self.features.types)
        local = self.array("local", type_, 1)

        def fill() -> Block:
            return (Assign(Elem(local.name, (Var(self.loops[-1].name),)), "=", self.value(type_, 1)),)

        def use() -> Block:
            array = self.array("out", type_)
            turned = self.pick((Var(self.loops[-1].name), self.index()))
            value = Bin("+", Elem(local.name, (turned,)), self.leaf(type_))
            return (Assign(self.element(array), "=", value),)

        def both() -> Block:
            return (self.loop(fill, 33, plain=self.chance(0.6)), self.loop(use, 33, plain=self.chance(0.6)))

        return (self.loop(both, 20, plain=True),) if self.chance(0.4) else both()

    def rows(self) -> Block:
        """Rows of as many elements as an array tells: compressed ones, or of known lengths."""
        starts = Array(self.fresh("p"), "int", 1, "in", (self.pick((1, 2, 3, 4)), 0, 0))
        self.arrays.append(starts)

        def row() -> Block:
            i: Expr = Var(self.loops[-1].name)
            name, k = self.fresh("v"), self.fresh("i")
            type_ = self.pick(self.features.types)
            source = self.array("in", type_, 1)
            term: Expr = Elem(source.name, (Var(k),))
            if self.chance(0.5):
                term = Bin("*", term, self.element(self.array("in", type_, 1)))
            bounds = Elem(starts.name, (i,)), Elem(starts.name, (plus(i, 1),))
            inner = For(k, bounds[0], "<", (bounds[1],), 1, (Assign(Var(name), "+=", term),))
            return (Local(type_, name, Num(0)), inner, Assign(self.element(self.array("out", type_)), "=", Var(name)))

        return (self.loop(row, 33, plain=True),)

    # The whole

    def program(self) -> Program:
        for _ in range(self.weighted((7, 0), (2, 1), (1, 2))):
            name = self.fresh("n")
            self.symbols[name] = self.pick([s for s in SIZES if s < 70])
            self.numbers.append(Number(name, "int", self.symbols[name]))
        parts: list[tuple[float, Callable[[], Block]]] = [
            (8, self.deep), (2, self.accumulation), (1.2, self.search), (1, self.counter), (1, self.pointers),
            (1.5, self.carried), (1.2, self.product), (1, self.staged), (0.5, self.rows),
        ]  # fmt: skip
        body: Block = ()
        for _ in range(self.weighted((6, 1), (3, 2), (1.2, 3))):
            body += self.weighted(*parts)()
        result = ""
        if self.chance(0.06):
            returned = [s for s in body if isinstance(s, Local)]
            result = returned[0].name if returned else ""
        if self.features.wild and self.chance(0.1):
            body = (*body[:-1], If(self.condition(0), (Jump("return"),)), body[-1]) if not result else body
        arrays = tuple(replace(a, symbols=a.symbols if self.symbols else ()) for a in self.arrays)
        return Program(arrays, tuple(self.numbers), tuple(self.helpers), body, result=result)
