/* SPDX-License-Identifier: Apache-2.0
 * Every rank contributes its number; all of them get the sum. Run: tutti run -n 4 ./all_reduce_c */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#define COUNT 1000000

static void check(tutti_code code, const char* what) {
  if (code == TUTTI_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, tutti_code_name(code), tutti_last_error());
  exit(EXIT_FAILURE);
}

int main(void) {
  tutti_comm* comm = NULL;
  check(tutti_comm_create_from_environment(NULL, &comm), "create");
  const int rank = tutti_comm_rank(comm), ranks = tutti_comm_ranks(comm);

  void* memory = NULL; /* any memory will do; Tutti's own is the fastest */
  check(tutti_alloc(COUNT * sizeof(float), &memory), "alloc");
  float* data = memory;
  for (int i = 0; i < COUNT; ++i) data[i] = (float)(rank + 1);

  check(tutti_all_reduce(data, data, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL, NULL), "all_reduce");

  const float expected = (float)(ranks * (ranks + 1) / 2);
  for (int i = 0; i < COUNT; ++i) {
    if (data[i] == expected) continue;
    fprintf(stderr, "rank %d: element %d is %g, expected %g\n", rank, i, data[i], expected);
    return EXIT_FAILURE;
  }
  if (rank == 0) printf("sum of 1..%d over %d elements: %g, right on rank 0\n", ranks, COUNT, data[0]);
  check(tutti_free(memory), "free");
  check(tutti_comm_destroy(comm), "destroy");
  return EXIT_SUCCESS;
}
