#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Libraries we ship may NEED only what every Linux with a C++ run time has, so that one binary runs everywhere and
# no host application meets a second copy of its own dependencies. Everything exported is part of the C interface.
#   .ci/check_needed.sh FOLDER
set -euo pipefail

allowed='libc.so.6 libm.so.6 libstdc++.so.6 libgcc_s.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1'
status=0
checked=0
for library in "$1"/libtutti.so.[0-9]* "$1"/libnccl.so.[0-9]*; do
  if [ ! -f "$library" ] || [ -L "$library" ]; then continue; fi
  checked=$((checked + 1))
  needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  for name in $needed; do
    case " $allowed " in *" $name "*) continue ;; esac
    echo "$library: needs $name; allowed: $allowed"
    status=1
  done
  # Unique global symbols (u) are inline variables of the C++ library; they are not ours to hide.
  foreign=$(nm -D --defined-only "$library" | awk '$2 != "u" && $3 !~ /^(tutti_|nccl|pnccl|_ZTI|_ZTS|_ZTV)/ { print $3 }' |
    grep -v '^_ZN\?K\?St' || true)
  if [ -n "$foreign" ]; then
    echo "$library: exports what is not its interface:"
    c++filt <<<"$foreign" | head -n 20
    status=1
  fi
  echo "$library: needs $(tr '\n' ' ' <<<"$needed"), exports $(nm -D --defined-only "$library" | grep -c ' T ') functions"
done
if [ "$checked" = 0 ]; then
  echo "no library in $1"
  status=1
fi
exit "$status"
