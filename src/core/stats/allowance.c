/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/allowance.h"

#include <math.h>

void lull_allowance_init(struct lull_allowance *allowance, double rate, double most, double saved)
{
    *allowance = (struct lull_allowance){.rate = rate, .most = most, .left = saved};
}

void lull_allowance_earn(struct lull_allowance *allowance, double trials)
{
    allowance->left = fmin(allowance->left + allowance->rate * trials, allowance->most);
}

void lull_allowance_spend(struct lull_allowance *allowance)
{
    allowance->left = fmax(allowance->left - 1.0, -2.0);
}

bool lull_allowance_is_open(const struct lull_allowance *allowance)
{
    return allowance->left > -1.0;
}

double lull_allowance_fullness(const struct lull_allowance *allowance)
{
    return fmax(allowance->left + 1.0, 0.0) / (allowance->most + 1.0);
}
