"""Ten launchers on an emulated node: the ranks that each starts are seen, or the reason is the true one. Where a launcher is
not installed, its case is skipped and says so.

usage: test_launchers.py LULL MPI_JOB DDP_PROGRAM SLURM_TOOLS
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [TESTS, os.path.join(os.path.dirname(TESTS), "cluster", "tests", "slurm")]
import cluster  # noqa: E402
import host  # noqa: E402

LULL, MPI_JOB, DDP_PROGRAM, SLURM_TOOLS = (os.path.abspath(word) for word in sys.argv[1:5])
del sys.argv[1:5]
SLURM_PORT = 19480
# The name is put together, so that no reader of this text finds it.
PYTHON_LAUNCHER = """
import os, subprocess, sys
sys.exit(subprocess.run(["mpi" + "run.openmpi", "--oversubscribe", "-n", "2", os.environ["JOB"]], check=False).returncode)
"""


def python_with(*packages):
    """A Python that has these packages, None if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import " + ", ".join(packages)], capture_output=True, check=False).returncode == 0:
            return python
    return None


class Launchers(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lull-", dir="/tmp")
        self.addCleanup(host.remove, self.directory)
        self.write("Makefile", "train:\n\tmpirun.openmpi --oversubscribe -n 2 $(JOB)\n")
        self.write("launch.py", PYTHON_LAUNCHER)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def need(self, *programs):
        for program in programs:
            if shutil.which(program) is None:
                self.skipTest(f"no {program}")

    def run_job(self, *job, status=0, **variables):
        """Runs a job; its report."""
        report = os.path.join(self.directory, "report")
        done = subprocess.run(
            [LULL, "emulate", "2xA100", "--", LULL, "run", "--no-daemon", "--report", report, "--", *job],
            env=dict(os.environ, LULL_RUNTIME_DIR=self.directory, JOB=MPI_JOB, OMPI_ALLOW_RUN_AS_ROOT="1",
                     OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl="self,vader", **variables),
            cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=100)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        with open(os.path.join(report, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def check_seen(self, report, ranks=2):
        seen = [gpu["index"] for gpu in report["gpus"] if gpu["calls"] > 0]
        self.assertEqual(seen, list(range(ranks)), report["notes"])

    def check_reason(self, report, *words):
        self.assertEqual(report["gpus"], [])
        for word in words:
            self.assertIn(word, report["verdict"]["sentence"])

    def need_mpi(self):
        if not os.path.exists(MPI_JOB):
            self.skipTest("no Open MPI")
        self.need("mpirun.openmpi")

    def test_mpirun(self):
        self.need_mpi()
        self.check_seen(self.run_job("mpirun.openmpi", "--oversubscribe", "-n", "2", MPI_JOB))

    def test_make(self):
        self.need_mpi()
        self.check_seen(self.run_job("make", "train"))

    def test_nohup(self):
        self.need_mpi()
        self.check_seen(self.run_job("nohup", "make", "train"))

    def test_python_subprocess(self):
        self.need_mpi()
        self.check_seen(self.run_job(sys.executable, "launch.py"))

    def test_shell_scripts(self):
        self.need_mpi()
        self.write("inner", '#!/bin/sh\nM=mpirun\nexec $M.openmpi --oversubscribe -n 2 "$JOB"\n', 0o755)
        self.write("job.sh", "#!/bin/sh\nset -e\n. ./settings\n./$INNER\n", 0o755)
        self.write("settings", "INNER=inner\n")
        self.check_seen(self.run_job("./job.sh"))

    def test_a_script_that_clears_the_environment(self):
        self.need_mpi()
        report = self.run_job("sh", "-c", 'env -i PATH="$PATH" JOB="$JOB" OMPI_ALLOW_RUN_AS_ROOT=1 '
                              "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -c 'make train && make train && make train'")
        self.check_reason(report, "no rank was detected", "uses libmpi.so", "without Lull's probes", "started without LD_PRELOAD")

    def test_a_container(self):
        """One made of namespaces, as root; the variables go into it. docker and podman start it from elsewhere."""
        self.need_mpi()
        self.need("unshare")
        words = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--"]
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no new namespaces may be made here")
        self.check_seen(self.run_job(*words, "make", "train"))

    def test_docker(self):
        self.write("docker", "#!/bin/sh\nexit 0\n", 0o755)
        report = self.run_job("docker", "run", "image", "python3", "train.py", PATH=self.directory + ":" + os.environ["PATH"])
        self.check_reason(report, "docker starts the job elsewhere", "Use lull run there")

    def test_tmux(self):
        """A server that is new has the variables; one that runs already has not, and that is said."""
        self.need_mpi()
        self.need("tmux")
        tmux = f"tmux -S {self.directory}/socket"
        self.addCleanup(subprocess.run, [*tmux.split(), "kill-server"], capture_output=True, check=False)
        wait = f"{tmux} new-session -d 'make train; {tmux} wait-for -S over'; {tmux} wait-for over"
        self.check_seen(self.run_job("sh", "-c", wait))
        subprocess.run([*tmux.split(), "new-session", "-d", "sleep 60"], check=True,
                       env={name: value for name, value in os.environ.items() if name != "TMUX"})
        self.check_reason(self.run_job("sh", "-c", wait), "tmux starts the job elsewhere")

    def check_torch(self, *launcher):
        report = self.run_job(*launcher, DDP_PROGRAM, self.directory, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                              GLOO_SOCKET_IFNAME="lo")
        self.check_seen(report)

    def test_torchrun(self):
        python = python_with("torch.distributed.run")
        if python is None:
            self.skipTest("no PyTorch (Debian: python3-torch)")
        # PyTorch 1.13 cannot leave the ranks' output alone under Python 3.11: both choices have to be given.
        self.check_torch(python, "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1", "--master_addr", "127.0.0.1",
                         "--master_port", "29763", "--nproc_per_node", "2")

    def test_accelerate(self):
        python = python_with("torch", "accelerate")
        if python is None:
            self.skipTest("no accelerate")
        self.check_torch(python, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1")

    def test_srun(self):
        self.need_mpi()
        reason = cluster.reason_to_skip(SLURM_TOOLS)
        if reason:
            self.skipTest(reason)
        slurm = cluster.Cluster(SLURM_TOOLS, None, None, SLURM_PORT, gpus=0)
        self.addCleanup(slurm.stop)
        # Within a task of Slurm, mpirun would start its own tasks by Slurm.
        self.write("task.sh", "#!/bin/sh\nunset $(env | sed -n 's/^\\(SLURM[^=]*\\)=.*/\\1/p')\nexec make train\n", 0o755)
        self.check_seen(self.run_job("srun", "-Q", "-n1", "./task.sh"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
