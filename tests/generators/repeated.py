"""Random nests in which loops go over the same arrays again and again: stencils in time loops, decompositions."""

from __future__ import annotations

import random


def repeated(rng: random.Random, kind: str = "int", size: int = 9, least: int = 2) -> str:
    """A C function on arrays of `size` elements a dimension."""
    return _stencil(rng, kind, size, least) if rng.random() < 0.6 else _elimination(rng, kind, size)


def _stencil(rng: random.Random, kind: str, size: int, least: int) -> str:
    depth, arrays = rng.choice((1, 2, 2)), ["a", "b", "c"][: rng.randint(1, 3)]
    names = ["i", "j"][:depth]
    nests, body = [], ""

    def access(array: str, still: bool) -> str:
        return array + "".join(f"[{n} + {0 if still else rng.randint(-1, 1)}]" for n in names)

    for _ in range(rng.randint(1, 3)):
        terms = [access(rng.choice(arrays), False) for _ in range(rng.randint(1, 3))]
        update = rng.random() < 0.3
        value = " - ".join(terms)
        nests.append(f"{access(rng.choice(arrays), True)} {'+=' if update else '='} {value};")
    if rng.random() < 0.3:
        nests.append(f"{rng.choice(arrays)}{'[0]' if depth == 1 else '[0][j + 0]'} = t;")
    loops = [f"for (int {n} = {rng.choice((1, 1, 2))}; {n} < {size - 1}; {n}++)" for n in names]
    together = rng.random() < 0.3
    for text in nests:
        inner = loops[-1:] if "[0]" in text else loops
        body += text if together and "[0]" not in text else f"{' '.join(inner)} {text} "
    if together:
        alone = [text for text in nests if "[0]" in text]
        body = " ".join(f"{loops[-1]} {text}" for text in alone)
        body += f" {' '.join(loops)} {{ {' '.join(text for text in nests if text not in alone)} }}"
    own = ""
    if rng.random() < 0.3:  # a local array that each step fills and empties
        own = f"{kind} own[{size}]; "
        first = "a[i]" if depth == 1 else "a[i][2]"
        last = f"a[i]{'[1]' * (depth - 1)} += own[i] - own[i - 1];"
        body = f"for (int i = 0; i < {size}; i++) own[i] = {first} - t; {body} for (int i = 1; i < {size}; i++) {last}"
    extents = "".join(f"[{size}]" for _ in names)
    given = ", ".join(f"{kind} {array}{extents}" for array in arrays)
    return f"void f({given}) {{ {own}for (int t = 0; t < {rng.randint(least, 5)}; t++) {{ {body} }} }}"


def _elimination(rng: random.Random, kind: str, size: int) -> str:
    """An update of one array by its own rows and columns, in a triangle or a box, with something done at its end."""
    x, y, z = (rng.sample(["i", "j", "k"], 2) for _ in range(3))
    update = f"a[i][j] -= a[{x[0]}][{x[1]}] * a[{y[0]}][{y[1]}];"
    last = f"a[i][j] {rng.choice(('=', '+='))} a[{z[0].replace('k', 'j')}][{z[1].replace('k', 'j')}];"
    bounds = rng.choice(("j", "i", "j + 1", str(size)))
    rows = rng.choice(("j <= i", "j < i", f"j < {size}"))
    if rng.random() < 0.5:
        body = f"for (int k = 0; k < {bounds if bounds != 'j + 1' else 'j'}; k++) {update} {last}"
        loops = f"for (int i = 0; i < {size}; i++) for (int j = 0; {rows}; j++)"
        return f"void f({kind} a[{size}][{size}]) {{ {loops} {{ {body} }} }}"
    first = f"for (int i = k + 1; i < {size}; i++) a[i][k] {rng.choice(('+=', '='))} a[k][k];"
    rest = f"for (int i = k + 1; i < {size}; i++) for (int j = k + 1; {rows}; j++) {update}"
    return f"void f({kind} a[{size}][{size}]) {{ for (int k = 0; k < {size}; k++) {{ {first} {rest} }} }}"
