/*
 * Plays in virtual time: against a simple separate computation, against the record from
 * which they were made, and the presets against published figures. SPDX-License-Identifier:
 * Apache-2.0
 */
#include "check.h"

#include <errno.h>
#include <stdbool.h>

#include "emulator/noise.h"
#include "emulator/player/presets.h"
#include "emulator/player/sim.h"
#include "emulator/player/trace.h"

enum { MOST_OPS = 200, PERIODS = 3, MAX_SPANS = 2000 };

static const struct lull_gpu_model *a100(void)
{
    return lull_gpu_model_find("A100", 4);
}

static double uniform(uint64_t *random, double low, double high)
{
    return low + (high - low) * lull_noise_next(random);
}

static uint32_t pick(uint64_t *random, uint32_t count)
{
    return (uint32_t)uniform(random, 0, count);
}

static struct lull_play *new_play(uint32_t ranks)
{
    struct lull_play *play = NULL;

    assert_int_equal(lull_play_create(ranks, &play, NULL), 0);
    assert_int_equal(lull_play_add_communicator(play, "world", (1u << ranks) - 1, NULL), 0);
    return play;
}

static struct lull_play_op compute(double ms)
{
    return (struct lull_play_op){
        .kind = LULL_PLAY_COMPUTE,
        .depends = {LULL_PLAY_NONE, LULL_PLAY_NONE},
        .duration_ms = ms,
        .profile = "training",
        .kernels = 1,
    };
}

static struct lull_play_op communication(double ms, int32_t after)
{
    return (struct lull_play_op){
        .kind = LULL_PLAY_COMMUNICATION,
        .stream = 1,
        .depends = {after, LULL_PLAY_NONE},
        .duration_ms = ms,
        .function = LULL_PLAY_ALL_REDUCE,
        .bytes = 1000000,
        .link_gbs = 23,
        .channels = 4,
    };
}

/* ---- what a run gave ---- */

struct seen {
    const struct lull_play *play;
    struct lull_play_span spans[LULL_PLAY_RANKS][MAX_SPANS];
    uint64_t ended;
    uint64_t low;
};

static struct seen seen;

static void see(void *context, uint32_t rank, const struct lull_play_event *event)
{
    (void)context;
    if (!event->is_end)
        return;
    assert_true(event->number < MAX_SPANS);
    seen.spans[rank][event->number] = (struct lull_play_span){event->begin_ns, event->end_ns};
    seen.ended++;
    seen.low += event->is_low;
}

/* Runs with all GPUs locked at a clock; 0: the highest. */
static void run_at(struct lull_play *play, uint64_t periods, double mhz)
{
    const struct lull_play_observer observer = {.event = see};
    struct lull_play_sim *sim;

    memset(&seen, 0, sizeof(seen));
    assert_int_equal(lull_play_sim_create(play, a100(), periods, &sim, NULL), 0);
    for (uint32_t rank = 0; rank < play->rank_count && mhz > 0; rank++) {
        const struct lull_clock_setting lock = {
            .is_locked = true, .max_step = lull_gpu_model_nearest_step(a100(), mhz)};

        lull_physics_ask_clocks(lull_play_sim_gpu(sim, rank), &lock, 0);
        lull_physics_advance(lull_play_sim_gpu(sim, rank), 0);
    }
    assert_int_equal(lull_play_sim_run(sim, &observer, NULL), 0);
    lull_play_sim_destroy(sim);
}

static void assert_span(uint32_t rank, uint64_t number, double begin_ms, double end_ms)
{
    const struct lull_play_span *span = &seen.spans[rank][number];

    if (llabs(span->begin_ns - MS(begin_ms)) > 2 || llabs(span->end_ns - MS(end_ms)) > 2)
        fail_msg("rank %u, work %llu: %.6f to %.6f ms (wanted %.6f to %.6f)", rank,
                 (unsigned long long)number, (double)span->begin_ns * 1e-6,
                 (double)span->end_ns * 1e-6, begin_ms, end_ms);
}

/* ---- against a reckoning by hand ---- */

struct reckoning {
    int64_t begin_ns[PERIODS * MOST_OPS];
    int64_t end_ns[PERIODS * MOST_OPS];
};

static int64_t nanoseconds(double ms)
{
    return llround(ms * 1e6);
}

/* The time from which on fewer than a queue's worth of the operations before number is pending. */
static int64_t room_ns(const struct reckoning *reckoning, uint32_t number)
{
    static double ends_ns[PERIODS * MOST_OPS];

    if (number < LULL_PHYSICS_KERNELS)
        return 0;
    for (uint32_t i = 0; i < number; i++)
        ends_ns[i] = (double)reckoning->end_ns[i];
    qsort(ends_ns, number, sizeof(ends_ns[0]), compare_doubles);
    return (int64_t)ends_ns[number - LULL_PHYSICS_KERNELS];
}

/* Returns the earliest begin of an operation by one dependency, at least begin_ns. */
static int64_t ready_ns(const struct lull_play_rank *rank, const struct reckoning *reckoning,
                        uint32_t number, int32_t index, int64_t begin_ns)
{
    const uint32_t count = rank->count;
    const int64_t before = (int64_t)(number - number % count) + index % (int32_t)count -
                           (index >= (int32_t)(number % count) ? (int64_t)count : 0);
    int64_t ready = nanoseconds(rank->ops[number % count].delay_ms);

    if (before >= 0)
        ready += reckoning->end_ns[before];
    return ready > begin_ns ? ready : begin_ns;
}

/* Begins and ends of one rank without contention: latest of what it waits for. */
static void reckon(const struct lull_play_rank *rank, struct reckoning *reckoning)
{
    int64_t stream_ns[LULL_PLAY_STREAMS] = {0};
    int64_t queued_ns = 0;

    for (uint32_t number = 0; number < PERIODS * rank->count; number++) {
        const uint32_t index = number % rank->count;
        const struct lull_play_op *op = &rank->ops[index];
        const int64_t free_ns = room_ns(reckoning, number);
        int64_t begin_ns = stream_ns[op->stream];

        queued_ns = free_ns > queued_ns ? free_ns : queued_ns;
        begin_ns = queued_ns > begin_ns ? queued_ns : begin_ns;
        for (uint32_t i = 0; i < LULL_PLAY_DEPENDENCIES; i++)
            if (op->depends[i] != LULL_PLAY_NONE)
                begin_ns = ready_ns(rank, reckoning, number, op->depends[i], begin_ns);
        for (uint32_t i = 0; i < op->further_count; i++)
            begin_ns = ready_ns(rank, reckoning, number, op->further[i], begin_ns);
        reckoning->begin_ns[number] = begin_ns;
        reckoning->end_ns[number] = begin_ns + nanoseconds(op->duration_ms);
        stream_ns[op->stream] = reckoning->end_ns[number];
    }
}

static struct lull_play *random_play(uint64_t *random)
{
    const uint32_t count = 1 + pick(random, MOST_OPS - 1);
    struct lull_play *play = new_play(1);

    play->is_recorded = true;
    for (uint32_t i = 0; i < count; i++) {
        const bool is_compute = pick(random, 2) == 0;
        struct lull_play_op op = is_compute ? compute(1) : communication(1, LULL_PLAY_NONE);

        op.duration_ms = 1e-6 * (1 + pick(random, 3000000));
        op.delay_ms = pick(random, 3) == 0 ? 1e-6 * pick(random, 5000000) : 0;
        op.stream = is_compute ? 0 : 1 + pick(random, LULL_PLAY_STREAMS - 1);
        for (int d = 0; d < LULL_PLAY_DEPENDENCIES; d++)
            op.depends[d] =
                pick(random, 2) == 0 ? LULL_PLAY_NONE : (int32_t)pick(random, 2 * count);
        for (op.further_count = 0; pick(random, 3) == 0 && op.further_count < LULL_PLAY_FURTHER;)
            op.further[op.further_count++] = (int32_t)pick(random, 2 * count);
        assert_int_equal(lull_play_add(play, 0, &op, NULL), (int)i);
    }
    assert_int_equal(lull_play_finish(play, NULL), 0);
    return play;
}

static void test_random_plays_begin_and_end_as_reckoned(void **state)
{
    static struct reckoning reckoning;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t random = seed;
        struct lull_play *play = random_play(&random);
        const uint32_t count = play->ranks[0].count;

        reckon(&play->ranks[0], &reckoning);
        run_at(play, PERIODS, 0);
        assert_int_equal(seen.ended, PERIODS * count);
        for (uint32_t i = 0; i < PERIODS * count; i++)
            if (seen.spans[0][i].begin_ns != reckoning.begin_ns[i] ||
                seen.spans[0][i].end_ns != reckoning.end_ns[i])
                fail_msg("seed %llu, work %u of %u: %lld to %lld (wanted %lld to %lld)",
                         (unsigned long long)seed, i, count, (long long)seen.spans[0][i].begin_ns,
                         (long long)seen.spans[0][i].end_ns, (long long)reckoning.begin_ns[i],
                         (long long)reckoning.end_ns[i]);
        lull_play_destroy(play);
    }
}

/* ---- against the record ---- */

enum { MOST_KERNELS = 250 }; /* two periods of which are seen */

static uint32_t random_kernels(uint64_t *random, struct lull_play_kernel *kernels)
{
    const uint32_t count = 1 + pick(random, MOST_KERNELS);
    int64_t stream_ns[3] = {0};

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t stream = pick(random, 3); /* 2: communication */
        const int64_t gap_ns = pick(random, 4) == 0 ? pick(random, 8000000) : pick(random, 30000);
        const int64_t begin_ns = stream_ns[stream] + gap_ns;

        kernels[i] = (struct lull_play_kernel){
            .begin_ns = 1000000000 + begin_ns,
            .end_ns = 1000000000 + begin_ns + pick(random, pick(random, 9) == 0 ? 9000000 : 90000),
            .launch_ns = pick(random, 2) == 0 ? -1 : 1000000000 + begin_ns - pick(random, 100000),
            .bytes = pick(random, 2) * 1000000,
            .stream = stream,
            .is_communication = stream == 2,
            .function = LULL_PLAY_SEND_RECV,
        };
        stream_ns[stream] = kernels[i].end_ns - 1000000000;
    }
    return count;
}

static bool is_compute(const struct lull_play_kernel *kernel)
{
    return !kernel->is_communication && kernel->begin_ns < kernel->end_ns;
}

/* Returns whether communication begins after the computation that ended at ended_ns and before any
 * other ends, or ends before the computation that begins at begins_ns and after any other began. */
static bool is_cut(const struct lull_play_kernel *kernels, uint32_t count, int64_t ended_ns,
                   int64_t begins_ns)
{
    for (uint32_t i = 0; i < count; i++) {
        bool has_other_end = false;
        bool has_other_begin = false;

        if (!kernels[i].is_communication || kernels[i].begin_ns == kernels[i].end_ns)
            continue;
        for (uint32_t k = 0; k < count; k++) {
            has_other_end |= is_compute(&kernels[k]) && kernels[k].end_ns > ended_ns &&
                             kernels[k].end_ns <= kernels[i].begin_ns;
            has_other_begin |= is_compute(&kernels[k]) && kernels[k].begin_ns < begins_ns &&
                               kernels[k].begin_ns >= kernels[i].end_ns;
        }
        if ((kernels[i].begin_ns >= ended_ns && !has_other_end) ||
            (kernels[i].end_ns <= begins_ns && !has_other_begin))
            return true;
    }
    return false;
}

/* Returns whether any recorded kernel of that kind runs at a time; gaps to be merged count as
 * running. */
static bool is_busy(const struct lull_play_kernel *kernels, uint32_t count, bool is_communication,
                    int64_t time_ns)
{
    int64_t ended_ns = INT64_MIN / 2;
    int64_t begins_ns = INT64_MAX / 2;

    for (uint32_t i = 0; i < count; i++) {
        if (kernels[i].is_communication != is_communication ||
            kernels[i].begin_ns == kernels[i].end_ns)
            continue;
        if (kernels[i].begin_ns <= time_ns && time_ns < kernels[i].end_ns)
            return true;
        if (kernels[i].end_ns <= time_ns && kernels[i].end_ns > ended_ns)
            ended_ns = kernels[i].end_ns;
        if (kernels[i].begin_ns > time_ns && kernels[i].begin_ns < begins_ns)
            begins_ns = kernels[i].begin_ns;
    }
    return !is_communication && begins_ns - ended_ns < LULL_PLAY_MERGE_NS &&
           !is_cut(kernels, count, ended_ns, begins_ns);
}

static bool is_played(const struct lull_play *play, uint64_t first, bool is_communication,
                      int64_t time_ns)
{
    for (uint32_t i = 0; i < play->ranks[0].count; i++) {
        const struct lull_play_span *span = &seen.spans[0][first + i];

        if ((play->ranks[0].ops[i].kind == LULL_PLAY_COMMUNICATION) == is_communication &&
            span->begin_ns <= time_ns && time_ns < span->end_ns)
            return true;
    }
    return false;
}

/* The time of a period's begin, less the start of the record. */
static void check_period(const struct lull_play *play, const struct lull_play_kernel *kernels,
                         uint32_t count, uint64_t first, int64_t shift_ns)
{
    for (uint32_t i = 0; i < 2 * count; i++) {
        const struct lull_play_kernel *kernel = &kernels[i / 2];
        const int64_t edge_ns = i % 2 == 0 ? kernel->begin_ns : kernel->end_ns;

        for (int64_t time_ns = edge_ns - 1; time_ns <= edge_ns; time_ns++)
            for (int communication_too = 0; communication_too < 2; communication_too++)
                assert_int_equal(is_busy(kernels, count, communication_too, time_ns),
                                 is_played(play, first, communication_too, time_ns + shift_ns));
    }
}

static void test_a_record_is_replayed_to_the_nanosecond(void **state)
{
    static struct lull_play_kernel kernels[MOST_KERNELS];

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const struct lull_play_trace_options options = {
            .profile = "training", .link_gbs = 23, .channels = 4, .pause_ns = 1234567};
        uint64_t random = seed;
        struct lull_play *play = new_play(1);
        const uint32_t count = random_kernels(&random, kernels);
        int64_t first_ns = INT64_MAX;
        int64_t last_ns = 0;

        for (uint32_t i = 0; i < count; i++)
            if (kernels[i].begin_ns < kernels[i].end_ns) {
                first_ns = kernels[i].begin_ns < first_ns ? kernels[i].begin_ns : first_ns;
                last_ns = kernels[i].end_ns > last_ns ? kernels[i].end_ns : last_ns;
            }
        assert_int_equal(lull_play_add_trace(play, 0, kernels, count, &options, NULL), 0);
        assert_int_equal(lull_play_finish(play, NULL), 0);
        run_at(play, 2, 0);
        check_period(play, kernels, count, 0, options.pause_ns - first_ns);
        check_period(play, kernels, count, play->ranks[0].count,
                     2 * options.pause_ns + last_ns - 2 * first_ns);
        lull_play_destroy(play);
    }
}

/* ---- at lower clocks --------------------------------------------------------------------- */

enum { SOME_KERNELS = 60, LANES = 3 };

/* Compute kernels one after the other, and communication of up to three streams beside them: pauses
 * are longer and shorter than those that are merged. */
static uint32_t random_job(uint64_t *random, struct lull_play_kernel *kernels)
{
    const uint32_t count = 2 + pick(random, SOME_KERNELS - 2);
    int64_t lanes_ns[1 + LANES] = {MS(1), MS(1), MS(1), MS(1)};

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t lane = pick(random, 2) == 0 ? 0 : 1 + pick(random, LANES);
        const int64_t now_ns = lanes_ns[pick(random, 2) == 0 ? 0 : lane];
        const int64_t pause_ns = pick(random, pick(random, 2) == 0 ? 19000 : 400000);

        kernels[i] = (struct lull_play_kernel){
            .begin_ns = (now_ns > lanes_ns[lane] ? now_ns : lanes_ns[lane]) + pause_ns,
            .launch_ns = -1,
            .stream = lane,
            .is_communication = lane > 0,
            .function = LULL_PLAY_ALL_REDUCE,
        };
        kernels[i].end_ns = kernels[i].begin_ns + 1000 + pick(random, 900000);
        lanes_ns[lane] = kernels[i].end_ns;
    }
    return count;
}

/* The pause of two compute kernels in a row, which stretches like computation if it is merged. */
static bool is_merged(const struct lull_play_kernel *kernels, uint32_t count, int64_t ended_ns,
                      int64_t begins_ns)
{
    return begins_ns - ended_ns < LULL_PLAY_MERGE_NS &&
           !is_cut(kernels, count, ended_ns, begins_ns);
}

/*
 * Computes the end of each kernel if computation takes `slower` times as long: kernel by kernel,
 * each one after all that had ended before it, and as long after the last of them as in the record.
 */
static void replay_slowly(const struct lull_play_kernel *kernels, uint32_t count, double slower,
                          double begins_ns[SOME_KERNELS], double ends_ns[SOME_KERNELS])
{
    bool is_known[SOME_KERNELS] = {false};

    for (uint32_t turn = 0; turn < count; turn++) {
        uint32_t first = count;
        int64_t last_ns = 0; /* recorded end of the operations that had ended */
        int64_t compute_ns = 0;
        double ready_ns = 0.0;

        for (uint32_t i = 0; i < count; i++)
            if (!is_known[i] && (first == count || kernels[i].begin_ns < kernels[first].begin_ns))
                first = i;
        for (uint32_t i = 0; i < count; i++) {
            if (kernels[i].end_ns > kernels[first].begin_ns || i == first)
                continue;
            assert_true(is_known[i]);
            last_ns = kernels[i].end_ns > last_ns ? kernels[i].end_ns : last_ns;
            if (is_compute(&kernels[i]) && kernels[i].end_ns > compute_ns)
                compute_ns = kernels[i].end_ns;
            ready_ns = fmax(ready_ns, ends_ns[i]);
        }
        begins_ns[first] = ready_ns + (double)(kernels[first].begin_ns - last_ns);
        if (is_compute(&kernels[first]) && compute_ns > 0 &&
            is_merged(kernels, count, compute_ns, kernels[first].begin_ns))
            begins_ns[first] += (slower - 1.0) * (double)(kernels[first].begin_ns - compute_ns);
        ends_ns[first] =
            begins_ns[first] + (is_compute(&kernels[first]) ? slower : 1.0) *
                                   (double)(kernels[first].end_ns - kernels[first].begin_ns);
        is_known[first] = true;
    }
}

/* The link is so slow that communication takes as long at any clock. */
static void test_what_had_ended_is_before_at_any_clock(void **state)
{
    static struct lull_play_kernel kernels[SOME_KERNELS];
    const double clocks_mhz[] = {1380, 1200, 705, 300};
    const double memory_ratio = lull_gpu_model_profile(a100(), "training")->memory_ratio;

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        const struct lull_play_trace_options options = {
            .profile = "training", .link_gbs = 0.01, .channels = 4, .pause_ns = MS(1)};
        const double mhz = clocks_mhz[seed % 4];
        uint64_t random = seed;
        struct lull_play *play = new_play(1);
        const uint32_t count = random_job(&random, kernels);
        double begins_ns[SOME_KERNELS];
        double ends_ns[SOME_KERNELS];
        int64_t first_ns = INT64_MAX;
        double last_ns = 0.0;
        int64_t seen_ns = 0;

        for (uint32_t i = 0; i < count; i++)
            first_ns = kernels[i].begin_ns < first_ns ? kernels[i].begin_ns : first_ns;
        for (uint32_t i = 0; i < count; i++) { /* the period begins after the pause */
            kernels[i].begin_ns += options.pause_ns - first_ns;
            kernels[i].end_ns += options.pause_ns - first_ns;
        }
        replay_slowly(kernels, count, 1.0 / lull_gpu_model_speed(a100(), memory_ratio, mhz),
                      begins_ns, ends_ns);
        assert_int_equal(lull_play_add_trace(play, 0, kernels, count, &options, NULL), 0);
        assert_int_equal(lull_play_finish(play, NULL), 0);
        run_at(play, 1, mhz);
        for (uint32_t i = 0; i < play->ranks[0].count; i++)
            seen_ns = seen.spans[0][i].end_ns > seen_ns ? seen.spans[0][i].end_ns : seen_ns;
        for (uint32_t i = 0; i < count; i++) {
            bool is_found = false;

            last_ns = fmax(last_ns, ends_ns[i]);
            for (uint32_t k = 0; k < play->ranks[0].count; k++)
                is_found |= (play->ranks[0].ops[k].kind == LULL_PLAY_COMMUNICATION) ==
                                kernels[i].is_communication &&
                            fabs((double)seen.spans[0][k].begin_ns - begins_ns[i]) < 3.0 * count;
            if (kernels[i].is_communication && !is_found)
                fail_msg("seed %llu, kernel %u: no communication begins at %.3f ms",
                         (unsigned long long)seed, i, begins_ns[i] * 1e-6);
        }
        assert_true(fabs((double)seen_ns - last_ns) < 3.0 * count);
        lull_play_destroy(play);
    }
}

static void test_steps_and_leads_come_from_the_record(void **state)
{
    const struct lull_play_kernel kernels[] = {
        {.begin_ns = MS(1), .end_ns = MS(2), .launch_ns = MS(0.5)},
        {.begin_ns = MS(5), .end_ns = MS(6), .launch_ns = -1, .is_communication = true},
        {.begin_ns = MS(7), .end_ns = MS(8), .launch_ns = MS(6)},
    };
    const int64_t steps_ns[] = {MS(0.9), MS(6.5)};
    const struct lull_play_trace_options options = {.profile = "training",
                                                    .link_gbs = 23,
                                                    .channels = 4,
                                                    .steps_ns = steps_ns,
                                                    .step_count = 2};
    struct lull_play *play = new_play(1);

    (void)state;
    assert_int_equal(lull_play_add_trace(play, 0, kernels, 3, &options, NULL), 0);
    assert_int_equal(lull_play_finish(play, NULL), 0);
    assert_int_equal(play->ranks[0].count, 3);
    assert_int_equal(play->ranks[0].steps, 2);
    assert_true(play->ranks[0].ops[0].begins_step && play->ranks[0].ops[2].begins_step);
    assert_true(fabs(play->ranks[0].ops[0].lead_ms - 0.5) < 1e-9);
    assert_true(play->ranks[0].ops[1].lead_ms == 0.0);
    assert_int_equal(play->ranks[0].ops[2].depends[0], 1);
    lull_play_destroy(play);
}

static void test_records_that_cannot_be_are_refused(void **state)
{
    const struct lull_play_kernel backwards = {.begin_ns = 2, .end_ns = 1};
    const struct lull_play_kernel nothing = {.begin_ns = 2, .end_ns = 2};
    const struct lull_play_trace_options options = {.link_gbs = 23, .channels = 4};
    struct lull_play_kernel many[LULL_PLAY_STREAMS];
    struct lull_play *play = new_play(1);

    (void)state;
    for (uint32_t i = 0; i < LULL_PLAY_STREAMS; i++)
        many[i] = (struct lull_play_kernel){
            .begin_ns = 1, .end_ns = 9, .stream = i, .is_communication = true};
    assert_int_equal(lull_play_add_trace(play, 0, &backwards, 1, &options, NULL), -EINVAL);
    assert_int_equal(lull_play_add_trace(play, 0, &nothing, 1, &options, NULL), -EINVAL);
    assert_int_equal(lull_play_add_trace(play, 0, NULL, 0, &options, NULL), -EINVAL);
    assert_int_equal(lull_play_add_trace(play, 1, &nothing, 1, &options, NULL), -EINVAL);
    assert_int_equal(lull_play_add_trace(play, 0, many, LULL_PLAY_STREAMS, &options, NULL),
                     -EINVAL);
    lull_play_destroy(play);
}

/* ---- ranks together, and the clock ---- */

static void add(struct lull_play *play, uint32_t rank, struct lull_play_op op)
{
    assert_true(lull_play_add(play, rank, &op, NULL) >= 0);
}

static void test_communication_spins_until_all_are_there(void **state)
{
    struct lull_play *play = new_play(2);

    (void)state;
    add(play, 0, compute(10));
    add(play, 0, communication(5, 0));
    add(play, 1, compute(30));
    add(play, 1, communication(5, 0));
    assert_int_equal(lull_play_finish(play, NULL), 0);
    run_at(play, 1, 0);
    assert_span(0, 1, 10, 35);
    assert_span(1, 1, 30, 35);
    lull_play_destroy(play);
}

static void test_a_receive_waits_for_its_sender_alone(void **state)
{
    struct lull_play *play = new_play(3);
    struct lull_play_op send = communication(2, 0);
    struct lull_play_op receive = communication(2, LULL_PLAY_NONE);

    (void)state;
    play->is_recorded = true; /* overlap costs nothing */
    send.function = LULL_PLAY_SEND;
    send.peer = 2;
    receive.function = LULL_PLAY_RECV;
    receive.peer = 0;
    add(play, 0, compute(7));
    add(play, 0, send);
    add(play, 1, compute(100));
    add(play, 2, receive);
    add(play, 2, compute(1));
    assert_int_equal(lull_play_finish(play, NULL), 0);
    run_at(play, 2, 0);
    assert_span(2, 0, 0, 9);
    assert_span(0, 3, 14, 16);
    assert_span(2, 2, 9, 16);
    lull_play_destroy(play);
}

static void test_the_clock_stretches_kernels_but_not_the_host(void **state)
{
    struct lull_play *play = new_play(1);
    struct lull_play_op late = compute(10);
    const double half = 705;
    const double factor =
        1 / lull_gpu_model_speed(a100(), lull_gpu_model_profile(a100(), "training")->memory_ratio,
                                 half);

    (void)state;
    late.delay_ms = 20;
    late.depends[0] = 1;
    add(play, 0, compute(10));
    add(play, 0, communication(5, 0));
    add(play, 0, late);
    assert_int_equal(lull_play_finish(play, NULL), 0);
    run_at(play, 1, half);
    assert_span(0, 0, 0, 10 * factor);
    assert_span(0, 1, 10 * factor, 10 * factor + 5); /* the link is the limit, not the SMs */
    assert_span(0, 2, 10 * factor + 25, 20 * factor + 25);
    assert_int_equal(seen.low, 2);
    lull_play_destroy(play);
}

static void test_overlap_costs_the_sms_that_communicate(void **state)
{
    struct lull_play *play = new_play(1);
    struct lull_play_op wide = communication(1000, LULL_PLAY_NONE);

    (void)state;
    wide.channels = a100()->sm_count / 4;
    add(play, 0, wide);
    add(play, 0, compute(30));
    assert_int_equal(lull_play_finish(play, NULL), 0);
    run_at(play, 1, 0);
    assert_span(0, 1, 0, 40);
    lull_play_destroy(play);
}

static void test_ranks_that_wait_for_each_other_are_told(void **state)
{
    struct lull_play *play = new_play(2);
    struct lull_play_op op = communication(1, LULL_PLAY_NONE);
    struct lull_play_sim *sim;
    struct lull_error err = {0};

    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) { /* both receive first, on one stream */
        op.peer = 1 - rank;
        op.function = LULL_PLAY_RECV;
        add(play, rank, op);
        op.function = LULL_PLAY_SEND;
        add(play, rank, op);
    }
    assert_int_equal(lull_play_finish(play, NULL), 0);
    assert_int_equal(lull_play_sim_create(play, a100(), 1, &sim, NULL), 0);
    assert_int_equal(lull_play_sim_run(sim, NULL, &err), -EDEADLK);
    lull_play_sim_destroy(sim);
    lull_play_destroy(play);
}

/* A player that comes late to release must not lengthen the communication. */
static void test_a_late_release_counts_from_its_time(void **state)
{
    struct lull_physics gpu;
    const struct lull_physics_work work = {
        .after = {LULL_PHYSICS_NO_WORK, LULL_PHYSICS_NO_WORK},
        .duration_s = 0.01,
        .is_transfer = true,
        .link_gbs = 23,
        .channels = 4,
        .is_held = true,
    };

    (void)state;
    lull_physics_init(&gpu, a100(), 0, 0);
    lull_physics_open(&gpu, 1, 0);
    lull_physics_advance(&gpu, MS(1));
    assert_true(lull_physics_enqueue(&gpu, 0, &work));
    lull_physics_advance(&gpu, MS(30));
    assert_int_equal(lull_physics_find_work(&gpu, 0, 0)->state, LULL_WORK_RUNNING);
    lull_physics_release(&gpu, 0, 0, MS(25));
    lull_physics_advance(&gpu, MS(60));
    assert_int_equal(lull_physics_find_work(&gpu, 0, 0)->state, LULL_WORK_ENDED);
    assert_int_equal(lull_physics_find_work(&gpu, 0, 0)->end_ns, MS(35));
    assert_null(lull_physics_find_work(&gpu, 0, 1));
}

/* ---- checking ---- */

static void test_impossible_operations_are_refused(void **state)
{
    struct lull_play_op ops[9];
    struct lull_error err = {0};

    (void)state;
    for (int i = 0; i < 9; i++)
        ops[i] = i < 4 ? compute(1) : communication(1, LULL_PLAY_NONE);
    ops[0].duration_ms = 0;
    ops[1].stream = LULL_PLAY_STREAMS;
    ops[2].depends[1] = 2; /* 1 is itself, in the period before */
    ops[3].delay_ms = NAN;
    ops[4].communicator = 1;
    ops[5].function = LULL_PLAY_SEND; /* to itself */
    ops[6].link_gbs = 0;
    ops[7].further_count = 1;
    ops[7].further[0] = LULL_PLAY_NONE;
    ops[8].further_count = LULL_PLAY_FURTHER + 1;
    for (int i = 0; i < 9; i++) {
        struct lull_play *play = new_play(1);

        add(play, 0, ops[i]);
        assert_int_equal(lull_play_finish(play, &err), -EINVAL);
        assert_non_null(strstr(err.text, "rank 0, operation 0"));
        lull_play_destroy(play);
    }
}

static void test_ranks_meet_on_one_stream(void **state)
{
    struct lull_play *play = new_play(2);
    struct lull_play_op elsewhere = communication(1, LULL_PLAY_NONE);

    (void)state;
    elsewhere.stream = 2;
    for (uint32_t rank = 0; rank < 2; rank++) {
        add(play, rank, communication(1, LULL_PLAY_NONE));
        add(play, rank, elsewhere);
    }
    assert_int_equal(lull_play_finish(play, NULL), -EINVAL);
    lull_play_destroy(play);
}

static void test_who_meets_must_come_equally_often(void **state)
{
    struct lull_play *play = new_play(2);

    (void)state;
    add(play, 0, communication(1, LULL_PLAY_NONE));
    add(play, 1, compute(1));
    assert_int_equal(lull_play_finish(play, NULL), -EINVAL);
    lull_play_destroy(play);
}

/* ---- presets ---- */

static int compare_spans(const void *a, const void *b)
{
    const struct lull_play_span *x = a;
    const struct lull_play_span *y = b;

    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

/* Share of the period in which any operation of that kind runs, mean over the ranks. */
static double share_of(const struct lull_play *play, enum lull_play_kind kind)
{
    struct lull_play_span *spans[LULL_PLAY_RANKS];
    int64_t period_ns = 0;
    int64_t sum_ns = 0;

    assert_int_equal(lull_play_sim_spans(play, a100(), NULL, spans, &period_ns, NULL), 0);
    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        const struct lull_play_rank *ops = &play->ranks[rank];
        int64_t covered_ns = INT64_MIN;
        uint32_t count = 0;

        for (uint32_t i = 0; i < ops->count; i++)
            if (ops->ops[i].kind == kind)
                spans[rank][count++] = spans[rank][i];
        qsort(spans[rank], count, sizeof(spans[rank][0]), compare_spans);
        for (uint32_t i = 0; i < count; i++) {
            const struct lull_play_span *span = &spans[rank][i];

            if (span->end_ns <= covered_ns)
                continue;
            sum_ns += span->end_ns - (span->begin_ns > covered_ns ? span->begin_ns : covered_ns);
            covered_ns = span->end_ns;
        }
        free(spans[rank]);
    }
    return (double)sum_ns / (double)period_ns / play->rank_count;
}

static void test_presets_have_the_published_proportions(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < lull_play_preset_count; i++) {
        const struct lull_play_preset *preset = &lull_play_presets[i];
        struct lull_play *play = NULL;

        assert_int_equal(lull_play_preset_create(preset, 0, &play, NULL), 0);
        assert_ptr_equal(lull_play_find_preset(preset->name), preset);
        assert_true(strlen(preset->source) > 0);
        check_within(preset->name, share_of(play, LULL_PLAY_COMMUNICATION),
                     preset->communication_min_ratio, preset->communication_max_ratio);
        lull_play_destroy(play);
    }
    assert_null(lull_play_find_preset("no such thing"));
}

/* Of P stages and M micro-batches, without communication: (P-1)/(M+P-1). */
static void test_the_pipeline_bubbles_as_1f1b_does(void **state)
{
    const struct lull_play_preset *preset = lull_play_find_preset("megatron-3d");
    struct lull_play *play = NULL;

    (void)state;
    assert_int_equal(lull_play_preset_create(preset, 2, &play, NULL), 0);
    check_within("idle of two stages", 1 - share_of(play, LULL_PLAY_COMPUTE), 1.0 / 9,
                 1.0 / 9 + 0.06);
    lull_play_destroy(play);
    assert_int_equal(lull_play_preset_create(preset, 16, &play, NULL), 0);
    lull_play_destroy(play);
    assert_int_equal(lull_play_preset_create(preset, 6, &play, NULL), -EINVAL);
}

static void test_inference_idles_as_published(void **state)
{
    struct lull_play *play = NULL;

    (void)state;
    assert_int_equal(
        lull_play_preset_create(lull_play_find_preset("llm-inference"), 0, &play, NULL), 0);
    check_within("idle of a server",
                 1 - share_of(play, LULL_PLAY_COMPUTE) - share_of(play, LULL_PLAY_COMMUNICATION),
                 0.58, 0.64);
    lull_play_destroy(play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plays_begin_and_end_as_reckoned),
        cmocka_unit_test(test_a_record_is_replayed_to_the_nanosecond),
        cmocka_unit_test(test_what_had_ended_is_before_at_any_clock),
        cmocka_unit_test(test_steps_and_leads_come_from_the_record),
        cmocka_unit_test(test_records_that_cannot_be_are_refused),
        cmocka_unit_test(test_communication_spins_until_all_are_there),
        cmocka_unit_test(test_a_receive_waits_for_its_sender_alone),
        cmocka_unit_test(test_the_clock_stretches_kernels_but_not_the_host),
        cmocka_unit_test(test_overlap_costs_the_sms_that_communicate),
        cmocka_unit_test(test_ranks_that_wait_for_each_other_are_told),
        cmocka_unit_test(test_a_late_release_counts_from_its_time),
        cmocka_unit_test(test_impossible_operations_are_refused),
        cmocka_unit_test(test_ranks_meet_on_one_stream),
        cmocka_unit_test(test_who_meets_must_come_equally_often),
        cmocka_unit_test(test_presets_have_the_published_proportions),
        cmocka_unit_test(test_the_pipeline_bubbles_as_1f1b_does),
        cmocka_unit_test(test_inference_idles_as_published),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
