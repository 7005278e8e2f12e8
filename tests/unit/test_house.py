"""The house's own rules, read off the sources: who imports whom, sizes, and no word of any machine in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dspgen.target.load import isa_names, load_target
from dspgen.vecdsl.ir.program import OPS

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for folder in ("dspgen", "plant_core", "backends") for p in (ROOT / folder).rglob("*.py"))
LONGEST_FUNCTION = 70

# The folders in the order of the data's way: each imports earlier ones only. A module of `dspgen` itself stands for
# itself.
LAYERS = (
    "plant_core.support",
    "plant_core.ir",
    "plant_core.analysis",
    "plant_core.normalize.scalars",
    "plant_core.normalize.loops",
    "plant_core.normalize",
    "plant_core.transform",
    "plant_core.scratchpad",
    "plant_core.strip_mine",
    "plant_core.tile_plan",
    "plant_core.schedule",
    "plant_core.schedule.verbs",
    "plant_core.schedule.memory",
    "plant_core.schedule.packing",
    "plant_core.schedule.auto",
    "plant_core.scan",
    "plant_core.interp",
    "plant_core.lang",
    "backends.cpu.ir",
    "backends.cpu.passes",
    "backends.cpu.vector",
    "backends.cpu",
    "dspgen.errors",
    "dspgen.options",
    "dspgen.internal_error",
    "dspgen.io",
    "dspgen.vecdsl.ir",
    "dspgen.target.isa",
    "dspgen.target.schema",
    "dspgen.target.query",
    "dspgen.target.build",
    "dspgen.target",
    "dspgen.frontend.parse",
    "dspgen.frontend.symbolic",
    "dspgen.frontend.desugar",
    "dspgen.frontend.scop",
    "dspgen.frontend",
    "dspgen.oracle",
    "dspgen.tiling.loops",
    "dspgen.tiling.cost",
    "dspgen.tiling.split",
    "dspgen.tiling",
    "dspgen.vecdsl.analysis",
    "dspgen.vecdsl.build",
    "dspgen.vecdsl.lanes",
    "dspgen.vecdsl.loops",
    "dspgen.straight",
    "dspgen.rewrite.graph",
    "dspgen.rewrite.cost",
    "dspgen.rewrite.rules",
    "dspgen.rewrite.egraph",
    "dspgen.rewrite.extract",
    "dspgen.rewrite",
    "dspgen.asmir.ir",
    "dspgen.asmir.select",
    "dspgen.asmir.legalize",
    "dspgen.asmir.passes",
    "dspgen.asmir",
    "dspgen.asmir.dma",
    "dspgen.sched.ir",
    "dspgen.sched.machine",
    "dspgen.sched.graph",
    "dspgen.sched.straight",
    "dspgen.sched.registers",
    "dspgen.sched.modulo",
    "dspgen.sched.loops",
    "dspgen.sched.layout",
    "dspgen.sched",
    "dspgen.emit",
    "dspgen.sim.ir",
    "dspgen.sim.text",
    "dspgen.sim.lowering",
    "dspgen.sim.machine",
    "dspgen.sim.cgen",
    "dspgen.sim",
    "dspgen.lasm",
    "dspgen.check",
    "dspgen.backend",
    "dspgen.search",
    "dspgen.offchip",
    "dspgen.remarks",
    "dspgen.driver",
    "dspgen.report",
    "dspgen.bench",
    "dspgen.cli",
    "dspgen.__main__",
)
# These judge what others make, and see no more of it than this.
JUDGES = {
    "dspgen.emit": ("dspgen.sched.ir", "dspgen.asmir.ir", "plant_core.ir"),
    "dspgen.sim": ("dspgen.sched.ir", "dspgen.asmir.ir", "dspgen.emit"),
    "dspgen.check": ("dspgen.sched.ir", "dspgen.sim"),
}
ANYWHERE = ("dspgen.target", "dspgen.errors", "plant_core.support")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names):
                whole = [f"{module}.{alias.name}" for alias in names]
                yield from ((node.lineno, name if is_module(name) else str(module)) for name in whole)


def is_module(name: str) -> bool:
    path = ROOT / Path(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def under(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def layer_of(name: str) -> str:
    """The innermost of LAYERS that has a module; `dspgen` and the like, which are empty, have none."""
    parts = name.split(".")
    return next((n for n in (".".join(parts[:k]) for k in range(len(parts), 0, -1)) if n in LAYERS), "")


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_folder_imports_earlier_ones_only(path: Path) -> None:
    """Also for types only."""
    name = module_name(path)
    place, room = layer_of(name), ".".join(name.split(".")[:2])
    seen = (room, *JUDGES[room], *ANYWHERE) if room in JUDGES else None
    faults = []
    for line, found in imports_of(path):
        if not under(found, ("dspgen", "plant_core", "backends")):
            continue
        late = layer_of(found) not in LAYERS[: LAYERS.index(place) + 1]
        if late or (seen is not None and not under(found, seen)):
            faults.append(f"{path.name}:{line} imports {found}")
    assert faults == []


def test_every_folder_has_its_place() -> None:
    assert {
        module_name(path) for path in SOURCES if path.read_text(encoding="utf-8") and not layer_of(module_name(path))
    } == set()


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_size_and_manners(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    faults = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno > LONGEST_FUNCTION:
            faults.append(f"{node.lineno}: {node.name} is long")
        if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type).endswith("Exception")):
            if ast.unparse(node.type or ast.Name("")) not in ("click.ClickException",):
                faults.append(f"{node.lineno}: catches everything")
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            faults.append(f"{node.lineno}: star import")
    assert faults == []


def machine_words() -> dict[str, str]:
    """Every mnemonic, unit and register, with an ISA file that has it. Words of the schema are Python's too."""
    words: dict[str, str] = {}
    for isa in isa_names():
        target = load_target(isa)
        found = {i.mnemonic for i in target.instructions}
        found |= {u.name for u in target.units} | set(target.unit_members)
        found |= {part for c in target.registers for name in c.names for part in name.split(":")}
        words |= {word: isa for word in found if word not in OPS and not word.isdigit()}
    return words


def test_python_names_no_machine() -> None:
    """But benches, which are of the machines that others' figures are of."""
    names = re.compile(rf"\b({'|'.join(isa_names())})\b")
    found = {module_name(path) for path in SOURCES if names.search(path.read_text(encoding="utf-8"))}
    assert {name for name in found if not under(name, ("dspgen.bench",))} == set()


def words_of(path: Path) -> Iterator[tuple[int, str]]:
    """Identifiers, and the words of string literals (docstrings too)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Constant(value=str(value)):
                yield from ((node.lineno, word) for word in re.findall(r"\w+", value))
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.keyword(arg=str(word)):
                yield node.lineno, word
            case ast.FunctionDef(name=word) | ast.ClassDef(name=word):
                yield node.lineno, word


def test_python_names_no_mnemonic_unit_or_register() -> None:
    forbidden = machine_words()
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {word} is a word of {forbidden[word]}"
        for path in SOURCES
        for line, word in words_of(path)
        if word in forbidden
    ]
    assert faults == []


def test_every_error_code_is_documented() -> None:
    told = set(re.findall(r"DG\d{3}", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")))
    used = {code for path in SOURCES for code in re.findall(r'"(DG\d{3})"', path.read_text(encoding="utf-8"))}
    assert sorted(used - told) == []
