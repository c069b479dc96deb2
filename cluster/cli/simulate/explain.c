/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/explain.h"

#include <errno.h>
#include <string.h>

#include "base/amount.h"
#include "base/json_string.h"
#include "base/text.h"

enum { MAX_POINT_LINES = 8 };

/* ---- which job ---------------------------------------------------------------------------- */

/* The number of the job with this name in the table, or else of
 * this number. Names come first, because they may be numbers too. UINT32_MAX: there is none. */
static uint32_t explain_find_job(const struct lull_scenario_model *model, const char *wanted)
{
    int64_t number;

    for (size_t i = 0; i < model->table.count; i++)
        if (strcmp(lull_job_table_name(&model->table, model->table.rows[i].id), wanted) == 0)
            return (uint32_t)i;
    if (lull_text_parse_int(wanted, 0, (int64_t)model->jobs.count - 1, &number) == 0)
        return (uint32_t)number;
    return UINT32_MAX;
}

int lull_explain_job(const struct lull_scenario_model *model,
                     const struct lull_cluster_policy_ops *policy,
                     const struct lull_cluster_run *run, const char *wanted,
                     struct lull_explained *explained_out, struct lull_error *err)
{
    const uint32_t number = explain_find_job(model, wanted);

    if (number == UINT32_MAX)
        return lull_error_set(
            err, -EINVAL,
            "%s: no job has that name or number; numbers go from 0, and there are %zu jobs", wanted,
            model->jobs.count);
    *explained_out = (struct lull_explained){
        .model = model,
        .policy = policy,
        .number = number,
        .job = &model->jobs.all[number],
        .outcome = &lull_cluster_run_outcomes(run)[number],
    };
    if (explained_out->outcome->fate != LULL_CLUSTER_REJECTED &&
        lull_cluster_wait_explain(&model->cluster, &model->jobs, run, number,
                                  &explained_out->wait) < 0)
        return lull_error_set(err, -ENOMEM, "no memory to explain job %s", wanted);
    return 0;
}

static bool explain_is_done(const struct lull_explained *explained)
{
    return explained->outcome->fate == LULL_CLUSTER_DONE;
}

/* Returns whether the job ran at this one of its operating points. */
static bool explain_is_chosen(const struct lull_explained *explained, uint32_t point)
{
    return explain_is_done(explained) && explained->outcome->point == point;
}

/* The operating point that needs the fewest GPUs. */
static const struct lull_cluster_point *smallest_of(const struct lull_cluster_job *job)
{
    const struct lull_cluster_point *smallest = &job->points[0];

    for (uint32_t i = 1; i < job->point_count; i++)
        if (job->points[i].gpus < smallest->gpus)
            smallest = &job->points[i];
    return smallest;
}

/* Returns the number of GPUs of a type in a pool. */
static uint64_t count_gpus(const struct lull_cluster *cluster, uint32_t pool, uint32_t type)
{
    uint64_t gpus = 0;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        if (cluster->nodes[i].pool == pool && cluster->nodes[i].type == type)
            gpus += cluster->nodes[i].gpus;
    return gpus;
}

/* ---- words -------------------------------------------------------------------------------- */

static struct lull_amount explain_length(int64_t length_ns)
{
    return lull_amount_seconds((double)length_ns / 1e9);
}

/* A time, on the clock of the jobs' table. */
static struct lull_amount explain_clock_at(const struct lull_explained *explained, int64_t time_ns)
{
    return explain_length(explained->model->origin_ns + time_ns);
}

static const char *explain_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Prints how many jobs there are of a kind, and names the first; nothing where there are none. */
static void print_names(const struct lull_scenario_model *model, const char *what,
                        const struct lull_cluster_names *names, FILE *out)
{
    const uint64_t shown =
        names->count < LULL_CLUSTER_WAIT_NAMES ? names->count : LULL_CLUSTER_WAIT_NAMES;

    if (names->count == 0)
        return;
    fprintf(out, "  %-24s%s job%s with %s GPU%s", what, lull_amount_count(names->count).text,
            explain_plural(names->count), lull_amount_count(names->gpus).text,
            explain_plural(names->gpus));
    for (uint64_t i = 0; i < shown; i++)
        fprintf(out, "%s%s", i == 0 ? ": " : ", ",
                lull_scenario_job_name(model, names->first[i]).text);
    if (names->count > shown)
        fprintf(out, " and %s more", lull_amount_count(names->count - shown).text);
    fputc('\n', out);
}

/* ---- why it waited ------------------------------------------------------------------------ */

static void print_causes(const struct lull_explained *explained, FILE *out)
{
    static const char *const words[LULL_CLUSTER_CAUSES] = {
        "fewer GPUs were free than it needs",
        "enough GPUs were free, but spread over too many nodes",
        "it would have fitted, but other jobs had priority",
        "it fitted and was next, but the policy or a cap delayed it",
    };
    const struct lull_cluster_wait *wait = &explained->wait;

    for (int cause = 0; cause < LULL_CLUSTER_CAUSES; cause++) {
        if (wait->lasted_ns[cause] == 0)
            continue;
        fprintf(out, "  %10s  %s", lull_amount_time((double)wait->lasted_ns[cause] * 1e-9).text,
                words[cause]);
        if (cause == LULL_CLUSTER_BEHIND)
            fprintf(out, ": job %s with %u GPUs the longest, %s",
                    lull_scenario_job_name(explained->model, wait->behind).text,
                    smallest_of(&explained->model->jobs.all[wait->behind])->gpus,
                    lull_amount_time((double)wait->behind_ns * 1e-9).text);
        fputc('\n', out);
    }
}

/* Returns the free GPUs when the job came, its waiting time by reason, and the jobs involved. */
static void print_wait(const struct lull_explained *explained, FILE *out)
{
    const struct lull_cluster_wait *wait = &explained->wait;
    const struct lull_cluster_room *room = &wait->on_arrival;
    const int64_t waited_ns = wait->end_ns - explained->job->arrival_ns;

    if (waited_ns == 0)
        fputs("\nWhy it did not wait\n", out);
    else
        fprintf(out, "\nWhy it waited %s\n", lull_amount_seconds((double)waited_ns * 1e-9).text);
    fprintf(out, "  when it came, %s of its pool's %s GPUs of type %s were free",
            lull_amount_count(room->free).text, lull_amount_count(room->gpus).text,
            explained->model->cluster.types[explained->job->points[wait->point].type].name);
    if (room->free > 0)
        fprintf(out, ", on %u of %u node%s, %u at most on one", room->with_free, room->nodes,
                explain_plural(room->nodes), room->most_free);
    if (room->not_on > 0)
        fprintf(out, "; %u node%s not on", room->not_on, room->not_on == 1 ? " was" : "s were");
    fputc('\n', out);
    print_causes(explained, out);
    print_names(explained->model, "ran when it came", &wait->running, out);
    print_names(explained->model, "came and went before it", &wait->ahead, out);
    print_names(explained->model, "came later, went before", &wait->overtaking, out);
    if (waited_ns > 0)
        print_names(explained->model, "left its place then", &wait->freed, out);
}

/* ---- why this place ----------------------------------------------------------------------- */

/* Explains where the job ran and by which rule that place was chosen. */
static void explain_print_place(const struct lull_explained *explained, FILE *out)
{
    const struct lull_scenario_model *model = explained->model;
    const struct lull_cluster_outcome *outcome = explained->outcome;
    const struct lull_cluster_room *room = &explained->wait.at_end;

    fputs("\nWhy this place\n  node:GPUs ", out);
    lull_scenario_write_placement(
        outcome, lull_scenario_first_node(&model->cluster, explained->job->pool), out);
    fprintf(out, "\n  %u of %u node%s had %u GPU%s free, as it needs on the first of its nodes\n",
            room->with_room, room->nodes, explain_plural(room->nodes), outcome->shares[0].gpus,
            explain_plural(outcome->shares[0].gpus));
    if (!explained->wait.is_consolidated)
        fputs("  this is the policy's own choice\n", out);
    else if (outcome->share_count == 1)
        fputs("  of nodes with room the one with the fewest free GPUs, so that whole nodes stay "
              "free\n",
              out);
    else
        fputs("  whole free nodes first, the rest on the node with the most free GPUs\n", out);
}

/* ---- why this clock ----------------------------------------------------------------------- */

static void explain_print_point(const struct lull_explained *explained, uint32_t number, FILE *out)
{
    const struct lull_cluster_point *point = &explained->job->points[number];
    const double time_s = (double)point->time_ns / 1e9;
    char clock[16] = "default";

    if (point->sm_mhz > 0)
        snprintf(clock, sizeof(clock), "%u", point->sm_mhz);
    fprintf(out, "  %c %-18s %5u %8s %11s %11s %9s",
            explain_is_chosen(explained, number) ? '*' : ' ',
            explained->model->cluster.types[point->type].name, point->gpus, clock,
            lull_amount_time(time_s).text, lull_amount_energy(point->energy_j).text,
            lull_amount_power(point->energy_j / time_s / point->gpus).text);
    if (explain_is_done(explained) && explained->job->deadline_ns != LULL_CLUSTER_NEVER)
        fputs(point->time_ns > explained->job->deadline_ns - explained->outcome->start_ns
                  ? "  late"
                  : "  in time",
              out);
    fputc('\n', out);
}

/* Shows all operating points, or, where they are many, the first, the last and those around the one
 * that it ran at. */
static void explain_print_points(const struct lull_explained *explained, FILE *out)
{
    const struct lull_cluster_job *job = explained->job;
    const uint32_t chosen = explained->outcome->point;

    fprintf(out, "    %-18s %5s %8s %11s %11s %9s%s\n", "type", "GPUs", "MHz", "time", "energy",
            "per GPU",
            job->deadline_ns != LULL_CLUSTER_NEVER && explain_is_done(explained) ? "  started then"
                                                                                 : "");
    for (uint32_t i = 0; i < job->point_count; i++) {
        const bool is_near = i + 2 >= chosen && i <= chosen + 2;

        if (job->point_count <= MAX_POINT_LINES || i == 0 || i == job->point_count - 1 || is_near)
            explain_print_point(explained, i, out);
        else if (i == 1 || i == chosen + 3)
            fputs("    ...\n", out);
    }
}

static void print_workload(const struct lull_explained *explained, FILE *out)
{
    const struct lull_scenario_model *model = explained->model;
    const struct lull_job_table_row *row = &model->table.rows[explained->number];
    const struct lull_scenario_recorded *recorded =
        lull_scenario_workloads_of(&model->points.workloads, explained->number);

    if (recorded == NULL)
        return;
    fprintf(out, "  its modes are of the iteration recorded in %s:",
            lull_printable(lull_job_table_name(&model->table, row->workload)).text);
    fprintf(out, " %.3f ms, about %s of them; %.1f %% of it exposed communication\n",
            (double)recorded->made.step_ns * 1e-6,
            lull_amount_count((uint64_t)(row->duration_ns / recorded->made.step_ns)).text,
            100.0 * (double)recorded->made.points.all[0].exposed_ratio);
}

static void explain_print_clock(const struct lull_explained *explained, FILE *out)
{
    const char *const reason = explained->outcome->reason;

    fputs("\nWhy this clock\n", out);
    explain_print_points(explained, out);
    print_workload(explained, out);
    if (explained->job->point_count == 1)
        fputs("  there was no choice: the job has one mode\n", out);
    if (reason != NULL)
        fprintf(out, "  %s started it then because it %s\n", explained->policy->name, reason);
}

/* ---- a job that never ran ----------------------------------------------------------------- */

static void print_pools_with(const struct lull_explained *explained,
                             const struct lull_cluster_point *point, FILE *out)
{
    const struct lull_cluster *cluster = &explained->model->cluster;
    uint32_t shown = 0;

    for (uint32_t pool = 0; pool < cluster->pool_count && shown < LULL_CLUSTER_WAIT_NAMES; pool++) {
        if (count_gpus(cluster, pool, point->type) < point->gpus)
            continue;
        fprintf(out, "%s%s", shown++ == 0 ? "  pools that could hold it: " : ", ",
                lull_scenario_pool_name(explained->model, pool).text);
    }
    fputs(shown > 0 ? "\n" : "  no pool could hold it\n", out);
}

/* Explains why a job was rejected, and what would have allowed it: more nodes, another pool,
 * GPUs with more memory, or another policy. */
static void print_rejection(const struct lull_explained *explained, FILE *out)
{
    const struct lull_scenario_model *model = explained->model;
    const struct lull_cluster_point *point = smallest_of(explained->job);
    const uint64_t gpus = count_gpus(&model->cluster, explained->job->pool, point->type);
    const uint32_t memory_mib = model->cluster.types[point->type].memory_mib;

    fprintf(out, "\nWhy it was rejected, at %s\n  %s\n",
            explain_clock_at(explained, explained->outcome->end_ns).text,
            explained->outcome->reason != NULL ? explained->outcome->reason : "the policy said no");
    fprintf(out, "  it needs %u GPU%s of type %s at least; its pool has %s\n", point->gpus,
            explain_plural(point->gpus), model->cluster.types[point->type].name,
            lull_amount_count(gpus).text);
    fputs("\nChanges that would have started it\n", out);
    if (gpus < point->gpus) {
        const uint64_t per_node = (uint64_t)model->options->gpus_per_node;

        fprintf(out, "  %s more node%s of %s GPUs in its pool\n",
                lull_amount_count((point->gpus - gpus + per_node - 1) / per_node).text,
                explain_plural((point->gpus - gpus + per_node - 1) / per_node),
                lull_amount_count(per_node).text);
        print_pools_with(explained, point, out);
    } else if (memory_mib > 0 && explained->job->memory_mib > memory_mib) {
        fprintf(out, "  GPUs with %u MiB; these have %u\n", explained->job->memory_mib, memory_mib);
    } else {
        fputs("  its pool could have held it: another policy, or a later deadline\n", out);
    }
}

/* ---- for users ----------------------------------------------------------------------------- */

static void print_end(const struct lull_explained *explained, FILE *out)
{
    const struct lull_cluster_outcome *outcome = explained->outcome;
    const int64_t deadline_ns = explained->job->deadline_ns;

    fprintf(out, "arrived at %s", explain_clock_at(explained, explained->job->arrival_ns).text);
    if (explain_is_done(explained))
        fprintf(out, ", started at %s, ended at %s",
                explain_clock_at(explained, outcome->start_ns).text,
                explain_clock_at(explained, outcome->end_ns).text);
    else
        fputs(outcome->fate == LULL_CLUSTER_REJECTED ? ", was rejected" : ", never started", out);
    fputc('\n', out);
    if (outcome->preemptions + outcome->failures > 0)
        fprintf(out,
                "was preempted %u time%s and lost a node %u time%s; the following describes its "
                "first start\n",
                outcome->preemptions, explain_plural(outcome->preemptions), outcome->failures,
                explain_plural(outcome->failures));
    if (outcome->shared_ns > 0)
        fprintf(out, "ran %s longer, as it shared links or the storage with others\n",
                explain_length(outcome->shared_ns).text);
    if (deadline_ns == LULL_CLUSTER_NEVER)
        return;
    fprintf(out, "deadline at %s", explain_clock_at(explained, deadline_ns).text);
    if (explain_is_done(explained) && outcome->end_ns > deadline_ns)
        fprintf(out, ", missed by %s", explain_length(outcome->end_ns - deadline_ns).text);
    else if (explain_is_done(explained))
        fprintf(out, ", met by %s", explain_length(deadline_ns - outcome->end_ns).text);
    fputc('\n', out);
}

void lull_explain_print(const struct lull_explained *explained, FILE *out)
{
    const struct lull_scenario_model *model = explained->model;

    fprintf(out, "job %s, number %u of %s by arrival, pool %s\n",
            lull_scenario_job_name(model, explained->number).text, explained->number,
            lull_amount_count(model->jobs.count).text,
            lull_scenario_pool_name(model, explained->job->pool).text);
    print_end(explained, out);
    if (explained->outcome->fate == LULL_CLUSTER_REJECTED) {
        print_rejection(explained, out);
        return;
    }
    print_wait(explained, out);
    if (explain_is_done(explained))
        explain_print_place(explained, out);
    explain_print_clock(explained, out);
}

/* ---- for programs ------------------------------------------------------------------------- */

static double explain_seconds(int64_t time_ns)
{
    return (double)time_ns / 1e9;
}

static json_t *names_json(const struct lull_scenario_model *model,
                          const struct lull_cluster_names *names)
{
    json_t *const first = json_array();

    for (uint64_t i = 0; i < names->count && i < LULL_CLUSTER_WAIT_NAMES; i++)
        json_array_append_new(first, lull_scenario_job_json(model, names->first[i]));
    return json_pack("{s:I, s:I, s:o}", "jobs", (json_int_t)names->count, "gpus",
                     (json_int_t)names->gpus, "first", first);
}

static json_t *room_json(const struct lull_cluster_room *room)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "gpus", (json_int_t)room->gpus,
                     "free_gpus", (json_int_t)room->free, "nodes", (json_int_t)room->nodes,
                     "nodes_not_on", (json_int_t)room->not_on, "nodes_with_free",
                     (json_int_t)room->with_free, "most_free_on_node", (json_int_t)room->most_free,
                     "nodes_with_room", (json_int_t)room->with_room);
}

static json_t *behind_json(const struct lull_explained *explained)
{
    const struct lull_cluster_wait *wait = &explained->wait;

    if (wait->behind == UINT32_MAX)
        return json_null();
    return json_pack("{s:o, s:f}", "job_id", lull_scenario_job_json(explained->model, wait->behind),
                     "behind_s", explain_seconds(wait->behind_ns));
}

static json_t *wait_json(const struct lull_explained *explained)
{
    const struct lull_scenario_model *model = explained->model;
    const struct lull_cluster_wait *wait = &explained->wait;

    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "wait_s",
        explain_seconds(wait->end_ns - explained->job->arrival_ns), "too_few_gpus_s",
        explain_seconds(wait->lasted_ns[LULL_CLUSTER_SHORT]), "too_many_nodes_s",
        explain_seconds(wait->lasted_ns[LULL_CLUSTER_SCATTERED]), "behind_others_s",
        explain_seconds(wait->lasted_ns[LULL_CLUSTER_BEHIND]), "held_by_policy_s",
        explain_seconds(wait->lasted_ns[LULL_CLUSTER_HELD]), "on_arrival",
        room_json(&wait->on_arrival), "at_start", room_json(&wait->at_end), "behind_longest",
        behind_json(explained), "ahead", names_json(model, &wait->ahead), "overtaking",
        names_json(model, &wait->overtaking), "running", names_json(model, &wait->running), "freed",
        names_json(model, &wait->freed), "is_consolidated", wait->is_consolidated);
}

static json_t *explain_points_json(const struct lull_explained *explained)
{
    json_t *const points = json_array();

    for (uint32_t i = 0; i < explained->job->point_count; i++) {
        const struct lull_cluster_point *point = &explained->job->points[i];

        json_array_append_new(
            points, json_pack("{s:o, s:I, s:I, s:f, s:f, s:b}", "type",
                              lull_json_string(explained->model->cluster.types[point->type].name),
                              "gpus", (json_int_t)point->gpus, "sm_mhz", (json_int_t)point->sm_mhz,
                              "time_s", explain_seconds(point->time_ns), "energy_j",
                              point->energy_j, "is_chosen", (int)explain_is_chosen(explained, i)));
    }
    return points;
}

/* Json's null where its operating points are not those of a recorded iteration. */
static json_t *workload_json(const struct lull_explained *explained)
{
    const struct lull_scenario_model *model = explained->model;
    const struct lull_job_table_row *row = &model->table.rows[explained->number];
    const struct lull_scenario_recorded *recorded =
        lull_scenario_workloads_of(&model->points.workloads, explained->number);
    json_t *exposed;

    if (recorded == NULL)
        return json_null();
    exposed = json_array();
    for (uint32_t i = 0; i < explained->job->point_count; i++)
        json_array_append_new(exposed, json_real((double)explained->job->points[i].exposed_ratio));
    return json_pack("{s:o, s:o, s:f, s:f, s:o}", "file",
                     lull_json_string(lull_job_table_name(&model->table, row->workload)), "form",
                     lull_json_string(lull_job_workload_form(
                         model->points.workloads.files[recorded->file].read)),
                     "step_s", explain_seconds(recorded->made.step_ns), "iterations",
                     (double)row->duration_ns / (double)recorded->made.step_ns, "exposed_ratio",
                     exposed);
}

json_t *lull_explain_json(const struct lull_explained *explained)
{
    static const char *const fates[] = {"waited", "done", "rejected"};
    const struct lull_cluster_outcome *outcome = explained->outcome;

    return json_pack("{s:o, s:I, s:o, s:o, s:o, s:f, s:o, s:o, s:o}", "job_id",
                     lull_scenario_job_json(explained->model, explained->number), "number",
                     (json_int_t)explained->number, "pool",
                     lull_scenario_pool_json(explained->model, explained->job->pool), "fate",
                     lull_json_string(fates[outcome->fate]), "reason",
                     lull_json_string_or_null(outcome->reason), "shared_s",
                     explain_seconds(outcome->shared_ns), "modes", explain_points_json(explained),
                     "workload", workload_json(explained), "waiting",
                     outcome->fate == LULL_CLUSTER_REJECTED ? json_null() : wait_json(explained));
}
