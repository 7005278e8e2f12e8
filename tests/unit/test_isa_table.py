"""The 113 instructions of FT-M7002's public programs, form by form: on which units each form is accepted, the cycle its
result lands in, and that a false predicate keeps it away. What each computes is in test_sim_rows.py, the rest here.

The table is written from the machine's reference, not from the ISA file.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from dspgen.errors import DspgenError
from dspgen.sim.run import simulate
from dspgen.sim.text.parse import assemble
from dspgen.target.load import load_target

TARGET = load_target("ft_m7002")
MACS, ANY, VMACS, ONE = (".M1", ".M2"), (".M1", ".M2", ""), (".M1", ".M2", ".M3", ""), ("",)
L, VANY = ("", ".L"), (".M1", ".M2", ".M3", "")

# Operands: R P V Q take the next source register or pair, r p v q are the result's; other words stand for themselves.
THREE, EITHER = ("R,R,r",), ("R,R,r", "3,R,r")
TABLE: list[tuple[str, tuple[str, ...], int, tuple[str, ...]]] = [
    ("SADD", ANY, 1, ("R,R,r", "-32,R,r", "31,R,r")),
    ("SADD", (".LS",), 2, ("AR8,32,AR9", "AR8,124,AR9", "OR8,32,OR9", "AR0,32,AR1")),
    ("SADDU", ANY, 1, ("R,R,r", "1,R,r", "60,R,r")),
    ("SSUB SSUBU", ANY, 1, EITHER),
    ("SNEG", ONE, 1, ("R,r",)),
    ("SMOV", ANY, 1, ("R,r",)),
    ("SMULIS SMULIU SMULISU", (*MACS, ""), 3, EITHER),
    ("SMULU SMULS", (*MACS, ""), 4, ("R,R,p",)),
    ("SSHFLL SSHFLR SSHFAR", ONE, 1, ("R,R,r", "1,R,r", "31,R,r")),
    ("SSHFAR16", ONE, 1, THREE),
    ("SAND SOR SXOR", ONE, 1, ("R,R,r", "1,R,r", "15,R,r")),
    ("SNOT", ONE, 1, ("R,r",)),
    ("SLT SLTU", ONE, 1, ("R,R,r", "0,R,r", "23,R,r")),
    ("SEQ", ONE, 1, ("R,R,r", "0,R,r", "16,R,r")),
    ("SMAX SMIN", ONE, 1, THREE),
    ("SMOVIL", L, 1, ("-6568,r", "32767,r", "0x40160000,r", "here,r")),
    ("SMOVIH", L, 1, ("16,r", "0x4016,r", "0x40160000,r", "here,r")),
    ("SMOVI0L", ONE, 1, ("0,r",)),
    ("SMOVIH4", L, 1, ("here,r",)),
    ("SMVAGA36", (*MACS, ""), 2, ("P,AR9", "P,OR9", "P,AR1", "P,OR1", "R,AR9")),
    ("SMVAGA32", (*MACS, ""), 2, ("R,AR9", "R,OR1")),
    ("SADDA", (*MACS, ""), 2, ("-16,AR8,AR9", "28,AR0,OR9", "R,AR8,AR9", "P,OR8,AR9")),
    ("SADDA", (*MACS, ""), 3, ("-16,AR8,AR1", "28,AR8,OR1", "R,AR0,AR1", "P,AR0,AR1")),
    ("SSUBA", (".M1", ".M2", ".L"), 3, ("8,AR8,AR1", "8,OR8,OR1", "P,AR0,AR1")),
    ("SMVAAA", (*MACS, ""), 2, ("AR8,AR9", "OR14,AR1", "AR0,OR9")),
    ("SMVAAGL SMVAAGH", (*MACS, ""), 2, ("OR8,p", "AR8,p")),
    ("SLDW SLDH", ONE, 6, ("*AR8,r", "*+AR8[3],r", "*-AR14[1],r", "*AR14++[2],r", "*AR14--[1],r", "*++AR14[1],r",
                           "*--AR14[1],r", "*AR14++,r", "*AR14--,r", "*+AR8[OR14],r", "*AR14++[OR14],r")),
    ("SLDDW", ONE, 6, ("*AR8,p", "*+AR8[1],p", "*AR8++[1],p")),
    ("SFADDS32 SFSUBS32", (*MACS, ""), 3, THREE),
    ("SFMULS32", (*MACS, ""), 4, THREE),
    ("SFMULAS32", (*MACS, ""), 6, ("R,R,R,r",)),
    ("SFRCPS32 SFRSQS32", (*MACS, ""), 1, ("R,r",)),
    ("SFCMPGS32 SFCMPLS32 SFCMPES32", (*MACS, ""), 1, THREE),
    ("SFADDD SFSUBD", (*MACS, ""), 5, ("P,P,p",)),
    ("SFMULD", (*MACS, ""), 6, ("P,P,p",)),
    ("SFABSD SFRCPD", (*MACS, ""), 2, ("P,p",)),
    ("SFCMPGD SFCMPLD SFCMPED", (*MACS, ""), 2, ("P,P,r",)),
    ("SFSPDP32T", (*MACS, ""), 2, ("R,p",)),
    ("SFDPSP32", (*MACS, ""), 3, ("P,r",)),
    ("SFINTS32 SFINTSU32", (*MACS, ""), 3, ("R,r",)),
    ("SFINTD", (*MACS, ""), 4, ("R,p",)),
    ("SVBCAST", (*MACS, ""), 4, ("R,v",)),
    ("SVBCAST2", (*MACS, ""), 4, ("P,q",)),
    ("VMVCGC", L, 3, ("V,SVR",)),
    ("VMVCCG", L, 2, ("SVR,v",)),
    ("SMVCCG", L, 2, ("SVR0,r", "SVR15,r", "SCR,r")),
    ("SMVCGC", L, 3, ("R,SVR3",)),
    ("VLDW VLDH", ONE, 8, ("*AR0,v", "*+AR0[3],v", "*-AR6[1],v", "*AR6++[2],v", "*AR6--[1],v", "*++AR6[1],v",
                           "*--AR6[1],v", "*AR6++,v", "*AR6--,v", "*+AR0[OR6],v", "*AR6++[OR6],v")),
    ("VLDDW VLDDWM2 VLDDW0M4", ONE, 8, ("*AR0,q", "*+AR0[1],q", "*AR0++[OR6],q", "*AR0++,q")),
    ("VLDDW1M4", ONE, 8, ("*+AR0[16],q",)),
    ("VADD VSUB", VMACS, 1, ("V,V,v", "0,V,v")),
    ("VNEG", VMACS, 1, ("V,v",)),
    ("VMULIS", VMACS, 3, ("V,V,v",)),
    ("VMULAS16T", VMACS, 3, ("V,V,V,v", "1,V,V,v", "V,V,v,v")),
    ("VMULS16", VMACS, 3, ("V,V,q",)),
    ("VCMUL16T", VMACS, 5, ("V,V,q",)),
    ("VFADDS32 VFSUBS32", (".M1", ""), 3, ("V,V,v",)),
    ("VFMULS32", VMACS, 4, ("V,V,v",)),
    ("VFMULAS32 VFMULBS32", VMACS, 6, ("V,V,V,v", "V,V,v,v")),
    ("VFCREAL32 VFCIMAG32", VMACS, 7, ("Q,Q,v",)),
    ("VFMULD", VMACS, 6, ("VR10,VR12,VR20",)),
    ("VFMULAD VFMULBD", VMACS, 6, ("VR10,VR12,VR14,VR20",)),
    ("VFRCPS32", (".M1", ""), 3, ("V,v",)),
    ("VMOV", VANY, 1, ("V,v",)),
    ("VMOVIL VMOVIH", ONE, 1, ("528,v", "0x40160000,v", "0x4016,v")),
    ("VSHFAR VSHFLL", ONE, 1, ("V,V,v", "3,V,v", "16,V,v")),
    ("VBEXT VBEX VBALE2 VSBALE2", ONE, 1, ("V,V,v",)),
    ("VSHUFH VSHUFW", ONE, 3, ("V,V,v",)),
    ("VREDUC16", ONE, 7, ("V,0,0,v", "V,0,15,v")),
]  # fmt: skip
ROWS = [(name, *row) for names, *row in TABLE for name in names.split()]
STORES = {
    "SSTW": "R,", "SSTH": "R,", "SSTDW": "P,", "VSTW": "V,", "VSTH": "V,", "VSTDW": "Q,", "VSTDWM16": "Q,",
    "VSTDW0M16": "Q,", "VSTDW1M16": "Q,",
}  # fmt: skip
OTHERS = {"SBR", "SNOP"}  # below

RNG = np.random.default_rng(3)
WORDS = RNG.integers(0x3F000000, 0x40400000, 512).astype(np.uint32)  # floats and doubles near one, as words
SETTLE = "\tSNOP 7\n\tSNOP 5\n"
SETUP = "\tSMVAGA36.M1 R11:R10,AR8\n|\tSMVAGA36.M2 R11:R10,AR0\n\tSNOP 3\n\tSADDA.M1 16,AR8,AR14\n"
SETUP += "|\tSADDA.M2 16,AR0,AR6\n"
for _k in range(6):
    SETUP += f"\tSLDW *+AR8[{2 * _k}],R{20 + _k}\n|\tVLDW *+AR0[{16 * _k}],VR{10 + _k}\n"
for _k in range(2):
    SETUP += f"\tSLDW *+AR8[{20 + _k}],R{30 + _k}\n|\tVLDW *+AR0[{140 + _k}],VR{20 + _k}\n"
SETUP += "\tSMOVIL 1234,R50\n\tSMOVIL 5,R51\n\tSMVAGA32.M1 R50,OR8\n|\tSMVAGA32.M2 R51,OR14\n\tSMVAGA32 R51,OR6\n"
SETUP += "".join(f"\tSMVAGA32.M1 R50,{a}9\n|\tSMVAGA32.M2 R50,{a}1\n" for a in ("AR", "OR"))
SETUP += SETTLE + "\tVMVCGC VR12,SVR\n\tSMOVIL 0,R0\n|\tVMOVIL 0,VR0\n" + SETTLE
REGISTERS = {"R": ["R20", "R22", "R24"], "P": ["R21:R20", "R23:R22"], "V": ["VR10", "VR11", "VR12"]}
REGISTERS["Q"] = ["VR11:VR10", "VR13:VR12"]
RESULTS = {"r": "R30", "p": "R31:R30", "v": "VR20", "q": "VR21:VR20"}
WIDE = {"v", "q"}


def operands(form: str) -> str:
    """The form's text with registers in the places of its letters."""
    given = {kind: iter(names) for kind, names in REGISTERS.items()}
    words = [next(given[w]) if w in given else RESULTS.get(w, w) for w in form.split(",")]
    return ",".join(words)


def readers(result: str) -> list[tuple[str, str]]:
    """Instructions that copy the result, and where to; AR2 and up, R40 and up and VR40 and up are free."""
    if result == "SVR":
        return [("VMVCCG SVR,{}", "VR")]
    if result.startswith("SVR"):
        return [(f"SMVCCG {result},{{}}", "R")]
    if result[:2] in ("AR", "OR"):
        return [(f"SMVAAA {result},{{}}", "OR")]
    move, cls = ("VMOV", "VR") if result.startswith("VR") else ("SMOV", "R")
    names = result.split(":")[::-1]
    return [(f"{move}.M{k} {name},{{}}", cls) for k, name in enumerate(names, 1)]


FREE = {"VR": ["VR40", "VR41", "VR42", "VR43"], "R": ["R40", "R41", "R42", "R43"], "OR": ["OR2", "OR3"]}


def observed(line: str, latency: int, predicate: str = "") -> tuple[list[list[int]], list[list[int]]]:
    """What readers get one cycle before the result should land, and as it does."""
    result = line.rsplit(",", 1)[1]
    copies = readers(result)
    text = f".global f\nf:\n{SETUP}{predicate}\t{line}\n"
    text += f"\tSNOP {latency - 2}\n" if latency > 2 else ""
    packets = [] if latency == 1 else [0]
    for turn in (*packets, 1):
        free = [FREE[cls][turn * len(copies) + k] for k, (_, cls) in enumerate(copies)]
        text += "|".join(f"\t{how.format(name)}\n" for (how, _), name in zip(copies, free, strict=True))
    text += f"{SETTLE}here:\tSBR R62\n\tSNOP 6\n"
    got = simulate(text, TARGET, arguments=[("x", WORDS)], strict=False, engine="python", file="f.s").registers

    def values(turn: int) -> list[list[int]]:
        return [got[FREE[cls][turn * len(copies) + k]].tolist() for k, (_, cls) in enumerate(copies)]

    return (values(0) if packets else []), values(1)


def before(result: str) -> list[list[int]]:
    """The result's registers as the set-up leaves them."""
    if result.startswith("SVR"):
        vector = WORDS[32:48].tolist()
        return [vector] if result == "SVR" else [[vector[int(result[3:])]]]
    if result[:2] in ("AR", "OR"):
        return [[1234]]
    names = result.split(":")[::-1]
    numbers = [int(re.sub(r"\D", "", n)) for n in names]
    if result.startswith("VR"):
        return [WORDS[140 + n - 20 : 156 + n - 20].tolist() for n in numbers]
    return [[int(WORDS[20 + n - 30])] for n in numbers]


def test_the_table_has_every_mnemonic() -> None:
    named = {name for name, *_ in ROWS} | set(STORES) | OTHERS
    assert len(named) == 113
    assert {i.mnemonic for i in TARGET.instructions} | {"SNOP"} == named


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[f"{n}{k}" for k, (n, *_) in enumerate(ROWS)])
def test_results_land_in_their_cycle(row: int) -> None:
    name, _, latency, forms = ROWS[row]
    changed = 0
    for form in forms:
        line = f"{name} {operands(form)}"
        result = line.rsplit(",", 1)[1]
        early, landed = observed(line, latency)
        old = before(result)
        assert early == (old if latency > 1 else []), line
        changed += landed != old
        if form not in ("16,r", "528,v"):  # a decimal below 65536 has a high half of 0, and so may the old value
            assert landed != old or name in ("SMOVIH4",), line
    assert changed or name == "SMOVIH4"


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[f"{n}{k}" for k, (n, *_) in enumerate(ROWS)])
def test_units_and_predicates(row: int) -> None:
    name, suffixes, latency, forms = ROWS[row]
    lane = name.startswith("V")
    for form in forms[:1]:
        text = operands(form)
        for suffix in suffixes:
            assemble(f"here:\t{name}{suffix} {text}\n", TARGET)
        for wrong in {".M1", ".M2", ".M3"} - set(suffixes):
            with pytest.raises(DspgenError):
                assemble(f"here:\t{name}{wrong} {text}\n", TARGET)
        with pytest.raises(DspgenError):
            assemble(f"here:\t[{'R0' if lane else 'VR0'}] {name} {text}\n", TARGET)
        result = text.rsplit(",", 1)[1]
        line = f"{name}{suffixes[0]} {text}"
        assert observed(line, latency, "[VR0]" if lane else "[R0]")[1] == before(result)
        assert observed(line, latency, "[!VR0]" if lane else "[!R0]")[1] != before(result) or name == "SMOVIH4"


@pytest.mark.parametrize("name", STORES)
def test_stores_are_seen_by_the_next_packet_and_keep_away_under_a_false_predicate(name: str) -> None:
    lane, joint = name.startswith("V"), name == "VSTDW1M16"
    base, back = ("AR6", "VR40") if lane else ("AR14", "R40")
    first = 4 + 2 * joint  # the word of the array that the store writes first; the register holds the fourth's address
    size = {"W": 4, "H": 2, "D": 8}[name[3]]
    store = f"{name} {operands(STORES[name].rstrip(','))}"

    def run(mode: str, predicate: str = "") -> tuple[int, list[int], np.ndarray]:
        text = (
            f".global f\nf:\n{SETUP}\tSMVAAA {base},AR2\n\tSMVAAA {base},AR10\n\tSNOP 3\n{predicate}\t{store},{mode}\n"
        )
        text += (
            f"\t{'VLDW *AR2' if lane else 'SLDW *AR10'},{back}\n\tSMVAAA.M2 {base},OR2\n{SETTLE}\tSBR R62\n\tSNOP 6\n"
        )
        arguments = [("x", WORDS.copy())]
        result = simulate(text, TARGET, arguments=arguments, strict=False, engine="python", file="f.s")
        moved = int(result.registers["OR2"][0]) - int(result.registers["R10"][0]) - 16
        return moved, result.registers[back].tolist(), result.outputs["x"]

    plain = f"*+{base}[16]" if joint else f"*{base}"
    moved, seen, stored = run(plain)
    changed = np.flatnonzero(stored != WORDS)
    assert moved == 0 and changed[0] == first
    assert seen == stored[4 : 4 + len(seen)].tolist()
    assert run(plain, "[VR0]" if lane else "[R0]")[2].tobytes() == WORDS.tobytes()
    assert run(plain, "[!VR0]" if lane else "[!R0]")[2].tobytes() == stored.tobytes()
    if joint:
        return
    for mode, step, shift in (
        (f"*+{base}[2]", 0, 2),
        (f"*-{base}[1]", 0, -1),
        (f"*{base}++[2]", 2, 0),
        (f"*{base}--[1]", -1, 0),
        (f"*{base}++", 1, 0),
        (f"*++{base}[2]", 2, 2),
        (f"*--{base}[1]", -1, -1),
        (f"*{base}++[OR{'6' if lane else '14'}]", 5, 0),
    ):
        moved, _, shifted = run(mode)
        assert moved == step * size, mode
        if shift * size % 4 == 0 or not lane:  # vector addresses are multiples of a word
            halves = np.flatnonzero(stored.view(np.uint16) != WORDS.view(np.uint16))
            wanted = stored.view(np.uint16)[halves].tolist()
            assert shifted.view(np.uint16)[halves + shift * size // 2].tolist() == wanted, mode


I32, F32, F64 = np.int32, np.float32, np.float64
LANES = WORDS[:96].reshape(6, 16)


def test_what_the_rarest_compute() -> None:
    """The rows that test_sim_rows.py lacks, against NumPy."""
    scalar = WORDS[:12:2]
    a, b = scalar[0], scalar[2]
    early, late = observed("SMOVIH4 here,R30", 1)
    assert late == [[0]]  # the program lies below 2^32
    low = np.int16(int(b) & 0xFFFF) >> min(3, 15)
    words = (int(b.view(I32)) >> 3 & 0xFFFF0000) | (int(low) & 0xFFFF)
    assert observed("SSHFAR16 3,R22,R30", 1)[1] == [[words]]
    (half,) = observed("SFRCPD R21:R20,R31:R30", 2)[1:]
    got = np.array([half[0][0] | half[1][0] << 32], np.uint64).view(F64)[0]
    assert got == pytest.approx(1 / np.array([scalar[0], scalar[1]], np.uint32).view(F64)[0], rel=2**-8)
    seeds = np.array(observed("VFRCPS32 VR10,VR20", 3)[1][0], np.uint32).view(F32)
    assert np.allclose(seeds, 1 / LANES[0].view(F32), rtol=2**-8)
    low16, high16 = LANES.astype(np.uint16).view(np.int16).astype(np.int64), LANES.view(I32).astype(np.int64) >> 16
    products = observed("VMULS16 VR10,VR11,VR21:VR20", 3)[1]
    assert products[0] == (low16[0] * low16[1] & 0xFFFFFFFF).tolist()
    assert products[1] == (high16[0] * high16[1] & 0xFFFFFFFF).tolist()
    assert a != b


@pytest.mark.parametrize("cycles", range(1, 8))
def test_a_no_operation_takes_its_cycles(cycles: int) -> None:
    def run(line: str) -> int:
        text = f".global f\nf:{line}\tSBR R62\n\tSNOP 6\n"
        return simulate(text, TARGET, strict=False, engine="python", file="f.s").cycles

    assert run(f"\tSNOP {cycles}\n") == run("") + cycles


def test_a_branch_has_six_delay_slots() -> None:
    text = ".global f\nf:\tSBR there\n" + "".join(f"\tSMOVIL {k},R{20 + k}\n" for k in range(1, 9))
    text += "there:\tSBR R62\n\tSNOP 6\n"
    got = simulate(text, TARGET, strict=False, engine="python", file="f.s")
    assert [int(got.registers[f"R{20 + k}"][0]) for k in range(1, 9)] == [1, 2, 3, 4, 5, 6, 0, 0]
    assert got.cycles == 7 + 7
