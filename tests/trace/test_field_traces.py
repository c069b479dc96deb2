"""lull analyze and lull simulate on traces as people bring them: each case has a right.md that says what is right.

Usage: test_field_traces.py LULL DIRECTORY_OF_CASES [--table]
--table prints each case with ok, or what is wrong, instead of failing.
SPDX-License-Identifier: Apache-2.0"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

LULL = os.path.abspath(sys.argv[1])
CASES = sys.argv[2]
IS_TABLE = "--table" in sys.argv
del sys.argv[1:]
BASE = {"kernels": 9, "comm_kernels": 4, "span_ms": 400.01, "compute_ms": 240.01, "comm_ms": 120, "exposed_ms": 120,
        "idle_ms": 40, "iterations": 4, "iteration_ms": 100}
UNMARKED = {key: BASE[key] for key in ("comm_kernels", "comm_ms", "exposed_ms")}


class Wrong(Exception):
    pass


def run(*arguments):
    done = subprocess.run([LULL, *arguments], capture_output=True, check=False, timeout=120)
    if done.returncode < 0:
        raise Wrong(f"died of signal {-done.returncode}")
    return done


def path(case, name="trace.json"):
    return os.path.join(CASES, case, name)


def need(condition, what):
    if not condition:
        raise Wrong(what)


def same(rank, wanted):
    for key, value in wanted.items():
        need(rank.get(key) is not None and abs(rank[key] - value) < 1e-6, f"{key} {rank.get(key)}, not {value}")


def analyze(*files, status=0):
    done = run("analyze", "--json", *files)
    need(done.returncode == status, f"status {done.returncode}: {done.stderr.decode(errors='replace')[:200]}")
    return json.loads(done.stdout.decode("utf-8")), done.stderr.decode(errors="replace")


def one(case, name="trace.json", wanted=None, says=()):
    document, notes = analyze(path(case, name))
    need(len(document["ranks"]) == 1, f"{len(document['ranks'])} ranks")
    same(document["ranks"][0], BASE if wanted is None else wanted)
    for words in says:
        need(words in notes, f"does not say '{words}': {notes[:200]}")
    return document["ranks"][0]


def refused(case, name, *words, never=("ProfilerActivity", "is not a number")):
    done = run("analyze", "--json", path(case, name))
    text = done.stderr.decode(errors="replace")
    need(done.returncode == 1 and done.stdout == b"", f"status {done.returncode}")
    for word in words:
        need(word in text, f"does not say '{word}': {text[-200:]}")
    for word in never:
        need(word not in text, f"says '{word}'")


def each(case, names, **more):
    for name in names:
        try:
            one(case, name, **more)
        except Wrong as wrong:
            raise Wrong(f"{name}: {wrong}") from wrong


def communicating(case, count):
    one(case, wanted={"comm_kernels": count})


def two_gpus(case):
    document, _ = analyze(path(case))
    need(len(document["ranks"]) == 2, f"{len(document['ranks'])} GPUs")
    for rank in document["ranks"]:
        for key, share in (("compute_ms", 0.6), ("exposed_ms", 0.3), ("idle_ms", 0.1)):
            need(abs(rank[key] / rank["span_ms"] - share) < 1e-3, f"{key} {rank[key]} of {rank['span_ms']}")
    need(abs(document["switchable"]["gap_ms"] - 320) < 1e-6, f"gaps {document['switchable']['gap_ms']}")


def gpu_names():
    for i, (model, is_known) in enumerate((("A100-PCIE-80GB", True), ("Max1550", True), ("RTX3090", True),
                                           ("RTX3090", True), (None, False), (None, False), ("A40", None), (None, False),
                                           (None, False))):
        document, _ = analyze(path("gpu-names", f"g{i}.json"))
        assumed = document["ranks"][0]["assumptions"]
        head = "\n".join(run("analyze", path("gpu-names", f"g{i}.json")).stdout.decode().split("\n")[:2])
        if is_known is False or (is_known is None and assumed["gpu_assumed"]):
            need(assumed["gpu_assumed"], f"g{i}: taken for {assumed['gpu']}")
            need(assumed["gpu"] in head and "not known" in head, f"g{i}: the first lines do not say it")
        else:
            need(assumed["gpu"] == model and not assumed["gpu_assumed"], f"g{i}: taken for {assumed['gpu']}")
        if i == 3:
            need(assumed["gpu_borrowed_for"] is not None, "g3: borrowed, but not said")


def any_json():
    for name in "abcd":
        refused("any-json", f"{name}.json", "traceEvents")


def mixed():
    done = run("analyze", path("job-mixed", "a.json"), path("job-mixed", "b.json"))
    need("not ranks of one job" in done.stderr.decode(), "no warning")
    need("Assumed: A100" in done.stdout.decode() and "Assumed: H100" in done.stdout.decode(), "one GPU's assumptions")


def coordinator():
    files = [path("job-with-coordinator", name) for name in ("async_llm.json", "rank0.json", "rank1.json")]
    document, notes = analyze(*files)
    need(len(document["ranks"]) == 2, f"{len(document['ranks'])} ranks")
    need("async_llm.json" in notes and "skipped" in notes, notes[:200])


def simulate(case, *arguments, name="trace.json"):
    done = run("simulate", "--json", "--periods", "20", *arguments, path(case, name))
    need(done.returncode == 0, done.stderr.decode()[:200])
    return json.loads(done.stdout)


def trace_gpu():
    highest = simulate("simulate-gpu-of-trace")["modes"][0]
    need(highest["sm_mhz"] == 1980, f"highest clock {highest['sm_mhz']} MHz, that of an H100 is 1980")


def layers():
    document, _ = analyze(path("layers-not-iterations"))
    need(document["ranks"][0]["iterations"] in (0, 1), f"{document['ranks'][0]['iterations']} iterations")
    need("no verdict" in document["verdict"], document["verdict"][:60])


def late_names():
    documents = []
    for name in ("first.json", "late.json", "object.json"):
        document, _ = analyze(path("timeline-late-names", name))
        documents.append({key: document[key] for key in document if key != "file"})
    need(documents[0] == documents[1] and documents[0].get("ranks") == documents[2].get("ranks"), "they differ")


def overflow():
    rank = one("dur-overflows-stream", wanted={"span_ms": 400.01, "exposed_ms": 90, "comm_ms": 120})
    need(rank["kernels"] == 9, "kernels")


def by_chance():
    document, _ = analyze(path("iterations-by-chance"))
    need(document["ranks"][0]["iterations"] == 0, "iterations")


def bom():
    each("bom-crlf", ("bom.json", "crlf.json"))
    refused("bom-crlf", "utf16.json", "UTF-16", never=("in a known format",))


def odd_arguments():
    each("args-odd", ("null.json", "list.json"))
    one("args-odd", "noname.json", wanted={"kernels": 11, "comm_kernels": 4})


def writers():
    refused("ranks-wrote-over-each-other", "trace.json", "several ranks")


def horovod():
    refused("horovod-timeline", "timeline.json", "Horovod", never=("ProfilerActivity", "truncated"))
    refused("horovod-timeline", "only-bracket.json", "Horovod", never=("ProfilerActivity", "truncated"))


def nccl():
    for name in ("trace.txt", "open.txt"):
        refused("nccl-profiler-plugin", name, "NCCL's profiler", "no GPU kernels")


RIGHT = {
    "00-base": lambda: one("00-base", "base.json"),
    "any-json": any_json,
    "args-odd": odd_arguments,
    "begin-end-phases": lambda: one("begin-end-phases"),
    "bom-crlf": bom,
    "cat-list": lambda: one("cat-list"),
    "control-characters": lambda: one("control-characters"),
    "copies-as-kernels": lambda: one("copies-as-kernels"),
    "dur-max": lambda: one("dur-max", says=("1 kernels without usable",)),
    "dur-negative": lambda: one("dur-negative", says=("1 kernels without usable",)),
    "dur-overflows-stream": overflow,
    "events-twice": lambda: one("events-twice"),
    "gpu-names": gpu_names,
    "horovod-timeline": horovod,
    "intel-unitrace": lambda: one("intel-unitrace", wanted={"kernels": 8, "comm_kernels": 4, "compute_ms": 240,
                                                            "exposed_ms": 120, "idle_ms": 30, "span_ms": 390}),
    "invalid-utf8": lambda: one("invalid-utf8"),
    "invalid-utf8-kernel": lambda: one("invalid-utf8-kernel", wanted={"comm_kernels": 5}),
    "iterations-by-chance": by_chance,
    "job-mixed": mixed,
    "job-with-coordinator": coordinator,
    "kineto-looks-like-timeline": lambda: one("kineto-looks-like-timeline"),
    "layers-not-iterations": layers,
    "memcpy-only": lambda: refused("memcpy-only", "trace.json", "only copies"),
    "merged-ranks": lambda: two_gpus("merged-ranks"),
    "names-deepep-v2": lambda: communicating("names-deepep-v2", 3),
    "names-mori": lambda: communicating("names-mori", 2),
    "names-symm-mem": lambda: communicating("names-symm-mem", 7),
    "names-that-compute": lambda: communicating("names-that-compute", 0),
    "names-trtllm": lambda: communicating("names-trtllm", 6),
    "nccl-profiler-plugin": nccl,
    "no-closing-bracket": lambda: each("no-closing-bracket", ("array.json", "comma.json"), says=("no end",)),
    "nsys2json": lambda: one("nsys2json", wanted=UNMARKED),
    "numbers-as-words": lambda: each("numbers-as-words", ("trace.json", "nan-ind.json", "hex.json", "bare.json",
                                                          "none.json", "dot.json")),
    "numbers-forms": lambda: each("numbers-forms", ("str.json", "exp.json", "frac.json", "big.json")),
    "one-step-idle-edges": lambda: one("one-step-idle-edges", wanted={"span_ms": 400, "compute_ms": 90, "exposed_ms": 10,
                                                                      "idle_ms": 300, "iterations": 1}),
    "pytorch-execution-trace": lambda: refused("pytorch-execution-trace", "et.json", "execution trace", "Kineto"),
    "ranks-wrote-over-each-other": writers,
    "rocprofv3-json": lambda: refused("rocprofv3-json", "results.json", "traceEvents"),
    "simulate-gpu-of-trace": trace_gpu,
    "simulate-many-streams": lambda: simulate("simulate-many-streams"),
    "steps-doubled": lambda: one("steps-doubled"),
    "timeline-late-names": late_names,
    "trailing-comma": lambda: each("trailing-comma", ("array.json", "object.json", "last.json")),
    "truncated-in-event": lambda: refused("truncated-in-event", "trace.json", "byte", "line", "kernels could be read"),
    "ts-clock-domain": lambda: one("ts-clock-domain", says=("before their launch",)),
    "ts-negative": lambda: one("ts-negative"),
    "ts-zero-kernels": lambda: one("ts-zero-kernels", says=("3 kernels without usable",)),
    "two-documents": lambda: refused("two-documents", "trace.json", "second document"),
    "two-gpus-one-process": lambda: two_gpus("two-gpus-one-process"),
    "unescaped-quotes": lambda: one("unescaped-quotes", says=("1 events are no JSON",)),
    "windows-backslashes": lambda: one("windows-backslashes"),
}


class Field(unittest.TestCase):
    def test_cases(self):
        for case, check in RIGHT.items():
            if os.path.isdir(os.path.join(CASES, case)):
                with self.subTest(case=case):
                    check()

    def test_simulate_reads_what_analyze_reads(self):
        """What analyze takes, simulate plays, and what it refuses, simulate refuses."""
        for case in sorted(RIGHT):
            for name in sorted(glob.glob(os.path.join(CASES, case, "*.json")))[:1]:
                analyzed = run("analyze", "--json", name)
                if b'"operations"' in analyzed.stdout or "timeline" in case:
                    continue
                played = run("simulate", "--json", "--periods", "20", name)
                with self.subTest(case=case, name=os.path.basename(name)):
                    self.assertEqual(played.returncode == 0, analyzed.returncode == 0, played.stderr)


def print_table():
    for case, check in RIGHT.items():
        try:
            check()
            print(f"{case}: ok")
        except (Wrong, KeyError, ValueError) as wrong:
            print(f"{case}: {str(wrong) or type(wrong).__name__}")


if __name__ == "__main__":
    if not os.path.isdir(CASES):
        print("skipped: no traces as people bring them in ../shared/data/field")
        sys.exit(77)
    if IS_TABLE:
        print_table()
    else:
        unittest.main()
