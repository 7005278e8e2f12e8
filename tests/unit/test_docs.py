"""The documentation says what is there: its programs run, and its names exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from backends.cpu.kernel import compile_cpu
from dspgen.cli.main import commands
from dspgen.frontend.read import read_c
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.lang.program import Program, Statement
from plant_core.scan import scan
from plant_core.schedule import auto

PAGES = (
    "README.md",
    *(
        f"docs/{p}.md"
        for p in ("architecture", "autoschedule", "cli", "isa", "linear", "packing", "plant", "retargeting")
    ),
)


def text_of(root: Path, page: str) -> str:
    return (root / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_lead_somewhere(page: str, root: Path) -> None:
    text = text_of(root, page)
    links = [(root / page).parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    named = re.findall(r"`((?:dspgen|plant_core|backends|examples|tests|isa)/[\w./-]*\w)(?=[*`/])", text)
    found = [*links, *(root / name for name in named)]
    assert found or page.endswith("autoschedule.md")
    assert [str(p) for p in found if not p.exists() and not p.with_suffix(".py").exists() and not _begins(p)] == []


def _begins(path: Path) -> bool:
    return any(path.parent.glob(f"{path.name}*"))


def test_the_program_of_the_guide(root: Path) -> None:
    block, _ = re.findall(r"```python\n(.*?)```", text_of(root, "docs/plant.md"), re.S)
    names = {"Function": Function, "iters": iters, "compile_cpu": compile_cpu, "n": 37, "s": 21, "m": 45}
    exec(block, names)
    rng = np.random.default_rng(0)
    a, b, c = rng.random((37, 21), np.float32), rng.random((21, 45), np.float32), np.empty((37, 45), np.float32)
    names["kernel"](a=a, b=b, c=c)  # type: ignore[operator]
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_the_handle_of_the_guide(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = text_of(root, "docs/plant.md")
    ((block, said),) = re.findall(r"```python\n(p = .*?)```\n\n```\n(.*?)```", text, re.S)
    monkeypatch.chdir(root)
    exec(block, {"Program": Program, "read_c": read_c, "print_tree": print_tree, "scan": scan})
    assert capsys.readouterr().out.strip() == said.strip()


def test_verbs_of_the_guide_are_those_that_there_are(root: Path) -> None:
    rows = [line for line in text_of(root, "docs/plant.md").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)\(", row.split("|")[1])}
    public = {name for kind in (Statement, Program) for name in vars(kind) if not name.startswith("_")}
    assert named - public == set()
    assert public - named == {"func", "loops", "nest", "statements", "scheduled"} & public


def test_stages_of_the_default_schedule_are_its_modules(root: Path) -> None:
    text = text_of(root, "docs/autoschedule.md")
    steps = " ".join(re.findall(r"^\d\. \*\*.*?\*\* \((.*?)\)", text, re.M))
    modules = {p.stem for p in Path(auto.__file__).parent.glob("*.py")} - {"__init__", "default"}
    assert modules - set(re.findall(r"`(\w+)`", steps)) == set()


def test_the_architecture_names_every_folder(root: Path) -> None:
    text = text_of(root, "docs/architecture.md")
    named = set(re.findall(r"`((?:plant_core|dspgen)/\w+)`", text))
    folders = {
        str(p.parent.relative_to(root)) for name in ("plant_core", "dspgen") for p in root.glob(f"{name}/*/__init__.py")
    }
    assert named == folders


def options(command: click.Command, path: str = "") -> Iterator[tuple[str, str]]:
    for param in command.params:
        yield from ((path, text) for text in param.opts if isinstance(param, click.Option) and text.startswith("-"))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from options(inner, f"{path} {name}".strip())


def test_every_option_is_in_the_synopsis(root: Path) -> None:
    text = text_of(root, "docs/cli.md")
    (block,) = re.findall(r"```\n(dspgen compile.*?)```", text, re.S)
    synopses: dict[str, str] = {}
    for line in re.sub(r"\n {4,}", " ", block).splitlines():
        found = re.match(r"dspgen (bench +\w+|\w+)", line)
        assert found
        synopses[" ".join(found.group(1).split())] = line
    later = ("schedule",)
    for path, option in options(commands):
        if not path or path in later:
            continue
        synopsis = synopses[path if path in synopses else path.split()[0]]
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", synopsis), f"{path} {option}"
    known = {option for _, option in options(commands)}
    for synopsis in synopses.values():
        assert set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", synopsis)) <= known | {"-polly"}
