"""lull analyze of timelines of operations, against the published analysis of the same jobs and against sums made here.

Usage: test_operation_timeline.py LULL DIRECTORY_OF_TIMELINES
SPDX-License-Identifier: Apache-2.0"""
import gzip
import json
import os
import subprocess
import sys
import unittest

LULL = os.path.abspath(sys.argv[1])
TIMELINES = sys.argv[2]
del sys.argv[1:3]

STREAMS = ("compute", "pp-comm", "tp-comm", "dp-comm", "misc")
COMPUTES = ("forward-compute", "backward-compute", "optimizer", "gc")


def analyze(*arguments, data=None):
    return subprocess.run([LULL, "analyze", *arguments], input=data, capture_output=True, check=False, timeout=300)


def analyze_json(*arguments, data=None):
    done = analyze("--json", *arguments, data=data)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def path_of(job):
    return os.path.join(TIMELINES, f"timeline-{job}.json.gz")


# ---- recorded jobs ----

def gaps(job):
    """(share of computing, share of the energy saved by latency in ms), of 300 W, 111 W and 80 W."""
    with gzip.open(path_of(job)) as file:
        events = json.load(file)
    names = {(event["pid"], event["tid"]): event["args"]["name"].split(", ") for event in events
             if event["name"] == "thread_name"}
    windows, ranks = {}, {}
    for event in events:
        if event["ph"] != "X":
            continue
        begin, end, step = event["ts"], event["ts"] + max(event["dur"], 0), event["args"]["step"]
        window = windows.setdefault(step, [begin, end])
        window[:] = min(window[0], begin), max(window[1], end)
        stage, _, stream = names[event["pid"], event["tid"]]
        if stream == "compute":
            ranks.setdefault((step, event["pid"], stage), []).append((begin, end))
    whole = computing = 0.0
    low = dict.fromkeys((5, 15, 25, 50), 0.0)
    for (step, _, _), intervals in ranks.items():
        begin, end = windows[step]
        whole += end - begin
        for start, stop in sorted(intervals) + [(end, end)]:
            for latency in low:
                low[latency] += max(0.0, start - begin - latency * 1e3)
            begin = max(begin, stop)
            computing += stop - start
    energy = computing * 300 + (whole - computing) * 111
    return computing / whole, {latency: ms * (111 - 80) / energy for latency, ms in low.items()}


class Recorded(unittest.TestCase):
    def check_what_if(self, job, found):
        with open(os.path.join(TIMELINES, f"result-{job}.json"), encoding="utf-8") as file:
            wanted = json.load(file)
        self.assertAlmostEqual(found["what_if_slowdown_ratio"] / wanted["blocking_slowdown"], 1.0, delta=0.003)
        for key, by in (("by_stage", "blocking_decompose_by_stage"), ("by_operation", "blocking_decompose_by_optype")):
            self.assertEqual(set(found[key]), set(wanted[by]))
            for name, ratio in wanted[by].items():
                self.assertAlmostEqual(found[key][name] / ratio, 1.0, delta=0.005, msg=f"{job}: {name}")

    def check_gaps(self, job, found):
        computing, saved = gaps(job)
        self.assertAlmostEqual(found["compute_ratio"], computing, delta=1e-6)
        levers = {lever["name"]: lever for lever in found["levers"]}
        for latency, ratio in saved.items():
            self.assertAlmostEqual(levers[f"gaps_{latency}ms"]["saving_ratio"], ratio, delta=1e-6)
        return levers

    def test_many_ranks(self):
        found = analyze_json("--quick", path_of("SE"))["timeline"]
        self.check_what_if("SE", found)
        levers = self.check_gaps("SE", found)
        self.assertAlmostEqual(levers["gaps_25ms"]["saving_ratio"], 0.061, delta=0.005)  # as the data's table says
        self.assertEqual((found["operations"], found["ranks"], found["unusable_operations"]), (112320, 64, 0))
        self.assertIsNone(found["frontier_gap_ratio"])
        self.assertAlmostEqual(found["replay_ratio"], 1.0, delta=0.01)

    def test_all_levers(self):
        document = analyze_json(path_of("ST"))
        found = document["timeline"]
        self.check_what_if("ST", found)
        levers = self.check_gaps("ST", found)
        self.assertAlmostEqual(levers["gaps_25ms"]["saving_ratio"], 0.076, delta=0.005)
        self.assertLess(found["frontier_gap_ratio"], 0.005)
        self.assertTrue(document["verdict"].startswith("saves "))
        for lever in found["levers"]:
            self.assertLessEqual(lever["slowdown_ratio"], lever["tolerance_ratio"] + 1e-6, lever)
            if lever["name"] == "steady_per_rank":  # the tolerance is spent
                self.assertGreater(lever["slowdown_ratio"], 0.95 * lever["tolerance_ratio"] - 1e-9, lever)
        for tolerance in (0.0, 0.01):
            saves = {lever["name"]: lever["saving_ratio"] for lever in found["levers"]
                     if lever["tolerance_ratio"] == tolerance}
            self.assertLessEqual(saves["steady"], saves["steady_per_rank"])
            self.assertLess(saves["steady_per_rank"], saves["steady_per_rank_and_gaps"])
            self.assertLess(saves["steady_per_rank"], saves["clocks_per_operation"])

    def test_the_verdict_comes_first(self):
        done = analyze(path_of("ST"))
        self.assertRegex(done.stdout.decode().split("\n")[0], r"^saves \d+ to \d+ % of the energy, at most 1 % slower: .*; run: ")

    def test_with_other_files(self):
        done = analyze(path_of("ST"), path_of("ST"))
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"pass it alone", done.stderr)


# ---- made-up timelines ----

def thread(copy, stage, stream):
    return {"name": "thread_name", "ph": "M", "pid": copy, "tid": 10 * stage + STREAMS.index(stream),
            "args": {"name": f"PP rank {stage}, TP rank 0, {stream}"}}


def operation(name, copy, stage, begin_ms, length_ms, step=1):
    stream = "compute" if name in COMPUTES else "pp-comm" if name[-5:] in ("-send", "-recv") else "dp-comm"
    return {"name": name, "ph": "X", "pid": copy, "tid": 10 * stage + STREAMS.index(stream), "ts": 1e3 * begin_ms,
            "dur": 1e3 * length_ms, "args": {"step": step, "model_chunk": 0}}


def timeline(*operations, copies=2, stages=1):
    threads = [thread(copy, stage, stream) for copy in range(copies) for stage in range(stages) for stream in STREAMS]
    return json.dumps([*operations, *threads]).encode()


def copies_of(long_ms, short_ms, step=1):
    """Two copies of one stage that meet in a reduce-scatter, which begins when the longer one is done."""
    return [operation("forward-compute", 0, 0, 0, long_ms, step), operation("forward-compute", 1, 0, 0, short_ms, step),
            operation("grads-reduce-scatter", 0, 0, long_ms, 10, step),
            operation("grads-reduce-scatter", 1, 0, short_ms, long_ms - short_ms + 10, step)]


class MadeUp(unittest.TestCase):
    def levers(self, data, tolerance, *arguments):
        document = analyze_json(*arguments, "-", data=data)
        return document, {lever["name"]: lever for lever in document["timeline"]["levers"]
                          if lever["tolerance_ratio"] == tolerance}

    def test_what_if_by_hand(self):
        document, _ = self.levers(timeline(*copies_of(100, 60)), 0.0)
        # 100 + 10 ms, against 80 + 10 ms with equal lengths: the reduce-scatter itself takes 10 ms of either.
        self.assertAlmostEqual(document["timeline"]["what_if_slowdown_ratio"], 110 / 90, places=6)
        self.assertAlmostEqual(document["timeline"]["by_operation"]["forward-compute"], 110 / 90, places=6)
        self.assertAlmostEqual(document["timeline"]["by_operation"]["grads-reduce-scatter"], 1.0, places=6)

    def test_a_send_waits_for_its_receive(self):
        document, _ = self.levers(timeline(
            operation("forward-compute", 0, 0, 0, 50), operation("forward-send", 0, 0, 50, 4),
            operation("forward-recv", 0, 1, 0, 54), operation("forward-compute", 0, 1, 54, 30),
            copies=1, stages=2), 0.0)
        # 50 + 4 + 30 ms; equal: 40 + 4 + 40. The receive is 4 ms long, not 54.
        self.assertAlmostEqual(document["timeline"]["what_if_slowdown_ratio"], 1.0, places=6)
        self.assertAlmostEqual(document["timeline"]["by_stage"]["0"], 94 / 84, places=6)
        self.assertAlmostEqual(document["timeline"]["by_stage"]["1"], 74 / 84, places=6)

    def test_chunks_of_the_model(self):
        """Interleaved: two stages of two chunks each; what is played again takes just as long as it did."""
        operations, ends = [], {}
        lengths = {(kind, stage, chunk): 5.0 + (7 * stage + 3 * chunk + (kind == "backward") * 11) % 13
                   for kind in ("forward", "backward") for stage in (0, 1) for chunk in (0, 1)}
        orders = {stage: [("forward", chunk, batch) for chunk in (0, 1) for batch in (0, 1)]
                  + [("backward", chunk, batch) for chunk in (1, 0) for batch in (0, 1)] for stage in (0, 1)}

        def source(kind, stage, chunk):
            if kind == "forward":
                return (0, chunk) if stage == 1 else (1, chunk - 1) if chunk > 0 else None
            return (1, chunk) if stage == 0 else (0, chunk + 1) if chunk < 1 else None

        at = {0: 0.0, 1: 0.0}
        while any(orders.values()):
            for stage, order in orders.items():
                while order:
                    kind, chunk, batch = order[0]
                    before = source(kind, stage, chunk)
                    if before is not None and (kind, *before, batch) not in ends:
                        break
                    begin = at[stage]
                    if before is not None:
                        ready = ends[(kind, *before, batch)]
                        operations.append(operation(f"{kind}-send", 0, before[0], ready, 1))
                        operations.append(operation(f"{kind}-recv", 0, stage, ready, 1))
                        begin = max(begin, ready + 1)
                    length = lengths[kind, stage, chunk]
                    event = operation(f"{kind}-compute", 0, stage, begin, length)
                    event["args"]["model_chunk"] = chunk
                    operations.append(event)
                    at[stage] = ends[kind, stage, chunk, batch] = begin + length
                    order.pop(0)
        document, _ = self.levers(timeline(*operations, copies=1, stages=2), 0.0)
        self.assertAlmostEqual(document["timeline"]["replay_ratio"], 1.0, places=6)

    def test_slack_is_filled(self):
        """One operation per rank: a clock for each rank and one for each operation are the same."""
        _, found = self.levers(timeline(*copies_of(100, 90)), 0.0)
        self.assertEqual(found["steady"]["saving_ratio"], 0.0)
        self.assertGreater(found["clocks_per_operation"]["saving_ratio"], 0.05)
        # A rank keeps its steady clock while it waits, and then draws less.
        self.assertGreater(found["steady_per_rank"]["saving_ratio"], found["clocks_per_operation"]["saving_ratio"])
        self.assertAlmostEqual(found["steady_per_rank"]["saving_ratio"], found["clocks_per_operation"]["saving_ratio"],
                               delta=0.01)
        self.assertAlmostEqual(found["steady_per_rank"]["slowdown_ratio"], 0.0, delta=1e-9)

    def test_no_slack(self):
        document, found = self.levers(timeline(*copies_of(100, 100)), 0.0)
        for name in ("steady", "steady_per_rank", "clocks_per_operation"):
            self.assertAlmostEqual(found[name]["saving_ratio"], 0.0, delta=1e-7, msg=name)
        self.assertAlmostEqual(document["timeline"]["what_if_slowdown_ratio"], 1.0, places=6)

    def test_the_slowest_changes(self):
        """A rank that is the slowest in one of two steps has no slack in it, while its operations have in the other."""
        _, found = self.levers(timeline(*copies_of(100, 60, 1), *[
            {**event, "pid": 1 - event["pid"]} for event in copies_of(100, 60, 2)]), 0.0)
        self.assertAlmostEqual(found["steady_per_rank"]["saving_ratio"], 0.0, delta=1e-9)
        self.assertGreater(found["clocks_per_operation"]["saving_ratio"], 0.05)

    def test_more_time_saves_more(self):
        data = timeline(*copies_of(100, 60))
        document, exact = self.levers(data, 0.0, "--tolerance", "2%")
        slower = {lever["name"]: lever for lever in document["timeline"]["levers"] if lever["tolerance_ratio"] == 0.02}
        for name in ("steady", "steady_per_rank", "clocks_per_operation"):
            self.assertGreater(slower[name]["saving_ratio"], exact[name]["saving_ratio"], name)

    def test_watts(self):
        data = timeline(*copies_of(100, 50))
        document, found = self.levers(data, 0.0, "--watts", "200,100,40", "--switch-ms", "20,20")
        # Rank 0 waits for 10 of 110 ms, rank 1 for 60, of which the latency takes 20.
        energy = 100 * 200 + 10 * 100 + 50 * 200 + 60 * 100
        self.assertAlmostEqual(found["gaps_20ms"]["saving_ratio"], 40 * 60 / energy, places=6)
        self.assertEqual(document["assumptions"]["wait_w"], 100)
        for wrong in ("1", "1,2,3", "300,100", "300,100,80,1", "x,1,1", "300,nan,1"):
            self.assertEqual(analyze("--watts", wrong, "-", data=data).returncode, 2, wrong)

    def test_nothing_to_gain(self):
        document = analyze_json("--tolerance", "0", "-", data=timeline(*copies_of(1000, 1000)))
        self.assertTrue(document["verdict"].startswith("nothing to gain: the GPU computes 99 %"), document["verdict"])

    def test_what_is_left_out(self):
        operations = copies_of(100, 60)
        operations.append({**operation("optimizer", 0, 0, 200, 1), "tid": 99})
        operations.append({**operation("optimizer", 0, 0, 200, 1), "args": {}})
        done = analyze("--json", "-", data=timeline(*operations))
        self.assertEqual(json.loads(done.stdout)["timeline"]["unusable_operations"], 2)
        self.assertIn(b"2 operations", done.stderr)

    def test_time_that_nothing_explains(self):
        data = timeline(operation("forward-compute", 0, 0, 0, 10), operation("backward-compute", 0, 0, 490, 10), copies=1)
        done = analyze("--json", "-", data=data)
        self.assertAlmostEqual(json.loads(done.stdout)["timeline"]["replay_ratio"], 20 / 500, places=6)
        self.assertIn(b"takes 4 % of the recorded time", done.stderr)

    def test_bad_timelines(self):
        circle = [operation("forward-recv", 0, 1, 0, 5), operation("forward-compute", 0, 1, 10, 5),
                  operation("backward-send", 0, 1, 20, 5), operation("backward-recv", 0, 0, 0, 5),
                  operation("backward-compute", 0, 0, 10, 5), operation("forward-compute", 0, 0, 20, 5),
                  operation("forward-send", 0, 0, 30, 5), operation("backward-compute", 0, 1, 5, 1)]
        cases = {
            json.dumps([operation("forward-compute", 0, 0, 0, 1)]).encode(): "no operation of a rank",
            timeline(operation("forward-compute", 0, 0, 0, 200000)): "more than 100 s",
            timeline(operation("forward-compute", 0, 0, 0, 0)): "take no time",
            timeline(*circle, stages=2)[:-2]: "truncated",
        }
        for data, words in cases.items():
            for arguments in (("--json",), ()):
                done = analyze(*arguments, "-", data=data)
                self.assertEqual((done.returncode, done.stdout), (1, b""), words)
                self.assertIn(words, done.stderr.decode())

    def test_a_circle(self):
        """Each stage sends what it computed only after it has received from the other."""
        data = timeline(
            operation("backward-compute", 0, 0, 10, 5), operation("forward-compute", 0, 0, 20, 5),
            operation("backward-recv", 0, 0, 5, 5), operation("forward-send", 0, 0, 25, 5),
            operation("forward-compute", 0, 1, 10, 5), operation("backward-compute", 0, 1, 20, 5),
            operation("forward-recv", 0, 1, 5, 5), operation("backward-send", 0, 1, 25, 5), copies=1, stages=2)
        done = analyze("-", data=data)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"in a circle", done.stderr)


if __name__ == "__main__":
    if not os.path.exists(path_of("SE")):
        print("skipped: no recorded timelines in ../shared/data, only made-up ones are tested")
        program = unittest.main(defaultTest="MadeUp", exit=False)
        sys.exit(0 if program.result.wasSuccessful() else 1)
    unittest.main()
