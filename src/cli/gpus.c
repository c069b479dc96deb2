/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/node_json.h"
#include "device/device.h"
#include "governor/report/report_fields.h"

enum { WANTED = LULL_READING_ALL | LULL_READING_PROFILES | LULL_READING_SMOOTHING };

static void set_profiles(json_t *object, const char *key, bool is_known, uint32_t profiles)
{
    json_object_set_new(
        object, key, is_known ? lull_node_words_json(lull_node_profiles, profiles) : json_null());
}

static json_t *gpu_json(struct lull_devices *devices, uint32_t gpu)
{
    const struct lull_device_info *info = lull_device_info(devices, gpu);
    struct lull_device_reading now;
    json_t *object;
    bool has_profiles;

    /* All readings are taken at once, so that they are of one moment as far as the driver
     * allows. */
    lull_device_read(devices, gpu, WANTED, &now);
    object = lull_node_gpu_json(gpu, info, &now);
    has_profiles = (now.valid & LULL_READING_PROFILES) != 0;
    set_profiles(object, "power_profiles", info->power_profiles != 0, info->power_profiles);
    set_profiles(object, "power_profiles_requested", has_profiles, now.requested_profiles);
    set_profiles(object, "power_profiles_enforced", has_profiles, now.enforced_profiles);
    lull_field_known(object, "power_smoothing_floor_w",
                     now.is_smoothing ? now.smoothing_floor_w : 0,
                     now.valid & LULL_READING_SMOOTHING);
    return object;
}

static int gpus_command_print_json(struct lull_devices *devices)
{
    json_t *document = json_object();
    json_t *gpus = json_array();

    for (uint32_t gpu = 0; gpu < lull_devices_count(devices); gpu++)
        json_array_append_new(gpus, gpu_json(devices, gpu));
    lull_field_text(document, "vendor", lull_devices_vendor(devices));
    lull_field_text(document, "driver_version", lull_devices_driver_version(devices));
    lull_field_json(document, "gpus", gpus);
    return lull_cli_print_json(document, 0);
}

static void gpus_command_print_words(const struct lull_node_word *words, uint64_t bits)
{
    const char *separator = "";

    for (; words->text != NULL; words++) {
        if ((bits & words->bit) == 0)
            continue;
        printf("%s%s", separator, words->text);
        separator = ", ";
    }
    if (separator[0] == '\0')
        putchar('-');
}

static void print_reading(bool is_valid, const char *before, double value, int digits,
                          const char *unit)
{
    if (is_valid)
        printf("%s%.*f %s", before, digits, value, unit);
}

/* A module's limit is not compared with the power of its GPU. */
static const char *limit_words(const struct lull_device_info *info,
                               const struct lull_device_reading *now)
{
    if (info->has_only_module_power)
        return "  power limit of the module ";
    return (now->valid & LULL_READING_POWER) != 0 ? " of " : "  power limit ";
}

static void gpus_command_print(struct lull_devices *devices, uint32_t gpu)
{
    const struct lull_device_info *info = lull_device_info(devices, gpu);
    const uint32_t count = info->sm_clock_count;
    struct lull_device_reading now;

    lull_device_read(devices, gpu, WANTED, &now);
    printf("%3u  %s  %s\n   ", gpu, info->name, info->uuid);
    if (now.valid == 0)
        printf("  its driver reports nothing about it");
    print_reading(now.valid & LULL_READING_SM_CLOCK, "  SM ", now.sm_mhz, 0, "MHz");
    if (count > 0)
        printf(" (%u to %u)", info->sm_clocks_mhz[count - 1], info->sm_clocks_mhz[0]);
    print_reading(now.valid & LULL_READING_MEMORY_CLOCK, "  memory ", now.memory_mhz, 0, "MHz");
    print_reading(now.valid & LULL_READING_POWER, "  power ", now.power_mw * 1e-3, 1, "W");
    if ((now.refused & LULL_READING_POWER) != 0)
        printf("  power not known (its reading is outside what the GPU can draw)");
    if (info->has_only_module_power)
        printf("  power not known (the driver reports only that of GPU and CPU together)");
    print_reading(now.valid & LULL_READING_POWER_LIMIT, limit_words(info, &now),
                  now.power_limit_mw * 1e-3, 0, "W");
    print_reading(now.valid & LULL_READING_ENERGY, "  energy ", (double)now.energy_mj * 1e-3, 0,
                  "J");
    print_reading(now.valid & LULL_READING_TEMPERATURE, "  ", now.temperature_c, 0, "C");
    printf("\n     reasons: ");
    gpus_command_print_words(lull_node_reasons, now.reasons);
    printf("  can: ");
    gpus_command_print_words(lull_node_capabilities, info->capabilities);
    if ((now.valid & LULL_READING_PROFILES) != 0) {
        printf("  power profiles: ");
        gpus_command_print_words(lull_node_profiles, now.enforced_profiles);
    }
    if (now.is_smoothing)
        printf("  power smoothing: floor %u W", now.smoothing_floor_w);
    putchar('\n');
}

struct gpus_arguments {
    bool is_json;
};

static int gpus_command_run(void *options, const struct lull_operands *operands)
{
    const struct gpus_arguments *const arguments = options;
    struct lull_devices *devices;
    struct lull_error err = {0};
    int result;

    (void)operands;
    result = lull_devices_open(&devices, &err);
    if (result < 0)
        return lull_cli_fail("gpus", &err);
    if (arguments->is_json)
        result = gpus_command_print_json(devices);
    else
        for (uint32_t gpu = 0; gpu < lull_devices_count(devices); gpu++)
            gpus_command_print(devices, gpu);
    lull_devices_close(devices);
    return result == 0 ? LULL_EXIT_OK : LULL_EXIT_FAILED;
}

static const struct lull_option rows[] = {LULL_JSON_ROW(struct gpus_arguments, is_json), {0}};

const struct lull_program_command lull_gpus_command = {
    .name = "gpus",
    .summary = "show the GPUs of this node",
    .about = "Lists the GPUs of this node: their clocks, power and temperature, why a clock is "
             "what it is, and what can be set.",
    .tables = {{rows, 0}},
    .size = sizeof(struct gpus_arguments),
    .run = gpus_command_run,
};
