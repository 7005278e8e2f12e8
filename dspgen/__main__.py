"""`python -m dspgen` is `dspgen`."""

from dspgen.cli import main

if __name__ == "__main__":
    main()
