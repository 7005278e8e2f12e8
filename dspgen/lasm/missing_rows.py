"""Rows to add to an ISA file for instructions that it lacks, as far as their uses tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dspgen.sim.text.statements import Line, Token
from dspgen.target.isa.model import Target

_NAMES = "abcdefgh"


def missing_rows(word: str, lines: Sequence[Line], classes: Mapping[str, Collection[str]], target: Target) -> str:
    """One TOML table for each shape of operands in which `word` is used; what only a manual can tell is left as `?`."""
    shapes: dict[tuple[str, ...], Line] = {}
    for line in lines:
        shapes.setdefault(tuple(_operand(t, classes, target) for t in line.operands), line)
    tables = []
    for k, (operands, line) in enumerate(shapes.items()):
        name = word if k == 0 else f"{word}_{k + 1}"
        tables.append("\n".join(_table(name, word, operands, line, target)))
    return "\n".join(tables)


def _table(name: str, word: str, operands: Sequence[str], line: Line, target: Target) -> list[str]:
    letters = [*_NAMES[: max(len(operands) - 1, 0)], "d"][-len(operands) :] if operands else []
    if '"memory"' in operands:
        letters = ["m" if o == '"memory"' else letters[k] for k, o in enumerate(operands)]
    units = ", ".join(sorted(u.name for u in target.units))
    rows = [f"  [instructions.{name}]"]
    rows += [f'  mnemonic = "{word}"'] if name != word else []
    rows.append(f'  units = "?"            # of {units}')
    rows.append(f"  operands = {{ {', '.join(f'{a} = {o}' for a, o in zip(letters, operands, strict=True))} }}")
    rows.append('  semantics = "d = ?"' if "d" in letters else '  semantics = "?"')
    rows.append("  latency = 1            # cycles until the result can be read")
    if '"memory"' in operands:
        rows.append('  memory = { scale = "?", bytes = "?", align = "?" }')
    if line.predicate is not None:
        rows.append('  predicate = "?"        # scalar or lane')
    return rows


def _operand(token: Token, classes: Mapping[str, Collection[str]], target: Target) -> str:
    if token.kind == "memory":
        return '"memory"'
    if token.kind == "int":
        return f"{{ imm = [{min(token.value, 0)}, {max(token.value, 0)}] }}"
    names = token.text.split(":")
    found = sorted(set.intersection(*(set(classes.get(n, ())) for n in names))) if names else []
    if len(names) == 2:
        found = [c.name for c in target.registers if c.pair_of in found]
    if len(found) == 1:
        return f'"{found[0]}"'
    control = [c.name for c in target.registers if token.text in c.names]
    if found or not control:
        return '"?"' if not found else f'"{"|".join(found)}"'
    return f'"{control[0]}"'
