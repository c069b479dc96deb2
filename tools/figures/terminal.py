"""Pictures of a terminal: `lull top` while two runs on an emulated node go on until both have settled. The animated picture shows the
whole run, the still one its end. Needs tmux. SPDX-License-Identifier: Apache-2.0
"""
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

COLUMNS, ROWS, CELL, LINE = 80, 24, 8.4, 18
WIDTH, HEIGHT = COLUMNS * CELL + 20, ROWS * LINE + 20
COLOURS = {"32": "#7ec699", "33": "#e6c07b"}
ALL = {"1", "2", "4", "7", *COLOURS}
ENDS = {"": ALL, "0": ALL, "22": {"1", "2"}, "24": {"4"}, "27": {"7"}, "39": set(COLOURS)}  # the attributes that a code ends
LONGEST_S = 240
FRAMES, FRAME_S = 24, 0.5  # of the animated picture
LAST_S = 4  # how long its last frame stays

# A job of some ranks, each on a GPU of its own.
JOB = """#!/bin/sh
trap 'kill $ranks' TERM
rank=0
for gpu in {gpus}; do
    OMPI_COMM_WORLD_LOCAL_RANK=$rank {job} $gpu 100000 {computes_ms} {exchanges_ms} 0 &
    ranks="$ranks $!"
    rank=$((rank + 1))
done
wait
"""

TOP = """cd {directory}; export LULL_RUNTIME_DIR={directory}/run
{lulld} 2>lulld.log & L=$!; sleep 1
CUDA_VISIBLE_DEVICES=0,1,2,3 {lull} run --tolerance 5% --quiet --report a -- ./pretrain --nodes 1 >a.log 2>&1 & A=$!
SLURM_JOB_ID=4711 CUDA_VISIBLE_DEVICES=4,5 {lull} run --quiet --report b -- ./finetune 7b.yaml >b.log 2>&1 & B=$!
{lull} top $A $B; kill $A $B; wait $A $B; kill $L; wait
"""


def write_jobs(build, directory):
    """The commands pretrain, on GPUs 0 to 3, and finetune, on 4 and 5."""
    job = os.path.join(os.path.abspath(build), "tests", "governor", "section_job")
    for name, gpus, computes_ms, exchanges_ms in (("pretrain", "0 1 2 3", 30, 120), ("finetune", "4 5", 90, 60)):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(JOB.format(gpus=gpus, job=job, computes_ms=computes_ms, exchanges_ms=exchanges_ms))
        os.chmod(os.path.join(directory, name), 0o755)


def record(build):
    """The screens of lull top, one for each second, as tmux captures them."""
    lull = os.path.join(build, "src", "cli", "lull")
    screens = []
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        write_jobs(build, directory)
        script = TOP.format(directory=directory, lull=lull, lulld=os.path.join(build, "src", "daemon", "lulld"))
        tmux = ["tmux", "-S", os.path.join(directory, "tmux"), "-f", "/dev/null"]
        subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), lull, "emulate", "8xA100-SXM4-40GB", "--",
                        "sh", "-c", script], check=True)
        for _ in range(LONGEST_S):
            time.sleep(1)
            done = subprocess.run([*tmux, "capture-pane", "-p", "-e", "-N"], capture_output=True, text=True, check=True)
            screens.append(done.stdout.split("\n")[:ROWS])
            if sum("settled" in line for line in screens[-1]) == 2:
                break
        subprocess.run([*tmux, "send-keys", "q"], check=True)
        time.sleep(3)
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
    return [screen for screen in screens if "lull top" in screen[0]]


def spans(line, attributes):
    """The pieces of a line: (text, attributes). Attributes continue from line to line."""
    for piece in re.split(r"(\x1b\[[\d;]*m)", line.replace("\x0e", "").replace("\x0f", "")):
        if piece.startswith("\x1b"):
            for code in piece[2:-1].split(";"):
                attributes -= ENDS.get(code, {code})
                if code not in ENDS:
                    attributes.add(code)
        elif piece:
            yield piece, frozenset(attributes)


def make_span(text, attributes, column):
    inverse = "7" in attributes
    fill = next((COLOURS[code] for code in attributes if code in COLOURS), "#999" if "2" in attributes else "#ddd")
    style = ' font-weight="bold"' if "1" in attributes else ""
    style += ' text-decoration="underline"' if "4" in attributes else ""
    x, width = f"{column * CELL:.1f}", f"{len(text) * CELL:.1f}"
    bar = f'<rect x="{x}" y="-13" width="{width}" height="{LINE}" fill="#ccc"/>' if inverse else ""
    text = text if inverse or "4" in attributes else text.rstrip()
    width = f"{len(text) * CELL:.1f}"
    shown = html.escape(text).replace(" ", "&#160;")
    return bar + (f'<text x="{x}" textLength="{width}" fill="{"#111" if inverse else fill}"{style}>{shown}</text>' if text.strip() else "")


def make_lines(screen):
    """The SVG of each line of a screen."""
    attributes = set()
    for line in screen:
        column, parts = 0, []
        for text, styles in spans(line, attributes):
            parts.append(make_span(text, styles, column))
            column += len(text)
        yield "".join(parts)


def begin_picture(label):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 -10 {WIDTH:.0f} {HEIGHT}" role="img" aria-label="{label}" '
            'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">']


def make_still(screen):
    parts = begin_picture("lull top") + [f'<rect x="-10" y="-10" width="{WIDTH:.0f}" height="{HEIGHT}" rx="6" fill="#111"/>']
    parts += [f'<g transform="translate(0 {row * LINE + 14})">{line}</g>' for row, line in enumerate(make_lines(screen)) if line]
    return "\n".join(parts + ["</svg>\n"])


def choose_frames(screens):
    """Evenly spaced screens, the last one included."""
    count = min(FRAMES, len(screens))
    return [screens[round(i * (len(screens) - 1) / max(count - 1, 1))] for i in range(count)]


def make_animated(screens):
    """A film of frames below each other moves through the window. A line that occurs in several frames is defined once. A reader who
    does not want motion sees the last frame."""
    frames = choose_frames(screens)
    numbers, uses = {}, []
    for number, frame in enumerate(frames):
        for row, line in enumerate(make_lines(frame)):
            if line:
                name = numbers.setdefault(line, f"l{len(numbers)}")
                uses.append(f'<use href="#{name}" y="{number * HEIGHT + row * LINE + 14}"/>')
    total_s = len(frames) * FRAME_S + LAST_S
    film = "".join(f"{100 * i * FRAME_S / total_s:.2f}%{{transform:translateY({-i * HEIGHT}px)}}" for i in range(len(frames)))
    last = -(len(frames) - 1) * HEIGHT
    style = (f"<style>@keyframes film{{{film}100%{{transform:translateY({last}px)}}}}"
             f".film{{animation:film {total_s:g}s step-end infinite}}"
             f"@media (prefers-reduced-motion:reduce){{.film{{animation:none;transform:translateY({last}px)}}}}</style>")
    parts = begin_picture("lull top while two jobs settle") + [style, "<defs>"]
    parts += [f'<g id="{name}">{line}</g>' for line, name in numbers.items()]
    parts += ["</defs>", f'<rect x="-10" y="-10" width="{WIDTH:.0f}" height="{HEIGHT}" rx="6" fill="#111"/>', '<g class="film">', *uses, "</g>"]
    return "\n".join(parts + ["</svg>\n"])


def draw(build, docs):
    if shutil.which("tmux") is None:
        print("skipped: the pictures of lull top need tmux", file=sys.stderr)
        return
    screens = record(os.path.abspath(build))
    for path, text in (("user/top.svg", make_still(screens[-1])), ("get-started/top.svg", make_animated(screens))):
        with open(os.path.join(docs, path), "w", encoding="utf-8") as file:
            file.write(text)
