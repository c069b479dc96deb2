"""Makes the pictures of docs/research/measurements/models.md: times and powers that lull model predict makes of kernels it has only probed, over
what was measured of them; and the energy of single kernels over the clock, with intervals and the clock that is picked.
Half of the kernels of each set are fitted, the others predicted. What is missing is said, and the pictures are left as they are.

The measured kernels are in shared/data/dvfs beside the checkout. SPDX-License-Identifier: Apache-2.0
"""
import collections
import csv
import gzip
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import picture

MEASURED = os.path.join(picture.ROOT, "..", "shared", "data", "dvfs", "kernels_dvfs.csv.gz")
COLUMNS = ["gpu", "set", "app", "arg", "cuda_kernel", "core_mhz", "mem_mhz", "time_ms", "power_w", "valid"]
SETS = {("gtx1080ti", "real"): "GTX 1080 Ti", ("gtx980", "high"): "GTX 980, high clocks",
        ("gtx980", "low"): "GTX 980, low clocks", ("gtx980", "v1_400_1000"): "GTX 980, 400-1000 MHz (times)",
        ("p100", "real"): "P100", ("v100", "real2018"): "V100, 2018", ("v100", "dcgm_real"): "V100, DCGM"}
# Colours that are told apart on white and on black, and by those who see fewer colours (Okabe and Ito).
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#b8a800", "#0072b2", "#d55e00", "#cc79a7")
STYLE = """<style>
text { fill: #222; } .ground { fill: #fff; } .frame { fill: none; stroke: #888; } .grid { stroke: #ddd; }
.exact { stroke: #222; stroke-dasharray: 5 4; fill: none; } .measured { fill: #222; } .probe { fill: #fff; stroke: #222; stroke-width: 1.6; }
.predicted { fill: none; stroke: #0072b2; stroke-width: 2; } .interval { fill: #56b4e9; fill-opacity: .3; }
.picked { stroke: #d55e00; stroke-width: 2; } .between { fill: #d55e00; fill-opacity: .16; }
@media (prefers-color-scheme: dark) {
text { fill: #ddd; } .ground { fill: #16181c; } .frame { stroke: #888; } .grid { stroke: #34373d; }
.exact { stroke: #ddd; } .measured { fill: #eee; } .probe { fill: #16181c; stroke: #eee; }
.predicted { stroke: #56b4e9; } .interval { fill-opacity: .25; } .between { fill-opacity: .3; } }
</style>"""


def read(path):
    """Sets, kernels of each by name, rows of each by clocks."""
    sets = collections.defaultdict(lambda: collections.defaultdict(dict))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["valid"] == "1":
                clocks = float(row["core_mhz"]), float(row["mem_mhz"])
                sets[row["gpu"], row["set"]][",".join((row["app"], row["arg"], row["cuda_kernel"]))].setdefault(clocks, row)
    return sets


def probes_of(points):
    """The ends and the middle, as lull model evaluate takes them."""
    axes = [sorted(set(axis)) for axis in zip(*points)]
    corners = {(sm, mem) for sm in (axes[0][0], axes[0][-1]) for mem in (axes[1][0], axes[1][-1])}
    return {clocks: points[clocks] for clocks in corners | {tuple(axis[len(axis) // 2] for axis in axes)}}


def table(kernels):
    return "\n".join([",".join(COLUMNS)] + [",".join(row[name] for name in COLUMNS)
                                            for points in kernels for row in points.values()]) + "\n"


class Predictor:
    """Predicts every second kernel of a set from its probes, by a model of the others."""

    def __init__(self, lull, directory, kernels):
        self.lull, self.model = lull, os.path.join(directory, "model.json")
        self.probes = os.path.join(directory, "probes.csv")
        names = sorted(kernels)
        self.judged = {name.rstrip(","): kernels[name] for name in names[1::2]}
        subprocess.run([lull, "model", "fit", "--output", self.model, "-"], input=table([kernels[name] for name in names[::2]]),
                       text=True, check=True, stdout=subprocess.DEVNULL)
        with open(self.probes, "w", encoding="utf-8") as file:
            file.write(table([probes_of(points) for points in self.judged.values()]))

    def predict(self, *options):
        done = subprocess.run([self.lull, "model", "predict", "--json", "--probes", self.probes, *options, self.model],
                              text=True, check=True, capture_output=True)
        return {kernel["name"]: kernel for kernel in json.loads(done.stdout)["kernels"]}


def compare(predictor):
    """(measured, predicted) of times and powers against the base, away from the probes, and each kernel's mean error of
    energy."""
    pairs, errors = {"time_ms": [], "power_w": []}, {}
    for name, kernel in predictor.predict().items():
        points = predictor.judged[name]
        base, probes, energy = max(points, key=lambda clocks: clocks[::-1]), probes_of(points), []
        for point in kernel["points"]:
            row = points[point["sm_mhz"], point["mem_mhz"]]
            if (point["sm_mhz"], point["mem_mhz"]) in probes:
                continue
            for field, found in pairs.items():
                if row[field]:
                    found.append([value / float(points[base][field]) for value in (float(row[field]), point[field]["value"])])
            if row["power_w"]:
                energy.append(abs(point["energy_mj"]["value"] / float(row["time_ms"]) / float(row["power_w"]) - 1))
        if energy:
            errors[name] = statistics.fmean(energy)
    return pairs, errors


# ---- pictures ------------------------------------------------------------------------------------------------------

class Panel:
    """A frame with axes; x and y are functions from values to pixels."""

    def __init__(self, left, top, width, height, spans, log):
        self.frame = left, top, width, height
        place = math.log if log else float
        (x0, x1), (y0, y1) = [[place(value) for value in span] for span in spans]
        self.x = lambda value: left + (place(value) - x0) / (x1 - x0) * width
        self.y = lambda value: top + height - (place(value) - y0) / (y1 - y0) * height

    def axes(self, title, x_marks, y_marks, x_name, y_name, more=""):
        left, top, width, height = self.frame
        parts = [f'<text x="{left}" y="{top - (26 if more else 10)}" font-size="14" font-weight="bold">{title}</text>'
                 f'<text x="{left}" y="{top - 10}">{more}</text>']
        for mark in x_marks:
            parts.append(f'<path class="grid" d="M{self.x(mark):.1f} {top}v{height}"/><text x="{self.x(mark):.1f}" '
                         f'y="{top + height + 17}" text-anchor="middle">{mark:g}</text>')
        for mark in y_marks:
            parts.append(f'<path class="grid" d="M{left} {self.y(mark):.1f}h{width}"/><text x="{left - 6}" '
                         f'y="{self.y(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>')
        parts.append(f'<rect class="frame" x="{left}" y="{top}" width="{width}" height="{height}"/>')
        parts.append(f'<text x="{left + width / 2}" y="{top + height + 36}" text-anchor="middle">{x_name}</text>')
        parts.append(f'<text transform="translate({left - 42} {top + height / 2}) rotate(-90)" text-anchor="middle">{y_name}</text>')
        return parts


def write(name, width, height, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
    with open(os.path.join(picture.DOCS, "research", name), "w", encoding="utf-8") as file:
        file.write("\n".join([head, STYLE, f'<rect class="ground" width="{width}" height="{height}"/>', *parts, "</svg>", ""]))


def draw_all_points(compared):
    panels = {"time_ms": ("Time", (0.92, 3.2), (1, 1.25, 1.5, 2, 2.5, 3)),
              "power_w": ("Power", (0.4, 1.1), (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1))}
    parts = []
    for column, (field, (title, span, marks)) in enumerate(panels.items()):
        panel = Panel(70 + 480 * column, 40, 400, 400, (span, span), True)
        parts += panel.axes(title + " against the base", marks, marks, "measured", "predicted")
        parts.append(f'<path class="exact" d="M{panel.x(span[0]):.1f} {panel.y(span[0]):.1f}L{panel.x(span[1]):.1f} {panel.y(span[1]):.1f}"/>')
        for colour, pairs in zip(COLOURS, compared.values()):
            dots = "".join(f"M{panel.x(a):.1f} {panel.y(b):.1f}h0" for a, b in pairs[0][field]
                           if all(span[0] <= value <= span[1] for value in (a, b)))
            parts.append(f'<path d="{dots}" stroke="{colour}" stroke-width="4.4" stroke-opacity=".75" stroke-linecap="round"/>')
    for place, (colour, key) in enumerate(zip(COLOURS, compared)):
        x, y = 70 + 225 * (place % 4), 505 + 22 * (place // 4)
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="5" fill="{colour}"/><text x="{x + 12}" y="{y}">{SETS[key]}</text>')
    write("model-points.svg", 970, 540, parts)


def draw_kernel(panel, predictor, name):
    """One kernel's energy over the SM clock against the base: predicted at many clocks, with intervals."""
    points = predictor.judged[name]
    base = max(points, key=lambda clocks: clocks[::-1])
    row = {sm: float(row["time_ms"]) * float(row["power_w"]) for (sm, mem), row in points.items() if mem == base[1]}
    unit, low, high = row[base[0]], min(row), max(row)
    clocks = [round(low + (high - low) * i / 24) for i in range(25)]
    curve = [predictor.predict("--sm-clock", str(clock), "--mem-clock", f"{base[1]:g}")[name]["points"][0]["energy_mj"]
             for clock in clocks]
    places = panel(low, high)
    picked = predictor.predict()[name]["least_energy_within"]
    left, right = (places.x(picked[end]) for end in ("sm_low_mhz", "sm_high_mhz"))
    top, height = places.frame[1], places.frame[3]

    def line(values):
        return "L".join(f"{places.x(clock):.1f} {places.y(value / unit):.1f}" for clock, value in values)

    parts = [f'<rect class="between" x="{left:.1f}" y="{top}" width="{max(right - left, 1):.1f}" height="{height}"/>',
             f'<path class="interval" d="M{line([(c, e["low"]) for c, e in zip(clocks, curve)])}'
             f'L{line([(c, e["high"]) for c, e in zip(clocks, curve)][::-1])}z"/>',
             f'<path class="predicted" d="M{line([(c, e["value"]) for c, e in zip(clocks, curve)])}"/>',
             f'<path class="picked" d="M{places.x(picked["sm_mhz"]):.1f} {top}v{height}"/>']
    for sm, energy in row.items():
        kind = "probe" if (sm, base[1]) in probes_of(points) else "measured"
        parts.append(f'<circle class="{kind}" cx="{places.x(sm):.1f}" cy="{places.y(energy / unit):.1f}" r="3.6"/>')
    return places, parts


def draw_kernels(compared, predictors):
    """Of each set of one memory clock the kernel of median and that of the largest error."""
    parts = []
    for column, key in enumerate((("p100", "real"), ("v100", "real2018"), ("v100", "dcgm_real"))):
        order = sorted(compared[key][1], key=compared[key][1].get)
        for line, (name, what) in enumerate(((order[len(order) // 2], "median"), (order[-1], "largest"))):
            def panel(low, high, at=(60 + 330 * column, 50 + 345 * line)):
                return Panel(*at, 260, 240, ((low, high), (0.5, 1.2)), False)

            places, drawn = draw_kernel(panel, predictors[key](), name)
            low, high = (sm for sm in (min(compared[key][2][name]), max(compared[key][2][name])))
            marks = [mark for mark in range(0, 2001, 200) if low <= mark <= high]
            parts += places.axes(name.split(",")[0], marks, (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2), "SM clock, MHz",
                                 "energy against the base",
                                 f"{SETS[key]}: {what} error, {100 * compared[key][1][name]:.1f} %") + drawn
    y = 715
    for x, mark, text in ((50, f'<circle class="probe" cx="66" cy="{y - 4}" r="3.6"/>', "probe"),
                          (130, f'<circle class="measured" cx="146" cy="{y - 4}" r="3.6"/>', "measured, not seen"),
                          (290, f'<path class="predicted" d="M290 {y - 4}h20"/>', "predicted"),
                          (400, f'<rect class="interval" x="400" y="{y - 12}" width="20" height="14"/>', "95 % interval"),
                          (530, f'<path class="picked" d="M545 {y - 13}v16"/>', "picked within 5 % slowdown"),
                          (760, f'<rect class="between" x="760" y="{y - 12}" width="20" height="14"/>', "may be the best within 5 %")):
        parts.append(f'{mark}<text x="{x + 26}" y="{y}">{text}</text>')
    write("model-kernels.svg", 1000, 735, parts)


def draw(build):
    lull = os.path.abspath(os.path.join(build, "src", "cli", "lull"))
    if not os.path.exists(MEASURED):
        print(f"skipped: the pictures of docs/research/measurements/models.md need the measured kernels, {MEASURED}", file=sys.stderr)
        return
    sets = read(MEASURED)
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        def predictor(key):
            return Predictor(lull, directory, sets[key])

        compared = {}
        for key in SETS:
            one = predictor(key)
            compared[key] = (*compare(one), {name: [sm for sm, _ in points] for name, points in one.judged.items()})
        draw_all_points(compared)
        draw_kernels(compared, {key: lambda key=key: predictor(key) for key in SETS})

