/*
 * Student's t distribution. Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_STUDENT_H
#define LULL_CORE_STATS_STUDENT_H

/* P(T <= t) with the given degrees of freedom (> 0), to 1e-10, by the incomplete beta function. */
double lull_student_cdf(double t, double degrees);

/* The t with P(T <= t) = p, p in (0, 1), to 1e-8 relative; -INFINITY and INFINITY at 0 and 1. */
double lull_student_quantile(double p, double degrees);

#endif
