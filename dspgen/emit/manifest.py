"""The manifest: what a build system or a test bench must know about an emitted kernel, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dspgen.emit.header import Signature
from dspgen.sched.ir.packets import LoopReport, Scheduled
from dspgen.target.isa.model import Target
from dspgen.target.query.arguments import (
    Member,
    Place,
    by_structure,
    structure_alignment,
    structure_bytes,
    structure_register,
)


def manifest(
    scheduled: Scheduled, target: Target, signature: Signature, conditions: Sequence[str] = ()
) -> dict[str, object]:
    """Plain values: parameters and their registers, what the caller must see to, cycles, loops, registers."""
    places = signature.places(target)
    return {
        "kernel": signature.name,
        "source": signature.source,
        "isa": target.name,
        "parameters": [
            {
                "name": p.name,
                "type": p.elem,
                "shape": list(p.shape) if p.shape is not None else None,
                "const": p.const,
                "register": place if isinstance(place, str) else None,
                **({"stack_offset": place} if isinstance(place, int) else {}),
                **({"structure_offset": place.offset} if isinstance(place, Member) else {}),
            }
            for p, place in zip(signature.parameters, places, strict=True)
        ],
        **({"structure": _structure(signature, places, target)} if by_structure(places) else {}),
        "needs": list(conditions),
        "cycles_estimate": scheduled.cycles,
        "loops": [loop_object(report) for report in scheduled.loops],
        "registers_used": list(scheduled.registers_used),
    }


def _structure(signature: Signature, places: Sequence[Place], target: Target) -> dict[str, object]:
    """The structure that holds all arguments, whose address is in a register."""
    return {
        "name": signature.structure,
        "bytes": structure_bytes(places),
        "align": structure_alignment(places),
        "register": structure_register(target),
    }


def emit_manifest(scheduled: Scheduled, target: Target, signature: Signature, conditions: Sequence[str] = ()) -> str:
    return json.dumps(manifest(scheduled, target, signature, conditions), indent=2) + "\n"


def loop_object(report: LoopReport) -> dict[str, object]:
    """One loop as the manifest and `--json` show it."""
    return {
        "line": report.loc.line if report.loc is not None else None,
        "label": report.label,
        "pipelined": report.pipelined,
        "ii": report.ii,
        "res_mii": report.res_mii,
        "rec_mii": report.rec_mii,
        "arithmetic_mii": report.arithmetic_mii,
        "source_mii": report.source_mii,
        "least_ii": report.bound if report.pipelined else None,
        "proven_optimal": report.optimal,
        "stages": report.stages,
        "unroll": report.unroll,
        "trip": report.trip,
    }
