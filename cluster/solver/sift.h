/*
 * Solves the linear program by parts: first only the columns that are attractive at prices found by
 * ascent, then those that are missing by the solution's own prices, until none is (sifting; Bixby,
 * Gregory, Lustig, Marsten, Shanno, Operations Research 40, 1992). The optimum is that of the whole
 * program. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SOLVER_SIFT_H
#define LULL_CLUSTER_SOLVER_SIFT_H

#include <coin/Clp_C_Interface.h>

#include "cluster/solver/time_indexed.h"

/*
 * Leaves the model solved, with the program's rows and some of its columns. gpu_j, cap_j: prices to
 * begin with. Returns 1; 0: the columns were not enough for a schedule, or the solver was stopped
 * or gave up, and the model is of no use; -ENOMEM.
 */
int lull_sift(Clp_Simplex *model, const struct lull_time_indexed *program, const double *gpu_j,
              const double *cap_j);

#endif
