/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/plan/straggler_response.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/pipeline/follow/replan.h"
#include "core/pipeline/follow/straggler_detector.h"
#include "governor/run/run_statistics.h"

enum { MAX_EPISODES = 256 };

struct response_copy {
    uint32_t copy; /* its number in the job */
    struct lull_straggler_detector *straggler;
    uint32_t *option; /* the options that it follows while it is stretched */
};

/* The iterations from the first that straggled until the plan holds again. */
struct response_episode {
    uint64_t began;
    uint64_t ended; /* 0: not yet */
};

struct lull_straggler_response {
    int32_t plan; /* the plan that is prepared for, -1: none */
    const struct lull_plan_file *base;
    struct lull_pipeline_problem problem;
    struct lull_replan *replan;
    struct lull_pipeline_switching switching;
    uint32_t copy_count; /* number of copies that are whole on this node */
    struct response_copy copies[LULL_PLAN_CONTROLLER_MAX_GPUS];
    int32_t detour;     /* number of the detour that holds; -1: none */
    bool is_due;        /* a detour is needed and could not be begun yet */
    bool was_stretched; /* the iteration before this one was */
    bool has_failed;
    size_t seen;        /* number of recorded iterations that have been looked at */
    uint64_t suspected; /* the first of the latest iterations that are odd; 0: none is */
    uint32_t replans;
    double slowest_ms;
    double lost_ms; /* time lost at the plans before the present one */
    uint32_t refuted;
    uint32_t episode_count;
    struct response_episode episodes[MAX_EPISODES];
};

struct lull_straggler_response *lull_straggler_response_create(void)
{
    struct lull_straggler_response *response = calloc(1, sizeof(*response));

    if (response != NULL)
        response->plan = response->detour = -1;
    return response;
}

/* Returns by how much iterations took longer since the plan is prepared for. Copies share their
 * iterations, so the greatest loss counts and not the sum. */
static double lost_ms_of(const struct lull_straggler_response *response)
{
    double lost_ms = 0.0;

    for (uint32_t i = 0; i < response->copy_count; i++)
        if (response->copies[i].straggler != NULL)
            lost_ms = fmax(lost_ms, lull_ms_from_ns(lull_straggler_detector_lost_ns(
                                        response->copies[i].straggler)));
    return lost_ms;
}

static void forget_plan(struct lull_straggler_response *response)
{
    response->lost_ms += lost_ms_of(response);
    for (uint32_t i = 0; i < response->copy_count; i++) {
        if (response->copies[i].straggler != NULL)
            response->refuted += lull_straggler_detector_refuted(response->copies[i].straggler);
        lull_straggler_detector_destroy(response->copies[i].straggler);
        free(response->copies[i].option);
    }
    lull_replan_destroy(response->replan);
    response->replan = NULL;
    response->copy_count = 0;
    response->plan = response->detour = -1;
    response->is_due = false;
}

void lull_straggler_response_destroy(struct lull_straggler_response *response)
{
    if (response == NULL)
        return;
    forget_plan(response);
    free(response);
}

/* ---- preparing for a plan ---------------------------------------------------------------- */

static int response_add_copy(struct lull_straggler_response *response, uint32_t copy)
{
    struct response_copy *added = &response->copies[response->copy_count++];
    struct lull_straggler_detector_config config;

    lull_straggler_detector_config_default(&config);
    *added = (struct response_copy){
        .copy = copy,
        .straggler = lull_straggler_detector_create(&config, response->base->graph.device_count),
        .option = calloc(response->base->graph.op_count, sizeof(added->option[0])),
    };
    return added->straggler == NULL || added->option == NULL ? -1 : 0;
}

static uint32_t response_gpus_of(const struct lull_plan_runner *runner,
                                 const struct lull_control *control, uint32_t copy)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        count +=
            lull_plan_runner_device(runner, i) >= 0 && lull_plan_runner_copy(runner, i) == copy;
    return count;
}

static int response_add_copies(struct lull_straggler_response *response,
                               const struct lull_plan_runner *runner,
                               const struct lull_control *control)
{
    int result = 0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control) && result == 0; i++) {
        bool is_known = lull_plan_runner_device(runner, i) < 0;
        const uint32_t copy = is_known ? 0 : lull_plan_runner_copy(runner, i);

        for (uint32_t k = 0; k < response->copy_count; k++)
            is_known |= response->copies[k].copy == copy;
        if (!is_known &&
            response_gpus_of(runner, control, copy) == response->base->graph.device_count)
            result = response_add_copy(response, copy);
    }
    return result;
}

/* Making the frontier takes long, so the lock is released meanwhile and events are served. */
static void response_prepare(struct lull_straggler_response *response, struct lull_control *control,
                             struct lull_plan_runner *runner, int32_t plan)
{
    int result;

    forget_plan(response);
    lull_plan_runner_end_detour(runner);
    response->base = plan < 0 ? NULL : lull_plan_runner_plan(runner, (uint32_t)plan);
    if (response->base == NULL || !lull_plan_runner_switching(runner, &response->switching))
        return;
    response->plan = plan;
    response->problem = (struct lull_pipeline_problem){
        &response->base->profile, &response->base->graph, response->base->blocking_w};
    result = response_add_copies(response, runner, control);
    lull_control_unlock(control);
    if (result == 0 && response->copy_count > 0)
        result =
            lull_replan_create(&response->problem, response->base->option, &response->replan, NULL);
    lull_control_lock(control);
    response->has_failed = result < 0;
}

/* ---- carrying out ------------------------------------------------------------------------ */

static const uint32_t *option_of(const struct lull_straggler_response *response, uint32_t copy)
{
    for (uint32_t i = 0; i < response->copy_count; i++)
        if (response->copies[i].copy == copy &&
            lull_straggler_detector_is_stretched(response->copies[i].straggler))
            return response->copies[i].option;
    return response->base->option;
}

static void begin_detour(struct lull_straggler_response *response,
                         const struct lull_control *control, struct lull_plan_runner *runner)
{
    const uint32_t *option_of_gpu[LULL_PLAN_CONTROLLER_MAX_GPUS];
    int number;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        option_of_gpu[i] = lull_plan_runner_device(runner, i) < 0
                               ? response->base->option
                               : option_of(response, lull_plan_runner_copy(runner, i));
    number = lull_plan_runner_detour(runner, option_of_gpu);
    response->is_due = number < 0;
    response->detour = number < 0 ? -1 : number;
}

static void end_episode(struct lull_straggler_response *response, uint64_t iteration)
{
    if (response->episode_count > 0 && response->episodes[response->episode_count - 1].ended == 0)
        response->episodes[response->episode_count - 1].ended = iteration;
}

static void begin_episode(struct lull_straggler_response *response)
{
    const uint32_t count = response->episode_count;

    if (count == MAX_EPISODES || (count > 0 && response->episodes[count - 1].ended == 0))
        return;
    response->episodes[count] = (struct response_episode){.began = response->suspected};
    response->episode_count++;
}

/* Makes a plan, which takes milliseconds: the lock is released meanwhile. */
static void response_make_plan(struct lull_straggler_response *response,
                               struct lull_control *control, struct response_copy *copy)
{
    const int64_t begin_ns = lull_now_ns();
    double factor[LULL_PLAN_CONTROLLER_MAX_GPUS];
    const int64_t extra_ns = lull_straggler_detector_request(copy->straggler, factor);
    struct lull_replan_outcome outcome;
    double took_ms;
    int result;

    lull_control_unlock(control);
    result = lull_replan_make(response->replan, factor, extra_ns, &response->switching,
                              copy->option, &outcome);
    lull_control_lock(control);
    took_ms = lull_ms_from_ns(lull_now_ns() - begin_ns);
    lull_straggler_detector_answer(copy->straggler, result == 1);
    response->replans += result == 1;
    if (result == 1 && took_ms > response->slowest_ms)
        response->slowest_ms = took_ms;
}

static bool is_any_stretched(const struct lull_straggler_response *response)
{
    for (uint32_t i = 0; i < response->copy_count; i++)
        if (lull_straggler_detector_is_stretched(response->copies[i].straggler))
            return true;
    return false;
}

static void response_execute(struct lull_straggler_response *response, struct lull_control *control,
                             struct lull_plan_runner *runner, uint64_t iteration)
{
    if (is_any_stretched(response)) {
        begin_episode(response);
        begin_detour(response, control, runner);
        return;
    }
    lull_plan_runner_end_detour(runner);
    response->detour = -1;
    response->is_due = false;
    end_episode(response, iteration);
}

/* ---- looking ----------------------------------------------------------------------------- */

/* Finds how slow each device is: the length of its operations over the length in the profile at
 * their clocks. */
static void find_slowness(const struct lull_straggler_response *response, const uint32_t *option,
                          const struct lull_plan_runner_times *times, double *slowness)
{
    const struct lull_pipeline_graph *graph = &response->base->graph;

    memset(slowness, 0, graph->device_count * sizeof(slowness[0]));
    for (size_t op = 0; op < graph->op_count; op++) {
        const struct lull_pipeline_class *class = lull_pipeline_class_of(&response->problem, op);
        const uint32_t taken = option == NULL ? LULL_PIPELINE_HIGHEST : option[op];

        if (class->kind != LULL_PIPELINE_FIXED)
            slowness[graph->ops[op].device] += lull_ms_from_ns(class->points[taken].time_ns);
    }
    for (uint32_t i = 0; i < graph->device_count; i++)
        slowness[i] = times->computed_ms[i] / slowness[i];
}

static enum lull_straggler_detector_verdict
take_times(const struct lull_straggler_response *response, const struct response_copy *copy,
           enum lull_straggler_detector_kind kind, const struct lull_plan_runner_times *times)
{
    double slowness[LULL_PLAN_CONTROLLER_MAX_GPUS];
    const bool is_stretched = lull_straggler_detector_is_stretched(copy->straggler);
    const struct lull_straggler_detector_sample sample = {
        /* In a detour for another copy this one follows its plan. */
        .kind = kind == LULL_STRAGGLER_STRETCHED && !is_stretched ? LULL_STRAGGLER_PLANNED : kind,
        .span_ns = times->end_ns - times->begin_ns,
        .gap_ns = times->next_ns - times->end_ns,
        .slowness = slowness,
    };

    find_slowness(response,
                  kind == LULL_STRAGGLER_REFERENCE ? NULL : option_of(response, copy->copy), times,
                  slowness);
    return lull_straggler_detector_take(copy->straggler, &sample);
}

/* Finds how an iteration was run. False: it is no evidence about stragglers. */
static bool response_kind_of(const struct lull_straggler_response *response,
                             const struct lull_plan_controller_iteration *iteration,
                             enum lull_straggler_detector_kind *kind_out)
{
    const bool is_stretched = iteration->plan >= LULL_PLAN_CONTROLLER_DETOUR;

    if (is_stretched) {
        *kind_out = LULL_STRAGGLER_STRETCHED;
        return iteration->is_whole && iteration->plan == response->detour;
    }
    if (response->was_stretched)
        *kind_out = LULL_STRAGGLER_MIXED;
    else if (iteration->plan < 0)
        *kind_out = LULL_STRAGGLER_REFERENCE;
    else
        *kind_out = LULL_STRAGGLER_PLANNED;
    return iteration->is_whole && (iteration->is_measured || response->was_stretched);
}

static void response_store_suspicion(struct lull_straggler_response *response, uint64_t iteration)
{
    bool is_suspicious = false;

    for (uint32_t i = 0; i < response->copy_count; i++)
        is_suspicious |= lull_straggler_detector_is_suspicious(response->copies[i].straggler);
    if (!is_suspicious)
        response->suspected = 0;
    else if (response->suspected == 0)
        response->suspected = iteration;
}

static void response_take_iteration(struct lull_straggler_response *response,
                                    struct lull_control *control, struct lull_plan_runner *runner,
                                    const struct lull_plan_runner_times *times,
                                    const struct lull_plan_controller_iteration *iteration)
{
    enum lull_straggler_detector_kind kind;
    const bool is_useful = response_kind_of(response, iteration, &kind);
    bool is_asked = false;

    response->was_stretched = iteration->plan >= LULL_PLAN_CONTROLLER_DETOUR;
    for (uint32_t i = 0; i < response->copy_count && is_useful; i++) {
        struct response_copy *copy = &response->copies[i];

        switch (take_times(response, copy, kind, &times[i])) {
        case LULL_STRAGGLER_STRETCH:
            response_make_plan(response, control, copy);
            is_asked = true;
            break;
        case LULL_STRAGGLER_RETURN:
            lull_plan_runner_end_detour(runner);
            is_asked = true;
            break;
        default:
            break;
        }
    }
    if (is_asked)
        response_execute(response, control, runner, iteration->number);
    if (is_useful)
        response_store_suspicion(response, iteration->number);
}

static void response_take_iterations(struct lull_straggler_response *response,
                                     struct lull_control *control, struct lull_plan_runner *runner)
{
    struct lull_plan_runner_times times[LULL_PLAN_CONTROLLER_MAX_GPUS];
    struct lull_plan_controller_iteration iteration;
    size_t count;

    while (lull_plan_runner_recorded(runner, &count), response->seen < count) {
        bool is_known = true;

        iteration = lull_plan_runner_recorded(runner, &count)[response->seen];
        for (uint32_t i = 0; i < response->copy_count; i++)
            is_known &= lull_plan_runner_times(runner, response->copies[i].copy, iteration.number,
                                               &times[i]);
        /* The other GPUs may not have begun the next iteration. Wait until it has been reported as
         * well. */
        if (!is_known && response->seen + 1 == count)
            return;
        response->seen++;
        if (is_known)
            response_take_iteration(response, control, runner, times, &iteration);
    }
}

void lull_straggler_response_tick(struct lull_straggler_response *response,
                                  struct lull_control *control, struct lull_plan_runner *runner)
{
    int32_t plan;

    lull_control_lock(control);
    plan = lull_plan_runner_plan_controller(runner) == NULL
               ? -1
               : lull_plan_controller_plan(lull_plan_runner_plan_controller(runner));
    if (plan != response->plan && !response->has_failed)
        response_prepare(response, control, runner, plan);
    if (response->is_due)
        begin_detour(response, control, runner);
    if (response->replan != NULL)
        response_take_iterations(response, control, runner);
    lull_control_unlock(control);
}

/* ---- results ----------------------------------------------------------------------------- */

/* The iterations of one kind in an episode, as far as their energy is known. */
struct straggler_response_part {
    uint64_t iterations;
    double energy_j;
};

static void add_iteration(const struct lull_control *control,
                          const struct lull_plan_controller_iteration *iteration,
                          struct straggler_response_part *part)
{
    double energy_j;

    if (!lull_run_statistics_energy_between(control, iteration->begin_ns, iteration->end_ns,
                                            &energy_j))
        return;
    part->iterations++;
    part->energy_j += energy_j;
}

/* Adds up the iterations of an episode in two parts: those at the plan, which come first, and those
 * in a detour. The difference is what the response has saved. */
static void response_measure(const struct lull_control *control,
                             const struct lull_plan_runner *runner,
                             const struct response_episode *episode,
                             struct straggler_response_part *plan,
                             struct straggler_response_part *stretched)
{
    size_t count;
    const struct lull_plan_controller_iteration *iterations =
        lull_plan_runner_recorded(runner, &count);
    bool has_begun = false;

    for (size_t i = 0; i < count; i++) {
        const struct lull_plan_controller_iteration *iteration = &iterations[i];

        if (iteration->number < episode->began ||
            (episode->ended != 0 && iteration->number > episode->ended))
            continue;
        if (iteration->plan >= LULL_PLAN_CONTROLLER_DETOUR) {
            add_iteration(control, iteration, stretched);
            has_begun = true;
        } else if (!has_begun && iteration->plan >= 0 && iteration->is_whole) {
            add_iteration(control, iteration, plan);
        }
    }
}

void lull_straggler_response_summary(const struct lull_straggler_response *response,
                                     const struct lull_control *control,
                                     const struct lull_plan_runner *runner,
                                     struct lull_straggler_response_summary *summary_out)
{
    double saved_j = 0.0;
    double plan_j = 0.0;

    *summary_out = (struct lull_straggler_response_summary){
        .replans = response->replans,
        .slowest_ms = response->slowest_ms,
        .lost_ms = response->lost_ms + lost_ms_of(response),
        .refuted = response->refuted,
    };
    for (uint32_t i = 0; i < response->copy_count; i++)
        summary_out->refuted += lull_straggler_detector_refuted(response->copies[i].straggler);
    for (uint32_t i = 0; i < response->episode_count; i++) {
        struct straggler_response_part plan = {0};
        struct straggler_response_part stretched = {0};

        response_measure(control, runner, &response->episodes[i], &plan, &stretched);
        summary_out->iterations += stretched.iterations;
        if (plan.iterations == 0 || stretched.iterations == 0)
            continue;
        plan_j += plan.energy_j / (double)plan.iterations * (double)stretched.iterations;
        saved_j += plan.energy_j / (double)plan.iterations * (double)stretched.iterations -
                   stretched.energy_j;
    }
    summary_out->saved_j = plan_j > 0.0 ? saved_j : NAN;
    summary_out->saved_ratio = plan_j > 0.0 ? saved_j / plan_j : NAN;
}
