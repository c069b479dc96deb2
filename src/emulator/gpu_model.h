/*
 * Properties of one GPU model: its clocks, voltage, power, speed, heat, latencies and counters.
 *
 * The table is generated from data/gpu_models.json, where every group states whether it was
 * measured, fitted, published or guessed. A model holds no pointers, so it may live in shared
 * memory.
 *
 * A kernel at SM clock f draws base_w + slope_w (f/fmax) v(f)^2 and takes, relative to fmax,
 * memory_ratio / bandwidth(f) + (1 - memory_ratio) fmax/f. Threads: any; nothing here changes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_GPU_MODEL_H
#define LULL_EMULATOR_GPU_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LULL_GPU_CURVE_POINTS = 24,
    LULL_GPU_PROFILES = 12,
    LULL_GPU_ALIASES = 6,
    LULL_GPU_MEMORY_CLOCKS = 8,
};

/* A curve that is piecewise linear in MHz and constant beyond both ends. */
struct lull_gpu_curve {
    uint32_t count;
    struct {
        double mhz;
        double value;
    } points[LULL_GPU_CURVE_POINTS];
};

struct lull_gpu_profile {
    char name[24];
    double base_w;
    double slope_w;
    double memory_ratio; /* share of the time at fmax in which it waits for memory, 0..1 */
};

enum lull_memory_lock {
    LULL_MEMORY_LOCK_UNSUPPORTED,
    LULL_MEMORY_LOCK_DEFERRED, /* accepted; takes effect when the driver is reloaded */
    LULL_MEMORY_LOCK_LIVE,
};

/* The vendor whose driver library shows a GPU. */
enum lull_gpu_vendor {
    LULL_GPU_NVIDIA,
    LULL_GPU_AMD,
    LULL_GPU_INTEL,
};

/* The answer to whether GPUs reach each other's memory over PCIe. */
enum lull_gpu_peers {
    LULL_PEERS_OK,
    LULL_PEERS_NO_CHIPSET,  /* as NVML reports for boards on which the driver does not allow it */
    LULL_PEERS_UNSUPPORTED, /* they are of different models */
    LULL_PEERS_SELF,        /* it is one GPU */
};

enum { LULL_GPU_INFOROM_TEXTS = 3 }; /* image, OEM object, ECC object */

struct lull_gpu_model {
    char name[24];
    char borrowed[24]; /* the model whose curves it has, because it was not measured; "": its own */
    uint32_t alias_count;
    char aliases[LULL_GPU_ALIASES][20];

    /* Its identity, in NVML's numbers for NVIDIA. */
    uint32_t vendor;          /* enum lull_gpu_vendor */
    uint32_t dies_per_module; /* AMD: a GPU is one of this many dies; Intel: it has them */
    char product[48];
    uint32_t architecture;
    uint32_t brand;
    uint32_t compute_major;
    uint32_t compute_minor;
    uint32_t sm_count;
    uint32_t core_count;
    uint32_t memory_mib;
    uint32_t bus_bits;
    uint32_t pci_device;
    uint32_t nvlink_count;
    uint32_t pcie_generation;
    uint32_t pcie_lanes;
    bool has_fan;

    /* The board, of NVIDIA only. */
    uint32_t pci_subsystem; /* device and vendor, as NVML combines them */
    char vbios[16];
    char part_number[20]; /* "": it reports none */
    char inforom[LULL_GPU_INFOROM_TEXTS][16];
    bool has_serial;
    bool has_ecc;
    uint32_t bar1_mib;
    uint32_t reserved_mib; /* of memory, for the driver */
    uint32_t spare_banks;  /* of memory, for rows that are remapped */
    uint32_t peers;        /* enum lull_gpu_peers */
    uint32_t platform;     /* the server that carries it: an index of lull_platforms (topology.h) */

    double sm_min_mhz;
    double sm_max_mhz;
    double sm_step_mhz;   /* readings are rounded down to whole MHz */
    double video_min_mhz; /* the video clock at the lowest and the highest SM clock */
    double video_max_mhz;
    uint32_t memory_clock_count;
    uint32_t memory_clocks_mhz[LULL_GPU_MEMORY_CLOCKS]; /* the highest comes first */
    uint32_t memory_lock;                               /* enum lull_memory_lock */

    double limit_min_w;
    double limit_max_w;
    double limit_default_w;
    double limit_settle_ratio;   /* settled power under a binding limit, per limit */
    double cap_efficiency_ratio; /* work rate while the limiter dithers, per rate at that clock */
    double idle_w;               /* without a context, at the lowest clock */
    struct lull_gpu_curve active_idle_w;
    struct lull_gpu_curve voltage;   /* relative to its floor */
    struct lull_gpu_curve bandwidth; /* relative to bandwidth_gbs */
    double bandwidth_gbs;
    uint32_t profile_count;
    struct lull_gpu_profile profiles[LULL_GPU_PROFILES];

    /* Workload power profiles (NVML): a bit for each, by its number. Speed and energy of compute
     * kernels under Max-Q, relative to those without a profile; the others have no effect. */
    uint32_t workload_profiles;
    double max_q_speed_ratio;
    double max_q_energy_ratio;

    /* Power smoothing (NVML): the highest floor that can be set, relative to the highest power
     * limit; 0: the board has none. */
    double smoothing_floor_ratio;

    double link_w; /* extra power at full link bandwidth */
    double poll_w; /* per communicating SM at fmax */
    double link_gbs;
    double channel_gbs; /* rate of one channel at fmax */
    double ambient_c;
    double heat_c_per_w;
    double heat_tau_s;
    double leak_ratio_per_c;
    double slowdown_c;
    double hw_slowdown_c;
    double shutdown_c;
    double memory_limit_c; /* the highest temperature of the memory; 0: not reported */

    /* Clock switching: the duration of a call is log-normal and clipped; so is the time to settle,
     * which has a slow tail besides. */
    double api_ms;
    double api_sigma;
    double api_min_ms;
    double api_max_ms;
    double settle_ms;
    double settle_p99_ms;
    double settle_max_ms;
    double slow_ratio; /* share of the target clocks that settle slowly */
    double slow_min_ms;
    double slow_max_ms;

    double energy_period_ms;
    bool power_is_average; /* the reading is a 1 s average, not a short sample */
    double power_window_ms;
    double power_refresh_ms;
    double clock_refresh_ms;
    double gain_error_ratio; /* largest relative error of a board's readings */
};

extern const struct lull_gpu_model lull_gpu_models[];
extern const uint32_t lull_gpu_model_count;

/* The model of that name or alias, whose case is ignored. The name has `length` characters and need
 * not end with a NUL. NULL: there is none. */
const struct lull_gpu_model *lull_gpu_model_find(const char *name, uint32_t length);

/* The named kernel profile; for NULL or a name that the model lacks, "llm_fwd" or the first one. */
const struct lull_gpu_profile *lull_gpu_model_profile(const struct lull_gpu_model *model,
                                                      const char *name);

/* The value of the curve at a clock. */
double lull_gpu_curve_at(const struct lull_gpu_curve *curve, double mhz);

/* The number of clocks, the clock of a step (0 is the lowest), and the step nearest to a clock. */
uint32_t lull_gpu_model_step_count(const struct lull_gpu_model *model);
double lull_gpu_model_step_mhz(const struct lull_gpu_model *model, uint32_t step);
uint32_t lull_gpu_model_nearest_step(const struct lull_gpu_model *model, double mhz);

/* The video clock at an SM clock. */
double lull_gpu_model_video_mhz(const struct lull_gpu_model *model, double mhz);

/* The speed of a kernel relative to fmax, at most 1. */
double lull_gpu_model_speed(const struct lull_gpu_model *model, double memory_ratio, double mhz);

/* The settled power of a kernel that runs all the time, W. */
double lull_gpu_model_kernel_w(const struct lull_gpu_model *model,
                               const struct lull_gpu_profile *profile, double mhz);

/* The rate of a transfer over a link of link_gbs with this many channels, GB/s. */
double lull_gpu_model_transfer_gbs(const struct lull_gpu_model *model, double link_gbs,
                                   uint32_t channels, double mhz);

/* The power that a transfer adds to active idle or to a kernel while it moves rate_gbs (0: it
 * waits), W. */
double lull_gpu_model_transfer_w(const struct lull_gpu_model *model, double rate_gbs,
                                 uint32_t channels, double mhz);

/* Makes every driver call take call_ms and every clock settle in settle_ms (both >= 0) exactly. */
void lull_gpu_model_fix_latency(struct lull_gpu_model *model, double call_ms, double settle_ms);

#endif
