/*
 * One emulated GPU as a state machine in virtual time.
 *
 * Times are nanoseconds of one virtual clock that the caller passes in and that never goes back; an
 * earlier time is taken as the latest one seen. Between two events everything is constant or an
 * exponential, so integrals are exact and one long advance gives bit for bit what many short ones
 * give. The physics has no clock, no I/O, no allocation and no globals, and the struct has no
 * pointers, so it may lie in shared memory and be copied.
 * docs/research/measurements/emulated-node.md compares the equations with measured GPUs.
 *
 * Seed 0 is the nominal unit, without spread, noise, reading errors or slow target clocks.
 * Latencies still vary. Threads: the caller serialises. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PHYSICS_PHYSICS_H
#define LULL_EMULATOR_PHYSICS_PHYSICS_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/gpu_model.h"

enum {
    LULL_PHYSICS_CONTEXTS = 16,
    LULL_PHYSICS_KERNELS = 32,
    LULL_PHYSICS_FURTHER = 8,
    LULL_PHYSICS_PENDING = 8,
    LULL_PHYSICS_HISTORY = 16,
    LULL_PHYSICS_REASONS = 9,
    LULL_PHYSICS_SAMPLES = 120, /* readings that the driver keeps, as real boards do */
};

#define LULL_PHYSICS_NEVER INT64_MAX

/* Clock-event reasons, in NVML's bits. */
enum {
    LULL_REASON_IDLE = 0x1,
    LULL_REASON_APPLICATION = 0x2,
    LULL_REASON_POWER_CAP = 0x4,
    LULL_REASON_HW_SLOWDOWN = 0x8,
    LULL_REASON_SW_THERMAL = 0x20,
    LULL_REASON_HW_THERMAL = 0x40,
};

/* Requests to the driver about the SM clock, in steps of the grid. */
struct lull_clock_setting {
    bool is_locked;
    uint32_t min_step;
    uint32_t max_step;
    bool has_application_step;
    uint32_t application_step;
};

/* Means "no work" where the number of a work is expected. */
#define LULL_PHYSICS_NO_WORK UINT64_MAX

/* A compute or communication kernel, as passed to lull_physics_enqueue(). */
struct lull_physics_work {
    uint32_t stream;   /* work of one stream of a context runs one after the other */
    uint64_t after[2]; /* numbers of earlier work that must have ended, or LULL_PHYSICS_NO_WORK */
    uint32_t further_count;
    uint64_t further[LULL_PHYSICS_FURTHER]; /* more numbers like these */
    int64_t delay_ns; /* it begins at least this long after all of those have ended, >= 0 */
    /* It begins no earlier than this. For earlier work that has already ended, the caller sets this
     * to its end plus the delay, instead of `after`. */
    int64_t earliest_ns;
    double duration_s; /* at fmax; for communication, from the time at which it is released */
    bool is_transfer; /* true: communication, with link_gbs to is_held; false: compute, with profile
                       */
    struct lull_gpu_profile profile;
    double link_gbs;
    uint32_t channels; /* number of SMs that drive it */
    bool takes_sms;    /* compute kernels beside it lack those SMs */
    bool is_held;      /* it spins from its start until lull_physics_release() */
};

enum lull_physics_state {
    LULL_WORK_ENDED,   /* its place may be taken */
    LULL_WORK_WAITING, /* waits for earlier work and begins no earlier than begin_ns */
    LULL_WORK_READY,   /* begins at begin_ns */
    LULL_WORK_RUNNING, /* ends at end_ns at the present rate */
};

struct lull_physics_kernel {
    double work_s; /* work that is left, in seconds at fmax */
    struct lull_gpu_profile profile;
    uint64_t number;
    uint32_t after;   /* places of the work that it still waits for */
    uint32_t awaits;  /* ...and of what comes before it on its stream, too */
    uint32_t waiters; /* places of the work that waits for this one */
    int64_t delay_ns;
    int64_t begin_ns;
    int64_t end_ns;
    double speed; /* present speed, relative to fmax */
    double link_gbs;
    uint32_t channels;
    uint32_t stream;
    uint8_t state; /* enum lull_physics_state */
    bool is_transfer;
    bool takes_sms;
    bool is_held;
    bool is_low; /* of compute: the clock was lowered while it ran */
    bool has_begun_low;
};

struct lull_physics_transfer {
    bool is_active;
    double total_bytes;
    double bytes; /* bytes that are left */
    double link_gbs;
    uint32_t channels;
    double rate_gbs; /* present rate; 0: everything has been moved */
    int64_t end_ns;  /* when it ends at this rate */
};

/* What the units of a GPU have done: seconds of full use, and bytes. As a rate, per second. */
struct lull_physics_activity {
    double sm;
    double tensor;       /* an upper estimate: kernels compute on tensor cores or wait for memory */
    double memory;       /* relative to the memory bandwidth */
    double nvlink_bytes; /* in each direction */
    double pcie_bytes;
};

/* The share of a context in what its GPU does, and its percentages in the latest period. */
struct lull_physics_use {
    double busy_s;
    double memory_s;
    double busy_rate;
    double memory_rate;
    double busy_mark_s;
    double memory_mark_s;
    uint32_t busy_percent;
    uint32_t memory_percent;
};

/* The latest readings, each at its number modulo the size. */
struct lull_physics_samples {
    uint32_t power_mw[LULL_PHYSICS_SAMPLES]; /* numbered by the refreshes of `instant` */
    uint32_t count; /* of the others, one in each period of the utilisation */
    uint16_t sm_mhz[LULL_PHYSICS_SAMPLES];
    uint16_t memory_mhz[LULL_PHYSICS_SAMPLES];
    uint8_t busy_percent[LULL_PHYSICS_SAMPLES];
    uint8_t memory_percent[LULL_PHYSICS_SAMPLES];
};

struct lull_physics_context {
    bool is_live;
    int64_t owner; /* process that opened it; only the caller uses it */
    uint64_t owner_mark;
    uint32_t memory_mib; /* allocated by the caller; nothing here depends on it */
    struct lull_physics_use use;
    uint64_t next;  /* number of the next work */
    uint32_t count; /* number of works that have not ended */
    /* One bit per place; ended work keeps its times until its place is taken again. */
    uint32_t unfinished; /* its work has not ended */
    uint32_t ready;
    uint32_t running;
    uint32_t transfers; /* its work is communication */
    uint8_t
        places[LULL_PHYSICS_KERNELS]; /* place of the latest work with a number of this remainder */
    struct lull_physics_kernel kernels[LULL_PHYSICS_KERNELS];
    struct lull_physics_transfer transfer;
};

/* Publishes the mean power of the last window, once per period. */
struct lull_physics_meter {
    int64_t period_ns;
    int64_t window_ns;
    int64_t next_ns;
    int64_t sample_ns; /* when a window that is shorter than the period starts */
    double start_j;
    double history_j[LULL_PHYSICS_HISTORY]; /* energy at the latest refreshes */
    uint32_t refreshes;
    double initial_w; /* assumed before the first full window */
    double published_w;
};

/* One of the settings between which power smoothing can be switched. */
struct lull_physics_preset {
    double floor_ratio;  /* of the highest power limit */
    double ramp_up_w;    /* per second: power rises no faster */
    double ramp_down_w;  /* per second: the floor falls no faster after its hysteresis */
    double hysteresis_s; /* for so long the floor holds after the load has fallen below it */
};

enum { LULL_PHYSICS_PRESETS = 5 };

struct lull_physics_smoothing {
    bool is_enabled;
    uint32_t active; /* preset in use */
    struct lull_physics_preset presets[LULL_PHYSICS_PRESETS];
    bool was_above;   /* the load was above the floor at folded_ns */
    double held_w;    /* the power that is held now; 0: none */
    double ceiling_w; /* the power that is not exceeded now; 0: any is allowed */
    int64_t fall_ns;  /* when held_w falls next, first after the hysteresis */
    int64_t rise_ns;  /* when ceiling_w rises next */
};

/* Rates of a kernel of one profile at one clock, cached because most kernels are alike. */
struct lull_physics_rate {
    double mhz; /* 0: nothing is kept */
    double memory_ratio;
    double base_w;
    double slope_w;
    double speed;
    double power_w;
};

struct lull_physics {
    struct lull_gpu_model model;
    uint64_t seed;
    uint64_t random; /* generator of the latencies */
    double unit_ratio;
    double gain_ratio;

    int64_t now_ns;
    int64_t folded_ns; /* the state below is of this time; the next event is at next_ns */
    int64_t next_ns;

    struct lull_clock_setting setting; /* setting in effect */
    struct lull_clock_setting asked;
    struct {
        int64_t effective_ns;
        struct lull_clock_setting setting;
    } pending[LULL_PHYSICS_PENDING];
    uint32_t pending_count;
    double idle_mhz; /* the clock without a context, which decays */
    int64_t decay_ns;
    double cap_mhz;  /* ceiling of the power limiter; thermal_mhz is that of the thermal loop */
    double peak_mhz; /* clock to which cap_mhz may rise again after an emergency */
    double thermal_mhz;
    int64_t hw_until_ns;
    int64_t over_ns; /* when power will have been far over the limit for too long */
    int64_t control_ns;
    double control_j;
    double limit_w;
    /* Workload power profiles, a bit for each. Every request is granted that no other one outranks.
     */
    uint32_t profiles_requested;
    uint32_t profiles_enforced;
    struct lull_physics_smoothing smoothing;
    double kernel_speed_ratio; /* of compute kernels under them */
    double kernel_power_ratio;

    double mhz;
    double power_w; /* settled power of the present load, with unit factor and plateau */
    double temperature_c;
    double energy_j;
    uint64_t reasons;
    int64_t reason_ns[LULL_PHYSICS_REASONS]; /* time for which each reason has held */
    double plateau_ratio;
    int64_t plateau_ns;

    uint64_t work_events; /* number of starts and ends so far; if it is unchanged, nothing has begun
                           * or ended */
    int64_t work_change_ns;        /* when the next of them is due at the present rates */
    struct lull_physics_rate rate; /* of the last compute kernel */
    uint32_t context_count;
    uint32_t live; /* one bit per live context */

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
    double memory_mark_s;
    uint32_t memory_percent; /* the share of the memory bandwidth in the latest period */
    struct lull_physics_samples samples;

    struct lull_physics_activity activity; /* until folded_ns */
    struct lull_physics_activity activity_rate;
    bool no_activity;   /* no client reads activity: it stays 0, and the physics is faster */
    int64_t limited_ns; /* time for which anything has kept the clock low */

    uint64_t requests_low; /* requests for a clock below the highest */
    uint64_t kernels_started;
    uint64_t kernels_started_low; /* those that began below the highest clock allowed */
    int64_t kernel_low_ns;        /* time with a kernel running below it */

    struct lull_physics_context contexts[LULL_PHYSICS_CONTEXTS]; /* the last: see copy below */
};

/* Sets up a GPU that has long been idle. The unit seeds of a node's GPUs must differ. */
void lull_physics_init(struct lull_physics *gpu, const struct lull_gpu_model *model,
                       uint64_t unit_seed, int64_t now_ns);

/* Copies a GPU's state. Of contexts that are not live it copies only that fact. A state has 75 kB;
 * for a GPU that is only read, nearly all of it is contexts that are not open. */
void lull_physics_copy(struct lull_physics *to, const struct lull_physics *from);

/* Advances the GPU to a virtual time. */
void lull_physics_advance(struct lull_physics *gpu, int64_t now_ns);

/* open returns the number of a new context; -1: all are taken. close drops the kernels and the
 * transfer of a context. */
int lull_physics_open(struct lull_physics *gpu, int64_t owner, uint64_t owner_mark);
void lull_physics_close(struct lull_physics *gpu, int context);

/* Enqueues a compute kernel that takes duration_s at fmax. False: the queue is full. */
bool lull_physics_launch(struct lull_physics *gpu, int context, double duration_s,
                         const struct lull_gpu_profile *profile);

/*
 * Enqueues work, whose numbers count from 0 in each context. False: the queue is full and nothing
 * has happened. All of it may run at once where streams and `after` allow it: compute kernels take
 * turns and transfers run beside them.
 */
bool lull_physics_enqueue(struct lull_physics *gpu, int context,
                          const struct lull_physics_work *work);

/* The work of that number. NULL: it has not been enqueued, or it has ended and later work has its
 * place. */
const struct lull_physics_kernel *lull_physics_find_work(const struct lull_physics *gpu,
                                                         int context, uint64_t number);

/*
 * Releases held communication at at_ns. If that is a past time, the data that it would have
 * transferred since then counts as transferred. Work that is not running or not held stays as it
 * is.
 */
void lull_physics_release(struct lull_physics *gpu, int context, uint64_t number, int64_t at_ns);

/* Begins a transfer; it replaces the one before. */
void lull_physics_transfer_begin(struct lull_physics *gpu, int context, double bytes,
                                 double link_gbs, uint32_t channels);
void lull_physics_transfer_end(struct lull_physics *gpu, int context);

/*
 * Estimates, at the present rates, when the queue of launched kernels will be
 * empty, when it will have room for one more, and when this share of the transfer
 * will have been moved. The present time is returned if that is already the case. An estimate holds
 * until lull_physics_rate_change_ns().
 */
int64_t lull_physics_queue_end_ns(const struct lull_physics *gpu, int context);
int64_t lull_physics_queue_room_ns(const struct lull_physics *gpu, int context);
int64_t lull_physics_transfer_share_ns(const struct lull_physics *gpu, int context, double share);

/* Time at which the next work begins or ends at the present rates; LULL_PHYSICS_NEVER: none will.
 */
int64_t lull_physics_work_change_ns(const struct lull_physics *gpu);

/* The next time at which a rate may change without a call. */
int64_t lull_physics_rate_change_ns(const struct lull_physics *gpu);

/* Draws the duration of a driver call, returns whether a step is one of the unit's slow targets,
 * and draws the settling time of the clock at it. */
double lull_physics_draw_api_ms(const struct lull_gpu_model *model, uint64_t *random);
bool lull_physics_is_slow_step(const struct lull_gpu_model *model, uint64_t unit_seed,
                               uint32_t step);
double lull_physics_draw_settle_ms(const struct lull_gpu_model *model, bool is_slow,
                                   uint64_t *random);

/* Requests as they reach the GPU at the end of the driver call. Clocks take effect after settling,
 * in the order of requests; a power limit takes effect at once. */
void lull_physics_ask_clocks(struct lull_physics *gpu, const struct lull_clock_setting *setting,
                             double settle_factor);

/* Requests clocks up to a step, as lull_physics_ask_clocks() does. */
void lull_physics_lock(struct lull_physics *gpu, uint32_t step, double settle_factor);
void lull_physics_set_limit(struct lull_physics *gpu, double limit_w);

/* Workload power profiles, in NVML's numbers: Max-P and Max-Q exclude each other, and so do the
 * kinds of work. Of those that exclude each other the lowest number holds, which is a guess. */
enum { LULL_PROFILE_MAX_P = 0, LULL_PROFILE_MAX_Q = 1 };
uint32_t lull_physics_excluded_profiles(const struct lull_gpu_model *model, uint32_t profile);
void lull_physics_request_profiles(struct lull_physics *gpu, uint32_t requested);

/*
 * Sets power smoothing, and returns its floor in force, W; 0: none. Sources: nvml.h of NVIDIA (the
 * parameters and their units); NVIDIA's article on GB300 NVL72 (2025) and arXiv 2508.14318 (a GPU
 * burns power to hold a floor, and its power ramps at a limited rate). Three things are not public
 * and assumed: the floor is relative to the highest power limit; power rises in time by a lower
 * clock; only the floor ramps down, while a load above it falls freely.
 */
void lull_physics_set_smoothing(struct lull_physics *gpu,
                                const struct lull_physics_smoothing *smoothing);
double lull_physics_floor_w(const struct lull_physics *gpu);

/* The step to which a setting leads where neither power nor heat limits the clock. */
uint32_t lull_physics_setting_step(const struct lull_gpu_model *model,
                                   const struct lull_clock_setting *setting);

/* Sets the temperature to the steady one at this power, as if a job had just ended. */
void lull_physics_warm(struct lull_physics *gpu, double power_w);

/* The true values at the time of the latest advance. */
struct lull_physics_activity lull_physics_activity_of(const struct lull_physics *gpu);
double lull_physics_memory_w(const struct lull_physics *gpu);
double lull_physics_memory_temperature_c(const struct lull_physics *gpu);
double lull_physics_power_w(const struct lull_physics *gpu);
double lull_physics_energy_j(const struct lull_physics *gpu);
double lull_physics_temperature_c(const struct lull_physics *gpu);
bool lull_physics_is_busy(const struct lull_physics *gpu);

/* Values that the driver publishes: those of the latest refresh, averaged, with the board's error.
 */
int64_t lull_physics_utilization_period_ns(void);
uint32_t lull_physics_published_mhz(const struct lull_physics *gpu);
uint32_t lull_physics_memory_mhz(const struct lull_physics *gpu);
uint64_t lull_physics_published_mj(const struct lull_physics *gpu);
uint32_t lull_physics_published_mw(const struct lull_physics *gpu,
                                   const struct lull_physics_meter *meter);

#endif
