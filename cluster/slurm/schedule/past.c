/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm/schedule/past.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- documents ----------------------------------------------------------------------------- */

/* Reads a whole number from least on; false: there is none. */
static bool past_read_number(const json_t *object, const char *name, int64_t least, int64_t most,
                             int64_t *value_out)
{
    const json_t *const value = json_object_get(object, name);

    *value_out = json_integer_value(value);
    return json_is_integer(value) && *value_out >= least && *value_out <= most;
}

/* Reads a point. Null means unknown and is 0 here: full clocks, or no energy that could be counted.
 */
static bool past_read_point(const json_t *document, struct lull_past_point *point_out)
{
    const json_t *const energy = json_object_get(document, "energy_j");
    const char *const type = json_string_value(json_object_get(document, "gpu"));
    const double time_ns = json_number_value(json_object_get(document, "time_s")) * 1e9;
    int64_t sm_mhz = 0;

    if (type == NULL || !(time_ns >= 1.0 && time_ns <= (double)LULL_CLUSTER_MAX_NS) ||
        (!json_is_null(json_object_get(document, "sm_mhz")) &&
         !past_read_number(document, "sm_mhz", 1, UINT32_MAX, &sm_mhz)))
        return false;
    *point_out = (struct lull_past_point){.sm_mhz = (uint32_t)sm_mhz,
                                          .time_ns = (int64_t)time_ns,
                                          .energy_j = json_number_value(energy)};
    return isfinite(point_out->energy_j) && point_out->energy_j >= 0.0 &&
           (size_t)snprintf(point_out->type, sizeof(point_out->type), "%s", type) <
               sizeof(point_out->type);
}

/* The GPUs of all nodes; 0: that makes no sense. */
static uint32_t past_read_gpus(const json_t *nodes)
{
    int64_t sum = 0, gpus;
    const json_t *node;
    size_t i;

    json_array_foreach(nodes, i, node)
    {
        if (!past_read_number(node, "gpus", 1, UINT32_MAX, &gpus) || sum > UINT32_MAX - gpus)
            return 0;
        sum += gpus;
    }
    return (uint32_t)sum;
}

/* Returns the job of a document, which the caller frees; NULL: the document is invalid, or, if
 * *has_memory_out is false, out of memory. */
static struct lull_past_job *past_read_job(const json_t *decision, bool *has_memory_out)
{
    const json_t *const points = json_object_get(decision, "points");
    const size_t count = json_array_size(points);
    int64_t id, submit_s, chosen;
    struct lull_past_job *job;

    *has_memory_out = true;
    if (!json_is_false(json_object_get(decision, "is_rejected")) || count == 0 ||
        count > LULL_CLUSTER_MAX_POINTS || !past_read_number(decision, "job", 0, UINT32_MAX, &id) ||
        !past_read_number(decision, "submit_s", 0, INT64_MAX, &submit_s) ||
        !past_read_number(decision, "chosen", 0, (int64_t)count - 1, &chosen))
        return NULL;
    job = calloc(1, sizeof(*job) + count * sizeof(job->points[0]));
    *has_memory_out = job != NULL;
    if (job == NULL)
        return NULL;
    job->id = (uint32_t)id;
    job->submit_s = submit_s;
    job->chosen = (uint32_t)chosen;
    job->gpus = past_read_gpus(json_object_get(decision, "nodes"));
    while (job->point_count < count && past_read_point(json_array_get(points, job->point_count),
                                                       &job->points[job->point_count]))
        job->point_count++;
    if (job->gpus > 0 && job->point_count == count)
        return job;
    free(job);
    return NULL;
}

/* ---- the past ------------------------------------------------------------------------------ */

static void past_forget(struct lull_past *past, uint32_t at)
{
    free(past->jobs[at]);
    past->count--;
    memmove(&past->jobs[at], &past->jobs[at + 1], (past->count - at) * sizeof(past->jobs[0]));
}

/* Returns whether a job precedes another one. */
static bool past_is_before(const struct lull_past_job *left, const struct lull_past_job *right)
{
    return left->submit_s != right->submit_s ? left->submit_s < right->submit_s
                                             : left->id < right->id;
}

int lull_past_add(struct lull_past *past, const json_t *decision)
{
    bool has_memory;
    struct lull_past_job *const job = past_read_job(decision, &has_memory);
    uint32_t at;

    if (job == NULL)
        return has_memory ? 0 : -ENOMEM;
    if (past->jobs == NULL)
        past->jobs = calloc(LULL_PAST_MAX, sizeof(past->jobs[0]));
    if (past->jobs == NULL) {
        free(job);
        return -ENOMEM;
    }
    for (at = 0; at < past->count && past->jobs[at]->id != job->id; at++)
        ;
    if (at < past->count)
        past_forget(past, at);
    else if (past->count == LULL_PAST_MAX)
        past_forget(past, 0);
    for (at = past->count; at > 0 && past_is_before(job, past->jobs[at - 1]); at--)
        past->jobs[at] = past->jobs[at - 1];
    past->jobs[at] = job;
    past->count++;
    return 0;
}

void lull_past_fini(struct lull_past *past)
{
    for (uint32_t i = 0; i < past->count; i++)
        free(past->jobs[i]);
    free(past->jobs);
    *past = (struct lull_past){0};
}
