/*
 * GPipe, 1F1B, what EnvPipe makes of it, and interleaved 1F1B as Megatron-LM runs it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <errno.h>

#include "core/pipeline/schedule/families.h"

static int64_t one_f_one_b_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int lull_pipeline_write_gpipe(struct lull_pipeline_order *order)
{
    struct lull_pipeline_writer writer = {.order = order};

    for (uint32_t d = 0; d < order->devices; d++) {
        writer.device = d;
        for (uint32_t m = 0; m < order->microbatches; m++)
            lull_pipeline_write(&writer, LULL_PIPELINE_FORWARD, d, m);
        for (uint32_t m = 0; m < order->microbatches; m++)
            lull_pipeline_write(&writer, LULL_PIPELINE_BACKWARD, d, m);
    }
    return writer.rc;
}

/* After the warm-up every backward makes room for the next forward, so that no more micro-batches
 * are in memory than the warm-up brought. */
static void one_f_one_b_write_row(struct lull_pipeline_writer *writer, uint32_t warm_up,
                                  bool recomputes)
{
    const uint32_t microbatches = writer->order->microbatches;
    const uint32_t stage = writer->device;
    uint32_t forwards = 0;

    while (forwards < warm_up)
        lull_pipeline_write(writer, LULL_PIPELINE_FORWARD, stage, forwards++);
    for (uint32_t m = 0; m < microbatches; m++) {
        if (recomputes)
            lull_pipeline_write(writer, LULL_PIPELINE_RECOMPUTE, stage, m);
        lull_pipeline_write(writer, LULL_PIPELINE_BACKWARD, stage, m);
        if (forwards < microbatches)
            lull_pipeline_write(writer, LULL_PIPELINE_FORWARD, stage, forwards++);
    }
}

int lull_pipeline_write_1f1b(struct lull_pipeline_order *order, const uint32_t *hoist,
                             bool recomputes)
{
    struct lull_pipeline_writer writer = {.order = order};

    for (uint32_t d = 0; d < order->devices; d++) {
        const uint32_t more = hoist != NULL ? hoist[d] : 0;
        const int64_t warm_up = one_f_one_b_min(order->devices - d, order->microbatches) + more;

        writer.device = d;
        one_f_one_b_write_row(&writer, (uint32_t)one_f_one_b_min(warm_up, order->microbatches),
                              recomputes);
    }
    return writer.rc;
}

/* ---- EnvPipe's warm-up ------------------------------------------------------------------- */

/* Finds the class of a device's stage in the fitted profile: measured, or derived. Returns null,
 * and an error, if there is none. */
static const struct lull_pipeline_class *fitted_class(struct lull_pipeline_fit *fit,
                                                      uint32_t device, enum lull_pipeline_kind kind,
                                                      struct lull_error *err)
{
    const int found = lull_pipeline_fit_class(fit, device, kind, 0, err);

    return found >= 0 ? &fit->fitted->classes[found] : NULL;
}

/* Finds the time at the clock of least energy; of equal ones it is the fastest, which a sweep
 * downwards meets first. */
static int64_t low_time_ns(const struct lull_pipeline_class *operations)
{
    const struct lull_pipeline_point *best = &operations->points[0];

    for (size_t i = 1; i < operations->point_count; i++)
        if (operations->points[i].energy_nj < best->energy_nj)
            best = &operations->points[i];
    return best->time_ns;
}

/* Number of micro-batches left after a device's own warm-up. */
static int64_t one_f_one_b_left_over(const struct lull_pipeline_shape *shape, uint32_t device)
{
    return (int64_t)shape->microbatches - (int64_t)(shape->devices - device);
}

/* Number of additional forwards that a device wants, before lull_pipeline_envpipe_hoist evens them
 * out. Negative: an error. */
static int64_t one_f_one_b_wanted(const struct lull_pipeline_schedule *schedule,
                                  const struct lull_pipeline_shape *shape,
                                  struct lull_pipeline_fit *fit, uint32_t device,
                                  struct lull_error *err)
{
    const struct lull_pipeline_class *operations =
        fitted_class(fit, device, LULL_PIPELINE_FORWARD, err);
    int64_t forward_ns;
    int64_t more;

    if (operations == NULL)
        return -ENOENT;
    forward_ns = low_time_ns(operations);
    operations = fitted_class(fit, device, LULL_PIPELINE_BACKWARD, err);
    if (operations == NULL)
        return -ENOENT;
    more = operations->points[LULL_PIPELINE_HIGHEST].time_ns *
           (int64_t)(shape->devices - device - 1) / forward_ns;
    if (schedule->limits == 1)
        more = one_f_one_b_min(more, schedule->limit[0]);
    else if (schedule->limits > 1)
        more = one_f_one_b_min(more, schedule->limit[device]);
    more = one_f_one_b_min(more, one_f_one_b_left_over(shape, device));
    return more > 0 ? more : 0;
}

/* The second pass evens the numbers out, since a device gains nothing from more forwards than the
 * one before it sends. */
int lull_pipeline_envpipe_hoist(const struct lull_pipeline_schedule *schedule,
                                const struct lull_pipeline_shape *shape,
                                const struct lull_pipeline_profile *measured, uint32_t *hoist_out,
                                struct lull_error *err)
{
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_fit fit = {.measured = measured,
                                    .fitted = &fitted,
                                    .stages = shape->devices,
                                    .parts = 1,
                                    .input_ratio = 0.5};
    int64_t more = 0;

    lull_pipeline_profile_init(&fitted);
    for (uint32_t d = 0; d < shape->devices && more >= 0; d++) {
        more = one_f_one_b_wanted(schedule, shape, &fit, d, err);
        if (more >= 0)
            hoist_out[d] = d + 1 < shape->devices ? (uint32_t)more : 0;
    }
    lull_pipeline_profile_fini(&fitted);
    if (more < 0)
        return (int)more;
    for (uint32_t d = 0; d + 1 < shape->devices; d++)
        if (hoist_out[d] < hoist_out[d + 1] && hoist_out[d] != one_f_one_b_left_over(shape, d))
            hoist_out[d + 1] = hoist_out[d];
    return 0;
}

/* ---- interleaved ------------------------------------------------------------------------- */

/* A forward of a device: groups of micro-batches pass chunk after chunk. */
struct step {
    uint32_t chunk;
    uint32_t microbatch;
};

/* Finds which chunk and micro-batch the forward of this number is of. */
static struct step one_f_one_b_step_at(const struct lull_pipeline_order *order, uint32_t group,
                                       uint64_t step)
{
    const uint32_t chunks = order->stages / order->devices;
    const uint64_t first = step / ((uint64_t)group * chunks) * group;
    const uint64_t rest = step - first * chunks;
    const uint64_t left = order->microbatches - first;
    const uint64_t size = left < group ? left : group; /* the last group may be smaller */

    assert(left > 0);
    return (struct step){(uint32_t)(rest / size), (uint32_t)(first + rest % size)};
}

static void one_f_one_b_write_forward(struct lull_pipeline_writer *writer, uint32_t group,
                                      uint64_t at)
{
    const struct step step = one_f_one_b_step_at(writer->order, group, at);

    lull_pipeline_write(writer, LULL_PIPELINE_FORWARD,
                        step.chunk * writer->order->devices + writer->device, step.microbatch);
}

/* Backwards pass the chunks in the opposite order. */
static void one_f_one_b_write_backward(struct lull_pipeline_writer *writer, uint32_t group,
                                       uint64_t at)
{
    const struct lull_pipeline_order *order = writer->order;
    const struct step step = one_f_one_b_step_at(order, group, at);
    const uint32_t chunk = order->stages / order->devices - 1 - step.chunk;

    lull_pipeline_write(writer, LULL_PIPELINE_BACKWARD, chunk * order->devices + writer->device,
                        step.microbatch);
}

int lull_pipeline_write_interleaved(struct lull_pipeline_order *order, uint32_t group)
{
    const uint64_t chunks = order->stages / order->devices;
    const uint64_t steps = chunks * order->microbatches;
    struct lull_pipeline_writer writer = {.order = order};

    for (uint32_t d = 0; d < order->devices; d++) {
        const uint64_t wanted = 2 * (uint64_t)(order->devices - d - 1) + (chunks - 1) * group;
        const uint64_t warm_up = wanted < steps ? wanted : steps;

        writer.device = d;
        for (uint64_t i = 0; i < warm_up; i++)
            one_f_one_b_write_forward(&writer, group, i);
        for (uint64_t i = warm_up; i < steps; i++) {
            one_f_one_b_write_forward(&writer, group, i);
            one_f_one_b_write_backward(&writer, group, i - warm_up);
        }
        for (uint64_t i = steps - warm_up; i < steps; i++)
            one_f_one_b_write_backward(&writer, group, i);
    }
    return writer.rc;
}
