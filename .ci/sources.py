# SPDX-License-Identifier: Apache-2.0
"""The files that the checks look at."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".h", ".hpp", ".cc", ".c", ".def"}
OTHER = {".py", ".sh", ".cmake"}


def files(suffixes):
    for path in sorted(ROOT.rglob("*")):
        relative = path.relative_to(ROOT)
        top = relative.parts[0]
        if top.startswith("build") or top in {".git", ".cache"} or not path.is_file():
            continue
        if path.suffix in suffixes or (suffixes & OTHER and path.name in {"CMakeLists.txt", "dev", "run", "packages"}):
            yield relative


def read(relative):
    return (ROOT / relative).read_text(encoding="utf-8")
