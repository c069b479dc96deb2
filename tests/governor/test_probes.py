"""What `lull run` puts into a job's environment for NCCL, and what it respects there.
SPDX-License-Identifier: Apache-2.0"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv.pop(1))
PLUGIN = "libnccl-profiler-lull.so"


class NcclPlugin(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(self.directory.cleanup)

    def run_job(self, *options, **variables):
        """Returns the job's NCCL_PROFILER_PLUGIN and LULL_NCCL_CHAIN, and the report's notes."""
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("NCCL_PROFILER_PLUGIN", "LULL_NCCL_CHAIN")}
        report = os.path.join(self.directory.name, "report")
        done = subprocess.run(
            [LULL, "emulate", "1xA100-SXM4-40GB", "--", LULL, "run", "--quiet", *options, "--report", report, "--",
             "sh", "-c", 'echo "$NCCL_PROFILER_PLUGIN|$LULL_NCCL_CHAIN"'],
            env=dict(environment, LULL_RUNTIME_DIR=self.directory.name, **variables), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        with open(os.path.join(report, "report.json"), encoding="utf-8") as file:
            notes = [note for note in json.load(file)["notes"] if "NCCL_PROFILER_PLUGIN" in note]
        return (*done.stdout.splitlines()[-1].split("|"), notes)

    def test_the_plugin_is_set_and_can_be_loaded(self):
        plugin, chain, notes = self.run_job()
        self.assertEqual(os.path.basename(plugin), PLUGIN)
        self.assertEqual((chain, notes), ("libnccl-profiler.so", []))
        library = ctypes.CDLL(plugin)
        for version in range(1, 8):
            table = ctypes.c_char_p.in_dll(library, f"ncclProfiler_v{version}")
            self.assertEqual(table.value, b"lull")

    def test_the_users_plugin_is_chained(self):
        for theirs in ("/opt/lib/libnccl-profiler-comma.so", "inspector"):
            plugin, chain, notes = self.run_job(NCCL_PROFILER_PLUGIN=theirs)
            self.assertEqual((os.path.basename(plugin), chain, notes), (PLUGIN, theirs, []))

    def test_a_chosen_chain_stays(self):
        for theirs in ({}, {"NCCL_PROFILER_PLUGIN": "inspector"}):
            plugin, chain, _ = self.run_job(LULL_NCCL_CHAIN="/opt/lib/other.so", **theirs)
            self.assertEqual((os.path.basename(plugin), chain), (PLUGIN, "/opt/lib/other.so"))

    def test_ours_is_not_chained_to_itself(self):
        for ours in ("lull", "/somewhere/" + PLUGIN):
            plugin, chain, _ = self.run_job(NCCL_PROFILER_PLUGIN=ours)
            self.assertEqual((os.path.basename(plugin), chain), (PLUGIN, ""))
            self.assertTrue(os.path.exists(plugin))

    def test_a_profiler_that_is_switched_off_stays_off(self):
        for word in ("none", "STATIC_PLUGIN"):
            plugin, chain, notes = self.run_job("--compare", NCCL_PROFILER_PLUGIN=word)
            self.assertEqual((plugin, chain), (word, ""))
            self.assertEqual(len(notes), 1)
            self.assertIn(word, notes[0])


class NvtxSections(unittest.TestCase):
    def run_job(self, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("NVTX_INJECTION64_PATH", "LULL_NVTX_CHAIN")}
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            done = subprocess.run(
                [LULL, "emulate", "1xA100-SXM4-40GB", "--", LULL, "run", "--quiet", "--report", directory, "--",
                 "sh", "-c", 'echo "$NVTX_INJECTION64_PATH|$LULL_NVTX_CHAIN"'],
                env=dict(environment, LULL_RUNTIME_DIR=directory, **variables), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        return done.stdout.splitlines()[-1].split("|")

    def test_the_library_is_set_and_can_be_loaded(self):
        library, chain = self.run_job()
        self.assertEqual((os.path.basename(library), chain), ("liblull-nvtx.so", ""))
        self.assertTrue(ctypes.CDLL(library).InitializeInjectionNvtx2)

    def test_another_tools_library_is_chained(self):
        library, chain = self.run_job(NVTX_INJECTION64_PATH="/opt/tool/libtool.so")
        self.assertEqual((os.path.basename(library), chain), ("liblull-nvtx.so", "/opt/tool/libtool.so"))

    def test_a_chosen_chain_stays(self):
        chain = self.run_job(NVTX_INJECTION64_PATH="/opt/a.so", LULL_NVTX_CHAIN="/opt/b.so")[1]
        self.assertEqual(chain, "/opt/b.so")


if __name__ == "__main__":
    unittest.main()
