/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/guarantee.h"

#include <errno.h>
#include <math.h>

#include "base/amount.h"
#include "base/json_string.h"

enum { MAX_NOTES = 16 };

static const char tuned[] = "the prices of pd-rats are tuned; pd-rats-safe has a proven ratio";

struct note {
    char text[160];
};

struct notes {
    struct note all[MAX_NOTES];
    size_t count;
};

/* Returns whether the policy knew of the storage that jobs shared, so that none ends late for it.
 */
static bool has_priced(const struct lull_schedule_rules *rules, double storage_mb_s)
{
    return storage_mb_s <= 0.0 ||
           (rules->storage_mb_s > 0.0 && rules->storage_mb_s <= storage_mb_s);
}

int lull_guarantee_find(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_cluster_policy_ops *policy,
                        const struct lull_schedule_rules *rules,
                        const struct lull_cluster_conditions *conditions, bool has_failures,
                        struct lull_guarantee *guarantee_out)
{
    *guarantee_out = (struct lull_guarantee){
        .is_proven = policy->needs_value,
        .slot_ns = lull_schedule_slot_ns(rules),
        .has_given_gang = rules->gang > 0,
        .has_given_range = rules->max_j > 0.0,
        .has_failures = has_failures,
        .has_cap = conditions->cap.cluster_w > 0.0 || conditions->cap.node_w > 0.0,
        .turns_nodes_off = conditions->turns_nodes_off,
        .is_shared = conditions->contention.shares_links ||
                     !has_priced(rules, conditions->contention.storage_mb_s),
    };
    if (!guarantee_out->is_proven)
        return 0;
    for (size_t i = 0; i < jobs->count; i++)
        guarantee_out->preemptible += lull_cluster_may_pause(&jobs->all[i], conditions);
    return lull_schedule_set_theorem(cluster, jobs, rules, &guarantee_out->theorem);
}

/* ---- what the theorem does not cover ------------------------------------------------------ */

static void note_if(struct notes *notes, bool is_so, const char *what)
{
    if (is_so)
        snprintf(notes->all[notes->count++].text, sizeof(notes->all[0].text), "%s", what);
}

/* Lists why there is no ratio; nothing: there is one. Events that take promised GPUs away or
 * make promised jobs late reduce the gains, so the theorem does not cover the run. */
static void list_reasons(const struct lull_guarantee *guarantee, struct notes *notes)
{
    const struct lull_schedule_set_theorem *theorem = &guarantee->theorem;

    *notes = (struct notes){0};
    note_if(notes, !guarantee->is_proven, tuned);
    if (!guarantee->is_proven)
        return;
    note_if(notes, !theorem->has_schedules, "no job has a schedule that the theorem covers");
    note_if(notes, !isfinite(theorem->ratio),
            "no finite ratio is proven where gangs take nearly all GPUs of a type");
    note_if(notes, guarantee->has_failures, "nodes fail, which takes promised GPUs away");
    note_if(notes, guarantee->has_cap, "a power cap may turn promised starts away");
    note_if(notes, guarantee->turns_nodes_off,
            "nodes are turned off, and promised starts wait for them");
    note_if(notes, guarantee->is_shared, "shared resources make jobs end later than promised");
}

/* Adds a note on a number of jobs, unless there are none. */
static void note_jobs(struct notes *notes, size_t jobs, const char *what)
{
    struct note *const note = &notes->all[notes->count];

    if (jobs == 0)
        return;
    snprintf(note->text, sizeof(note->text), "%s job%s %s", lull_amount_count(jobs).text,
             jobs == 1 ? "" : "s", what);
    notes->count++;
}

/* Adds the jobs, or schedules of theirs, that the theorem does not cover. */
static void list_jobs(const struct lull_guarantee *guarantee, struct notes *notes)
{
    const struct lull_schedule_set_theorem *theorem = &guarantee->theorem;

    if (!guarantee->is_proven)
        return;
    note_jobs(notes, theorem->lacking[LULL_SCHEDULE_NO_VALUE], "without a value: rejected");
    note_jobs(notes, theorem->lacking[LULL_SCHEDULE_NO_SLOTS],
              "without a whole slot between arrival and deadline: rejected");
    note_jobs(notes, theorem->lacking[LULL_SCHEDULE_TOO_FAR],
              "beyond the last slot there can be: rejected");
    note_jobs(notes, theorem->cut, "whose latest starts lie beyond the last slot there can be");
    note_jobs(notes, theorem->without_deadline,
              "without a deadline: compared only with starts as late as the policy's own");
    note_jobs(notes, theorem->of_all_gpus,
              theorem->storage.gpus > 0
                  ? "with modes that take all GPUs of their type or all of the storage: compared "
                    "only with their other modes"
                  : "with modes that take all GPUs of their type: compared only with their other "
                    "modes");
    note_jobs(notes, theorem->out_of_range,
              "with modes out of the assumed ranges: compared only with their other modes");
    note_jobs(notes, guarantee->preemptible,
              "that may run in pieces: compared only with runs without a pause");
}

/* ---- telling ------------------------------------------------------------------------------ */

static void guarantee_print_assumed(const struct lull_guarantee *guarantee, FILE *out)
{
    const struct lull_price_law *law = &guarantee->theorem.law;
    const struct lull_price_law *storage = &guarantee->theorem.storage;

    fprintf(
        out,
        "assumed             gangs of up to %u of %u GPUs (%s); gains of %s per GPU and slot to "
        "%s per GPU (%s)\n",
        law->gang, law->gpus, guarantee->has_given_gang ? "given" : "from these jobs",
        lull_amount_energy(law->min_j).text, lull_amount_energy(law->max_j).text,
        guarantee->has_given_range ? "given" : "from these jobs");
    if (storage->gang > 0)
        fprintf(
            out,
            "                    and reads of up to %u of %u MB/s (from these jobs); gains of %s "
            "per MB/s and slot to %s per MB/s (from these jobs)\n",
            storage->gang, storage->gpus, lull_amount_energy(storage->min_j).text,
            lull_amount_energy(storage->max_j).text);
}

void lull_guarantee_print(const struct lull_guarantee *guarantee, FILE *out)
{
    struct notes notes;
    size_t reasons;

    list_reasons(guarantee, &notes);
    reasons = notes.count;
    list_jobs(guarantee, &notes);
    for (size_t i = 0; i < reasons; i++)
        fprintf(out, "%-19s %s%s\n", i == 0 ? "guarantee" : "", i == 0 ? "none: " : "and ",
                notes.all[i].text);
    if (reasons == 0)
        fprintf(out,
                "guarantee           no choice of schedules in slots of %g s gains more than %.3f "
                "times as much\n",
                (double)guarantee->slot_ns * 1e-9, guarantee->theorem.ratio);
    if (guarantee->is_proven && guarantee->theorem.law.gang > 0)
        guarantee_print_assumed(guarantee, out);
    for (size_t i = reasons; i < notes.count; i++)
        fprintf(out, "not guaranteed      %s\n", notes.all[i].text);
}

static json_t *assumed_json(const struct lull_guarantee *guarantee)
{
    const struct lull_price_law *law = &guarantee->theorem.law;

    if (!guarantee->is_proven || law->gang == 0)
        return json_null();
    return json_pack("{s:f, s:I, s:b, s:f, s:f, s:b, s:I}", "slot_s",
                     (double)guarantee->slot_ns * 1e-9, "gang", (json_int_t)law->gang,
                     "gang_is_given", (int)guarantee->has_given_gang, "least_j", law->min_j,
                     "most_j", law->max_j, "range_is_given", (int)guarantee->has_given_range,
                     "read_mb_s", (json_int_t)guarantee->theorem.storage.gang);
}

int lull_guarantee_json(const struct lull_guarantee *guarantee, json_t *into)
{
    json_t *const texts = json_array();
    struct notes notes;
    bool has_ratio;
    int rc;

    list_reasons(guarantee, &notes);
    has_ratio = notes.count == 0;
    list_jobs(guarantee, &notes);
    for (size_t i = 0; i < notes.count; i++)
        json_array_append_new(texts, lull_json_string(notes.all[i].text));
    rc = json_object_set_new(into, "proven_ratio",
                             has_ratio ? json_real(guarantee->theorem.ratio) : json_null());
    rc |= json_object_set_new(into, "assumed", assumed_json(guarantee));
    rc |= json_object_set_new(into, "not_proven", texts);
    return rc < 0 ? -ENOMEM : 0;
}
