"""What the drawn pictures of docs/ share: sizes, colours for light and dark, a frame with axes, and writing. SPDX-License-Identifier: Apache-2.0
"""
import html
import math
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCS = os.path.join(ROOT, "docs")
WIDTH = 680  # in units of which a letter is 15 high, so that the text is legible on a screen 400 pixels wide
# Colours that readers with impaired colour vision can distinguish (Okabe and Ito), in light and in dark.
STYLE = """<style>
text { fill: #222; } .ground { fill: #fff; } .faint { fill: #595959; } .frame { fill: none; stroke: #888; } .grid { stroke: #ddd; }
.strong { font-weight: bold; } .line { fill: none; stroke-width: 2; } .limit { stroke: #b34700; stroke-width: 2; stroke-dasharray: 6 4; fill: none; }
.a { fill: #0072b2; } .a.line { fill: none; stroke: #0072b2; } .b { fill: #d55e00; } .b.line { fill: none; stroke: #d55e00; }
.c { fill: #007a59; } .c.line { fill: none; stroke: #007a59; } .pale { fill: #b9d9ee; } .band { fill: #0072b2; fill-opacity: .13; }
.arrow { fill: none; stroke: #444; stroke-width: 1.6; } .head { fill: #444; } .box { fill: #eef4f9; stroke: #0072b2; stroke-width: 1.6; }
.on { fill: #fff; }
@media (prefers-color-scheme: dark) {
text { fill: #ddd; } .ground { fill: #16181c; } .faint { fill: #aaa; } .grid { stroke: #34373d; } .limit { stroke: #ffa04d; }
.a { fill: #56b4e9; } .a.line { stroke: #56b4e9; } .b { fill: #ff9440; } .b.line { stroke: #ff9440; }
.c { fill: #2fc99a; } .c.line { stroke: #2fc99a; } .pale { fill: #2c5876; } .band { fill: #56b4e9; fill-opacity: .2; }
.arrow { stroke: #bbb; } .head { fill: #bbb; } .box { fill: #1d2a35; stroke: #56b4e9; } .on { fill: #111; } }
</style>"""


def text(x, y, words, style="", anchor="start", more=""):
    shown = f' class="{style}"' if style else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{shown}{where}{more}>{html.escape(words)}</text>'


def rect(x, y, width, height, style, more=""):
    return f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}"{more}/>'


def path(points, style):
    return f'<path class="{style}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>'


class Panel:
    """A frame with linear axes; x and y are functions from values to units."""

    def __init__(self, left, top, width, height, spans):
        self.frame = left, top, width, height
        (x0, x1), (y0, y1) = spans
        self.x = lambda value: left + (value - x0) / (x1 - x0) * width
        self.y = lambda value: top + height - (value - y0) / (y1 - y0) * height

    def axes(self, x_marks, y_marks, x_name, y_name, unit=""):
        left, top, width, height = self.frame
        parts = []
        for mark in x_marks:
            parts.append(f'<path class="grid" d="M{self.x(mark):.1f} {top}v{height}"/>' + text(self.x(mark), top + height + 19, f"{mark:g}{unit}", "", "middle"))
        for mark in y_marks:
            parts.append(f'<path class="grid" d="M{left} {self.y(mark):.1f}h{width}"/>' + text(left - 7, self.y(mark) + 5, f"{mark:g}{unit}", "", "end"))
        parts.append(rect(left, top, width, height, "frame"))
        parts.append(text(left + width / 2, top + height + 40, x_name, "", "middle"))
        parts.append(text(left, top - 10, y_name))
        return parts


def write(name, height, label, parts):
    """Writes docs/NAME; the label is for readers who do not see it."""
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(label)}" '
            'font-family="system-ui, sans-serif" font-size="15">')
    with open(os.path.join(DOCS, name), "w", encoding="utf-8") as file:
        file.write("\n".join([head, STYLE, f'<rect class="ground" width="{WIDTH}" height="{height}" rx="4"/>', *parts, "</svg>", ""]))


def percent(ratio, digits=1):
    """Never "-0.0 %"."""
    shown = f"{100 * ratio:.{digits}f}"
    return (shown.lstrip("-") if math.isclose(float(shown), 0.0) else shown) + " %"


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
