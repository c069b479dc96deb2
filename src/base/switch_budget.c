/* SPDX-License-Identifier: Apache-2.0 */
#include "base/switch_budget.h"

void lull_switch_budget_init(struct lull_switch_budget *budget, int64_t gap_ns, int64_t refill_ns)
{
    *budget = (struct lull_switch_budget){.gap_ns = gap_ns, .refill_ns = refill_ns};
    if (refill_ns != INT64_MAX)
        budget->saved_ns = LULL_SWITCH_BUDGET_SAVED * refill_ns;
}

/* Fills the bucket up to now. It holds time, of which refill_ns buys a lowering. */
static void save_up(struct lull_switch_budget *budget, int64_t now_ns)
{
    if (budget->refill_ns == INT64_MAX || now_ns <= budget->as_of_ns)
        return;
    if (now_ns - budget->as_of_ns > LULL_SWITCH_BUDGET_SAVED * budget->refill_ns - budget->saved_ns)
        budget->saved_ns = LULL_SWITCH_BUDGET_SAVED * budget->refill_ns;
    else
        budget->saved_ns += now_ns - budget->as_of_ns;
    budget->as_of_ns = now_ns;
}

void lull_switch_budget_raise(struct lull_switch_budget *budget, int64_t now_ns)
{
    save_up(budget, now_ns);
    budget->raised_ns = now_ns;
}

void lull_switch_budget_lower(struct lull_switch_budget *budget, int64_t now_ns)
{
    save_up(budget, now_ns);
    if (budget->raised_ns != 0 && now_ns < budget->raised_ns + budget->gap_ns)
        budget->saved_ns -=
            budget->saved_ns < budget->refill_ns ? budget->saved_ns : budget->refill_ns;
}

/* The gap after a raising ends in any case; a saved lowering only makes it end sooner. */
int64_t lull_switch_budget_from_ns(const struct lull_switch_budget *budget)
{
    const int64_t gap_over_ns = budget->raised_ns + budget->gap_ns;
    int64_t saved_up_ns;

    if (budget->raised_ns == 0)
        return 0;
    if (budget->refill_ns == INT64_MAX)
        return gap_over_ns;
    if (budget->saved_ns >= budget->refill_ns)
        return budget->raised_ns;
    saved_up_ns = budget->as_of_ns + budget->refill_ns - budget->saved_ns;
    if (saved_up_ns < gap_over_ns)
        return saved_up_ns;
    return gap_over_ns;
}
