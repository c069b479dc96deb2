/*
 * Profiling on recorded profiles of GPT-3 with measurement noise: the search finds the same valley
 * as the sweep, in a third of its iterations. SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/follow/profiling.h"
#include "../../property.h"

enum { STAGES = 8, CLOCKS = 128, MICROBATCHES = 16, EACH = 6, SKIPPED = 77 };

/* Of each stage and clock, the highest first. */
struct recorded {
    uint32_t clock_count;
    uint32_t mhz[CLOCKS];
    double time_s[STAGES][2][CLOCKS];
    double energy_j[STAGES][2][CLOCKS];
    double blocking_w;
};

static uint32_t find_clock(struct recorded *recorded, uint32_t mhz)
{
    uint32_t i = 0;

    while (i < recorded->clock_count && recorded->mhz[i] != mhz)
        i++;
    if (i == recorded->clock_count)
        recorded->mhz[recorded->clock_count++] = mhz;
    return i;
}

/* Files list the clocks of a stage from the highest down. */
static bool read_recorded(const char *name, double blocking_w, struct recorded *recorded)
{
    char path[512];
    char line[256];
    FILE *file;

    memset(recorded, 0, sizeof(*recorded));
    recorded->blocking_w = blocking_w;
    snprintf(path, sizeof(path), "%s/profiles/%s", LULL_SHARED_PIPELINE, name);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned stage;
        unsigned mhz;
        char word[16];
        double time_s;
        double energy_j;

        if (sscanf(line, "%u,%15[a-z],%u,%lf,%lf", &stage, word, &mhz, &time_s, &energy_j) == 5) {
            const uint32_t clock = find_clock(recorded, mhz);

            recorded->time_s[stage][word[0] != 'f'][clock] = time_s;
            recorded->energy_j[stage][word[0] != 'f'][clock] = energy_j;
        }
    }
    fclose(file);
    return true;
}

/* A stage's energy in an iteration with all GPUs at one clock: work, and waiting for the others. */
static double iteration_j(const struct recorded *recorded, uint32_t stage, uint32_t clock)
{
    const double busy_s = recorded->time_s[stage][0][clock] + recorded->time_s[stage][1][clock];
    const double slowest_s =
        recorded->time_s[STAGES - 1][0][clock] + recorded->time_s[STAGES - 1][1][clock];
    const double whole_s = (MICROBATCHES + STAGES - 1) * slowest_s;

    return MICROBATCHES *
               (recorded->energy_j[stage][0][clock] + recorded->energy_j[stage][1][clock]) +
           recorded->blocking_w * (whole_s - MICROBATCHES * busy_s);
}

static double min_j(const struct recorded *recorded, uint32_t stage)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < recorded->clock_count; i++)
        least = fmin(least, iteration_j(recorded, stage, i));
    return least;
}

/* The clock of a stage's least mean energy among those measured. */
static uint32_t valley_of(const struct lull_profiling *profiling, uint32_t stage, uint32_t clocks)
{
    uint32_t best = 0;

    for (uint32_t clock = 0; clock < clocks; clock++) {
        const struct lull_profiling_mean mean = lull_profiling_mean(profiling, stage, clock);

        if (mean.count > 0 &&
            (lull_profiling_mean(profiling, stage, best).count == 0 ||
             mean.energy_j < lull_profiling_mean(profiling, stage, best).energy_j))
            best = clock;
    }
    return best;
}

/* Returns the largest relative excess of the energy of the found clocks over that of the best ones,
 * without noise. */
static double loss_of(const struct recorded *recorded, const struct lull_profiling *profiling)
{
    double worst = 0;

    for (uint32_t stage = 0; stage < STAGES; stage++)
        worst = fmax(worst, iteration_j(recorded, stage,
                                        valley_of(profiling, stage, recorded->clock_count)) /
                                    min_j(recorded, stage) -
                                1);
    return worst;
}

static double profile(const struct recorded *recorded, enum lull_profiling_method method,
                      double noise, uint64_t seed, uint32_t *iterations_out)
{
    struct lull_profiling *profiling =
        lull_profiling_create(method, recorded->clock_count, STAGES, EACH);
    struct lull_profiling_sample samples[STAGES];
    struct lull_random random;
    uint32_t clock;
    double loss;

    lull_random_init(&random, seed);
    while (lull_profiling_next(profiling, &clock)) {
        for (uint32_t stage = 0; stage < STAGES; stage++)
            samples[stage] = (struct lull_profiling_sample){
                .energy_j = iteration_j(recorded, stage, clock) *
                            (1 + lull_random_normal(&random, 0, noise)),
                .forward_ms = 1e3 * recorded->time_s[stage][0][clock],
                .backward_ms = 1e3 * recorded->time_s[stage][1][clock],
            };
        lull_profiling_take(profiling, clock, samples);
    }
    *iterations_out = lull_profiling_iterations(profiling);
    loss = loss_of(recorded, profiling);
    lull_profiling_destroy(profiling);
    return loss;
}

static void check(const char *name, double blocking_w)
{
    enum { SEEDS = 100 };
    struct recorded *recorded = calloc(1, sizeof(*recorded));
    double sums[2] = {0};
    double worst[2] = {0};

    assert_true(read_recorded(name, blocking_w, recorded));
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint32_t sweep;
        uint32_t search;
        const double losses[2] = {
            profile(recorded, LULL_PROFILING_SWEEP, 0.002, seed, &sweep),
            profile(recorded, LULL_PROFILING_SEARCH, 0.002, seed + SEEDS, &search)};

        assert_int_equal(sweep, EACH * recorded->clock_count);
        holds(3 * search <= sweep, seed);
        for (int i = 0; i < 2; i++) {
            sums[i] += losses[i] / SEEDS;
            worst[i] = fmax(worst[i], losses[i]);
        }
    }
    print_message("%s: loss mean %.4f %% worst %.4f %% by sweep, %.4f %% and %.4f %% by search\n",
                  name, sums[0] * 100, worst[0] * 100, sums[1] * 100, worst[1] * 100);
    assert_true(sums[1] < sums[0] + 0.001);
    assert_true(worst[1] < worst[0] + 0.002);
    free(recorded);
}

static void test_search_finds_the_sweeps_valley(void **state)
{
    (void)state;
    check("gpt3-175b_a100_sxm_bf16_stage.csv", 8 * 83.64);
    check("gpt3-175b_a40_bf16_stage.csv", 8 * 70.38);
}

static void test_without_noise_the_valley_is_exact(void **state)
{
    struct recorded *recorded = calloc(1, sizeof(*recorded));
    uint32_t iterations;

    (void)state;
    assert_true(read_recorded("gpt3-175b_a100_sxm_bf16_stage.csv", 8 * 83.64, recorded));
    assert_true(profile(recorded, LULL_PROFILING_SEARCH, 0, 1, &iterations) < 1e-9);
    free(recorded);
}

/* Few clocks, as EnvPipe has on V100; and one. */
static void test_few_clocks_are_enough(void **state)
{
    (void)state;
    for (uint32_t clocks = 1; clocks <= 12; clocks++)
        for (uint32_t valley = 0; valley < clocks; valley++) {
            struct lull_profiling *profiling =
                lull_profiling_create(LULL_PROFILING_SEARCH, clocks, 1, EACH);
            uint32_t clock;

            while (lull_profiling_next(profiling, &clock)) {
                const double far = (double)clock - valley;

                lull_profiling_take(profiling, clock,
                                    &(struct lull_profiling_sample){.energy_j = 100 + far * far});
            }
            if (clocks >= 7)
                assert_int_equal(valley_of(profiling, 0, clocks), valley);
            assert_true(3 * lull_profiling_iterations(profiling) <= EACH * clocks);
            lull_profiling_destroy(profiling);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_clocks_are_enough),
        cmocka_unit_test(test_search_finds_the_sweeps_valley),
        cmocka_unit_test(test_without_noise_the_valley_is_exact),
    };
    struct recorded recorded;

    if (!read_recorded("gpt3-175b_a100_sxm_bf16_stage.csv", 0, &recorded)) {
        printf("skipped: no recorded profiles in %s\n", LULL_SHARED_PIPELINE);
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
