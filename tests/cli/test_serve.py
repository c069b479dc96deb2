#!/usr/bin/env python3
"""`lull serve` on a node where GPUs have no energy counter, a counter that starts again, MIG, or are lost: figures in /metrics
and JSON; who may ask, and how much; streams.

Run as: lull emulate 8xMODEL -- test_serve.py LULL LULLD LIVE_RUN TOOL. SPDX-License-Identifier: Apache-2.0
"""
import base64
import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import serve_case  # noqa: E402
from slow_clients import SlowClients  # noqa: E402
from serve_case import find, host  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LULL, LULLD, LIVE_RUN, TOOL = map(os.path.abspath, sys.argv[1:5])
WELL, NO_COUNTER, RESET, PARTITIONED, LOST = range(5)
TOKEN = "correct-horse-battery-staple"
BOUND_S = 60


def spoil(*faults):
    for fault in faults:
        subprocess.run([TOOL, "fault", fault], check=True, timeout=60)


def shown(samples, name, gpu):
    return find(samples, name, gpu=str(gpu))


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = serve_case.Node(LULL, LULLD, LIVE_RUN)
        spoil(f"{NO_COUNTER}:no_energy=1", f"{RESET}:energy_wrap_j=40", f"{PARTITIONED}:mig=3")
        cls.serve = cls.node.serve("--runs", cls.node.directory.name)
        # With a viewer the node is looked at five times a second.
        cls.viewer = cls.serve.open_stream()
        cls.serve.json("/api/v1/node")
        spoil(f"{LOST}:lost_ms=3600000x1")

    @classmethod
    def tearDownClass(cls):
        cls.viewer.close()
        cls.node.close()

    def settle(self, condition):
        """The node's document once the condition holds."""
        found = []

        def holds():
            document = self.serve.json("/api/v1/node")
            if condition(document):
                found.append(document)
            return bool(found)

        self.assertIsNotNone(host.wait_for(holds, BOUND_S, 0.1))
        return found[0]

    def reason(self, samples, gpu, figure):
        """Why a figure has no series, None if it has one."""
        (labels, value), = find(samples, "lull_gpu_figure_valid", gpu=str(gpu), figure=figure)
        self.assertEqual(value, "reason" not in labels)
        return labels.get("reason")

    def test_a_healthy_gpu(self):
        document = self.settle(lambda node: node["gpus"][WELL]["daemon"] is not None)
        gpu, samples = document["gpus"][WELL], self.serve.metrics()
        self.assertEqual(gpu["unknown"], {})
        self.assertEqual(gpu["uuid"], self.node.gpus[WELL]["uuid"])
        (labels, watts), = shown(samples, "lull_gpu_power_watts", WELL)
        self.assertEqual(labels["UUID"], gpu["uuid"])
        self.assertAlmostEqual(watts, gpu["power_w"], delta=0.2 * gpu["power_w"])
        self.assertEqual(shown(samples, "lull_gpu_clock_max_hertz", WELL)[0][1], gpu["sm_clock_max_mhz"] * 1e6)
        self.assertGreaterEqual(shown(samples, "lull_gpu_energy_joules_total", WELL)[0][1], gpu["energy_j"])
        self.assertEqual([labels["state"] for labels, value in shown(samples, "lull_gpu_state", WELL) if value == 1], ["UP"])

    def test_slow_figures_say_their_age(self):
        """Five looks a second read the clock; the energy is read with one of them, and then again, and says how old it is."""
        def lag_s(node):
            gpu = node["gpus"][WELL]
            self.assertLessEqual(0.0, gpu["age_s"])
            return gpu["slow_age_s"] - gpu["age_s"]

        later = self.settle(lambda node: lag_s(node) > 0.05)["gpus"][WELL]
        self.assertIsNotNone(later["energy_j"])
        again = self.settle(lambda node: abs(lag_s(node)) < 1e-6)["gpus"][WELL]
        self.assertGreater(again["energy_j"], later["energy_j"])
        self.assertEqual(len(shown(self.serve.metrics(), "lull_gpu_slow_age_seconds", WELL)), 1)

    def test_a_missing_counter_is_no_zero(self):
        gpu, samples = self.serve.json("/api/v1/node")["gpus"][NO_COUNTER], self.serve.metrics()
        self.assertIsNone(gpu["energy_j"])
        self.assertIn("no energy counter", gpu["unknown"]["energy_j"])
        self.assertEqual(shown(samples, "lull_gpu_energy_joules_total", NO_COUNTER), [])
        self.assertEqual(self.reason(samples, NO_COUNTER, "energy"), gpu["unknown"]["energy_j"])
        self.assertIsNone(self.reason(samples, NO_COUNTER, "power"))

    def test_a_counter_that_begins_anew(self):
        document = self.settle(lambda node: node["gpus"][RESET]["energy_resets"] > 1)
        samples = self.serve.metrics()
        self.assertGreaterEqual(shown(samples, "lull_gpu_energy_resets_total", RESET)[0][1], document["gpus"][RESET]["energy_resets"])
        self.assertLess(shown(samples, "lull_gpu_energy_joules_total", RESET)[0][1], 40.0)
        self.assertEqual(shown(samples, "lull_gpu_energy_resets_total", WELL)[0][1], 0)

    def test_slices_are_counted_once(self):
        document = self.settle(lambda node: (node["gpus"][PARTITIONED]["daemon"] or {}).get("mig"))
        gpu, samples = document["gpus"][PARTITIONED], self.serve.metrics()
        self.assertEqual([value for _, value in shown(samples, "lull_gpu_partitioned", PARTITIONED)], [1])
        self.assertEqual(len(shown(samples, "lull_gpu_power_watts", PARTITIONED)), 1)
        known = [gpu["power_w"] for gpu in document["gpus"] if gpu["power_w"] is not None]
        self.assertAlmostEqual(document["power_w"], sum(known), places=3)
        self.assertEqual(document["power_gpus"], len(known))
        self.assertIs(gpu["leased"], False)

    def test_a_lost_gpu(self):
        document = self.settle(lambda node: not node["gpus"][LOST]["answers"])
        gpu, samples = document["gpus"][LOST], self.serve.metrics()
        for key in ("power_w", "energy_j", "sm_clock_mhz", "temperature_c", "reasons"):
            self.assertIsNone(gpu[key])
            self.assertIn("lost", gpu["unknown"][key])
        for name in ("lull_gpu_power_watts", "lull_gpu_energy_joules_total", "lull_gpu_clock_hertz", "lull_gpu_clock_limited"):
            self.assertEqual(shown(samples, name, LOST), [])
        self.assertEqual(self.reason(samples, LOST, "power"), gpu["unknown"]["power_w"])
        self.assertEqual([value for _, value in shown(samples, "lull_gpu_answers", LOST)], [0])
        self.assertLess(document["power_gpus"], len(document["gpus"]))

    def test_four_ranks_on_one_of_eight_gpus(self):
        process, name = self.node.publish((WELL, 4, 21000), *((index, 0, 5000) for index in range(1, 8)))
        job = next(job for job in self.settle(lambda node: name in [job["name"] for job in node["jobs"]])["jobs"] if job["name"] == name)
        samples = self.serve.metrics()
        self.assertEqual([(gpu["index"], gpu["ranks"]) for gpu in job["gpus"]], [(WELL, 4)])
        self.assertEqual((job["gpus_unused"], job["energy_j"]), (7, 21000))
        (labels, joules), = find(samples, "lull_run_energy_joules_total", run=name)
        self.assertEqual(joules, 21000)
        self.assertEqual(labels, {"run": name, "slurm_job_id": "4711", "pod": "trainer-0", "namespace": "research"})
        (labels, joules), = find(samples, "lull_run_gpu_energy_joules_total", run=name)
        self.assertEqual((labels["UUID"], joules), (self.node.gpus[WELL]["uuid"], 21000))
        self.assertEqual([value for _, value in find(samples, "lull_run_gpu_ranks", run=name)], [4])
        self.assertEqual(dict((labels["kind"], value) for labels, value in find(samples, "lull_run_gpu_dropped_events_total", run=name)),
                         {"event": 3, "record": 0})
        sections = {labels["section"]: value for labels, value in find(samples, "lull_run_section_energy_joules_total", run=name)}
        self.assertEqual(sections, {"communication": 2500})
        self.assertIn("shorter", job["gpus"][0]["sections"][1]["unknown"]["energy_j"])
        self.assertEqual(find(samples, "lull_run_budget_left_seconds", run=name)[0][1], -0.02)
        self.assertEqual(job["command"], 'torchrun train.py --tag "<b>\ufffd"')
        page = self.serve.ask("/")[2]
        self.assertIn("&quot;&lt;b&gt;", page)
        self.assertNotIn('"<b>', page)
        serve_case.end(process)
        self.settle(lambda node: name not in [job["name"] for job in node["jobs"]])
        self.assertNotIn(name, self.serve.ask("/metrics")[2])
        self.assertNotIn(name, self.serve.ask("/")[2])

    def test_an_unknown_energy_of_a_run(self):
        process, name = self.node.publish((NO_COUNTER, 1, "nan"))
        job = next(job for job in self.settle(lambda node: name in [job["name"] for job in node["jobs"]])["jobs"] if job["name"] == name)
        samples = self.serve.metrics()
        self.assertIsNone(job["energy_j"])
        self.assertEqual(find(samples, "lull_run_energy_joules_total", run=name), [])
        (labels, value), = find(samples, "lull_run_figure_valid", run=name, figure="energy")
        self.assertEqual((value, labels["reason"]), (0, job["unknown"]["energy_j"]))
        # Nor does the page make a figure of what is not known.
        self.assertIsNone(job["saving_ratio"])
        tile = re.search(r'data-live="saving">(.*?)</dd>', self.serve.ask("/")[2])[1]
        self.assertEqual(tile, "<em>not known</em>")
        serve_case.end(process)

    def test_a_run_that_has_lowered_nothing(self):
        process, name = self.node.publish((WELL, 1, 0))
        job = next(job for job in self.settle(lambda node: name in [job["name"] for job in node["jobs"]])["jobs"] if job["name"] == name)
        self.assertEqual((job["saving_ratio"], job["unknown"]["saving_ratio"]), (None, "nothing is lowered"))
        page = self.serve.ask("/")[2]
        row = re.findall(r'data-live="saving_ratio-\d+">(.*?)<small>(.*?)</small>', page)
        self.assertIn(("nothing yet", "nothing is lowered"), row)
        serve_case.end(process)

    def test_a_server(self):
        """Its requests, latencies and energy per token; what is not known has a reason and no series."""
        def publish(mode):
            process, name = self.node.publish((WELL, 1, 21000), env=dict(os.environ, LIVE_RUN_SERVER=str(mode)))
            self.addCleanup(serve_case.end, process)
            return name, next(job for job in self.settle(lambda node: name in [job["name"] for job in node["jobs"]])["jobs"] if job["name"] == name)

        name, job = publish(4)
        samples = self.serve.metrics()
        self.assertEqual((job["ruler"], job["serving"]["mode"], job["serving"]["objective"]),
                         ("latency objective", "proven", "TTFT 500 ms, TPOT 50 ms, p99"))
        self.assertEqual((job["saving_ratio"], find(samples, "lull_run_saving_ratio", run=name)[0][1]), (0.312, 0.312))
        self.assertEqual((job["serving"]["missed"], job["serving"]["parked_s"], job["serving"]["parked_now_s"]), (49, 512, None))
        self.assertEqual(find(samples, "lull_serving_tpot_seconds", run=name, percentile="50")[0][1], 0.03125)
        self.assertEqual(find(samples, "lull_serving_output_token_energy_joules", run=name)[0][1], 0.42)
        self.assertEqual([labels["mode"] for labels, value in find(samples, "lull_serving_mode", run=name) if value == 1], ["proven"])
        self.assertEqual({value for _, value in find(samples, "lull_serving_figure_valid", run=name)}, {1})
        page = self.serve.ask("/")[2]
        for text in ("<h2>Servers</h2>", "7 running", "p99 430 ms", "bound 500 ms", "0.4 %", "of 12,345 requests", "0.42 J", "all requests &lt;meet&gt; the objective"):
            self.assertIn(text, page)
        blind, job = publish(1)
        samples = self.serve.metrics()
        self.assertEqual((job["serving"]["running"], job["serving"]["missed"]), (None, None))
        self.assertEqual((job["saving_ratio"], job["unknown"]["saving_ratio"]), (None, "not measured yet"))
        self.assertEqual({key for key, value in job["serving"].items() if value is None}, set(job["serving"]["unknown"]))
        self.assertEqual(find(samples, "lull_serving_ttft_seconds", run=blind), [])
        (labels, value), = find(samples, "lull_serving_figure_valid", run=blind, figure="ttft")
        self.assertEqual((value, labels["reason"]), (0, "the server's metrics are not read"))
        self.assertIn('<span class="trouble">blind</span>', self.serve.ask("/")[2])

    def test_every_null_has_a_reason(self):
        for gpu in self.settle(lambda node: not node["gpus"][LOST]["answers"])["gpus"]:
            self.assertEqual({key for key, value in gpu.items() if value is None}, set(gpu["unknown"]))

    def test_runs(self):
        os.makedirs(os.path.join(self.node.directory.name, "first"))
        with open(os.path.join(ROOT, "docs", "user", "report-example.json"), encoding="utf-8") as file:
            report = file.read()
        with open(os.path.join(self.node.directory.name, "first", "report.json"), "w", encoding="utf-8") as file:
            file.write(report)
        self.assertIsNotNone(host.wait_for(lambda: self.serve.json("/api/v1/runs")["runs"], BOUND_S, 0.1))
        run, = self.serve.json("/api/v1/runs")["runs"]
        verdict = json.loads(report)["verdict"]
        self.assertEqual((run["name"], run["sentence"], run["saving_ratio"]), ("first", verdict["sentence"], verdict["saving_ratio"]))
        self.assertEqual(self.serve.json("/api/v1/runs/first")["verdict"]["sentence"], verdict["sentence"])
        status, _, page = self.serve.ask("/runs/first")
        self.assertEqual(status, 200)
        for line in ("energy_line", "time_line", "next_line"):
            self.assertIn(html.escape(verdict[line]).split("; ")[0], page)
        for name in ("second", "..", ".", "%2e%2e", "..%2ffirst", "first%2f..", ""):
            self.assertEqual(self.serve.ask("/api/v1/runs/" + name)[0], 404, name)
            self.assertEqual(self.serve.ask("/runs/" + name)[0], 404, name)

    def test_runs_of_any_name(self):
        """F55, F56: each name is shown as text and its link leads to its page; a pipe for a report is not waited for."""
        names = [b"odd#name?x=1%41", b'q"><b>', b"ctl\x1b[31m\n", b"bad\xff\xfe", b"a b&c'+;", "\u00e4\u20ac".encode()]
        for name in names:
            folder = os.path.join(self.node.directory.name.encode(), name)
            os.makedirs(folder)
            self.addCleanup(shutil.rmtree, folder)
            shutil.copy(os.path.join(ROOT, "docs", "user", "report-example.json").encode(), os.path.join(folder, b"report.json"))
        pipe = os.path.join(self.node.directory.name, "pipe")
        os.makedirs(pipe)
        os.mkfifo(os.path.join(pipe, "report.json"))
        wanted = sorted(name.decode("utf-8", "replace") for name in names)
        self.assertIsNotNone(host.wait_for(
            lambda: set(wanted) <= {run["name"] for run in self.serve.json("/api/v1/runs")["runs"]}, BOUND_S, 0.1))
        runs = [run for run in self.serve.json("/api/v1/runs")["runs"] if run["name"] in wanted]
        self.assertEqual(sorted(run["name"] for run in runs), wanted)
        page = self.serve.ask("/")[2]
        for run in runs:
            self.assertRegex(run["address"], r"^/runs/[A-Za-z0-9._~%-]+$")
            self.assertIn(f'<a href="{run["address"]}">', page)
            self.assertEqual(self.serve.ask(run["address"])[0], 200, run)
            self.assertEqual(self.serve.ask("/api/v1" + run["address"])[0], 200, run)
        self.assertNotIn("q\"><b>", page)
        self.assertNotIn("\x1b", page)
        self.assertEqual(self.serve.ask("/runs/pipe")[0], 404)
        self.assertEqual(self.serve.ask("/metrics")[0], 200)


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = serve_case.Node(LULL, LULLD, LIVE_RUN)
        cls.serve = cls.node.serve()

    @classmethod
    def tearDownClass(cls):
        cls.node.close()

    def test_forms_of_metrics(self):
        for accept, form in ((None, "text/plain"), ("*/*", "text/plain"), ("application/openmetrics-text", "application/openmetrics-text"),
                             ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                              "application/openmetrics-text"), ("application/openmetrics-text;q=0,text/*;q=0.1", "text/plain")):
            _, headers, body = self.serve.ask("/metrics", {"Accept": accept} if accept else {})
            self.assertTrue(headers["Content-Type"].startswith(form), accept)
            self.assertEqual(body.endswith("# EOF\n"), form != "text/plain")
            self.assertEqual("# UNIT lull_gpu_power_watts watts\n" in body, form != "text/plain")

    def test_errors(self):
        for path, method, status in (("/nothing", "GET", 404), ("/metrics", "POST", 405), ("/api/v1/node", "DELETE", 405),
                                     ("/api/v1/stream?as=xml", "GET", 400), ("/api/v1/stream?rate_hz=50", "GET", 400),
                                     ("/api/v1/stream?rate_hz=", "GET", 400), ("/api/v1/stream?rate_hz=nan", "GET", 400)):
            got, _, body = self.serve.ask(path, method=method)
            self.assertEqual(got, status, path)
            self.assertTrue(json.loads(body)["error"])
        self.assertEqual(self.serve.ask("/metrics", {"X-Long": "x" * 100000})[0], 431)
        self.assertEqual(self.serve.ask("/metrics", method="HEAD")[0], 200)

    def test_another_name_is_refused(self):
        for name, status in (("localhost", 200), ("127.0.0.1:9", 200), ("[::1]:80", 200), ("evil.example", 403), ("127.0.0.1.evil.example", 403),
                             ("localhost:x", 403), ("", 403)):
            self.assertEqual(self.serve.ask("/api/v1/node", {"Host": name})[0], status, name)

    def test_a_connection_is_used_again(self):
        connection = self.serve.connect()
        for _ in range(3):
            connection.request("GET", "/api/v1/node")
            answer = connection.getresponse()
            answer.read()
            self.assertNotEqual(answer.getheader("Connection"), "close")
        connection.close()

    def test_the_page(self):
        _, headers, page = self.serve.ask("/")
        nonce = re.search(r"script-src 'nonce-(\w{32})'", headers["Content-Security-Policy"])[1]
        self.assertIn(f'<script nonce="{nonce}">', page)
        self.assertEqual(page.count("<script"), 1)
        self.assertNotRegex(page, r"(src|href|url\()\W*https?:") # nothing is loaded; a message may name an address
        self.assertNotIn(nonce, self.serve.ask("/")[1]["Content-Security-Policy"])
        for gpu in self.node.gpus:
            self.assertIn(gpu["uuid"], page)

    def test_other_addresses_need_a_token(self):
        done = subprocess.run([LULL, "serve", "--address", "0.0.0.0", "--port", "0"], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 3)
        self.assertIn("--token-file", done.stderr)
        path = os.path.join(self.node.directory.name, "token")
        for text, mode, status, words in ((TOKEN, 0o644, 3, "chmod 600"), ("short", 0o600, 2, "openssl"), ("", 0o600, 2, "openssl")):
            with open(path, "w", encoding="ascii") as file:
                file.write(text + "\n")
            os.chmod(path, mode)
            done = subprocess.run([LULL, "serve", "--token-file", path], capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(done.returncode, status)
            self.assertIn(words, done.stderr)

    def test_a_token(self):
        path = os.path.join(self.node.directory.name, "good-token")
        with open(path, "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        os.chmod(path, 0o600)
        serve = self.node.serve("--address", "0.0.0.0", "--token-file", path)

        def basic(text):
            return "Basic " + base64.b64encode(text.encode()).decode()

        for value, status in ((None, 401), ("Bearer " + TOKEN, 200), ("bearer " + TOKEN, 200), ("Bearer " + TOKEN + "x", 401),
                              ("Bearer " + TOKEN[:-1], 401), ("Bearer ", 401), (basic("any:" + TOKEN), 200), (basic(TOKEN), 401),
                              (basic("any:" + TOKEN[1:]), 401), ("Basic !!", 401)):
            got, headers, _ = serve.ask("/metrics", {"Authorization": value} if value else {})
            self.assertEqual(got, status, value)
            self.assertEqual("WWW-Authenticate" in headers, status == 401)


class OtherUsers(unittest.TestCase):
    """Whose runs are shown, by whom."""
    ALICE, BOB, VIEWERS = 12001, 12002, 12345

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("skipped: only root can be other users")
        for program in (LULL, LIVE_RUN):
            host.require_open(program)
        self.node = serve_case.Node(LULL, LULLD, LIVE_RUN)
        self.addCleanup(self.node.close)
        os.chmod(self.node.directory.name, 0o755)

    def as_user(self, user, *groups):
        return {"user": user, "group": user, "extra_groups": list(groups), "cwd": "/"}

    def token(self, user):
        path = os.path.join(self.node.directory.name, f"token-{user}")
        with open(path, "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        os.chmod(path, 0o600)
        os.chown(path, user, user)
        return path

    def users_shown(self, user, *groups, is_for_all):
        options = ("--all-users", "--token-file", self.token(user)) if is_for_all else ()
        serve = self.node.serve(*options, **self.as_user(user, *groups))
        _, _, body = serve.ask("/api/v1/node", {"Authorization": "Bearer " + TOKEN})
        return sorted(job["uid"] for job in json.loads(body)["jobs"] if job["uid"] in (self.ALICE, self.BOB))

    def test_runs_are_shown_to_those_who_may_see_them(self):
        self.node.publish((0, 1, 10), **self.as_user(self.ALICE))
        self.node.publish((1, 1, 10), **self.as_user(self.BOB),
                          env=dict(os.environ, LIVE_RUN_VIEWERS=str(self.VIEWERS)))
        for user, groups, is_for_all, shown_users in (
                (self.ALICE, (), False, [self.ALICE]),
                (self.ALICE, (), True, [self.ALICE]),                          # Bob's is open to viewers alone
                (self.ALICE, (self.VIEWERS,), False, [self.ALICE]),
                (self.ALICE, (self.VIEWERS,), True, [self.ALICE, self.BOB]),
                (12003, (self.VIEWERS,), True, [self.BOB]),                     # a service of its own
                (0, (), True, [self.ALICE, self.BOB]),
                (0, (), False, [])):
            self.assertEqual(self.users_shown(user, *groups, is_for_all=is_for_all), shown_users, (user, groups, is_for_all))

    def test_runs_of_others_need_a_token(self):
        done = subprocess.run([LULL, "serve", "--all-users", "--port", "0"], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--token-file", done.stderr)

    def test_a_forged_run_does_not_speak_for_a_leased_gpu(self):
        """Bob claims a GPU that lulld has leased to Alice; the page shows her run, in whatever order their names come."""
        holder = subprocess.Popen([TOOL, "hold", "daemon", self.node.gpus[0]["uuid"], "900"], stdout=subprocess.PIPE, text=True,
                                  **self.as_user(self.ALICE))
        self.node.ends.append(lambda: host.stop_all([holder]))
        self.assertIn("lowered", holder.stdout.readline())
        for user, ranks in ((self.BOB, 7), (self.ALICE, 3), (self.BOB, 7)):
            self.node.publish((0, ranks, 10), **self.as_user(user))
        serve = self.node.serve("--all-users", "--token-file", self.token(0))
        _, _, page = serve.ask("/", {"Authorization": "Bearer " + TOKEN})
        work = re.search(r'<td data-live="work-0">(.*?)</td>', page, re.S)[1]
        self.assertIn(", 3 ranks", work)


class Bounds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = serve_case.Node(LULL, LULLD, LIVE_RUN)
        cls.serve = cls.node.serve()

    @classmethod
    def tearDownClass(cls):
        cls.node.close()

    def test_requests_per_second(self):
        connection = self.serve.connect()
        codes = set()
        end = time.monotonic() + BOUND_S
        while 429 not in codes and time.monotonic() < end:
            connection.request("GET", "/api/v1/runs")
            answer = connection.getresponse()
            answer.read()
            codes.add(answer.status)
        connection.close()
        self.assertEqual(codes, {200, 429})
        self.assertEqual(self.serve.ask("/metrics")[0], 200)  # another path has its own share
        self.assertGreater(find(self.serve.metrics(), "lull_serve_refused_requests_total")[0][1], 0)

    def test_f62_slow_clients_keep_nobody_out(self):
        slow = SlowClients(self.serve.port, 80, [b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"", b"GET /metrics HTTP/1.1\r\n\r"])
        self.addCleanup(slow.end)
        for _ in range(8):
            began = time.monotonic()
            self.assertEqual(self.serve.ask("/metrics")[0], 200)
            self.assertLess(time.monotonic() - began, 5)
            time.sleep(0.5)

    def test_f62_a_request_has_a_deadline(self):
        slow = SlowClients(self.serve.port, 4, [b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "], is_lasting=False)
        self.addCleanup(slow.end)
        time.sleep(3)
        self.assertTrue(all(slow.is_open(connection) for connection in slow.connections))
        self.assertIsNotNone(slow.wait_closed(30))
        connection = self.serve.connect()  # the deadline is of each request, not of the connection
        for _ in range(2):
            connection.request("GET", "/metrics")
            self.assertEqual(connection.getresponse().read()[:1], b"#")
            time.sleep(9)
        connection.request("GET", "/metrics")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def test_a_stream(self):
        connection = self.serve.open_stream()
        data = b""
        while data.count(b"event: node") < 3:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        self.assertIn(b"text/event-stream", head)
        text = re.sub(rb"(?:^|\r\n)[0-9a-f]+\r\n", b"", body)
        first = re.search(rb"data: (\{.*?\})\n\n", text)[1]
        self.assertEqual(len(json.loads(first)["gpus"]), 8)
        numbers = [int(number) for number in re.findall(rb"^id: (\d+)$", text, re.M)]
        self.assertEqual(numbers, sorted(set(numbers)))
        connection.close()

    def test_the_pages_stream(self):
        connection = self.serve.open_stream("?as=html&rate_hz=5")
        data = b""
        while data.count(b"event: page") < 2:
            data += connection.recv(65536)
        self.assertIn(b"data-live", data)
        connection.close()

    def test_streams_are_bounded(self):
        """Viewers who read nothing delay no other, and one more than permitted gets an error."""
        viewers = [self.serve.open_stream() for _ in range(32)]
        self.assertIsNotNone(host.wait_for(lambda: self.serve.json("/api/v1/node")["serve"]["viewers"] == 32, BOUND_S, 0.05))
        self.assertEqual(self.serve.ask("/api/v1/stream")[0], 503)
        self.assertEqual(self.serve.ask("/metrics")[0], 200)
        for viewer in viewers:
            viewer.close()
        self.assertIsNotNone(host.wait_for(lambda: self.serve.json("/api/v1/node")["serve"]["viewers"] == 0, BOUND_S, 0.05))

    def test_it_ends_with_viewers(self):
        serve = self.node.serve()
        connection = serve.open_stream()
        self.assertTrue(connection.recv(1000))
        self.node.ends.remove(serve.stop)
        self.assertEqual(serve.stop(), 0)
        while connection.recv(65536):
            pass
        connection.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
