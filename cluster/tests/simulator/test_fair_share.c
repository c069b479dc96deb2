/*
 * Rates of flows on shared links: on random networks against two independent checks (each flow has
 * a bottleneck; filling by bisection), and on links with known results. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fair_share.h"
#include "tests/core/property.h"

enum { LINKS = 6, FLOWS = 12, MOST_USES = 4 };

/* A network as the test knows it. */
struct net {
    struct lull_share_link links[LINKS];
    uint32_t link_count;
    struct lull_share_use uses[FLOWS][MOST_USES];
    uint32_t use_count[FLOWS]; /* 0: no such flow */
    double most[FLOWS];
    uint32_t number[FLOWS]; /* in the share */
};

static double load_of(const struct net *net, uint32_t link, const double *rates)
{
    double load = 0.0;

    for (int i = 0; i < FLOWS; i++)
        for (uint32_t k = 0; k < net->use_count[i]; k++)
            if (net->uses[i][k].link == link)
                load += rates[i] * net->uses[i][k].weight;
    return load;
}

/* A link's capacity by the definition: k flows at the time that a MB of each then takes. */
static double capacity_of(const struct net *net, uint32_t link)
{
    const struct lull_share_link *is = &net->links[link];
    double ones[FLOWS];
    double k;

    for (int i = 0; i < FLOWS; i++)
        ones[i] = 1.0;
    k = load_of(net, link, ones);
    if (k <= 1.0)
        return is->capacity_mb_s;
    return k * (1.0 / (k * (1.0 / is->capacity_mb_s) + (k - 1.0) * is->penalty_s_per_mb));
}

static bool uses_link(const struct net *net, int flow, uint32_t link)
{
    for (uint32_t k = 0; k < net->use_count[flow]; k++)
        if (net->uses[flow][k].link == link)
            return true;
    return false;
}

/* Nothing is overfull, and each flow is at its own most or is among the fastest of a full link.
 * That is so exactly for max-min rates. */
static void check_bottlenecks(const struct net *net, const double *rates, uint64_t seed)
{
    for (uint32_t link = 0; link < net->link_count; link++)
        holds(load_of(net, link, rates) <= capacity_of(net, link) * (1.0 + 1e-9), seed);
    for (int i = 0; i < FLOWS; i++) {
        bool has_one = net->use_count[i] == 0 || rates[i] >= net->most[i] * (1.0 - 1e-9);

        for (uint32_t k = 0; k < net->use_count[i]; k++) {
            const uint32_t link = net->uses[i][k].link;
            bool is_one = load_of(net, link, rates) >= capacity_of(net, link) * (1.0 - 1e-9);

            for (int other = 0; other < FLOWS; other++)
                if (uses_link(net, other, link) && rates[other] > rates[i] * (1.0 + 1e-9))
                    is_one = false;
            has_one |= is_one;
        }
        holds(has_one, seed);
    }
}

static bool is_feasible(const struct net *net, const double *rates)
{
    for (uint32_t link = 0; link < net->link_count; link++)
        if (load_of(net, link, rates) > capacity_of(net, link) * (1.0 + 1e-12))
            return false;
    for (int i = 0; i < FLOWS; i++)
        if (net->use_count[i] > 0 && rates[i] > net->most[i])
            return false;
    return true;
}

/* The highest rate that all flows that are not fixed can have, by bisection. Those that could have
 * a higher rate alone are not fixed yet. */
static void fill_by_bisection(const struct net *net, double *rates)
{
    bool is_fixed[FLOWS];
    int left = 0;

    for (int i = 0; i < FLOWS; i++) {
        is_fixed[i] = net->use_count[i] == 0;
        left += !is_fixed[i];
        rates[i] = 0.0;
    }
    while (left > 0) {
        double low = 0.0;
        double high = 1e4;

        for (int step = 0; step < 100; step++) {
            const double middle = 0.5 * (low + high);

            for (int i = 0; i < FLOWS; i++)
                rates[i] = is_fixed[i] ? rates[i] : middle;
            if (is_feasible(net, rates))
                low = middle;
            else
                high = middle;
        }
        for (int i = 0; i < FLOWS; i++)
            rates[i] = is_fixed[i] ? rates[i] : low;
        for (int i = 0; i < FLOWS; i++) {
            const double rate = rates[i];

            if (is_fixed[i])
                continue;
            rates[i] = rate * (1.0 + 1e-7);
            is_fixed[i] = !is_feasible(net, rates);
            left -= is_fixed[i];
            rates[i] = rate;
        }
    }
}

/* ---- random networks ------------------------------------------------------------------------ */

static void draw_links(struct net *net, struct lull_random *random)
{
    memset(net, 0, sizeof(*net));
    net->link_count = 1 + (uint32_t)lull_random_below(random, LINKS);
    for (uint32_t i = 0; i < net->link_count; i++) {
        net->links[i].capacity_mb_s = 1.0 + 99.0 * lull_random_uniform(random);
        if (lull_random_below(random, 3) == 0)
            net->links[i].penalty_s_per_mb = 0.02 * lull_random_uniform(random);
    }
}

static void draw_flow(struct net *net, int flow, struct lull_random *random)
{
    const uint32_t most = net->link_count < MOST_USES ? net->link_count : MOST_USES;

    net->use_count[flow] = 1 + (uint32_t)lull_random_below(random, most);
    for (uint32_t k = 0; k < net->use_count[flow]; k++) {
        struct lull_share_use *const use = &net->uses[flow][k];
        bool is_new;

        do {
            use->link = (uint32_t)lull_random_below(random, net->link_count);
            is_new = true;
            for (uint32_t before = 0; before < k; before++)
                is_new &= net->uses[flow][before].link != use->link;
        } while (!is_new);
        use->weight = lull_random_below(random, 3) > 0 ? 1.0 : 0.05 + lull_random_uniform(random);
    }
    net->most[flow] =
        lull_random_below(random, 4) == 0 ? 20.0 * lull_random_uniform(random) + 0.1 : INFINITY;
}

static void check_rates(struct net *net, struct lull_share *share, uint64_t seed)
{
    const uint32_t *changed;
    double rates[FLOWS] = {0};
    double expected[FLOWS];

    lull_share_update(share, &changed);
    for (int i = 0; i < FLOWS; i++)
        if (net->use_count[i] > 0)
            rates[i] = lull_share_rate_mb_s(share, net->number[i]);
    check_bottlenecks(net, rates, seed);
    fill_by_bisection(net, expected);
    for (int i = 0; i < FLOWS; i++)
        holds(fabs(rates[i] - expected[i]) <= 1e-5 * expected[i] + 1e-12, seed);
    holds(lull_share_update(share, &changed) == 0, seed);
}

static void test_random_networks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct lull_random random;
        struct lull_share *share;
        struct net net;

        lull_random_init(&random, seed);
        draw_links(&net, &random);
        share = lull_share_create(net.links, net.link_count, LULL_SHARE_MAX_MIN);
        for (int step = 0; step < 25; step++) {
            const int flow = (int)lull_random_below(&random, FLOWS);

            if (net.use_count[flow] > 0) {
                lull_share_remove(share, net.number[flow]);
                net.use_count[flow] = 0;
            } else {
                draw_flow(&net, flow, &random);
                assert_int_equal(lull_share_add(share, net.uses[flow], net.use_count[flow],
                                                net.most[flow], &net.number[flow]),
                                 0);
            }
            if (step % 3 != 0)
                check_rates(&net, share, seed);
        }
        lull_share_destroy(share);
    }
}

/* The rule busiest, come and gone, against its definition; it never gives more than max-min. */
static void test_busiest(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct lull_random random;
        struct lull_share *share;
        struct net net;
        const uint32_t *changed;

        lull_random_init(&random, seed);
        draw_links(&net, &random);
        share = lull_share_create(net.links, net.link_count, LULL_SHARE_BUSIEST);
        for (int step = 0; step < 40; step++) {
            const int flow = (int)lull_random_below(&random, FLOWS);

            if (net.use_count[flow] > 0) {
                lull_share_remove(share, net.number[flow]);
                net.use_count[flow] = 0;
            } else {
                draw_flow(&net, flow, &random);
                assert_int_equal(lull_share_add(share, net.uses[flow], net.use_count[flow],
                                                net.most[flow], &net.number[flow]),
                                 0);
            }
            lull_share_update(share, &changed);
            for (int i = 0; i < FLOWS; i++) {
                double ones[FLOWS];
                double rate = net.most[i];

                for (int k = 0; k < FLOWS; k++)
                    ones[k] = 1.0;
                for (uint32_t k = 0; k < net.use_count[i]; k++) {
                    const uint32_t link = net.uses[i][k].link;

                    rate = fmin(rate, capacity_of(&net, link) / load_of(&net, link, ones));
                }
                if (net.use_count[i] > 0)
                    assert_near(lull_share_rate_mb_s(share, net.number[i]), rate, 1e-9 * rate);
            }
        }
        lull_share_destroy(share);
    }
}

/* ---- known answers -------------------------------------------------------------------------- */

/* k transfers on one link move at the rates of Ada-SRSF's contention (arXiv 2002.10105). */
static void test_adadual(void **state)
{
    const struct lull_share_link link = {.capacity_mb_s = 1000.0 / 0.856,
                                         .penalty_s_per_mb = 0.235e-3};
    const struct lull_share_use use = {0, 1.0};

    (void)state;
    for (int rule = LULL_SHARE_MAX_MIN; rule <= LULL_SHARE_BUSIEST; rule++) {
        struct lull_share *share = lull_share_create(&link, 1, (enum lull_share_rule)rule);

        for (uint32_t k = 1; k <= 16; k++) {
            const uint32_t *changed;
            uint32_t flow;

            assert_int_equal(lull_share_add(share, &use, 1, INFINITY, &flow), 0);
            assert_int_equal(lull_share_update(share, &changed), k);
            assert_near(lull_share_rate_mb_s(share, 0), 1000.0 / (k * 0.856 + (k - 1.0) * 0.235),
                        1e-9);
        }
        lull_share_destroy(share);
    }
}

/* Flows that share no link with a changed flow are not touched. */
static void test_only_what_is_joined_changes(void **state)
{
    const struct lull_share_link links[] = {{10.0, 0.0}, {20.0, 0.0}, {40.0, 0.0}};
    const struct lull_share_use left[] = {{0, 1.0}};
    const struct lull_share_use both[] = {{0, 1.0}, {1, 1.0}};
    const struct lull_share_use right[] = {{1, 1.0}};
    const struct lull_share_use alone[] = {{2, 1.0}};
    struct lull_share *share = lull_share_create(links, 3, LULL_SHARE_MAX_MIN);
    const uint32_t *changed;
    uint32_t flows[4];
    uint32_t more;

    (void)state;
    lull_share_add(share, left, 1, INFINITY, &flows[0]);
    lull_share_add(share, both, 2, INFINITY, &flows[1]);
    lull_share_add(share, right, 1, INFINITY, &flows[2]);
    lull_share_add(share, alone, 1, INFINITY, &flows[3]);
    assert_int_equal(lull_share_update(share, &changed), 4);
    assert_near(lull_share_rate_mb_s(share, flows[0]), 5.0, 1e-12);
    assert_near(lull_share_rate_mb_s(share, flows[1]), 5.0, 1e-12);
    assert_near(lull_share_rate_mb_s(share, flows[2]), 15.0, 1e-12);
    assert_near(lull_share_rate_mb_s(share, flows[3]), 40.0, 1e-12);
    lull_share_add(share, alone, 1, 8.0, &more);
    assert_int_equal(lull_share_update(share, &changed), 2);
    assert_near(lull_share_rate_mb_s(share, flows[3]), 32.0, 1e-12);
    lull_share_remove(share, flows[1]);
    assert_int_equal(lull_share_update(share, &changed), 2);
    assert_near(lull_share_rate_mb_s(share, flows[0]), 10.0, 1e-12);
    assert_near(lull_share_rate_mb_s(share, flows[2]), 20.0, 1e-12);
    lull_share_destroy(share);
}

static void test_refused(void **state)
{
    const struct lull_share_link link = {1.0, 0.0};
    const struct lull_share_use use = {0, 1.0};
    const struct lull_share_use unknown = {1, 1.0};
    const struct lull_share_use weightless = {0, 0.0};
    const struct lull_share_use twice[] = {{0, 1.0}, {0, 1.0}};
    struct lull_share *share = lull_share_create(&link, 1, LULL_SHARE_MAX_MIN);
    const uint32_t *changed;
    uint32_t flow;

    (void)state;
    assert_true(lull_share_add(share, &use, 0, INFINITY, &flow) < 0);
    assert_true(lull_share_add(share, &unknown, 1, INFINITY, &flow) < 0);
    assert_true(lull_share_add(share, &weightless, 1, INFINITY, &flow) < 0);
    assert_true(lull_share_add(share, twice, 2, INFINITY, &flow) < 0);
    assert_true(lull_share_add(share, &use, 1, 0.0, &flow) < 0);
    assert_true(lull_share_add(share, &use, 1, NAN, &flow) < 0);
    assert_int_equal(lull_share_update(share, &changed), 0);
    lull_share_destroy(share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_networks), cmocka_unit_test(test_busiest),
        cmocka_unit_test(test_adadual),         cmocka_unit_test(test_only_what_is_joined_changes),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
