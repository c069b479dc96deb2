/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/scenario.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_string.h"
#include "base/log.h"
#include "cluster/trace/cluster_tables.h"

/* ---- the cluster -------------------------------------------------------------------------- */

/* The last pool, without nodes, is not counted. */
static uint32_t count_pools(const struct lull_scenario_model *model)
{
    return model->pools.rows != NULL ? model->pools.count : 1;
}

/* Returns the number of nodes of one type in a pool. */
static uint32_t count_nodes(const struct lull_scenario_model *model, uint32_t pool, uint32_t type)
{
    if (model->options->type_nodes[0] != 0)
        return (uint32_t)model->options->type_nodes[type];
    if (model->pools.rows != NULL)
        return model->pools.rows[pool].nodes;
    return (uint32_t)model->options->nodes;
}

/* Returns how many types there are. */
static uint32_t make_types(struct lull_scenario_model *model,
                           const struct lull_scenario_power_options *power)
{
    const struct lull_scenario_model_options *options = model->options;
    const uint32_t count = options->type_count > 0 ? options->type_count : 1;

    model->types[0] = (struct lull_cluster_type){.name = "GPU", .idle_w = options->idle_w};
    if (model->reported != NULL) {
        const struct lull_table_gpu *const gpu = lull_point_table_only_gpu(model->reported);

        model->types[0].name = gpu->type;
        if (options->idle_w < 0.0)
            model->types[0].idle_w = gpu->idle_w;
    }
    for (uint32_t i = 0; i < options->type_count; i++) {
        model->types[i] = (struct lull_cluster_type){
            .name = options->types[i].name,
            .memory_mib = options->types[i].memory_mib,
            .idle_w = options->types[i].idle_w,
        };
        if (options->idle_w >= 0.0)
            model->types[i].idle_w = options->idle_w;
    }
    for (uint32_t i = 0; i < count; i++) {
        model->types[i].turn_on_j = power->turn_on_j;
        model->types[i].turn_on_ns = power->turn_on_ns;
        model->types[i].off_w = power->off_w;
    }
    return count;
}

static int scenario_read_points(struct lull_scenario_model *model, struct lull_error *err)
{
    const char *const path = model->options->points;
    int rc;

    if (path == NULL)
        return 0;
    rc = lull_point_table_read(path, &model->reported, err);
    if (rc == 0 && lull_point_table_only_gpu(model->reported) == NULL)
        rc = lull_error_set(err, LULL_E_FORMAT,
                            "%s: \"gpus\" must describe the single simulated GPU type", path);
    return rc;
}

/* Makes the nodes, pool by pool and type by type, so that the nodes of a group are neighbours. */
static int scenario_make_cluster(struct lull_scenario_model *model,
                                 const struct lull_scenario_options *options,
                                 struct lull_error *err)
{
    const uint32_t types = make_types(model, &options->power);
    const int64_t rack_nodes = options->network.rack_nodes;
    size_t count = 0;
    uint32_t made = 0;

    for (uint32_t pool = 0; pool < count_pools(model); pool++)
        for (uint32_t type = 0; type < types; type++)
            count += count_nodes(model, pool, type);
    if (count > LULL_CLUSTER_MAX_NODES)
        return lull_error_set(err, -EINVAL, "%zu nodes are more than the %d that can be simulated",
                              count, LULL_CLUSTER_MAX_NODES);
    model->nodes = calloc(count + 1, sizeof(*model->nodes));
    if (model->nodes == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu nodes", count);
    for (uint32_t pool = 0; pool < count_pools(model); pool++)
        for (uint32_t type = 0; type < types; type++)
            for (uint32_t i = 0; i < count_nodes(model, pool, type); i++)
                model->nodes[made++] = (struct lull_cluster_node){
                    .pool = pool, .type = type, .gpus = (uint32_t)options->model.gpus_per_node};
    for (uint32_t i = 0; rack_nodes > 0 && i < made; i++)
        model->nodes[i].rack = i / (uint32_t)rack_nodes;
    model->cluster =
        (struct lull_cluster){model->types, types, model->nodes, made, count_pools(model) + 1};
    return lull_cluster_check(&model->cluster, err);
}

/* ---- the jobs ----------------------------------------------------------------------------- */

/* The energy at full clocks: of the fastest operating point with the table's number of GPUs, or
 * of the fastest one of all if none has that number. */
static double full_energy_j(const struct lull_cluster_job *job, uint32_t gpus)
{
    const struct lull_cluster_point *best = NULL;

    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_cluster_point *point = &job->points[i];
        const bool is_asked = point->gpus == gpus;
        const bool was_asked = best != NULL && best->gpus == gpus;

        if (best == NULL || (is_asked && !was_asked) ||
            (is_asked == was_asked && point->time_ns < best->time_ns))
            best = point;
    }
    return best != NULL ? best->energy_j : 0.0;
}

/* The jobs of the bound differ only in their operating points. */
static void complete_relaxed(struct lull_scenario_model *model)
{
    for (size_t i = 0; i < model->jobs.count; i++) {
        struct lull_cluster_job *const job = &model->points.relaxed_jobs[i];
        const struct lull_cluster_job points = *job;

        *job = model->all[i];
        job->points = points.points;
        job->point_count = points.point_count;
    }
}

/* Finds the pool of each job; those of pools that the table lacks come last. Such a pool is
 * probably an error in the tables, so it is reported. */
static int find_pools(struct lull_scenario_model *model, struct lull_error *err)
{
    const struct lull_job_table *table = &model->table;
    const struct lull_scenario_model_options *options = model->options;
    size_t lost = 0;
    size_t first = 0;

    if (model->pools.rows == NULL || table->count == 0)
        return 0;
    if (table->rows[0].vc == UINT32_MAX)
        return lull_error_set(err, -EINVAL, "--pools needs a column vc in %s", options->path);
    for (size_t i = 0; i < table->count; i++) {
        model->all[i].pool =
            lull_cluster_pools_find(&model->pools, lull_job_table_name(table, table->rows[i].vc));
        if (model->all[i].pool == model->pools.count && lost++ == 0)
            first = i;
    }
    if (lost == table->count)
        return lull_error_set(
            err, -EINVAL,
            "no job of %s is in a pool of %s: line %zu has '%.60s', the pools are "
            "'%s'%s",
            options->path, options->pools, table->rows[first].line,
            lull_job_table_name(table, table->rows[first].vc), model->pools.rows[0].name,
            model->pools.count > 1 ? ", ..." : "");
    if (lost > 0)
        lull_log(LULL_LOG_WARNING, "simulate cluster",
                 "%zu of %zu jobs are in no pool of %s, so they are rejected: line %zu of %s has "
                 "'%.60s'",
                 lost, table->count, options->pools, table->rows[first].line, options->path,
                 lull_job_table_name(table, table->rows[first].vc));
    return 0;
}

/* Makes a job of each row of the table. Operating points come first, since the value of a job whose
 * row has none is a multiple of the energy at full clocks. */
static int scenario_make_jobs(struct lull_scenario_model *model, int64_t checkpoint_ns,
                              bool is_bounded, struct lull_error *err)
{
    const struct lull_scenario_model_options *options = model->options;
    const struct lull_job_table *table = &model->table;
    int rc;

    model->all = calloc(table->count + 1, sizeof(*model->all));
    if (model->all == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", table->count);
    for (size_t i = 0; i < table->count; i++) {
        const struct lull_job_table_row *row = &table->rows[i];
        struct lull_cluster_job *job = &model->all[i];

        *job = (struct lull_cluster_job){
            .arrival_ns = row->submit_ns - model->origin_ns,
            .deadline_ns = row->deadline_ns == LULL_CLUSTER_NEVER
                               ? LULL_CLUSTER_NEVER
                               : row->deadline_ns - model->origin_ns,
            .weight = row->weight,
            .memory_mib = row->memory_mib,
            .checkpoint_ns = checkpoint_ns,
            .is_preemptible = options->is_preemptible,
        };
        if (row->preemptible >= 0)
            job->is_preemptible = row->preemptible == 1;
    }
    rc = find_pools(model, err);
    if (rc < 0)
        return rc;
    model->jobs = (struct lull_cluster_jobs){model->all, table->count};
    rc = lull_scenario_points_make(&model->points, options, model->reported, table, is_bounded,
                                   model->all, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < table->count; i++) {
        model->all[i].value_j = table->rows[i].value_j;
        if (model->all[i].value_j <= 0.0)
            model->all[i].value_j =
                options->value_ratio * full_energy_j(&model->all[i], table->rows[i].gpus);
        model->has_values |= model->all[i].value_j > 0.0;
    }
    if (is_bounded)
        complete_relaxed(model);
    return 0;
}

/* ---- failures, power and the network ------------------------------------------------------ */

/* Random failures end when the longest job could have run after the last arrival. */
static int64_t last_failure_ns(const struct lull_cluster_jobs *jobs)
{
    if (jobs->count == 0)
        return 0;
    return jobs->all[jobs->count - 1].arrival_ns + lull_cluster_longest_ns(jobs);
}

/* Moves failures to the scenario's clock, without those that ended before it began. */
static void move_failures(struct lull_cluster_failure *failures, size_t *count, int64_t origin_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < *count; i++) {
        if (failures[i].to_ns <= origin_ns)
            continue;
        failures[kept] = failures[i];
        failures[kept].from_ns = lull_later_ns(failures[i].from_ns - origin_ns, 0);
        failures[kept++].to_ns -= origin_ns;
    }
    *count = kept;
}

/* Failures that began earlier may change their order once they begin at 0. */
static int read_failures(struct lull_scenario *scenario, const char *path, struct lull_error *err)
{
    const uint32_t nodes = scenario->model.cluster.node_count;
    size_t *const count = &scenario->conditions.failure_count;
    const int rc = lull_cluster_failures_read(path, nodes, &scenario->failures, count, err);

    if (rc < 0)
        return rc;
    move_failures(scenario->failures, count, scenario->model.origin_ns);
    return lull_cluster_failures_order(scenario->failures, *count, nodes, err);
}

static int make_failures(struct lull_scenario *scenario,
                         const struct lull_scenario_failure_options *options,
                         struct lull_error *err)
{
    const struct lull_failure_model model = {
        .node_count = scenario->model.cluster.node_count,
        .mtbf_ns = options->mtbf_ns,
        .repair_ns = options->repair_ns,
        .until_ns = options->mtbf_ns > 0 ? last_failure_ns(&scenario->model.jobs) : 0,
        .seed = (uint64_t)options->seed,
    };
    size_t *const count = &scenario->conditions.failure_count;
    int rc = 0;

    scenario->has_failures = options->table != NULL || options->mtbf_ns > 0;
    if (options->table != NULL)
        rc = read_failures(scenario, options->table, err);
    else if (options->mtbf_ns > 0)
        rc = lull_cluster_failures_draw(&model, &scenario->failures, count, err);
    scenario->conditions.failures = scenario->failures;
    return rc;
}

static int read_tariff(const char *path, enum lull_tariff_kind kind, int64_t origin_ns,
                       struct lull_tariff_table *table, const struct lull_tariff **tariff_out,
                       struct lull_error *err)
{
    int rc;

    if (path == NULL)
        return 0;
    rc = lull_tariff_read(path, kind, table, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < table->tariff.count; i++)
        table->time_ns[i] -= origin_ns;
    *tariff_out = &table->tariff;
    return 0;
}

int lull_scenario_init(struct lull_scenario *scenario, const struct lull_scenario_options *options,
                       struct lull_error *err)
{
    const struct lull_scenario_power_options *power = &options->power;
    struct lull_scenario_model *const model = &scenario->model;
    int rc;

    *scenario = (struct lull_scenario){
        .model.options = &options->model,
        .conditions =
            {
                .turns_nodes_off = power->turns_nodes_off,
                .cap = {.cluster_w = power->cap_w,
                        .node_w = power->node_cap_w,
                        .peak_ratio = power->peak_ratio},
                .contention = options->network.contention,
                .keeps_power = options->output.power_out != NULL || options->output.gantt != NULL,
            },
    };
    rc = lull_job_table_read(options->model.path, &model->table, err);
    if (rc < 0)
        return rc;
    if (model->table.count > 0)
        model->origin_ns = model->table.rows[0].submit_ns;
    if (options->model.pools != NULL) {
        rc = lull_cluster_pools_read(options->model.pools, &model->pools, err);
        if (rc < 0)
            return rc;
    }
    rc = scenario_read_points(model, err);
    if (rc < 0)
        return rc;
    rc = scenario_make_cluster(model, options, err);
    if (rc < 0)
        return rc;
    rc =
        scenario_make_jobs(model, options->failures.checkpoint_ns, options->policy.is_bounded, err);
    if (rc < 0)
        return rc;
    rc = make_failures(scenario, &options->failures, err);
    if (rc < 0)
        return rc;
    rc = read_tariff(power->price, LULL_TARIFF_PRICE, model->origin_ns, &scenario->price,
                     &scenario->conditions.price, err);
    if (rc < 0)
        return rc;
    return read_tariff(power->carbon, LULL_TARIFF_CARBON, model->origin_ns, &scenario->carbon,
                       &scenario->conditions.carbon, err);
}

void lull_scenario_fini(struct lull_scenario *scenario)
{
    free(scenario->failures);
    lull_tariff_fini(&scenario->price);
    lull_tariff_fini(&scenario->carbon);
    free(scenario->model.nodes);
    free(scenario->model.all);
    lull_scenario_points_fini(&scenario->model.points);
    lull_point_table_destroy(scenario->model.reported);
    lull_cluster_pools_fini(&scenario->model.pools);
    lull_job_table_fini(&scenario->model.table);
}

/* ---- names -------------------------------------------------------------------------------- */

struct lull_printable lull_scenario_job_name(const struct lull_scenario_model *model, uint32_t job)
{
    const char *name = lull_job_table_name(&model->table, model->table.rows[job].id);
    struct lull_printable shown = lull_printable(name);

    if (name[0] == '\0')
        snprintf(shown.text, sizeof(shown.text), "%u", job);
    return shown;
}

json_t *lull_scenario_job_json(const struct lull_scenario_model *model, uint32_t job)
{
    const char *const name = lull_job_table_name(&model->table, model->table.rows[job].id);

    return lull_json_string(name[0] != '\0' ? name : lull_scenario_job_name(model, job).text);
}

static const char *pool_of(const struct lull_scenario_model *model, uint32_t pool)
{
    if (pool >= count_pools(model))
        return "others";
    return model->pools.rows != NULL ? model->pools.rows[pool].name : "all";
}

struct lull_printable lull_scenario_pool_name(const struct lull_scenario_model *model,
                                              uint32_t pool)
{
    return lull_printable(pool_of(model, pool));
}

json_t *lull_scenario_pool_json(const struct lull_scenario_model *model, uint32_t pool)
{
    return lull_json_string(pool_of(model, pool));
}

uint32_t lull_scenario_first_node(const struct lull_cluster *cluster, uint32_t pool)
{
    uint32_t node = 0;

    while (node < cluster->node_count && cluster->nodes[node].pool != pool)
        node++;
    return node;
}

void lull_scenario_write_placement(const struct lull_cluster_outcome *outcome, uint32_t first,
                                   FILE *file)
{
    for (uint32_t i = 0; i < outcome->share_count; i++)
        fprintf(file, "%s%u:%u", i > 0 ? " " : "", outcome->shares[i].node - first,
                outcome->shares[i].gpus);
}

/* ---- a run of a scenario --------------------------------------------------------------------- */

static int scenario_certify(struct lull_scenario_run *run, const struct lull_scenario *scenario,
                            const struct lull_scenario_policy_options *options,
                            struct lull_error *err)
{
    const struct lull_cluster *cluster = &scenario->model.cluster;
    const struct lull_cluster_jobs *jobs = &scenario->model.jobs;
    const struct lull_certified_run of = {
        .cluster = cluster,
        .jobs = jobs,
        .run = run->run,
        .conditions = &scenario->conditions,
        .second_j = lull_cluster_policy_setting(run->policy),
    };

    return lull_cluster_certify(&of, &options->certificate, &run->certificate, err);
}

int lull_scenario_run_init(struct lull_scenario_run *run, const struct lull_scenario *scenario,
                           const struct lull_cluster_policy_ops *policy,
                           const struct lull_scenario_policy_options *options,
                           struct lull_error *err)
{
    struct lull_cluster_jobs relaxed;
    int rc;

    *run = (struct lull_scenario_run){
        .policy = policy,
        .is_certified = strcmp(policy->name, "pd-rats") == 0,
        .is_bounded = options->is_bounded,
    };
    rc = lull_cluster_simulate(&scenario->model.cluster, &scenario->model.jobs, policy,
                               &scenario->conditions, &run->run, err);
    if (rc < 0)
        return rc;
    if (run->is_certified) {
        rc = scenario_certify(run, scenario, options, err);
        if (rc < 0)
            return rc;
    }
    if (!run->is_bounded)
        return 0;
    relaxed =
        (struct lull_cluster_jobs){scenario->model.points.relaxed_jobs, scenario->model.jobs.count};
    return lull_cluster_bound(&scenario->model.cluster, &relaxed, run->run, &scenario->conditions,
                              options->bound_slot_s, &run->bound, err);
}

void lull_scenario_run_fini(struct lull_scenario_run *run)
{
    lull_cluster_run_destroy(run->run);
}
