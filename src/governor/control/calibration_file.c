/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/calibration_file.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/state_directory.h"
#include "base/json_string.h"
#include "base/log.h"
#include "base/path.h"

static const char *const direction_names[LULL_DIRECTION_COUNT] = {"down", "up"};

enum { FORMAT_VERSION = 1, MAX_BYTES = 1 << 20, MAX_MHZ = 100000, MAX_MS = 600000, MAX_GPUS = 64 };

/* ---- contents of a record ---------------------------------------------------------------- */

/* Negative values (a clock that never settled) are left out. */
static double calibration_file_quantile(const double *values, uint32_t count, double p)
{
    struct lull_quantile held = {0};

    for (uint32_t i = 0; i < count; i++)
        if (values[i] >= 0.0)
            lull_quantile_add(&held, values[i]);
    return lull_quantile_get(&held, p);
}

double lull_calibration_call_ms(const struct lull_calibration_switches *switches, double p)
{
    return calibration_file_quantile(switches->call_ms, switches->count, p);
}

double lull_calibration_settle_ms(const struct lull_calibration_switches *switches, double p)
{
    return calibration_file_quantile(switches->settle_ms, switches->count, p);
}

double lull_calibration_together_ms(const struct lull_calibration_record *record, double p)
{
    return calibration_file_quantile(record->together_ms, record->together_count, p);
}

static void merge_switches(struct lull_calibration_switches *into,
                           const struct lull_calibration_switches *from, uint32_t limit)
{
    for (uint32_t i = 0; i < from->count && i < limit && into->count < LULL_CALIBRATION_SWITCHES;
         i++) {
        into->call_ms[into->count] = from->call_ms[i];
        into->settle_ms[into->count] = from->settle_ms[i];
        into->count++;
    }
}

void lull_calibration_merge(struct lull_calibration_record *into,
                            const struct lull_calibration_record *from, uint32_t limit)
{
    for (uint32_t i = 0; i < into->target_count; i++)
        for (uint32_t j = 0; j < from->target_count; j++)
            for (int k = 0; k < LULL_DIRECTION_COUNT; k++)
                if (into->targets[i].sm_mhz == from->targets[j].sm_mhz)
                    merge_switches(&into->targets[i].directions[k], &from->targets[j].directions[k],
                                   limit);
}

void lull_calibration_apply(const struct lull_calibration_record *record,
                            struct lull_switch_cost *cost)
{
    /* Round by round, so that the window of the cost contains all targets at the end. */
    for (uint32_t round = 0; round < LULL_CALIBRATION_SWITCHES; round++)
        for (uint32_t i = 0; i < record->target_count; i++)
            for (int k = 0; k < LULL_DIRECTION_COUNT; k++) {
                const struct lull_calibration_switches *switches =
                    &record->targets[i].directions[k];

                if (round < switches->count)
                    lull_switch_cost_add(cost, (enum lull_direction)k, switches->call_ms[round],
                                         switches->settle_ms[round]);
            }
}

/* ---- to JSON ----------------------------------------------------------------------------- */

static json_t *calibration_file_number_or_null(double value)
{
    return isfinite(value) && value >= 0.0 ? json_real(value) : json_null();
}

static json_t *numbers_json(const double *values, uint32_t count)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, calibration_file_number_or_null(values[i]));
    return array;
}

static json_t *quantiles_json(const double *values, uint32_t count)
{
    return json_pack(
        "{s:o, s:o, s:o}", "p50_ms",
        calibration_file_number_or_null(calibration_file_quantile(values, count, 0.5)), "p90_ms",
        calibration_file_number_or_null(calibration_file_quantile(values, count, 0.9)), "p99_ms",
        calibration_file_number_or_null(calibration_file_quantile(values, count, 0.99)));
}

static json_t *switches_json(const struct lull_calibration_switches *switches)
{
    uint32_t never_settled = 0;

    for (uint32_t i = 0; i < switches->count; i++)
        never_settled += switches->settle_ms[i] < 0.0;
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)switches->count,
                     "never_settled", (json_int_t)never_settled, "call",
                     quantiles_json(switches->call_ms, switches->count), "settle",
                     quantiles_json(switches->settle_ms, switches->count), "call_ms",
                     numbers_json(switches->call_ms, switches->count), "settle_ms",
                     numbers_json(switches->settle_ms, switches->count));
}

static json_t *target_json(const struct lull_calibration_target *target)
{
    json_t *object = json_pack("{s:I}", "sm_mhz", (json_int_t)target->sm_mhz);

    for (int k = 0; k < LULL_DIRECTION_COUNT; k++)
        json_object_set_new(object, direction_names[k], switches_json(&target->directions[k]));
    return object;
}

static json_t *together_json(const struct lull_calibration_record *record)
{
    if (record->together_gpus == 0)
        return json_null();
    return json_pack("{s:I, s:o, s:o}", "gpus", (json_int_t)record->together_gpus, "call",
                     quantiles_json(record->together_ms, record->together_count), "call_ms",
                     numbers_json(record->together_ms, record->together_count));
}

json_t *lull_calibration_json(const struct lull_calibration_record *record)
{
    const time_t seconds = (time_t)record->measured_s;
    json_t *targets = json_array();
    char date[32] = "";
    struct tm parts;

    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &parts);
    for (uint32_t i = 0; i < record->target_count; i++)
        json_array_append_new(targets, target_json(&record->targets[i]));
    return json_pack("{s:i, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "version", FORMAT_VERSION,
                     "gpu_name", lull_json_string(record->gpu_name), "driver_version",
                     lull_json_string(record->driver_version), "measured", lull_json_string(date),
                     "measured_s", (json_int_t)record->measured_s, "reference_sm_mhz",
                     (json_int_t)record->reference_mhz, "targets", targets, "together",
                     together_json(record));
}

/* ---- from JSON --------------------------------------------------------------------------- */

static int calibration_file_invalid(struct lull_error *err, const char *path, const char *what)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: %s; measure again with lull calibrate", path,
                          what);
}

/* Reads an array of times; null becomes -1 where it is allowed. Returns how many there are, or -1.
 */
static int calibration_file_read_numbers(const json_t *array, bool may_be_null, double *values_out)
{
    const size_t count = json_array_size(array);

    if (!json_is_array(array) || count > LULL_CALIBRATION_SWITCHES)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, i);

        if (json_is_null(value) && may_be_null) {
            values_out[i] = -1.0;
            continue;
        }
        values_out[i] = json_number_value(value);
        if (!json_is_number(value) || !(values_out[i] >= 0.0 && values_out[i] <= MAX_MS))
            return -1;
    }
    return (int)count;
}

static bool read_switches(const json_t *object, struct lull_calibration_switches *out)
{
    const int calls =
        calibration_file_read_numbers(json_object_get(object, "call_ms"), false, out->call_ms);
    const int settles =
        calibration_file_read_numbers(json_object_get(object, "settle_ms"), true, out->settle_ms);

    if (calls < 0 || calls != settles)
        return false;
    out->count = (uint32_t)calls;
    return true;
}

/* Reads a whole number in [min, max]. */
static bool calibration_file_read_integer(const json_t *value, json_int_t min, json_int_t max,
                                          uint32_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max)
        return false;
    *out = (uint32_t)json_integer_value(value);
    return true;
}

static bool read_target(const json_t *object, struct lull_calibration_target *out)
{
    if (!calibration_file_read_integer(json_object_get(object, "sm_mhz"), 1, MAX_MHZ, &out->sm_mhz))
        return false;
    for (int k = 0; k < LULL_DIRECTION_COUNT; k++)
        if (!read_switches(json_object_get(object, direction_names[k]), &out->directions[k]))
            return false;
    return true;
}

static bool read_targets(const json_t *array, struct lull_calibration_record *out)
{
    const size_t count = json_array_size(array);

    if (count == 0 || count > LULL_CALIBRATION_TARGETS)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!read_target(json_array_get(array, i), &out->targets[i]))
            return false;
    out->target_count = (uint32_t)count;
    return true;
}

static bool read_together(const json_t *object, struct lull_calibration_record *out)
{
    int count;

    if (json_is_null(object))
        return true;
    count =
        calibration_file_read_numbers(json_object_get(object, "call_ms"), false, out->together_ms);
    if (count < 0 || !calibration_file_read_integer(json_object_get(object, "gpus"), 2, MAX_GPUS,
                                                    &out->together_gpus))
        return false;
    out->together_count = (uint32_t)count;
    return true;
}

static int calibration_file_read_record(const json_t *root, const char *path,
                                        struct lull_calibration_record *out, struct lull_error *err)
{
    const json_t *measured = json_object_get(root, "measured_s");
    uint32_t version;

    if (!calibration_file_read_integer(json_object_get(root, "version"), FORMAT_VERSION,
                                       FORMAT_VERSION, &version))
        return calibration_file_invalid(err, path, "not a calibration of this version of Lull");
    if (!json_is_integer(measured))
        return calibration_file_invalid(err, path, "measured_s is missing or no whole number");
    out->measured_s = json_integer_value(measured);
    if (!calibration_file_read_integer(json_object_get(root, "reference_sm_mhz"), 1, MAX_MHZ,
                                       &out->reference_mhz))
        return calibration_file_invalid(err, path, "reference_sm_mhz is missing or no clock");
    if (!read_targets(json_object_get(root, "targets"), out))
        return calibration_file_invalid(err, path, "targets are missing, too many or invalid");
    if (!read_together(json_object_get(root, "together"), out))
        return calibration_file_invalid(err, path, "together is missing or not what it should be");
    return 0;
}

static bool calibration_file_is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static int calibration_file_parse(const char *data, size_t size, const char *path,
                                  const char *gpu_name, const char *driver_version,
                                  struct lull_calibration_record *out, struct lull_error *err)
{
    json_error_t error;
    json_t *root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    int result;

    if (root == NULL)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: line %d: %.80s; measure again with lull calibrate", path,
                              error.line, error.text);
    if (!calibration_file_is_text(json_object_get(root, "gpu_name"), gpu_name) ||
        !calibration_file_is_text(json_object_get(root, "driver_version"), driver_version))
        result = calibration_file_invalid(err, path, "it is of another GPU or driver");
    else
        result = calibration_file_read_record(root, path, out, err);
    json_decref(root);
    return result;
}

/* ---- files ------------------------------------------------------------------------------- */

static void append_plain(char *name, size_t size, const char *text)
{
    size_t length = strlen(name);

    for (; *text != '\0' && length + 1 < size; text++)
        name[length++] = isalnum((unsigned char)*text) || strchr(".-", *text) != NULL ? *text : '_';
    name[length] = '\0';
}

/* Two models may map to the same file name. The content identifies the model. */
static int calibration_file_make_path(const char *directory, const char *gpu_name,
                                      const char *driver_version, char *path_out,
                                      struct lull_error *err)
{
    char name[256] = "calibration-";

    append_plain(name, sizeof(name), gpu_name);
    append_plain(name, sizeof(name), "_");
    append_plain(name, sizeof(name), driver_version);
    if (snprintf(path_out, PATH_MAX, "%s/%s.json", directory, name) >= PATH_MAX)
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", directory);
    return 0;
}

int lull_calibration_store(const char *directory, const struct lull_calibration_record *record,
                           char *path_out, struct lull_error *err)
{
    char path[PATH_MAX];
    json_t *root;
    char *text;
    int result =
        calibration_file_make_path(directory, record->gpu_name, record->driver_version, path, err);

    if (result < 0)
        return result;
    result = lull_file_make_directory(directory, 0755, err);
    if (result < 0)
        return result;
    root = lull_calibration_json(record);
    text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    if (text == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory to write it", path);
    result = lull_file_write_atomic(path, text, strlen(text), 0644, err);
    free(text);
    if (result < 0)
        return result;
    if (path_out != NULL)
        memcpy(path_out, path, sizeof(path));
    return 0;
}

int lull_calibration_load(const char *directory, const char *gpu_name, const char *driver_version,
                          struct lull_calibration_record *record_out, struct lull_error *err)
{
    struct lull_calibration_record record = {0};
    char path[PATH_MAX];
    char *data;
    size_t size;
    int result = calibration_file_make_path(directory, gpu_name, driver_version, path, err);

    if (result == 0)
        result = lull_path_read(path, MAX_BYTES, LULL_PATH_LOOK_MS, &data, &size, err);
    if (result < 0)
        return result;
    result = calibration_file_parse(data, size, path, gpu_name, driver_version, &record, err);
    free(data);
    if (result < 0)
        return result;
    snprintf(record.gpu_name, sizeof(record.gpu_name), "%s", gpu_name);
    snprintf(record.driver_version, sizeof(record.driver_version), "%s", driver_version);
    *record_out = record;
    return 0;
}

int lull_calibration_find(const char *gpu_name, const char *driver_version,
                          struct lull_calibration_record *record_out)
{
    struct lull_error err = {0};
    char directories[2][PATH_MAX];
    size_t count = 0;

    if (lull_state_directory_find(NULL, directories[0], PATH_MAX, NULL) == 0)
        count++;
    if (lull_state_directory_find_node(directories[count], PATH_MAX, NULL) == 0 &&
        (count == 0 || strcmp(directories[0], directories[1]) != 0))
        count++;
    for (size_t i = 0; i < count; i++) {
        int result =
            lull_calibration_load(directories[i], gpu_name, driver_version, record_out, &err);

        if (result == 0)
            return 0;
        if (result != -ENOENT)
            lull_log(LULL_LOG_WARNING, "calibration", "%s", err.text);
    }
    return -ENOENT;
}
