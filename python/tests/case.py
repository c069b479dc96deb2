# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: the package on the build's programs, which meson passes.

usage of each test: TEST.py LULL LIBLULL [MORE...] [CASE...]
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(SOURCE, "python")
LULL, LIBLULL = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))

sys.path[:0] = [PACKAGE, os.path.join(SOURCE, "tests")]
os.environ.update(LULL_LIBRARY=LIBLULL, PYTHONPATH=PACKAGE,
                  PATH=os.path.dirname(LULL) + os.pathsep + os.environ.get("PATH", ""))

DEBIAN_PYTHON = "/usr/bin/python3"  # which has Debian's PyTorch


def in_node(*command, node="2xA100", runs=(), directory=None, **variables):
    """Runs a command on an emulated node, within `lull run` if runs has its options; returns what it printed."""
    words = [LULL, "emulate", "--seed", "0", node, "--"]
    if directory is not None:
        words += [LULL, "run", "--no-daemon", "--quiet", "--report", directory, *runs, "--"]
        variables["LULL_RUNTIME_DIR"] = directory
    return subprocess.run([*words, *command], env=dict(os.environ, **variables), capture_output=True, text=True, check=False)


def on_gpu(gpu=0):
    """Opens a context of this process on an emulated GPU, as a training has one."""
    import ctypes
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu) == 0
