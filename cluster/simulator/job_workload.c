/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/simulator/job_workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/model/job_graph.h"
#include "cluster/simulator/job_workload_graph.h"
#include "trace/source.h"

/* Of all tasks together: about 3 years, so that no schedule at any clock overflows. */
#define MAX_WORK_NS INT64_C(100000000000000000)

enum {
    HEAD_BYTES = 4096,       /* of a file, to detect its format */
    MAX_SCHEDULED = 1 << 24, /* tasks, all clocks together */
};

struct lull_job_workload {
    bool is_simai;
    char *name;
    struct lull_simai_workload simai;
    struct lull_job_graph graph; /* of a Chakra trace */
};

/* ---- the format of a file ----------------------------------------------------------------- */

/*
 * A text begins with a line of words. JSON begins with a brace, and a stream of messages with a
 * length and the tag of a field, so that a line of printable characters there is no longer than the
 * length's one byte.
 */
static bool job_workload_is_text(const char *head, size_t size)
{
    size_t length = 0;

    while (length < size && (head[length] == '\t' || (head[length] >= ' ' && head[length] <= '~')))
        length++;
    if (length < 2 || head[strspn(head, " \t")] == '{')
        return false;
    return length == size || head[length] == '\n' || head[length] == '\r';
}

static int job_workload_detect(const char *path, bool *is_text_out, struct lull_error *err)
{
    char head[HEAD_BYTES + 1];
    struct lull_source *source = NULL;
    ssize_t size = lull_source_open(path, &source, err);

    if (size == 0)
        size = lull_source_read(source, head, HEAD_BYTES, err);
    lull_source_close(source);
    if (size < 0)
        return (int)size;
    head[size] = '\0';
    *is_text_out = job_workload_is_text(head, (size_t)size);
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------ */

static int check_work(const struct lull_job_graph *graph, const char *name, struct lull_error *err)
{
    int64_t work_ns = 0;

    for (size_t i = 0; i < graph->task_count; i++)
        work_ns += graph->tasks[i].time_ns;
    return work_ns <= MAX_WORK_NS
               ? 0
               : lull_error_set(err, LULL_E_FORMAT,
                                "%s: the tasks of an iteration take over 3 years together", name);
}

static int read_chakra(struct lull_job_workload *workload, struct lull_error *err)
{
    struct lull_chakra_graph trace;
    int rc = lull_chakra_read(workload->name, &trace, err);

    if (rc < 0)
        return rc;
    rc = lull_job_chakra_build(&trace, workload->name, &workload->graph, err);
    if (rc == 0)
        rc = check_work(&workload->graph, workload->name, err);
    lull_chakra_fini(&trace);
    return rc;
}

static int read_simai(struct lull_job_workload *workload, struct lull_error *err)
{
    const int rc = lull_simai_read(workload->name, &workload->simai, err);

    return rc == 0 ? lull_job_simai_check(&workload->simai, workload->name, err) : rc;
}

int lull_job_workload_read(const char *path, struct lull_job_workload **workload_out,
                           struct lull_error *err)
{
    struct lull_job_workload *workload = calloc(1, sizeof(*workload));
    struct lull_error why = {0};
    int rc;

    if (workload == NULL || (workload->name = strdup(path)) == NULL) {
        free(workload);
        return lull_error_set(err, -ENOMEM, "%s: no memory for its tasks", path);
    }
    rc = job_workload_detect(path, &workload->is_simai, &why);
    if (rc == 0)
        rc = workload->is_simai ? read_simai(workload, &why) : read_chakra(workload, &why);
    if (rc == LULL_E_FORMAT) /* perhaps a file of another kind */
        (void)lull_error_set(err, rc, "%s; read as %s", why.text, lull_job_workload_form(workload));
    else if (rc < 0)
        (void)lull_error_set(err, rc, "%s", why.text);
    if (rc < 0)
        lull_job_workload_destroy(workload);
    else
        *workload_out = workload;
    return rc;
}

void lull_job_workload_destroy(struct lull_job_workload *workload)
{
    if (workload == NULL)
        return;
    free(workload->name);
    lull_simai_fini(&workload->simai);
    lull_job_graph_fini(&workload->graph);
    free(workload);
}

const char *lull_job_workload_form(const struct lull_job_workload *workload)
{
    return workload->is_simai ? "SimAI" : "Chakra";
}

bool lull_job_workload_needs_gpus(const struct lull_job_workload *workload)
{
    return workload->is_simai && workload->simai.gpus == 0;
}

/* ---- schedules at all clocks -------------------------------------------------------------- */

/* An iteration of one GPU, scheduled at each selected clock. */
struct scheduled {
    struct lull_job_tempo tempo[LULL_JOB_MAX_CLOCKS];
    uint32_t clock_count;
    struct lull_cluster_point candidates[LULL_JOB_MAX_CLOCKS];
    uint32_t count;
};

/* Keeps only every so many clocks, and always the highest, so that large graphs take seconds too.
 */
static void job_workload_thin(struct scheduled *scheduled, size_t tasks)
{
    const size_t most = MAX_SCHEDULED / tasks > 4 ? MAX_SCHEDULED / tasks : 4;
    const uint32_t step = (uint32_t)((scheduled->clock_count + most - 1) / most);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < scheduled->clock_count; i += step)
        scheduled->tempo[kept++] = scheduled->tempo[i];
    scheduled->clock_count = kept;
}

/* With less time for some tasks a list schedule can, by luck, become longer. The order that a lower
 * clock found would have done at the higher one. */
static int64_t no_faster(const struct scheduled *scheduled, int64_t time_ns)
{
    const int64_t higher_ns =
        scheduled->count > 0 ? scheduled->candidates[scheduled->count - 1].time_ns : 0;

    return time_ns > higher_ns ? time_ns : higher_ns;
}

static int schedule_all(struct scheduled *scheduled, const struct lull_job_graph *graph,
                        uint32_t devices)
{
    for (uint32_t clock = 0; clock < scheduled->clock_count; clock++) {
        struct lull_job_iteration once;
        const int rc = lull_job_iterate(graph, devices, 1, &scheduled->tempo[clock], &once);

        if (rc < 0)
            return rc;
        scheduled->candidates[clock] = (struct lull_cluster_point){
            .gpus = 1,
            .sm_mhz = scheduled->tempo[clock].sm_mhz,
            .time_ns = no_faster(scheduled, once.time_ns),
            .energy_j = once.energy_j / devices,
            .exposed_ratio = (float)once.exposed_ratio,
            .waiting_w = (float)scheduled->tempo[clock].waiting_w,
        };
        scheduled->count++;
    }
    return 0;
}

static int job_workload_make(const struct lull_job_workload *workload,
                             const struct lull_job_graph *graph, uint32_t devices,
                             const struct lull_job_setting *setting,
                             struct lull_job_recorded *recorded_out, struct lull_error *err)
{
    struct scheduled *scheduled = calloc(1, sizeof(*scheduled));
    int rc = -ENOMEM;

    if (scheduled != NULL) {
        scheduled->clock_count = lull_job_type_tempo(setting->type, setting->job_class,
                                                     setting->network, scheduled->tempo);
        if (!setting->has_clocks)
            scheduled->clock_count = 1;
        job_workload_thin(scheduled, graph->task_count);
        rc = schedule_all(scheduled, graph, devices);
    }
    if (rc < 0) {
        (void)lull_error_set(err, rc, "%s: no memory for its schedules", workload->name);
    } else {
        recorded_out->step_ns = scheduled->candidates[0].time_ns;
        lull_job_points_choose(scheduled->candidates, scheduled->count, &recorded_out->points,
                               &recorded_out->relaxed);
    }
    free(scheduled);
    return rc;
}

int lull_job_workload_make(const struct lull_job_workload *workload,
                           const struct lull_job_setting *setting,
                           struct lull_job_recorded *recorded_out, struct lull_error *err)
{
    struct lull_job_links links;
    struct lull_job_graph graph;
    uint32_t devices = 0;
    int rc;

    if (!workload->is_simai)
        return job_workload_make(workload, &workload->graph, 1, setting, recorded_out, err);
    links = lull_job_type_links(setting->type, setting->network);
    rc = lull_job_simai_build(&workload->simai, workload->name, setting->gpus, &links, &graph,
                              &devices, err);
    if (rc < 0)
        return rc;
    rc = check_work(&graph, workload->name, err);
    if (rc == 0)
        rc = job_workload_make(workload, &graph, devices, setting, recorded_out, err);
    lull_job_graph_fini(&graph);
    return rc;
}

uint32_t lull_job_recorded_points(const struct lull_job_points *points, int64_t time_ns,
                                  uint32_t type, uint32_t gpus,
                                  struct lull_cluster_point *points_out)
{
    const uint32_t count = lull_job_points_make(points, time_ns, type, gpus, points_out);

    for (uint32_t i = 0; i < count; i++) {
        points_out[i].energy_j *= gpus;
        points_out[i].waiting_w *= (float)gpus;
    }
    return count;
}
