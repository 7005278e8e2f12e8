"""Tables in the documents, each after a mark of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def write_table(document: str, script: str, lines: Sequence[str]) -> None:
    """Put `lines` in the place of what stands between the script's mark in docs/`document` and the next heading."""
    path = DOCS / document
    mark = f"<!-- table: bench/{script}.py -->"
    text = path.read_text(encoding="utf-8")
    before, after = text.split(mark, 1)
    rest = after[after.index("\n## ") :] if "\n## " in after else ""
    path.write_text(before + "\n".join([mark, *lines]) + "\n" + rest, encoding="utf-8")
