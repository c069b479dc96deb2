/* Follows the steps of a server without metrics. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/clock.h"
#include "governor/serving/serving_state.h"

/* An engine whose step is overdue is idle if its GPU has shown no work for this long. Default: two
 * refreshes of the energy counter, the slowest sign of work but utilization. */
static const int64_t idle_ns = 200 * LULL_NS_PER_MS;
/* Work that lasts so long without a step is one of a server whose steps are not seen. */
static const int64_t unseen_ns = 5 * LULL_NS_PER_S;

bool lull_serving_is_by_steps(const struct lull_serving_options *options)
{
    return options->has_objective && options->metrics == NULL && options->has_probes &&
           !isfinite(options->objective.ttft_s);
}

static void take_step(struct lull_serving *serving, const struct lull_control_step *step)
{
    struct lull_cadence *const cadence = &serving->cadence;

    switch (step->kind) {
    case LULL_CONTROL_STEP_ENDED:
        lull_cadence_take_step(cadence, step->slot, step->time_ns);
        break;
    case LULL_CONTROL_STEP_BEGUN:
        if (cadence->since_ns[step->slot] == 0)
            lull_cadence_take_work(cadence, step->slot, step->time_ns);
        break;
    case LULL_CONTROL_STEP_IDLE:
        lull_cadence_take_idle(cadence, step->slot);
        return;
    }
    serving->metrics_ns = step->time_ns;
    for (uint32_t i = 0; i < serving->gpu_count; i++)
        if (serving->gpus[i].is_served)
            lull_idle_watch_note_work(&serving->gpus[i].watch, step->time_ns);
}

/* Returns whether the GPU of an engine, or all if it is not known, shows no work. */
static bool is_engine_idle(const struct lull_serving *serving, uint32_t slot, int64_t now_ns)
{
    int32_t own;

    lull_control_lock(serving->control);
    own = lull_control_gpu_of(serving->control, slot);
    lull_control_unlock(serving->control);
    for (uint32_t i = 0; i < serving->gpu_count; i++)
        if (serving->gpus[i].is_served && (own < 0 || own == (int32_t)i) &&
            !lull_idle_watch_is_idle(&serving->gpus[i].watch, now_ns, idle_ns))
            return false;
    return true;
}

static void find_idle(struct lull_serving *serving, int64_t now_ns)
{
    for (uint32_t i = 0; i < LULL_CADENCE_ENGINES; i++)
        if (lull_cadence_is_overdue(&serving->cadence, i, now_ns) &&
            is_engine_idle(serving, i, now_ns))
            lull_cadence_take_idle(&serving->cadence, i);
}

/* Notes since when the GPUs work. */
static void note_working(struct lull_serving *serving, int64_t now_ns)
{
    bool is_working = false;

    for (uint32_t i = 0; i < serving->gpu_count; i++)
        is_working = is_working ||
                     (serving->gpus[i].is_served &&
                      lull_idle_watch_shows_work(&serving->gpus[i].watch, now_ns, LULL_NS_PER_S));
    if (!is_working)
        serving->working_ns = 0;
    else if (serving->working_ns == 0)
        serving->working_ns = now_ns;
}

bool lull_serving_lacks_steps(const struct lull_serving *serving, int64_t now_ns)
{
    return lull_serving_is_by_steps(serving->options) && !serving->has_steps &&
           serving->working_ns != 0 && now_ns - serving->working_ns >= unseen_ns;
}

bool lull_serving_read_steps(struct lull_serving *serving, int64_t now_ns,
                             struct lull_serving_reading *reading_out)
{
    const uint32_t count = lull_control_take_steps(serving->control, serving->steps);

    for (uint32_t i = 0; i < count; i++)
        take_step(serving, &serving->steps[i]);
    find_idle(serving, now_ns);
    note_working(serving, now_ns);
    if (!lull_cadence_read(&serving->cadence, now_ns, reading_out))
        return false;
    serving->has_steps = true;
    return true;
}
