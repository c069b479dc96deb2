/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/gpu_time.h"

#include "base/clock.h"

#define WINDOW_NS LULL_NS_PER_S

void lull_gpu_time_init(struct lull_gpu_time *time)
{
    atomic_store(&time->window_ns, INT64_MIN);
    atomic_store(&time->lowest_ns, INT64_MAX);
    atomic_store(&time->before_ns, INT64_MAX);
}

/* Begins a window with this observation. Observations older than two windows no longer count. */
static void gpu_time_begin_window(struct lull_gpu_time *time, int64_t began_ns, int64_t now_ns,
                                  int64_t offset_ns)
{
    const int is_next = began_ns != INT64_MIN && now_ns - began_ns < 2 * WINDOW_NS;
    const int64_t lowest_ns = atomic_load_explicit(&time->lowest_ns, memory_order_relaxed);

    if (!atomic_compare_exchange_strong(&time->window_ns, &began_ns, now_ns))
        return; /* another thread has just begun it */
    atomic_store_explicit(&time->before_ns, is_next ? lowest_ns : INT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&time->lowest_ns, offset_ns, memory_order_relaxed);
}

int64_t lull_gpu_time_offset(struct lull_gpu_time *time, uint64_t gpu_ns, int64_t now_ns)
{
    const int64_t offset_ns = (int64_t)((uint64_t)now_ns - gpu_ns);
    const int64_t began_ns = atomic_load_explicit(&time->window_ns, memory_order_relaxed);
    int64_t lowest_ns;
    int64_t before_ns;

    if (began_ns == INT64_MIN || now_ns - began_ns >= WINDOW_NS)
        gpu_time_begin_window(time, began_ns, now_ns, offset_ns);
    lowest_ns = atomic_load_explicit(&time->lowest_ns, memory_order_relaxed);
    while (offset_ns < lowest_ns &&
           !atomic_compare_exchange_weak_explicit(&time->lowest_ns, &lowest_ns, offset_ns,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
    before_ns = atomic_load_explicit(&time->before_ns, memory_order_relaxed);
    if (offset_ns < lowest_ns)
        lowest_ns = offset_ns;
    return before_ns < lowest_ns ? before_ns : lowest_ns;
}
