"""What tools/fit-step and tools/fit-nccl have in common: measured data, the emulator's C code, the search.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import math
import os
import pathlib
import subprocess
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("LULL_SHARED_DATA", ROOT.parent / "shared" / "data"))


def build(folder, tables, sources):
    """Generates tables (generator, arguments before the input, input) and compiles them with the sources. Returns the library."""
    generated = []
    for number, (generator, arguments, source) in enumerate(tables):
        generated.append(folder / f"table{number}.c")
        subprocess.run([ROOT / "tools" / generator, *arguments, ROOT / "data" / source, generated[-1]], check=True)
    target = folder / "model.so"
    options = ["-std=c17", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", f"-I{ROOT}", f"-I{ROOT}/src", "-o", target]
    subprocess.run([os.environ.get("CC", "cc"), *options, *generated, *(ROOT / source for source in sources), "-lm"], check=True)
    return ctypes.CDLL(str(target))


def is_held_out(row, keys):
    """Whether the row is in the quarter that no fit sees."""
    return zlib.crc32(",".join(row[key] for key in keys).encode()) % 4 == 0


def pattern_search(function, start, rounds, step=0.2):
    """Minimises a function of a list of numbers, one of them at a time."""
    best = list(start)
    score = function(best)
    steps = [step] * len(best)
    for _ in range(rounds):
        for index in range(len(best)):
            for sign in (1, -1):
                other = list(best)
                other[index] += sign * steps[index]
                found = function(other)
                if found < score - 1e-6:
                    best, score = other, found
                    steps[index] *= 1.5
                    break
            else:
                steps[index] /= 2
        if max(steps) < 0.005:
            break
    return score, best


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else math.nan


def percent(errors, share):
    """A quantile of logarithmic errors as text."""
    return f"{100 * math.expm1(quantile(errors, share)):.1f}" if errors else "-"


def log_error(predicted, measured):
    return abs(math.log(predicted / measured))
