"""Draws a stretch of a run's timeline (trace.json of lull run) as SVG: per GPU its power and clock over
time, communication shaded, lowered stretches marked.

Usage: python3 tools/picture.py TRACE.json OUT.svg [SECONDS]; the last SECONDS (3) of the run are drawn.
SPDX-License-Identifier: Apache-2.0
"""
import html
import json
import sys

WIDTH, ROW, LEFT, TOP = 1000, 150, 130, 60
COLORS = {"power W": "#c0392b", "SM clock MHz": "#2c6fbb", "communication": "#f3e3b3", "lowered": "#2c6fbb"}


class Picture:
    def __init__(self, events, seconds):
        self.end = max(event["ts"] + event.get("dur", 0) for event in events if "ts" in event)
        self.begin = self.end - seconds * 1e6
        self.parts = []

    def x(self, time_us):
        inside = min(max(time_us, self.begin), self.end)
        return LEFT + (inside - self.begin) / (self.end - self.begin) * (WIDTH - LEFT - 20)

    def box(self, event, y, height, color, opacity):
        x = self.x(event["ts"])
        width = self.x(event["ts"] + event["dur"]) - x
        if width > 0:
            self.parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{color}" '
                              f'fill-opacity="{opacity}"/>')

    def text(self, x, y, text, color="#333", size=13):
        self.parts.append(f'<text x="{x}" y="{y}" fill="{color}" font-size="{size}">{html.escape(text)}</text>')

    def curve(self, events, y, height, top, color):
        points = []
        for event in events:
            if self.begin <= event["ts"] <= self.end:
                value = next(iter(event["args"].values()))
                level = y + height - value / top * height
                if points:
                    points.append(f"{self.x(event['ts']):.1f},{points[-1].split(',')[1]}")
                points.append(f"{self.x(event['ts']):.1f},{level:.1f}")
        self.parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="1.5"/>')


def draw_gpu(picture, events, name, row, tops):
    y = TOP + row * ROW
    height = ROW - 40
    for event in events:
        if event["ph"] == "X" and event["tid"] == 1:
            picture.box(event, y, height, COLORS["communication"], 1)
        elif event["ph"] == "X":
            picture.box(event, y + height + 3, 7, COLORS["lowered"], 0.8)
    for counter, top in tops.items():
        picture.curve([event for event in events if event.get("name") == counter], y, height, top, COLORS[counter])
    picture.text(10, y + 18, name, size=14)
    picture.text(10, y + 42, f"0 .. {tops['power W']:.0f} W", COLORS["power W"])
    picture.text(10, y + 60, f"0 .. {tops['SM clock MHz']:.0f} MHz", COLORS["SM clock MHz"])
    picture.text(10, y + height + 10, "lowered", COLORS["lowered"])


def highest(events, counter):
    values = [next(iter(event["args"].values())) for event in events if event.get("name") == counter]
    return max(values, default=1.0) * 1.05


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 3.0
    picture = Picture(events, seconds)
    gpus = sorted({event["pid"] for event in events if event["ph"] == "X"})
    tops = {counter: highest(events, counter) for counter in ("power W", "SM clock MHz")}
    for row, gpu in enumerate(gpus):
        draw_gpu(picture, [event for event in events if event["pid"] == gpu and event["ph"] in "XC"], f"GPU {gpu}", row,
                 tops)
    picture.text(LEFT, 24, f"The last {seconds:g} s of the run: communication shaded; power as the driver publishes it, "
                 "up to 0.1 s late", size=14)
    height = TOP + len(gpus) * ROW
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                   f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
                   f'{"".join(picture.parts)}</svg>\n')


if __name__ == "__main__":
    main()
