/*
 * Time and power of a kernel at each clock of a GPU model: Lull's only model of this kind. The
 * emulator has an independent one.
 *
 * The curves are those of data/gpu_models.json, which states for each whether it was measured,
 * fitted, published or guessed. At an SM clock f, relative to the highest one, a kernel takes the
 * time
 *
 *     t = m / bandwidth(f) + (1 - m) fmax / f,
 *
 * m being the share of its time at the highest clock that waits for memory, and draws
 *
 *     P = max(B + A (f / fmax) v(f)^2 r, waiting(f)),    r = min(1, (m + (1 - m) fmax / f) / t),
 *
 * v being the voltage relative to its floor: where memory is slower than at the highest clock, the
 * cores wait for it and draw less. A power limit is no bound on P at a clock: where a kernel draws
 * more, the board lowers the clock until it does not (lull_device_kernel_limited).
 *
 * Pure; nothing here changes; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_DEVICE_CURVE_H
#define LULL_CORE_ENERGY_DEVICE_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LULL_DEVICE_CURVE_POINTS = 24,
    LULL_DEVICE_CURVE_KERNELS = 12,
    LULL_DEVICE_CURVE_ALIASES = 6,
    LULL_DEVICE_CURVE_CLOCKS = 512,
};

/* ---- a model of GPU ----------------------------------------------------------------------- */

/* A line that is straight between its points, and level beyond both ends. */
struct lull_device_line {
    uint32_t count; /* at least 1 */
    struct {
        double mhz; /* rising */
        double value;
    } points[LULL_DEVICE_CURVE_POINTS];
};

struct lull_device_kernel {
    double base_w;       /* B >= 0 */
    double slope_w;      /* A >= 0 */
    double memory_ratio; /* m: 0..1 */
};

struct lull_device_curve {
    const char *name;
    const char *borrowed; /* the measured model from which these curves are scaled; NULL: its own */
    bool is_guessed;      /* the power of its kernels is a guess, so no product is taken for it */
    const char *aliases[LULL_DEVICE_CURVE_ALIASES]; /* NULL behind the last */
    uint32_t memory_mib;
    double sm_min_mhz;
    double sm_max_mhz;
    double sm_step_mhz;
    double limit_min_w;
    double limit_max_w;
    double limit_default_w;
    double limit_settle_ratio; /* power that a binding limit settles at, per limit */
    double limit_work_ratio; /* work under a binding limit, per work at the clock that it leaves */
    double idle_w;           /* without a context */
    double switch_ms;        /* typical time from requesting a clock until it is in force */
    struct lull_device_line waiting_w; /* with a context and no kernel */
    struct lull_device_line voltage;   /* v */
    struct lull_device_line bandwidth; /* of memory, relative to bandwidth_gbs */
    double bandwidth_gbs;
    double link_w; /* of a transfer at the link's full rate */
    double poll_w; /* of each channel of a transfer at the highest clock */
    double link_gbs;
    double channel_gbs; /* rate of a channel at the highest clock */
    uint32_t kernel_count;
    struct {
        const char *name;
        struct lull_device_kernel kernel;
    } kernels[LULL_DEVICE_CURVE_KERNELS];
};

extern const struct lull_device_curve lull_device_curves[];
extern const uint32_t lull_device_curve_count;

/* A product that was not measured, and the model whose curves represent it. */
struct lull_device_borrowing {
    const char *product;
    const char *model;
};

extern const struct lull_device_borrowing lull_device_borrowings[];
extern const uint32_t lull_device_borrowing_count;

/* Returns the curves of that name or alias, whose case is ignored. The name has `length` characters
 * and need not end with a NUL. NULL: there are none. */
const struct lull_device_curve *lull_device_curve_find(const char *name, size_t length);

/*
 * Returns the curves whose name, or alias, fits a product's name best, as a driver or a trace
 * reports it: all words of the name are in the product's, in any order and case, and the longest
 * name counts: "NVIDIA A100 80GB PCIe" has A100 in it as well as A100-PCIE-80GB. A product whose
 * longest name was not measured borrows; then *borrower_out is that name, else NULL. NULL: no known
 * name is in it.
 */
const struct lull_device_curve *lull_device_curve_of_product(const char *product,
                                                             const char **borrower_out);

/* Returns the kernel of that name; NULL: the model has none, or name is NULL. */
const struct lull_device_kernel *lull_device_curve_kernel(const struct lull_device_curve *curve,
                                                          const char *name);

/* Returns the kernel that stands for unknown computation in training: "training", else "llm_fwd",
 * else the first kernel of the model. */
const struct lull_device_kernel *lull_device_curve_default(const struct lull_device_curve *curve);

/* Return the kernels that stand for the phases of inference: of prefill, "llm_fwd" or another one
 * that computes; of decode, "llm_decode" or "stream", which read memory; NULL: the model has none.
 */
const struct lull_device_kernel *lull_device_curve_prefill(const struct lull_device_curve *curve);
const struct lull_device_kernel *lull_device_curve_decode(const struct lull_device_curve *curve);

double lull_device_line_at(const struct lull_device_line *line, double mhz);

/* ---- a clock ------------------------------------------------------------------------------ */

/* A GPU at one clock; ratios are to the highest clock. */
struct lull_device_clock {
    double mhz;
    double core_ratio;      /* f / fmax; > 0, at most 1 */
    double bandwidth_ratio; /* of memory; > 0, at most 1 */
    double dynamic_ratio;   /* (f / fmax) v(f)^2, v relative to the voltage floor; > 0 */
    double waiting_w;       /* with a context and no kernel; >= 0 */
};

struct lull_device_clock lull_device_clock_at(const struct lull_device_curve *curve, double mhz);

/* Writes all clocks of the model, the highest first. Returns how many, at most
 * LULL_DEVICE_CURVE_CLOCKS. */
uint32_t lull_device_clocks(const struct lull_device_curve *curve,
                            struct lull_device_clock *clocks_out);

/* Returns the time of a kernel, relative to that at the highest clock. */
double lull_device_kernel_time(const struct lull_device_clock *clock,
                               const struct lull_device_kernel *kernel);

/* Returns the settled power of a kernel that runs all the time, W. */
double lull_device_kernel_w(const struct lull_device_clock *clock,
                            const struct lull_device_kernel *kernel);

/* Returns the clock of a kernel under a power limit when clock number `asked` is requested, of the
 * clocks with the highest first: the highest one from there on at which it draws at most limit_w,
 * else the lowest. (A board may hold a clock between two steps; this is the lower one.) */
uint32_t lull_device_kernel_limited(const struct lull_device_clock *clocks, uint32_t count,
                                    const struct lull_device_kernel *kernel, double limit_w,
                                    uint32_t asked);

/* A kernel under a power limit. */
struct lull_device_run {
    double time_ratio; /* to its time when the highest clock is requested */
    double watts;
};

/* Returns time and power of a kernel under a limit when clock number `asked` is requested. */
struct lull_device_run lull_device_kernel_run(const struct lull_device_clock *clocks,
                                              uint32_t count,
                                              const struct lull_device_kernel *kernel,
                                              double limit_w, uint32_t asked);

/* Returns the rate of a transfer over a link of link_gbs with this many channels, GB/s. */
double lull_device_transfer_gbs(const struct lull_device_curve *curve, double link_gbs,
                                uint32_t channels, double mhz);

/* Returns the power that a transfer adds to waiting, or to a kernel, while it moves rate_gbs (0: it
 * waits), W. */
double lull_device_transfer_w(const struct lull_device_curve *curve, double rate_gbs,
                              uint32_t channels, double mhz);

#endif
