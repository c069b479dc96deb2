/*
 * Transfers over shared links: known finish times, a naive simulation that shares no code, four
 * runs recorded from SimGrid 3.32, AdaDUAL's contention, and measured concurrent all-reduces.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/core/property.h"
#include "transfers.h"
#include "trace/lines.h"

/* Goes on until all of count have ended; when each did goes to end_s, by number. */
static void run_out(struct lull_transfers *transfers, uint32_t count, double *end_s)
{
    while (count > 0) {
        uint32_t number;

        assert_true(isfinite(lull_transfers_next_s(transfers)));
        assert_int_equal(lull_transfers_advance(transfers, lull_transfers_next_s(transfers)), 0);
        for (; lull_transfers_take(transfers, &number); count--)
            end_s[number] = lull_transfers_now_s(transfers);
    }
    assert_true(isinf(lull_transfers_next_s(transfers)));
}

/* Sizes 1 to n on one link: the i-th ends when i parts of the data left to n - i + 1 have been
 * sent. */
static void test_one_link(void **state)
{
    enum { COUNT = 20 };
    const struct lull_share_link link = {.capacity_mb_s = 4.0};
    const struct lull_share_use use = {0, 1.0};
    struct lull_transfers *transfers = lull_transfers_create(&link, 1, LULL_SHARE_MAX_MIN);
    double end_s[COUNT];
    double expected_s = 0.5;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct lull_network_transfer transfer = {&use, 1, i + 1.0, 0.5, INFINITY};
        uint32_t number;

        assert_int_equal(lull_transfers_start(transfers, &transfer, &number), 0);
        assert_int_equal(number, i);
    }
    run_out(transfers, COUNT, end_s);
    for (uint32_t i = 0; i < COUNT; i++) {
        expected_s += (COUNT - i) / 4.0;
        assert_near(end_s[i], expected_s, 1e-9);
    }
    lull_transfers_destroy(transfers);
}

static void test_refused(void **state)
{
    const struct lull_share_link link = {.capacity_mb_s = 4.0};
    const struct lull_share_use use = {0, 1.0};
    const struct lull_network_transfer wrong[] = {
        {&use, 0, 1.0, 0.0, INFINITY}, {&use, 1, 0.0, 0.0, INFINITY},
        {&use, 1, NAN, 0.0, INFINITY}, {&use, 1, INFINITY, 0.0, INFINITY},
        {&use, 1, 1.0, -1.0, 1.0},     {&use, 1, 1.0, 0.0, 0.0},
    };
    struct lull_transfers *transfers = lull_transfers_create(&link, 1, LULL_SHARE_MAX_MIN);
    uint32_t number;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_true(lull_transfers_start(transfers, &wrong[i], &number) < 0);
    assert_true(isinf(lull_transfers_next_s(transfers)));
    assert_false(lull_transfers_take(transfers, &number));
    lull_transfers_destroy(transfers);
}

/* ---- a naive simulation -----------------------------------------------------------------------
 */

enum { COUNT = 25, LINKS = 5, WAY = 3 };

struct options {
    double begin_s; /* latency included */
    double left_mb;
    uint32_t links[WAY];
    uint32_t link_count;
};

static bool is_on(const struct options *options, uint32_t link)
{
    for (uint32_t i = 0; i < options->link_count; i++)
        if (options->links[i] == link)
            return true;
    return false;
}

/* Max-min: of all links the one with the least per flow that has no rate yet, again and again. */
static void find_rates(const struct options *wishes, const double *capacity, double now_s,
                       double *rates)
{
    for (int i = 0; i < COUNT; i++)
        rates[i] = wishes[i].begin_s <= now_s && wishes[i].left_mb > 0.0 ? -1.0 : 0.0;
    for (;;) {
        double least = INFINITY;
        uint32_t tightest = 0;

        for (uint32_t link = 0; link < LINKS; link++) {
            double left = capacity[link];
            int open = 0;

            for (int i = 0; i < COUNT; i++) {
                if (!is_on(&wishes[i], link))
                    continue;
                open += rates[i] < 0.0;
                left -= rates[i] > 0.0 ? rates[i] : 0.0;
            }
            if (open > 0 && left / open < least) {
                least = left / open;
                tightest = link;
            }
        }
        if (isinf(least))
            return;
        for (int i = 0; i < COUNT; i++)
            if (rates[i] < 0.0 && is_on(&wishes[i], tightest))
                rates[i] = least;
    }
}

static void simulate_naively(struct options *wishes, const double *capacity, double *end_s)
{
    double rates[COUNT];
    double now_s = 0.0;

    for (int left = COUNT; left > 0;) {
        double next_s = INFINITY;
        int first = -1;

        find_rates(wishes, capacity, now_s, rates);
        for (int i = 0; i < COUNT; i++) {
            const double at_s = rates[i] > 0.0              ? now_s + wishes[i].left_mb / rates[i]
                                : wishes[i].begin_s > now_s ? wishes[i].begin_s
                                                            : INFINITY;

            if (at_s < next_s) {
                next_s = at_s;
                first = rates[i] > 0.0 ? i : -1;
            }
        }
        for (int i = 0; i < COUNT; i++)
            wishes[i].left_mb -= rates[i] * (next_s - now_s);
        now_s = next_s;
        if (first < 0)
            continue;
        wishes[first].left_mb = 0.0;
        end_s[first] = now_s;
        left--;
    }
}

static void draw(struct options *options, struct lull_random *random)
{
    options->begin_s = 10.0 * lull_random_uniform(random);
    options->left_mb = 0.5 + 40.0 * lull_random_uniform(random);
    options->link_count = 1 + (uint32_t)lull_random_below(random, WAY);
    for (uint32_t i = 0; i < options->link_count; i++) /* neighbours: all different */
        options->links[i] = (i == 0 ? (uint32_t)lull_random_below(random, LINKS)
                                    : (options->links[i - 1] + 1) % LINKS);
}

static void test_random_networks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct lull_share_link links[LINKS] = {0};
        struct lull_transfers *transfers;
        struct lull_random random;
        struct options wishes[COUNT];
        double capacity[LINKS];
        double expected_s[COUNT];
        double end_s[COUNT];

        lull_random_init(&random, seed);
        for (uint32_t i = 0; i < LINKS; i++)
            links[i].capacity_mb_s = capacity[i] = 1.0 + 30.0 * lull_random_uniform(&random);
        transfers = lull_transfers_create(links, LINKS, LULL_SHARE_MAX_MIN);
        for (uint32_t i = 0; i < COUNT; i++) {
            struct lull_share_use uses[WAY];
            uint32_t number;

            draw(&wishes[i], &random);
            for (uint32_t k = 0; k < wishes[i].link_count; k++)
                uses[k] = (struct lull_share_use){wishes[i].links[k], 1.0};
            assert_int_equal(lull_transfers_start(transfers,
                                                  &(struct lull_network_transfer){
                                                      uses, wishes[i].link_count, wishes[i].left_mb,
                                                      wishes[i].begin_s, INFINITY},
                                                  &number),
                             0);
            assert_int_equal(number, i);
        }
        run_out(transfers, COUNT, end_s);
        simulate_naively(wishes, capacity, expected_s);
        for (int i = 0; i < COUNT; i++)
            holds(fabs(end_s[i] - expected_s[i]) <= 1e-8 * expected_s[i], seed);
        lull_transfers_destroy(transfers);
    }
}

/* ---- runs recorded from SimGrid ---------------------------------------------------------------
 */

enum { HOSTS = 8, ITERATIONS = 1000 };

/*
 * 8 hosts in a ring, 1000 times: compute 1e12 flop at 312e12 flop/s, then send 1e8 bytes to the
 * next and receive from the one before, over links of 25 GB/s and 2 us of their own, which both
 * directions share, and a backbone of 5 us. SimGrid's models scale bandwidth and latency, and let a
 * reverse flow of 5 % load the links, too.
 */
static const struct recorded {
    double bandwidth_ratio;
    double latency_ratio;
    double reverse;
    double makespan_s;
    double energy_j;
} recorded[] = {
    {0.97, 13.01, 0.05, 11.982012, 14469.3145},
    {0.97, 13.01, 0.00, 11.569641, 14271.3763},
    {1.00, 1.00, 0.05, 11.614128, 14292.7303},
    {1.00, 1.00, 0.00, 11.214128, 14100.7303},
};

static double exchange_s(struct lull_transfers *transfers, const struct recorded *row)
{
    const double begin_s = lull_transfers_now_s(transfers);
    double end_s[HOSTS];
    double last_s = 0.0;

    for (uint32_t host = 0; host < HOSTS; host++) {
        const struct lull_share_use uses[] = {{host, 1.0 + row->reverse},
                                              {(host + 1) % HOSTS, 1.0 + row->reverse}};
        const struct lull_network_transfer transfer = {uses, 2, 100.0, row->latency_ratio * 9e-6,
                                                       INFINITY};
        uint32_t number;

        assert_int_equal(lull_transfers_start(transfers, &transfer, &number), 0);
    }
    run_out(transfers, HOSTS, end_s);
    for (int host = 0; host < HOSTS; host++)
        last_s = fmax(last_s, end_s[host]);
    return last_s - begin_s;
}

static void test_simgrid(void **state)
{
    const double compute_s = 1e12 / 312e12;

    (void)state;
    for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++) {
        const struct recorded *row = &recorded[i];
        struct lull_share_link links[HOSTS] = {0};
        struct lull_transfers *transfers;
        double communication_s = 0.0;
        double makespan_s;

        for (int host = 0; host < HOSTS; host++)
            links[host].capacity_mb_s = row->bandwidth_ratio * 25e3;
        transfers = lull_transfers_create(links, HOSTS, LULL_SHARE_MAX_MIN);
        for (int iteration = 0; iteration < ITERATIONS; iteration++) {
            lull_transfers_advance(transfers, lull_transfers_now_s(transfers) + compute_s);
            communication_s += exchange_s(transfers, row);
        }
        makespan_s = ITERATIONS * compute_s + communication_s;
        assert_near(lull_transfers_now_s(transfers), makespan_s, 1e-9);
        assert_near(communication_s,
                    ITERATIONS * ((2.0 + 2.0 * row->reverse) * 1e8 / (row->bandwidth_ratio * 25e9) +
                                  row->latency_ratio * 9e-6),
                    1e-9);
        assert_near(makespan_s, row->makespan_s, 0.6e-6);
        assert_near(HOSTS * (400.0 * ITERATIONS * compute_s + 60.0 * communication_s),
                    row->energy_j, 0.6e-4);
        lull_transfers_destroy(transfers);
    }
}

/* ---- measured all-reduces ---------------------------------------------------------------------
 */

enum { MAX_ROWS = 64 };

struct measured {
    double at_once;
    double size_mib;
    double time_ms;
};

static size_t read_measured(const char *name, struct measured *rows)
{
    struct lull_lines *lines = NULL;
    char path[512];
    char *rest;
    size_t count = 0;

    snprintf(path, sizeof(path), LULL_SCHED_DATA "/network_contention/%s", name);
    assert_int_equal(lull_lines_open(path, &lines, NULL), 0);
    assert_int_equal(lull_lines_next(lines, &rest, NULL), 1);
    while (lull_lines_next(lines, &rest, NULL) == 1 && count < MAX_ROWS) {
        rows[count].at_once = atof(lull_lines_cell(&rest));
        rows[count].size_mib = atof(lull_lines_cell(&rest)) / 1048576.0;
        rows[count++].time_ms = atof(lull_lines_cell(&rest)) * 1e-3;
    }
    lull_lines_close(lines);
    return count;
}

/* time = a + b k M + eta (k - 1) M by least squares of relative errors; with two terms eta is 0. */
static void fit(const struct measured *rows, size_t count, int terms, double *found)
{
    double sums[3][4] = {{0}};

    for (size_t i = 0; i < count; i++) {
        const double x[] = {1.0, rows[i].at_once * rows[i].size_mib,
                            (rows[i].at_once - 1.0) * rows[i].size_mib, rows[i].time_ms};

        for (int r = 0; r < terms; r++)
            for (int c = 0; c < 4; c++)
                sums[r][c] += x[r] * x[c] / (rows[i].time_ms * rows[i].time_ms);
    }
    for (int r = 0; r < terms; r++)
        for (int other = 0; other < terms; other++) {
            const double factor = sums[other][r] / sums[r][r];

            for (int c = 0; c < 4 && other != r; c++)
                sums[other][c] -= factor * sums[r][c];
        }
    found[2] = 0.0;
    for (int r = 0; r < terms; r++)
        found[r] = sums[r][3] / sums[r][r];
}

/* All of a row at once on a link with these parameters; the mean relative error of the rows. */
static double simulate_rows(const struct measured *rows, size_t count, const double *found)
{
    const struct lull_share_link link = {.capacity_mb_s = 1e3 / found[1],
                                         .penalty_s_per_mb = found[2] * 1e-3};
    const struct lull_share_use use = {0, 1.0};
    double error = 0.0;

    for (size_t i = 0; i < count; i++) {
        struct lull_transfers *transfers = lull_transfers_create(&link, 1, LULL_SHARE_MAX_MIN);
        const struct lull_network_transfer transfer = {&use, 1, rows[i].size_mib, found[0] * 1e-3,
                                                       INFINITY};
        double end_s[16];
        uint32_t number;

        for (int k = 0; k < (int)rows[i].at_once; k++)
            assert_int_equal(lull_transfers_start(transfers, &transfer, &number), 0);
        run_out(transfers, (uint32_t)rows[i].at_once, end_s);
        error += fabs(end_s[0] * 1e3 / rows[i].time_ms - 1.0) / (double)count;
        lull_transfers_destroy(transfers);
    }
    return error;
}

/* Up to 16 ring all-reduces at once over 1 Gbit/s Ethernet. */
static void test_measured(void **state)
{
    static const struct {
        const char *name;
        int terms;
        size_t rows;
        double most; /* mean relative error */
    } cases[] = {{"alpha-beta.csv", 2, 10, 0.04},
                 {"results_avg.csv", 2, 48, 0.03},
                 {"results.csv", 3, 48, 0.14}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct measured rows[MAX_ROWS];
        const size_t count = read_measured(cases[i].name, rows);
        double found[3];
        double error;

        assert_int_equal(count, cases[i].rows);
        fit(rows, count, cases[i].terms, found);
        error = simulate_rows(rows, count, found);
        print_message("%s: %.1f ms + %.2f ms a MiB, eta %.2f; off by %.1f %% on average\n",
                      cases[i].name, found[0], found[1], found[2], 100.0 * error);
        assert_true(error < cases[i].most);
    }
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_one_link),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_random_networks),
        cmocka_unit_test(test_simgrid),
    };
    const struct CMUnitTest measured[] = {cmocka_unit_test(test_measured)};
    const int rc = cmocka_run_group_tests(own, NULL, NULL);

    if (rc != 0 || access(LULL_SCHED_DATA "/network_contention/results.csv", R_OK) == 0)
        return rc != 0 ? rc : cmocka_run_group_tests(measured, NULL, NULL);
    puts("skipped: no measured transfers at " LULL_SCHED_DATA);
    return 77;
}
