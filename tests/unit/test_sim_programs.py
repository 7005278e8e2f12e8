"""Programs in the styles that people, schedulers and compilers write for ft_m7002, run to the results of plain C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dspgen.cli.main import commands
from dspgen.sim.run import Engine, SimResult, simulate
from dspgen.target.load import load_target

TARGET = load_target("ft_m7002")
RNG = np.random.default_rng(11)


@pytest.fixture(params=("python", "native"))
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param


def go(engine: Engine, text: str, **arguments: object) -> SimResult:
    return simulate(text, TARGET, arguments=list(arguments.items()), engine=engine, strict=False, file="f.s")


def test_equal_latency_reads_in_a_loop(engine: Engine) -> None:
    # The inner loop is as long as the load and broadcast take, less one turn: a slip of a cycle spoils the sums.
    text = """
 .global dot4
dot4: SMVAGA36.M1 R11:R10,AR8
|     SMVAGA36.M2 R13:R12,AR9
|     SMOVIL 0,R30
 SSUB 1,R14,R1
 SLDW *AR8++,R20
 SLDW *AR9++,R21
 SNOP 4
.loop: SLDW *AR8++,R20      ; lands six cycles on, in the next turn's first cycle
|[R1]SBR .loop
 SLDW *AR9++,R21
|[R1]SSUB.M1 1,R1,R1
|     SFMULS32.M2 R20,R21,R22 ; both still hold this turn's values, R21 has just landed
 SNOP 3
 SFADDS32.M1 R30,R22,R30
 SNOP 1
 SNOP 3
 SMOV.M1 R30,R10
|     SBR R62
 SNOP 6"""
    x, y = (RNG.standard_normal(12).astype(np.float32) for _ in range(2))
    result = go(engine, text, x=x, y=y, n=12)
    assert result.result_f32 != 0
    want = np.float32(0)
    for a, b in zip(x, y, strict=True):
        want = want + a * b
    assert result.result_f32 == want
    assert result.cycles == 8 + 12 * 7 + 3 + 7


def test_a_compiled_function_with_a_frame_a_call_and_data(engine: Engine) -> None:
    text = """\
\t.file\t"scale.c"
\t.text
.Ltext0:
\t.align 4
\t.global\tscale
\t.type\tscale, @function
scale:
.LFB0:
\t.loc 1 3 0
\t.cfi_startproc
\tSSTDW\tR31:R30,*AR15--[2]
\t.cfi_def_cfa_offset 16
\tSSTDW\tR63:R62,*AR15--[2]
|\tSMOV.M1\tR12,R30
\tSMOVIL\t-56,R6
\tSMOVIL\t-1,R7
\tSADDA.M2\tR7:R6,AR15,AR15
\tSMVAGA36.M1\tR11:R10,AR8
.LVL0:
\t.loc 1 4 0
\tSMOVIL.L\ttable+4,R20
.LVL1:
\t.loc 1 5 0
|\tSMOV.M2\tR30,R31
; |\tSMOV.M1\tR0,R0
\tSMOVIH.L\ttable+4,R20
\tSMOVIH4.L\ttable+4,R21
\tSMVAGA36.M1\tR21:R20,AR9
\tSNOP\t1
;APP
; 7 "scale.c" 1
\t  SLDW   *AR9 ,  R22
;NO_APP
\tSSTW\tR30,*+AR15[3]
\tSMOVIL.L\t.Lback,R62
\tSMOVIH.L\t.Lback,R62
\tSMOVIH4.L\t.Lback,R63
\tSMVCGC.L\tR63,BRReg
\tSBR\ttwice
|\tSMOV.M1\tR30,R10
\tSNOP\t6
.Lback:
\tSLDW\t*+AR15[3],R23
\tSNOP\t5
\tSMULIS.M1\tR10,R22,R10
\tSNOP\t2
\tSADD\tR23,R10,R10
\tSMOVIL\t56,R6
\tSMOVIL\t0,R7
\tSADDA.M2\tR7:R6,AR15,AR15
\tSNOP\t1
\tSLDDW\t*++AR15[2],R63:R62
\tSLDDW\t*++AR15[2],R31:R30
\tSNOP\t5
\tSMVCGC.L\tR63,BRReg
\tSNOP\t1
\tSBR\tR62
\tSNOP\t6
\t.cfi_endproc
.LFE0:
\t.size\tscale,-scale
\t.align 4
\t.type\ttwice, @function
twice:
\tSBR\tR62
|\tSADD.M1\tR10,R10,R10
\tSNOP\t6
\t.size\ttwice, .-twice
\t.section\t.rodata.cst4,"aM",@progbits,4
\t.align 4
table:
\t.4byte\t3, 0x5
\t.common\tscratch,64,8
\t.section\t.debug_info,"",@progbits
.Ldebug_info0:
\t.4byte\t0x30
\t.uleb128 0x1
\t.4byte\t.Letext0
\t.ident\t"GCC: (GNU) 5.0; test\""""
    result = go(engine, text, x=np.zeros(4, np.int32), n=21)
    assert result.result == 42 * 5 + 21
    assert int(result.registers["R30"][0]) == 0
    assert [w.split()[0] for w in result.warnings] == ["AR8", "AR9"]  # it doesn't save them


def test_sixteen_bit_fir_with_shuffles(engine: Engine) -> None:
    # y[i] = (sum h[k] x[i+k]) >> 15: even windows are loads, odd ones a shuffle of two; taps come from words of two.
    text = """
 .global fir16
fir16: SMVAGA36.M1 R11:R10,AR0
|  SMVAGA36.M2 R13:R12,AR8
|  SMOVIL 0,R30
 SMVAGA36.M1 R15:R14,AR1
|  SMOVIH 0x40160000,R30
 SMVAGA36.M1 R31:R30,AR9
|  SMOVIL 0x0201,R32
 SMOVIH 0x0403,R32
 SMOVIL 0x0404,R33
 SMOVIH 0x0404,R33
 SMOVIL 8,R0           ; 16 half-words: pattern of 32 bytes
.pat: SSTW R32,*AR9++[1]
| [R0] SBR .pat
 SADD.M1 R33,R32,R32
| [R0] SSUB 1,R0,R0
 SNOP 5
 SMOVIL 0,R34
 SMVCGC.L R34,SMR
 VMOVIL 528,VR60       ; low halves
 VMOVIH 528,VR60
 VMOVIL 16,VR61        ; high halves
 VMOVIL 0,VR20
 SSHFAR 1,R16,R1
 SSUB 1,R1,R1
.taps: SLDW *AR8++,R40
|  VLDW *AR0++,VR0     ; half-words 2k ... 2k+31
 VLDW *+AR0[15],VR1
 SNOP 4
 SVBCAST.M1 R40,VR10
 SNOP 1
 VSHUFH VR0,VR1,VR2    ; one half-word on
 SNOP 2
 VBEXT VR60,VR10,VR11
|[R1] SBR .taps
 VBEXT VR61,VR10,VR12
 VMULAS16T.M1 VR0,VR11,VR20,VR20
 SNOP 2
 VMULAS16T.M2 VR2,VR12,VR20,VR20
|[R1] SSUB 1,R1,R1
 SNOP 1
 SNOP 1
 VSHFAR 15,VR20,VR20
 VSTH VR20,*AR1
 SBR R62
 SNOP 6"""
    x = RNG.integers(-3000, 3000, 64).astype(np.int16)
    h = RNG.integers(-3000, 3000, 6).astype(np.int16)
    # Words hold two half-words, so lane i of a loaded vector serves half-words 2i and 2i+1: the even outputs.
    result = go(engine, text, x=x, h=h, y=np.zeros(16, np.int16), taps=6)
    want = [sum(int(h[k]) * int(x[2 * i + k]) for k in range(6)) >> 15 for i in range(16)]
    assert result.outputs["y"].tolist() == want


def test_complex_products(engine: Engine) -> None:
    text = """
 .global cmul
cmul: SMVAGA36.M1 R11:R10,AR0
| SMVAGA36.M2 R13:R12,AR1
 SMVAGA36.M1 R15:R14,AR2
 SNOP 1
 VLDDWM2 *AR0,VR1:VR0
| VLDDWM2 *AR1,VR3:VR2
 SNOP 7
 VFCREAL32.M1 VR1:VR0,VR3:VR2,VR4
| VFCIMAG32.M2 VR1:VR0,VR3:VR2,VR5
 SNOP 6
 VSTDWM16 VR5:VR4,*AR2
 SBR R62
 SNOP 6
"""
    a, b = (RNG.standard_normal((16, 2)).astype(np.float32) for _ in range(2))
    result = go(engine, text, a=a, b=b, c=np.zeros((16, 2), np.float32))
    want = (a[:, 0] + 1j * a[:, 1]) * (b[:, 0] + 1j * b[:, 1])
    assert np.allclose(result.outputs["c"][:, 0] + 1j * result.outputs["c"][:, 1], want, rtol=1e-5, atol=1e-6)
    assert result.cycles == 2 + 1 + 1 + 7 + 1 + 6 + 1 + 7


def test_a_sum_through_the_scalar_view(engine: Engine) -> None:
    # Two vectors share the view: the second transfer is in flight while the first one's elements are read.
    lines = [
        ".global sum",
        "sum: SMVAGA36.M1 R11:R10,AR0",
        " SNOP 1",
        " VLDW *AR0,VR0",
        "| VLDW *+AR0[16],VR1",
        " SNOP 7",
    ]
    lines += [" SNOP 7", " VMVCGC VR0,SVR", " SNOP 1", " VMVCGC VR1,SVR"]
    lines += [
        "| SMVCCG SVR0,R20 ; the old one",
        " SMVCCG SVR0,R20",
        " SMVCCG SVR1,R21",
        " SMVCCG.L SVR0,R22",
        " SNOP 1",
    ]
    lines += [" SADD.M1 R20,R21,R23", " SADD.M1 R22,R23,R10", "|SBR R62", " SNOP 6"]
    x = RNG.integers(-99, 99, 32).astype(np.int32)
    assert go(engine, "\n".join(lines), x=x).result == x[0] + x[1] + x[16]


def test_a_transpose_by_fours(engine: Engine) -> None:
    text = """
 .global t
t: SMVAGA36.M1 R11:R10,AR0
|  SMVAGA36.M2 R13:R12,AR1
|  SMOVIL 16,R20
 SMVAGA32 R20,OR0
 SNOP 1
 VLDDW0M4 *AR0,VR1:VR0
|  VLDDW1M4 *+AR0[OR0],VR3:VR2
 SNOP 7
 VSTDW VR1:VR0,*AR1
|  VSTDW VR3:VR2,*+AR1[16]
 SADDA.M1 0,AR1,AR2
 SNOP 2
 VLDDW *AR2++[OR0],VR5:VR4
 VLDDW *AR2,VR7:VR6
 SNOP 7
 VSTDW0M16 VR5:VR4,*AR0
|  VSTDW1M16 VR7:VR6,*+AR0[16]
 SBR R62
 SNOP 6
"""
    x = np.arange(64, dtype=np.int32).reshape(16, 4)
    result = go(engine, text, x=x, y=np.zeros((4, 16), np.int32))
    assert result.outputs["y"].tolist() == x.T.tolist()
    assert result.outputs["x"].tolist() == x.tolist()


@pytest.mark.parametrize("n", [1, 7, 15])
def test_a_tail_under_the_lane_mask(engine: Engine, n: int) -> None:
    text = """
 .global add
add: SMVAGA36.M1 R11:R10,AR0
| SMVAGA36.M2 R13:R12,AR1
| SMOVIL 1,R20
 SSHFLL R14,R20,R20
 SSUB 1,R20,R20
 SMVCGC.L R20,VLR
| VLDW *AR0,VR0
 SMOVIL 0xFFFF,R21
| VLDW *AR1,VR1          ; the mask is not yet in force
 SNOP 7
 VFADDS32.M1 VR0,VR1,VR2
 SMVCGC.L R21,VLR
 SNOP 1
 VSTW VR2,*AR1          ; still masked
 SBR R62
 SNOP 6
"""
    x, y = (RNG.standard_normal(16).astype(np.float32) for _ in range(2))
    result = go(engine, text, x=x, y=y, n=n)
    assert result.outputs["y"].tolist() == np.where(np.arange(16) < n, x + y, y).tolist()
    assert int(result.registers["VLR"][0]) == 0xFFFF


def test_a_double_sum_of_singles(engine: Engine) -> None:
    text = """
 .global dsum
dsum: SMVAGA36 R11:R10,AR8
 SMOVIL 0,R31
| SMOV.M1 R31,R30
 SNOP 1
.L3: SLDW *AR8++,R20
 SNOP 5
 SFSPDP32T.M1 R20,R23:R22
 SSUB 1,R12,R12
 SFADDD.M1 R23:R22,R31:R30,R31:R30
 SLT 0,R12,R0
 [R0] SBR .L3
 SNOP 6
 SFDPSP32.M2 R31:R30,R10
 SNOP 2
 SBR R62
 SNOP 6"""
    x = (RNG.standard_normal(9) * 1e4).astype(np.float32)
    result = go(engine, text, x=x, n=9)
    assert result.result_f32 == np.float32(x.astype(np.float64).sum())
    assert result.cycles == 3 + 9 * 17 + 3 + 7


@pytest.mark.parametrize("n", range(5))
def test_a_chain_of_branches_most_not_taken(engine: Engine, n: int) -> None:
    text = """
 .global pick
pick: SEQ 0,R10,R0
 [R0] SBR .case0
| SEQ 1,R10,R1
 [ R1] SBR .case1
| SEQ 2,R10,R2
 [R2 ]SBR .case2
| SLT 2,R10,R0
 [ ! R0 ] SNOP 3
 [R0]SBR .other
 SNOP 6
.case0: SMOVIL 100,R10
 SBR .end
 SNOP 6
.case1: SMOVIL 101,R10
 SBR .end
 SNOP 6
.case2: SMOVIL 102,R10
 SBR .end
 SNOP 6
.other:
 SMOVIL 103,R10
.end: SBR R62
 SNOP 6
"""
    assert go(engine, text, n=n).result == 100 + min(n, 3)


def test_scratch_below_an_unmoved_stack_pointer(engine: Engine) -> None:
    text = """
 .global f
f: SMVAAGL AR15,R20
| SMVAGA36.M1 R11:R10,AR0
 SMVAAGH AR15,R21
 SMOVIL -150,R22
 SADD.M1 R22,R20,R20
 SMVAGA36.M1 R21:R20,AR1
 SMVAGA36.M1 R21:R20,AR9
 VLDW *AR0,VR0
 SNOP 7
 VSTW VR0,*AR1
 SLDW *+AR9[5],R10
 SNOP 5
 SBR R62
 SNOP 6
"""
    x = np.arange(16, dtype=np.int32) + 50
    assert go(engine, text, x=x).result == 55


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
def test_the_command_reads_files_as_they_come(tmp_path: Path, encoding: str) -> None:
    text = "; \u5411\u91cf\u52a0\u6cd5\uff0c\u7a0b\u5e8f\r\n.global add\r\nadd:\tSMVAGA36 R11:R10,AR0\r\n"
    text += "|\tSMVAGA36 R13:R12,AR1;\u5730\u5740\r\n\tSNOP 1\r\n\tVLDW *AR0 ,VR0\r\n|\tVLDW *AR1,VR1\r\n\tSNOP 7\r\n"
    text += ";|\tSNOP 1\r\n\tVFADDS32 VR0,VR1,VR2\r\n\r\n\tSBR R62\r\n\tSNOP 3\r\n\tVSTW VR2,*AR1\r\n\tSNOP 2"
    (tmp_path / "add.s").write_bytes(text.encode(encoding))
    x, y = np.arange(16, dtype=np.float32), np.ones(16, np.float32)
    np.savez(tmp_path / "in.npz", x=x, y=y)
    out = tmp_path / "out.npz"
    command = ["sim", str(tmp_path / "add.s"), "--isa", "ft_m7002", "--call", "add(x, y, 32)"]
    done = CliRunner().invoke(commands, [*command, "--inputs", str(tmp_path / "in.npz"), "--outputs", str(out)])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("18 cycles")
    assert np.load(out)["y"].tolist() == (x + y).tolist()
