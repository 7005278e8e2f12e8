"""Jumps, steps that vary, subscripts that aren't affine, conditions on data: against the host's compiler."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.frontend.read import read_c
from dspgen.oracle import random_inputs, run_c
from plant_core.interp.func import evaluate
from plant_core.ir.func import Func, ScalarParam

INTEGERS: dict[str, tuple[int, ...]] = {"n": (9, 0, 40), "inc": (1, 3, 7), "from": (0, 5), "m": (3, 8)}

PROGRAMS = {
    "skip ahead": """void k(float a[40], const float b[40]) {
      for (int i = 0; i < 40; i++) { if (b[i] > 0) goto next; a[i] += b[i]; next: a[i] *= 2; } }""",
    "one of two": """void k(float a[40], float b[40]) {
      for (int i = 1; i < 40; i++) { if (a[i] > b[i]) goto other; a[i] = 1; goto done;
        other: b[i] = a[i - 1]; done: ; } }""",
    "crossing": """void k(float a[40], float b[40]) {
      for (int i = 0; i < 40; i++) { if (a[i] > 0) goto one; b[i] += 1; if (b[i] > 0.5f) goto two;
        a[i] = b[i]; goto two;
        one: b[i] = -b[i]; two: a[i] += b[i]; } }""",
    "out of a switch": """void k(int a[40], const int b[40]) {
      for (int i = 0; i < 40; i++) { switch (b[i] & 3) { case 0: goto zero; case 1: a[i] = 5; break;
        case 2: goto last; }
        a[i] += 3; zero: a[i] ^= 9; last: a[i]++; } }""",
    "search": """void k(const float a[40], float t, int r[1]) { int at = -1;
      for (int i = 0; i < 40; i++) if (a[i] > t) { at = i; goto found; }
      r[0] = -5; found: r[0] = at; }""",
    "out of two loops": """void k(const int a[8][9], int r[3]) {
      for (int i = 0; i < 8; i++) for (int j = 0; j < 9; j++) if (a[i][j] % 7 == 3) { r[0] = i; r[1] = j; goto out; }
      r[2] = 4; out: r[2] += 1; }""",
    "again": """void k(float a[40], int n) { int i = 0;
      again: a[i] += 1; i++; if (i < n) goto again; a[0] = i; }""",
    "once more": """void k(float a[41], int n) { int i = 0;
      top: if (i < n) { a[i] += 2; i += 2; goto top; } a[40] = i; }""",
    "clean up": """void k(float a[40], int n) { if (n < 3) goto end; a[0] = 1; if (n < 9) goto end; a[1] = 2;
      end: a[2] = n; }""",
    "unused label": "void k(float a[4]) { nothing: a[0] = 1; }",
    "the end of the program": """#include <stdlib.h>
      void k(float a[40], const float b[40], float t) {
      for (int i = 0; i < 40; i++) { if (b[i] > t) { a[0] = 7; exit(1); } a[i] = b[i]; } a[3] = 9; }""",
    "steps up": "void k(float a[40], const float b[40], int inc) { for (int i = 0; i < 40; i += inc) a[i] += b[i]; }",
    "steps to an end": """void k(float a[41], int inc, int from, int n) { int i;
      for (i = from; i <= n; i = i + inc) a[i] += 1; a[40] = i; }""",
    "steps down": """void k(float a[50], int inc, int n) { int j = 3;
      for (int i = n; i > 0; i -= inc) { a[i] += j; j += 2; } a[0] = j; }""",
    "steps in a nest": """void k(float a[40][40], int inc, int m) {
      for (int i = 0; i < 40; i += inc) for (int j = i; j < 40; j += m) a[i][j] += i - j; }""",
    "counting while": """void k(float a[40], int inc) { int i = 0, c = 0; while (i < 40) { a[i] = c++; i += inc; }
      a[0] = i; }""",
    "strided by a parameter": """void k(float a[300], const float b[40], int inc) {
      for (int i = 0; i < 40; i++) a[i * inc] += b[i]; int at = 0;
      for (int i = 0; i < 40; i++) { a[at] -= b[39 - i]; at += inc; } }""",
    "products": """void k(float a[100], const float b[100], int m) {
      for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) { a[i * j] += b[(i ^ j) + m];
        a[(i * 7 + j) % (m + 20)] += 1;
        if (b[j] > 0) a[i * j + m] = j; } }""",
    "triangle": """void k(float a[100]) { int at = 0;
      for (int i = 0; i < 9; i++) { at += i; for (int j = 0; j <= i; j++) a[at + j] += i; } }""",
    "packed": """void k(float a[40], const float b[40], int r[1]) { int j = 0;
      for (int i = 0; i < 40; i++) if (b[i] > 0) { a[j] = b[i]; j++; } r[0] = j; }""",
    "packed from an expression": """void k(float a[80], const float b[40]) { int j = -1;
      for (int i = 0; i < 40; i++) { if (b[i] > 0) a[++j] = b[i]; else { j++; a[j] = -b[i]; a[++j] = 1; } }
      a[79] = j; }""",
    "largest and where": """void k(const float a[40], float v[1], int at[1]) { float m = a[0]; int w = 0;
      for (int i = 1; i < 40; i++) if (a[i] > m) { m = a[i]; w = i; } v[0] = m; at[0] = w; }""",
    "clamped": """void k(const float a[40], float r[40], float low, float high) {
      for (int i = 0; i < 40; i++) { float x = a[i]; if (x > high) x = high; if (x < low) x = low; r[i] = x; } }""",
    "wraps around": """void k(float a[40], const float b[40]) { float x = b[39]; int before = 39;
      for (int i = 0; i < 40; i++) { a[i] = x + b[before]; x = b[i]; before = i; } }""",
    "expanded": """void k(float a[40], float b[40]) { float t;
      for (int i = 0; i < 40; i++) { t = a[i] * 2; a[i] = t + b[i]; if (t > b[i]) t -= 1; b[i] = t; } }""",
    "guarded neighbours": """void k(float a[40], const float b[40]) {
      for (int i = 0; i < 40; i++) { float x = 0; if (i < 39) x = b[i + 1]; if (i > 0 && b[i - 1] > 0) x += b[i - 1];
        a[i] = x; } }""",
    "narrow types": """#include <stdint.h>
      void k(const int8_t a[40], const uint8_t b[40], int16_t c[40], uint16_t d[40], uint8_t e[40]) { int64_t sum = 0;
      for (int i = 0; i < 40; i++) { int t = a[i] * b[i] + c[i]; c[i] = t > 32767 ? 32767 : t < -32768 ? -32768 : t;
        d[i] += b[i] << 4; e[i] = (uint8_t)((b[i] + a[i] + 1) >> 1); sum += (int64_t)t * d[i];
        if (d[i] < (unsigned)t) e[i] ^= 0x55; } c[0] = (int16_t)(sum >> 9); }""",
    "as long as positive": """void k(const int a[40], int n, int r[1]) { int i = 0;
      while (i < n && a[i] > 0) i++;
      r[0] = i; }""",
    "copied to an end": """void k(const float b[41], float a[41], int n) { int i = n - 1, j = 0;
      while (b[i + 1] < 0.5f && i >= 0) { a[j] = b[i]; i--; j += 1; } a[40] = i; a[j] = j; }""",
    "steps to a tolerance": """void k(float a[3], float t) { float y = 1; int c = 0;
      do { y = 0.5f * (y + 2.0f / y); c++; } while (c < 8 && y * y - 2 > t * t * 0.01f); a[0] = y; a[1] = c; }""",
    "insertion": """void k(float a[40]) { for (int i = 1; i < 40; i++) { float key = a[i]; int j = i - 1;
      while (j >= 0 && a[j] > key) { a[j + 1] = a[j]; j--; } a[j + 1] = key; } }""",
    "left in the middle": """void k(const int a[50], int n, int r[3]) { int i = 0, s = 0, c = 0; const int *p = a;
      while (i < n) { c += 2; if (*p % 5 == 4) break; s += *p; p++; i++; } r[0] = i; r[1] = s; r[2] = c; }""",
    "a sum as large": """void k(const int a[40], int n, int r[2]) { int s = 0, i = 0;
      for (; i < n && s < 9; i++) s += a[i] & 3; r[0] = i; r[1] = s; }""",
    "commas": """void k(float a[40], const float b[40]) { int i, j;
      for (i = 0, j = 39; i < 40; i++, j--) { float t; 
        t = b[i], a[j] = t, a[i] += a[j] > 0 ? t : (float)(int)b[j]; } }""",
}


def check(path: Path, text: str, seeds: range = range(2)) -> Func:
    """The reference evaluator gives what the compiled C does, for every combination of sizes."""
    path.write_text(text)
    func = read_c(str(path), function="k")
    names = [p.name for p in func.params if isinstance(p, ScalarParam) and p.name in INTEGERS]
    for seed in seeds:
        for choice in range(3 if names else 1):
            sizes = {name: INTEGERS[name][choice % len(INTEGERS[name])] for name in names}
            inputs = random_inputs(func, seed, sizes)
            expected = run_c(str(path), func, inputs)
            for name, array in evaluate(func, inputs).items():
                assert np.array_equal(array, expected[name]), f"{text}\n{sizes} {name}: {array} {expected[name]}"
    return func


@pytest.mark.parametrize("name", PROGRAMS)
def test_meaning_is_that_of_c(tmp_path: Path, name: str) -> None:
    check(tmp_path / "kernel.c", PROGRAMS[name])


class Generator:
    """Random functions of loops, conditions on data and jumps; every access is inside its array."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.iterators: list[str] = []
        self.labels: list[str] = []

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def program(self) -> str:
        self.iterators = ["n"]
        body = self.block(2)
        return (
            "#include <stdint.h>\nstatic int large(int v) { if (v > 900) return 900; return v; }\n"
            "void k(int a[64], const int b[64], short c[64], unsigned char d[64], float f[64], const float g[64],\n"
            f"int n, int inc) {{ int s = 3, j = 0; float x = 0, y = 1;\n{body}\n"
            "a[0] = s; a[1] = j; f[2] = x; f[3] = y; }\n"
        )

    def index(self) -> str:
        i = self.pick(*self.iterators)
        k = self.random.randrange(9)
        return self.pick(f"{i} & 63", f"({i} + {k}) & 63", f"({i} * inc) & 63", "j & 63", "b[7] & 63")

    def whole(self) -> str:
        at, k = self.index(), self.random.randrange(-9, 10)
        return self.pick(
            f"a[{at}]", f"b[{at}]", f"c[{at}]", f"d[{at}]", "s", "j", f"(b[{at}] & {abs(k)})", f"large(b[{at}])",
            f"(c[{at}] > {k} ? s : {k})", f"(d[{at}] >> 2)", f"{k}", *self.iterators,
        )  # fmt: skip

    def real(self) -> str:
        at = self.index()
        plain = (f"f[{at}]", f"g[{at}]", "x", "y")
        return self.pick(*plain, f"(g[{at}] * 0.5f)", f"(float)c[{at}]", f"(x > g[{at}] ? x : y)")

    def condition(self) -> str:
        i = self.pick(*self.iterators)
        return self.pick(
            f"{self.whole()} > {self.whole()}", f"{self.real()} < {self.real()}", f"{i} < 5", f"({i} & 1) == 0",
            f"g[{self.index()}] > 0 && {self.whole()} != 0", f"(!({self.real()} >= 0.25f) || {i} == 2)",
        )  # fmt: skip

    def statement(self) -> str:
        return self.pick(
            f"a[{self.index()}] = {self.whole()} + {self.whole()};", f"a[{self.index()}] ^= {self.whole()};",
            f"c[{self.index()}] += {self.whole()};", f"d[{self.index()}] = {self.whole()} - {self.whole()};",
            f"f[{self.index()}] = {self.real()} + {self.real()};", f"s = (s + {self.whole()}) & 1023;",
            f"x = {self.real()};", f"y = y * 0.5f + {self.real()};",
            f"if ({self.real()} > x) {{ x = {self.real()}; j++; }}",
            f"{{ int t = {self.whole()}; if (t > 50) t = 50; a[{self.index()}] -= t; }}",
            f"{{ a[j & 63] = {self.whole()}; j++; }}", f"a[j++ & 63] = s + {self.random.randrange(99)};",
        )  # fmt: skip

    def block(self, depth: int, looped: bool = False) -> str:
        """A few statements, with jumps to the end or to a place in between."""
        parts = [self.part(depth, looped) for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.35:
            label, at = self.name("l"), self.random.randrange(len(parts) + 1)
            before = self.random.randrange(at + 1)
            jump = f"if ({self.condition()}) goto {label};"
            if self.random.random() < 0.3:
                jump = f"if ({self.condition()}) {{ {self.statement()} goto {label}; }} else {self.statement()}"
            parts.insert(at, f"{label}: {self.statement()}")
            parts.insert(before, jump)
        return " ".join(parts)

    def part(self, depth: int, looped: bool) -> str:
        if depth == 0 or self.random.random() < 0.4:
            return self.statement()
        kind = self.random.randrange(8)
        if kind < 2:
            other = f" else {{ {self.block(depth - 1, looped)} }}" if self.random.random() < 0.5 else ""
            return f"if ({self.condition()}) {{ {self.block(depth - 1, looped)} }}{other}"
        if kind == 2 and looped:
            return f"if ({self.condition()}) {self.pick('break', 'continue')};"
        if kind == 3:
            count = self.random.randint(1, 3)
            cases = [f"case {k}: {self.statement()} {self.pick('break;', '')}" for k in range(count)]
            value = self.whole().replace("large", "")
            return f"switch ({value} & 3) {{ {' '.join(cases)} default: {self.statement()} }}"
        if kind == 4:
            return self.on_data(depth)
        i = self.name("i")
        self.iterators.append(i)
        inner = self.block(depth - 1, True)
        self.iterators.pop()
        steps = "break" not in inner and self.random.random() < 0.3
        trips = self.random.randrange(2, 9)
        return self.pick(
            f"for (int {i} = 0; {i} < {trips}; {i}++) {{ {inner} }}",
            f"for (int {i} = {trips}; {i} >= 0; {i} -= {self.pick('inc', '3') if steps else '1'}) {{ {inner} }}",
            f"for (int {i} = n; {i} < {trips * 2}; {i} += {'inc' if steps else '2'}) {{ {inner} }}",
        )

    def on_data(self, depth: int) -> str:
        """A loop that ends early once the data say so, and what its counter is then."""
        w, trips = self.name("w"), self.random.randrange(2, 9)
        self.iterators.append(w)
        test = " && ".join(self.random.sample([f"{w} < {trips}", self.condition()], 2))
        inner, whole = self.block(depth - 1), self.block(depth - 1, True)
        self.iterators.pop()
        loop = self.pick(
            f"while ({test}) {{ {inner} {w}++; }}",
            f"while ({w} < {trips}) {{ {w} += 2; if ({self.condition()}) break; {inner} }}",
            f"do {{ {inner} {w}++; }} while ({test});",
            f"for (; {test}; {w}++) {{ {whole} }}",
        )
        return f"{{ int {w} = {self.random.randrange(3)}; {loop} a[{self.index()}] ^= {w}; }}"


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(tmp_path: Path, seed: int) -> None:
    text = Generator(seed).program()
    try:
        check(tmp_path / "kernel.c", text, range(1))
    except SourceError as error:
        assert {p.code for p in error.problems} <= {"DG008", "DG010"}, error.render()
