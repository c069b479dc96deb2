/*
 * The units of the job are independent between two barriers (the end of the last kernel and of the
 * last transfer), so each one is advanced alone to its own end and then to that of the last one.
 * Latencies are drawn from one generator, so that the same question always gets the same answer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/oracle.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/noise.h"
#include "emulator/physics/physics.h"
#include "emulator/spec.h"

/* The numbers of iterations and draws are defaults: latencies are random only in
 * LULL_ORACLE_REAL, which therefore takes a mean over more iterations. */
enum {
    WARM_ITERATIONS = 10,
    IDEAL_ITERATIONS = 16,
    REAL_ITERATIONS = 60,
    QUANTILE_DRAWS = 2000,
    MAX_ASKS = 8,
};

/* A request that the driver has not handed to the GPU yet. */
struct ask {
    int64_t at_ns;
    uint32_t step;
};

struct oracle_unit {
    struct lull_physics physics;
    int context;
    struct ask asks[MAX_ASKS]; /* in time order */
    uint32_t ask_count;
};

/* The reference run tries no clock. */
enum { REFERENCE = LULL_ORACLE_WAYS };

/* One run of the job: the way, or REFERENCE, and the clock step that is tried in this way. */
struct oracle_run {
    const struct lull_oracle_job *job;
    uint32_t way;
    uint32_t step;
    uint32_t top_step;
    struct oracle_unit *units;
    uint64_t random; /* generator of the durations of driver calls */
    int64_t driver_free_ns;
    /* Forecasts of LULL_ORACLE_REAL, taken from the reference and the ideal run. */
    int64_t compute_ns;
    int64_t transfer_ns;
    int64_t lead_ns;  /* time before the section at which the lowering is requested */
    int64_t raise_ns; /* time before its end at which the raising is requested */
    /* Measurements of the run; means of one iteration when it has ended. */
    int64_t measured_compute_ns;
    int64_t measured_transfer_ns;
};

/* ---- requests ---- */

/* Advances a unit to until_ns and passes it the requests that fall due meanwhile. */
static void oracle_advance(struct oracle_unit *unit, int64_t until_ns)
{
    while (unit->ask_count > 0 && unit->asks[0].at_ns <= until_ns) {
        lull_physics_advance(&unit->physics, unit->asks[0].at_ns);
        lull_physics_lock(&unit->physics, unit->asks[0].step, 1.0);
        unit->ask_count--;
        memmove(&unit->asks[0], &unit->asks[1], unit->ask_count * sizeof(unit->asks[0]));
    }
    lull_physics_advance(&unit->physics, until_ns);
}

/* Schedules one call per GPU, one after the other, because the driver serves one at a time. */
static void schedule_asks(struct oracle_run *run, int64_t begin_ns, uint32_t step)
{
    int64_t time_ns = begin_ns > run->driver_free_ns ? begin_ns : run->driver_free_ns;

    for (uint32_t i = 0; i < run->job->gpus; i++) {
        struct oracle_unit *unit = &run->units[i];

        time_ns += lull_ns_from_ms(lull_physics_draw_api_ms(run->job->model, &run->random));
        if (unit->ask_count < MAX_ASKS)
            unit->asks[unit->ask_count++] = (struct ask){time_ns, step};
    }
    run->driver_free_ns = time_ns;
}

static void switch_at_once(struct oracle_run *run, int64_t now_ns, uint32_t step)
{
    for (uint32_t i = 0; i < run->job->gpus; i++) {
        lull_physics_lock(&run->units[i].physics, step, 0.0);
        lull_physics_advance(&run->units[i].physics, now_ns);
    }
}

/* ---- one iteration ---- */

typedef int64_t (*estimate)(const struct oracle_unit *unit);

static int64_t kernel_end_ns(const struct oracle_unit *unit)
{
    return lull_physics_queue_end_ns(&unit->physics, unit->context);
}

static int64_t transfer_end_ns(const struct oracle_unit *unit)
{
    return lull_physics_transfer_share_ns(&unit->physics, unit->context, 1.0);
}

/* Advances one unit to the end that end_ns estimates, and returns that time. An estimate holds only
 * until a rate changes, so it is renewed after every change of clock. */
static int64_t run_to_end(struct oracle_unit *unit, estimate end_ns)
{
    for (;;) {
        int64_t next_ns = end_ns(unit);
        const int64_t change_ns = lull_physics_rate_change_ns(&unit->physics);

        if (next_ns <= unit->physics.now_ns)
            return unit->physics.now_ns;
        if (change_ns < next_ns)
            next_ns = change_ns;
        if (unit->ask_count > 0 && unit->asks[0].at_ns < next_ns)
            next_ns = unit->asks[0].at_ns;
        oracle_advance(unit, next_ns);
    }
}

/* Advances every unit to the time when the last of them has ended, and returns that time. */
static int64_t run_together(struct oracle_run *run, estimate end_ns)
{
    int64_t last_ns = 0;

    for (uint32_t i = 0; i < run->job->gpus; i++) {
        const int64_t unit_ns = run_to_end(&run->units[i], end_ns);

        if (unit_ns > last_ns)
            last_ns = unit_ns;
    }
    for (uint32_t i = 0; i < run->job->gpus; i++)
        oracle_advance(&run->units[i], last_ns);
    return last_ns;
}

static void oracle_begin_compute(struct oracle_run *run)
{
    const struct lull_gpu_profile *profile =
        lull_gpu_model_profile(run->job->model, run->job->profile);

    for (uint32_t i = 0; i < run->job->gpus; i++)
        lull_physics_launch(&run->units[i].physics, run->units[i].context,
                            run->job->compute_ms * 1e-3, profile);
}

static int64_t run_iteration(struct oracle_run *run, int64_t begin_ns)
{
    int64_t middle_ns;
    int64_t end_ns;

    if (run->way == LULL_ORACLE_REAL) {
        const int64_t section_ns = begin_ns + run->compute_ns;

        schedule_asks(run, section_ns - run->lead_ns, run->step);
        schedule_asks(run, section_ns + run->transfer_ns - run->raise_ns, run->top_step);
    }
    oracle_begin_compute(run);
    middle_ns = run_together(run, kernel_end_ns);
    if (run->way == LULL_ORACLE_IDEAL)
        switch_at_once(run, middle_ns, run->step);
    for (uint32_t i = 0; i < run->job->gpus; i++)
        lull_physics_transfer_begin(&run->units[i].physics, run->units[i].context, run->job->bytes,
                                    run->job->link_gbs, run->job->channels);
    end_ns = run_together(run, transfer_end_ns);
    for (uint32_t i = 0; i < run->job->gpus; i++)
        lull_physics_transfer_end(&run->units[i].physics, run->units[i].context);
    if (run->way == LULL_ORACLE_IDEAL)
        switch_at_once(run, end_ns, run->top_step);
    run->measured_compute_ns += middle_ns - begin_ns;
    run->measured_transfer_ns += end_ns - middle_ns;
    return end_ns;
}

/* ---- one run ---- */

static double total_energy_j(const struct oracle_run *run)
{
    double energy_j = 0;

    for (uint32_t i = 0; i < run->job->gpus; i++)
        energy_j += lull_physics_energy_j(&run->units[i].physics);
    return energy_j;
}

/* Sets the temperature at which this mean power settles; reaching it would take minutes. */
static void settle_heat(struct oracle_run *run, double mean_w)
{
    for (uint32_t i = 0; i < run->job->gpus; i++)
        lull_physics_warm(&run->units[i].physics, mean_w);
}

static void init_units(struct oracle_run *run)
{
    const uint32_t step = run->way == LULL_ORACLE_STEADY ? run->step : run->top_step;

    run->random = 1;
    run->driver_free_ns = 0;
    for (uint32_t i = 0; i < run->job->gpus; i++) {
        struct oracle_unit *unit = &run->units[i];

        unit->ask_count = 0;
        lull_physics_init(&unit->physics, run->job->model, 0, 0);
        unit->physics.random = lull_noise_mix(i + 1);
        unit->context = lull_physics_open(&unit->physics, 1, 0);
        lull_physics_lock(&unit->physics, step, 0.0);
        lull_physics_advance(&unit->physics, 0);
    }
}

/* Runs one iteration, at the temperature of the heat that the job prescribes, if it does. */
static int64_t run_at_heat(struct oracle_run *run, int64_t now_ns)
{
    if (run->job->heat_w > 0.0)
        settle_heat(run, run->job->heat_w);
    return run_iteration(run, now_ns);
}

static struct lull_oracle_outcome run_job(struct oracle_run *run)
{
    const uint32_t iterations = run->way == LULL_ORACLE_REAL ? REAL_ITERATIONS : IDEAL_ITERATIONS;
    int64_t begin_ns;
    int64_t now_ns = 0;
    double energy_j;

    init_units(run);
    for (uint32_t i = 0; i < WARM_ITERATIONS; i++)
        now_ns = run_iteration(run, now_ns);
    settle_heat(run, total_energy_j(run) / run->job->gpus / ((double)now_ns * 1e-9));
    for (uint32_t i = 0; i < WARM_ITERATIONS; i++)
        now_ns = run_at_heat(run, now_ns);
    begin_ns = now_ns;
    energy_j = total_energy_j(run);
    run->measured_compute_ns = 0;
    run->measured_transfer_ns = 0;
    for (uint32_t i = 0; i < iterations; i++)
        now_ns = run_at_heat(run, now_ns);
    run->measured_compute_ns /= iterations;
    run->measured_transfer_ns /= iterations;
    return (struct lull_oracle_outcome){
        .time_s = (double)(now_ns - begin_ns) * 1e-9 / iterations,
        .energy_j = (total_energy_j(run) - energy_j) / iterations,
    };
}

/* ---- latencies ---- */

static int oracle_compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

int64_t lull_oracle_latency_ns(const struct lull_gpu_model *model, uint32_t calls, uint32_t step,
                               double quantile)
{
    const bool is_slow = lull_physics_is_slow_step(model, 0, step);
    double draws[QUANTILE_DRAWS];
    uint64_t random = 7;

    for (uint32_t i = 0; i < QUANTILE_DRAWS; i++) {
        draws[i] = lull_physics_draw_settle_ms(model, is_slow, &random);
        for (uint32_t c = 0; c < calls; c++)
            draws[i] += lull_physics_draw_api_ms(model, &random);
    }
    qsort(draws, QUANTILE_DRAWS, sizeof(draws[0]), oracle_compare_doubles);
    return lull_ns_from_ms(draws[(uint32_t)(quantile * (QUANTILE_DRAWS - 1))]);
}

/* ---- the sweep ---- */

void lull_oracle_compare(struct lull_oracle_outcome *outcome,
                         const struct lull_oracle_outcome *reference)
{
    outcome->slowdown_ratio = outcome->time_s / reference->time_s - 1.0;
    outcome->saving_ratio = 1.0 - outcome->energy_j / reference->energy_j;
}

static void oracle_try_clock(struct oracle_run *run, uint32_t way,
                             struct lull_oracle_answer *answer, struct lull_oracle_point *point)
{
    run->way = way;
    point->outcomes[way] = run_job(run);
    lull_oracle_compare(&point->outcomes[way], &answer->reference);
    if (way ==
        LULL_ORACLE_IDEAL) /* it runs first, because the real way forecasts from its transfer */
        run->transfer_ns = run->measured_transfer_ns;
    if (point->outcomes[way].slowdown_ratio <= run->job->tolerance_ratio &&
        point->outcomes[way].saving_ratio >
            answer->points[answer->best[way]].outcomes[way].saving_ratio)
        answer->best[way] = (uint32_t)(point - answer->points);
}

static void oracle_sweep(struct oracle_run *run, struct lull_oracle_answer *answer)
{
    memset(answer, 0, sizeof(*answer));
    run->way = REFERENCE;
    answer->reference = run_job(run);
    run->compute_ns = run->measured_compute_ns;
    answer->compute_s = (double)run->compute_ns * 1e-9;
    answer->transfer_s = (double)run->measured_transfer_ns * 1e-9;
    answer->count = run->top_step + 1;
    run->raise_ns = lull_oracle_latency_ns(run->job->model, run->job->gpus, run->top_step, 0.95);
    for (uint32_t i = 0; i < answer->count; i++) {
        struct lull_oracle_point *point = &answer->points[i];

        run->step = run->top_step - i;
        run->lead_ns = lull_oracle_latency_ns(run->job->model, 1, run->step, 0.01);
        point->mhz = lull_gpu_model_step_mhz(run->job->model, run->step);
        for (uint32_t way = 0; way < LULL_ORACLE_WAYS; way++)
            if (i == 0) /* the highest clock, where nothing is switched */
                point->outcomes[way] = answer->reference;
            else
                oracle_try_clock(run, way, answer, point);
    }
}

int lull_oracle_ask(const struct lull_oracle_job *job, struct lull_oracle_answer *answer_out,
                    struct lull_error *err)
{
    struct oracle_run run = {.job = job};

    if (job->gpus < 1 || job->gpus > LULL_NODE_MAX_GPUS || !(job->compute_ms > 0) ||
        !(job->bytes >= 0) || !(job->link_gbs > 0) || job->channels < 1)
        return lull_error_set(
            err, -EINVAL,
            "oracle: the job needs 1 to %d GPUs, compute and a link above 0, bytes from 0 and at "
            "least one channel",
            LULL_NODE_MAX_GPUS);
    if (lull_gpu_model_step_count(job->model) > LULL_ORACLE_CLOCKS)
        return lull_error_set(err, -EINVAL, "oracle: %s has more than %d clocks", job->model->name,
                              LULL_ORACLE_CLOCKS);
    run.top_step = lull_gpu_model_step_count(job->model) - 1;
    run.units = calloc(job->gpus, sizeof(run.units[0]));
    if (run.units == NULL)
        return lull_error_set(err, -ENOMEM, "oracle: no memory");
    oracle_sweep(&run, answer_out);
    free(run.units);
    return 0;
}
