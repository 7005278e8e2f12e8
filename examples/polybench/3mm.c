/* Three matrix products: G = (A B) (C D). */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef NI
#define NI 40
#endif
#ifndef NJ
#define NJ 50
#endif
#ifndef NK
#define NK 60
#endif
#ifndef NL
#define NL 70
#endif
#ifndef NM
#define NM 80
#endif

void kernel_3mm(DATA_TYPE E[NI][NJ], const DATA_TYPE A[NI][NK], const DATA_TYPE B[NK][NJ], DATA_TYPE F[NJ][NL],
                const DATA_TYPE C[NJ][NM], const DATA_TYPE D[NM][NL], DATA_TYPE G[NI][NL])
{
#pragma scop
  for (int i = 0; i < NI; i++)
    for (int j = 0; j < NJ; j++) {
      E[i][j] = 0;
      for (int k = 0; k < NK; k++)
        E[i][j] += A[i][k] * B[k][j];
    }
  for (int i = 0; i < NJ; i++)
    for (int j = 0; j < NL; j++) {
      F[i][j] = 0;
      for (int k = 0; k < NM; k++)
        F[i][j] += C[i][k] * D[k][j];
    }
  for (int i = 0; i < NI; i++)
    for (int j = 0; j < NL; j++) {
      G[i][j] = 0;
      for (int k = 0; k < NJ; k++)
        G[i][j] += E[i][k] * F[k][j];
    }
#pragma endscop
}
