"""Scheduled code without its text is what the text says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file
from dspgen.options import Options
from dspgen.sim.ir.program import Assembled
from dspgen.sim.lowering.from_packets import packets_of
from dspgen.sim.text.parse import assemble
from dspgen.target.load import load_target

PROGRAM = """
void scaled(int n, const int x[64], const float f[64], int y[64], float g[64]) {
  for (int i = 0; i < n; i++) y[i] = (x[i] > 70000 ? x[i] * 123457 : -x[i]) + i;
  for (int i = 0; i < n; i++) g[i] = 3.25f * f[i];
}
"""


def told(code: Assembled) -> list[object]:
    """Each packet's instructions, in whatever order, and where the labels are in cycles of idle packets."""
    starts, at = [], 0
    for packet in code.packets:
        starts.append(at)
        at += max(packet.idle, 1)
    members = [
        (start, sorted(repr((m.instruction.id, m.operands, m.predicate, m.negated)) for m in packet.members))
        for start, packet in zip(starts, code.packets, strict=True)
        if packet.members
    ]
    return [members, {name: (starts[k] if k < len(starts) else at) for name, k in code.labels.items()}]


@pytest.mark.parametrize("isa", ["ft_m7002", "ft_mt3000", "ft_lite", "hexagon_v66"])
def test_packets_are_what_their_text_says(isa: str, tmp_path: Path) -> None:
    file = tmp_path / "scaled.c"
    file.write_text(PROGRAM, encoding="utf-8")
    target = load_target(isa)
    compiled = compile_file(str(file), target, Options(rewrite="off", tile="one", vectorize=isa != "hexagon_v66"))
    assert told(packets_of(compiled.scheduled, target)) == told(assemble(compiled.asm, target))
