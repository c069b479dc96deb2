/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/explain.h"

static double seconds(int64_t time_ns)
{
    return (double)time_ns / 1e9;
}

static json_t *names_json(const struct lull_gangs *gangs, const struct lull_cluster_names *names)
{
    json_t *const first = json_array();

    for (uint64_t i = 0; i < names->count && i < LULL_CLUSTER_WAIT_NAMES; i++)
        json_array_append_new(first, json_string(lull_explain_name(gangs, names->first[i]).text));
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
    return json_pack("{s:s, s:f}", "job_id", lull_explain_name(explained->gangs, wait->behind).text,
                     "behind_s", seconds(wait->behind_ns));
}

static json_t *wait_json(const struct lull_explained *explained)
{
    const struct lull_gangs *gangs = explained->gangs;
    const struct lull_cluster_wait *wait = &explained->wait;

    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "wait_s",
        seconds(wait->end_ns - explained->asked->arrival_ns), "too_few_gpus_s",
        seconds(wait->lasted_ns[LULL_CLUSTER_SHORT]), "too_many_nodes_s",
        seconds(wait->lasted_ns[LULL_CLUSTER_SCATTERED]), "behind_others_s",
        seconds(wait->lasted_ns[LULL_CLUSTER_BEHIND]), "held_by_policy_s",
        seconds(wait->lasted_ns[LULL_CLUSTER_HELD]), "on_arrival", room_json(&wait->on_arrival),
        "at_start", room_json(&wait->at_end), "behind_longest", behind_json(explained), "ahead",
        names_json(gangs, &wait->ahead), "overtaking", names_json(gangs, &wait->overtaking),
        "running", names_json(gangs, &wait->running), "freed", names_json(gangs, &wait->freed),
        "is_consolidated", wait->is_consolidated);
}

static json_t *modes_json(const struct lull_explained *explained)
{
    json_t *const modes = json_array();

    for (uint32_t i = 0; i < explained->asked->mode_count; i++) {
        const struct lull_cluster_mode *mode = &explained->asked->modes[i];
        const bool is_chosen =
            explained->outcome->fate == LULL_CLUSTER_DONE && explained->outcome->mode == i;

        json_array_append_new(modes,
                              json_pack("{s:s, s:I, s:I, s:f, s:f, s:b}", "type",
                                        explained->gangs->cluster.types[mode->type].name, "gpus",
                                        (json_int_t)mode->gpus, "sm_mhz", (json_int_t)mode->sm_mhz,
                                        "time_s", seconds(mode->time_ns), "energy_j",
                                        mode->energy_j, "is_chosen", is_chosen));
    }
    return modes;
}

/* null: its modes are not of a recorded iteration. */
static json_t *workload_json(const struct lull_explained *explained)
{
    const struct lull_gangs *gangs = explained->gangs;
    const struct lull_cluster_jobs_row *row = &gangs->table.rows[explained->job];
    const struct lull_gangs_recorded *recorded =
        lull_gangs_workloads_of(&gangs->modes.workloads, explained->job);
    json_t *exposed;

    if (recorded == NULL)
        return json_null();
    exposed = json_array();
    for (uint32_t i = 0; i < explained->asked->mode_count; i++)
        json_array_append_new(exposed, json_real((double)explained->asked->modes[i].exposed_ratio));
    return json_pack(
        "{s:s, s:s, s:f, s:f, s:o}", "file",
        lull_printable(lull_cluster_jobs_name(&gangs->table, row->workload)).text, "form",
        lull_job_workload_form(gangs->modes.workloads.files[recorded->file].read), "step_s",
        seconds(recorded->made.step_ns), "iterations",
        (double)row->duration_ns / (double)recorded->made.step_ns, "exposed_ratio", exposed);
}

json_t *lull_explain_json(const struct lull_explained *explained)
{
    static const char *const fates[] = {"waited", "done", "rejected"};
    const struct lull_cluster_outcome *outcome = explained->outcome;

    return json_pack("{s:s, s:I, s:s, s:s, s:s?, s:f, s:o, s:o, s:o}", "job_id",
                     lull_explain_name(explained->gangs, explained->job).text, "number",
                     (json_int_t)explained->job, "pool",
                     lull_gangs_pool_name(explained->gangs, explained->asked->pool).text, "fate",
                     fates[outcome->fate], "reason", outcome->reason, "shared_s",
                     seconds(outcome->shared_ns), "modes", modes_json(explained), "workload",
                     workload_json(explained), "waiting",
                     outcome->fate == LULL_CLUSTER_REJECTED ? json_null() : wait_json(explained));
}
