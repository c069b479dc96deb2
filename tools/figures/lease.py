"""The states of a lease in lulld. The transitions are those of the table in src/device/writer_states.c; a changed table stops this program.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re

import picture

STATES = ("FREE", "OWN", "CLIENT", "CAPPING", "OWN_ENDING", "CLIENT_ENDING")
# The centre of each state, and what it means.
PLACES = {"FREE": (100, 200, "free", "GPU's own clocks"), "CLIENT": (340, 100, "leased", "clocks are the client's"),
          "CLIENT_ENDING": (575, 200, "lease ends", "clocks are restored"), "CAPPING": (575, 330, "ends, capped", "the cap is applied"),
          "OWN": (340, 330, "capped", "the cap holds"), "OWN_ENDING": (100, 330, "cap ends", "clocks are restored")}
HALF_WIDTH, HALF_HEIGHT = 84, 27
# Each transition of the table that is drawn: points of its arrow, its label and the label's place.
ARROWS = {
    ("FREE", "CLIENT_LEASE", "CLIENT"): ([(130, 173), (130, 100), (256, 100)], "client requests a lease", (20, 88, "start")),
    ("CLIENT", "LEASE_ENDS", "CLIENT_ENDING"): ([(424, 100), (545, 100), (545, 173)], "released, expired, client died", (432, 88, "start")),
    ("CLIENT_ENDING", "END_REPORTED", "FREE"): ([(491, 200), (184, 200)], "restored, read back", (258, 193, "middle")),
    ("CLIENT", "LEASE_CAPPED", "CAPPING"): ([(400, 127), (400, 260), (545, 260), (545, 303)], "lease ends, a cap holds", (406, 253, "start")),
    ("CAPPING", "END_REPORTED", "OWN"): ([(491, 330), (424, 330)], "done", (460, 322, "middle")),
    ("FREE", "OWN_LEASE", "OWN"): ([(150, 227), (150, 265), (310, 265), (310, 303)], "a cap is set", (160, 258, "start")),
    ("OWN", "LEASE_ENDS", "OWN_ENDING"): ([(256, 330), (184, 330)], "lifted", (222, 322, "middle")),
    ("OWN_ENDING", "END_REPORTED", "FREE"): ([(90, 303), (90, 227)], "restored", (82, 270, "end")),
    ("OWN", "CLIENT_LEASE", "CLIENT"): ([(340, 303), (340, 127)], "client leases", (333, 232, "end")),
}
# These are in the text below the picture.
SMALL = {("OWN_ENDING", "LEASE_CAPPED", "OWN"), ("CLIENT_ENDING", "LEASE_CAPPED", "CAPPING"), ("CAPPING", "LEASE_ENDS", "CLIENT_ENDING")}


def read_transitions():
    """(state, event, next state) of all leases that change."""
    with open(os.path.join(picture.ROOT, "src/device/writer_states.c"), encoding="utf-8") as file:
        code = file.read()
    found = set()
    for event, cells in re.findall(r"\[LULL_EVENT_(CLIENT_LEASE|OWN_LEASE|LEASE_CAPPED|LEASE_ENDS|END_REPORTED)\] =\s*(?:OF_LEASE\(|\{\{)([\w, ]+)", code):
        after = [cell.strip() for cell in cells.split(",")]
        assert len(after) == len(STATES), event
        found |= {(state, event, next_) for state, next_ in zip(STATES, after) if next_ not in ("NEVER", state)}
    return found


def draw_arrow(points):
    (x0, y0), (x, y) = points[-2:]
    along_x, along_y = (x > x0) - (x < x0), (y > y0) - (y < y0)
    back_x, back_y = x - 10 * along_x, y - 10 * along_y
    head = [(x, y), (back_x + 5 * along_y, back_y + 5 * along_x), (back_x - 5 * along_y, back_y - 5 * along_x)]
    return picture.path([*points[:-1], (back_x, back_y)], "arrow") + '<path class="head" d="M' + "L".join(f"{a} {b}" for a, b in head) + 'z"/>'


def draw(_build):
    assert read_transitions() == set(ARROWS) | SMALL, "the table of transitions has changed: adapt ARROWS"
    parts = [picture.text(20, 30, "States of a lease: every path back to free restores the clocks", "strong")]
    for points, label, (x, y, anchor) in ARROWS.values():
        parts.append(draw_arrow(points))
        if label:
            parts.append(picture.text(x, y, label, "", anchor, ' font-size="14"'))
    for x, y, name, meaning in PLACES.values():
        parts += [picture.rect(x - HALF_WIDTH, y - HALF_HEIGHT, 2 * HALF_WIDTH, 2 * HALF_HEIGHT, "box", ' rx="8"'),
                  picture.text(x, y - 3, name, "strong", "middle"), picture.text(x, y + 17, meaning, "faint", "middle", ' font-size="13"')]
    parts += [picture.text(20, 392, "A client can lease a GPU below a cap: its clocks then stay within the cap.", "faint", "start", ' font-size="14"'),
              picture.text(20, 414, "Not drawn: a cap that is set or lifted while a lease or a cap ends.", "faint",
                           "start", ' font-size="13"')]
    picture.write("admin/lease-states.svg", 432, "States of a lease in lulld and the transitions between them", parts)
