/*
 * Converts times of a GPU's nanosecond timer to CLOCK_MONOTONIC.
 *
 * A time of the GPU is observed with an unknown delay, never early. So the offset between the
 * clocks is at most the smallest (host now - GPU time) that was observed. It is taken over the last
 * one to two seconds, so that a drift of 50 millionths costs at most 0.1 ms.
 *
 * Threads: any; lock-free. A race costs at most one observation.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_GPU_TIME_H
#define LULL_PROBE_GPU_TIME_H

#include <stdatomic.h>
#include <stdint.h>

/* The offset of one GPU's clock; lull_gpu_time_init() comes first. */
struct lull_gpu_time {
    _Atomic int64_t window_ns; /* when the current window began; INT64_MIN: never */
    _Atomic int64_t lowest_ns; /* smallest offset of the current window */
    _Atomic int64_t before_ns; /* smallest offset of the window before; INT64_MAX: none */
};

void lull_gpu_time_init(struct lull_gpu_time *time);

/*
 * Takes the observation that it was now_ns when gpu_ns was seen; returns the offset to add to times
 * of the GPU. gpu_ns plus the result is never later than now_ns.
 */
int64_t lull_gpu_time_offset(struct lull_gpu_time *time, uint64_t gpu_ns, int64_t now_ns);

#endif
