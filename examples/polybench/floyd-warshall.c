/* Lengths of the shortest paths between all pairs of vertices.
   @input path expr outer(7*arange(N)+3, 5*arange(N)+1) % 97 + 1 */
#ifndef DATA_TYPE
#define DATA_TYPE int
#endif
#ifndef N
#define N 180
#endif

void kernel_floyd_warshall(DATA_TYPE path[N][N])
{
#pragma scop
  for (int k = 0; k < N; k++)
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++)
        path[i][j] = path[i][j] < path[i][k] + path[k][j] ? path[i][j] : path[i][k] + path[k][j];
#pragma endscop
}
