/*
 * Small clusters from standard input, one a line, under many policies: the cost of each run, with
 * its certificate and bound, one JSON document a line. hunt_bounds.py makes the clusters.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cluster/cli/simulate/bound.h"
#include "cluster/cli/simulate/certificate.h"

enum { MAX_JOBS = 8, MOST_TYPES = 2 };

struct drawn {
    struct lull_cluster_type types[MOST_TYPES];
    struct lull_cluster_node nodes[MOST_TYPES];
    struct lull_cluster cluster;
    struct lull_cluster_point points[MAX_JOBS][LULL_CLUSTER_MAX_POINTS];
    struct lull_cluster_job all[MAX_JOBS];
    struct lull_cluster_jobs jobs;
    struct lull_cluster_conditions conditions;
    struct lull_cluster_failure failure;
    double second_j;
};

static int64_t time_of(const json_t *value)
{
    return json_is_null(value) ? LULL_CLUSTER_NEVER
                               : (int64_t)(json_number_value(value) * 1e3 + 0.5) * 1000000;
}

static void read_job(const json_t *asked, struct lull_cluster_point *points,
                     struct lull_cluster_job *job)
{
    const json_t *modes = json_object_get(asked, "modes");
    const json_t *mode;
    size_t i;

    *job = (struct lull_cluster_job){
        .arrival_ns = time_of(json_object_get(asked, "arrival")),
        .deadline_ns = time_of(json_object_get(asked, "deadline")),
        .weight = 1.0,
        .value_j = json_number_value(json_object_get(asked, "value")),
        .is_preemptible = json_is_true(json_object_get(asked, "preemptible")),
        .checkpoint_ns = time_of(json_object_get(asked, "checkpoint")),
        .point_count = (uint32_t)json_array_size(modes),
        .points = points,
    };
    json_array_foreach(modes, i, mode)
    {
        points[i] = (struct lull_cluster_point){
            .type = (uint32_t)json_integer_value(json_array_get(mode, 0)),
            .gpus = (uint32_t)json_integer_value(json_array_get(mode, 1)),
            .time_ns = time_of(json_array_get(mode, 2)),
            .energy_j = json_number_value(json_array_get(mode, 3)),
            .sm_mhz = 1000 - (uint32_t)i,
        };
        points[i].waiting_w =
            (float)(0.3 * points[i].energy_j / ((double)points[i].time_ns * 1e-9));
    }
}

static void read_instance(const json_t *asked, struct drawn *drawn)
{
    const json_t *gpus = json_object_get(asked, "gpus");
    const json_t *failure = json_object_get(asked, "failure");
    const json_t *job;
    size_t i;

    *drawn = (struct drawn){.second_j = json_number_value(json_object_get(asked, "second_j"))};
    for (i = 0; i < json_array_size(gpus); i++) {
        drawn->types[i].name = i == 0 ? "A" : "B";
        drawn->nodes[i] = (struct lull_cluster_node){
            .type = (uint32_t)i, .gpus = (uint32_t)json_integer_value(json_array_get(gpus, i))};
    }
    drawn->cluster = (struct lull_cluster){drawn->types, (uint32_t)i, drawn->nodes, (uint32_t)i, 1};
    json_array_foreach(json_object_get(asked, "jobs"), i, job)
        read_job(job, drawn->points[i], &drawn->all[i]);
    drawn->jobs = (struct lull_cluster_jobs){drawn->all, i};
    drawn->conditions.cap = (struct lull_power_cap){
        .cluster_w = json_number_value(json_object_get(asked, "cap_w")), .peak_ratio = 1.0};
    if (json_is_array(failure)) {
        drawn->failure = (struct lull_cluster_failure){
            .node = (uint32_t)json_integer_value(json_array_get(failure, 0)),
            .from_ns = time_of(json_array_get(failure, 1)),
            .to_ns = time_of(json_array_get(failure, 2)),
        };
        drawn->conditions.failures = &drawn->failure;
        drawn->conditions.failure_count = 1;
    }
}

/* The result of a run: energy, and the end of each job, null if it has none. */
static json_t *tell_run(const struct drawn *drawn, const struct lull_cluster_run *run)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    json_t *ends = json_array();
    double run_j, idle_j;

    lull_cluster_run_energy(run, &run_j, &idle_j);
    for (size_t i = 0; i < drawn->jobs.count; i++)
        json_array_append_new(ends, outcomes[i].fate == LULL_CLUSTER_DONE
                                        ? json_real((double)outcomes[i].end_ns * 1e-9)
                                        : json_null());
    return json_pack("{s:f, s:o}", "run_j", run_j, "ends", ends);
}

/* Adds the bound proven for the run, or the reason why there is none. */
static void judge(const struct drawn *drawn, const struct lull_cluster_run *run, double slot_s,
                  json_t *reported)
{
    static const struct lull_certificate_effort effort = {200, 60};
    const struct lull_certified_run of = {&drawn->cluster, &drawn->jobs, run, &drawn->conditions,
                                          drawn->second_j};
    struct lull_cluster_certificate certificate;
    struct lull_cluster_bound bound;
    struct lull_error err = {0};

    if (lull_cluster_certify(&of, &effort, &certificate, &err) == 0)
        json_object_set_new(reported, "certificate_j", json_real(certificate.bound_j));
    else
        json_object_set_new(reported, "error", json_string(err.text));
    if (slot_s > 0.0 && lull_cluster_bound(&drawn->cluster, &drawn->jobs, run, &drawn->conditions,
                                           slot_s, &bound, &err) == 0)
        json_object_set_new(reported, "bound_j", json_real(bound.run_j));
    else if (slot_s > 0.0)
        json_object_set_new(reported, "error", json_string(err.text));
}

static json_t *run_all(const struct drawn *drawn, const json_t *asked)
{
    const double slot_s = json_number_value(json_object_get(asked, "bound_slot_s"));
    json_t *reported = json_object();
    const json_t *knob;
    const char *name;

    json_object_foreach((json_t *)json_object_get(asked, "policies"), name, knob)
    {
        struct lull_cluster_policy_ops policy = *lull_cluster_policy_find(name);
        struct lull_cluster_run *run = NULL;
        struct lull_error err = {0};
        json_t *of_run;

        if (json_is_number(knob) &&
            lull_cluster_policy_set(&policy, json_number_value(knob), &policy, &err) < 0)
            abort();
        if (lull_cluster_simulate(&drawn->cluster, &drawn->jobs, &policy, &drawn->conditions, &run,
                                  &err) < 0) {
            json_object_set_new(reported, name, json_pack("{s:s}", "refused", err.text));
            continue;
        }
        of_run = tell_run(drawn, run);
        if (json_object_get(json_object_get(asked, "judged"), name) != NULL)
            judge(drawn, run, slot_s, of_run);
        json_object_set_new(reported, name, of_run);
        lull_cluster_run_destroy(run);
    }
    return reported;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, stdin) > 0) {
        json_t *const asked = json_loads(line, 0, NULL);
        struct drawn drawn;
        json_t *reported;

        if (asked == NULL)
            return 2;
        read_instance(asked, &drawn);
        reported = run_all(&drawn, asked);
        json_dumpf(reported, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(reported);
        json_decref(asked);
    }
    free(line);
    return 0;
}
