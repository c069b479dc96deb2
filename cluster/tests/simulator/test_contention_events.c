/*
 * Paces of jobs that share links (cluster/core/network/contention.h) against their iterations run
 * one by one: each computes for a while, a little longer or shorter each time, then sends, and
 * transfers share links max-min fairly or by AdaDUAL's rule (transfers.h, whose oracle is SimGrid).
 *
 * Usage: test_contention_events [table]. SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/core/property.h"
#include "cluster/core/network/contention.h"
#include "transfers.h"

enum { NODES = 8, NODES_OF_RACK = 4, RACKS = 2, JOBS = 6, SHARES = 4, CASES = 40 };

static const double link_mb_s = 1000.0;
static const double warm_s = 100.0;
static const double end_s = 1100.0;
/* Computation varies by so much of its mean. */
static const double jitter = 0.2;

struct job {
    struct lull_cluster_share shares[SHARES];
    uint32_t count;
    double compute_s;
    double send_mb;
    double alone_s; /* of an iteration */

    bool sends;
    double ready_s; /* computes until */
    uint32_t transfer;
    uint32_t iterations; /* since warm_s */
    double first_s;      /* ends of the first and the last of them */
    double last_s;
};

struct network {
    struct lull_cluster_type type;
    struct lull_cluster_node nodes[NODES];
    struct lull_cluster cluster;
    struct lull_contention_rules rules;
    struct job jobs[JOBS];
    uint32_t job_count;
};

static double between(struct lull_random *random, double least, double most)
{
    return least + (most - least) * lull_random_uniform(random);
}

/* On nodes next to each other in a random order, so that many meet. */
static void draw_job(struct job *job, double max_ratio, struct lull_random *random)
{
    const uint32_t first = (uint32_t)lull_random_below(random, NODES);
    const uint32_t step = 1 + 2 * (uint32_t)lull_random_below(random, 2);
    const double exposed_ratio = between(random, 0.05, max_ratio);

    *job = (struct job){.count = 2 + (uint32_t)lull_random_below(random, SHARES - 1)};
    for (uint32_t i = 0; i < job->count; i++)
        job->shares[i] = (struct lull_cluster_share){(first + i * step) % NODES, 1};
    job->alone_s = between(random, 0.2, 1.0);
    job->compute_s = job->alone_s * (1.0 - exposed_ratio);
    job->send_mb = job->alone_s * exposed_ratio * link_mb_s;
}

static void draw(struct network *it, double uplink_links, double penalty_ratio, double max_ratio,
                 struct lull_random *random)
{
    memset(it, 0, sizeof(*it));
    for (uint32_t i = 0; i < NODES; i++)
        it->nodes[i] = (struct lull_cluster_node){.gpus = 8, .rack = i / NODES_OF_RACK};
    it->cluster = (struct lull_cluster){&it->type, 1, it->nodes, NODES, 1};
    it->rules = (struct lull_contention_rules){
        .shares_links = true, .uplink_links = uplink_links, .penalty_ratio = penalty_ratio};
    it->job_count = 2 + (uint32_t)lull_random_below(random, JOBS - 1);
    for (uint32_t i = 0; i < it->job_count; i++)
        draw_job(&it->jobs[i], max_ratio, random);
}

/* ---- iteration by iteration --------------------------------------------------------------- */

static struct lull_transfers *make_links(const struct network *it)
{
    struct lull_share_link links[NODES + RACKS];

    for (uint32_t i = 0; i < NODES + RACKS; i++) {
        links[i].capacity_mb_s = i < NODES || it->rules.uplink_links == 0.0
                                     ? link_mb_s
                                     : link_mb_s * it->rules.uplink_links;
        links[i].penalty_s_per_mb = it->rules.penalty_ratio / links[i].capacity_mb_s;
    }
    return lull_transfers_create(links, NODES + RACKS,
                                 it->rules.penalty_ratio > 0.0 ? LULL_SHARE_BUSIEST
                                                               : LULL_SHARE_MAX_MIN);
}

static uint32_t uses_of(const struct network *it, const struct job *job,
                        struct lull_share_use *uses)
{
    bool seen[RACKS] = {false};
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->count; i++) {
        uses[count++] = (struct lull_share_use){job->shares[i].node, 1.0};
        seen[it->nodes[job->shares[i].node].rack] = true;
    }
    for (uint32_t rack = 0; rack < RACKS; rack++)
        if (it->rules.uplink_links > 0.0 && seen[0] && seen[1])
            uses[count++] = (struct lull_share_use){NODES + rack, 1.0};
    return count;
}

static void send(const struct network *it, struct lull_transfers *transfers, struct job *job)
{
    struct lull_share_use uses[SHARES + RACKS];
    const struct lull_network_transfer transfer = {
        .uses = uses,
        .use_count = uses_of(it, job, uses),
        .size_mb = job->send_mb,
        .most_mb_s = link_mb_s,
    };

    assert_int_equal(lull_transfers_start(transfers, &transfer, &job->transfer), 0);
    job->sends = true;
}

static void compute(struct job *job, double now_s, struct lull_random *random)
{
    job->sends = false;
    job->ready_s = now_s + job->compute_s * between(random, 1.0 - jitter, 1.0 + jitter);
}

static void end_iteration(struct job *job, double now_s)
{
    if (now_s < warm_s)
        return;
    if (job->iterations++ == 0)
        job->first_s = now_s;
    job->last_s = now_s;
}

static double next_s(const struct network *it, struct lull_transfers *transfers)
{
    double at_s = lull_transfers_next_s(transfers);

    for (uint32_t i = 0; i < it->job_count; i++)
        if (!it->jobs[i].sends)
            at_s = fmin(at_s, it->jobs[i].ready_s);
    return at_s;
}

static void run(struct network *it, struct lull_random *random)
{
    struct lull_transfers *transfers = make_links(it);
    uint32_t ended;

    for (uint32_t i = 0; i < it->job_count; i++)
        compute(&it->jobs[i], between(random, 0.0, 1.0), random);
    for (double now_s = next_s(it, transfers); now_s < end_s; now_s = next_s(it, transfers)) {
        assert_int_equal(lull_transfers_advance(transfers, now_s), 0);
        while (lull_transfers_take(transfers, &ended))
            for (uint32_t i = 0; i < it->job_count; i++)
                if (it->jobs[i].sends && it->jobs[i].transfer == ended) {
                    end_iteration(&it->jobs[i], now_s);
                    compute(&it->jobs[i], now_s, random);
                }
        for (uint32_t i = 0; i < it->job_count; i++)
            if (!it->jobs[i].sends && it->jobs[i].ready_s <= now_s)
                send(it, transfers, &it->jobs[i]);
    }
    lull_transfers_destroy(transfers);
}

static double slowdown_of(const struct job *job)
{
    return (job->last_s - job->first_s) / (job->iterations - 1) / job->alone_s - 1.0;
}

/* ---- beside the model --------------------------------------------------------------------- */

struct errors {
    double slowdown; /* sums */
    double ours;
    double none;   /* as if no other flow was there */
    double always; /* as if all others communicated all the time */
    double worst;
    uint32_t count;
};

static void model(const struct network *it, double *slowdown)
{
    struct lull_contention *contention;
    const uint32_t *reported;

    assert_int_equal(lull_contention_create(&it->cluster, &it->rules, &contention), 0);
    for (uint32_t i = 0; i < it->job_count; i++) {
        const struct job *job = &it->jobs[i];
        const struct lull_cluster_point point = {
            .gpus = job->count, .exposed_ratio = (float)(1.0 - job->compute_s / job->alone_s)};

        assert_int_equal(lull_contention_add(contention, i, &point, job->shares, job->count), 0);
    }
    lull_contention_update(contention, &reported);
    for (uint32_t i = 0; i < it->job_count; i++)
        slowdown[i] = 1.0 / lull_contention_pace(contention, i) - 1.0;
    lull_contention_destroy(contention);
}

/* The busiest link's jobs, each with all the others at once. */
static double always_there(const struct network *it, uint32_t number)
{
    struct lull_share_use mine[SHARES + RACKS];
    struct lull_share_use theirs[SHARES + RACKS];
    const struct job *job = &it->jobs[number];
    const uint32_t count = uses_of(it, job, mine);
    double most = 1.0;

    for (uint32_t k = 0; k < count; k++) {
        const double unit = mine[k].link < NODES ? 1.0 : 1.0 / it->rules.uplink_links;
        double users = 0.0;

        for (uint32_t i = 0; i < it->job_count; i++)
            for (uint32_t u = uses_of(it, &it->jobs[i], theirs); u > 0; u--)
                users += theirs[u - 1].link == mine[k].link;
        most = fmax(most, unit * (users + (users - 1.0) * it->rules.penalty_ratio));
    }
    return (1.0 - job->compute_s / job->alone_s) * (most - 1.0);
}

static void compare(struct network *it, struct errors *errors)
{
    double slowdown[JOBS];

    model(it, slowdown);
    for (uint32_t i = 0; i < it->job_count; i++) {
        const double real = slowdown_of(&it->jobs[i]);
        const double off = fabs(slowdown[i] - real) / (1.0 + real);

        errors->slowdown += real;
        errors->ours += off;
        errors->none += real / (1.0 + real);
        errors->always += fabs(always_there(it, i) - real) / (1.0 + real);
        errors->worst = fmax(errors->worst, off);
        errors->count++;
    }
}

static struct errors compare_all(double uplink_links, double penalty_ratio, double max_ratio)
{
    struct errors errors = {0};

    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_random random;
        struct network it;

        lull_random_init(&random, seed);
        draw(&it, uplink_links, penalty_ratio, max_ratio, &random);
        run(&it, &random);
        compare(&it, &errors);
    }
    return errors;
}

static const struct kind {
    const char *name;
    double uplink_links;
    double penalty_ratio;
    double max_ratio;
    double most_off; /* tolerance */
} kinds[] = {
    {"links of nodes, r to 0.3", 0.0, 0.0, 0.3, 0.02},
    {"links of nodes, r to 0.8", 0.0, 0.0, 0.8, 0.05},
    {"uplinks as links, r to 0.3", 1.0, 0.0, 0.3, 0.03},
    {"uplinks as links, r to 0.8", 1.0, 0.0, 0.8, 0.05},
    {"AdaDUAL's penalty, r to 0.5", 0.0, 0.235 / 0.856, 0.5, 0.05},
};

static bool is_table;

static void test_mean_iterations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct errors errors =
            compare_all(kinds[i].uplink_links, kinds[i].penalty_ratio, kinds[i].max_ratio);

        if (is_table)
            printf("%-28s slower by %4.1f %%; off: ours %4.2f %% (worst %4.1f), "
                   "none %4.1f, always %4.1f\n",
                   kinds[i].name, 100.0 * errors.slowdown / errors.count,
                   100.0 * errors.ours / errors.count, 100.0 * errors.worst,
                   100.0 * errors.none / errors.count, 100.0 * errors.always / errors.count);
        if (errors.ours / errors.count > kinds[i].most_off)
            fail_msg("%s: off by %.1f %% on average", kinds[i].name,
                     100.0 * errors.ours / errors.count);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mean_iterations)};

    is_table = argc > 1 && strcmp(argv[1], "table") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
