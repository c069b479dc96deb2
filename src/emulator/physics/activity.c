/*
 * How much the units of the emulated GPU do: SMs, tensor cores, memory and links. Rates are
 * constant between two events, so that their integrals are exact. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/physics/internal.h"

/* A reduction reads its own byte, reads or receives the other one and writes the result. */
enum { MEMORY_ACCESSES_PER_BYTE = 3 };

/* HBM2 takes 3.9 pJ per bit (O'Connor et al., Fine-Grained DRAM, MICRO 2017). The share that the
 * memory draws without accesses and its heat resistance are guesses. */
static const double memory_j_per_gb = 3.9e-12 * 8e9;
static const double memory_idle_ratio = 0.15;
static const double memory_c_per_w = 0.1;

/* Returns whether the computing part of a kernel uses tensor cores, by the name of its profile. */
static bool uses_tensor_cores(const struct lull_gpu_profile *profile)
{
    return strncmp(profile->name, "llm", 3) == 0 || strcmp(profile->name, "training") == 0 ||
           strncmp(profile->name, "dgemm", 5) == 0;
}

/* The part of its time for which a kernel waits for memory follows from the bytes that it moves. */
static void add_kernel(struct lull_physics *gpu, struct lull_physics_use *use,
                       const struct lull_physics_kernel *kernel)
{
    const double memory = kernel->profile.memory_ratio * kernel->speed;

    use->memory_rate += memory;
    gpu->activity_rate.memory += memory;
    if (uses_tensor_cores(&kernel->profile))
        gpu->activity_rate.tensor +=
            (1.0 - kernel->profile.memory_ratio) * kernel->speed * gpu->model.sm_max_mhz / gpu->mhz;
}

/* Data whose slowest link is no faster than PCIe goes over it to a network adapter or another GPU.
 */
static bool is_over_pcie(const struct lull_gpu_model *model, double link_gbs)
{
    const double pcie_gbs = (double)(model->pcie_lanes << model->pcie_generation) / 8;

    return model->nvlink_count == 0 || link_gbs <= pcie_gbs;
}

static void add_transfer(struct lull_physics *gpu, struct lull_physics_use *use, double link_gbs,
                         double rate_gbs)
{
    const double memory = rate_gbs * MEMORY_ACCESSES_PER_BYTE / gpu->model.bandwidth_gbs;

    use->memory_rate += memory;
    gpu->activity_rate.memory += memory;
    if (is_over_pcie(&gpu->model, link_gbs))
        gpu->activity_rate.pcie_bytes += rate_gbs * 1e9;
    else
        gpu->activity_rate.nvlink_bytes += rate_gbs * 1e9;
}

/* Numbers of works that keep the SMs of a GPU busy. */
struct running_works {
    uint32_t kernels;
    uint32_t channels;
};

/* Adds the work of one context. */
static struct running_works add_context(struct lull_physics *gpu,
                                        struct lull_physics_context *context)
{
    struct running_works works = {0};

    context->use.busy_rate = context->use.memory_rate = 0;
    for (uint32_t places = context->running; places != 0; places &= places - 1) {
        const struct lull_physics_kernel *kernel = &context->kernels[__builtin_ctz(places)];

        if (!kernel->is_transfer) {
            works.kernels++;
            add_kernel(gpu, &context->use, kernel);
        } else {
            works.channels += kernel->channels;
            add_transfer(gpu, &context->use, kernel->link_gbs,
                         lull_physics_kernel_gbs(gpu, kernel));
        }
    }
    if (context->transfer.is_active) {
        works.channels += context->transfer.channels;
        add_transfer(gpu, &context->use, context->transfer.link_gbs, context->transfer.rate_gbs);
    }
    return works;
}

/* Splits the busy time among contexts: by kernels, which take turns, or else by channels. */
static void share_busy_time(struct lull_physics *gpu, const struct running_works *works,
                            const struct running_works *all)
{
    for (uint32_t live = gpu->live; live != 0; live &= live - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(live);
        struct lull_physics_use *use = &gpu->contexts[i].use;

        if (all->kernels > 0)
            use->busy_rate = (double)works[i].kernels / all->kernels;
        else if (all->channels > 0)
            use->busy_rate = (double)works[i].channels / all->channels;
    }
}

void lull_physics_update_activity(struct lull_physics *gpu)
{
    struct running_works works[LULL_PHYSICS_CONTEXTS];
    struct running_works all = {0};
    double taken;

    gpu->activity_rate = (struct lull_physics_activity){0};
    for (uint32_t live = gpu->live; live != 0; live &= live - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(live);

        works[i] = add_context(gpu, &gpu->contexts[i]);
        all.kernels += works[i].kernels;
        all.channels += works[i].channels;
    }
    share_busy_time(gpu, works, &all);
    taken = fmin((double)all.channels / gpu->model.sm_count, 1.0);
    gpu->activity_rate.sm = all.kernels > 0 ? 1.0 : taken;
    gpu->activity_rate.memory = fmin(gpu->activity_rate.memory, 1.0);
}

void lull_physics_fold_activity(struct lull_physics *gpu, double dt_s)
{
    gpu->activity.sm += gpu->activity_rate.sm * dt_s;
    gpu->activity.tensor += gpu->activity_rate.tensor * dt_s;
    gpu->activity.memory += gpu->activity_rate.memory * dt_s;
    gpu->activity.nvlink_bytes += gpu->activity_rate.nvlink_bytes * dt_s;
    gpu->activity.pcie_bytes += gpu->activity_rate.pcie_bytes * dt_s;
    for (uint32_t live = gpu->live; live != 0; live &= live - 1) {
        struct lull_physics_use *use = &gpu->contexts[__builtin_ctz(live)].use;

        use->busy_s += use->busy_rate * dt_s;
        use->memory_s += use->memory_rate * dt_s;
    }
}

struct lull_physics_activity lull_physics_activity_of(const struct lull_physics *gpu)
{
    const double dt_s = (double)(gpu->now_ns - gpu->folded_ns) * 1e-9;
    const struct lull_physics_activity *rate = &gpu->activity_rate;

    return (struct lull_physics_activity){
        .sm = gpu->activity.sm + rate->sm * dt_s,
        .tensor = gpu->activity.tensor + rate->tensor * dt_s,
        .memory = gpu->activity.memory + rate->memory * dt_s,
        .nvlink_bytes = gpu->activity.nvlink_bytes + rate->nvlink_bytes * dt_s,
        .pcie_bytes = gpu->activity.pcie_bytes + rate->pcie_bytes * dt_s,
    };
}

/* ---- periods of the utilisation ---- */

static uint32_t percent_of(double seconds, double period_s)
{
    return (uint32_t)fmin(100.0 * seconds / period_s + 1e-6, 100.0);
}

static void keep_sample(struct lull_physics *gpu)
{
    struct lull_physics_samples *samples = &gpu->samples;
    const uint32_t at = samples->count++ % LULL_PHYSICS_SAMPLES;

    samples->sm_mhz[at] = (uint16_t)lull_physics_published_mhz(gpu);
    samples->memory_mhz[at] = (uint16_t)lull_physics_memory_mhz(gpu);
    samples->busy_percent[at] = (uint8_t)gpu->utilization_percent;
    samples->memory_percent[at] = (uint8_t)gpu->memory_percent;
}

void lull_physics_refresh_use(struct lull_physics *gpu, int64_t period_ns)
{
    const double period_s = (double)period_ns * 1e-9;

    gpu->memory_percent = percent_of(gpu->activity.memory - gpu->memory_mark_s, period_s);
    gpu->memory_mark_s = gpu->activity.memory;
    for (uint32_t live = gpu->live; live != 0; live &= live - 1) {
        struct lull_physics_use *use = &gpu->contexts[__builtin_ctz(live)].use;

        use->busy_percent = percent_of(use->busy_s - use->busy_mark_s, period_s);
        use->memory_percent = percent_of(use->memory_s - use->memory_mark_s, period_s);
        use->busy_mark_s = use->busy_s;
        use->memory_mark_s = use->memory_s;
    }
    keep_sample(gpu);
}

/* ---- memory ---- */

double lull_physics_memory_w(const struct lull_physics *gpu)
{
    const double use = memory_idle_ratio + (1.0 - memory_idle_ratio) * gpu->memory_percent * 0.01;

    return use * gpu->model.bandwidth_gbs * memory_j_per_gb;
}

double lull_physics_memory_temperature_c(const struct lull_physics *gpu)
{
    return lull_physics_temperature_c(gpu) + memory_c_per_w * lull_physics_memory_w(gpu);
}
