/*
 * RAPL from a sysfs tree of files: zones that count, wrap-around, absence.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/rapl.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/lull-rapl-XXXXXX";

static void write_file(const char *zone, const char *file, const char *text)
{
    char path[PATH_MAX];
    FILE *stream;

    snprintf(path, sizeof(path), "%s/%s", root, zone);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/%s", root, zone, file);
    stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

static void write_zone(const char *zone, const char *name, const char *energy, const char *range)
{
    write_file(zone, "name", name);
    write_file(zone, "energy_uj", energy);
    write_file(zone, "max_energy_range_uj", range);
}

/* Two sockets as Linux shows them: nested zones, the platform, the same package once more. */
static void write_node(void)
{
    write_zone("intel-rapl:0", "package-0\n", "1000000\n", "262143328850\n");
    write_zone("intel-rapl:0:0", "core\n", "700000\n", "262143328850\n");
    write_zone("intel-rapl:0:1", "uncore\n", "100000\n", "262143328850\n");
    write_zone("intel-rapl:0:2", "dram\n", "500000\n", "65712999613\n");
    write_zone("intel-rapl:1", "package-1\n", "262143000000\n", "262143328850\n");
    write_zone("intel-rapl:1:0", "dram\n", "65712000000\n", "65712999613\n");
    write_zone("intel-rapl:2", "psys\n", "9000000\n", "262143328850\n");
    write_zone("intel-rapl-mmio:0", "package-0\n", "1000000\n", "262143328850\n");
}

static int clear(void **state)
{
    char command[PATH_MAX];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'/*", root);
    return system(command);
}

static struct lull_rapl *open_node(void)
{
    struct lull_rapl *rapl = NULL;
    struct lull_error err = {0};

    write_node();
    if (lull_rapl_open(root, &rapl, &err) < 0)
        fail_msg("%s", err.text);
    return rapl;
}

static void nested_zones_count_once(void **state)
{
    struct lull_rapl *rapl = open_node();
    struct lull_rapl_reading reading;

    (void)state;
    assert_int_equal(lull_rapl_zone_count(rapl, LULL_RAPL_CPU), 2);
    assert_int_equal(lull_rapl_zone_count(rapl, LULL_RAPL_DRAM), 2);
    lull_rapl_read(rapl, &reading);
    assert_true(reading.is_valid[LULL_RAPL_CPU] && reading.energy_j[LULL_RAPL_CPU] == 0.0);
    write_file("intel-rapl:0", "energy_uj", "4000000\n");
    write_file("intel-rapl:0:0", "energy_uj", "3000000\n");
    write_file("intel-rapl:2", "energy_uj", "99000000\n");
    write_file("intel-rapl-mmio:0", "energy_uj", "4000000\n");
    write_file("intel-rapl:0:2", "energy_uj", "750000\n");
    lull_rapl_read(rapl, &reading);
    assert_true(reading.energy_j[LULL_RAPL_CPU] == 3.0);
    assert_true(reading.energy_j[LULL_RAPL_DRAM] == 0.25);
    lull_rapl_close(rapl);
}

static void kinds_are_counted_apart(void **state)
{
    struct lull_rapl *rapl = NULL;
    struct lull_rapl_reading reading;

    (void)state;
    write_zone("intel-rapl:0", "package-0\n", "1000000\n", "262143328850\n");
    assert_int_equal(lull_rapl_open(root, &rapl, NULL), 0);
    assert_int_equal(lull_rapl_zone_count(rapl, LULL_RAPL_CPU), 1);
    assert_int_equal(lull_rapl_zone_count(rapl, LULL_RAPL_DRAM), 0);
    lull_rapl_read(rapl, &reading);
    assert_true(reading.is_valid[LULL_RAPL_CPU]);
    assert_false(reading.is_valid[LULL_RAPL_DRAM]);
    lull_rapl_close(rapl);
}

static void counters_wrap_around(void **state)
{
    struct lull_rapl *rapl = open_node();
    struct lull_rapl_reading reading;

    (void)state;
    write_file("intel-rapl:1", "energy_uj", "1671150\n"); /* 328850 to the end, and these */
    write_file("intel-rapl:1:0", "energy_uj", "387\n");
    lull_rapl_read(rapl, &reading);
    assert_true(reading.energy_j[LULL_RAPL_CPU] == 2.0);
    assert_true(reading.energy_j[LULL_RAPL_DRAM] == 1.0);
    write_file("intel-rapl:1", "energy_uj", "2671150\n");
    lull_rapl_read(rapl, &reading);
    assert_true(reading.energy_j[LULL_RAPL_CPU] == 3.0);
    lull_rapl_close(rapl);
}

static void what_cannot_be_read_is_not_zero(void **state)
{
    struct lull_rapl *rapl = open_node();
    struct lull_rapl_reading reading;

    (void)state;
    write_file("intel-rapl:1", "energy_uj", "garbage\n");
    lull_rapl_read(rapl, &reading);
    assert_false(reading.is_valid[LULL_RAPL_CPU]);
    assert_true(reading.is_valid[LULL_RAPL_DRAM]);
    write_file("intel-rapl:1", "energy_uj", "262143328850\n");
    lull_rapl_read(rapl, &reading);
    assert_true(reading.is_valid[LULL_RAPL_CPU]);
    lull_rapl_close(rapl);
}

static void absence_is_said(void **state)
{
    struct lull_rapl *rapl = NULL;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_rapl_open(root, &rapl, &err), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no RAPL zones"));
    assert_int_equal(lull_rapl_open("/nowhere/at/all", &rapl, &err), LULL_E_UNSUPPORTED);
    write_zone("intel-rapl:0", "package-0\n", "1\n", "2\n");
    write_zone("intel-rapl:1", "package-1\n", "\n", "2\n");
    assert_int_equal(lull_rapl_open(root, &rapl, &err), -EINVAL);
    assert_non_null(strstr(err.text, "intel-rapl:1/energy_uj"));
    assert_null(rapl);
}

static void a_file_for_root_says_so(void **state)
{
    struct lull_rapl *rapl = NULL;
    struct lull_error err = {0};
    char path[PATH_MAX];

    (void)state;
    if (geteuid() == 0)
        skip(); /* root may read everything */
    write_node();
    snprintf(path, sizeof(path), "%s/intel-rapl:0/energy_uj", root);
    chmod(path, 0);
    assert_int_equal(lull_rapl_open(root, &rapl, &err), -EACCES);
    assert_non_null(strstr(err.text, "only root can read"));
}

static void kinds_and_numbers(void **state)
{
    uint64_t value = 7;

    (void)state;
    assert_int_equal(lull_rapl_kind_of("intel-rapl:0", "package-0-die-1"), LULL_RAPL_CPU);
    assert_int_equal(lull_rapl_kind_of("intel-rapl:0:1", "package-0"), LULL_RAPL_NOT_ADDED);
    assert_int_equal(lull_rapl_kind_of("intel-rapl:0", "dram"), LULL_RAPL_NOT_ADDED);
    assert_int_equal(lull_rapl_kind_of("intel-rapl:", "package-0"), LULL_RAPL_NOT_ADDED);
    assert_int_equal(lull_rapl_kind_of("intel-rapl:0:", "dram"), LULL_RAPL_NOT_ADDED);
    assert_int_equal(lull_rapl_kind_of("intel-rapl:0:1:2", "dram"), LULL_RAPL_NOT_ADDED);
    assert_int_equal(lull_rapl_parse_uj("18446744073709551615\n", 21, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(lull_rapl_parse_uj("18446744073709551616", 20, &value), -EINVAL);
    assert_int_equal(lull_rapl_parse_uj("-1", 2, &value), -EINVAL);
    assert_int_equal(lull_rapl_parse_uj("1 ", 2, &value), -EINVAL);
    assert_int_equal(lull_rapl_parse_uj("", 0, &value), -EINVAL);
    assert_int_equal(lull_rapl_parse_uj("\n", 1, &value), -EINVAL);
    assert_int_equal(lull_rapl_parse_uj("1\n\n", 3, &value), -EINVAL);
    assert_int_equal(lull_rapl_parse_uj("1/", 2, &value), -EINVAL);
    assert_int_equal(lull_rapl_parse_uj("1:", 2, &value), -EINVAL);
    assert_int_equal(lull_rapl_parse_uj("1903", 3, &value), 0); /* its size counts */
    assert_int_equal(value, 190);
    assert_int_equal(lull_rapl_parse_uj("0", 1, &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(lull_rapl_grown_uj(90, 10, 100), 20);
    assert_int_equal(lull_rapl_grown_uj(90, 10, 0), 10);
    assert_int_equal(lull_rapl_grown_uj(10, 90, 0), 80);
    assert_int_equal(lull_rapl_grown_uj(10, 10, 100), 0);
    assert_int_equal(lull_rapl_grown_uj(100, 10, 100), 10);
    assert_int_equal(lull_rapl_grown_uj(101, 10, 100), 10); /* beyond its range: it was reset */
    assert_int_equal(lull_rapl_kind_of("intel-rapl:9999", "package-0"), LULL_RAPL_CPU);
    assert_int_equal(lull_rapl_kind_of("intel-rapl:10000", "package-0"), LULL_RAPL_NOT_ADDED);
    assert_int_equal(lull_rapl_kind_of("intel-rapl:1:9999", "dram"), LULL_RAPL_DRAM);
    assert_int_equal(lull_rapl_kind_of("intel-rapl:1", "package"), LULL_RAPL_NOT_ADDED);
    assert_int_equal(lull_rapl_kind_of("intel-rapx:1", "package-0"), LULL_RAPL_NOT_ADDED);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, NULL, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kinds_are_counted_apart),
        TEST(nested_zones_count_once),
        TEST(counters_wrap_around),
        TEST(what_cannot_be_read_is_not_zero),
        TEST(absence_is_said),
        TEST(a_file_for_root_says_so),
        cmocka_unit_test(kinds_and_numbers),
    };
    int failed;

    if (mkdtemp(root) == NULL)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(root);
    return failed;
}
