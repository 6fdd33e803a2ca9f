#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into a folder of its own, then builds every program of examples/ against it twice, as users do -
# find_package(tutti) and pkg-config - and runs it over 2 ranks with the installed launcher.
#   .ci/check_install.sh BUILD_FOLDER
set -euo pipefail

source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
# An installed folder may be moved.
mv "$work/first" "$work/prefix"
prefix=$work/prefix

# Every program that was built is there.
for program in "$build"/bin/*_perf "$build/bin/tutti"; do
  [ -x "$prefix/bin/${program##*/}" ] || { echo "${program##*/} is not installed (cmake/TuttiInstall.cmake)" >&2; exit 1; }
done

cmake -S "$source_folder/examples" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
ninja -C "$work/cmake"

pkg_config_folder=$(dirname "$(find "$prefix" -name tutti.pc)")
flags=$(PKG_CONFIG_PATH=$pkg_config_folder pkg-config --cflags --libs tutti)
library_folder=$(PKG_CONFIG_PATH=$pkg_config_folder pkg-config --variable=libdir tutti)
mkdir "$work/pkg-config"
ran=0
for example in "$source_folder"/examples/*.c "$source_folder"/examples/*.cc; do
  if [ ! -f "$example" ]; then continue; fi
  name=$(basename "${example%.*}")_${example##*.}
  compiler=(cc -std=c99)
  if [ "${example##*.}" = cc ]; then compiler=(c++ -std=c++20); fi
  # shellcheck disable=SC2086  # flags are several words
  "${compiler[@]}" -Wall -Wextra -Werror "$example" -o "$work/pkg-config/$name" $flags
  for program in "$work/cmake/$name" "$work/pkg-config/$name"; do
    echo "== ${program#"$work/"}"
    LD_LIBRARY_PATH=$library_folder timeout 60 "$prefix/bin/tutti" run -n 2 "$program"
    ran=$((ran + 1))
  done
done
[ "$ran" -gt 0 ] || { echo "no example was run"; exit 1; }
echo "$ran programs ran against the installed package"
