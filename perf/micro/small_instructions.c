/* SPDX-License-Identifier: Apache-2.0
 * For callgrind: what a blocking call of one line costs when the peer's line is already there. Two ranks of one thread:
 * rank 1 issues without waiting, rank 0 blocks (only `measured` is counted), rank 1 waits. So the number of
 * instructions does not depend on time. Reads the flight recorder's view back (tutti_explain aside, a mismatch is
 * provoked at the end: it must be found), so that a build that leaves out what makes calls safe cannot pass.
 *   small_instructions N CASE      N calls; CASE: f32_8 f32_48 bf16max_8 bf16max_48 barrier
 * Exit code 1: a wrong result, or the mismatch was not found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

static void must(tutti_code code) {
  if (code == TUTTI_OK) return;
  fprintf(stderr, "small_instructions: %s\n", tutti_last_error());
  exit(1);
}

typedef struct job {
  int barrier;
  tutti_dtype type;
  tutti_op op;
  uint64_t count;
} job;

static tutti_code call(const job* what, const void* in, void* out, tutti_comm* comm, tutti_work** work) {
  if (what->barrier) return tutti_barrier(comm, NULL, work);
  return tutti_all_reduce(in, out, what->count, what->type, what->op, comm, NULL, work);
}

/* Its own symbol, for callgrind's --toggle-collect. */
__attribute__((noinline)) tutti_code measured(const job* what, const void* in, void* out, tutti_comm* comm);
__attribute__((noinline)) tutti_code measured(const job* what, const void* in, void* out, tutti_comm* comm) {
  return call(what, in, out, comm, NULL);
}

static const struct {
  const char* name;
  job what;
} kCases[] = {
    {"f32_8", {0, TUTTI_FLOAT32, TUTTI_SUM, 2}},      {"f32_48", {0, TUTTI_FLOAT32, TUTTI_SUM, 12}},
    {"bf16max_8", {0, TUTTI_BFLOAT16, TUTTI_MAX, 4}}, {"bf16max_48", {0, TUTTI_BFLOAT16, TUTTI_MAX, 24}},
    {"barrier", {1, TUTTI_INT8, TUTTI_SUM, 0}},
};

int main(int argc, char** argv) {
  const long operations = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
  const job* what = NULL;
  for (size_t i = 0; argc == 3 && i < sizeof kCases / sizeof kCases[0]; ++i)
    if (strcmp(argv[2], kCases[i].name) == 0) what = &kCases[i].what;
  if (operations < 1 || !what) {
    fprintf(stderr, "usage: small_instructions N f32_8|f32_48|bf16max_8|bf16max_48|barrier\n");
    return 2;
  }
  tutti_unique_id id;
  tutti_comm* comm[2];
  must(tutti_unique_id_create(&id));
  must(tutti_group_begin());
  for (int rank = 0; rank < 2; ++rank) must(tutti_comm_create(&id, rank, 2, NULL, &comm[rank]));
  must(tutti_group_end());
  unsigned char in[2][64], out[2][64], expected[64];
  for (int i = 0; i < 12; ++i) {
    const float mine = (float)i, theirs = (float)(100 - i), sum = 100.0f;
    memcpy(in[0] + 4 * i, &mine, 4);
    memcpy(in[1] + 4 * i, &theirs, 4);
    memcpy(expected + 4 * i, &sum, 4);
  }
  /* As bf16: the larger of two words whose low half is 0 or a small number; sums are looked at only for f32. */
  for (long i = 0; i < operations; ++i) {
    tutti_work* work = NULL;
    memset(out, 0xff, sizeof out);
    must(call(what, in[1], out[1], comm[1], &work));
    must(measured(what, in[0], out[0], comm[0]));
    must(tutti_work_wait(work, -1));
    tutti_work_free(work);
    const size_t bytes = what->count * tutti_dtype_bytes(what->type);
    if (memcmp(out[0], out[1], bytes) != 0) return 1;
    if (what->type == TUTTI_FLOAT32 && memcmp(out[0], expected, bytes) != 0) return 1;
  }
  /* The fingerprint is on: another count on the other rank is found. */
  tutti_work* work = NULL;
  job other = *what;
  other.barrier = 0;
  other.count = what->count + 1;
  must(call(&other, in[1], out[1], comm[1], &work));
  if (measured(what, in[0], out[0], comm[0]) != TUTTI_MISMATCH) {
    fprintf(stderr, "small_instructions: another call of the other rank was not found\n");
    return 1;
  }
  tutti_work_free(work);
  must(tutti_comm_destroy(comm[0]));
  must(tutti_comm_destroy(comm[1]));
  return 0;
}
