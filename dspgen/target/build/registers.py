"""The register classes and units of an ISA file, with all names spelled out."""

from __future__ import annotations

from dspgen.target.build.context import Context
from dspgen.target.isa.model import RegisterClass, Unit
from dspgen.target.schema import tables
from dspgen.target.schema.structure import suggest
from dspgen.target.schema.toml_positions import Path

_APART = "scalars and addresses of one width may be shared; of two classes of scalars, one is in the other"


def build_registers(isa: tables.Isa, context: Context) -> None:
    for name, row in isa.registers.items():
        path: Path = ("registers", name)
        names: tuple[str, ...] = row.names
        if row.pair_of is not None:
            base = context.classes.get(row.pair_of)
            if base is None:
                remedy = suggest(row.pair_of, tuple(context.classes)) or "a pair class stands below its base class"
                context.fault("DG112", (*path, "pair_of"), f"`{row.pair_of}` is not a register class above", remedy)
            elif base.pair_of is not None:
                context.fault("DG112", (*path, "pair_of"), f"`{row.pair_of}` is a pair class itself")
            elif not names:
                names = _pair_names(row, base, context, path)
        elif not names:
            context.fault("DG103", path, "the key `names` is missing or empty", at_key=True)
        if row.bits < 1:
            context.fault("DG111", (*path, "bits"), f"must be at least 1, not {row.bits}")
        if row.kind == "element" and row.element_of is None:
            context.fault("DG103", path, "an element class needs the key `element_of`", at_key=True)
        context.classes[name] = RegisterClass(
            name, row.kind, names, row.bits, row.pair_of, row.element_of, row.side, row.vector
        )
    seen: dict[str, str] = {}
    for cls in context.classes.values():
        again: dict[str, list[str]] = {}
        for register in cls.names:
            if register in seen and not _shared(cls, context.classes[seen[register]]):
                again.setdefault(seen[register], []).append(register)
            seen[register] = cls.name
        for other, (first, *more) in again.items():
            where = "twice" if other == cls.name else f"in `{other}` too"
            remedy = _APART if other != cls.name else ""
            too = f", and so are {len(more)} more" if more else ""
            context.fault(
                "DG108", ("registers", cls.name, "names"), f"the register `{first}` is named {where}{too}", remedy
            )
    for name, row in isa.registers.items():
        if row.element_of is not None:
            context.check_register(("registers", name, "element_of"), row.element_of)
    for name, members in isa.groups.items():
        if name in context.classes:
            context.fault("DG108", ("groups", name), f"`{name}` is a register class already", at_key=True)
        for n, member in enumerate(members):
            context.check_class(("groups", name, n), member)
        context.groups[name] = tuple(m for m in members if m in context.classes)


def _shared(one: RegisterClass, other: RegisterClass) -> bool:
    """Whether a register may be of both: as a number of a scalar's kind, and as an address; or as one of the few
    scalars of a class that some operands must be of."""
    kinds = {one.kind, other.kind}
    if one.bits != other.bits or not kinds <= {"scalar", "address", "offset"}:
        return False
    return len(kinds) == 2 or {*one.names} < {*other.names} or {*one.names} > {*other.names}


def _pair_names(row: tables.Register, base: RegisterClass, context: Context, path: Path) -> tuple[str, ...]:
    halves = zip(base.names[0::2], base.names[1::2], strict=False)
    try:
        return tuple(
            row.pair_name.format(lo=lo, hi=hi, lo_number=_number(lo), hi_number=_number(hi)) for lo, hi in halves
        )
    except (KeyError, IndexError, ValueError, AttributeError):
        context.fault("DG112", (*path, "pair_name"), "may hold `{lo}`, `{hi}`, `{lo_number}` and `{hi_number}` only")
        return ()


def _number(name: str) -> str:
    """The digits at the end of a register's text."""
    return name[len(name.rstrip("0123456789")) :]


def build_units(isa: tables.Isa, context: Context) -> None:
    owners: dict[str, str] = {}
    for name, row in isa.units.items():
        path: Path = ("units", name)
        if row.count < 1:
            context.fault("DG111", (*path, "count"), f"must be at least 1, not {row.count}")
        try:
            row.suffix.format(n=1)
        except (KeyError, IndexError, ValueError, AttributeError):
            context.fault("DG104", (*path, "suffix"), "may hold `{n}` only")
            continue
        if row.slots < 1:
            context.fault("DG111", (*path, "slots"), f"must be at least 1, not {row.slots}")
        unit = Unit(name, max(row.count, 1), row.suffix, row.side, row.accepts, max(row.slots, 1))
        context.units[name] = unit
        for member in unit.members:
            if member in owners:
                context.fault("DG108", path, f"the unit `{member}` is one of `{owners[member]}` already", at_key=True)
            owners[member] = name
