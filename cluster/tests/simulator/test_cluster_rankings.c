/*
 * Rankings against programs that share no code with them: SRTF against a simulation second by
 * second, HDF with its clocks against the optimum found by dynamic programming, PowerFlow against
 * its budget. SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "policy_spy.h"

static struct spy_case it;
static struct spy_log spied;

/* ---- SRTF, second by second ----------------------------------------------------------------- */

struct ticker {
    int64_t left_s, restart_s, end_s;
    bool has_come, is_running, is_done;
};

static int64_t rank_s(const struct ticker *job)
{
    return job->left_s + job->restart_s;
}

/* The order in which jobs get GPUs: least time first; of equals those that run, then by number. */
static bool is_ahead(const struct ticker *jobs, uint32_t left, uint32_t right)
{
    if (rank_s(&jobs[left]) != rank_s(&jobs[right]))
        return rank_s(&jobs[left]) < rank_s(&jobs[right]);
    if (jobs[left].is_running != jobs[right].is_running)
        return jobs[left].is_running;
    return left < right;
}

static void give_out(struct ticker *jobs, uint32_t gpus)
{
    bool is_chosen[SPY_JOBS] = {0};
    bool is_looked_at[SPY_JOBS] = {0};

    for (;;) {
        uint32_t first = SPY_JOBS;

        for (uint32_t i = 0; i < it.jobs.count; i++)
            if (jobs[i].has_come && !jobs[i].is_done && !is_looked_at[i] &&
                (first == SPY_JOBS || is_ahead(jobs, i, first)))
                first = i;
        if (first == SPY_JOBS)
            break;
        is_looked_at[first] = true;
        if (it.points[first][0].gpus > gpus)
            continue;
        is_chosen[first] = true;
        gpus -= it.points[first][0].gpus;
    }
    for (uint32_t i = 0; i < it.jobs.count; i++) {
        int64_t cost_s = 60;

        if (it.points[i][0].gpus == 1)
            cost_s = 7;
        else if (it.points[i][0].gpus <= 8)
            cost_s = 30;
        if (jobs[i].is_running && !is_chosen[i] && jobs[i].restart_s < cost_s)
            jobs[i].restart_s = cost_s;
        jobs[i].is_running = is_chosen[i];
    }
}

static void tick(struct ticker *jobs, uint32_t gpus)
{
    size_t done = 0;

    for (int64_t now_s = 0; done < it.jobs.count; now_s++) {
        bool has_changed = false;

        for (uint32_t i = 0; i < it.jobs.count; i++) {
            if (jobs[i].is_running && rank_s(&jobs[i]) == 0) {
                jobs[i].is_running = false;
                jobs[i].is_done = true;
                jobs[i].end_s = now_s;
                done++;
                has_changed = true;
            }
            if (!jobs[i].has_come && it.all[i].arrival_ns == now_s * SPY_S) {
                jobs[i].has_come = true;
                has_changed = true;
            }
        }
        if (has_changed)
            give_out(jobs, gpus);
        for (uint32_t i = 0; i < it.jobs.count; i++)
            if (jobs[i].is_running)
                *(jobs[i].restart_s > 0 ? &jobs[i].restart_s : &jobs[i].left_s) -= 1;
    }
}

static void test_srtf_second_by_second(void **state)
{
    size_t preemptions = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const struct spy_options options = {.types = 1,
                                            .pools = 1,
                                            .nodes = 1,
                                            .node_gpus = 12,
                                            .jobs = 30,
                                            .max_gpus = seed % 2 ? 12 : 4,
                                            .clocks = 1,
                                            .elastic = 1,
                                            .max_s = 300,
                                            .span_s = 200 + 100 * (int64_t)(seed % 20)};
        struct ticker jobs[SPY_JOBS] = {0};
        struct lull_cluster_run *run;

        spy_make(&it, &options, seed);
        for (uint32_t i = 0; i < it.jobs.count; i++) {
            /* At one time each: those that come together are looked at one after the other. */
            it.all[i].arrival_ns += i * SPY_S;
            it.all[i].is_preemptible = true;
            it.all[i].memory_mib = 0;
            /* Halves of halves, so that what is left comes out exactly. */
            it.points[i][0].time_ns = (INT64_C(1) << it.points[i][0].time_ns / SPY_S % 9) * SPY_S;
            jobs[i].left_s = it.points[i][0].time_ns / SPY_S;
        }
        run = spy_run(&it, lull_cluster_policy_find("srtf"), NULL, &spied);
        tick(jobs, 12);
        for (uint32_t i = 0; i < it.jobs.count; i++) {
            holds(lull_cluster_run_outcomes(run)[i].end_ns == jobs[i].end_s * SPY_S, seed);
            preemptions += lull_cluster_run_outcomes(run)[i].preemptions;
        }
        lull_cluster_run_destroy(run);
    }
    assert_true(preemptions > 500);
}

/* ---- HDF and its clocks, one GPU ------------------------------------------------------------ */

/*
 * Bansal, Chan and Pruhs: highest density first at P(s) = the weight that is not done costs at most
 * twice the optimum of fractional weighted flow time and energy. Here the weight counts whole until
 * a job ends, speeds are few, and clocks change with jobs only; and the optimum is that of
 * schedules that change at whole slots, so it may be beaten. A slot is SLOT_S, so that seconds of
 * preemption do not count; speeds and works are in halves.
 */
enum { DP_JOBS = 3, MOST_WORK = 8, SPEEDS = 8, SLOT_S = 100000, SLOTS = 20, OPTIMA = 60 };

static const double ALPHAS[] = {2.0, 3.0};

/* Of a speed in halves. */
static double power(double speed, double alpha)
{
    return pow(speed / 2.0, alpha);
}

/* Fractional weighted flow time and energy of the run, in slots. */
static double cost_of_run(const double *works, double alpha)
{
    double cost = 0.0;

    for (uint32_t job = 0; job < it.jobs.count; job++) {
        double left = 1.0;
        int64_t since_ns = it.all[job].arrival_ns;
        uint32_t point = UINT32_MAX;

        for (size_t i = 0; i < spied.count; i++) {
            const struct spy_event *event = &spied.events[i];
            const double slots = (double)(event->at_ns - since_ns) / ((double)SLOT_S * SPY_S);
            const double speed = point == UINT32_MAX ? 0.0 : SPEEDS - point;
            const double done = fmin(speed * slots / works[job], left);

            if (event->job != job)
                continue;
            cost += slots * it.all[job].weight * (left - done / 2.0) + slots * power(speed, alpha);
            left -= done;
            since_ns = event->at_ns;
            point =
                event->kind == SPY_START || event->kind == SPY_RECLOCK ? event->point : UINT32_MAX;
        }
    }
    return cost;
}

/* The least cost from a slot on, with so much work left, of schedules that change at slots. A job's
   weight fades as it is worked on. */
static double min_cost(const double *works, double alpha)
{
    enum { STATES = (MOST_WORK + 1) * (MOST_WORK + 1) * (MOST_WORK + 1) };
    static double next[STATES], here[STATES];

    for (int at = 0; at < STATES; at++)
        next[at] = at == 0 ? 0.0 : INFINITY;
    for (int slot = SLOTS; slot-- > 0;) {
        for (int at = 0; at < STATES; at++) {
            const int left[DP_JOBS] = {at % (MOST_WORK + 1), at / (MOST_WORK + 1) % (MOST_WORK + 1),
                                       at / (MOST_WORK + 1) / (MOST_WORK + 1)};
            double holding = 0.0;

            for (int job = 0; job < DP_JOBS; job++)
                if (it.all[job].arrival_ns <= slot * SLOT_S * SPY_S)
                    holding += it.all[job].weight * left[job] / works[job];
            here[at] = holding + next[at];
            for (int job = 0, unit = 1; job < DP_JOBS; unit *= MOST_WORK + 1, job++)
                for (int speed = 1; speed <= SPEEDS && speed <= left[job] &&
                                    it.all[job].arrival_ns <= slot * SLOT_S * SPY_S;
                     speed++)
                    here[at] =
                        fmin(here[at], holding - it.all[job].weight * speed / works[job] / 2.0 +
                                           power(speed, alpha) + next[at - speed * unit]);
        }
        memcpy(next, here, sizeof(next));
    }
    return next[(int)works[0] +
                (MOST_WORK + 1) * ((int)works[1] + (MOST_WORK + 1) * (int)works[2])];
}

static void make_tiny(uint64_t seed, double *works, double alpha)
{
    struct lull_random random;

    lull_random_init(&random, seed);
    it = (struct spy_case){.seed = seed, .types = {{.name = "GPU"}}, .nodes = {{.gpus = 1}}};
    it.cluster = (struct lull_cluster){it.types, 1, it.nodes, 1, 1};
    for (uint32_t job = 0; job < DP_JOBS; job++) {
        works[job] = 1 + (double)lull_random_below(&random, MOST_WORK);
        it.all[job] = (struct lull_cluster_job){
            .arrival_ns = job == 0 ? 0
                                   : it.all[job - 1].arrival_ns +
                                         (int64_t)lull_random_below(&random, 4) * SLOT_S * SPY_S,
            .deadline_ns = LULL_CLUSTER_NEVER,
            .weight = (double)(1 + lull_random_below(&random, 12)),
            .is_preemptible = true,
            .point_count = SPEEDS,
            .points = it.points[job],
        };
        for (int point = 0; point < SPEEDS; point++) {
            const double slots = works[job] / (SPEEDS - point);

            it.points[job][point] = (struct lull_cluster_point){
                .gpus = 1,
                .time_ns = (int64_t)(slots * SLOT_S) * SPY_S,
                .energy_j = power(SPEEDS - point, alpha) * slots * SLOT_S,
            };
        }
    }
    it.jobs = (struct lull_cluster_jobs){it.all, DP_JOBS};
}

static void test_hdf_against_the_optimum(void **state)
{
    struct lull_cluster_policy_ops set;

    (void)state;
    assert_int_equal(lull_cluster_policy_set(lull_cluster_policy_find("hdf"), 1.0, &set, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        double worst = 0.0;
        double sum = 0.0;

        for (uint64_t seed = 1; seed <= OPTIMA; seed++) {
            double works[DP_JOBS];
            double ratio;

            make_tiny(seed, works, ALPHAS[i]);
            lull_cluster_run_destroy(spy_run(&it, &set, NULL, &spied));
            ratio = cost_of_run(works, ALPHAS[i]) / min_cost(works, ALPHAS[i]);
            holds(ratio <= 2.0, seed);
            worst = fmax(worst, ratio);
            sum += ratio / OPTIMA;
        }
        print_message("P = s^%.0f: %.3f of the optimum on average, %.3f at worst\n", ALPHAS[i], sum,
                      worst);
    }
}

/* ---- PowerFlow ------------------------------------------------------------------------------ */

static void test_powerflow_keeps_its_budget(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const struct spy_options options = {.types = 1,
                                            .pools = 1,
                                            .nodes = 4,
                                            .node_gpus = 8,
                                            .jobs = SPY_JOBS,
                                            .max_gpus = 4,
                                            .clocks = 3,
                                            .elastic = seed % 2 ? 1 : 2,
                                            .max_s = 4000,
                                            .span_s = 1000 + 500 * (int64_t)(seed % 50)};
        double before_s = INFINITY;

        spy_make(&it, &options, seed);
        for (double budget = 0.7; budget < 1.2; budget += 0.2) {
            struct lull_cluster_policy_ops set;
            struct lull_cluster_run *run;
            double run_j;
            double idle_j;
            double max_j = 0.0;
            double min_j = 0.0;
            double sum_s = 0.0;

            assert_int_equal(
                lull_cluster_policy_set(lull_cluster_policy_find("powerflow"), budget, &set, NULL),
                0);
            run = spy_run(&it, &set, NULL, &spied);
            spy_check(&it, run, &spied);
            for (uint32_t i = 0; i < it.jobs.count; i++) {
                const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[i];
                double its_j = INFINITY;

                if (outcome->fate != LULL_CLUSTER_DONE)
                    continue;
                for (uint32_t point = 0; point < it.all[i].point_count; point++)
                    its_j = fmin(its_j, it.points[i][point].energy_j);
                min_j += its_j;
                max_j += budget * it.points[i][0].energy_j;
                sum_s += (double)(outcome->end_ns - it.all[i].arrival_ns) * 1e-9;
            }
            lull_cluster_run_energy(run, &run_j, &idle_j);
            /* Jobs whose least is above their share must be made up for by others. */
            holds(run_j <= fmax(max_j, 1.02 * min_j) * (1.0 + 1e-9), seed);
            holds(sum_s <= before_s * 1.1, seed);
            before_s = sum_s;
            lull_cluster_run_destroy(run);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_srtf_second_by_second),
        cmocka_unit_test(test_hdf_against_the_optimum),
        cmocka_unit_test(test_powerflow_keeps_its_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
