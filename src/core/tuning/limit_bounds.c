/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/limit_bounds.h"

#include <math.h>
#include <stdlib.h>

#include "core/stats/random.h"

/* The jobs that are considered: first those of a grid; of those that fit, neighbours are drawn
 * until there are enough, so that what is left stays dense. */
enum {
    COMPUTE_SHARES = 8,
    MEMORY_SHARES = 6,
    DYNAMIC_SHARES = 8,
    HELD_CLOCKS = 12,
    MAX_JOBS = 2 * COMPUTE_SHARES * MEMORY_SHARES * DYNAMIC_SHARES * HELD_CLOCKS,
    ENOUGH_JOBS = 256,
    MAX_DRAWS = 600,
    MIN_JOBS = 24, /* with fewer, the jobs do not cover what is possible */
};

/* Largest difference between a neighbour and a job, in each share. */
static const double neighbourhood = 0.15;
/* No kernel draws more than this share of the highest limit: data/gpu_models.json has 1.9. */
static const double max_power = 2.0;
/* The highest limit binds if the job draws more than this share of what it settles at. */
static const double binding_ratio = 0.97;
/* The lowest clock, as a share of the highest, that the highest limit may leave a GPU: 0.5 on the
 * RTX 3090 and A5000. */
static const double lowest_held = 0.5;

/* A job that is possible. */
struct bounds_job {
    double compute_ratio; /* of the time at the highest limit */
    double memory_ratio;
    double dynamic_ratio;
    uint32_t held;     /* the clock at the highest limit */
    bool is_mean_held; /* a limit holds the mean of an iteration, not the power of computation */
};

struct lull_limit_bounds {
    const struct lull_device_curve *curve;
    uint32_t clock_count;
    struct lull_device_clock clocks[LULL_DEVICE_CURVE_CLOCKS];
    uint32_t job_count;
    bool is_filled;
    struct lull_random random;
    struct bounds_job jobs[MAX_JOBS];
};

struct lull_limit_bounds *lull_limit_bounds_create(const struct lull_device_curve *curve)
{
    struct lull_limit_bounds *const bounds = calloc(1, sizeof(*bounds));

    if (bounds == NULL)
        return NULL;
    bounds->curve = curve;
    bounds->clock_count = lull_device_clocks(curve, bounds->clocks);
    lull_random_init(&bounds->random, 1);
    return bounds;
}

void lull_limit_bounds_destroy(struct lull_limit_bounds *bounds)
{
    free(bounds);
}

/* ---- a job at a clock --------------------------------------------------------------------- */

/* A job with the power that was measured at the highest limit. */
struct bounds_play {
    const struct bounds_job *job;
    const struct lull_device_clock *held;
    struct lull_device_kernel kernel;
};

/* An iteration, relative to the time at the highest limit. */
struct bounds_state {
    double time_ratio;
    double compute_w;
    double mean_w;
};

/* Finds the kernel with which the job draws so much at the highest limit. False: none does. */
static bool make_play(const struct lull_limit_bounds *bounds, const struct bounds_job *job,
                      double watts, struct bounds_play *play_out)
{
    const struct lull_device_clock *const held = &bounds->clocks[job->held];
    const struct lull_device_kernel unit = {0.0, 1.0, job->memory_ratio};
    struct lull_device_clock bare = *held;
    const double compute_w =
        (watts - (1.0 - job->compute_ratio) * held->waiting_w) / job->compute_ratio;

    bare.waiting_w = 0.0;
    *play_out = (struct bounds_play){
        job,
        held,
        {(1.0 - job->dynamic_ratio) * compute_w,
         job->dynamic_ratio * compute_w / lull_device_kernel_w(&bare, &unit), job->memory_ratio}};
    return compute_w >= held->waiting_w && compute_w <= max_power * bounds->curve->limit_max_w;
}

static struct bounds_state play_at(const struct bounds_play *play,
                                   const struct lull_device_clock *clock)
{
    const double waits = 1.0 - play->job->compute_ratio;
    const double computes = play->job->compute_ratio *
                            lull_device_kernel_time(clock, &play->kernel) /
                            lull_device_kernel_time(play->held, &play->kernel);
    const double compute_w = lull_device_kernel_w(clock, &play->kernel);

    return (struct bounds_state){
        .time_ratio = computes + waits,
        .compute_w = compute_w,
        .mean_w = (computes * compute_w + waits * clock->waiting_w) / (computes + waits),
    };
}

static bool limit_bounds_is_within(const struct bounds_play *play, const struct bounds_state *state,
                                   double limit_w)
{
    return (play->job->is_mean_held ? state->mean_w : state->compute_w) <= limit_w;
}

/* The job under a limit: power falls with the clock, so that halving finds the highest that is
 * within it. */
static struct bounds_state play_under(const struct lull_limit_bounds *bounds,
                                      const struct bounds_play *play, double limit_w)
{
    const double settled_w = limit_w * bounds->curve->limit_settle_ratio;
    uint32_t above = play->job->held;
    uint32_t below = bounds->clock_count - 1;
    struct bounds_state state = play_at(play, &bounds->clocks[above]);

    if (limit_bounds_is_within(play, &state, settled_w))
        return state;
    while (below - above > 1) {
        const uint32_t middle = above + (below - above) / 2;

        state = play_at(play, &bounds->clocks[middle]);
        if (limit_bounds_is_within(play, &state, settled_w))
            below = middle;
        else
            above = middle;
    }
    state = play_at(play, &bounds->clocks[below]);
    /* While it dithers, the limiter loses some of the work; at the highest limit it may have. */
    if (play->job->held == 0)
        state.time_ratio =
            1.0 - play->job->compute_ratio +
            (state.time_ratio - 1.0 + play->job->compute_ratio) / bounds->curve->limit_work_ratio;
    return state;
}

/* ---- the jobs ----------------------------------------------------------------------------- */

static void fill_shares(struct lull_limit_bounds *bounds, uint32_t held, bool is_mean_held)
{
    for (int c = 1; c <= COMPUTE_SHARES; c++)
        for (int m = 0; m < MEMORY_SHARES; m++)
            for (int d = 1; d <= DYNAMIC_SHARES; d++)
                bounds->jobs[bounds->job_count++] =
                    (struct bounds_job){(double)c / COMPUTE_SHARES, m / (MEMORY_SHARES - 1.0),
                                        (double)d / DYNAMIC_SHARES, held, is_mean_held};
}

static void limit_bounds_fill(struct lull_limit_bounds *bounds,
                              const struct lull_limit_known *highest)
{
    const double settled_w = highest->limit_w * bounds->curve->limit_settle_ratio;
    const bool is_binding = highest->energy_j / highest->time_s > binding_ratio * settled_w;
    const double last = (1.0 - lowest_held) * (bounds->clock_count - 1);

    for (int h = 0; h < HELD_CLOCKS && (h == 0 || is_binding); h++) {
        const uint32_t held = (uint32_t)(last * h / (HELD_CLOCKS - 1));

        fill_shares(bounds, held, false);
        fill_shares(bounds, held, true);
    }
    bounds->is_filled = true;
}

/* Returns whether a job explains the measured times and energies, by log(measured / predicted). The
 * first measurement may be as far off as the others, so only the differences between them count. */
static bool limit_bounds_fits(const struct lull_limit_bounds *bounds, const struct bounds_job *job,
                              const struct lull_limit_known *known, uint32_t count)
{
    struct bounds_play play;
    double time[2] = {0.0, 0.0}; /* the least and the most that is left */
    double energy[2] = {0.0, 0.0};
    double tolerance = known->tolerance_ratio;

    if (!make_play(bounds, job, known->energy_j / known->time_s, &play))
        return false;
    for (uint32_t i = 1; i < count; i++)
        tolerance = fmax(tolerance, known[i].tolerance_ratio);
    for (uint32_t i = 1; i < count; i++) {
        const struct bounds_state state = play_under(bounds, &play, known[i].limit_w);
        const double time_s = state.time_ratio * known->time_s;
        const double time_left = log(known[i].time_s / time_s);
        const double energy_left = log(known[i].energy_j / (time_s * state.mean_w));

        time[0] = fmin(time[0], time_left);
        time[1] = fmax(time[1], time_left);
        energy[0] = fmin(energy[0], energy_left);
        energy[1] = fmax(energy[1], energy_left);
        if (time[1] - time[0] > 2.0 * tolerance || energy[1] - energy[0] > 2.0 * tolerance)
            return false;
    }
    return true;
}

static double near_by(struct lull_random *random, double share, double least)
{
    const double away = neighbourhood * (2.0 * lull_random_uniform(random) - 1.0);

    return fmin(fmax(share + away, least), 1.0);
}

static struct bounds_job draw_neighbour(struct lull_limit_bounds *bounds,
                                        const struct bounds_job *job)
{
    const double min_compute = 0.05;
    struct bounds_job neighbour = *job;

    neighbour.compute_ratio = near_by(&bounds->random, job->compute_ratio, min_compute);
    neighbour.memory_ratio = near_by(&bounds->random, job->memory_ratio, 0.0);
    neighbour.dynamic_ratio = near_by(&bounds->random, job->dynamic_ratio, 0.0);
    if (job->held > 0) {
        const double share = (double)job->held / (bounds->clock_count - 1);

        neighbour.held = (uint32_t)((1.0 - lowest_held) * (bounds->clock_count - 1) *
                                    near_by(&bounds->random, share / (1.0 - lowest_held), 0.0));
    }
    return neighbour;
}

/* Draws neighbours of the jobs that are left. */
static void draw_more(struct lull_limit_bounds *bounds, const struct lull_limit_known *known,
                      uint32_t count)
{
    const uint32_t left = bounds->job_count;

    for (uint32_t draw = 0; left > 0 && draw < MAX_DRAWS && bounds->job_count < ENOUGH_JOBS;
         draw++) {
        const struct bounds_job neighbour =
            draw_neighbour(bounds, &bounds->jobs[draw % bounds->job_count]);

        if (limit_bounds_fits(bounds, &neighbour, known, count))
            bounds->jobs[bounds->job_count++] = neighbour;
    }
}

uint32_t lull_limit_bounds_learn(struct lull_limit_bounds *bounds,
                                 const struct lull_limit_known *known, uint32_t count)
{
    uint32_t left = 0;

    if (!bounds->is_filled)
        limit_bounds_fill(bounds, known);
    for (uint32_t i = 0; i < bounds->job_count; i++)
        if (limit_bounds_fits(bounds, &bounds->jobs[i], known, count))
            bounds->jobs[left++] = bounds->jobs[i];
    bounds->job_count = left;
    draw_more(bounds, known, count);
    return bounds->job_count;
}

/* Value of a limit for a job, in the unit of the aim for an iteration of 1 s at the highest limit;
 * INFINITY: it exceeds a bound on slowdown. */
static double value_under(const struct lull_limit_bounds *bounds, const struct bounds_play *play,
                          const struct lull_limit_aim *aim, double slack_ratio, double limit_w)
{
    const struct bounds_state state = play_under(bounds, play, limit_w);

    if (aim->selector->aim == LULL_JOB_SLOWDOWN &&
        state.time_ratio > 1.0 + aim->selector->slowdown_ratio + slack_ratio)
        return INFINITY;
    return lull_job_value(aim->selector, aim->gpu_count * state.mean_w * state.time_ratio,
                          state.time_ratio);
}

double lull_limit_bounds_excess(const struct lull_limit_bounds *bounds,
                                const struct lull_limit_aim *aim,
                                const struct lull_limit_known *known, uint32_t count,
                                double limit_w)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < bounds->job_count && least > 0.0; i++) {
        struct bounds_play play;
        double best = INFINITY;

        if (!make_play(bounds, &bounds->jobs[i], known->energy_j / known->time_s, &play))
            continue;
        for (uint32_t k = 0; k < count; k++)
            best = fmin(best, value_under(bounds, &play, aim, 0.0, known[k].limit_w));
        least =
            fmin(least, value_under(bounds, &play, aim, aim->slack_ratio, limit_w) / best - 1.0);
    }
    return bounds->job_count >= MIN_JOBS ? least : -INFINITY;
}
