"""Every row of ft_m7002's table: what it computes, and the first cycle in which a reader sees it."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.sim.run import simulate
from dspgen.target.load import load_target

I32, F32, F64 = np.int32, np.float32, np.float64
A, B, C = -1234567, 100, 77
FA, FB, FC = F32(1.375), F32(-2.625), F32(10.1)
DA, DB = F64(1.1), F64(-3.7)
SETTLE = "\tSNOP 7\n\tSNOP 5\n"
TARGET = load_target("ft_m7002")


def word(value: object) -> int:
    """A number as the 32 bits of a register."""
    if isinstance(value, np.floating):
        return int(F32(value).view(np.uint32))
    return int(value) & 0xFFFFFFFF  # type: ignore[call-overload]


def double(value: float) -> int:
    return int(F64(value).view(np.uint64))


def after(setup: str, line: str, cycles: int, read: str, words: np.ndarray) -> dict[str, np.ndarray]:
    """The registers after a run that issues `read` just `cycles` after `line`; AR8 and AR0 hold the array's address."""
    wait = f"\tSNOP {cycles - 1}\n" if cycles > 1 else ""
    text = ".global f\nf:\tSMVAGA36 R11:R10,AR8\n|\tSMVAGA36.M2 R11:R10,AR0\n\tSNOP 3\n"
    text += "".join(f"\t{s}\n{SETTLE}" for s in setup.split(";") if s.strip())
    text += f"\t{line}\n{wait}\t{read}\n{SETTLE}\tSBR R62\n\tSNOP 6\n"
    result = simulate(text, TARGET, arguments=[("x", words)], strict=False, engine="python", file="f.s")
    return result.registers | {"x": result.outputs["x"]}


# Scalar rows read R20 R22 R24 (A, B, C or the floats FA, FB, FC) and write R30; R30 holds 5 before.
INT = [
    ("SADD R20,R22,R30", 1, A + B),
    ("SADD -32,R22,R30", 1, B - 32),
    ("SADDU 60,R22,R30", 1, B + 60),
    ("SSUB R20,R22,R30", 1, B - A),
    ("SSUB 1,R22,R30", 1, B - 1),
    ("SSUBU R22,R20,R30", 1, A - B),
    ("SNEG R20,R30", 1, -A),
    ("SMOV R20,R30", 1, A),
    ("SMULIS R20,R22,R30", 3, A * B),
    ("SMULIS -5,R20,R30", 3, -5 * A),
    ("SMULIU R20,R20,R30", 3, A * A),
    ("SMULISU R20,R22,R30", 3, A * B),
    ("SSHFLL 4,R20,R30", 1, A << 4),
    ("SSHFLL R24,R22,R30", 1, 0),
    ("SSHFLR 4,R20,R30", 1, (A & 0xFFFFFFFF) >> 4),
    ("SSHFAR 4,R20,R30", 1, A >> 4),
    ("SAND 15,R20,R30", 1, A & 15),
    ("SAND R22,R20,R30", 1, A & B),
    ("SOR R22,R20,R30", 1, A | B),
    ("SXOR R22,R20,R30", 1, A ^ B),
    ("SNOT R20,R30", 1, ~A),
    ("SLT R20,R22,R30", 1, 1),
    ("SLT R22,R20,R30", 1, 0),
    ("SLT 23,R22,R30", 1, 1),
    ("SLTU R20,R22,R30", 1, 0),
    ("SLTU 0,R20,R30", 1, 1),
    ("SEQ R20,R20,R30", 1, 1),
    ("SEQ 16,R20,R30", 1, 0),
    ("SMAX R20,R22,R30", 1, B),
    ("SMIN R20,R22,R30", 1, A),
    ("SMOVIL -6568,R30", 1, -6568),
    ("SMOVIL 65535,R30", 1, -1),
    ("SMOVIL 0x40160010,R30", 1, 16),
    ("SMOVIH 0x40160000,R30", 1, 0x40160005),
    ("SMOVIH 0x4016,R30", 1, 0x40160005),
    ("SMOVIH 0x00004016,R30", 1, 0x40160005),
    ("SMOVIH 65536,R30", 1, 0x10005),
    ("SMOVIH -1,R30", 1, 0xFFFF0005),
    ("SMOVIH 16,R30", 1, 5),
    ("SMOVI0L 0,R30", 1, 0),
    ("SFINTS32 R20,R30", 3, F32(A)),
    ("SFINTSU32 R20,R30", 3, F32(np.uint32(A & 0xFFFFFFFF))),
]
FLOAT = [
    ("SFADDS32 R20,R22,R30", 3, FA + FB),
    ("SFSUBS32 R20,R22,R30", 3, FB - FA),
    ("SFMULS32 R20,R22,R30", 4, FA * FB),
    ("SFMULAS32 R20,R22,R24,R30", 6, F32(F64(FA) * F64(FB) + F64(FC))),
    ("SFCMPGS32 R20,R22,R30", 1, 1),
    ("SFCMPLS32 R20,R22,R30", 1, 0),
    ("SFCMPES32 R22,R22,R30", 1, 1),
]


def scalar(values: tuple[object, ...], line: str, latency: int, want: object) -> None:
    words = np.array([word(v) for v in values], dtype=np.uint32)
    setup = ";".join(f"SLDW *+AR8[{k}],R{20 + 2 * k}" for k in range(3)) + ";SMOVIL 5,R30"
    assert int(after(setup, line, latency, "SMOV.M1 R30,R50", words)["R50"][0]) == word(want)
    if latency > 1:
        assert int(after(setup, line, latency - 1, "SMOV.M1 R30,R50", words)["R50"][0]) == 5


@pytest.mark.parametrize(("line", "latency", "want"), INT)
def test_integer_rows(line: str, latency: int, want: int) -> None:
    scalar((A, B, C), line, latency, want)


@pytest.mark.parametrize(("line", "latency", "want"), FLOAT)
def test_float_rows(line: str, latency: int, want: object) -> None:
    scalar((FA, FB, FC), line, latency, want)


def test_estimates_have_eight_bits() -> None:
    for line, want in (("SFRCPS32 R20,R30", 1 / float(FA)), ("SFRSQS32 R20,R30", float(FA) ** -0.5)):
        words = np.array([word(FA)], dtype=np.uint32)
        got = after("SLDW *AR8,R20", line, 1, "SMOV.M1 R30,R50", words)["R50"].view(F32)[0]
        assert got == pytest.approx(want, rel=2**-8)


# Rows on pairs read R21:R20 R23:R22 and write R31:R30, or R30 alone.
PAIR = [
    ("SFADDD R21:R20,R23:R22,R31:R30", 5, double(DA + DB)),
    ("SFSUBD R21:R20,R23:R22,R31:R30", 5, double(DB - DA)),
    ("SFMULD R21:R20,R23:R22,R31:R30", 6, double(DA * DB)),
    ("SFABSD R23:R22,R31:R30", 2, double(-DB)),
    ("SFCMPGD R21:R20,R23:R22,R30", 2, (5 << 32) + 1),
    ("SFCMPLD R21:R20,R23:R22,R30", 2, 5 << 32),
    ("SFCMPED R21:R20,R21:R20,R30", 2, (5 << 32) + 1),
    ("SFSPDP32T R24,R31:R30", 2, double(float(FA))),
    ("SFDPSP32 R21:R20,R30", 3, (5 << 32) + word(F32(DA))),
    ("SFINTD R25,R31:R30", 4, double(A)),
    ("SMULS R25,R25,R31:R30", 4, A * A),
    ("SMULU R25,R25,R31:R30", 4, (A & 0xFFFFFFFF) ** 2),
]


@pytest.mark.parametrize(("line", "latency", "want"), PAIR)
def test_pair_rows(line: str, latency: int, want: int) -> None:
    words = np.array([DA, DB], dtype=F64).view(np.uint32)
    words = np.concatenate([words, np.array([word(FA), word(A)], dtype=np.uint32)])
    setup = ";".join(f"SLDDW *+AR8[{k}],R{21 + 2 * k}:R{20 + 2 * k}" for k in range(3)) + ";SMOVIL 5,R30;SMOVIL 5,R31"
    read = "SMOV.M1 R30,R50\n|\tSMOV.M2 R31,R51"

    def value(cycles: int) -> int:
        registers = after(setup, line, cycles, read, words)
        return int(registers["R50"][0]) | int(registers["R51"][0]) << 32

    assert value(latency) == want % (1 << 64)
    assert value(latency - 1) == (5 << 32) + 5


# Address rows: AR8 holds the array's address, OR0 and OR9 hold 40; R5:R4 is -1, R6 is -8, R8 is 12.
ADDRESS = [
    ("SADDA 28,AR8,AR9", "AR9", 2, 28),
    ("SADDA -16,AR8,AR9", "AR9", 2, -16),
    ("SADDA R8,AR8,AR9", "AR9", 2, 12),
    ("SADDA R5:R4,AR8,AR9", "AR9", 2, -1),
    ("SADDA 8,AR8,AR1", "AR1", 3, 8),
    ("SADDA R5:R4,AR8,OR1", "OR1", 3, -1),
    ("SADD.LS AR8,124,AR9", "AR9", 2, 124),
    ("SADD.LS AR8,32,AR1", "AR1", 2, 32),
    ("SSUBA.M2 8,AR8,AR1", "AR1", 3, -8),
    ("SSUBA.L R5:R4,AR8,AR1", "AR1", 3, 1),
    ("SSUBA.L 96,AR8,AR7", "AR7", 3, -96),
    ("SMVAAA AR8,AR1", "AR1", 2, 0),
    ("SMVAGA36 R11:R10,OR3", "OR3", 2, 0),
    ("SMVAGA36 R10,AR9", "AR9", 2, 0),
    ("SMVAGA32 R10,AR1", "AR1", 2, 0),
]


@pytest.mark.parametrize(("line", "register", "latency", "want"), ADDRESS)
def test_address_rows(line: str, register: str, latency: int, want: int) -> None:
    setup = f"SMOVIL -1,R4;SMOVIL -1,R5;SMOVIL -8,R6;SMOVIL 12,R8;SMVAAA OR15,{register}"
    words = np.zeros(4, dtype=np.uint32)

    def value(cycles: int) -> tuple[int, int]:
        registers = after(setup, line, cycles, f"SMVAAA {register},OR14", words)
        return int(registers["OR14"][0]), int(registers["AR8"][0])

    got, base = value(latency)
    assert got == (base + want) % (1 << 36)
    assert value(latency - 1)[0] == 0


def test_addresses_come_back_in_two_halves() -> None:
    setup = "SMOVIL -1,R5;SMOVIL 7,R4;SMVAGA36 R5:R4,OR10;SMOVIL 3,R20;SMOVIL 3,R21"
    words = np.zeros(2, dtype=np.uint32)
    read = "SMOV.M1 R20,R50\n|\tSMOV.M2 R21,R51"
    for line, want in (
        ("SMVAAGL OR10,R21:R20", (7, 3)),
        ("SMVAAGH OR10,R21:R20", (3, 15)),
        ("SMVAAGH OR10,R21", (3, 15)),
        ("SMVAAGL OR10,R20", (7, 3)),
    ):
        registers = after(setup, line, 2, read, words)
        assert (int(registers["R50"][0]), int(registers["R51"][0])) == want
        assert int(after(setup, line, 1, read, words)["R50"][0]) == 3


# Vector rows read VR10 VR12 VR14 (pairs VR11:VR10 and so on) and write VR21:VR20, which hold 5 before.
RNG = np.random.default_rng(7)
VI = RNG.integers(-(1 << 31), 1 << 31, (6, 16)).astype(I32)
VI[2] = [0, 1, 4, 31, 16, 8, 2, 30] * 2
VF = RNG.uniform(-9, 9, (6, 16)).astype(F32)
LO, HI = VI.astype(np.int16).astype(np.int64), VI.astype(np.int64) >> 16
SATURATED = np.clip(VI.astype(np.int64), -32768, 32767)
W = VI.astype(np.int64)
VECTOR = [
    ("VADD VR10,VR12,VR20", 1, VI, W[0] + W[2]),
    ("VADD 0,VR12,VR20", 1, VI, W[2]),
    ("VSUB VR10,VR12,VR20", 1, VI, W[2] - W[0]),
    ("VNEG VR10,VR20", 1, VI, -W[0]),
    ("VMULIS VR10,VR14,VR20", 3, VI, W[0] * W[4]),
    ("VMULAS16T VR10,VR11,VR12,VR20", 3, VI, LO[0] * LO[1] + W[2]),
    ("VMULAS16T 1,VR11,VR10,VR20", 3, VI, LO[1] + W[0]),
    ("VMOV VR10,VR20", 1, VI, W[0]),
    ("VMOVIL 528,VR20", 1, VI, np.full(16, 528)),
    ("VMOVIH 0x4000,VR20", 1, VI, np.full(16, 0x40000005)),
    ("VSHFAR 16,VR10,VR20", 1, VI, W[0] >> 16),
    ("VSHFAR VR12,VR10,VR20", 1, VI, W[0] >> W[2]),
    ("VSHFLL VR12,VR10,VR20", 1, VI, W[0] << W[2]),
    ("VBEX VR12,VR10,VR20", 1, VI, W[0] ^ (1 << W[2])),
    ("VBALE2 VR10,VR11,VR20", 1, VI, (W[0] & 0xFFFF) | W[1] << 16),
    ("VSBALE2 VR10,VR11,VR20", 1, VI, (SATURATED[0] & 0xFFFF) | SATURATED[1] << 16),
    ("VREDUC16 VR10,0,3,VR20", 7, VI, np.where(np.arange(16) == 3, W[0].sum(), 5)),
    ("VFADDS32 VR10,VR12,VR20", 3, VF, VF[0] + VF[2]),
    ("VFSUBS32 VR10,VR12,VR20", 3, VF, VF[2] - VF[0]),
    ("VFMULS32 VR10,VR12,VR20", 4, VF, VF[0] * VF[2]),
    ("VFMULAS32 VR10,VR12,VR14,VR20", 6, VF, (VF[0].astype(F64) * VF[2] + VF[4]).astype(F32)),
    ("VFMULBS32 VR10,VR12,VR14,VR20", 6, VF, (VF[0].astype(F64) * VF[2] - VF[4]).astype(F32)),
    ("VFCREAL32 VR11:VR10,VR13:VR12,VR20", 7, VF, VF[0] * VF[2] - VF[1] * VF[3]),
    ("VFCIMAG32 VR11:VR10,VR13:VR12,VR20", 7, VF, VF[0] * VF[3] + VF[1] * VF[2]),
]


def vector(line: str, cycles: int, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    words = np.ascontiguousarray(given).view(np.uint32).reshape(-1)
    setup = "".join(f"VLDW *+AR0[{16 * k}],VR{10 + k};" for k in range(6)) + "VMOVIL 5,VR20;VMOVIL 5,VR21"
    registers = after(setup, line, cycles, "VMOV.M1 VR20,VR50\n|\tVMOV.M2 VR21,VR51", words)
    return registers["VR50"], registers["VR51"]


def words_of(values: np.ndarray) -> list[int]:
    if values.dtype.kind == "f":
        return [int(v) for v in values.astype(F32).view(np.uint32)]
    return [int(v) & 0xFFFFFFFF for v in values]


@pytest.mark.parametrize(("line", "latency", "given", "want"), VECTOR, ids=[row[0] for row in VECTOR])
def test_vector_rows(line: str, latency: int, given: np.ndarray, want: np.ndarray) -> None:
    assert vector(line, latency, given)[0].tolist() == words_of(want)
    if latency > 1:
        assert vector(line, latency - 1, given)[0].tolist() == [5] * 16


def test_bit_fields_and_complex_halves() -> None:
    control = VI.copy()
    control[0] = [16, 528, 0, 5 << 5 | 9] * 4
    field = ((W[1] << (control[0] >> 5)) & 0xFFFFFFFF).astype(np.uint32).view(I32) >> (control[0] & 31)
    assert vector("VBEXT VR10,VR11,VR20", 1, control)[0].tolist() == words_of(field)
    assert field[0] == VI[1][0] >> 16
    assert field[1] == np.int16(VI[1][1] & 0xFFFF)
    low, high = vector("VCMUL16T.M2 VR10,VR11,VR21:VR20", 5, VI)
    assert low.tolist() == words_of(LO[0] * LO[1] - HI[0] * HI[1])
    assert high.tolist() == words_of(LO[0] * HI[1] + HI[0] * LO[1])
    assert vector("VCMUL16T.M2 VR10,VR11,VR21:VR20", 4, VI)[1].tolist() == [5] * 16


def test_vector_doubles_name_even_registers() -> None:
    values = RNG.uniform(-9, 9, (3, 16))
    halves = np.ascontiguousarray(values).view(np.uint32).reshape(3, 16, 2).transpose(0, 2, 1).reshape(6, 16)
    for line, want in (
        ("VFMULD VR10,VR12,VR20", values[0] * values[1]),
        ("VFMULAD VR10,VR12,VR14,VR20", None),
        ("VFMULBD VR11:VR10,VR13:VR12,VR15:VR14,VR21:VR20", None),
    ):
        low, high = vector(line, 6, halves)
        got = (low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)).view(F64)
        if want is None:
            sign = 1 if "AD" in line else -1
            assert np.allclose(got, values[0] * values[1] + sign * values[2], rtol=1e-15)
        else:
            assert got.tolist() == want.tolist()
        assert vector(line, 5, halves)[0].tolist() == [5] * 16


# Memory rows: the array is the words 0..63, or half-words where told; addresses scale by the access.
WORDS = np.arange(64, dtype=np.uint32) * 0x10001 + 0x8000
HALVES = WORDS.view(np.int16)
LOAD = [
    ("VLDW *+AR0[3],VR20", WORDS[3:19], None),
    ("VLDH *+AR0[4],VR20", HALVES[4:20], None),
    ("VLDH *+AR0[5],VR20", HALVES[4:20], None),
    ("VLDDW *+AR0[1],VR21:VR20", WORDS[2:18], WORDS[18:34]),
    ("VLDDWM2 *+AR0[1],VR21:VR20", WORDS[2:34:2], WORDS[3:34:2]),
    ("VLDDW0M4 *AR0,VR21:VR20", WORDS[0::4], WORDS[1::4]),
    ("VLDDW1M4 *+AR0[16],VR21:VR20", WORDS[2::4], WORDS[3::4]),
]


@pytest.mark.parametrize(("line", "low", "high"), LOAD)
def test_vector_loads(line: str, low: np.ndarray, high: np.ndarray | None) -> None:
    read = "VMOV.M1 VR20,VR50\n|\tVMOV.M2 VR21,VR51"
    registers = after("VMOVIL 5,VR20;VMOVIL 5,VR21", line, 8, read, WORDS)
    assert registers["VR50"].tolist() == words_of(low)
    assert registers["VR51"].tolist() == ([5] * 16 if high is None else words_of(high))
    assert after("VMOVIL 5,VR20", line, 7, read, WORDS)["VR50"].tolist() == [5] * 16


STORE = [
    ("VSTW VR20,*+AR0[3]", lambda m, a, b: m[3:19].__setitem__(slice(None), a)),
    ("VSTH VR20,*+AR0[5]", lambda m, a, b: m.view(np.uint16)[4:20].__setitem__(slice(None), a & 0xFFFF)),
    ("VSTDW VR21:VR20,*+AR0[1]", lambda m, a, b: m[2:34].__setitem__(slice(None), np.concatenate([a, b]))),
    ("VSTDWM16 VR21:VR20,*AR0", lambda m, a, b: m[:32].__setitem__(slice(None), np.stack([a, b], 1).reshape(-1))),
    (
        "VSTDW0M16 VR21:VR20,*AR0",
        lambda m, a, b: (m[0::4].__setitem__(slice(None), a), m[1::4].__setitem__(slice(None), b)),
    ),  # fmt: skip  # noqa: E501
    (
        "VSTDW1M16 VR21:VR20,*+AR0[16]",
        lambda m, a, b: (m[2::4].__setitem__(slice(None), a), m[3::4].__setitem__(slice(None), b)),
    ),  # fmt: skip  # noqa: E501
]


@pytest.mark.parametrize(("line", "effect"), STORE, ids=[row[0] for row in STORE])
def test_vector_stores(line: str, effect) -> None:  # type: ignore[no-untyped-def]
    setup = "VLDW *+AR0[20],VR20;VLDW *+AR0[40],VR21"
    want = WORDS.copy()
    effect(want, WORDS[20:36], WORDS[40:56])
    got = after(setup, line, 1, "SMOV.M1 R20,R21", WORDS)["x"]
    assert got.tolist() == want.tolist()


def test_scalar_memory_rows() -> None:
    for line, low, high in (
        ("SLDW *+AR8[3],R30", WORDS[3], 5),
        ("SLDH *+AR8[1],R30", HALVES[1], 5),
        ("SLDDW *+AR8[2],R31:R30", WORDS[4], WORDS[5]),
    ):
        setup, read = "SMOVIL 5,R30;SMOVIL 5,R31", "SMOV.M1 R30,R50\n|\tSMOV.M2 R31,R51"
        registers = after(setup, line, 6, read, WORDS)
        assert [int(registers[r][0]) for r in ("R50", "R51")] == [word(low), word(high)]
        assert int(after(setup, line, 5, read, WORDS)["R50"][0]) == 5
    setup = "SLDDW *+AR8[2],R31:R30"
    assert after(setup, "SSTW R31,*AR8", 1, "SNOP 1", WORDS)["x"][:2].tolist() == [WORDS[5], WORDS[1]]
    got = after(setup, "SSTH R31,*+AR8[1]", 1, "SNOP 1", WORDS)["x"]
    assert got.view(np.uint16)[:3].tolist() == [HALVES.view(np.uint16)[i] for i in (0, 10, 2)]
    assert after(setup, "SSTDW R31:R30,*AR8", 1, "SNOP 1", WORDS)["x"][:3].tolist() == WORDS[[4, 5, 2]].tolist()


CROSS = [
    ("SMOVIL 9,R20", "SVBCAST R20,VR20", 4, "VMOV VR20,VR50", "VR50", [9] * 16),
    ("SMOVIL 9,R21", "SVBCAST2 R21:R20,VR21:VR20", 4, "VMOV VR21,VR50", "VR50", [9] * 16),
    ("VMOVIL 9,VR20", "VMVCGC VR20,SVR", 3, "VMVCCG SVR,VR50", "VR50", [9] * 16),
    ("VMOVIL 9,VR20;VMVCGC VR20,SVR", "VMVCCG SVR,VR21", 2, "VMOV VR21,VR50", "VR50", [9] * 16),
    ("VMOVIL 9,VR20;VMVCGC VR20,SVR", "SMVCCG SVR15,R20", 2, "SMOV R20,R50", "R50", [9]),
    ("SMOVIL 9,R20", "SMVCGC R20,SVR0", 3, "VMVCCG SVR,VR50", "VR50", [9] + [0] * 15),
    ("SMOVIL 3,R20", "SMVCGC.L R20,VLR", 4, "VMOVIL 1,VR50", "VR50", [1, 1] + [0] * 14),
    ("SMOVIL 3,R20", "SMVCGC.L R20,SCR", 3, "SMVCCG.L SCR,R50", "R50", [3]),
    ("SMOVIL 3,R20", "SMVCGC.L R20,SMR", 3, "SMVCCG SMR,R50", "R50", [3]),
]


@pytest.mark.parametrize(("setup", "line", "latency", "read", "register", "want"), CROSS)
def test_cross_rows(setup: str, line: str, latency: int, read: str, register: str, want: list[int]) -> None:
    words = np.zeros(2, dtype=np.uint32)
    assert after(setup, line, latency, read, words)[register].tolist() == want
    assert after(setup, line, latency - 1, read, words)[register].tolist() != want


def test_shuffles_take_their_pattern_by_the_mode() -> None:
    picks = RNG.integers(0, 64, 32).astype(np.uint8)
    picks[5] = 0x80
    words = np.concatenate([VI[0], VI[1]]).view(np.uint32)
    both = words.view(np.uint16)
    for mnemonic, pattern, source in (("VSHUFH", picks, both), ("VSHUFW", picks[:16] % 32, words)):
        setup = "VLDW *AR0,VR10;VLDW *+AR0[16],VR11;SMOVIL 32,R12;SMOVIH 0x40160000,R12;SMVAGA32 R12,AR9;"
        for value in pattern.view(np.uint32).tolist():
            setup += f"SMOVIL {value & 0xFFFF},R13;SMOVIH 0x{value >> 16:x},R13;SSTW R13,*AR9++[1];"
        setup += "SMOVIL 2,R14;SMVCGC.L R14,SMR"
        got = after(setup, f"{mnemonic} VR10,VR11,VR20", 3, "VMOV VR20,VR50", words)["VR50"]
        want = [0 if p & 0x80 else source[p % len(source)] for p in pattern]
        assert got.view(source.dtype).tolist() == want
