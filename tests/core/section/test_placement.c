/*
 * Placement against an oracle that enumerates all possible cases: sets of GPUs that a process may
 * actually use. A GPU may be chosen only if it is used in every case that fits the observations.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../property.h"
#include "core/section/placement.h"

enum { NODE_GPUS = 5, WORLDS = 1 << NODE_GPUS, MAPPINGS = 1000 };

static uint64_t draw_set(struct lull_random *random)
{
    return lull_random_next(random) & lull_random_next(random) & (WORLDS - 1);
}

static bool is_subset(uint64_t part, uint64_t whole)
{
    return (part & ~whole) == 0;
}

/* The process uses a GPU at least. A list that can name it is complete, and what the environment
 * leaves it binds a process that was seen nowhere. */
static bool fits(const struct lull_placement_evidence *evidence, uint64_t used)
{
    const uint64_t seen = evidence->communicating | evidence->contexts | evidence->listed;

    if (used == 0 || !is_subset(seen, used))
        return false;
    if (seen == 0 && evidence->visible != 0)
        return is_subset(used, evidence->visible);
    return true;
}

/* The GPUs that are used in all worlds. */
static uint64_t find_certain(const struct lull_placement_evidence *evidence)
{
    uint64_t certain = WORLDS - 1;

    for (uint64_t used = 0; used < WORLDS; used++)
        if (fits(evidence, used))
            certain &= used;
    return certain;
}

/* Draws evidence about a process that uses these GPUs and may communicate from one of them. */
static struct lull_placement_evidence see(struct lull_random *random, uint64_t used, uint64_t main)
{
    struct lull_placement_evidence evidence = {.blind = draw_set(random)};

    if (lull_random_next(random) % 3 == 0)
        evidence.communicating = main;
    if (lull_random_next(random) % 3 == 0)
        evidence.contexts = used & draw_set(random);
    if (lull_random_next(random) % 3 == 0)
        evidence.visible = lull_random_next(random) % 2 == 0 ? used : used | draw_set(random);
    evidence.listed = used & ~evidence.blind & draw_set(random);
    return evidence;
}

static void test_f54_only_what_is_certain_is_chosen(void **state)
{
    uint32_t chosen = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= MAPPINGS; seed++) {
        struct lull_placement_evidence evidence;
        struct lull_random random;
        uint64_t main, used;
        uint32_t gpu = 64;

        lull_random_init(&random, seed);
        main = UINT64_C(1) << lull_random_below(&random, NODE_GPUS);
        used = main | (lull_random_below(&random, 2) == 0 ? 0 : draw_set(&random));
        evidence = see(&random, used, main);

        if (lull_placement_decide(&evidence, &gpu) != LULL_PLACEMENT_ON) {
            holds(gpu == 64, seed);
            continue;
        }
        chosen++;
        holds(gpu < NODE_GPUS, seed);
        holds((used >> gpu & 1) != 0, seed);
        holds((find_certain(&evidence) >> gpu & 1) != 0, seed);
        holds(evidence.communicating == 0 || evidence.communicating == UINT64_C(1) << gpu, seed);
    }
    assert_in_range(chosen, MAPPINGS / 3, MAPPINGS);
}

static enum lull_placement decide(struct lull_placement_evidence evidence, uint32_t *gpu_out)
{
    *gpu_out = 64;
    return lull_placement_decide(&evidence, gpu_out);
}

static void test_each_source_counts(void **state)
{
    uint32_t gpu;

    (void)state;
    assert_int_equal(decide((struct lull_placement_evidence){.listed = 4}, &gpu),
                     LULL_PLACEMENT_ON);
    assert_int_equal(gpu, 2);
    assert_int_equal(decide((struct lull_placement_evidence){.contexts = 8}, &gpu),
                     LULL_PLACEMENT_ON);
    assert_int_equal(gpu, 3);
    /* A context on GPU 0 beside the one that it communicates from. */
    assert_int_equal(
        decide((struct lull_placement_evidence){.communicating = 2, .contexts = 3, .listed = 3},
               &gpu),
        LULL_PLACEMENT_ON);
    assert_int_equal(gpu, 1);
    assert_int_equal(decide((struct lull_placement_evidence){.contexts = 1, .listed = 2}, &gpu),
                     LULL_PLACEMENT_SEVERAL);
    assert_int_equal(
        decide((struct lull_placement_evidence){.is_elsewhere = true, .listed = 1}, &gpu),
        LULL_PLACEMENT_ELSEWHERE);
}

static void test_the_environment_counts_where_nobody_can_see(void **state)
{
    uint32_t gpu;

    (void)state;
    assert_int_equal(decide((struct lull_placement_evidence){.visible = 2, .blind = 2}, &gpu),
                     LULL_PLACEMENT_ON);
    assert_int_equal(gpu, 1);
    /* The driver would have listed it. */
    assert_int_equal(decide((struct lull_placement_evidence){.visible = 2}, &gpu),
                     LULL_PLACEMENT_UNSEEN);
    assert_int_equal(decide((struct lull_placement_evidence){.visible = 2, .blind = 1}, &gpu),
                     LULL_PLACEMENT_UNSEEN);
    assert_int_equal(decide((struct lull_placement_evidence){.visible = 3, .blind = 3}, &gpu),
                     LULL_PLACEMENT_UNSEEN);
    assert_int_equal(
        decide((struct lull_placement_evidence){.visible = 2, .blind = 3, .contexts = 1}, &gpu),
        LULL_PLACEMENT_ON);
    assert_int_equal(gpu, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f54_only_what_is_certain_is_chosen),
        cmocka_unit_test(test_each_source_counts),
        cmocka_unit_test(test_the_environment_counts_where_nobody_can_see),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
