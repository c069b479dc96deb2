/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/tables.h"
#include "base/file.h"
#include "simulator/summary.h"

#include <errno.h>
#include <stdlib.h>

/* Source of both tables. */
struct source {
    const struct lull_scenario_model *model;
    const struct lull_cluster_run *run;
};

/* ---- jobs --------------------------------------------------------------------------------- */

/* first: the first node of the job's pool. */
static void cluster_table_write_job(const struct source *source, size_t job, uint32_t first,
                                    FILE *file)
{
    static const char *const fates[] = {"waited", "done", "rejected"};
    const struct lull_job_table *table = &source->model->table;
    const struct lull_job_table_row *row = &table->rows[job];
    const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(source->run)[job];
    const int64_t origin_ns = source->model->origin_ns;

    fprintf(file, "%s,%s,%u,%s,%.6f,", lull_job_table_name(table, row->id),
            lull_job_table_name(table, row->vc), row->gpus, fates[outcome->fate],
            (double)row->submit_ns * 1e-9);
    if (outcome->fate == LULL_CLUSTER_DONE)
        fprintf(file, "%.6f,%.6f,", (double)(origin_ns + outcome->start_ns) * 1e-9,
                (double)(origin_ns + outcome->end_ns) * 1e-9);
    else
        fputs(",,", file);
    lull_scenario_write_placement(outcome, first, file);
    fprintf(file, ",%.6f,%s\n", (double)outcome->shared_ns * 1e-9,
            outcome->reason != NULL ? outcome->reason : "");
}

static int write_jobs(const void *context, FILE *file)
{
    const struct source *source = context;
    const struct lull_scenario_model *model = source->model;
    uint32_t *first = calloc(model->cluster.pool_count, sizeof(*first));

    if (first == NULL)
        return -ENOMEM;
    for (uint32_t pool = 0; pool < model->cluster.pool_count; pool++)
        first[pool] = lull_scenario_first_node(&model->cluster, pool);
    fputs("job_id,vc,gpus,fate,submit_s,start_s,end_s,placement,shared_s,reason\n", file);
    for (size_t i = 0; i < model->jobs.count; i++)
        cluster_table_write_job(source, i, first[model->jobs.all[i].pool], file);
    free(first);
    return 0;
}

int lull_tables_write_jobs(const char *path, const struct lull_scenario_model *model,
                           const struct lull_cluster_run *run, struct lull_error *err)
{
    const struct source source = {model, run};

    return lull_file_write_with(path, write_jobs, &source, err);
}

/* ---- power -------------------------------------------------------------------------------- */

/* The table in the making, at now_ns. */
struct power_table {
    const struct lull_cluster *cluster;
    int64_t origin_ns; /* of now_ns, on the clock of the jobs' table */
    const struct lull_cluster_stretches *stretches;
    const struct lull_power_point *points;
    size_t point_count;
    size_t next;                    /* the first point after now_ns */
    double *type_w;                 /* [type]: power of its GPUs */
    double min_w;                   /* power of all nodes if no GPU had a job */
    enum lull_cluster_power *power; /* [node] */
    double energy_j;
    double written_j; /* as of the last line, as written_ns */
    int64_t now_ns;
    int64_t written_ns;
    bool *goes_on; /* [stretch]: its job continues at once in another operating point */
    bool *went_on; /* [stretch]: its job came from another operating point */
    FILE *file;
};

static double cluster_table_sum(const double *values, uint32_t count)
{
    double all = 0.0;

    for (uint32_t i = 0; i < count; i++)
        all += values[i];
    return all;
}

/* Writes a line for what happens at now_ns, with the mean power since the line above. */
static void cluster_table_write_line(struct power_table *table, char type)
{
    const double passed_s = (double)(table->now_ns - table->written_ns) / 1e9;

    fprintf(table->file, "%.9f,%.6f,%.6f,", (double)(table->origin_ns + table->now_ns) / 1e9,
            table->energy_j, table->min_w);
    if (passed_s > 0.0)
        fprintf(table->file, "%.6f,%c\n", (table->energy_j - table->written_j) / passed_s, type);
    else
        fprintf(table->file, "NA,%c\n", type);
    table->written_ns = table->now_ns;
    table->written_j = table->energy_j;
}

/* Advances the time without a change. */
static void cluster_table_pass_time(struct power_table *table, int64_t until_ns)
{
    table->energy_j += cluster_table_sum(table->type_w, table->cluster->type_count) *
                       (double)(until_ns - table->now_ns) / 1e9;
    table->now_ns = until_ns;
}

/* Advances the time to until_ns, with the changes of power on the way and those at until_ns
 * itself. */
static void pass_points(struct power_table *table, int64_t until_ns)
{
    for (; table->next < table->point_count && table->points[table->next].time_ns <= until_ns;
         table->next++) {
        const struct lull_power_point *point = &table->points[table->next];

        cluster_table_pass_time(table, point->time_ns);
        table->energy_j += point->at_once_j;
        table->type_w[point->type] = cluster_table_sum(point->w, LULL_POWER_PARTS);
    }
    cluster_table_pass_time(table, until_ns);
}

/* A job that changes its clock has two stretches that touch. last has room for one per job. */
static void find_changes(struct power_table *table, size_t *last)
{
    const struct lull_cluster_stretch *all = table->stretches->all;

    for (size_t i = 0; i < table->stretches->count; i++) {
        const size_t before = last[all[i].job]; /* counted from 1 */

        if (before > 0 && all[before - 1].end_ns == all[i].begin_ns &&
            all[before - 1].point != all[i].point) {
            table->goes_on[before - 1] = true;
            table->went_on[i] = true;
        }
        last[all[i].job] = i + 1;
    }
}

static void write_event(struct power_table *table, const struct lull_cluster_event *event)
{
    pass_points(table, event->time_ns);
    if (event->is_begin) {
        if (!table->went_on[event->stretch])
            cluster_table_write_line(table, 's');
        return;
    }
    cluster_table_write_line(table, table->goes_on[event->stretch] ? 'p' : 'e');
}

/* Returns the power of a node without a job, W. */
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

/* Writes the changes of nodes before a time, from *next on. */
static void write_nodes(struct power_table *table, size_t *next, int64_t before_ns)
{
    const struct lull_cluster_stretches *stretches = table->stretches;

    for (; *next < stretches->change_count && stretches->changes[*next].time_ns < before_ns;
         (*next)++) {
        const struct lull_cluster_node_change *change = &stretches->changes[*next];

        pass_points(table, change->time_ns);
        table->min_w += node_w(table->cluster, change->node, change->power) -
                        node_w(table->cluster, change->node, table->power[change->node]);
        table->power[change->node] = change->power;
        cluster_table_write_line(table, 'p');
    }
}

static int cluster_table_write_events(struct power_table *table)
{
    struct lull_cluster_event *events = NULL;
    size_t count = 0;
    size_t change = 0;
    const int rc = lull_cluster_stretches_events(table->stretches, &events, &count);

    if (rc < 0)
        return rc;
    fputs("time,energy,wattmin,epower,event_type\n", table->file);
    for (size_t i = 0; i < count; i++) {
        /* At one instant nodes change after jobs that end and before jobs that begin. */
        write_nodes(table, &change, events[i].time_ns + (events[i].is_begin ? 1 : 0));
        write_event(table, &events[i]);
    }
    free(events);
    return 0;
}

static int cluster_table_write_power(const void *context, FILE *file)
{
    const struct source *source = context;
    const struct lull_cluster *cluster = &source->model->cluster;
    const struct lull_cluster_stretches *stretches = lull_cluster_run_stretches(source->run);
    size_t *last = calloc(source->model->jobs.count + 1, sizeof(*last));
    struct power_table table = {
        .cluster = cluster,
        .origin_ns = source->model->origin_ns,
        .stretches = stretches,
        .type_w = calloc(cluster->type_count, sizeof(*table.type_w)),
        .power = calloc(cluster->node_count, sizeof(*table.power)),
        .goes_on = calloc(stretches->count + 1, sizeof(*table.goes_on)),
        .went_on = calloc(stretches->count + 1, sizeof(*table.went_on)),
        .file = file,
    };
    int rc = -ENOMEM;

    if (last == NULL || table.type_w == NULL || table.power == NULL || table.goes_on == NULL ||
        table.went_on == NULL)
        goto end;
    table.points = lull_power_meter_points(lull_cluster_run_meter(source->run), &table.point_count);
    for (uint32_t i = 0; i < cluster->node_count; i++)
        table.min_w += node_w(cluster, i, LULL_CLUSTER_ON);
    find_changes(&table, last);
    rc = cluster_table_write_events(&table);
end:
    free(last);
    free(table.type_w);
    free(table.power);
    free(table.goes_on);
    free(table.went_on);
    return rc;
}

int lull_tables_write_power(const char *path, const struct lull_scenario_model *model,
                            const struct lull_cluster_run *run, struct lull_error *err)
{
    const struct source source = {model, run};

    return lull_file_write_with(path, cluster_table_write_power, &source, err);
}
