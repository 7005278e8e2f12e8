"""Hardware loops, early sources and new operands for machines whose files have none."""

from __future__ import annotations

import copy
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
        text = f"{row.get('mnemonic', name)} " + ", ".join("{" + operand + "}" for operand in row.get("operands", ()))
        row["text"] = text
        row.pop("busy", None)
        row["text_if"], row["text_unless"] = f"if {{predicate}} {text}", f"unless {{predicate}} {text}"


def with_early_source(raw: dict[str, Any], row: str, name: str, cycles: int) -> None:
    """Has an instruction want an operand that it only reads `cycles` early."""
    found = raw["instructions"].get(row, {})
    if "operands" not in found:
        return
    operand, written = found["operands"][name], [s.split("=")[0].strip() for s in found["semantics"].split(";")]
    if isinstance(operand, str) and operand not in ("memory", "target"):
        operand = {"reg": operand}
    if isinstance(operand, dict) and "reg" in operand and not any(w.split(".")[0] == name for w in written):
        found["operands"][name] = operand | {"read_cycle": -cycles}


def with_new_stores(raw: dict[str, Any]) -> None:
    """Gives each store of one register a twin."""
    if "mask_register" in raw:
        return
    for name, row in list(raw["instructions"].items()):
        sources = [o for o, kind in row.get("operands", {}).items() if kind != "memory"]
        if not row["semantics"].startswith(("st.", "vst.")) or ";" in row["semantics"] or len(sources) != 1:
            continue
        kind = row["operands"][sources[0]]
        operand = {"reg": kind} if isinstance(kind, str) else dict(kind)
        if operand.get("read_cycle", 0) == 0:
            twin = copy.deepcopy(row) | {"mnemonic": f"{row.get('mnemonic', name)}NEW"}
            twin["operands"][sources[0]] = operand | {"new": True}
            raw["instructions"][f"{name}NEW"] = twin
