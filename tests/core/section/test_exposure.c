/*
 * Exposure, against a reference that marks every tick of a short span.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/exposure.h"

#include <stdbool.h>
#include <string.h>

#include "../property.h"

enum { TICKS = 200, MAX = 24 };

struct kernels {
    struct lull_interval compute[MAX];
    struct lull_interval communication[MAX];
    size_t compute_count;
    size_t communication_count;
    bool computes[TICKS];
    bool communicates[TICKS];
    struct lull_interval span;
};

/* Some are empty, many touch or overlap. */
static struct lull_interval draw(struct lull_random *random, bool *ticks)
{
    const int64_t begin = (int64_t)lull_random_below(random, TICKS);
    const int64_t length = (int64_t)lull_random_below(random, 1 + lull_random_below(random, 40));
    const int64_t end = begin + length < TICKS ? begin + length : TICKS;

    for (int64_t t = begin; t < end; t++)
        ticks[t] = true;
    return (struct lull_interval){begin, end};
}

static void widen(struct lull_interval *span, struct lull_interval by)
{
    if (by.begin_ns < span->begin_ns)
        span->begin_ns = by.begin_ns;
    if (by.end_ns > span->end_ns)
        span->end_ns = by.end_ns;
}

static void draw_kernels(struct lull_random *random, struct kernels *kernels)
{
    *kernels = (struct kernels){.compute_count = lull_random_below(random, MAX),
                                .communication_count = lull_random_below(random, MAX),
                                .span = {TICKS, 0}};
    for (size_t i = 0; i < kernels->compute_count; i++) {
        kernels->compute[i] = draw(random, kernels->computes);
        widen(&kernels->span, kernels->compute[i]);
    }
    for (size_t i = 0; i < kernels->communication_count; i++) {
        kernels->communication[i] = draw(random, kernels->communicates);
        widen(&kernels->span, kernels->communication[i]);
    }
}

static struct lull_union unite(struct lull_interval *intervals, size_t count, const bool *ticks,
                               uint64_t seed)
{
    const size_t united = lull_intervals_unite(intervals, count);
    bool seen[TICKS] = {false};

    holds(united <= count, seed);
    for (size_t i = 0; i < united; i++) {
        holds(intervals[i].end_ns > intervals[i].begin_ns, seed);
        holds(i == 0 || intervals[i].begin_ns > intervals[i - 1].end_ns, seed);
        for (int64_t t = intervals[i].begin_ns; t < intervals[i].end_ns; t++)
            seen[t] = true;
    }
    holds(memcmp(seen, ticks, sizeof(seen)) == 0, seed);
    return (struct lull_union){intervals, united};
}

static void check_measure(const struct kernels *kernels, struct lull_union compute,
                          struct lull_union communication, uint64_t seed)
{
    struct lull_exposure expected = {.span_ns = kernels->span.end_ns - kernels->span.begin_ns};
    struct lull_exposure exposure;

    for (int64_t t = kernels->span.begin_ns; t < kernels->span.end_ns; t++) {
        expected.compute_ns += kernels->computes[t];
        expected.communication_ns += kernels->communicates[t];
        expected.overlap_ns += kernels->computes[t] && kernels->communicates[t];
        expected.exposed_ns += !kernels->computes[t] && kernels->communicates[t];
        expected.idle_ns += !kernels->computes[t] && !kernels->communicates[t];
    }
    lull_exposure_measure(compute, communication, kernels->span, &exposure);
    holds(memcmp(&exposure, &expected, sizeof(expected)) == 0, seed);
}

static void check_gaps(const struct kernels *kernels, struct lull_union compute,
                       struct lull_union communication, uint64_t seed)
{
    struct lull_gap gaps[MAX + 1];
    const size_t count = lull_exposure_gaps(compute, communication, kernels->span, gaps);
    int64_t t = kernels->span.begin_ns;

    holds(count <= compute.count + 1, seed);
    for (size_t i = 0; i < count; i++) {
        int64_t busy = 0;

        for (; t < gaps[i].begin_ns; t++)
            holds(kernels->computes[t], seed);
        for (; t < gaps[i].end_ns; t++) {
            holds(!kernels->computes[t], seed);
            busy += kernels->communicates[t];
        }
        holds(gaps[i].end_ns > gaps[i].begin_ns, seed);
        holds(gaps[i].communication_ns == busy, seed);
    }
    for (; t < kernels->span.end_ns; t++)
        holds(kernels->computes[t], seed);
}

static void check_covered(const struct kernels *kernels, struct lull_union communication,
                          struct lull_random *random, uint64_t seed)
{
    const int64_t begin = (int64_t)lull_random_below(random, TICKS);
    const int64_t end = begin + (int64_t)lull_random_below(random, (uint64_t)(TICKS - begin) + 1);
    int64_t expected = 0;

    for (int64_t t = begin; t < end; t++)
        expected += kernels->communicates[t];
    holds(lull_union_covered(communication, (struct lull_interval){begin, end}) == expected, seed);
}

static void test_against_ticks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        struct lull_random random;
        struct kernels kernels;

        lull_random_init(&random, seed);
        draw_kernels(&random, &kernels);
        if (kernels.compute_count + kernels.communication_count == 0)
            continue;

        const struct lull_union compute =
            unite(kernels.compute, kernels.compute_count, kernels.computes, seed);
        const struct lull_union communication =
            unite(kernels.communication, kernels.communication_count, kernels.communicates, seed);
        check_measure(&kernels, compute, communication, seed);
        check_gaps(&kernels, compute, communication, seed);
        check_covered(&kernels, communication, &random, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_ticks)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
