/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <errno.h>

#include "emulator/spec.h"

static void test_lists_of_counts_and_models(void **state)
{
    struct lull_node_spec spec = {.seed = 7};

    (void)state;
    assert_int_equal(lull_node_spec_parse("2xH100,A40,1xa100-sxm4-80gb", &spec, NULL), 0);
    assert_int_equal(spec.gpu_count, 4);
    assert_string_equal(spec.models[0]->name, "H100-SXM5");
    assert_string_equal(spec.models[1]->name, "H100-SXM5");
    assert_string_equal(spec.models[2]->name, "A40");
    assert_string_equal(spec.models[3]->name, "A100-SXM4-80GB");
    assert_int_equal(spec.seed, 7);
    assert_int_equal(lull_node_spec_parse("64xA40", &spec, NULL), 0);
    assert_int_equal(spec.gpu_count, 64);
}

static void test_malformed_specs_name_the_character(void **state)
{
    const struct {
        const char *text;
        const char *position;
    } cases[] = {
        {"", "character 1:"},
        {"2", "character 2:"},
        {"2yA100", "character 2:"},
        {"0xA100", "character 1:"},
        {"65xA100", "character 1:"},
        {"A100,", "character 6:"},
        {",A100", "character 1:"},
        {"A100 ", "character 5:"},
        {"2xA100;A40", "character 7:"},
        {"60xA40,5xA40", "character 8:"},
        {"99999999999999999999xA40", "character 1:"},
        {"2x", "character 3:"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_node_spec spec = {.gpu_count = 1};
        struct lull_error err = {0};

        assert_int_equal(lull_node_spec_parse(cases[i].text, &spec, &err), -EINVAL);
        printf("%s\n", err.text);
        assert_non_null(strstr(err.text, cases[i].position));
        assert_int_equal(spec.gpu_count, 1);
    }
}

static void test_unknown_models_are_answered_with_the_known(void **state)
{
    struct lull_node_spec spec = {0};
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_node_spec_parse("2xB300", &spec, &err), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "H100-SXM5"));
    assert_non_null(strstr(err.text, "RTXA5000"));
}

static void test_fault_lists(void **state)
{
    const char *text = "set_code=10x2,3:hang_ms=3000@50,no_effect,hang_ms=1x2@3";
    struct lull_fault_entry entry;

    (void)state;
    assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), 0);
    assert_int_equal(entry.gpu, -1);
    assert_int_equal(entry.kind, LULL_FAULT_SET_CODE);
    assert_true(entry.fault.value == 10);
    assert_int_equal(entry.fault.remaining, 2);
    assert_int_equal(entry.fault.spared, 0);
    assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), 0);
    assert_int_equal(entry.gpu, 3);
    assert_int_equal(entry.fault.remaining, LULL_FAULT_ALWAYS);
    assert_int_equal(entry.fault.spared, 50);
    assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), 0);
    assert_int_equal(entry.kind, LULL_FAULT_NO_EFFECT);
    assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), 0);
    assert_int_equal(entry.fault.remaining, 2);
    assert_int_equal(entry.fault.spared, 3);
    assert_string_equal(text, "");
}

static void test_faults_of_calls_name_them(void **state)
{
    const char *text = "1:deny=nvmlDeviceGetMaxClockInfo,deny=nvmlInit_v2/3x2,deny=off,off_bus";
    struct lull_fault_entry entry;

    (void)state;
    assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), 0);
    assert_string_equal(entry.call, "nvmlDeviceGetMaxClockInfo");
    assert_true(entry.fault.value == 4);
    assert_int_equal(entry.fault.remaining, LULL_FAULT_ALWAYS);
    assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), 0);
    assert_true(entry.fault.value == 3);
    assert_int_equal(entry.fault.remaining, 2);
    assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), 0);
    assert_int_equal(entry.fault.remaining, 0);
    assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), 0);
    assert_int_equal(entry.fault.remaining, 1); /* what happens to a GPU happens once */
}

static void test_malformed_faults_are_refused(void **state)
{
    const char *const texts[] = {"",
                                 "nothing",
                                 "set_code=",
                                 "set_code=x1",
                                 "set_code=1x0",
                                 "64:no_effect",
                                 "deny",
                                 "deny=4",
                                 "call_hang_ms=nvmlInit_v2",
                                 ":no_effect",
                                 "set_code=1x",
                                 "=1",
                                 "set_code=1@",
                                 "set_code=1@0",
                                 "set_code=1@2x3"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *text = texts[i];
        struct lull_fault_entry entry;

        assert_int_equal(lull_fault_parse_next(&text, &entry, NULL), -EINVAL);
        assert_ptr_equal(text, texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_counts_and_models),
        cmocka_unit_test(test_malformed_specs_name_the_character),
        cmocka_unit_test(test_unknown_models_are_answered_with_the_known),
        cmocka_unit_test(test_fault_lists),
        cmocka_unit_test(test_faults_of_calls_name_them),
        cmocka_unit_test(test_malformed_faults_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
