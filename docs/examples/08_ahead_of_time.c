/* A program that launches a kernel exported by 08_ahead_of_time.py on arrays of its own. A GPU reaches memory
 * of the host when it is registered; arrays that stay on the device come from hipMalloc. */
#include <stddef.h>
#include <stdio.h>

#include "scale_rows.h"

int hipDeviceSynchronize(void);
int hipHostRegister(void *memory, size_t bytes, unsigned flags);

enum { kRows = 5, kColumns = 300 };

int main(void) {
  static float x[kRows * kColumns], factors[kRows];
  for (int i = 0; i < kRows * kColumns; ++i)
    x[i] = (float)(i % 17) - 8.0f;
  for (int r = 0; r < kRows; ++r)
    factors[r] = (float)r + 0.25f;
  if (hipHostRegister(x, sizeof x, 0) != 0 || hipHostRegister(factors, sizeof factors, 0) != 0) {
    puts("the arrays cannot be registered");
    return 1;
  }

  scale_rows_x_layout_t x_layout = {.shape = {kRows, kColumns}, .stride = {kColumns}};
  scale_rows_factors_layout_t factors_layout = {.shape = {kRows}};
  int32_t status = scale_rows_call_auto(x, &x_layout, factors, &factors_layout, kRows, kColumns, 2.0f, NULL);
  if (status != FLYDSL_AOT_SUCCESS || hipDeviceSynchronize() != 0) {
    printf("launch failed with status %d\n", (int)status);
    return 1;
  }

  float worst = 0.0f;
  for (int i = 0; i < kRows * kColumns; ++i) {
    const float want = ((float)(i % 17) - 8.0f) * factors[i / kColumns] + 2.0f;
    const float error = x[i] > want ? x[i] - want : want - x[i];
    worst = error > worst ? error : worst;
  }
  printf("C program: %d x %d, maximum error %g\n", kRows, kColumns, (double)worst);
  return worst <= 1e-5f ? 0 : 1;
}
