/* EnvPipe's warm-up. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "core/pipeline/schedule/schedule.h"

/* The measured class of a device's stage. */
static const struct lull_pipeline_class *
measured_class(const struct lull_pipeline_shape *shape,
               const struct lull_pipeline_profile *measured, uint32_t device,
               enum lull_pipeline_kind kind, struct lull_error *err)
{
    const struct lull_pipeline_fit fit = {
        .measured = measured, .stages = shape->devices, .parts = 1};
    const uint32_t stage = lull_pipeline_fit_stage(&fit, device);
    const int found = lull_pipeline_profile_find(measured, stage, kind, 0);

    if (found >= 0)
        return &measured->classes[found];
    (void)lull_error_set(err, -ENOENT, "envpipe needs %s of stage %u, which the profile lacks",
                         lull_pipeline_kind_name(kind), stage);
    return NULL;
}

/* At the clock of the least energy; of equals the fastest, as when sweeping down from it. */
static int64_t low_time_ns(const struct lull_pipeline_class *operations)
{
    const struct lull_pipeline_option *best = &operations->options[0];

    for (size_t i = 1; i < operations->option_count; i++)
        if (operations->options[i].energy_nj < best->energy_nj)
            best = &operations->options[i];
    return best->time_ns;
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Micro-batches that device d does not take in in its own warm-up. */
static int64_t left_over(const struct lull_pipeline_shape *shape, uint32_t device)
{
    return (int64_t)shape->microbatches - (int64_t)(shape->devices - device);
}

/* Ahead of the repair. Negative: an error. */
static int64_t wanted(const struct lull_pipeline_schedule *schedule,
                      const struct lull_pipeline_shape *shape,
                      const struct lull_pipeline_profile *measured, uint32_t device,
                      struct lull_error *err)
{
    const struct lull_pipeline_class *forward =
        measured_class(shape, measured, device, LULL_PIPELINE_FORWARD, err);
    const struct lull_pipeline_class *backward =
        measured_class(shape, measured, device, LULL_PIPELINE_BACKWARD, err);
    int64_t more;

    if (forward == NULL || backward == NULL)
        return -ENOENT;
    more = backward->options[lull_pipeline_highest(backward)].time_ns *
           (int64_t)(shape->devices - device - 1) / low_time_ns(forward);
    if (schedule->limits > 0)
        more = min(more, schedule->limit[schedule->limits == 1 ? 0 : device]);
    more = min(more, left_over(shape, device));
    return more > 0 ? more : 0;
}

int lull_pipeline_envpipe_hoist(const struct lull_pipeline_schedule *schedule,
                                const struct lull_pipeline_shape *shape,
                                const struct lull_pipeline_profile *measured, uint32_t *hoist_out,
                                struct lull_error *err)
{
    for (uint32_t d = 0; d < shape->devices; d++) {
        const int64_t more = wanted(schedule, shape, measured, d, err);

        if (more < 0)
            return (int)more;
        hoist_out[d] = d + 1 < shape->devices ? (uint32_t)more : 0;
    }
    for (uint32_t d = 0; d + 1 < shape->devices; d++)
        if (hoist_out[d] < hoist_out[d + 1] && hoist_out[d] != left_over(shape, d))
            hoist_out[d + 1] = hoist_out[d];
    return 0;
}
