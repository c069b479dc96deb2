/*
 * Lines of the scheduler's journal, which may be incomplete or of another version, as
 * past jobs: each job once and in order, with points that can be passed to a policy.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "cluster/slurm/schedule/past.h"
#include "cluster/slurm/schedule/schedule.h"

static void check(const struct lull_past *past)
{
    require(past->count <= LULL_PAST_MAX);
    for (uint32_t i = 0; i < past->count; i++) {
        const struct lull_past_job *const job = past->jobs[i];

        require(job->gpus > 0 && job->chosen < job->point_count);
        require(job->point_count <= LULL_CLUSTER_MAX_POINTS);
        for (uint32_t k = 0; k < job->point_count; k++) {
            require(job->points[k].time_ns > 0 && job->points[k].time_ns <= LULL_CLUSTER_MAX_NS);
            require(job->points[k].energy_j >= 0.0 && isfinite(job->points[k].energy_j));
            require(memchr(job->points[k].type, '\0', sizeof(job->points[k].type)) != NULL);
        }
        for (uint32_t k = 0; k < i; k++)
            require(past->jobs[k]->id != job->id && past->jobs[k]->submit_s <= job->submit_s);
    }
}

/* Policies that learn receive it, and start a waiting job. */
static void tell(const struct lull_past *past)
{
    static const char *const names[] = {"powerflow", "pd-rats"};
    const struct lull_queue_node node = {"n", "h100", 8, 0, true};
    const struct lull_queue_job job = {.id = 1,
                                       .is_of_lull = true,
                                       .name = "j",
                                       .type = "",
                                       .gpus = 4,
                                       .nodes = 1,
                                       .submit_s = 1800000000,
                                       .limit_s = 60};
    const struct lull_queue queue = {1800000000, &node, 1, &job, 1};

    for (size_t i = 0; i < 2; i++) {
        const struct lull_scheduling_rules rules = {.policy = lull_cluster_policy_find(names[i]),
                                                    .past = past};
        struct lull_schedule_decision decision;
        struct lull_schedule *schedule;
        struct lull_error err = {0};

        require(lull_schedule_create(&queue, &rules, &schedule, &err) == 0);
        require(lull_schedule_next(schedule, &decision, &err) == 1 && !decision.is_rejected);
        lull_schedule_destroy(schedule);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);
    struct lull_past past = {0};
    char *rest = NULL;

    memcpy(text, data, size);
    text[size] = '\0';
    for (const char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *const document = json_loads(line, 0, NULL);

        require(lull_past_add(&past, document) == 0);
        json_decref(document);
    }
    check(&past);
    tell(&past);
    lull_past_fini(&past);
    free(text);
    return 0;
}
