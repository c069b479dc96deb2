/*
 * How the emulated vendor libraries and a player share a stream: cudaStream_t of the emulated NCCL
 * points to struct lull_stream.
 *
 * The player owns the stream and runs its work in order on its GPU thread; the libraries only
 * enqueue. Work whose function is "WriteValue" (emulated cuStreamWriteValue32) takes no time:
 * began and ended follow each other when everything enqueued before it has ended.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_STREAM_H
#define LULL_EMULATOR_STREAM_H

#include <stdint.h>

#define LULL_STREAM_MAGIC UINT64_C(0x4c554c4c53545231)

struct lull_stream_work { /* one communication kernel */
    const char *function; /* NCCL's name, e.g. "AllReduce" */
    uint64_t bytes;
    int32_t peer;                                 /* or root, -1 */
    void (*began)(void *context, int64_t gpu_ns); /* on the GPU thread, in order; gpu_ns =
                                                   * %globaltimer ns of the GPU */
    void (*ended)(void *context, int64_t gpu_ns);
    void *context;
};

struct lull_stream {
    uint64_t magic;
    int (*enqueue)(struct lull_stream *stream,
                   const struct lull_stream_work *work); /* application
                                                          * thread; 0 or -errno; copies */
    void *owner;
};

/*
 * The player tells the emulated CUPTI of each kernel that has ended, if that library is loaded:
 * symbol `lull_emulated_kernel` of libcupti.so.12. Any thread; name is copied.
 */
typedef void (*lull_emulated_kernel_function)(const char *name, uint32_t stream,
                                              int64_t begin_gpu_ns, int64_t end_gpu_ns);

#endif
