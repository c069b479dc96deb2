#!/usr/bin/env python3
"""lulld on a node of Kubernetes: a pod is a control group with kubelet's name and a PID namespace, killed as kubelet kills it.

Run as: lull emulate SPEC -- test_kubernetes_pod.py LULLD TOOL LULL LULLD-NODE, as test_daemon.py, whose cases it extends.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from test_daemon import LULLD, TOOL, Case, host, lull, tool, truth

LULLD_NODE = sys.argv[4]
UID = "3f1c9a52-07be-4d1e-9c41-8a5b60d2e7f4"
CONTAINER = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
RESTORE_S = 1.0


def hierarchy():
    """The control group file system in which groups are made: that of version 2, or one of version 1."""
    return "/sys/fs/cgroup" if os.path.exists("/sys/fs/cgroup/cgroup.procs") else "/sys/fs/cgroup/pids"


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


class Pod(Case):
    def setUp(self):
        super().setUp()
        self.log = tempfile.TemporaryFile("w+")
        self.addCleanup(self.log.close)

    def make_group(self):
        """A control group as kubelet names it, apart from a real kubelet's; its path."""
        path = hierarchy()
        for name in (f"lull-test-{os.getpid()}", "kubepods", "burstable", "pod" + UID, CONTAINER):
            path = os.path.join(path, name)
            try:
                os.mkdir(path)
            except OSError as error:
                self.skipTest(f"no control group can be made here: {error}")
            self.addCleanup(lambda group=path: host.wait_for(lambda: self.is_removed(group), 5.0))
        return path

    @staticmethod
    def is_removed(group):
        try:
            os.rmdir(group)
        except OSError:
            return False
        return True

    def start_pod(self, *command):
        """Starts a command in a pod, as the child of its first process. Returns the process that waits for the pod."""
        unshare = shutil.which("unshare")
        if unshare is None or subprocess.run([unshare, "--pid", "--fork", "true"], check=False).returncode != 0:
            self.skipTest("this host does not permit unshare --pid")
        procs = os.path.join(self.make_group(), "cgroup.procs")
        enter = 'echo $$ >"$0" && exec "$@"'
        first = '"$@"; exit $?'
        return self.spawn("sh", "-c", enter, procs, unshare, "--pid", "--fork", "--kill-child", "sh", "-c", first,
                          "sh", *command)

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def kill(self, pod, condition):
        """Kills the first process of the pod, and so all at once, and measures how long its GPU takes."""
        (first,) = children(pod.pid)
        os.kill(first, signal.SIGKILL)
        taken_s = host.wait_restored(condition, RESTORE_S)
        self.assertIsNotNone(taken_s, f"not restored {RESTORE_S} s after the death of the pod")

    def test_f01_a_pod_with_a_lowered_clock_dies(self):
        self.start_daemon(stderr=self.log)
        pod = self.start_pod(TOOL, "hold", "daemon", self.uuids[0], "900")
        self.assertIn("status=0", pod.stdout.readline())
        self.assertEqual(truth(0), "locked")
        self.assertIn(f"pod={UID} container={CONTAINER[:12]} band=", self.logged())
        self.kill(pod, lambda: truth(0) == "free")

    def test_f01_a_pod_with_a_power_limit_dies(self):
        """The limit before the pod comes back, not the default of 400 W."""
        self.assertEqual(tool("admin", self.uuids[0], "350").returncode, 0)
        self.start_daemon(stderr=self.log)

        def limit_w():
            return json.loads(lull("gpus", "--json").stdout)["gpus"][0]["power_limit_w"]

        pod = self.start_pod(TOOL, "limits", "daemon", self.uuids[0])
        for _ in range(5):
            pod.stdout.readline()
        self.assertEqual(limit_w(), 250)
        self.kill(pod, lambda: limit_w() != 250)
        self.assertEqual(limit_w(), 350)

    def test_a_refusal_names_the_pod(self):
        policy = os.path.join(self.directory, "policy.conf")
        with open(policy, "w", encoding="ascii") as file:
            file.write("[user 12345]\ngpus = all\n")
        self.start_daemon("--policy", policy, stderr=self.log)
        pod = self.start_pod("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", TOOL, "hold", "daemon",
                                self.uuids[0], "900")
        pod.wait(timeout=60)
        self.assertRegex(self.logged(), rf"lease refused \(uid=65533 pid=\d+ pod={UID} container={CONTAINER[:12]} gpu=.*; ask the administrator for a rule")


class Node(Case):
    """lulld-node, which starts lulld in its container."""

    def start(self, policy, texts):
        """What it writes as policy, checked by lulld, and what it says."""
        root = os.path.join(self.directory, "root")
        given = os.path.join(self.directory, "given.conf")
        for name in ("bin", "sbin", "gpus"):
            os.makedirs(os.path.join(root, name))
        shutil.copy(LULLD_NODE, os.path.join(root, "bin"))
        os.symlink(os.path.abspath(LULLD), os.path.join(root, "sbin", "lulld"))
        if policy is not None:
            with open(given, "w", encoding="ascii") as file:
                file.write(policy)
        for address, text in texts.items():
            os.mkdir(os.path.join(root, "gpus", address))
            with open(os.path.join(root, "gpus", address, "information"), "w", encoding="ascii") as file:
                file.write(text)
        done = subprocess.run([os.path.join(root, "bin", "lulld-node"), "--check"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LULL_NODE_POLICY": given, "LULL_NODE_GPUS": os.path.join(root, "gpus")},
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(os.environ["LULL_RUNTIME_DIR"], "policy.conf"), encoding="ascii") as file:
            return file.read(), done.stderr

    def test_each_gpu_has_its_device(self):
        text, _ = self.start("[lulld]\nshared = no\n", {
            "0000:3b:00.0": "Model: \t\t NVIDIA A100\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 1\n",
            "0000:AF:00.0": "Device Minor: 10\n"})
        self.assertEqual(text, "[lulld]\nshared = no\n\n[gpu 0000:3b:00.0]\ndevice = /dev/nvidia1\n"
                               "\n[gpu 0000:af:00.0]\ndevice = /dev/nvidia10\n")

    def test_the_administrators_section_stays(self):
        given = "[gpu all]\nmax-power-w = 350\n[gpu 0000:3B:00.0]\nmax-power-w = 300\n"
        text, _ = self.start(given, {"0000:3b:00.0": "Device Minor: 1\n"})
        self.assertEqual(text, given)

    def test_no_policy_no_gpu_and_no_number(self):
        text, said = self.start(None, {"0000:3b:00.0": "Device Minor: none\n", "0000:5e:00.0": ""})
        self.assertEqual(text, "")
        self.assertEqual(said.count("no line 'Device Minor: N'"), 2)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root may set the emulated clocks")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
