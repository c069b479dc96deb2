"""lull simulate cluster: what one sees of a run. Small traces whose answers are known by hand, and random ones
against an independent count of the table of jobs.

Usage: test_cluster_views.py LULL
SPDX-License-Identifier: Apache-2.0"""
import os
import random
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import cluster_case
from cluster_case import table

LULL = os.path.abspath(sys.argv[1])
RUNNER = cluster_case.Runner(LULL, "fifo")
cluster, answer = RUNNER.run, RUNNER.answer
del sys.argv[1]
SVG = "{http://www.w3.org/2000/svg}"
HEADER = "job_id,submit_s,num_gpus,duration_s,deadline_s\n"

# Two nodes of 8 GPUs under FIFO. a and b leave 2 GPUs free on each node, so c's 4 are free at 10 but scattered until b
# ends at 20. e would fit from the beginning, but c is before it, and from 20 to 30 d (16 GPUs), which runs until 35.
SCATTERED = HEADER + ("a,0,6,30,\n" "b,0,6,20,\n" "c,10,4,10,\n" "d,12,16,5,100\n" "e,13,2,4,20\n" "f,14,17,5,\n")


def explained(job, *options, text=SCATTERED, policy="fifo"):
    return answer("-", "--nodes", 2, "--explain", job, *options, text=text, policy=policy)["explained"]


def random_trace(seed, jobs, most_gpus):
    draw = random.Random(seed)
    now = 0
    rows = []
    for i in range(jobs):
        now += draw.choice((0, 0, 1, 2, 3, 8))
        time = draw.randint(1, 30)
        rows.append(f"j{i},{now},{draw.randint(1, most_gpus)},{time},{now + time + draw.randint(0, 40)}\n")
    return HEADER + "".join(rows)


CAUSES = ("too_few_gpus_s", "too_many_nodes_s", "behind_others_s", "held_by_policy_s")


class Explain(unittest.TestCase):
    def causes(self, job):
        waiting = explained(job)["waiting"]
        return [waiting[name] for name in ("wait_s",) + CAUSES]

    def test_causes(self):
        self.assertEqual(self.causes("a"), [0, 0, 0, 0, 0])
        self.assertEqual(self.causes("c"), [10, 0, 10, 0, 0])
        self.assertEqual(self.causes("d"), [18, 18, 0, 0, 0])
        self.assertEqual(self.causes("e"), [22, 5, 0, 17, 0])
        e = explained("e")["waiting"]
        self.assertEqual(e["behind_longest"], {"job_id": "d", "behind_s": 10.0})
        self.assertEqual(e["ahead"], {"jobs": 2, "gpus": 20, "first": ["c", "d"]})
        self.assertEqual(e["running"], {"jobs": 2, "gpus": 12, "first": ["a", "b"]})
        self.assertEqual(e["freed"]["first"], ["d"])
        c = explained("c")["waiting"]
        self.assertEqual((c["on_arrival"]["free_gpus"], c["on_arrival"]["nodes_with_free"],
                          c["on_arrival"]["most_free_on_node"], c["on_arrival"]["gpus"]), (4, 2, 2, 16))
        self.assertEqual((c["freed"]["first"], c["overtaking"]["jobs"], c["is_consolidated"]), (["b"], 0, True))

    def test_overtaken(self):
        e = explained("e", policy="sjf")["waiting"]
        self.assertEqual(e["wait_s"], 0)
        d = explained("d", policy="sjf")["waiting"]
        self.assertEqual(d["overtaking"], {"jobs": 1, "gpus": 2, "first": ["e"]})

    def test_words(self):
        said = cluster("-", "--nodes", 2, "--explain", "e", text=SCATTERED).stdout
        for words in ("Why it waited 22.0 s", "4 of its pool's 16 GPUs of type GPU were free, on 2 of 2 nodes",
                      "17.0 s  it would have fitted, but other jobs had priority: job d with 16 GPUs",
                      "Why this place", "Why this clock", "* GPU", "it came first", "missed by 19.0 s"):
            self.assertIn(words, said)
        self.assertLess(len(said.splitlines()), 25)
        said = cluster("-", "--nodes", 2, "--explain", "a", text=SCATTERED).stdout
        self.assertIn("Why it did not wait", said)

    def test_rejected(self):
        said = cluster("-", "--nodes", 2, "--explain", "f", text=SCATTERED).stdout
        for words in ("needs 17 GPUs", "its pool has 16", "1 more node of 8 GPUs"):
            self.assertIn(words, said)
        self.assertIsNone(explained("f")["waiting"])
        with tempfile.TemporaryDirectory() as directory:
            pools = os.path.join(directory, "pools.csv")
            with open(pools, "w", encoding="utf-8") as file:
                file.write("vc,nodes\nsmall,1\nlarge,4\n")
            text = "job_id,submit_s,vc,num_gpus,duration_s\na,0,small,20,5\nb,0,none,1,5\n"
            said = cluster("-", "--pools", pools, "--explain", "a", text=text).stdout
            self.assertIn("2 more nodes of 8 GPUs", said)
            self.assertIn("pools that could hold it: large", said)
            said = cluster("-", "--pools", pools, "--explain", "b", text=text).stdout
            self.assertIn("pools that could hold it: small, large", said)

    def test_strange_names(self):
        """Terminal escapes, XML, bytes that are no text: shown, but harmless."""
        with tempfile.TemporaryDirectory() as directory:
            jobs, pools, picture = (os.path.join(directory, name) for name in ("jobs.csv", "pools.csv", "gantt.svg"))
            with open(pools, "wb") as file:
                file.write(b"vc,nodes\nx\xff\x1b[31m<&>,1\n")
            with open(jobs, "wb") as file:
                file.write(b"job_id,submit_s,vc,num_gpus,duration_s\n\x1b\xed\xa0\x80\xc3\xa9<" + b"a" * 90 +
                           b",0,x\xff\x1b[31m<&>,8,10\n\xf4\x90\x80\x80\xc2\x9b,1,x\xff\x1b[31m<&>,8,10\n")
            got = answer(jobs, "--pools", pools, "--explain", 1, "--gantt", picture)
            self.assertEqual(got["explained"]["job_id"], "\ufffd" * 4 + "\x9b")
            self.assertEqual(got["pools"][0]["pool"], "x\ufffd\x1b[31m<&>")
            self.assertEqual(got["explained"]["waiting"]["freed"]["first"],
                             ["\x1b\ufffd\ufffd\ufffd\u00e9<" + "a" * 90])
            said = cluster(jobs, "--pools", pools, "--explain", 1)
            self.assertNotIn("\x1b", said.stdout)
            ElementTree.parse(picture)

    def test_names(self):
        text = "job_id,submit_s,num_gpus,duration_s\n1,5,1,5\n7,6,1,5\n"
        self.assertEqual(explained("1", text=text)["number"], 0)  # the trace's own id first
        self.assertEqual(explained("0", text=text)["job_id"], "1")
        done = cluster("-", "--nodes", 1, "--explain", "2", text=text)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no job has that name or number; numbers go from 0, and there are 2 jobs", done.stderr)
        done = cluster("-", "--nodes", 1, "--explain", "0", text=HEADER)
        self.assertIn("there are 0", done.stderr)

    def count(self, rows, job, key, nodes, per_node):
        """The causes of a job's wait, second by second."""
        sums = [0, 0, 0, 0]
        for now in range(int(job["submit_s"]), int(job["start_s"])):
            free = [per_node] * nodes
            for row in rows:
                if row["start_s"] <= now < row["end_s"]:
                    for share in row["placement"].split():
                        node, gpus = map(int, share.split(":"))
                        free[node] -= gpus
            full = free.count(per_node)
            rest = job["gpus"] % per_node
            fits = max(free) >= job["gpus"] if job["gpus"] <= per_node else (
                full > job["gpus"] // per_node or (full == job["gpus"] // per_node and
                                                   (rest == 0 or any(rest <= f < per_node for f in free))))
            waiting = [row for row in rows if row["submit_s"] <= now < row["start_s"]]
            first = min(waiting, key=lambda row: (row["start_s"], key(row), row["number"]))
            cause = 0 if sum(free) < job["gpus"] else 1 if not fits else 3 if first is job else 2
            sums[cause] += 1
        return sums

    def test_against_a_count(self):
        keys = {"fifo": lambda row: row["submit_s"], "sjf": lambda row: row["end_s"] - row["start_s"]}
        for policy, key in keys.items():
            with tempfile.TemporaryDirectory() as directory:
                text, ran = random_trace(7, 36, 10), os.path.join(directory, "ran.csv")
                answer("-", "--nodes", 3, "--gpus-per-node", 4, "--jobs-out", ran, text=text, policy=policy)
                rows = table(ran)
            for number, row in enumerate(rows):
                row["number"] = number
                for name in ("gpus", "submit_s", "start_s", "end_s"):
                    row[name] = int(float(row[name]))
            met = set()
            for row in rows:
                got = answer("-", "--nodes", 3, "--gpus-per-node", 4, "--explain", row["job_id"], text=text,
                             policy=policy)["explained"]["waiting"]
                want = self.count(rows, row, key, 3, 4)
                self.assertEqual([got[name] for name in CAUSES], want, (policy, row))
                met |= {cause for cause in range(4) if want[cause] > 0}
            self.assertTrue({0, 1, 2} <= met)


class Summary(unittest.TestCase):
    def test_fields(self):
        with tempfile.TemporaryDirectory() as directory:
            pools = os.path.join(directory, "pools.csv")
            with open(pools, "w", encoding="utf-8") as file:
                file.write("vc,nodes\nx,1\ny,2\n")
            text = "job_id,submit_s,vc,num_gpus,duration_s\na,0,x,8,10\nb,0,x,4,10\nc,0,y,16,20\nd,0,z,1,1\n"
            got = answer("-", "--pools", pools, text=text)
            said = cluster("-", "--pools", pools, text=text).stdout
        self.assertEqual((got["bound_j"], got["certificate_ratio"]), (None, None))
        self.assertEqual((got["makespan_s"], got["average_queue_s"], got["preemptions"]), (20, 10 / 3, 0))
        self.assertAlmostEqual(got["utilisation_ratio"], (80 + 40 + 320) / (24 * 20))
        x, y, others = got["pools"]
        self.assertEqual((x["pool"], x["gpus"], x["jobs"], x["average_queue_s"], x["average_completion_s"]),
                         ("x", 8, 2, 5, 15))
        self.assertAlmostEqual(x["utilisation_ratio"], 120 / 160)
        self.assertEqual((y["utilisation_ratio"], others["pool"], others["gpus"], others["rejected"]),
                         (1, "others", 0, 1))
        self.assertEqual(sum(pool["jobs"] for pool in got["pools"]), got["jobs"])
        for words in ("24 on 3 nodes, busy for 91.7 %", "75.0 %", "others"):
            self.assertIn(words, said)

    def test_thousands(self):
        said = cluster("-", "--nodes", 200, text=HEADER + "a,0,1600,100000,\n").stdout
        for words in ("100,000.0 s (27.8 h)", "1,600 on 200 nodes", "56.00 GJ (15,555 kWh)"):
            self.assertIn(words, said)


class Power(unittest.TestCase):
    def series(self, text, policy, *options):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "power.csv")
            got = answer("-", *options, "--power-out", path, text=text, policy=policy)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.readline(), "time,energy,wattmin,epower,event_type\n")
            return got, table(path)

    def test_by_hand(self):
        got, rows = self.series(HEADER + "a,5,8,10,\nb,10,4,20,\n", "fifo", "--nodes", 1, "--run-w", 300, "--idle-w", 50)
        self.assertEqual([(float(row["time"]), float(row["energy"]), row["epower"], row["event_type"]) for row in rows], [
            (5, 0, "NA", "s"), (15, 24000, "2400.000000", "e"), (15, 24000, "NA", "s"), (35, 52000, "1400.000000", "e")])
        self.assertEqual((got["energy_j"], {row["wattmin"] for row in rows}), (52000, {"400.000000"}))

    def test_integral(self):
        for policy in ("fifo", "edf", "sjf"):
            got, rows = self.series(random_trace(3, 300, 20), policy, "--nodes", 5)
            energy_j, before = 0.0, 0.0
            for row in rows:
                if row["epower"] != "NA":
                    energy_j += float(row["epower"]) * (float(row["time"]) - before)
                before = float(row["time"])
                self.assertAlmostEqual(float(row["energy"]), energy_j, delta=1e-3)
            self.assertAlmostEqual(energy_j / got["energy_j"], 1.0, delta=1e-9)
            self.assertEqual([sum(row["event_type"] == kind for row in rows) for kind in "sep"], [300, 300, 0])

    def test_nodes(self):
        """A node that idles for 10 s is turned off, which is what turning it on takes, in 20 s."""
        options = ("--nodes", 1, "--run-w", 300, "--idle-w", 60, "--power-down", "--turn-on-j", 4800, "--turn-on-s", 20)
        text = HEADER + "a,0,8,10,\nb,50,4,10,\n"
        got, rows = self.series(text, "fifo", *options)
        self.assertEqual([(float(row["time"]), float(row["energy"]), float(row["wattmin"]), row["event_type"])
                          for row in rows], [
            (0, 0, 480, "s"), (10, 24000, 480, "e"), (20, 28800, 0, "p"), (50, 28800, 240, "p"), (70, 33600, 480, "p"),
            (70, 33600, 480, "s"), (80, 33600 + 12000 + 2400, 480, "e")])
        self.assertEqual((got["energy_j"], got["turn_on_j"]), (48000, 4800))
        b = explained("b", *options[2:], "--nodes", 1, text=text)["waiting"]
        self.assertEqual((b["wait_s"], b["too_few_gpus_s"], b["on_arrival"]["nodes_not_on"],
                          b["on_arrival"]["free_gpus"], b["at_start"]["free_gpus"]), (20, 20, 1, 0, 8))

    def test_conditions(self):
        for seed in range(4):
            got, rows = self.series(random_trace(seed, 200, 20), "fifo", "--nodes", 30, "--power-down", "--turn-on-j",
                                    3000 * seed, "--turn-on-s", 3 * seed, "--mtbf-h", 0.05, "--repair-minutes", 0.5,
                                    "--failure-seed", seed)
            self.assertGreater(got["node_failures"], 0)
            self.assertGreater(got["turn_ons"], 0)
            energy_j, before = 0.0, 0.0
            for row in rows:
                if row["epower"] != "NA":
                    energy_j += float(row["epower"]) * (float(row["time"]) - before)
                    self.assertGreaterEqual(float(row["epower"]), -1e-6)
                before = float(row["time"])
                self.assertGreaterEqual(float(row["wattmin"]), -1e-6)
            self.assertAlmostEqual(float(rows[-1]["energy"]) / got["energy_j"], 1.0, delta=1e-9)
            if seed > 0:
                self.assertAlmostEqual(energy_j / got["energy_j"], 1.0, delta=1e-9)

    def test_no_such_place(self):
        done = cluster("-", "--nodes", 1, "--power-out", "/nonexistent/power.csv", text=HEADER + "a,0,1,1,\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/power.csv", done.stderr)


class Compare(unittest.TestCase):
    def test_equals_single_runs(self):
        text = random_trace(11, 200, 16)
        rows = answer("-", "--nodes", 3, "--policies", "sjf,fifo,edf", text=text, policy="")["compared"]
        self.assertEqual([row["policy"] for row in rows], ["sjf", "fifo", "edf"])
        for row in rows:
            single = answer("-", "--nodes", 3, text=text, policy=row["policy"])
            self.assertEqual({name: single[name] for name in row if name != "setting"},
                             {name: value for name, value in row.items() if name != "setting"})
        said = cluster("-", "--nodes", 3, "--policies", "all", text=text, policy="").stdout
        for words in ("completion", "fifo", "edf", "sjf", "200 jobs on 24 GPUs"):
            self.assertIn(words, said)

    def test_sweep(self):
        policies = re.findall(r"^  (\S+) .*(?:\n {25}[^- ].*)*\n +--knob", cluster("--help", policy="").stdout, re.MULTILINE)
        if not policies:
            self.skipTest("no policy has a knob")
        text = random_trace(4, 60, 8)
        for policy in policies:
            rows = answer("-", "--nodes", 3, "--sweep", "0.5:0.9:3", text=text, policy=policy)["compared"]
            self.assertEqual([row["setting"] for row in rows], [0.5, 0.7, 0.9])
            for row in rows:
                single = answer("-", "--nodes", 3, "--knob", row["setting"], text=text, policy=policy)
                self.assertEqual(single["energy_j"], row["energy_j"])
                self.assertEqual(single["average_completion_s"], row["average_completion_s"])
            rows = answer("-", "--nodes", 3, "--sweep", 5, text=text, policy=policy)["compared"]
            self.assertEqual(sorted({row["setting"] for row in rows}), [row["setting"] for row in rows])
            done = cluster("-", "--nodes", 3, "--sweep", "1:2", text=text, policy=policy)
            self.assertEqual(done.returncode, 2)
            self.assertIn("FROM:TO:COUNT", done.stderr)

    def test_refused(self):
        text = HEADER + "a,0,1,1,\n"
        for options, policy, words in ((["--policies", "fifo,none"], "", "none: no such policy; there are fifo"),
                                       (["--policies", ","], "", "no such policy"),
                                       (["--policies", "fifo"], "fifo", "exclude each other"),
                                       (["--policies", "fifo", "--explain", "a"], "", "exclude each other"),
                                       (["--policies", "fifo", "--gantt", "x.svg"], "", "exclude each other"),
                                       (["--sweep", "5"], "fifo", "fifo has no knob")):
            done = cluster("-", "--nodes", 1, *options, text=text, policy=policy)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertIn(words, done.stderr)


class EveryPolicy(unittest.TestCase):
    """What holds whatever the policy: those that there are, preemptive and with clocks where there are such options."""

    def test_views(self):
        done = cluster("-", "--nodes", 1, "--policies", "none", text=HEADER, policy="")
        policies = re.search(r"there are (.*)", done.stderr).group(1).split(", ")
        known = cluster("--help").stdout
        more = ["--preemptible"] if "--preemptible" in known else []
        more += ["--gpu-types", "A100-SXM4-40GB", "--clocks"] if "--clocks" in known else []
        text = random_trace(2, 60, 10)
        for policy in policies:
            with tempfile.TemporaryDirectory() as directory:
                power, picture = os.path.join(directory, "power.csv"), os.path.join(directory, "gantt.svg")
                got = answer("-", "--nodes", 3, "--gpus-per-node", 4, "--power-out", power, "--gantt", picture, *more,
                             text=text, policy=policy)
                rows = table(power)
                ElementTree.parse(picture)
            self.assertAlmostEqual(float(rows[-1]["energy"]) / got["energy_j"], 1.0, delta=1e-9, msg=policy)
            self.assertEqual(sum(row["event_type"] == "s" for row in rows),
                             sum(row["event_type"] == "e" for row in rows), policy)
            for job in range(0, 60, 7):
                waiting = answer("-", "--nodes", 3, "--gpus-per-node", 4, "--explain", f"j{job}", *more, text=text,
                                 policy=policy)["explained"]["waiting"]
                if waiting is not None:
                    self.assertAlmostEqual(sum(waiting[name] for name in CAUSES), waiting["wait_s"], places=6,
                                           msg=(policy, job))


class Gantt(unittest.TestCase):
    def draw(self, text, *options, policy="fifo"):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "gantt.svg")
            answer("-", *options, "--gantt", path, text=text, policy=policy)
            size = os.path.getsize(path)
            return ElementTree.parse(path).getroot(), size

    def boxes(self, root):
        """(begin, end, height) in pixels, of every job's box."""
        found = []
        for path in root.iter(SVG + "path"):
            if path.get("class") == "box":
                for x, end, height in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)v([\d.]+)H", path.get("d")):
                    found.append((float(x), float(end), float(height)))
        return sorted(found)

    def test_boxes(self):
        root, _ = self.draw(HEADER + "a<&b,0,8,10,\nb,5,4,20,12\nc,5,3,30,\n", "--nodes", 1)
        texts = ["".join(text.itertext()) for text in root.iter(SVG + "text")]
        for words in ("3 jobs on 8 GPUs under fifo", "a<&b", "b", "c", "node 0", "runs, will end late", "free",
                      "0 s", "40 s", "Jobs that wait", "2.00 kW"):
            self.assertIn(words, texts)
        boxes = self.boxes(root)
        left, per_s = 130.0, (1400 - 130 - 30) / 40
        for box, (begin, end, gpus) in zip(boxes, ((0, 10, 8), (10, 30, 4), (10, 40, 3))):
            self.assertAlmostEqual(box[0], left + begin * per_s, delta=0.02)
            self.assertAlmostEqual(box[1], left + end * per_s, delta=0.02)
            self.assertAlmostEqual(box[2] / boxes[0][2], gpus / 8, delta=1e-6)
        fills = [path.get("fill") for path in root.iter(SVG + "path") if path.get("class") == "box"]
        self.assertEqual(len(set(fills)), 2)
        self.assertIn("prefers-color-scheme: dark", "".join(root.find(SVG + "style").itertext()))

    def test_many(self):
        for nodes, jobs in ((18, 5000), (352, 2000), (4000, 3000)):
            root, size = self.draw(random_trace(nodes, jobs, 40), "--nodes", nodes)
            self.assertLess(sum(1 for _ in root.iter()), 4000)
            self.assertLess(size, 1 << 20)
            self.assertEqual(self.boxes(root), [])
        root, _ = self.draw(random_trace(5, 400, 16), "--nodes", 8)
        self.assertGreaterEqual(len(self.boxes(root)), 400)
        self.assertLess(sum(1 for _ in root.iter()), 4000)

    def test_pools(self):
        with tempfile.TemporaryDirectory() as directory:
            pools = os.path.join(directory, "pools.csv")
            for count in (3, 30, 60):
                with open(pools, "w", encoding="utf-8") as file:
                    file.write("vc,nodes\n" + "".join(f"pool{i},{i + 9}\n" for i in range(count)))
                text = "job_id,submit_s,vc,num_gpus,duration_s\n" + "".join(
                    f"{i},{i},pool{i % count},{1 + i % 30},90\n" for i in range(900))
                root, _ = self.draw(text, "--pools", pools)
                texts = ["".join(label.itertext()) for label in root.iter(SVG + "text")]
                self.assertEqual("pool2: 88 GPUs" in texts, count == 30, count)
                self.assertLess(sum(1 for _ in root.iter()), 4000)

    def test_nodes(self):
        options = ("--power-down", "--turn-on-j", 4800, "--turn-on-s", 20, "--idle-w", 60)
        root, _ = self.draw(HEADER + "a,0,8,10,\nb,50,4,10,\n", "--nodes", 1, *options)
        per_s = (1400 - 130 - 30) / 80
        for rgb, begin, end in (("#aab1bd", 20, 50), ("#d8b365", 50, 70)):
            paths = [path.get("d") for path in root.iter(SVG + "path") if path.get("fill") == rgb]
            x, right = map(float, re.match(r"M([\d.]+) [\d.]+H([\d.]+)v", paths[0]).groups())
            self.assertAlmostEqual(x, 130 + begin * per_s, delta=0.02)
            self.assertAlmostEqual(right, 130 + end * per_s, delta=0.02)
        root, _ = self.draw(random_trace(1, 3000, 30), "--nodes", 40, *options)
        self.assertLess(sum(1 for _ in root.iter()), 4000)
        self.assertIn("not on", ["".join(text.itertext()) for text in root.iter(SVG + "text")])

    def test_nothing(self):
        root, _ = self.draw(HEADER, "--nodes", 1)
        self.assertIn("0 jobs on 8 GPUs under fifo", ["".join(text.itertext()) for text in root.iter(SVG + "text")])


if __name__ == "__main__":
    unittest.main()
