#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads ctest's JUnit file and prints the slowest programs, what was skipped and why, and one line of totals.

A GoogleTest program counts by its cases; any other ctest entry is one test.
"""

import re
import sys
import xml.etree.ElementTree

CASE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+)(?:, where .*)? \((\d+) ms\)$")
SKIP_SITE = re.compile(r"^(.*\.cc:\d+): Skipped$")


def gtest_cases(output):
    """(result, name, reason) for each case; the reason stands between the "Skipped" line and the result line."""
    cases = []
    reason, collecting = [], False
    for line in output.splitlines():
        match = CASE.match(line)
        if match:
            cases.append((match.group(1), match.group(2), " ".join(reason) or "no reason given"))
            reason, collecting = [], False
        elif SKIP_SITE.match(line):
            collecting = True
        elif collecting and line.strip():
            reason.append(line.strip())
    return cases


def totals_of(entry):
    """(passed, failed, [(name, reason)]) of one ctest entry."""
    name, status = entry.get("name"), entry.get("status")
    output = entry.findtext("system-out") or ""
    cases = gtest_cases(output)
    skipped = [(f"{name}: {case}", reason) for result, case, reason in cases if result == "SKIPPED"]
    passed = sum(result == "OK" for result, _, _ in cases)
    failed = sum(result == "FAILED" for result, _, _ in cases)
    if status == "fail":
        # A crash or a timeout leaves no FAILED case.
        return passed, max(failed, 1), skipped
    if status != "run":
        element = entry.find("skipped")
        message = element.get("message") if element is not None else status
        if "Unable to find executable" in message:
            return passed, failed + 1, skipped
        said = [line.partition(":")[2].strip() for line in output.splitlines() if line.startswith("SKIPPED ALL")]
        return passed, failed, skipped or [(name, said[0] if said else message)]
    return (passed, failed, skipped) if cases else (1, 0, [])


def main(path):
    try:
        entries = xml.etree.ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"no test results: {error}", file=sys.stderr)
        return 1
    passed = failed = 0
    skipped = []
    for entry in entries:
        entry_passed, entry_failed, entry_skipped = totals_of(entry)
        passed += entry_passed
        failed += entry_failed
        skipped += entry_skipped
    slowest = sorted(((float(entry.get("time") or 0), entry.get("name")) for entry in entries), reverse=True)[:5]
    print("\nslowest: " + ", ".join(f"{name} {seconds:.1f} s" for seconds, name in slowest))
    if skipped:
        print("skipped:")
        for name, reason in skipped:
            print(f"  {name}: {reason}")
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
