; float matmul(A, B, C, repeats): C[128][128] = A[128][128] * B[128][128], the whole of it `repeats` times over.
; A kernel iteration issues 8 packets: one element of A times four vectors of a row of B.
; The loads of iteration k serve the multiply-adds of k + 1, so 129 iterations run and the first adds zero.
.global matmul
matmul:
        SMOV.M1 R16, R50
repeat:
        SMVAGA36.M1 R11:R10, AR8
        | SMVAGA36.M2 R13:R12, AR0
        | SMOVIL 16, R21
        SMVAGA36.M1 R15:R14, AR1
        SMVAGA32.M1 R21, OR1
        | SMOVIL 2, R2
        SMOVIL -512, R30
        SMOVIH 0xFFFE, R30
        SMOVIL 256, R31
        SMOVIL 512, R34
        SMOVIL 0, R32
        SMOVIH 0xFFFF, R32
        SADD.M1 R31, R32, R33
columns:
        SMOVIL 128, R0
rows:
        SMOVIL 129, R1
        | VMOVIL 0, VR20
        VMOVIL 0, VR21
        VMOVIL 0, VR22
        VMOVIL 0, VR23
        VMOVIL 0, VR8
inner:
        SSUB.M2 1, R1, R1
        | SLDW *AR8++[1], R22
        | VLDW *+AR0[0], VR10
        | VLDW *+AR0[16], VR11
        VLDW *+AR0[32], VR12
        | [R1] SBR inner
        | VLDW *+AR0[48], VR14
        VFMULAS32.M1 VR8, VR10, VR20, VR20
        | VFMULAS32.M2 VR8, VR11, VR21, VR21
        | VFMULAS32.M3 VR8, VR12, VR22, VR22
        VFMULAS32.M1 VR8, VR14, VR23, VR23
        SADDA.M1 R34, AR0, AR0
        SNOP 1
        SVBCAST.M1 R22, VR8
        SNOP 1
        SNOP 6
        SADDA.M1 -4, AR8, AR8
        | VSTW VR20, *AR1++[OR1]
        SADDA.M1 R30, AR0, AR0
        | VSTW VR21, *AR1++[OR1]
        VSTW VR22, *AR1++[OR1]
        | SSUB.M1 1, R0, R0
        VSTW VR23, *AR1++[OR1]
        | [R0] SBR rows
        SADDA.M1 R31, AR1, AR1
        SNOP 5
        SADDA.M1 R32, AR8, AR8
        | SSUB.M2 1, R2, R2
        SADDA.M1 R33, AR1, AR1
        | [R2] SBR columns
        SADDA.M1 R31, AR0, AR0
        SNOP 5
        SSUB.M1 1, R50, R50
        SMOV.M1 R50, R0
        [R0] SBR repeat
        SNOP 6
        SBR R62
        SNOP 6
.size matmul, .-matmul
