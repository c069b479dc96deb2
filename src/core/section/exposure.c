/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/exposure.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"

static int exposure_compare_begins(const void *left, const void *right)
{
    const struct lull_interval *const a = left;
    const struct lull_interval *const b = right;

    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

size_t lull_intervals_unite(struct lull_interval *intervals, size_t count)
{
    size_t kept = 0;

    if (count > 1)
        qsort(intervals, count, sizeof(*intervals), exposure_compare_begins);
    for (size_t i = 0; i < count; i++) {
        const struct lull_interval next = intervals[i];

        if (next.end_ns <= next.begin_ns)
            continue;
        if (kept == 0 || next.begin_ns > intervals[kept - 1].end_ns)
            intervals[kept++] = next;
        else if (next.end_ns > intervals[kept - 1].end_ns)
            intervals[kept - 1].end_ns = next.end_ns;
    }
    return kept;
}

/* The first member that ends after a time; of.count if none does. */
static size_t first_after(struct lull_union of, int64_t time_ns)
{
    size_t low = 0;
    size_t high = of.count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (of.intervals[middle].end_ns > time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int64_t lull_union_covered(struct lull_union of, struct lull_interval within)
{
    int64_t covered_ns = 0;

    for (size_t i = first_after(of, within.begin_ns);
         i < of.count && of.intervals[i].begin_ns < within.end_ns; i++)
        covered_ns += lull_earlier_ns(of.intervals[i].end_ns, within.end_ns) -
                      lull_later_ns(of.intervals[i].begin_ns, within.begin_ns);
    return covered_ns;
}

static int64_t exposure_length(struct lull_union of)
{
    int64_t length_ns = 0;

    for (size_t i = 0; i < of.count; i++)
        length_ns += of.intervals[i].end_ns - of.intervals[i].begin_ns;
    return length_ns;
}

/* Length of what two unions share: the one that ends first cannot meet anything later. */
static int64_t exposure_common(struct lull_union a, struct lull_union b)
{
    int64_t common_ns = 0;

    for (size_t i = 0, j = 0; i < a.count && j < b.count;) {
        const struct lull_interval *const x = &a.intervals[i];
        const struct lull_interval *const y = &b.intervals[j];
        const int64_t begin_ns = lull_later_ns(x->begin_ns, y->begin_ns);
        const int64_t end_ns = lull_earlier_ns(x->end_ns, y->end_ns);

        if (end_ns > begin_ns)
            common_ns += end_ns - begin_ns;
        if (x->end_ns < y->end_ns)
            i++;
        else
            j++;
    }
    return common_ns;
}

void lull_exposure_measure(struct lull_union compute, struct lull_union communication,
                           struct lull_interval span, struct lull_exposure *exposure_out)
{
    struct lull_exposure exposure = {
        .span_ns = span.end_ns - span.begin_ns,
        .compute_ns = exposure_length(compute),
        .communication_ns = exposure_length(communication),
        .overlap_ns = exposure_common(compute, communication),
    };

    assert(exposure.overlap_ns <= exposure.communication_ns);
    exposure.exposed_ns = exposure.communication_ns - exposure.overlap_ns;
    exposure.idle_ns = exposure.span_ns - exposure.compute_ns - exposure.exposed_ns;
    *exposure_out = exposure;
}

size_t lull_exposure_gaps(struct lull_union compute, struct lull_union communication,
                          struct lull_interval span, struct lull_gap *gaps_out)
{
    int64_t free_ns = span.begin_ns; /* no compute kernel runs from here on... */
    size_t count = 0;

    for (size_t i = 0; i <= compute.count; i++) {
        /* ...to here. */
        const int64_t busy_ns = i < compute.count ? compute.intervals[i].begin_ns : span.end_ns;

        if (busy_ns > free_ns)
            gaps_out[count++] = (struct lull_gap){
                free_ns, busy_ns,
                lull_union_covered(communication, (struct lull_interval){free_ns, busy_ns})};
        if (i < compute.count)
            free_ns = compute.intervals[i].end_ns;
    }
    return count;
}
