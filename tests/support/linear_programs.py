"""Random programs of linear assembly: what people write, and what they might.

A program reads and writes two arrays of words through pointers that advance in every mode, has loops that count in
every way, forward branches, predicates, pairs and vectors. All accesses stay inside the arrays.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

WORDS = 4096  # in each array
MIDDLE = 1024  # where pointers start, in words


@dataclass
class _Writer:
    draw: random.Random
    lines: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=lambda: [f"s{k}" for k in range(6)])
    vectors: list[str] = field(default_factory=lambda: [f"w{k}" for k in range(5)])
    pairs: list[tuple[str, str]] = field(default_factory=lambda: [("g1", "g0"), ("low", "R5")])
    labels: int = 0
    counters: int = 0
    loops: int = 0
    extra: list[str] = field(default_factory=list)
    exclusive: bool = False

    def put(self, text: str) -> None:
        blank = self.draw.choice(["        ", "\t", " ", "   "])
        self.lines.append(blank + text)

    def scalar(self) -> str:
        return self.draw.choice([*self.scalars, "g1", "g0", "low", "R5"])

    def vector(self) -> str:
        return self.draw.choice([*self.vectors, "u1", "u0"])

    def predicate(self) -> str:
        if self.draw.random() < 0.75:
            return ""
        return f"[{self.draw.choice(['', '!'])}{self.scalar()}]" + self.draw.choice(["", " "])

    def lane(self) -> str:
        if self.exclusive or self.draw.random() < 0.8:
            return ""
        return f"[{self.draw.choice(['', '!'])}{self.vector()}] "

    def address(self, name: str, *, wide: bool) -> str:
        """Increments are a few words; loops are short, so pointers stay in the array."""
        modes = ["*{p}", "*+{p}[{k}]", "*-{p}[{k}]", "*+{p}", "*{p}++[{o}]", "*+{p}[{o}]"]
        modes += ["*{p}++[{k}]", "*{p}--[{k}]", "*++{p}[{k}]", "*--{p}[{k}]", "*{p}++", "*{p}--"]
        offset = "vo" if wide else "so"
        return self.draw.choice(modes).format(p=name, k=self.draw.randint(1, 4), o=offset)

    def statement(self) -> None:
        kind, draw = self.draw.random(), self.draw
        a, b, d = self.scalar(), self.scalar(), self.scalar()
        u, v, w = self.vector(), self.vector(), self.vector()
        if kind < 0.3:
            op = draw.choice(["SADD", "SSUB", "SAND", "SOR", "SXOR", "SMULIS", "SLT", "SEQ"])
            self.put(f"{self.predicate()}{op} {draw.choice([a, str(draw.randint(-9, 9))])}, {b}, {d}")
        elif kind < 0.36:
            self.put(f"{self.predicate()}{draw.choice(['SSHFLL', 'SSHFAR', 'SSHFLR'])} {draw.randint(1, 7)},{b},{d}")
        elif kind < 0.42:
            self.put(f"SMOVIL {draw.randint(-300, 300)}, {d}")
        elif kind < 0.57:
            memory = self.address(draw.choice("pq"), wide=False)
            self.put(self.predicate() + (f"SLDW {memory}, {d}" if kind < 0.5 else f"SSTW {a}, {memory}"))
        elif kind < 0.71:
            memory = self.address(draw.choice("vw"), wide=True)
            self.put(self.lane() + (f"VLDW {memory}, {w}" if kind < 0.64 else f"VSTW {u}, {memory}"))
        elif kind < 0.83:
            self.put(f"{self.lane()}{draw.choice(['VADD', 'VSUB', 'VMULIS'])} {u}, {v}, {w}")
        elif kind < 0.87:
            self.put(f"{self.predicate()}SVBCAST {a}, {w}")
        elif kind < 0.9:
            self.put(f"VMVCGC {u}, SVR")
            self.put(f"SMVCCG SVR{draw.randint(0, 15)}, {d}")
        elif kind < 0.93:
            source = draw.choice([*(":".join(pair) for pair in self.pairs), "g0:R5", "s1:s2", "s2:s3"])
            self.put(f"SVBCAST2 {source}, {draw.choice(['u1:u0', 'w1:w0', 'w2:w1'])}")
        elif kind < 0.95:
            self.put(f"SMULS {a}, {b}, {draw.choice(['g1:g0', 's0:s4', 'low:R5'])}")
        elif kind < 0.97:
            pointer = draw.choice("pqvw")
            self.put(f"SADDA {draw.choice([-8, -4, 4, 8])}, {pointer}, {pointer}")
        elif kind < 0.98:
            self.put("SNOP 3")
        else:
            self.mask()

    def mask(self) -> None:
        self.put("SMOVIL 0x0F0F, m")
        self.put("SMVCGC m, VLR")
        self.put(f"VADD 1, {self.vector()}, {self.vector()}")
        self.put("SMOVIL 0xFFFF, m")
        self.put("SMVCGC m, VLR")

    def block(self, depth: int) -> None:
        for _ in range(self.draw.randint(1, 5)):
            choice = self.draw.random()
            if choice < 0.12 and depth < 2 and self.loops < 4:
                self.loop(depth)
            elif choice < 0.2:
                self.skip()
            elif self.exclusive and choice < 0.5:
                self.halves()
            else:
                self.statement()

    def halves(self) -> None:
        """Statements under a predicate and under its complement, that write what the others write and read."""
        draw = self.draw
        lanes = draw.random() < 0.4
        pick = self.vector if lanes else self.scalar
        names = ["VADD", "VSUB", "VMULIS"] if lanes else ["SADD", "SSUB", "SMULIS", "SXOR"]
        condition = draw.choice(self.vectors[:2]) if lanes else pick()
        results = [pick() for _ in range(2)]
        for _ in range(draw.randint(2, 6)):
            sign, source = draw.choice(["", "!"]), draw.choice([*results, pick()])
            self.put(f"[{sign}{condition}]{draw.choice(names)} {source}, {pick()}, {draw.choice(results)}")
        if draw.random() < 0.5:
            self.put(f"{names[0]} {results[0]}, {results[1]}, {pick()}")

    def branch(self, label: str, *, always: bool = False) -> None:
        condition = "" if always else f"[{self.draw.choice(['', '!'])}{self.scalar()}]"
        self.put(f"{condition}SBR {label}")

    def statements(self) -> None:
        for _ in range(self.draw.randint(0, 4)):
            self.statement()

    def skip(self) -> None:
        """Forward branches: over statements, one way or the other, into each other, and crossing."""
        self.labels += 2
        first, second = f".over{self.labels - 1}", f".over{self.labels}"
        shape = self.draw.choice(["one", "one", "either", "nested", "crossing"])
        self.branch(first)
        self.statements()
        if shape != "one":
            self.branch(second, always=shape == "either")
            if shape != "nested":
                self.lines.append(f"{first}:")
            self.statements()
            self.lines.append(f"{second}:")
        if shape in ("one", "nested"):
            self.lines.append(f"{first}:")

    def loop(self, depth: int) -> None:
        self.loops += 1
        c, t = f"c{self.loops}", f"t{self.loops}"
        self.extra += [c, t]
        label = f".loop_{self.loops}"
        trips = self.draw.choice([1, 1, 2, 3, 5, 9, 14] if depth == 0 else [1, 2, 3])
        step = self.draw.choice([1, 1, 2, 4])
        idiom = self.draw.randint(0, 5)
        variable = self.draw.random() < 0.6 and depth == 0
        limit = {True: "n", False: None}[variable]
        if idiom == 0:  # down to zero
            self.put(f"SMOV n, {c}" if variable else f"SMOVIL {trips}, {c}")
            update, tests, back = f"SSUB 1, {c}, {c}", [], f"[{c}]"
        elif idiom == 1:  # up while less
            self.put(f"SMOVIL 0, {c}")
            bound = limit or "h"
            if not variable:
                self.put(f"SMOVIL {trips * step}, h{self.loops}")
                bound = f"h{self.loops}"
                self.extra.append(bound)
            update, tests, back = f"SADD {step}, {c}, {c}", [f"SLT {c}, {bound}, {t}"], f"[{t}]"
        elif idiom == 2:  # until equal
            self.put(f"SMOVIL 3, {c}")
            bound = f"h{self.loops}"
            self.extra.append(bound)
            self.put(f"SADD 3, n, {bound}" if variable else f"SMOVIL {3 + trips}, {bound}")
            update, tests, back = f"SADD 1, {c}, {c}", [f"SEQ {c}, {bound}, {t}"], f"[!{t}]"
        elif idiom == 3:  # down while positive
            self.put(f"SADD -1, n, {c}" if variable else f"SMOVIL {trips - 1}, {c}")
            update, tests, back = f"SADD {-step}, {c}, {c}", [f"SLT -1, {c}, {t}"], f"[{t}]"
        elif idiom == 4:  # up while not above
            self.put(f"SMOVIL 1, {c}")
            bound = limit
            if not variable:
                bound = f"h{self.loops}"
                self.extra.append(bound)
                self.put(f"SMOVIL {trips}, {bound}")
            update, tests, back = f"SADD {step}, {c}, {c}", [f"SLT {bound}, {c}, {t}"], f"[!{t}]"
        else:  # counted in two places, tested in another register
            self.put(f"SMOVIL 0, {c}")
            update, tests, back = f"SADD 1, {c}, {c}", [f"SADD 1, {c}, {c}", f"SLT {c}, n, {t}"], f"[{t}]"
        self.lines.append(f"{label}: .loop")
        early = self.draw.random() < 0.5
        if early:
            self.put(update)
        if depth == 0 and self.draw.random() < 0.3:
            self.block(depth + 1)
        else:
            for _ in range(self.draw.randint(1, 7)):
                self.statement()
            if self.draw.random() < 0.2:
                self.skip()
        if self.draw.random() < 0.2:
            self.put(f"SADD {c}, s0, s0")
        if not early:
            self.put(update)
        for test in tests:
            self.put(test)
        self.put(f"{back}SBR {label}")
        self.put(".endloop")
        if self.draw.random() < 0.3:
            self.put(f"SADD {c}, s1, s1")


def random_program(seed: int, *, exclusive: bool = False) -> str:
    """A function `f(x, y, n)` on two arrays of WORDS words, `n` from 1 up; its result is a scalar. It may have much
    that is `exclusive`: under predicates and their complements."""
    work = _Writer(random.Random(seed), exclusive=exclusive)
    draw = work.draw
    for name in [*work.scalars, "g1", "g0", "low", "R5"]:
        work.put(f"SMOVIL {draw.randint(-50, 50)}, {name}")
    work.put(f"SMOVIL {MIDDLE * 4}, mid")
    for name, base in (("p", "x"), ("q", "y"), ("v", "x"), ("w", draw.choice("xy"))):
        work.put(f"SADD mid, {base}0, z")
        work.put(f"SMVAGA32 z, {name}")
    work.put(f"SMOVIL {draw.randint(1, 4)}, z")
    work.put("SMVAGA32 z, so")
    work.put("SMVAGA32 z, vo")
    for k, name in enumerate([*work.vectors, "u1", "u0"]):
        work.put(f"VLDW *+v[{k * 16}], {name}")
    for _ in range(draw.randint(2, 4)):
        work.block(0)
    for k, name in enumerate(work.scalars[:3]):
        work.put(f"SADD {name}, {work.scalars[3 + k]}, {name}")
    work.put("SADD s0, s1, s0")
    work.put("SXOR s0, s2, s0")
    work.put("VADD w0, w1, w0")
    work.put("VADD u0, u1, u0")
    work.put("SMVAGA32 y0, w")
    work.put("VSTW w0, *w")
    work.put("VSTW u0, *+w[16]")
    head = [
        ".global f",
        ".input x1:x0 , y1:y0,n",
        f"  .gen_var {', '.join(work.scalars)}, g1:g0,low:R5, mid, z, m",
        f".gen_var {','.join(work.vectors)}, u1:u0",
        *([f".gen_var {', '.join(dict.fromkeys(work.extra))}"] if work.extra else []),
        ".add_var p,q, v ,w",
        "\t.add_var so, vo",
        ".output s0",
    ]
    draw.shuffle(head)
    end = draw.choice(["\n", "\r\n"])
    return end.join([*head, *work.lines, ".size f, .-f"]) + draw.choice(["", end])
