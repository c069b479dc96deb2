/*
 * Random online problems in families of shapes, and policies on them slot by slot, for welfare:
 * value less energy of the jobs that end by their deadline. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TESTS_CORE_POLICY_ONLINE_CASE_H
#define LULL_CLUSTER_TESTS_CORE_POLICY_ONLINE_CASE_H

#include <stdbool.h>

#include "cluster/core/policy/policy.h"
#include "cluster/core/bound/slot_relaxation.h"

#define ONLINE_SLOT_NS INT64_C(300000000000)

enum online_family {
    ONLINE_PLAIN,  /* 32 GPUs, 96 slots, gangs of 1 to 8, 2 to 12 slots, arrivals uniform */
    ONLINE_CLOCKS, /* the same, with clocks that save more energy and take longer */
    ONLINE_BURSTS, /* four of five jobs arrive in a few bursts */
    ONLINE_TAIL,   /* gangs and times as in traces: most small, some of 16 GPUs or 48 slots */
    ONLINE_TYPES,  /* 32 GPUs of either of two types, the second slower and thriftier */
    ONLINE_LARGE,  /* 1000 jobs, as TAIL, over 288 slots */
    ONLINE_FAMILIES,
};

struct online_case {
    const char *name;
    struct lull_cluster cluster; /* nodes of one GPU: every free GPU fits */
    struct lull_cluster_jobs jobs;
    uint32_t slots;
    double load_ratio; /* GPU time requested at full clocks, of what there is */
};

/* load_ratio: how much is wanted; of PLAIN and CLOCKS 0 means 20 to 150 jobs. NULL: out of memory.
 */
struct online_case *online_case_draw(enum online_family family, double load_ratio, uint64_t seed);
void online_case_destroy(struct online_case *it);

/* Its own slots, in which it is the very same problem. */
struct lull_slotting online_case_slotting(const struct online_case *it);

/* The result of a policy. */
struct online_result {
    double welfare_j;
    size_t served;
    bool is_sound; /* no GPU taken twice, no job begun twice, before it came or late */
};

/* Asks the policy in every slot. starts_out, modes_out: NULL, or [job], UINT32_MAX: never. */
struct online_result online_case_run(const struct online_case *it,
                                     const struct lull_cluster_policy_ops *policy,
                                     uint32_t *starts_out, uint32_t *points_out);

/* Each job on arrival its schedule of highest gain that fits, the earliest of equals, permanently.
 */
struct online_result online_case_greedy(const struct online_case *it);

#endif
