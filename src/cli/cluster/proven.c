/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/proven.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/amount.h"

enum { MOST_NOTES = 8 };

struct note {
    char text[128];
};

int lull_cluster_prove(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_policy_ops *policy,
                       const struct lull_conditions_options *conditions,
                       struct lull_cluster_proven *proven_out)
{
    *proven_out = (struct lull_cluster_proven){.policy = policy, .conditions = conditions};
    return lull_cluster_policy_needs_value(policy)
               ? lull_menu_theorem(cluster, jobs, &proven_out->theorem)
               : 0;
}

static bool is_proven(const struct lull_cluster_proven *proven)
{
    return lull_cluster_policy_needs_value(proven->policy);
}

/* ---- what the theorem does not speak of --------------------------------------------------- */

static size_t note_jobs(struct note *notes, size_t count, size_t jobs, const char *what)
{
    if (jobs == 0)
        return count;
    snprintf(notes[count].text, sizeof(notes[count].text), "%s job%s %s",
             lull_amount_count(jobs).text, jobs == 1 ? "" : "s", what);
    return count + 1;
}

static size_t note_if(struct note *notes, size_t count, bool is_so, const char *what)
{
    if (is_so)
        snprintf(notes[count].text, sizeof(notes[count].text), "%s", what);
    return count + is_so;
}

static size_t list(const struct lull_cluster_proven *proven, struct note *notes)
{
    const struct lull_menu_theorem *theorem = &proven->theorem;
    const struct lull_conditions_options *conditions = proven->conditions;
    size_t count = 0;

    if (!is_proven(proven))
        return note_if(notes, 0, true, "prices are tuned; pd-rats-safe has a proven ratio");
    count = note_jobs(notes, count, theorem->without_value, "without a value: rejected");
    count = note_jobs(notes, count, theorem->without_deadline,
                      "without a deadline: against starts as late as the rule's own only");
    count = note_jobs(notes, count, theorem->of_all_gpus,
                      "with modes that take all GPUs of their type: never chosen");
    count = note_if(notes, count, conditions->failures != NULL || conditions->mtbf_ns > 0,
                    "nodes fail, which takes promised GPUs away");
    count = note_if(notes, count, conditions->cap_w > 0.0 || conditions->node_cap_w > 0.0,
                    "a power cap, which may turn promised starts away");
    return note_if(notes, count, conditions->turns_nodes_off,
                   "nodes are turned off, and promised starts wait for them");
}

/* ---- telling ------------------------------------------------------------------------------ */

void lull_cluster_proven_print(const struct lull_cluster_proven *proven, FILE *out)
{
    struct note notes[MOST_NOTES];
    const size_t count = list(proven, notes);

    if (is_proven(proven) && isfinite(proven->theorem.ratio))
        fprintf(out, "proven              at most %.3f times, of schedules in slots of %.0f s\n",
                proven->theorem.ratio, (double)LULL_MENU_SLOT_NS * 1e-9);
    else
        fprintf(out, "proven              no ratio\n");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "not proven          %s\n", notes[i].text);
}

int lull_cluster_proven_json(const struct lull_cluster_proven *proven, json_t *into)
{
    struct note notes[MOST_NOTES];
    const size_t count = list(proven, notes);
    json_t *const texts = json_array();
    json_t *const ratio = is_proven(proven) && isfinite(proven->theorem.ratio)
                              ? json_real(proven->theorem.ratio)
                              : json_null();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(texts, json_string(notes[i].text));
    if (json_object_set_new(into, "proven_ratio", ratio) < 0) {
        json_decref(texts);
        return -ENOMEM;
    }
    return json_object_set_new(into, "not_proven", texts) < 0 ? -ENOMEM : 0;
}
