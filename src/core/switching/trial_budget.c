/* Budget of trials and kept points: pairs that are cut and put off. SPDX-License-Identifier:
 * Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/switching/trial_state.h"

/* A pair may begin only if the loss budget covers the iterations until harm
 * is noticed, each as slow as those of this point, or of the one before it. */
static const double seen_iterations = 2.0;
/* Iterations' worth of the loss budget that is reserved. Chosen with tools/audit-guard: with these
 * values runs of 100 and of 500 iterations stay within their tolerance. */
static const double reserved_new = 1.0;
static const double reserved_kept = 0.5;
/* A candidate is not checked any more if earning the overspent
 * loss back takes more iterations than this. */
enum { WAIT_MAX = 512 };
/* Ranks whose iterations differ by more than this factor do not wait for each other. */
static const double unlike_ratio = 1.5;

/* A loss is noticed an iteration or two late, and an untried candidate may lose more. */
static double left_ms(const struct lull_trial *trial, uint32_t rank)
{
    const bool is_new = trial->kind == LULL_TRIAL_SCREEN || trial->kind == LULL_TRIAL_PROOF;

    return lull_loss_budget_left_ms(&trial->ranks[rank].losses,
                                    is_new ? reserved_new : reserved_kept);
}

bool lull_trial_is_spent(const struct lull_trial *trial, uint32_t rank)
{
    return trial->terms.loss_ratio > 0.0 && left_ms(trial, rank) < 0.0;
}

/* Time until the poorest rank can afford the first iterations at the candidate, and the length of
 * its iterations. */
static double trial_budget_wait_ms(const struct lull_trial *trial, double *iteration_ms_out)
{
    double longest_ms = 0.0;

    *iteration_ms_out = 1.0;
    if (trial->config.is_aligned || trial->terms.loss_ratio <= 0.0)
        return 0.0;
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const struct lull_loss_budget *losses = &trial->ranks[i].losses;
        const double reserve_ms = seen_iterations * lull_loss_budget_expected_ms(losses);
        const double missing_ms = reserve_ms - left_ms(trial, i);

        if (missing_ms <= longest_ms * losses->rate)
            continue;
        longest_ms = missing_ms / losses->rate;
        *iteration_ms_out = losses->reference.mean_ms;
    }
    return longest_ms;
}

bool lull_trial_affords_check(const struct lull_trial *trial)
{
    double iteration_ms;
    const double all_ms = trial_budget_wait_ms(trial, &iteration_ms);

    return all_ms <= WAIT_MAX * iteration_ms;
}

uint64_t lull_trial_wait_iterations(const struct lull_trial *trial, uint32_t rank)
{
    double iteration_ms;
    const double all_ms = trial_budget_wait_ms(trial, &iteration_ms);
    const double own_ms = trial->ranks[rank].losses.reference.mean_ms;

    if (own_ms > 0.0 && fabs(log(own_ms / iteration_ms)) > log(unlike_ratio))
        iteration_ms = own_ms;
    return (uint64_t)ceil(all_ms / iteration_ms);
}

void lull_trial_put_off_next_pair(struct lull_trial *trial)
{
    double iteration_ms;
    const uint64_t over =
        lull_pair_schedule_begin(&trial->schedule, trial->next_pair - trial->first_pair);

    if (trial_budget_wait_ms(trial, &iteration_ms) <= 0.0)
        return;
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        trial->ranks[i].base += over + lull_trial_wait_iterations(trial, i);
        memset(trial->ranks[i].sides, 0, sizeof(trial->ranks[i].sides));
        trial->ranks[i].begun = (struct lull_trial_side){0};
    }
    trial->first_pair = trial->next_pair;
    trial->schedule.seed++;
}

void lull_trial_cut_pair(struct lull_trial *trial, struct lull_trial_rank *rank,
                         const struct lull_pair_slot *slot)
{
    const struct lull_trial_cut cut = {slot->pair, slot->offset + 1};

    rank->cut = cut;
    if (trial->cut.from == UINT64_MAX || trial->cut.pair != slot->pair)
        trial->cut = cut;
}
