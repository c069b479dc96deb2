/* Calibrations on disk: round trip, damage, and the places where they are searched for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/state_directory.h"
#include "core/stats/random.h"
#include "governor/control/calibration_file.h"

static char directory[] = "/tmp/lull-calibration-XXXXXX";
static char path[PATH_MAX]; /* of the file stored last */

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? -1 : setenv("LULL_STATE_DIR", directory, 1);
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static void fill(struct lull_calibration_switches *switches, uint32_t count,
                 struct lull_random *random)
{
    switches->count = count;
    for (uint32_t i = 0; i < count; i++) {
        switches->call_ms[i] = 5.0 * lull_random_uniform(random);
        switches->settle_ms[i] = i % 7 == 3 ? -1.0 : 20.0 * lull_random_uniform(random);
    }
}

static struct lull_calibration_record example(uint32_t targets, uint32_t count)
{
    struct lull_calibration_record record = {
        .gpu_name = "NVIDIA A100-SXM4-40GB",
        .driver_version = "535.104.05",
        .measured_s = 1700000000,
        .reference_mhz = 1410,
        .target_count = targets,
        .together_gpus = 4,
        .together_count = 3,
        .together_ms = {18.0, 19.5, 21.25},
    };
    struct lull_random random;

    lull_random_init(&random, 5);
    for (uint32_t i = 0; i < targets; i++) {
        record.targets[i].sm_mhz = 1200 - 100 * i;
        for (int k = 0; k < LULL_DIRECTION_COUNT; k++)
            fill(&record.targets[i].directions[k], count, &random);
    }
    return record;
}

static int load(struct lull_calibration_record *out, struct lull_error *err)
{
    return lull_calibration_load(directory, "NVIDIA A100-SXM4-40GB", "535.104.05", out, err);
}

static void assert_same(const struct lull_calibration_record *a,
                        const struct lull_calibration_record *b)
{
    assert_string_equal(a->gpu_name, b->gpu_name);
    assert_string_equal(a->driver_version, b->driver_version);
    assert_int_equal(a->measured_s, b->measured_s);
    assert_int_equal(a->reference_mhz, b->reference_mhz);
    assert_int_equal(a->target_count, b->target_count);
    assert_memory_equal(a->targets, b->targets, sizeof(a->targets));
    assert_int_equal(a->together_gpus, b->together_gpus);
    assert_int_equal(a->together_count, b->together_count);
    assert_memory_equal(a->together_ms, b->together_ms, sizeof(a->together_ms));
}

static void round_trip(void **state)
{
    (void)state;
    for (uint32_t targets = 1; targets <= LULL_CALIBRATION_TARGETS; targets++)
        for (uint32_t count = 0; count <= LULL_CALIBRATION_SWITCHES; count += 16) {
            const struct lull_calibration_record before = example(targets, count);
            struct lull_calibration_record after;

            assert_int_equal(lull_calibration_store(directory, &before, path, NULL), 0);
            assert_int_equal(load(&after, NULL), 0);
            assert_same(&before, &after);
        }
}

static void another_model_or_driver(void **state)
{
    const struct lull_calibration_record record = example(2, 4);
    struct lull_calibration_record out;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_calibration_store(directory, &record, path, NULL), 0);
    assert_int_equal(
        lull_calibration_load(directory, "NVIDIA A100-SXM4-40GB", "535.104.06", &out, NULL),
        -ENOENT);
    assert_int_equal(lull_calibration_load(directory, "NVIDIA H100", "535.104.05", &out, NULL),
                     -ENOENT);
    /* The same file name, but not the same model. */
    assert_int_equal(
        lull_calibration_load(directory, "NVIDIA/A100-SXM4-40GB", "535.104.05", &out, &err),
        LULL_E_FORMAT);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "another GPU"));
}

/* Whatever is on disk: a clear error or a whole record, and the output untouched on error. */
static void damage(void **state)
{
    static const struct {
        const char *from;
        const char *to;
    } rows[] = {
        {"\"version\": 1", "\"version\": 2"},
        {"\"version\": 1", "\"version\": 1.5"},
        {"\"measured_s\"", "\"measured_x\""},
        {"\"reference_sm_mhz\": 1410", "\"reference_sm_mhz\": -1"},
        {"\"sm_mhz\": 1200", "\"sm_mhz\": \"low\""},
        {"\"sm_mhz\": 1200", "\"sm_mhz\": 1200, \"sm_mhz\": 1200"},
        {"\"down\"", "\"left\""},
        {"\"together\"", "\"apart\""},
        {"\"gpus\": 4", "\"gpus\": 4e9"},
        {"\"targets\": [", "\"targets\": {}, \"x\": ["},
        {"\"call_ms\": [", "\"call_ms\": [null, "},
        {"\"call_ms\": [", "\"call_ms\": [-1.0, "},
        {"\"call_ms\": [", "\"call_ms\": [1.0, "}, /* one more than settle_ms */
        {"{", "["},
        {"}", ""},
    };
    const struct lull_calibration_record record = example(2, 4);
    struct lull_calibration_record out;
    char *text;
    size_t size;

    (void)state;
    assert_int_equal(lull_calibration_store(directory, &record, path, NULL), 0);
    assert_int_equal(lull_file_read(path, 1 << 20, &text, &size, NULL), 0);
    memset(&out, 0x5a, sizeof(out));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *place = strstr(text, rows[i].from);
        struct lull_error err = {0};
        char *damaged = NULL;

        assert_non_null(place);
        assert_true(asprintf(&damaged, "%.*s%s%s", (int)(place - text), text, rows[i].to,
                             place + strlen(rows[i].from)) > 0);
        assert_int_equal(lull_file_write_atomic(path, damaged, strlen(damaged), 0644, NULL), 0);
        free(damaged);
        if (load(&out, &err) != LULL_E_FORMAT)
            fail_msg("row %zu is taken for whole", i);
        assert_non_null(strstr(err.text, path));
        assert_non_null(strstr(err.text, "lull calibrate"));
    }
    for (size_t length = 0; length < size - 1; length += 1 + size / 200) {
        assert_int_equal(lull_file_write_atomic(path, text, length, 0644, NULL), 0);
        assert_int_equal(load(&out, NULL), LULL_E_FORMAT);
    }
    for (size_t i = 0; i < sizeof(out); i++)
        assert_int_equal(((unsigned char *)&out)[i], 0x5a);
    free(text);
}

static void found_where_it_is_kept(void **state)
{
    const struct lull_calibration_record record = example(2, 4);
    struct lull_calibration_record out;
    char own[PATH_MAX];

    (void)state;
    assert_int_equal(lull_state_directory_find(NULL, own, sizeof(own), NULL), 0);
    assert_string_equal(own, directory);
    assert_int_equal(lull_state_directory_find(NULL, own, 4, NULL), -ENAMETOOLONG);
    assert_int_equal(lull_calibration_store(own, &record, path, NULL), 0);
    assert_int_equal(lull_calibration_find(record.gpu_name, record.driver_version, &out), 0);
    assert_same(&record, &out);
    assert_int_equal(lull_calibration_find("no such GPU", "1", &out), -ENOENT);
    assert_int_equal(lull_file_write_atomic(path, "{", 1, 0644, NULL), 0);
    assert_int_equal(lull_calibration_find(record.gpu_name, record.driver_version, &out), -ENOENT);
}

/* Both are of the same model and driver, as on an emulated node of the real board. */
static void what_an_emulated_node_teaches_stays_there(void **state)
{
    const struct lull_calibration_record real = example(2, 4);
    const struct lull_calibration_record emulated = example(3, 8);
    struct lull_calibration_record out;
    char hardware[PATH_MAX];
    char apart[PATH_MAX];
    char kept[PATH_MAX];

    (void)state;
    unlink(path);
    assert_int_equal(lull_state_directory_find(NULL, hardware, sizeof(hardware), NULL), 0);
    setenv(LULL_EMULATED_NODE_VARIABLE, "/dev/shm/lull-node-x", 1);
    assert_int_equal(lull_state_directory_find(NULL, apart, sizeof(apart), NULL), 0);
    assert_int_equal(lull_calibration_store(apart, &emulated, kept, NULL), 0);
    unsetenv(LULL_EMULATED_NODE_VARIABLE);
    assert_int_equal(lull_calibration_find(real.gpu_name, real.driver_version, &out), -ENOENT);
    assert_int_equal(lull_calibration_store(hardware, &real, path, NULL), 0);
    assert_int_equal(lull_calibration_find(real.gpu_name, real.driver_version, &out), 0);
    assert_same(&real, &out);
    setenv(LULL_EMULATED_NODE_VARIABLE, "/dev/shm/lull-node-x", 1);
    assert_int_equal(lull_calibration_find(real.gpu_name, real.driver_version, &out), 0);
    assert_same(&emulated, &out);
    unlink(kept);
    assert_int_equal(lull_calibration_find(real.gpu_name, real.driver_version, &out), -ENOENT);
    unsetenv(LULL_EMULATED_NODE_VARIABLE);
    assert_int_equal(rmdir(apart), 0);
}

static void quantiles_leave_out_what_never_settled(void **state)
{
    struct lull_calibration_switches switches = {
        .count = 4, .call_ms = {4.0, 1.0, 3.0, 2.0}, .settle_ms = {-1.0, 10.0, 30.0, 20.0}};

    (void)state;
    assert_true(fabs(lull_calibration_call_ms(&switches, 0.5) - 2.5) < 1e-12);
    assert_true(fabs(lull_calibration_settle_ms(&switches, 0.5) - 20.0) < 1e-12);
    switches.count = 1;
    assert_true(isnan(lull_calibration_settle_ms(&switches, 0.5)));
    switches.count = 0;
    assert_true(isnan(lull_calibration_call_ms(&switches, 0.5)));
}

static void merging_takes_a_share_of_each(void **state)
{
    struct lull_calibration_record merged = example(3, 20);
    const struct lull_calibration_record other = example(2, 40);

    (void)state;
    lull_calibration_merge(&merged, &other, 32);
    assert_int_equal(merged.targets[0].directions[0].count, 52);
    assert_int_equal(merged.targets[1].directions[1].count, 52);
    assert_int_equal(merged.targets[2].directions[0].count, 20); /* the other has no such target */
    lull_calibration_merge(&merged, &other, 32);
    assert_int_equal(merged.targets[0].directions[0].count, LULL_CALIBRATION_SWITCHES);
    assert_true(merged.targets[0].directions[0].call_ms[63] ==
                other.targets[0].directions[0].call_ms[11]);
}

static void a_switch_cost_is_taught(void **state)
{
    const struct lull_calibration_record record = example(4, 32);
    struct lull_switch_cost cost = {0};

    (void)state;
    lull_calibration_apply(&record, &cost);
    for (int k = 0; k < LULL_DIRECTION_COUNT; k++) {
        assert_int_equal(cost.call_ms[k].count, LULL_QUANTILE_WINDOW);
        /* The last 16 rounds of every target. */
        for (uint32_t round = 16; round < 32; round++)
            for (uint32_t i = 0; i < 4; i++)
                assert_true(cost.call_ms[k].values[(round - 16) * 4 + i] ==
                            record.targets[i].directions[k].call_ms[round]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(another_model_or_driver),
        cmocka_unit_test(damage),
        cmocka_unit_test(found_where_it_is_kept),
        cmocka_unit_test(what_an_emulated_node_teaches_stays_there),
        cmocka_unit_test(quantiles_leave_out_what_never_settled),
        cmocka_unit_test(merging_takes_a_share_of_each),
        cmocka_unit_test(a_switch_cost_is_taught),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
