#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A made-up job for the tests of lull batch run.

usage: batch_job.py SIZE [BEST [PERIOD_S [OUTPUT]]]

It converges in the fewest epochs at the batch size BEST (64), reaches 0.93 within ten epochs up to a
factor of four from it, and never beyond. Appends its size and pid to the file OUTPUT when it begins.
"""
import math
import os
import sys
import time


def main(arguments):
    size = int(arguments[0])
    best = float(arguments[1]) if len(arguments) > 1 else 64.0
    period_s = float(arguments[2]) if len(arguments) > 2 else 0.01
    distance = abs(math.log2(size / best))
    if len(arguments) > 3:
        with open(arguments[3], "a", encoding="ascii") as file:
            file.write(f"{size} {os.getpid()}\n")
    need = 4 + round(3 * distance)
    for epoch in range(1, 13):
        time.sleep(period_s)
        value = 0.95 * epoch / need if distance <= 2 else 0.1
        print(f"epoch {epoch} val_acc={min(value, 0.95):.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
