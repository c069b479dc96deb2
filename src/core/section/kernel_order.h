/*
 * Order: finds the iteration of communication kernels on the GPU, even if they race there.
 *
 * Kernels of several communicators, or streams, begin and end beside each other, and the order of
 * two independent kernels differs from iteration to iteration. The order in which the host has
 * enqueued them repeats. Each kernel carries its number in it (call.h: order); neighbours need not
 * have consecutive numbers, since not every operation has a kernel.
 *
 * Searching. Kernels are restored into the order of their numbers and then are the symbols of an
 * iteration finder. One is held back until its predecessor's number has come, or until
 * LULL_ORDER_HELD later ones have; kernels later than that are not symbols. The iteration is FOUND
 * once the finder has one and the numbers advance by the same amount, the stride, from each kernel
 * to its counterpart of the iteration before.
 *
 * Longer iterations. If a step consists of layers that communicate alike, the finder takes a layer
 * for the iteration. Then the times between kernels repeat with a multiple of its period only
 * (rounds.h): once they have done so three times, the iteration that was followed is LEFT and the
 * multiple FOUND, beginning after the longest time between two kernels. When they do so no longer,
 * or the longest time comes elsewhere, it is LEFT and found again as it is now.
 *
 * Following. A number gives iteration and position of its kernel at once, before all earlier
 * kernels have started. A kernel whose signature is not the one of its position, or whose number
 * belongs to none, ends it: LEFT. Kernels that are never reported do not end it. After that the
 * last iteration is still known: when it occurs again completely, it is RESUMED.
 *
 * Pure; create/destroy; one thread at a time. Numbers may wrap.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_KERNEL_ORDER_H
#define LULL_CORE_SECTION_KERNEL_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LULL_ORDER_HELD = 32,         /* kernels that may overtake one of them */
    LULL_ORDER_MAX_PERIOD = 4096, /* kernels per iteration that times can show; the finder's own
                                   * limit is lower */
};

enum lull_kernel_order_event {
    LULL_ORDER_SEARCHING, /* no iteration is known */
    LULL_ORDER_FOUND,     /* a new iteration */
    LULL_ORDER_RESUMED,   /* the one that was left last: positions are the same */
    LULL_ORDER_FOLLOWING, /* as predicted */
    LULL_ORDER_LEFT,      /* not as predicted: searching again */
};

struct lull_standing {
    int64_t iteration; /* counts from an arbitrary one; earlier ones may be negative */
    uint32_t position; /* 0..period-1, in the order of the numbers */
};

struct lull_kernel_order; /* opaque: some 500 KiB */

/* null: out of memory. */
struct lull_kernel_order *lull_kernel_order_create(void);
void lull_kernel_order_destroy(struct lull_kernel_order *order);

/* The kernel of that number begins, at begin_ns of one monotonic clock. */
enum lull_kernel_order_event lull_kernel_order_take(struct lull_kernel_order *order,
                                                    uint32_t number, uint64_t signature,
                                                    int64_t begin_ns);

/* The position of the kernel of that number. False: it has none, or no iteration is followed.
 */
bool lull_kernel_order_locate(const struct lull_kernel_order *order, uint32_t number,
                              struct lull_standing *standing_out);

/* Kernels in the iteration that is followed, or was last; 0: none has been found yet. */
uint32_t lull_kernel_order_period(const struct lull_kernel_order *order);

/* Returns whether that iteration was found from the times between its kernels. */
bool lull_kernel_order_goes_by_times(const struct lull_kernel_order *order);

/* The iteration of the highest number taken, while one is followed. */
int64_t lull_kernel_order_newest(const struct lull_kernel_order *order);

#endif
