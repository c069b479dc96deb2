"""Two jobs on one node, whose GPUs are numbered and named in random odd ways: no clock changes of a GPU that a managed job does
not compute on, as the emulated node's truth has it. Usage: test_mappings.py LULL LULLD SECTION_JOB.
LULL_MAPPINGS is the number of mappings (default 40), LULL_MAPPINGS_SEED the seed of the first (default 54).
SPDX-License-Identifier: Apache-2.0"""
import collections
import concurrent.futures
import functools
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import unittest

LULL, LULLD, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
COUNT = int(os.environ.get("LULL_MAPPINGS", "40"))
SEED = int(os.environ.get("LULL_MAPPINGS_SEED", "54"))
MODELS = ("A100-SXM4-40GB", "H100-SXM5", "A40", "V100-SXM2-16GB")
OUTSIDE = "unshare --mount --pid --fork --mount-proc --kill-child --"
Scenario = collections.namedtuple("Scenario", "seed node fault daemon variables ranks others container")
Rank = collections.namedtuple("Rank", "gpu contexts numbers own")


@functools.lru_cache(maxsize=None)
def uuids(node):
    done = subprocess.run([LULL, "emulate", "--seed", "0", node, "--", LULL, "gpus", "--json"], capture_output=True, text=True, check=True)
    return [gpu["uuid"] for gpu in json.loads(done.stdout)["gpus"]]


def draw_node(choice):
    """The models of a node's GPUs; AMD's and Intel's are of one kind."""
    count = choice.randint(2, 6)
    kind = choice.choice(("one", "one", "mixed", "mixed", "amd", "intel"))
    if kind in ("amd", "intel"):
        return [{"amd": "MI300X", "intel": "Max1550"}[kind]] * count
    return [choice.choice(MODELS) for _ in range(count)] if kind == "mixed" else [choice.choice(MODELS)] * count


def number_by_cuda(models, is_by_bus, choice):
    """CUDA's order of the GPUs of a node: by address, or from the fastest on; which is faster, a program cannot know."""
    if is_by_bus or len(set(models)) == 1:
        return list(range(len(models)))
    speed = choice.sample(MODELS, len(MODELS))
    return sorted(range(len(models)), key=lambda gpu: speed.index(models[gpu]))


def choose_words(choice, names, listed):
    """The words that name CUDA's numbers: numbers, UUIDs, their begins, or some of each."""
    style = choice.choice(("number", "number", "uuid", "begin", "both"))
    words = []
    for number in listed:
        kind = choice.choice(("number", "uuid")) if style == "both" else style
        begin = next(length for length in range(5, 41) if sum(name.startswith(names[number][:length]) for name in names) == 1)
        words.append({"number": str(number), "uuid": names[number], "begin": names[number][:begin + 4]}[kind])
    return words


def draw_visible(choice, node, models, variables):
    """Sets the variables; returns the GPUs of the node that CUDA, as it is documented, shows the process, in its order."""
    variables_of = {"MI300X": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "Max1550": ("ZE_AFFINITY_MASK",)}
    is_nvidia = models[0] in MODELS
    is_by_bus = is_nvidia and choice.random() < 0.4
    if is_by_bus:
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    elif choice.random() < 0.2:
        variables["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST"
    order = number_by_cuda(models, is_by_bus, choice)
    if choice.random() < 0.25:
        return order
    listed = choice.sample(range(len(models)), choice.randint(1, len(models)))
    if not is_nvidia:
        variables[choice.choice(variables_of[models[0]])] = ",".join(map(str, listed))
        return [order[number] for number in listed]
    words = choose_words(choice, [uuids(node)[gpu] for gpu in order], listed)
    end = choice.random()
    at = choice.randint(0, len(words))
    if end < 0.15: # what does not exist ends the list
        words.insert(at, choice.choice(("-1", "99", "GPU-none", "MIG-8f6d1b2a-1111-2222-3333-444455556666", "", "NoDevFiles")))
        listed = listed[:at]
    variables["CUDA_VISIBLE_DEVICES"] = ",".join(words)
    return [order[number] for number in listed]


def draw(seed):
    choice = random.Random(seed)
    models = draw_node(choice)
    node = ",".join(models)
    variables = {}
    shown = draw_visible(choice, node, models, variables)
    free = list(range(len(models)))
    # A program may set the variable itself, and then use any GPU.
    pool = choice.sample(shown, len(shown)) if shown and choice.random() < 0.75 else choice.sample(free, len(free))
    used = pool[:choice.randint(1, min(len(pool), max(1, len(models) - 1)))]
    rest = [gpu for gpu in free if gpu not in used]
    others = choice.sample(rest, choice.randint(min(1, len(rest)), len(rest)))
    container = choice.choice(("", "", "", "job", "rank", "others"))
    has_cuda = models[0] in MODELS and choice.random() < (0.9 if container in ("job", "rank") else 0.5)
    ranks = []
    for gpu in used:
        contexts = [gpu] + ([choice.choice(free)] if choice.random() < 0.2 else []) if has_cuda else []
        numbers = choice.choice((True, True, False))
        ranks.append(Rank(gpu, contexts, numbers, choice.random() < 0.1))
    return Scenario(seed, node, choice.choice(("", "", "", "no_processes")), choice.random() < 0.3, variables, ranks, others, container)


def rank_words(scenario, number, rank):
    words = [f"LOCAL_RANK={number}", f"RANK={number}"] if rank.numbers else []
    if rank.own:
        words.append("CUDA_VISIBLE_DEVICES=0")
    if rank.contexts:
        words.append("SECTION_JOB_CUDA=" + ",".join(map(str, dict.fromkeys(rank.contexts))))
    inside = OUTSIDE if scenario.container == "rank" else ""
    return f"env {' '.join(words)} {inside} {JOB} {rank.gpu} 70 6 12 0 &"


def script(scenario):
    """Others compute for as long as the job runs."""
    inside = OUTSIDE if scenario.container == "others" else ""
    lines = [f"{inside} {JOB} {gpu} 10000 6 2 0 & others=\"$others $!\"" for gpu in scenario.others]
    option = "--no-daemon"
    if scenario.daemon:
        option = ""
        lines.append(f"{LULLD} --allow-all 2>lulld.txt & daemon=$!; "
                     "n=0; while [ $n -lt 100 ] && ! [ -S $LULL_RUNTIME_DIR/lulld.sock ]; do sleep 0.05; n=$((n+1)); done")
    ranks = " ".join(rank_words(scenario, number, rank) for number, rank in enumerate(scenario.ranks)) + " wait"
    inside = OUTSIDE if scenario.container == "job" else ""
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in scenario.variables.items())
    lines.append(f"env {variables} {LULL} run {option} --quiet --report report -- {inside} sh -c {shlex.quote(ranks)}; status=$?")
    return "\n".join([*lines, "kill -KILL $others; kill $daemon; wait; exit $status"])


def play(seed):
    """Runs a scenario; returns it, what went wrong, and the GPUs whose clocks were changed."""
    scenario = draw(seed)
    with tempfile.TemporaryDirectory(prefix="lull-", ignore_cleanup_errors=True) as directory:
        fault = ["--fault", scenario.fault] if scenario.fault else []
        done = subprocess.run(
            [LULL, "emulate", "--seed", "0", "--truth", "truth.json", *fault, scenario.node, "--", "sh", "-c", script(scenario)],
            env=dict(os.environ, LULL_RUNTIME_DIR=os.path.join(directory, "run"), LULL_STATE_DIR=os.path.join(directory, "state")),
            cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=150)
        with open(os.path.join(directory, "truth.json"), encoding="utf-8") as file:
            gpus = json.load(file)["gpus"]
    own = {rank.gpu for rank in scenario.ranks}
    lowered = {gpu["gpu"] for gpu in gpus if gpu["requests_low"] > 0}
    wrong = [f"GPU {gpu} was lowered" for gpu in sorted(lowered - own)]
    wrong += [f"kernels of GPU {gpu} began low" for gpu in scenario.others if gpus[gpu]["kernels_started_low"] > 0]
    wrong += [f"GPU {gpu} computed nothing" for gpu in [*own, *scenario.others] if gpus[gpu]["kernels_started"] == 0]
    wrong += [f"GPU {gpu['gpu']} stays locked" for gpu in gpus if gpu["is_locked"]]
    if done.returncode != 0:
        wrong.append(f"status {done.returncode}: {done.stderr}")
    return scenario, wrong, lowered


class Mappings(unittest.TestCase):
    def test_no_clock_of_others_changes(self):
        if os.geteuid() != 0 or subprocess.run([*OUTSIDE.split(), "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("making PID namespaces needs root")
        managed = collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for scenario, wrong, lowered in pool.map(play, range(SEED, SEED + COUNT)):
                managed["with a GPU managed" if lowered else "unmanaged"] += 1
                managed["GPUs of jobs"] += len(scenario.ranks)
                managed["GPUs managed"] += len(lowered)
                with self.subTest(scenario):
                    self.assertEqual(wrong, [], "\n" + script(scenario))
        print(f"{COUNT} mappings from seed {SEED}:", dict(managed))
        # A program that manages nothing would pass.
        self.assertGreater(managed["with a GPU managed"], COUNT // 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
