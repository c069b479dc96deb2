#!/usr/bin/env python3
"""One rank that sends to itself and receives from itself through NCCL: nccl_self.py [ROUNDS]

Needs the CUDA driver and libnccl.so.2, nothing else. Prints one line of JSON: rounds, bytes, and
NCCL's version. The functions are called through the program's global scope, so that a preloaded
library is in front, as for a program that is linked to NCCL.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import sys
import time

BYTES = 16 << 20
INT8 = 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def check(name, code):
    if code != 0:
        sys.exit(f"nccl_self: {name} gave {code}")


def open_gpu(cuda):
    """A context, a stream and two buffers on the first GPU."""
    context, stream = ctypes.c_void_p(), ctypes.c_void_p()
    check("cuInit", cuda.cuInit(0))
    check("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check("cuCtxSetCurrent", cuda.cuCtxSetCurrent(context))
    check("cuStreamCreate", cuda.cuStreamCreate(ctypes.byref(stream), 1))
    buffers = []
    for _ in range(2):
        address = ctypes.c_uint64()
        check("cuMemAlloc", cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES)))
        buffers.append(address)
    return stream, buffers


def open_communicator(nccl):
    unique_id, comm = UniqueId(), ctypes.c_void_p()
    check("ncclGetUniqueId", nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    check("ncclCommInitRank", nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique_id, 0))
    return comm


def exchange(nccl, comm, stream, buffers):
    count = ctypes.c_size_t(BYTES)
    check("ncclGroupStart", nccl.ncclGroupStart())
    check("ncclSend", nccl.ncclSend(buffers[0], count, INT8, 0, comm, stream))
    check("ncclRecv", nccl.ncclRecv(buffers[1], count, INT8, 0, comm, stream))
    check("ncclGroupEnd", nccl.ncclGroupEnd())


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    cuda = ctypes.CDLL("libcuda.so.1")
    ctypes.CDLL("libnccl.so.2", mode=ctypes.RTLD_GLOBAL)
    nccl = ctypes.CDLL(None)
    stream, buffers = open_gpu(cuda)
    comm = open_communicator(nccl)
    version = ctypes.c_int()
    check("ncclGetVersion", nccl.ncclGetVersion(ctypes.byref(version)))
    for index in range(rounds):
        if index == 1:
            time.sleep(0.5)  # lull-watch requests times after the first call
        exchange(nccl, comm, stream, buffers)
        check("cuStreamSynchronize", cuda.cuStreamSynchronize(stream))
    time.sleep(0.5)  # the last ones are reported a moment later
    check("ncclCommDestroy", nccl.ncclCommDestroy(comm))
    print(json.dumps({"rounds": rounds, "bytes": BYTES, "nccl_version": version.value}))


if __name__ == "__main__":
    main()
