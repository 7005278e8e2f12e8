"""Whose fault it is: a fault of our own becomes a short message, a reproducer file and exit status 3."""

from __future__ import annotations

import hashlib
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import TracebackType

from dspgen.errors import DspgenError
from plant_core.support.location import PlantError

STATUS = 3
_OF_THE_COMPUTER = frozenset({"DG002", "DG610", "DG611", "DG612"})
_LARGEST_COPY = 1_000_000


class FaultReport:
    """Runs a block; an exception that leaves it is reported, written to a file, and turned into `STATUS`.

    `files` are the user's inputs; their text goes into the reproducer. Interrupts and `SystemExit` pass through. An
    extension module's panic is not an `Exception`, so everything else is taken.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = tuple(arguments)
        self.files = [Path(a) for a in arguments if not a.startswith("-")]
        self.status = 0

    def __enter__(self) -> FaultReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
            return False
        self.status = STATUS
        place = _innermost(trace)
        text = self._text("".join(traceback.format_exception(kind, error, trace)))
        written = _write(text)
        print(f"internal fault: {type(error).__name__}: {error} ({place})", file=sys.stderr)
        print("This is a defect of dspgen, not of your program.", file=sys.stderr)
        if written is not None:
            print(f"help: a report that reproduces it is in {written}", file=sys.stderr)
        else:
            print("help: no report could be written, neither here nor in the temporary folder", file=sys.stderr)
        return True

    def _text(self, trace: str) -> str:
        parts = [
            f"command: dspgen {' '.join(self.arguments)}",
            f"dspgen {version()}, Python {platform.python_version()}, {platform.platform()}",
            trace,
        ]
        for path in self.files:
            if (content := _content(path)) is not None:
                parts.append(f"---- {path}\n{content}")
        return "\n".join(parts)


def message_of(error: DspgenError | PlantError) -> str:
    """What the user did wrong, in one line and without the place."""
    return error.message if isinstance(error, PlantError) else error.problems[0].message


def is_of_the_computer(error: DspgenError | PlantError) -> bool:
    """Whether it is this computer that lacks something, so that every other kernel would meet the same."""
    codes = [error.code] if isinstance(error, PlantError) else [p.code for p in error.problems]
    return any(code in _OF_THE_COMPUTER for code in codes)


def version() -> str:
    try:
        return metadata.version("dspgen")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _innermost(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)
    return f"{'/'.join(Path(frames[-1].filename).parts[-3:])}:{frames[-1].lineno}" if frames else "no place"


def _content(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_COPY:
            return None
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return f"(binary, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()})"
    except (OSError, ValueError):
        return None


def _write(text: str) -> Path | None:
    name = f"dspgen-fault-{hashlib.sha256(text.encode()).hexdigest()[:12]}.txt"
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            path = folder / name
            path.write_text(text, encoding="utf-8")
        except OSError:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            continue
        return path
    return None
