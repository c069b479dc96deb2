/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <math.h>
#include <stdlib.h>

/* The driver and the clocks, as those of a data centre's GPU in a quick state. */
static const double call_ms = 3.0;
static const double settle_ms = 2.0;
static const double settle_spread_ms = 4.0;
/* Parts of an iteration that is communication. */
static const double section_share = 0.6;
static const double steady_section_share = 0.05;
/* Clock of the lowest point, as a share of the highest one. */
static const double lowest_clock = 0.4;
/* Ranks differ by this much in what they compute between two collectives. */
static const double rank_jitter = 0.0005;
/* A section, or an iteration, that did this share of its work low counts as low. */
static const double low_share = 0.3;
/* Power at the reference and low: nothing but whether lowering saves depends on it. */
static const double reference_w = 300.0;
static const double low_w = 220.0;
/* The least step of time, so that a controller that wants to be asked at once cannot hang the run.
 */
static const double least_step_ms = 0.01;
static const double over_ms = 1e-9;

enum { OPERATION = 2, LAST_OPERATION = 3, EXTRA_OPERATION = 40, MOST_COMMANDS = 16 };

enum phase {
    COMPUTING,
    WAITING,  /* for the other ranks */
    SECTION,  /* the collective's own work */
    AFTERMATH /* time that the lowered clock added to it */
};

struct rank {
    enum phase phase;
    uint32_t section; /* of this iteration, from 0 */
    double left_ms;   /* of the phase, at full speed */
    double factor;    /* noise of this iteration */
    double factors;   /* of all that have ended, with the straggler's time */
    double ended_ms;  /* when the last one did */
    uint32_t iteration;
    double done_ms[AUDIT_MAX_POINTS]; /* work of this section, or iteration, at each point */
    double work_ms;
    bool was_low;           /* in this iteration */
    double lost_since_left; /* the last collective, iterations */
    double lost;            /* so far, iterations; of coupled ranks the first one counts for all */
    /* The clock and the driver. */
    uint32_t point;  /* in force */
    uint32_t target; /* that the clock moves to */
    uint32_t was_target;
    uint32_t written; /* by the last call */
    bool waits;       /* a command does */
    struct lull_command command;
    double posted_ms;
    double return_ms; /* INFINITY: no call is under way */
    double effect_ms; /* INFINITY: the clock does not move */
    double settles_ms;
    double called_ms; /* length of the call, waiting included */
};

struct audit_job {
    struct audit_job_config config;
    struct lull_controller *controller;
    struct audit_random random;
    struct audit_noise noise[AUDIT_MAX_RANKS]; /* the first one holds for coupled ranks */
    struct audit_harm harm[AUDIT_MAX_RANKS];
    struct rank ranks[AUDIT_MAX_RANKS];
    uint32_t straggler;
    uint32_t next_straggler; /* iteration from which another rank is it */
    double now_ms;
    double driver_free_ms;
};

static int64_t ns_of(double ms)
{
    return (int64_t)llround(ms * 1e6);
}

/* Returns the place of the rank's noise and harm: coupled ranks share those of rank 0. */
static uint32_t domain_of(const struct audit_job *job, uint32_t index)
{
    return job->config.free_ranks ? index : 0;
}

static bool is_steady(const struct audit_job *job)
{
    return job->config.sections == 0;
}

static uint32_t section_count(const struct audit_job *job)
{
    return is_steady(job) ? 1 : job->config.sections;
}

/* Work of one section and of the computation before it at full speed, without noise. */
static double section_ms(const struct audit_job *job)
{
    const double share = is_steady(job) ? steady_section_share : section_share;

    return job->config.iteration_ms * share / section_count(job);
}

static double compute_ms(const struct audit_job *job)
{
    return job->config.iteration_ms / section_count(job) - section_ms(job);
}

/* By how much slower computation runs low, where the harm does not say so. */
static double compute_harm(const struct audit_job *job, uint32_t point)
{
    const double depth = (double)point / (double)(job->config.points - 1);

    return 1.0 / (1.0 - (1.0 - lowest_clock) * depth) - 1.0;
}

/* ---- the job ----------------------------------------------------------------------------- */

static void call(struct audit_job *job, uint32_t index, uint16_t operation, bool begin)
{
    const struct rank *rank = &job->ranks[index];
    const bool is_own = operation == OPERATION;
    const struct lull_call edge = {
        .time_ns = ns_of(job->now_ms),
        .bytes = is_own ? UINT64_C(48000000) : 4,
        .communicator = is_own ? rank->section : 0,
        .ranks = job->config.ranks,
        .peer = -1,
        .operation = operation,
        .begin = begin,
    };

    lull_controller_take_call(job->controller, index, &edge);
    if (is_own && job->config.straggle > 0.0)
        lull_controller_take_collective(job->controller, index, &edge);
}

static void begin_computing(struct audit_job *job, uint32_t index)
{
    struct rank *rank = &job->ranks[index];
    const double jitter = rank_jitter * audit_random_normal(&job->random);

    rank->phase = COMPUTING;
    rank->left_ms = compute_ms(job) * rank->factor * (1.0 + jitter);
    if (index == job->straggler)
        rank->left_ms *= 1.0 + job->config.straggle;
    rank->lost_since_left = 0.0;
}

/* Speed of the rank's present phase, 1 at full speed. */
static double speed_of(const struct audit_job *job, uint32_t index)
{
    const struct rank *rank = &job->ranks[index];
    double most = 0.0;

    if (rank->phase == WAITING)
        return 0.0;
    if (!is_steady(job))
        return rank->phase == COMPUTING ? 1.0 / (1.0 + compute_harm(job, rank->point)) : 1.0;
    if (rank->phase == COMPUTING || job->config.free_ranks)
        return 1.0 / (1.0 + audit_harm_now(&job->harm[domain_of(job, index)], rank->point));
    for (uint32_t i = 0; i < job->config.ranks; i++)
        most = fmax(most, audit_harm_now(&job->harm[0], job->ranks[i].point));
    return 1.0 / (1.0 + most);
}

/* The work of dt_ms: what is left of it, and what it costs for running low. */
static void work(struct audit_job *job, uint32_t index, double dt_ms)
{
    struct rank *rank = &job->ranks[index];
    const double done = dt_ms * speed_of(job, index);
    const double share = done / (rank->factor * job->config.iteration_ms);
    const struct audit_harm *harm = &job->harm[domain_of(job, index)];

    rank->left_ms -= done;
    if (rank->phase == WAITING || rank->phase == AFTERMATH)
        return;
    if (is_steady(job) || rank->phase == SECTION) {
        rank->work_ms += done;
        rank->done_ms[rank->point] += done;
    }
    if (is_steady(job))
        rank->lost_since_left += share * audit_harm_expected(harm, rank->point);
    else if (rank->phase == COMPUTING && rank->point != 0)
        rank->lost_since_left += share * compute_harm(job, rank->point);
}

/* The deepest point at which, or below, a rank has done enough of the section's work. */
static uint32_t rank_point(const struct audit_job *job, const struct rank *rank)
{
    double low_ms = 0.0;

    for (uint32_t point = job->config.points - 1; point > 0; point--) {
        low_ms += rank->done_ms[point];
        if (low_ms > low_share * rank->work_ms)
            return point;
    }
    return 0;
}

/* The deepest point at which the section has run on any rank that shares it. */
static uint32_t section_point(const struct audit_job *job, uint32_t index)
{
    uint32_t deepest = 0;

    for (uint32_t i = 0; i < job->config.ranks; i++) {
        const uint32_t point = rank_point(job, &job->ranks[i]);

        if ((!job->config.free_ranks || i == index) && point > deepest)
            deepest = point;
    }
    return deepest;
}

/* Returns the largest loss, since the last collective, among the ranks that leave it together. */
static double lost_together(const struct audit_job *job, uint32_t index)
{
    double most = 0.0;

    if (job->config.free_ranks)
        return job->ranks[index].lost_since_left;
    for (uint32_t i = 0; i < job->config.ranks; i++)
        most = fmax(most, job->ranks[i].lost_since_left);
    return most;
}

/* Another rank becomes the straggler, after a time that has no memory. */
static void change_straggler(struct audit_job *job)
{
    const double mean = job->config.straggle_every;
    const uint32_t others = job->config.ranks - 1;

    if (job->config.straggle_every == 0 || job->ranks[0].iteration < job->next_straggler)
        return;
    job->straggler += 1 + (uint32_t)(audit_random_uniform(&job->random) * others);
    job->straggler %= job->config.ranks;
    job->next_straggler = job->ranks[0].iteration + 1 +
                          (uint32_t)(-mean * log(1.0 - audit_random_uniform(&job->random)));
}

static void end_iteration(struct audit_job *job, uint32_t index)
{
    struct rank *rank = &job->ranks[index];
    const uint32_t domain = domain_of(job, index);

    rank->iteration++;
    rank->factors += rank->factor * (1.0 + job->config.straggle * section_count(job) *
                                               compute_ms(job) / job->config.iteration_ms);
    rank->ended_ms = job->now_ms;
    rank->section = 0;
    lull_controller_take_power(job->controller, index, rank->point == 0 ? reference_w : low_w);
    if (job->config.extra_every != 0 && rank->iteration % job->config.extra_every == 0) {
        call(job, index, EXTRA_OPERATION, true);
        call(job, index, EXTRA_OPERATION, false);
    }
    if (domain == index) {
        audit_harm_next(&job->harm[domain], rank->was_low);
        rank->factor = audit_noise_next(&job->noise[domain]);
    } else {
        rank->factor = job->ranks[0].factor;
    }
    if (index == 0)
        change_straggler(job);
    rank->was_low = false;
}

/* The rank leaves the collective and computes again. */
static void leave(struct audit_job *job, uint32_t index)
{
    struct rank *rank = &job->ranks[index];

    call(job, index, OPERATION, false);
    for (uint32_t point = 0; point < job->config.points; point++)
        rank->done_ms[point] = 0.0;
    rank->work_ms = 0.0;
    if (++rank->section == section_count(job)) {
        call(job, index, LAST_OPERATION, true);
        call(job, index, LAST_OPERATION, false);
        end_iteration(job, index);
    }
    begin_computing(job, index);
}

/* The section's own work has ended on all ranks that share it: has it cost more? */
static void end_section(struct audit_job *job, uint32_t index)
{
    const struct audit_harm *harm = &job->harm[domain_of(job, index)];
    const uint32_t point = section_point(job, index);
    struct rank *rank = &job->ranks[index];

    rank->lost += lost_together(job, index);
    if (point != 0)
        rank->was_low = true;
    rank->phase = AFTERMATH;
    rank->left_ms = 0.0;
    if (is_steady(job))
        return;
    rank->left_ms = audit_harm_now(harm, point) * job->config.iteration_ms * rank->factor;
    rank->lost += audit_harm_expected(harm, point);
}

static bool all_wait(const struct audit_job *job)
{
    for (uint32_t i = 0; i < job->config.ranks; i++)
        if (job->ranks[i].phase != WAITING)
            return false;
    return true;
}

static void begin_section(struct audit_job *job, uint32_t index)
{
    struct rank *rank = &job->ranks[index];

    rank->phase = SECTION;
    rank->left_ms = section_ms(job) * rank->factor;
}

/* The phases that have ended by now. Coupled ranks end sections at the same time. */
static void end_phases(struct audit_job *job)
{
    const uint32_t ranks = job->config.ranks;

    for (uint32_t i = 0; i < ranks; i++) {
        if (job->ranks[i].phase != COMPUTING || job->ranks[i].left_ms > over_ms)
            continue;
        job->ranks[i].phase = WAITING;
        call(job, i, OPERATION, true);
        if (job->config.free_ranks)
            begin_section(job, i);
    }
    if (!job->config.free_ranks && all_wait(job))
        for (uint32_t i = 0; i < ranks; i++)
            begin_section(job, i);
    for (uint32_t i = 0; i < ranks; i++)
        if (job->ranks[i].phase == SECTION && job->ranks[i].left_ms <= over_ms)
            end_section(job, i);
    for (uint32_t i = 0; i < ranks; i++)
        if (job->ranks[i].phase == AFTERMATH && job->ranks[i].left_ms <= over_ms)
            leave(job, i);
}

/* ---- the driver -------------------------------------------------------------------------- */

static void tell_switch(struct audit_job *job, uint32_t index, bool overtaken)
{
    const struct rank *rank = &job->ranks[index];
    const struct lull_switch_outcome outcome = {
        .was_point = rank->was_target,
        .point = rank->target,
        .call_ms = rank->called_ms,
        .driver_ms = call_ms,
        .settle_ms = rank->settles_ms,
        .effect_ns = ns_of(job->now_ms),
        .overtaken = overtaken,
    };

    lull_controller_take_switch(job->controller, index, &outcome);
}

static void serve(struct audit_job *job, uint32_t index)
{
    struct rank *rank = &job->ranks[index];
    const struct lull_command *command = &rank->command;

    rank->waits = false;
    if (command->point == rank->written ||
        (command->point > rank->written && ns_of(job->now_ms) > command->deadline_ns))
        return;
    if (rank->effect_ms < INFINITY) {
        rank->point = rank->target;
        tell_switch(job, index, true);
    }
    rank->written = command->point;
    rank->was_target = rank->target;
    rank->target = command->point;
    rank->return_ms = job->now_ms + call_ms;
    rank->called_ms = rank->return_ms - rank->posted_ms;
    rank->settles_ms = settle_ms + settle_spread_ms * audit_random_uniform(&job->random);
    rank->effect_ms = rank->return_ms + rank->settles_ms;
    job->driver_free_ms = rank->return_ms;
}

/* The driver takes raisings first, as the governor's writer does. */
static void serve_all(struct audit_job *job)
{
    for (int lowering = 0; lowering < 2; lowering++)
        for (uint32_t i = 0; i < job->config.ranks; i++) {
            const struct rank *rank = &job->ranks[i];

            if (rank->waits && (rank->command.point > rank->written) == (lowering == 1) &&
                job->driver_free_ms <= job->now_ms)
                serve(job, i);
        }
}

static void take_commands(struct audit_job *job)
{
    struct lull_command commands[MOST_COMMANDS];
    const uint32_t count =
        lull_controller_poll(job->controller, ns_of(job->now_ms), commands, MOST_COMMANDS);

    for (uint32_t i = 0; i < count; i++) {
        struct rank *rank = &job->ranks[commands[i].gpu];

        rank->waits = true;
        rank->command = commands[i];
        rank->posted_ms = job->now_ms;
    }
}

static void hear_driver(struct audit_job *job)
{
    for (uint32_t i = 0; i < job->config.ranks; i++) {
        struct rank *rank = &job->ranks[i];

        if (rank->return_ms <= job->now_ms) {
            rank->return_ms = INFINITY;
            lull_controller_take_blocked(job->controller, i, call_ms);
        }
        if (rank->effect_ms <= job->now_ms) {
            rank->effect_ms = INFINITY;
            rank->point = rank->target;
            tell_switch(job, i, false);
        }
    }
}

/* ---- time -------------------------------------------------------------------------------- */

static double next_event_ms(const struct audit_job *job)
{
    const int64_t wake_ns = lull_controller_wake_ns(job->controller);
    double next_ms = INFINITY;
    bool any_waits = false;

    for (uint32_t i = 0; i < job->config.ranks; i++) {
        const struct rank *rank = &job->ranks[i];
        const double speed = speed_of(job, i);

        next_ms = fmin(next_ms, fmin(rank->return_ms, rank->effect_ms));
        if (speed > 0.0)
            next_ms = fmin(next_ms, job->now_ms + fmax(rank->left_ms, 0.0) / speed);
        any_waits |= rank->waits;
    }
    if (any_waits)
        next_ms = fmin(next_ms, job->driver_free_ms);
    if (wake_ns != INT64_MAX)
        next_ms = fmin(next_ms, fmax((double)wake_ns * 1e-6, job->now_ms + least_step_ms));
    return next_ms;
}

void audit_job_step(struct audit_job *job)
{
    const uint32_t until = job->ranks[0].iteration + 1;

    while (job->ranks[0].iteration < until) {
        double next_ms;

        take_commands(job);
        serve_all(job);
        next_ms = next_event_ms(job);
        for (uint32_t i = 0; i < job->config.ranks; i++)
            work(job, i, next_ms - job->now_ms);
        job->now_ms = next_ms;
        hear_driver(job);
        end_phases(job);
    }
}

/* ---- life and looking -------------------------------------------------------------------- */

/* No harm of the audit is larger than what this clock can cost. */
static const double lowest_ratio = 0.8;

static struct lull_controller *create_controller(const struct audit_job_config *config)
{
    struct lull_controller_config control;
    struct lull_controller *controller;
    uint32_t points[AUDIT_MAX_RANKS];

    for (uint32_t i = 0; i < AUDIT_MAX_RANKS; i++)
        points[i] = config->points;
    lull_controller_config_default(&control);
    control.tolerance_ratio = config->tolerance_ratio;
    control.seed = config->seed;
    control.only_steady = config->sections == 0;
    control.only_sections = config->sections != 0 && !config->has_both;
    controller = lull_controller_create(&control, config->ranks, points);
    for (uint32_t i = 0; i < config->ranks && controller != NULL; i++)
        lull_controller_set_lowest(controller, i, lowest_ratio);
    return controller;
}

struct audit_job *audit_job_create(const struct audit_job_config *config)
{
    struct audit_job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->config = *config;
    job->controller = create_controller(config);
    if (job->controller == NULL) {
        free(job);
        return NULL;
    }
    audit_random_init(&job->random, config->seed, 0);
    for (uint32_t i = 0; i < config->ranks; i++) {
        struct audit_harm_spec harm = config->harm;

        if (config->free_ranks && i + 1 < config->ranks)
            harm.kind = AUDIT_HARM_NONE;
        audit_noise_init(&job->noise[i], &config->noise, config->seed, 1 + i);
        audit_harm_init(&job->harm[i], &harm, config->points, config->seed, 101 + i);
        audit_harm_next(&job->harm[i], false);
        job->ranks[i].factor = audit_noise_next(&job->noise[i]);
        if (domain_of(job, i) != i)
            job->ranks[i].factor = job->ranks[0].factor;
        job->ranks[i].return_ms = INFINITY;
        job->ranks[i].effect_ms = INFINITY;
        begin_computing(job, i);
    }
    return job;
}

void audit_job_destroy(struct audit_job *job)
{
    if (job == NULL)
        return;
    lull_controller_destroy(job->controller);
    free(job);
}

const struct lull_controller *audit_job_controller(const struct audit_job *job)
{
    return job->controller;
}

double audit_job_slowdown(const struct audit_job *job)
{
    const uint32_t ranks = job->config.free_ranks ? job->config.ranks : 1;
    double most = 0.0;

    if (job->config.straggle > 0.0)
        return audit_job_clocked_slowdown(job);
    for (uint32_t i = 0; i < ranks; i++)
        if (job->ranks[i].iteration > 0)
            most = fmax(most, job->ranks[i].lost / job->ranks[i].iteration);
    return most;
}

double audit_job_clocked_slowdown(const struct audit_job *job)
{
    const uint32_t ranks = job->config.free_ranks ? job->config.ranks : 1;
    double most = -INFINITY;

    for (uint32_t i = 0; i < ranks; i++) {
        const struct rank *rank = &job->ranks[i];

        if (rank->iteration > 0)
            most = fmax(most, rank->ended_ms / (rank->factors * job->config.iteration_ms) - 1.0);
    }
    return most;
}

/* The point that a target has on a rank; until that is proven, the best one found so far. */
static uint32_t held_point(const struct audit_job *job, uint32_t index,
                           const struct lull_target *target)
{
    const uint32_t proven = lull_controller_kept_point(job->controller, index, target);

    if (proven > 0)
        return proven;
    return (target->held_up >> index & 1) != 0 ? 0 : target->descent.good;
}

bool audit_job_holds_any(const struct audit_job *job)
{
    const struct lull_controller_view now = lull_controller_look(job->controller);

    for (uint32_t i = 0; i < now.target_count; i++)
        for (uint32_t j = 0; j < job->config.ranks; j++)
            if (held_point(job, j, &now.targets[i]) != 0)
                return true;
    return false;
}

bool audit_job_keeps_any(const struct audit_job *job)
{
    const struct lull_controller_view now = lull_controller_look(job->controller);

    for (uint32_t i = 0; i < now.target_count; i++)
        for (uint32_t j = 0; j < job->config.ranks; j++)
            if (lull_controller_kept_point(job->controller, j, &now.targets[i]) != 0)
                return true;
    return false;
}

/* The steady point that a rank's computation is kept at beside sections; 0: none. */
static uint32_t kept_steady(const struct audit_job *job, const struct lull_target *steady,
                            uint32_t index)
{
    if (steady == NULL || !job->config.has_both)
        return 0;
    return lull_controller_kept_point(job->controller, index, steady);
}

/* Slowdown that an accepted target causes on a rank. With sections, the steady point slows
 * computation, and a section that is not lowered further runs at the steady point. */
static double kept_cost(const struct audit_job *job, const struct lull_controller_view *now,
                        uint32_t index, const struct lull_target *target)
{
    const uint32_t steady = kept_steady(job, now->steady, index);
    const uint32_t point = lull_controller_kept_point(job->controller, index, target);

    if (job->config.has_both && target->signature == 0)
        return compute_harm(job, steady) * (1.0 - section_share);
    return audit_harm_lasting(&job->harm[domain_of(job, index)], point > steady ? point : steady);
}

double audit_job_kept_slowdown(const struct audit_job *job)
{
    const struct lull_controller_view now = lull_controller_look(job->controller);
    double sum = 0.0;

    for (uint32_t i = 0; i < now.target_count; i++) {
        double most = 0.0;

        for (uint32_t j = 0; j < job->config.ranks; j++)
            most = fmax(most, kept_cost(job, &now, j, &now.targets[i]));
        sum += most;
    }
    return sum;
}
