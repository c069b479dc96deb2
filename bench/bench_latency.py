"""Compares feed-forward with reactive switching on a recorded job, over switch latencies and numbers
of GPUs, in virtual time. It prints the table of docs/research/measurements/latency.md. A third of each latency is the driver's call, which GPUs
queue for; the rest is settling.
SPDX-License-Identifier: Apache-2.0

Usage: bench_latency.py LULL TRACE...
"""
import json
import os
import subprocess
import sys

LATENCIES_MS = [2, 5, 10, 20, 25, 50, 100]
GPUS = [1, 2, 4, 8]
LOOKS_MS = [0, 1.5]  # how often clocks are read back; 0: the driver reports
FAST_MS = [2, 5, 10]
PERIODS = 340  # the descents settle within about 240 periods; the settled part is shown


def simulate(lull, traces, latency_ms, gpus, look_ms):
    done = subprocess.run(
        [lull, "simulate", "--json", "--ranks", str(gpus), "--periods", str(PERIODS),
         "--look-ms", str(look_ms), "--call-settle-ms", f"{latency_ms / 3:.3f},{latency_ms * 2 / 3:.3f}", *traces],
        capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    return {**{mode["name"]: mode for mode in answer["modes"]}, "oracle": answer["oracle"],
            "joint_oracle": answer["joint_oracle"]}


def settled(policy):
    """What a mode saves and costs once its search is over, in per cent."""
    ratios = (policy["settled_saving_ratio"], policy["settled_slowdown_ratio"])
    return " ".join("     -" if ratio is None else f"{ratio * 100:6.2f}" for ratio in ratios)


def cell(policy):
    return f"{settled(policy)} {policy['low_ratio'] * 100:6.1f}"


def share(result):
    oracle = result["oracle"]["saving_ratio"]
    saving = result["feed_forward"]["settled_saving_ratio"]
    return "-" if oracle < 0.001 or saving is None else f"{saving / oracle * 100:.0f} %"


def main():
    lull, traces = os.path.abspath(sys.argv[1]), sys.argv[2:]
    print("each: saved %, slower %, iterations with compute begun low %")
    print(f"{'GPUs':>4} {'ms':>4} | {'oracle':>7} | {'reactive':^20} | {'feed-forward':^20} | {'of oracle':>9} | "
          f"{'steady':>14} | {'auto':>14} | {'joint oracle':>12}")
    for gpus in GPUS:
        for latency in LATENCIES_MS:
            result = simulate(lull, traces, latency, gpus)
            steady = result["steady"]
            auto = result["auto"]
            print(f"{gpus:4} {latency:4} | {result['oracle']['saving_ratio'] * 100:6.2f}% | "
                  f"{cell(result['reactive'])} | {cell(result['feed_forward'])} | {share(result):>9} | "
                  f"{settled(steady)} | {settled(auto)} | "
                  f"{result['joint_oracle']['saving_ratio'] * 100:12.2f}", flush=True)
    print("two GPUs, clocks told (0) or read back every so often:")
    for latency in FAST_MS:
        for look in LOOKS_MS:
            result = simulate(lull, traces, latency, 2, look)
            print(f"{latency:4} ms, {look} ms | {cell(result['feed_forward'])} | {share(result):>9}", flush=True)


if __name__ == "__main__":
    main()
