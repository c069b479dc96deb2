/*
 * The set calls of an emulated node, the faults injected into calls, and what happens to its GPUs
 * without their callers' doing. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/node_shared.h"

/* ---- driver calls and faults ---- */

static double draw_api_ms(struct lull_node *node, uint32_t gpu)
{
    struct lull_physics *physics = lull_node_begin(node, gpu);
    const double ms = lull_physics_draw_api_ms(&physics->model, &physics->random);

    lull_node_end(node, gpu, false);
    return ms;
}

void lull_node_hang(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind)
{
    const int64_t begin_ns = lull_node_now_ns(node);
    double hang_ms;

    if (lull_node_take_fault(node, gpu, kind, &hang_ms))
        lull_sleep_until_ns(lull_node_real_ns(node, begin_ns + lull_ns_from_ms(hang_ms)));
}

static int call_locked(struct lull_node *node, uint32_t gpu, double api_factor,
                       lull_node_apply apply, const void *data)
{
    /* The duration counts from here, so that drawing it and applying faults add no time for the
     * caller.
     */
    const int64_t begin_ns = lull_node_now_ns(node);
    double settle_factor = 1;
    double code = 0;
    double ignored;
    const double api_ms = api_factor * draw_api_ms(node, gpu);

    lull_sleep_until_ns(lull_node_real_ns(node, begin_ns + lull_ns_from_ms(api_ms)));
    if (lull_node_take_fault(node, gpu, LULL_FAULT_SET_CODE, &code))
        return (int)code;
    if (lull_node_take_fault(node, gpu, LULL_FAULT_NO_EFFECT, &ignored))
        return 0;
    lull_node_take_fault(node, gpu, LULL_FAULT_SETTLE_FACTOR, &settle_factor);
    apply(lull_node_begin(node, gpu), settle_factor, data);
    lull_node_end(node, gpu, true);
    return 0;
}

int lull_node_call(struct lull_node *node, uint32_t gpu, double api_factor, lull_node_apply apply,
                   const void *data)
{
    int code;

    lull_node_hang(node, gpu, LULL_FAULT_HANG_MS); /* without the lock: one GPU hangs, not all */
    lull_node_lock(&node->shared->driver);
    code = call_locked(node, gpu, api_factor, apply, data);
    pthread_mutex_unlock(&node->shared->driver);
    return code;
}

void lull_node_set_fault(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind,
                         const struct lull_fault *fault)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];

    lull_node_lock(&shared->mutex);
    shared->faults[kind] = *fault;
    if (fault->remaining != 0)
        atomic_fetch_or(&shared->armed, UINT64_C(1) << kind);
    else
        atomic_fetch_and(&shared->armed, ~(UINT64_C(1) << kind));
    pthread_mutex_unlock(&shared->mutex);
}

/* Counts one use of a fault and returns whether it happens. */
static bool count_use(struct lull_fault *fault, double *value_out)
{
    if (fault->spared > 0) {
        fault->spared--;
        return false;
    }
    if (fault->remaining == 0)
        return false;
    *value_out = fault->value;
    if (fault->remaining > 0)
        fault->remaining--;
    return true;
}

bool lull_node_take_fault(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind,
                          double *value_out)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];
    struct lull_fault *fault = &shared->faults[kind];
    bool is_hit;

    if ((atomic_load(&shared->armed) & (UINT64_C(1) << kind)) == 0)
        return false;
    lull_node_lock(&shared->mutex);
    is_hit = count_use(fault, value_out);
    if (fault->remaining == 0)
        atomic_fetch_and(&shared->armed, ~(UINT64_C(1) << kind));
    pthread_mutex_unlock(&shared->mutex);
    return is_hit;
}

/* ---- faults of one call ---- */

/* The place for a fault: that of the same call, or a free one; NODE_CALL_FAULTS: there is none. */
static uint32_t call_fault_place(const struct lull_node_shared_gpu *shared,
                                 const struct lull_fault_entry *entry)
{
    uint32_t at = NODE_CALL_FAULTS;

    for (uint32_t i = 0; i < NODE_CALL_FAULTS; i++) {
        const struct lull_fault_entry *known = &shared->calls[i];

        if (known->kind == entry->kind && strcmp(known->call, entry->call) == 0)
            return i;
        if (known->fault.remaining == 0)
            at = i;
    }
    return at;
}

static void end_call_faults(struct lull_node_shared_gpu *shared, enum lull_fault_kind kind)
{
    for (uint32_t i = 0; i < NODE_CALL_FAULTS; i++)
        if (shared->calls[i].kind == kind)
            shared->calls[i].fault.remaining = 0;
    atomic_fetch_and(&shared->armed, ~(UINT64_C(1) << kind));
}

static int set_call_fault(struct lull_node *node, uint32_t gpu,
                          const struct lull_fault_entry *entry)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];
    uint32_t place = 0;

    lull_node_lock(&shared->mutex);
    if (entry->fault.remaining == 0) {
        end_call_faults(shared, entry->kind);
    } else {
        place = call_fault_place(shared, entry);
        if (place < NODE_CALL_FAULTS) {
            shared->calls[place] = *entry;
            atomic_fetch_or(&shared->armed, UINT64_C(1) << entry->kind);
        }
    }
    pthread_mutex_unlock(&shared->mutex);
    return place < NODE_CALL_FAULTS ? 0 : -ENOSPC;
}

bool lull_node_take_call_fault(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind,
                               lull_node_is_call *is_call, const void *context, double *value_out)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];
    bool is_hit = false;

    if ((atomic_load(&shared->armed) & (UINT64_C(1) << kind)) == 0)
        return false;
    lull_node_lock(&shared->mutex);
    for (uint32_t i = 0; i < NODE_CALL_FAULTS && !is_hit; i++) {
        struct lull_fault_entry *entry = &shared->calls[i];

        if (entry->kind == kind && entry->fault.remaining != 0 && is_call(entry->call, context))
            is_hit = count_use(&entry->fault, value_out);
    }
    pthread_mutex_unlock(&shared->mutex);
    return is_hit;
}

bool lull_node_has_call_faults(const struct lull_node *node, uint32_t gpu)
{
    const uint64_t kinds = UINT64_C(1) << LULL_FAULT_DENY | UINT64_C(1) << LULL_FAULT_CALL_HANG_MS;

    return (atomic_load(&node->shared->gpus[gpu].armed) & kinds) != 0;
}

/* ---- faults of a text ---- */

static int set_entry(struct lull_node *node, const struct lull_fault_entry *entry,
                     struct lull_error *err)
{
    int result = 0;

    for (uint32_t i = 0; i < lull_node_gpu_count(node) && result == 0; i++) {
        if (entry->gpu >= 0 && (uint32_t)entry->gpu != i)
            continue;
        if (lull_fault_is_of_call(entry->kind))
            result = set_call_fault(node, i, entry);
        else
            lull_node_set_fault(node, i, entry->kind, &entry->fault);
    }
    if (result < 0)
        lull_error_set(err, result,
                       "%s: a GPU has at most %d faults of calls; end them with %s=off",
                       entry->call, NODE_CALL_FAULTS, lull_fault_name(entry->kind));
    return result;
}

int lull_node_set_faults(struct lull_node *node, const char *text, struct lull_error *err)
{
    while (*text != '\0') {
        struct lull_fault_entry entry;
        int result = lull_fault_parse_next(&text, &entry, err);

        if (result == 0)
            result = set_entry(node, &entry, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- changes of a GPU that no caller requested ---- */

static void node_fault_add_event(struct lull_node *node, uint32_t gpu,
                                 const struct lull_node_event *event)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];

    lull_node_lock(&shared->mutex);
    shared->events[shared->event_count % LULL_NODE_EVENTS] = *event;
    shared->event_count++;
    pthread_mutex_unlock(&shared->mutex);
    lull_node_wake(node, gpu);
}

uint32_t lull_node_event_count(struct lull_node *node, uint32_t gpu)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];
    uint32_t count;

    lull_node_lock(&shared->mutex);
    count = shared->event_count;
    pthread_mutex_unlock(&shared->mutex);
    return count;
}

bool lull_node_next_event(struct lull_node *node, uint32_t gpu, uint32_t *seen,
                          struct lull_node_event *event_out)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];
    bool is_new;

    lull_node_lock(&shared->mutex);
    if (shared->event_count - *seen > LULL_NODE_EVENTS)
        *seen = shared->event_count - LULL_NODE_EVENTS;
    is_new = *seen != shared->event_count;
    if (is_new)
        *event_out = shared->events[(*seen)++ % LULL_NODE_EVENTS];
    pthread_mutex_unlock(&shared->mutex);
    return is_new;
}

/* Locks the clock at lock_mhz, or unlocks it at 0, as a call of another program would do. */
static void node_fault_change_clock(struct lull_node *node, uint32_t gpu, double lock_mhz)
{
    struct lull_physics *physics = lull_node_begin(node, gpu);
    struct lull_clock_setting setting = physics->asked;

    setting.is_locked = lock_mhz > 0;
    if (setting.is_locked)
        setting.min_step = setting.max_step =
            lull_gpu_model_nearest_step(&physics->model, lock_mhz);
    lull_physics_ask_clocks(physics, &setting, 1);
    lull_node_end(node, gpu, true);
}

static void change_limit(struct lull_node *node, uint32_t gpu, double limit_w)
{
    lull_physics_set_limit(lull_node_begin(node, gpu), limit_w);
    lull_node_end(node, gpu, true);
}

void lull_node_reset_settings(struct lull_node *node, uint32_t gpu)
{
    static const enum lull_node_setting lost[] = {LULL_NODE_COMPUTE_MODE,
                                                  LULL_NODE_MEMORY_LIMIT_MHZ, LULL_NODE_ACCOUNTING,
                                                  LULL_NODE_OPEN_CALLS, LULL_NODE_FAN_PERCENT};
    struct lull_physics_smoothing smoothing;
    struct lull_physics *physics;

    node_fault_change_clock(node, gpu, 0);
    physics = lull_node_begin(node, gpu);
    lull_physics_set_limit(physics, physics->model.limit_default_w);
    lull_physics_request_profiles(physics, 0);
    smoothing = physics->smoothing;
    smoothing.is_enabled = false;
    lull_physics_set_smoothing(physics, &smoothing);
    lull_node_end(node, gpu, true);
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        lull_node_set_setting(node, gpu, lost[i], 0);
}

static void reload_driver(struct lull_node *node, double away_ms)
{
    atomic_store(&node->shared->driver_back_ns, lull_node_now_ns(node) + lull_ns_from_ms(away_ms));
    atomic_fetch_add(&node->shared->driver_loads, 1);
    for (uint32_t i = 0; i < node->shared->gpu_count; i++) {
        lull_node_reset_settings(node, i);
        lull_node_set_setting(node, i, LULL_NODE_ECC_CORRECTED, 0);
        lull_node_set_setting(node, i, LULL_NODE_ECC_UNCORRECTED, 0);
        lull_node_set_setting(node, i, LULL_NODE_ROW_PENDING, 0);
    }
}

static void lose_gpu(struct lull_node *node, uint32_t gpu, int64_t until_ns)
{
    atomic_store(&node->shared->gpus[gpu].lost_until_ns, until_ns);
}

static void add_xid(struct lull_node *node, uint32_t gpu, uint64_t xid)
{
    node_fault_add_event(node, gpu, &(struct lull_node_event){LULL_NODE_EVENT_XID, xid});
}

/* Adds errors of the memory to the counts since the latest reload and since ever. */
static void add_errors(struct lull_node *node, uint32_t gpu, enum lull_node_setting recent,
                       uint32_t count)
{
    _Atomic uint32_t *settings = node->shared->gpus[gpu].settings;

    atomic_fetch_add(&settings[recent], count);
    atomic_fetch_add(&settings[recent + 1], count);
}

/* The numbers of XIDs of ECC errors, of rows to be remapped, and of a GPU that left the bus. */
enum { XID_ECC = 48, XID_REMAP = 63, XID_OFF_BUS = 79 };

static void suffer_errors(struct lull_node *node, uint32_t gpu)
{
    double value;

    if (lull_node_take_fault(node, gpu, LULL_FAULT_ECC_CORRECTED, &value))
        add_errors(node, gpu, LULL_NODE_ECC_CORRECTED, (uint32_t)value);
    if (lull_node_take_fault(node, gpu, LULL_FAULT_ECC_UNCORRECTED, &value)) {
        add_errors(node, gpu, LULL_NODE_ECC_UNCORRECTED, (uint32_t)value);
        add_xid(node, gpu, XID_ECC);
    }
    if (lull_node_take_fault(node, gpu, LULL_FAULT_ROW_REMAP, &value)) {
        atomic_fetch_add(&node->shared->gpus[gpu].settings[LULL_NODE_ROWS], (uint32_t)value);
        lull_node_set_setting(node, gpu, LULL_NODE_ROW_PENDING, 1);
        add_xid(node, gpu, XID_REMAP);
    }
}

static void leave_bus(struct lull_node *node, uint32_t gpu, bool is_away)
{
    lose_gpu(node, gpu, is_away ? LULL_PHYSICS_NEVER : 0);
    if (is_away)
        add_xid(node, gpu, XID_OFF_BUS);
}

/* Returns whether a time has come. It does not read the clock for 0, which most times are. */
static bool has_passed(const struct lull_node *node, const _Atomic int64_t *time_ns)
{
    const int64_t until_ns = atomic_load(time_ns);

    return until_ns == 0 || until_ns <= lull_node_now_ns(node);
}

bool lull_node_visit(struct lull_node *node, uint32_t gpu)
{
    struct lull_node_shared_gpu *shared = &node->shared->gpus[gpu];
    double value;

    if (lull_node_take_fault(node, gpu, LULL_FAULT_XID, &value))
        add_xid(node, gpu, (uint64_t)value);
    suffer_errors(node, gpu);
    if (lull_node_take_fault(node, gpu, LULL_FAULT_MIG, &value)) {
        lull_node_set_setting(node, gpu, LULL_NODE_PARTITIONS, (uint32_t)value);
        node_fault_add_event(node, gpu, &(struct lull_node_event){LULL_NODE_EVENT_MIG, 0});
    }
    if (lull_node_take_fault(node, gpu, LULL_FAULT_FOREIGN_MHZ, &value))
        node_fault_change_clock(node, gpu, value);
    if (lull_node_take_fault(node, gpu, LULL_FAULT_FOREIGN_LIMIT_W, &value))
        change_limit(node, gpu, value);
    if (lull_node_take_fault(node, gpu, LULL_FAULT_RELOAD_MS, &value))
        reload_driver(node, value);
    if (lull_node_take_fault(node, gpu, LULL_FAULT_OFF_BUS, &value))
        leave_bus(node, gpu, value != 0.0);
    if (has_passed(node, &shared->lost_until_ns) &&
        lull_node_take_fault(node, gpu, LULL_FAULT_LOST_MS, &value))
        lose_gpu(node, gpu, lull_node_now_ns(node) + lull_ns_from_ms(value));
    return has_passed(node, &shared->lost_until_ns);
}

uint32_t lull_node_driver_loads(const struct lull_node *node)
{
    return atomic_load(&node->shared->driver_loads);
}

bool lull_node_has_driver(const struct lull_node *node)
{
    return has_passed(node, &node->shared->driver_back_ns);
}
