"""The saving per kind of job, from the committed tables of docs/research/measurements. `rows()` has the figures; tests/layers/test_readme.py
compares the README with them. SPDX-License-Identifier: Apache-2.0
"""
import glob
import os
import re

import picture

MEASUREMENTS = os.path.join(picture.DOCS, "research", "measurements")
WHOLE, SETTLED, BEST, SLOWER = "over the first 1000 iterations", "once settled", "offline optimum", "slowdown once settled"
VIRTUAL = {WHOLE: "auto", SETTLED: "auto, once settled", BEST: "joint oracle"}  # columns that hold a saving and a slowdown

# Title of the job; the first cells of its row; a column that only its table has, beside those of the figures; the columns of the figures.
JOBS = [
    ("one of eight ranks is 10 % slower", ["", "10 %"], "one rank is slower by", VIRTUAL),
    ("LLM inference", ["`llm-inference`"], "gaps", VIRTUAL),
    ("ranks wait for a slow network", ["4 x A100-SXM4-40GB"], "ideal", {SETTLED: "saving", SLOWER: "slowdown", BEST: "oracle"}),
    ("recorded rank of a job on 128 GPUs", ["sampled_rank-0"], "gaps", VIRTUAL),
    ("balanced ranks, fast network", ["`resnet50-ddp`"], "gaps", VIRTUAL),
]


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables():
    """(page, names of the columns, cells) of each row of the measurements, in the order of the pages."""
    for path in sorted(glob.glob(os.path.join(MEASUREMENTS, "*.md"))):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        names = []
        for line, next_ in zip(lines, lines[1:] + [""]):
            if re.match(r"\|[-|: ]+\|$", next_):
                names = cells_of(line)
            elif line.startswith("|") and not re.match(r"\|[-|: ]+\|$", line):
                yield os.path.basename(path), names, cells_of(line)


def find_row(first, column, columns):
    """The first row with these cells, of a table with all these columns: its page, and its cells by column."""
    for page, names, cells in tables():
        if {column, *columns.values()} <= set(names) and cells[:len(first)] == first:
            return page, dict(zip(names, cells))
    raise LookupError(f"docs/research/measurements has no row {first} in a table with the columns {column} and {', '.join(columns.values())}")


def rows():
    """For each job its title, its page, and the numbers of each figure as texts: the saving, and the slowdown where the column has both."""
    for title, first, column, columns in JOBS:
        page, row = find_row(first, column, columns)
        yield title, page, {name: re.findall(r"\d+\.\d+(?= %)", row[own]) for name, own in columns.items()}


def draw(_build):
    parts = [picture.text(20, 28, "Energy saved in simulation, by kind of job (at most 1 % slower)", "strong")]
    panel = picture.Panel(20, 60, 610, 0, ((0, 25), (0, 1)))
    for mark in (0, 5, 10, 15, 20, 25):
        parts.append(f'<path class="grid" d="M{panel.x(mark):.1f} 50v340"/>' + picture.text(panel.x(mark), 408, f"{mark} %", "", "middle" if mark else "start"))
    y = 68
    for title, _, figures in rows():
        settled, best = float(figures[SETTLED][0]), float(figures[BEST][0])
        whole = float(figures[WHOLE][0]) if WHOLE in figures else None
        parts.append(picture.text(22, y, title))
        parts.append(picture.rect(panel.x(0), y + 8, panel.x(settled) - panel.x(0), 24, "pale"))
        if whole is not None:
            parts.append(picture.rect(panel.x(0), y + 8, panel.x(whole) - panel.x(0), 24, "a"))
        parts.append(f'<path class="b line" d="M{panel.x(best):.1f} {y + 4}v32"/>')
        parts.append(picture.text(panel.x(max(settled, best)) + 8, y + 26, f"{settled:.1f} %"))
        y += 66
    parts += [picture.rect(20, 424, 22, 14, "a"), picture.text(48, 437, "over the first 1000 iterations"), picture.rect(276, 424, 22, 14, "pale"),
              picture.text(304, 437, "once settled (number)"), '<path class="b line" d="M480 422v18"/>', picture.text(490, 437, "offline optimum")]
    picture.write("get-started/savings.svg", 454, "Energy saved by kind of job, over the run, once settled, and by the offline optimum", parts)
