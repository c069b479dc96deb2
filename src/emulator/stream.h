/*
 * Stream shared by the emulated vendor libraries and a player: the cudaStream_t that a player hands
 * to the emulated NCCL points to a struct lull_stream.
 *
 * The player owns the stream and runs its work in order on its GPU thread; the libraries only
 * enqueue. Work whose function is "WriteValue" (the emulated cuStreamWriteValue32) takes no time:
 * it begins and ends when everything enqueued before it has ended.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_STREAM_H
#define LULL_EMULATOR_STREAM_H

#include <stdint.h>

#define LULL_STREAM_MAGIC UINT64_C(0x4c554c4c53545231)

/* One communication kernel. */
struct lull_stream_work {
    const char *function; /* NCCL's name, e.g. "AllReduce" */
    uint64_t bytes;
    int32_t peer; /* peer or root; -1: none */
    /* Called on the GPU thread in the order of the stream; gpu_ns is the GPU's %globaltimer. */
    void (*began)(void *context, int64_t gpu_ns);
    void (*ended)(void *context, int64_t gpu_ns);
    void *context;
};

struct lull_stream {
    uint64_t magic;
    /* Called on an application thread; copies the work. Returns 0 or -errno. */
    int (*enqueue)(struct lull_stream *stream, const struct lull_stream_work *work);
    void *owner;
};

/*
 * The type of `lull_emulated_kernel` in the emulated libcupti.so.12. The player reports to that
 * library each kernel that has ended, if it is loaded. Threads: any; the name is copied.
 */
typedef void (*lull_emulated_kernel_function)(const char *name, uint32_t stream,
                                              int64_t begin_gpu_ns, int64_t end_gpu_ns);

#endif
