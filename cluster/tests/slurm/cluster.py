# SPDX-License-Identifier: Apache-2.0
"""A real Slurm cluster of one host for tests of Lull with Slurm: the first node has the emulated node's GPUs and its
lulld, further ones have GPUs that only Slurm believes in. Whoever uses it runs inside `lull emulate`."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests"))
import host  # noqa: E402

PROGRAMS = ("slurmctld", "slurmd", "srun", "munged")
# Where Slurm's own plugins are.
PLUGINS = [os.path.dirname(path) for path in glob.glob("/usr/lib/*/slurm-wlm/auth_munge.so")]


def plugin_dir(plugin):
    """The line of slurm.conf for those, and for what lies beside a plugin of Lull."""
    return f"PluginDir={':'.join([os.path.dirname(plugin), *PLUGINS])}"


def reason_to_skip(tools):
    """Why there can be no cluster here; None: there can."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"no {missing[0]} (tools/install-deps installs Slurm)"
    if not os.path.exists(os.path.join(tools, "up.sh")):
        return f"no {tools}"
    if os.geteuid() != 0:
        return "Slurm's daemons and lulld run as root here"
    return None


class Cluster:
    """The cluster, up until stop(), with a plugin and a lulld or without. Everybody may write directory/work."""

    def __init__(self, tools, lulld, plugin, port, gpus=8, plugin_options=(), conf=(), policy=None, nodes=1):
        self.tools, self.lulld, self.plugin = tools, lulld, plugin
        # Slurm's sockets lie below it, and their names are short.
        self.directory = tempfile.mkdtemp(prefix="lull-", dir="/tmp")
        os.chmod(self.directory, 0o755)
        self.runtime = os.path.join(self.directory, "n1")
        self.work = os.path.join(self.directory, "work")
        os.mkdir(self.work)
        os.chmod(self.work, 0o1777)
        self.slurm = os.path.join(self.directory, "slurm")
        self.daemon = None
        self.policy = policy
        os.environ["LULL_RUNTIME_DIR"] = self.runtime
        extra = os.path.join(self.directory, "extra.conf")
        with open(extra, "w", encoding="utf-8") as file:
            # A node is idle for the next job at once, and a job that is cancelled ends at once.
            file.write("\n".join(("KillWait=1", "SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0",
                                  *conf)) + "\n")
        try:
            plugins = ["-s", self.plugin_line(*plugin_options)] if plugin else []
            if lulld:
                self.start_lulld()
            up = subprocess.run([os.path.join(tools, "up.sh"), "-n", str(nodes), "-g", str(gpus), "-p", str(port), "-x", extra, *plugins,
                                 self.slurm], capture_output=True, text=True, check=False)
            if up.returncode != 0:
                raise RuntimeError(up.stderr)
            os.environ["SLURM_CONF"] = os.path.join(self.slurm, "slurm.conf")
        except BaseException:
            self.stop()
            raise

    def plugin_line(self, *options):
        return " ".join(("optional", self.plugin, f"runtime_dir={self.directory}/%n", *options))

    def load_plugin(self, *options):
        """Writes plugstack.conf, which whatever begins from now on reads. That there is a job_epilog slurmd has learnt at its start."""
        with open(os.path.join(self.slurm, "plugstack.conf"), "w", encoding="utf-8") as file:
            file.write(self.plugin_line(*options) + "\n")

    def start_lulld(self):
        options = ["--policy", self.policy] if self.policy else ["--socket-mode", "0666"]

        def spawn(*words, **more):
            with open(os.path.join(self.directory, "lulld.log"), "a", encoding="utf-8") as log:
                return subprocess.Popen(words, stderr=log, stdin=subprocess.DEVNULL, **more)
        self.daemon = host.start_lulld(spawn, self.lulld, *options)

    def stop_lulld(self, kill=False):
        if self.daemon is not None:
            (self.daemon.kill if kill else self.daemon.terminate)()
            self.daemon.wait()
        self.daemon = None

    def stop(self):
        if os.path.exists(os.path.join(self.slurm, ".slurm-cluster")):
            subprocess.run([os.path.join(self.tools, "down.sh"), self.slurm], check=False, stdin=subprocess.DEVNULL)
        self.stop_lulld()
        host.remove(self.directory)

    def log(self, name="slurm/log/slurmd.n1.log"):
        with open(os.path.join(self.directory, name), encoding="utf-8", errors="replace") as file:
            return file.read()


class SecondNode:
    """The GPUs of the cluster's second node: another emulated node, with a lulld of its own. Whoever runs on the second
    node finds them where he takes on what `variable` says."""

    def __init__(self, cluster, lull, spec):
        self.holder = subprocess.Popen([lull, "emulate", spec, "--", "sh", "-c", 'echo "$LULL_EMULATED_NODE"; exec cat >/dev/null'],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.node = self.holder.stdout.readline().strip()
        self.variable = f"LULL_EMULATED_NODE={self.node}"
        environment = dict(os.environ, LULL_EMULATED_NODE=self.node, LULL_RUNTIME_DIR=os.path.join(cluster.directory, "n2"))

        def spawn(*words, **more):
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, **more)
        self.daemon = host.start_lulld(spawn, cluster.lulld, "--socket-mode", "0666")
        # The plugin starts this for lull, with each node's own runtime directory among the words.
        self.lull = os.path.join(cluster.directory, "lull")
        with open(self.lull, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\ncase " $* " in *"/n2 "*) export {self.variable} ;; esac\n'
                       f'[ "$1" != run ] || echo "$LULL_TOGETHER_KEY" >>"{cluster.work}/keys"\nexec {lull} "$@"\n')
        os.chmod(self.lull, 0o755)

    def stop(self):
        self.daemon.terminate()
        self.daemon.wait()
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()


def run(*words, **options):
    """A command with its output, without patience for one that hangs."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, **options)


def is_over(number):
    """Whether a process that is not ours to wait for has ended."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def wait_idle(limit_s=20):
    """Waits until no job is left, and until the node has cleaned up behind the last one."""
    return host.wait_for(lambda: run("sinfo", "-h", "-o", "%T").stdout.strip() == "idle"
                         and not run("squeue", "-h").stdout.strip(), limit_s, 0.02)


def energy_of(text):
    """The joules that scontrol show job says; None: it says none."""
    found = re.search(r"TRES=\S*energy=(\d+)", text)
    return int(found.group(1)) if found else None
