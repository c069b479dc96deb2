/*
 * The pool of GPUs against linear searches in a plain list.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>

#include "lab/reproduce/edl/gpu_pool.h"
#include "tests/core/property.h"

enum { SEEDS = 40, STEPS = 400, GPUS = 200 };

struct plain {
    bool is_in[GPUS];
    bool is_new[GPUS];
    struct lull_gpu_state states[GPUS];
};

enum question { FREE_FIRST, FIRST, BEST, WORST, QUESTIONS };

static bool fits(const struct lull_gpu_need *need, double end_s)
{
    const double start_s = !need->is_now_ignored && need->now_s > end_s ? need->now_s : end_s;

    return need->deadline_s - start_s >= need->time_s;
}

/* Returns whether a, which comes later, is to be taken instead of b. */
static bool is_better(enum question question, struct lull_gpu_state a, struct lull_gpu_state b)
{
    if (question == FREE_FIRST)
        return a.end_s < b.end_s;
    if (question == BEST)
        return a.load_ratio >= b.load_ratio;
    return question == WORST && a.load_ratio < b.load_ratio;
}

static int64_t answer_plainly(const struct plain *plain, enum question question,
                              const struct lull_gpu_need *need)
{
    int64_t found = LULL_GPU_NONE;

    for (int update = 0; update < 2; update++)
        for (uint32_t i = 0; i < GPUS; i++) {
            if (!plain->is_in[i] || plain->is_new[i] != (update == 1))
                continue;
            if (question != FREE_FIRST && !fits(need, plain->states[i].end_s))
                continue;
            if (found == LULL_GPU_NONE ||
                is_better(question, plain->states[i], plain->states[found]))
                found = i;
        }
    return found;
}

static int64_t answer(const struct lull_gpu_pool *pool, enum question question,
                      const struct lull_gpu_need *need)
{
    switch (question) {
    case FREE_FIRST:
        return lull_gpu_pool_free_first(pool);
    case FIRST:
        return lull_gpu_pool_first_fit(pool, need);
    case BEST:
        return lull_gpu_pool_best_fit(pool, need);
    default:
        return lull_gpu_pool_worst_fit(pool, need);
    }
}

static void change(struct lull_random *random, struct lull_gpu_pool *pool, struct plain *plain)
{
    const uint32_t gpu = (uint32_t)lull_random_below(random, GPUS);

    if (lull_random_below(random, 10) == 0) {
        lull_gpu_pool_settle(pool);
        for (uint32_t i = 0; i < GPUS; i++)
            plain->is_new[i] = false;
    }
    if (!plain->is_in[gpu]) {
        assert_int_equal(lull_gpu_pool_add(pool, gpu), 0);
        plain->is_in[gpu] = true;
        plain->is_new[gpu] = true;
    } else if (lull_random_below(random, 4) == 0) {
        lull_gpu_pool_remove(pool, gpu);
        plain->is_in[gpu] = false;
    } else {
        /* Few values, so that many are equal. */
        plain->states[gpu] = (struct lull_gpu_state){
            .end_s = (double)lull_random_below(random, 12),
            .work_s = (double)lull_random_below(random, 100),
            .load_ratio = (double)lull_random_below(random, 6),
        };
        lull_gpu_pool_set(pool, gpu, plain->states[gpu]);
    }
}

static void test_as_a_plain_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct lull_gpu_pool *pool = lull_gpu_pool_create();
        struct plain plain = {{false}};
        struct lull_random random;

        assert_non_null(pool);
        lull_random_init(&random, seed);
        for (int step = 0; step < STEPS; step++) {
            const struct lull_gpu_need need = {
                .now_s = (double)lull_random_below(&random, 8),
                .is_now_ignored = lull_random_below(&random, 2) == 0,
                .time_s = (double)lull_random_below(&random, 8),
                .deadline_s = (double)lull_random_below(&random, 20),
            };
            const uint32_t gpu = (uint32_t)lull_random_below(&random, GPUS);

            for (int i = 0; i < QUESTIONS; i++)
                holds(answer(pool, (enum question)i, &need) ==
                          answer_plainly(&plain, (enum question)i, &need),
                      seed);
            if (plain.is_in[gpu])
                holds(lull_gpu_pool_get(pool, gpu).work_s == plain.states[gpu].work_s, seed);
            change(&random, pool, &plain);
        }
        lull_gpu_pool_destroy(pool);
    }
}

static void test_a_gpu_remembers(void **state)
{
    struct lull_gpu_pool *pool = lull_gpu_pool_create();

    (void)state;
    assert_int_equal(lull_gpu_pool_free_first(pool), LULL_GPU_NONE);
    assert_int_equal(lull_gpu_pool_add(pool, 3), 0);
    lull_gpu_pool_set(pool, 3, (struct lull_gpu_state){5.0, 6.0, 7.0});
    lull_gpu_pool_remove(pool, 3);
    assert_int_equal(lull_gpu_pool_free_first(pool), LULL_GPU_NONE);
    assert_int_equal(lull_gpu_pool_add(pool, 1000), 0); /* makes room */
    assert_int_equal(lull_gpu_pool_add(pool, 3), 0);
    assert_near(lull_gpu_pool_get(pool, 3).end_s, 5.0, 0.0);
    assert_int_equal(lull_gpu_pool_free_first(pool), 1000);
    assert_int_equal(lull_gpu_pool_add(pool, LULL_GPU_POOL_MAX), -E2BIG);
    lull_gpu_pool_destroy(pool);
    lull_gpu_pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_a_plain_list),
        cmocka_unit_test(test_a_gpu_remembers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
