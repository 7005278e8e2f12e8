"""Hardware loops for machines whose files have none: packets in brackets, control registers, and the rows."""

from __future__ import annotations

from typing import Any


def with_hardware_loops(raw: dict[str, Any], count: int, most: int, slots: int) -> None:
    """Gives an ISA file's tables `count` loops of up to `most` iterations by a number, begun on `slots` slots."""
    with_texts(raw)
    raw["text"] |= {"packet_open": "<", "packet_close": ">"}
    scalar = raw["abi"]["scalar_class"]
    raw["registers"]["HWC"] = {
        "kind": "control",
        "names": [f"hw{k}{x}" for k in range(count) for x in "sc"],
        "bits": 64,
    }
    raw["units"]["HWB"] = {"count": 1, "side": "scalar", "slots": slots}
    raw["units"]["HWE"] = {"count": 1, "side": "scalar"}
    for k in range(count):
        common = {"predicate": "none", "label": "assumed", "source": "made up"}
        for name, times in (("", scalar), ("_I", {"imm": [0, most]})):
            raw["instructions"][f"HWLOOP{k}{name}"] = {
                "units": "HWB",
                "operands": {"t": "target", "n": times},
                "mnemonic": f"HWLOOP{k}",
                "text": f"HWLOOP{k} {{t}}, {{n}}",
                "semantics": f"hw{k}c = n; hw{k}s = addr(t)",
                **common,
            }
        raw["instructions"][f"HWEND{k}"] = {
            "units": "HWE",
            "text": f":hwend{k}",
            "packet_end": True,
            "semantics": f"repeat(hw{k}s, hw{k}c)",
            **common,
        }


def with_texts(raw: dict[str, Any]) -> None:
    """Gives each row of an ISA file's tables a text of its own. Offsets in registers have no place in these, nor have
    units, so that the assembler couldn't tell which one is held for long."""
    raw["text"] |= {"address": "{base}[{offset}]", "address_update": "{base}++[{offset}]"}
    for side in ("scalar", "vector"):
        raw["address_modes"][side].pop("offset", None)
    for name, row in raw["instructions"].items():
        text = f"{row.get('mnemonic', name)} " + ", ".join("{" + operand + "}" for operand in row["operands"])
        row["text"] = text
        row.pop("busy", None)
        row["text_if"], row["text_unless"] = f"if {{predicate}} {text}", f"unless {{predicate}} {text}"
