/* Policies on an online problem, compared with its linear program. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef LULL_CLUSTER_TESTS_CORE_POLICY_ONLINE_JUDGE_H
#define LULL_CLUSTER_TESTS_CORE_POLICY_ONLINE_JUDGE_H

#include "online_case.h"

/* Welfare, J. */
struct online_verdict {
    double optimum_j; /* of the linear program */
    double greedy_j;
    double tuned_j;
    double scaled_j;    /* the certificate of the tuned one, by scaled prices alone */
    double certified_j; /* with steps along the subgradient */
    bool is_sound;      /* all of them */
};

struct online_verdict online_judge(const struct online_case *it);

#endif
