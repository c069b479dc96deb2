/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/explain.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "base/amount.h"

enum { MOST_MODE_LINES = 8 };

/* ---- which job ---------------------------------------------------------------------------- */

static uint32_t find_job(const struct lull_gangs *gangs, const char *wanted)
{
    int64_t number;

    for (size_t i = 0; i < gangs->table.count; i++)
        if (strcmp(lull_cluster_jobs_name(&gangs->table, gangs->table.rows[i].id), wanted) == 0)
            return (uint32_t)i;
    if (lull_text_parse_int(wanted, 0, (int64_t)gangs->jobs.count - 1, &number) == 0)
        return (uint32_t)number;
    return UINT32_MAX;
}

int lull_explain_job(const struct lull_gangs *gangs, struct lull_explained *explained_out,
                     struct lull_error *err)
{
    const uint32_t job = find_job(gangs, gangs->wish->explain);

    if (job == UINT32_MAX)
        return lull_error_set(err, -EINVAL, "%s: no job of that name or number; there are %zu",
                              gangs->wish->explain, gangs->jobs.count);
    *explained_out = (struct lull_explained){
        .gangs = gangs,
        .job = job,
        .asked = &gangs->jobs.all[job],
        .outcome = &lull_cluster_run_outcomes(gangs->run)[job],
    };
    if (explained_out->outcome->fate != LULL_CLUSTER_REJECTED &&
        lull_cluster_wait_explain(&gangs->cluster, &gangs->jobs, gangs->run, job,
                                  &explained_out->wait) < 0)
        return lull_error_set(err, -ENOMEM, "no memory to explain job %s", gangs->wish->explain);
    return 0;
}

struct lull_printable lull_explain_name(const struct lull_gangs *gangs, uint32_t job)
{
    const char *name = lull_cluster_jobs_name(&gangs->table, gangs->table.rows[job].id);
    struct lull_printable shown = lull_printable(name);

    if (name[0] == '\0')
        snprintf(shown.text, sizeof(shown.text), "%u", job);
    return shown;
}

const struct lull_cluster_mode *lull_explain_smallest(const struct lull_cluster_job *job)
{
    const struct lull_cluster_mode *smallest = &job->modes[0];

    for (uint32_t i = 1; i < job->mode_count; i++)
        if (job->modes[i].gpus < smallest->gpus)
            smallest = &job->modes[i];
    return smallest;
}

uint64_t lull_explain_gpus(const struct lull_cluster *cluster, uint32_t pool, uint32_t type)
{
    uint64_t gpus = 0;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        if (cluster->nodes[i].pool == pool && cluster->nodes[i].type == type)
            gpus += cluster->nodes[i].gpus;
    return gpus;
}

/* ---- words -------------------------------------------------------------------------------- */

static struct lull_amount at(int64_t time_ns)
{
    return lull_amount_seconds((double)time_ns / 1e9);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Nothing for none. */
static void print_names(const struct lull_gangs *gangs, const char *what,
                        const struct lull_cluster_names *names, FILE *out)
{
    const uint64_t shown =
        names->count < LULL_CLUSTER_WAIT_NAMES ? names->count : LULL_CLUSTER_WAIT_NAMES;

    if (names->count == 0)
        return;
    fprintf(out, "  %-24s%s job%s with %s GPU%s", what, lull_amount_count(names->count).text,
            plural(names->count), lull_amount_count(names->gpus).text, plural(names->gpus));
    for (uint64_t i = 0; i < shown; i++)
        fprintf(out, "%s%s", i == 0 ? ": " : ", ", lull_explain_name(gangs, names->first[i]).text);
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
        "it would have fitted, but others were to go first",
        "it would have fitted and was the next: the policy, or a cap, let it wait",
    };
    const struct lull_cluster_wait *wait = &explained->wait;

    for (int cause = 0; cause < LULL_CLUSTER_CAUSES; cause++) {
        if (wait->lasted_ns[cause] == 0)
            continue;
        fprintf(out, "  %10s  %s", lull_amount_time((double)wait->lasted_ns[cause] * 1e-9).text,
                words[cause]);
        if (cause == LULL_CLUSTER_BEHIND)
            fprintf(out, ": job %s with %u GPUs the longest, %s",
                    lull_explain_name(explained->gangs, wait->behind).text,
                    lull_explain_smallest(&explained->gangs->jobs.all[wait->behind])->gpus,
                    lull_amount_time((double)wait->behind_ns * 1e-9).text);
        fputc('\n', out);
    }
}

static void print_wait(const struct lull_explained *explained, FILE *out)
{
    const struct lull_cluster_wait *wait = &explained->wait;
    const struct lull_cluster_room *room = &wait->on_arrival;
    const int64_t waited_ns = wait->end_ns - explained->asked->arrival_ns;

    if (waited_ns == 0)
        fputs("\nWhy it did not wait\n", out);
    else
        fprintf(out, "\nWhy it waited %s\n", lull_amount_seconds((double)waited_ns * 1e-9).text);
    fprintf(out, "  when it came, %s of its pool's %s GPUs of type %s were free",
            lull_amount_count(room->free).text, lull_amount_count(room->gpus).text,
            explained->gangs->cluster.types[explained->asked->modes[wait->mode].type].name);
    if (room->free > 0)
        fprintf(out, ", on %u of %u node%s, %u at most on one", room->with_free, room->nodes,
                plural(room->nodes), room->most_free);
    if (room->not_on > 0)
        fprintf(out, "; %u node%s not on", room->not_on, room->not_on == 1 ? " was" : "s were");
    fputc('\n', out);
    print_causes(explained, out);
    print_names(explained->gangs, "ran when it came", &wait->running, out);
    print_names(explained->gangs, "came and went before it", &wait->ahead, out);
    print_names(explained->gangs, "came later, went before", &wait->overtaking, out);
    if (waited_ns > 0)
        print_names(explained->gangs, "left its place then", &wait->freed, out);
}

/* ---- why this place ----------------------------------------------------------------------- */

static void print_place(const struct lull_explained *explained, FILE *out)
{
    const struct lull_gangs *gangs = explained->gangs;
    const struct lull_cluster_outcome *outcome = explained->outcome;
    const struct lull_cluster_room *room = &explained->wait.at_end;

    fputs("\nWhy this place\n  node:GPUs ", out);
    lull_gangs_write_placement(outcome, lull_gangs_first_node(gangs, explained->asked->pool), out);
    fprintf(out, "\n  %u of %u node%s had %u GPU%s free, as it needs on the first of its nodes\n",
            room->with_room, room->nodes, plural(room->nodes), outcome->shares[0].gpus,
            plural(outcome->shares[0].gpus));
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

static void print_mode(const struct lull_explained *explained, uint32_t number, FILE *out)
{
    const struct lull_cluster_mode *mode = &explained->asked->modes[number];
    const bool is_done = explained->outcome->fate == LULL_CLUSTER_DONE;
    const double time_s = (double)mode->time_ns / 1e9;
    char clock[16] = "default";

    if (mode->sm_mhz > 0)
        snprintf(clock, sizeof(clock), "%u", mode->sm_mhz);
    fprintf(out, "  %c %-18s %5u %8s %11s %11s %9s",
            is_done && number == explained->outcome->mode ? '*' : ' ',
            explained->gangs->cluster.types[mode->type].name, mode->gpus, clock,
            lull_amount_time(time_s).text, lull_amount_energy(mode->energy_j).text,
            lull_amount_power(mode->energy_j / time_s / mode->gpus).text);
    if (is_done && explained->asked->deadline_ns != LULL_CLUSTER_NEVER)
        fputs(mode->time_ns > explained->asked->deadline_ns - explained->outcome->start_ns
                  ? "  late"
                  : "  in time",
              out);
    fputc('\n', out);
}

/* Of many modes the first, the last, and those around the one that it ran in. */
static void print_modes(const struct lull_explained *explained, FILE *out)
{
    const struct lull_cluster_job *job = explained->asked;
    const uint32_t chosen = explained->outcome->mode;
    const bool is_done = explained->outcome->fate == LULL_CLUSTER_DONE;

    fprintf(out, "    %-18s %5s %8s %11s %11s %9s%s\n", "type", "GPUs", "MHz", "time", "energy",
            "per GPU", job->deadline_ns != LULL_CLUSTER_NEVER && is_done ? "  started then" : "");
    for (uint32_t i = 0; i < job->mode_count; i++) {
        const bool is_near = i + 2 >= chosen && i <= chosen + 2;

        if (job->mode_count <= MOST_MODE_LINES || i == 0 || i == job->mode_count - 1 || is_near)
            print_mode(explained, i, out);
        else if (i == 1 || i == chosen + 3)
            fputs("    ...\n", out);
    }
}

static void print_workload(const struct lull_explained *explained, FILE *out)
{
    const struct lull_gangs *gangs = explained->gangs;
    const struct lull_cluster_jobs_row *row = &gangs->table.rows[explained->job];
    const struct lull_gangs_recorded *recorded =
        lull_gangs_workloads_of(&gangs->modes.workloads, explained->job);

    if (recorded == NULL)
        return;
    fprintf(out, "  its modes are of the iteration recorded in %s:",
            lull_printable(lull_cluster_jobs_name(&gangs->table, row->workload)).text);
    fprintf(out, " %.3f ms, about %s of them; %.1f %% of it exposed communication\n",
            (double)recorded->made.step_ns * 1e-6,
            lull_amount_count((uint64_t)(row->duration_ns / recorded->made.step_ns)).text,
            100.0 * (double)recorded->made.points.all[0].exposed_ratio);
}

static void print_clock(const struct lull_explained *explained, FILE *out)
{
    const char *const reason = explained->outcome->reason;

    fputs("\nWhy this clock\n", out);
    print_modes(explained, out);
    print_workload(explained, out);
    if (explained->asked->mode_count == 1)
        fputs("  there was no choice: the job has one mode\n", out);
    if (reason != NULL)
        fprintf(out, "  %s started it then because it %s\n", explained->gangs->policy->name,
                reason);
}

/* ---- a job that never ran ----------------------------------------------------------------- */

static void print_pools_with(const struct lull_explained *explained,
                             const struct lull_cluster_mode *mode, FILE *out)
{
    const struct lull_cluster *cluster = &explained->gangs->cluster;
    uint32_t shown = 0;

    for (uint32_t pool = 0; pool < cluster->pool_count && shown < LULL_CLUSTER_WAIT_NAMES; pool++) {
        if (lull_explain_gpus(cluster, pool, mode->type) < mode->gpus)
            continue;
        fprintf(out, "%s%s", shown++ == 0 ? "  pools that could hold it: " : ", ",
                lull_gangs_pool_name(explained->gangs, pool).text);
    }
    fputs(shown > 0 ? "\n" : "  no pool could hold it\n", out);
}

static void print_rejection(const struct lull_explained *explained, FILE *out)
{
    const struct lull_gangs *gangs = explained->gangs;
    const struct lull_cluster_mode *mode = lull_explain_smallest(explained->asked);
    const uint64_t gpus = lull_explain_gpus(&gangs->cluster, explained->asked->pool, mode->type);
    const uint32_t memory_mib = gangs->cluster.types[mode->type].memory_mib;

    fprintf(out, "\nWhy it was rejected, at %s\n  %s\n", at(explained->outcome->end_ns).text,
            explained->outcome->reason != NULL ? explained->outcome->reason : "the policy said no");
    fprintf(out, "  it needs %u GPU%s of type %s at least; its pool has %s\n", mode->gpus,
            plural(mode->gpus), gangs->cluster.types[mode->type].name,
            lull_amount_count(gpus).text);
    fputs("\nWhat would have let it run\n", out);
    if (gpus < mode->gpus) {
        const uint64_t per_node = (uint64_t)gangs->wish->gpus_per_node;

        fprintf(out, "  %s more node%s of %s GPUs in its pool\n",
                lull_amount_count((mode->gpus - gpus + per_node - 1) / per_node).text,
                plural((mode->gpus - gpus + per_node - 1) / per_node),
                lull_amount_count(per_node).text);
        print_pools_with(explained, mode, out);
    } else if (memory_mib > 0 && explained->asked->memory_mib > memory_mib) {
        fprintf(out, "  GPUs with %u MiB; these have %u\n", explained->asked->memory_mib,
                memory_mib);
    } else {
        fputs("  its pool could have held it: another policy, or a later deadline\n", out);
    }
}

/* ---- all of it ---------------------------------------------------------------------------- */

static void print_end(const struct lull_explained *explained, FILE *out)
{
    const struct lull_cluster_outcome *outcome = explained->outcome;
    const int64_t deadline_ns = explained->asked->deadline_ns;

    fprintf(out, "arrived at %s", at(explained->asked->arrival_ns).text);
    if (outcome->fate == LULL_CLUSTER_DONE)
        fprintf(out, ", started at %s, ended at %s", at(outcome->start_ns).text,
                at(outcome->end_ns).text);
    else
        fputs(outcome->fate == LULL_CLUSTER_REJECTED ? ", was rejected" : ", never started", out);
    fputc('\n', out);
    if (outcome->preemptions + outcome->failures > 0)
        fprintf(out,
                "was preempted %u time%s and lost a node %u time%s; what follows is of its first "
                "start\n",
                outcome->preemptions, plural(outcome->preemptions), outcome->failures,
                plural(outcome->failures));
    if (outcome->shared_ns > 0)
        fprintf(out, "ran %s longer, as it shared links or the storage with others\n",
                at(outcome->shared_ns).text);
    if (deadline_ns == LULL_CLUSTER_NEVER)
        return;
    fprintf(out, "deadline at %s", at(deadline_ns).text);
    if (outcome->fate == LULL_CLUSTER_DONE)
        fprintf(out, ", %s by %s", outcome->end_ns > deadline_ns ? "missed" : "met",
                outcome->end_ns > deadline_ns ? at(outcome->end_ns - deadline_ns).text
                                              : at(deadline_ns - outcome->end_ns).text);
    fputc('\n', out);
}

void lull_explain_print(const struct lull_explained *explained, FILE *out)
{
    const struct lull_gangs *gangs = explained->gangs;

    fprintf(out, "job %s, number %u of %s by arrival, pool %s\n",
            lull_explain_name(gangs, explained->job).text, explained->job,
            lull_amount_count(gangs->jobs.count).text,
            lull_gangs_pool_name(gangs, explained->asked->pool).text);
    print_end(explained, out);
    if (explained->outcome->fate == LULL_CLUSTER_REJECTED) {
        print_rejection(explained, out);
        return;
    }
    print_wait(explained, out);
    if (explained->outcome->fate == LULL_CLUSTER_DONE)
        print_place(explained, out);
    print_clock(explained, out);
}
