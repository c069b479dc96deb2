"""What an emulated GPU does at a clock, worked out from data/gpu_models.json beside the emulator, which shares no code
with this: for tests and benchmarks of what measures it.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os


def at(curve, mhz):
    """A curve of the models: linear between points, constant beyond."""
    if mhz <= curve[0][0]:
        return curve[0][1]
    for (left, low), (right, high) in zip(curve, curve[1:]):
        if mhz <= right:
            return low + (high - low) * (mhz - left) / (right - left)
    return curve[-1][1]


class Model:
    def __init__(self, name):
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "gpu_models.json")
        with open(path, encoding="utf-8") as file:
            self.data = json.load(file)["gpus"][name]
        self.top = self.data["sm"]["max"]
        self.kernels = self.data["kernels"]

    def bandwidth(self, mhz):
        return at(self.data["bw"]["table"], mhz)

    def dynamic(self, mhz):
        """s(f) = (f / fmax) v(f)^2, of a voltage relative to its floor."""
        return mhz / self.top * at(self.data["v"]["table"], mhz) ** 2

    def time_ratio(self, kernel, mhz):
        """Of the time at the highest clock."""
        share = self.kernels[kernel]["mem_frac"]
        return share / self.bandwidth(mhz) + (1 - share) * self.top / mhz

    def settled_w(self, kernel, mhz):
        """At the temperature to which it leads. Below the knee of the bandwidth the SMs wait."""
        share = self.kernels[kernel]["mem_frac"]
        reached = min((share + (1 - share) * self.top / mhz) / self.time_ratio(kernel, mhz), 1)
        busy = self.kernels[kernel]["B"] + self.kernels[kernel]["A"] * self.dynamic(mhz) * reached
        return max(busy, at(self.data["active_idle_W"]["table"], mhz))

    def power_w(self, kernel, mhz, celsius):
        """At a temperature: leakage follows it, and it follows power slowly."""
        thermal, settled = self.data["thermal"], self.settled_w(kernel, mhz)
        away = celsius - thermal["T0_C"] - thermal["R_C_per_W"] * settled
        return settled * (1 + thermal["leak_pct_per_C"] / 100 * away)
