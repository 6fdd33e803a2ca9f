#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the detection of mismatching calls costs an 8-byte operation, in instructions (mean of its sender and its receiver): the same program under callgrind against
# the library as it is and against one with the detection compiled out. Prints both and the difference; exit code 1 if it is
# more than 40.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Counted inside the calls alone. The mean between two runs is free of the first call's preparations.
per_call() { # BUILD
  local few=500 many=1500 counts=() n
  for n in $few $many; do
    counts+=("$(valgrind --tool=callgrind --callgrind-out-file=/dev/null \
      --toggle-collect='tutti::core::Communicator::run(tutti::core::Call const&, int*)' \
      "$1/bin/call_instructions" "$n" 2>&1 | sed -n 's/.*Collected : //p')")
  done
  echo $(((counts[1] - counts[0]) / (many - few) / 2))
}

for check in ON OFF; do
  cmake -S . -B "build-mismatch-$check" -G Ninja -DTUTTI_MISMATCH_CHECK=$check >/dev/null
  ninja -C "build-mismatch-$check" call_instructions >/dev/null
done
with=$(per_call build-mismatch-ON)
without=$(per_call build-mismatch-OFF)
echo "8-byte broadcast between two ranks: $with instructions a call, $without without detection of mismatches"
echo "detection costs $((with - without)) instructions"
[ $((with - without)) -le 40 ]
