#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SPDX lines, lengths of files and functions, and words that belong to one place only."""

import re
import sys

import sources

FILE_LINES = 600
FUNCTION_LINES = 80
PUBLIC_HEADER_LINES = 1500

# clang-format puts the closing brace of a function in the column where its first line starts.
FUNCTION = re.compile(r"^( *)[^\s#/].*\)( const| noexcept| override| final| &&?)*( ->.*)? \{$")

LIBRARY = ("src/base/", "src/plan/", "src/reduce/", "src/exec/", "src/comm/", "src/facts/", "transports/", "algorithms/", "topology/")
RULES = [
    # (pattern, folders it applies to, files exempt, message)
    (re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b"), ("src/", "transports/", "algorithms/", "topology/"),
     # The launcher hands the environment on whole; what it reads, it reads through src/base/config.h.
     {"src/base/config.cc", "src/cli/run_environment.cc", "src/cli/run_processes.cc"}, "the environment is read in src/base/config.cc only"),
    # The programs see public headers alone, so they have one door of their own; their report copies all of it.
    (re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b"), ("perf/",), {"perf/common/environment.cc", "perf/common/main.cc"},
     "the programs read the environment in perf/common/environment.cc only"),
    (re.compile(r"\bstdout\b|std::cout|\b(std::)?(printf|puts)\s*\("), LIBRARY, set(),
     "the library never writes to stdout"),
    (re.compile(r"\bgoto\b"), ("",), set(), "no goto"),
    (re.compile(r"\bthrow\b\s*[\w:]"), LIBRARY, set(), "errors are values: the library throws nothing"),
    (re.compile(r"\b(std::this_thread::)?(sleep_for|usleep|nanosleep)\s*\("), ("tests/",),
     {"tests/api/harness.cc"},  # between two looks of a wait with a deadline
     "no sleeps in tests: wait for an event with a deadline, or use a manual clock"),
]


def strip_comments_and_texts(line):
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return re.sub(r"//.*", "", line)


def long_functions(path, lines):
    for start, line in enumerate(lines):
        match = FUNCTION.match(line)
        if not match:
            continue
        indent = match.group(1)
        closing = indent + "}"
        for end in range(start + 1, len(lines)):
            if lines[end] and lines[end][0] != "#" and not lines[end].startswith(indent):
                break  # the second line of a condition, not the start of a function
            if lines[end].startswith(closing) and lines[end][len(closing):len(closing) + 1] in ("", ")", ";", ",", " "):
                if end - start + 1 > FUNCTION_LINES:
                    yield f"{path}:{start + 1}: function of {end - start + 1} lines; at most {FUNCTION_LINES}"
                break


def check(path, text):
    lines = text.splitlines()
    errors = []
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        errors.append(f"{path}:1: no SPDX line")
    if len(lines) > FILE_LINES:
        errors.append(f"{path}: {len(lines)} lines; at most {FILE_LINES}")
    if not path.endswith((".cc", ".c", ".h", ".hpp")):
        return errors
    if path.endswith((".h", ".hpp")) and not path.startswith(("include/",)) and "#pragma once" not in text:
        errors.append(f"{path}: no #pragma once")
    errors += long_functions(path, lines)
    for number, line in enumerate(lines, 1):
        code = strip_comments_and_texts(line)
        if "NOLINT(tutti)" in line:
            continue
        for pattern, folders, exempt, message in RULES:
            if path.startswith(folders) and path not in exempt and pattern.search(code):
                errors.append(f"{path}:{number}: {message}")
    return errors


def main():
    errors = []
    count = public_lines = 0
    for relative in sources.files(sources.CODE | sources.OTHER):
        count += 1
        text = sources.read(relative)
        if relative.as_posix().startswith("include/"):
            public_lines += len(text.splitlines())
        errors += check(relative.as_posix(), text)
    if public_lines > PUBLIC_HEADER_LINES:
        errors.append(f"include/: {public_lines} lines together; about {PUBLIC_HEADER_LINES}")
    for error in errors:
        print(error)
    print(f"style: {count} files, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
