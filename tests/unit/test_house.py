"""The house's own rules, read off the sources: who imports whom, sizes, and no word of any machine in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dspgen.target.load import isa_names, load_target
from dspgen.vecdsl.ir import OPS

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for folder in ("dspgen", "plant_core", "backends") for p in (ROOT / folder).rglob("*.py"))
LONGEST_MODULE = 500
LONGEST_FUNCTION = 70

# What a room may import besides itself and COMMON: the IR of the stage before it. A folder's text and checks of its
# IR (printer, parser, verify, fold) belong to the IR.
TOOLS = tuple(
    f"plant_core.{n}" for n in ("beside", "components", "linear", "remembered", "shared_objects")
)  # know of no program
COMMON = ("dspgen.target", "dspgen.errors", "plant_core.loc")
VECTOR_IR = ("dspgen.vecdsl.ir", "dspgen.vecdsl.terms", "dspgen.vecdsl.congruence")
ROOMS = {
    "dspgen.target": ("dspgen.vecdsl.ir", *TOOLS),  # the operations of the semantics are the vector language's
    "dspgen.frontend": ("plant_core",),
    "dspgen.oracle": ("plant_core", "dspgen.frontend"),
    "dspgen.tiling": ("plant_core",),
    "dspgen.vecdsl": ("plant_core.ir", "plant_core.tree", "plant_core.recurrences", "plant_core.starts"),
    "dspgen.straight": ("plant_core", "dspgen.vecdsl"),
    "dspgen.rewrite": (*VECTOR_IR, "dspgen.vecdsl.intervals", "dspgen.vecdsl.printer", "dspgen.vecdsl.verify", *TOOLS),
    "dspgen.asmir": (*VECTOR_IR, "dspgen.vecdsl.fold", "plant_core.windows"),
    "dspgen.sched": ("dspgen.asmir.ir", *TOOLS),
    "dspgen.emit": (
        "dspgen.sched.ir",
        "dspgen.asmir.ir",  # linear text
        "plant_core.ir",  # the C declaration
        "plant_core.printer",
    ),
    "dspgen.lasm": (
        "dspgen.asmir.ir",
        "dspgen.sim.text",
        "dspgen.sim.symbols",
    ),  # one reader of statements and literals
    "dspgen.check": ("dspgen.sched.ir", "dspgen.sim", *TOOLS),  # text and ISA file alone: it judges the schedulers
    "dspgen.sim": ("dspgen.sched.ir", "dspgen.asmir.ir", "dspgen.emit", *TOOLS),
}
# These see everything, and so does all of dspgen.bench.
TOP = {
    "dspgen.block_forms",
    "dspgen.block_groups",
    "dspgen.block_layouts",
    "dspgen.block_model",
    "dspgen.block_fits",
    "dspgen.block_sizes",
    "dspgen.blocked",
    "dspgen.far_data",
    "dspgen.near_data",
    "dspgen.padding",
    "dspgen.pipeline",
    "dspgen.by_nests",
    "dspgen.choosing",
    "dspgen.finalists",
    "dspgen.lacking",
    "dspgen.polishing",
    "dspgen.stages",
    "dspgen.unrolled",
    "dspgen.variants",
    "dspgen.viewed",
    "dspgen.cpu_road",
    "dspgen.emulated_road",
    "dspgen.emulator",
    "dspgen.nest_functions",
    "dspgen.tile_remarks",
    "dspgen.cli",
    "dspgen.cli_bench",
    "dspgen.cli_cpu",
    "dspgen.cli_explain",
    "dspgen.cli_isa",
    "dspgen.cli_linear",
    "dspgen.linear_road",
}
TOP |= {"dspgen.cli_shared", "dspgen.report", "dspgen.explain", "dspgen.files", "dspgen.__main__"}


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


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_flow_downstream(path: Path) -> None:
    name = module_name(path)
    ours = [(line, found) for line, found in imports_of(path) if under(found, ("dspgen", "plant_core", "backends"))]
    if name in TOP or under(name, ("dspgen.bench",)):
        return
    if name.startswith("plant_core"):
        allowed: tuple[str, ...] = ("plant_core",)
    elif name.startswith("backends"):
        allowed = ("plant_core", ".".join(name.split(".")[:2]))
    else:
        room = next((room for room in ROOMS if under(name, (room,))), None)
        allowed = (room, *ROOMS[room], *COMMON) if room else COMMON
    assert [f"{path.name}:{line} imports {found}" for line, found in ours if not under(found, allowed)] == []


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_size_and_manners(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert text.count("\n") <= LONGEST_MODULE
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
