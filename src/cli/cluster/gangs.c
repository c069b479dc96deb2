/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/gangs.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/cluster/bound.h"
#include "cli/cluster/cluster.h"
#include "cli/command.h"

static uint32_t pool_count(const struct lull_gangs *gangs)
{
    return gangs->pools.rows != NULL ? gangs->pools.count : 1;
}

static uint32_t pool_nodes(const struct lull_gangs *gangs, uint32_t pool)
{
    return gangs->pools.rows != NULL ? gangs->pools.rows[pool].nodes : (uint32_t)gangs->wish->nodes;
}

static int make_cluster(struct lull_gangs *gangs, struct lull_error *err)
{
    const struct lull_gangs_options *wish = gangs->wish;
    const size_t count =
        gangs->pools.rows != NULL ? gangs->pools.nodes : (size_t)gangs->wish->nodes;
    uint32_t made = 0;

    gangs->type = (struct lull_cluster_type){.name = "GPU", .idle_w = wish->idle_w};
    gangs->nodes = calloc(count, sizeof(*gangs->nodes));
    if (gangs->nodes == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu nodes", count);
    for (uint32_t pool = 0; pool < pool_count(gangs); pool++)
        for (uint32_t i = 0; i < pool_nodes(gangs, pool); i++)
            gangs->nodes[made++] =
                (struct lull_cluster_node){.pool = pool, .gpus = (uint32_t)wish->gpus_per_node};
    gangs->cluster =
        (struct lull_cluster){&gangs->type, 1, gangs->nodes, made, pool_count(gangs) + 1};
    return lull_cluster_check(&gangs->cluster, err);
}

static uint32_t pool_of(const struct lull_gangs *gangs, const struct lull_cluster_jobs_row *row)
{
    if (gangs->pools.rows == NULL)
        return 0;
    return lull_cluster_pools_find(&gangs->pools, lull_cluster_jobs_name(&gangs->table, row->vc));
}

static int make_jobs(struct lull_gangs *gangs, struct lull_error *err)
{
    const size_t count = gangs->table.count;

    gangs->modes = calloc(count + 1, sizeof(*gangs->modes));
    gangs->all = calloc(count + 1, sizeof(*gangs->all));
    if (gangs->modes == NULL || gangs->all == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", count);
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_jobs_row *row = &gangs->table.rows[i];

        gangs->modes[i] = (struct lull_cluster_mode){
            .gpus = row->gpus,
            .time_ns = row->duration_ns,
            .energy_j = gangs->wish->run_w * row->gpus * (double)row->duration_ns * 1e-9,
        };
        gangs->all[i] = (struct lull_cluster_job){
            .arrival_ns = row->submit_ns,
            .deadline_ns = row->deadline_ns,
            .weight = 1.0,
            .pool = pool_of(gangs, row),
            .mode_count = 1,
            .modes = &gangs->modes[i],
        };
    }
    gangs->jobs = (struct lull_cluster_jobs){gangs->all, count};
    return 0;
}

static int simulate(struct lull_gangs *gangs, struct lull_error *err)
{
    int result = lull_cluster_jobs_read(gangs->wish->path, &gangs->table, err);

    if (result == 0 && gangs->wish->pools != NULL)
        result = lull_cluster_pools_read(gangs->wish->pools, &gangs->pools, err);
    if (result == 0)
        result = make_cluster(gangs, err);
    if (result == 0)
        result = make_jobs(gangs, err);
    if (result == 0)
        result =
            lull_cluster_simulate(&gangs->cluster, &gangs->jobs, gangs->policy, &gangs->run, err);
    if (result == 0 && gangs->wish->is_bounded)
        result = lull_cluster_bound(&gangs->cluster, &gangs->jobs, gangs->run,
                                    gangs->wish->bound_slot_s, &gangs->bound_j, err);
    if (result == 0 && gangs->wish->jobs_out != NULL)
        result = lull_gangs_write_jobs(gangs, err);
    return result == 0 ? lull_gangs_print(gangs, err) : result;
}

int lull_cluster_gangs_main(const char *policy, int argc, char **argv)
{
    struct lull_gangs_options wish;
    struct lull_gangs gangs = {.wish = &wish, .policy = lull_cluster_policy_find(policy)};
    struct lull_error err = {0};
    int result;

    lull_gangs_options_parse(argc, argv, &wish);
    result = simulate(&gangs, &err);
    lull_cluster_run_destroy(gangs.run);
    free(gangs.nodes);
    free(gangs.modes);
    free(gangs.all);
    lull_cluster_pools_fini(&gangs.pools);
    lull_cluster_jobs_fini(&gangs.table);
    return result < 0 ? lull_cli_fail(LULL_CLUSTER_COMMAND, &err) : LULL_EXIT_OK;
}
