"""`dspgen` and `python -m dspgen`."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The command line. Its libraries take a second to load, in which an interrupt is no fault either."""
    try:
        from dspgen.cli.main import main as command_line
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
