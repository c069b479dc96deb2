/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/gangs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/amount.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/compare.h"
#include "cli/cluster/gantt.h"
#include "cli/cluster/power_out.h"
#include "cli/command.h"
#include "cli/watch.h"

static uint32_t pool_count(const struct lull_gangs *gangs)
{
    return gangs->pools.rows != NULL ? gangs->pools.count : 1;
}

/* Of a pool, of one type. */
static uint32_t pool_nodes(const struct lull_gangs *gangs, uint32_t pool, uint32_t type)
{
    if (gangs->wish->modes.nodes[0] != 0)
        return (uint32_t)gangs->wish->modes.nodes[type];
    return gangs->pools.rows != NULL ? gangs->pools.rows[pool].nodes : (uint32_t)gangs->wish->nodes;
}

/* Returns how many there are. */
static uint32_t make_types(struct lull_gangs *gangs)
{
    const struct lull_gangs_options *wish = gangs->wish;

    gangs->types[0] = (struct lull_cluster_type){.name = "GPU", .idle_w = wish->idle_w};
    for (uint32_t i = 0; i < wish->modes.type_count; i++)
        gangs->types[i] = (struct lull_cluster_type){
            .name = wish->modes.types[i].name,
            .memory_mib = wish->modes.types[i].memory_mib,
            .idle_w = wish->idle_w >= 0.0 ? wish->idle_w : wish->modes.types[i].idle_w,
        };
    return wish->modes.type_count > 0 ? wish->modes.type_count : 1;
}

static int make_cluster(struct lull_gangs *gangs, struct lull_error *err)
{
    const uint32_t types = make_types(gangs);
    size_t count = 0;
    uint32_t made = 0;

    for (uint32_t pool = 0; pool < pool_count(gangs); pool++)
        for (uint32_t type = 0; type < types; type++)
            count += pool_nodes(gangs, pool, type);
    if (count > LULL_CLUSTER_MOST_NODES)
        return lull_error_set(err, -EINVAL, "%zu nodes are more than %d", count,
                              LULL_CLUSTER_MOST_NODES);
    gangs->nodes = calloc(count, sizeof(*gangs->nodes));
    if (gangs->nodes == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu nodes", count);
    for (uint32_t pool = 0; pool < pool_count(gangs); pool++)
        for (uint32_t type = 0; type < types; type++)
            for (uint32_t i = 0; i < pool_nodes(gangs, pool, type); i++)
                gangs->nodes[made++] = (struct lull_cluster_node){
                    .pool = pool, .type = type, .gpus = (uint32_t)gangs->wish->gpus_per_node};
    lull_conditions_apply_types(&gangs->wish->conditions, gangs->types, types);
    lull_conditions_apply_racks(&gangs->wish->conditions, gangs->nodes, made);
    gangs->cluster =
        (struct lull_cluster){gangs->types, types, gangs->nodes, made, pool_count(gangs) + 1};
    return lull_cluster_check(&gangs->cluster, err);
}

static uint32_t pool_of(const struct lull_gangs *gangs, const struct lull_cluster_jobs_row *row)
{
    if (gangs->pools.rows == NULL)
        return 0;
    return lull_cluster_pools_find(&gangs->pools, lull_cluster_jobs_name(&gangs->table, row->vc));
}

/* One mode each, as long as the table says. */
static int make_plain_modes(struct lull_gangs *gangs, struct lull_error *err)
{
    const size_t count = gangs->table.count;

    gangs->plain = calloc(count + 1, sizeof(*gangs->plain));
    if (gangs->plain == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", count);
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_jobs_row *row = &gangs->table.rows[i];

        gangs->plain[i] = (struct lull_cluster_mode){
            .gpus = row->gpus,
            .time_ns = row->duration_ns,
            .energy_j = gangs->wish->run_w * row->gpus * (double)row->duration_ns * 1e-9,
        };
        gangs->all[i].mode_count = 1;
        gangs->all[i].modes = &gangs->plain[i];
    }
    return 0;
}

/* Of the fastest mode on as many GPUs as the table says; of all modes, if there is none. */
static double full_energy_j(const struct lull_cluster_job *job, uint32_t gpus)
{
    const struct lull_cluster_mode *best = NULL;

    for (uint32_t i = 0; i < job->mode_count; i++) {
        const struct lull_cluster_mode *mode = &job->modes[i];
        const bool is_asked = mode->gpus == gpus;
        const bool was_asked = best != NULL && best->gpus == gpus;

        if (best == NULL || (is_asked && !was_asked) ||
            (is_asked == was_asked && mode->time_ns < best->time_ns))
            best = mode;
    }
    return best != NULL ? best->energy_j : 0.0;
}

static void set_values(struct lull_gangs *gangs)
{
    for (size_t i = 0; i < gangs->jobs.count; i++) {
        const struct lull_cluster_jobs_row *row = &gangs->table.rows[i];
        struct lull_cluster_job *job = &gangs->all[i];

        job->value_j = row->value_j > 0.0
                           ? row->value_j
                           : gangs->wish->value_ratio * full_energy_j(job, row->gpus);
        gangs->has_values |= job->value_j > 0.0;
    }
}

static int make_modes(struct lull_gangs *gangs, struct lull_error *err)
{
    const struct lull_gangs_options *wish = gangs->wish;

    if (wish->modes.type_count == 0) {
        const int rc = lull_gangs_workloads_refuse(wish->path, &gangs->table, err);

        return rc == 0 ? make_plain_modes(gangs, err) : rc;
    }
    return lull_gangs_modes_make(&gangs->modes, &wish->modes, wish->path, &gangs->table,
                                 (uint32_t)wish->gpus_per_node, gangs->all, err);
}

static int make_jobs(struct lull_gangs *gangs, struct lull_error *err)
{
    const size_t count = gangs->table.count;
    int result;

    gangs->all = calloc(count + 1, sizeof(*gangs->all));
    if (gangs->all == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", count);
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_jobs_row *row = &gangs->table.rows[i];

        gangs->all[i] = (struct lull_cluster_job){
            .arrival_ns = row->submit_ns,
            .deadline_ns = row->deadline_ns,
            .weight = row->weight,
            .pool = pool_of(gangs, row),
            .memory_mib = row->memory_mib,
            .checkpoint_ns = gangs->wish->conditions.checkpoint_ns,
            .is_preemptible =
                row->preemptible >= 0 ? row->preemptible == 1 : gangs->wish->is_preemptible,
        };
    }
    gangs->jobs = (struct lull_cluster_jobs){gangs->all, count};
    result = make_modes(gangs, err);
    if (result == 0)
        set_values(gangs);
    return result;
}

bool lull_gangs_is_certified(const struct lull_cluster_policy_ops *policy)
{
    return strcmp(policy->name, "pd-rats") == 0 ||
           lull_cluster_policy_needs_value(policy);
}

/* What a second of completion time is worth to the policy. */
static double second_j(const struct lull_cluster_policy_ops *policy)
{
    if (policy->knob == NULL)
        return 0.0;
    return policy->is_set ? policy->setting : policy->knob->usual;
}

int lull_gangs_certify(const struct lull_gangs *gangs, const struct lull_cluster_policy_ops *policy,
                       const struct lull_cluster_run *run,
                       struct lull_cluster_certificate *certificate_out, struct lull_error *err)
{
    return lull_cluster_certify(&gangs->cluster, &gangs->jobs, run, &gangs->conditions.all,
                                &gangs->wish->certificate, second_j(policy), certificate_out, err);
}

int lull_gangs_run(const struct lull_gangs *gangs, const struct lull_cluster_policy_ops *policy,
                   struct lull_cluster_run **run_out, struct lull_error *err)
{
    if (lull_cluster_policy_needs_value(policy) && !gangs->has_values)
        return lull_error_set(err, -EINVAL,
                              "policy %s takes only jobs with a value, and none has one: give the "
                              "table a column value_j, or --value FACTOR",
                              policy->name);
    return lull_cluster_simulate_under(&gangs->cluster, &gangs->jobs, policy,
                                       &gangs->conditions.all, run_out, err);
}

static void tell(void *user, size_t gone, size_t jobs)
{
    if (lull_watch_is_due(user))
        lull_watch_draw("lull: %s of %s jobs", lull_amount_count(gone).text,
                        lull_amount_count(jobs).text);
}

/* How good the run was. */
static int judge(struct lull_gangs *gangs, struct lull_error *err)
{
    int result = 0;

    if (lull_gangs_is_certified(gangs->policy)) {
        result = lull_gangs_certify(gangs, gangs->policy, gangs->run, &gangs->certificate, err);
        if (result == 0 && lull_cluster_prove(&gangs->cluster, &gangs->jobs, gangs->policy,
                                              &gangs->wish->conditions, &gangs->proven) < 0)
            result = lull_error_set(err, -ENOMEM, "no memory for what is proven");
    }
    if (result == 0 && gangs->wish->is_bounded)
        result =
            lull_cluster_bound(&gangs->cluster, &gangs->jobs, gangs->run, &gangs->conditions.all,
                               gangs->wish->bound_slot_s, &gangs->bound, err);
    return result;
}

static int simulate(struct lull_gangs *gangs, struct lull_error *err)
{
    struct lull_watch watch = lull_watch_begin();
    int result;

    gangs->conditions.all.keeps_power =
        gangs->wish->power_out != NULL || gangs->wish->gantt != NULL;
    gangs->conditions.all.tell = tell;
    gangs->conditions.all.user = &watch;
    result = lull_gangs_run(gangs, gangs->policy, &gangs->run, err);
    lull_watch_end(&watch);
    if (result == 0)
        result = judge(gangs, err);
    if (result == 0 && gangs->wish->jobs_out != NULL)
        result = lull_gangs_write_jobs(gangs, err);
    if (result == 0 && gangs->wish->power_out != NULL)
        result = lull_gangs_write_power(gangs, err);
    if (result == 0 && gangs->wish->gantt != NULL)
        result = lull_gangs_write_gantt(gangs, err);
    return result == 0 ? lull_gangs_print(gangs, err) : result;
}

static int run(struct lull_gangs *gangs, struct lull_error *err)
{
    int result = lull_cluster_jobs_read(gangs->wish->path, &gangs->table, err);

    if (result == 0 && gangs->wish->pools != NULL)
        result = lull_cluster_pools_read(gangs->wish->pools, &gangs->pools, err);
    if (result == 0)
        result = make_cluster(gangs, err);
    if (result == 0)
        result = make_jobs(gangs, err);
    if (result == 0)
        result = lull_conditions_make(&gangs->wish->conditions, &gangs->cluster, &gangs->jobs,
                                      &gangs->conditions, err);
    if (result < 0)
        return result;
    return gangs->wish->compare != NULL || gangs->wish->sweep != NULL
               ? lull_gangs_compare(gangs, err)
               : simulate(gangs, err);
}

int lull_cluster_gangs_main(const char *policy, int argc, char **argv)
{
    struct lull_gangs_options wish;
    struct lull_cluster_policy_ops set;
    struct lull_gangs gangs = {.wish = &wish};
    struct lull_error err = {0};
    int result = 0;

    if (policy != NULL)
        gangs.policy = lull_cluster_policy_find(policy);
    lull_gangs_options_parse(argc, argv, policy != NULL, &wish);
    if (wish.has_knob) {
        result = lull_cluster_policy_set(gangs.policy, wish.knob, &set, &err);
        gangs.policy = &set;
    }
    if (result == 0)
        result = run(&gangs, &err);
    lull_cluster_run_destroy(gangs.run);
    lull_conditions_fini(&gangs.conditions);
    free(gangs.nodes);
    free(gangs.plain);
    lull_gangs_modes_fini(&gangs.modes);
    free(gangs.all);
    lull_cluster_pools_fini(&gangs.pools);
    lull_cluster_jobs_fini(&gangs.table);
    return result < 0 ? lull_cli_fail(LULL_CLUSTER_COMMAND, &err) : LULL_EXIT_OK;
}
