#!/usr/bin/env python3
"""Counts a JUnit file's test cases: prints "passed failed"."""
import sys
import xml.etree.ElementTree as tree

cases = list(tree.parse(sys.argv[1]).iter("testcase"))
bad = sum(1 for case in cases if case.find("failure") is not None or case.find("error") is not None)
skipped = sum(1 for case in cases if case.find("skipped") is not None)
print(len(cases) - bad - skipped, bad)
