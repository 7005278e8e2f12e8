"""`isa new`: a file to start from is sound, compiles what its base compiles, and tells what its keys mean."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dspgen.target.load import isa_names, isa_path, load_target
from dspgen.target.reference import comments
from dspgen.target.schema import tables
from dspgen.target.starter import started

Run = Callable[..., tuple[int, str, str]]
TESTS = Path(__file__).parents[1]
BASES = [*(isa_path(name) for name in isa_names()), *sorted((TESTS / "isa").glob("*.toml"))]


def new(base: Path, folder: Path, name: str = "mine") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(started(name, base.read_text(encoding="utf-8"), base.stem), encoding="utf-8")
    return path


@pytest.mark.parametrize("base", BASES, ids=lambda p: p.stem)
def test_it_is_the_same_machine(base: Path, tmp_path: Path) -> None:
    old, made = load_target(str(base)), load_target(str(new(base, tmp_path)))
    assert made.name == "mine"
    same = dataclasses.replace(old, name="mine", path=made.path, description=made.description, provenance=())
    rows = tuple(dataclasses.replace(r, label="assumed", source=f"as {base.stem}") for r in old.instructions)
    memories = tuple(dataclasses.replace(m, label="assumed") for m in old.memories)
    assert dataclasses.replace(made, provenance=()) == dataclasses.replace(same, instructions=rows, memories=memories)


@pytest.mark.parametrize("base", BASES, ids=lambda p: p.stem)
def test_nothing_claims_to_be_known_of_the_new_machine(base: Path, tmp_path: Path) -> None:
    made = load_target(str(new(base, tmp_path)))
    labels = {label for _, label, _ in made.provenance} | {r.label for r in made.instructions}
    assert labels == {"assumed"}
    assert {source for _, _, source in made.provenance} <= {"", f"as {base.stem}"}


@pytest.mark.parametrize("base", BASES, ids=lambda p: p.stem)
def test_each_section_begins_with_what_its_keys_mean(base: Path, tmp_path: Path) -> None:
    text = new(base, tmp_path).read_text(encoding="utf-8")
    for key in ("", *(entry.name for entry in dataclasses.fields(tables.Isa))):
        block = "".join(f"{line}\n" for line in comments(key))
        assert not block or text.count(block) == 1, key
        header = re.search(rf"^\[{key}[.\]]", text, re.M)
        assert header is None or text.index(block) < header.start()


def test_one_started_from_another_has_no_comments_twice(tmp_path: Path) -> None:
    first = new(TESTS / "isa" / "few.toml", tmp_path, "first")
    second = new(first, tmp_path, "second")
    assert (
        second.read_text().replace("second", "first").replace("as first", "as few").splitlines()[1:]
        == (first.read_text().splitlines()[1:])
    )


@pytest.mark.parametrize(("base", "kernel", "size"), [("quad", "dot", 64), ("few", "saxpy", 64), ("broad", "dot", 64)])
def test_it_compiles_to_the_same_code(
    base: str, kernel: str, size: int, tmp_path: Path, examples: Path, dspgen: Run
) -> None:
    path = TESTS / "isa" / f"{base}.toml"
    texts = []
    for machine in (path, new(path, tmp_path)):
        source = (str(examples / f"{kernel}.c"), "-D", f"N={size}")
        assert dspgen("compile", *source, "--isa", str(machine), "-o", str(tmp_path))[0] == 0
        texts.append((tmp_path / f"{kernel}.s").read_text(encoding="utf-8"))
    assert texts[1].replace("mine", base) == texts[0]


def test_the_command(dspgen: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, _ = dspgen("isa", "new", "mine", "--from", "ft_m7002")
    assert status == 0 and out.startswith("mine.toml: mine, as ft_m7002 so far")
    assert dspgen("isa", "check", "mine.toml")[0] == 0
    status, _, err = dspgen("isa", "new", "mine", "--from", "ft_m7002")
    assert status == 2 and "error[DG519]: mine.toml is there already" in err and "--force" in err
    assert dspgen("isa", "new", "mine", "--from", "mine.toml", "--force")[0] == 0
    assert dspgen("isa", "new", "his", "--from", "mine.toml", "-o", "deep/it.toml")[0] == 0
    assert load_target("deep/it.toml").name == "his"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mine", "--from", "ft_m7"], "error[DG100]: no ISA file is named `ft_m7`"),
        (["mine", "--from", "nowhere.toml"], "error[DG100]"),
        (["../mine", "--from", "ft_m7002"], "error[DG518]: no machine can have the name `../mine`"),
        (["", "--from", "ft_m7002"], "error[DG518]"),
        (["ft_mt3000", "--from", "ft_m7002"], "error[DG518]: `ft_mt3000` comes with dspgen already"),
        (["mine"], "error[DG500]"),
        (["mine", "--from", "ft_m7002", "-o", "."], "error[DG519]"),
        (["mine", "--from", "ft_m7002", "-o", "/proc/mine.toml"], "error[DG504]"),
    ],
)
def test_what_it_refuses(
    arguments: list[str], says: str, dspgen: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = dspgen("isa", "new", *arguments)
    assert (status, out) == (2, "")
    assert says in err
