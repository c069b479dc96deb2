/* SPDX-License-Identifier: Apache-2.0 */
#include "device/levelzero_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "device/levelzero.h"

#define SYMBOL(type, member, name, older_name)                                                     \
    {offsetof(struct lull_levelzero, member), name, older_name},
static const struct lull_library_symbol symbols[] = {LEVELZERO_CALLS(SYMBOL)};

static const struct lull_library_meaning meanings[] = {
    {0, 0, "success"},
    {1, -EAGAIN, "not ready"},
    {0x70000001, LULL_E_NO_DEVICE, "the GPU is lost; the node may need a restart"},
    {0x70000002, -EAGAIN, "no memory"},
    {0x70000003, -EAGAIN, "the GPU has no memory left"},
    {0x70000006, LULL_E_NO_DEVICE, "the GPU needs a reset"},
    {0x70000007, -EAGAIN, "the GPU sleeps"},
    {0x70010000, -EPERM, "not permitted: needs root or write access to the driver's files"},
    {0x70010001, -EAGAIN, "not available now"},
    {0x70020000, LULL_E_NO_DEVICE, "a library that it needs is missing"},
    {0x78000001, LULL_E_NO_DEVICE, "there is no driver, or it is not initialised"},
    {0x78000002, LULL_E_UNSUPPORTED, "the driver does not support this version"},
    {0x78000003, LULL_E_UNSUPPORTED, "not supported by this GPU or driver"},
    {0x78000004, -EINVAL, "invalid argument"},
    {0x78000005, -EINVAL, "a missing handle"},
    {0x78000006, -EAGAIN, "in use"},
    {0x78000007, -EINVAL, "a missing argument"},
    {0x78000008, -EINVAL, "invalid size"},
    {0x78000009, LULL_E_UNSUPPORTED, "unsupported size"},
    {0x7800000c, -EINVAL, "invalid value"},
    {0x7800000d, LULL_E_UNSUPPORTED, "unsupported value"},
    {0x78000020, LULL_E_NO_DEVICE, "the GPU is in survivability mode: its firmware needs repair"},
    {0x7ffffffe, LULL_E_DRIVER, "unknown error of the driver"},
};

const struct lull_library_meaning *lull_levelzero_meaning(int code)
{
    return lull_library_meaning(meanings, sizeof(meanings) / sizeof(meanings[0]), code);
}

static int levelzero_load_library(struct lull_levelzero *levelzero, struct lull_error *err)
{
    static const char *const names[] = {"libze_loader.so.1", NULL};
    int result =
        lull_library_open_driver("LULL_LEVEL_ZERO", names, "Intel", &levelzero->library,
                                 levelzero->library_name, sizeof(levelzero->library_name), err);

    if (result < 0)
        return result;
    lull_library_bind(levelzero->library, levelzero, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (levelzero->init == NULL || levelzero->drivers == NULL || levelzero->devices == NULL ||
        levelzero->device_properties == NULL || levelzero->frequency_domains == NULL ||
        levelzero->frequency_properties == NULL || levelzero->frequency_state == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%s: lacks the basic functions of Sysman; is it Level Zero 1.5 or "
                              "newer?",
                              levelzero->library_name);
    return 0;
}

/* ---- parts of a card ---- */

static uint32_t levelzero_list(zes_call_list_of *call, void *parent, void **handles)
{
    uint32_t count = ZES_MAX_DOMAINS;

    return call != NULL && call(parent, &count, handles) == ZE_OK ? count : 0;
}

/* Returns the library's code. */
static int levelzero_find_clocks(struct lull_levelzero *levelzero, struct zes_card *card)
{
    void *domains[ZES_MAX_DOMAINS];
    uint32_t count = ZES_MAX_DOMAINS;
    const int code = levelzero->frequency_domains(card->device, &count, domains);

    if (code != ZE_OK)
        return code;
    card->can_control = levelzero->set_range != NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct zes_frequency_properties domain = {.head.type = ZES_TYPE_FREQUENCY_PROPERTIES};

        if (levelzero->frequency_properties(domains[i], &domain.head) != ZE_OK)
            continue;
        if (domain.kind == ZES_FREQUENCY_MEMORY && card->memory_clock == NULL)
            card->memory_clock = domains[i];
        if (domain.kind != ZES_FREQUENCY_GPU)
            continue;
        card->clocks[card->clock_count++] = domains[i];
        card->can_control = card->can_control && domain.can_control != 0;
    }
    return ZE_OK;
}

/* The domain of the card counts everything. Only if there is none are those of its stacks added up.
 */
static void find_counters(struct lull_levelzero *levelzero, struct zes_card *card)
{
    void *domains[ZES_MAX_DOMAINS];
    const uint32_t count = levelzero_list(levelzero->power_domains, card->device, domains);

    for (uint32_t i = 0; levelzero->power_properties != NULL && i < count; i++) {
        struct zes_power_properties domain = {.head.type = ZES_TYPE_POWER_PROPERTIES};

        if (levelzero->power_properties(domains[i], &domain.head) != ZE_OK)
            continue;
        if (domain.is_on_subdevice == 0) {
            card->counters[0] = domains[i];
            card->counter_count = 1;
            card->power = domain;
            return;
        }
        card->counters[card->counter_count++] = domains[i];
    }
}

/* A GPU inside a CPU draws the power of the CPU, so it is passed over. */
static bool is_card(const struct zes_card *card)
{
    return card->properties.core.type == ZE_DEVICE_GPU &&
           (card->properties.core.flags & ZE_FLAG_INTEGRATED) == 0;
}

/* Finds the first part of one of two kinds; a part of the whole card goes before one of a stack. */
static void *find_part(zes_call_list_of *enumerate, zes_call_info *describe, void *device,
                       uint32_t type, const int32_t kinds[2])
{
    void *parts[ZES_MAX_DOMAINS];
    const uint32_t count = describe == NULL ? 0 : levelzero_list(enumerate, device, parts);
    void *found = NULL;

    for (uint32_t i = 0; i < count; i++) {
        struct zes_part_properties part = {.head.type = type};

        if (describe(parts[i], &part.head) != ZE_OK ||
            (part.kind != kinds[0] && part.kind != kinds[1]))
            continue;
        if (part.is_on_subdevice == 0)
            return parts[i];
        found = found == NULL ? parts[i] : found;
    }
    return found;
}

int lull_levelzero_open_card(struct lull_levelzero *levelzero, struct zes_card *card)
{
    static const int32_t sensors[] = {ZES_SENSOR_GLOBAL, ZES_SENSOR_GPU};
    static const int32_t engines[] = {ZES_ENGINE_COMPUTE_ALL, ZES_ENGINE_ALL};
    void *device = card->device;

    if (card->failure == ZE_OK)
        return ZE_OK;
    *card = (struct zes_card){.device = device};
    card->properties.head.type = ZES_TYPE_DEVICE_PROPERTIES;
    card->properties.core.head.type = ZE_TYPE_DEVICE_PROPERTIES;
    card->failure = levelzero->device_properties(device, &card->properties.head);
    if (card->failure == ZE_OK && !is_card(card))
        card->failure = ZE_UNSUPPORTED_FEATURE;
    if (card->failure != ZE_OK)
        return card->failure;
    card->is_known = true;
    card->failure = levelzero_find_clocks(levelzero, card);
    find_counters(levelzero, card);
    card->temperature = find_part(levelzero->temperature_sensors, levelzero->temperature_properties,
                                  device, ZES_TYPE_TEMPERATURE_PROPERTIES, sensors);
    card->engines = find_part(levelzero->engine_groups, levelzero->engine_properties, device,
                              ZES_TYPE_ENGINE_PROPERTIES, engines);
    return card->failure;
}

/* Adds a device unless it is known to be no card. One that fails keeps its number, and must not
 * hide the others. */
static void add_card(struct lull_levelzero *levelzero, void *device)
{
    struct zes_card *card = &levelzero->cards[levelzero->card_count];

    *card = (struct zes_card){.device = device, .failure = ZE_UNINITIALIZED};
    lull_levelzero_open_card(levelzero, card);
    levelzero->card_count += card->is_known || card->failure != ZE_UNSUPPORTED_FEATURE;
}

static int fail_listing(const struct lull_levelzero *levelzero, const char *what, int code,
                        struct lull_error *err)
{
    return lull_error_set(err, lull_levelzero_meaning(code)->error, "%s: %s: %s (Level Zero 0x%x)",
                          levelzero->library_name, what, lull_levelzero_meaning(code)->text,
                          (unsigned)code);
}

/* Checks that a card can be used. */
static int check_cards(const struct lull_levelzero *levelzero, int failure, struct lull_error *err)
{
    for (uint32_t i = 0; i < levelzero->card_count; i++) {
        if (levelzero->cards[i].is_known)
            return 0;
        failure = levelzero->cards[i].failure;
    }
    if (failure != ZE_OK)
        return fail_listing(levelzero, "no usable GPU", failure, err);
    return lull_error_set(err, LULL_E_NO_DEVICE, "%s: this node has no Intel GPU card",
                          levelzero->library_name);
}

static int find_cards(struct lull_levelzero *levelzero, struct lull_error *err)
{
    void *drivers[ZES_MAX_DOMAINS];
    uint32_t driver_count = ZES_MAX_DOMAINS;
    int failure = ZE_OK;
    int code = levelzero->drivers(&driver_count, drivers);

    if (code != ZE_OK)
        return fail_listing(levelzero, "cannot list the drivers", code, err);
    for (uint32_t d = 0; d < driver_count; d++) {
        void *devices[LULL_DEVICE_MAX_GPUS];
        uint32_t count = LULL_DEVICE_MAX_GPUS;

        code = levelzero->devices(drivers[d], &count, devices);
        /* A driver that fails must not hide the others. */
        if (code != ZE_OK) {
            failure = code;
            continue;
        }
        for (uint32_t i = 0; i < count && levelzero->card_count < LULL_DEVICE_MAX_GPUS; i++)
            add_card(levelzero, devices[i]);
    }
    return check_cards(levelzero, failure, err);
}

void lull_levelzero_close(void *state)
{
    struct lull_levelzero *levelzero = state;

    if (levelzero->library != NULL)
        dlclose(levelzero->library); /* Sysman has no function that ends it */
    pthread_mutex_destroy(&levelzero->meters);
    free(levelzero);
}

int lull_levelzero_open(void **state_out, uint32_t *count_out, struct lull_error *err)
{
    struct lull_levelzero *levelzero = calloc(1, sizeof(*levelzero));
    int result;

    if (levelzero == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the driver's table");
    pthread_mutex_init(&levelzero->meters, NULL);
    result = levelzero_load_library(levelzero, err);
    if (result == 0) {
        int code = levelzero->init(0);

        if (code != ZE_OK)
            result = lull_error_set(err, lull_levelzero_meaning(code)->error,
                                    "%s: cannot start Sysman: %s (Level Zero 0x%x)",
                                    levelzero->library_name, lull_levelzero_meaning(code)->text,
                                    (unsigned)code);
    }
    if (result == 0)
        result = find_cards(levelzero, err);
    if (result < 0) {
        lull_levelzero_close(levelzero);
        return result;
    }
    *state_out = levelzero;
    *count_out = levelzero->card_count;
    return 0;
}
