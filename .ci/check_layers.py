#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: the table below is docs/ARCHITECTURE.md in short. Prints each include that breaks it."""

import re
import sys

import sources

BASE = ["src/base/", "tutti/types.h", "tutti/dtypes.def"]
PURE = BASE + ["src/plan/", "topology/placement.h"]

# Folder (longest prefix wins): what its files may include, besides their own folder. None: anything.
LAYERS = {
    "include/": ["tutti/"],
    "src/base/": BASE,
    "src/facts/": BASE,
    "src/reduce/": BASE,
    "topology/": BASE + ["src/facts/"],
    "src/plan/": PURE,
    "algorithms/": PURE,
    "src/sim/": PURE,
    "transports/": BASE + ["transports/"],
    "src/exec/": PURE + ["src/reduce/", "transports/transport.h"],
    "src/comm/": BASE + ["src/", "topology/", "transports/", "algorithms/", "tutti/"],
    "src/doctor/checks/": BASE + ["src/facts/", "topology/"],
    "src/doctor/": BASE + ["src/", "topology/", "algorithms/", "tutti/"],
    "src/cli/": BASE + ["src/", "topology/", "algorithms/", "tutti/"],
    "src/nccl/": ["tutti/", "nccl.h"],
    "src/torch/": ["tutti/"],
    "trainer/": ["tutti/"],
    "perf/": ["tutti/"],
    "perf/micro/": None,
    "examples/": ["tutti/"],
    "tests/": None,
}

# What only the composition root (src/comm) and the programs on top may reach into.
NOT_FROM_CLI = ["src/cli/", "src/doctor/"]

# Algorithms and schedules are pure functions: no threads, sockets, CUDA, environment or clock.
PURE_FOLDERS = ("algorithms/", "src/plan/", "src/sim/")
IMPURE = re.compile(
    r"#include <(thread|mutex|atomic|condition_variable|future|chrono|ctime|time\.h|sys/.*|netinet/.*|unistd\.h|cuda.*)>"
)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def layer_of(path):
    matches = [folder for folder in LAYERS if path.startswith(folder)]
    return max(matches, key=len) if matches else None


def check(path, text):
    folder = layer_of(path)
    if folder is None:
        return [f"{path}: no row in .ci/check_layers.py for this folder"]
    if LAYERS[folder] is None:
        return []
    own = folder
    if folder == "transports/" and path.count("/") > 1:
        own = "/".join(path.split("/")[:2]) + "/"
    errors = []
    for target in INCLUDE.findall(text):
        allowed = target.startswith(own) or any(target.startswith(prefix) for prefix in LAYERS[folder])
        # A transport may use the contract files of transports/, never another transport.
        if folder == "transports/" and own != folder and target.startswith("transports/") and not target.startswith(own):
            allowed = target.count("/") == 1
        if folder == "src/comm/" and any(target.startswith(prefix) for prefix in NOT_FROM_CLI):
            allowed = target.startswith("src/doctor/checks/")
        if not allowed:
            errors.append(f'{path}: {folder} may not include "{target}"')
    if path.startswith(PURE_FOLDERS):
        errors += [f"{path}: {folder} is pure and may not use <{name}>" for name in IMPURE.findall(text)]
    return errors


def main():
    errors = []
    count = 0
    for relative in sources.files(sources.CODE):
        count += 1
        errors += check(relative.as_posix(), sources.read(relative))
    for error in errors:
        print(error)
    print(f"layers: {count} files, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
