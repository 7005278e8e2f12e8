/* Contraction of two 3-d arrays over two dimensions: C[i][j] += A[k][l][i] B[l][k][j], A walked against its rows. */
#ifndef DATA_TYPE
#define DATA_TYPE float
#endif
#ifndef NI
#define NI 50
#endif
#ifndef NJ
#define NJ 60
#endif
#ifndef NK
#define NK 80
#endif
#ifndef NL
#define NL 100
#endif

void kernel_contract3d(const DATA_TYPE A[NK][NL][NI], const DATA_TYPE B[NL][NK][NJ], DATA_TYPE C[NI][NJ])
{
#pragma scop
  for (int i = 0; i < NI; i++)
    for (int j = 0; j < NJ; j++)
      for (int k = 0; k < NK; k++)
        for (int l = 0; l < NL; l++)
          C[i][j] += A[k][l][i] * B[l][k][j];
#pragma endscop
}
