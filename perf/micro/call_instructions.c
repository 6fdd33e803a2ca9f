/* SPDX-License-Identifier: Apache-2.0
 * For callgrind: N broadcasts of 8 bytes between two ranks of one thread. The root leaves its line and is done, the
 * other rank finds it: nobody ever waits and no other thread runs, so the number of instructions does not depend on
 * time. call_instructions N */
#include <stdio.h>
#include <stdlib.h>

#include "tutti/tutti.h"

static void must(tutti_code code) {
  if (code == TUTTI_OK) return;
  fprintf(stderr, "call_instructions: %s\n", tutti_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  const long operations = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
  if (operations < 1) {
    fprintf(stderr, "usage: call_instructions N\n");
    return 2;
  }
  tutti_unique_id id;
  tutti_comm *first, *second;
  must(tutti_unique_id_create(&id));
  must(tutti_group_begin());
  must(tutti_comm_create(&id, 0, 2, NULL, &first));
  must(tutti_comm_create(&id, 1, 2, NULL, &second));
  must(tutti_group_end());
  float in[2] = {1, 2}, out[2];
  for (long i = 0; i < operations; ++i) {
    must(tutti_broadcast(in, in, 2, TUTTI_FLOAT32, 0, first, NULL, NULL));
    must(tutti_broadcast(NULL, out, 2, TUTTI_FLOAT32, 0, second, NULL, NULL));
    if (out[1] != 2) return 1;
  }
  must(tutti_comm_destroy(first));
  must(tutti_comm_destroy(second));
  return 0;
}
