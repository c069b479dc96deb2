/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/schedule_set.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cluster/core/policy/posted_prices.h"

int64_t lull_schedule_slot_ns(const struct lull_schedule_rules *rules)
{
    return rules != NULL && rules->slot_ns > 0 ? rules->slot_ns : LULL_SCHEDULE_SLOT_NS;
}

double lull_schedule_ratio(const struct lull_schedule_rules *rules, double min_ratio)
{
    if (rules == NULL || rules->ratio <= 0.0)
        return min_ratio + fmin(fmax(0.25 * min_ratio, 1.0), 4.0);
    return fmax(rules->ratio, min_ratio);
}

/* ---- a job's set -------------------------------------------------------------------------- */

static int64_t schedule_set_slots_of(int64_t time_ns, int64_t slot_ns)
{
    return time_ns / slot_ns + (time_ns % slot_ns > 0);
}

static bool has_storage(const struct lull_schedule_rules *rules)
{
    return rules != NULL && rules->storage_mb_s > 0.0;
}

static uint32_t whole_mb_s(double mb_s)
{
    return (uint32_t)fmin(mb_s, LULL_SLOTS_MOST_GPUS);
}

/* Turns an operating point into a window of starts in whole slots; else returns what it lacks. */
static enum lull_schedule_lack
schedule_set_convert(const struct lull_cluster *cluster, const struct lull_cluster_job *job,
                     uint32_t at, const struct lull_schedule_rules *rules, uint32_t known,
                     struct lull_slot_point *point_out, bool *is_cut_out)
{
    const struct lull_cluster_point *point = &job->points[at];
    const int64_t slot_ns = lull_schedule_slot_ns(rules);
    const int64_t first = schedule_set_slots_of(job->arrival_ns, slot_ns);
    const int64_t slots = schedule_set_slots_of(point->time_ns, slot_ns);
    const double gain_j = lull_cluster_gain_j(job, at, job->arrival_ns, 0.0);
    int64_t last = job->deadline_ns / slot_ns - slots;

    if (job->deadline_ns == LULL_CLUSTER_NEVER)
        last = first > known ? first : known;
    if (last < first)
        return LULL_SCHEDULE_NO_SLOTS;
    if (first + slots > LULL_SLOTS_MOST)
        return LULL_SCHEDULE_TOO_FAR;
    if (!(gain_j > 0.0))
        return LULL_SCHEDULE_NO_GAIN;
    *is_cut_out |= last + slots > LULL_SLOTS_MOST;
    *point_out = (struct lull_slot_point){
        .type = job->pool * cluster->type_count + point->type,
        .gpus = point->gpus,
        .slots = (uint32_t)slots,
        .first = (uint32_t)first,
        .last = (uint32_t)(last + slots > LULL_SLOTS_MOST ? LULL_SLOTS_MOST - slots : last),
        .reads = has_storage(rules) ? whole_mb_s(ceil((double)point->read_mb_s)) : 0,
        .cost_j = -gain_j,
    };
    return LULL_SCHEDULE_HAS_SOME;
}

void lull_schedule_set_make(const struct lull_cluster *cluster, const struct lull_cluster_job *job,
                            const struct lull_schedule_rules *rules, uint32_t known,
                            struct lull_schedule_set *set_out)
{
    enum lull_schedule_lack lack = LULL_SCHEDULE_NO_VALUE;
    uint32_t count = 0;

    set_out->is_cut = false;
    for (uint32_t i = 0; job->value_j > 0.0 && i < job->point_count; i++) {
        enum lull_schedule_lack found;

        if (!lull_cluster_has_memory(job, &cluster->types[job->points[i].type]))
            continue;
        found = schedule_set_convert(cluster, job, i, rules, known, &set_out->points[count],
                                     &set_out->is_cut);
        if (found == LULL_SCHEDULE_HAS_SOME)
            set_out->numbers[count++] = i;
        else if (lack == LULL_SCHEDULE_NO_VALUE || found == LULL_SCHEDULE_NO_GAIN)
            lack = found;
    }
    set_out->lack = count > 0 ? LULL_SCHEDULE_HAS_SOME : lack;
    set_out->job = (struct lull_slot_job){.point_count = count, .points = set_out->points};
}

/* ---- the ranges of all -------------------------------------------------------------------- */

/* Replaces the ranges of the jobs by those of the rules, in types with at least one GPU more
 * than a gang. */
static void schedule_set_apply(const struct lull_schedule_rules *rules, struct lull_price_law *law)
{
    if (rules == NULL || law->gpus < 2)
        return;
    if (rules->gang > 0)
        law->gang = rules->gang < law->gpus ? (uint32_t)rules->gang : law->gpus - 1;
    if (rules->max_j > 0.0 && law->gang > 0) {
        law->min_j = rules->min_j;
        law->max_j = rules->max_j;
    }
    if (!(law->min_j > 0.0))
        law->gang = 0; /* the range of gains of this type is unknown */
}

/* Fits tuned laws, and the storage's behind them, to the ratio. Half of what that leaves above the
 * least is the storage's, if all types keep the ratio then. */
static void schedule_set_fit(struct lull_price_law *laws, uint32_t types, double ratio)
{
    struct lull_price_law *const storage = &laws[types];
    const double least = lull_bid_ratio(laws, types, storage);
    struct lull_price_law fitted = *storage;
    const struct lull_price_law *hardest = &laws[0];

    for (uint32_t i = 1; i < types; i++)
        if (laws[i].gang > 0 && (hardest->gang == 0 || lull_price_pair_ratio(&laws[i], storage) >
                                                           lull_price_pair_ratio(hardest, storage)))
            hardest = &laws[i];
    if (storage->gang > 0)
        lull_price_law_fit(&fitted, hardest, 0.5 * (least + ratio));
    if (lull_bid_ratio(laws, types, &fitted) <= ratio)
        *storage = fitted;
    for (uint32_t i = 0; i < types; i++)
        lull_price_law_fit(&laws[i], storage, ratio);
}

int lull_schedule_set_laws(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                           const struct lull_schedule_rules *rules, struct lull_price_law *laws_out,
                           double *ratio_out)
{
    const size_t types = lull_cluster_group_count(cluster);
    struct lull_node_groups groups;

    if (lull_node_groups_init(&groups, cluster) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < types; i++)
        laws_out[i] = (struct lull_price_law){.gpus = (uint32_t)groups.gpus[i]};
    lull_node_groups_fini(&groups);
    laws_out[types] = (struct lull_price_law){
        .gpus = has_storage(rules) ? whole_mb_s(floor(rules->storage_mb_s)) : 0};
    for (size_t i = 0; i < jobs->count; i++) {
        struct lull_schedule_set set;

        lull_schedule_set_make(cluster, &jobs->all[i], rules, 0, &set);
        lull_bid_widen(&set.job, laws_out, &laws_out[types]);
    }
    lull_price_law_tune(&laws_out[types]);
    for (size_t i = 0; i < types; i++) {
        schedule_set_apply(rules, &laws_out[i]);
        lull_price_law_tune(&laws_out[i]);
    }
    *ratio_out =
        lull_schedule_ratio(rules, lull_bid_ratio(laws_out, (uint32_t)types, &laws_out[types]));
    schedule_set_fit(laws_out, (uint32_t)types, *ratio_out);
    return 0;
}

/* ---- the theorem -------------------------------------------------------------------------- */

/* Counts a job whose schedules the theorem does not cover in full. */
static void count_schedules(const struct lull_slot_job *job, const struct lull_price_law *laws,
                            const struct lull_price_law *storage,
                            struct lull_schedule_set_theorem *theorem)
{
    bool is_of_all = false, is_out = false;

    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_slot_point *point = &job->points[i];
        const struct lull_price_law *law = &laws[point->type];
        const bool is_in = lull_price_law_covers(law, storage, point, -point->cost_j);
        const bool takes_all =
            point->gpus >= law->gpus || (point->reads > 0 && point->reads >= storage->gpus);

        theorem->has_schedules |= is_in;
        is_of_all |= takes_all && point->gpus <= law->gpus;
        is_out |= !is_in && !takes_all;
    }
    theorem->of_all_gpus += is_of_all;
    theorem->out_of_range += is_out;
}

/* The law with the highest ratio. */
static void choose_law(const struct lull_price_law *laws, size_t types,
                       struct lull_schedule_set_theorem *theorem)
{
    double most = 0.0;

    for (size_t i = 0; i < types; i++) {
        if (laws[i].gang == 0 || lull_price_pair_ratio(&laws[i], &laws[types]) < most)
            continue;
        most = lull_price_pair_ratio(&laws[i], &laws[types]);
        theorem->law = laws[i];
    }
    theorem->storage = laws[types];
}

int lull_schedule_set_theorem(const struct lull_cluster *cluster,
                              const struct lull_cluster_jobs *jobs,
                              const struct lull_schedule_rules *rules,
                              struct lull_schedule_set_theorem *theorem_out)
{
    const size_t types = lull_cluster_group_count(cluster);
    struct lull_price_law *laws = calloc(types + 1, sizeof(*laws));
    int rc = -ENOMEM;

    *theorem_out = (struct lull_schedule_set_theorem){0};
    if (laws != NULL)
        rc = lull_schedule_set_laws(cluster, jobs, rules, laws, &theorem_out->ratio);
    if (rc == 0)
        choose_law(laws, types, theorem_out);
    for (size_t i = 0; rc == 0 && i < jobs->count; i++) {
        const struct lull_cluster_job *job = &jobs->all[i];
        struct lull_schedule_set set;

        theorem_out->without_deadline +=
            job->value_j > 0.0 && job->deadline_ns == LULL_CLUSTER_NEVER;
        lull_schedule_set_make(cluster, job, rules, 0, &set);
        theorem_out->lacking[set.lack]++;
        theorem_out->cut += set.is_cut;
        count_schedules(&set.job, laws, &laws[types], theorem_out);
    }
    free(laws);
    return rc;
}
