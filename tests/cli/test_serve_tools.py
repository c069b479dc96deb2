#!/usr/bin/env python3
"""`lull serve` as others see it: a real Prometheus scrapes it while a run goes on, beside a dcgm-exporter of this test's; promtool
and schemathesis find nothing. What is not installed is skipped.

Run as: lull emulate 8xMODEL -- test_serve_tools.py LULL LULLD LIVE_RUN. SPDX-License-Identifier: Apache-2.0
"""
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import serve_case  # noqa: E402
from serve_case import host  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LULL, LULLD, LIVE_RUN = sys.argv[1:4]
SCHEMATHESIS = os.environ.get("LULL_SCHEMATHESIS") or os.path.expanduser("~/.cache/lull/schemathesis/bin/schemathesis")
BOUND_S = 90
METRIC = re.compile(r"\blull_\w+")


def table():
    with open(os.path.join(ROOT, "data", "metrics.json"), encoding="utf-8") as file:
        return json.load(file)["metrics"]


def panels():
    with open(os.path.join(ROOT, "packaging", "grafana-lull.json"), encoding="utf-8") as file:
        return [target["expr"] for panel in json.load(file)["panels"] for target in panel["targets"]]


def dcgm_line(gpu, more=""):
    return (f'DCGM_FI_DEV_POWER_USAGE{{gpu="{gpu["index"]}",UUID="{gpu["uuid"]}",pci_bus_id="{gpu["pci_bus_id"]}",'
            f'device="nvidia{gpu["index"]}",modelName="{gpu["name"]}",hostname="node1"{more},pod="trainer-0",namespace="research",'
            f'container="main"}} {gpu["power_w"]:.3f}\n')


class Exporter(http.server.BaseHTTPRequestHandler):
    """A scrape in the form of dcgm-exporter; the last GPU has two MIG slices, each with the whole GPU's power."""

    def do_GET(self):
        gpus = self.server.gpus
        slices = "".join(dcgm_line(gpus[-1], f',GPU_I_PROFILE="3g.20gb",GPU_I_ID="{number}"') for number in (1, 2))
        body = ("# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n" +
                "".join(dcgm_line(gpu) for gpu in gpus[:-1]) + slices).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Prometheus:
    """A Prometheus with one second between scrapes; it listens where the kernel gave this test a port a moment ago."""

    def __init__(self, directory, targets):
        path = os.path.join(directory, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                       "rule_files": [os.path.join(ROOT, "packaging", "prometheus-lull.rules.yml")],
                       "scrape_configs": [{"job_name": name, "static_configs": [{"targets": [target]}]} for name, target in targets.items()]}, file)
        probe = http.server.HTTPServer(("127.0.0.1", 0), Exporter)
        self.port = probe.server_port
        probe.server_close()
        self.process = subprocess.Popen(["prometheus", f"--config.file={path}", f"--storage.tsdb.path={directory}/data",
                                         f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(self, path, **query):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, expression):
        data = self.get("query", query=expression)
        return data["result"] if data else []

    def stop(self):
        self.process.kill()
        self.process.wait()


@unittest.skipIf(shutil.which("prometheus") is None, "skipped: prometheus is not installed")
class Scraped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = serve_case.Node(LULL, LULLD, LIVE_RUN)
        cls.serve = cls.node.serve()
        _, cls.name = cls.node.publish((0, 4, 21000), (1, 1, 7000))
        _, cls.server = cls.node.publish((2, 1, 7000), env=dict(os.environ, LIVE_RUN_SERVER="4"))
        # A job that is really played and managed, on two of the GPUs.
        cls.job = subprocess.Popen([LULL, "run", "--quiet", "--report", os.path.join(cls.node.directory.name, "report"), "--", LULL, "play",
                                    "--preset", "bert-ddp", "--seconds", "600"], env=dict(os.environ, SLURM_JOB_ID="815"),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.node.ends.append(cls.end_job)
        cls.exporter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
        cls.exporter.gpus = cls.node.gpus
        threading.Thread(target=cls.exporter.serve_forever, daemon=True).start()
        cls.directory = tempfile.TemporaryDirectory(prefix="lull-")
        cls.prometheus = Prometheus(cls.directory.name, {"lull": f"127.0.0.1:{cls.serve.port}",
                                                         "dcgm": f"127.0.0.1:{cls.exporter.server_port}"})

    @classmethod
    def end_job(cls):
        if cls.job.poll() is None:
            cls.job.terminate()
            cls.job.wait(timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.prometheus.stop()
        cls.exporter.shutdown()
        cls.exporter.server_close()
        cls.node.close()
        cls.directory.cleanup()

    def wait_for_data(self, expression):
        """What a query gives once it gives something."""
        found = []

        def has_some():
            found[:] = self.prometheus.query(expression)
            return bool(found)

        self.assertIsNotNone(host.wait_for(has_some, BOUND_S, 0.2), expression)
        return found

    def test_every_query_has_data(self):
        for expression in panels():
            self.wait_for_data(expression)
        self.assertEqual(len(panels()), sum("panel" in row for row in table()))
        absent = {"lull_gpu_clock_lock_hertz"}  # a series only while lulld holds a clock
        for row in (row for row in table() if "alert" in row):
            for name in set(METRIC.findall(row["alert"]["expr"])) - absent:
                self.wait_for_data(name)

    def test_figures_and_labels(self):
        energy, = self.wait_for_data(f'lull_run_energy_joules_total{{run="{self.name}"}}')
        self.assertEqual(float(energy["value"][1]), 28000)
        self.assertEqual({label: energy["metric"][label] for label in ("slurm_job_id", "pod", "namespace", "job")},
                         {"slurm_job_id": "4711", "pod": "trainer-0", "namespace": "research", "job": "lull"})
        self.assertEqual(len(self.wait_for_data("lull_gpu_power_watts")), 8)
        # The budget is overdrawn; other runs of the same machine are in the scrape too.
        self.wait_for_data(f"ALERTS{{alertname='LullGuardBackingOff',run='{self.name}'}}")
        self.assertEqual(self.prometheus.query("ALERTS{alertname!='LullGuardBackingOff',run=''}"), [])

    def test_a_managed_job(self):
        """What it says while it runs, and that nothing of it stays."""
        job = '{slurm_job_id="815"}'
        self.wait_for_data(f"lull_run_iterations_total{job} > 0")
        energy, = self.wait_for_data(f"lull_run_energy_joules_total{job} > 0")
        of_gpus, = self.wait_for_data(f"sum(lull_run_gpu_energy_joules_total{job})")
        self.assertLess(float(energy["value"][1]), 1.5 * float(of_gpus["value"][1]) + 500.0)
        self.assertEqual(len(self.wait_for_data(f"lull_run_gpu_ranks{job} == 1")), 2)
        self.wait_for_data(f'lull_run_section_seconds_total{{slurm_job_id="815",section="computation"}} > 0')
        self.end_job()
        self.assertIsNotNone(host.wait_for(lambda: 'slurm_job_id="815"' not in self.serve.ask("/metrics")[2], BOUND_S, 0.1))

    def test_joins_with_dcgm_exporter(self):
        self.wait_for_data("DCGM_FI_DEV_POWER_USAGE")
        with open(os.path.join(ROOT, "docs", "reference", "metrics.md"), encoding="utf-8") as file:
            joins = [line.strip() for line in file if line.startswith("    ") and "DCGM" in line]
        self.assertEqual(len(joins), 2)
        for expression, count in zip(joins, (8, 2)):
            found = [row for row in self.wait_for_data(expression) if row["metric"].get("run", self.name) == self.name]
            self.assertEqual(len(found), count)
        self.assertEqual({row["metric"]["modelName"] for row in found}, {self.node.gpus[0]["name"]})
        self.assertEqual(sorted(float(row["value"][1]) for row in found), [7000, 21000])

    def test_targets_are_well(self):
        self.wait_for_data("up{job='lull'} == 1")
        target, = [target for target in self.prometheus.get("targets")["activeTargets"] if target["labels"]["job"] == "lull"]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))


@unittest.skipIf(shutil.which("promtool") is None, "skipped: promtool is not installed")
class Promtool(unittest.TestCase):
    def check(self, *words, text=None):
        done = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual((done.returncode, done.stderr if text else ""), (0, ""), done.stdout + done.stderr)

    def test_metrics(self):
        node = serve_case.Node(LULL, LULLD, LIVE_RUN)
        try:
            node.publish((0, 4, 21000), (1, 1, "nan"))
            self.check("check", "metrics", text=node.serve().ask("/metrics")[2])
        finally:
            node.close()

    def test_the_page(self):
        with open(os.path.join(ROOT, "docs", "admin", "monitoring.md"), encoding="utf-8") as file:
            example, = re.findall(r"```yaml\n(.*?)```", file.read(), re.S)
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as config:
            config.write(example)
            config.flush()
            self.check("check", "config", "--syntax-only", config.name)

    def test_rules(self):
        self.check("check", "rules", os.path.join(ROOT, "packaging", "prometheus-lull.rules.yml"))

    def test_each_alert_fires(self):
        """By series of its own, and not without."""
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            path = os.path.join(directory, "rules_test.yml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(alert_cases(), file)
            self.check("test", "rules", path)


GPU = 'instance="n",gpu="0",UUID="GPU-0"'
RUN = 'instance="n",run="r"'
# Alert: series that make it fire, and of those the ones that do not.
CASES = {
    "LullDaemonDown": ({'lull_daemon_up{instance="n"}': "0x30"}, {'lull_daemon_up{instance="n"}': "1x30"}),
    "LullDriverHanging": ({f"lull_gpu_answers{{{GPU}}}": "1x30", f'lull_gpu_state{{{GPU},state="HUNG"}}': "1x30"},
                          {f"lull_gpu_answers{{{GPU}}}": "1x30", f'lull_gpu_state{{{GPU},state="HUNG"}}': "0x30"}),
    "LullCapExceeded": ({f"lull_gpu_power_watts{{{GPU}}}": "430x30", f"lull_gpu_power_limit_watts{{{GPU}}}": "400x30"},
                        {f"lull_gpu_power_watts{{{GPU}}}": "410x30", f"lull_gpu_power_limit_watts{{{GPU}}}": "400x30"}),
    "LullClockLeftLow": ({f"lull_gpu_clock_lock_hertz{{{GPU}}}": "9e8x30", f"lull_gpu_leased{{{GPU}}}": "0x30"},
                         {f"lull_gpu_clock_lock_hertz{{{GPU}}}": "9e8x30", f"lull_gpu_leased{{{GPU}}}": "1x30"}),
    "LullSavingLost": ({f"lull_run_saving_ratio{{{RUN}}}": "0.1x10 0.01x30"}, {f"lull_run_saving_ratio{{{RUN}}}": "0.1x10 0.08x30"}),
    "LullGuardBackingOff": ({f'lull_run_verdict{{{RUN},verdict="not degraded"}}': "1x10 0x30",
                             f'lull_run_verdict{{{RUN},verdict="nothing kept"}}': "0x10 1x30"},
                            {f'lull_run_verdict{{{RUN},verdict="not degraded"}}': "1x40",
                             f'lull_run_verdict{{{RUN},verdict="nothing kept"}}': "0x40"}),
    "LullJobHangs": ({f"lull_run_hung{{{RUN}}}": "0x10 1x30"}, {f"lull_run_hung{{{RUN}}}": "0x40"}),
    "LullServerBlind": ({f'lull_serving_mode{{{RUN},mode="blind"}}': "1x40"}, {f'lull_serving_mode{{{RUN},mode="blind"}}': "0x40"}),
    # Of 50 requests a minute, two miss the objective; of the silent case one in five minutes.
    "LullObjectiveMissed": ({f"lull_serving_requests_total{{{RUN}}}": "0+50x40", f"lull_serving_missed_requests_total{{{RUN}}}": "0+2x40",
                             f"lull_serving_share_ratio{{{RUN}}}": "0.99x40"},
                            {f"lull_serving_requests_total{{{RUN}}}": "0+50x40", f"lull_serving_missed_requests_total{{{RUN}}}": "0+0.2x40",
                             f"lull_serving_share_ratio{{{RUN}}}": "0.99x40"}),
}


def alert_cases():
    rules = {row["alert"]["name"] for row in table() if "alert" in row}
    assert rules == set(CASES), rules ^ set(CASES)
    made = []
    for name, (firing, silent) in CASES.items():
        for number, series in enumerate((firing, silent)):
            expression = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)'
            made.append({"interval": "1m", "input_series": [{"series": key, "values": value} for key, value in series.items()],
                         "promql_expr_test": [{"expr": expression, "eval_time": "29m", "exp_samples": [{"labels": "{}", "value": 1 - number}]}]})
    return {"rule_files": [os.path.join(ROOT, "packaging", "prometheus-lull.rules.yml")], "evaluation_interval": "1m", "tests": made}


class Described(unittest.TestCase):
    def test_generated_files_are_current(self):
        subprocess.run([sys.executable, os.path.join(ROOT, "tools", "metrics"), "--check"], check=True)

    @unittest.skipIf(not os.access(SCHEMATHESIS, os.X_OK), "skipped: schemathesis is not installed")
    def test_schemathesis(self):
        node = serve_case.Node(LULL, LULLD, LIVE_RUN)
        try:
            serve = node.serve()
            node.publish((0, 4, 21000), (1, 1, "nan"))
            done = subprocess.run([SCHEMATHESIS, "run", "--exclude-path", "/api/v1/stream", "--max-examples", "8", "--seed", "1", "--no-color",
                                   "--generation-database", "none", "--rate-limit", "20/s", "--phases", "examples,coverage,fuzzing",
                                   f"{serve.address}api/v1/openapi.json"], capture_output=True, text=True, check=False, timeout=240,
                                  cwd=node.directory.name, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        finally:
            node.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
