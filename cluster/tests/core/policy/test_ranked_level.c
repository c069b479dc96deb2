/*
 * A ranked policy chooses the clocks of running jobs again if the level differs by over a twentieth
 * from that of the last choice, in either direction. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/core/policy/ranked_state.h"

static double weight_of(const struct lull_ranked *policy, const struct lull_queue_stats *queue)
{
    (void)policy;
    return queue->weight;
}

static void small_changes_are_left_alone(void **state)
{
    const struct {
        double level;
        bool is_new;
    } steps[] = {
        {100.0, true}, {100.0, false}, {104.9, false}, {95.3, false}, /* each of 100 */
        {105.1, true}, {100.2, false}, {100.0, true}, /* of 105.1, down by over a twentieth */
        {94.0, true},  {0.0, true},    {0.0, false},
    };
    const struct lull_cluster_ranking ranking = {.level = weight_of};
    struct lull_queue_stats queues[2] = {{.weight = 1.0}, {.weight = 0.0}};
    struct lull_ranked_group groups[2] = {0};
    struct lull_ranked policy = {.ranking = &ranking, .queues = queues, .groups = groups};

    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        groups[1].barren_gpus = 3;
        queues[1].weight = steps[i].level;
        if (lull_ranked_has_new_level(&policy, 1) != steps[i].is_new)
            fail_msg("level %zu, %g", i, steps[i].level);
        /* At another level free GPUs may be worth something after all. */
        assert_int_equal(groups[1].barren_gpus, steps[i].is_new ? 0 : 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_changes_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
