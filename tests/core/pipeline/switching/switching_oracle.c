/* SPDX-License-Identifier: Apache-2.0 */
#include "switching_oracle.h"

#include <math.h>

const struct lull_pipeline_point *dwell_point_of(const struct pipeline_case *it,
                                                 const uint32_t *point, uint32_t op)
{
    return &it->profile.classes[it->graph.ops[op].class_index].points[point[op]];
}

uint32_t dwell_last_mhz(const struct pipeline_case *it, const uint32_t *point, uint32_t device)
{
    uint32_t mhz = 0;

    for (uint32_t k = it->graph.first_on[device]; k < it->graph.first_on[device + 1]; k++)
        if (dwell_point_of(it, point, it->graph.on_device[k])->sm_mhz > 0)
            mhz = dwell_point_of(it, point, it->graph.on_device[k])->sm_mhz;
    return mhz;
}

bool dwell_is_good(const struct pipeline_case *it, const struct lull_pipeline_switching *switching,
                   const uint32_t *point, int64_t deadline_ns, size_t *changes_out)
{
    int64_t end_ns[DWELL_ORACLE_MOST_OPS];
    bool good = lull_pipeline_switching_timeline(&it->problem, switching, point, NULL, end_ns) <=
                deadline_ns;

    *changes_out = 0;
    for (uint32_t device = 0; device < it->graph.device_count; device++) {
        uint32_t mhz = dwell_last_mhz(it, point, device);
        int64_t reported_ns[DWELL_ORACLE_MOST_OPS];
        size_t reported = 0;
        int64_t free_ns = 0;

        for (uint32_t k = it->graph.first_on[device]; k < it->graph.first_on[device + 1]; k++) {
            uint32_t op = it->graph.on_device[k];
            uint32_t next = dwell_point_of(it, point, op)->sm_mhz;

            if (next > 0 && next != mhz) {
                reported_ns[reported++] = free_ns;
                mhz = next;
            }
            free_ns = end_ns[op];
        }
        for (size_t i = 0; i < reported; i++)
            good = good && (i + 1 < reported ? reported_ns[i + 1] : reported_ns[0] + deadline_ns) -
                                   reported_ns[i] >=
                               switching->dwell_ns;
        *changes_out += reported;
    }
    return good;
}

double dwell_cost_j(const struct pipeline_case *it, const struct lull_pipeline_switching *switching,
                    const uint32_t *point, int64_t deadline_ns, size_t changes)
{
    return lull_pipeline_plan_cost(&it->problem, point, deadline_ns).energy_j +
           lull_pipeline_switching_energy_j(&it->problem, switching, point) +
           switching->switch_j * (double)changes;
}

double dwell_best_of_all(const struct pipeline_case *it,
                         const struct lull_pipeline_switching *switching, int64_t deadline_ns)
{
    uint32_t point[DWELL_ORACLE_MOST_OPS] = {0};
    double best_j = INFINITY;
    size_t op;

    do {
        size_t changes;

        if (dwell_is_good(it, switching, point, deadline_ns, &changes))
            best_j = fmin(best_j, dwell_cost_j(it, switching, point, deadline_ns, changes));
        for (op = 0; op < it->graph.op_count; op++) {
            if (++point[op] < it->profile.classes[it->graph.ops[op].class_index].point_count)
                break;
            point[op] = 0;
        }
    } while (op < it->graph.op_count);
    return best_j;
}
