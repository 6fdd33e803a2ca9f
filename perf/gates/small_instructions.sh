#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions of a blocking call of one line between two ranks, from the C function's entry to its return, the peer's
# line already there: callgrind, mean of 1,000 calls without the first ones, for all_reduce of 8 and 48 bytes (float32 sum,
# bfloat16 max) and barrier. Prints each and the worst; exit code 1 if that is more than LIMIT (480; the goal is 250).
#   perf/gates/small_instructions.sh [LIMIT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
limit=${1:-480}
worst=0
for case in f32_8 f32_48 bf16max_8 bf16max_48 barrier; do
  counts=()
  for n in 200 1200; do
    counts+=("$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=measured \
      build/bin/small_instructions "$n" "$case" 2>&1 | sed -n 's/.*Collected : //p')")
    [ -n "${counts[-1]}" ] || { echo "small_instructions $n $case failed under valgrind" >&2; exit 1; }
  done
  mean=$(((counts[1] - counts[0]) / 1000))
  printf '%-11s %5d\n' "$case" "$mean"
  if [ "$mean" -gt "$worst" ]; then worst=$mean; fi
done
echo "$worst instructions"
[ "$worst" -le "$limit" ]
