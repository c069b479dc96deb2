"""What the tests of lull plan share: running it, profiles, and a replay of pipelines that shares no code with
Lull: a list scheduler over operations of its own.
SPDX-License-Identifier: Apache-2.0"""
import json
import subprocess

SMALL = """stage,instruction,frequency,time,energy
0,forward,1410,0.050,24
0,forward,1230,0.056,19.5
0,forward,1080,0.062,17
0,backward,1410,0.093,45
0,backward,1230,0.103,37
0,backward,1080,0.113,32
1,forward,1410,0.058,27
1,forward,1230,0.065,22
1,forward,1080,0.071,19
1,backward,1410,0.105,50
1,backward,1230,0.116,41
1,backward,1080,0.127,36
"""


def rows_of(text):
    rows = {}
    for line in text.splitlines()[1:]:
        stage, kind, mhz, time_s, energy_j = line.split(",")
        rows[int(stage), kind, int(mhz)] = (float(time_s), float(energy_j))
    return rows


class Runner:
    def __init__(self, lull):
        self.lull = lull

    def plan(self, *arguments, data=None):
        return subprocess.run([self.lull, "plan", *arguments], input=data, capture_output=True, text=True, check=False,
                              timeout=120)

    def plan_json(self, *arguments, data=None):
        done = self.plan("--json", *arguments, data=data)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def timeline(devices, stages, rows, sync_s=None):
    """Begin and end of every operation of `plan` in a JSON document, devices of all copies, each in its order;
    transfers take no time. sync_s: of each stage; the operation "fixed" at a device's end, which waits for that
    device of every copy. Returns the operations' (device, operation, begin, end), device by device."""
    done = {}
    times = [[] for _ in devices]
    left = sum(len(device) for device in devices)
    last = max(stage for stage, _, _ in rows)
    while left > 0:
        before = left
        for d, device in enumerate(devices):
            copy, stage = divmod(d, stages)
            while len(times[d]) < len(device):
                op = device[len(times[d])]
                kind, batch = op["operation"], op["microbatch"]
                free = times[d][-1][1] if times[d] else 0.0
                if kind == "fixed":
                    others = range(stage, len(devices), stages)
                    if any(len(times[o]) + 1 < len(devices[o]) for o in others):
                        break
                    begin = max(times[o][len(devices[o]) - 2][1] for o in others)
                    took = sync_s[stage]
                else:
                    needs = [(copy, stage - 1, kind, batch)] if kind == "forward" else [(copy, stage + 1, kind, batch)]
                    needs = [need for need in needs if 0 <= need[1] < stages]
                    if kind == "backward":
                        needs.append((copy, stage, "forward", batch))
                    if any(need not in done for need in needs):
                        break
                    begin = max([free] + [done[need] for need in needs])
                    took = rows[min(stage, last - 1) if stage < stages - 1 else last, kind, op["sm_mhz"]][0]
                times[d].append((begin, begin + took))
                done[copy, stage, kind, batch] = begin + took
                left -= 1
        assert left < before, "a plan that cannot run"
    return times


def energy(devices, times, stages, rows, blocking_w, period_s):
    """Of all operations and of waiting; syncs draw blocking power."""
    last = max(stage for stage, _, _ in rows)
    total = blocking_w * period_s * len(devices)
    for d, device in enumerate(devices):
        stage = d % stages
        for op, (begin, end) in zip(device, times[d]):
            if op["operation"] != "fixed":
                row = min(stage, last - 1) if stage < stages - 1 else last
                total += rows[row, op["operation"], op["sm_mhz"]][1] - blocking_w * (end - begin)
    return total
