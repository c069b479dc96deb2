"""Power over time with sections: iterations of one run at the highest clock and once settled. The run is made on the emulated node, of two
GPUs that compute 300 ms and communicate 500 ms, which takes four minutes. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile

import picture

ITERATIONS, SHOWN = 220, 3
JOB = '#!/bin/sh\nOMPI_COMM_WORLD_LOCAL_RANK=$1 exec {job} $1 {iterations} 300 500 0\n'


def make_run(build):
    """The report and the events of the run's whole timeline."""
    build = os.path.abspath(build)
    lull = os.path.join(build, "src/cli/lull")
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        with open(os.path.join(directory, "job"), "w", encoding="utf-8") as file:
            file.write(JOB.format(job=os.path.join(build, "tests/governor/section_job"), iterations=ITERATIONS))
        os.chmod(os.path.join(directory, "job"), 0o755)
        subprocess.run([lull, "emulate", "--seed", "1", "2xA100-SXM4-40GB", "--", lull, "run", "--no-daemon", "--quiet", "--tolerance", "5%",
                        "--swing", "100%", "--report", "report", "--", "sh", "-c", "./job 0 & ./job 1 & wait"], cwd=directory, check=True,
                       stdin=subprocess.DEVNULL, env=dict(os.environ, LULL_RUNTIME_DIR=os.path.join(directory, "run")))
        return read_run(os.path.join(directory, "report"))


def read_run(folder):
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
        return report, json.load(file)["traceEvents"]


def sections_of(events):
    """(begin, end) in ms of the communication of the first GPU."""
    found = sorted((event["ts"] / 1e3, (event["ts"] + event["dur"]) / 1e3) for event in events
                   if event.get("cat") == "communication" and event["pid"] == 1)
    return [span for span in found if span[1] - span[0] > 100]


def draw_panel(top, title, events, sections, first):
    """SHOWN iterations from section number `first` on, each from the begin of its communication."""
    begin, end = sections[first][0], sections[first + SHOWN][0]
    panel = picture.Panel(62, top, 596, 130, ((0, 2450), (0, 420)))
    parts = [picture.text(20, top - 14, title, "strong", "start", ' font-size="14"'), *panel.axes([], [0, 200, 400], "", "")]
    for span in sections[first:first + SHOWN]:
        x = panel.x(span[0] - begin)
        parts.append(picture.rect(x, top, min(panel.x(span[1] - begin), 658) - x, 130, "band"))
    samples = [(event["ts"] / 1e3 - begin, event["args"]["W"]) for event in events
               if event["ph"] == "C" and event["pid"] == 1 and event["name"] == "power W" and begin <= event["ts"] / 1e3 <= end]
    points = []
    for (time, watts), (next_, _) in zip(samples, samples[1:]):
        points += [(panel.x(min(time, 2450)), panel.y(watts)), (panel.x(min(next_, 2450)), panel.y(watts))]
    parts.append(picture.path(points, "b line"))
    mean = sum(watts * (next_ - time) for (time, watts), (next_, _) in zip(samples, samples[1:])) / (samples[-1][0] - samples[0][0])
    return parts, mean


def draw_run(report, events):
    sections = sections_of(events)
    lowered = min(event["ts"] / 1e3 for event in events if event.get("cat") == "lowered")
    before = next(number for number, span in enumerate(sections) if sections[number + SHOWN + 1][1] > lowered)
    after = len(sections) - SHOWN - 2
    highest, mean_before = draw_panel(76, "", events, sections, before)
    settled, mean_after = draw_panel(276, "", events, sections, after)
    parts = [picture.text(20, 28, "Power of one GPU over time, in W", "strong"),
             picture.text(20, 62, f"At the highest clock: {mean_before:.0f} W on average", "", "start"), *highest,
             picture.text(20, 262, f"Settled: {mean_after:.0f} W on average", "", "start"), *settled]
    for mark in (0, 500, 1000, 1500, 2000):
        parts.append(picture.text(62 + 596 * mark / 2450, 425, f"{mark} ms", "", "middle" if mark else "start"))
    verdict = report["verdict"]
    parts += [picture.rect(20, 440, 22, 14, "band"), picture.text(50, 452, "communication section"), '<path class="b line" d="M240 447h24"/>',
              picture.text(272, 452, f'power; saved per iteration: {picture.percent(verdict["saving_ratio"])}')]
    picture.write("get-started/energy-over-time.svg", 470, "Power of one GPU over time, with its sections, at the highest clock and once settled", parts)


def draw(build):
    report, events = make_run(build)
    if report["verdict"]["saving_claim"] != "proven":
        print("the run behind docs/get-started/energy-over-time.svg proved no saving on this busy machine; the picture stays as it is", file=sys.stderr)
        return
    draw_run(report, events)
