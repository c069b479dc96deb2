#!/usr/bin/env python3
"""Steps of several nodes on a real cluster: their governors agree without help, with a key that no other user sees; a port that
is taken and a governor that is killed cost the agreement, and never the job.

Run as: lull emulate SPEC -- test_several_nodes.py LULL LULLD TOOL JOB PLUGIN CLUSTER_TOOLS. SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as slurm  # noqa: E402
from cluster import host, run, wait_idle  # noqa: E402

LULL, LULLD, TOOL, JOB, PLUGIN, TOOLS = (os.path.abspath(sys.argv.pop(1)) for _ in range(6))
PORT = 17170
FIRST_PORT = PORT + 5
ALICE, BOB = ({"user": uid, "group": uid, "extra_groups": []} for uid in (1, 2))


class Stranger:
    """Somebody who knows where the first node listens, and its public key, but has another pair of keys."""

    def __init__(self, port, secret):
        self.zmq = ctypes.CDLL("libzmq.so.5")
        for name in ("zmq_ctx_new", "zmq_socket", "zmq_z85_encode"):
            getattr(self.zmq, name).restype = ctypes.c_void_p
        theirs, server, mine, my_secret = (ctypes.create_string_buffer(41) for _ in range(4))
        self.zmq.zmq_z85_encode(theirs, bytes.fromhex(secret), ctypes.c_size_t(32))
        self.zmq.zmq_curve_public(server, theirs)
        self.zmq.zmq_curve_keypair(mine, my_secret)
        self.context = ctypes.c_void_p(self.zmq.zmq_ctx_new())
        self.socket = ctypes.c_void_p(self.zmq.zmq_socket(self.context, 5))  # DEALER
        for option, value in ((50, server), (48, mine), (49, my_secret)):  # CURVE_SERVERKEY, _PUBLICKEY, _SECRETKEY
            self.zmq.zmq_setsockopt(self.socket, option, value, ctypes.c_size_t(40))
        self.zmq.zmq_setsockopt(self.socket, 17, ctypes.byref(ctypes.c_int(0)), ctypes.c_size_t(4))  # LINGER
        self.zmq.zmq_connect(self.socket, f"tcp://127.0.0.1:{port}".encode())
        self.zmq.zmq_send(self.socket, b"word", ctypes.c_size_t(4), 1)

    def leave(self):
        self.zmq.zmq_close(self.socket)
        self.zmq.zmq_ctx_term(self.context)


class SeveralNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        host.require_open(TOOL)
        cls.cluster = slurm.Cluster(TOOLS, LULLD, PLUGIN, PORT, nodes=2)
        cls.addClassCleanup(cls.cluster.stop)
        cls.second = slurm.SecondNode(cls.cluster, LULL, "1xA100-SXM4-40GB")
        cls.addClassCleanup(cls.second.stop)
        os.environ["HOME"] = cls.cluster.work
        cls.keys = os.path.join(cls.cluster.work, "keys")

    def enter(self, name, ports):
        self.cluster.load_plugin(f"lull={self.second.lull}", f"together_ports={ports}")
        os.chdir(self.cluster.work)
        if os.path.exists(self.keys):
            os.remove(self.keys)
        os.mkdir(name)
        os.chmod(name, 0o1777)
        os.chdir(name)

    def start(self):
        """A job of a rank on each node, which goes on until it is told to stop, and says what a task sees in its environment."""
        job = subprocess.Popen(["srun", "-Q", "--lull", "--lull-tolerance=5%", "-N2", "--ntasks-per-node=1", "--gres=gpu:1", "sh", "-c",
                                f'env; [ "$SLURM_NODEID" = 0 ] || export {self.second.variable}; "$0" 0 100000 10 60 0 & '
                                'until [ -e stop ]; do sleep 0.1; done; kill $!; exit 4', JOB], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **ALICE)
        self.addCleanup(self.end, job)
        return job

    def stop(self, job):
        """What the job has printed, and what was told of it."""
        with open("stop", "w", encoding="utf-8"):
            pass
        said, told = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 4, told)
        return said, told

    def end(self, job):
        if job.poll() is None:
            job.kill()
        job.communicate()
        run("scancel", "-u", "daemon")
        self.assertIsNotNone(wait_idle())

    def governors(self):
        """The process of each node's governor, in the nodes' order."""
        found = {}
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
            except OSError:
                continue
            directory = words[words.index("--runtime-dir") + 1] if "--launcher-fd" in words else ""
            if directory.startswith(self.cluster.directory):
                found[directory] = int(path.split("/")[2])
        return [found[directory] for directory in sorted(found)]

    def await_governors(self, job):
        self.assertIsNotNone(host.wait_for(lambda: len(self.governors()) == 2 or job.poll() is not None, 20))
        governors = self.governors()
        self.assertEqual(len(governors), 2)
        return governors

    def await_connection(self, governor):
        """Waits until a process has connected to the first node's governor, and returns its port."""
        with open(f"/proc/{governor}/cmdline", encoding="utf-8") as file:
            port = int(re.search(r"tcp://\*:(\d+)", file.read()).group(1))

        def is_connected():
            with open("/proc/net/tcp", encoding="utf-8") as file:
                return f":{port:04X} 01 " in re.sub(r" [0-9A-F]{8}:([0-9A-F]{4}) [0-9A-F]{8}:[0-9A-F]{4}", r" :\1", file.read())
        self.assertIsNotNone(host.wait_for(is_connected, 10), "nobody has connected")
        return port

    def report(self, node):
        path = os.path.join(glob.glob(f"lull-report-*-node{node}")[0], "report.json")
        self.assertIsNotNone(host.wait_for(lambda: os.path.exists(path), 10), "no report")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def is_at_full_clocks(self):
        """Whether the second node's GPU is not lowered now, nor in the iterations that follow."""
        for _ in range(12):
            if run(TOOL, "truth", 0, env=dict(os.environ, LULL_EMULATED_NODE=self.second.node)).stdout.strip() != "free":
                return False
            time.sleep(0.02)
        return True

    def is_seen(self, key):
        """Whether any process shows the key in its environment or command line."""
        for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    if key.encode() in file.read():
                        return True
            except OSError:
                pass
        return False

    def test_the_governors_agree_with_a_key_that_nobody_sees(self):
        self.enter("agree", f"{FIRST_PORT}-{FIRST_PORT + 9}")
        job = self.start()
        governors = self.await_governors(job)
        self.assertIsNotNone(host.wait_for(lambda: os.path.exists(self.keys) and os.path.getsize(self.keys) >= 2 * 65, 10))
        with open(self.keys, encoding="utf-8") as file:
            keys = file.read().split()
        self.assertEqual((len(keys), len(set(keys))), (2, 1))
        self.assertRegex(keys[0], "^[0-9a-f]{64}$")
        stranger = Stranger(self.await_connection(governors[0]), keys[0])
        self.addCleanup(stranger.leave)
        self.assertIsNotNone(host.wait_for(lambda: not self.is_seen(keys[0]), 10), "the key is seen")
        for pid in governors:
            self.assertNotEqual(run("cat", f"/proc/{pid}/environ", **BOB).returncode, 0)
        time.sleep(2)  # until both know their iteration and have said so
        said, told = self.stop(job)
        self.assertIn("SLURM_NODEID=1", said)
        self.assertNotIn("KEY", said)
        if "the step ends before its report" not in told:
            self.assertEqual(told.count("nodes: 2 of 2 heard, agreed"), 2, told)
            self.assertEqual(told.count("connections without the job key refused"), 1, told)
        for node in (0, 1):
            together = self.report(node)["together"]
            self.assertEqual((together["nodes"], together["heard"], together["state"]), (2, 2, "agreed"), told)
            (self.assertGreater if node == 0 else self.assertEqual)(together["refused"], 0)

    def test_the_first_nodes_governor_is_killed(self):
        self.enter("killed", f"{FIRST_PORT}-{FIRST_PORT + 9}")
        job = self.start()
        governors = self.await_governors(job)
        self.await_connection(governors[0])
        # When they have agreed is not seen from here; whichever comes first, nothing may be lowered at the end.
        time.sleep(0.8)
        os.kill(governors[0], signal.SIGKILL)
        time.sleep(2.6)  # two are over before a node counts as silent
        self.assertIsNotNone(host.wait_for(self.is_at_full_clocks, 5), "the second node is still lowered")
        self.stop(job)
        report = self.report(1)
        self.assertIn(report["together"]["state"], ("a node is silent", "waiting for a node"))
        self.assertGreater(report["managed"]["iterations"], 30)

    def test_a_port_that_is_taken(self):
        self.enter("taken", f"{FIRST_PORT}-{FIRST_PORT}")
        with socket.socket() as other:
            other.bind(("0.0.0.0", FIRST_PORT))
            other.listen()
            job = self.start()
            self.await_governors(job)
            self.stop(job)
            first = self.report(0)  # while the port is taken: on a late host the governor tries it only now
        self.assertIsNone(first["together"])
        self.assertTrue([note for note in first["notes"] if "this node is managed alone" in note and "in use" in note], first["notes"])
        self.assertEqual(self.report(1)["together"]["heard"], 1)

    def test_steps_that_have_nothing_to_agree_on_get_no_key(self):
        self.enter("none", f"{FIRST_PORT}-{FIRST_PORT + 9}")
        for options in (["-N1", "--lull"], ["-N2", "--lull=steady"], ["-N2", "--lull=off"], ["-N2"]):
            done = run("srun", "-Q", *options, "--gres=gpu:1", "sh", "-c", "env; exit 3", **ALICE)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertNotIn("KEY", done.stdout)
            wait_idle()
        with open(self.keys, encoding="utf-8") as file:
            self.assertEqual(file.read().split(), [])


if __name__ == "__main__":
    reason = slurm.reason_to_skip(TOOLS)
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
