/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/section/gaps/gap_map.h"

enum { MAX_KERNELS = 8, MAX_PHASES = 2, MAX_EVENTS = 1 << 13 };

static const int64_t ms = INT64_C(1000000);

/* One kernel of the job and what surrounds it, ms. */
struct step {
    double compute;
    double kernel;
    double overlap; /* computation continues for so long beside the kernel */
    double idle;    /* after it */
};

struct job {
    uint32_t kernels;
    uint32_t phases; /* iterations that differ */
    struct step steps[MAX_PHASES][MAX_KERNELS];
    double jitter_ms;
    uint32_t extra_in; /* iteration with one more kernel; 0 none */
};

struct interval {
    int64_t begin_ns;
    int64_t end_ns;
};

/* Timeline of the job. */
struct history {
    uint32_t kernel_count;
    uint32_t edge_count;
    struct lull_call edges[MAX_EVENTS];
    uint32_t run_count;
    struct interval runs[MAX_EVENTS];
};

static struct history history;

static void add_kernel(int64_t begin_ns, int64_t end_ns, uint64_t bytes)
{
    struct lull_call call = {.time_ns = begin_ns,
                             .bytes = bytes,
                             .order = history.kernel_count++,
                             .operation = 2,
                             .begin = true};

    history.edges[history.edge_count++] = call;
    call.time_ns = end_ns;
    call.begin = false;
    history.edges[history.edge_count++] = call;
}

static int64_t jittered(struct lull_random *random, const struct job *job, double length_ms)
{
    return (int64_t)((length_ms + job->jitter_ms * lull_random_uniform(random)) * 1e6);
}

static void lay_out(const struct job *job, uint32_t iterations, uint64_t seed)
{
    struct lull_random random;
    int64_t now_ns = 5 * ms;

    lull_random_init(&random, seed);
    history.kernel_count = 0;
    history.edge_count = 0;
    history.run_count = 0;
    for (uint32_t i = 0; i < iterations; i++) {
        for (uint32_t k = 0; k < job->kernels; k++) {
            const struct step *step = &job->steps[i % job->phases][k];
            int64_t begin_ns = now_ns + jittered(&random, job, step->compute);
            int64_t end_ns = begin_ns + jittered(&random, job, step->kernel);

            history.runs[history.run_count++] =
                (struct interval){now_ns, begin_ns + (int64_t)(step->overlap * 1e6)};
            add_kernel(begin_ns, end_ns, UINT64_C(1) << k);
            now_ns = end_ns + jittered(&random, job, step->idle);
        }
        if (i == job->extra_in && i != 0)
            add_kernel(now_ns - ms / 2, now_ns - ms / 4, 1 << 20);
    }
}

/* ---- the map at work ---- */

struct seen {
    uint32_t open; /* place of the gap under way */
    uint32_t last; /* of the one before */
    uint32_t gap_count;
    struct interval gaps[MAX_EVENTS];
    uint32_t breaks;
    uint32_t windows;
    bool is_ordered; /* begins and ends alternate, places in turn */
};

static void note(struct seen *seen, const struct lull_call *call, uint32_t places)
{
    if (call->place == LULL_CALL_BREAK) {
        seen->breaks += call->begin;
        seen->last = 0;
        seen->open = 0;
        return;
    }
    if (call->begin) {
        seen->is_ordered &= seen->open == 0 && (seen->last == 0 || places == 0 ||
                                                call->place == seen->last % places + 1);
        seen->open = call->place;
        seen->last = call->place;
        seen->gaps[seen->gap_count++].begin_ns = call->time_ns;
    } else {
        seen->is_ordered &= seen->open == call->place;
        seen->open = 0;
        if (seen->gap_count > 0) /* a map may go blind in the middle of a kernel */
            seen->gaps[seen->gap_count - 1].end_ns = call->time_ns;
    }
}

static void drain(struct lull_gap_map *map, int64_t until_ns, struct seen *seen)
{
    struct lull_call call;
    uint32_t places;

    while (lull_gap_map_wake_ns(map) <= until_ns) {
        const int64_t at_ns = lull_gap_map_wake_ns(map) == 0 ? until_ns : lull_gap_map_wake_ns(map);

        lull_gap_map_gaps(map, &places);
        while (lull_gap_map_poll(map, at_ns, &call))
            note(seen, &call, places);
    }
}

/* Computation is reported 100 ms late, and only while it is requested. */
static void play(struct lull_gap_map *map, struct seen *seen)
{
    uint32_t run = 0;
    bool recorded = false;

    *seen = (struct seen){.is_ordered = true};
    for (uint32_t i = 0; i < history.edge_count; i++) {
        const struct lull_call *edge = &history.edges[i];
        const bool records = lull_gap_map_phase(map) == LULL_GAP_MAP_RECORDING;

        seen->windows += records && !recorded;
        recorded = records;
        for (; run < history.run_count && history.runs[run].end_ns < edge->time_ns - 100 * ms;
             run++)
            if (records)
                lull_gap_map_take_compute(map, history.runs[run].begin_ns,
                                          history.runs[run].end_ns);
        if (records)
            lull_gap_map_take_complete(map, edge->time_ns - 100 * ms);
        drain(map, edge->time_ns, seen);
        lull_gap_map_take_communication(map, edge);
        drain(map, edge->time_ns, seen);
    }
}

/* The true gap that an emitted one lies in, within a margin; NULL: it is none. */
static const struct interval *true_gap(const struct interval *emitted, int64_t margin_ns,
                                       struct interval *storage)
{
    for (uint32_t i = 0; i + 1 < history.run_count; i++) {
        *storage = (struct interval){history.runs[i].end_ns, history.runs[i + 1].begin_ns};
        if (emitted->begin_ns >= storage->begin_ns - margin_ns &&
            emitted->end_ns <= storage->end_ns + margin_ns)
            return storage;
    }
    return NULL;
}

static const struct job plain = {
    .kernels = 3,
    .phases = 1,
    .steps = {{{20, 30, 0, 0}, {8, 12, 5, 25}, {40, 4, 4, 0.2}}},
};

static void test_gaps_are_emitted_exactly_where_they_are(void **state)
{
    static struct seen seen;
    struct lull_gap_map *map = lull_gap_map_create(false);
    uint32_t count;

    (void)state;
    lay_out(&plain, 60, 1);
    play(map, &seen);
    assert_int_equal(lull_gap_map_phase(map), LULL_GAP_MAP_KNOWN);
    assert_int_equal(lull_gap_map_fold(map), 1);
    assert_int_equal(seen.windows, 1);
    assert_true(seen.is_ordered);
    /* 30 ms beside the first kernel; 7 + 25 ms from the overlap's end to the next computation. */
    assert_near(lull_gap_map_gaps(map, &count)[0].exposed_ms, 30.0, 1e-6);
    assert_int_equal(count, 2);
    assert_near(lull_gap_map_gaps(map, &count)[1].length_ms, 32.0, 1e-6);
    assert_near(lull_gap_map_gaps(map, &count)[1].exposed_ms, 7.0, 1e-6);
    assert_int_equal(lull_gap_map_gaps(map, &count)[0].call.operation, 2);
    assert_int_equal(lull_gap_map_gaps(map, &count)[1].call.operation, 0); /* mostly idle */
    assert_true(seen.gap_count > 2 * 40);
    for (uint32_t i = 0; i + 1 < seen.gap_count; i++) {
        struct interval storage;
        const struct interval *gap = true_gap(&seen.gaps[i], 0, &storage);

        assert_non_null(gap);
        assert_int_equal(seen.gaps[i].begin_ns, gap->begin_ns);
        assert_int_equal(seen.gaps[i].end_ns, gap->end_ns);
    }
    lull_gap_map_destroy(map);
}

/* Puts the history behind what has been played, `order` kernels long. */
static void continue_from(int64_t from_ns, uint32_t order)
{
    for (uint32_t i = 0; i < history.edge_count; i++) {
        history.edges[i].time_ns += from_ns;
        history.edges[i].order += order;
    }
    for (uint32_t i = 0; i < history.run_count; i++) {
        history.runs[i].begin_ns += from_ns;
        history.runs[i].end_ns += from_ns;
    }
}

/* Returns the largest time by which gaps of the last passes begin too early, ns, if computation
 * takes a tenth longer than in the window. */
static int64_t earliest_ns(bool is_reported)
{
    static const struct job slowed = {
        .kernels = 3,
        .phases = 1,
        .steps = {{{22, 30, 0, 0}, {8.8, 12, 5.5, 25}, {44, 4, 4.4, 0.2}}},
    };
    static struct seen seen;
    struct lull_gap_map *map = lull_gap_map_create(false);
    int64_t earliest = 0;
    int64_t end_ns;

    lay_out(&plain, 60, 1);
    play(map, &seen);
    end_ns = history.edges[history.edge_count - 1].time_ns - 5 * ms + ms / 5;
    if (is_reported)
        lull_gap_map_set_steady(map, 8);
    lay_out(&slowed, 20, 1);
    continue_from(end_ns, 180);
    play(map, &seen);
    assert_true(seen.gap_count > 2 * 15);
    for (uint32_t i = seen.gap_count / 2; i + 1 < seen.gap_count; i++) {
        struct interval storage;
        const struct interval *gap = true_gap(&seen.gaps[i], 10 * ms, &storage);

        assert_non_null(gap);
        earliest = lull_later_ns(earliest, gap->begin_ns - seen.gaps[i].begin_ns);
    }
    lull_gap_map_destroy(map);
    return earliest;
}

/* Gaps that are announced ahead of computation begin later when that is slowed. */
static void test_a_steady_point_delays_gaps(void **state)
{
    (void)state;
    /* The slowdown beside a kernel is that of computation on average, so the prediction is not
     * exact. */
    assert_true(4 * earliest_ns(true) < earliest_ns(false));
}

/* The window closes in the middle of a gap, before the computation after it has been reported. */
static void test_a_gap_across_the_windows_end_is_found(void **state)
{
    static const struct job jobs[] = {
        {.kernels = 2, .phases = 1, .steps = {{{20, 120, 110, 0}, {8, 30, 0, 40}}}},
        {.kernels = 2, .phases = 1, .steps = {{{8, 30, 0, 40}, {20, 120, 110, 0}}}},
    };
    static struct seen seen;

    (void)state;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        struct lull_gap_map *map = lull_gap_map_create(false);
        struct interval storage;
        uint32_t count;

        lay_out(&jobs[i], 60, 1);
        play(map, &seen);
        lull_gap_map_gaps(map, &count);
        assert_int_equal(count, 2);
        assert_near(lull_gap_map_gaps(map, &count)[0].length_ms +
                        lull_gap_map_gaps(map, &count)[1].length_ms,
                    10.0 + 70.0, 1e-6);
        for (uint32_t g = 0; g + 1 < seen.gap_count; g++)
            assert_non_null(true_gap(&seen.gaps[g], 0, &storage));
        lull_gap_map_destroy(map);
    }
}

static struct job random_job(struct lull_random *random, uint32_t phases, double jitter_ms)
{
    struct job job = {.phases = phases, .jitter_ms = jitter_ms};

    job.kernels = 1 + (uint32_t)lull_random_below(random, MAX_KERNELS);
    for (uint32_t k = 0; k < job.kernels; k++)
        for (uint32_t phase = 0; phase < phases; phase++) {
            const double kernel = 1.0 + 60.0 * lull_random_uniform(random);

            job.steps[phase][k] = (struct step){
                .compute = 5.0 + 40.0 * lull_random_uniform(random),
                .kernel = kernel,
                .overlap =
                    lull_random_below(random, 3) == 0 ? kernel * lull_random_uniform(random) : 0.0,
                .idle =
                    lull_random_below(random, 2) == 0 ? 30.0 * lull_random_uniform(random) : 0.0,
            };
        }
    return job;
}

static void test_emitted_gaps_lie_in_true_ones(void **state)
{
    static struct seen seen;

    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        const double jitter_ms = seed % 2 == 0 ? 0.0 : 0.5;
        struct lull_gap_map *map = lull_gap_map_create(false);
        struct lull_random random;
        struct job job;
        uint32_t count;

        lull_random_init(&random, seed);
        job = random_job(&random, 1, jitter_ms);
        lay_out(&job, 40, seed);
        play(map, &seen);
        holds(seen.is_ordered, seed);
        holds(seen.breaks == 0, seed);
        holds(lull_gap_map_phase(map) >= LULL_GAP_MAP_KNOWN, seed);
        lull_gap_map_gaps(map, &count);
        /* Jitter adds up over the few phases between an edge and the gap that it announces. */
        for (uint32_t i = 0; count > 0 && i + 1 < seen.gap_count; i++) {
            struct interval storage;

            holds(true_gap(&seen.gaps[i], (int64_t)(8 * jitter_ms * 1e6), &storage) != NULL, seed);
        }
        lull_gap_map_destroy(map);
    }
}

static void test_alternating_iterations_count_as_one(void **state)
{
    static struct seen seen;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct lull_gap_map *map = lull_gap_map_create(false);
        struct lull_random random;
        struct job job;
        struct interval storage;

        lull_random_init(&random, seed);
        job = random_job(&random, 2, 0.0);
        for (uint32_t k = 0; k < job.kernels; k++)
            job.steps[1][k].kernel = job.steps[0][k].kernel + 20.0;
        lay_out(&job, 60, seed);
        play(map, &seen);
        holds(lull_gap_map_fold(map) == 2, seed);
        holds(seen.is_ordered, seed);
        for (uint32_t i = 0; i + 1 < seen.gap_count; i++)
            holds(true_gap(&seen.gaps[i], 0, &storage) != NULL, seed);
        lull_gap_map_destroy(map);
    }
}

static void test_a_deviation_breaks_and_known_gaps_are_taken_up(void **state)
{
    static struct seen seen;
    struct lull_gap_map *map = lull_gap_map_create(false);
    struct job job = plain;
    struct interval storage;

    (void)state;
    job.extra_in = 20; /* a longer run than the one that broke proves it an interruption */
    lay_out(&job, 80, 1);
    play(map, &seen);
    assert_int_equal(seen.breaks, 1);
    assert_int_equal(seen.windows, 1);
    assert_int_equal(lull_gap_map_phase(map), LULL_GAP_MAP_KNOWN);
    for (uint32_t i = 0; i + 1 < seen.gap_count; i++)
        assert_non_null(true_gap(&seen.gaps[i], ms, &storage));
    lull_gap_map_destroy(map);
}

static void test_a_lost_end_is_overcome(void **state)
{
    static struct seen seen;
    struct lull_gap_map *map = lull_gap_map_create(false);

    (void)state;
    lay_out(&plain, 200, 1);
    for (uint32_t i = 301; i < history.edge_count; i++) /* the end of a kernel */
        history.edges[i - 1] = history.edges[i];
    history.edge_count--;
    play(map, &seen);
    assert_int_equal(seen.breaks, 0);
    assert_true(seen.is_ordered);
    assert_int_equal(lull_gap_map_phase(map), LULL_GAP_MAP_KNOWN);
    lull_gap_map_destroy(map);
}

/* ---- several communicators, whose kernels race ---- */

/*
 * An iteration of several micro-batches. Each computes, sends on one stream what nobody waits for,
 * and waits for what it receives on another; the last part of the iteration reduces on a third
 * while it computes. When a send begins, and which kernel comes first, is left to chance.
 */
static void lay_out_race(uint32_t iterations, uint32_t batches, double race_ms, uint64_t seed)
{
    struct lull_random random;
    int64_t now_ns = 5 * ms;
    int64_t send_free_ns = 0;

    lull_random_init(&random, seed);
    history.kernel_count = 0;
    history.edge_count = 0;
    history.run_count = 0;
    for (uint32_t i = 0; i < iterations; i++) {
        for (uint32_t batch = 0; batch < batches; batch++) {
            const int64_t computed_ns = now_ns + 20 * ms;
            const int64_t send_ns =
                computed_ns + (int64_t)(race_ms * lull_random_uniform(&random) * 1e6);
            const int64_t begin_ns = send_ns > send_free_ns ? send_ns : send_free_ns;
            const int64_t received_ns = computed_ns + (15 + 5 * (int64_t)batch) * ms;

            history.runs[history.run_count++] = (struct interval){now_ns, computed_ns};
            send_free_ns = begin_ns + (int64_t)((4 + race_ms) * 1e6);
            add_kernel(begin_ns, send_free_ns, 1 << 10);
            add_kernel(computed_ns + (int64_t)(race_ms * lull_random_uniform(&random) * 5e5),
                       received_ns, 1 << 12);
            now_ns = received_ns;
        }
        history.runs[history.run_count++] = (struct interval){now_ns, now_ns + 30 * ms};
        add_kernel(now_ns + ms, now_ns + 12 * ms, 1 << 20);
        now_ns += 30 * ms + 40 * ms; /* idle behind it */
    }
}

static int compare_edges(const void *a, const void *b)
{
    const struct lull_call *x = a;
    const struct lull_call *y = b;

    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static void test_racing_kernels_tell_the_iteration(void **state)
{
    static struct seen seen;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct lull_gap_map *map = lull_gap_map_create(false);
        struct interval storage;
        const uint32_t batches = 2 + (uint32_t)(seed % 4);
        uint32_t count;

        lay_out_race(30, batches, 8.0, seed);
        qsort(history.edges, history.edge_count, sizeof(history.edges[0]), compare_edges);
        play(map, &seen);
        holds(lull_gap_map_phase(map) == LULL_GAP_MAP_KNOWN, seed);
        holds(seen.windows <= 3, seed); /* micro-batches were taken for iterations at first */
        holds(seen.breaks == 0, seed);
        holds(seen.is_ordered, seed);
        lull_gap_map_gaps(map, &count);
        holds(count == batches + 1, seed); /* each wait, and the idle time */
        holds(seen.gap_count > 15 * count, seed);
        for (uint32_t i = 0; i + 1 < seen.gap_count; i++)
            holds(true_gap(&seen.gaps[i], 8 * ms, &storage) != NULL, seed);
        lull_gap_map_destroy(map);
    }
}

/* Communication counts as a gap; the idle time belongs to none. */
static void test_the_blind_map_learns_from_racing_kernels(void **state)
{
    static struct seen seen;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct lull_gap_map *map = lull_gap_map_create(true);
        const uint32_t batches = 2 + (uint32_t)(seed % 4);
        const struct lull_mapped_gap *gaps;
        uint32_t count;

        lay_out_race(30, batches, 8.0, seed);
        qsort(history.edges, history.edge_count, sizeof(history.edges[0]), compare_edges);
        play(map, &seen);
        holds(lull_gap_map_phase(map) == LULL_GAP_MAP_KNOWN, seed);
        holds(!lull_gap_map_wants_compute(map), seed);
        gaps = lull_gap_map_gaps(map, &count);
        holds(count == batches + 1, seed); /* each wait, and the reduction */
        for (uint32_t i = 0; i < count; i++)
            holds(gaps[i].call.is_cautious && gaps[i].exposed_ms > 0.95 * gaps[i].length_ms, seed);
        holds(seen.gap_count > 15 * count, seed);
        lull_gap_map_destroy(map);
    }
}

/* Computation never pauses: one kernel of each iteration is reported, so that there is an
 * iteration. */
static void test_races_without_gaps_show_the_iteration(void **state)
{
    static struct seen seen;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct lull_gap_map *map = lull_gap_map_create(false);
        const struct lull_mapped_gap *gap;
        uint32_t count;

        lay_out_race(30, 2 + (uint32_t)(seed % 4), 8.0, seed);
        qsort(history.edges, history.edge_count, sizeof(history.edges[0]), compare_edges);
        for (uint32_t i = 0; i + 1 < history.run_count; i++)
            history.runs[i].end_ns = history.runs[i + 1].begin_ns;
        play(map, &seen);
        holds(lull_gap_map_phase(map) == LULL_GAP_MAP_KNOWN, seed);
        gap = lull_gap_map_gaps(map, &count);
        holds(count == 1 && gap->call.is_cautious && gap->call.place == 1, seed);
        holds(seen.is_ordered && seen.gap_count >= 15 && seen.gap_count <= 30, seed);
        lull_gap_map_destroy(map);
    }
}

static void test_the_blind_map_passes_kernels_on(void **state)
{
    struct lull_gap_map *map = lull_gap_map_create(true);
    struct lull_call call;

    (void)state;
    lay_out(&plain, 2, 1);
    for (uint32_t i = 0; i < history.edge_count; i++) {
        lull_gap_map_take_communication(map, &history.edges[i]);
        assert_true(lull_gap_map_poll(map, 0, &call));
        assert_int_equal(call.time_ns, history.edges[i].time_ns);
        assert_int_equal(call.begin, history.edges[i].begin);
        assert_true(call.is_cautious);
        assert_int_equal(call.place, 0);
        assert_false(lull_gap_map_poll(map, 0, &call));
    }
    lull_gap_map_destroy(map);
}

static void test_blindness_found_later(void **state)
{
    static struct seen seen;
    struct lull_gap_map *map = lull_gap_map_create(false);

    (void)state;
    lay_out(&plain, 10, 1);
    lull_gap_map_compute_unavailable(map);
    assert_int_equal(lull_gap_map_phase(map), LULL_GAP_MAP_BLIND);
    play(map, &seen);
    assert_int_equal(seen.windows, 0);
    assert_int_equal(seen.gap_count, 30);
    lull_gap_map_destroy(map);
}

/* No process reports computation as requested: only communication is known then. */
static void test_an_answer_is_not_waited_for_for_ever(void **state)
{
    static struct seen seen;
    struct lull_gap_map *map = lull_gap_map_create(false);
    int64_t asked_ns = 0;
    int64_t over_ns = 0;

    (void)state;
    lay_out(&plain, 60, 1);
    for (uint32_t i = 0; i < history.edge_count; i++) {
        lull_gap_map_take_communication(map, &history.edges[i]);
        if (asked_ns == 0 && lull_gap_map_wants_compute(map))
            asked_ns = history.edges[i].time_ns;
        if (over_ns == 0 && asked_ns != 0 && !lull_gap_map_wants_compute(map))
            over_ns = history.edges[i].time_ns;
    }
    assert_true(asked_ns > 0);
    assert_true(over_ns > asked_ns + LULL_GAP_MAP_PATIENCE_NS);
    assert_int_equal(lull_gap_map_phase(map), LULL_GAP_MAP_BLIND);
    play(map, &seen);
    assert_true(seen.gap_count > 0);
    lull_gap_map_destroy(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaps_are_emitted_exactly_where_they_are),
        cmocka_unit_test(test_a_steady_point_delays_gaps),
        cmocka_unit_test(test_a_gap_across_the_windows_end_is_found),
        cmocka_unit_test(test_emitted_gaps_lie_in_true_ones),
        cmocka_unit_test(test_alternating_iterations_count_as_one),
        cmocka_unit_test(test_a_deviation_breaks_and_known_gaps_are_taken_up),
        cmocka_unit_test(test_a_lost_end_is_overcome),
        cmocka_unit_test(test_racing_kernels_tell_the_iteration),
        cmocka_unit_test(test_races_without_gaps_show_the_iteration),
        cmocka_unit_test(test_the_blind_map_passes_kernels_on),
        cmocka_unit_test(test_the_blind_map_learns_from_racing_kernels),
        cmocka_unit_test(test_blindness_found_later),
        cmocka_unit_test(test_an_answer_is_not_waited_for_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
