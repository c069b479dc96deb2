/* SPDX-License-Identifier: Apache-2.0 */
#include "saving_case.h"

#include <math.h>
#include <stdlib.h>

#include "core/energy/account.h"
#include "core/energy/strobe.h"
#include "core/stats/random.h"

enum { MAX_ITERATIONS = 5000, MAX_TICKS = 1 << 18, MAX_GPUS = 4, MAX_CASES = 2000 };

/* The readings go on for so long before and after the iterations that are compared. */
static const double margin_s = 3.0;
static const double poll_s = 0.1;
static const double ns_per_s = 1e9;

const struct saving_condition saving_conditions[] = {
    {.name = "nothing but readings", .jitter_ratio = 0.003, .runs = 1},
    {.name = "runs differ by 0.1 %", .run_deviation = 0.001, .jitter_ratio = 0.003, .runs = 1},
    {.name = "runs differ by 0.3 %", .run_deviation = 0.003, .jitter_ratio = 0.003, .runs = 1},
    {.name = "runs differ by 1 %", .run_deviation = 0.01, .jitter_ratio = 0.003, .runs = 1},
    {.name = "3 + 3 runs that differ by 1 %",
     .run_deviation = 0.01,
     .jitter_ratio = 0.003,
     .runs = 3},
    {.name = "offset of up to 5 W", .offset_w = 5.0, .jitter_ratio = 0.003, .runs = 1},
    {.name = "offset by level", .level_w = 2.0, .jitter_ratio = 0.003, .runs = 1},
    {.name = "offset by level, steady",
     .level_w = 2.0,
     .jitter_ratio = 0.003,
     .is_steady = true,
     .runs = 1},
    {.name = "samples, out of step", .samples = true, .jitter_ratio = 0.003, .runs = 1},
    {.name = "samples, in step", .samples = true, .is_in_step = true, .runs = 1},
    {.name = "samples, in step, 0.1 % jitter",
     .samples = true,
     .is_in_step = true,
     .jitter_ratio = 0.001,
     .runs = 1},
    {.name = "samples, in step, short",
     .samples = true,
     .is_in_step = true,
     .is_short = true,
     .runs = 1},
    {.name = "all at once",
     .run_deviation = 0.005,
     .offset_w = 5.0,
     .level_w = 2.0,
     .jitter_ratio = 0.003,
     .samples = true,
     .runs = 1},
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
    struct levels offsets[2]; /* what the sensors tell too much of them */
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

/* Works out what every refresh tells. */
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

/* How one kind of runs is measured. */
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

/* Measures a run on all GPUs, and adds it to its side. */
static void measure_run(struct lull_random *random, const struct measurement *measurement,
                        const struct run *run, struct lull_energy_side *side)
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
    side->seconds += run->begins_s[run->first + run->iterations] - run->begins_s[run->first];
    waveform.iteration_s =
        (run->begins_s[run->first + run->iterations] - run->begins_s[run->first]) / run->iterations;
    waveform.swing_ratio = lull_energy_strobe_swing_ratio(&powers, job->low_share);
    side->iterations += run->iterations;
    side->energy_j += sum.joules;
    side->reading_j = hypot(side->reading_j, lull_energy_sum_uncertainty_j(&sum));
    side->sampling_ratio =
        lull_energy_strobe_ratio(lull_energy_strobe_edge_s(&strobe, &source), &waveform) /
        sqrt(job->gpus);
}

/* The mean energy of an iteration, were there no differences between runs. */
static double true_energy(const struct job *job, const struct run *run, int kind)
{
    const struct levels *levels = &job->levels[kind];

    return (energy_until(job, run, levels, run->begins_s[run->first + run->iterations]) -
            energy_until(job, run, levels, run->begins_s[run->first])) /
           run->iterations;
}

static void measure_side(struct lull_random *random, struct measurement *measurement,
                         uint32_t iterations, struct lull_energy_side *side, double *true_j)
{
    static struct run run;
    struct lull_moments logs = {0};
    const struct job *job = measurement->job;
    const double iteration_s =
        job->iteration_s * (measurement->kind == 0 ? 1.0 : 1.0 + job->slowdown);

    *side = (struct lull_energy_side){.runs = measurement->condition->runs, .gpus = job->gpus};
    *true_j = 0.0;
    for (uint32_t i = 0; i < side->runs; i++) {
        const double before_j = side->energy_j;

        draw_run(random, measurement->condition, iteration_s, iterations, &run);
        measure_run(random, measurement, &run, side);
        lull_moments_add(&logs, log((side->energy_j - before_j) / iterations));
        *true_j += true_energy(job, &run, measurement->kind) / side->runs;
    }
    side->scatter = logs.squares;
}

void saving_case_run(const struct saving_condition *condition, uint32_t iterations, uint64_t seed,
                     struct saving_outcome *outcome)
{
    struct lull_random random;
    struct job job;
    struct measurement measurement = {.condition = condition, .job = &job};
    struct lull_energy_side sides[2];
    double true_j[2];
    double periods;

    lull_random_init(&random, seed);
    draw_job(&random, condition, &job);
    draw_offsets(&random, condition, &job);
    measurement.described = sensors[lull_random_below(&random, 5)];
    if (condition->samples)
        measurement.described = sensors[2 * lull_random_below(&random, 2)];
    measurement.sensor = measurement.described;
    measurement.sensor.period_s *= between(&random, 0.98, 1.02);
    if (condition->is_in_step) {
        job.slowdown = 0.0;
        periods = fmax(2.0, round(job.iteration_s / measurement.sensor.period_s));
        if (condition->is_short)
            periods = 0.5 * (double)(1 + lull_random_below(&random, 3));
        job.iteration_s = periods * measurement.sensor.period_s;
    }
    for (int i = 0; i < MAX_GPUS; i++)
        measurement.gains[i] = between(&random, 0.95, 1.05);
    for (int i = 0; i < 2; i++) {
        measurement.kind = i;
        measure_side(&random, &measurement, iterations, &sides[i], &true_j[i]);
    }
    outcome->true_ratio = 1.0 - true_j[1] / true_j[0];
    if (!lull_energy_saving_compute(&sides[0], &sides[1], &outcome->saving))
        abort();
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

    if (error <= saving->half_width_ratio)
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
    static double widths[MAX_CASES];
    static double savings[MAX_CASES];
    static double terms[LULL_ENERGY_TERMS][MAX_CASES];

    *summary = (struct saving_summary){0};
    for (uint32_t seed = 0; seed < cases; seed++) {
        struct saving_outcome outcome;

        saving_case_run(condition, iterations, seed, &outcome);
        count_covered(&outcome, cases, summary);
        widths[seed] = outcome.saving.half_width_ratio;
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
