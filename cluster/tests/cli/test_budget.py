#!/usr/bin/env python3
"""`lull budget` on an emulated node of four busy GPUs.

Run as: lull emulate SPEC -- test_budget.py LULLD TOOL LULL. The OpenADR 3 server is a small one of this file, behind
the standard's paths; where the PyPI package openadr3 can be imported, it makes the event and reads it back as well.
SPDX-License-Identifier: Apache-2.0
"""

import datetime
import errno
import http.server
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests"))
import host  # noqa: E402
from slow_clients import SlowClients  # noqa: E402

LULLD, TOOL, LULL = sys.argv[1:4]
GPUS = 4
USER, OPERATORS = 12001, 12005
SECRET = "a secret of this test alone"


def status():
    return json.loads(subprocess.run([LULL, "status", "--json"], capture_output=True, check=True).stdout)["gpus"]


def clocks():
    return [gpu["applied_sm_mhz"] for gpu in status()]


def draw_w():
    return sum(gpu["power_w"] or 0 for gpu in status())


class Vtn(http.server.BaseHTTPRequestHandler):
    """GET, POST and DELETE of /events, for those who have the token."""

    events, asked, token = [], [], "token-of-the-vtn"

    def log_message(self, *_):
        pass

    def answer(self, code, value):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_refused(self):
        if self.headers.get("Authorization") == "Bearer " + self.token:
            return False
        self.answer(403, {"title": "forbidden", "status": 403})
        return True

    def do_GET(self):
        if not self.is_refused():
            Vtn.asked.append(self.path)
            self.answer(200, Vtn.events)

    def do_POST(self):
        if not self.is_refused():
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            event.update(id="event-1", createdDateTime=now, modificationDateTime=now, objectType="EVENT")
            Vtn.events.append(event)
            self.answer(201, event)


class Budget(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-budget-")
        os.chmod(self.directory, 0o755)
        os.environ["LULL_RUNTIME_DIR"] = self.path("run")
        self.processes = []
        self.addCleanup(self.end)

    def end(self):
        host.stop_all(self.processes)
        subprocess.run([LULL, "restore"], capture_output=True, check=False)
        host.remove(self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.processes.append(process)
        return process

    def write(self, name, text, mode=0o644):
        with open(self.path(name + ".new"), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name + ".new"), mode)
        os.rename(self.path(name + ".new"), self.path(name))
        return self.path(name)

    def start_daemon(self, *options):
        return host.start_lulld(self.spawn, LULLD, *options, stderr=subprocess.DEVNULL)

    def start_busy(self):
        for gpu in range(GPUS):
            self.spawn(TOOL, "busy", str(gpu)).stdout.readline()
        self.wait(lambda: draw_w() > GPUS * 300, 10)
        return draw_w()

    def start_budget(self, **options):
        return self.spawn(LULL, "budget", self.path("budget.conf"), stderr=subprocess.DEVNULL, **options)

    def wait(self, condition, limit_s, message=None):
        taken_s = host.wait_for(condition, limit_s, 0.1)
        self.assertIsNotNone(taken_s, message or f"clocks {clocks()}, {draw_w():.0f} W")
        return taken_s

    def wait_free(self, limit_s=10):
        return self.wait(lambda: clocks() == [None] * GPUS, limit_s)

    def test_a_budget_is_held_changed_and_survives_deaths(self):
        daemon = self.start_daemon()
        free_w = self.start_busy()
        self.write("budget.conf", f"[budget]\nlimit-w = {0.75 * free_w:.0f}\nhold-s = 2\n")
        budget = self.start_budget()
        taken_s = self.wait(lambda: draw_w() <= 0.757 * free_w, 10)
        print(f"a budget of 75 %: held after {taken_s:.1f} s")
        self.write("budget.conf", f"[budget]\nlimit-w = {0.5 * free_w:.0f}\nhold-s = 2\n")
        self.wait(lambda: draw_w() <= 0.505 * free_w, 10)
        self.write("budget.conf", "[budget]\nlimit-w = none\n")  # is told, and changes nothing
        budget.kill()
        budget.wait()
        self.wait_free()
        self.write("budget.conf", f"[budget]\nlimit-w = {0.5 * free_w:.0f}\n")
        budget = self.start_budget()
        self.wait(lambda: None not in clocks(), 10)
        daemon.kill()
        daemon.wait()
        for gpu in range(GPUS):
            self.wait(lambda gpu=gpu: subprocess.run([TOOL, "truth", str(gpu)], capture_output=True, check=True,
                                                     text=True).stdout.strip() == "free", 10, "not restored")
        self.start_daemon()
        self.wait(lambda: None not in clocks(), 10)
        budget.terminate()
        self.assertEqual(budget.wait(30), 0)
        self.assertEqual([gpu["cap"] for gpu in status()], [None] * GPUS)
        self.wait_free()

    def test_a_grid_is_followed_and_willingness_kept(self):
        self.start_daemon()
        free_w = self.start_busy()
        self.write("secret", SECRET + "\n", 0o600)
        self.write("token", Vtn.token + "\n", 0o600)
        vtn = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Vtn)
        threading.Thread(target=vtn.serve_forever, daemon=True).start()
        self.addCleanup(vtn.server_close)
        self.addCleanup(vtn.shutdown)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.write("budget.conf", f"""[budget]
            grid-file = {self.path("grid.json")}
            webhook = 127.0.0.1:{port}
            webhook-token = {self.path("secret")}
            openadr = http://127.0.0.1:{vtn.server_port}/3.0.1
            openadr-token = {self.path("token")}
            openadr-program = peak
            openadr-poll-s = 1
            [node here]
            [job important]
            gpus = here:0
            least = 80%""")
        self.refuse_open_secrets("secret", "token")
        self.start_budget()
        holder = self.spawn(TOOL, "hold", "daemon", status()[3]["uuid"], "1200")  # bears 600 MHz, no less
        self.assertIn("status=0", holder.stdout.readline())
        self.by_webhook(port, 0.7 * free_w)
        self.wait(lambda: draw_w() <= 0.707 * free_w, 10)
        self.assertGreaterEqual(clocks()[0] or 1410, 0.8 * 1410 - 15)
        self.by_webhook(port, 1.0)  # is beyond what they bear
        self.wait(lambda: clocks()[2] == 210, 10)
        self.assertGreaterEqual(clocks()[0], 0.8 * 1410 - 15)
        self.assertGreaterEqual(clocks()[3], 600)
        # An A100 draws less there than the lowest limit that it takes, so once that is seen there is none.
        self.wait(lambda: [gpu["power_limit_w"] for gpu in status()] == [None] * GPUS, 20)
        os.remove(self.path("grid.json"))
        self.wait(lambda: clocks()[:3] == [None] * 3 and status()[1]["power_limit_w"] is None, 10)
        self.by_openadr(vtn.server_port, 0.7 * free_w)
        self.wait(lambda: draw_w() <= 0.707 * free_w, 15)
        Vtn.events.clear()
        self.wait(lambda: clocks()[:3] == [None] * 3, 10)
        self.assertIn("/3.0.1/events?programID=peak", Vtn.asked)

    def refuse_open_secrets(self, *names):
        for name in names:
            os.chmod(self.path(name), 0o640)
            done = subprocess.run([LULL, "budget", self.path("budget.conf")], capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"{self.path(name)}: others can read the secret in it; chmod 600 it", done.stderr)
            os.chmod(self.path(name), 0o600)

    def post(self, port, body, secret=SECRET, path="/grid"):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body,
                                         {"Authorization": "Bearer " + secret}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except urllib.error.URLError:
            return 0, ""

    def by_webhook(self, port, target_w):
        event = json.dumps({"target_w": target_w, "duration_s": 600}).encode()
        self.wait(lambda: self.post(port, b"{}", "no secret at all, but long")[0] == 401, 10)
        self.assertEqual(self.post(port, event, path="/other")[0], 404)
        code, text = self.post(port, b'{"target_w": "much"}')
        self.assertEqual(code, 400)
        self.assertIn("target_w", text)
        self.assertEqual(self.post(port, b" " * 300000)[0], 413)
        self.assertEqual(self.post(port, event)[0], 204)
        self.f62_slow_clients_keep_no_event_out(port, event)

    def f62_slow_clients_keep_no_event_out(self, port, event):
        slow = SlowClients(port, 40, [b"POST /grid HTTP/1.1\r\nHost: a\r\nX-A: ",
                                      b"POST /grid HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"])
        for _ in range(4):
            began = time.monotonic()
            self.assertEqual(self.post(port, event)[0], 204)
            self.assertLess(time.monotonic() - began, 5)
            time.sleep(0.5)
        slow.end()

    def by_openadr(self, port, target_w):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {"programID": "peak", "eventName": "less",
                 "payloadDescriptors": [{"objectType": "EVENT_PAYLOAD_DESCRIPTOR",
                                         "payloadType": "IMPORT_CAPACITY_LIMIT", "units": "KW"}],
                 "intervalPeriod": {"start": now, "duration": "PT1H"},
                 "intervals": [{"id": 0, "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [target_w / 1000]}]}]}
        host.find_packages()
        try:
            import openadr3.api
        except ImportError:
            print("skipped: a part: no openadr3: see tools/install-deps")
            Vtn.events.append(event)
            return
        with openadr3.api.OpenADRClient(f"http://127.0.0.1:{port}/3.0.1", Vtn.token) as client:
            client.create_event(event)
            read = client.events()
        self.assertEqual(len(read), 1)
        self.assertAlmostEqual(float(read[0].intervals[0].payloads[0].values[0]), target_w / 1000, 6)

    def test_a_user_cannot_cap_and_an_operator_can(self):
        host.require_open(LULL)
        policy = self.write("policy.conf", f"[lulld]\nadministrators = {OPERATORS}\n[everybody]\ngpus = all\n")
        self.start_daemon("--policy", policy)
        self.write("budget.conf", "[budget]\nlimit-w = 100\n")
        user = {"user": USER, "group": USER, "extra_groups": []}
        tried = subprocess.run(["timeout", "3", LULL, "budget", self.path("budget.conf")], capture_output=True, text=True,
                               check=False, **user)
        self.assertIn("administrator", tried.stderr)
        self.assertEqual([gpu["cap"] for gpu in status()], [None] * GPUS)
        self.assertEqual(self.ask_as_user((0, 210, 0, 60000), (1, 0, 100000, 60000), (2, 0, 0, 0)), [-errno.EPERM] * 3)
        self.assertEqual([gpu["cap"] for gpu in status()], [None] * GPUS)
        budget = self.start_budget(user=USER, group=USER, extra_groups=[OPERATORS])
        self.wait(lambda: ((status()[0]["cap"] or {}).get("sm_mhz") or 1410) <= 600, 10)
        holder = self.spawn(TOOL, "hold", "daemon", status()[0]["uuid"], "1200", user=USER, group=USER, extra_groups=[])
        lowered = dict(word.split("=") for word in holder.stdout.readline().split()[1:])
        # Not what it asks for, but its own band's lowest; or the budget's next level, where the budget saw it first.
        self.assertIn(int(lowered["sm_mhz"]), range(600, 661))
        budget.terminate()
        self.assertEqual(budget.wait(30), 0)
        self.wait(lambda: clocks()[1:] == [None] * 3, 10)

    def ask_as_user(self, *caps):
        """What lulld answers to caps that a user asks for."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(USER)
                os.setuid(USER)
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                    connection.connect(self.path("run/lulld.sock"))
                    for kind, body in [(1, struct.pack("<I", os.getpid()))] + [(26, struct.pack("<4I", *c)) for c in caps]:
                        connection.send(struct.pack("<4sHHII", b"LULL", 6, kind, len(body), 1) + body)
                        answer = connection.recv(512)
                        if kind != 1:
                            os.write(writer, answer[16:20])
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with open(reader, "rb") as file:
            return [code for code, in struct.iter_unpack("<i", file.read())]

    def test_the_pages_files_have_no_errors(self):
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "admin", "budgets.md")
        with open(page, encoding="utf-8") as file:
            examples = re.findall(r"```ini\n(.*?)```", file.read(), re.S)
        self.assertEqual(len(examples), 2)
        for text in examples:
            self.write("budget.conf", text)
            done = subprocess.run([LULL, "budget", "--check", self.path("budget.conf")], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), text)

    def test_a_file_is_checked(self):
        self.write("budget.conf", "[budget]\nlimit-w = 100\nlimit-w = 200\n")
        said = subprocess.run([LULL, "budget", "--check", self.path("budget.conf")], capture_output=True, text=True,
                              check=False)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("budget.conf:3: limit-w is given twice", said.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
