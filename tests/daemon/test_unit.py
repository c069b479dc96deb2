#!/usr/bin/env python3
"""The systemd unit, and what lulld owes to it: the exposure, the sandbox, READY and the watchdog.

Run as: lull emulate SPEC -- test_unit.py LULLD TOOL LULL UNIT DROP-IN USERS SERVICE-UNIT... SPDX-License-Identifier: Apache-2.0
"""
import grp
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULLD, TOOL, LULL, UNIT, DROP_IN, USERS = sys.argv[1:7]
SERVICES = {os.path.basename(path): path for path in sys.argv[7:]}
SCHEDULE = os.path.join(os.path.dirname(LULL), "..", "slurm", "lull-schedule")  # absent without libslurm
EXPOSURE_TENTHS = 20
HAS_SANITIZER = b"__asan_init" in open(LULLD, "rb").read() or b"__tsan_init" in open(LULLD, "rb").read()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@unittest.skipIf(shutil.which("systemd-analyze") is None, "skipped: systemd-analyze is not installed")
class Unit(unittest.TestCase):
    def analyze(self, text, *command):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "lull-under-test.service")
            with open(path, "w", encoding="utf-8") as file:
                # The installed programs need not be there; verifying asks for ones that are.
                for name, program in (("lulld", LULLD), ("lull", LULL), ("lull-schedule", LULL)):
                    text = re.sub(rf"(?m)^(Exec\w+=)\S+/{name}(?= |$)", r"\1" + os.path.abspath(program), text)
                file.write(text)
            return subprocess.run(["systemd-analyze", *command, path], capture_output=True, text=True, timeout=60,
                                  check=False)

    def exposure(self, text):
        seen = self.analyze(text, "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_TENTHS}")
        if "Unknown" in seen.stderr or "unrecognized" in seen.stderr:
            self.skipTest("skipped: this systemd-analyze does not know --offline")
        return seen

    def test_exposure(self):
        drop_in = read(DROP_IN).partition("[Service]")[2]
        for name, text in (("NVIDIA", read(UNIT)),
                           ("AMD or Intel", read(UNIT).replace("[Install]", drop_in + "[Install]"))):
            seen = self.exposure(text)
            self.assertEqual(seen.returncode, 0, name + "\n" + seen.stdout[-200:] + seen.stderr)
            self.assertIn("Overall exposure level", seen.stdout)

    def test_an_open_unit_is_noticed(self):
        text = read(UNIT).replace("CapabilityBoundingSet=CAP_SYS_ADMIN\n", "") \
            .replace("DevicePolicy=closed\n", "").replace("SystemCallFilter=", "#")
        self.assertNotEqual(self.exposure(text).returncode, 0)

    def test_settings_are_known(self):
        for name, path in {"lulld.service": UNIT, **SERVICES}.items():
            seen = self.analyze(read(path), "verify", "--man=no")
            self.assertEqual((seen.returncode, seen.stderr), (0, ""), name)

    def test_services_are_closed(self):
        self.assertEqual(sorted(SERVICES), ["lull-budget.service", "lull-schedule.service", "lull-serve.service"])
        for name, path in SERVICES.items():
            seen = self.exposure(read(path))
            self.assertEqual(seen.returncode, 0, name + "\n" + seen.stdout[-300:] + seen.stderr)
            seen = self.exposure(re.sub("(?m)^(CapabilityBoundingSet|SystemCallFilter|RestrictNamespaces)=.*", "", read(path)))
            self.assertNotEqual(seen.returncode, 0, name)


class Services(unittest.TestCase):
    """What the units start exists, runs as a user of its own, and takes these options."""

    def test_commands_take_their_options(self):
        programs = {"lull": LULL, "lulld": LULLD, "lull-schedule": SCHEDULE}
        for name, path in {"lulld.service": UNIT, **SERVICES}.items():
            commands = re.findall(r"(?m)^Exec\w+=\S+/(\S+) ?(.*)$", read(path))
            self.assertTrue(commands, name)
            for program, options in commands:
                if not os.path.exists(programs[program]):
                    continue
                seen = subprocess.run([programs[program], *options.split(), "--help"], capture_output=True, text=True,
                                      check=False)
                self.assertEqual((seen.returncode, seen.stderr), (0, ""), f"{name}: {program} {options}")

    def test_users_are_made(self):
        """Each unit's user and groups are those that systemd-sysusers makes, and none is root."""
        made = dict(line.split()[1::-1] for line in read(USERS).splitlines() if line[:2] in ("u ", "g "))
        members = [tuple(line.split()[1:]) for line in read(USERS).splitlines() if line.startswith("m ")]
        self.assertEqual({name: kind for name, kind in made.items() if kind == "u"},
                         {"lull-serve": "u", "lull-budget": "u"})
        for name, path in SERVICES.items():
            user = re.search(r"(?m)^User=(.+)$", read(path))[1]
            if name == "lull-schedule.service":
                self.assertEqual(user, "slurm")  # Slurm's packages make it
                continue
            self.assertEqual(made.get(user), "u", name)
            for group in re.findall(r"(?m)^SupplementaryGroups=(.+)$", read(path)):
                self.assertEqual(made.get(group), "g", name)
                self.assertIn((user, group), members)


class Manager(unittest.TestCase):
    """This process stands for systemd."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lulld-unit-")
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory, "run")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(os.path.join(self.directory, "notify"))
        self.manager.settimeout(60)
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        self.manager.close()
        subprocess.run([LULL, "restore"], capture_output=True, check=False)
        host.remove(self.directory)

    def start(self, watchdog_ms=None, *options):
        environment = dict(os.environ, NOTIFY_SOCKET=os.path.join(self.directory, "notify"))
        if watchdog_ms:
            environment["WATCHDOG_USEC"] = str(watchdog_ms * 1000)
        daemon = subprocess.Popen([LULLD, *options], env=environment)
        self.processes.append(daemon)
        self.assertEqual(self.manager.recv(64), b"READY=1")
        return daemon

    def drain(self):
        self.manager.setblocking(False)
        count = 0
        try:
            while self.manager.recv(64) == b"WATCHDOG=1":
                count += 1
        except BlockingIOError:
            pass
        self.manager.settimeout(60)
        return count

    def test_watchdog_is_fed(self):
        self.start(200)
        for _ in range(5):
            self.assertEqual(self.manager.recv(64), b"WATCHDOG=1")

    def test_nobody_asks(self):
        daemon = self.start()
        subprocess.run([LULL, "status"], capture_output=True, check=True)
        daemon.terminate()
        daemon.wait()
        self.assertEqual(self.drain(), 0)

    def test_another_process_is_asked(self):
        os.environ["WATCHDOG_PID"] = "1"
        self.addCleanup(os.environ.pop, "WATCHDOG_PID")
        daemon = self.start(40)
        time.sleep(0.2)
        daemon.terminate()
        daemon.wait()
        self.assertEqual(self.drain(), 0)

    def health(self):
        status = subprocess.run([LULL, "status", "--json"], capture_output=True, check=True).stdout
        return json.loads(status)["gpus"][0]["state"]

    def test_a_gpu_that_hangs_does_not_starve_it(self):
        self.start(200)
        uuid = json.loads(subprocess.run([LULL, "gpus", "--json"], capture_output=True, check=True).stdout)
        subprocess.run([TOOL, "fault", "0:hang_ms=15000x1"], check=True, capture_output=True)
        client = subprocess.Popen([TOOL, "hold", "daemon", uuid["gpus"][0]["uuid"], "900"], stdout=subprocess.PIPE)
        self.processes.append(client)
        self.assertIsNotNone(host.wait_for(lambda: self.health() != "UP", 14))
        self.drain()
        for _ in range(3):
            self.assertEqual(self.manager.recv(64), b"WATCHDOG=1")
        self.assertNotEqual(self.health(), "UP")

    def test_a_stopped_loop_starves_it(self):
        daemon = self.start(200)
        daemon.send_signal(signal.SIGSTOP)
        stat = f"/proc/{daemon.pid}/stat"
        self.assertIsNotNone(host.wait_for(lambda: open(stat).read().rpartition(")")[2].split()[0] == "T", 10))
        self.drain()
        time.sleep(0.5)
        self.assertEqual(self.drain(), 0)
        daemon.send_signal(signal.SIGCONT)
        self.assertEqual(self.manager.recv(64), b"WATCHDOG=1")

    def states(self, daemon):
        """The status of every thread of the daemon."""
        for task in os.listdir(f"/proc/{daemon.pid}/task"):
            with open(f"/proc/{daemon.pid}/task/{task}/status", encoding="utf-8") as file:
                yield dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)

    @unittest.skipIf(HAS_SANITIZER, "skipped: a build with sanitizers has no sandbox")
    def test_every_thread_is_in_the_sandbox(self):
        states = list(self.states(self.start()))
        self.assertGreater(len(states), 1)
        for state in states:
            self.assertEqual(int(state["CapEff"], 16) & ~(1 << 21), 0, state["Name"])
            self.assertEqual((state["NoNewPrivs"], state["Seccomp"]), ("1", "2"), state["Name"])

    def test_no_sandbox(self):
        with open("/proc/self/status", encoding="utf-8") as file:
            own = [line for line in file if line.startswith(("CapEff", "NoNewPrivs", "Seccomp:"))]
        for state in self.states(self.start(None, "--no-sandbox")):
            for line in own:
                name, value = line.split()
                self.assertEqual(state[name.rstrip(":")], value, state["Name"])

    @unittest.skipIf(HAS_SANITIZER, "skipped: a build with sanitizers has no sandbox")
    def test_group_of_the_socket_needs_no_capability(self):
        self.start(None, "--socket-group", "daemon")
        self.assertEqual(os.stat(os.path.join(os.environ["LULL_RUNTIME_DIR"], "lulld.sock")).st_gid,
                         grp.getgrnam("daemon").gr_gid)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
