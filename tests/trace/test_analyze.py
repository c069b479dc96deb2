"""lull analyze against an independent reading of the same traces, and what it says of bad ones.

Usage: test_analyze.py LULL DIRECTORY_OF_TRACES
SPDX-License-Identifier: Apache-2.0"""
import glob
import gzip
import itertools
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import emulated_gpu  # noqa: E402

LULL = os.path.abspath(sys.argv[1])
TRACES = sorted(glob.glob(os.path.join(sys.argv[2], "*.json.gz")))
del sys.argv[1:3]


def analyze(*arguments, data=None):
    return subprocess.run([LULL, "analyze", *arguments], input=data, capture_output=True, check=False, timeout=120)


def analyze_json(*arguments, data=None):
    done = analyze("--json", *arguments, data=data)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- the independent reader ----

def load(path):
    """A trace's events and all else; JSON's rules for escapes and control characters are relaxed."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        text = re.sub(r'\\(.)', lambda found: found.group() if found.group(1) in '"\\/bfnrtu' else "?", file.read())
    return json.loads(text, strict=False)


def union(intervals):
    result = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        else:
            result.append([begin, end])
    return result


def length(intervals):
    return sum(end - begin for begin, end in intervals)


def quantile(values, p):
    values = sorted(values)
    place = p * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def expected(path):
    """What lull analyze should say of a rank; times in ms."""
    trace = load(path)
    kernels = [event for event in trace["traceEvents"]
               if event.get("ph") == "X" and str(event.get("cat")).lower() == "kernel"]
    origin = min(event["ts"] for event in kernels)
    times = [((event["ts"] - origin) / 1e3, (event["ts"] - origin + event["dur"]) / 1e3) for event in kernels]
    communicates = ["nccl" in event["name"].lower() for event in kernels]
    compute = union(time for time, comm in zip(times, communicates) if not comm)
    comm = union(time for time, comm in zip(times, communicates) if comm)
    both = union(times)
    overlap = length(compute) + length(comm) - length(both)
    marks = {event["name"]: ((event["ts"] - origin) / 1e3, (event["ts"] - origin + event["dur"]) / 1e3)
             for event in trace["traceEvents"]
             if str(event.get("name")).startswith("ProfilerStep#") and event.get("cat") == "user_annotation"}
    steps = {name: end - begin for name, (begin, end) in marks.items()}
    first, last = min(begin for begin, _ in times), max(end for _, end in times)
    marked = (min(begin for begin, _ in marks.values()), max(end for _, end in marks.values()))
    span = max(last - first, marked[1] - marked[0])  # wherever the CPU marked its iterations
    begin = max(first - (span - (last - first)), min(first, marked[0]))
    info = trace.get("distributedInfo", {})
    devices = {device["id"]: device["name"] for device in trace.get("deviceProperties", [])}
    return {
        "rank": info.get("rank"), "world_size": info.get("world_size"),
        "gpu": devices.get(kernels[0]["args"]["device"]), "kernels": len(kernels), "comm_kernels": sum(communicates),
        "span_ms": span, "compute_ms": length(compute), "comm_ms": length(comm), "overlap_ms": overlap,
        "exposed_ms": length(comm) - overlap, "idle_ms": span - length(both),
        "iterations": len(steps), "iteration_ms": sum(steps.values()) / len(steps),
        "lengths": [end - begin for (begin, end), comm in zip(times, communicates) if comm],
        "compute": compute, "begin": begin, "span": span,
    }


def gaps(rank):
    """(begin, end) of what lies between the compute kernels of a rank."""
    edges = [rank["begin"]] + [edge for interval in rank["compute"] for edge in interval]
    edges.append(rank["begin"] + rank["span"])
    return [(begin, end) for begin, end in zip(edges[::2], edges[1::2]) if end > begin]


ELSEWHERE = (
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)",
    "void deep_ep::internode_ll::combine<false, 7168, 9>(void*, void*)",
    "deep_ep::internode::notify_dispatch<true, 4>(int const*, int*)",
    "void uccl::ep::internode::dispatch<4>(int*)",
    "void (anonymous namespace)::cached_notify_combine<2>(void**)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "void sglang::cross_device_reduce_2stage<__half, 4>(RankData*)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true>(AllReduceParams)",
    "void tensorrt_llm::kernels::allReduceKernel<float>(float*)",
    "tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<8>(Params)",
    "void tensorrt_llm::kernels::moeAllToAllKernel<4>(FusedMoeCommKernelParam)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<8>()",
    "void aiter::cross_device_reduce_1stage_naive<__hip_bfloat16, 8>()",
    "void quickreduce::allreduce_prototype_twoshot<2>(half const*)",
    "void mscclpp::executionKernel<LL16Packet>(int)",
    "nvshmemi_transfer_rma_kernel(int)",
    "mscclKernel_Sum_half_LL_false",
)


class Recorded(unittest.TestCase):
    def near(self, actual, wanted, what, scale=0.0):
        if isinstance(wanted, float):
            self.assertAlmostEqual(actual, wanted, delta=1e-3 * max(abs(wanted), 1e-3 * scale), msg=what)
        else:
            self.assertEqual(actual, wanted, what)

    def test_every_field(self):
        document = analyze_json(*TRACES)
        self.assertEqual([rank["file"] for rank in document["ranks"]], TRACES)
        for rank in document["ranks"]:
            wanted = expected(rank["file"])
            for key in ("rank", "world_size", "gpu", "kernels", "comm_kernels", "span_ms", "compute_ms", "comm_ms",
                        "overlap_ms", "exposed_ms", "idle_ms", "iterations", "iteration_ms"):
                self.near(rank[key], wanted[key], f"{rank['file']}: {key}", wanted["span_ms"])
            self.check_sections(rank, wanted)

    def check_sections(self, rank, wanted):
        sections = rank["sections"]
        self.assertEqual(sum(section["count"] for section in sections), wanted["comm_kernels"])
        self.near(sum(section["total_ms"] for section in sections), float(sum(wanted["lengths"])), rank["file"])
        if len(sections) == 1:
            for p in (50, 90, 99):
                self.near(sections[0][f"p{p}_ms"], quantile(wanted["lengths"], p / 100), f"{rank['file']}: p{p}")
            self.near(sections[0]["exposed_ms"], rank["exposed_ms"], rank["file"])  # one stream: no overlap

    def test_switchable(self):
        for path in TRACES:
            intervals = gaps(expected(path))
            for down, up in ((0, 0), (5, 5), (14, 20), (25, 25)):
                found = analyze_json("--switch-ms", f"{down},{up}", path)["switchable"]
                alone = sum(end - begin - down - up for begin, end in intervals if end - begin > 1.25 * (down + up))
                self.near(found["gap_ms"], float(sum(end - begin for begin, end in intervals)), path)
                self.near(found["alone_ms"], float(alone), path, scale=1.0)
                self.assertLessEqual(found["alone_ms"], found["merged_ms"] + 1e-6)
                self.assertLessEqual(found["alone_ms"], found["feed_forward_ms"] + 1e-6)
                self.assertLessEqual(found["feed_forward_ms"], found["gap_ms"] + 1e-6)
                self.assertGreaterEqual(found["saving_ratio"], 0.0)
                self.assertLess(found["saving_ratio"], 1.0)

    def test_the_design_s_figures(self):
        """Design, section 4: at no latency 18 %, feed-forward 10 % at 5 ms and 5 % at 25 ms."""
        path = [path for path in TRACES if "sampled_rank-0" in path][0]
        for latency, ratio in ((0, 0.18), (5, 0.10), (25, 0.05)):
            found = analyze_json("--switch-ms", f"{latency},{latency}", path)["switchable"]["saving_ratio"]
            self.assertAlmostEqual(found, ratio, delta=0.015)

    def test_ranks_add_up(self):
        document = analyze_json(*TRACES)
        for key in ("alone_ms", "merged_ms", "feed_forward_ms", "energy_j"):
            self.assertAlmostEqual(document["switchable"][key],
                                   sum(rank["switchable"][key] for rank in document["ranks"]), places=6)

    def test_tables_for_people(self):
        done = analyze(*TRACES)
        self.assertEqual(done.returncode, 0)
        for word in ("sendrecv", "allreduce", "feed-forward", "Assumed", "A100-SXM4-40GB"):
            self.assertIn(word, done.stdout.decode())

    def test_a_rank_without_communication(self):
        path = [path for path in TRACES if "single-rank" in path][0]
        done = analyze(path)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"only idle time", done.stderr)

    def test_communication_without_nccl(self):
        """The kernels of a job under the names that other libraries have: the same times, exactly."""
        path = [path for path in TRACES if "a100-8ranks" in path][0]
        with gzip.open(path) as file:
            text = file.read()
        wanted = self.times(analyze_json("-", data=text))
        self.assertGreater(wanted["comm_kernels"], 0)
        names = itertools.cycle(ELSEWHERE)
        renamed = re.sub(rb'"name": *"[^"]*nccl[^"]*"', lambda _: b'"name": "%s"' % next(names).encode(), text,
                         flags=re.IGNORECASE)
        self.assertNotEqual(renamed, text)
        self.assertEqual(self.times(analyze_json("-", data=renamed)), wanted)

    def times(self, document):
        rank = document["ranks"][0]
        return {key: rank[key] for key in ("comm_kernels", "compute_ms", "comm_ms", "overlap_ms", "exposed_ms",
                                           "idle_ms", "span_ms")}

    def test_the_verdict_comes_first(self):
        """Against the simulation of the same jobs (docs/research/measurements/joint.md, auto), which is within the range."""
        for name, simulated in (("sampled_rank-0", 15.7), ("sampled_rank-1", 10.6), ("a100-8ranks", 4.9),
                                ("a100-ddp", 10.3)):
            path = [path for path in TRACES if name in path][0]
            document = analyze_json(path)
            first, second = analyze(path).stdout.decode().split("\n")[:2]
            self.assertEqual(first, document["verdict"])
            self.assertRegex(first, r"^saves about \d+ % \(\d+ to \d+\) of the energy, at most 1 % slower: one steady clock.*; "
                             r"run: lull run")
            self.assertTrue(second.startswith("at 0 % slowdown: "), second)
            self.assertIn(f"one steady clock {document['predicted']['steady_mhz']:.0f} MHz",
                          re.sub(r" +[\d.]+ %  \(", " ", analyze(path).stdout.decode()))
            points = document["frontier"]
            self.assertEqual([point["slowdown_ratio"] for point in points], [0, 0.002, 0.005, 0.01, 0.02, 0.05])
            for one, more in zip(points, points[1:]):
                self.assertLessEqual(one["saving_ratio"], more["saving_ratio"])
            for point in points:
                self.assertEqual((point["source"], point["reason"]), ("predicted", None))
                self.assertLessEqual(point["low_ratio"], point["saving_ratio"])
                self.assertLessEqual(point["saving_ratio"], point["high_ratio"])
            predicted = document["predicted"]
            self.assertLessEqual(predicted["steady_slowdown_ratio"], predicted["tolerance_ratio"])
            self.assertEqual(predicted["saving_ratio"], points[3]["saving_ratio"])
            self.assertGreater(simulated, 100 * predicted["low_ratio"], name)
            self.assertLess(simulated, 100 * predicted["high_ratio"], name)

    def test_nothing_to_gain(self):
        path = [path for path in TRACES if "single-rank" in path][0]
        self.assertTrue(analyze_json(path)["verdict"].startswith("nothing to gain: the GPU computes 98 %"))
        done = subprocess.run([LULL, "simulate", "--json", "--periods", "50", "--model", "V100", path],
                              capture_output=True, check=True, timeout=120)
        self.assertEqual({mode["driver_calls"] for mode in json.loads(done.stdout)["modes"]}, {0})

    def test_truncated_anywhere(self):
        path = TRACES[0]
        with open(path, "rb") as file:
            packed = file.read()
        text = gzip.decompress(packed)
        for whole, cut in ((packed, len(packed) // 2), (packed, len(packed) - 4), (packed, 12),
                           (text, len(text) // 3), (text, len(text) - 12)):
            done = analyze("-", data=whole[:cut])
            self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
            self.assertRegex(done.stderr.decode(), r"truncated.*byte \d+|byte \d+.*truncated")
        done = analyze("--json", "-", data=text[:len(text) - 3])  # all events are there
        self.assertIn(b"has no end", done.stderr)
        self.assertEqual(self.times(json.loads(done.stdout)), self.times(analyze_json(path)))
        damaged = bytearray(packed)
        damaged[len(packed) // 2] ^= 0xff
        done = analyze("-", data=bytes(damaged))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"byte \d+")


# ---- made-up traces ----

def kernel(name, begin_us, length_us, **more):
    return {"ph": "X", "cat": "kernel", "name": name, "ts": begin_us, "dur": length_us, **more}


EVENTS = [kernel("gemm", 1000, 100), kernel("ncclAllReduce", 1050, 150), kernel("gemm", 1300, 100)]
MARKED = EVENTS + [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 1000, "dur": 400}]


class MadeUp(unittest.TestCase):
    def rank(self, data, *arguments):
        return analyze_json(*arguments, "-", data=data)["ranks"][0]

    def check(self, data):
        rank = self.rank(data)
        for key, wanted in (("kernels", 3), ("comm_kernels", 1), ("span_ms", 0.4), ("compute_ms", 0.2),
                            ("comm_ms", 0.15), ("overlap_ms", 0.05), ("exposed_ms", 0.1), ("idle_ms", 0.1)):
            self.assertAlmostEqual(rank[key], wanted, places=9, msg=key)
        return rank

    def test_forms_of_the_same_trace(self):
        plain = json.dumps({"traceEvents": EVENTS}).encode()
        self.check(plain)
        self.check(json.dumps(EVENTS).encode())
        self.check(b"\xef\xbb\xbf \r\n\t" + plain + b"\n\n")
        self.check(json.dumps({"traceEvents": EVENTS}, indent=8).encode())
        self.check(gzip.compress(plain[:50]) + gzip.compress(plain[50:]))
        backwards = [dict(reversed(event.items())) for event in reversed(EVENTS)]
        self.check(json.dumps({"x": [{"traceEvents": 1}], "traceEvents": backwards, "distributedInfo": None}).encode())
        self.check(plain.replace(b'"kernel"', b'"KERNEL"').replace(b'"nccl', b'"\\u004eCcL'))
        self.check(plain.replace(b"gemm", b"ge\\$\\x\\u1m\nm"))

    def test_unknown_is_null(self):
        rank = self.check(json.dumps(EVENTS).encode())
        for key in ("rank", "world_size", "gpu", "iteration_ms"):
            self.assertIsNone(rank[key])
        self.assertEqual(rank["iterations"], 0)
        self.assertTrue(rank["assumptions"]["gpu_assumed"])

    def test_names_that_are_no_utf_8(self):
        data = json.dumps(EVENTS).encode().replace(b"ncclAll", b"nccl\xff\xfe\x1bAll")
        self.assertIn("nccl\ufffd\ufffd\x1bAll", self.check(data)["sections"][0]["name"])
        self.assertNotIn(b"\x1b", analyze("-", data=data).stdout)

    def test_the_gpu_decides(self):
        data = json.dumps({"traceEvents": EVENTS, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]})
        self.assertEqual(self.rank(data.encode())["assumptions"]["gpu"], "H100-SXM5")
        self.assertEqual(self.rank(data.encode(), "--model", "A40")["assumptions"]["gpu"], "A40")
        other = data.replace("NVIDIA H100 80GB HBM3", "NVIDIA RTX A4000")  # not an A40
        self.assertTrue(self.rank(other.encode())["assumptions"]["gpu_assumed"])

    def test_curves_are_borrowed(self):
        for product, model in (("NVIDIA H800", "H100-SXM5"), ("NVIDIA H20", "H100-SXM5"), ("NVIDIA GB200", "B200-SXM"),
                               ("AMD Instinct MI325X", "MI300X"), ("NVIDIA L40S", "A40"), ("NVIDIA A800-SXM4-80GB", "A100-SXM4-80GB"),
                               ("NVIDIA H100 PCIe", "H100-SXM5")):
            data = json.dumps({"traceEvents": EVENTS, "deviceProperties": [{"id": 0, "name": product}]}).encode()
            assumed = self.rank(data)["assumptions"]
            self.assertEqual((assumed["gpu"], assumed["gpu_assumed"]), (model, False), product)
            self.assertIn(assumed["gpu_borrowed_for"], product)
            self.assertIn(f"those of {model} are used", analyze("-", data=data).stdout.decode())
        for product in ("AMD Instinct MI300X", "NVIDIA H200", "NVIDIA B200", "NVIDIA H100 80GB HBM3"):
            data = json.dumps({"traceEvents": EVENTS, "deviceProperties": [{"id": 0, "name": product}]}).encode()
            self.assertIsNone(self.rank(data)["assumptions"]["gpu_borrowed_for"], product)

    def test_names_of_products(self):
        for product, model in (("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"), ("NVIDIA GeForce RTX 3090", "RTX3090"),
                               ("Intel(R) Data Center GPU Max 1550", "Max1550"), ("A100-SXM-80GB", "A100-SXM4-80GB"),
                               ("Tesla V100-SXM2-32GB", "V100-SXM2-16GB"), ("Tesla V100-PCIE-32GB", "V100-PCIE-32GB"),
                               ("Tesla T4", None), ("Tesla P100-PCIE-16GB", None), ("NVIDIA GeForce RTX 2080 Ti", None),
                               ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None), ("Quadro RTX 6000", None)):
            data = json.dumps({"traceEvents": MARKED, "deviceProperties": [{"id": 0, "name": product}]}).encode()
            assumed = self.rank(data)["assumptions"]
            first = analyze("-", data=data).stdout.decode().split("\n")[0]
            self.assertEqual(None if assumed["gpu_assumed"] else assumed["gpu"], model, product)
            self.assertEqual("is not known" in first, model is None, first)

    def test_no_verdict_without_iterations(self):
        for events, known in ((EVENTS, False), (MARKED, True)):
            document = analyze_json("-", data=json.dumps(events).encode())
            self.assertEqual(document["verdict"].startswith("no verdict"), not known)

    def files(self, folder, *contents):
        paths = []
        for i, content in enumerate(contents):
            paths.append(os.path.join(folder, f"{i}.json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                json.dump(content, file)
        return paths

    def test_files_of_one_job(self):
        def rank(number, world, gpu="NVIDIA A100-SXM4-80GB", shift=0):
            return {"distributedInfo": {"rank": number, "world_size": world}, "deviceProperties": [{"id": 0, "name": gpu}],
                    "traceEvents": [{**event, "ts": event["ts"] + shift} for event in MARKED]}
        coordinator = {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "x", "ts": 1, "dur": 1}]}
        with tempfile.TemporaryDirectory() as folder:
            for contents, ranks, words, status in (
                    ((coordinator, rank(0, 2), rank(1, 2)), 2, "0.json: no GPU kernels, so it is skipped", 0),
                    ((rank(0, 2), rank(0, 2)), 1, "is counted once", 0), ((rank(0, 2), rank(0, 2, shift=9)), 2, "both are counted", 0),
                    ((rank(0, 2), rank(1, 64)), 2, "not ranks of one job", 0),
                    ((rank(0, 2), rank(1, 2, "NVIDIA H100 80GB HBM3")), 2, "a different GPU", 0),
                    ((rank(0, 2), [7]), 1, "skipped", 0), ((coordinator, coordinator), 0, "none of these files", 1),
                    (("nothing", rank(0, 2)), 1, "not a trace", 1)):
                done = analyze("--json", *self.files(folder, *contents))
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(words, done.stderr.decode())
                if ranks > 0:
                    self.assertEqual(len(json.loads(done.stdout)["ranks"]), ranks)
                else:
                    self.assertEqual(done.stdout, b"")

    def test_many_names_of_collectives(self):
        """Half a million names cost neither much memory nor a document of all of them."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write("[{}")
            for i in range(500000):
                file.write(f',\n{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_{i}","ts":{i * 3},"dur":2}}')
            file.write("]")
            file.flush()
            process = subprocess.Popen([LULL, "analyze", "--json", file.name], stdout=subprocess.PIPE)
            document = json.loads(process.stdout.read())
            process.stdout.close()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
        self.assertEqual(status, 0)
        rank = document["ranks"][0]
        self.assertEqual((len(rank["sections"]), rank["other_sections"]), (1000, 499000))
        if not is_sanitized():
            self.assertLess(usage.ru_maxrss, 300 << 10)  # KiB

    def test_a_power_limit_lowers_the_clock(self):
        """Of the mean power: in bursts computation may draw more than the limit."""
        model = emulated_gpu.Model("RTX3090")
        limits, sm = model.data["power_limit_W"], model.data["sm"]
        steps = [sm["min"] + i * sm["step"] for i in range(round((sm["max"] - sm["min"]) / sm["step"]) + 1)]
        idle_w = emulated_gpu.at(model.data["active_idle_W"]["table"], sm["max"])
        for length_us in (1000, 700, 500, 100):
            busy = 20 * length_us / 20001
            most_w = (limits["default"] * limits["settle"] - (1 - busy) * idle_w) / busy
            mhz = max(mhz for mhz in steps if model.settled_w("llm_fwd", mhz) <= most_w)
            events = [kernel("gemm", 1000 * i, length_us) for i in range(20)]
            events.append(kernel("ncclAllReduce", 20000, 1))
            assumed = self.rank(json.dumps({"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 1}}).encode(),
                                "--model", "RTX3090")["assumptions"]
            self.assertAlmostEqual(assumed["high"]["compute_w"], model.settled_w("llm_fwd", mhz), places=6)
            self.assertAlmostEqual(assumed["low_speed_ratio"],
                                   model.time_ratio("llm_fwd", mhz) / model.time_ratio("llm_fwd", sm["min"]), places=9)

    def test_kernels_that_the_user_names(self):
        data = json.dumps(EVENTS).replace("ncclAllReduce", "my_exchange").encode()
        self.assertEqual(self.rank(data)["comm_kernels"], 0)
        self.assertIn(b"use --comm-kernels to name", analyze("-", data=data).stderr)
        self.assertEqual(self.rank(data, "--comm-kernels", "my_(exchange|reduce)")["comm_kernels"], 1)
        self.assertEqual(self.rank(data, "--comm-kernels", "exchange_my")["comm_kernels"], 0)
        done = analyze("--comm-kernels", "my_(", "-", data=data)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"extended regular expression", done.stderr)

    def test_copies_between_peers(self):
        copies = [kernel("Memcpy PtoP (Device -> Device)", 1050, 150), kernel("Memcpy HtoD (Pinned -> Device)", 0, 900)]
        events = EVENTS[:1] + EVENTS[2:] + [{**copy, "cat": "gpu_memcpy"} for copy in copies]
        rank = self.check(json.dumps(events).encode())
        self.assertEqual(rank["sections"][0]["operation"], "sendrecv")

    def test_watts_are_of_timelines(self):
        self.assertIn(b"--watts is for timelines", analyze("--watts", "3,2,1", "-", data=json.dumps(EVENTS).encode()).stderr)

    def test_bad_text(self):
        cases = {
            b"": "empty", b"   \n": "truncated", b"hello\n": "in a known format: PyTorch profiler", b"\x7fELF\x00": "in a known format",
            b" " * 300 + b"12": "byte 302: not a trace", b" " * 300 + b"[]": "no GPU kernels", b"\xef\xbb\xbf []": "no GPU kernels",
            b"12": "not a trace", b"{}": "no GPU kernels", b"[]": "no GPU kernels", b"[1, 2, {}]": "no GPU kernels",
            b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "x", "ts": 1, "dur": 1}]}': "among its 1 events",
            b'{"traceEvents": [{"ph": "X"]}': "byte 27, line 1", b"[{}\n,\n{]": "byte 7, line 3",
            b'{"traceEvents": []} {}': "byte 20", b"[" * 5000: "512",
        }
        for data, words in cases.items():
            for arguments in (("--json",), ()):
                done = analyze(*arguments, "-", data=data)
                self.assertEqual((done.returncode, done.stdout), (1, b""), data)
                self.assertIn(words, done.stderr.decode(), data)
                self.assertIn("lull analyze: -", done.stderr.decode())

    def test_bad_command_lines(self):
        self.assertEqual(analyze().returncode, 2)
        for latency in ("5", "5,", "-1,5", "5,5,5", "x,y", "5,1e9", "nan,1"):
            done = analyze("--switch-ms", latency, "-", data=b"[]")
            self.assertEqual(done.returncode, 2, latency)
            self.assertIn(b"--switch-ms", done.stderr)
        done = analyze("--model", "Z9000", "-", data=b"[]")
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"A100-SXM4-40GB", done.stderr)
        for path, words in (("/nonexistent", b"No such file"), ("/", b"directory")):
            done = analyze(path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)

    def test_memory_does_not_grow_with_the_text(self):
        operator = json.dumps({"ph": "X", "cat": "cpu_op", "name": "aten::linear", "ts": 1, "dur": 1,
                               "args": {"Call stack": "module.py(17): forward;" * 20, "shapes": [[1, 2], []]}})
        block = ("," + operator).encode() * 2000

        def feed(pipe):
            pipe.write(json.dumps(EVENTS)[:-1].encode())
            for _ in range(100):
                pipe.write(block)
            pipe.write(b"]")
            pipe.close()

        process = subprocess.Popen([LULL, "analyze", "--json", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        feeder = threading.Thread(target=feed, args=(process.stdin,))
        feeder.start()
        document = json.loads(process.stdout.read())
        feeder.join()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        self.assertEqual(status, 0)
        self.assertEqual(document["ranks"][0]["kernels"], 3)
        self.assertGreater(len(block) * 100, 100 << 20)
        if not is_sanitized():
            self.assertLess(usage.ru_maxrss, 32 << 10)  # KiB


def is_sanitized():
    """Sanitizers keep freed memory, and shadows of the rest."""
    with open(LULL, "rb") as file:
        return b"__asan_init" in file.read()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not TRACES:
        print("skipped: no recorded traces in ../shared/data, only made-up ones are tested")
        program = unittest.main(defaultTest="MadeUp", exit=False)
        sys.exit(0 if program.result.wasSuccessful() else 1)
    unittest.main()
