"""The reference of an ISA file's keys says what the classes say, of every key, and docs/isa.md has it as it is now."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from dspgen.target import reference
from dspgen.target.schema.structure import tables


def test_every_table_and_every_key_is_described() -> None:
    for table in reference.tables():
        assert table.about.endswith("."), table.paths
        for key in table.keys:
            assert key.meaning.endswith("."), (table.paths, key.name)
            assert key.kind, (table.paths, key.name)


def test_nothing_is_described_that_there_is_not() -> None:
    for cls in tables():
        about, meanings = reference._documented(cls)
        assert about and set(meanings) == {entry.name for entry in dataclasses.fields(cls)}, cls


def test_every_table_of_the_schema_has_a_place() -> None:
    paths = {path for table in reference.tables() for path in table.paths}
    assert len(reference.tables()) == len(tables())
    assert {"", "units.NAME", "packets.limits.NAME", "instructions.NAME.operands.NAME"} <= paths


def test_the_document_has_the_reference_as_it_is(root: Path) -> None:
    document = (root / "docs" / "isa.md").read_text(encoding="utf-8")
    assert document == reference.written(document), "stale: run `make docs`"


def test_comments_name_all_keys_of_a_section() -> None:
    text = "\n".join(reference.comments("packets"))
    assert text.startswith("# [packets]: What is issued in one cycle.")
    assert "#   issue [instructions]: " in text and "# [packets.limits.NAME]: " in text
