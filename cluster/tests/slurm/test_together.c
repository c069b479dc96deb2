/* Discovery among the governors of a step: the first node of lists, ports against an independent
 * count, keys, and the words of plugstack.conf. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/slurm/site.h"
#include "cluster/slurm/together.h"

static void test_the_first_node(void **state)
{
    static const struct {
        const char *nodes;
        const char *first;
    } rows[] = {
        {"n1", "n1"},
        {"n1,n2", "n1"},
        {"n[1-3]", "n1"},
        {"n[4,1-3]", "n4"},
        {"gpu-[007-128,200],login", "gpu-007"},
        {"rack[2-3]n[10-12]", "rack2n10"},
        {"n[1-2].example.org", "n1.example.org"},
        {"[1-2]", "1"},
    };
    static const char *const bad[] = {"",      ",n1", "n[",    "n[]", "n[1-2", "n[a-b]",
                                      "n[-1]", "n 1", "n1;rm", "n1]", "n[[1]", "tcp://n1"};
    char name[LULL_TOGETHER_NAME];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(lull_together_first_node(rows[i].nodes, name));
        assert_string_equal(name, rows[i].first);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(lull_together_first_node(bad[i], name));
}

/* Names as long as fit, and by one longer, with and without numbers. */
static void test_long_names(void **state)
{
    char nodes[2 * LULL_TOGETHER_NAME];
    char name[LULL_TOGETHER_NAME];

    (void)state;
    for (int length = LULL_TOGETHER_NAME - 12; length < LULL_TOGETHER_NAME + 3; length++) {
        snprintf(nodes, sizeof(nodes), "%0*d", length, 0);
        assert_int_equal(lull_together_first_node(nodes, name), length < LULL_TOGETHER_NAME);
        snprintf(nodes, sizeof(nodes), "%0*d[12345-12346]", length, 0);
        assert_int_equal(lull_together_first_node(nodes, name), length + 5 < LULL_TOGETHER_NAME);
    }
}

static void test_ports(void **state)
{
    static const char *const bad[] = {
        "",     "1",  "1-",   "-2",  "2-1",  "0-5",   "1-65536",
        "1-2 ", "on", "1--2", "a-b", "offf", "1-2-3", "4294967297-4294967298"};
    struct lull_together_ports ports = {7, 9};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(lull_together_take_ports(bad[i], &ports));
    assert_int_equal(ports.first, 7);
    assert_int_equal(ports.last, 9);
    assert_true(lull_together_take_ports("65535-65535", &ports));
    assert_int_equal(lull_together_port(&ports, 12, 34), 65535);
    assert_true(lull_together_take_ports("1-65535", &ports));
    assert_int_equal(lull_together_port(&ports, UINT32_MAX, UINT32_MAX),
                     1 + (UINT32_MAX + 97ULL * UINT32_MAX) % 65535);
    assert_true(lull_together_take_ports("off", &ports));
    assert_int_equal(lull_together_port(&ports, 1, 0), 0);
}

/* As many jobs as there are ports have different ports. So have as many
 * steps of one job, if their distance does not divide the number of ports. */
static void test_ports_do_not_meet(void **state)
{
    const struct lull_together_ports ports = {28000, 29999};
    uint8_t *const of_jobs = calloc(65536, 1);
    uint8_t *const of_steps = calloc(65536, 1);

    (void)state;
    assert_non_null(of_jobs);
    assert_non_null(of_steps);
    for (uint32_t i = 0; i < 2000; i++) {
        of_jobs[lull_together_port(&ports, 4000000000U + i, 0)]++;
        of_steps[lull_together_port(&ports, 4000000000U, i)]++;
    }
    for (uint32_t port = 0; port < 65536; port++) {
        assert_int_equal(of_jobs[port], port >= 28000 && port <= 29999);
        assert_int_equal(of_steps[port], port >= 28000 && port <= 29999);
    }
    free(of_jobs);
    free(of_steps);
}

static void test_keys(void **state)
{
    char key[LULL_TOGETHER_KEY_TEXT], other[LULL_TOGETHER_KEY_TEXT];
    bool is_seen[16] = {false};

    (void)state;
    assert_true(lull_together_draw_key(key));
    for (int i = 0; i < 100; i++) {
        assert_true(lull_together_draw_key(other));
        assert_true(lull_together_is_key(other));
        assert_string_not_equal(key, other);
        for (const char *c = other; *c != '\0'; c++)
            is_seen[strtoul((char[]){*c, '\0'}, NULL, 16)] = true;
    }
    for (int i = 0; i < 16; i++)
        assert_true(is_seen[i]);
    key[5] = 'g';
    assert_false(lull_together_is_key(key));
    other[63] = '\0';
    assert_false(lull_together_is_key(other));
    assert_false(lull_together_is_key(""));
}

static void test_words_of_a_site(void **state)
{
    static const char *const bad[] = {"",
                                      "lull=x",
                                      "runtime_dir=x",
                                      "start_ms=0",
                                      "start_ms=",
                                      "default=yes",
                                      "together_ports=1",
                                      "schedule",
                                      "scheduler=x",
                                      "default=on "};
    struct lull_site site = LULL_SITE_DEFAULT;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(lull_site_take(&site, bad[i]));
    setenv("SLURMD_NODENAME", "n7", 1);
    assert_true(lull_site_take(&site, "runtime_dir=/run/%n/lull"));
    assert_string_equal(site.runtime_dir, "/run/n7/lull");
    unsetenv("SLURMD_NODENAME");
    assert_true(lull_site_take(&site, "lull=/opt/lull"));
    assert_string_equal(site.program, "/opt/lull");
    assert_true(lull_site_take(&site, "scheduler=/opt/s"));
    assert_string_equal(site.scheduler, "/opt/s");
    assert_int_equal(site.ports.first, 28000);
    assert_true(lull_site_take(&site, "together_ports=5000-5009"));
    assert_int_equal(lull_together_port(&site.ports, 13, 0), 5003);
    assert_false(site.is_default || site.is_scheduled);
    assert_true(lull_site_take(&site, "default=on") && lull_site_take(&site, "schedule=on"));
    assert_true(site.is_default && site.is_scheduled);
    assert_true(lull_site_take(&site, "start_ms=17"));
    assert_int_equal(site.start_ms, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_node), cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_ports),          cmocka_unit_test(test_ports_do_not_meet),
        cmocka_unit_test(test_keys),           cmocka_unit_test(test_words_of_a_site),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
