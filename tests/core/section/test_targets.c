/*
 * The reason for a target's point, for every verdict of searches and proofs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller/state.h"

#include "../property.h"

enum { POINTS = 20 };

static const struct lull_controller_config config = {.together = true};
static struct lull_controlled_gpu gpu = {.points = POINTS};

/* Searches until the target is settled; points up to harmless pass. */
static void search(struct lull_targets *targets, uint32_t harmless)
{
    struct lull_target *target = &targets->list[0];

    while (!target->settled) {
        const bool passes = target->descent.candidate <= harmless;

        lull_targets_conclude(targets, target,
                              passes ? LULL_VERDICT_NOT_DEGRADED : LULL_VERDICT_DEGRADED);
    }
}

static void hold_reason(const struct lull_targets *targets, uint64_t seed)
{
    const struct lull_target *target = &targets->list[0];

    if (!target->settled)
        holds(target->reason == LULL_REASON_NONE, seed);
    else if (target->descent.good == POINTS - 1)
        holds(target->reason == LULL_REASON_LOWEST, seed);
    else
        holds(target->reason == LULL_REASON_DEGRADES_BELOW, seed);
}

static void test_reasons_tell_what_is_kept(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct lull_targets targets;
        struct lull_random random;

        lull_random_init(&random, seed);
        lull_targets_init(&targets, &config, &gpu, 1);
        lull_targets_add(&targets, seed,
                         lull_random_below(&random, 2) == 0 ? LULL_DESCENT_GALLOP
                                                            : LULL_DESCENT_BISECT);
        hold_reason(&targets, seed);
        for (int i = 0; i < 4; i++) {
            search(&targets, (uint32_t)lull_random_below(&random, POINTS));
            hold_reason(&targets, seed);
            if (lull_random_below(&random, 3) == 0)
                lull_targets_prove(&targets);
            lull_targets_back_off(&targets, 1 + (uint32_t)lull_random_below(&random, POINTS));
            hold_reason(&targets, seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reasons_tell_what_is_kept)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
