/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "device/nvml.h"
#include "device/vendor.h"
#include "passing_time.h"

/* A GPU's next STALE_CALLS calls may have been decided before the writer saw a new cap. */
enum {
    IDLE_MHZ = 210,
    SLOW_MS = 30,
    STEP_MHZ = 15,
    MOST_TOLD = 64,
    MAX_CAPS = 8,
    STALE_CALLS = 1,
};

/* A lease's share (daemon/share.c), with one more for the call that is under way. */
#define RAISING_NS (50 * LULL_NS_PER_MS)
#define LIMIT_NS (200 * LULL_NS_PER_MS)
enum { RAISINGS = 3, LIMITS = 6 };

static struct gpu {
    uint32_t locked_mhz; /* 0: it is not */
    uint32_t limit_mw;
    uint32_t profiles;
    struct lull_band allowed; /* to the last holder of the lease; zeros: there was none */
    int64_t leased_ns;
    uint32_t raisings; /* between two clocks, since the lease began */
    uint32_t limits;   /* other limits than the one before, in the same time */
    bool is_faulty;    /* calls are repeated */
    bool was_ignored;  /* the last call for a clock succeeded without effect */
    struct lull_cap caps[MAX_CAPS];
    uint32_t cap_count; /* in this sequence; the last one applies */
    uint32_t calls_since_cap;
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

void driver_uuid(uint32_t gpu, char *uuid_out, size_t size)
{
    snprintf(uuid_out, size, "GPU-scripted-%u", gpu);
}

void driver_init(struct lull_journal *journal, driver_violation *violation)
{
    journal_seen = journal;
    report = violation;
    for (uint32_t i = 0; i < DRIVER_GPUS; i++) {
        gpus[i].limit_mw = DRIVER_LIMIT_MW;
        gpus[i].profiles = DRIVER_OTHERS_PROFILE;
    }
}

void driver_begin(void)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < DRIVER_GPUS; i++) {
        gpus[i].allowed = (struct lull_band){0};
        gpus[i].cap_count = 0;
    }
    pthread_mutex_unlock(&lock);
}

static bool has_fault(const struct driver_faults *faults)
{
    return faults->hangs_in_sets || faults->hangs_in_reads || faults->is_idle || faults->is_slow ||
           faults->deaf_calls > 0 || faults->fails > 0;
}

void driver_lease(uint32_t gpu, const struct lull_band *allowed)
{
    pthread_mutex_lock(&lock);
    gpus[gpu].allowed = *allowed;
    gpus[gpu].leased_ns = lull_now_ns();
    gpus[gpu].raisings = gpus[gpu].limits = 0;
    gpus[gpu].is_faulty = has_fault(&gpus[gpu].faults);
    pthread_mutex_unlock(&lock);
}

void driver_cap(uint32_t gpu, const struct lull_cap *cap)
{
    pthread_mutex_lock(&lock);
    gpus[gpu].caps[gpus[gpu].cap_count++ % MAX_CAPS] = *cap;
    gpus[gpu].calls_since_cap = 0;
    pthread_mutex_unlock(&lock);
}

void driver_set_faults(uint32_t gpu, const struct driver_faults *faults)
{
    pthread_mutex_lock(&lock);
    gpus[gpu].faults = *faults;
    gpus[gpu].is_faulty |= has_fault(faults);
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
            gpus[i].limit_mw != DRIVER_LIMIT_MW || gpus[i].profiles != DRIVER_OTHERS_PROFILE)
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

    driver_uuid(gpu, uuid, sizeof(uuid));
    if (lull_journal_load(journal_seen, uuid, &record, NULL) < 0)
        report("I2: a GPU is changed without a record", gpu, value);
    if (written[0] != value && written[1] != value)
        report("I2: a GPU is changed to what its record does not name", gpu, value);
    if (is_limit && record.power_limit_mw != DRIVER_LIMIT_MW)
        report("I2: the record has another power limit than there was", gpu, record.power_limit_mw);
}

/* The clock that a cap leaves: the highest one that is not above it, or the lowest of all. */
static uint32_t clock_under(uint32_t max_mhz)
{
    uint32_t clock_mhz = DRIVER_HIGHEST_MHZ;

    while (clock_mhz > max_mhz && clock_mhz > DRIVER_LOWEST_MHZ)
        clock_mhz -= STEP_MHZ;
    return clock_mhz;
}

/* The lowest clock of a band, which a lease keeps whatever the cap. */
static uint32_t clock_from(uint32_t min_mhz)
{
    uint32_t clock_mhz = DRIVER_LOWEST_MHZ;

    while (clock_mhz < min_mhz)
        clock_mhz += STEP_MHZ;
    return clock_mhz;
}

static uint32_t limit_under(uint32_t cap_mw)
{
    return cap_mw < DRIVER_LEAST_LIMIT_MW ? DRIVER_LEAST_LIMIT_MW : cap_mw;
}

static struct lull_cap cap_of(const struct gpu *gpu)
{
    return gpu->cap_count > 0 ? gpu->caps[(gpu->cap_count - 1) % MAX_CAPS] : (struct lull_cap){0};
}

/* Returns whether one of the last caps leads to this clock or this power limit; the other one is 0.
 */
static bool is_of_cap(const struct gpu *gpu, uint32_t sm_mhz, uint32_t limit_mw)
{
    for (uint32_t i = 0; i < MAX_CAPS && i < gpu->cap_count; i++)
        if ((sm_mhz != 0 && gpu->caps[i].max_mhz != 0 &&
             sm_mhz == clock_under(gpu->caps[i].max_mhz)) ||
            (limit_mw != 0 && gpu->caps[i].max_limit_mw != 0 &&
             limit_mw == limit_under(gpu->caps[i].max_limit_mw)))
            return true;
    return false;
}

/* A clock of 0 is none that is locked. */
static bool is_above_cap(const struct gpu *gpu, uint32_t sm_mhz)
{
    const uint32_t cap_mhz = cap_of(gpu).max_mhz;

    if (sm_mhz == 0)
        sm_mhz = DRIVER_HIGHEST_MHZ;
    return cap_mhz != 0 && sm_mhz > clock_under(cap_mhz) &&
           sm_mhz > clock_from(gpu->allowed.min_mhz);
}

static void check_lock(uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz)
{
    const struct gpu *const one = &gpus[gpu];

    if (min_mhz != max_mhz || ((max_mhz < one->allowed.min_mhz || max_mhz > one->allowed.max_mhz) &&
                               !is_of_cap(one, max_mhz, 0)))
        report("I3: a clock that the lease's user may not set", gpu, max_mhz);
    if (one->calls_since_cap > STALE_CALLS && is_above_cap(one, max_mhz))
        report("C: a clock above the operator's cap", gpu, max_mhz);
    check_record(gpu, false, max_mhz);
}

static void check_reset(uint32_t gpu)
{
    if (gpus[gpu].calls_since_cap > STALE_CALLS && is_above_cap(&gpus[gpu], 0))
        report("C: a capped GPU is set free", gpu, 0);
}

static void check_limit(uint32_t gpu, uint32_t limit_mw)
{
    const struct gpu *const one = &gpus[gpu];
    const uint32_t cap_mw = cap_of(one).max_limit_mw;

    if (one->calls_since_cap > STALE_CALLS && cap_mw != 0 && limit_mw > limit_under(cap_mw))
        report("C: a power limit above the operator's cap", gpu, limit_mw);
    if (limit_mw == DRIVER_LIMIT_MW)
        return;
    if (limit_mw > DRIVER_LIMIT_MW)
        report("I3: a power limit above the administrator's", gpu, limit_mw);
    if ((limit_mw < one->allowed.min_limit_mw || limit_mw > one->allowed.max_limit_mw) &&
        !is_of_cap(one, 0, limit_mw))
        report("I3: a power limit that the lease's user may not set", gpu, limit_mw);
    check_record(gpu, true, limit_mw);
}

static void check_profiles(uint32_t gpu, uint32_t profiles, bool is_added)
{
    struct lull_journal_record record;
    char uuid[96];

    if ((profiles & DRIVER_OTHERS_PROFILE) != 0)
        report("I3: a power profile that another program has requested", gpu, profiles);
    if (!is_added)
        return;
    if ((profiles & ~gpus[gpu].allowed.profiles) != 0)
        report("I3: a power profile that the lease's user may not request", gpu, profiles);
    driver_uuid(gpu, uuid, sizeof(uuid));
    if (lull_journal_load(journal_seen, uuid, &record, NULL) < 0 ||
        (profiles & ~record.written.profiles) != 0)
        report("I2: power profiles are added that no record names", gpu, profiles);
}

/* Counts what a lease has a share of. */
static void check_share(uint32_t gpu, bool is_raising, bool is_limit)
{
    struct gpu *const one = &gpus[gpu];
    const int64_t held_ns = lull_now_ns() - one->leased_ns;

    one->raisings += is_raising;
    one->limits += is_limit;
    if (!one->is_faulty && one->raisings > RAISINGS + held_ns / RAISING_NS)
        report("Q: more raisings than a lease's share", gpu, one->raisings);
    if (!one->is_faulty && one->limits > LIMITS + one->cap_count + held_ns / LIMIT_NS)
        report("Q: more power limits than a lease's share", gpu, one->limits);
}

int driver_find_capped(void)
{
    int found = -1;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < DRIVER_GPUS; i++) {
        const struct lull_cap cap = cap_of(&gpus[i]);

        if (cap.max_mhz != 0 || cap.max_limit_mw != 0)
            found = i;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static uint32_t clock_of(const struct gpu *gpu)
{
    return gpu->locked_mhz != 0 ? gpu->locked_mhz : DRIVER_HIGHEST_MHZ;
}

/* Returns the tolerance of a clock above its cap. Readings may be off by one step, so a call
 * without effect is not noticed if it would have changed the clock by one step. */
static uint32_t tolerance_of(const struct gpu *gpu)
{
    return gpu->was_ignored ? STEP_MHZ : 0;
}

int driver_find_uncapped(void)
{
    int found = -1;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < DRIVER_GPUS; i++) {
        const struct lull_cap cap = cap_of(&gpus[i]);
        const uint32_t sm_mhz = clock_of(&gpus[i]);

        /* Without a lease nothing may keep the clock below the cap either. */
        if ((cap.max_mhz != 0 && (sm_mhz > clock_under(cap.max_mhz) + tolerance_of(&gpus[i]) ||
                                  sm_mhz + tolerance_of(&gpus[i]) < clock_under(cap.max_mhz))) ||
            (cap.max_limit_mw != 0 && gpus[i].limit_mw > limit_under(cap.max_limit_mw)))
            found = i;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool driver_is_above_cap(uint32_t gpu)
{
    const struct gpu *const one = &gpus[gpu];
    bool is_above;

    pthread_mutex_lock(&lock);
    is_above =
        !has_fault(&one->faults) &&
        (is_above_cap(one, clock_of(one) - tolerance_of(one)) ||
         (cap_of(one).max_limit_mw != 0 && one->limit_mw > limit_under(cap_of(one).max_limit_mw)));
    pthread_mutex_unlock(&lock);
    return is_above;
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
        .capabilities =
            LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT | LULL_CAPABILITY_POWER_PROFILES,
        .power_profiles = DRIVER_PROFILES,
        .sm_clock_count = (DRIVER_HIGHEST_MHZ - DRIVER_LOWEST_MHZ) / STEP_MHZ + 1,
        .power_limit_min_mw = DRIVER_LEAST_LIMIT_MW,
        .power_limit_max_mw = DRIVER_MOST_LIMIT_MW,
        .power_limit_default_mw = DRIVER_MOST_LIMIT_MW,
    };
    for (uint32_t i = 0; i < info_out->sm_clock_count; i++)
        info_out->sm_clocks_mhz[i] = DRIVER_HIGHEST_MHZ - i * STEP_MHZ;
    driver_uuid(gpu, info_out->uuid, sizeof(info_out->uuid));
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
    if (field == LULL_READING_PROFILES)
        out->requested_profiles = out->enforced_profiles = gpus[gpu].profiles;
    pthread_mutex_unlock(&lock);
    return field == LULL_READING_SM_CLOCK || field == LULL_READING_REASONS ||
           field == LULL_READING_POWER_LIMIT || field == LULL_READING_PROFILES;
}

/* With the lock. Whether the call has an effect goes to *has_effect_out. */
static int call(uint32_t gpu, bool *has_effect_out, struct lull_error *err)
{
    struct driver_faults *const faults = &gpus[gpu].faults;

    calls++;
    gpus[gpu].calls_since_cap++;
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
    const uint32_t before_mhz = gpus[gpu].locked_mhz;
    const int result = call(gpu, &has_effect, err);

    if (has_effect)
        gpus[gpu].locked_mhz = sm_mhz;
    gpus[gpu].was_ignored = result == 0 && !has_effect;
    if (before_mhz != 0 && sm_mhz > before_mhz && !is_of_cap(&gpus[gpu], sm_mhz, 0))
        check_share(gpu, true, false);
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
    if (is_reset)
        check_reset(gpu);
    else
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
    check_reset(gpu);
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
    check_share(gpu, false, limit_mw != DRIVER_LIMIT_MW && limit_mw != gpus[gpu].limit_mw);
    result = call(gpu, &has_effect, err);
    if (has_effect)
        gpus[gpu].limit_mw = limit_mw;
    tell(gpu, "limit", limit_mw, result, has_effect);
    pthread_mutex_unlock(&lock);
    return result;
}

static int change_profiles(void *state, uint32_t gpu, uint32_t profiles, bool is_added,
                           struct lull_error *err)
{
    bool has_effect;
    int result;

    (void)state;
    pthread_mutex_lock(&lock);
    check_profiles(gpu, profiles, is_added);
    result = call(gpu, &has_effect, err);
    if (has_effect && is_added)
        gpus[gpu].profiles |= profiles;
    else if (has_effect)
        gpus[gpu].profiles &= ~profiles;
    tell(gpu, is_added ? "add profiles" : "remove profiles", profiles, result, has_effect);
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
    .change_profiles = change_profiles,
};
