#!/usr/bin/env python3
"""docs/runbook.md has a paragraph for each alert of contrib/prometheus and each finding of
`redlock check`, and no other; each alert has the link to its paragraph; the page names those
that are critical."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/runbook.md").read_text()
RULES = (ROOT / "contrib/prometheus/redlock.rules.yml").read_text()
FINDINGS = "".join((ROOT / "src/admin" / name).read_text()
                   for name in ("health_rules.c", "member_rules.c"))
# What it means, what to look at, what ends it.
PARAGRAPH = re.compile(r"\n### (\w+)\n\S.*\n\*\*Look:\*\* .*\n\*\*Ends:\*\* .*\n(?=\n|$)")


class Runbook(unittest.TestCase):
    def test_each_has_its_paragraph(self):
        alerts = set(re.findall(r"^ +- alert: (\w+)$", RULES, re.MULTILINE))
        codes = set(re.findall(r'^    {"(\w+)", REDLOCK_', FINDINGS, re.MULTILINE))
        self.assertGreater(min(len(alerts), len(codes)), 5)
        self.assertEqual(sorted(PARAGRAPH.findall(PAGE)), sorted(alerts | codes))
        self.assertEqual(PAGE.count("\n### "), len(alerts | codes))

    def test_each_alert_has_its_link(self):
        for alert in RULES.split("- alert: ")[1:]:
            name = alert.split()[0]
            with self.subTest(name):
                self.assertIn(f'\n          runbook_url: "docs/runbook.md#{name.lower()}"\n', alert)

    def test_names_the_critical_ones(self):
        critical = [alert.split()[0] for alert in RULES.split("- alert: ")[1:]
                    if "severity: critical" in alert]
        self.assertEqual(re.findall(r"Redlock\w+", PAGE.split("\n\n")[3]), critical)


unittest.main()
