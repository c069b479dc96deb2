/*
 * Slack against ranks of other nodes: the reports between nodes, over a network that delays,
 * loses, repeats and reorders, against an oracle that sees all ranks of a synchronous job in
 * virtual time. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/section/arrival.h"
#include "core/section/slack.h"
#include "core/stats/random.h"

enum { NODES = 3, EACH = 2, RANKS = NODES * EACH, CLOCKS = 81, MEETINGS = 4, KINDS = 2 };
enum { UNDER_WAY = 64, SEEN = 64 };

static const int64_t collective_ns = 5000000;
static const double busy_ms = 120.0; /* so that each iteration is reported */
/* Slowdown of computation by one point. The slack assumes 1.14 % at first. */
static const double point_cost = 0.0105;

/* Time of each rank in each collective of an iteration. */
struct truth {
    double length_ms[MEETINGS][RANKS];
};

struct word {
    uint64_t arrives; /* iteration */
    uint32_t to;
    uint32_t from;
    struct lull_arrival arrival;
};

struct job {
    struct lull_slack slacks[NODES];
    struct lull_arrivals *arrivals[NODES];
    struct lull_random random;
    double factors[RANKS];            /* of each rank's computation */
    double extra_ms[MEETINGS][RANKS]; /* computation before a collective, on top */
    uint32_t common[NODES];           /* point at which each node runs, but for slack */
    bool waits_at_once; /* ranks compute on only after each collective, not after the last */
    double jitter;
    uint64_t longest_way; /* of a word, iterations */
    double lost;          /* share of the words */
    int64_t now_ns;
    uint64_t iteration;
    double iteration_ms; /* of the last one */
    uint64_t answers;    /* iterations that were found */
    uint32_t word_count;
    struct word words[UNDER_WAY];
    struct truth truths[SEEN];
};

static struct lull_slack *slack_of(struct job *job, uint32_t rank)
{
    return &job->slacks[rank / EACH];
}

static uint32_t points_of(struct job *job, uint32_t rank)
{
    return lull_slack_points(slack_of(job, rank), rank % EACH);
}

static void init(struct job *job, double jitter)
{
    static const uint32_t clocks[EACH] = {CLOCKS, CLOCKS};

    memset(job, 0, sizeof(*job));
    job->jitter = jitter;
    job->now_ns = 1000;
    lull_random_init(&job->random, 7);
    for (uint32_t i = 0; i < RANKS; i++)
        job->factors[i] = 1.0;
    for (uint32_t i = 0; i < NODES; i++) {
        lull_slack_init(&job->slacks[i], EACH, clocks);
        job->arrivals[i] = lull_arrivals_create(i, NODES);
        assert_non_null(job->arrivals[i]);
    }
}

static void destroy(struct job *job)
{
    for (uint32_t i = 0; i < NODES; i++)
        lull_arrivals_destroy(job->arrivals[i]);
}

/* ---- the network ------------------------------------------------------------------------- */

static void send(struct job *job, uint32_t from, const struct lull_arrival *arrival)
{
    for (uint32_t to = 0; to < NODES; to++) {
        const uint64_t copies = lull_random_uniform(&job->random) < job->lost
                                    ? 0
                                    : 1 + lull_random_below(&job->random, 2);

        for (uint64_t i = 0; i < copies && to != from && job->word_count < UNDER_WAY; i++)
            job->words[job->word_count++] = (struct word){
                .arrives = job->iteration + lull_random_below(&job->random, job->longest_way + 1),
                .to = to,
                .from = from,
                .arrival = *arrival,
            };
    }
}

/* ---- the oracle -------------------------------------------------------------------------- */

static double total_ms(const struct truth *truth, uint32_t rank)
{
    double sum_ms = 0.0;

    for (uint32_t k = 0; k < MEETINGS; k++)
        sum_ms += truth->length_ms[k][rank];
    return sum_ms;
}

/* Returns the longest wait of a rank for the last one, over all collectives. */
static double longest_wait_ms(const struct truth *truth, uint32_t rank)
{
    double longest_ms = 0.0;

    for (uint32_t k = 0; k < MEETINGS; k++)
        for (uint32_t i = 0; i < RANKS; i++)
            longest_ms = fmax(longest_ms, truth->length_ms[k][rank] - truth->length_ms[k][i]);
    return longest_ms;
}

/* Returns what the rank may take for its wait, by the reports of all nodes. */
static double told_wait_ms(const struct truth *truth, uint32_t rank,
                           const struct lull_arrival *latest)
{
    double longest_ms = 0.0;

    for (uint32_t kind = 0; kind < latest->kind_count; kind++) {
        double max_ms = 0.0;
        /* The signature does not identify the kind of collectives here,
         * so the worst fitting one is used. */
        for (uint32_t k = 0; k < MEETINGS; k++)
            max_ms = fmax(max_ms, truth->length_ms[k][rank]);
        longest_ms = fmax(longest_ms, max_ms - latest->kinds[kind].longest_us * 1e-3);
    }
    return fmin(longest_ms, total_ms(truth, rank) - latest->total_us * 1e-3);
}

/* No rank is reported to have waited longer than it has, and one is reported not to have waited. */
static void check_latest(struct job *job, const struct lull_arrival *latest)
{
    const struct truth *truth = &job->truths[latest->iteration % SEEN];
    double min_ms = INFINITY;
    double total_least_ms = INFINITY;

    assert_true(job->iteration - latest->iteration < SEEN);
    assert_int_equal(latest->collectives, MEETINGS);
    for (uint32_t i = 0; i < RANKS; i++) {
        const double told_ms = told_wait_ms(truth, i, latest);

        assert_true(told_ms <= longest_wait_ms(truth, i) + 1e-3);
        min_ms = fmin(min_ms, told_ms);
        total_least_ms = fmin(total_least_ms, total_ms(truth, i));
    }
    assert_true(min_ms <= 0.0);
    assert_true(latest->total_us * 1e-3 >= total_least_ms - 1e-6);
    assert_true(latest->total_us * 1e-3 <= total_least_ms + 2e-3);
}

/* ---- the job ----------------------------------------------------------------------------- */

static struct lull_call edge_at(int64_t time_ns, uint32_t collective, bool begin)
{
    return (struct lull_call){.time_ns = time_ns,
                              .bytes = 1000,
                              .ranks = RANKS,
                              .peer = -1,
                              .operation = (uint16_t)(1 + collective % KINDS),
                              .begin = begin};
}

static void meet(struct job *job, uint32_t collective, int64_t ready_ns[RANKS])
{
    struct truth *truth = &job->truths[job->iteration % SEEN];
    int64_t end_ns = 0;

    for (uint32_t i = 0; i < RANKS; i++) {
        const struct lull_call begin = edge_at(ready_ns[i], collective, true);

        lull_slack_take(slack_of(job, i), i % EACH, &begin);
        end_ns = ready_ns[i] > end_ns ? ready_ns[i] : end_ns;
    }
    end_ns += collective_ns;
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct lull_call end = edge_at(end_ns, collective, false);

        lull_slack_take(slack_of(job, i), i % EACH, &end);
        truth->length_ms[collective][i] = (double)(end_ns - ready_ns[i]) * 1e-6;
    }
    job->now_ns = end_ns;
}

static void compute(struct job *job, uint32_t collective, int64_t ready_ns[RANKS],
                    const uint32_t points[RANKS])
{
    for (uint32_t i = 0; i < RANKS; i++) {
        const double noise = 1.0 + lull_random_normal(&job->random, 0.0, job->jitter);

        ready_ns[i] +=
            (int64_t)((busy_ms / MEETINGS * job->factors[i] + job->extra_ms[collective][i]) *
                      noise * (1.0 + point_cost * points[i]) * 1e6);
    }
}

/* Nodes say what they have to, and take what arrives, in any order. */
static void talk(struct job *job)
{
    struct lull_arrival arrival;

    for (uint32_t i = 0; i < NODES; i++)
        if (lull_slack_report(&job->slacks[i], &arrival)) {
            lull_arrivals_take(job->arrivals[i], i, 1, &arrival);
            send(job, i, &arrival);
        }
    for (uint32_t i = 0; i < job->word_count;) {
        const struct word word = job->words[i];

        if (word.arrives > job->iteration) {
            i++;
            continue;
        }
        lull_arrivals_take(job->arrivals[word.to], word.from, 1, &word.arrival);
        job->words[i] = job->words[--job->word_count];
    }
    for (uint32_t i = 0; i < NODES; i++)
        while (lull_arrivals_find(job->arrivals[i], &arrival)) {
            check_latest(job, &arrival);
            lull_slack_receive(&job->slacks[i], &arrival);
            job->answers++;
        }
}

static void iterate(struct job *job, uint32_t iterations)
{
    for (uint32_t n = 0; n < iterations; n++) {
        const int64_t begin_ns = job->now_ns;
        int64_t ready_ns[RANKS];
        uint32_t points[RANKS];

        for (uint32_t i = 0; i < RANKS; i++) {
            points[i] = points_of(job, i) + job->common[i / EACH];
            lull_slack_begin_iteration(slack_of(job, i), i % EACH, points[i], true);
            lull_slack_take_switch(slack_of(job, i), i % EACH, points[i]);
            ready_ns[i] = begin_ns;
        }
        for (uint32_t k = 0; k < MEETINGS; k++) {
            compute(job, k, ready_ns, points);
            meet(job, k, ready_ns);
            for (uint32_t i = 0; i < RANKS && job->waits_at_once; i++)
                ready_ns[i] = job->now_ns;
        }
        job->iteration_ms = (double)(job->now_ns - begin_ns) * 1e-6;
        for (uint32_t i = 0; i < RANKS; i++)
            lull_slack_end_iteration(slack_of(job, i), i % EACH, job->iteration, job->iteration_ms);
        talk(job);
        job->iteration++;
    }
}

static double mean_ms(struct job *job, uint32_t iterations)
{
    double sum_ms = 0.0;

    for (uint32_t i = 0; i < iterations; i++) {
        iterate(job, 1);
        sum_ms += job->iteration_ms;
    }
    return sum_ms / iterations;
}

static uint32_t least_points(struct job *job, uint32_t but)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < RANKS; i++)
        if (i != but && points_of(job, i) < least)
            least = points_of(job, i);
    return least;
}

static uint32_t most_points(struct job *job)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < RANKS; i++)
        if (points_of(job, i) > most)
            most = points_of(job, i);
    return most;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_ranks_fill_their_slack_for_one_of_another_node(void **state)
{
    (void)state;
    for (uint64_t way = 0; way <= 3; way++) {
        struct job job;
        double before_ms;

        init(&job, 0.001);
        job.longest_way = way;
        job.factors[3] = 1.1;
        before_ms = mean_ms(&job, 5);
        iterate(&job, 80);
        assert_true(mean_ms(&job, 100) < 1.001 * before_ms);
        assert_in_range(least_points(&job, 3), 7, 9);
        assert_in_range(most_points(&job), 7, 9);
        assert_int_equal(points_of(&job, 3), 0);
        destroy(&job);
    }
}

/* Whatever the network does, nodes do not lower against each other: with even ranks no GPU is
 * lowered, and with a slower one the job does not become slower. */
static void test_nodes_do_not_lower_against_each_other(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        struct job job;
        double before_ms;

        init(&job, 0.002 * (seed % 4));
        lull_random_init(&job.random, seed);
        job.longest_way = seed % 7;
        job.lost = 0.1 * (seed % 5);
        before_ms = mean_ms(&job, 60);
        assert_int_equal(most_points(&job), 0);
        job.factors[seed % RANKS] = 1.05;
        job.factors[(seed + 2) % RANKS] = 1.02;
        before_ms = mean_ms(&job, 4);
        assert_true(mean_ms(&job, 150) < 1.01 * before_ms);
        assert_int_equal(points_of(&job, seed % RANKS), 0);
        assert_true(job.answers > 0);
        destroy(&job);
    }
}

/* Clocks lowered because of other nodes are raised with the message about the
 * iteration in which the rank recovered, and those of its own node at once. */
static void test_a_recovered_rank_brings_all_nodes_up(void **state)
{
    (void)state;
    for (uint64_t way = 0; way <= 3; way++) {
        struct job job;

        init(&job, 0.001);
        job.longest_way = way;
        job.factors[3] = 1.1;
        iterate(&job, 100);
        assert_in_range(least_points(&job, 3), 7, 9);
        job.factors[3] = 1.0;
        iterate(&job, 1 + (uint32_t)way);
        assert_int_equal(most_points(&job), 0);
        /* It had not been lowered too far, so the next time as much may be tried. */
        assert_int_equal(job.slacks[0].gpus[0].tried_most, job.slacks[0].gpus[0].most);
        /* As after any change, it has to wait for a while in a row first. */
        job.factors[3] = 1.1;
        iterate(&job, 80);
        assert_in_range(least_points(&job, 3), 7, 9);
        destroy(&job);
    }
}

/* Words that do not come any more are no reason to stay low. */
static void test_silence_is_no_slack(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.001);
    job.factors[3] = 1.1;
    iterate(&job, 100);
    assert_in_range(least_points(&job, 3), 7, 9);
    job.lost = 1.0;
    iterate(&job, LULL_SLACK_STALE - 1);
    assert_true(least_points(&job, 3) > 0);
    iterate(&job, 2);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i / EACH != 3 / EACH)
            assert_int_equal(points_of(&job, i), 0);
    /* Its neighbour sees for itself. */
    assert_true(points_of(&job, 2) > 0);
    iterate(&job, 60);
    assert_int_equal(points_of(&job, 0), 0);
    destroy(&job);
}

/* If the slow rank recovers in part, the others are raised step by step. */
static void test_what_is_left_of_a_wait_is_kept(void **state)
{
    struct job job;
    double after_ms;

    (void)state;
    init(&job, 0.001);
    job.factors[3] = 1.07;
    after_ms = mean_ms(&job, 4);
    job.factors[3] = 1.1;
    iterate(&job, 100);
    assert_in_range(least_points(&job, 3), 7, 9);
    job.factors[3] = 1.07;
    iterate(&job, 40);
    assert_in_range(most_points(&job), 1, 7);
    assert_true(mean_ms(&job, 20) < 1.004 * after_ms);
    destroy(&job);
}

/* Ranks of two nodes wait for each other, each in a collective of its own: nothing is to be had. */
static void test_waits_for_each_other_are_no_slack(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.0);
    job.waits_at_once = true;
    for (uint32_t i = 0; i < RANKS; i++)
        job.extra_ms[i / EACH == 0 ? 0 : 1][i] = 10.0;
    for (uint32_t n = 0; n < 60; n++) {
        iterate(&job, 1);
        for (uint32_t i = 0; i < RANKS; i++)
            assert_false(slack_of(&job, i)->gpus[i % EACH].rests_on_nodes);
    }
    destroy(&job);
}

/* A node that merely tries a lower clock is no straggler; one that has tried it, is. */
static void test_what_another_node_tries_is_no_slack(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.001);
    job.common[1] = 8;
    iterate(&job, 60);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(points_of(&job, i), 0);
    job.common[1] = 0;
    job.factors[3] = 1.1;
    iterate(&job, 60);
    assert_in_range(least_points(&job, 3), 7, 9);
    /* Points that rest on the slow rank are neither lowered further nor given up meanwhile. */
    job.common[1] = 8;
    iterate(&job, 3 * LULL_SLACK_STALE);
    assert_in_range(least_points(&job, 3), 7, 9);
    assert_in_range(most_points(&job), 7, 10);
    destroy(&job);
}

/* A rank that is at the common point waits for its neighbour that is not; both wait for another
 * node. */
static void test_a_neighbour_that_waits_raises_nothing(void **state)
{
    struct job job;

    (void)state;
    init(&job, 0.001);
    job.factors[3] = 1.1;
    iterate(&job, 100);
    job.slacks[0].gpus[1].points = 0;
    iterate(&job, 4);
    assert_in_range(points_of(&job, 0), 7, 9);
    assert_int_equal(points_of(&job, 1), 0);
    destroy(&job);
}

/* Reports of an iteration are not used for a GPU whose points
 * have changed since, or that had not reached them. */
static void test_only_what_ran_at_the_present_points_counts(void **state)
{
    static const uint32_t clocks[EACH] = {CLOCKS, CLOCKS};

    (void)state;
    for (uint32_t changed = 0; changed < 3; changed++) {
        struct lull_slack slack;
        struct lull_arrival arrival;

        lull_slack_init(&slack, EACH, clocks);
        for (uint64_t n = 0; n < LULL_SLACK_WINDOW; n++) {
            for (uint32_t i = 0; i < EACH; i++) {
                struct lull_call edge = edge_at((int64_t)n * 100000000, 0, true);

                lull_slack_begin_iteration(&slack, i, 0, true);
                lull_slack_take(&slack, i, &edge);
                edge.begin = false;
                edge.time_ns += 20000000;
                lull_slack_take(&slack, i, &edge);
            }
            if (changed == 1)
                lull_slack_begin_iteration(&slack, 0, 3, true);
            for (uint32_t i = 0; i < EACH; i++)
                lull_slack_end_iteration(&slack, i, n, 100.0);
        }
        if (changed == 2)
            slack.gpus[0].era++;
        for (uint64_t n = 0; n < LULL_SLACK_WINDOW; n++) {
            arrival = (struct lull_arrival){
                .iteration = n, .collectives = 1, .common_us = 5000, .kind_count = 1};
            arrival.total_us = 5000;
            arrival.kinds[0] = (struct lull_arrival_kind){slack.kinds[0].signature, 5000, 5000};
            assert_int_equal(lull_slack_receive(&slack, &arrival), 0);
        }
        assert_true(lull_slack_points(&slack, 1) > 0);
        assert_true((lull_slack_points(&slack, 0) > 0) == (changed == 0));
    }
}

static struct lull_arrival word_of(uint64_t iteration, uint32_t total_us)
{
    return (struct lull_arrival){
        .iteration = iteration,
        .collectives = 2,
        .total_us = total_us,
        .common_us = LULL_ARRIVAL_NONE,
        .kind_count = 1,
        .kinds = {{.signature = 5, .longest_us = total_us / 2, .common_us = total_us}},
    };
}

static void say(struct lull_arrivals *arrivals, uint32_t node, uint64_t incarnation,
                struct lull_arrival word)
{
    lull_arrivals_take(arrivals, node, incarnation, &word);
}

/* Each iteration is found once, in order, when all have reported it with the same collectives. */
static void test_what_all_have_told_is_found_once(void **state)
{
    struct lull_arrivals *arrivals = lull_arrivals_create(0, 2);
    struct lull_arrival latest;
    struct lull_arrival other = word_of(4, 50);

    (void)state;
    say(arrivals, 0, 1, word_of(3, 100));
    say(arrivals, 0, 1, word_of(4, 100));
    assert_false(lull_arrivals_find(arrivals, &latest));
    say(arrivals, 1, 1, word_of(4, 90));
    say(arrivals, 1, 1, word_of(3, 110));
    assert_true(lull_arrivals_find(arrivals, &latest));
    assert_int_equal(latest.iteration, 3);
    assert_int_equal(latest.total_us, 100);
    assert_int_equal(latest.kinds[0].longest_us, 50);
    assert_true(lull_arrivals_find(arrivals, &latest));
    assert_int_equal(latest.iteration, 4);
    assert_int_equal(latest.total_us, 90);
    assert_int_equal(latest.kinds[0].common_us, 90);
    say(arrivals, 1, 1, word_of(3, 10));
    assert_false(lull_arrivals_find(arrivals, &latest));
    /* Other collectives, other kinds. */
    other.iteration = 5;
    other.collectives = 3;
    say(arrivals, 0, 1, word_of(5, 100));
    say(arrivals, 1, 1, other);
    assert_false(lull_arrivals_find(arrivals, &latest));
    other = word_of(6, 50);
    other.kinds[0].signature = 6;
    say(arrivals, 0, 1, word_of(6, 100));
    say(arrivals, 1, 1, other);
    assert_true(lull_arrivals_find(arrivals, &latest));
    assert_int_equal(latest.kind_count, 0);
    lull_arrivals_destroy(arrivals);
}

/* A governor that has started again, or a node that counts again, says nothing of iterations that
 * had the same numbers before. */
static void test_what_was_said_before_is_forgotten(void **state)
{
    struct lull_arrivals *arrivals = lull_arrivals_create(0, 2);
    struct lull_arrival latest;

    (void)state;
    say(arrivals, 1, 7, word_of(3, 100));
    say(arrivals, 1, 8, word_of(9, 100));
    say(arrivals, 0, 1, word_of(3, 100));
    assert_false(lull_arrivals_find(arrivals, &latest));
    say(arrivals, 1, 7, word_of(3, 100));
    assert_false(lull_arrivals_find(arrivals, &latest));
    say(arrivals, 1, 8, word_of(2, 100));
    say(arrivals, 0, 1, word_of(2, 100));
    assert_false(lull_arrivals_find(arrivals, &latest));
    say(arrivals, 1, 8, word_of(2, 80));
    assert_true(lull_arrivals_find(arrivals, &latest));
    assert_int_equal(latest.total_us, 80);
    /* One that is not a node of the job, and one with an empty report. */
    say(arrivals, 2, 1, word_of(4, 10));
    say(arrivals, 1, 8, (struct lull_arrival){.iteration = 4});
    say(arrivals, 0, 1, word_of(4, 100));
    assert_false(lull_arrivals_find(arrivals, &latest));
    lull_arrivals_destroy(arrivals);
}

/* Iterations of 30 ms are reported at numbers that a power of two divides. */
static void test_short_iterations_are_told_of_rarely(void **state)
{
    static const uint32_t clocks[EACH] = {CLOCKS, CLOCKS};
    struct lull_slack slack;
    struct lull_arrival arrival;
    uint32_t reported = 0;

    (void)state;
    lull_slack_init(&slack, EACH, clocks);
    for (uint64_t n = 0; n < 64; n++) {
        for (uint32_t i = 0; i < EACH; i++) {
            struct lull_call edge = edge_at((int64_t)n * 30000000, 0, true);

            lull_slack_begin_iteration(&slack, i, 0, true);
            lull_slack_take(&slack, i, &edge);
            edge.begin = false;
            edge.time_ns += 1000000;
            lull_slack_take(&slack, i, &edge);
        }
        for (uint32_t i = 0; i < EACH; i++)
            lull_slack_end_iteration(&slack, i, n, 30.0);
        if (!lull_slack_report(&slack, &arrival))
            continue;
        reported++;
        assert_true(n < 4 || arrival.iteration % 4 == 0);
        assert_int_equal(arrival.total_us, 1000);
        assert_int_equal(arrival.common_us, 1000);
    }
    assert_in_range(reported, 14, 18);
}

/* In collectives of this node's ranks alone no rank waits for another node. */
static void test_what_a_node_does_by_itself_is_not_told(void **state)
{
    static const uint32_t clocks[EACH] = {CLOCKS, CLOCKS};
    struct lull_slack slack;
    struct lull_arrival arrival;

    (void)state;
    lull_slack_init(&slack, EACH, clocks);
    for (uint64_t n = 0; n < 4; n++) {
        for (uint32_t i = 0; i < EACH; i++) {
            struct lull_call edge = edge_at((int64_t)n * 200000000, 0, true);

            edge.ranks = EACH;
            lull_slack_begin_iteration(&slack, i, 0, true);
            lull_slack_take(&slack, i, &edge);
            edge.begin = false;
            edge.time_ns += 1000000;
            lull_slack_take(&slack, i, &edge);
        }
        for (uint32_t i = 0; i < EACH; i++)
            lull_slack_end_iteration(&slack, i, n, 200.0);
        assert_true(n == 0 || !lull_slack_report(&slack, &arrival));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_fill_their_slack_for_one_of_another_node),
        cmocka_unit_test(test_nodes_do_not_lower_against_each_other),
        cmocka_unit_test(test_a_recovered_rank_brings_all_nodes_up),
        cmocka_unit_test(test_silence_is_no_slack),
        cmocka_unit_test(test_what_is_left_of_a_wait_is_kept),
        cmocka_unit_test(test_waits_for_each_other_are_no_slack),
        cmocka_unit_test(test_what_another_node_tries_is_no_slack),
        cmocka_unit_test(test_a_neighbour_that_waits_raises_nothing),
        cmocka_unit_test(test_only_what_ran_at_the_present_points_counts),
        cmocka_unit_test(test_what_a_node_does_by_itself_is_not_told),
        cmocka_unit_test(test_what_all_have_told_is_found_once),
        cmocka_unit_test(test_what_was_said_before_is_forgotten),
        cmocka_unit_test(test_short_iterations_are_told_of_rarely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
