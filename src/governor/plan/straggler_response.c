/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "governor/plan/straggler_response_state.h"

struct lull_straggle *lull_straggle_create(void)
{
    struct lull_straggle *straggle = calloc(1, sizeof(*straggle));

    if (straggle != NULL)
        straggle->plan = straggle->detour = -1;
    return straggle;
}

static void forget_plan(struct lull_straggle *straggle)
{
    straggle->lost_ms += straggle_lost_ms(straggle);
    for (uint32_t i = 0; i < straggle->copy_count; i++) {
        if (straggle->copies[i].straggler != NULL)
            straggle->refuted += lull_straggler_refuted(straggle->copies[i].straggler);
        lull_straggler_destroy(straggle->copies[i].straggler);
        free(straggle->copies[i].option);
    }
    lull_replan_destroy(straggle->replan);
    straggle->replan = NULL;
    straggle->copy_count = 0;
    straggle->plan = straggle->detour = -1;
    straggle->is_due = false;
}

void lull_straggle_destroy(struct lull_straggle *straggle)
{
    if (straggle == NULL)
        return;
    forget_plan(straggle);
    free(straggle);
}

/* ---- preparing for a plan ---------------------------------------------------------------- */

static int add_copy(struct lull_straggle *straggle, uint32_t copy)
{
    struct straggle_copy *added = &straggle->copies[straggle->copy_count++];
    struct lull_straggler_config config;

    lull_straggler_config_default(&config);
    *added = (struct straggle_copy){
        .copy = copy,
        .straggler = lull_straggler_create(&config, straggle->base->graph.device_count),
        .option = calloc(straggle->base->graph.op_count, sizeof(added->option[0])),
    };
    return added->straggler == NULL || added->option == NULL ? -1 : 0;
}

static uint32_t gpus_of(const struct lull_pilot *pilot, const struct lull_control *control,
                        uint32_t copy)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        count += lull_pilot_device(pilot, i) >= 0 && lull_pilot_copy(pilot, i) == copy;
    return count;
}

static int add_copies(struct lull_straggle *straggle, const struct lull_pilot *pilot,
                      const struct lull_control *control)
{
    int result = 0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control) && result == 0; i++) {
        bool is_known = lull_pilot_device(pilot, i) < 0;
        const uint32_t copy = is_known ? 0 : lull_pilot_copy(pilot, i);

        for (uint32_t k = 0; k < straggle->copy_count; k++)
            is_known |= straggle->copies[k].copy == copy;
        if (!is_known && gpus_of(pilot, control, copy) == straggle->base->graph.device_count)
            result = add_copy(straggle, copy);
    }
    return result;
}

/* The frontier takes its time once; events are served meanwhile. */
static void prepare(struct lull_straggle *straggle, struct lull_control *control,
                    struct lull_pilot *pilot, int32_t plan)
{
    int result;

    forget_plan(straggle);
    lull_pilot_end_detour(pilot);
    straggle->base = plan < 0 ? NULL : lull_pilot_plan(pilot, (uint32_t)plan);
    if (straggle->base == NULL || !lull_pilot_switching(pilot, &straggle->switching))
        return;
    straggle->plan = plan;
    straggle->problem = (struct lull_pipeline_problem){
        &straggle->base->profile, &straggle->base->graph, straggle->base->blocking_w};
    result = add_copies(straggle, pilot, control);
    lull_control_unlock(control);
    if (result == 0 && straggle->copy_count > 0)
        result =
            lull_replan_create(&straggle->problem, straggle->base->option, &straggle->replan, NULL);
    lull_control_lock(control);
    straggle->has_failed = result < 0;
}

/* ---- carrying out ------------------------------------------------------------------------ */

static const uint32_t *option_of(const struct lull_straggle *straggle, uint32_t copy)
{
    for (uint32_t i = 0; i < straggle->copy_count; i++)
        if (straggle->copies[i].copy == copy &&
            lull_straggler_is_stretched(straggle->copies[i].straggler))
            return straggle->copies[i].option;
    return straggle->base->option;
}

static void begin_detour(struct lull_straggle *straggle, const struct lull_control *control,
                         struct lull_pilot *pilot)
{
    const uint32_t *option_of_gpu[LULL_CONDUCTOR_MAX_GPUS];
    int number;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        option_of_gpu[i] = lull_pilot_device(pilot, i) < 0
                               ? straggle->base->option
                               : option_of(straggle, lull_pilot_copy(pilot, i));
    number = lull_pilot_detour(pilot, option_of_gpu);
    straggle->is_due = number < 0;
    straggle->detour = number < 0 ? -1 : number;
}

static void end_episode(struct lull_straggle *straggle, uint64_t iteration)
{
    if (straggle->episode_count > 0 && straggle->episodes[straggle->episode_count - 1].ended == 0)
        straggle->episodes[straggle->episode_count - 1].ended = iteration;
}

static void begin_episode(struct lull_straggle *straggle)
{
    const uint32_t count = straggle->episode_count;

    if (count == STRAGGLE_EPISODES || (count > 0 && straggle->episodes[count - 1].ended == 0))
        return;
    straggle->episodes[count] = (struct straggle_episode){.began = straggle->suspected};
    straggle->episode_count++;
}

/* Milliseconds, without the lock. */
static void make_plan(struct lull_straggle *straggle, struct lull_control *control,
                      struct straggle_copy *copy)
{
    const int64_t begin_ns = lull_now_ns();
    double factor[LULL_CONDUCTOR_MAX_GPUS];
    const int64_t extra_ns = lull_straggler_wish(copy->straggler, factor);
    struct lull_replan_outcome outcome;
    double took_ms;
    int result;

    lull_control_unlock(control);
    result = lull_replan_make(straggle->replan, factor, extra_ns, &straggle->switching,
                              copy->option, &outcome);
    lull_control_lock(control);
    took_ms = lull_ms_from_ns(lull_now_ns() - begin_ns);
    lull_straggler_answer(copy->straggler, result == 1);
    straggle->replans += result == 1;
    if (result == 1 && took_ms > straggle->slowest_ms)
        straggle->slowest_ms = took_ms;
}

static bool is_any_stretched(const struct lull_straggle *straggle)
{
    for (uint32_t i = 0; i < straggle->copy_count; i++)
        if (lull_straggler_is_stretched(straggle->copies[i].straggler))
            return true;
    return false;
}

static void carry_out(struct lull_straggle *straggle, struct lull_control *control,
                      struct lull_pilot *pilot, uint64_t iteration)
{
    if (is_any_stretched(straggle)) {
        begin_episode(straggle);
        begin_detour(straggle, control, pilot);
        return;
    }
    lull_pilot_end_detour(pilot);
    straggle->detour = -1;
    straggle->is_due = false;
    end_episode(straggle, iteration);
}

/* ---- looking ----------------------------------------------------------------------------- */

/* Length of the operations of each device over what their clocks take by the profile. */
static void find_slowness(const struct lull_straggle *straggle, const uint32_t *option,
                          const struct lull_pilot_times *times, double *slowness)
{
    const struct lull_pipeline_graph *graph = &straggle->base->graph;

    memset(slowness, 0, graph->device_count * sizeof(slowness[0]));
    for (size_t op = 0; op < graph->op_count; op++) {
        const struct lull_pipeline_class *class = lull_pipeline_class_of(&straggle->problem, op);
        const uint32_t taken = option == NULL ? lull_pipeline_highest(class) : option[op];

        if (class->kind != LULL_PIPELINE_FIXED)
            slowness[graph->ops[op].device] += lull_ms_from_ns(class->options[taken].time_ns);
    }
    for (uint32_t i = 0; i < graph->device_count; i++)
        slowness[i] = times->computed_ms[i] / slowness[i];
}

static enum lull_straggler_verdict take_times(const struct lull_straggle *straggle,
                                              const struct straggle_copy *copy,
                                              enum lull_straggler_kind kind,
                                              const struct lull_pilot_times *times)
{
    double slowness[LULL_CONDUCTOR_MAX_GPUS];
    const bool is_stretched = lull_straggler_is_stretched(copy->straggler);
    const struct lull_straggler_sample sample = {
        /* A copy that does as always, in a detour for another one. */
        .kind = kind == LULL_STRAGGLER_STRETCHED && !is_stretched ? LULL_STRAGGLER_PLANNED : kind,
        .span_ns = times->end_ns - times->begin_ns,
        .gap_ns = times->next_ns - times->end_ns,
        .slowness = slowness,
    };

    find_slowness(straggle,
                  kind == LULL_STRAGGLER_REFERENCE ? NULL : option_of(straggle, copy->copy), times,
                  slowness);
    return lull_straggler_take(copy->straggler, &sample);
}

/* False: the iteration says nothing. */
static bool kind_of(const struct lull_straggle *straggle,
                    const struct lull_conductor_iteration *iteration,
                    enum lull_straggler_kind *kind_out)
{
    const bool is_stretched = iteration->plan >= LULL_CONDUCTOR_DETOUR;

    *kind_out = is_stretched              ? LULL_STRAGGLER_STRETCHED
                : straggle->was_stretched ? LULL_STRAGGLER_MIXED
                : iteration->plan < 0     ? LULL_STRAGGLER_REFERENCE
                                          : LULL_STRAGGLER_PLANNED;
    return iteration->is_whole &&
           (is_stretched ? iteration->plan == straggle->detour
                         : iteration->is_measured || straggle->was_stretched);
}

static void keep_suspicion(struct lull_straggle *straggle, uint64_t iteration)
{
    bool is_suspicious = false;

    for (uint32_t i = 0; i < straggle->copy_count; i++)
        is_suspicious |= lull_straggler_is_suspicious(straggle->copies[i].straggler);
    if (!is_suspicious)
        straggle->suspected = 0;
    else if (straggle->suspected == 0)
        straggle->suspected = iteration;
}

static void take_iteration(struct lull_straggle *straggle, struct lull_control *control,
                           struct lull_pilot *pilot, const struct lull_pilot_times *times,
                           const struct lull_conductor_iteration *iteration)
{
    enum lull_straggler_kind kind;
    const bool is_useful = kind_of(straggle, iteration, &kind);
    bool is_asked = false;

    straggle->was_stretched = iteration->plan >= LULL_CONDUCTOR_DETOUR;
    for (uint32_t i = 0; i < straggle->copy_count && is_useful; i++) {
        struct straggle_copy *copy = &straggle->copies[i];

        switch (take_times(straggle, copy, kind, &times[i])) {
        case LULL_STRAGGLER_STRETCH:
            make_plan(straggle, control, copy);
            is_asked = true;
            break;
        case LULL_STRAGGLER_RETURN:
            lull_pilot_end_detour(pilot);
            is_asked = true;
            break;
        default:
            break;
        }
    }
    if (is_asked)
        carry_out(straggle, control, pilot, iteration->number);
    if (is_useful)
        keep_suspicion(straggle, iteration->number);
}

static void take_iterations(struct lull_straggle *straggle, struct lull_control *control,
                            struct lull_pilot *pilot)
{
    struct lull_pilot_times times[LULL_CONDUCTOR_MAX_GPUS];
    struct lull_conductor_iteration iteration;
    size_t count;

    while (lull_pilot_recorded(pilot, &count), straggle->seen < count) {
        bool is_known = true;

        iteration = lull_pilot_recorded(pilot, &count)[straggle->seen];
        for (uint32_t i = 0; i < straggle->copy_count; i++)
            is_known &=
                lull_pilot_times(pilot, straggle->copies[i].copy, iteration.number, &times[i]);
        /* The others may still begin the next one, until it is told as well. */
        if (!is_known && straggle->seen + 1 == count)
            return;
        straggle->seen++;
        if (is_known)
            take_iteration(straggle, control, pilot, times, &iteration);
    }
}

void lull_straggle_tick(struct lull_straggle *straggle, struct lull_control *control,
                        struct lull_pilot *pilot)
{
    int32_t plan;

    lull_control_lock(control);
    plan =
        lull_pilot_conductor(pilot) == NULL ? -1 : lull_conductor_plan(lull_pilot_conductor(pilot));
    if (plan != straggle->plan && !straggle->has_failed)
        prepare(straggle, control, pilot, plan);
    if (straggle->is_due)
        begin_detour(straggle, control, pilot);
    if (straggle->replan != NULL)
        take_iterations(straggle, control, pilot);
    lull_control_unlock(control);
}
