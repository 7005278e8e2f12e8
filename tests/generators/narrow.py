"""Random kernels on arrays of bytes and shorts: windows, taps, clamps, magnitudes, mixed signs."""

from __future__ import annotations

import random

ELEMS = ("unsigned char", "signed char", "short", "unsigned short")


def narrow(seed: int) -> str:
    """An expression of a window of one array and an element of another, at once or summed up over taps."""
    pick = random.Random(seed)
    height, width = pick.randrange(1, 5), pick.choice((pick.randrange(3, 140), 62, 64, 126, 128, 130))
    first, second, stored = (pick.choice((*ELEMS, *ELEMS, *ELEMS, "int")) for _ in range(3))
    right, room = pick.choice((0, 0, 1, 70)), pick.choice((0, 0, 150))
    loops = pick.random() < 0.3
    taps = pick.choice((2, 3, 5))
    reads = [f"x[i + {p}][j + {q}]" for p in range(2) for q in range(3)] + ["z[i][j]", "z[i][j]"]
    body = f"y[i][j] = {_expression(pick, reads, pick.randrange(1, 5))};"
    if pick.random() < 0.4:
        local = f"int a = {_expression(pick, reads, pick.randrange(1, 4))};"
        body = f"{local} y[i][j] = {_expression(pick, [*reads, 'a', 'a', 'a'], pick.randrange(1, 4))};"
    if loops:
        kind = pick.choice(("int", "int", "short", "unsigned char"))
        product = _expression(pick, ["x[i][j + t]", "w[t]", "z[i][j]"], pick.randrange(1, 3))
        last = _expression(pick, ["s", "s", "z[i][j]"], pick.randrange(0, 3))
        start, before = pick.choice(("0", "1", "z[i][j]")), pick.choice(("s + ", "s - ", ""))
        body = f"{kind} s = {start}; for (int t = 0; t < {taps}; t++) s = {before}{product}; y[i][j] = {last};"
    in_place = not loops and pick.random() < 0.2
    if in_place:
        body = body.replace("z[", "y[")
    return f"""
void narrow({stored} y[restrict {height}][{width + right}], const {first} x[{height + 1}][{width + 5 + room}],
            const {second} z[{height}][{width + room}], const {pick.choice(ELEMS)} w[{taps}]) {{
#pragma scop
  for (int i = 0; i < {height}; i++)
    for (int j = 0; j < {width}; j++) {{
      {body}
    }}
#pragma endscop
}}
"""


def _expression(pick: random.Random, leaves: list[str], depth: int) -> str:
    if depth == 0 or pick.random() < 0.1:
        return pick.choice((*leaves, *leaves, str(pick.choice((0, 1, 2, 3, 7, 100, 255, -1, -5, 1000)))))

    def part() -> str:
        return _expression(pick, leaves, depth - 1)

    a, b = part(), part()
    match pick.randrange(12):
        case 0 | 1 | 2:
            return f"({a} + {b})"
        case 3 | 4:
            return f"({a} - {b})"
        case 5:
            return f"({a} * {pick.choice((b, '3', '-7', '16'))})"
        case 6:
            return f"({a} {pick.choice('&|^')} {b})"
        case 7:
            return f"({a} >> {pick.randrange(1, 9)})"
        case 8:
            return f"({pick.choice(('(unsigned char)', '(short)', '(signed char)', '(unsigned short)', '~', '-'))} {a})"
        case 9:
            c = pick.choice((b, "255", "0", "-128"))
            return f"({a} {pick.choice(('<', '>', '<=', '>='))} {c} ? {pick.choice((a, c))} : {pick.choice((c, a))})"
        case 10:
            return pick.choice((f"({a} < 0 ? - {a} : {a})", f"({a} > {b} ? {a} - {b} : {b} - {a})", f"abs({a})"))
        case _:
            return f"({a} {pick.choice(('<', '>', '==', '!=', '<=', '>='))} {b} ? {part()} : {part()})"
