#!/usr/bin/env python3
"""`lull install-daemon` in temporary roots: what it writes, what it refuses, and that --remove undoes it.

Run as: lull emulate 2xA100-SXM4-40GB -- test_install_daemon.py LULL LULLD KEEPER. SPDX-License-Identifier: Apache-2.0
"""
import os
import pty
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

LULL, LULLD, KEEPER = (os.path.abspath(path) for path in sys.argv[1:4])
COPIES = ["opt/lulld/bin/lull", "opt/lulld/lib/lull/lull-keeper", "opt/lulld/sbin/lulld"]
UNIT = "etc/systemd/system/lulld.service"
# In a mount namespace of its own: everything that is written comes after the mounts, so nothing of this machine is changed. A systemctl that notes
# its words comes first in PATH.
IN_OWN_MOUNTS = """
set -e
for place in /run /etc /opt; do mount -t tmpfs tmpfs $place || exit 77; done
mkdir -p /run/systemd/system
"$1" install-daemon --yes >/dev/null
test -x /opt/lulld/sbin/lulld
"$1" install-daemon --yes >/dev/null
"$1" install-daemon --remove --yes >/dev/null
test ! -e /opt/lulld
test ! -e /etc/systemd/system/lulld.service
"""


class Install(unittest.TestCase):
    def setUp(self):
        if os.stat("/usr/lib").st_uid not in (0, os.geteuid()):
            self.skipTest("the files of this machine's root belong to somebody else in a user namespace")
        self.directory = tempfile.mkdtemp(prefix="lull-install-")
        self.addCleanup(host.remove, self.directory)
        os.chmod(self.directory, 0o755)
        self.root = os.path.join(self.directory, "root")
        os.mkdir(self.root)
        self.prefix = os.path.join(self.directory, "venv")
        for source, name in ((LULL, "bin/lull"), (LULLD, "sbin/lulld"), (KEEPER, "lib/lull/lull-keeper")):
            os.makedirs(os.path.join(self.prefix, os.path.dirname(name)), exist_ok=True)
            shutil.copy(source, os.path.join(self.prefix, name))
        self.lull = os.path.join(self.prefix, "bin/lull")
        os.chmod(os.path.join(self.prefix, "sbin"), 0o777)  # anybody may replace lulld there

    def call(self, *words, status=0, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        run = subprocess.run([self.lull, "install-daemon", *words], capture_output=True, text=True, timeout=60, check=False, **options)
        self.assertEqual(run.returncode, status, run)
        return run

    def files(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self.root) for folder, _, names in os.walk(self.root) for name in names)

    def read(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8") as file:
            return file.read()

    def test_what_users_can_change_is_copied(self):
        run = self.call("--root", self.root, "--yes")
        self.assertEqual(self.files(), [UNIT, *COPIES])
        self.assertIn("other users than root can change it", run.stdout)
        for name in COPIES:
            status = os.stat(os.path.join(self.root, name))
            self.assertEqual((stat.S_IMODE(status.st_mode), status.st_uid), (0o755, os.geteuid()))
            self.assertIn(f"to {self.root}/{name}\n", run.stdout)
        unit = self.read(UNIT)
        self.assertIn("\nExecStart=/opt/lulld/sbin/lulld\n", unit)
        self.assertIn("\nExecReload=/opt/lulld/bin/lull reload\n", unit)
        self.assertNotIn("@", unit.replace("@system-service", "").replace("@privileged", "").replace("@resources", "").replace("modprobe@", ""))
        self.assertIn("systemctl enable lulld", run.stdout)

    def test_the_copies_work(self):
        """The copied lulld starts with its keeper, and nothing of the prefix is left to help."""
        self.call("--root", self.root, "--yes")
        shutil.rmtree(self.prefix)
        processes = []
        self.addCleanup(host.stop_all, processes)
        variables = dict(os.environ, LULL_RUNTIME_DIR=os.path.join(self.directory, "run"))

        def spawn(*words, **options):
            processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables, **options))
            return processes[-1]

        if os.geteuid() != 0:
            self.skipTest("lulld needs root")
        daemon = host.start_lulld(spawn, os.path.join(self.root, COPIES[2]))
        subprocess.run([os.path.join(self.root, COPIES[0]), "status"], env=variables, stdout=subprocess.DEVNULL, check=True)
        daemon.terminate()
        self.assertNotIn("keeper", daemon.communicate(timeout=30)[1])

    def test_what_only_root_can_change_stays(self):
        if os.geteuid() != 0:
            self.skipTest("no file belongs to root")
        os.chmod(os.path.join(self.prefix, "sbin"), 0o755)
        self.call("--root", self.root, "--yes")
        self.assertEqual(self.files(), [UNIT])
        self.assertIn(f"\nExecStart={os.path.realpath(self.prefix)}/sbin/lulld\n", self.read(UNIT))

    def test_remove_undoes_it(self):
        self.call("--root", self.root, "--yes")
        with open(os.path.join(self.root, "etc/lull/policy.conf"), "w", encoding="ascii") as file:
            file.write("[user 0]\ngpus = all\n")
        run = self.call("--root", self.root, "--remove", "--yes")
        self.assertEqual(self.files(), ["etc/lull/policy.conf"])
        self.assertEqual(os.listdir(os.path.join(self.root, "opt")), [])
        self.assertIn("systemctl disable --now lulld", run.stdout)
        self.call("--root", self.root, "--remove", "--yes")  # again

    def test_the_copy_removes_itself(self):
        self.call("--root", self.root, "--yes")
        shutil.rmtree(self.prefix)
        self.lull = os.path.join(self.root, COPIES[0])
        self.call("--root", self.root, "--remove", "--yes")
        self.assertEqual(self.files(), [])

    def test_remove_keeps_what_is_not_its_own(self):
        self.call("--root", self.root, "--yes")
        other = os.path.join(self.root, "opt/lulld/bin/other")
        with open(other, "w", encoding="ascii"):
            pass
        self.call("--root", self.root, "--remove", "--yes")
        self.assertEqual(self.files(), ["opt/lulld/bin/other"])

    def test_a_unit_of_somebody_else(self):
        for place in ("usr/lib/systemd/system", "etc/systemd/system"):
            path = os.path.join(self.root, place, "lulld.service")
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="ascii") as file:
                file.write("[Service]\n")
            run = self.call("--root", self.root, "--yes", status=1)
            self.assertIn(path, run.stderr)
            self.call("--root", self.root, "--remove", "--yes")
            self.assertEqual(self.files(), [place + "/lulld.service"])
            os.remove(path)

    def test_a_second_call_updates(self):
        self.call("--root", self.root, "--yes")
        with open(os.path.join(self.prefix, "sbin/lulld"), "ab") as file:
            file.write(b"newer")
        self.call("--root", self.root, "--yes")
        with open(os.path.join(self.root, COPIES[2]), "rb") as file:
            self.assertTrue(file.read().endswith(b"newer"))

    def test_dry_run_changes_nothing(self):
        self.assertIn("This writes:", self.call("--root", self.root, "--dry-run").stdout)
        self.assertEqual(self.files(), [])

    def test_without_a_terminal_it_needs_yes(self):
        self.assertIn("--yes", self.call("--root", self.root, status=2).stderr)
        self.assertEqual(self.files(), [])

    def test_it_asks(self):
        for answer, status, count in ((b"n\n", 1, 0), (b"\n", 1, 0), (b"y\n", 0, 4)):
            master, slave = pty.openpty()
            os.write(master, answer)
            self.call("--root", self.root, status=status, stdin=slave)
            self.assertEqual(len(self.files()), count)
            os.close(master)
            os.close(slave)

    def test_a_user_needs_root(self):
        options = {}
        if os.geteuid() == 0:
            host.require_open(LULL)
            options = {"user": 12345, "group": 12345, "extra_groups": []}
        self.assertIn("sudo", self.call("--yes", status=3, **options).stderr)
        self.assertIn("This writes:", self.call("--dry-run", **options).stdout)

    def test_a_library_that_users_can_change(self):
        """An environment with libraries of its own, such as conda's: the copy would load them."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler")
        place = os.path.join(self.prefix, "lib")
        os.chmod(place, 0o777)
        for name, text in (("own.c", "int own(void) { return 0; }"), ("main.c", "int own(void); int main(void) { return own(); }")):
            with open(os.path.join(place, name), "w", encoding="ascii") as file:
                file.write(text + "\n")
        subprocess.run(["cc", "-shared", "-fPIC", "own.c", "-o", "libown.so"], cwd=place, check=True)
        subprocess.run(["cc", "main.c", "-L.", "-lown", f"-Wl,-rpath,{place}", "-o", "../sbin/lulld"], cwd=place, check=True)
        self.assertIn("can change it", self.call("--root", self.root, "--yes", status=3).stderr)
        os.remove(os.path.join(place, "libown.so"))
        self.assertIn("libown.so => not found", self.call("--root", self.root, "--yes", status=1).stderr)
        self.assertEqual(self.files(), [])

    def test_systemd_is_told_in_order(self):
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("mount namespaces need root")
        notes = os.path.join(self.directory, "notes")
        folder = os.path.join(self.directory, "bin")
        os.mkdir(folder)
        with open(os.path.join(folder, "systemctl"), "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\necho "$*" >>{notes}\n')
        os.chmod(file.name, 0o755)
        run = subprocess.run(["unshare", "-m", "sh", "-c", IN_OWN_MOUNTS, "sh", self.lull], capture_output=True, text=True, check=False,
                             stdin=subprocess.DEVNULL, env=dict(os.environ, PATH=folder + ":" + os.environ["PATH"]))
        if run.returncode == 77 or "unshare" in run.stderr:
            self.skipTest("mounts are not permitted here")
        self.assertEqual(run.returncode, 0, run)
        start = ["daemon-reload", "enable lulld", "restart lulld"]
        with open(notes, encoding="ascii") as file:
            self.assertEqual(file.read().splitlines(), start + start + ["disable --now lulld"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
