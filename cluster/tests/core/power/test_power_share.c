/* Shares of a power budget against all possible choices, and against an upper bound.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/stats/random.h"

enum { GROUPS = 4, CLAIMANTS = 4, PARTS = 6, LEVELS = 4 };

struct game {
    struct lull_power_group groups[GROUPS]; /* a cluster, a rack in it, two nodes in that */
    struct lull_power_claimant claimants[CLAIMANTS];
    struct lull_power_claim parts[PARTS];
};

static void make_claimant(struct lull_random *random, struct lull_power_claimant *claimant)
{
    *claimant = (struct lull_power_claimant){.weight = 0.5 + 3.0 * lull_random_uniform(random),
                                             .level_count =
                                                 1 + (uint32_t)lull_random_below(random, LEVELS)};
    claimant->least = (uint32_t)lull_random_below(random, claimant->level_count);
    claimant->speed[0] = 0.2 + lull_random_uniform(random);
    for (uint32_t k = 1; k < claimant->level_count; k++)
        claimant->speed[k] = claimant->speed[k - 1] + 0.01 + 0.3 * lull_random_uniform(random);
}

static void make_game(struct lull_random *random, struct game *game)
{
    static const uint32_t parents[GROUPS] = {LULL_POWER_NO_GROUP, 0, 1, 1};

    for (uint32_t g = 0; g < GROUPS; g++) {
        game->groups[g].parent = parents[g];
        game->groups[g].cap_w = 200.0 + 1500.0 * lull_random_uniform(random);
        if (lull_random_below(random, 3) == 0)
            game->groups[g].cap_w = INFINITY;
    }
    for (uint32_t c = 0; c < CLAIMANTS; c++)
        make_claimant(random, &game->claimants[c]);
    for (uint32_t p = 0; p < PARTS; p++) {
        struct lull_power_claim *part = &game->parts[p];

        part->claimant = (uint32_t)lull_random_below(random, CLAIMANTS);
        part->group = 1 + (uint32_t)lull_random_below(random, GROUPS - 1);
        part->power_w[0] = 100.0 * lull_random_uniform(random);
        for (uint32_t k = 1; k < LULL_POWER_LEVELS; k++)
            part->power_w[k] = part->power_w[k - 1] + 150.0 * lull_random_uniform(random) *
                                                          (double)lull_random_below(random, 2);
    }
}

/* Adds up independently of the code under test; returns the most by which a group is exceeded. */
static double excess_w(const struct game *game, const uint32_t *levels)
{
    double most_w = 0.0;

    for (uint32_t g = 0; g < GROUPS; g++) {
        double sum_w = 0.0;

        for (uint32_t p = 0; p < PARTS; p++) {
            uint32_t in = game->parts[p].group;

            while (in != g && in != LULL_POWER_NO_GROUP)
                in = game->groups[in].parent;
            if (in == g)
                sum_w += game->parts[p].power_w[levels[game->parts[p].claimant]];
        }
        most_w = fmax(most_w, sum_w - game->groups[g].cap_w);
    }
    return most_w;
}

static double value(const struct game *game, const uint32_t *levels)
{
    double sum = 0.0;

    for (uint32_t c = 0; c < CLAIMANTS; c++)
        sum += game->claimants[c].weight * log(game->claimants[c].speed[levels[c]]);
    return sum;
}

/* The best of all choices within the caps; -INFINITY: there is none. */
static double best_value(const struct game *game)
{
    uint32_t levels[CLAIMANTS];
    double best = -INFINITY;

    for (uint32_t code = 0; code < 256; code++) { /* LEVELS to the power of CLAIMANTS */
        bool is_possible = true;

        for (uint32_t c = 0; c < CLAIMANTS; c++) {
            levels[c] = code >> (2 * c) & 3;
            is_possible = is_possible && levels[c] >= game->claimants[c].least &&
                          levels[c] < game->claimants[c].level_count;
        }
        if (is_possible && excess_w(game, levels) <= 1e-6)
            best = fmax(best, value(game, levels));
    }
    return best;
}

/* The largest value of one step of a level: the possible loss of a full group by rounding to
 * levels. */
static double largest_step(const struct game *game)
{
    double most = 0.0;

    for (uint32_t c = 0; c < CLAIMANTS; c++) {
        const struct lull_power_claimant *who = &game->claimants[c];

        most = fmax(most,
                    who->weight * log(who->speed[who->level_count - 1] / who->speed[who->least]));
    }
    return most;
}

static void test_against_all_choices(void **state)
{
    struct lull_random random;
    struct game game;
    double lost = 0.0, possible = 0.0;
    uint32_t exact = 0, count = 0;

    (void)state;
    printf("seed 20\n");
    lull_random_init(&random, 20);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t levels[CLAIMANTS];
        double told_w, best;

        make_game(&random, &game);
        assert_int_equal(
            lull_power_share(&(struct lull_power_claims){game.groups, GROUPS, game.claimants,
                                                         CLAIMANTS, game.parts, PARTS},
                             levels, &told_w),
            0);
        for (uint32_t c = 0; c < CLAIMANTS; c++)
            assert_in_range(levels[c], game.claimants[c].least, game.claimants[c].level_count - 1);
        assert_true(fabs(told_w - excess_w(&game, levels)) < 1e-6);
        best = best_value(&game);
        if (!isfinite(best)) { /* the permitted reduction does not suffice */
            assert_true(told_w > 0.0);
            continue;
        }
        assert_true(told_w <= 1e-6);
        assert_true(value(&game, levels) <= best + 1e-9);
        assert_true(value(&game, levels) >= best - 2.0 * largest_step(&game));
        count++;
        exact += value(&game, levels) >= best - 1e-9;
        lost += best - value(&game, levels);
        possible +=
            best - value(&game, (uint32_t[]){game.claimants[0].least, game.claimants[1].least,
                                             game.claimants[2].least, game.claimants[3].least});
    }
    printf("%u games: %u exact, %.2f %% of what is to be gained is lost\n", count, exact,
           100.0 * lost / possible);
    assert_true(exact > 85 * count / 100);
    assert_true(lost < 0.05 * possible);
}

/* Equal claims fare equally, a heavier one better, and a rack's cap binds its own alone. */
static void test_fairness(void **state)
{
    struct lull_power_group groups[] = {{2000.0, LULL_POWER_NO_GROUP}, {450.0, 0}};
    struct lull_power_claimant claimants[3];
    struct lull_power_claim parts[3] = {{.claimant = 0}, {.claimant = 1}, {.claimant = 2}};
    const struct lull_power_claims claims = {groups, 2, claimants, 3, parts, 3};
    uint32_t levels[3];
    double told_w;

    (void)state;
    for (uint32_t c = 0; c < 3; c++) {
        claimants[c] =
            (struct lull_power_claimant){.weight = 1.0, .level_count = LULL_POWER_LEVELS};
        for (uint32_t k = 0; k < LULL_POWER_LEVELS; k++) {
            const double x = 0.15 + 0.85 * k / (LULL_POWER_LEVELS - 1.0);

            claimants[c].speed[k] = x;
            parts[c].power_w[k] = 80.0 + 320.0 * x * x * x;
        }
    }
    groups[0].cap_w = 750.0;
    assert_int_equal(lull_power_share(&claims, levels, &told_w), 0);
    assert_in_range(levels[0], levels[2], levels[2] + 1);
    assert_in_range(levels[1], levels[2], levels[2] + 1);
    claimants[2].weight = 3.0;
    assert_int_equal(lull_power_share(&claims, levels, &told_w), 0);
    assert_true(levels[2] > levels[0] + 3);
    claimants[2].weight = 1.0;
    groups[0].cap_w = INFINITY;
    parts[0].group = parts[1].group = 1;
    assert_int_equal(lull_power_share(&claims, levels, &told_w), 0);
    assert_int_equal(levels[2], LULL_POWER_LEVELS - 1);
    assert_true(levels[0] < LULL_POWER_LEVELS - 5);
    assert_true(parts[0].power_w[levels[0]] + parts[1].power_w[levels[1]] <= 450.0);
    claimants[0].least = claimants[1].least = LULL_POWER_LEVELS - 1;
    assert_int_equal(lull_power_share(&claims, levels, &told_w), 0);
    assert_true(fabs(told_w - 350.0) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all_choices),
        cmocka_unit_test(test_fairness),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
