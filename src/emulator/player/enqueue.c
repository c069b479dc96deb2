/*
 * The GPU's queue holds few operations, so the feed remembers when each operation of this period
 * and of the one before ended, and turns dependencies on ended operations into times.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/player/enqueue.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/noise.h"

_Static_assert((int)LULL_PLAY_FURTHER <= (int)LULL_PHYSICS_FURTHER, "all dependencies fit");
_Static_assert(LULL_PHYSICS_KERNELS <= 32, "operations on the queue are sets of 32 bits");

struct lull_play_enqueue {
    const struct lull_play *play;
    const struct lull_play_rank *ops;
    uint32_t rank;
    uint64_t total;
    int64_t start_ns;
    uint64_t next;            /* number of the next operation to enqueue */
    uint64_t reported_events; /* number of the GPU's reported events; the GPU counts them too */
    const char *profile_name; /* of the last compute operation, */
    const struct lull_gpu_profile *profile; /* and the GPU model's profile of that name */
    /* The operations on the queue whose end has not been reported, by their places on it. */
    uint32_t pending;
    uint32_t begun; /* of these, those whose start has been reported */
    uint32_t pending_count;
    uint64_t numbers[LULL_PHYSICS_KERNELS];
    int64_t *delays_ns; /* of each operation... */
    int64_t ends_ns[];  /* ...and when it ended, in this period or the one before */
};

int lull_play_enqueue_create(const struct lull_play *play, uint32_t rank, uint64_t periods,
                             int64_t start_ns, struct lull_play_enqueue **feed_out,
                             struct lull_error *err)
{
    const struct lull_play_rank *ops = &play->ranks[rank];
    struct lull_play_enqueue *feed =
        calloc(1, sizeof(*feed) + 3 * (size_t)ops->count * sizeof(feed->ends_ns[0]));

    if (feed == NULL)
        return lull_error_set(err, -ENOMEM, "play: no memory");
    feed->play = play;
    feed->ops = ops;
    feed->rank = rank;
    feed->start_ns = start_ns;
    feed->total = periods * ops->count;
    feed->delays_ns = &feed->ends_ns[2 * (size_t)ops->count];
    for (uint32_t i = 0; i < ops->count; i++)
        feed->delays_ns[i] = llround(ops->ops[i].delay_ms * 1e6);
    *feed_out = feed;
    return 0;
}

void lull_play_enqueue_destroy(struct lull_play_enqueue *feed)
{
    free(feed);
}

uint64_t lull_play_enqueue_total(const struct lull_play_enqueue *feed)
{
    return feed->total;
}

bool lull_play_enqueue_is_done(const struct lull_play_enqueue *feed)
{
    return feed->next == feed->total && feed->pending_count == 0;
}

/* The lowest number of the operations at these places; the next one to enqueue: there are none. */
static uint64_t lowest_number(const struct lull_play_enqueue *feed, uint32_t places)
{
    uint64_t lowest = feed->next;

    for (; places != 0; places &= places - 1) {
        const uint64_t number = feed->numbers[__builtin_ctz(places)];

        lowest = number < lowest ? number : lowest;
    }
    return lowest;
}

uint64_t lull_play_enqueue_begun(const struct lull_play_enqueue *feed)
{
    return lowest_number(feed, feed->pending & ~feed->begun);
}

uint64_t lull_play_enqueue_ended(const struct lull_play_enqueue *feed)
{
    return lowest_number(feed, feed->pending);
}

static bool enqueue_is_pending(const struct lull_play_enqueue *feed, uint64_t number)
{
    for (uint32_t places = feed->pending; places != 0; places &= places - 1)
        if (feed->numbers[__builtin_ctz(places)] == number)
            return true;
    return false;
}

static const struct lull_play_op *enqueue_op_of(const struct lull_play_enqueue *feed,
                                                uint64_t number)
{
    return &feed->ops->ops[number % feed->ops->count];
}

/* ---- enqueueing ---- */

/* The factor by which jitter stretches a rank's computation in this period. */
static double jitter_factor(const struct lull_play_enqueue *feed, uint64_t number)
{
    const uint64_t period = number / feed->ops->count;
    const uint64_t bits =
        lull_noise_mix(feed->play->seed ^ lull_noise_mix(period * LULL_PLAY_RANKS + feed->rank));
    const double normal = lull_noise_normal_of(bits);

    return fmax(1.0 + feed->play->jitter_ratio * fmin(fmax(normal, -3.0), 3.0), 0.1);
}

/* The factor by which a straggler is slower in this period. */
static double straggling_factor(const struct lull_play_enqueue *feed, uint64_t number)
{
    const struct lull_play_straggler *straggler = &feed->play->straggler;
    const uint64_t period = number / feed->ops->count;

    if (straggler->factor > 0 && feed->rank == straggler->rank && period >= straggler->from &&
        period < straggler->to)
        return straggler->factor;
    return 1.0;
}

/* The number of the operation on which operation `number` depends, given the dependency's index in
 * the period. */
static uint64_t dependency_of(const struct lull_play_enqueue *feed, uint64_t number, int32_t index)
{
    const uint64_t count = feed->ops->count;
    const uint64_t in_period = number % count;
    uint64_t begin = number - in_period;

    if (index == LULL_PLAY_NONE)
        return LULL_PHYSICS_NO_WORK;
    if ((uint64_t)index >= in_period) {
        if (begin == 0)
            return LULL_PHYSICS_NO_WORK;
        begin -= count;
    }
    return begin + (uint64_t)index % count;
}

static void enqueue_defer(struct lull_physics_work *work, int64_t until_ns)
{
    if (until_ns > work->earliest_ns)
        work->earliest_ns = until_ns;
}

/* Adds a dependency. One that has ended becomes a time, because the queue may have forgotten it. */
static void enqueue_add_dependency(const struct lull_play_enqueue *feed, uint64_t number,
                                   int32_t index, uint64_t *after_out,
                                   struct lull_physics_work *work)
{
    const uint64_t dependency = dependency_of(feed, number, index);

    *after_out = LULL_PHYSICS_NO_WORK;
    if (index == LULL_PLAY_NONE)
        return;
    if (dependency == LULL_PHYSICS_NO_WORK)
        enqueue_defer(work, feed->start_ns + work->delay_ns);
    else if (enqueue_is_pending(feed, dependency))
        *after_out = dependency;
    else
        enqueue_defer(work, feed->ends_ns[dependency % (2 * (uint64_t)feed->ops->count)] +
                                work->delay_ns);
}

/* The profile of an operation. Names are compared by their places: most operations share one. */
static const struct lull_gpu_profile *
profile_of(struct lull_play_enqueue *feed, const struct lull_gpu_model *model, const char *name)
{
    if (feed->profile == NULL || feed->profile_name != name) {
        feed->profile_name = name;
        feed->profile = lull_gpu_model_profile(model, name);
    }
    return feed->profile;
}

static struct lull_physics_work work_of(struct lull_play_enqueue *feed,
                                        const struct lull_gpu_model *model, uint64_t number)
{
    const struct lull_play_op *op = enqueue_op_of(feed, number);
    struct lull_physics_work work = {
        .stream = op->stream,
        .delay_ns = feed->delays_ns[number % feed->ops->count],
        .duration_s = op->duration_ms * 1e-3,
        .is_transfer = op->kind == LULL_PLAY_COMMUNICATION,
    };

    if (work.is_transfer) {
        work.link_gbs = op->link_gbs;
        work.channels = op->channels;
        work.takes_sms = !feed->play->is_recorded;
        work.is_held = op->collective != LULL_PLAY_NO_COLLECTIVE;
    } else {
        work.profile = *profile_of(feed, model, op->profile);
        work.duration_s *= jitter_factor(feed, number) * straggling_factor(feed, number);
    }
    enqueue_add_dependency(feed, number, op->depends[0], &work.after[0], &work);
    enqueue_add_dependency(feed, number, op->depends[1], &work.after[1], &work);
    work.further_count = op->further_count;
    for (uint32_t i = 0; i < op->further_count; i++)
        enqueue_add_dependency(feed, number, op->further[i], &work.further[i], &work);
    return work;
}

/* Records that the next operation has a place on the queue. */
static void note_pending(struct lull_play_enqueue *feed, const struct lull_physics *gpu,
                         int context)
{
    const uint32_t place = gpu->contexts[context].places[feed->next % LULL_PHYSICS_KERNELS];

    feed->numbers[place] = feed->next++;
    feed->pending |= UINT32_C(1) << place;
    feed->begun &= ~(UINT32_C(1) << place);
    feed->pending_count++;
}

bool lull_play_enqueue_enqueue(struct lull_play_enqueue *feed, struct lull_physics *gpu,
                               int context, uint64_t limit)
{
    const uint64_t first = feed->next;

    if (limit > feed->total)
        limit = feed->total;
    while (feed->next < limit && feed->pending_count < LULL_PHYSICS_KERNELS) {
        const struct lull_physics_work work = work_of(feed, &gpu->model, feed->next);

        if (!lull_physics_enqueue(gpu, context, &work))
            break;
        note_pending(feed, gpu, context);
    }
    return feed->next > first;
}

/* ---- telling ---- */

/* The places of those whose next event, begin or end, has happened. */
static uint32_t enqueue_find_changed(const struct lull_play_enqueue *feed,
                                     const struct lull_physics_context *context)
{
    const uint32_t ended = ~context->unfinished;

    return feed->pending & (ended | (context->running & ~feed->begun));
}

static void enqueue_mark(struct lull_play_enqueue *feed, uint32_t place,
                         const struct lull_play_event *event)
{
    if (!event->is_end) {
        feed->begun |= UINT32_C(1) << place;
        return;
    }
    feed->ends_ns[event->number % (2 * (uint64_t)feed->ops->count)] = event->end_ns;
    feed->pending &= ~(UINT32_C(1) << place);
    feed->pending_count--;
}

static struct lull_play_event event_of(const struct lull_play_enqueue *feed,
                                       const struct lull_physics_kernel *kernel, uint32_t place)
{
    const struct lull_play_op *op = enqueue_op_of(feed, feed->numbers[place]);

    return (struct lull_play_event){
        .number = feed->numbers[place],
        .op = op,
        .is_end = (feed->begun >> place & 1) != 0,
        .begin_ns = kernel->begin_ns,
        .end_ns = kernel->end_ns,
        /* If it represents many kernels, some of them began while the clock was low. */
        .is_low = kernel->has_begun_low || (kernel->is_low && op->kernels > 1),
    };
}

bool lull_play_enqueue_next(struct lull_play_enqueue *feed, const struct lull_physics *gpu,
                            int index, struct lull_play_event *event_out)
{
    const struct lull_physics_context *context = &gpu->contexts[index];
    int64_t earliest_ns = INT64_MAX;
    uint32_t earliest = 0;

    if (gpu->work_events == feed->reported_events || !context->is_live)
        return false;
    for (uint32_t places = enqueue_find_changed(feed, context); places != 0; places &= places - 1) {
        const uint32_t place = (uint32_t)__builtin_ctz(places);
        const struct lull_physics_kernel *kernel = &context->kernels[place];
        const int64_t time_ns = (feed->begun >> place & 1) != 0 ? kernel->end_ns : kernel->begin_ns;

        if (time_ns > earliest_ns ||
            (time_ns == earliest_ns && feed->numbers[place] > feed->numbers[earliest]))
            continue;
        earliest_ns = time_ns;
        earliest = place;
    }
    if (earliest_ns == INT64_MAX) {
        feed->reported_events = gpu->work_events;
        return false;
    }
    *event_out = event_of(feed, &context->kernels[earliest], earliest);
    feed->reported_events++; /* events of other contexts are counted when a search finds nothing */
    enqueue_mark(feed, earliest, event_out);
    return true;
}
