/*
 * The work of the emulated GPU and its power: compute kernels of several contexts take turns, and
 * transfers run concurrently with them. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "base/clock.h"
#include "emulator/noise.h"
#include "emulator/physics/internal.h"

_Static_assert(LULL_PHYSICS_KERNELS <= 32, "the active work of a context is a set of 32 bits");

/* ---- sets of work ---- */

/* Takes the lowest place out of a set that is not empty. */
static uint32_t take_first(uint32_t *places)
{
    const uint32_t first = (uint32_t)__builtin_ctz(*places);

    *places &= *places - 1;
    return first;
}

static uint32_t bit_of(uint32_t place)
{
    return UINT32_C(1) << place;
}

/* The places of a context's running work of one kind. */
static uint32_t running_places(const struct lull_physics_context *context, bool is_transfer)
{
    return context->running & (is_transfer ? context->transfers : ~context->transfers);
}

static uint32_t running_count(const struct lull_physics *gpu)
{
    uint32_t running = 0;

    for (uint32_t live = gpu->live; live != 0;)
        running +=
            (uint32_t)__builtin_popcount(running_places(&gpu->contexts[take_first(&live)], false));
    return running;
}

bool lull_physics_has_kernel(const struct lull_physics *gpu)
{
    return running_count(gpu) > 0;
}

/* The share of the SMs that communication keeps from compute kernels. */
static double taken_ratio(const struct lull_physics *gpu)
{
    uint32_t channels = 0;

    for (uint32_t live = gpu->live; live != 0;) {
        const struct lull_physics_context *context = &gpu->contexts[take_first(&live)];

        if (context->transfer.is_active)
            channels += context->transfer.channels;
        for (uint32_t places = running_places(context, true); places != 0;) {
            const struct lull_physics_kernel *kernel = &context->kernels[take_first(&places)];

            if (kernel->takes_sms)
                channels += kernel->channels;
        }
    }
    return fmin((double)channels / gpu->model.sm_count, 0.9);
}

bool lull_physics_is_busy(const struct lull_physics *gpu)
{
    for (uint32_t live = gpu->live; live != 0;)
        if (gpu->contexts[take_first(&live)].running != 0)
            return true;
    return taken_ratio(gpu) > 0;
}

/* ---- power ---- */

static double idle_w(const struct lull_physics *gpu, double mhz)
{
    const struct lull_gpu_curve *active = &gpu->model.active_idle_w;

    if (gpu->context_count > 0)
        return lull_gpu_curve_at(active, mhz);
    /* The model has the idle power without contexts only for the lowest clock. A higher clock is
     * assumed to add as much as with a context. */
    return gpu->model.idle_w + lull_gpu_curve_at(active, mhz) -
           lull_gpu_curve_at(active, gpu->model.sm_min_mhz);
}

static bool is_rate_of(const struct lull_physics_rate *rate, const struct lull_gpu_profile *profile,
                       double mhz)
{
    return rate->mhz == mhz && rate->memory_ratio == profile->memory_ratio &&
           rate->base_w == profile->base_w && rate->slope_w == profile->slope_w;
}

double lull_physics_kernel_gbs(const struct lull_physics *gpu,
                               const struct lull_physics_kernel *kernel)
{
    if (kernel->is_held)
        return 0;
    return lull_gpu_model_transfer_gbs(&gpu->model, kernel->link_gbs, kernel->channels, gpu->mhz);
}

/* The power that a communication kernel adds, W. */
static double transfer_kernel_w(const struct lull_physics *gpu,
                                const struct lull_physics_kernel *kernel, double mhz)
{
    return lull_gpu_model_transfer_w(&gpu->model, lull_physics_kernel_gbs(gpu, kernel),
                                     kernel->channels, mhz);
}

/* The power that communication adds, W. */
static double transfers_w(const struct lull_physics *gpu, double mhz)
{
    double sum_w = 0;

    for (uint32_t live = gpu->live; live != 0;) {
        const struct lull_physics_transfer *transfer = &gpu->contexts[take_first(&live)].transfer;

        if (transfer->is_active)
            sum_w +=
                lull_gpu_model_transfer_w(&gpu->model, transfer->rate_gbs, transfer->channels, mhz);
    }
    for (uint32_t live = gpu->live; live != 0;) {
        const struct lull_physics_context *context = &gpu->contexts[take_first(&live)];

        for (uint32_t places = running_places(context, true); places != 0;)
            sum_w += transfer_kernel_w(gpu, &context->kernels[take_first(&places)], mhz);
    }
    return sum_w;
}

static double kernel_w(const struct lull_physics *gpu, const struct lull_gpu_profile *profile,
                       double mhz)
{
    if (is_rate_of(&gpu->rate, profile, mhz))
        return gpu->rate.power_w;
    return lull_gpu_model_kernel_w(&gpu->model, profile, mhz);
}

double lull_physics_load_w(const struct lull_physics *gpu, double mhz)
{
    const uint32_t running = running_count(gpu);
    double kernels_w = 0;

    for (uint32_t live = gpu->live; live != 0;) {
        const struct lull_physics_context *context = &gpu->contexts[take_first(&live)];

        for (uint32_t places = running_places(context, false); places != 0;)
            kernels_w += kernel_w(gpu, &context->kernels[take_first(&places)].profile, mhz);
    }
    /* Kernels take turns, so the mean of their powers counts. Transfers run beside them and add. */
    const double base_w =
        running > 0 ? gpu->kernel_power_ratio * kernels_w / running : idle_w(gpu, mhz);

    return (base_w + transfers_w(gpu, mhz)) * gpu->unit_ratio * gpu->plateau_ratio;
}

double lull_physics_static_mhz(const struct lull_physics *gpu, double limit_w)
{
    double low = gpu->model.sm_min_mhz;
    double high = gpu->model.sm_max_mhz;

    if (lull_physics_load_w(gpu, high) <= limit_w)
        return high;
    /* Power grows with the clock, and 40 halvings are far finer than a step of the clock. */
    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;

        if (lull_physics_load_w(gpu, middle) <= limit_w)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- rates ---- */

/* The first whole nanosecond at which the amount has been worked off, apart from rounding errors.
 */
static int64_t end_after(const struct lull_physics *gpu, double amount, double per_second)
{
    const double rounding_ns = 1e-3;
    const double ns = ceil(amount / per_second * 1e9 - rounding_ns);

    if (!(ns < 9e17)) /* beyond 28 years it counts as never */
        return LULL_PHYSICS_NEVER;
    return gpu->folded_ns + (ns > 0 ? (int64_t)ns : 0);
}

static void update_transfer(const struct lull_physics *gpu, struct lull_physics_transfer *transfer)
{
    transfer->rate_gbs = 0;
    transfer->end_ns = LULL_PHYSICS_NEVER;
    if (!transfer->is_active || transfer->bytes <= 0)
        return;
    transfer->rate_gbs =
        lull_gpu_model_transfer_gbs(&gpu->model, transfer->link_gbs, transfer->channels, gpu->mhz);
    transfer->end_ns = end_after(gpu, transfer->bytes, transfer->rate_gbs * 1e9);
}

static double transfer_speed(const struct lull_physics *gpu,
                             const struct lull_physics_kernel *kernel)
{
    const struct lull_gpu_model *model = &gpu->model;

    return lull_physics_kernel_gbs(gpu, kernel) /
           lull_gpu_model_transfer_gbs(model, kernel->link_gbs, kernel->channels,
                                       model->sm_max_mhz);
}

/* Returns time and power of a compute kernel alone at the present clock. */
static const struct lull_physics_rate *rate_of(struct lull_physics *gpu,
                                               const struct lull_gpu_profile *profile)
{
    struct lull_physics_rate *rate = &gpu->rate;

    if (is_rate_of(rate, profile, gpu->mhz))
        return rate;
    *rate = (struct lull_physics_rate){
        .mhz = gpu->mhz,
        .memory_ratio = profile->memory_ratio,
        .base_w = profile->base_w,
        .slope_w = profile->slope_w,
        .speed = lull_gpu_model_speed(&gpu->model, profile->memory_ratio, gpu->mhz),
        .power_w = lull_gpu_model_kernel_w(&gpu->model, profile, gpu->mhz),
    };
    return rate;
}

void lull_physics_update_work(struct lull_physics *gpu)
{
    const bool is_capped = (gpu->reasons & LULL_REASON_POWER_CAP) != 0;
    const double efficiency =
        gpu->kernel_speed_ratio * (is_capped ? gpu->model.cap_efficiency_ratio : 1.0);
    const uint32_t running = running_count(gpu);
    const double share = running > 0 ? (1.0 - taken_ratio(gpu)) * efficiency / running : 0;

    for (uint32_t live = gpu->live; live != 0;) {
        struct lull_physics_context *context = &gpu->contexts[take_first(&live)];

        for (uint32_t places = context->running; places != 0;) {
            struct lull_physics_kernel *kernel = &context->kernels[take_first(&places)];

            kernel->speed = kernel->is_transfer ? transfer_speed(gpu, kernel)
                                                : share * rate_of(gpu, &kernel->profile)->speed;
            kernel->end_ns = kernel->speed > 0 ? end_after(gpu, kernel->work_s, kernel->speed)
                                               : LULL_PHYSICS_NEVER;
        }
        update_transfer(gpu, &context->transfer);
    }
}

void lull_physics_fold_work(struct lull_physics *gpu, double dt_s)
{
    const bool is_low = gpu->mhz < lull_physics_allowed_mhz(gpu);

    for (uint32_t live = gpu->live; live != 0;) {
        struct lull_physics_context *context = &gpu->contexts[take_first(&live)];
        struct lull_physics_transfer *transfer = &context->transfer;

        for (uint32_t places = context->running; places != 0;) {
            struct lull_physics_kernel *kernel = &context->kernels[take_first(&places)];

            kernel->work_s -= dt_s * kernel->speed;
            kernel->is_low |= is_low && !kernel->is_transfer;
        }
        if (transfer->is_active)
            transfer->bytes = fmax(transfer->bytes - dt_s * transfer->rate_gbs * 1e9, 0.0);
    }
}

void lull_physics_foresee_work(struct lull_physics *gpu)
{
    int64_t next_ns = LULL_PHYSICS_NEVER;

    for (uint32_t live = gpu->live; live != 0;) {
        const struct lull_physics_context *context = &gpu->contexts[take_first(&live)];

        for (uint32_t places = context->running; places != 0;)
            next_ns = lull_earlier_ns(next_ns, context->kernels[take_first(&places)].end_ns);
        for (uint32_t places = context->ready; places != 0;)
            next_ns = lull_earlier_ns(next_ns, context->kernels[take_first(&places)].begin_ns);
        next_ns = lull_earlier_ns(next_ns, context->transfer.end_ns);
    }
    gpu->work_change_ns = next_ns;
}

int64_t lull_physics_work_change_ns(const struct lull_physics *gpu)
{
    return gpu->work_change_ns;
}

/* ---- beginning and ending ---- */

static void kernel_queue_start(struct lull_physics *gpu, struct lull_physics_kernel *kernel)
{
    gpu->work_events++;
    kernel->state = LULL_WORK_RUNNING;
    kernel->begin_ns = gpu->folded_ns;
    if (kernel->is_transfer)
        return;
    gpu->kernels_started++;
    kernel->has_begun_low = gpu->mhz < lull_physics_allowed_mhz(gpu);
    gpu->kernels_started_low += kernel->has_begun_low;
    if (gpu->seed != 0) {
        const double spread = 0.001; /* a locked clock repeats a rate to 0.1 % (measured) */
        const uint64_t bits = lull_noise_mix(gpu->seed ^ gpu->kernels_started);
        const double normal = lull_noise_normal_of(bits);

        kernel->work_s *= 1.0 + spread * fmin(fmax(normal, -3.0), 3.0);
    }
}

/* Starts what is due; true: something has started. */
static bool start_ready(struct lull_physics *gpu, struct lull_physics_context *context)
{
    const uint32_t before = context->running;

    for (uint32_t places = context->ready; places != 0;) {
        const uint32_t place = take_first(&places);

        if (context->kernels[place].begin_ns > gpu->folded_ns)
            continue;
        context->ready &= ~bit_of(place);
        context->running |= bit_of(place);
        kernel_queue_start(gpu, &context->kernels[place]);
    }
    return context->running != before;
}

static void kernel_queue_make_ready(struct lull_physics_context *context, uint32_t place)
{
    context->kernels[place].state = LULL_WORK_READY;
    context->ready |= bit_of(place);
}

/* Ends a work, and moves the start of those that waited for it to its end and their delay. */
static void kernel_queue_end(struct lull_physics_context *context, uint32_t place)
{
    struct lull_physics_kernel *ended = &context->kernels[place];

    ended->state = LULL_WORK_ENDED;
    context->running &= ~bit_of(place);
    context->unfinished &= ~bit_of(place);
    context->count--;
    while (ended->waiters != 0) {
        const uint32_t waiter = take_first(&ended->waiters);
        struct lull_physics_kernel *kernel = &context->kernels[waiter];

        kernel->awaits &= ~bit_of(place);
        if ((kernel->after & bit_of(place)) != 0)
            kernel->begin_ns = lull_later_ns(kernel->begin_ns, ended->end_ns + kernel->delay_ns);
        kernel->after &= ~bit_of(place);
        if (kernel->awaits == 0)
            kernel_queue_make_ready(context, waiter);
    }
}

static void end_finished(struct lull_physics *gpu, struct lull_physics_context *context)
{
    for (uint32_t places = context->running; places != 0;) {
        const uint32_t place = take_first(&places);

        if (context->kernels[place].end_ns <= gpu->folded_ns) {
            gpu->work_events++;
            kernel_queue_end(context, place);
        }
    }
}

void lull_physics_finish_work(struct lull_physics *gpu)
{
    for (uint32_t live = gpu->live; live != 0;) {
        struct lull_physics_context *context = &gpu->contexts[take_first(&live)];

        if (context->transfer.end_ns <= gpu->folded_ns)
            context->transfer.bytes = 0;
        end_finished(gpu, context);
        (void)start_ready(gpu, context);
    }
}

/* The place of unfinished work of that number; LULL_PHYSICS_KERNELS: there is none. */
static uint32_t find_unfinished(const struct lull_physics_context *context, uint64_t number)
{
    const uint32_t latest = context->places[number % LULL_PHYSICS_KERNELS];

    if (context->kernels[latest].number == number && (context->unfinished & bit_of(latest)) != 0)
        return latest;
    for (uint32_t places = context->unfinished; places != 0;) {
        const uint32_t place = take_first(&places);

        if (context->kernels[place].number == number)
            return place;
    }
    return LULL_PHYSICS_KERNELS;
}

/* The place of the latest unfinished work of a stream; LULL_PHYSICS_KERNELS: there is none. */
static uint32_t last_of_stream(const struct lull_physics_context *context, uint32_t stream)
{
    uint32_t last = LULL_PHYSICS_KERNELS;

    for (uint32_t places = context->unfinished; places != 0;) {
        const uint32_t place = take_first(&places);
        const struct lull_physics_kernel *kernel = &context->kernels[place];

        if (kernel->stream == stream &&
            (last == LULL_PHYSICS_KERNELS || kernel->number > context->kernels[last].number))
            last = place;
    }
    return last;
}

/* Makes the work at a place wait for the unfinished work at another place.
 * A missing place never ends; the work then waits for itself, forever. */
static void kernel_queue_await(struct lull_physics_context *context, uint32_t place, uint32_t other)
{
    if (other == LULL_PHYSICS_KERNELS)
        other = place;
    context->kernels[place].awaits |= bit_of(other);
    context->kernels[other].waiters |= bit_of(place);
}

/* Lets the work at a place, which is not among the unfinished yet, begin after another. */
static void begin_after(struct lull_physics_context *context, uint32_t place, uint64_t number)
{
    uint32_t other;

    if (number == LULL_PHYSICS_NO_WORK)
        return;
    other = find_unfinished(context, number);
    kernel_queue_await(context, place, other);
    if (other != LULL_PHYSICS_KERNELS)
        context->kernels[place].after |= bit_of(other);
}

/* Records all dependencies of the work. Work of one stream ends
 * in order, so a dependency on the last of them covers all. */
static void await_all(struct lull_physics_context *context, uint32_t place,
                      const struct lull_physics_work *work)
{
    const uint32_t last = last_of_stream(context, work->stream);

    begin_after(context, place, work->after[0]);
    begin_after(context, place, work->after[1]);
    for (uint32_t i = 0; i < work->further_count; i++)
        begin_after(context, place, work->further[i]);
    if (last != LULL_PHYSICS_KERNELS)
        kernel_queue_await(context, place, last);
}

static uint32_t take_place(struct lull_physics_context *context)
{
    const uint32_t place = (uint32_t)__builtin_ctz(~context->unfinished);

    context->places[context->next % LULL_PHYSICS_KERNELS] = (uint8_t)place;
    context->count++;
    return place;
}

static void fill_place(const struct lull_physics *gpu, struct lull_physics_context *context,
                       uint32_t place, const struct lull_physics_work *work)
{
    context->kernels[place] = (struct lull_physics_kernel){
        .work_s = work->duration_s,
        .profile = work->profile,
        .number = context->next++,
        .delay_ns = work->delay_ns,
        .begin_ns = lull_later_ns(work->earliest_ns, gpu->now_ns),
        .end_ns = LULL_PHYSICS_NEVER,
        .link_gbs = work->link_gbs,
        .channels = work->channels,
        .stream = work->stream,
        .state = LULL_WORK_WAITING,
        .is_transfer = work->is_transfer,
        .takes_sms = work->takes_sms,
        .is_held = work->is_held,
    };
    await_all(context, place, work);
    context->unfinished |= bit_of(place);
    context->transfers &= ~bit_of(place);
    context->transfers |= work->is_transfer ? bit_of(place) : 0;
    if (context->kernels[place].awaits == 0)
        kernel_queue_make_ready(context, place);
}

bool lull_physics_enqueue(struct lull_physics *gpu, int index, const struct lull_physics_work *work)
{
    struct lull_physics_context *context = &gpu->contexts[index];
    const bool is_current = gpu->folded_ns == gpu->now_ns;

    if (context->is_live && context->count == LULL_PHYSICS_KERNELS)
        return false;
    if (!context->is_live) /* the node has closed the context, because its process seemed dead */
        return true;
    lull_physics_fold(gpu, gpu->now_ns);
    fill_place(gpu, context, take_place(context), work);
    /* Work that does not begin changes no rate. */
    if (!start_ready(gpu, context) && is_current)
        lull_physics_foresee(gpu);
    else
        lull_physics_update(gpu);
    return true;
}

bool lull_physics_launch(struct lull_physics *gpu, int index, double duration_s,
                         const struct lull_gpu_profile *profile)
{
    const struct lull_physics_work work = {
        .after = {LULL_PHYSICS_NO_WORK, LULL_PHYSICS_NO_WORK},
        .duration_s = duration_s,
        .profile = *profile,
    };

    return lull_physics_enqueue(gpu, index, &work);
}

/* Finds the work of a number. NULL: there is none, or later work has its place. */
static struct lull_physics_kernel *kernel_queue_find(struct lull_physics_context *context,
                                                     uint64_t number)
{
    struct lull_physics_kernel *latest =
        &context->kernels[context->places[number % LULL_PHYSICS_KERNELS]];

    if (context->is_live && latest->number == number)
        return latest;
    for (uint32_t i = 0; i < LULL_PHYSICS_KERNELS && context->is_live; i++)
        if (context->kernels[i].number == number)
            return &context->kernels[i];
    return NULL;
}

const struct lull_physics_kernel *lull_physics_find_work(const struct lull_physics *gpu, int index,
                                                         uint64_t number)
{
    return kernel_queue_find((struct lull_physics_context *)&gpu->contexts[index], number);
}

void lull_physics_release(struct lull_physics *gpu, int index, uint64_t number, int64_t at_ns)
{
    struct lull_physics_kernel *kernel = kernel_queue_find(&gpu->contexts[index], number);

    if (kernel == NULL || kernel->state != LULL_WORK_RUNNING || !kernel->is_held)
        return;
    lull_physics_fold(gpu, gpu->now_ns);
    kernel->is_held = false;
    if (at_ns < kernel->begin_ns)
        at_ns = kernel->begin_ns;
    /* The release may be reported late. Subtract what has been transferred since then. */
    if (at_ns < gpu->now_ns)
        kernel->work_s = fmax(kernel->work_s - transfer_speed(gpu, kernel) *
                                                   (double)(gpu->now_ns - at_ns) * 1e-9,
                              0.0);
    lull_physics_update(gpu);
}

void lull_physics_transfer_begin(struct lull_physics *gpu, int index, double bytes, double link_gbs,
                                 uint32_t channels)
{
    lull_physics_fold(gpu, gpu->now_ns);
    gpu->contexts[index].transfer = (struct lull_physics_transfer){
        .is_active = true,
        .total_bytes = bytes,
        .bytes = bytes,
        .link_gbs = link_gbs,
        .channels = channels,
    };
    lull_physics_update(gpu);
}

void lull_physics_transfer_end(struct lull_physics *gpu, int index)
{
    lull_physics_fold(gpu, gpu->now_ns);
    gpu->contexts[index].transfer.is_active = false;
    lull_physics_update(gpu);
}

/* ---- estimates for waiting threads ---- */

/* The kernel of a context that runs; NULL: none does. */
static const struct lull_physics_kernel *running_kernel(const struct lull_physics_context *context)
{
    if (!context->is_live || context->running == 0)
        return NULL;
    return &context->kernels[__builtin_ctz(context->running)];
}

int64_t lull_physics_queue_end_ns(const struct lull_physics *gpu, int index)
{
    const struct lull_physics_context *context = &gpu->contexts[index];
    const struct lull_physics_kernel *running = running_kernel(context);
    int64_t end_ns;
    double share;

    if (running == NULL)
        return gpu->now_ns;
    end_ns = running->end_ns;
    share =
        running->speed / lull_gpu_model_speed(&gpu->model, running->profile.memory_ratio, gpu->mhz);
    for (uint32_t places = context->unfinished & ~context->ready & ~context->running;
         places != 0;) {
        const struct lull_physics_kernel *kernel = &context->kernels[take_first(&places)];
        const double speed =
            share * lull_gpu_model_speed(&gpu->model, kernel->profile.memory_ratio, gpu->mhz);

        end_ns += (int64_t)ceil(kernel->work_s / speed * 1e9);
    }
    return end_ns;
}

int64_t lull_physics_queue_room_ns(const struct lull_physics *gpu, int index)
{
    const struct lull_physics_context *context = &gpu->contexts[index];

    if (!context->is_live || context->count < LULL_PHYSICS_KERNELS)
        return gpu->now_ns;
    return running_kernel(context)->end_ns;
}

int64_t lull_physics_transfer_share_ns(const struct lull_physics *gpu, int index, double share)
{
    const struct lull_physics_transfer *transfer = &gpu->contexts[index].transfer;
    const double left = transfer->bytes - (1.0 - share) * transfer->total_bytes;

    if (!gpu->contexts[index].is_live || !transfer->is_active || left <= 0)
        return gpu->now_ns;
    const int64_t end_ns = end_after(gpu, left, transfer->rate_gbs * 1e9);

    /* The state is of folded_ns, so part of what is left may have been moved since. */
    return end_ns > gpu->now_ns ? end_ns : gpu->now_ns;
}

/* ---- latencies ---- */

static double draw_lognormal(double median, double sigma, uint64_t *random)
{
    const double u = lull_noise_next(random);
    const double w = lull_noise_next(random);

    return median * exp(sigma * lull_noise_normal(u, w));
}

double lull_physics_draw_api_ms(const struct lull_gpu_model *model, uint64_t *random)
{
    const double ms = draw_lognormal(model->api_ms, model->api_sigma, random);

    return fmin(fmax(ms, model->api_min_ms), model->api_max_ms);
}

bool lull_physics_is_slow_step(const struct lull_gpu_model *model, uint64_t unit_seed,
                               uint32_t step)
{
    const uint64_t bits = lull_noise_mix(lull_noise_mix(unit_seed ^ 0x736c6f77u) ^ step);

    return unit_seed != 0 && lull_noise_unit(bits) < model->slow_ratio;
}

double lull_physics_draw_settle_ms(const struct lull_gpu_model *model, bool is_slow,
                                   uint64_t *random)
{
    /* The 99 % quantile of the standard normal distribution. */
    const double normal_99 = 2.3263;
    const double sigma = log(model->settle_p99_ms / model->settle_ms) / normal_99;
    const double typical_ms = draw_lognormal(model->settle_ms, sigma, random);

    if (is_slow)
        return model->slow_min_ms +
               (model->slow_max_ms - model->slow_min_ms) * lull_noise_next(random);
    return fmin(typical_ms, model->settle_max_ms);
}
