/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/power_out.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/cluster/cluster.h"

struct meter {
    const struct lull_gangs *gangs;
    const struct lull_cluster_stretches *stretches;
    double all_idle_w; /* of all GPUs, if none had a job */
    double jobs_w;     /* now */
    double idle_w;     /* now, of GPUs without a job */
    double energy_j;
    int64_t now_ns;
    bool *goes_on; /* [stretch] */
    bool *went_on; /* [stretch] */
};

static double all_idle_w(const struct lull_cluster *cluster)
{
    double sum_w = 0.0;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        sum_w += cluster->types[cluster->nodes[i].type].idle_w * cluster->nodes[i].gpus;
    return sum_w;
}

/* Adds what the stretch draws, or takes it away. */
static void change(struct meter *meter, const struct lull_cluster_event *event)
{
    const struct lull_cluster_stretch *stretch = &meter->stretches->all[event->stretch];
    const struct lull_cluster_mode *mode =
        &meter->gangs->jobs.all[stretch->job].modes[stretch->mode];
    const double sign = event->is_begin ? 1.0 : -1.0;

    meter->jobs_w +=
        sign * stretch->energy_j / ((double)(stretch->end_ns - stretch->begin_ns) * 1e-9);
    meter->idle_w -= sign * meter->gangs->cluster.types[mode->type].idle_w * mode->gpus;
}

/* Stretches of jobs that go on at once in another mode, and those in which they do. -ENOMEM. */
static int find_changes(struct meter *meter)
{
    const size_t count = meter->stretches->count;
    size_t *last = calloc(meter->gangs->jobs.count + 1, sizeof(*last)); /* of a job, from 1 */

    meter->goes_on = calloc(count + 1, sizeof(*meter->goes_on));
    meter->went_on = calloc(count + 1, sizeof(*meter->went_on));
    if (last == NULL || meter->goes_on == NULL || meter->went_on == NULL) {
        free(last);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_stretch *stretch = &meter->stretches->all[i];
        const size_t before = last[stretch->job];

        if (before > 0 && meter->stretches->all[before - 1].end_ns == stretch->begin_ns &&
            meter->stretches->all[before - 1].mode != stretch->mode) {
            meter->goes_on[before - 1] = true;
            meter->went_on[i] = true;
        }
        last[stretch->job] = i + 1;
    }
    free(last);
    return 0;
}

static void write_event(struct meter *meter, const struct lull_cluster_event *event, FILE *file)
{
    const double passed_s = (double)(event->time_ns - meter->now_ns) * 1e-9;
    const double power_w = meter->jobs_w + meter->idle_w;
    char type = event->is_begin ? 's' : 'e';

    change(meter, event);
    if (event->is_begin && meter->went_on[event->stretch])
        return;
    if (!event->is_begin && meter->goes_on[event->stretch])
        type = 'p';
    meter->energy_j += power_w * passed_s;
    meter->now_ns = event->time_ns;
    fprintf(file, "%.9f,%.6f,%.6f,", (double)event->time_ns * 1e-9, meter->energy_j,
            meter->all_idle_w);
    if (passed_s > 0.0)
        fprintf(file, "%.6f,%c\n", power_w, type);
    else
        fprintf(file, "NA,%c\n", type);
}

static int write_rows(const void *context, FILE *file)
{
    const struct lull_gangs *gangs = context;
    struct meter meter = {
        .gangs = gangs,
        .stretches = lull_cluster_run_stretches(gangs->run),
        .all_idle_w = all_idle_w(&gangs->cluster),
    };
    struct lull_cluster_event *events = NULL;
    size_t count = 0;
    int result = lull_cluster_stretches_events(meter.stretches, &events, &count);

    if (result == 0)
        result = find_changes(&meter);
    meter.idle_w = meter.all_idle_w;
    fputs("time,energy,wattmin,epower,event_type\n", file);
    for (size_t i = 0; i < count && result == 0; i++)
        write_event(&meter, &events[i], file);
    free(meter.goes_on);
    free(meter.went_on);
    free(events);
    return result;
}

int lull_gangs_write_power(const struct lull_gangs *gangs, struct lull_error *err)
{
    return lull_cluster_write_table(gangs->wish->power_out, write_rows, gangs, err);
}
