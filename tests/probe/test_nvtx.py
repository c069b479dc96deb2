"""Ranges that programs announce through NVTX become sections: from C, from Python's package nvtx, and beside another tool.
Usage: test_nvtx.py VENV EVENT_READER LIBRARY CLIENT TOOL. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import unittest
import venv

VENV, READER, LIBRARY, CLIENT, TOOL = (os.path.abspath(argument) for argument in sys.argv[1:6])
del sys.argv[1:6]

PYTHON_CLIENT = """
import nvtx
for microbatch in range(3):
    with nvtx.annotate("forward"):
        with nvtx.annotate("forward"):
            pass
    with nvtx.annotate("backward", domain="trainer"):
        pass
nvtx.end_range(nvtx.start_range("forward_step", domain="other"))
with nvtx.annotate("optimizer"):
    pass
"""


def observe(*command, chain=None, library=LIBRARY):
    """The first process that was seen, and what was printed before the reader's line."""
    env = dict(os.environ, NVTX_INJECTION64_PATH=library)
    if chain:
        env["LULL_NVTX_CHAIN"] = chain
    done = subprocess.run([READER, *command], env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("["))
    processes = json.loads("\n".join(lines[start:]))
    return (processes[0] if processes else None), lines[:start]


def python_with_nvtx():
    """None: there is no such package to be had."""
    python = os.path.join(VENV, "bin", "python")
    if not os.path.exists(os.path.join(VENV, "complete")):
        venv.create(VENV, with_pip=True, clear=True)
        if subprocess.run([python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "15", "nvtx"],
                          check=False, capture_output=True).returncode != 0:
            return None
        with open(os.path.join(VENV, "complete"), "w", encoding="utf-8"):
            pass
    return python


class Nvtx(unittest.TestCase):
    def check_client(self, process):
        # DeepSpeedEngine.forward, backward-compute, backward_step, Forward 3, fwd: five sections, none within another.
        self.assertEqual(process["counts"]["user"][:2], [5, 5])
        self.assertEqual(process["unmatched"], 0)
        self.assertEqual(process["names"], ["forward", "backward"])

    def test_ranges_of_c(self):
        process, said = observe(CLIENT)
        self.check_client(process)
        self.assertEqual(said[0], "0 1 2 2 1 1 1 0")

    def test_another_tool_is_passed_everything(self):
        process, said = observe(CLIENT, chain=TOOL)
        self.check_client(process)
        self.assertEqual(said[0], "100 100 100 100 100 1 100 100")
        self.assertIn("tool saw 4 pushes, 6 pops", said)

    def test_a_missing_tool_does_no_harm(self):
        self.check_client(observe(CLIENT, chain="/nonexistent/tool.so")[0])

    def test_chained_to_itself(self):
        self.check_client(observe(CLIENT, chain=LIBRARY)[0])

    def test_without_a_job_nothing_happens(self):
        done = subprocess.run([CLIENT], env=dict(os.environ, NVTX_INJECTION64_PATH=LIBRARY), capture_output=True,
                              text=True, check=True)
        self.assertEqual((done.stdout, done.stderr), ("0 1 2 2 1 1 1 0\n", ""))

    def test_ranges_of_python(self):
        python = python_with_nvtx()
        if python is None:
            self.skipTest("the package nvtx cannot be installed")
        process, _ = observe(python, "-c", PYTHON_CLIENT)
        self.assertEqual(process["counts"]["user"][:2], [7, 7])
        self.assertEqual(process["unmatched"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
