"""A job on two nodes, each an emulated one with a lull run of its own: they agree; a wrong key, a plain
endpoint or a missing node keeps all at full clocks, for some time; a killed governor brings the other one up. Its
job goes on in every case.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Node:
    """One node of the job: its lull run, and the program that it runs."""

    def __init__(self, directory, index, *job, options=(), model="1xA100"):
        self.directory = os.path.join(directory, f"node{index}")
        os.mkdir(self.directory)
        self.pid_file = os.path.join(self.directory, "job.pid")
        command = " ".join([JOB, *(str(word) for word in job)])
        self.process = subprocess.Popen(
            [LULL, "emulate", model, "--", LULL, "run", "--no-daemon", "--quiet", "--report", self.directory,
             "--node", f"{index}/2", *options, "--", "sh", "-c", f"echo $$ > {self.pid_file}; exec {command}"],
            env=dict(os.environ, LULL_RUNTIME_DIR=self.directory), stderr=subprocess.PIPE, text=True)
        self.message = None

    def wait(self):
        _, self.message = self.process.communicate(timeout=120)
        return self.process.returncode

    def job_pid(self):
        with open(self.pid_file, encoding="utf-8") as file:
            return int(file.read())

    def governor_pid(self):
        with open(f"/proc/{self.job_pid()}/stat", encoding="utf-8") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])

    def report(self):
        with open(os.path.join(self.directory, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def lowered(self):
        """Begin and end, s since the first event, of the stretches at a lowered clock, and that clock."""
        with open(os.path.join(self.directory, "trace.json"), encoding="utf-8") as file:
            events = [event for event in json.load(file)["traceEvents"] if "ts" in event]
        start = min(event["ts"] for event in events)
        return [((event["ts"] - start) * 1e-6, (event["ts"] + event["dur"] - start) * 1e-6,
                 int(event["name"].split()[0]))
                for event in events if event.get("ph") == "X" and "MHz" in event["name"]]


class Nodes(unittest.TestCase):
    def setUp(self):
        self.scratch = host.Directory()
        self.addCleanup(self.scratch.cleanup)
        self.key = os.path.join(self.scratch.name, "key")
        self.endpoint = f"tcp://127.0.0.1:{free_port()}"

    def options(self, key=None):
        # Iterations on a busy host scatter by more than 1 %: jobs this short are judged at a wider tolerance.
        return ("--together", self.endpoint, "--together-key", key or self.key, "--tolerance", "5%")

    def start(self, index, *job, options=None, **more):
        node = Node(self.scratch.name, index, *job, options=self.options() if options is None else options, **more)
        self.addCleanup(node.process.stderr.close)
        return node

    def test_two_nodes_agree(self):
        # Of different kinds: the first one's lowest clock is 210 MHz, the second one's 135 MHz.
        nodes = [self.start(0, 0, 130, 30, 120, 0),
                 self.start(1, 0, 130, 30, 120, 0, model="1xV100-SXM2-16GB")]
        for node in nodes:
            self.assertEqual(node.wait(), 0, node.message)
        self.assertEqual(stat.S_IMODE(os.stat(self.key).st_mode), 0o600)
        for node in nodes:
            report = node.report()
            together = report["together"]
            self.assertEqual((together["nodes"], together["heard"], together["refused"]), (2, 2, 0), node.message)
            self.assertEqual(together["agreed"], 1, together)
            (gpu,) = report["gpus"]
            # How soon the guard is sure of it depends on how evenly the host lets iterations end.
            self.assertIn(gpu["sections"][0]["verdict"], ("lowered", "unfinished"))
            self.assertGreater(len(node.lowered()), 20)
        self.assertGreaterEqual(nodes[1].report()["together"]["disagreements"], 1)
        self.assertGreaterEqual(nodes[1].lowered()[-3][2], 210)

    def test_a_name_makes_no_other_section(self):
        """One node's program names the section: it is searched more carefully there, and the higher clock holds."""
        nodes = [self.start(0, 0, 60, 30, 120, 0), self.start(1, 0, 60, 30, 120, 0, "exchange")]
        for node in nodes:
            self.assertEqual(node.wait(), 0, node.message)
        together = [node.report()["together"] for node in nodes]
        self.assertEqual([each["heard"] for each in together], [2, 2])
        # The first one finds a lower clock, and is overruled as soon as the second one keeps one.
        self.assertEqual(together[0]["disagreements"], together[0]["agreed"])
        self.assertEqual(together[1]["disagreements"], 0)

    def test_a_wrong_key_is_no_agreement(self):
        other = os.path.join(self.scratch.name, "other")
        first = self.start(0, 0, 60, 30, 120, 0)
        # Made as a first node makes it.
        subprocess.run([LULL, "emulate", "1xA100", "--", LULL, "run", "--no-daemon", "--quiet", "--node", "0/2",
                        "--report", os.path.join(self.scratch.name, "third"), "--together",
                        f"tcp://127.0.0.1:{free_port()}", "--together-key", other, "--", JOB, "0", "2", "10", "10",
                        "0"],
                       env=dict(os.environ, LULL_RUNTIME_DIR=os.path.join(self.scratch.name, "third")), check=True,
                       capture_output=True)
        second = self.start(1, 0, 50, 30, 120, 0, options=self.options(other))
        for node in (first, second):
            self.assertEqual(node.wait(), 0, node.message)
            report = node.report()
            self.assertEqual(report["together"]["heard"], 1)
            self.assertEqual(report["together"]["agreed"], 0)
            # Nothing but the pulses of the calibration.
            self.assertLessEqual(max((end - begin for begin, end, _ in node.lowered()), default=0.0), 0.2)
            self.assertLessEqual(len(node.lowered()), 6)

    def test_a_node_that_nobody_joins_is_managed_alone_after_some_time(self):
        # The key comes by the environment, where the job does not find it.
        options = ("--together", self.endpoint, "--alone-after", "0.5", "--tolerance", "5%")
        os.environ["LULL_TOGETHER_KEY"] = "5a" * 32
        self.addCleanup(os.environ.pop, "LULL_TOGETHER_KEY")
        node = self.start(0, 0, 120, 5, 45, 0, options=options)
        self.assertIsNotNone(host.wait_for(lambda: os.path.exists(node.pid_file) and os.path.getsize(node.pid_file), 10))
        for pid in (node.job_pid(), node.governor_pid()):
            with open(f"/proc/{pid}/environ", "rb") as file:
                self.assertNotIn(b"5a5a5a5a", file.read())
        self.assertEqual(node.wait(), 0, node.message)
        self.assertIn("this node is managed alone: in 0.5 s the nodes have not agreed, because waiting for a node",
                      node.message)
        together = node.report()["together"]
        self.assertEqual((together["nodes"], together["heard"], together["agreed"]), (2, 1, 0))
        self.assertIn("managed alone", together["state"])
        # More than the pulses of the calibration, which are six at most where nodes do not agree.
        self.assertGreater(len(node.lowered()), 6)

    def test_a_killed_governor_brings_the_other_up(self):
        nodes = [self.start(0, 0, 160, 30, 120, 0), self.start(1, 0, 160, 30, 120, 0)]
        time.sleep(14)
        os.kill(nodes[1].governor_pid(), signal.SIGKILL)
        killed = time.monotonic()
        self.assertEqual(nodes[0].wait(), 0, nodes[0].message)
        ended = time.monotonic()
        nodes[1].process.wait(timeout=60)
        report = nodes[0].report()
        self.assertEqual(report["together"]["heard"], 2)
        self.assertEqual(report["together"]["state"], "a node is silent")
        self.assertGreaterEqual(report["together"]["disagreements"], 1)
        self.assertIn("full clocks", nodes[0].message)
        lowered = nodes[0].lowered()
        self.assertGreater(len(lowered), 20)
        # Within two seconds of silence and a section's length.
        self.assertGreater(ended - killed, 5)
        last = max(end for _, end, _ in lowered)
        self.assertLess(last, report["managed_wall_s"] - (ended - killed) + 3.5)
        self.assertGreater(report["gpus"][0]["sections"][0]["count"], 140)

    def test_what_makes_it_impossible_is_said_and_the_job_runs_alone(self):
        with open(self.key, "w", encoding="utf-8") as file:
            file.write("no key\n")
        os.chmod(self.key, 0o644)
        cases = [(self.options(), "others can read"),
                 (("--together", self.endpoint), "--together-key"),
                 (("--together", "nonsense", "--together-key", os.path.join(self.scratch.name, "new")), "nonsense")]
        for index, (options, expected) in enumerate(cases):
            directory = os.path.join(self.scratch.name, f"case{index}")
            os.mkdir(directory)
            done = subprocess.run(
                [LULL, "emulate", "1xA100", "--", LULL, "run", "--no-daemon", "--quiet", "--report", directory,
                 "--node", "0/2", *options, "--", JOB, "0", "3", "10", "10", "0"],
                env=dict(os.environ, LULL_RUNTIME_DIR=directory), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("managed alone", done.stderr)
            self.assertIn(expected, done.stderr)
            with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
                self.assertIsNone(json.load(file)["together"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
