/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/guarantee.h"

#include <errno.h>
#include <math.h>

#include "base/amount.h"

enum { MOST_NOTES = 8 };

static const char tuned[] = "the prices of pd-rats are tuned; pd-rats-safe has a proven ratio";

struct note {
    char text[128];
};

int lull_guarantee_find(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_cluster_policy_ops *policy,
                        const struct lull_cluster_conditions *conditions, bool has_failures,
                        struct lull_guarantee *guarantee_out)
{
    *guarantee_out = (struct lull_guarantee){
        .is_proven = policy->needs_value,
        .has_failures = has_failures,
        .has_cap = conditions->cap.cluster_w > 0.0 || conditions->cap.node_w > 0.0,
        .turns_nodes_off = conditions->turns_nodes_off,
    };
    if (!guarantee_out->is_proven)
        return 0;
    return lull_schedule_set_theorem(cluster, jobs, &guarantee_out->theorem);
}

/* The theorem gives no finite ratio where gangs take nearly all GPUs of a type. */
static bool has_ratio(const struct lull_guarantee *guarantee)
{
    return guarantee->is_proven && isfinite(guarantee->theorem.ratio);
}

/* ---- what the theorem does not cover ------------------------------------------------------ */

/* Adds a note on a number of jobs, unless there are none. Returns how many notes there are then. */
static size_t note_jobs(struct note *notes, size_t count, size_t jobs, const char *what)
{
    if (jobs == 0)
        return count;
    snprintf(notes[count].text, sizeof(notes[count].text), "%s job%s %s",
             lull_amount_count(jobs).text, jobs == 1 ? "" : "s", what);
    return count + 1;
}

/* Adds a note if it applies. Returns how many notes there are then. */
static size_t note_if(struct note *notes, size_t count, bool is_so, const char *what)
{
    if (!is_so)
        return count;
    snprintf(notes[count].text, sizeof(notes[count].text), "%s", what);
    return count + 1;
}

/* Lists what the guarantee does not cover in this scenario. */
static size_t list(const struct lull_guarantee *guarantee, struct note *notes)
{
    const struct lull_schedule_set_theorem *theorem = &guarantee->theorem;
    size_t count = 0;

    if (!guarantee->is_proven)
        return note_if(notes, 0, true, tuned);
    count = note_jobs(notes, count, theorem->without_value, "without a value: rejected");
    count = note_jobs(notes, count, theorem->without_deadline,
                      "without a deadline: compared only with starts as late as the policy's own");
    count = note_jobs(notes, count, theorem->of_all_gpus,
                      "with modes that take all GPUs of their type: those modes are never chosen");
    count = note_if(notes, count, guarantee->has_failures,
                    "nodes fail, which takes promised GPUs away");
    count = note_if(notes, count, guarantee->has_cap, "a power cap may turn promised starts away");
    return note_if(notes, count, guarantee->turns_nodes_off,
                   "nodes are turned off, and promised starts wait for them");
}

/* ---- telling ------------------------------------------------------------------------------ */

void lull_guarantee_print(const struct lull_guarantee *guarantee, FILE *out)
{
    struct note notes[MOST_NOTES];
    const size_t count = list(guarantee, notes);

    if (!guarantee->is_proven) {
        fprintf(out, "guarantee           none: %s\n", tuned);
        return;
    }
    if (has_ratio(guarantee))
        fprintf(out,
                "guarantee           no schedule in slots of %.0f s gains more than %.3f times as "
                "much\n",
                (double)LULL_SCHEDULE_SLOT_NS * 1e-9, guarantee->theorem.ratio);
    else
        fprintf(out, "guarantee           none: no finite ratio is proven for these jobs\n");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "not guaranteed      %s\n", notes[i].text);
}

int lull_guarantee_json(const struct lull_guarantee *guarantee, json_t *into)
{
    struct note notes[MOST_NOTES];
    const size_t count = list(guarantee, notes);
    json_t *const texts = json_array();
    json_t *const ratio = has_ratio(guarantee) ? json_real(guarantee->theorem.ratio) : json_null();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(texts, json_string(notes[i].text));
    if (json_object_set_new(into, "proven_ratio", ratio) < 0) {
        json_decref(texts);
        return -ENOMEM;
    }
    return json_object_set_new(into, "not_proven", texts) < 0 ? -ENOMEM : 0;
}
