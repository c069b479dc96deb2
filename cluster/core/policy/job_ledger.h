/*
 * Records of a policy about its jobs: the remaining work of each, and the GPUs of the running ones.
 * It counts as the driver of the policy does, so expected ends are exact unless a job loses its
 * GPUs. Private to policies. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_JOB_LEDGER_H
#define LULL_CLUSTER_CORE_POLICY_JOB_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/job.h"

enum lull_cluster_stage {
    LULL_CLUSTER_ABSENT, /* it has not arrived, or has ended */
    LULL_CLUSTER_QUEUED,
    LULL_CLUSTER_RUNS,
    LULL_CLUSTER_PAUSED, /* preempted, and not back in the queue */
};

struct lull_job_record {
    enum lull_cluster_stage stage;
    uint32_t
        stamp; /* changes with the stage, so that heap entries of earlier stages can be detected */
    uint32_t point;     /* running */
    int64_t since_ns;   /* running: since when in this operating point at this pace */
    double pace;        /* running: of its operating point's */
    double left_ratio;  /* of its work, at since_ns */
    int64_t restart_ns; /* before it continues with it */
    struct lull_cluster_share *shares; /* running; NULL: unknown, because memory ran out */
    size_t share_count;
    bool is_urgent;  /* its policy ranks it higher, for its deadline */
    int64_t room_ns; /* time at which others were last stopped for it; -1: never */
    uint32_t
        position; /* running: in its running set; UINT32_MAX: not there, because memory ran out */
};

/* Running jobs, in no order that matters. Zero-initialised is empty. */
struct lull_running_set {
    uint32_t *jobs;
    uint32_t count;
    size_t room;
};

/* Zero-initialised but for jobs is empty. */
struct lull_job_ledger {
    const struct lull_cluster_jobs *jobs;
    struct lull_job_record *records; /* by job */
    size_t room;
};

void lull_job_ledger_fini(struct lull_job_ledger *ledger);

/*
 * Notes that the job waits: for the first time, after lull_job_ledger_pause(), or because it lost
 * its GPUs, with or without a call of end. In the last case its work since the last start counts as
 * lost. -ENOMEM.
 */
int lull_job_ledger_arrive(struct lull_job_ledger *ledger, uint32_t job);

/* The job runs from now on. */
void lull_job_ledger_start(struct lull_job_ledger *ledger, uint32_t job, uint32_t point,
                           const struct lull_cluster_share *shares, size_t share_count,
                           int64_t now_ns);

/* Updates left_ratio of a running job to now, so that its work until now counts as done. */
void lull_job_ledger_settle(struct lull_job_ledger *ledger, uint32_t job, int64_t now_ns);

/* A running job continues in an operating point of the same type and GPUs. */
void lull_job_ledger_reclock(struct lull_job_ledger *ledger, uint32_t job, uint32_t point,
                             int64_t now_ns);

/* A running job continues at a pace (policy.h). */
void lull_job_ledger_pace(struct lull_job_ledger *ledger, uint32_t job, double pace,
                          int64_t now_ns);

/* Notes that a started job runs in this operating point, which may differ from the decided one.
 */
void lull_job_ledger_begin(struct lull_job_ledger *ledger, uint32_t job, uint32_t point,
                           int64_t now_ns);

/* A running job stops, and will need restart_ns before it continues. It is absent until it arrives.
 */
void lull_job_ledger_pause(struct lull_job_ledger *ledger, uint32_t job, int64_t restart_ns,
                           int64_t now_ns);

void lull_job_ledger_end(struct lull_job_ledger *ledger, uint32_t job);

void lull_running_set_add(struct lull_job_ledger *ledger, struct lull_running_set *running,
                          uint32_t job);
void lull_running_set_remove(struct lull_job_ledger *ledger, struct lull_running_set *running,
                             uint32_t job);

/* The time that a job which does not run would need in an operating point; the end of a running
 * job. */
int64_t lull_job_ledger_need_ns(const struct lull_job_ledger *ledger, uint32_t job, uint32_t point);
int64_t lull_job_ledger_end_ns(const struct lull_job_ledger *ledger, uint32_t job);

/* The time that any job, running or not, would need in an operating point from now on. */
int64_t lull_job_ledger_left_ns(const struct lull_job_ledger *ledger, uint32_t job, uint32_t point,
                                int64_t now_ns);

#endif
