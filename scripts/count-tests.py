"""Counts the tests in one of meson's logs: NAME LOG.

"passed failed skipped" goes to file descriptor 3; on stdout, skipped tests with their reason and failed
ones with their output.
"""
import json
import os
import sys


def last_line(test):
    lines = (test.get("stdout", "") + "\n" + test.get("stderr", "")).split("\n")
    lines = [line for line in lines if line.strip()]
    return lines[-1] if lines else "no reason given"


def show_failure(name, test):
    print("FAIL  %s: %s (%s, exit code %s)" % (name, test["name"], test["result"], test["returncode"]))
    for stream in "stdout", "stderr":
        for line in test.get(stream, "").splitlines()[-100:]:
            print("      " + line)


def main():
    name, log = sys.argv[1:]
    counts = {"OK": 0, "SKIP": 0, "FAIL": 0}
    with open(log) as lines:
        for line in lines:
            test = json.loads(line)
            result = "OK" if test["result"] == "EXPECTEDFAIL" else test["result"]
            counts[result if result in counts else "FAIL"] += 1
            if result == "SKIP":
                print("skip  %s: %s: %s" % (name, test["name"], last_line(test)))
            elif result != "OK":
                show_failure(name, test)
    with os.fdopen(3, "w") as out:
        out.write("%d %d %d\n" % (counts["OK"], counts["FAIL"], counts["SKIP"]))


main()
