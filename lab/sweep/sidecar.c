/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/sidecar.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json_string.h"
#include "base/text.h"
#include "lab/sweep/output.h"

void lull_sweep_hash_unit(const char *uuid, char hash_out[LULL_SWEEP_HASH])
{
    snprintf(hash_out, LULL_SWEEP_HASH, "%016" PRIx64, lull_text_hash(uuid));
}

json_t *lull_sweep_number(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *sidecar_list_numbers(const uint32_t *numbers, uint32_t count)
{
    json_t *const list = json_array();

    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

/* A power limit; null: the GPU has none. */
static json_t *limit_json(uint32_t limit_mw)
{
    return lull_sweep_number(limit_mw > 0 ? 1e-3 * limit_mw : NAN);
}

static json_t *describe_gpu(const struct lull_sweep_rig *rig)
{
    const struct lull_device_info *const info = lull_sweep_rig_info(rig);
    char hash[LULL_SWEEP_HASH];

    lull_sweep_hash_unit(info->uuid, hash);
    return json_pack(
        "{s:o, s:o, s:o, s:n, s:n, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "name",
        lull_json_string(info->name), "uuid_hash", lull_json_string(hash), "driver",
        lull_json_string(lull_sweep_rig_driver(rig)), "vbios", "cuda", "architecture",
        (json_int_t)info->architecture, "sm_clocks_mhz",
        sidecar_list_numbers(info->sm_clocks_mhz, info->sm_clock_count), "memory_clocks_mhz",
        sidecar_list_numbers(info->memory_clocks_mhz, info->memory_clock_count), "limit_min_w",
        limit_json(info->power_limit_min_mw), "limit_max_w", limit_json(info->power_limit_max_mw),
        "limit_default_w", limit_json(info->power_limit_default_mw), "limit_found_w",
        limit_json(lull_sweep_rig_limit_mw(rig)), "is_memory_clock_set", 0);
}

static json_t *describe_grid(const struct lull_sweep_points *points)
{
    json_t *const list = json_array();
    const struct lull_sweep_setting *const base = &points->settings[points->line - 1];

    for (uint32_t i = 0; i < points->count; i++) {
        const struct lull_sweep_setting *const setting = &points->settings[i];

        json_array_append_new(list,
                              json_pack("[i, i, o]", (int)setting->sm_mhz, (int)setting->mem_mhz,
                                        limit_json(setting->limit_mw)));
    }
    return json_pack("{s:o, s:[i, i, o], s:b}", "points_sm_mem_mhz_limit_w", list, "base",
                     (int)base->sm_mhz, (int)base->mem_mhz, limit_json(base->limit_mw),
                     "is_adaptive", points->is_adaptive);
}

static json_t *describe_protocol(const struct lull_sweep_requests *requests)
{
    const struct lull_sweep_protocol *const protocol = &requests->protocol;
    const struct lull_sweep_rules *const rules = &protocol->rules;

    return json_pack("{s:i, s:I, s:f, s:f, s:f, s:f, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}",
                     "repeats", (int)requests->repeats, "seed", (json_int_t)requests->seed,
                     "idle_s", protocol->idle_s, "soak_s", protocol->soak_s, "least_s",
                     rules->min_s, "most_s", rules->max_s, "least_launches",
                     (int)rules->min_launches, "least_refreshes", (int)rules->min_refreshes,
                     "interval_ratio", rules->interval_ratio, "noise_ratio", rules->noise_ratio,
                     "counter_ratio", rules->counter_ratio, "clock_ratio", rules->clock_ratio,
                     "warm_still_s", protocol->warm_s, "warm_most_s", protocol->warm_max_s);
}

static json_t *list_kernels(const struct lull_sweep_load *load)
{
    json_t *const list = json_array();

    for (uint32_t i = 0; i < lull_sweep_load_count(load); i++) {
        const struct lull_workload_kernel kernel = lull_sweep_load_kernel(load, i);
        char name[LULL_SWEEP_NAME], arg[LULL_SWEEP_NAME];

        lull_sweep_name(kernel.kernel, name);
        lull_sweep_name(kernel.arg, arg);
        json_array_append_new(list,
                              json_pack("[o, o]", lull_json_string(name), lull_json_string(arg)));
    }
    return list;
}

static json_t *list_words(char *const *command)
{
    json_t *list;

    if (command == NULL)
        return json_null();
    list = json_array();
    for (; *command != NULL; command++) {
        json_t *const word = lull_json_string(*command);

        /* An argument need not be UTF-8. */
        json_array_append_new(list, word != NULL ? word : lull_json_string("?"));
    }
    return list;
}

static json_t *date_now(void)
{
    const time_t now = time(NULL);
    char text[32] = "";
    struct tm when;

    if (gmtime_r(&now, &when) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &when);
    return lull_json_string(text);
}

json_t *lull_sweep_sidecar_make(const struct lull_sweep_requests *requests,
                                const struct lull_sweep_rig *rig,
                                const struct lull_sweep_load *load,
                                const struct lull_sweep_points *points, bool is_emulated)
{
    char host[256] = "";

    gethostname(host, sizeof(host) - 1);
    return json_pack("{s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:[], s:n, s:n, "
                     "s:n, s:n, s:{s:s, "
                     "s:s, s:s}}",
                     "schema", LULL_SWEEP_SCHEMA, "lull_version", LULL_VERSION, "date", date_now(),
                     "host", lull_json_string_or_null(host), "is_emulated", is_emulated, "gpu",
                     describe_gpu(rig), "grid", describe_grid(points), "suite",
                     lull_json_string(lull_sweep_load_kind(load)->name), "command",
                     list_words(requests->command), "kernels", list_kernels(load), "protocol",
                     describe_protocol(requests), "left_out", "ambient_c", "counter_refresh_ms",
                     "idle_w", "warmed_up_s", "unknown", "gpu.vbios", "Lull does not read it",
                     "gpu.cuda", "Lull does not read it", "ambient_c", "nothing here measures it");
}

int lull_sweep_sidecar_compare(const json_t *before, const json_t *now, const char *path,
                               struct lull_error *err)
{
    static const char *const parts[] = {"is_emulated", "grid",    "suite",
                                        "command",     "kernels", "protocol"};

    if (!json_equal(json_object_get(json_object_get(before, "gpu"), "uuid_hash"),
                    json_object_get(json_object_get(now, "gpu"), "uuid_hash")))
        return lull_error_set(err, -EINVAL, "%s: it is of another GPU; choose another file", path);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!json_equal(json_object_get(before, parts[i]), json_object_get(now, parts[i])))
            return lull_error_set(err, -EINVAL,
                                  "%s: belongs to a sweep with a different %s; use the same "
                                  "options and command, or choose another file",
                                  path, parts[i]);
    return 0;
}
