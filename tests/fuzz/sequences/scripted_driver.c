/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "device/nvml.h"
#include "device/vendor.h"
#include "passing_time.h"

enum { IDLE_MHZ = 210, SLOW_MS = 30, STEP_MHZ = 15, MOST_TOLD = 64 };

static struct {
    uint32_t locked_mhz; /* 0: it is not */
    uint32_t limit_mw;
    struct lull_band allowed;
    struct driver_faults faults;
} gpus[DRIVER_GPUS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all here */
static pthread_cond_t healed = PTHREAD_COND_INITIALIZER;
static struct lull_journal *journal_seen;
static driver_violation *report;
static uint64_t calls;

/* The last calls that were to change something. */
static struct reported {
    uint32_t gpu;
    const char *what;
    uint32_t value;
    int64_t time_ns;
    int result;
    bool has_effect;
} reported[MOST_TOLD];

static void uuid_of(uint32_t gpu, char *uuid_out, size_t size)
{
    snprintf(uuid_out, size, "GPU-%u", gpu);
}

void driver_init(struct lull_journal *journal, driver_violation *violation)
{
    journal_seen = journal;
    report = violation;
    for (uint32_t i = 0; i < DRIVER_GPUS; i++)
        gpus[i].limit_mw = DRIVER_LIMIT_MW;
}

void driver_allow(uint32_t gpu, const struct lull_band *band)
{
    pthread_mutex_lock(&lock);
    gpus[gpu].allowed = *band;
    pthread_mutex_unlock(&lock);
}

void driver_set_faults(uint32_t gpu, const struct driver_faults *faults)
{
    pthread_mutex_lock(&lock);
    gpus[gpu].faults = *faults;
    pthread_cond_broadcast(&healed);
    pthread_mutex_unlock(&lock);
}

int driver_find_touched(void)
{
    int found = -1;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < DRIVER_GPUS; i++)
        /* A lock at the highest clock cannot be seen, and holds nothing down. */
        if ((gpus[i].locked_mhz != 0 && gpus[i].locked_mhz != DRIVER_HIGHEST_MHZ) ||
            gpus[i].limit_mw != DRIVER_LIMIT_MW)
            found = i;
    pthread_mutex_unlock(&lock);
    return found;
}

uint64_t driver_calls(void)
{
    uint64_t count;

    pthread_mutex_lock(&lock);
    count = calls;
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- what must never happen; with the lock ------------------------------------------------- */

/* The second invariant: what is not the reference has a record that names it. */
static void check_record(uint32_t gpu, bool is_limit, uint32_t value)
{
    struct lull_journal_record record;
    const uint32_t *const written = is_limit ? record.written.limit_mw : record.written.sm_mhz;
    char uuid[96];

    uuid_of(gpu, uuid, sizeof(uuid));
    if (lull_journal_load(journal_seen, uuid, &record, NULL) < 0)
        report("I2: a GPU is changed without a record", gpu, value);
    if (written[0] != value && written[1] != value)
        report("I2: a GPU is changed to what its record does not name", gpu, value);
    if (is_limit && record.power_limit_mw != DRIVER_LIMIT_MW)
        report("I2: the record has another power limit than there was", gpu, record.power_limit_mw);
}

static void check_lock(uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz)
{
    if (min_mhz != max_mhz || max_mhz < gpus[gpu].allowed.min_mhz ||
        max_mhz > gpus[gpu].allowed.max_mhz)
        report("I3: a clock outside the band of every lease", gpu, max_mhz);
    check_record(gpu, false, max_mhz);
}

static void check_limit(uint32_t gpu, uint32_t limit_mw)
{
    if (limit_mw == DRIVER_LIMIT_MW)
        return;
    if (limit_mw > DRIVER_LIMIT_MW)
        report("I3: a power limit above the administrator's", gpu, limit_mw);
    if (limit_mw < gpus[gpu].allowed.min_limit_mw || limit_mw > gpus[gpu].allowed.max_limit_mw)
        report("I3: a power limit outside the band of every lease", gpu, limit_mw);
    check_record(gpu, true, limit_mw);
}

/* ---- the vendor's functions ----------------------------------------------------------------- */

static int open_driver(void **state_out, uint32_t *count_out, struct lull_error *err)
{
    (void)err;
    *state_out = gpus;
    *count_out = DRIVER_GPUS;
    return 0;
}

static void close_driver(void *state)
{
    (void)state;
}

static const char *driver_version(const void *state)
{
    (void)state;
    return "1.0";
}

static int describe(void *state, uint32_t gpu, struct lull_device_info *info_out,
                    struct lull_error *err)
{
    (void)state;
    (void)err;
    *info_out = (struct lull_device_info){
        .name = "scripted",
        .capabilities = LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT,
        .sm_clock_count = (DRIVER_HIGHEST_MHZ - DRIVER_LOWEST_MHZ) / STEP_MHZ + 1,
        .power_limit_min_mw = DRIVER_LEAST_LIMIT_MW,
        .power_limit_max_mw = DRIVER_MOST_LIMIT_MW,
        .power_limit_default_mw = DRIVER_MOST_LIMIT_MW,
    };
    for (uint32_t i = 0; i < info_out->sm_clock_count; i++)
        info_out->sm_clocks_mhz[i] = DRIVER_HIGHEST_MHZ - i * STEP_MHZ;
    uuid_of(gpu, info_out->uuid, sizeof(info_out->uuid));
    return 0;
}

static bool read_one(void *state, uint32_t gpu, enum lull_reading_field field,
                     struct lull_device_reading *out)
{
    bool is_idle;

    (void)state;
    pthread_mutex_lock(&lock);
    while (gpus[gpu].faults.hangs_in_reads)
        pthread_cond_wait(&healed, &lock);
    is_idle = gpus[gpu].faults.is_idle;
    if (field == LULL_READING_SM_CLOCK)
        out->sm_mhz = gpus[gpu].locked_mhz != 0 ? gpus[gpu].locked_mhz : DRIVER_HIGHEST_MHZ;
    if (field == LULL_READING_SM_CLOCK && is_idle)
        out->sm_mhz = IDLE_MHZ;
    if (field == LULL_READING_REASONS)
        out->reasons = is_idle ? LULL_CLOCK_REASON_IDLE : 0;
    if (field == LULL_READING_POWER_LIMIT)
        out->power_limit_mw = gpus[gpu].limit_mw;
    pthread_mutex_unlock(&lock);
    return field == LULL_READING_SM_CLOCK || field == LULL_READING_REASONS ||
           field == LULL_READING_POWER_LIMIT;
}

/* With the lock. Whether the call has an effect goes to *has_effect_out. */
static int call(uint32_t gpu, bool *has_effect_out, struct lull_error *err)
{
    struct driver_faults *const faults = &gpus[gpu].faults;

    calls++;
    while (faults->hangs_in_sets)
        pthread_cond_wait(&healed, &lock);
    if (faults->is_slow)
        time_leap(SLOW_MS * LULL_NS_PER_MS);
    *has_effect_out = true;
    if (faults->fails > 0) {
        faults->fails--;
        *has_effect_out = faults->takes_effect;
        return lull_error_set(err, faults->status, "GPU %u: fails as it was told", gpu);
    }
    if (faults->deaf_calls > 0) {
        faults->deaf_calls--;
        *has_effect_out = false;
    }
    return 0;
}

static void tell(uint32_t gpu, const char *what, uint32_t value, int result, bool has_effect)
{
    reported[calls % MOST_TOLD] =
        (struct reported){gpu, what, value, lull_now_ns(), result, has_effect};
}

void driver_tell(int fd)
{
    for (uint64_t i = 1; i <= MOST_TOLD; i++) {
        const struct reported *const one = &reported[(calls + i) % MOST_TOLD];

        if (one->what != NULL)
            dprintf(fd, "%.6f GPU %u %s %u: %d%s\n", (double)one->time_ns * 1e-9, one->gpu,
                    one->what, one->value, one->result, one->has_effect ? "" : ", no effect");
    }
}

static int set_clock(uint32_t gpu, uint32_t sm_mhz, struct lull_error *err)
{
    bool has_effect;
    const int result = call(gpu, &has_effect, err);

    if (has_effect)
        gpus[gpu].locked_mhz = sm_mhz;
    tell(gpu, "clock", sm_mhz, result, has_effect);
    return result;
}

static int lock_sm(void *state, uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz,
                   struct lull_error *err)
{
    /* A lock of the whole range frees the clock where the driver refuses a reset. */
    const bool is_reset = min_mhz == DRIVER_LOWEST_MHZ && max_mhz == DRIVER_HIGHEST_MHZ;
    int result;

    (void)state;
    pthread_mutex_lock(&lock);
    if (!is_reset)
        check_lock(gpu, min_mhz, max_mhz);
    result = set_clock(gpu, is_reset ? 0 : max_mhz, err);
    pthread_mutex_unlock(&lock);
    return result;
}

static int reset_sm(void *state, uint32_t gpu, struct lull_error *err)
{
    int result;

    (void)state;
    pthread_mutex_lock(&lock);
    result = set_clock(gpu, 0, err);
    pthread_mutex_unlock(&lock);
    return result;
}

static int set_power_limit(void *state, uint32_t gpu, uint32_t limit_mw, struct lull_error *err)
{
    bool has_effect;
    int result;

    (void)state;
    pthread_mutex_lock(&lock);
    check_limit(gpu, limit_mw);
    result = call(gpu, &has_effect, err);
    if (has_effect)
        gpus[gpu].limit_mw = limit_mw;
    tell(gpu, "limit", limit_mw, result, has_effect);
    pthread_mutex_unlock(&lock);
    return result;
}

/* Stands for the NVML one, which the linker then leaves out. */
const struct lull_vendor lull_nvml_vendor = {
    .name = "nvidia",
    .open = open_driver,
    .close = close_driver,
    .driver_version = driver_version,
    .describe = describe,
    .read = read_one,
    .lock_sm = lock_sm,
    .reset_sm = reset_sm,
    .set_power_limit = set_power_limit,
};
