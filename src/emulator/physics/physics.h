/*
 * One emulated GPU as a state machine in virtual time.
 *
 * Times are nanoseconds of one virtual clock that the caller passes in and that never goes back;
 * an earlier time is taken as the latest one seen. Between two events everything is constant or an
 * exponential, so integrals are exact and one long advance gives bit for bit what many short ones
 * give. No clock, no I/O, no allocation, no globals, no pointers inside: the struct may lie in
 * shared memory and be copied. Source of the equations: reference GPU model, sections 2 to 7.
 *
 * Seed 0 is the nominal unit: no spread, noise, reading error or slow targets (latencies vary).
 * Threads: the caller serialises. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PHYSICS_PHYSICS_H
#define LULL_EMULATOR_PHYSICS_PHYSICS_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/gpu_model.h"

enum {
    LULL_PHYSICS_CONTEXTS = 16,
    LULL_PHYSICS_KERNELS = 32,
    LULL_PHYSICS_PENDING = 8,
    LULL_PHYSICS_HISTORY = 16,
    LULL_PHYSICS_REASONS = 9,
};

#define LULL_PHYSICS_NEVER INT64_MAX

/* Clock-event reasons, NVML's bits. */
enum {
    LULL_REASON_IDLE = 0x1,
    LULL_REASON_APPLICATION = 0x2,
    LULL_REASON_POWER_CAP = 0x4,
    LULL_REASON_HW_SLOWDOWN = 0x8,
    LULL_REASON_SW_THERMAL = 0x20,
    LULL_REASON_HW_THERMAL = 0x40,
};

/* What the driver has been told about the SM clock, in steps of the grid. */
struct lull_clock_setting {
    bool is_locked;
    uint32_t min_step;
    uint32_t max_step;
    bool has_application_step;
    uint32_t application_step;
};

/* No work; also: work that nothing has to wait for. */
#define LULL_PHYSICS_NO_WORK UINT64_MAX

/* A kernel of compute or of communication, as lull_physics_enqueue() is told of it. */
struct lull_physics_work {
    uint32_t stream;     /* work of one stream of a context runs one after the other */
    uint64_t after[2];   /* numbers of earlier work that must have ended; LULL_PHYSICS_NO_WORK */
    int64_t delay_ns;    /* begins at least so long after those two have ended, >= 0 */
    int64_t earliest_ns; /* and not before; of those that have ended the caller puts it here */
    double duration_s;   /* at fmax; of communication: once it is no longer held */
    bool is_transfer;    /* communication: link_gbs to is_held; else compute: profile */
    struct lull_gpu_profile profile;
    double link_gbs;
    uint32_t channels; /* SMs that drive it */
    bool takes_sms;    /* and that compute kernels beside it lack */
    bool is_held;      /* spins from its begin until lull_physics_release() */
};

enum lull_physics_state {
    LULL_WORK_ENDED,   /* its place may be taken */
    LULL_WORK_WAITING, /* for earlier work; begins not before begin_ns */
    LULL_WORK_READY,   /* begins at begin_ns */
    LULL_WORK_RUNNING, /* ends at end_ns at the present rate */
};

struct lull_physics_kernel {
    double work_s; /* left, in seconds at fmax */
    struct lull_gpu_profile profile;
    uint64_t number;
    uint64_t after[2]; /* that it still waits for */
    int64_t delay_ns;
    int64_t begin_ns;
    int64_t end_ns;
    double speed; /* now */
    double link_gbs;
    uint32_t channels;
    uint32_t stream;
    uint8_t state; /* enum lull_physics_state */
    bool is_transfer;
    bool takes_sms;
    bool is_held;
    bool is_low; /* compute: the clock was lowered while it ran */
    bool has_begun_low;
};

struct lull_physics_transfer {
    bool is_active;
    double total_bytes;
    double bytes; /* left */
    double link_gbs;
    uint32_t channels;
    double rate_gbs; /* now; 0: all moved */
    int64_t end_ns;  /* at this rate */
};

struct lull_physics_context {
    bool is_live;
    int64_t owner; /* for the caller: who opened it */
    uint64_t owner_mark;
    uint64_t next;   /* number of the next work */
    uint32_t count;  /* work that has not ended */
    uint32_t used;   /* all of it is below; an ended one keeps its times until its place is taken */
    uint32_t active; /* bits of those that are ready or running */
    uint8_t places[LULL_PHYSICS_KERNELS]; /* of the latest work with that remainder of its number */
    struct lull_physics_kernel kernels[LULL_PHYSICS_KERNELS];
    struct lull_physics_transfer transfer;
};

/* Publishes an average of the power of the last window, once per period. */
struct lull_physics_meter {
    int64_t period_ns;
    int64_t window_ns;
    int64_t next_ns;
    int64_t sample_ns; /* start of a window that is shorter than the period */
    double start_j;
    double history_j[LULL_PHYSICS_HISTORY]; /* energy at the latest refreshes */
    uint32_t refreshes;
    double initial_w; /* before the first full window */
    double published_w;
};

struct lull_physics {
    struct lull_gpu_model model;
    uint64_t seed;
    uint64_t random; /* generator of the latencies */
    double unit_ratio;
    double gain_ratio;

    int64_t now_ns;
    int64_t folded_ns; /* state below is of this time; the next event is at next_ns */
    int64_t next_ns;

    struct lull_clock_setting setting; /* in effect */
    struct lull_clock_setting asked;
    struct {
        int64_t effective_ns;
        struct lull_clock_setting setting;
    } pending[LULL_PHYSICS_PENDING];
    uint32_t pending_count;
    double idle_mhz; /* decaying clock without a context */
    int64_t decay_ns;
    double cap_mhz;  /* ceilings of the limiter and of the thermal loop */
    double peak_mhz; /* how far cap_mhz may rise again after an emergency */
    double thermal_mhz;
    int64_t hw_until_ns;
    int64_t over_ns; /* when power has been far over the limit for too long */
    int64_t control_ns;
    double control_j;
    double limit_w;

    double mhz;
    double power_w; /* settled value of the present load, with unit factor and plateau */
    double temperature_c;
    double energy_j;
    uint64_t reasons;
    int64_t reason_ns[LULL_PHYSICS_REASONS]; /* time with each reason */
    double plateau_ratio;
    int64_t plateau_ns;

    uint64_t work_events;   /* begins and ends of work so far: unchanged, there is no news */
    int64_t work_change_ns; /* when the next one is due at the present rates */
    uint32_t context_count;
    struct lull_physics_context contexts[LULL_PHYSICS_CONTEXTS];

    int64_t energy_ns;
    int64_t energy_base_mj;
    int64_t published_mj;
    struct lull_physics_meter usage;
    struct lull_physics_meter instant;
    int64_t clock_ns;
    double published_mhz;
    int64_t busy_ns;
    int64_t busy_mark_ns;
    int64_t utilization_ns;
    uint32_t utilization_percent;

    uint64_t kernels_started;
    uint64_t kernels_started_low; /* while the clock was below the highest allowed */
    int64_t kernel_low_ns;        /* time with a kernel running there */
};

/* Sets up a GPU that is idle since long; unit seeds differ between the GPUs of a node. */
void lull_physics_init(struct lull_physics *gpu, const struct lull_gpu_model *model,
                       uint64_t unit_seed, int64_t now_ns);

/* Lets virtual time pass. */
void lull_physics_advance(struct lull_physics *gpu, int64_t now_ns);

/* Contexts. open gives a number, -1 if all are taken; close drops its kernels and transfer. */
int lull_physics_open(struct lull_physics *gpu, int64_t owner, uint64_t owner_mark);
void lull_physics_close(struct lull_physics *gpu, int context);

/* Enqueues a kernel that takes duration_s at fmax. False: the queue is full, nothing happened. */
bool lull_physics_launch(struct lull_physics *gpu, int context, double duration_s,
                         const struct lull_gpu_profile *profile);

/*
 * Enqueues work; numbers count from 0 in each context. False: the queue is full, nothing happened.
 * All of it may run at once where streams and after allow: compute kernels take turns, transfers
 * run beside them.
 */
bool lull_physics_enqueue(struct lull_physics *gpu, int context,
                          const struct lull_physics_work *work);

/* The work of that number; NULL: not enqueued, or ended and its place taken by later work. */
const struct lull_physics_kernel *lull_physics_find_work(const struct lull_physics *gpu,
                                                         int context, uint64_t number);

/*
 * Lets held communication move from at_ns on (which may be past: what it would have moved since is
 * taken as moved). Work that is not running or not held stays as it is.
 */
void lull_physics_release(struct lull_physics *gpu, int context, uint64_t number, int64_t at_ns);

/* Begins a transfer; it replaces the one before. */
void lull_physics_transfer_begin(struct lull_physics *gpu, int context, double bytes,
                                 double link_gbs, uint32_t channels);
void lull_physics_transfer_end(struct lull_physics *gpu, int context);

/* When the queue of launched kernels is empty, or has room for one more, or the share has been
 * moved: an estimate at the present rates, now if it is so already. It holds until
 * lull_physics_rate_change_ns(). */
int64_t lull_physics_queue_end_ns(const struct lull_physics *gpu, int context);
int64_t lull_physics_queue_room_ns(const struct lull_physics *gpu, int context);
int64_t lull_physics_transfer_share_ns(const struct lull_physics *gpu, int context, double share);

/* When the next work begins or ends at the present rates; LULL_PHYSICS_NEVER: none will. */
int64_t lull_physics_work_change_ns(const struct lull_physics *gpu);

/* The next time at which a rate may change by itself. */
int64_t lull_physics_rate_change_ns(const struct lull_physics *gpu);

/* Random durations of a driver call and of settling to a step (is_slow: the unit's slow target). */
double lull_physics_draw_api_ms(const struct lull_gpu_model *model, uint64_t *random);
bool lull_physics_is_slow_step(const struct lull_gpu_model *model, uint64_t unit_seed,
                               uint32_t step);
double lull_physics_draw_settle_ms(const struct lull_gpu_model *model, bool is_slow,
                                   uint64_t *random);

/* Requests at the end of the driver call; in effect after settling, in the order of requests. */
void lull_physics_ask_clocks(struct lull_physics *gpu, const struct lull_clock_setting *setting,
                             double settle_factor);
void lull_physics_set_limit(struct lull_physics *gpu, double limit_w);

/* The step that a setting leads to without limits of power and heat. */
uint32_t lull_physics_setting_step(const struct lull_gpu_model *model,
                                   const struct lull_clock_setting *setting);

/* Sets the temperature to the steady one at this power, as if a job had just ended. */
void lull_physics_warm(struct lull_physics *gpu, double power_w);

/* True values at the time of the latest advance. */
double lull_physics_power_w(const struct lull_physics *gpu);
double lull_physics_energy_j(const struct lull_physics *gpu);
double lull_physics_temperature_c(const struct lull_physics *gpu);
bool lull_physics_is_busy(const struct lull_physics *gpu);

/* What the driver publishes: refreshed, averaged, with the board's reading error. */
uint32_t lull_physics_published_mhz(const struct lull_physics *gpu);
uint64_t lull_physics_published_mj(const struct lull_physics *gpu);
uint32_t lull_physics_published_mw(const struct lull_physics *gpu,
                                   const struct lull_physics_meter *meter);

#endif
