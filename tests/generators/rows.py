"""Random kernels over rows of arrays, of any length."""

from __future__ import annotations

import random


def rows(seed: int) -> str:
    """A sum over neighbours for some columns of an array, up to its last one or not, under a condition or not."""
    pick = random.Random(seed)
    height, width = pick.randrange(1, 6), pick.randrange(3, 100)
    first, right = pick.choice((0, 1, 5)), pick.choice((0, 0, 1, 40))
    taps = pick.randrange(1, 4)
    total = " + ".join(f"x[i][j + {k}]" for k in range(taps))
    guard = pick.choice(("", "", "if (x[i][j] > 0) "))
    zero = pick.choice(("", f"y[i][j + {first}] = i;"))
    return f"""
void rows(int y[restrict {height}][{first + width + right}], const int x[{height}][{width + taps}]) {{
#pragma scop
  for (int i = 0; i < {height}; i++)
    for (int j = 0; j < {width}; j++) {{
      {zero}
      {guard}y[i][j + {first}] {pick.choice(("=", "+="))} {total};
    }}
#pragma endscop
}}
"""
