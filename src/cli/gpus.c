/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/command.h"
#include "device/device.h"
#include "governor/report/report_fields.h"

/* Short words for the reasons of a clock, and for what can be set. */
static const struct word {
    uint64_t bit;
    const char *text;
} reason_words[] =
    {
        {LULL_CLOCK_REASON_IDLE, "idle"},
        {LULL_CLOCK_REASON_SETTING, "application clocks"},
        {LULL_CLOCK_REASON_POWER_CAP, "power cap"},
        {LULL_CLOCK_REASON_HARDWARE_SLOWDOWN, "hw slowdown"},
        {LULL_CLOCK_REASON_SYNC_BOOST, "sync boost"},
        {LULL_CLOCK_REASON_THERMAL, "thermal"},
        {LULL_CLOCK_REASON_HARDWARE_THERMAL, "hw thermal"},
        {LULL_CLOCK_REASON_POWER_BRAKE, "power brake"},
        {LULL_CLOCK_REASON_DISPLAY, "display"},
},
  capability_words[] = {
      {LULL_CAPABILITY_SM_LOCK, "sm_lock"},
      {LULL_CAPABILITY_MEMORY_LOCK, "memory_lock"},
      {LULL_CAPABILITY_POWER_LIMIT, "power_limit"},
      {LULL_CAPABILITY_ENERGY_COUNTER, "energy_counter"},
      {LULL_CAPABILITY_INSTANT_POWER, "instant_power"},
};

enum {
    REASON_COUNT = sizeof(reason_words) / sizeof(reason_words[0]),
    CAPABILITY_COUNT = sizeof(capability_words) / sizeof(capability_words[0]),
};

static json_t *words_as_json(const struct word *words, size_t count, uint64_t bits)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        if ((bits & words[i].bit) != 0)
            json_array_append_new(array, json_string(words[i].text));
    return array;
}

/* A reading that is missing is null, never 0. */
static void set_integer(json_t *object, const char *key, bool is_valid, uint64_t value)
{
    json_object_set_new(object, key, is_valid ? json_integer((json_int_t)value) : json_null());
}

static json_t *gpu_as_json(struct lull_devices *devices, uint32_t gpu)
{
    const struct lull_device_info *info = lull_device_info(devices, gpu);
    const uint32_t count = info->sm_clock_count;
    struct lull_device_reading now;
    json_t *object = json_object();

    /* All readings are taken at once, so that they are of one moment as far as the driver allows.
     */
    lull_device_read(devices, gpu, LULL_READING_ALL, &now);
    lull_field_integer(object, "index", gpu);
    lull_field_text(object, "name", info->name);
    lull_field_text(object, "uuid", info->uuid);
    lull_field_text(object, "pci_bus_id", info->pci_bus_id);
    set_integer(object, "sm_clock_mhz", now.valid & LULL_READING_SM_CLOCK, now.sm_mhz);
    set_integer(object, "sm_clock_min_mhz", count > 0,
                count > 0 ? info->sm_clocks_mhz[count - 1] : 0);
    set_integer(object, "sm_clock_max_mhz", count > 0, info->sm_clocks_mhz[0]);
    set_integer(object, "memory_clock_mhz", now.valid & LULL_READING_MEMORY_CLOCK, now.memory_mhz);
    lull_field_known(object, "power_w", now.power_mw * 1e-3, now.valid & LULL_READING_POWER);
    lull_field_known(object, "power_limit_w", now.power_limit_mw * 1e-3,
                     now.valid & LULL_READING_POWER_LIMIT);
    lull_field_known(object, "energy_j", (double)now.energy_mj * 1e-3,
                     now.valid & LULL_READING_ENERGY);
    set_integer(object, "temperature_c", now.valid & LULL_READING_TEMPERATURE, now.temperature_c);
    lull_field_known(object, "utilization_ratio", now.utilization_percent * 1e-2,
                     now.valid & LULL_READING_UTILIZATION);
    json_object_set_new(object, "reasons",
                        (now.valid & LULL_READING_REASONS) != 0
                            ? words_as_json(reason_words, REASON_COUNT, now.reasons)
                            : json_null());
    json_object_set_new(object, "capabilities",
                        words_as_json(capability_words, CAPABILITY_COUNT, info->capabilities));
    return object;
}

static int print_json(struct lull_devices *devices)
{
    json_t *document = json_object();
    json_t *gpus = json_array();

    for (uint32_t gpu = 0; gpu < lull_devices_count(devices); gpu++)
        json_array_append_new(gpus, gpu_as_json(devices, gpu));
    lull_field_text(document, "vendor", lull_devices_vendor(devices));
    lull_field_text(document, "driver_version", lull_devices_driver_version(devices));
    lull_field_json(document, "gpus", gpus);
    return lull_cli_print_json(document, 0);
}

static void print_words(const struct word *words, size_t count, uint64_t bits)
{
    const char *separator = "";

    for (size_t i = 0; i < count; i++) {
        if ((bits & words[i].bit) == 0)
            continue;
        printf("%s%s", separator, words[i].text);
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

static void print_gpu(struct lull_devices *devices, uint32_t gpu)
{
    const struct lull_device_info *info = lull_device_info(devices, gpu);
    const uint32_t count = info->sm_clock_count;
    struct lull_device_reading now;

    lull_device_read(devices, gpu, LULL_READING_ALL, &now);
    printf("%3u  %s  %s\n   ", gpu, info->name, info->uuid);
    print_reading(now.valid & LULL_READING_SM_CLOCK, "  SM ", now.sm_mhz, 0, "MHz");
    if (count > 0)
        printf(" (%u to %u)", info->sm_clocks_mhz[count - 1], info->sm_clocks_mhz[0]);
    print_reading(now.valid & LULL_READING_MEMORY_CLOCK, "  memory ", now.memory_mhz, 0, "MHz");
    print_reading(now.valid & LULL_READING_POWER, "  power ", now.power_mw * 1e-3, 1, "W");
    print_reading(now.valid & LULL_READING_POWER_LIMIT,
                  (now.valid & LULL_READING_POWER) != 0 ? " of " : "  power limit ",
                  now.power_limit_mw * 1e-3, 0, "W");
    print_reading(now.valid & LULL_READING_ENERGY, "  energy ", (double)now.energy_mj * 1e-3, 0,
                  "J");
    print_reading(now.valid & LULL_READING_TEMPERATURE, "  ", now.temperature_c, 0, "C");
    printf("\n     reasons: ");
    print_words(reason_words, REASON_COUNT, now.reasons);
    printf("  can: ");
    print_words(capability_words, CAPABILITY_COUNT, info->capabilities);
    putchar('\n');
}

struct gpus_arguments {
    bool is_json;
};

static int run(void *options, const struct lull_operands *operands)
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
        result = print_json(devices);
    else
        for (uint32_t gpu = 0; gpu < lull_devices_count(devices); gpu++)
            print_gpu(devices, gpu);
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
    .run = run,
};
