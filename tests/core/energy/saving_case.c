/* SPDX-License-Identifier: Apache-2.0 */
#include "saving_case.h"

#include <math.h>
#include <stdlib.h>

#include "core/energy/account.h"
#include "core/energy/strobe.h"
#include "core/stats/paired_runs.h"
#include "core/stats/random.h"

enum { MAX_ITERATIONS = 5000, MAX_TICKS = 1 << 18, MAX_GPUS = 4, MAX_PAIRS = 3 };

/* The readings continue for so long before and after the iterations that are compared. */
static const double margin_s = 3.0;
static const double poll_s = 0.1;
static const double ns_per_s = 1e9;

const struct saving_condition saving_conditions[] = {
    {.name = "readings alone", .jitter_ratio = 0.003},
    {.name = "runs differ by 0.1 %", .run_deviation = 0.001, .jitter_ratio = 0.003},
    {.name = "runs differ by 0.3 %", .run_deviation = 0.003, .jitter_ratio = 0.003},
    {.name = "runs differ by 1 %", .run_deviation = 0.01, .jitter_ratio = 0.003},
    {.name = "offset up to 5 W", .offset_w = 5.0, .jitter_ratio = 0.003},
    {.name = "offset up to 5 W, steady", .offset_w = 5.0, .jitter_ratio = 0.003, .is_steady = true},
    {.name = "offset by level", .level_w = 2.0, .jitter_ratio = 0.003},
    {.name = "offset by level, steady", .level_w = 2.0, .jitter_ratio = 0.003, .is_steady = true},
    {.name = "samples", .samples = true, .jitter_ratio = 0.003},
    {.name = "samples in step", .samples = true, .step = STEP_LONG},
    {.name = "samples in step, jitter", .samples = true, .step = STEP_LONG, .jitter_ratio = 0.001},
    {.name = "samples in step, short", .samples = true, .step = STEP_SHORT},
    {.name = "all",
     .run_deviation = 0.005,
     .offset_w = 5.0,
     .level_w = 2.0,
     .jitter_ratio = 0.003,
     .samples = true},
    {.name = "3 pairs, runs 0.1 %", .run_deviation = 0.001, .jitter_ratio = 0.003, .pairs = 3},
    {.name = "3 pairs, runs 1 %", .run_deviation = 0.01, .jitter_ratio = 0.003, .pairs = 3},
    {.name = "3 pairs, samples in step", .samples = true, .step = STEP_LONG, .pairs = 3},
    {.name = "3 pairs, all",
     .run_deviation = 0.005,
     .offset_w = 5.0,
     .level_w = 2.0,
     .jitter_ratio = 0.003,
     .samples = true,
     .pairs = 3},
};
const uint32_t saving_condition_count = sizeof(saving_conditions) / sizeof(saving_conditions[0]);

static double between(struct lull_random *random, double low, double high)
{
    return low + (high - low) * lull_random_uniform(random);
}

/* ---- the job ----------------------------------------------------------------------------- */

/* Powers while computing and waiting, W. */
struct levels {
    double high_w;
    double low_w;
};

struct job {
    double iteration_s;
    double low_share;
    uint32_t sections;
    uint32_t gpus;
    struct levels levels[2];  /* unmanaged, managed */
    struct levels offsets[2]; /* by how much the sensors read too high */
    double slowdown;
};

/* A run: where its iterations begin, and how much it draws against others. */
struct run {
    uint32_t first; /* of the iterations that are compared */
    uint32_t iterations;
    uint32_t count; /* of all iterations */
    double begins_s[MAX_ITERATIONS + 1];
};

struct sensor {
    double period_s;
    double window_s;
};

static const struct sensor sensors[] = {
    {0.02, 0.01}, {0.1, 0.1}, {0.1, 0.025}, {0.1, 0.025}, {0.1, 1.0}};

static void draw_job(struct lull_random *random, const struct saving_condition *condition,
                     struct job *job)
{
    const double high_w = between(random, 200.0, 400.0);

    *job = (struct job){
        .iteration_s = exp(between(random, log(0.15), log(1.5))),
        .low_share = between(random, 0.15, 0.5),
        .sections = 1 + (uint32_t)lull_random_below(random, 2),
        .gpus = 1u << lull_random_below(random, 3),
        .slowdown = between(random, 0.0, 0.005),
    };
    job->levels[0] = (struct levels){high_w, high_w * between(random, 0.25, 0.45)};
    job->levels[1] = job->levels[0];
    job->levels[1].low_w *= between(random, 0.6, 0.8);
    if (condition->is_steady)
        job->levels[1].high_w *= between(random, 0.85, 0.97);
}

/* An offset of all readings, and one for each level that is another one than those before. */
static void draw_offsets(struct lull_random *random, const struct saving_condition *condition,
                         struct job *job)
{
    const double common_w = between(random, -condition->offset_w, condition->offset_w);
    struct levels *offsets = job->offsets;

    for (int i = 0; i < 2; i++)
        offsets[i] =
            (struct levels){common_w + lull_random_normal(random, 0.0, condition->level_w),
                            common_w + lull_random_normal(random, 0.0, condition->level_w)};
    if (!condition->is_steady)
        offsets[1].high_w = offsets[0].high_w;
}

static void draw_run(struct lull_random *random, const struct saving_condition *condition,
                     double iteration_s, uint32_t iterations, struct run *run)
{
    const uint32_t margin = (uint32_t)ceil(margin_s / iteration_s);

    run->first = margin;
    run->iterations = iterations;
    run->count = iterations + 2 * margin;
    run->begins_s[0] = between(random, 10.0, 20.0);
    for (uint32_t i = 0; i < run->count; i++)
        run->begins_s[i + 1] =
            run->begins_s[i] +
            iteration_s *
                fmax(0.5, 1.0 + condition->jitter_ratio * lull_random_normal(random, 0.0, 1.0));
}

/* Seconds at low power since an iteration began, into_s ago. */
static double low_seconds(const struct job *job, double length_s, double into_s)
{
    const double part_s = length_s / job->sections;
    const double whole = floor(into_s / part_s);
    const double rest_s = into_s - whole * part_s;

    return job->low_share * part_s * whole + fmin(rest_s, job->low_share * part_s);
}

/* Energy from the first beginning until a time, if these were the levels of power. */
static double energy_until(const struct job *job, const struct run *run,
                           const struct levels *levels, double at_s)
{
    const double since_s = at_s - run->begins_s[0];
    uint32_t low = 0;
    uint32_t high = run->count;
    double low_s;

    while (low + 1 < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (run->begins_s[middle] <= at_s)
            low = middle;
        else
            high = middle;
    }
    low_s =
        job->low_share * (run->begins_s[low] - run->begins_s[0]) +
        low_seconds(job, run->begins_s[low + 1] - run->begins_s[low], at_s - run->begins_s[low]);
    return levels->low_w * low_s + levels->high_w * (since_s - low_s);
}

/* ---- a GPU that is read ------------------------------------------------------------------ */

struct device {
    const struct job *job;
    const struct run *run;
    struct levels seen; /* as its sensor has them */
    double period_s;
    double window_s;
    double first_s; /* the first refresh */
    bool samples;
    uint32_t ticks;
    double counted_j[MAX_TICKS];
    double power_w[MAX_TICKS];
};

/* Computes the value of every refresh. */
static void refresh(struct device *device)
{
    const struct run *run = device->run;
    const double end_s = run->begins_s[run->count];
    double counted_j = 0.0;

    device->ticks = 0;
    for (double at_s = device->first_s; at_s < end_s && device->ticks < MAX_TICKS;
         at_s = device->first_s + device->period_s * device->ticks) {
        const double until_j = energy_until(device->job, run, &device->seen, at_s);
        const double from_s = at_s - device->window_s;
        const double power_w =
            (until_j - energy_until(device->job, run, &device->seen, from_s)) / device->window_s;

        counted_j = device->samples ? counted_j + power_w * device->period_s : until_j;
        device->counted_j[device->ticks] = counted_j;
        device->power_w[device->ticks++] = power_w;
    }
}

struct reader {
    struct lull_energy_account account;
    struct lull_energy_edge edges[2];
    bool known[2];
    struct lull_moments powers;
};

static void take(const struct device *device, double at_s, bool is_counted, struct reader *reader)
{
    const uint32_t tick = (uint32_t)((at_s - device->first_s) / device->period_s);
    const struct lull_energy_reading reading = {
        .time_ns = (int64_t)(at_s * ns_per_s),
        .has_counter = is_counted,
        .has_power = true,
        .counter_j = floor(device->counted_j[tick] * 1e3) * 1e-3,
        .power_w = device->power_w[tick],
    };

    lull_energy_account_take(&reader->account, &reading);
    lull_moments_add(&reader->powers, reading.power_w);
}

static void settle(const struct run *run, bool is_final, struct reader *reader)
{
    for (int i = 0; i < 2; i++) {
        const uint32_t boundary = run->first + (i == 0 ? 0 : run->iterations);
        const int64_t time_ns = (int64_t)(run->begins_s[boundary] * ns_per_s);

        if (!reader->known[i] &&
            (is_final || lull_energy_account_settled_ns(&reader->account) >= time_ns))
            reader->known[i] = lull_energy_account_at(&reader->account, time_ns, &reader->edges[i]);
    }
}

static void read_device(struct lull_random *random, const struct device *device,
                        const struct lull_energy_source *source, struct reader *reader)
{
    const double end_s = device->run->begins_s[device->run->count];
    double at_s = device->first_s + between(random, 0.0, poll_s);

    *reader = (struct reader){0};
    lull_energy_account_init(&reader->account, source);
    for (uint32_t polls = 0; at_s < end_s - device->period_s; polls++) {
        take(device, at_s, polls % 10 == 0, reader);
        settle(device->run, false, reader);
        at_s += poll_s + between(random, 0.0, 0.002);
    }
    settle(device->run, true, reader);
}

/* ---- one side ---------------------------------------------------------------------------- */

/* Measurement of one kind of runs. */
struct measurement {
    const struct saving_condition *condition;
    const struct job *job;
    struct sensor sensor;    /* as it is */
    struct sensor described; /* as the source of the account has it */
    double gains[MAX_GPUS];
    int kind; /* 0 unmanaged, 1 managed */
};

static double seen_w(double true_w, double offset_w, double factor, double gain)
{
    return gain * (true_w * factor + offset_w);
}

static double run_seconds(const struct run *run)
{
    return run->begins_s[run->first + run->iterations] - run->begins_s[run->first];
}

/* Measures a run on all GPUs. */
static void measure_run(struct lull_random *random, const struct measurement *measurement,
                        const struct run *run, struct lull_energy_side *side, double *bias_j)
{
    static struct device device;
    const struct job *job = measurement->job;
    const struct levels *levels = &job->levels[measurement->kind];
    const struct levels *offsets = &job->offsets[measurement->kind];
    const double factor =
        exp(measurement->condition->run_deviation * lull_random_normal(random, 0.0, 1.0));
    const struct lull_energy_source source = {measurement->described.period_s,
                                              measurement->described.period_s,
                                              measurement->described.window_s, 480.0};
    struct lull_energy_sum sum = {0};
    struct lull_moments powers = {0};
    struct lull_energy_strobe strobe = {0};
    struct lull_energy_waveform waveform = {.sections = job->sections};

    for (uint32_t gpu = 0; gpu < job->gpus; gpu++) {
        const double gain = measurement->gains[gpu];
        struct lull_energy_figure figure;
        struct reader reader;

        device.job = job;
        device.run = run;
        device.seen = (struct levels){seen_w(levels->high_w, offsets->high_w, factor, gain),
                                      seen_w(levels->low_w, offsets->low_w, factor, gain)};
        device.period_s = measurement->sensor.period_s;
        device.window_s = measurement->sensor.window_s;
        device.samples = measurement->condition->samples;
        device.first_s = run->begins_s[0] + device.window_s + between(random, 0.0, device.period_s);
        refresh(&device);
        read_device(random, &device, &source, &reader);
        figure = lull_energy_between(&reader.account, &reader.edges[0], &reader.edges[1]);
        lull_energy_sum_add(&sum, &figure);
        lull_moments_merge(&powers, &reader.powers);
    }
    for (uint32_t i = 0; i < run->iterations; i++)
        lull_energy_strobe_add(&strobe, (int64_t)(run->begins_s[run->first + i] * ns_per_s));
    waveform.swing_ratio = lull_energy_strobe_swing_ratio(&powers, job->low_share);
    waveform.iteration_s = run_seconds(run) / run->iterations;
    *bias_j = sum.bias_j;
    *side = (struct lull_energy_side){
        .gpus = job->gpus,
        .iterations = run->iterations,
        .seconds = run_seconds(run),
        .energy_j = sum.joules,
        .reading_j = lull_energy_sum_uncertainty_j(&sum),
        .sampling_ratio =
            lull_energy_strobe_ratio(lull_energy_strobe_edge_s(&strobe, &source), &waveform) /
            sqrt(job->gpus),
    };
}

/* The mean energy of an iteration, were there no differences between runs. */
static double true_energy(const struct job *job, const struct run *run, int kind)
{
    const struct levels *levels = &job->levels[kind];

    return (energy_until(job, run, levels, run->begins_s[run->first + run->iterations]) -
            energy_until(job, run, levels, run->begins_s[run->first])) /
           run->iterations;
}

/* The reported and the true saving of a pair of runs, unmanaged and managed. */
struct pair {
    struct lull_energy_side sides[2];
    double true_j[2]; /* per iteration */
    double bias_j[2];
};

static void measure_pair(struct lull_random *random, struct measurement *measurement,
                         uint32_t iterations, struct pair *pair)
{
    static struct run run;
    const struct job *job = measurement->job;

    for (int i = 0; i < 2; i++) {
        const double iteration_s = job->iteration_s * (i == 0 ? 1.0 : 1.0 + job->slowdown);

        measurement->kind = i;
        draw_run(random, measurement->condition, iteration_s, iterations, &run);
        measure_run(random, measurement, &run, &pair->sides[i], &pair->bias_j[i]);
        pair->true_j[i] = true_energy(job, &run, i);
    }
}

/* Describes the sensor, which refreshes slightly faster or slower
 * than specified, and synchronises the job's iterations with it. */
static void draw_sensor(struct lull_random *random, const struct saving_condition *condition,
                        struct measurement *measurement, struct job *job)
{
    double periods;

    measurement->described = sensors[lull_random_below(random, 5)];
    if (condition->samples)
        measurement->described = sensors[2 * lull_random_below(random, 2)];
    measurement->sensor = measurement->described;
    measurement->sensor.period_s *= between(random, 0.98, 1.02);
    for (int i = 0; i < MAX_GPUS; i++)
        measurement->gains[i] = between(random, 0.95, 1.05);
    if (condition->step == STEP_NONE)
        return;
    periods = fmax(2.0, round(job->iteration_s / measurement->sensor.period_s));
    if (condition->step == STEP_SHORT)
        periods = 0.5 * (double)(1 + lull_random_below(random, 3));
    job->slowdown = 0.0;
    job->iteration_s = periods * measurement->sensor.period_s;
}

/* The interval of one pair is the saving's own, that of several is Student's over them. */
static void judge(const struct pair *pairs, uint32_t count, struct saving_outcome *outcome)
{
    const struct lull_energy_saving *saving = &outcome->saving;
    struct lull_paired_runs runs = {0};
    struct lull_paired_change change;

    for (uint32_t i = count; i-- > 0;) {
        const struct lull_energy_side *sides = pairs[i].sides;

        if (!lull_energy_saving_compute(&sides[0], &sides[1], &outcome->saving))
            abort();
        lull_paired_runs_add(&runs, sides[0].energy_j / (double)sides[0].iterations,
                             sides[1].energy_j / (double)sides[1].iterations,
                             lull_energy_saving_shared_log(saving) +
                                 pairs[i].bias_j[0] / sides[0].energy_j +
                                 pairs[i].bias_j[1] / sides[1].energy_j);
    }
    outcome->lower_ratio = saving->saving_ratio - saving->half_width_ratio;
    outcome->upper_ratio = saving->saving_ratio + saving->half_width_ratio;
    if (count == 1)
        return;
    lull_paired_runs_change(&runs, 0.975, &change);
    outcome->lower_ratio = -change.upper_ratio;
    outcome->upper_ratio = -change.lower_ratio;
}

void saving_case_run(const struct saving_condition *condition, uint32_t iterations, uint64_t seed,
                     struct saving_outcome *outcome)
{
    static struct pair pairs[MAX_PAIRS];
    const uint32_t count = condition->pairs > 1 ? condition->pairs : 1;
    struct lull_random random;
    struct job job;
    struct measurement measurement = {.condition = condition, .job = &job};
    double log_ratio = 0.0;

    lull_random_init(&random, seed);
    draw_job(&random, condition, &job);
    draw_offsets(&random, condition, &job);
    draw_sensor(&random, condition, &measurement, &job);
    for (uint32_t i = 0; i < count; i++) {
        measure_pair(&random, &measurement, iterations, &pairs[i]);
        log_ratio += log(pairs[i].true_j[1] / pairs[i].true_j[0]) / count;
    }
    outcome->true_ratio = -expm1(log_ratio);
    judge(pairs, count, outcome);
}

/* ---- coverage ---------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

static void count_covered(const struct saving_outcome *outcome, uint32_t cases,
                          struct saving_summary *summary)
{
    const struct lull_energy_saving *saving = &outcome->saving;
    const double error = fabs(saving->saving_ratio - outcome->true_ratio);
    const double share = 1.0 / cases;

    if (outcome->lower_ratio <= outcome->true_ratio && outcome->true_ratio <= outcome->upper_ratio)
        summary->covered += share;
    if (error <= saving->terms[LULL_ENERGY_TERM_READINGS])
        summary->covered_before += share;
    for (int i = 0; i < LULL_ENERGY_TERMS; i++)
        if (error <= hypot(saving->terms[LULL_ENERGY_TERM_READINGS], saving->terms[i]))
            summary->covered_alone[i] += share;
}

void saving_case_summarize(const struct saving_condition *condition, uint32_t iterations,
                           uint32_t cases, struct saving_summary *summary)
{
    static double widths[SAVING_CASE_MOST];
    static double savings[SAVING_CASE_MOST];
    static double terms[LULL_ENERGY_TERMS][SAVING_CASE_MOST];

    *summary = (struct saving_summary){0};
    for (uint32_t seed = 0; seed < cases; seed++) {
        struct saving_outcome outcome;

        saving_case_run(condition, iterations, seed, &outcome);
        count_covered(&outcome, cases, summary);
        widths[seed] = 0.5 * (outcome.upper_ratio - outcome.lower_ratio);
        savings[seed] = outcome.saving.saving_ratio;
        for (int i = 0; i < LULL_ENERGY_TERMS; i++)
            terms[i][seed] = outcome.saving.terms[i];
    }
    summary->width = median(widths, cases);
    summary->saving = median(savings, cases);
    for (int i = 0; i < LULL_ENERGY_TERMS; i++)
        summary->terms[i] = median(terms[i], cases);
    summary->width_before = summary->terms[LULL_ENERGY_TERM_READINGS];
}
