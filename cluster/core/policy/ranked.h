/*
 * Policies that rank jobs and always run those that rank first, as far as they fit. A job that does
 * not fit holds up only jobs that want as many GPUs of the same type. A job that comes later
 * but ranks first takes the GPUs of preemptible ones that rank last; a preempted job needs some
 * seconds before it continues (lull_cluster_restart_ns). Clocks may be chosen, and changed while a
 * job runs, by a cost per operating point.
 *
 * Jobs of equal shape (pool, type, GPUs) wait in one heap, so that a decision looks at the first of
 * each shape and never at the whole queue: O(shapes + log n), and O(log n) for each running job
 * that ranks behind a waiting one where that one wants its GPUs.
 *
 * Private to policies. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_RANKED_H
#define LULL_CLUSTER_CORE_POLICY_RANKED_H

#include "cluster/core/policy/policy.h"
#include "cluster/core/policy/job_ledger.h"

/* Statistics of the jobs that could run on a pool's GPUs of a type. */
struct lull_queue_stats {
    uint64_t gpus;    /* in all */
    uint64_t waiting; /* jobs that could run there */
    double weight;    /* of jobs, waiting and running, that are not done */
    double weight_waiting;
};

struct lull_ranked; /* a ranked policy instance; rules read it through ranked_state.h */

/* The rule of such a policy. */
struct lull_cluster_ranking {
    const char *reason; /* of a start; static */

    /* Creates the rule's own state, freed with free() after destroy(); NULL: there is none.
     * -ENOMEM. */
    int (*create)(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  void **more_out);
    void (*destroy)(void *more); /* frees what it refers to; NULL: it refers to nothing */

    /*
     * The rank of a job that needs need_ns more, of full_ns in all, with this many GPUs: a time in
     * ns, of which the least ranks first.
     */
    double (*rank)(const struct lull_cluster_job *job, uint32_t gpus, int64_t full_ns,
                   int64_t need_ns);
    bool is_fixed; /* need_ns does not count: a job's rank never changes */

    /* A job may be given any of its operating points of a type; otherwise only as many GPUs as the
       first of the type has. */
    bool is_elastic;

    /* The number of GPUs may change while a job runs, if that is worth the
       restart. cost() is then that of the whole job, in proportion to its
       time. */
    bool is_resized;

    /* The number by which the rank of a waiting job is divided once it has to start for its
       deadline; >= 1, and always the same. NULL: deadlines do not count. */
    double (*urgency)(const struct lull_ranked *ranked);

    /* The cost of an operating point. A job gets the cheapest of the
       possible ones, of equals the first; NULL: the first of the type. */
    double (*cost)(const struct lull_ranked *ranked, uint32_t job, uint32_t point,
                   const struct lull_queue_stats *queue, int64_t now_ns);

    /* Running jobs change to the cheapest clock whenever this value has
       changed by more than a twentieth in their queue; NULL: never. */
    double (*level)(const struct lull_ranked *ranked, const struct lull_queue_stats *queue);

    /* The one type that a new job may use, of those that its operating points name; NULL: any.
       `queues`: of the job's pool, by type. */
    uint32_t (*dispatch)(const struct lull_ranked *ranked, uint32_t job,
                         const struct lull_queue_stats *queues);

    /*
     * This part of a job will run in an operating point (is_on), or will not
     * run there after all, because the job stops or continues in another one. NULL: the rule does
     * not need to know.
     */
    void (*charge)(struct lull_ranked *ranked, uint32_t job, uint32_t point, double left_ratio,
                   bool is_on);

    /* A job that dispatch() sent to a type has ended. NULL: the rule does not need to know. */
    void (*ended)(struct lull_ranked *ranked, uint32_t job, uint32_t type);
};

/* The seconds that a preempted job needs before it continues, by how many GPUs it has: 7 s for one,
 * 30 s up to 8, 60 s beyond (measured on Helios, SC'21). */
int64_t lull_cluster_restart_ns(uint32_t gpus);

extern const struct lull_cluster_policy_calls lull_ranked_calls;

#endif
