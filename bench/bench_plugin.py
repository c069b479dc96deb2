#!/usr/bin/env python3
"""Measures what the NCCL profiler plugin costs the presets while only API events are asked for. lull play
runs in real time with and without it, in turn, and medians count. A third kind of run times each callback.

usage: bench_plugin.py BUILD
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

REPEATS = 4
SECONDS = 3
RANKS = {"megatron-3d": 8}
PRESETS = ["resnet50-ddp", "bert-ddp", "gpt-fsdp", "megatron-3d", "moe-alltoall", "llm-inference"]


class Bench:
    def __init__(self, build):
        def path(name):
            return os.path.abspath(os.path.join(build, name))
        self.lull = path("src/cli/lull")
        self.reader = path("tests/probe/event_reader")  # the reader is a job that asks for nothing more
        self.plugin = path("src/probe/libnccl-profiler-lull.so")
        self.timing = path("bench/timing-plugin.so")

    def play(self, preset, plugin, times=None):
        """Returns the ranks of one run, as lull play describes them."""
        environment = dict(os.environ, NCCL_PROFILER_PLUGIN=plugin or "none", LULL_TIMED_PLUGIN=self.plugin)
        if times is not None:
            environment["LULL_TIMES"] = times
        node = f"{RANKS.get(preset, 2)}xA100-SXM4-40GB"
        done = subprocess.run([self.lull, "emulate", "--seed", "0", node, "--", self.reader, self.lull, "play", "--json",
                               "--preset", preset, "--seconds", str(SECONDS)],
                              env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        ranks, end = json.JSONDecoder().raw_decode(done.stdout)
        processes = json.loads(done.stdout[end:])
        if plugin is not None and not processes:
            sys.exit(f"{preset}: the plugin was not loaded")
        return ranks["ranks"]

    def callbacks(self, preset):
        """Returns callbacks and ns of all ranks and iterations, by the name of the thread that made them."""
        found = {}
        with tempfile.TemporaryDirectory(prefix="lull-") as directory:
            times = os.path.join(directory, "times")
            ranks = self.play(preset, self.timing, times)
            with open(times, encoding="utf-8") as file:
                for line in file:
                    _, name, count, ns = line.split()
                    before = found.get(name, (0, 0))
                    found[name] = (before[0] + int(count), before[1] + int(ns))
        return found, sum(rank["iterations"] for rank in ranks), ranks[0]["iteration_ms"]

    def compare(self, preset):
        """Returns the medians of the times without and with the plugin, and of the ratios pair by pair."""
        pairs = []
        for repeat in range(REPEATS):
            order = [None, self.plugin] if repeat % 2 == 0 else [self.plugin, None]
            took = {plugin: self.play(preset, plugin)[0]["iteration_p50_ms"] for plugin in order}
            pairs.append((took[None], took[self.plugin]))
        ratios = [with_it / without - 1 for without, with_it in pairs]
        return [statistics.median(column) for column in zip(*pairs)], statistics.median(ratios), ratios


def main():
    bench = Bench(sys.argv[1])
    for preset in PRESETS:
        (without, with_it), ratio, ratios = bench.compare(preset)
        found, iterations, iteration_ms = bench.callbacks(preset)
        print(f"{preset}: {without:.3f} ms without, {with_it:.3f} ms with: {ratio * 100:+.3f} % (pairs "
              f"{min(ratios) * 100:+.3f} to {max(ratios) * 100:+.3f} %)", flush=True)
        for name, (count, ns) in sorted(found.items()):
            print(f"  thread {name}: {count / iterations:.1f} callbacks per iteration, {ns / count:.0f} ns each: "
                  f"{ns / iterations * 1e-6 / iteration_ms * 100:.5f} % of its time", flush=True)
        if not found:
            print("  no callback was seen")


if __name__ == "__main__":
    main()
