/*
 * Exposure: how one GPU's kernels used its time. Communication without a compute kernel at the same
 * time is exposed. A stretch without any compute kernel is a gap, with or without communication.
 * Only gaps may run at a lower clock without a slowdown.
 *
 * An interval reaches from begin_ns up to, not including, end_ns, times of any one clock, at most
 * INT64_MAX apart. A *union* is sorted and disjoint, and its members neither touch nor are empty:
 * the result of lull_intervals_unite. Pure; the caller's storage.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_EXPOSURE_H
#define LULL_CORE_SECTION_EXPOSURE_H

#include <stddef.h>
#include <stdint.h>

struct lull_interval {
    int64_t begin_ns;
    int64_t end_ns;
};

struct lull_union {
    const struct lull_interval *intervals;
    size_t count;
};

/* The times of one rank, from the first begin to the last end of its kernels. */
struct lull_exposure {
    int64_t span_ns;
    int64_t compute_ns;       /* union of the compute kernels */
    int64_t communication_ns; /* union of the communication kernels */
    int64_t overlap_ns;       /* both at once */
    int64_t exposed_ns;       /* communication - overlap */
    int64_t idle_ns;          /* neither of them */
};

struct lull_gap {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t communication_ns; /* the part of it that communicates; the rest is idle */
};

/* Makes a union of count intervals in any order, in place; returns its count. O(n log n). */
size_t lull_intervals_unite(struct lull_interval *intervals, size_t count);

/* The part of one interval that lies in the union, ns. O(log n + members it meets). */
int64_t lull_union_covered(struct lull_union of, struct lull_interval within);

/* Both unions must lie within the span. O(n). */
void lull_exposure_measure(struct lull_union compute, struct lull_union communication,
                           struct lull_interval span, struct lull_exposure *exposure_out);

/*
 * The gaps of the span in order; gaps_out has room for compute.count + 1. Returns their number.
 * O(n log n).
 */
size_t lull_exposure_gaps(struct lull_union compute, struct lull_union communication,
                          struct lull_interval span, struct lull_gap *gaps_out);

#endif
