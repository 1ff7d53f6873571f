"""docs/python.md's tables of published scripts hold what data/h200/scripts.tsv holds. Needs the repository alone."""
import csv
import os
import re
import unittest

from common import ROOT

GIB = 2 ** 30


class Published(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ROOT, "data", "h200", "scripts.tsv"), newline="") as source:
            self.rows = {row["script"]: row for row in csv.DictReader(source, delimiter="\t", quoting=csv.QUOTE_NONE)}
        with open(os.path.join(ROOT, "docs", "python.md")) as source:
            text = source.read()
        self.text = text[text.index("## Published scripts, measured"):]

    def part(self, title):
        section = self.text[self.text.index("### " + title):]
        lines = section[:section.index("\n### ", 5)].splitlines()
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ") and not line.startswith("| script")]

    def test_every_script_is_there_once(self):
        for title, aside in (("Worked on", "no"), ("Set aside", "yes")):
            self.assertEqual([cells[0] for cells in self.part(title)], [name for name, row in self.rows.items() if row["aside"] == aside])

    def test_figures(self):
        for name, predicted, interval, measured, error in self.part("Worked on") + self.part("Set aside"):
            row = self.rows[name]
            self.assertEqual(measured, "%.2f" % (int(row["measured_bytes"]) / GIB), name)
            if row["predicted_bytes"] == "":
                self.assertEqual((predicted, interval, error), ("none", "", ""), name)
                continue
            peak, low, high = (int(row[key]) for key in ("predicted_bytes", "low_bytes", "high_bytes"))
            self.assertEqual(predicted, "%.2f" % (peak / GIB), name)
            self.assertEqual(interval, "%.2f to %.2f" % (low / GIB, high / GIB), name)
            self.assertEqual(error, "%+.1f %%" % (100 * (peak / int(row["measured_bytes"]) - 1)), name)

    def test_counts(self):
        for title, aside in (("worked on", "no"), ("set aside", "yes")):
            rows = [row for row in self.rows.values() if row["aside"] == aside]
            said = [row for row in rows if row["predicted_bytes"]]
            near = [r for r in said if abs(int(r["predicted_bytes"]) / int(r["measured_bytes"]) - 1) <= 0.05]
            held = [r for r in said if int(r["low_bytes"]) <= int(r["measured_bytes"]) <= int(r["high_bytes"])]
            found = re.search(r"^\| %s \|(.*)\|$" % title, self.text, re.M)
            self.assertEqual([int(cell) for cell in found.group(1).split("|")], [len(rows), len(said), len(near), len(held)], title)


if __name__ == "__main__":
    unittest.main()
