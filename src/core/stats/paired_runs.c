/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/paired_runs.h"

#include <assert.h>
#include <math.h>

#include "core/stats/student.h"

bool lull_paired_runs_is_other(uint32_t run)
{
    return run % 4 == 1 || run % 4 == 2;
}

static bool is_amount(double amount)
{
    return isfinite(amount) && amount > 0.0;
}

void lull_paired_runs_add(struct lull_paired_runs *runs, double reference, double other,
                          double shared_log)
{
    assert(shared_log >= 0.0);
    if (!is_amount(reference) || !is_amount(other))
        return;
    lull_moments_add(&runs->log_ratios, log(other / reference));
    lull_moments_add(&runs->shared, shared_log);
}

void lull_paired_runs_change(const struct lull_paired_runs *runs, double confidence,
                             struct lull_paired_change *change_out)
{
    const double mean = runs->log_ratios.mean;
    const double count = (double)runs->log_ratios.count;
    double half;

    assert(confidence > 0.5 && confidence < 1.0);
    *change_out = (struct lull_paired_change){(uint32_t)runs->log_ratios.count, NAN, NAN, NAN};
    if (runs->log_ratios.count == 0)
        return;
    change_out->ratio = expm1(mean);
    if (runs->log_ratios.count < 2)
        return;
    half = lull_student_quantile(confidence, count - 1.0) *
               sqrt(lull_moments_variance(&runs->log_ratios) / count) +
           runs->shared.mean;
    change_out->lower_ratio = expm1(mean - half);
    change_out->upper_ratio = expm1(mean + half);
}
