"""The examples at sizes that run in a moment; odd ones, so that remainders are tried too."""

from __future__ import annotations

SMALL: dict[str, dict[str, str]] = {
    "autocor": {"N": "21"},
    "autocor_history": {"N": "19"},
    "biquad": {"N": "24"},
    "conv2d_full": {"H": "9", "W": "11", "F": "3"},
    "conv2d_valid": {"H": "10", "W": "21", "F": "3"},
    "dot": {"N": "100"},
    "fft256": {},
    "fir": {"N": "37", "T": "7"},
    "fir16": {"N": "50", "T": "6"},
    "matmul": {"N": "18"},
    "matvec": {"N": "20"},
    "saxpy": {"N": "67"},
    "stencil3": {"N": "40"},
}


def defines(name: str) -> tuple[tuple[str, str], ...]:
    return tuple(SMALL[name].items())
