/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/schedule/schedule.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "core/pipeline/schedule/families.h"

/* ---- shapes that a schedule cannot have ---- */

/* Number of micro-batches in a group. */
static uint32_t schedule_group_of(const struct lull_pipeline_schedule *schedule,
                                  const struct lull_pipeline_shape *shape)
{
    const uint32_t group = schedule->group != 0 ? schedule->group : shape->devices;

    return lull_min_u32(group, shape->microbatches);
}

/* Checks Megatron's rule: every group, also the last one, keeps all devices busy. Fewer
 * micro-batches than devices are one group. */
static int check_group(const struct lull_pipeline_schedule *schedule,
                       const struct lull_pipeline_shape *shape, struct lull_error *err)
{
    const uint32_t group = schedule_group_of(schedule, shape);
    const uint32_t last = shape->microbatches % group;

    if (group == shape->microbatches ||
        (group >= shape->devices && (last == 0 || last >= shape->devices)))
        return 0;
    return lull_error_set(err, -EINVAL,
                          "interleaved: groups of %u of %u micro-batches, the last one of %u: each "
                          "needs at least as many as there are devices, %u",
                          group, shape->microbatches, last == 0 ? group : last, shape->devices);
}

static int schedule_check_limits(const struct lull_pipeline_schedule *schedule,
                                 const struct lull_pipeline_shape *shape, struct lull_error *err)
{
    if (schedule->limits <= 1 || schedule->limits == shape->devices)
        return 0;
    return lull_error_set(err, -EINVAL, "envpipe: %u limits for %u devices: give one, or %u",
                          schedule->limits, shape->devices, shape->devices);
}

/* The numbers come from the command line; the checks keep every product of them within its type. */
static int check_shape(const struct lull_pipeline_schedule *schedule,
                       const struct lull_pipeline_shape *shape, struct lull_error *err)
{
    const uint64_t stages = (uint64_t)shape->devices * schedule->chunks;

    if (shape->devices == 0 || stages > LULL_PIPELINE_MAX_STAGES)
        return lull_error_set(err, -EINVAL, "%u devices with %u chunks each: 1 to %d in all",
                              shape->devices, schedule->chunks, LULL_PIPELINE_MAX_STAGES);
    if (shape->microbatches == 0 || shape->microbatches > LULL_PIPELINE_MAX_MICROBATCHES)
        return lull_error_set(err, -EINVAL, "%u micro-batches: 1 to %d", shape->microbatches,
                              LULL_PIPELINE_MAX_MICROBATCHES);
    if (2 * stages * shape->microbatches > LULL_PIPELINE_MAX_ACTIONS)
        return lull_error_set(err, -EINVAL, "%u stages and %u micro-batches: over %d operations",
                              (uint32_t)stages, shape->microbatches, LULL_PIPELINE_MAX_ACTIONS);
    if (schedule->family == LULL_PIPELINE_DUALPIPEV && shape->microbatches < stages)
        return lull_error_set(err, -EINVAL,
                              "dualpipev: %u micro-batches: with %u devices at least %u",
                              shape->microbatches, shape->devices, (uint32_t)stages);
    if (schedule->family == LULL_PIPELINE_INTERLEAVED)
        return check_group(schedule, shape, err);
    if (schedule->family != LULL_PIPELINE_ENVPIPE)
        return 0;
    return schedule_check_limits(schedule, shape, err);
}

/* ---- orders ---- */

static int write_envpipe(const struct lull_pipeline_schedule *schedule,
                         const struct lull_pipeline_shape *shape,
                         const struct lull_pipeline_profile *measured,
                         struct lull_pipeline_order *order, struct lull_error *err)
{
    uint32_t *const hoist = calloc(shape->devices, sizeof(*hoist));
    int rc;

    if (hoist == NULL)
        return -ENOMEM;
    rc = lull_pipeline_envpipe_hoist(schedule, shape, measured, hoist, err);
    if (rc >= 0)
        rc = lull_pipeline_write_1f1b(order, hoist, false);
    free(hoist);
    return rc;
}

static int schedule_write_rows(const struct lull_pipeline_schedule *schedule,
                               const struct lull_pipeline_shape *shape,
                               const struct lull_pipeline_profile *measured,
                               struct lull_pipeline_order *order, struct lull_error *err)
{
    /* The families whose order follows from the numbers of the pipeline alone. */
    static int (*const writers[LULL_PIPELINE_FAMILIES])(struct lull_pipeline_order *) = {
        [LULL_PIPELINE_GPIPE] = lull_pipeline_write_gpipe,
        [LULL_PIPELINE_ZB_H1] = lull_pipeline_write_zb_h1,
        [LULL_PIPELINE_ZBV] = lull_pipeline_write_zbv,
        [LULL_PIPELINE_DUALPIPEV] = lull_pipeline_write_dualpipev,
    };

    assert(schedule->family < LULL_PIPELINE_FAMILIES);
    if (writers[schedule->family] != NULL)
        return writers[schedule->family](order);
    if (schedule->family == LULL_PIPELINE_INTERLEAVED)
        return lull_pipeline_write_interleaved(order, schedule_group_of(schedule, shape));
    if (schedule->family == LULL_PIPELINE_ENVPIPE)
        return write_envpipe(schedule, shape, measured, order, err);
    return lull_pipeline_write_1f1b(order, NULL, schedule->family == LULL_PIPELINE_1F1B_RECOMPUTE);
}

int lull_pipeline_schedule_order(const struct lull_pipeline_schedule *schedule,
                                 const struct lull_pipeline_shape *shape,
                                 const struct lull_pipeline_profile *measured,
                                 struct lull_pipeline_order *order_out, struct lull_error *err)
{
    struct lull_pipeline_order order;
    int rc = check_shape(schedule, shape, err);

    if (rc >= 0)
        rc = lull_pipeline_order_init(&order, shape->devices, err);
    if (rc < 0)
        return rc;
    order.stages = shape->devices * schedule->chunks;
    order.microbatches = shape->microbatches;
    rc = schedule_write_rows(schedule, shape, measured, &order, err);
    if (rc == -ENOMEM || rc == -E2BIG)
        (void)lull_error_set(err, rc, "no room for a schedule of %u stages and %u micro-batches",
                             order.stages, order.microbatches);
    if (rc < 0) {
        lull_pipeline_order_fini(&order);
        return rc;
    }
    *order_out = order;
    return 0;
}

int lull_pipeline_schedule_build(const struct lull_pipeline_schedule *schedule,
                                 const struct lull_pipeline_shape *shape,
                                 const struct lull_pipeline_profile *measured,
                                 struct lull_pipeline_profile *fitted_out,
                                 struct lull_pipeline_graph *graph_out, struct lull_error *err)
{
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_order order;
    struct lull_pipeline_fit fit = {
        .measured = measured,
        .fitted = &fitted,
        .parts = shape->by_chunk ? 1 : schedule->chunks,
        .input_ratio = 0.5, /* the typical share; no command changes it */
    };
    int rc = lull_pipeline_schedule_order(schedule, shape, measured, &order, err);

    if (rc < 0)
        return rc;
    lull_pipeline_profile_init(&fitted);
    rc = lull_pipeline_order_build(&order, &shape->links, &shape->replicas, &fit, graph_out, err);
    lull_pipeline_order_fini(&order);
    if (rc < 0) {
        lull_pipeline_profile_fini(&fitted);
        return rc;
    }
    *fitted_out = fitted;
    return 0;
}
