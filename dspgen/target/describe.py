"""A machine as plain data, for `dspgen isa show`: nothing but texts, numbers, lists and dicts with text keys."""

from __future__ import annotations

from dspgen.target.isa.model import Instruction, Operand, Packets, Target
from dspgen.target.isa.semantics import format_statements

Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]


def describe(target: Target) -> dict[str, Plain]:
    """Registers, units, memories and instructions, each with its label and source where the ISA file gives them."""
    origins = {key: (label, source) for key, label, source in target.provenance}

    def origin(key: str) -> dict[str, Plain]:
        label, source = origins.get(key, ("", ""))
        return {"label": label, "source": source}

    pipeline, packets = target.pipeline, target.packets
    dma: dict[str, Plain] | None = None
    if target.dma is not None:
        dma = {
            "startup": target.dma.startup,
            "bytes_per_cycle": target.dma.bytes_per_cycle,
            "transposed_bytes_per_cycle": target.dma.transposed_bytes_per_cycle if target.dma.transpose else None,
            "channels": target.dma.channels,
            "base": target.dma.base,
            "words": list(target.dma.words),
            **origin("dma"),
        }
    return {
        "name": target.name,
        "path": target.path,
        "description": target.description,
        "lanes": target.lanes,
        "packets": {**_packets(packets), **origin("packets")},
        "pipeline": {
            "exposed": pipeline.exposed,
            "equals": pipeline.equals,
            "branch_delay": pipeline.branch_delay,
            **origin("pipeline"),
        },
        "registers": [
            {
                "name": c.name,
                "kind": c.kind,
                "count": len(c.names),
                "names": _names(c.names),
                "bits": c.bits,
                "pair_of": c.pair_of,
                **origin(f"registers.{c.name}"),
            }
            for c in target.registers
        ],
        "units": [
            {k: getattr(u, k) for k in ("name", "count", "side", "slots", "suffix")} | origin(f"units.{u.name}")
            for u in target.units
        ],
        "memories": [
            {
                "name": m.name,
                "base": m.base,
                "size": m.size,
                "bytes_per_cycle": m.bytes_per_cycle,
                "sides": list(m.sides),
                "onchip": m.onchip,
                "purpose": m.purpose,
                **origin(f"memories.{m.name}"),
            }
            for m in target.memories
        ],
        "dma": dma,
        "instructions": [_instruction(i) for i in target.instructions],
        "macros": [{"implements": m.implements, "lines": list(m.body)} for m in target.macros],
        "rewrites": [
            {"name": r.name, "left": r.left, "right": r.right, "when": r.when, "why": r.why} for r in target.rewrites
        ],
    }


def _packets(packets: Packets) -> dict[str, Plain]:
    limits: list[Plain] = [{"name": x.name, "units": [*sorted(x.units)], "most": x.most} for x in packets.limits]
    return {"issue": packets.issue, "minimum_ii": packets.minimum_ii, "limits": limits}


def _names(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}" if names else ""


def _instruction(row: Instruction) -> dict[str, Plain]:
    return {
        "id": row.id,
        "mnemonic": row.mnemonic,
        "operands": ", ".join(f"{o.name}: {_operand(o)}" for o in row.operands),
        "units": list(row.units),
        "spare": list(row.spare),
        "latency": row.latency,
        "busy": row.busy,
        "semantics": format_statements(row.semantics),
        "compile": row.compile,
        "label": row.label,
        "source": row.source,
        "note": row.note,
    }


def _operand(operand: Operand) -> str:
    words = list(operand.classes)
    if operand.imm is not None:
        words.append(f"{operand.imm[0]}..{operand.imm[1]}")
    return "|".join(words) if words else operand.kind
