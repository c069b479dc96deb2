"""The guard's test as it runs: estimate and bounds of the slowdown after each pair of blocks, for a clock that costs nothing and for one
that costs more than the tolerance. Both are runs of the real controller in virtual time (bench/audit_guard.c). SPDX-License-Identifier: Apache-2.0
"""
import json
import os

import picture

# Title, and the job: noise of single iterations, true slowdown.
RUNS = (("A clock that costs nothing: accepted", ["noise=gauss:0.015", "seed=6"]),
        ("A clock that costs 1.2 %: refused", ["noise=gauss:0.01", "harm=flat:0.012:0", "seed=6"]))
TOLERANCE = 0.01
LOW, HIGH = -0.03, 0.05


def run(build, options):
    program = os.path.join(os.path.abspath(build), "bench", "audit_guard")
    run_ = json.loads(picture.output_of(program, "looks", "sections=0", "points=2", *options))
    proof = [look for look in run_["looks"] if look["is_proof"]]
    if run_["accepted"]:
        proof.append(run_["kept"])
    return run_["accepted"], proof


def draw_panel(panel, proof, most):
    """The interval between the bounds, where both exist, and the estimate."""
    def clip(value, missing):
        return min(max(missing if value is None else value, LOW), HIGH)

    upper = [(panel.x(look["pairs"]), panel.y(clip(look["upper_ratio"], HIGH))) for look in proof]
    lower = [(panel.x(look["pairs"]), panel.y(clip(look["lower_ratio"], LOW))) for look in proof]
    parts = ['<path class="band" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in [*upper, *lower[::-1]]) + 'z"/>',
             picture.path(upper, "a line"), picture.path([(panel.x(0), panel.y(TOLERANCE)), (panel.x(most), panel.y(TOLERANCE))], "limit")]
    parts += [f'<circle class="b" cx="{panel.x(look["pairs"]):.1f}" cy="{panel.y(look["slowdown_ratio"]):.1f}" r="4"/>' for look in proof]
    return parts


def draw(build):
    parts = []
    for column, (title, options) in enumerate(RUNS):
        accepted, proof = run(build, options)
        assert accepted == (column == 0), "the guard decides otherwise now; choose other seeds"
        most = proof[-1]["pairs"] + 1
        panel = picture.Panel(60 + 325 * column, 98, 270, 250, ((0, most), (LOW, HIGH)))
        left, top, width, height = panel.frame
        parts.append(picture.text(left, top - 36, title, "strong", "start", ' font-size="14"'))
        parts += panel.axes([], [], "pairs of blocks compared", "slowdown")
        for mark in (-0.02, 0, 0.02, 0.04):
            parts.append(f'<path class="grid" d="M{left} {panel.y(mark):.1f}h{width}"/>' + picture.text(left - 7, panel.y(mark) + 5, f"{mark:.0%}", "", "end"))
        for mark in range(0, most, 3):
            parts.append(picture.text(panel.x(mark), top + height + 19, str(mark), "", "middle"))
        parts += draw_panel(panel, proof, most)
        end = proof[-1]
        words = (f'after {end["pairs"]} pairs: at most {picture.percent(end["upper_ratio"], 2)}' if accepted else
                 f'after {end["pairs"]} pairs: at most {picture.percent(end["upper_ratio"], 2)}')
        parts.append(picture.text(left + width - 6, top + height - 10, words, "", "end", ' font-size="14"'))
    y = 428
    parts += ['<circle class="b" cx="66" cy="423" r="4"/>', picture.text(80, y, "estimate"), picture.rect(170, 415, 24, 16, "band"),
              picture.text(202, y, "between the bounds"), picture.path([(376, 423), (402, 423)], "limit"), picture.text(410, y, "tolerance, 1 %")]
    parts.insert(0, picture.text(20, 26, "The guard accepts a clock when the upper bound falls below the tolerance", "strong"))
    picture.write("research/guard-trial.svg", 448, "Two trials of the guard: estimate and bounds of the slowdown over pairs of blocks", parts)
