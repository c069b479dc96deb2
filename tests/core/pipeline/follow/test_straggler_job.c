/*
 * Stragglers in a job in virtual time: the plan is stretched while a rank is slow, saves energy,
 * and costs time only in the iteration in which it ends. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/pipeline/follow/replan.h"
#include "core/pipeline/follow/straggler_detector.h"
#include "core/pipeline/follow/plan_controller_state.h"
#include "pipe_sim.h"
#include "../../property.h"

enum { FROM = 90, TO = 120, ITERATIONS = 150 };

static const struct lull_pipeline_switching switching = {
    .down_ns = 16500000, .up_ns = 24000000, .is_fed_forward = true, .early_ns = 7500000};

struct job {
    struct pipe_sim *sim;
    struct lull_plan_controller *plan_controller;
    struct lull_straggler_detector *straggler;
    struct lull_replan *replan;
    uint32_t *base;
    uint32_t *point; /* of the latest detour */
    int32_t place;   /* the plan that its iterations report */
    bool is_twice;   /* each detour is replaced by another one at once */
    uint32_t detours;
    uint32_t returns;
    double replan_ms; /* the slowest, CPU time */
    double length_ms[ITERATIONS + 2];
    double energy_j[ITERATIONS + 2];
    bool is_stretched[ITERATIONS + 2];
    bool is_off; /* the response is off */
};

static double cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void find_slowness(const struct job *job, const uint32_t *point, const int64_t *begin_ns,
                          const int64_t *end_ns, double *slowness)
{
    const struct lull_pipeline_problem *problem = pipe_sim_problem(job->sim);
    double planned_ns[PIPE_SIM_DEVICES] = {0};
    double took_ns[PIPE_SIM_DEVICES] = {0};

    for (size_t op = 0; op < problem->graph->op_count; op++) {
        const uint32_t device = problem->graph->ops[op].device;
        const struct lull_pipeline_class *class = lull_pipeline_class_of(problem, op);

        took_ns[device] += (double)(end_ns[op] - begin_ns[op]);
        planned_ns[device] += (double)class->points[point == NULL ? 0 : point[op]].time_ns;
    }
    for (uint32_t i = 0; i < problem->graph->device_count; i++)
        slowness[i] = took_ns[i] / planned_ns[i];
}

static void stretch(struct job *job)
{
    double factor[PIPE_SIM_DEVICES];
    const int64_t extra_ns = lull_straggler_detector_request(job->straggler, factor);
    const double begin_ms = cpu_ms();
    struct lull_replan_outcome outcome;
    const int result =
        lull_replan_make(job->replan, factor, extra_ns, &switching, job->point, &outcome);

    job->replan_ms = fmax(job->replan_ms, cpu_ms() - begin_ms);
    assert_true(result >= 0);
    if (result == 1)
        job->place = pipe_sim_detour(job->sim, job->plan_controller, job->point);
    if (result == 1 && job->is_twice)
        job->place = pipe_sim_detour(job->sim, job->plan_controller, job->point);
    if (result == 1 && job->place >= 0) {
        job->detours++;
        lull_straggler_detector_answer(job->straggler, true);
    } else {
        lull_straggler_detector_answer(job->straggler, false);
        lull_plan_controller_end_detour(job->plan_controller);
    }
}

static void look(void *context, const struct lull_plan_controller_iteration *iteration,
                 const int64_t *begin_ns, const int64_t *end_ns, double energy_j)
{
    struct job *job = context;
    const size_t count = pipe_sim_problem(job->sim)->graph->op_count;
    const bool is_stretched = iteration->plan >= LULL_PLAN_CONTROLLER_DETOUR;
    struct lull_straggler_detector_sample sample = {.kind = is_stretched ? LULL_STRAGGLER_STRETCHED
                                                            : iteration->plan < 0
                                                                ? LULL_STRAGGLER_REFERENCE
                                                                : LULL_STRAGGLER_PLANNED};
    double slowness[PIPE_SIM_DEVICES];
    int64_t end = 0;

    if (iteration->number > ITERATIONS)
        return;
    job->length_ms[iteration->number] = (double)(iteration->end_ns - iteration->begin_ns) * 1e-6;
    job->energy_j[iteration->number] = energy_j;
    job->is_stretched[iteration->number] = is_stretched;
    if (job->is_off || !iteration->is_whole ||
        (is_stretched ? iteration->plan != job->place : !iteration->is_measured))
        return;
    for (size_t op = 0; op < count; op++)
        end = end_ns[op] > end ? end_ns[op] : end;
    find_slowness(job,
                  is_stretched          ? job->point
                  : iteration->plan < 0 ? NULL
                                        : job->base,
                  begin_ns, end_ns, slowness);
    sample.span_ns = end - iteration->begin_ns;
    sample.gap_ns = iteration->end_ns - end;
    sample.slowness = slowness;
    switch (lull_straggler_detector_take(job->straggler, &sample)) {
    case LULL_STRAGGLER_STRETCH:
        stretch(job);
        break;
    case LULL_STRAGGLER_RETURN:
        lull_plan_controller_end_detour(job->plan_controller);
        job->returns++;
        break;
    default:
        break;
    }
}

static void run(struct job *job, struct pipe_sim_config *config)
{
    struct lull_straggler_detector_config straggler;
    struct lull_plan_controller_config conducting;
    struct lull_replan_outcome outcome;
    struct lull_replan *planner;
    struct pipe_sim_result result;
    double factor[PIPE_SIM_DEVICES];
    size_t count;

    config->iterations = ITERATIONS;
    config->on_iteration = look;
    config->context = job;
    job->sim = pipe_sim_create(config);
    count = pipe_sim_problem(job->sim)->graph->op_count;
    job->base = calloc(count, sizeof(job->base[0]));
    job->point = calloc(count, sizeof(job->point[0]));
    /* The base plan is as fast as the highest clocks. */
    assert_int_equal(lull_replan_create(pipe_sim_problem(job->sim), job->base, &planner, NULL), 0);
    for (uint32_t i = 0; i < PIPE_SIM_DEVICES; i++)
        factor[i] = 1.0;
    assert_int_equal(lull_replan_make(planner, factor, 0, &switching, job->point, &outcome), 1);
    memcpy(job->base, job->point, count * sizeof(job->base[0]));
    lull_replan_destroy(planner);
    assert_int_equal(lull_replan_create(pipe_sim_problem(job->sim), job->base, &job->replan, NULL),
                     0);
    lull_straggler_detector_config_default(&straggler);
    job->straggler = lull_straggler_detector_create(&straggler, config->devices);
    lull_plan_controller_config_default(&conducting);
    job->plan_controller = pipe_sim_plan_controller(job->sim, &conducting);
    assert_int_equal(pipe_sim_add_plan(job->sim, job->plan_controller, job->base, 0), 0);
    pipe_sim_run(job->sim, job->plan_controller, &result);
}

static void end(struct job *job)
{
    lull_straggler_detector_destroy(job->straggler);
    lull_replan_destroy(job->replan);
    lull_plan_controller_destroy(job->plan_controller);
    pipe_sim_destroy(job->sim);
    free(job->base);
    free(job->point);
}

static double sum(const double *values, int from, int to)
{
    double total = 0;

    for (int i = from; i < to; i++)
        total += values[i];
    return total;
}

/* Both ways: energy while it straggles, and the time of everything. */
static void compare(struct pipe_sim_config config, const char *what, double *saved_out,
                    double *lost_ms_out, struct job *job)
{
    struct pipe_sim_config same = config;
    struct job left = {.is_off = true};
    double stretched = 0;

    *job = (struct job){0};
    run(&left, &same);
    run(job, &config);
    *saved_out = 1.0 - sum(job->energy_j, FROM, TO) / sum(left.energy_j, FROM, TO);
    *lost_ms_out = sum(job->length_ms, 1, ITERATIONS - 1) - sum(left.length_ms, 1, ITERATIONS - 1);
    for (int i = 0; i < ITERATIONS; i++)
        stretched += job->is_stretched[i];
    printf("%-22s %u detours, %u returns, %.0f iterations stretched; saves %.1f %% while it "
           "lasts, loses %.0f ms of %.0f s (reckons %.0f), replanned within %.1f ms\n",
           what, job->detours, job->returns, stretched, 100 * *saved_out, *lost_ms_out,
           sum(left.length_ms, 1, ITERATIONS - 1) * 1e-3,
           (double)lull_straggler_detector_lost_ns(job->straggler) * 1e-6, job->replan_ms);
    end(&left);
}

static void test_another_copy_is_late(void **state)
{
    struct pipe_sim_config config;
    struct job job;
    double saved;
    double lost_ms;

    (void)state;
    pipe_sim_config_default(&config);
    config.straggle_from = FROM;
    config.straggle_to = TO;
    config.peer_ms = 1.2 * 1800;
    compare(config, "another copy late", &saved, &lost_ms, &job);
    assert_true(job.detours >= 1 && job.returns >= 1);
    assert_true(saved > 0.05);
    /* One iteration is late, as much as it was stretched. */
    assert_true(lost_ms < 0.3 * 1800);
    assert_false(job.plan_controller->is_detoured);
    end(&job);
}

/* Detours have two places beyond all trials', in turn: the iteration that runs keeps the one that
 * it has. */
static void test_a_detour_follows_another(void **state)
{
    struct pipe_sim_config config;
    struct job job = {.is_twice = true};
    int stretched = 0;

    (void)state;
    pipe_sim_config_default(&config);
    config.straggle_from = FROM;
    config.straggle_to = TO;
    config.peer_ms = 1.2 * 1800;
    run(&job, &config);
    assert_int_equal(job.detours, 1);
    assert_int_equal(job.place, LULL_PLAN_CONTROLLER_DETOUR + 1);
    for (int i = 0; i < ITERATIONS; i++)
        stretched += job.is_stretched[i];
    assert_true(stretched > 10);
    end(&job);
}

static void test_a_device_is_slow(void **state)
{
    struct pipe_sim_config config;
    struct job job;
    double saved;
    double lost_ms;

    (void)state;
    for (uint32_t device = 0; device < 4; device++) {
        char what[32];

        pipe_sim_config_default(&config);
        config.straggle_from = FROM;
        config.straggle_to = TO;
        config.slow_device = device;
        config.slow_factor = 1.25;
        snprintf(what, sizeof(what), "device %u slow", device);
        compare(config, what, &saved, &lost_ms, &job);
        assert_true(job.detours >= 1 && job.returns >= 1);
        assert_true(saved > 0.0);
        assert_true(lost_ms < 0.3 * 1800);
        assert_false(job.plan_controller->is_detoured);
        end(&job);
    }
}

/* The makespan of a plan on slow devices, by going through the operations again and again. */
static int64_t slow_makespan_ns(const struct lull_pipeline_problem *problem, const uint32_t *point,
                                const double *factor)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    int64_t *end_ns = calloc(graph->op_count, sizeof(end_ns[0]));
    int64_t makespan_ns = 0;
    bool is_settled = false;

    while (!is_settled) {
        is_settled = true;
        for (size_t op = 0; op < graph->op_count; op++) {
            const struct lull_pipeline_class *class = lull_pipeline_class_of(problem, op);
            int64_t begin_ns = 0;
            int64_t ends_ns;

            for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++) {
                const struct lull_pipeline_edge *edge = &graph->edges[graph->in_edges[i]];

                begin_ns = end_ns[edge->from] + edge->latency_ns > begin_ns
                               ? end_ns[edge->from] + edge->latency_ns
                               : begin_ns;
            }
            ends_ns = begin_ns + (int64_t)ceil((double)class->points[point[op]].time_ns *
                                               factor[graph->ops[op].device]);
            is_settled &= ends_ns == end_ns[op];
            end_ns[op] = ends_ns;
            makespan_ns = ends_ns > makespan_ns ? ends_ns : makespan_ns;
        }
    }
    free(end_ns);
    return makespan_ns;
}

/* Within the time that a straggler leaves, whichever rank is slow. */
static void test_replans_hold_their_time(void **state)
{
    struct pipe_sim_config config;
    struct pipe_sim *sim;
    struct lull_replan *replan;
    struct lull_random random;
    uint32_t *base;
    uint32_t *point;
    uint32_t better = 0;

    (void)state;
    pipe_sim_config_default(&config);
    sim = pipe_sim_create(&config);
    base = calloc(pipe_sim_problem(sim)->graph->op_count, sizeof(base[0]));
    point = calloc(pipe_sim_problem(sim)->graph->op_count, sizeof(point[0]));
    assert_int_equal(lull_replan_create(pipe_sim_problem(sim), base, &replan, NULL), 0);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        double factor[PIPE_SIM_DEVICES] = {1, 1, 1, 1};
        struct lull_replan_outcome outcome;
        int64_t extra_ns;
        int result;

        lull_random_init(&random, seed);
        if (seed % 2 == 0)
            factor[seed / 2 % 4] += lull_random_uniform(&random);
        extra_ns = (int64_t)(5e8 * lull_random_uniform(&random) * (double)(seed % 3));
        result = lull_replan_make(replan, factor, extra_ns, &switching, point, &outcome);
        holds(result == 0 || result == 1, seed);
        if (result == 0)
            continue;
        better++;
        holds(outcome.deadline_ns >=
                  slow_makespan_ns(pipe_sim_problem(sim), base, factor) + extra_ns,
              seed);
        holds(slow_makespan_ns(pipe_sim_problem(sim), point, factor) <= outcome.deadline_ns, seed);
        holds(outcome.energy_j < outcome.kept_j, seed);
    }
    assert_true(better > 30);
    lull_replan_destroy(replan);
    pipe_sim_destroy(sim);
    free(base);
    free(point);
}

static void test_nobody_is_slow(void **state)
{
    struct pipe_sim_config config;
    struct job job;
    double saved;
    double lost_ms;

    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        pipe_sim_config_default(&config);
        config.seed = seed;
        config.jitter = 0.01;
        compare(config, "nobody", &saved, &lost_ms, &job);
        assert_int_equal(job.detours, 0);
        end(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_copy_is_late),
        cmocka_unit_test(test_a_detour_follows_another),
        cmocka_unit_test(test_a_device_is_slow),
        cmocka_unit_test(test_nobody_is_slow),
        cmocka_unit_test(test_replans_hold_their_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
