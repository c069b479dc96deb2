"""A run that comes to nothing says why, and what to do: in the notes of its report, in the table, and without a table at
once. Each test is one such case and its message. SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL, LIBLULL, JOB, MPI_JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
# Opens a context on the first GPU, as a program of CUDA does.
ON_GPU_0 = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0) == 0
"""
# A rank that computes on the processor, beside an idle GPU; without exchanges it only counts its steps.
ON_THE_PROCESSOR = r"""
import ctypes, sys, time
lull = ctypes.CDLL(sys.argv[1])
for _ in range(int(sys.argv[2])):
    if sys.argv[3:]:
        time.sleep(0.02)
        lull.lull_section_begin(b"communication")
        time.sleep(0.08)
        lull.lull_section_end(b"communication")
    lull.lull_step()
time.sleep(0.3)
"""


class Silence(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="lull-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def run_job(self, *job, options=("--no-daemon",), emulate=(), node="1xA100", status=0, **variables):
        """Runs a job with a table; returns the report, and what standard error has."""
        directory = os.path.join(self.directory, "report")
        done = subprocess.run(
            [LULL, "emulate", *emulate, node, "--", LULL, "run", "--report", directory, *options, "--", *job],
            env=dict(os.environ, LULL_RUNTIME_DIR=self.directory, **variables), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
            return json.load(file), done.stderr

    def check(self, run, *words):
        """One note and one line of standard error have all these words; returns the note."""
        report, said = run
        notes = [note for note in report["notes"] if words[0] in note]
        self.assertEqual(len(notes), 1, report["notes"])
        for word in words:
            self.assertIn(word, notes[0])
        # Either the note was logged, or the reason and the step are in lines of the end.
        parts = notes[0].partition(". ") if ". " in notes[0] else notes[0].rpartition("; ")
        logged = said.count("warning: " + notes[0])
        self.assertTrue(logged or all(part[1:] in said for part in (parts[0], parts[2])), said)
        self.assertLessEqual(said.count(parts[0]) - logged, 1, said)
        return notes[0]

    def check_verdict(self, run, *words):
        """The verdict is that nothing was lowered, for this reason, in the table and in the report."""
        report, said = run
        sentence = report["verdict"]["sentence"]
        self.assertTrue(sentence.startswith("no clocks lowered: "), sentence)
        lines = [report["verdict"][name] for name in ("energy_line", "time_line", "next_line")]
        self.assertTrue(lines[0].startswith("nothing saved, no clocks lowered: "), lines[0])
        for word in words:
            self.assertIn(word, sentence)
            self.assertIn(word, lines[0] + lines[2])
        self.assertEqual(report["verdict"]["lowered"], False)
        self.assertEqual((report["verdict"]["saving_ratio"], report["verdict"]["saving_reason"]), (None, "nothing was lowered"))
        printed = [line.strip() for line in said.splitlines() if line.startswith("  ")]
        self.assertEqual(printed[:3], ["Energy: " + lines[0], "Time:   " + lines[1], "Next:   " + lines[2]])
        self.assertRegex(printed[3], "^Report: .*/report.html")
        self.assertEqual(len(printed), 4)

    def test_no_rank(self):
        run = self.run_job("true")
        self.check(run, "no NCCL, MPI or gloo process was detected", "use lull run there")
        self.assertNotIn("ms/iteration", run[1])  # a table of zeros says nothing
        self.check_verdict(run, "no NCCL, MPI or gloo process was detected", "use lull run there")
        self.check(self.run_job("true", options=("--no-daemon", "--quiet")), "no NCCL, MPI or gloo process was detected")

    def test_a_command_that_failed(self):
        report, said = self.run_job("sh", "-c", "exit 3", status=3)
        self.assertEqual(report["verdict"]["sentence"], "the job exited with status 3; no clocks lowered")
        self.assertIn("Energy: nothing saved: the job exited with status 3\n", said)
        self.assertIn("Lull knows of no error of its own that made the job fail", said)
        self.assertEqual([note for note in report["notes"] if "no NCCL, MPI or gloo process was detected" in note], report["notes"])

    def test_ranks_that_a_script_starts_are_seen(self):
        if not os.path.exists(MPI_JOB):
            self.skipTest("no Open MPI")
        script = os.path.join(self.directory, "job.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nset -e\nmpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "$1"\n')
        os.chmod(script, 0o755)
        for job in ((script, MPI_JOB), ("sh", "-c", f"{script} {MPI_JOB}")):
            report, _ = self.run_job(*job, node="2xA100")
            self.assertEqual([gpu["index"] for gpu in report["gpus"] if gpu["calls"] > 0], [0, 1], report["notes"])

    def test_no_gpu_that_the_job_may_use(self):
        run = self.run_job("true", CUDA_VISIBLE_DEVICES="7", node="2xA100")
        self.check(run, "it may use none of this node's 2 GPUs", "CUDA_VISIBLE_DEVICES names none of them", "unset that")

    def test_a_rank_that_never_communicates(self):
        self.check(self.run_job(sys.executable, "-c", ON_GPU_0 + ON_THE_PROCESSOR, LIBLULL, "3"),
                   "GPU 0: its rank loaded a probe but never communicated", "lull_section_begin() of lull.h")

    def test_a_job_on_the_processor(self):
        """No GPU is managed for a process that uses none."""
        run = self.run_job(sys.executable, "-c", ON_THE_PROCESSOR, LIBLULL, "12", "communicate")
        self.check(run, "no clock was changed: no process of the job was seen on a GPU", "run it without Lull")
        self.assertEqual([gpu["switches"] for gpu in run[0]["gpus"] if gpu.get("switches")], [])

    def test_no_iteration(self):
        self.check(self.run_job(JOB, "0", "2", "200", "300", "0"),
                   "GPU 0: no iteration was found: the 2 calls", "run it longer")

    def test_a_run_that_ends_while_it_is_learnt(self):
        note = self.check(self.run_job(JOB, "0", "7", "20", "30", "0"), "GPU 0: the run ended while its iterations were learned, after 7 ",
                          "a wider --tolerance")
        self.assertRegex(note, r"about \d+ more \([1-9]\d* s\) are needed")
        note = self.check(self.run_job(JOB, "0", "30", "20", "30", "0"), "GPU 0: the run ended during the clock search",
                          "use a longer run")
        self.assertRegex(note, r"after (29|30) iterations: about \d+ more")

    def test_an_idle_gpu(self):
        # Its driver lists no processes, and the node has no other GPU that the job could mean.
        run = self.run_job(sys.executable, "-c", ON_THE_PROCESSOR, LIBLULL, "60", "exchanges", emulate=("--fault", "no_processes"),
                           options=("--no-daemon", "--tolerance", "5%"))
        self.check(run, "GPU 0: idle in 100 % of the readings", "CUDA_VISIBLE_DEVICES")
        self.check_verdict(run, "GPU 0: idle in 100 % of the readings", "CUDA_VISIBLE_DEVICES")
        (gpu,) = run[0]["gpus"]
        # Its clock is below what was set because it is idle: the driver does what it says.
        self.assertGreater(gpu["driver"]["changes"], 5)
        self.assertEqual((gpu["driver"]["without_effect"], gpu["driver"]["trouble"]), (0, ""))
        self.assertNotIn("the driver reports success, but clocks do not change", run[1])

    def test_no_permission(self):
        run = self.run_job("true", options=())
        self.check(run, "the command is observed, not managed", "lulld")

    def test_a_device_that_refuses(self):
        run = self.run_job(JOB, "0", "40", "10", "60", "0", emulate=("--fault", "no_permission"))
        self.check(run, "GPU 0: not managed: the driver does not permit its clocks to be set", "as root on the host")

    def test_a_shared_gpu(self):
        run = self.run_job("sh", "-c", '"$0" "$@" & "$0" "$@"; wait', JOB, "0", "20", "10", "30", "0")
        self.check(run, "GPU 0: not managed: several ranks share it", "CUDA_VISIBLE_DEVICES")


if __name__ == "__main__":
    unittest.main(verbosity=2)
