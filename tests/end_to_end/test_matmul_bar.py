"""The bar that hand-written code sets: all multiply-add units work in every cycle of a matrix product's hot loop."""

from __future__ import annotations

from pathlib import Path

from dspgen.driver.pipeline import compile_file
from dspgen.options import Options
from dspgen.sched.ir.packets import LabelLine, Nop, Packet, Scheduled
from dspgen.target.isa.model import Target


def kernel_packets(scheduled: Scheduled, label: str, cycles: int) -> list[Packet]:
    start = next(n for n, line in enumerate(scheduled.lines) if isinstance(line, LabelLine) and line.name == label)
    packets: list[Packet] = []
    for line in scheduled.lines[start + 1 :]:
        if isinstance(line, Packet):
            packets.append(line)
        elif isinstance(line, Nop):
            packets += [Packet(())] * line.cycles
        if len(packets) >= cycles:
            break
    return packets[:cycles]


def test_all_multiply_add_units_are_busy_in_every_cycle(examples: Path, ft_m7002: Target) -> None:
    scheduled = compile_file(str(examples / "matmul.c"), ft_m7002, Options()).scheduled
    report = max((r for r in scheduled.loops if r.pipelined), key=lambda r: r.ii * r.unroll)
    units = next(u for u in ft_m7002.units if u.name == "VMAC").members
    packets = kernel_packets(scheduled, report.label, report.ii)
    assert len(packets) == report.ii
    for packet in packets:
        busy = {m.unit for m in packet.members}
        assert set(units) <= busy
