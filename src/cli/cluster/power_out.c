/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/power_out.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/cluster/cluster.h"

struct table {
    const struct lull_gangs *gangs;
    const struct lull_cluster_stretches *stretches;
    const struct lull_power_point *points;
    size_t point_count;
    size_t next;                    /* point */
    double *type_w;                 /* [type] now */
    double min_w;                   /* now, if no GPU had a job */
    enum lull_cluster_power *power; /* [node] now */
    double energy_j;
    double written_j;
    int64_t now_ns;
    int64_t written_ns;
    bool *goes_on; /* [stretch] */
    bool *went_on; /* [stretch] */
    FILE *file;
};

static double sum(const double *values, uint32_t count)
{
    double all = 0.0;

    for (uint32_t i = 0; i < count; i++)
        all += values[i];
    return all;
}

static void write_line(struct table *table, char type)
{
    const double passed_s = (double)(table->now_ns - table->written_ns) / 1e9;

    fprintf(table->file, "%.9f,%.6f,%.6f,", (double)table->now_ns / 1e9, table->energy_j,
            table->min_w);
    if (passed_s > 0.0)
        fprintf(table->file, "%.6f,%c\n", (table->energy_j - table->written_j) / passed_s, type);
    else
        fprintf(table->file, "NA,%c\n", type);
    table->written_ns = table->now_ns;
    table->written_j = table->energy_j;
}

static void pass(struct table *table, int64_t until_ns)
{
    table->energy_j += sum(table->type_w, table->gangs->cluster.type_count) *
                       (double)(until_ns - table->now_ns) / 1e9;
    table->now_ns = until_ns;
}

/* Up to a time; with what changes at that time itself. */
static void pass_points(struct table *table, int64_t until_ns)
{
    for (; table->next < table->point_count && table->points[table->next].time_ns <= until_ns;
         table->next++) {
        const struct lull_power_point *point = &table->points[table->next];

        pass(table, point->time_ns);
        table->energy_j += point->at_once_j;
        table->type_w[point->type] = sum(point->w, LULL_POWER_PARTS);
    }
    pass(table, until_ns);
}

/* Stretches of jobs that go on at once in another mode, and those in which they do. -ENOMEM. */
static int find_changes(struct table *table)
{
    const size_t count = table->stretches->count;
    size_t *last = calloc(table->gangs->jobs.count + 1, sizeof(*last)); /* of a job, from 1 */

    table->goes_on = calloc(count + 1, sizeof(*table->goes_on));
    table->went_on = calloc(count + 1, sizeof(*table->went_on));
    if (last == NULL || table->goes_on == NULL || table->went_on == NULL) {
        free(last);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_stretch *stretch = &table->stretches->all[i];
        const size_t before = last[stretch->job];

        if (before > 0 && table->stretches->all[before - 1].end_ns == stretch->begin_ns &&
            table->stretches->all[before - 1].mode != stretch->mode) {
            table->goes_on[before - 1] = true;
            table->went_on[i] = true;
        }
        last[stretch->job] = i + 1;
    }
    free(last);
    return 0;
}

static void write_event(struct table *table, const struct lull_cluster_event *event)
{
    pass_points(table, event->time_ns);
    if (event->is_begin && table->went_on[event->stretch])
        return;
    write_line(table, event->is_begin ? 's' : table->goes_on[event->stretch] ? 'p' : 'e');
}

/* What a node draws without a job. */
static double node_w(const struct lull_cluster *cluster, uint32_t node,
                     enum lull_cluster_power power)
{
    const struct lull_cluster_type *type = &cluster->types[cluster->nodes[node].type];

    switch (power) {
    case LULL_CLUSTER_ON:
        return type->idle_w * cluster->nodes[node].gpus;
    case LULL_CLUSTER_TURNING_ON:
        return type->turn_on_j / ((double)type->turn_on_ns / 1e9);
    case LULL_CLUSTER_OFF:
        return type->off_w;
    default:
        return 0.0;
    }
}

/* Changes of nodes before a time. */
static void write_nodes(struct table *table, size_t *next, int64_t before_ns)
{
    const struct lull_cluster_stretches *stretches = table->stretches;

    for (; *next < stretches->change_count && stretches->changes[*next].time_ns < before_ns;
         (*next)++) {
        const struct lull_cluster_node_change *change = &stretches->changes[*next];

        pass_points(table, change->time_ns);
        table->min_w += node_w(&table->gangs->cluster, change->node, change->power) -
                        node_w(&table->gangs->cluster, change->node, table->power[change->node]);
        table->power[change->node] = change->power;
        write_line(table, 'p');
    }
}

static int write_all(struct table *table)
{
    struct lull_cluster_event *events = NULL;
    size_t count = 0;
    size_t change = 0;
    int result = lull_cluster_stretches_events(table->stretches, &events, &count);

    if (result == 0)
        result = find_changes(table);
    fputs("time,energy,wattmin,epower,event_type\n", table->file);
    for (size_t i = 0; i < count && result == 0; i++) {
        write_nodes(table, &change, events[i].time_ns + (events[i].is_begin ? 1 : 0));
        write_event(table, &events[i]);
    }
    free(events);
    return result;
}

static int write_rows(const void *context, FILE *file)
{
    const struct lull_gangs *gangs = context;
    const uint32_t types = gangs->cluster.type_count;
    struct table table = {
        .gangs = gangs,
        .stretches = lull_cluster_run_stretches(gangs->run),
        .type_w = calloc(types, sizeof(*table.type_w)),
        .power = calloc(gangs->cluster.node_count, sizeof(*table.power)),
        .file = file,
    };
    int result = -ENOMEM;

    table.points = lull_power_meter_points(lull_cluster_run_meter(gangs->run), &table.point_count);
    for (uint32_t i = 0; i < gangs->cluster.node_count; i++)
        table.min_w += node_w(&gangs->cluster, i, LULL_CLUSTER_ON);
    if (table.type_w != NULL && table.power != NULL)
        result = write_all(&table);
    free(table.type_w);
    free(table.power);
    free(table.goes_on);
    free(table.went_on);
    return result;
}

int lull_gangs_write_power(const struct lull_gangs *gangs, struct lull_error *err)
{
    return lull_cluster_write_table(gangs->wish->power_out, write_rows, gangs, err);
}
