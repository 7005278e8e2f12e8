/* The loop ends in its first iteration.
 * @input a expr ones(640)
 */
void first(float a[640], float out[1])
{
  float at = -1.0f;
  for (int i = 0; i < 640; i++)
    if (a[i] > 0.5f) {
      at = i;
      break;
    }
  out[0] = at;
}
