/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/moments.h"

void lull_moments_add(struct lull_moments *moments, double value)
{
    const double delta = value - moments->mean;

    moments->count++;
    moments->mean += delta / (double)moments->count;
    moments->squares += delta * (value - moments->mean);
}

void lull_moments_merge(struct lull_moments *moments, const struct lull_moments *other)
{
    const double ours = (double)moments->count;
    const double theirs = (double)other->count;
    const double delta = other->mean - moments->mean;

    if (other->count == 0)
        return;
    moments->count += other->count;
    moments->mean += delta * theirs / (ours + theirs);
    moments->squares += other->squares + delta * delta * ours * theirs / (ours + theirs);
}

double lull_moments_variance(const struct lull_moments *moments)
{
    if (moments->count < 2)
        return 0.0;
    return moments->squares / (double)(moments->count - 1);
}
