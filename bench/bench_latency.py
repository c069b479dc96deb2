"""Feed-forward against reactive switching on a recorded job, over switch latencies and GPUs, in
virtual time: the table of docs/latency.md. A third of each latency is the driver's call, which GPUs
queue for; the rest is settling.
SPDX-License-Identifier: Apache-2.0

Usage: bench_latency.py LULL TRACE...
"""
import concurrent.futures
import json
import os
import subprocess
import sys

LATENCIES_MS = [2, 5, 10, 25, 50, 100]
GPUS = [1, 2, 4, 8]
PERIODS = 260  # the descents settle within some 220


def simulate(lull, traces, latency_ms, gpus):
    done = subprocess.run(
        [lull, "simulate", "--json", "--ranks", str(gpus), "--periods", str(PERIODS),
         "--switch-ms", f"{latency_ms / 3:.3f},{latency_ms * 2 / 3:.3f}", *traces],
        capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def cell(policy):
    return f"{policy['saving_ratio'] * 100:6.2f} {policy['slowdown_ratio'] * 100:6.2f} {policy['low_iterations_ratio'] * 100:6.1f}"


def main():
    lull, traces = os.path.abspath(sys.argv[1]), sys.argv[2:]
    print("each: saved %, slower %, iterations with compute begun low %")
    print(f"{'GPUs':>4} {'ms':>4} | {'oracle saves':>12} | {'reactive':^20} | {'feed-forward':^20} | share of oracle")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cells = {(gpus, latency): pool.submit(simulate, lull, traces, latency, gpus)
                 for gpus in GPUS for latency in LATENCIES_MS}
        for (gpus, latency), future in cells.items():
            result = future.result()
            oracle = result["oracle"]["saving_ratio"]
            share = f"{result['feed_forward']['saving_ratio'] / oracle * 100:.0f} %" if oracle > 0.001 else "-"
            print(f"{gpus:4} {latency:4} | {oracle * 100:11.2f}% | {cell(result['reactive'])} | "
                  f"{cell(result['feed_forward'])} | {share}", flush=True)


if __name__ == "__main__":
    main()
