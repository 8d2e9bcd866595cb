#!/usr/bin/env python3
"""docs/telemetry.md agrees with the code; the alert rules and the dashboard agree with both."""
import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/telemetry.md").read_text()
TEXT = (ROOT / "src/base/prometheus.c").read_text()
MONITOR = "".join(path.read_text() for path in (ROOT / "src/cli/monitor").glob("*.c"))
HEADER = (ROOT / "include/redlock/stats.h").read_text()
RULES = (ROOT / "contrib/prometheus/redlock.rules.yml").read_text()
DASHBOARD = json.loads((ROOT / "contrib/grafana/redlock.json").read_text())
SUFFIX = r"_(?:bucket|sum|count)$"


def items():
    """The items of the lists "- `name`, ...: meaning", each in one line."""
    found = re.findall(r"^- (`\w+`, .*(?:\n  .*)*)", PAGE, re.MULTILINE)
    return [re.sub(r"\s+", " ", item) for item in found]


def words(cell):
    return re.findall(r"`(\w+)`", cell)


def struct(name):
    """The members of a struct of stats.h."""
    body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", HEADER, re.DOTALL)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    return {member for declared in re.findall(r"^ *[\w ]+?[ *]+([\w\[\], ]+);", body, re.MULTILINE)
            for member in re.findall(r"\b([a-z]\w*)\b(?:\[\w+\])?", declared)}


ITEM = re.compile(r"`(redlock_\w+)`, (\w+)(?: by (`\w+`(?:, `\w+`)*))?(?:, from (.*?))?: ")
ALL = {found[1]: (words(found[4] or ""), found[2], words(found[3] or ""))
       for found in map(ITEM.match, items()) if found}
METRICS = {name: metric for name, metric in ALL.items() if metric[0]}  # of a client
SERVED = {name: metric for name, metric in ALL.items() if not metric[0]}  # of the monitor only
EVENTS = dict(found.groups() for found in
              map(re.compile(r"`(?!redlock_)(\w+)`, (\w+): ").match, items()) if found)


# (expression, what shows its result)
EXPRESSIONS = [found.groups() for found in
               re.finditer(r"expr: (.*?)\n +(?:for|labels):(.*?)(?=- alert|\Z)", RULES, re.DOTALL)] + [
    (target["expr"], target["legendFormat"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
OF_PROMETHEUS = {"instance", "job"}


def labels_of(metric):
    _, kind, labels = ALL[re.sub(SUFFIX, "", metric)]
    return OF_PROMETHEUS | set(labels) | ({"le"} if kind == "histogram" else set())


class Telemetry(unittest.TestCase):
    def test_each_metric_of_the_code_is_listed(self):
        shown = set(re.findall(r'"(redlock_\w+)"', TEXT))
        self.assertEqual(sorted(shown), sorted(METRICS))

    def test_each_metric_of_the_monitor_is_listed(self):
        """test/cli/monitor.py compares their types and labels."""
        shown = set(re.findall(r"\bredlock_(?:canary_|watches_|locks|node_clock_|node_certificate|node_finding)\w*", MONITOR))
        self.assertEqual({re.sub(SUFFIX, "", name) for name in shown}, set(SERVED))

    def test_names_say_the_type_and_the_unit(self):
        for name, (_, kind, _) in ALL.items():
            with self.subTest(name):
                self.assertEqual(name.endswith("_total"), kind == "counter")
                self.assertEqual(bool(re.search("(?<!offset)(?<!left)_seconds$", name)), kind == "histogram")

    def test_each_member_is_listed(self):
        none = {"size", "node_size", "nodes", "room", "count", "uri"}
        members = {member for found, _, _ in METRICS.values() for member in found}
        declared = struct("redlock_stats") | struct("redlock_node_stats")
        self.assertEqual(sorted(declared - none), sorted(members))

    def test_members_are_those_of_the_code(self):
        for name, (members, _, _) in METRICS.items():
            for member in members:
                self.assertRegex(TEXT, rf"(AT|OF_CLIENT|OF_NODE)\({member}\)|->{member}|\.{member}\b", name)

    def test_labels_are_those_of_the_code(self):
        labels = dict(re.findall(r'"(redlock_\w+)",\s+"(\w+)",\s+"', TEXT))
        labels["redlock_watchdog_extensions_total"] = "result"
        for name, (_, _, told) in METRICS.items():
            known = ["node"] if name.startswith("redlock_node_") else [labels[name]] \
                if labels.get(name) in ("result", "cause") else []
            self.assertEqual(told, known, name)

    def test_each_event_is_listed(self):
        text = (ROOT / "include/redlock/redlock.h").read_text()
        rows = re.findall(r'X\((\w+), "(\w+)", (ERROR|WARNING|INFO)\)', text)
        self.assertEqual(EVENTS, {name: level.lower() for _, name, level in rows})
        self.assertEqual([row[0].lower() for row in rows], [row[1] for row in rows])

    def test_each_kind_is_named(self):
        text = (ROOT / "include/redlock/kinds.h").read_text()
        kinds = set(re.findall(r'X\(\w+, "(\w+)"\)', text))
        told = re.search(r"^`kind` is (.*?)\. ", PAGE, re.DOTALL | re.MULTILINE)[1]
        self.assertEqual(set(words(told)), kinds)

    def test_expressions_use_metrics_and_labels_that_exist(self):
        self.assertEqual(len(EXPRESSIONS), RULES.count("expr:") + json.dumps(DASHBOARD).count('"expr":'))
        for expression, shown in EXPRESSIONS:
            with self.subTest(expression):
                metrics = re.findall(r"\b(redlock_\w+)(?:{(.*?)})?", expression)
                self.assertTrue(metrics or expression.startswith("up{"))
                self.assertLessEqual({re.sub(SUFFIX, "", name) for name, _ in metrics}, set(ALL))
                for name, matchers in metrics:
                    histogram = ALL[re.sub(SUFFIX, "", name)][1] == "histogram"
                    self.assertEqual(bool(re.search(SUFFIX, name)), histogram, name)
                    self.assertLessEqual(set(re.findall(r"(\w+) *[!=]", matchers)), labels_of(name))
                known = set.union(OF_PROMETHEUS, *(labels_of(name) for name, _ in metrics))
                grouped = re.findall(r"\b(?:by|without|on|ignoring) *\((.*?)\)", expression)
                grouped += re.findall(r"{{ *(?:\$labels\.)?(\w+) *}}", shown)
                self.assertLessEqual(set(re.findall(r"\w+", " ".join(grouped))), known)

    def test_what_is_counted_is_shown_by_its_rate(self):
        for expression, _ in EXPRESSIONS:
            for name in re.findall(r"(?<!rate\()(?<!increase\()\b(redlock_\w+)", expression):
                self.assertEqual(ALL[re.sub(SUFFIX, "", name)][1], "gauge", expression)

    def test_each_alert_is_explained_and_tested(self):
        alerts = set(re.findall(r"alert: (\w+)", RULES))
        page = (ROOT / "docs/runbook.md").read_text()
        tests = (ROOT / "contrib/prometheus/redlock.test.yml").read_text()
        self.assertEqual(alerts, set(re.findall(r"^### (Redlock\w+)", page, re.MULTILINE)))
        self.assertEqual(alerts, set(re.findall(r"alertname: (\w+)", tests)))


if __name__ == "__main__":
    unittest.main()
