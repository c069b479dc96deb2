/* Intel GPUs behind the vendor table: this file describes, reads and sets them through the
 * functions of Level Zero's Sysman that levelzero_library.c has bound.
 * SPDX-License-Identifier: Apache-2.0 */
#include "device/levelzero.h"

#include <errno.h>
#include <stdio.h>

#include "device/levelzero_library.h"

static int levelzero_check_call(int code, uint32_t gpu, const char *what, struct lull_error *err)
{
    const struct lull_library_meaning *meaning = lull_levelzero_meaning(code);

    if (meaning->error == 0)
        return 0;
    return lull_error_set(err, meaning->error, "GPU %u: cannot %s: %s (Level Zero 0x%x)", gpu, what,
                          meaning->text, (unsigned)code);
}

static const char *levelzero_driver_version(const void *state)
{
    const struct lull_levelzero *levelzero = state;
    uint32_t gpu = 0;

    while (gpu + 1 < levelzero->card_count && !levelzero->cards[gpu].is_known)
        gpu++;
    return levelzero->cards[gpu].properties.driver_version;
}

/* ---- reading ---- */

/* Rounds a number >= 0 without libm, which lulld does not link. Larger ones than the type holds
 * become its largest. */
static uint32_t levelzero_round(double number)
{
    return number < UINT32_MAX ? (uint32_t)(number + 0.5) : UINT32_MAX;
}

/* Adds up the counters of a card; the sum has the time of the latest. Returns false if one of them
 * cannot be read. */
static bool levelzero_read_counter(struct lull_levelzero *levelzero, const struct zes_card *card,
                                   struct zes_counter *sum_out)
{
    struct zes_counter sum = {0};

    if (levelzero->energy == NULL || card->counter_count == 0)
        return false;
    for (uint32_t i = 0; i < card->counter_count; i++) {
        struct zes_counter counter;

        if (levelzero->energy(card->counters[i], &counter) != ZE_OK)
            return false;
        sum.value += counter.value;
        if (counter.time_us > sum.time_us)
            sum.time_us = counter.time_us;
    }
    *sum_out = sum;
    return true;
}

/* Finds how much a counter has grown per microsecond since the reading before. The driver takes
 * snapshots: when it returns the same one again, the rate stays as it was. */
static bool take_rate(struct lull_levelzero *levelzero, struct zes_meter *meter,
                      const struct zes_counter *now, double *rate_out)
{
    bool has_rate;

    pthread_mutex_lock(&levelzero->meters);
    if (meter->has_latest && now->time_us > meter->latest.time_us &&
        now->value >= meter->latest.value) {
        meter->rate = (double)(now->value - meter->latest.value) /
                      (double)(now->time_us - meter->latest.time_us);
        meter->has_rate = true;
    }
    meter->has_latest = true;
    meter->latest = *now;
    has_rate = meter->has_rate;
    *rate_out = meter->rate;
    pthread_mutex_unlock(&levelzero->meters);
    return has_rate;
}

static bool levelzero_read_power(struct lull_levelzero *levelzero, struct zes_card *card,
                                 uint32_t *power_mw_out)
{
    struct zes_counter counter;
    double watts;

    if (!levelzero_read_counter(levelzero, card, &counter) ||
        !take_rate(levelzero, &card->power_meter, &counter, &watts))
        return false;
    *power_mw_out = levelzero_round(watts * 1e3);
    return true;
}

static bool levelzero_read_energy(struct lull_levelzero *levelzero, const struct zes_card *card,
                                  uint64_t *energy_mj_out)
{
    struct zes_counter counter;

    if (!levelzero_read_counter(levelzero, card, &counter))
        return false;
    *energy_mj_out = counter.value / 1000;
    return true;
}

static bool levelzero_read_activity(struct lull_levelzero *levelzero, struct zes_card *card,
                                    uint32_t *percent_out)
{
    struct zes_counter counter;
    double share;

    if (levelzero->activity == NULL || card->engines == NULL ||
        levelzero->activity(card->engines, &counter) != ZE_OK ||
        !take_rate(levelzero, &card->engine_meter, &counter, &share))
        return false;
    *percent_out = share < 1.0 ? levelzero_round(share * 100.0) : 100;
    return true;
}

static bool read_domain(struct lull_levelzero *levelzero, void *domain,
                        struct zes_frequency_state *state_out)
{
    *state_out = (struct zes_frequency_state){.head.type = ZES_TYPE_FREQUENCY_STATE};
    return domain != NULL && levelzero->frequency_state(domain, &state_out->head) == ZE_OK &&
           state_out->actual_mhz >= 0.0;
}

/* Reads the clock of the fastest stack, and the reasons for which any stack is held back. */
static bool read_stacks(struct lull_levelzero *levelzero, const struct zes_card *card,
                        struct zes_frequency_state *all_out)
{
    struct zes_frequency_state all = {.actual_mhz = -1.0};

    for (uint32_t i = 0; i < card->clock_count; i++) {
        struct zes_frequency_state state;

        if (!read_domain(levelzero, card->clocks[i], &state))
            return false;
        if (state.actual_mhz > all.actual_mhz)
            all.actual_mhz = state.actual_mhz;
        all.reasons |= state.reasons;
    }
    *all_out = all;
    return all.actual_mhz >= 0.0;
}

/* Translates Sysman's reasons into Lull's. That the clock is at the end of the hardware's own range
 * is a reason to Sysman and none to Lull. */
static uint64_t as_reasons(const struct zes_frequency_state *state)
{
    static const struct {
        uint32_t zes;
        uint32_t reason;
    } rows[] = {
        {0x1 | 0x2 | 0x200, LULL_CLOCK_REASON_POWER_CAP},  /* average, burst or other power */
        {0x4 | 0x80, LULL_CLOCK_REASON_HARDWARE_SLOWDOWN}, /* current or voltage */
        {0x8 | 0x100, LULL_CLOCK_REASON_THERMAL},
        {0x10, LULL_CLOCK_REASON_POWER_BRAKE}, /* the power supply requests it */
        {0x20, LULL_CLOCK_REASON_SETTING},     /* the range that was set */
    };
    uint64_t reasons = state->actual_mhz == 0.0 ? LULL_CLOCK_REASON_IDLE : 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if ((state->reasons & rows[i].zes) != 0)
            reasons |= rows[i].reason;
    return reasons;
}

static bool read_memory_clock(struct lull_levelzero *levelzero, const struct zes_card *card,
                              uint32_t *mhz_out)
{
    struct zes_frequency_state state;

    if (!read_domain(levelzero, card->memory_clock, &state))
        return false;
    *mhz_out = levelzero_round(state.actual_mhz);
    return true;
}

static bool levelzero_read_temperature(struct lull_levelzero *levelzero,
                                       const struct zes_card *card, uint32_t *celsius_out)
{
    double celsius;

    if (levelzero->temperature == NULL || card->temperature == NULL ||
        levelzero->temperature(card->temperature, &celsius) != ZE_OK ||
        !(celsius >= 0.0 && celsius < 1000.0))
        return false;
    *celsius_out = levelzero_round(celsius);
    return true;
}

/* Reads all limits of a card and returns the one for sustained power, or NULL if none is in watts.
 * All are read because the driver only takes them back together. */
static struct zes_power_limit *find_limit(struct lull_levelzero *levelzero,
                                          const struct zes_card *card,
                                          struct zes_power_limit limits[ZES_MAX_LIMITS],
                                          uint32_t *count_out)
{
    *count_out = ZES_MAX_LIMITS;
    for (uint32_t i = 0; i < ZES_MAX_LIMITS; i++)
        limits[i] = (struct zes_power_limit){.head.type = ZES_TYPE_POWER_LIMIT};
    if (levelzero->limits == NULL || card->counter_count != 1 ||
        levelzero->limits(card->counters[0], count_out, limits) != ZE_OK)
        return NULL;
    for (uint32_t i = 0; i < *count_out && i < ZES_MAX_LIMITS; i++)
        if (limits[i].level == ZES_LEVEL_SUSTAINED && limits[i].unit == ZES_UNIT_POWER)
            return &limits[i];
    return NULL;
}

static bool levelzero_read_limit(struct lull_levelzero *levelzero, const struct zes_card *card,
                                 uint32_t *limit_mw_out)
{
    struct zes_power_limit limits[ZES_MAX_LIMITS];
    uint32_t count;
    const struct zes_power_limit *limit = find_limit(levelzero, card, limits, &count);

    if (limit == NULL || limit->limit <= 0)
        return false;
    *limit_mw_out = (uint32_t)limit->limit;
    return true;
}

static bool levelzero_read(void *state, uint32_t gpu, enum lull_reading_field field,
                           struct lull_device_reading *out)
{
    struct lull_levelzero *levelzero = state;
    struct zes_card *card = &levelzero->cards[gpu];
    struct zes_frequency_state stacks;

    switch (field) {
    case LULL_READING_SM_CLOCK:
        if (!read_stacks(levelzero, card, &stacks))
            return false;
        out->sm_mhz = levelzero_round(stacks.actual_mhz);
        return true;
    case LULL_READING_REASONS:
        if (!read_stacks(levelzero, card, &stacks))
            return false;
        out->reasons = as_reasons(&stacks);
        return true;
    case LULL_READING_MEMORY_CLOCK:
        return read_memory_clock(levelzero, card, &out->memory_mhz);
    case LULL_READING_POWER:
        return levelzero_read_power(levelzero, card, &out->power_mw);
    case LULL_READING_ENERGY:
        return levelzero_read_energy(levelzero, card, &out->energy_mj);
    case LULL_READING_TEMPERATURE:
        return levelzero_read_temperature(levelzero, card, &out->temperature_c);
    case LULL_READING_POWER_LIMIT:
        return levelzero_read_limit(levelzero, card, &out->power_limit_mw);
    case LULL_READING_UTILIZATION:
        return levelzero_read_activity(levelzero, card, &out->utilization_percent);
    case LULL_READING_XIDS:
    case LULL_READING_PROFILES:
    case LULL_READING_SMOOTHING:
    case LULL_READING_ALL:
        break;
    }
    return false;
}

/* ---- describing ---- */

/* Returns the library's code. */
static int levelzero_list_clocks(struct lull_levelzero *levelzero, void *domain,
                                 uint32_t *clocks_mhz, uint32_t capacity, uint32_t *count_out)
{
    double reported_mhz[LULL_DEVICE_MAX_CLOCKS];
    uint32_t count = capacity;
    int code = ZE_UNSUPPORTED_FEATURE;

    if (domain != NULL && levelzero->available_clocks != NULL)
        code = levelzero->available_clocks(domain, &count, reported_mhz);
    if (code != ZE_OK)
        return code;
    if (count > capacity)
        count = capacity;
    for (uint32_t i = 0; i < count; i++)
        clocks_mhz[i] = levelzero_round(reported_mhz[i]);
    lull_library_sort_clocks(clocks_mhz, count);
    *count_out = count;
    return ZE_OK;
}

static void name_card(const struct zes_card *card, struct lull_device_info *info)
{
    const uint8_t *id = card->properties.core.uuid;
    char *at = info->uuid;

    snprintf(info->name, sizeof(info->name), "%.*s", (int)sizeof(info->name) - 1,
             card->properties.core.name);
    for (uint32_t i = 0; i < sizeof(card->properties.core.uuid); i++)
        at += snprintf(at, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}

static void describe_limits(const struct zes_card *card, struct lull_device_info *info)
{
    const int32_t default_mw = card->power.default_mw;
    const int32_t highest_mw = card->power.max_mw > 0 ? card->power.max_mw : default_mw;

    if (highest_mw <= 0)
        return;
    info->power_limit_max_mw = (uint32_t)highest_mw;
    info->power_limit_min_mw = lull_library_min_limit_mw(
        card->power.min_mw > 0 ? (uint64_t)card->power.min_mw : 0, info->power_limit_max_mw);
    info->power_limit_default_mw = default_mw > 0 ? (uint32_t)default_mw : 0;
}

static int levelzero_fail_description(int code, struct lull_error *err)
{
    return lull_error_set(err, lull_levelzero_meaning(code)->error, "%s (Level Zero 0x%x)",
                          lull_levelzero_meaning(code)->text, (unsigned)code);
}

static int levelzero_describe(void *state, uint32_t gpu, struct lull_device_info *info,
                              struct lull_error *err)
{
    struct lull_levelzero *levelzero = state;
    struct zes_card *card = &levelzero->cards[gpu];
    struct zes_pci_properties pci = {.head.type = ZES_TYPE_PCI_PROPERTIES};
    int code = lull_levelzero_open_card(levelzero, card);
    int clocks_code;
    uint32_t limit_mw;
    uint64_t energy_mj;

    if (!card->is_known)
        return levelzero_fail_description(code, err);
    name_card(card, info);
    if (levelzero->pci_properties != NULL &&
        levelzero->pci_properties(card->device, &pci.head) == ZE_OK)
        snprintf(info->pci_bus_id, sizeof(info->pci_bus_id), "%08X:%02X:%02X.%X", pci.domain,
                 pci.bus, pci.device, pci.function);
    clocks_code =
        levelzero_list_clocks(levelzero, card->clock_count > 0 ? card->clocks[0] : NULL,
                              info->sm_clocks_mhz, LULL_DEVICE_MAX_CLOCKS, &info->sm_clock_count);
    if (code == ZE_OK)
        code = clocks_code;
    levelzero_list_clocks(levelzero, card->memory_clock, info->memory_clocks_mhz,
                          sizeof(info->memory_clocks_mhz) / sizeof(info->memory_clocks_mhz[0]),
                          &info->memory_clock_count);
    describe_limits(card, info);
    if (card->can_control && info->sm_clock_count > 0)
        info->capabilities |= LULL_CAPABILITY_SM_LOCK;
    if (levelzero->set_limits != NULL && card->power.can_control != 0 &&
        info->power_limit_max_mw > 0 && levelzero_read_limit(levelzero, card, &limit_mw))
        info->capabilities |= LULL_CAPABILITY_POWER_LIMIT;
    /* Power is computed from the rise of the counter between two readings, so it is as recent as
     * they are. */
    if (levelzero_read_energy(levelzero, card, &energy_mj))
        info->capabilities |= LULL_CAPABILITY_ENERGY_COUNTER | LULL_CAPABILITY_INSTANT_POWER;
    return lull_library_may_pass(lull_levelzero_meaning(code))
               ? levelzero_fail_description(code, err)
               : 0;
}

/* A process that has opened all GPUs it may use is listed for each of them: it uses those where it
 * has memory or runs on an engine. */
static void levelzero_list_processes(void *state, uint32_t gpu,
                                     struct lull_device_processes *processes_out)
{
    const struct lull_levelzero *levelzero = state;
    struct zes_process list[LULL_DEVICE_MAX_PROCESSES];
    uint32_t count = LULL_DEVICE_MAX_PROCESSES;

    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct zes_process){.head = {.type = ZES_TYPE_PROCESS_STATE}};
    if (levelzero->processes == NULL ||
        levelzero->processes(levelzero->cards[gpu].device, &count, list) != ZE_OK ||
        count > LULL_DEVICE_MAX_PROCESSES)
        return;
    processes_out->is_known = true;
    processes_out->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].memory_bytes != 0 || list[i].engines != 0)
            processes_out->pids[processes_out->count++] = (pid_t)list[i].pid;
}

/* ---- setting ---- */

static int set_range(struct lull_levelzero *levelzero, const struct zes_card *card,
                     const struct zes_frequency_range *range)
{
    int code = card->can_control && card->clock_count > 0 ? ZE_OK : ZE_UNSUPPORTED_FEATURE;

    for (uint32_t i = 0; code == ZE_OK && i < card->clock_count; i++)
        code = levelzero->set_range(card->clocks[i], range);
    return code;
}

static int levelzero_lock_sm(void *state, uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz,
                             struct lull_error *err)
{
    struct lull_levelzero *levelzero = state;
    const struct zes_frequency_range range = {min_mhz, max_mhz};

    return levelzero_check_call(set_range(levelzero, &levelzero->cards[gpu], &range), gpu,
                                "limit the clock", err);
}

static int levelzero_reset_sm(void *state, uint32_t gpu, struct lull_error *err)
{
    struct lull_levelzero *levelzero = state;
    const struct zes_frequency_range defaults = {-1.0, -1.0};

    return levelzero_check_call(set_range(levelzero, &levelzero->cards[gpu], &defaults), gpu,
                                "reset the clock", err);
}

static int levelzero_set_power_limit(void *state, uint32_t gpu, uint32_t limit_mw,
                                     struct lull_error *err)
{
    struct lull_levelzero *levelzero = state;
    const struct zes_card *card = &levelzero->cards[gpu];
    struct zes_power_limit limits[ZES_MAX_LIMITS];
    uint32_t count;
    struct zes_power_limit *limit = find_limit(levelzero, card, limits, &count);
    int code = ZE_UNSUPPORTED_FEATURE;

    /* The other limits go back to the driver as they were read. */
    if (limit != NULL && levelzero->set_limits != NULL && limit_mw <= INT32_MAX) {
        limit->limit = (int32_t)limit_mw;
        limit->is_enabled = 1;
        code = levelzero->set_limits(card->counters[0], &count, limits);
    }
    return levelzero_check_call(code, gpu, "set the power limit", err);
}

const struct lull_vendor lull_levelzero_vendor = {
    .name = "intel",
    .open = lull_levelzero_open,
    .close = lull_levelzero_close,
    .driver_version = levelzero_driver_version,
    .describe = levelzero_describe,
    .read = levelzero_read,
    .list_processes = levelzero_list_processes,
    .lock_sm = levelzero_lock_sm,
    .reset_sm = levelzero_reset_sm,
    .set_power_limit = levelzero_set_power_limit,
};
