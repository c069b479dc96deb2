/*
 * Files of `lull calibrate`: refused with a message, or within the
 * documented ranges; then writing and reading again gives the same
 * values. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/control/calibration_file.c"

#include "fuzz.h"

static const char gpu_name[] = "NVIDIA A100-SXM4-40GB";
static const char driver_version[] = "550.54.15";

static void check_times(const double *values, uint32_t count, double least)
{
    require(count <= LULL_CALIBRATION_SWITCHES);
    for (uint32_t i = 0; i < count; i++)
        require(values[i] >= least && values[i] <= MAX_MS);
}

static void check_target(const struct lull_calibration_target *target)
{
    require(target->sm_mhz >= 1 && target->sm_mhz <= MAX_MHZ);
    for (int k = 0; k < LULL_DIRECTION_COUNT; k++) {
        const struct lull_calibration_switches *const switches = &target->directions[k];

        check_times(switches->call_ms, switches->count, 0.0);
        check_times(switches->settle_ms, switches->count, -1.0);
        require(!(lull_calibration_call_ms(switches, 0.99) < 0.0));
        require(!(lull_calibration_settle_ms(switches, 0.5) < 0.0));
    }
}

static void check(const struct lull_calibration_record *record)
{
    struct lull_switch_cost cost = {0};

    require(record->target_count >= 1 && record->target_count <= LULL_CALIBRATION_TARGETS);
    require(record->reference_mhz >= 1 && record->reference_mhz <= MAX_MHZ);
    require(record->together_gpus <= MAX_GPUS);
    check_times(record->together_ms, record->together_count, 0.0);
    for (uint32_t i = 0; i < record->target_count; i++)
        check_target(&record->targets[i]);
    (void)lull_calibration_together_ms(record, 0.9);
    lull_calibration_apply(record, &cost);
}

/* As the next run reads what this one would write. */
static void check_again(const struct lull_calibration_record *record)
{
    static struct lull_calibration_record again;
    json_t *root = lull_calibration_json(record);
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
    struct lull_error err = {0};

    require(text != NULL);
    memset(&again, 0, sizeof(again));
    require(calibration_file_parse(text, strlen(text), "again", gpu_name, driver_version, &again,
                                   &err) == 0);
    memcpy(again.gpu_name, record->gpu_name, sizeof(again.gpu_name));
    memcpy(again.driver_version, record->driver_version, sizeof(again.driver_version));
    require(memcmp(record, &again, sizeof(again)) == 0);
    free(text);
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lull_calibration_record record;
    static struct lull_calibration_record merged;
    struct lull_error err = {0};

    memset(&record, 0, sizeof(record));
    if (calibration_file_parse((const char *)data, size, "input", gpu_name, driver_version, &record,
                               &err) < 0) {
        require(err.text[0] != '\0');
        return 0;
    }
    memcpy(record.gpu_name, gpu_name, sizeof(gpu_name));
    memcpy(record.driver_version, driver_version, sizeof(driver_version));
    check(&record);
    check_again(&record);
    merged = record;
    lull_calibration_merge(&merged, &record, LULL_CALIBRATION_SWITCHES);
    check(&merged);
    return 0;
}
