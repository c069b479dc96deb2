/* By when jobs of a table are to end, and what that is worth. SPDX-License-Identifier: Apache-2.0
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "trace/cluster_jobs_reading.h"

int lull_cluster_jobs_read_time(const struct lull_reading *reading, enum lull_field field,
                                int64_t *time_ns_out)
{
    const char *const cell = reading->columns.cells[field];
    const char *const wrong =
        lull_cluster_time_parse(cell, strlen(cell), reading->columns.at[field]->unit, time_ns_out);

    return wrong == NULL ? 0 : refuse(reading, field, wrong);
}

static int keep_steps(struct lull_reading *reading, const struct lull_cluster_step *steps,
                      uint32_t count, struct lull_cluster_jobs_row *row)
{
    struct lull_cluster_jobs_table *const table = reading->table;

    if (table->step_count + count > reading->step_room) {
        const size_t room = 2 * reading->step_room + 1024;
        struct lull_cluster_step *const more =
            room <= UINT32_MAX ? realloc(table->steps, room * sizeof(*more)) : NULL;

        if (more == NULL)
            return out_of_memory(reading);
        table->steps = more;
        reading->step_room = room;
    }
    row->first_step = (uint32_t)table->step_count;
    row->step_count = count;
    row->deadline_ns = steps[0].deadline_ns;
    memcpy(table->steps + table->step_count, steps, count * sizeof(*steps));
    table->step_count += count;
    return 0;
}

static int read_deadlines(struct lull_reading *reading, struct lull_cluster_jobs_row *row)
{
    const struct lull_columns *const columns = &reading->columns;
    struct lull_cluster_step steps[LULL_CLUSTER_STEPS_MAX];
    uint32_t count = 0;
    const char *wrong = lull_cluster_steps_parse(
        columns->cells[DEADLINES], columns->at[DEADLINES]->unit, row->submit_ns, steps, &count);

    if (wrong != NULL)
        return refuse(reading, DEADLINES, wrong);
    if (is_filled(reading, VALUES))
        wrong = lull_cluster_values_parse(columns->cells[VALUES], steps, count);
    return wrong != NULL ? refuse(reading, VALUES, wrong) : keep_steps(reading, steps, count, row);
}

int lull_cluster_jobs_read_deadline(struct lull_reading *reading, struct lull_cluster_jobs_row *row)
{
    struct lull_cluster_step step = {.value = 1.0};
    int rc;

    row->deadline_ns = LULL_CLUSTER_JOBS_NO_DEADLINE;
    row->first_step = row->step_count = 0;
    if (is_filled(reading, DEADLINES))
        return read_deadlines(reading, row);
    if (!is_filled(reading, DEADLINE))
        return 0;
    rc = lull_cluster_jobs_read_time(reading, DEADLINE, &step.deadline_ns);
    if (rc < 0)
        return rc;
    if (step.deadline_ns < row->submit_ns)
        return refuse(reading, DEADLINE, "before the job's submission");
    return keep_steps(reading, &step, 1, row);
}

int lull_cluster_jobs_read_value(const struct lull_reading *reading,
                                 struct lull_cluster_jobs_row *row)
{
    row->value_j = 0.0;
    if (!is_filled(reading, VALUE))
        return 0;
    return lull_columns_real(&reading->columns, VALUE, DBL_MIN, LULL_CLUSTER_JOBS_MOST_VALUE_J,
                             "not above 0 and at most 1e15 J; empty: the job has to run",
                             &row->value_j, reading->err);
}
