/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/player/sim.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "emulator/noise.h"
#include "emulator/player/rendezvous.h"

struct sim_unit {
    struct lull_physics gpu;
    int context;
    struct lull_play_enqueue *feed; /* null: the rank is absent */
};

struct lull_play_sim {
    const struct lull_play *play;
    void *collectives;
    const struct lull_play_observer *observer;
    struct sim_unit units[LULL_PLAY_RANKS];
};

int lull_play_sim_create(const struct lull_play *play, const struct lull_gpu_model *model,
                         uint64_t periods, struct lull_play_sim **sim_out, struct lull_error *err)
{
    static const int64_t together_ns[LULL_PLAY_RANKS];

    return lull_play_sim_create_at(play, model, periods, together_ns, sim_out, err);
}

int lull_play_sim_create_at(const struct lull_play *play, const struct lull_gpu_model *model,
                            uint64_t periods, const int64_t starts_ns[LULL_PLAY_RANKS],
                            struct lull_play_sim **sim_out, struct lull_error *err)
{
    struct lull_play_sim *sim = calloc(1, sizeof(*sim));
    int result = 0;

    if (sim == NULL)
        return lull_error_set(err, -ENOMEM, "play: no memory");
    sim->play = play;
    sim->collectives = calloc(1, lull_play_rendezvouss_size(play));
    if (sim->collectives == NULL)
        result = lull_error_set(err, -ENOMEM, "play: no memory");
    for (uint32_t rank = 0; rank < play->rank_count && result == 0; rank++) {
        struct sim_unit *unit = &sim->units[rank];

        if (starts_ns[rank] == LULL_PLAY_ABSENT)
            continue;
        lull_physics_init(&unit->gpu, model, 0, 0);
        /* Each rank draws latencies of its own, which are the same in every run. */
        unit->gpu.random = lull_noise_mix(rank + 1);
        unit->context = lull_physics_open(&unit->gpu, 1, 0);
        lull_physics_lock(&unit->gpu, lull_gpu_model_step_count(model) - 1, 0);
        lull_physics_advance(&unit->gpu, 0);
        result = lull_play_enqueue_create(play, rank, periods, starts_ns[rank], &unit->feed, err);
    }
    if (result < 0) {
        lull_play_sim_destroy(sim);
        return result;
    }
    *sim_out = sim;
    return 0;
}

void lull_play_sim_destroy(struct lull_play_sim *sim)
{
    if (sim == NULL)
        return;
    for (uint32_t rank = 0; rank < sim->play->rank_count; rank++)
        lull_play_enqueue_destroy(sim->units[rank].feed);
    free(sim->collectives);
    free(sim);
}

struct lull_physics *lull_play_sim_gpu(struct lull_play_sim *sim, uint32_t rank)
{
    return &sim->units[rank].gpu;
}

static void play_sim_meet(struct lull_play_sim *sim, uint32_t rank,
                          const struct lull_play_event *event)
{
    struct lull_play_release release;

    if (!lull_play_join(sim->collectives, sim->play, rank, event->number, event->begin_ns,
                        &release))
        return;
    for (uint32_t i = 0; i < release.count; i++) {
        struct sim_unit *unit = &sim->units[release.members[i].rank];

        lull_physics_release(&unit->gpu, unit->context, release.members[i].number, release.at_ns);
    }
}

static void play_sim_notify(struct lull_play_sim *sim, uint32_t rank,
                            const struct lull_play_event *event)
{
    if (sim->observer != NULL && sim->observer->event != NULL)
        sim->observer->event(sim->observer->context, rank, event);
    if (!event->is_end && event->op->collective != LULL_PLAY_NO_COLLECTIVE)
        play_sim_meet(sim, rank, event);
}

/* Reports the events of a rank's work and enqueues more; true: there were events. */
static bool play_sim_serve(struct lull_play_sim *sim, uint32_t rank)
{
    struct sim_unit *unit = &sim->units[rank];
    struct lull_play_event event;
    bool is_update = false;

    if (unit->feed == NULL)
        return false;
    do /* an end frees a place in the queue; what begins at once must be reported at once */
        while (lull_play_enqueue_next(unit->feed, &unit->gpu, unit->context, &event)) {
            is_update = true;
            play_sim_notify(sim, rank, &event);
        }
    while (lull_play_enqueue_enqueue(unit->feed, &unit->gpu, unit->context, UINT64_MAX));
    return is_update;
}

static bool play_sim_is_done(const struct lull_play_sim *sim)
{
    for (uint32_t rank = 0; rank < sim->play->rank_count; rank++)
        if (sim->units[rank].feed != NULL && !lull_play_enqueue_is_done(sim->units[rank].feed))
            return false;
    return true;
}

/* Advances to the next time at which something may change. False: no work will ever begin or end.
 */
static bool play_sim_step(struct lull_play_sim *sim, int64_t *now_ns, int64_t timer_ns)
{
    int64_t work_ns = LULL_PHYSICS_NEVER;
    int64_t next_ns = timer_ns;

    for (uint32_t rank = 0; rank < sim->play->rank_count; rank++) {
        if (sim->units[rank].feed == NULL)
            continue;
        work_ns = lull_earlier_ns(work_ns, lull_physics_work_change_ns(&sim->units[rank].gpu));
        next_ns = lull_earlier_ns(next_ns, lull_physics_rate_change_ns(&sim->units[rank].gpu));
    }
    if (work_ns == LULL_PHYSICS_NEVER)
        return false;
    if (next_ns > *now_ns)
        *now_ns = next_ns;
    for (uint32_t rank = 0; rank < sim->play->rank_count; rank++)
        if (sim->units[rank].feed != NULL)
            lull_physics_advance(&sim->units[rank].gpu, *now_ns);
    return true;
}

int lull_play_sim_run(struct lull_play_sim *sim, const struct lull_play_observer *observer,
                      struct lull_error *err)
{
    int64_t now_ns = sim->units[0].gpu.now_ns;

    sim->observer = observer;
    for (;;) {
        int64_t timer_ns = LULL_PHYSICS_NEVER;
        bool is_update = false;

        for (uint32_t rank = 0; rank < sim->play->rank_count; rank++)
            is_update |= play_sim_serve(sim, rank);
        if (observer != NULL && observer->timer != NULL)
            timer_ns = observer->timer(observer->context, now_ns);
        if (is_update) /* a peer may have been released or a clock requested: look again at once */
            timer_ns = now_ns;
        if (play_sim_is_done(sim))
            return 0;
        if (!play_sim_step(sim, &now_ns, timer_ns))
            return lull_error_set(err, -EDEADLK, "the ranks of the play wait for each other");
    }
}

/* ---- recording a period ---- */

struct recorder {
    const struct lull_play *play;
    struct lull_play_span **spans;
    int64_t begin_ns[2]; /* begins of the period that is recorded and of the next one */
};

static void play_sim_record(void *context, uint32_t rank, const struct lull_play_event *event)
{
    struct recorder *recorder = context;
    const uint32_t count = recorder->play->ranks[rank].count;
    const uint64_t period = event->number / count;

    if (!event->is_end && period >= 1 && event->begin_ns < recorder->begin_ns[period - 1])
        recorder->begin_ns[period - 1] = event->begin_ns;
    if (event->is_end && period == 1)
        recorder->spans[rank][event->number % count] =
            (struct lull_play_span){event->begin_ns, event->end_ns};
}

int lull_play_sim_spans(const struct lull_play *play, const struct lull_gpu_model *model,
                        const uint32_t clock_steps[LULL_PLAY_RANKS],
                        struct lull_play_span *spans_out[LULL_PLAY_RANKS], int64_t *period_ns_out,
                        struct lull_error *err)
{
    struct lull_play_span *spans[LULL_PLAY_RANKS] = {NULL};
    struct recorder recorder = {play, spans, {INT64_MAX, INT64_MAX}};
    const struct lull_play_observer observer = {.event = play_sim_record, .context = &recorder};
    struct lull_play_sim *sim = NULL;
    /* The second of three periods is recorded: the first has none before it, and the start of the
     * third ends it. */
    int result = lull_play_sim_create(play, model, 3, &sim, err);

    if (result < 0)
        return result;
    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        if (clock_steps != NULL)
            lull_physics_lock(lull_play_sim_gpu(sim, rank), clock_steps[rank], 0);
        lull_physics_advance(lull_play_sim_gpu(sim, rank), 0);
        spans[rank] = calloc(play->ranks[rank].count, sizeof(spans[rank][0]));
        if (spans[rank] == NULL) {
            result = lull_error_set(err, -ENOMEM, "play: no memory for the spans of rank %u", rank);
            goto free_spans;
        }
    }
    result = lull_play_sim_run(sim, &observer, err);
    if (result < 0)
        goto free_spans;
    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        for (uint32_t i = 0; i < play->ranks[rank].count; i++) {
            spans[rank][i].begin_ns -= recorder.begin_ns[0];
            spans[rank][i].end_ns -= recorder.begin_ns[0];
        }
        spans_out[rank] = spans[rank];
    }
    *period_ns_out = recorder.begin_ns[1] - recorder.begin_ns[0];
    lull_play_sim_destroy(sim);
    return 0;

free_spans:
    for (uint32_t rank = 0; rank < play->rank_count; rank++)
        free(spans[rank]);
    lull_play_sim_destroy(sim);
    return result;
}
