"""What the parts of an ISA file have to know of each other while the target is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from dspgen.target.isa.model import RegisterClass, Side, Unit
from dspgen.target.schema.structure import Fault, suggest
from dspgen.target.schema.toml_positions import Path


@dataclass(slots=True)
class Context:
    """Names resolved so far, and the faults found."""

    lanes: int
    mask: str | None = None
    faults: list[Fault] = field(default_factory=list)
    classes: dict[str, RegisterClass] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)
    # Of the instructions of each side that don't tell; none where the machine has no registers for them.
    predicates: dict[Side, Literal["none", "scalar", "lane"]] = field(default_factory=dict)

    def fault(self, code: str, path: Path, message: str, remedy: str = "", *, at_key: bool = False) -> None:
        self.faults.append(Fault(code, path, message, remedy, at_key))

    def register_names(self) -> dict[str, str]:
        """Every register's text, and its class."""
        return {n: c.name for c in self.classes.values() for n in c.names}

    def controls(self) -> tuple[str, ...]:
        return tuple(n for c in self.classes.values() if c.kind == "control" for n in c.names)

    def members(self, names: Sequence[str], path: Path) -> list[tuple[Unit, int]]:
        """The units that a row's `units` name, one by one: a group, or one of its members."""
        found: list[tuple[Unit, int]] = []
        for n, name in enumerate(names):
            unit = self.units.get(name)
            numbers = range(1, unit.count + 1) if unit else range(0)
            if unit is None:
                unit, number = self._member(name)
                numbers = range(number, number + 1)
            if unit is None:
                members = (m for u in self.units.values() for m in u.members)
                remedy = suggest(name, [*self.units, *members])
                self.fault("DG107", (*path, "units", n), f"`{name}` is not a unit", remedy)
                continue
            found += [(unit, k) for k in numbers]
        if not names:
            self.fault("DG107", (*path, "units"), "names no unit")
        return found

    def _member(self, name: str) -> tuple[Unit | None, int]:
        """`NAME1` is the first of the group NAME, also where a group has been cut to a single unit."""
        for unit in self.units.values():
            number = name.removeprefix(unit.name)
            if name.startswith(unit.name) and number.isdigit() and 1 <= int(number) <= unit.count:
                return unit, int(number)
        return None, 0

    def check_class(self, path: Path, name: str) -> None:
        if name not in self.classes:
            self.fault("DG106", path, f"`{name}` is not a register class", suggest(name, tuple(self.classes)))

    def check_register(self, path: Path, name: str) -> None:
        names = self.register_names()
        if name not in names:
            spans = [f"`{c.names[0]}` to `{c.names[-1]}`" for c in self.classes.values() if c.names and not c.pair_of]
            remedy = suggest(name, tuple(names)) or f"there are {', '.join(spans)}"
            self.fault("DG113", path, f"`{name}` is not a register", remedy)
