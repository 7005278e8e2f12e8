"""What the parts of an ISA file have to know of each other while the target is built."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspgen.target.locate import Path
from dspgen.target.model import RegisterClass, Unit
from dspgen.target.structure import Fault, suggest


@dataclass(slots=True)
class Context:
    """Names resolved so far, and the faults found."""

    lanes: int
    mask: str | None = None
    faults: list[Fault] = field(default_factory=list)
    classes: dict[str, RegisterClass] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)

    def fault(self, code: str, path: Path, message: str, remedy: str = "", *, at_key: bool = False) -> None:
        self.faults.append(Fault(code, path, message, remedy, at_key))

    def register_names(self) -> dict[str, str]:
        """Every register's text, and its class."""
        return {n: c.name for c in self.classes.values() for n in c.names}

    def controls(self) -> tuple[str, ...]:
        return tuple(n for c in self.classes.values() if c.kind == "control" for n in c.names)

    def check_class(self, path: Path, name: str) -> None:
        if name not in self.classes:
            self.fault("DG106", path, f"`{name}` is not a register class", suggest(name, tuple(self.classes)))

    def check_register(self, path: Path, name: str) -> None:
        names = self.register_names()
        if name not in names:
            self.fault("DG113", path, f"`{name}` is not a register", suggest(name, tuple(names)))
