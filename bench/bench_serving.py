#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what Lull saves on servers under a latency objective, in virtual time.

Runs `lull simulate --server` for both Azure traces of 2023, four loads, A100, H100 and B200, one, four and eight GPUs and
several seeds, and prints tables in Markdown. Each seed begins elsewhere in the trace. Results are kept in a file, one JSON
document per line; a run that is interrupted continues there, and one with another program or other options begins again.

usage: bench_serving.py LULL TRACES [--seeds N] [--duration S] [--jobs N] [--only TEXT] [--results FILE] [--oracles FILE]
                        [--only-oracles] [--ideal] [--print]
TRACES is the folder with azure2023_conv.csv.gz and azure2023_code.csv.gz. --print only prints the tables. --ideal adds the
oracle whose driver takes no time. --only-oracles leaves out the fixed settings. --oracles takes the rates and the oracles,
which need most of the time, from such results of another program, if both agree at full clocks.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import threading

GPUS = ("A100-SXM4-80GB", "H100-SXM5", "B200-SXM")
SERVERS = ((1, "Llama-3.1-8B"), (4, "Qwen3-32B"), (8, "Llama-3.1-70B"))
LOADS = (0.25, 0.5, 0.75, 0.9)
# Prompts of code are long, and a GPU that computes a chunk of 512 tokens more slowly needs a wider bound of the time per
# token.
TRACES = {"conv": ("ttft=500ms,tpot=50ms", "ttft=1s,tpot=100ms"), "code": ("ttft=2s,tpot=50ms", "ttft=3s,tpot=100ms")}
# The 97.5 % quantile of Student's distribution by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# Published savings against full or default clocks: system, per cent, what differs.
PUBLISHED = (
    ("VoltanaLLM, arXiv 2509.04827", "up to 36.3", "pools for prefill and decode in SGLang; a clock for each step; routes requests by clock"),
    ("BiScale, arXiv 2602.18755", "up to 39 (prefill), up to 48 (decode)",
     "against DistServe on 16 H100; pools; chooses the number of GPUs and the clock of each step"),
    ("AGFT, arXiv 2508.01744", "44.3", "no objective: latency may grow by up to 10 %"),
    ("throttLL'eM, HPCA 2025", "up to 43.8", "A100; predicts the lengths of outputs; also scales the number of GPUs"),
)


def objective(trace, gpu, count):
    return TRACES[trace][0 if count == 1 and not gpu.startswith("A100") else 1]


def cell_name(cell):
    return " ".join(map(str, cell))


def read_rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Bench:
    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.results = {}
        with open(options.lull, "rb") as file:
            self.mark = hashlib.sha256(file.read()).hexdigest()[:16] + f" {options.duration}"
        if os.path.exists(options.results):
            self.results = {row["cell"]: row["document"] for row in read_rows(options.results)
                            if options.print or row["mark"] == self.mark}
        self.oracles = {}
        if options.oracles:
            self.oracles = {row["cell"]: row["document"] for row in read_rows(options.oracles)
                            if row["document"]["duration_s"] == options.duration}

    def call(self, cell, *more):
        """The document of a call; None: it failed."""
        trace, gpu, count, model = cell[:4]
        path = os.path.join(self.options.traces, f"azure2023_{trace}.csv.gz")
        done = subprocess.run([self.options.lull, "simulate", "--json", "--server", model, "--on", f"{count}x{gpu}", "--arrivals", path,
                               "--slo", objective(trace, gpu, count), "--duration", str(self.options.duration),
                               "--seed", str(cell[-1]), *more], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{cell_name(cell)}: {done.stderr.strip()}", file=sys.stderr)
            return None
        return json.loads(done.stdout)

    def keep(self, cell, document):
        name = cell_name(cell)
        with self.lock, open(self.options.results, "a", encoding="utf-8") as file:
            file.write(json.dumps({"mark": self.mark, "cell": name, "document": document}) + "\n")
            self.results[name] = document
        return document

    def find_capacity(self, server, seed):
        """The rate of requests that is load 1; None: no request was served."""
        cell = (*server, "capacity", seed)
        name = cell_name(cell)
        document = self.results.get(name) or self.oracles.get(name)
        if document is None:
            document = self.call(cell, "--load", str(LOADS[0]), "--modes", "auto")
        if document is None:
            return None
        if name not in self.results:
            self.keep(cell, {key: document[key] for key in ("capacity_per_s", "duration_s")})
        return document["capacity_per_s"]

    def modes(self, known):
        fixed = "fixed_clock,power_limit"
        oracle = "oracles" if self.options.ideal else "oracle"
        if known:
            return fixed
        return oracle if self.options.only_oracles else f"{fixed},{oracle}"

    def simulate(self, cell, rate):
        """One cell's document, from the file if it is there."""
        name = cell_name(cell)
        known = self.oracles.get(name)
        if name in self.results:
            return self.results[name]
        document = self.call(cell, "--rate", str(rate), "--modes", self.modes(known))
        if document is None:
            return None
        if known and mode(document, "highest") != mode(known, "highest"):
            print(f"{name}: full clocks differ from those of the oracles; the cell is left out", file=sys.stderr)
            return None
        if known:
            document["modes"] += [row for row in known["modes"] if row["name"] in ("oracle", "ideal")]
        return self.keep(cell, document)

    def run_server(self, server, seed):
        """All loads of a server, relative to what full clocks bear in that part of the trace."""
        capacity = self.find_capacity(server, seed)
        if capacity is None:
            return
        for load in LOADS:
            self.simulate((*server, load, seed), capacity * load)

    def run(self):
        servers = [(trace, gpu, count, model) for trace in TRACES for gpu in GPUS for count, model in SERVERS]
        servers = [server for server in servers if self.options.only in " ".join(map(str, server))]
        if self.options.print:
            return servers
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for seed in range(1, self.options.seeds + 1):
                list(pool.map(self.run_server, servers, itertools.repeat(seed)))
        return servers


def mode(document, name):
    return next(row for row in document["modes"] if row["name"] == name)


def has_ideal(documents):
    return all(any(row["name"] == "ideal" for row in document["modes"]) for document in documents)


def interval(values):
    """Mean and half of the 95 % interval; nan: one value."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, STUDENT.get(len(values) - 1, 1.96) * statistics.stdev(values) / math.sqrt(len(values))


def figures(documents):
    """Means over seeds, in per cent."""
    names = ("fixed_clock", "power_limit", "lull", "oracle") + (("ideal",) if has_ideal(documents) else ())
    row = {name: 100 * statistics.mean(mode(document, name)["saving_ratio"] for document in documents) for name in names}
    row["missed_highest"] = 100 * statistics.mean(mode(document, "highest")["missed_ratio"] for document in documents)
    row["missed_lull"] = 100 * statistics.mean(mode(document, "lull")["missed_ratio"] for document in documents)
    row["added"], row["added_half"] = interval(
        [100 * (mode(document, "lull")["missed_ratio"] - mode(document, "highest")["missed_ratio"]) for document in documents])
    row["share"] = 100 * row["lull"] / row["oracle"] if row["oracle"] > 0 else math.nan
    row["broken"] = sum(not mode(document, "lull")["within_promise"] for document in documents)
    return row


COLUMNS = ("missed at full clocks", "added by Lull", "Lull saves", "oracle", "Lull / oracle", "ideal", "best clock", "best limit")


def print_row(names, row):
    half = "" if math.isnan(row["added_half"]) else f" ± {row['added_half']:.2f}"
    ideal = f" {row['ideal']:.1f} |" if "ideal" in row else ""
    print("| " + " | ".join(names) + f" | {row['missed_highest']:.2f} | {row['added']:+.2f}{half} | {row['lull']:.1f} | {row['oracle']:.1f} | "
          f"{row['share']:.0f} |{ideal} {row['fixed_clock']:.1f} | {row['power_limit']:.1f} |")


def print_head(bench, *names):
    columns = [column for column in COLUMNS if column != "ideal" or bench.shows_ideal]
    print("\n| " + " | ".join((*names, *columns)) + " |\n|" + "---|" * (len(names) + len(columns)))


def mean_row(rows):
    mean = {name: statistics.mean(row[name] for row in rows) for name in rows[0] if all(name in row for row in rows)}
    mean["added_half"] = math.nan
    mean["share"] = 100 * mean["lull"] / mean["oracle"]
    return mean


def print_tables(bench, servers):
    """A table for each trace, one of means by load, and the summary. All in per cent; added misses in points."""
    everything = []
    cells = [document for document in bench.results.values() if "modes" in document]
    bench.shows_ideal = has_ideal(cells)
    for trace in TRACES:
        print(f"\nTrace {trace}; in per cent, added misses in points with their 95 % interval over seeds:")
        print_head(bench, "server", "objective", "load", "requests/s")
        for server, load in itertools.product((server for server in servers if server[0] == trace), LOADS):
            documents = [document for seed in range(1, bench.options.seeds + 1)
                         if (document := bench.results.get(cell_name((*server, load, seed)))) is not None]
            if not documents:
                continue
            row = figures(documents)
            everything.append((load, row))
            _, gpu, count, model = server
            print_row((f"{model}, {count} x {gpu}", objective(*server[:3]), f"{load:.2f}",
                       f"{statistics.mean(document['rate_per_s'] for document in documents):.3g}"), row)
    if everything:
        print("\nMeans over both traces and all servers:")
        print_head(bench, "load")
        for load in LOADS:
            print_row((f"{load:.2f}",), mean_row([row for at, row in everything if at == load]))
        print_summary(bench, [row for _, row in everything])


def print_summary(bench, rows):
    if not rows:
        return
    ample = [row for row in rows if row["oracle"] >= 36]
    mean = {name: statistics.mean(row[name] for row in rows) for name in ("lull", "oracle", "added")}
    print(f"\nOver all {len(rows)} cells of {bench.options.seeds} seeds and {bench.options.duration} s: Lull saves {mean['lull']:.1f} %, the "
          f"oracle {mean['oracle']:.1f} %; Lull's share is {100 * mean['lull'] / mean['oracle']:.0f} %. Added misses: {mean['added']:+.3f} points. "
          f"Runs beyond the promise: {sum(row['broken'] for row in rows)}. The oracle saves 36 % or more in {len(ample)} cells; Lull does "
          f"in {sum(row['lull'] >= 36 for row in ample)} of them. Lull saves more than the best fixed clock in "
          f"{sum(row['lull'] > row['fixed_clock'] for row in rows)} cells, more than the best limit in {sum(row['lull'] > row['power_limit'] for row in rows)}.")
    print("\n| system | published saving, % | what differs |\n|---|---|---|")
    for system, saving, differs in PUBLISHED:
        print(f"| {system} | {saving} | {differs} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lull")
    parser.add_argument("traces")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--duration", type=int, default=3600)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--results", default="serving-results.jsonl")
    parser.add_argument("--oracles")
    parser.add_argument("--only-oracles", action="store_true")
    parser.add_argument("--ideal", action="store_true")
    parser.add_argument("--print", action="store_true")
    bench = Bench(parser.parse_args())
    print_tables(bench, bench.run())


if __name__ == "__main__":
    main()
