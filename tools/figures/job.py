"""Pictures of one run: its frontier, and how its sections are found. The run is docs/user/report-example.json. SPDX-License-Identifier: Apache-2.0
"""
import json
import os

import picture


def read_report():
    with open(os.path.join(picture.DOCS, "user", "report-example.json"), encoding="utf-8") as file:
        return json.load(file)


def draw_frontier(report):
    panel = picture.Panel(70, 78, 580, 280, ((-1, 9), (-0.1, 0.35)))
    parts = [picture.text(20, 28, "Slowdown and energy saved of each setting that one run tried", "strong"), *panel.axes([], [], "slowdown", "energy saved")]
    for mark in range(0, 9, 2):
        parts.append(f'<path class="grid" d="M{panel.x(mark):.1f} 78v280"/>' + picture.text(panel.x(mark), 377, f"{mark} %", "", "middle"))
    for mark in (0, 0.1, 0.2, 0.3):
        parts.append(f'<path class="grid" d="M70 {panel.y(mark):.1f}h580"/>' + picture.text(63, panel.y(mark) + 5, f"{mark:.0%}".replace("%", " %"), "", "end"))
    limit = 100 * report["tolerance_ratio"]
    parts += [picture.path([(panel.x(limit), 78), (panel.x(limit), 358)], "limit"), picture.text(panel.x(limit) + 8, 96, f"tolerance {limit:g} %")]
    for point in report["tried"]:
        x, y = panel.x(100 * point["slowdown_ratio"]), panel.y(point["saving_ratio"])
        half = 100 * point["slowdown_half_width_ratio"] * (panel.x(1) - panel.x(0))
        style = "b" if point["kept"] else "a"
        low, high = (panel.y(min(max(point[name], -0.1), 0.35)) for name in ("saving_low_ratio", "saving_high_ratio"))
        left, right = max(x - half, 70), min(x + half, 650)
        width = 3 if point["kept"] else 1.2
        parts.append(f'<path class="{style} line" style="stroke-width:{width};stroke-opacity:{1 if point["kept"] else 0.55}" '
                     f'd="M{x:.1f} {low:.1f}V{high:.1f}M{left:.1f} {y:.1f}H{right:.1f}"/>'
                     f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{7 if point["kept"] else 4.5}"/>')
    parts += ['<circle class="b" cx="80" cy="428" r="7"/>', picture.text(94, 433, "accepted"), '<circle class="a" cx="190" cy="428" r="4.5"/>',
              picture.text(202, 433, "tried; lines are 95 % intervals")]
    picture.write("user/frontier.svg", 450, "Slowdown and energy saved of each setting that a run tried", parts)


class Lane:
    def __init__(self, y, name, meaning):
        self.y, self.name, self.meaning = y, name, meaning

    def draw(self):
        return [picture.text(20, self.y, self.name, "strong"), picture.text(20, self.y + 19, self.meaning, "faint", "start", ' font-size="13.5"')]


def draw_section(report):
    """Four iterations of the last two seconds: calls, iterations, sections, clock."""
    timeline = report["timeline"]
    gpu = timeline["gpus"][0]
    begins = timeline["iterations_ms"]
    first, last = begins[2], begins[6]
    panel = picture.Panel(20, 0, 640, 0, ((first - 10, last), (0, 1)))
    sections = [span for span in gpu["sections"] if first - 1 <= span[0] < last - 1]
    lowered = [span for span in gpu["lowered"] if span[1] > first and span[0] < last]
    low = min(mhz for _, _, mhz in lowered)
    parts = [picture.text(20, 28, "How Lull finds a section, on one GPU of a run", "strong")]
    for lane in (Lane(64, "1. Calls", "The probe reports the begin and the end of each communication call."),
                 Lane(150, "2. Iterations", "The sequence of calls repeats: each repetition is one iteration."),
                 Lane(240, "3. Sections", "A section is the same call in each iteration. Its length is known from the earlier ones."),
                 Lane(330, "4. Clock", f"The clock is {low} MHz in sections. Lull requests the rise before the section ends.")):
        parts += lane.draw()
    for begin, end, _ in sections:
        for place, style in ((begin, "a"), (end, "b")):
            parts.append(f'<path class="{style} line" d="M{panel.x(place):.1f} 94v24"/>')
        parts += [picture.rect(panel.x(begin), 268, panel.x(end) - panel.x(begin), 28, "a"),
                  picture.text((panel.x(begin) + panel.x(end)) / 2, 287, f"{end - begin:.0f} ms", "on", "middle", ' font-size="13.5"'),
                  picture.rect(panel.x(begin), 359, panel.x(end) - panel.x(begin), 66, "band")]
    for number, (begin, end) in enumerate(zip(begins[2:6], begins[3:7])):
        parts += [picture.rect(panel.x(begin) + 1, 178, panel.x(end) - panel.x(begin) - 2, 28, "pale"),
                  picture.text((panel.x(begin) + panel.x(end)) / 2, 197, f"iteration {number + 1}: {end - begin:.0f} ms", "", "middle", ' font-size="13.5"')]
    high = max(mhz for _, _, mhz in lowered)
    level = {low: 418, high: 368}
    points = []
    for begin, end, mhz in lowered:
        y = level.get(mhz, 368)
        points += [(panel.x(max(begin, first)), y), (panel.x(min(end, last)), y)]
    parts += [picture.path(points, "c line"), picture.text(656, 362, f"{high} MHz", "", "end", ' font-size="13.5"'),
              '<path class="a line" d="M22 446v14"/>', picture.text(32, 458, "call begins"), '<path class="b line" d="M142 446v14"/>',
              picture.text(152, 458, "call ends"), '<path class="c line" d="M252 453h24"/>', picture.text(284, 458, "clock that Lull requests"),
              picture.rect(470, 446, 22, 14, "band"), picture.text(500, 458, "section")]
    picture.write("research/section.svg", 474, "How Lull finds a section: calls, iterations, sections, clock", parts)


def draw(_build):
    report = read_report()
    draw_frontier(report)
    draw_section(report)
