"""A server under an Azure trace in real time on the emulated node, at full clocks and under `lull attach --slo`, beside the same in
virtual time (`lull simulate --server`). Prints a table in Markdown; each row ends with the difference of the two savings in points.

Run as: bench_serving_realtime.py BUILD TRACE... [--minutes 20] [--case MODEL,GPUS]... [--load 0.5] [--slo OBJECTIVE] [--locust]
                                  [--out DIR]

Full clocks and Lull run at the same time, each on a node of its own. What ends is kept in the folder of --out, and is not run again.
With --locust, Locust sends the requests over HTTP (tools/install-deps installs it).
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import csv
import datetime
import gzip
import json
import math
import os
import subprocess
import sys
import time

CASES = ["Llama-3.1-8B-Instruct,1xH100-SXM5", "Qwen3-32B,4xA100-SXM4-80GB"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--load", default="0.5")
    parser.add_argument("--slo", help="default: that of lull simulate for the model")
    parser.add_argument("--locust", action="store_true")
    parser.add_argument("--out", default="serving-realtime")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    return parser.parse_args()


OPTIONS = parse()
LULL = os.path.join(os.path.abspath(OPTIONS.build), "src/cli/lull")
PYTHON = os.path.join(os.environ.get("LULL_LOAD") or os.path.expanduser("~/.cache/lull/load"), "bin/python")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# ---- on the emulated node ---------------------------------------------------------------------------------------------------


def play(task):
    """Runs the server, and Lull beside it where the task says so; writes both outcomes."""
    server = subprocess.Popen([LULL, "play", "--json", "--port", "0", *task["server"]], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address, attach = server.stderr.readline().strip(), None
    if task["is_lull"]:
        attach = subprocess.Popen([LULL, "attach", "--json", "--no-daemon", "--runtime-dir", task["path"] + ".run", "--quiet", "--slo",
                                   task["slo"], "--metrics", address + "metrics", "--report", task["path"] + ".report"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        if attach.poll() is not None:
            server.kill()
            sys.exit("lull attach failed")
    if task["arrivals"]:
        subprocess.run([PYTHON, "-m", "locust", "-f", os.path.join(os.path.dirname(__file__), "locust_arrivals.py"), "--headless", "--users",
                        "1", "--only-summary", "--host", address.rstrip("/")], env=dict(os.environ, ARRIVALS=task["arrivals"]),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        server.terminate()
    outcome = {"play": json.loads(server.communicate()[0])}
    if attach is not None:
        attach.terminate()
        outcome["attach"] = json.loads(attach.communicate(timeout=60)[0])
    with open(task["path"] + ".new", "w", encoding="utf-8") as file:
        json.dump(outcome, file, indent=1)
    os.rename(task["path"] + ".new", task["path"])


# ---- outside --------------------------------------------------------------------------------------------------------------------


def simulate(path, trace, case):
    model, gpus = case.split(",")
    if not os.path.exists(path):
        done = subprocess.run([LULL, "simulate", "--json", "--server", model, "--on", gpus, "--arrivals", trace, "--load", OPTIONS.load,
                               "--duration", str(OPTIONS.minutes * 60), *(["--slo", OPTIONS.slo] if OPTIONS.slo else [])],
                              stdout=subprocess.PIPE, text=True, check=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(done.stdout)
    return read(path)


def write_arrivals(path, trace, rate):
    """The requests that lull play --arrivals sends at a rate, for Locust."""
    with gzip.open(trace, "rt", encoding="ascii") as file:
        rows = [(datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp(), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
                for row in csv.DictReader(file)]
    period = (rows[-1][0] - rows[0][0]) * len(rows) / (len(rows) - 1)
    stretch = len(rows) / period / rate
    arrivals = [((at - rows[0][0]) * stretch, *tokens) for at, *tokens in rows]
    with open(path, "w", encoding="ascii") as file:
        json.dump([row for row in arrivals if row[0] < OPTIONS.minutes * 60], file)


def objective(document):
    bounds = document["objective"]
    words = [f"{name}={bounds[name + '_ms']}ms" for name in ("ttft", "tpot") if bounds[name + "_ms"] is not None]
    return f"{','.join(words)}@p{100 * bounds['share_ratio']:g}"


def start(path, trace, case, virtual, is_lull):
    """Starts a server on a node of its own; None: it has run before."""
    if os.path.exists(path):
        return None
    model, gpus = case.split(",")
    server = ["--server", model, "--tensor-parallel", gpus.split("x")[0], "--slo", objective(virtual)]
    task = {"server": server, "is_lull": is_lull, "slo": objective(virtual), "path": os.path.abspath(path), "arrivals": None}
    if OPTIONS.locust:
        task["arrivals"] = task["path"] + ".arrivals"
        write_arrivals(task["arrivals"], trace, virtual["rate_per_s"])
    else:
        server += ["--arrivals", trace, "--rate", repr(virtual["rate_per_s"]), "--duration", str(OPTIONS.minutes * 60)]
    return subprocess.Popen([LULL, "emulate", "--seed", "0", gpus, "--", sys.executable, __file__, OPTIONS.build, "-", "--inside",
                             json.dumps(task)], stdin=subprocess.DEVNULL)


def print_row(trace, case, virtual, full, lull):
    modes = {mode["name"]: mode for mode in virtual["modes"]}
    real_j = [document["play"]["energy"]["per_output_token_j"] for document in (full, lull)]
    virtual_j = [modes[name]["energy_per_token_j"] for name in ("highest", "lull")]
    saved = [100 * (1 - both[1] / both[0]) for both in (real_j, virtual_j)]
    missed = [100 * (math.nan if document["play"]["missed_ratio"] is None else document["play"]["missed_ratio"]) for document in (full, lull)]
    virtual_missed = [100 * modes[name]["missed_ratio"] for name in ("highest", "lull")]
    times = [1e3 * document["play"][name][quantile + "_s"] for name in ("ttft", "tpot") for quantile in ("p50", "p99")
             for document in (full, lull)]
    virtual_times = [modes[mode][f"{name}_{quantile}_ms"] for name in ("ttft", "tpot") for quantile in ("p50", "p99")
                     for mode in ("highest", "lull")]
    late = max(document["play"]["late_steps"] / document["play"]["steps"] for document in (full, lull))
    name = os.path.basename(trace).split(".")[0]
    for place, (high_j, low_j), saving, misses, ms in (("real", real_j, saved[0], missed, times),
                                                       ("virtual", virtual_j, saved[1], virtual_missed, virtual_times)):
        cells = " | ".join(f"{ms[2 * i]:.1f} / {ms[2 * i + 1]:.1f}" for i in range(4))
        difference = f"{saved[0] - saved[1]:+.2f}; {100 * late:.2f} %" if place == "real" else ""
        print(f"| {name} | {case} | {place} | {high_j:.4f} | {low_j:.4f} | {saving:.1f} | {misses[0]:.2f} / {misses[1]:.2f} | {cells} | "
              f"{difference} |", flush=True)


def main():
    os.makedirs(OPTIONS.out, exist_ok=True)
    print("| trace | server | time | J/token, full clocks | J/token, Lull | saved, % | missed, % (full / Lull) | TTFT p50, ms | TTFT p99, ms "
          "| TPOT p50, ms | TPOT p99, ms | real minus virtual saving, points; late steps |")
    print("|" + "---|" * 12)
    for trace in OPTIONS.traces:
        for case in OPTIONS.case or CASES:
            stem = os.path.join(OPTIONS.out, f"{os.path.basename(trace).split('.')[0]}-{case.replace(',', '-')}-{OPTIONS.load}-{OPTIONS.minutes:g}"
                                + "-locust" * OPTIONS.locust)
            virtual = simulate(stem + "-virtual.json", os.path.abspath(trace), case)
            paths = [f"{stem}-{name}.json" for name in ("full", "lull")]
            started = [start(path, os.path.abspath(trace), case, virtual, path == paths[1]) for path in paths]
            begin = time.monotonic()
            if any(process is not None and process.wait() != 0 for process in started):
                sys.exit(f"{stem}: a server failed")
            print(f"{stem}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
            print_row(trace, case, virtual, *map(read, paths))


if __name__ == "__main__":
    if OPTIONS.inside:
        play(json.loads(OPTIONS.inside))
    else:
        main()
