#!/usr/bin/env python3
"""The steps of `lull selftest`, which starts this file. Each has a time of its own; a step that fails does not stop the others.

Exit status: 0 every step passed or was skipped, 1 one failed or the archive could not be written, 4 there is no NVIDIA GPU.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import signal
import sys
import tempfile
import time

import checks
from archive import Archive
from checks import Failed, Missing
from machine import machine_facts
from nvml_dump import make_record

SETTINGS = ("power_limit_w", "sm_clock_min_mhz", "sm_clock_max_mhz")
COMPARE_S, QUICK_COMPARE_S = 60.0, 3.0
BUSY_RATIO, MOST_TEXT = 0.05, 20000
SWEEP_RUN_S, QUICK_SWEEP_RUN_S = 1.0, 0.3
SWEEP = ["--repeats=1", "--warm-up=0", "--idle=5", "--soak=2", "--window=2", "--window-most=6", "--grid=sm=4"]
QUICK_SWEEP = ["--repeats=1", "--warm-up=0", "--idle=1", "--soak=0", "--window=0.5", "--window-most=1", "--grid=sm=2"]
PLAYED_ITERATION_MS = 106.0  # at the highest clock of an A100
NOT_PERMITTED, UNSUPPORTED = 3, 4  # exit statuses of Lull
SEND = "open an issue of Lull and attach it (docs/developer/gpu-checks.md)"


class Selftest:
    def __init__(self, arguments):
        self.arguments = arguments
        self.machine = checks.Machine(arguments.lull, arguments.quick)
        self.archive = Archive()
        self.work = None  # loops and bytes of the job's iterations; None: it cannot run here
        self.is_emulated = "LULL_EMULATED_NODE" in os.environ

    # ---- steps that only read ----

    def step_machine(self):
        facts = machine_facts(self.machine.device)
        self.archive.add_document("machine.json", facts)
        return {"driver": facts["driver_version"], "kernel": facts["kernel"]}

    def step_dump(self):
        try:
            record = make_record(self.machine.left_s())
        except OSError as error:
            raise Failed(str(error)) from None
        self.archive.add_record("nvml.json", record)
        self.archive.add_document("gpus.json", self.machine.device)
        if record["unfinished"]:
            raise Failed(f"calls that did not end: {record['unfinished']}")
        results = [result for results in record["functions"].values() for result in results]
        return {"functions": len(record["functions"]), "calls": len(results), "succeeded": sum(result["code"] == 0 for result in results),
                "unknown_functions": record["unknown"]}

    def step_doctor(self):
        done = self.machine.run([self.machine.lull, "doctor", "--json"])
        checks.expect(done.stdout.startswith("{"), f"lull doctor ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        document = json.loads(done.stdout)
        self.archive.add_document("doctor.json", document)
        return {"problems": document["problems"], "warnings": document["warnings"]}

    def step_job(self):
        self.refuse_busy_gpu()
        job = os.path.join(checks.HERE, "job.py")
        self.work = json.loads(self.machine.output([sys.executable, job, "--measure"]))
        return json.loads(self.machine.output([sys.executable, job, *self.job_words(2.0)]))

    def refuse_busy_gpu(self):
        """By the utilization at the start: later it is that of the steps."""
        utilization = self.machine.device["gpus"][0].get("utilization_ratio")
        if utilization is not None and utilization > BUSY_RATIO:
            raise Missing(f"GPU 0 is in use (utilization {100 * utilization:.0f} %)")

    def job_words(self, seconds, **parts):
        """Arguments of job.py for about this long; parts replace those of an iteration."""
        work = {**self.work, **parts}
        return [str(work["loops"]), str(work["bytes"]), str(work["idle_ms"]), str(max(3, int(seconds * 1e3 / work["iteration_ms"])))]

    # ---- steps that set clocks ----

    def job_command(self, seconds, **parts):
        """The bundled job; on an emulated node, which runs no kernels, a played one."""
        if self.work is not None:
            return [sys.executable, os.path.join(checks.HERE, "job.py"), *self.job_words(seconds, **parts)]
        if self.is_emulated:
            ranks = min(2, len(self.machine.device["gpus"]))
            iterations = max(3, int(seconds * 1e3 / PLAYED_ITERATION_MS))
            return [self.machine.lull, "play", "--preset", "resnet50-ddp", f"--ranks={ranks}", f"--iterations={iterations}"]
        raise Missing("the bundled job cannot run here (step job)")

    def lull_words(self):
        words = ["--no-daemon"] if self.arguments.no_daemon else []
        return words + ([f"--runtime-dir={self.arguments.runtime_dir}"] if self.arguments.runtime_dir else [])

    def run_lull(self, name, *words, **variables):
        """Runs a command of Lull that sets clocks; its text goes to the archive under this name."""
        done = self.machine.run([self.machine.lull, *words], **variables)
        self.archive.add_text(name, done.stdout[-MOST_TEXT:] + done.stderr[-MOST_TEXT:])
        # A right that is missing is no failure: the status says so, or the message about lulld.
        if done.returncode in (NOT_PERMITTED, UNSUPPORTED) or (done.returncode != 0 and "lulld" in done.stderr):
            raise Missing(done.stderr.strip()[-300:])
        return done

    def step_sweep(self):
        self.refuse_busy_gpu()
        found = {}
        shape, seconds = (QUICK_SWEEP, QUICK_SWEEP_RUN_S) if self.arguments.quick else (SWEEP, SWEEP_RUN_S)
        for name, parts in (("compute", {"bytes": 0, "idle_ms": 0}), ("copy", {"loops": 0, "idle_ms": 0})):
            output = os.path.join(self.machine.place, f"sweep-{name}.csv")
            done = self.run_lull(f"sweep-{name}.txt", "sweep", "--quiet", *self.lull_words(), *shape, f"--output={output}", "--",
                                 *self.job_command(seconds, **parts))
            if done.returncode != 0 and "not installed" in done.stderr:
                raise Missing(done.stderr.strip())
            checks.expect(os.path.exists(output), f"lull sweep ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            found[name] = {"rows": self.archive.add_table(f"sweep-{name}.csv", output)}
            if self.work is None:
                break  # a played job has no parts
        return found

    def step_compare(self):
        self.refuse_busy_gpu()
        report = os.path.join(self.machine.place, "report")
        seconds = QUICK_COMPARE_S if self.arguments.quick else COMPARE_S
        done = self.run_lull("run.txt", "run", "--compare", "--quiet", *self.lull_words(), f"--report={report}", "--", *self.job_command(seconds),
                             LULL_LIBRARY=self.machine.library())
        path = os.path.join(report, "report.json")
        checks.expect(os.path.exists(path), f"lull run ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.archive.add_document("report.json", document)
        return {"verdict": document["verdict"]["sentence"]}

    def needs_clocks(self, step):
        def run():
            if not self.arguments.set_clocks:
                raise Missing("it sets clocks: give --set-clocks")
            return step()
        return run

    # ---- all of them ----

    def check(self, name):
        return lambda: getattr(checks, f"check_{name}")(self.machine)

    def steps(self):
        """Each step with the seconds that it may take: ten minutes for all."""
        return [("dump", 90, self.step_dump), ("machine", 5, self.step_machine), ("doctor", 15, self.step_doctor),
                *((name, seconds, self.check(name)) for name, seconds in (
                    ("nvml", 10), ("plugin", 20), ("markers", 20), ("window", 30), ("window_aside", 30), ("torch_ranks", 45), ("kernels", 60))),
                ("job", 20, self.step_job), ("sweep", 110, self.needs_clocks(self.step_sweep)),
                ("compare", 145, self.needs_clocks(self.step_compare))]

    def settings(self):
        return [{name: gpu.get(name) for name in SETTINGS} for gpu in self.machine.gpus()["gpus"]]

    def run(self):
        self.machine.begin(30)
        done = self.machine.run([self.machine.lull, "gpus", "--json"])
        device = json.loads(done.stdout) if done.returncode == 0 else {}
        if device.get("vendor") != "nvidia":
            print(f"lull selftest: no NVIDIA GPU: {done.stderr.strip() or device.get('vendor')}", file=sys.stderr)
            return None
        self.machine.device = device
        before, results = self.settings(), {}
        steps = self.steps()
        for number, (name, budget_s, step) in enumerate(steps, 1):
            self.show(f"[{number:2}/{len(steps)}] {name} ... (at most {budget_s} s)", end="")
            begin = time.monotonic()
            self.machine.begin(budget_s)
            results[name] = dict(run_step(step), seconds=round(time.monotonic() - begin, 2))
            self.show_result(f"[{number:2}/{len(steps)}] {name}", results[name])
        self.machine.begin(30)
        if self.settings() != before:
            results["settings"] = {"result": "failed", "reason": f"settings differ: {before} before, {self.settings()} now", "seconds": 0}
            self.show_result("        settings", results["settings"])
        return results

    def show(self, text, end="\n"):
        if not self.arguments.quiet and (end == "\n" or sys.stderr.isatty()):
            print("\r\033[K" * sys.stderr.isatty() + text, end=end, file=sys.stderr, flush=True)

    def show_result(self, name, result):
        reason = f": {result['reason']}" if "reason" in result else ""
        self.show(f"{name}: {result['result']} ({result['seconds']:.0f} s){reason}")


def run_step(step):
    try:
        return {"result": "passed", "found": step()}
    except Missing as missing:
        return {"result": "skipped", "reason": str(missing)}
    except (Failed, OSError, ValueError, LookupError) as failure:
        return {"result": "failed", "reason": str(failure) if isinstance(failure, Failed) else f"{type(failure).__name__}: {failure}"}


def save(selftest, results):
    """Writes the archive. Returns what --json prints."""
    arguments, archive = selftest.arguments, selftest.archive
    archive.add_document("selftest.json", {"version": arguments.version, "date": time.strftime("%Y-%m-%d"), "quick": arguments.quick,
                                           "set_clocks": arguments.set_clocks, "emulated": selftest.is_emulated, "steps": results})
    left = archive.find_left()
    if left:
        raise Failed(f"nothing was written, because personal data would be left in {', '.join(left)}; please report this error")
    size = archive.write(arguments.output)
    removed = archive.removed()
    selftest.show("Removed from all files: " + (", ".join(f"{kind} {count}" for kind, count in removed.items()) or "nothing") + ".")
    selftest.show(f"Wrote {arguments.output} ({size / 1e3:.0f} kB). To send it, {SEND}.")
    return {"archive": arguments.output, "removed": removed,
            "steps": {name: {key: result[key] for key in ("result", "reason", "seconds") if key in result} for name, result in results.items()}}


def parse():
    parser = argparse.ArgumentParser()
    for name in ("--lull", "--version", "--output", "--runtime-dir"):
        parser.add_argument(name, default="")
    for name in ("--quick", "--set-clocks", "--no-daemon", "--json", "--quiet"):
        parser.add_argument(name, action="store_true")
    return parser.parse_args()


def interrupt(number, _):
    raise SystemExit(128 + number)


def main():
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    selftest = Selftest(parse())
    with tempfile.TemporaryDirectory(prefix="lull-selftest-") as place:
        selftest.machine.place = place
        results = selftest.run()
    if results is None:
        return UNSUPPORTED
    try:
        document = save(selftest, results)
    except (Failed, OSError) as error:
        print(f"lull selftest: {error}", file=sys.stderr)
        return 1
    if selftest.arguments.json:
        print(json.dumps(document, indent=2))
    return 1 if any(result["result"] == "failed" for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
