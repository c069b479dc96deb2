/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/compute_runs.h"

#include <string.h>

static void remove_runs(struct lull_compute_runs *runs, uint32_t first, uint32_t end)
{
    memmove(&runs->runs[first], &runs->runs[end],
            (runs->count - end) * sizeof(struct lull_compute_run));
    runs->count -= end - first;
}

static void insert_run(struct lull_compute_runs *runs, uint32_t at, struct lull_compute_run run)
{
    if (runs->count == LULL_COMPUTE_RUNS) {
        runs->dropped += run.kernels;
        return;
    }
    memmove(&runs->runs[at + 1], &runs->runs[at],
            (runs->count - at) * sizeof(struct lull_compute_run));
    runs->runs[at] = run;
    runs->count++;
}

void lull_compute_runs_add(struct lull_compute_runs *runs, int64_t begin_ns, int64_t end_ns)
{
    struct lull_compute_run joined = {begin_ns, end_ns, 1};
    uint32_t end = runs->count; /* the runs from here on begin too late to be joined */
    uint32_t first;

    if (end_ns < begin_ns)
        return;
    while (end > 0 && runs->runs[end - 1].begin_ns - end_ns >= LULL_COMPUTE_GAP_NS)
        end--;
    for (first = end; first > 0; first--) {
        const struct lull_compute_run *run = &runs->runs[first - 1];

        if (begin_ns - run->end_ns >= LULL_COMPUTE_GAP_NS)
            break;
        if (run->begin_ns < joined.begin_ns)
            joined.begin_ns = run->begin_ns;
        if (run->end_ns > joined.end_ns)
            joined.end_ns = run->end_ns;
        joined.kernels += run->kernels;
    }
    if (first < end) {
        runs->runs[first] = joined;
        remove_runs(runs, first + 1, end);
    } else {
        insert_run(runs, first, joined);
    }
}

uint32_t lull_compute_runs_before(const struct lull_compute_runs *runs, int64_t before_ns)
{
    uint32_t count = 0;

    while (count < runs->count && runs->runs[count].begin_ns < before_ns)
        count++;
    return count;
}

void lull_compute_runs_forget(struct lull_compute_runs *runs, uint32_t count)
{
    remove_runs(runs, 0, count);
}
