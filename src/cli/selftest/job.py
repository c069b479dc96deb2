#!/usr/bin/env python3
"""A job on the first GPU that needs only the CUDA driver: each iteration computes, copies memory and idles.

Usage: job.py --measure                              prints the loops and bytes for the times below, as JSON
       job.py LOOPS BYTES IDLE_MS ITERATIONS         prints the mean times of an iteration, as JSON
Iterations and the section "copy" are reported through liblull, if LULL_LIBRARY names it. Exit status: 77 the CUDA driver or a GPU is
missing, or the driver cannot run kernels. SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import os
import sys
import time

COMPUTE_MS, COPY_MS, IDLE_MS = 60.0, 40.0, 15.0
BUFFER_BYTES = 256 << 20
THREADS, BLOCKS_PER_PROCESSOR, PROCESSORS = 256, 8, 16  # the last: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
FIRST_LOOPS = 20000
NEEDED = ("cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuMemAlloc_v2", "cuCtxSynchronize")


class Skip(Exception):
    """The job cannot run here."""


class Gpu:
    """The first GPU with both kernels."""

    def __init__(self):
        try:
            os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # as NVML and lull sweep count GPUs
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise Skip("no CUDA driver") from None
        missing = [name for name in NEEDED if not hasattr(self.cuda, name)]
        if missing:
            raise Skip(f"the CUDA driver cannot run kernels: it has no {missing[0]}")
        if self.cuda.cuInit(0) != 0:
            raise Skip("the CUDA driver finds no GPU")
        context, module, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuDeviceGetAttribute", ctypes.byref(count), PROCESSORS, 0)
        with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "job.ptx"), "rb") as file:
            self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(file.read()))
        self.blocks = count.value * BLOCKS_PER_PROCESSOR
        self.kernels = {}
        for name in ("compute", "copy"):
            self.kernels[name] = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(self.kernels[name]), module, name.encode())
        self.buffers = [ctypes.c_uint64(), ctypes.c_uint64()]
        for buffer in self.buffers:
            self.call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(BUFFER_BYTES))

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            raise SystemExit(f"job.py: {name} returned {code}")

    def launch(self, name, *arguments):
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        self.call("cuLaunchKernel", self.kernels[name], self.blocks, 1, 1, THREADS, 1, 1, 0, None, pointers, None)

    def compute(self, loops):
        """Milliseconds of the multiply-adds."""
        begin = time.monotonic()
        self.launch("compute", self.buffers[0], ctypes.c_uint32(loops))
        self.call("cuCtxSynchronize")
        return (time.monotonic() - begin) * 1e3

    def copy(self, size):
        """Milliseconds of a copy of this many bytes, in parts of the buffers' size."""
        begin = time.monotonic()
        for part in range(0, size, BUFFER_BYTES):
            self.launch("copy", self.buffers[1], self.buffers[0], ctypes.c_uint64(min(BUFFER_BYTES, size - part)))
        self.call("cuCtxSynchronize")
        return (time.monotonic() - begin) * 1e3


def load_marks():
    """The functions of liblull that the job calls; without it, functions that do nothing."""
    try:
        library = ctypes.CDLL(os.environ.get("LULL_LIBRARY", "liblull.so.0"))
    except OSError:
        return (lambda: None), (lambda name: None), (lambda name: None)
    return library.lull_step, library.lull_section_begin, library.lull_section_end


def measure(gpu):
    loops, size = FIRST_LOOPS, 4 * BUFFER_BYTES
    until = time.monotonic() + 1.0
    while time.monotonic() < until:  # until the clock has risen
        loops = max(1, int(loops * COMPUTE_MS / gpu.compute(loops)))
    size = max(16, int(size * COPY_MS / min(gpu.copy(size) for _ in range(3))) // 16 * 16)
    print(json.dumps({"loops": loops, "bytes": size, "idle_ms": IDLE_MS, "iteration_ms": COMPUTE_MS + COPY_MS + IDLE_MS}))


def run(gpu, loops, size, idle_ms, iterations):
    step, section_begin, section_end = load_marks()
    compute_ms = copy_ms = 0.0
    begin = time.monotonic()
    for _ in range(iterations):
        if loops > 0:
            compute_ms += gpu.compute(loops)
        section_begin(b"copy")
        copy_ms += gpu.copy(size)
        section_end(b"copy")
        time.sleep(idle_ms * 1e-3)
        step()
    seconds = time.monotonic() - begin
    print(json.dumps({"iterations": iterations, "iteration_ms": seconds * 1e3 / iterations, "compute_ms": compute_ms / iterations,
                      "copy_ms": copy_ms / iterations, "copy_gb_per_s": 2e-6 * size * iterations / copy_ms if copy_ms > 0 else None}))


def main():
    try:
        gpu = Gpu()
    except Skip as reason:
        print(reason, file=sys.stderr)
        return 77
    if sys.argv[1:] == ["--measure"]:
        measure(gpu)
    else:
        run(gpu, int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
