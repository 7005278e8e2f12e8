"""Random nests with affine guards that hold in their interior: filters over borders, clamped stencils, bands, several
statements, updates in place.

    text = random_guarded(random.Random(7))       a C file, its function is called `kernel`
    text = random_guarded_of_any_size(random.Random(7))     its sizes are the parameters n and m
"""

from __future__ import annotations

import random

_FILTERS = ("x[i - k][j]", "x[i - k][j - l]", "x[i + k - 1][j]", "x[i + k - 1][j + l - 1]")
_CONDITIONS = (
    "i > 0 && i < {n} - 1",
    "i > 0 && i < {n} - 1 && j > 0 && j < {m} - 1",
    "j >= 2",
    "j < {m} - 3",
    "i - j <= 3 && j - i <= 3",
    "i != {h}",
    "i + j > 2",
    "i >= 1 || j >= 1",
)


def random_guarded(rng: random.Random) -> str:
    n, m, taps = rng.randint(6, 40), rng.randint(6, 40), rng.randint(2, 4)
    body = "\n".join(_nest(rng, n, m, taps) for _ in range(rng.choice((1, 1, 2))))
    return (
        f"void kernel(const float x[{n}][{m}], const float f[{taps}][{taps}], float y[{n}][{m}], float z[{n}][{m}])\n"
        f"{{\n{body}\n}}\n"
    )


def random_guarded_of_any_size(rng: random.Random) -> str:
    taps = rng.randint(2, 4)
    body = "\n".join(_nest(rng, "n", "m", taps) for _ in range(rng.choice((1, 1, 2))))
    return (
        f"void kernel(int n, int m, const float x[n][m], const float f[{taps}][{taps}], float y[n][m], float z[n][m])\n"
        f"{{\n{body}\n}}\n"
    )


def _nest(rng: random.Random, n: int | str, m: int | str, taps: int) -> str:
    kind = rng.choice(("filter", "filter", "scalar", "stencil", "clamped", "place"))
    head = f"  for (int i = 0; i < {n}; i++)\n    for (int j = 0; j < {m}; j++)"
    if kind in ("filter", "scalar"):
        return _filter(rng, n, m, taps, head, scalar=kind == "scalar")
    condition = rng.choice(_CONDITIONS).format(n=n, m=m, h=4 if isinstance(n, str) else n // 2)
    if kind == "stencil":
        other = rng.choice(("", " else z[i][j] = x[i][j];", " else { y[i][j] = 1.0f; z[i][j] = 2.0f; }"))
        return f"{head} {{\n      if ({condition}) y[i][j] = x[i][j] * f[0][1] + z[i][j];{other}\n    }}"
    if kind == "clamped":
        low, high = rng.choice((("i > 0 ? i - 1 : 0", "j"), ("i", "j > 0 ? j - 1 : 0"), ("i < 1 ? 0 : i - 1", "j")))
        return f"{head} {{\n      int a = {low}, b = {high};\n      y[i][j] = x[i][j] + x[a][b] * f[1][0];\n    }}"
    before = rng.choice(("y[i - 1][j]", "y[i][j - 1]", "y[i - 1][j - 1]", "y[i - 1][j + 1]", "z[i - 1][j + 1]"))
    return (
        f"{head} {{\n      if (i > 0 && j > 0 && j < {m} - 1) y[i][j] = x[i][j] + {before} * 0.5f;\n"
        f"      if ({condition}) z[i][j] = y[i][j] + x[i][j];\n    }}"
    )


def _filter(rng: random.Random, n: int | str, m: int | str, taps: int, head: str, *, scalar: bool) -> str:
    read = rng.choice(_FILTERS)
    guards = []
    row, column = read[2 : read.index("]")], read[read.index("]") + 2 : -1]
    if row != "i":
        guards += [f"{row} >= 0", f"{row} < {n}"]
    if column != "j":
        guards += [f"{column} >= 0", f"{column} < {m}"]
    target = "s" if scalar else "y[i][j]"
    first = "      float s = 0.0f;" if scalar else "      y[i][j] = 0.0f;"
    last = f"\n      y[i][j] = s{rng.choice((' * 2.0f', ' + z[i][j]', ''))};" if scalar else ""
    return (
        f"{head} {{\n{first}\n      for (int k = 0; k < {taps}; k++)\n        for (int l = 0; l < {taps}; l++)\n"
        f"          if ({' && '.join(guards)}) {target} += {read} * f[k][l];{last}\n    }}"
    )
