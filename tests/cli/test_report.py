"""`lull report`: the page of a run, of several, of one that is large, strange or incomplete; and that nobody is shut out
of it. Run as: test_report.py LULL [TEST...]. SPDX-License-Identifier: Apache-2.0"""
import html.parser
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import report_case  # noqa: E402

LULL = os.path.abspath(sys.argv.pop(1))
VOID = {"meta", "br", "path", "rect"}


class Page(html.parser.HTMLParser):
    """A page whose elements are closed in order, with its texts, tooltips and heads."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.tags, self.ids = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        assert not any(name.startswith("on") for name, _ in attributes), attributes
        if tag not in VOID:
            self.open.append(tag)
        elif tag == "rect" and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    def said(self):
        return " ".join("".join(self.texts).split())


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def write(self, report, name="run"):
        folder = os.path.join(self.directory, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as file:
            json.dump(report, file)
        return name

    def report(self, *words, status=0):
        done = subprocess.run([LULL, "report", *words], cwd=self.directory, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def check(self, words, said):
        self.assertTrue(words.lower() in said.lower(), f"not said: {words}")

    def page(self, *words):
        path = self.report(*words).stdout.strip()
        with open(os.path.join(self.directory, path), encoding="utf-8") as file:
            return file.read()


class Pages(Case):
    def test_all_parts_are_there(self):
        text = self.page(self.write(report_case.large(gpus=2)))
        page = Page(text)
        for words in ("saved 11.4 % (10.8 to 12.0) of the energy per iteration", "11.4 % saved", "0.2 % slower", "at most 0.7 %", "keep lull run before this command",
                      "Full circles: measured", "steady point", "7.9 %", "1320 MHz: not degraded", "GPU 1",
                      "0.25 EUR, 316 g of CO2", "excludes CPU and DRAM energy: no RAPL here", "the NCCL of this job is old",
                      "its energy counter, which was reset 2 times; polled power stood in for 12 s", "allreduce, 2.00 ms",
                      "210 MHz, 1.50 ms", "it was compared only together with other levers", "unfinished: the run ended"):
            self.check(words, page.said())
        self.assertGreater(page.tags.count("svg"), 4)

    def test_it_needs_nothing_from_elsewhere(self):
        text = self.page(self.write(report_case.large(gpus=2)))
        self.assertEqual(re.findall(r"<script|<link|<img|@import|url\(|https?://", text), [])
        self.check("prefers-color-scheme:dark", text)
        self.check("@media print", text)

    def test_texts_are_only_texts(self):
        report = report_case.large(gpus=1)
        hostile = "</h1><script>alert(1)</script>\"'&amp;"
        report["verdict"]["sentence"] = report["verdict"]["lowered_line"] = report["verdict"]["energy_line"] = report["verdict"]["next_line"] = report["gpus"][0]["state"] = report["levers"][0]["name"] = hostile
        report["command"] = report["notes"] = [hostile]
        report["timeline"]["gpus"][0]["sections"][0][2] = hostile
        page = Page(self.page(self.write(report)))
        self.assertNotIn("script", page.tags)
        self.check(hostile, page.said())

    def test_what_is_not_known_is_said(self):
        said = Page(self.page(self.write({"version": 2, "guard": {}}))).said()
        for words in ("no verdict: it was written by an older lull", "no iteration was seen", "no trial has compared clocks",
                      "no GPU was measured", "No GPU was used", "no whole iteration was seen"):
            self.check(words, said)
        self.assertEqual(re.findall(r"\bnan\b|\binf\b", said), [])
        report = report_case.large(gpus=2)
        report["energy"]["run"]["gpus"][1] = {"index": 1, "source": "power", "counter_resets": 0, "estimated_seconds": 0.0,
                                              "power_check_ratio": None, "energy_j": None, "uncertainty_j": None,
                                              "reason": "neither its counter nor its power could be read"}
        report["cost"] = {"energy_kwh": None, "reason": "the energy of one of the GPUs is not known"}
        said = Page(self.page(self.write(report))).said()
        self.check("GPU 1not knownnot knownneither its counter nor its power could be read", said)
        self.check("energy of GPU 1not knownneither its counter nor its power could be read", said)
        self.assertGreaterEqual(said.count("the energy of one of the GPUs is not known"), 2)

    def test_a_server(self):
        """Its latencies and energy per token in place of iterations."""
        report = report_case.server()
        page = Page(self.page(self.write(report)))
        for words in ("Latency0.4 % missed12345 requests, 0.41 % missed the objective", "energy per output token0.42 J", "energy per request88.1 J", "output tokens2,600,000", "saved (estimate)490.0 kJ",
                      "time to first token120.4 ms430.2 ms401 ms500 ms", "proven45.0 min74.8 %", "added by lowered clocks, upper 95 % bound0.3 %",
                      "vLLM, metrics from http://localhost:8000/metrics; at the end: 1320 MHz keep the objective", "0210 MHz418.30 min12.00 kJ31.5 ms"):
            self.check(words, page.said())
        for words in ("no iteration was seen", "The last iterations", "Settled first after", "working0"):
            self.assertNotIn(words, page.said())
        report["serving"].update(objective=None, j_per_output_token=None, j_per_output_token_reason="the server's metrics were not read; give --metrics",
                                 missed_ratio=None, missed_bound_ratio=None, modes_s=None, gpus=None, ttft_ms=7, engine=3)
        said = Page(self.page(self.write(report))).said()
        self.check("energy per output tokenthe server's metrics were not read; give --metrics", said)
        self.check("Latencynot known", said)
        self.assertEqual(re.findall(r"\bnan\b|\binf\b", said), [])

    def test_several_runs(self):
        names = [self.write(report_case.large(gpus=2), name) for name in ("before", "after")]
        page = Page(self.page("--output", "both.html", *names))
        self.check("2 runs side by side", page.said())
        self.assertEqual([name for name in page.ids if name.startswith("run-")], ["run-1", "run-2"])
        self.check("Frontiers of all runs", self.page(*names))
        for words in ("stars are accepted clocks: before, solid; after, dashed", "after: 1320 MHz with lowered sections: saves 11.4 % (10.8 to 12.0 %)",
                      "steady clock", "1320 MHz"):
            self.check(words, page.said())

    def test_the_last_run_is_found(self):
        self.assertIn("lull run --report", self.report(status=1).stderr)
        for place, name in enumerate(("2026-01-01-000000", "2026-01-01-000000-2", "2025-01-01-000000")):
            self.write(report_case.large(gpus=1), os.path.join("lull-report", name))
            when = 1e9 + place
            os.utime(os.path.join(self.directory, "lull-report", name, "report.json"), (when, when))
        os.makedirs(os.path.join(self.directory, "lull-report", "9999"))
        self.assertEqual(self.report().stdout, "lull-report/2025-01-01-000000/report.html\n")

    def test_what_is_no_report(self):
        self.assertIn("nothere", self.report("nothere", status=1).stderr)
        for text in ("", "[]", "{", "{}", '{"version": "2"}', '{"version": 2, "version": 2, "guard": {}}'):
            with open(os.path.join(self.directory, "odd.json"), "w", encoding="utf-8") as file:
                file.write(text)
            self.assertRegex(self.report("odd.json", status=2).stderr, "lull report: odd.json.*pass the folder of a run")
        self.assertEqual(os.listdir(self.directory), ["odd.json"])


class Large(Case):
    def test_an_hour_on_eight_gpus(self):
        name = self.write(report_case.large(gpus=8))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = self.page(name)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{len(text) / 1e6:.2f} MB, {taken_s * 1e3:.0f} ms of one core", file=sys.stderr)
        self.assertLess(len(text), 2e6)
        Page(text)

    def test_sixty_four_gpus(self):
        text = self.page(self.write(report_case.large(gpus=64)))
        self.check("48 more GPUs are not drawn", text)
        self.assertLess(len(text), 8e6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
