#!/usr/bin/env python3
"""Runs the batch-size search on the twelve recorded jobs of Zeus: savings, regret and spread of Zeus's policy and of
Lull's over 100 seeds, on the same draws; then on jobs that drift.

Usage: bench_batch.py LULL_REPRODUCE DIRECTORY_OF_ZEUS_DATA RESULT_DIRECTORY
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import subprocess
import sys

SEEDS = 100
JOBS = ["cifar100", "imagenet", "squad", "librispeech", "movielens-1m", "sentiment140"]
# Each row is a data set, its target, and the target to which it drifts and from which it comes back.
DRIFTS = [("cifar100", 0.5, 0.6), ("cifar100", 0.6, 0.5), ("imagenet", 0.4, 0.5), ("imagenet", 0.5, 0.35),
          ("squad", 84, 82.5), ("librispeech", 50, 40), ("librispeech", 40, 55), ("movielens-1m", 0.4, 0.41),
          ("sentiment140", 0.84, 0.85)]
DRIFT_RECURRENCES = 80


def replay(reproduce, data, gpu, dataset, *options):
    done = subprocess.run(
        [reproduce, "zeus", "--train", os.path.join(data, "trace", "summary_train.csv"), "--power",
         os.path.join(data, "trace", f"summary_power_{gpu}.csv"), "--dataset", dataset, "--gpu", gpu, "--json", "--seeds",
         str(SEEDS), *options], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    document = json.loads(done.stdout)
    return document, {policy["policy"]: policy for policy in document["policies"]}


def spread(figure):
    return f"{figure['mean'] * 100:6.2f} ({figure['deviation'] * 100:5.2f})"


def mean_of(policy, name):
    return sum(seed[name] for seed in policy["seeds"]) / len(policy["seeds"])


def stationary(reproduce, data, directory):
    print(f"{'':18} {'optimum':>8}  {'saved over all runs, Zeus, Lull':>31}  {'last five runs, Zeus, Lull':>31}  "
          f"{'regret, Zeus, Lull':>31} {'ratio':>6} {'cost':>7} {'wins':>5} {'missed':>11}  changes")
    for gpu in ("v100", "a40"):
        for dataset in JOBS:
            document, policies = replay(reproduce, data, gpu, dataset)
            with open(os.path.join(directory, f"batch-{gpu}-{dataset}.json"), "w", encoding="utf-8") as file:
                json.dump(document, file)
            zeus, ours = policies["zeus"], policies["lull"]
            phase = document["phases"][0]
            optimum = 1 - phase["least_energy"]["energy_j"] / phase["default"]["energy_j"]
            regret = [policy["regret_ratio"]["mean"] for policy in (zeus, ours)]
            wins = sum(a["cost_j"] > b["cost_j"] for a, b in zip(zeus["seeds"], ours["seeds"]))
            print(f"{gpu:5}{dataset:13} {optimum * 100:7.2f}%"
                  + "".join(f"  {spread(zeus[name]):>15} {spread(ours[name]):>15}"
                            for name in ("saving_ratio", "last_saving_ratio", "regret_ratio"))
                  + f" {regret[1] / regret[0]:6.2f} {((1 + regret[1]) / (1 + regret[0]) - 1) * 100:+6.2f}% "
                    f"{wins / SEEDS * 100:4.0f}% {mean_of(zeus, 'missed'):5.2f} {mean_of(ours, 'missed'):5.2f}  "
                    f"{mean_of(ours, 'changes'):.2f}", flush=True)


def drifting(reproduce, data):
    print(f"\ndrift: target A, B, A, {DRIFT_RECURRENCES} recurrences each; cost beyond an oracle that knows the best size "
          f"of each, in %\n{'':34} {'Zeus':>16} {'Zeus, window 10':>17} {'Lull':>15}  changes noticed")
    for gpu in ("v100", "a40"):
        for dataset, target, then in DRIFTS:
            _, policies = replay(reproduce, data, gpu, dataset, "--target", str(target), "--then", str(then), "--then",
                                 str(target), "--recurrences", str(DRIFT_RECURRENCES))
            print(f"{gpu:5}{dataset:13}{target:>6} {then:>5}    "
                  + " ".join(f"{spread(policies[name]['regret_ratio']):>16}" for name in ("zeus", "zeus_window", "lull"))
                  + f"  {mean_of(policies['lull'], 'changes'):.2f}", flush=True)


def main():
    reproduce, data, directory = sys.argv[1:4]
    if not os.path.isdir(os.path.join(data, "trace")):
        print(f"skipped: no recorded training in {data}")
        return 0
    stationary(reproduce, data, directory)
    drifting(reproduce, data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
