/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/rig.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "governor/control/actuator.h"

static const int64_t answer_ns = 10 * LULL_NS_PER_S;  /* time limit of a driver's answer */
static const int64_t validity_ns = 5 * LULL_NS_PER_S; /* a setting outlives this process so long */
static const int64_t renewal_ns = LULL_NS_PER_S;
static const int64_t result_look_ns = 500 * LULL_NS_PER_US;
static const double edge_look_s = 2e-3; /* a tenth of the shortest refresh that is known, 20 ms */
/* A refresh that was seen later than this, since the host was late, is not taken if another comes.
 */
static const double edge_sharp_s = 6e-3;

struct lull_sweep_rig {
    const struct lull_sweep_time *time;
    struct lull_devices *devices; /* are read */
    struct lull_devices *driven;  /* are set by this process; NULL: lulld sets them */
    uint32_t gpu;
    const struct lull_device_info *info;
    uint32_t mem_mhz;
    uint32_t limit_mw;
    struct lull_actuator *actuator; /* NULL: there is no lease */
    uint32_t slot;
    bool has_limits;
    struct lull_sweep_setting setting;
    bool is_set;
    int64_t renewed_ns;
};

/* ---- opening ------------------------------------------------------------------------------- */

static void read_found(struct lull_sweep_rig *rig)
{
    struct lull_device_reading reading;

    lull_device_read(rig->devices, rig->gpu, LULL_READING_MEMORY_CLOCK | LULL_READING_POWER_LIMIT,
                     &reading);
    if (reading.valid & LULL_READING_POWER_LIMIT)
        rig->limit_mw = reading.power_limit_mw;
    /* An idle GPU may have lowered its memory clock: computing raises it to the highest. */
    if (rig->info->memory_clock_count > 0)
        rig->mem_mhz = rig->info->memory_clocks_mhz[0];
    else if (reading.valid & LULL_READING_MEMORY_CLOCK)
        rig->mem_mhz = reading.memory_mhz;
}

int lull_sweep_rig_open(uint32_t gpu, const struct lull_sweep_time *time,
                        struct lull_sweep_rig **rig_out, struct lull_error *err)
{
    struct lull_sweep_rig *const rig = calloc(1, sizeof(*rig));
    int result;

    if (rig == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the GPU");
    rig->time = time;
    rig->gpu = gpu;
    result = lull_devices_open(&rig->devices, err);
    if (result < 0)
        goto free_rig;
    if (gpu >= lull_devices_count(rig->devices)) {
        result = lull_error_set(err, LULL_E_NO_DEVICE, "--gpu %u: this node has %u; see lull gpus",
                                gpu, lull_devices_count(rig->devices));
        goto close_devices;
    }
    rig->info = lull_device_info(rig->devices, gpu);
    if (rig->info->sm_clock_count < 2) {
        result = lull_error_set(err, LULL_E_UNSUPPORTED,
                                "GPU %u: it has no SM clocks to choose from", gpu);
        goto close_devices;
    }
    read_found(rig);
    *rig_out = rig;
    return 0;

close_devices:
    lull_devices_close(rig->devices);
free_rig:
    free(rig);
    return result;
}

void lull_sweep_rig_close(struct lull_sweep_rig *rig)
{
    int result = 0;

    if (rig == NULL)
        return;
    if (rig->actuator != NULL)
        result = lull_actuator_close(rig->actuator);
    if (result == 0 && rig->driven != NULL)
        lull_devices_close(rig->driven);
    lull_devices_close(rig->devices);
    free(rig);
}

const struct lull_device_info *lull_sweep_rig_info(const struct lull_sweep_rig *rig)
{
    return rig->info;
}

const char *lull_sweep_rig_driver(const struct lull_sweep_rig *rig)
{
    return lull_devices_driver_version(rig->devices);
}

uint32_t lull_sweep_rig_mem_mhz(const struct lull_sweep_rig *rig)
{
    return rig->mem_mhz;
}

uint32_t lull_sweep_rig_limit_mw(const struct lull_sweep_rig *rig)
{
    return rig->limit_mw;
}

/* ---- processes of the GPU ------------------------------------------------------------------ */

/* The parent of a process; 0: it has none, or there is no such process here. */
static pid_t parent_of(pid_t process)
{
    char path[64];
    char line[512];
    const char *rest = NULL;
    long parent = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)process);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fgets(line, sizeof(line), file) != NULL)
        rest = strrchr(line, ')'); /* behind the program's name, which may hold anything */
    if (rest != NULL && rest[1] != '\0' && rest[2] != '\0')
        parent = strtol(rest + 4, NULL, 10);
    fclose(file);
    return parent > 0 ? (pid_t)parent : 0;
}

/* Returns whether a process is foreign. One that cannot be seen from here, such as one of
 * another container, may be this one under another number, so it does not count as foreign. */
static bool sweep_rig_is_foreign(pid_t process)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld", (long)process);
    if (access(path, F_OK) != 0)
        return false;
    for (pid_t at = process; at > 1; at = parent_of(at))
        if (at == getpid())
            return false;
    return true;
}

bool lull_sweep_rig_is_busy(struct lull_sweep_rig *rig, pid_t *process_out)
{
    struct lull_device_update update;
    struct lull_device_reading reading;

    *process_out = 0;
    if (lull_device_check(rig->devices, rig->gpu, &update, NULL) == 0 &&
        update.processes.is_known) {
        if (update.processes.count > 0)
            *process_out = update.processes.pids[0];
        return update.processes.count > 0;
    }
    lull_device_read(rig->devices, rig->gpu, LULL_READING_UTILIZATION, &reading);
    return (reading.valid & LULL_READING_UTILIZATION) && reading.utilization_percent > 0;
}

static bool has_foreign(struct lull_sweep_rig *rig)
{
    struct lull_device_update update;

    if (lull_device_check(rig->devices, rig->gpu, &update, NULL) < 0 || !update.processes.is_known)
        return false;
    for (uint32_t i = 0; i < update.processes.count; i++)
        if (sweep_rig_is_foreign(update.processes.pids[i]))
            return true;
    return false;
}

/* ---- setting ------------------------------------------------------------------------------- */

int lull_sweep_rig_lease(struct lull_sweep_rig *rig, const char *runtime_dir, bool no_daemon,
                         bool has_limits, struct lull_error *err)
{
    const struct lull_device_info *const info = rig->info;
    struct lull_band band = {info->sm_clocks_mhz[info->sm_clock_count - 1], info->sm_clocks_mhz[0],
                             0, 0};
    int result;

    if (has_limits) {
        band.min_limit_mw = info->power_limit_min_mw;
        band.max_limit_mw = rig->limit_mw;
    }
    rig->has_limits = has_limits;
    if (no_daemon) {
        result = lull_devices_open(&rig->driven, err);
        if (result == 0)
            result = lull_actuator_open_local(rig->driven, runtime_dir, &rig->actuator, err);
    } else {
        result = lull_actuator_open_daemon(runtime_dir, &rig->actuator, err);
    }
    if (result < 0) {
        rig->actuator = NULL;
        return result;
    }
    return lull_actuator_lease(rig->actuator, info->uuid, &band, &rig->slot, err);
}

/* Requests the clock of the setting for some more seconds. Returns the number of the request. */
static uint64_t sweep_rig_post(struct lull_sweep_rig *rig)
{
    const int64_t now_ns = lull_now_ns();
    const bool is_top = rig->setting.sm_mhz == rig->info->sm_clocks_mhz[0];

    rig->renewed_ns = now_ns;
    return lull_actuator_set(rig->actuator, rig->slot, is_top ? 0 : rig->setting.sm_mhz,
                             now_ns + validity_ns, now_ns + validity_ns);
}

int lull_sweep_rig_poll(struct lull_sweep_rig *rig, struct lull_error *err)
{
    if (rig->actuator == NULL)
        return 0;
    if (rig->is_set && lull_now_ns() - rig->renewed_ns > renewal_ns)
        sweep_rig_post(rig);
    return lull_actuator_poll(rig->actuator, err);
}

static int fail_late(const struct lull_sweep_rig *rig, struct lull_error *err)
{
    return lull_error_set(err, -ETIMEDOUT,
                          "GPU %u: its driver has not answered for 10 s, or another program has "
                          "locked its clock; see lull status and nvidia-smi -q -d CLOCK",
                          rig->gpu);
}

/* Sets the power limit and waits until the driver has taken it. */
static int sweep_rig_set_limit(struct lull_sweep_rig *rig, struct lull_error *err)
{
    const int64_t until_ns = lull_now_ns() + answer_ns;
    const uint32_t wanted_mw = rig->setting.has_own_limit ? rig->setting.limit_mw : 0;
    const uint64_t sequence = lull_actuator_set_limit(rig->actuator, rig->slot, wanted_mw);
    struct lull_limit_result result;

    for (;;) {
        int code;

        lull_actuator_limit_result(rig->actuator, rig->slot, &result);
        if (result.sequence == sequence)
            break;
        code = lull_sweep_rig_poll(rig, err);
        if (code < 0)
            return code;
        if (lull_now_ns() > until_ns)
            return fail_late(rig, err);
        lull_sleep_until_ns(lull_now_ns() + result_look_ns);
    }
    if (result.status == 0)
        return 0;
    return lull_error_set(err, result.status,
                          "GPU %u: its power limit could not be set to %u W (code %d)", rig->gpu,
                          rig->setting.limit_mw / 1000, result.status);
}

/* Waits until the clock is set and, where that shows, has settled or will not. */
static int await_clock(struct lull_sweep_rig *rig, uint64_t sequence, bool is_busy,
                       struct lull_error *err)
{
    const int64_t until_ns = lull_now_ns() + answer_ns;
    struct lull_switch_result result;

    for (;;) {
        int code;

        lull_actuator_result(rig->actuator, rig->slot, &result);
        if (result.sequence == sequence && result.status != 0)
            break;
        /* If nothing had to be written, no clock has to settle. */
        if (result.sequence == sequence &&
            (!is_busy || result.call_ns == 0 || result.settle_ns != LULL_SETTLE_UNKNOWN))
            return 0;
        code = lull_actuator_poll(rig->actuator, err);
        if (code < 0)
            return code;
        if (lull_now_ns() > until_ns)
            return fail_late(rig, err);
        lull_sleep_until_ns(lull_now_ns() + result_look_ns);
    }
    return lull_error_set(
        err, result.status,
        "GPU %u: its SM clock could not be set to %u MHz (code %d); see lull gpus "
        "for what it can do",
        rig->gpu, rig->setting.sm_mhz, result.status);
}

int lull_sweep_rig_set(struct lull_sweep_rig *rig, const struct lull_sweep_setting *setting,
                       bool is_busy, struct lull_error *err)
{
    const bool has_changed = !rig->is_set || rig->setting.sm_mhz != setting->sm_mhz;
    const bool has_new_limit = !rig->is_set || rig->setting.limit_mw != setting->limit_mw;
    int result = 0;

    rig->setting = *setting;
    rig->is_set = true;
    if (rig->has_limits && has_new_limit)
        result = sweep_rig_set_limit(rig, err);
    if (result < 0)
        return result;
    /* A renewed clock has already settled. */
    return await_clock(rig, sweep_rig_post(rig), is_busy && has_changed, err);
}

/* ---- reading ------------------------------------------------------------------------------- */

static double value_or_nan(const struct lull_device_reading *reading, uint32_t field, double value)
{
    return (reading->valid & field) != 0 ? value : NAN;
}

void lull_sweep_rig_look(struct lull_sweep_rig *rig, bool with_processes,
                         struct lull_sweep_look *look_out)
{
    struct lull_device_reading reading;

    lull_device_read(rig->devices, rig->gpu,
                     LULL_READING_SM_CLOCK | LULL_READING_MEMORY_CLOCK | LULL_READING_POWER |
                         LULL_READING_TEMPERATURE | LULL_READING_REASONS,
                     &reading);
    *look_out = (struct lull_sweep_look){
        .sm_mhz = value_or_nan(&reading, LULL_READING_SM_CLOCK, reading.sm_mhz),
        .mem_mhz = value_or_nan(&reading, LULL_READING_MEMORY_CLOCK, reading.memory_mhz),
        .power_w = value_or_nan(&reading, LULL_READING_POWER, 1e-3 * reading.power_mw),
        .temperature_c = value_or_nan(&reading, LULL_READING_TEMPERATURE, reading.temperature_c),
    };
    if (reading.valid & LULL_READING_REASONS) {
        look_out->reasons = reading.reasons;
        look_out->is_capped = (reading.reasons & LULL_CLOCK_REASON_POWER_CAP) != 0;
        look_out->is_throttled = (reading.reasons & LULL_CLOCK_REASON_THROTTLED) != 0;
        /* The clock of an idle GPU is not the requested one. */
        if (reading.reasons & LULL_CLOCK_REASON_IDLE)
            look_out->sm_mhz = NAN;
    }
    look_out->has_others = with_processes && has_foreign(rig);
}

double lull_sweep_rig_count(struct lull_sweep_rig *rig)
{
    struct lull_device_reading reading;

    lull_device_read(rig->devices, rig->gpu, LULL_READING_ENERGY, &reading);
    return value_or_nan(&reading, LULL_READING_ENERGY, 1e-3 * (double)reading.energy_mj);
}

void lull_sweep_rig_find_edge(struct lull_sweep_rig *rig, double patience_s,
                              struct lull_sweep_edge *edge_out)
{
    const double begin_s = lull_sweep_time_now(rig->time);
    double before_s = begin_s, before_j = lull_sweep_rig_count(rig);
    double sharpest_s = INFINITY;

    *edge_out = (struct lull_sweep_edge){false, begin_s, NAN};
    while (!isnan(before_j) && before_s - begin_s <= patience_s && sharpest_s > edge_sharp_s) {
        double now_s, now_j;

        lull_sweep_time_sleep(rig->time, edge_look_s);
        now_j = lull_sweep_rig_count(rig);
        now_s = lull_sweep_time_now(rig->time);
        if (!isnan(now_j) && now_j != before_j && now_s - before_s < sharpest_s) {
            sharpest_s = now_s - before_s;
            *edge_out = (struct lull_sweep_edge){true, 0.5 * (before_s + now_s), now_j};
        }
        before_s = now_s;
        before_j = now_j;
    }
    if (!edge_out->is_found)
        edge_out->time_s = before_s;
}
