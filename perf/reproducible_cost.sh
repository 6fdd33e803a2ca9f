#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a level of TUTTI_REPRODUCIBLE costs against the fastest row: the levels in turn, several times, the median of the
# out-of-place times of each. Usage: perf/reproducible_cost.sh [PROGRAM OPTIONS ...]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${TUTTI_TEST_ROUNDS:-5}
command=("$@")
[ ${#command[@]} -gt 0 ] || command=(build/bin/all_reduce_perf --procs 2 -b 8 -e 16M -f 32 -n 20 -w 5 -c 0)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
echo "# ${command[*]}; median of $rounds rounds, us"
for ((round = 0; round < rounds; ++round)); do
  for level in none l2 l4; do
    # Columns as nccl-tests': size count type redop root time ...
    TUTTI_REPRODUCIBLE=$level "${command[@]}" | awk -v level=$level '/^ *[0-9]/ { print $1, level, $6 }' >>"$work/times"
  done
done
sort -k1,1n -k2,2 -k3,3n "$work/times" | awk -v rounds="$rounds" '
  { key = $1 SUBSEP $2; time[key, ++seen[key]] = $3; if (!($1 in known)) { known[$1]; sizes[++count] = $1 } }
  function median(size, level) { return time[size, level, int((seen[size, level] + 1) / 2)] }
  END {
    printf "%12s %12s %12s %12s %8s %8s\n", "bytes", "none", "l2", "l4", "l2/none", "l4/none"
    for (i = 1; i <= count; ++i) {
      none = median(sizes[i], "none"); l2 = median(sizes[i], "l2"); l4 = median(sizes[i], "l4")
      printf "%12d %12.2f %12.2f %12.2f %8.2f %8.2f\n", sizes[i], none, l2, l4, l2 / none, l4 / none
    }
  }'
