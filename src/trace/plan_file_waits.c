/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/plan_file_waits.h"

#include <errno.h>
#include <stdlib.h>

enum { MOST_POINTS = 1024 };

static const int64_t most_time_ns = INT64_C(1000000000000000); /* 11 days */

static int no_memory(const struct lull_json_reader *reader)
{
    return lull_error_set(reader->err, -ENOMEM, "%s: no memory", reader->name);
}

struct point_fields {
    int64_t sm_mhz;
    int64_t down_ns;
    int64_t up_ns;
    double power_w;
    double switch_j;
};

static int read_power(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_real(reader, &((struct point_fields *)object)->power_w);
}

static int read_switch(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_real(reader, &((struct point_fields *)object)->switch_j);
}

static int read_point(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"sm_mhz", 0, UINT32_MAX, offsetof(struct point_fields, sm_mhz), NULL},
        {"power_w", 0, 0, 0, read_power},
        {"down_s", 9, LULL_PIPELINE_MAX_TIME_NS, offsetof(struct point_fields, down_ns), NULL},
        {"up_s", 9, LULL_PIPELINE_MAX_TIME_NS, offsetof(struct point_fields, up_ns), NULL},
        {"switch_j", 0, 0, 0, read_switch},
        {0},
    };
    struct lull_plan_file *const plan = object;
    struct point_fields point = {.power_w = -1.0};
    struct lull_pipeline_waiting_point *larger;
    const int result = lull_json_read_fields(reader, fields, &point);

    if (result < 0)
        return result;
    if (point.power_w < 0.0 || plan->waiting_point_count == MOST_POINTS)
        return lull_json_refuse(reader, "a clock for waiting without power_w, or too many");
    larger = reallocarray(plan->waiting_points, plan->waiting_point_count + 1, sizeof(*larger));
    if (larger == NULL)
        return no_memory(reader);
    plan->waiting_points = larger;
    larger[plan->waiting_point_count++] = (struct lull_pipeline_waiting_point){
        (uint32_t)point.sm_mhz, point.power_w, point.down_ns, point.up_ns, point.switch_j};
    return 0;
}

struct gap_fields {
    int64_t device;
    int64_t before;
    int64_t point;
    int64_t begin_ns;
    int64_t wake_ns;
};

/* Room for one more gap: as many as a power of two, or 64. */
static int grow(struct lull_json_reader *reader, struct lull_plan_file *plan)
{
    const size_t count = plan->wait_count;
    struct lull_pipeline_wait *larger;

    if (count > 0 && (count < 64 || (count & (count - 1)) != 0))
        return 0;
    larger = reallocarray(plan->waits, count == 0 ? 64 : 2 * count, sizeof(*larger));
    if (larger == NULL)
        return no_memory(reader);
    plan->waits = larger;
    return 0;
}

static int read_gap(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {"device", 0, LULL_PIPELINE_MAX_DEVICES, offsetof(struct gap_fields, device), NULL},
        {"before", 0, LULL_PIPELINE_MAX_OPS, offsetof(struct gap_fields, before), NULL},
        {"point", 0, MOST_POINTS, offsetof(struct gap_fields, point), NULL},
        {"begin", 9, most_time_ns, offsetof(struct gap_fields, begin_ns), NULL},
        {"wake", 9, most_time_ns, offsetof(struct gap_fields, wake_ns), NULL},
        {0},
    };
    struct lull_plan_file *const plan = object;
    struct gap_fields gap;
    int result = lull_json_read_tuple(reader, fields, &gap);

    if (result == 0)
        result = grow(reader, plan);
    if (result < 0)
        return result;
    plan->waits[plan->wait_count++] = (struct lull_pipeline_wait){.device = (uint32_t)gap.device,
                                                                  .before_op = (uint32_t)gap.before,
                                                                  .point = (uint32_t)gap.point,
                                                                  .begin_ns = gap.begin_ns,
                                                                  .wake_ns = gap.wake_ns};
    return 0;
}

static int read_saved(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_real(reader, &((struct lull_plan_file *)object)->waiting_saved_j);
}

static int read_points(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_array(reader, LULL_JSON_OBJECT_BEGIN, read_point, object);
}

static int read_gaps(struct lull_json_reader *reader, void *object)
{
    return lull_json_read_array(reader, LULL_JSON_ARRAY_BEGIN, read_gap, object);
}

int lull_plan_waits_read(struct lull_json_reader *reader, struct lull_plan_file *plan)
{
    static const struct lull_json_field fields[] = {
        {"saved_j", 0, 0, 0, read_saved},
        {"points", 0, 0, 0, read_points},
        {"gaps", 0, 0, 0, read_gaps},
        {0},
    };

    return lull_json_read_object(reader, fields, plan);
}

int lull_plan_waits_resolve(const char *name, struct lull_plan_file *plan, struct lull_error *err)
{
    const struct lull_pipeline_graph *const graph = &plan->graph;

    for (size_t i = 0; i < plan->wait_count; i++) {
        struct lull_pipeline_wait *const wait = &plan->waits[i];

        if (wait->device >= graph->device_count || wait->before_op > graph->op_count ||
            wait->point >= plan->waiting_point_count ||
            (wait->before_op < graph->op_count &&
             graph->ops[wait->before_op].device != wait->device))
            return lull_error_set(err, LULL_E_FORMAT,
                                  "%s: a gap ahead of an operation that its device does not have, "
                                  "or at no point of \"points\" (number %zu)",
                                  name, i);
        if (wait->before_op == graph->op_count)
            wait->before_op = UINT32_MAX;
    }
    return 0;
}
