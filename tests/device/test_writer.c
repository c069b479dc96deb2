/*
 * The device writer in virtual time: its loop runs in this thread, and its wait for events moves
 * the clock to the timer. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/thread.h"
#include "device/driver_owner.h"
#include "fake_devices.h"

static int64_t timer_ns = INT64_MAX; /* time at which it fires; INT64_MAX: not set, or fired */
static int64_t horizon_ns;           /* limit of the clock */
static jmp_buf halted;
static bool is_stuck; /* the thread never comes back from the driver */

static int fake_timer(const struct itimerspec *spec)
{
    timer_ns = (int64_t)spec->it_value.tv_sec * LULL_NS_PER_S + spec->it_value.tv_nsec;
    if (timer_ns == 0)
        timer_ns = INT64_MAX;
    return 0;
}

static int fake_wait(void)
{
    if (timer_ns > horizon_ns) {
        fake_sleep_until_ns(horizon_ns);
        longjmp(halted, 1);
    }
    fake_sleep_until_ns(timer_ns);
    timer_ns = INT64_MAX;
    return 1;
}

static int fake_end(const struct timespec *patience);

#define timerfd_settime(fd, flags, spec, old) fake_timer(spec)
#define epoll_wait(fd, events, count, timeout) ((void)(events), fake_wait())
#define lull_thread_start(thread, function, argument) ((void)(thread), (void)(function), 0)
#define lull_thread_set_realtime() ((void)0)
#define prctl(...) ((void)0)
#define pthread_setname_np(thread, name) ((void)0)
#define pthread_join(thread, out) ((void)0)
#define pthread_cond_timedwait(condition, lock, time) fake_end(time)
#define lull_driver_owner_is_lost() (fake.is_lost)

/* Both have a function of this name. */
#define clamp clamp_limit
#include "device/limit_control.c"
#undef clamp
#include "device/profile_control.c"
#include "device/smoothing_control.c"
#include "device/writer.c"
#include "device/writer_act.c"
#include "device/writer_alive.c"
#include "device/writer_driver.c"
#include "device/writer_lease.c"
#include "device/writer_power.c"
#include "device/writer_profiles.c"
#include "device/writer_record.c"
#include "device/writer_request.c"
#include "device/writer_smoothing.c"
#include "device/writer_thread.c"
#include "device/writer_watch.c"

#define MS LULL_NS_PER_MS
#define T0 LULL_NS_PER_S /* when each test begins */

static const struct lull_band wide = {200, 1400, 0, 0};
static const struct lull_band limits = {200, 1400, 150000, 400000};

/* A client: its requests by GPU, and the last result that it received. */
struct client {
    struct lull_writer_source source;
    struct lull_switch_request requests[FAKE_MOST_GPUS];
    uint64_t taken[FAKE_MOST_GPUS];
    struct lull_switch_result results[FAKE_MOST_GPUS];
    struct lull_limit_request limits[FAKE_MOST_GPUS];
    uint64_t taken_limits[FAKE_MOST_GPUS];
    struct lull_limit_result limit_results[FAKE_MOST_GPUS];
    uint32_t releases;
};

static struct client client;
static struct lull_writer *writer;
static struct lull_journal *journal;
static char directory[64];
static uint32_t ends;
static int end_results[16];
static int64_t end_ns[16];

static bool take_request(void *context, uint32_t gpu, struct lull_switch_request *request_out)
{
    struct client *its = context;

    if (its->requests[gpu].sequence == its->taken[gpu])
        return false;
    its->taken[gpu] = its->requests[gpu].sequence;
    *request_out = its->requests[gpu];
    return true;
}

static void keep_result(void *context, uint32_t gpu, const struct lull_switch_result *result)
{
    ((struct client *)context)->results[gpu] = *result;
}

static bool take_limit_request(void *context, uint32_t gpu, struct lull_limit_request *request_out)
{
    struct client *its = context;

    if (its->limits[gpu].sequence == its->taken_limits[gpu])
        return false;
    its->taken_limits[gpu] = its->limits[gpu].sequence;
    *request_out = its->limits[gpu];
    return true;
}

static void keep_limit_result(void *context, uint32_t gpu, const struct lull_limit_result *result)
{
    ((struct client *)context)->limit_results[gpu] = *result;
}

static void count_release(void *context)
{
    ((struct client *)context)->releases++;
}

static void keep_end(void *context, uint32_t gpu, int result)
{
    assert_ptr_equal(context, &client);
    assert_true(gpu < fake.count);
    assert_true(ends < 16);
    end_ns[ends] = fake_time_ns;
    end_results[ends++] = result;
}

static int fake_end(const struct timespec *patience)
{
    /* Half a second after its limit the writer must have noticed it. */
    assert_int_equal(patience->tv_sec * LULL_NS_PER_S + patience->tv_nsec,
                     writer->stop_ns + LULL_NS_PER_S / 2);
    if (is_stuck)
        return ETIMEDOUT;
    horizon_ns = INT64_MAX;
    pthread_mutex_unlock(&writer->mailbox_lock);
    if (setjmp(halted) == 0)
        writer_thread_run(writer);
    else
        fail_msg("the writer sleeps for ever instead of ending");
    pthread_mutex_lock(&writer->mailbox_lock);
    return 0;
}

/* Lets the writer work until this time. */
static void advance(int64_t to_ns)
{
    horizon_ns = to_ns;
    if (setjmp(halted) == 0)
        writer_thread_run(writer);
    else
        return;
    fail_msg("the writer has ended by itself");
}

static void begin_with(uint32_t gpus, const struct lull_writer_options *options)
{
    struct lull_writer_options mine = *options;
    struct lull_error error;

    fake_reset(gpus);
    memset(&client, 0, sizeof(client));
    client.source = (struct lull_writer_source){
        .doorbell_fd = eventfd(0, EFD_CLOEXEC),
        .channel = {.context = &client,
                    .take = take_request,
                    .publish = keep_result,
                    .take_limit = take_limit_request,
                    .publish_limit = keep_limit_result},
        .released = count_release,
        .context = &client,
    };
    timer_ns = INT64_MAX;
    is_stuck = false;
    ends = 0;
    snprintf(directory, sizeof(directory), "/tmp/lull-writer-XXXXXX");
    assert_non_null(mkdtemp(directory));
    assert_int_equal(lull_journal_open(directory, &journal, &error), 0);
    mine.context = &client;
    mine.ended = keep_end;
    assert_int_equal(lull_writer_start(NULL, journal, &mine, &writer, &error), 0);
    assert_int_equal(lull_writer_add_source(writer, &client.source, &error), 0);
}

static void begin(uint32_t gpus)
{
    begin_with(gpus, &lull_writer_defaults);
}

static void grant(uint32_t gpu, const struct lull_band *band)
{
    lull_writer_grant(writer, gpu, &client.source, band);
}

static int end(void)
{
    char command[96];
    int result = lull_writer_stop(writer, 10 * LULL_NS_PER_S);

    close(client.source.doorbell_fd);
    lull_journal_close(journal);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
    return result;
}

static void ask(uint32_t gpu, uint32_t sm_mhz, int64_t deadline_ns, int64_t valid_until_ns)
{
    client.requests[gpu].sequence++;
    client.requests[gpu].sm_mhz = sm_mhz;
    client.requests[gpu].deadline_ns = deadline_ns;
    client.requests[gpu].valid_until_ns = valid_until_ns;
}

/* A request that nothing hurries. */
static void ask_soon(uint32_t gpu, uint32_t sm_mhz)
{
    ask(gpu, sm_mhz, fake_time_ns + LULL_NS_PER_S, fake_time_ns + 4 * LULL_NS_PER_S);
}

static void ask_limit(uint32_t gpu, uint32_t limit_mw)
{
    client.limits[gpu].sequence++;
    client.limits[gpu].limit_mw = limit_mw;
}

static struct lull_writer_state state_of(uint32_t gpu)
{
    struct lull_writer_state state;

    lull_writer_state(writer, gpu, &state);
    return state;
}

static void check_call(uint32_t at, uint32_t gpu, uint32_t sm_mhz, int64_t begin_ns)
{
    assert_true(at < fake.call_count);
    assert_int_equal(fake.calls[at].gpu, gpu);
    assert_int_equal(fake.calls[at].sm_mhz, sm_mhz);
    assert_int_equal(fake.calls[at].begin_ns, begin_ns);
}

static bool has_record(uint32_t gpu, struct lull_journal_record *record_out)
{
    return lull_journal_load(journal, fake.gpus[gpu].info.uuid, record_out, NULL) == 0;
}

/* The writer that comes round answers; the one that is asked twice in between does not. */
static void test_whether_the_writer_answers(void **state)
{
    (void)state;
    begin(1);
    assert_true(lull_writer_answers(writer));
    assert_false(lull_writer_answers(writer));
    advance(T0);
    assert_true(lull_writer_answers(writer));
    advance(T0 + MS);
    assert_true(lull_writer_answers(writer));
    assert_int_equal(end(), 0);
}

/* --- one request --- */

static void test_a_lowering_is_recorded_written_and_read_back(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    grant(0, &wide);
    advance(T0);
    assert_true(state_of(0).is_leased);
    assert_true(has_record(0, &record));
    assert_string_equal(record.uuid, "GPU-0");
    assert_string_equal(record.driver_version, "550.54.15");
    assert_int_equal(record.controls, LULL_CAPABILITY_SM_LOCK);
    assert_int_equal(record.power_limit_mw, 350000);
    assert_int_equal(record.power_limit_default_mw, 400000);
    assert_int_equal(fake.call_count, 0);
    ask_soon(0, 900);
    advance(T0 + FAKE_CALL_NS);
    check_call(0, 0, 900, T0);
    assert_int_equal(client.results[0].sequence, 1);
    assert_int_equal(client.results[0].status, 0);
    assert_int_equal(client.results[0].sm_mhz, 900);
    assert_int_equal(client.results[0].call_begin_ns, T0);
    assert_int_equal(client.results[0].call_ns, FAKE_CALL_NS);
    assert_int_equal(client.results[0].calls, 1);
    assert_int_equal(client.results[0].blocked_us, 100);
    assert_int_equal(client.results[0].settle_ns, LULL_SETTLE_UNKNOWN);
    /* The clock follows after 4 ms: readings after 3 and 4.5 ms stand on both sides of it. */
    advance(T0 + FAKE_CALL_NS + 4 * MS);
    assert_int_equal(client.results[0].settle_ns, LULL_SETTLE_UNKNOWN);
    assert_int_equal(client.results[0].observed_mhz, 1400);
    advance(T0 + 10 * MS);
    assert_int_equal(client.results[0].settle_ns, 15 * MS / 4);
    assert_int_equal(client.results[0].unread_us, 1500);
    assert_int_equal(client.results[0].observed_mhz, 900);
    assert_int_equal(state_of(0).applied_mhz, 900);
    assert_int_equal(state_of(0).observed_mhz, 900);
    assert_int_equal(state_of(0).writes, 1);
    ask_soon(0, 0);
    advance(T0 + 30 * MS);
    check_call(1, 0, 0, T0 + 10 * MS);
    assert_int_equal(client.results[0].sequence, 2);
    assert_int_equal(client.results[0].calls, 2);
    assert_int_equal(client.results[0].settle_ns, 15 * MS / 4);
    assert_int_equal(client.results[0].observed_mhz, 1400);
    assert_int_equal(state_of(0).applied_mhz, 0);
    assert_int_equal(state_of(0).disobeyed, 0);
    assert_true(has_record(0, &record)); /* as long as the lease lasts */
    lull_writer_end(writer, 0);
    advance(T0 + 31 * MS);
    assert_false(has_record(0, &record));
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], 0);
    assert_int_equal(fake.call_count, 2);
    assert_false(state_of(0).is_leased);
    assert_int_equal(end(), 0);
}

static void test_clocks_are_clamped_to_the_band_and_the_device(void **state)
{
    static const struct lull_device_info info = {.sm_clock_count = 5,
                                                 .sm_clocks_mhz = {1400, 1200, 900, 600, 200}};
    static const struct lull_device_info unknown = {0};
    static const struct {
        struct lull_band band;
        uint32_t asked_mhz;
        uint32_t clamped_mhz;
    } rows[] = {
        {{200, 1400}, 0, 0},       {{200, 1400}, 1, 200},     {{200, 1400}, 200, 200},
        {{200, 1400}, 201, 600},   {{200, 1400}, 900, 900},   {{200, 1400}, 901, 1200},
        {{200, 1400}, 1201, 1400}, {{200, 1400}, 9000, 1400}, {{600, 900}, 300, 600},
        {{600, 900}, 1000, 900},   {{600, 1000}, 950, 900},   {{601, 1199}, 610, 900},
        {{600, 1200}, 1200, 1200}, {{100, 150}, 120, 120}, /* no clock in the band */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(writer_request_clamp(&info, &rows[i].band, rows[i].asked_mhz),
                         rows[i].clamped_mhz);
    assert_int_equal(writer_request_clamp(&unknown, &(struct lull_band){600, 900}, 700), 700);
}

/* A lowering is served up to its deadline and while it is valid, to the nanosecond. */
static void test_late_lowerings_are_dropped_and_raisings_are_not(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    advance(T0);
    ask(0, 900, T0 - 1, T0 + MS);
    advance(T0);
    assert_int_equal(client.results[0].status, LULL_E_STALE);
    assert_int_equal(client.results[0].sequence, 1);
    assert_int_equal(client.results[0].sm_mhz, 900);
    assert_int_equal(client.results[0].call_ns, 0);
    ask(0, 900, T0 + MS, T0);
    advance(T0);
    assert_int_equal(state_of(0).dropped, 2);
    assert_int_equal(state_of(0).status, LULL_E_STALE);
    assert_int_equal(fake.call_count, 0);
    ask(0, 900, T0, T0 + 50 * MS);
    advance(T0 + 10 * MS);
    check_call(0, 0, 900, T0);
    ask(0, 1200, 0, T0 + 20 * MS); /* higher than now: a raising */
    advance(T0 + 11 * MS);
    check_call(1, 0, 1200, T0 + 10 * MS);
    assert_int_equal(state_of(0).dropped, 2);
    ask(0, 0, 0, 0);
    advance(T0 + 15 * MS);
    check_call(2, 0, 0, T0 + 11 * MS);
    assert_int_equal(client.results[0].status, 0);
    assert_int_equal(end(), 0);
}

static void test_a_lowering_expires_unless_renewed(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    ask(0, 900, T0 + MS, T0 + 20 * MS);
    advance(T0 + 15 * MS);
    ask(0, 900, T0 + 16 * MS, T0 + 40 * MS); /* the same point: nothing is written */
    advance(T0 + 15 * MS);
    assert_int_equal(client.results[0].sequence, 2);
    assert_int_equal(client.results[0].status, 0);
    assert_int_equal(client.results[0].sm_mhz, 900);
    assert_int_equal(client.results[0].call_ns, 0);
    assert_int_equal(client.results[0].call_begin_ns, T0 + 15 * MS);
    advance(T0 + 40 * MS - 1);
    assert_int_equal(fake.call_count, 1);
    assert_int_equal(state_of(0).expired, 0);
    advance(T0 + 60 * MS);
    check_call(1, 0, 0, T0 + 40 * MS);
    assert_int_equal(fake.call_count, 2);
    assert_int_equal(state_of(0).expired, 1);
    assert_int_equal(client.results[0].status, LULL_E_STALE);
    assert_int_equal(client.results[0].sm_mhz, 0);
    ask_soon(0, 600);
    advance(T0 + 61 * MS);
    assert_int_equal(client.results[0].status, 0);
    assert_int_equal(end(), 0);
}

static void test_no_lowering_stays_longer_than_the_cap(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    ask(0, 900, INT64_MAX, INT64_MAX);
    advance(T0 + 9 * LULL_NS_PER_S);
    assert_int_equal(fake.call_count, 2);
    check_call(1, 0, 0, T0 + lull_writer_defaults.validity_cap_ns);
    assert_int_equal(end(), 0);
}

/* --- many requests --- */

static void test_raisings_go_first_and_lowerings_by_deadline(void **state)
{
    (void)state;
    begin(4);
    for (uint32_t i = 0; i < 4; i++)
        grant(i, &wide);
    ask_soon(3, 600);
    advance(T0 + 20 * MS);
    ask(0, 900, T0 + 900 * MS, T0 + LULL_NS_PER_S);
    ask(1, 900, T0 + 800 * MS, T0 + LULL_NS_PER_S);
    ask(2, 900, T0 + 800 * MS, T0 + LULL_NS_PER_S);
    ask(3, 0, 0, 0);
    advance(T0 + 60 * MS);
    assert_int_equal(fake.call_count, 5);
    check_call(1, 3, 0, T0 + 20 * MS);
    check_call(2, 1, 900, T0 + 20 * MS + FAKE_CALL_NS);
    check_call(3, 2, 900, T0 + 20 * MS + 2 * FAKE_CALL_NS);
    check_call(4, 0, 900, T0 + 20 * MS + 3 * FAKE_CALL_NS);
    /* Raisings at the same time, in the order of the GPUs: 0 was lowered first of all of them. */
    ask(2, 0, 0, 0);
    ask(0, 1200, 0, T0 + LULL_NS_PER_S);
    advance(T0 + 100 * MS);
    check_call(5, 0, 1200, T0 + 60 * MS);
    check_call(6, 2, 0, T0 + 60 * MS + FAKE_CALL_NS);
    /* One that has waited longer goes first, though its GPU comes later. */
    writer->gpus[1].request.pending = (struct lull_switch_request){.sequence = 9};
    writer->gpus[1].request.is_pending = true;
    writer->gpus[1].request.arrived_ns = fake_time_ns - 1;
    ask(0, 0, 0, 0);
    advance(T0 + 150 * MS);
    check_call(7, 1, 0, T0 + 100 * MS);
    check_call(8, 0, 0, T0 + 100 * MS + FAKE_CALL_NS);
    assert_int_equal(end(), 0);
}

static void test_the_latest_request_wins_and_keeps_its_place(void **state)
{
    struct lull_writer_gpu *gpu;

    (void)state;
    begin(1);
    grant(0, &wide);
    advance(T0);
    gpu = &writer->gpus[0];
    ask_soon(0, 900);
    writer_request_take(writer, 0, T0);
    ask_soon(0, 900);
    writer_request_take(writer, 0, T0 + 5);
    assert_int_equal(gpu->request.arrived_ns, T0); /* the same point again */
    ask_soon(0, 600);
    writer_request_take(writer, 0, T0 + 6);
    assert_int_equal(gpu->request.arrived_ns, T0 + 6);
    assert_int_equal(gpu->request.pending.sequence, 3);
    advance(T0 + MS);
    assert_int_equal(fake.call_count, 1);
    check_call(0, 0, 600, T0);
    assert_int_equal(end(), 0);
}

static void test_what_is_a_raising(void **state)
{
    static const struct {
        uint32_t applied_mhz; /* 0: the reference point, which is the highest */
        uint32_t asked_mhz;
        bool is_raising;
    } rows[] = {
        {0, 0, true},      {900, 0, true},    {0, 1, false},    {0, 1400, false},
        {900, 899, false}, {900, 900, false}, {900, 901, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct lull_writer_gpu gpu = {.clock.applied_mhz = rows[i].applied_mhz,
                                            .request.pending.sm_mhz = rows[i].asked_mhz};

        assert_int_equal(lull_writer_is_raising(&gpu), rows[i].is_raising);
    }
}

static void test_a_lowering_waits_for_its_budget(void **state)
{
    struct lull_writer_options options = lull_writer_defaults;
    int64_t raised_ns;

    (void)state;
    options.lowering_refill_ns = INT64_MAX;
    begin_with(1, &options);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 10 * MS);
    ask_soon(0, 0);
    advance(T0 + 20 * MS);
    raised_ns = T0 + 10 * MS + FAKE_CALL_NS;
    ask_soon(0, 900);
    advance(T0 + 60 * MS);
    check_call(2, 0, 900, raised_ns + options.lowering_gap_ns);
    /* From 900 up to 1200 is a raising: what follows it waits again. */
    ask_soon(0, 1200);
    advance(T0 + 61 * MS);
    check_call(3, 0, 1200, T0 + 60 * MS);
    ask_soon(0, 600);
    advance(T0 + 200 * MS);
    check_call(4, 0, 600, T0 + 60 * MS + FAKE_CALL_NS + options.lowering_gap_ns);
    /* A lowering from one lowered point to a deeper one does not. */
    ask_soon(0, 200);
    advance(T0 + 201 * MS);
    check_call(5, 0, 200, T0 + 200 * MS);
    /* A call that is too late when the budget allows it is dropped then, not at the deadline of
     * others. */
    ask_soon(0, 0);
    advance(T0 + 202 * MS);
    ask(0, 900, T0 + 210 * MS, T0 + 300 * MS);
    advance(T0 + 210 * MS);
    assert_int_equal(state_of(0).dropped, 0);
    advance(T0 + 210 * MS + 1);
    assert_int_equal(state_of(0).dropped, 1);
    assert_int_equal(end(), 0);
}

/* --- failures --- */

/* F09: what follows from an error of the driver. A lowering that may pass is tried three times
 * more, after 10, 20 and 40 ms, and then told; what cannot pass is told at once, and not tried
 * again in this lease; a GPU that is gone is tried again after 1, 2, 4 to 60 s. */
static void test_f09_lowerings_follow_the_fault_table(void **state)
{
    static const struct {
        int error;
        uint32_t calls;       /* for one request */
        uint32_t later_calls; /* for another one 100 ms later */
    } rows[] = {
        {-EAGAIN, 4, 4}, {-EPERM, 1, 0},  {LULL_E_UNSUPPORTED, 1, 0},
        {-EIO, 1, 0},    {-EINVAL, 1, 1}, {LULL_E_NO_DEVICE, 1, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(1);
        fake.gpus[0].failures = 1000;
        fake.gpus[0].status = rows[i].error;
        grant(0, &wide);
        ask_soon(0, 900);
        advance(T0 + 100 * MS);
        assert_int_equal(fake.call_count, rows[i].calls);
        assert_int_equal(client.results[0].status, rows[i].error);
        assert_int_equal(client.results[0].sequence, 1);
        if (rows[i].error == -EAGAIN) {
            check_call(1, 0, 900, T0 + FAKE_CALL_NS + 10 * MS);
            check_call(2, 0, 900, T0 + 2 * FAKE_CALL_NS + 30 * MS);
            check_call(3, 0, 900, T0 + 3 * FAKE_CALL_NS + 70 * MS);
        }
        ask_soon(0, 600);
        advance(T0 + 200 * MS);
        assert_int_equal(fake.call_count, rows[i].calls + rows[i].later_calls);
        assert_int_equal(client.results[0].status, rows[i].error);
        assert_int_equal(client.results[0].sequence, 2);
        assert_int_equal(state_of(0).applied_mhz, 0);
        fake.gpus[0].failures = 0;
        assert_int_equal(end(), 0);
    }
}

static void test_f09_a_gpu_that_is_gone_is_not_asked_all_the_time(void **state)
{
    static const int64_t wait_s[] = {1, 2, 4, 8, 16, 32, 60, 60};
    int64_t at_ns = T0 + 10 * MS;

    (void)state;
    begin(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(at_ns);
    fake.gpus[0].failures = 8;
    fake.gpus[0].status = LULL_E_NO_DEVICE;
    lull_writer_end(writer, 0);
    advance(T0 + 300 * LULL_NS_PER_S);
    for (uint32_t i = 0; i < 8; i++) {
        check_call(1 + i, 0, 0, at_ns);
        at_ns += FAKE_CALL_NS + wait_s[i] * LULL_NS_PER_S;
    }
    assert_int_equal(fake.call_count, 10);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_int_equal(end(), 0);
}

/* --- GPUs and drivers that go away --- */

static uint32_t revocations[LULL_WRITER_REVOCATIONS];

static void keep_revocation(void *context, uint32_t gpu, enum lull_writer_revocation why)
{
    (void)context;
    revocations[why]++;
    lull_writer_end(writer, gpu); /* as lulld does */
}

static uint32_t tellings;
static struct lull_device_update reported; /* processes that compute on GPU 1 */

static void keep_processes(void *context, uint32_t gpu, const pid_t *pids, uint32_t count)
{
    (void)context;
    tellings++;
    assert_int_equal(gpu, 1);
    reported.processes.count = count;
    memcpy(reported.processes.pids, pids, count * sizeof(pids[0]));
}

/* GPUs that are looked at every second, and whose leases are ended for what is seen. */
static void begin_looking(uint32_t gpus)
{
    struct lull_writer_options options = lull_writer_defaults;

    memset(revocations, 0, sizeof(revocations));
    options.check_ns = LULL_NS_PER_S;
    options.revoke = keep_revocation;
    options.processes = keep_processes;
    tellings = 0;
    begin_with(gpus, &options);
}

static void test_f31_processes_are_told_where_they_are_known(void **state)
{
    (void)state;
    begin_looking(2);
    advance(T0 + MS);
    assert_int_equal(tellings, 0);
    fake.gpus[1].update = (struct lull_device_update){
        .processes = {.is_known = true, .count = 2, .pids = {4711, 4712}}};
    advance(T0 + LULL_NS_PER_S + 10 * MS);
    assert_int_equal(tellings, 1);
    assert_int_equal(reported.processes.count, 2);
    assert_int_equal(reported.processes.pids[1], 4712);
    assert_int_equal(end(), 0);
}

static const int64_t waits_s[] = {1, 2, 4, 8, 16, 32, 60, 60};

enum { WAITS = sizeof(waits_s) / sizeof(waits_s[0]) };

static void test_f07_a_lost_gpu_is_looked_for_ever_more_slowly(void **state)
{
    int64_t at_ns;
    uint32_t others;

    (void)state;
    begin_looking(2);
    advance(T0 + MS);
    assert_int_equal(fake.gpus[0].checks, 1);
    assert_int_equal(state_of(0).health, LULL_WRITER_UP);
    assert_true(state_of(0).seen_ns > 0);
    fake.gpus[0].failures = WAITS;
    fake.gpus[0].status = LULL_E_NO_DEVICE;
    at_ns = T0 + LULL_NS_PER_S + 5 * MS;
    for (uint32_t i = 0; i < WAITS; i++) {
        struct lull_error error;

        advance(at_ns);
        assert_int_equal(fake.gpus[0].checks, 2 + i);
        assert_int_equal(state_of(0).health, LULL_WRITER_LOST);
        assert_int_equal(lull_writer_check(writer, 0, &error), LULL_E_NO_DEVICE);
        at_ns += waits_s[i] * LULL_NS_PER_S;
        advance(at_ns - 10 * MS);
        assert_int_equal(fake.gpus[0].checks, 2 + i);
    }
    assert_int_equal(revocations[LULL_WRITER_GPU_LOST], 0); /* there was no lease */
    advance(at_ns);
    assert_int_equal(state_of(0).health, LULL_WRITER_UP);
    assert_int_equal(lull_writer_check(writer, 0, NULL), 0);
    others = fake.gpus[1].checks; /* the other GPU was looked at every second */
    assert_true(others > (at_ns - T0) * 9 / 10 / LULL_NS_PER_S);
    assert_int_equal(end(), 0);
}

static void test_f07_a_lost_gpu_ends_its_lease_and_is_raised_when_it_is_back(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin_looking(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 10 * MS);
    fake.gpus[0].failures = 3;
    fake.gpus[0].status = LULL_E_NO_DEVICE;
    advance(T0 + LULL_NS_PER_S + 10 * MS);
    assert_int_equal(revocations[LULL_WRITER_GPU_LOST], 1);
    assert_int_equal(ends, 1); /* there is no wait for a missing GPU */
    assert_int_equal(end_results[0], LULL_E_NO_DEVICE);
    assert_true(has_record(0, &record));
    assert_int_equal(fake.gpus[0].locked_mhz, 900);
    advance(T0 + 20 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].failures, 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_false(has_record(0, &record));
    assert_int_equal(state_of(0).health, LULL_WRITER_UP);
    assert_int_equal(end(), 0);
}

static void test_f08_an_xid_is_counted_and_ends_nothing(void **state)
{
    (void)state;
    begin_looking(1);
    grant(0, &wide);
    fake.gpus[0].update = (struct lull_device_update){.xid_count = 2, .last_xid = 31};
    advance(T0 + MS);
    fake.gpus[0].update = (struct lull_device_update){.xid_count = 1, .last_xid = 62};
    advance(T0 + 3 * LULL_NS_PER_S);
    assert_int_equal(state_of(0).xids, 3);
    assert_int_equal(state_of(0).last_xid, 62);
    assert_true(state_of(0).is_leased);
    assert_int_equal(state_of(0).health, LULL_WRITER_UP);
    assert_int_equal(end(), 0);
}

static void test_f12_a_driver_is_opened_again_ever_more_slowly(void **state)
{
    struct lull_error error = {0};
    int64_t at_ns = T0 + LULL_NS_PER_S + 5 * MS;

    (void)state;
    begin_looking(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 10 * MS);
    fake.gpus[0].failures = 1;
    fake.gpus[0].status = LULL_E_NO_DRIVER;
    fake.attach_failures = WAITS;
    for (uint32_t i = 0; i < WAITS; i++) {
        advance(at_ns);
        assert_int_equal(fake.attempts, 1 + i);
        assert_true(fake.is_closed);
        assert_int_equal(lull_writer_check(writer, 0, &error), LULL_E_NO_DRIVER);
        assert_non_null(strstr(error.text, "no driver, as it was told"));
        ask_soon(0, 600); /* refused, and not kept for later */
        advance(at_ns + MS);
        assert_int_equal(client.results[0].status, LULL_E_NO_DRIVER);
        at_ns += waits_s[i] * LULL_NS_PER_S;
        advance(at_ns - 10 * MS);
        assert_int_equal(fake.attempts, 1 + i);
    }
    assert_int_equal(fake.call_count, 1);
    advance(at_ns);
    assert_false(fake.is_closed);
    check_call(1, 0, 0, fake.calls[1].begin_ns); /* the earlier setting may be lost */
    assert_true(state_of(0).is_leased);
    ask_soon(0, 900);
    advance(at_ns + 100 * MS);
    assert_int_equal(fake.gpus[0].locked_mhz, 900);
    assert_int_equal(lull_writer_check_driver(writer, &error), 0);
    assert_int_equal(end(), 0);
}

static void test_f13_a_quiesced_gpu_is_restored_and_let_go(void **state)
{
    struct lull_error error;

    (void)state;
    begin_looking(2);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 10 * MS);
    lull_writer_quiesce(writer, 1);
    assert_int_equal(lull_writer_check(writer, 0, &error), -EBUSY);
    advance(T0 + LULL_NS_PER_S);
    assert_int_equal(state_of(0).health, LULL_WRITER_QUIESCED);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_false(fake.gpus[0].is_open);
    assert_false(fake.is_closed);
    advance(T0 + 5 * LULL_NS_PER_S);
    assert_false(fake.gpus[0].is_open);
    lull_writer_quiesce(writer, 2);
    advance(T0 + 6 * LULL_NS_PER_S);
    assert_true(fake.is_closed);
    assert_int_equal(state_of(1).health, LULL_WRITER_QUIESCED);
    advance(T0 + 600 * LULL_NS_PER_S);
    assert_int_equal(fake.attempts, 0);
    lull_writer_resume(writer, 2);
    advance(T0 + 601 * LULL_NS_PER_S);
    assert_false(fake.is_closed);
    assert_int_equal(state_of(0).health, LULL_WRITER_QUIESCED);
    assert_int_equal(state_of(1).health, LULL_WRITER_UP);
    assert_false(fake.gpus[0].is_open);
    lull_writer_resume(writer, 1);
    advance(T0 + 602 * LULL_NS_PER_S);
    assert_true(fake.gpus[0].is_open);
    assert_int_equal(lull_writer_check(writer, 0, NULL), 0);
    assert_int_equal(end(), 0);
}

static void test_f14_new_partitions_end_a_lease(void **state)
{
    struct lull_error error;

    (void)state;
    begin_looking(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 10 * MS);
    fake.gpus[0].update.is_partitioned = fake.gpus[0].update.is_repartitioned = true;
    advance(T0 + 2 * LULL_NS_PER_S);
    assert_int_equal(revocations[LULL_WRITER_REPARTITIONED], 1);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_int_equal(lull_writer_check(writer, 0, &error), LULL_E_UNSUPPORTED);
    fake.gpus[0].update.is_partitioned = false;
    advance(T0 + 4 * LULL_NS_PER_S);
    assert_int_equal(lull_writer_check(writer, 0, NULL), 0);
    assert_int_equal(end(), 0);
}

static void test_a_refused_lowering_changes_nothing(void **state)
{
    (void)state;
    begin(1);
    fake.gpus[0].failures = 1;
    fake.gpus[0].status = -EPERM;
    grant(0, &wide);
    ask(0, 900, T0 + MS, T0 + 10 * MS);
    advance(T0 + 20 * MS);
    assert_int_equal(client.results[0].status, -EPERM);
    assert_int_equal(client.results[0].sequence, 1);
    assert_int_equal(client.results[0].calls, 1);
    assert_int_equal(state_of(0).failed, 1);
    assert_int_equal(state_of(0).status, -EPERM);
    assert_int_equal(state_of(0).applied_mhz, 0);
    assert_int_equal(fake.call_count, 1); /* nothing has to be raised */
    assert_int_equal(end(), 0);
    assert_int_equal(fake.call_count, 1);
}

static void test_an_uncertain_lowering_is_raised_when_it_ends(void **state)
{
    (void)state;
    begin(1);
    fake.gpus[0].failures = 1;
    fake.gpus[0].status = -EIO;
    grant(0, &wide);
    ask(0, 900, T0 + MS, T0 + 10 * MS);
    advance(T0 + 20 * MS);
    check_call(1, 0, 0, T0 + 10 * MS);
    assert_int_equal(state_of(0).expired, 1);
    assert_int_equal(fake.call_count, 2);
    fake.gpus[0].failures = 4;
    fake.gpus[0].status = -EAGAIN;
    writer->gpus[0].faults.off_status = 0;
    ask_soon(0, 900);
    advance(T0 + 120 * MS);
    ask_soon(0, 0); /* the reference point is not certain: it is written */
    advance(T0 + 130 * MS);
    check_call(6, 0, 0, T0 + 120 * MS);
    assert_int_equal(client.results[0].status, 0);
    assert_int_equal(end(), 0);
    assert_int_equal(fake.call_count, 7);
}

static void test_a_failed_raising_is_repeated_ever_more_slowly(void **state)
{
    static const int64_t wait_ms[] = {2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000};
    struct lull_journal_record record;
    int64_t at_ns = T0 + 10 * MS;

    (void)state;
    begin(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(at_ns);
    fake.gpus[0].failures = 12;
    fake.gpus[0].status = -EAGAIN;
    lull_writer_end(writer, 0);
    advance(T0 + 20 * LULL_NS_PER_S);
    assert_int_equal(fake.call_count, 14);
    for (uint32_t i = 0; i < 13; i++) {
        check_call(1 + i, 0, 0, at_ns);
        at_ns += FAKE_CALL_NS + (i < 12 ? wait_ms[i] * MS : 0);
        if (i == 3)
            assert_int_equal(end_ns[0], fake.calls[1 + i].begin_ns + FAKE_CALL_NS);
    }
    assert_int_equal(ends, 1); /* reported after the fourth failure, and once */
    assert_int_equal(end_results[0], -EAGAIN);
    assert_int_equal(state_of(0).failed, 12);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_false(has_record(0, &record));
    /* The next lease begins with quick repetitions. */
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 21 * LULL_NS_PER_S);
    fake.gpus[0].failures = 1;
    ask_soon(0, 0);
    advance(T0 + 22 * LULL_NS_PER_S);
    check_call(16, 0, 0, fake.calls[15].begin_ns + FAKE_CALL_NS + 2 * MS);
    assert_int_equal(fake.call_count, 17);
    assert_int_equal(end(), 0);
}

static void test_without_a_record_nothing_is_written(void **state)
{
    char path[128];

    (void)state;
    begin(1);
    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-0", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-0/x", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    grant(0, &limits);
    ask_soon(0, 900);
    ask_limit(0, 200000);
    advance(T0 + 100 * MS);
    assert_true(client.results[0].status < 0);
    assert_int_equal(client.results[0].sequence, 1);
    assert_int_equal(fake.call_count, 0);
    assert_int_equal(fake.gpus[0].limit_calls, 0);
    assert_true(state_of(0).failed >= 1);
    lull_writer_end(writer, 0);
    advance(T0 + 101 * MS);
    assert_int_equal(ends, 1);
    assert_int_equal(end(), 0);
}

static void test_a_record_that_could_not_be_undone_is_kept(void **state)
{
    struct lull_journal_record record = {.uuid = "GPU-0",
                                         .driver_version = "1",
                                         .controls = LULL_CAPABILITY_MEMORY_LOCK,
                                         .power_limit_mw = 300000,
                                         .written = {.limit_mw = {200000, 350000}}};

    (void)state;
    begin(1);
    assert_int_equal(lull_journal_save(journal, &record, NULL), 0);
    grant(0, &limits);
    advance(T0);
    assert_true(has_record(0, &record));
    assert_int_equal(record.controls, LULL_CAPABILITY_MEMORY_LOCK | LULL_CAPABILITY_SM_LOCK |
                                          LULL_CAPABILITY_POWER_LIMIT);
    assert_int_equal(record.power_limit_mw, 300000);
    assert_string_equal(record.driver_version, "1");
    ask_limit(0, 350000); /* above what it had before Lull */
    advance(T0 + LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_mw, 300000);
    assert_int_equal(end(), 0);
}

static void test_a_record_that_says_it_all_is_enough(void **state)
{
    const struct lull_journal_record record = {
        .uuid = "GPU-0", .driver_version = "1", .controls = LULL_CAPABILITY_SM_LOCK};

    (void)state;
    begin(1);
    assert_int_equal(lull_journal_save(journal, &record, NULL), 0);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + FAKE_CALL_NS);
    check_call(0, 0, 900, T0);
    assert_int_equal(client.results[0].status, 0);
    assert_int_equal(end(), 0);
}

/* --- read-back --- */

static void test_what_is_settled_and_what_is_obeyed(void **state)
{
    const struct lull_device_info *info;
    struct lull_writer_gpu *gpu;

    (void)state;
    begin(1);
    info = lull_device_info(NULL, 0);
    gpu = &writer->gpus[0];
    assert_int_equal(lull_lock_state_step_above(info, 100), 200);
    assert_int_equal(lull_lock_state_step_above(info, 200), 600);
    assert_int_equal(lull_lock_state_step_above(info, 899), 900);
    assert_int_equal(lull_lock_state_step_above(info, 1200), 1400);
    assert_int_equal(lull_lock_state_step_above(info, 1400), 1400);
    assert_int_equal(lull_lock_state_step_above(info, 1500), 1500);
    gpu->clock.applied_mhz = 900;
    gpu->clock.observation.before_mhz = 1200;
    assert_true(writer_watch_is_settled(writer, 0, 900));
    assert_false(writer_watch_is_settled(writer, 0, 1200));
    assert_false(writer_watch_is_settled(writer, 0, 600));
    assert_true(is_applied(writer, 0, 600)); /* an idle GPU */
    assert_true(is_applied(writer, 0, 899));
    assert_false(is_applied(writer, 0, 1200)); /* it was locked there before */
    assert_false(is_applied(writer, 0, 1201));
    gpu->clock.observation.before_mhz = 600;
    assert_true(is_applied(writer, 0, 1200)); /* a reading may be off by one step */
    assert_false(is_applied(writer, 0, 1201));
    assert_false(is_applied(writer, 0, 600));
    gpu->clock.observation.before_mhz = 0;
    assert_true(is_applied(writer, 0, 0));
    gpu->clock.applied_mhz = 0; /* a reset */
    gpu->clock.observation.before_mhz = 900;
    assert_false(writer_watch_is_settled(writer, 0, 900));
    assert_true(writer_watch_is_settled(writer, 0, 899));
    assert_true(writer_watch_is_settled(writer, 0, 1400));
    gpu->clock.observation.before_mhz = 1400; /* the highest was locked: it says nothing */
    assert_true(writer_watch_is_settled(writer, 0, 1400));
    gpu->clock.observation.before_mhz = 900;
    assert_false(is_applied(writer, 0, 900));
    fake.gpus[0].reasons = LULL_CLOCK_REASON_SETTING;
    assert_false(is_applied(writer, 0, 900));
    fake.gpus[0].reasons = LULL_CLOCK_REASON_SETTING | LULL_CLOCK_REASON_POWER_CAP;
    assert_true(is_applied(writer, 0, 900));
    fake.gpus[0].reasons = 0;
    fake.gpus[0].unreadable = LULL_READING_REASONS;
    assert_true(is_applied(writer, 0, 900));
    fake.gpus[0].info.sm_clock_count = 0;
    assert_true(writer_watch_is_settled(writer, 0, 900));
    gpu->clock.observation.before_mhz = 0;
    assert_int_equal(end(), 0);
}

/* The first two changes are read after 1.5 ms, the third and the fourth after 0.75 ms. */
static void test_readings_begin_sooner_or_later(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    for (uint32_t i = 0; i < 4; i++) {
        ask_soon(0, i % 2 == 0 ? 900 : 0);
        advance(T0 + (i + 1) * 100 * MS);
        assert_int_equal(client.results[0].settle_ns, (i < 2 ? 15 : 18) * MS / 4);
    }
    assert_int_equal(end(), 0);
}

/* The first reading comes after 1.5 ms; the next call half a millisecond later. */
static void test_a_call_tells_when_the_clock_before_was_read_last(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + FAKE_CALL_NS + 2 * MS);
    ask_soon(0, 0);
    advance(T0 + 2 * FAKE_CALL_NS + 2 * MS);
    assert_int_equal(client.results[0].sequence, 2);
    assert_int_equal(client.results[0].settle_ns, LULL_SETTLE_UNKNOWN);
    assert_int_equal(client.results[0].unread_us, 500);
    assert_int_equal(end(), 0);
}

static void test_a_clock_that_does_not_follow_is_told(void **state)
{
    const int64_t call_end_ns = T0 + FAKE_CALL_NS;

    (void)state;
    begin(1);
    fake.gpus[0].settling_ns = LULL_NS_PER_S;
    grant(0, &wide);
    ask_soon(0, 900);
    advance(call_end_ns + 300 * MS - 1);
    assert_int_equal(client.results[0].settle_ns, LULL_SETTLE_UNKNOWN);
    assert_int_equal(state_of(0).disobeyed, 0);
    advance(call_end_ns + 300 * MS);
    assert_int_equal(client.results[0].settle_ns, LULL_SETTLE_NOT_APPLIED);
    assert_int_equal(state_of(0).disobeyed, 1);
    assert_int_equal(end(), 0);
}

/* One that ends below its lock obeys; it has settled when its clock last moved. */
static void test_a_slow_gpu_obeys_an_upper_bound(void **state)
{
    (void)state;
    begin(1);
    fake.gpus[0].settling_ns = 10 * MS;
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 5 * MS);
    fake.gpus[0].free_mhz = 600;
    fake.gpus[0].reasons = LULL_CLOCK_REASON_POWER_CAP;
    advance(T0 + 400 * MS);
    assert_int_equal(client.results[0].settle_ns, 21 * MS / 2);
    assert_int_equal(state_of(0).disobeyed, 0);
    assert_int_equal(end(), 0);
}

static void test_a_reset_that_is_not_obeyed_is_repeated(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 10 * MS);
    fake.gpus[0].settling_ns = LULL_NS_PER_S;
    lull_writer_end(writer, 0);
    advance(T0 + 311 * MS);
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], LULL_E_NOT_APPLIED);
    assert_int_equal(end_ns[0], T0 + 10 * MS + FAKE_CALL_NS + 300 * MS);
    assert_int_equal(fake.call_count, 2);
    advance(T0 + 400 * MS);
    check_call(2, 0, 0, end_ns[0] + 2 * MS);
    fake.gpus[0].settling_ns = 0;
    fake.gpus[0].effect_ns = 0;
    assert_int_equal(end(), 0);
    assert_int_equal(ends, 1);
}

/* --- F45: what another program has set --- */

static void test_f45_the_journal_has_what_is_about_to_be_written(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    grant(0, &limits);
    advance(T0);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.sm_at_ns, 0);
    ask_soon(0, 900);
    ask_limit(0, 200000);
    advance(T0 + 10 * MS);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.sm_at_ns, T0);
    assert_int_equal(record.written.sm_mhz[0], 900);
    assert_int_equal(record.written.sm_mhz[1], 0);
    assert_int_equal(record.written.limit_mw[0], 200000);
    assert_int_equal(record.written.limit_mw[1], 0);
    ask_soon(0, 600);
    ask_limit(0, 250000);
    advance(T0 + 400 * MS);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.sm_mhz[0], 600);
    assert_int_equal(record.written.sm_mhz[1], 900);
    assert_int_equal(record.written.limit_mw[0], 250000);
    assert_int_equal(record.written.limit_mw[1], 200000);
    /* A failed call may have had an effect, so a third clock may be locked. */
    fake.gpus[0].failures = 1;
    fake.gpus[0].status = -EIO;
    ask_soon(0, 200);
    advance(T0 + 401 * MS);
    ask_soon(0, 1200);
    advance(T0 + 402 * MS);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.sm_mhz[0], 1200);
    assert_int_equal(record.written.sm_mhz[1], 600);
    assert_int_equal(record.is_blind, 1);
    assert_int_equal(end(), 0);
}

/* A clock that an administrator has locked before the lease is neither lowered nor reset. */
static void test_f45_a_locked_clock_is_left_alone(void **state)
{
    (void)state;
    begin(1);
    fake.gpus[0].locked_mhz = 900;
    grant(0, &wide);
    for (int64_t at_ms = 0; at_ms < 3000; at_ms += 100) {
        ask_soon(0, 600);
        advance(T0 + at_ms * MS);
        assert_int_equal(client.results[0].status, at_ms < 200 ? 0 : -EBUSY);
    }
    ask_soon(0, 0);
    advance(T0 + 3100 * MS);
    assert_int_equal(client.results[0].status, -EBUSY);
    lull_writer_end(writer, 0);
    advance(T0 + 4000 * MS);
    assert_int_equal(fake.call_count, 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 900);
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], 0);
    /* A clock that is free again may be lowered by Lull. */
    grant(0, &wide);
    advance(T0 + 5000 * MS);
    fake.gpus[0].locked_mhz = 0;
    advance(T0 + 7000 * MS);
    ask_soon(0, 600);
    advance(T0 + 7100 * MS);
    assert_int_equal(fake.gpus[0].locked_mhz, 600);
    assert_int_equal(end(), 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
}

/* A device that tells the clock and no reasons was seen all the same; a silent one was not. */
static void test_a_look_that_reads_something_has_seen_the_gpu(void **state)
{
    static const struct {
        uint32_t unreadable;
        bool is_seen;
    } rows[] = {
        {0, true},
        {LULL_READING_REASONS, true},
        {LULL_READING_SM_CLOCK, true},
        {LULL_READING_SM_CLOCK | LULL_READING_REASONS, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(1);
        fake.gpus[0].unreadable = rows[i].unreadable;
        writer->gpus[0].state.seen_ns = 0;
        lull_writer_look(writer, 0);
        assert_int_equal(writer->gpus[0].state.seen_ns, rows[i].is_seen ? fake_time_ns : 0);
        assert_int_equal(end(), 0);
    }
}

/* A high clock shows a reset's effect only where Lull holds no lock now. */
static void test_a_high_clock_is_free_without_a_lock(void **state)
{
    (void)state;
    begin(1);
    for (uint32_t applied_mhz = 0; applied_mhz <= 900; applied_mhz += 900) {
        writer->gpus[0].clock.is_seen_free = false;
        writer->gpus[0].clock.applied_mhz = applied_mhz;
        assert_int_equal(lull_writer_look(writer, 0), LULL_LOCK_FREE);
        assert_int_equal(writer->gpus[0].clock.is_seen_free, applied_mhz == 0);
    }
    writer->gpus[0].clock.applied_mhz = 0;
    assert_int_equal(end(), 0);
}

/* A clock on its way up from idle is no lock: the first lowering waits until that is clear. */
static void test_f45_a_rising_clock_is_waited_for(void **state)
{
    (void)state;
    begin(1);
    fake.gpus[0].old_mhz = 200;
    fake.gpus[0].effect_ns = T0 + 30 * MS;
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 200 * MS);
    assert_int_equal(fake.call_count, 1);
    check_call(0, 0, 900, T0 + 50 * MS);
    assert_int_equal(client.results[0].status, 0);
    assert_int_equal(end(), 0);
}

/* One that is locked in the lease stays at its end, whether it was noticed before or not. */
static void test_f45_a_clock_locked_in_a_lease_stays(void **state)
{
    (void)state;
    for (int64_t later_ms = 150; later_ms < 4000; later_ms += 3000) {
        begin(1);
        grant(0, &wide);
        ask_soon(0, 200);
        advance(T0 + 200 * MS);
        fake.gpus[0].locked_mhz = 900;
        advance(T0 + (200 + later_ms) * MS);
        lull_writer_end(writer, 0);
        advance(T0 + (600 + later_ms) * MS);
        assert_int_equal(ends, 1);
        assert_int_equal(end_results[0], 0);
        assert_int_equal(fake.call_count, 1);
        assert_int_equal(fake.gpus[0].locked_mhz, 900);
        assert_int_equal(end(), 0);
    }
}

static void test_f45_a_cap_set_in_a_lease_stays(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    grant(0, &limits);
    ask_limit(0, 200000);
    advance(T0 + MS);
    fake.gpus[0].limit_mw = 180000;
    ask_limit(0, 250000);
    advance(T0 + 300 * MS);
    assert_int_equal(fake.gpus[0].limit_mw, 180000);
    assert_true(has_record(0, &record)); /* a crash from here on restores the cap */
    assert_int_equal(record.power_limit_mw, 180000);
    ask_limit(0, 160000);
    advance(T0 + 600 * MS);
    assert_int_equal(fake.gpus[0].limit_mw, 160000);
    lull_writer_end(writer, 0);
    advance(T0 + 900 * MS);
    assert_int_equal(fake.gpus[0].limit_mw, 180000);
    assert_int_equal(end(), 0);
}

/* --- F46: a reset without effect --- */

static void set_idle(bool is_idle)
{
    fake.gpus[0].free_mhz = is_idle ? 200 : 1400;
    fake.gpus[0].reasons = is_idle ? LULL_CLOCK_REASON_IDLE : 0;
}

static bool is_waiting(void)
{
    struct lull_journal_record record;

    return lull_journal_load_deferred(journal, "GPU-0", &record, NULL) == 0;
}

static void test_f46_an_idle_reset_without_effect_is_repeated_when_busy(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 200 * MS);
    set_idle(true);
    fake.gpus[0].ineffective = 1;
    lull_writer_end(writer, 0);
    advance(T0 + 5000 * MS);
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], 0);
    assert_false(has_record(0, &record));
    assert_true(is_waiting());
    assert_int_equal(fake.gpus[0].locked_mhz, 900);
    set_idle(false);
    advance(T0 + 7000 * MS);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_int_equal(fake.call_count, 3);
    assert_false(has_record(0, &record));
    assert_false(is_waiting());
    assert_int_equal(ends, 1);
    assert_int_equal(end(), 0);
}

static void test_f46_an_idle_reset_is_confirmed_when_busy(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 200 * MS);
    set_idle(true);
    lull_writer_end(writer, 0);
    advance(T0 + 5000 * MS);
    assert_true(is_waiting());
    set_idle(false);
    advance(T0 + 7000 * MS);
    assert_false(is_waiting());
    assert_int_equal(fake.call_count, 2);
    assert_int_equal(end(), 0);
}

/* The record still shows whose clock it is that is not left. */
static void test_f16_two_calls_without_effect_leave_nothing_low(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    grant(0, &wide);
    ask_soon(0, 200);
    advance(T0 + 200 * MS);
    fake.gpus[0].ineffective = 2;
    ask_soon(0, 900);
    advance(T0 + 201 * MS);
    lull_writer_end(writer, 0);
    advance(T0 + 5000 * MS);
    assert_int_equal(fake.gpus[0].ineffective, 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_false(has_record(0, &record));
    assert_int_equal(end(), 0);
}

/* Locks follow a lock that has an effect: first calls that fail, then calls that are accepted
 * without effect, so that any of them may hold. No reset has an effect before the third. */
static void test_f16_no_series_of_locks_without_effect_leaves_one(void **state)
{
    static const uint32_t clocks_mhz[] = {200, 600, 900, 1200};
    struct lull_journal_record record;

    (void)state;
    for (uint32_t i = 0; i < 2 * 2 * 3; i++) {
        const bool is_quick = i % 2 == 0; /* no reading comes between two calls */
        const bool is_idle = i / 2 % 2 == 1;
        const uint32_t failing = i / 4; /* of the locks after the first */

        begin(1);
        grant(0, &wide);
        ask_soon(0, clocks_mhz[0]);
        advance(T0 + 200 * MS);
        fake.gpus[0].reasons = is_idle ? LULL_CLOCK_REASON_IDLE : 0;
        for (uint32_t j = 1; j < 4; j++) {
            fake.gpus[0].failures = j <= failing ? 1 : 0;
            fake.gpus[0].status = -EIO;
            fake.gpus[0].ineffective = 4;
            ask_soon(0, clocks_mhz[j]);
            advance(fake_time_ns + (is_quick ? MS : 400 * MS));
        }
        fake.gpus[0].ineffective = 2;
        lull_writer_end(writer, 0);
        advance(fake_time_ns + 500 * MS);
        fake.gpus[0].reasons = 0;
        advance(fake_time_ns + 9 * LULL_NS_PER_S);
        assert_int_equal(fake.gpus[0].ineffective, 0);
        assert_int_equal(fake.gpus[0].locked_mhz, 0);
        assert_false(has_record(0, &record));
        assert_int_equal(end(), 0);
    }
}

/* The journal has the locked limit and the next one, also after calls without effect. */
static void test_f16_the_journal_has_the_limit_that_stays(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    grant(0, &limits);
    ask_limit(0, 200000);
    advance(T0 + 300 * MS);
    fake.gpus[0].least_limit_mw = fake.gpus[0].limit_mw; /* lower limits have no effect */
    ask_limit(0, 180000);
    advance(T0 + 600 * MS);
    ask_limit(0, 160000);
    advance(T0 + 900 * MS);
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.limit_mw[0], 160000);
    assert_int_equal(record.written.limit_mw[1], 200000);
    assert_int_equal(end(), 0);
}

/* The next lease takes it over: what it lowers it has to see free in the end. */
static void test_f46_a_lease_takes_an_unconfirmed_gpu_over(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 200 * MS);
    set_idle(true);
    fake.gpus[0].ineffective = 1;
    lull_writer_end(writer, 0);
    advance(T0 + 1000 * MS);
    assert_true(is_waiting());
    grant(0, &wide);
    advance(T0 + 1100 * MS);
    assert_false(is_waiting());
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.sm_mhz[0], 900);
    set_idle(false);
    advance(T0 + 4000 * MS); /* the old lock is seen in the lease, and undone */
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    lull_writer_end(writer, 0);
    advance(T0 + 5000 * MS);
    assert_int_equal(end_results[1], 0);
    assert_false(is_waiting());
    assert_false(has_record(0, &record));
    assert_int_equal(end(), 0);
}

/* A lease that needs more than the record of the one before, but cannot write it: what the record
 * names is still locked, because its resets had no effect. */
static void test_f16_a_record_that_cannot_be_extended_is_not_forgotten(void **state)
{
    static const uint32_t without_effect[] = {2, 3, 8};
    static const int64_t settling_ns[] = {4 * MS, 400 * MS, 4 * MS}; /* 400: seen to be too slow */
    struct lull_journal_record record;
    char saved[96];
    char hidden[96];

    (void)state;
    for (size_t i = 0; i < sizeof(without_effect) / sizeof(without_effect[0]); i++) {
        begin(1);
        snprintf(saved, sizeof(saved), "%s/saved", directory);
        snprintf(hidden, sizeof(hidden), "%s/hidden", directory);
        grant(0, &wide);
        ask_soon(0, 900);
        advance(T0 + 200 * MS);
        fake.gpus[0].ineffective = without_effect[i];
        fake.gpus[0].settling_ns = settling_ns[i];
        lull_writer_end(writer, 0);
        advance(T0 + 501 * MS); /* the first reset is known to have had no effect */
        assert_int_equal(ends, 1);
        assert_int_equal(end_results[0], LULL_E_NOT_APPLIED);
        assert_int_equal(rename(saved, hidden), 0);
        grant(0, &limits);
        advance(T0 + 600 * MS);
        assert_int_equal(fake.gpus[0].locked_mhz, 900);
        lull_writer_end(writer, 0);
        advance(T0 + 700 * MS);
        assert_int_equal(rename(hidden, saved), 0);
        advance(T0 + 9 * LULL_NS_PER_S);
        assert_int_equal(fake.gpus[0].locked_mhz, 0);
        assert_false(has_record(0, &record));
        assert_int_equal(end(), 0);
    }
}

/* The same where the record had been deferred, because the GPU was idle. */
static void test_f16_a_deferred_record_that_cannot_be_renewed_is_not_forgotten(void **state)
{
    struct lull_journal_record record;
    char saved[96];
    char hidden[96];

    (void)state;
    begin(1);
    snprintf(saved, sizeof(saved), "%s/saved", directory);
    snprintf(hidden, sizeof(hidden), "%s/hidden", directory);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 200 * MS);
    set_idle(true);
    fake.gpus[0].ineffective = 1;
    lull_writer_end(writer, 0);
    advance(T0 + 400 * MS);
    assert_true(is_waiting());
    assert_int_equal(rename(saved, hidden), 0);
    grant(0, &wide);
    advance(T0 + 500 * MS);
    assert_false(is_waiting());
    assert_true(has_record(0, &record)); /* the old one, by the open directory */
    set_idle(false);
    lull_writer_end(writer, 0);
    advance(T0 + 5 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_false(has_record(0, &record));
    assert_int_equal(end(), 0);
}

/* The record of a leased GPU is gone and cannot be written again, as after the loss of its driver:
 * the end of the lease undoes the clock and the power limit nevertheless. */
static void test_without_a_record_everything_is_restored(void **state)
{
    char path[128];

    (void)state;
    begin(1);
    grant(0, &limits);
    ask_soon(0, 900);
    ask_limit(0, 200000);
    advance(T0 + 200 * MS);
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-0", directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    fake.gpus[0].ineffective = 1;
    lull_writer_distrust(&writer->gpus[0], 0, fake_time_ns);
    advance(T0 + 210 * MS);
    lull_writer_end(writer, 0);
    advance(T0 + 5 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    assert_int_equal(end(), 0);
}

/* A thread that loses the driver while it reads a clock back concludes nothing, and leaves the
 * other GPUs to the thread that has taken over. */
static void test_a_thread_that_lost_the_driver_finishes_no_gpu(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(2);
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
        grant(gpu, &wide);
        ask_soon(gpu, 200);
    }
    advance(T0 + 200 * MS);
    /* Not high enough to prove that no clock is locked. */
    fake.gpus[0].free_mhz = fake.gpus[1].free_mhz = 900;
    fake.gpus[0].settling_ns = fake.gpus[1].settling_ns = 50 * MS;
    lull_writer_end(writer, 0);
    lull_writer_end(writer, 1);
    advance(T0 + 210 * MS); /* both are reset, and neither is settled */
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
        fake.gpus[gpu].effect_ns = 0;
        assert_true(writer->gpus[gpu].clock.observation.is_running);
        writer->gpus[gpu].clock.observation.is_running = false;
    }
    fake.gpus[0].loses_driver = true;
    lull_writer_finish_all(writer);
    assert_true(fake.is_lost);
    assert_int_equal(ends, 0);
    assert_true(has_record(0, &record));
    assert_true(has_record(1, &record));
    fake.gpus[0].loses_driver = fake.is_lost = false;
    advance(fake_time_ns + LULL_NS_PER_S);
    assert_int_equal(ends, 2);
    assert_int_equal(end(), 0);
}

/* --- leases --- */

/* A second in a call makes a GPU suspect, `hung_ns` hung; from then on its client is refused, and
 * whoever ends its lease need not wait. */
static void test_a_gpu_that_is_away_is_answered_for(void **state)
{
    static const struct {
        int64_t after_ns;
        enum lull_writer_health health;
        int64_t due_ns; /* after it has been away; of a hung one, never */
    } rows[] = {
        {LULL_NS_PER_S - 1, LULL_WRITER_UP, LULL_NS_PER_S},
        {LULL_NS_PER_S, LULL_WRITER_SUSPECT, 5 * LULL_NS_PER_S},
        {5 * LULL_NS_PER_S - 1, LULL_WRITER_SUSPECT, 5 * LULL_NS_PER_S},
        {5 * LULL_NS_PER_S, LULL_WRITER_HUNG, LULL_WRITER_NEVER_NS},
    };
    struct lull_writer_options options = lull_writer_defaults;
    int64_t away_ns;

    (void)state;
    options.hung_ns = 5 * LULL_NS_PER_S;
    begin_with(2, &options);
    grant(0, &wide);
    grant(1, &wide);
    advance(T0 + 10 * MS);
    away_ns = fake_time_ns;
    atomic_store(&writer->owner.away_ns[0], away_ns);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const bool is_up = rows[i].health == LULL_WRITER_UP;
        const bool is_hung = rows[i].health == LULL_WRITER_HUNG;
        const int64_t now_ns = away_ns + rows[i].after_ns;

        assert_int_equal(lull_writer_health_of_call(writer, 0, now_ns), rows[i].health);
        assert_int_equal(lull_writer_health_of_call(writer, 1, now_ns), LULL_WRITER_UP);
        fake_time_ns = now_ns;
        assert_true(lull_writer_health_due_ns(writer, 0) == rows[i].due_ns + away_ns * !is_hung);
        ask_soon(0, 900);
        lull_writer_watch_away(writer, now_ns);
        assert_int_equal(client.taken[0] == client.requests[0].sequence, !is_up);
        assert_int_equal(client.results[0].status, is_up ? 0 : -ETIMEDOUT);
        assert_int_equal(client.results[1].status, 0);
    }
    assert_int_equal(ends, 0);
    lull_writer_end(writer, 0);
    lull_writer_watch_away(writer, fake_time_ns);
    lull_writer_watch_away(writer, fake_time_ns); /* reports it once */
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], -ETIMEDOUT);
    assert_true(has_stuck_thread(writer));
    atomic_store(&writer->owner.away_ns[0], 0);
    assert_false(has_stuck_thread(writer));
    assert_int_equal(end(), 0);
}

static void test_a_new_lease_waits_for_the_end_of_the_old(void **state)
{
    struct client other;

    (void)state;
    begin(2);
    grant(0, &wide);
    ask_soon(0, 900);
    advance(T0 + 10 * MS);
    other = client;
    other.source.context = &other;
    other.source.channel.context = &other;
    lull_writer_end(writer, 0);
    lull_writer_grant(writer, 0, &other.source, &(struct lull_band){600, 900});
    other.requests[0] = (struct lull_switch_request){.sequence = 7,
                                                     .sm_mhz = 1400,
                                                     .deadline_ns = T0 + LULL_NS_PER_S,
                                                     .valid_until_ns = T0 + LULL_NS_PER_S};
    advance(T0 + 10 * MS + FAKE_CALL_NS);
    assert_int_equal(ends, 0);
    assert_false(state_of(0).is_leased);
    advance(T0 + 20 * MS);
    assert_int_equal(ends, 1);
    lull_writer_grant(writer, 0, &other.source, &(struct lull_band){600, 900});
    advance(T0 + 21 * MS);
    assert_true(state_of(0).is_leased);
    check_call(2, 0, 900, T0 + 20 * MS);
    assert_int_equal(other.results[0].sequence, 7);
    assert_int_equal(other.results[0].calls, 1); /* since its lease began */
    assert_int_equal(client.results[0].sequence, 1);
    /* Granted and ended before the thread looks. */
    lull_writer_grant(writer, 1, &client.source, &wide);
    lull_writer_end(writer, 1);
    advance(T0 + 30 * MS);
    assert_int_equal(ends, 2);
    assert_int_equal(end_results[1], 0);
    assert_int_equal(fake.call_count, 3);
    assert_int_equal(end(), 0);
}

static void test_a_removed_source_is_released_once_and_its_gpus_are_raised(void **state)
{
    struct lull_writer_source second = {.doorbell_fd = -1, .context = &client};

    (void)state;
    begin(2);
    grant(0, &wide);
    grant(1, &wide);
    ask_soon(1, 900);
    advance(T0 + 10 * MS);
    lull_writer_remove_source(writer, &second);
    advance(T0 + 10 * MS);
    assert_int_equal(client.releases, 0);
    assert_true(state_of(0).is_leased);
    lull_writer_remove_source(writer, &client.source);
    advance(T0 + 10 * MS + FAKE_CALL_NS);
    assert_int_equal(client.releases, 1);
    check_call(1, 1, 0, T0 + 10 * MS);
    advance(T0 + 30 * MS);
    assert_int_equal(ends, 2);
    assert_int_equal(client.releases, 1);
    assert_int_equal(end(), 0);
}

/* --- power limits --- */

static void test_limits_wait_for_clocks_and_come_back(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    grant(0, &limits);
    ask_soon(0, 900);
    ask_limit(0, 200000);
    advance(T0 + MS);
    check_call(0, 0, 900, T0);
    assert_true(has_record(0, &record));
    assert_int_equal(record.controls, LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT);
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_int_equal(client.limit_results[0].limit_mw, 200000);
    assert_int_equal(client.limit_results[0].sequence, 1);
    assert_int_equal(state_of(0).limit_mw, 200000);
    assert_int_equal(state_of(0).writes, 2);
    ask_limit(0, 250000);
    advance(T0 + 2 * FAKE_CALL_NS + 200 * MS - 1);
    assert_int_equal(fake.gpus[0].limit_mw, 200000); /* limits are set every 200 ms at most */
    advance(T0 + 2 * FAKE_CALL_NS + 200 * MS);
    assert_int_equal(fake.gpus[0].limit_mw, 250000);
    lull_writer_end(writer, 0);
    advance(T0 + 201 * MS);
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    assert_int_equal(state_of(0).limit_mw, 0);
    advance(T0 + 300 * MS);
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], 0);
    assert_int_equal(end(), 0);
}

static void test_a_limit_waits_for_the_clocks_of_all_gpus(void **state)
{
    (void)state;
    begin(2);
    grant(0, &limits);
    grant(1, &wide);
    ask_soon(0, 900);
    ask_soon(1, 600);
    ask_limit(0, 200000);
    advance(T0 + MS);
    check_call(0, 0, 900, T0);
    check_call(1, 1, 600, T0 + FAKE_CALL_NS);
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_int_equal(end(), 0);
}

static void test_the_end_is_told_after_four_failures_of_a_limit(void **state)
{
    (void)state;
    begin(1);
    grant(0, &limits);
    ask_limit(0, 200000);
    advance(T0 + MS);
    fake.gpus[0].failures = 6;
    fake.gpus[0].status = -EIO;
    lull_writer_end(writer, 0);
    advance(T0 + 20 * LULL_NS_PER_S);
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], -EIO);
    assert_int_equal(state_of(0).failed, 6);
    assert_int_equal(fake.gpus[0].limit_calls, 8);
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    /* Waits of 40, 80 and 160 ms lie between the four failures. */
    assert_int_equal(end_ns[0], T0 + MS + 4 * FAKE_CALL_NS + 280 * MS);
    assert_int_equal(end(), 0);
}

static void test_an_unknown_limit_is_left_alone(void **state)
{
    (void)state;
    begin(1);
    fake.gpus[0].unreadable = LULL_READING_POWER_LIMIT;
    grant(0, &limits);
    advance(T0);
    ask_limit(0, 200000);
    advance(T0 + LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_calls, 0);
    assert_int_equal(client.limit_results[0].status, LULL_E_UNSUPPORTED);
    assert_int_equal(end(), 0);
}

/* --- the end --- */

static int count_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* --- power profiles --- */

enum { NETWORK = LULL_POWER_PROFILE_NETWORK, MAX_Q = LULL_POWER_PROFILE_MAX_Q };

static const struct lull_band profiled = {200, 1400, 0, 0, MAX_Q | NETWORK};

static void ask_profiles(uint32_t gpu, uint32_t profiles)
{
    client.limits[gpu].sequence++;
    client.limits[gpu].profiles = profiles;
}

static void begin_profiled(void)
{
    begin(1);
    fake.gpus[0].info.capabilities |= LULL_CAPABILITY_POWER_PROFILES;
    fake.gpus[0].info.power_profiles = MAX_Q | NETWORK;
    grant(0, &profiled);
    advance(T0);
}

static void test_profiles_are_recorded_added_and_removed(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin_profiled();
    assert_true(has_record(0, &record));
    assert_int_equal(record.controls, LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_PROFILES);
    assert_int_equal(record.written.profiles, 0);
    ask_profiles(0, MAX_Q);
    advance(T0 + 10 * MS);
    assert_int_equal(fake.gpus[0].requested_profiles, MAX_Q);
    assert_int_equal(client.limit_results[0].profile_sequence, 1);
    assert_int_equal(client.limit_results[0].profile_status, 0);
    assert_int_equal(client.limit_results[0].profiles, MAX_Q);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.profiles, MAX_Q);
    ask_profiles(0, NETWORK); /* a removal and an addition */
    advance(T0 + 20 * MS);
    assert_int_equal(fake.gpus[0].requested_profiles, NETWORK);
    assert_int_equal(client.limit_results[0].profile_sequence, 2);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.profiles, NETWORK);
    lull_writer_end(writer, 0);
    advance(T0 + 30 * MS);
    assert_int_equal(fake.gpus[0].requested_profiles, 0);
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], 0);
    assert_false(has_record(0, &record));
    assert_int_equal(fake.call_count, 0); /* the clock was never touched */
    assert_int_equal(end(), 0);
}

static void test_profiles_of_others_stay(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin_profiled();
    fake.gpus[0].requested_profiles = MAX_Q;
    ask_profiles(0, MAX_Q | NETWORK);
    advance(T0 + 10 * MS);
    assert_int_equal(fake.gpus[0].requested_profiles, MAX_Q | NETWORK);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.profiles, NETWORK);
    fake.gpus[0].requested_profiles = 0; /* another program removes all... */
    lull_writer_end(writer, 0);
    fake.gpus[0].requested_profiles = MAX_Q; /* ...and requests its own again */
    advance(T0 + 20 * MS);
    assert_int_equal(fake.gpus[0].requested_profiles, MAX_Q);
    assert_int_equal(ends, 1);
    assert_int_equal(end(), 0);
}

static void test_profiles_without_a_right_are_refused(void **state)
{
    (void)state;
    begin_profiled();
    ask_profiles(0, LULL_POWER_PROFILE_COMPUTE);
    advance(T0 + 10 * MS);
    assert_int_equal(client.limit_results[0].profile_sequence, 1);
    assert_int_equal(client.limit_results[0].profile_status, -EACCES);
    fake.gpus[0].status = -EPERM;
    fake.gpus[0].failures = 1;
    ask_profiles(0, MAX_Q);
    advance(T0 + 20 * MS);
    assert_int_equal(client.limit_results[0].profile_sequence, 2);
    assert_int_equal(client.limit_results[0].profile_status, -EPERM);
    assert_int_equal(fake.gpus[0].requested_profiles, 0);
    assert_int_equal(end(), 0);
}

static void test_profiles_without_a_record_are_not_added(void **state)
{
    char path[128];

    (void)state;
    begin_profiled();
    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-0", directory);
    assert_int_equal(unlink(path), 0);
    ask_profiles(0, MAX_Q);
    advance(T0 + 10 * MS);
    assert_int_equal(client.limit_results[0].profile_status, -ENOENT);
    assert_int_equal(fake.gpus[0].requested_profiles, 0);
    assert_int_equal(end(), 0);
}

static void test_a_removal_that_fails_is_repeated(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin_profiled();
    ask_profiles(0, MAX_Q);
    advance(T0 + 10 * MS);
    fake.gpus[0].ignores_profiles = true;
    lull_writer_end(writer, 0);
    advance(T0 + 200 * MS);
    assert_int_equal(ends, 1); /* after four failures */
    assert_int_equal(end_results[0], LULL_E_NOT_APPLIED);
    assert_true(has_record(0, &record));
    fake.gpus[0].ignores_profiles = false;
    advance(T0 + 2 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].requested_profiles, 0);
    assert_false(has_record(0, &record));
    assert_int_equal(end(), 0);
}

/* An earlier process died after it had noted or added a profile, and the start could not undo it.
 */
static void test_profiles_of_an_earlier_process_are_removed(void **state)
{
    struct lull_journal_record record = {.uuid = "GPU-0",
                                         .driver_version = "550.54.15",
                                         .controls = LULL_CAPABILITY_POWER_PROFILES,
                                         .power_limit_mw = 350000,
                                         .written = {.profiles = MAX_Q}};

    (void)state;
    begin(1);
    fake.gpus[0].info.capabilities |= LULL_CAPABILITY_POWER_PROFILES;
    fake.gpus[0].requested_profiles = MAX_Q | NETWORK;
    assert_int_equal(lull_journal_save(journal, &record, NULL), 0);
    lull_writer_take_over(writer);
    advance(T0 + 10 * MS);
    assert_int_equal(fake.gpus[0].requested_profiles, NETWORK);
    assert_false(has_record(0, &record));
    assert_int_equal(end(), 0);
}

/* --- power smoothing --- */

enum { LAST_PRESET = 4 };

static const struct lull_band smoothed = {.min_mhz = 200, .max_mhz = 1400, .smoothing = true};
static const struct lull_smoothing first_floor = {40, 8000, 7000, 300};
static const struct lull_smoothing_settings factory = {{0, 500000, 500500, 100, 1, 0}, false, 0};

static void ask_smoothing(uint32_t gpu, const struct lull_smoothing *smoothing)
{
    client.limits[gpu].sequence++;
    client.limits[gpu].smoothing = *smoothing;
}

static void begin_smoothed(void)
{
    begin(1);
    fake.gpus[0].info.capabilities |= LULL_CAPABILITY_POWER_SMOOTHING;
    fake.gpus[0].info.smoothing_preset = LAST_PRESET;
    fake.gpus[0].smoothing = factory;
    grant(0, &smoothed);
    advance(T0);
}

static void assert_smoothing(uint32_t floor, uint32_t up, uint32_t down, uint32_t hysteresis,
                             uint32_t active, uint32_t is_on)
{
    const uint32_t expected[] = {floor, up, down, hysteresis, active, is_on};

    assert_memory_equal(fake.gpus[0].smoothing.items, expected, sizeof(expected));
}

static void assert_factory_settings(void)
{
    assert_memory_equal(&fake.gpus[0].smoothing, &factory, sizeof(factory));
}

static void test_smoothing_is_recorded_set_and_restored(void **state)
{
    const struct lull_smoothing second_floor = {50, 8000, 7000, 300};
    struct lull_journal_record record;

    (void)state;
    begin_smoothed();
    assert_true(has_record(0, &record));
    assert_int_equal(record.controls, LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_SMOOTHING);
    assert_int_equal(record.written.has_smoothing, 0);
    ask_smoothing(0, &first_floor);
    advance(T0 + 10 * MS);
    assert_smoothing(40, 8000000, 7000000, 300, LAST_PRESET, 1);
    assert_int_equal(client.limit_results[0].smoothing_sequence, 1);
    assert_int_equal(client.limit_results[0].smoothing_status, 0);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.has_smoothing, 1);
    assert_memory_equal(record.written.smoothing_before, factory.items, sizeof(factory.items));
    ask_smoothing(0, &second_floor);
    advance(T0 + 20 * MS);
    assert_smoothing(50, 8000000, 7000000, 300, LAST_PRESET, 1);
    assert_int_equal(client.limit_results[0].smoothing_sequence, 2);
    assert_true(has_record(0, &record));
    assert_memory_equal(record.written.smoothing_before, factory.items, sizeof(factory.items));
    lull_writer_end(writer, 0);
    advance(T0 + 30 * MS);
    assert_factory_settings();
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], 0);
    assert_false(has_record(0, &record));
    assert_int_equal(fake.call_count, 0); /* the clock was never touched */
    assert_int_equal(end(), 0);
}

static void test_a_request_without_floor_ends_smoothing(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin_smoothed();
    ask_smoothing(0, &first_floor);
    advance(T0 + 10 * MS);
    ask_smoothing(0, &(struct lull_smoothing){0});
    advance(T0 + 20 * MS);
    assert_factory_settings();
    assert_int_equal(client.limit_results[0].smoothing_sequence, 2);
    assert_int_equal(client.limit_results[0].smoothing_status, 0);
    assert_true(has_record(0, &record)); /* the lease goes on */
    assert_int_equal(record.written.has_smoothing, 0);
    assert_int_equal(end(), 0);
}

static void test_smoothing_of_others_stays(void **state)
{
    (void)state;
    begin_smoothed();
    fake.gpus[0].smoothing.items[LULL_SMOOTHING_STATE] = 1;
    ask_smoothing(0, &first_floor);
    advance(T0 + 10 * MS);
    assert_int_equal(client.limit_results[0].smoothing_status, -EBUSY);
    assert_smoothing(0, 500000, 500500, 100, 1, 1);
    fake.gpus[0].smoothing.items[LULL_SMOOTHING_STATE] = 0;
    fake.gpus[0].smoothing.is_overridden = true;
    ask_smoothing(0, &first_floor);
    advance(T0 + 100 * MS); /* after the pause that follows a failure */
    assert_int_equal(client.limit_results[0].smoothing_sequence, 2);
    assert_int_equal(client.limit_results[0].smoothing_status, -EBUSY);
    fake.gpus[0].smoothing.is_overridden = false;
    ask_smoothing(0, &first_floor);
    advance(T0 + 200 * MS);
    assert_int_equal(client.limit_results[0].smoothing_sequence, 3);
    assert_int_equal(client.limit_results[0].smoothing_status, 0);
    fake.gpus[0].smoothing.items[LULL_SMOOTHING_FLOOR] = 45; /* another program changes it */
    lull_writer_end(writer, 0);
    advance(T0 + 210 * MS);
    assert_smoothing(45, 8000000, 7000000, 300, LAST_PRESET, 1);
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], 0);
    assert_int_equal(end(), 0);
}

static void test_smoothing_without_a_right_is_refused(void **state)
{
    (void)state;
    begin_smoothed();
    fake.gpus[0].status = -EPERM;
    fake.gpus[0].failures = 1;
    ask_smoothing(0, &first_floor);
    advance(T0 + 100 * MS);
    assert_int_equal(client.limit_results[0].smoothing_sequence, 1);
    assert_int_equal(client.limit_results[0].smoothing_status, -EPERM);
    assert_factory_settings();
    assert_int_equal(end(), 0);
    begin(1);
    grant(0, &wide);
    ask_smoothing(0, &first_floor);
    advance(T0 + 10 * MS);
    assert_int_equal(client.limit_results[0].smoothing_status, -EACCES);
    assert_int_equal(end(), 0);
}

static void test_smoothing_without_a_record_is_not_set(void **state)
{
    char path[128];

    (void)state;
    begin_smoothed();
    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-0", directory);
    assert_int_equal(unlink(path), 0);
    ask_smoothing(0, &first_floor);
    advance(T0 + 10 * MS);
    assert_int_equal(client.limit_results[0].smoothing_status, -ENOENT);
    assert_factory_settings();
    assert_int_equal(end(), 0);
}

static void test_a_failed_restoration_of_smoothing_is_repeated(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin_smoothed();
    ask_smoothing(0, &first_floor);
    advance(T0 + 10 * MS);
    fake.gpus[0].ignores_smoothing = true;
    lull_writer_end(writer, 0);
    advance(T0 + 200 * MS);
    assert_int_equal(ends, 1); /* after four failures */
    assert_int_equal(end_results[0], LULL_E_NOT_APPLIED);
    assert_true(has_record(0, &record));
    fake.gpus[0].ignores_smoothing = false;
    advance(T0 + 3 * LULL_NS_PER_S);
    assert_factory_settings();
    assert_false(has_record(0, &record));
    assert_int_equal(end(), 0);
}

/* An earlier process died after each of its calls. */
static void test_smoothing_of_an_earlier_process_is_restored(void **state)
{
    const uint32_t written[] = {40, 8000000, 7000000, 300, LAST_PRESET, 1};

    (void)state;
    for (int calls = 0; calls <= LULL_SMOOTHING_ITEMS; calls++) {
        struct lull_journal_record record = {.uuid = "GPU-0",
                                             .driver_version = "550.54.15",
                                             .controls = LULL_CAPABILITY_POWER_SMOOTHING,
                                             .power_limit_mw = 350000,
                                             .written = {.has_smoothing = 1}};

        memcpy(record.written.smoothing_before, factory.items, sizeof(factory.items));
        memcpy(record.written.smoothing, written, sizeof(written));
        begin(1);
        fake.gpus[0].info.capabilities |= LULL_CAPABILITY_POWER_SMOOTHING;
        fake.gpus[0].info.smoothing_preset = LAST_PRESET;
        fake.gpus[0].smoothing = factory;
        memcpy(fake.gpus[0].smoothing.items, written, (size_t)calls * sizeof(written[0]));
        assert_int_equal(lull_journal_save(journal, &record, NULL), 0);
        lull_writer_take_over(writer);
        advance(T0 + 10 * MS);
        assert_factory_settings();
        assert_false(has_record(0, &record));
        assert_int_equal(end(), 0);
    }
}

static void test_stop_raises_everything_or_says_so(void **state)
{
    const int before = count_fds();

    (void)state;
    begin(2);
    grant(0, &wide);
    grant(1, &wide);
    ask_soon(1, 900);
    advance(T0 + 10 * MS);
    assert_int_equal(end(), 0);
    assert_int_equal(fake.gpus[1].locked_mhz, 0);
    assert_int_equal(ends, 2);
    assert_true(fake_time_ns < T0 + LULL_NS_PER_S); /* it does not wait for its limit */
    assert_int_equal(count_fds(), before);

    begin(2);
    grant(1, &wide);
    ask_soon(1, 900);
    advance(T0 + 10 * MS);
    fake.gpus[1].failures = 1000;
    fake.gpus[1].status = -EIO;
    assert_int_equal(end(), -ETIMEDOUT);
    assert_int_equal(fake_time_ns, T0 + 10 * MS + 10 * LULL_NS_PER_S);

    begin(1);
    grant(0, &wide);
    advance(T0);
    is_stuck = true;
    assert_int_equal(lull_writer_stop(writer, MS), -EINPROGRESS);
    is_stuck = false;
    assert_int_equal(end(), 0);
}

/* --- caps --- */

static void cap(uint32_t gpu, uint32_t max_mhz, uint32_t max_limit_mw)
{
    lull_writer_cap(writer, gpu, &(struct lull_cap){max_mhz, max_limit_mw});
}

static void test_a_cap_holds_a_gpu_that_nobody_leases(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(2);
    cap(0, 950, 0);
    advance(T0 + 10 * LULL_NS_PER_S);
    check_call(0, 0, 900, T0);
    assert_int_equal(fake.call_count, 1);
    assert_true(has_record(0, &record));
    assert_false(state_of(0).is_leased);
    assert_int_equal(state_of(0).cap.max_mhz, 950);
    assert_int_equal(state_of(0).applied_mhz, 900);
    cap(0, 500, 0);
    advance(T0 + 11 * LULL_NS_PER_S);
    check_call(1, 0, 200, T0 + 10 * LULL_NS_PER_S);
    cap(0, 1400, 0); /* which leaves it all that it has */
    advance(T0 + 12 * LULL_NS_PER_S);
    check_call(2, 0, 0, T0 + 11 * LULL_NS_PER_S);
    cap(0, 0, 0);
    advance(T0 + 13 * LULL_NS_PER_S);
    assert_int_equal(fake.call_count, 3);
    assert_false(has_record(0, &record));
    assert_int_equal(ends, 0); /* it was no client's lease */
    cap(0, 900, 0);
    advance(T0 + 14 * LULL_NS_PER_S);
    assert_int_equal(end(), 0); /* stop lifts it */
    check_call(4, 0, 0, T0 + 14 * LULL_NS_PER_S);
}

/* Returns whether a GPU's power is known within a part of what it draws. */
static bool is_power_known(uint32_t gpu, double part)
{
    const double true_mw = fake_power_mw(fake_sm_mhz(&fake.gpus[gpu]));

    return fabs(state_of(gpu).power_mw - true_mw) <= part * true_mw;
}

/* Steps of 100 ms are a tenth of a second, and yet what is drawn under a cap is known to 3.5 %
 * within 0.6 s. */
static void test_what_a_capped_gpu_draws_is_known_soon(void **state)
{
    static const uint32_t clocks_mhz[] = {900, 600, 1200, 200, 1400, 600};
    static const uint32_t steps_ms[] = {100, 20, 1, 101};
    struct lull_writer_options options = lull_writer_defaults;
    int64_t now_ns = T0 + 3 * LULL_NS_PER_S;

    (void)state;
    options.check_ns = LULL_NS_PER_S;
    options.reads_power = true;
    begin_with(4, &options);
    for (uint32_t gpu = 0; gpu < 4; gpu++) {
        fake.gpus[gpu].step_ms = steps_ms[gpu];
        fake.gpus[gpu].unreadable = LULL_READING_POWER;
    }
    advance(now_ns);
    for (uint32_t gpu = 0; gpu < 4; gpu++)
        assert_true(is_power_known(gpu, 0.11));
    for (uint32_t i = 0; i < sizeof(clocks_mhz) / sizeof(clocks_mhz[0]); i++) {
        uint32_t looks[4];

        for (uint32_t gpu = 0; gpu < 4; gpu++) {
            looks[gpu] = state_of(gpu).power_looks;
            cap(gpu, clocks_mhz[i], 0);
        }
        now_ns += 600 * MS;
        advance(now_ns);
        for (uint32_t gpu = 0; gpu < 4; gpu++) {
            assert_true(state_of(gpu).power_looks > looks[gpu]);
            assert_int_equal(state_of(gpu).power_cap_mhz, clocks_mhz[i]);
            assert_true(is_power_known(gpu, 0.035)); /* 10 of 300 ms */
        }
        now_ns += 1730 * MS + i * 37 * MS;
        advance(now_ns);
        for (uint32_t gpu = 0; gpu < 4; gpu++)
            assert_true(is_power_known(gpu, 0.01));
    }
    assert_int_equal(end(), 0);
}

static void test_a_cap_is_the_reference_of_a_lease(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    advance(T0);
    cap(0, 1250, 0);
    advance(T0 + 100 * MS);
    check_call(0, 0, 1200, T0);
    assert_int_equal(client.results[0].reference_mhz, 1200);
    ask_soon(0, 1400);
    advance(T0 + 200 * MS);
    assert_int_equal(client.results[0].sm_mhz, 1200);
    ask(0, 0, 0, 0); /* a raising is never too late */
    advance(T0 + 10 * LULL_NS_PER_S);
    assert_int_equal(client.results[0].sequence, 2);
    assert_int_equal(client.results[0].status, 0);
    assert_int_equal(client.results[0].sm_mhz, 1200);
    assert_int_equal(fake.call_count, 1);
    assert_int_equal(state_of(0).expired, 0);
    ask_soon(0, 900);
    advance(T0 + 20 * LULL_NS_PER_S);
    check_call(1, 0, 900, T0 + 10 * LULL_NS_PER_S);
    check_call(2, 0, 1200, T0 + 14 * LULL_NS_PER_S); /* it was not renewed */
    assert_int_equal(client.results[0].status, LULL_E_STALE);
    ask_soon(0, 900);
    advance(T0 + 21 * LULL_NS_PER_S);
    cap(0, 600, 0);
    advance(T0 + 22 * LULL_NS_PER_S);
    check_call(4, 0, 600, T0 + 21 * LULL_NS_PER_S);
    cap(0, 0, 0);
    advance(T0 + 23 * LULL_NS_PER_S);
    check_call(5, 0, 0, T0 + 22 * LULL_NS_PER_S);
    assert_int_equal(client.results[0].reference_mhz, 0);
    assert_int_equal(end(), 0);
}

static void test_a_cap_leaves_a_lease_its_lowest_clock(void **state)
{
    (void)state;
    begin(1);
    grant(0, &(struct lull_band){800, 1400, 0, 0});
    cap(0, 500, 0);
    advance(T0 + 100 * MS);
    assert_int_equal(state_of(0).applied_mhz, 900);
    assert_int_equal(client.results[0].reference_mhz, 900);
    assert_int_equal(end(), 0);
}

static void test_a_client_takes_a_capped_gpu_over(void **state)
{
    (void)state;
    begin(1);
    cap(0, 900, 0);
    advance(T0 + 100 * MS);
    grant(0, &wide);
    advance(T0 + 200 * MS);
    assert_true(state_of(0).is_leased);
    assert_int_equal(fake.call_count, 1); /* there was no gap */
    assert_int_equal(client.results[0].reference_mhz, 900);
    lull_writer_end(writer, 0);
    advance(T0 + LULL_NS_PER_S);
    assert_int_equal(ends, 1);
    assert_false(state_of(0).is_leased);
    assert_int_equal(fake.call_count, 1); /* nor is there one at the end */
    assert_int_equal(state_of(0).applied_mhz, 900);
    cap(0, 0, 0);
    grant(0, &wide); /* while the cap's own lease ends */
    advance(T0 + 2 * LULL_NS_PER_S);
    assert_true(state_of(0).is_leased);
    assert_int_equal(state_of(0).applied_mhz, 0);
    assert_int_equal(ends, 1);
    assert_int_equal(end(), 0);
}

static void test_a_cap_of_power_limits(void **state)
{
    struct lull_journal_record record;

    (void)state;
    begin(1);
    cap(0, 0, 250000);
    advance(T0 + LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_mw, 250000);
    assert_true(has_record(0, &record));
    assert_int_equal(record.power_limit_mw, 350000);
    grant(0, &limits);
    ask_limit(0, 300000);
    advance(T0 + 2 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_mw, 250000);
    cap(0, 0, 200000);
    advance(T0 + 3 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    cap(0, 0, 0);
    advance(T0 + 4 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_mw, 300000); /* as the client had requested */
    lull_writer_end(writer, 0);
    advance(T0 + 5 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    grant(0, &wide); /* a lease without limits is capped as well */
    cap(0, 0, 220000);
    advance(T0 + 6 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_mw, 220000);
    ask_limit(0, 300000);
    advance(T0 + 7 * LULL_NS_PER_S);
    assert_int_equal(client.limit_results[0].status, LULL_E_UNSUPPORTED);
    assert_int_equal(fake.gpus[0].limit_mw, 220000);
    assert_int_equal(end(), 0);
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
}

/* The driver refuses it, or accepts it without effect: no client would set it again. */
static void test_a_cap_of_power_limits_is_repeated(void **state)
{
    (void)state;
    for (int is_leased = 0; is_leased < 2; is_leased++) {
        begin(1);
        if (is_leased)
            grant(0, &wide);
        fake.gpus[0].status = -EAGAIN;
        fake.gpus[0].failures = 3;
        cap(0, 0, 250000);
        advance(T0 + 5 * LULL_NS_PER_S);
        assert_int_equal(fake.gpus[0].limit_mw, 250000);
        assert_int_equal(fake.gpus[0].limit_calls, 4);
        fake.gpus[0].least_limit_mw = 240000; /* the driver sets another one */
        cap(0, 0, 200000);
        advance(T0 + 10 * LULL_NS_PER_S);
        fake.gpus[0].least_limit_mw = 0;
        advance(T0 + 15 * LULL_NS_PER_S);
        assert_int_equal(fake.gpus[0].limit_mw, 200000);
        assert_true(fake.gpus[0].limit_calls < 20); /* after growing pauses */
        assert_int_equal(end(), 0);
        assert_int_equal(fake.gpus[0].limit_mw, 350000);
    }
}

/* The journal cannot be written when the cap comes. */
static void test_a_cap_of_power_limits_waits_for_the_journal(void **state)
{
    struct lull_journal_record record;
    char saved[96];
    char hidden[96];

    (void)state;
    for (int is_leased = 0; is_leased < 2; is_leased++) {
        begin(1);
        snprintf(saved, sizeof(saved), "%s/saved", directory);
        snprintf(hidden, sizeof(hidden), "%s/hidden", directory);
        assert_int_equal(rename(saved, hidden), 0);
        if (is_leased)
            grant(0, &wide);
        cap(0, 0, 250000);
        advance(T0 + 5 * LULL_NS_PER_S);
        assert_int_equal(fake.gpus[0].limit_mw, 350000);
        assert_int_equal(rename(hidden, saved), 0);
        advance(T0 + 10 * LULL_NS_PER_S);
        assert_int_equal(fake.gpus[0].limit_mw, 250000);
        assert_true(has_record(0, &record));
        assert_int_equal(end(), 0);
        assert_int_equal(fake.gpus[0].limit_mw, 350000);
    }
}

/* The lease begins and ends while the writer is busy with something else. */
static void test_a_cap_holds_after_a_lease_that_nothing_was_seen_of(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    cap(0, 600, 0);
    lull_writer_end(writer, 0);
    advance(T0 + LULL_NS_PER_S);
    assert_int_equal(ends, 1);
    assert_int_equal(fake.gpus[0].locked_mhz, 600);
    assert_int_equal(end(), 0);
    assert_int_equal(ends, 1);
}

/* A lease ends without a record, and the cap's clock needs one as well. Its first call fails. */
static void test_a_cap_of_clocks_waits_for_the_journal(void **state)
{
    struct lull_journal_record record;
    char saved[96];
    char hidden[96];

    (void)state;
    begin(1);
    snprintf(saved, sizeof(saved), "%s/saved", directory);
    snprintf(hidden, sizeof(hidden), "%s/hidden", directory);
    assert_int_equal(rename(saved, hidden), 0);
    grant(0, &wide);
    cap(0, 600, 0);
    advance(T0 + 5 * LULL_NS_PER_S);
    fake.gpus[0].status = LULL_E_NO_DEVICE;
    fake.gpus[0].failures = 1;
    lull_writer_end(writer, 0);
    advance(T0 + 100 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].failures, 1);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_int_equal(end_results[0], -ENOENT);
    assert_int_equal(rename(hidden, saved), 0);
    advance(T0 + 200 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].locked_mhz, 600);
    assert_true(has_record(0, &record));
    assert_int_equal(record.written.sm_mhz[0], 600);
    assert_int_equal(end(), 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
}

/* A cap does not undo a lock that is another program's, and holds once that is gone. */
static void test_a_cap_waits_for_others(void **state)
{
    (void)state;
    begin(1);
    fake.gpus[0].locked_mhz = 900;
    advance(T0 + 5 * LULL_NS_PER_S);
    cap(0, 600, 0);
    advance(T0 + 8 * LULL_NS_PER_S);
    assert_int_equal(fake.call_count, 0);
    assert_int_equal(state_of(0).health, LULL_WRITER_FOREIGN);
    fake.gpus[0].locked_mhz = 0;
    advance(T0 + 12 * LULL_NS_PER_S);
    assert_int_equal(state_of(0).applied_mhz, 600);
    assert_int_equal(end(), 0);
}

/* The same in a client's lease, whose request is refused. There is no lowering that could expire.
 */
static void test_a_capped_lease_waits_for_others(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        begin(1);
        fake.gpus[0].locked_mhz = is_late ? 0 : 900;
        grant(0, &wide);
        advance(T0 + 2 * LULL_NS_PER_S);
        fake.gpus[0].locked_mhz = 900;
        advance(T0 + 5 * LULL_NS_PER_S);
        cap(0, 600, 0);
        advance(T0 + 8 * LULL_NS_PER_S);
        assert_int_equal(fake.call_count, 0);
        assert_int_equal(state_of(0).expired, 0);
        assert_int_equal(state_of(0).health, LULL_WRITER_FOREIGN);
        fake.gpus[0].locked_mhz = 0;
        advance(T0 + 12 * LULL_NS_PER_S);
        assert_int_equal(state_of(0).applied_mhz, 600);
        assert_int_equal(end(), 0);
    }
}

/* Starts the writer again, after a process that has left a record. */
static void restart_after(const struct lull_journal_record *left)
{
    struct lull_writer_options mine = lull_writer_defaults;
    struct lull_error error;

    assert_int_equal(lull_writer_stop(writer, LULL_NS_PER_S), 0);
    assert_int_equal(lull_journal_save(journal, left, &error), 0);
    timer_ns = INT64_MAX;
    mine.context = &client;
    mine.ended = keep_end;
    assert_int_equal(lull_writer_start(NULL, journal, &mine, &writer, &error), 0);
    assert_int_equal(lull_writer_add_source(writer, &client.source, &error), 0);
}

/* The start could not restore a GPU: the writer tries again, and no client gets it before it has. A
 * record that cannot be used stays for the administrator. */
static void test_a_gpu_that_could_not_be_restored_is_refused_until_it_is(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        const bool is_capped = i == 2;
        const bool is_of_other_driver = i == 3;
        struct lull_journal_record record = {
            .uuid = "GPU-0",
            .driver_version = "550.54.15",
            .controls = LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT,
            .power_limit_mw = 350000,
            .written = {.sm_mhz = {i == 1 ? 0 : 600, 0}, .limit_mw = {200000, 0}},
        };
        struct lull_error error = {0};
        uint32_t before;

        if (is_of_other_driver)
            memcpy(record.driver_version, "1", 2);
        begin(1);
        advance(T0);
        restart_after(&record);
        fake.gpus[0].locked_mhz = i == 1 ? 0 : 600;
        fake.gpus[0].limit_mw = 200000;
        fake.gpus[0].failures = UINT32_MAX;
        fake.gpus[0].status = -EIO;
        advance(fake_time_ns + 300 * LULL_NS_PER_S);
        assert_int_equal(lull_writer_check(writer, 0, &error), -EBUSY);
        assert_non_null(strstr(error.text, "GPU 0: fails as it was told"));
        assert_int_equal(state_of(0).health, LULL_WRITER_UNRESTORED);
        before = fake.call_count;
        cap(0, is_capped ? 900 : 0, 0);
        advance(fake_time_ns + 300 * LULL_NS_PER_S);
        if (!is_capped)
            assert_in_range(fake.call_count - before, i == 1 ? 0 : 4, 6);
        fake.gpus[0].failures = 0;
        advance(fake_time_ns + (is_of_other_driver ? 122 : 61) * LULL_NS_PER_S);
        if (is_capped) {
            assert_int_equal(fake.gpus[0].locked_mhz, 900);
            assert_int_equal(lull_writer_check(writer, 0, &error), -EBUSY);
            cap(0, 0, 0);
            advance(fake_time_ns + LULL_NS_PER_S);
        }
        assert_int_equal(fake.gpus[0].locked_mhz, 0);
        assert_int_equal(fake.gpus[0].limit_mw, is_of_other_driver ? 200000 : 350000);
        assert_int_equal(lull_writer_check(writer, 0, &error), 0);
        assert_int_equal(state_of(0).health, LULL_WRITER_UP);
        assert_false(has_record(0, &record));
        assert_int_equal(ends, 0);
        assert_int_equal(end(), 0);
    }
}

/* Puts a file in the place of standard error; *stderr_out gets what was there. */
static FILE *log_to_file(int *stderr_out)
{
    FILE *const log = tmpfile();

    assert_non_null(log);
    *stderr_out = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(log), STDERR_FILENO);
    return log;
}

/* Returns how many lines were logged meanwhile. */
static uint32_t log_again(FILE *log, int old_stderr)
{
    uint32_t count = 0;

    fflush(stderr);
    dup2(old_stderr, STDERR_FILENO);
    close(old_stderr);
    rewind(log);
    for (int c = fgetc(log); c != EOF; c = fgetc(log))
        count += c == '\n';
    fclose(log);
    return count;
}

/* The driver accepts a cap's clock without effect: it is set again after growing pauses, and what
 * stays is logged once. A second row: the step from the clock before is one that readings may be
 * off by. */
static void test_f16_a_cap_without_effect_is_set_again(void **state)
{
    static const struct {
        uint32_t before_mhz, cap_mhz;
    } rows[] = {{0, 600}, {900, 600}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        uint32_t first;
        int old_stderr;
        FILE *log;

        begin(1);
        cap(0, rows[i].before_mhz, 0);
        advance(T0 + LULL_NS_PER_S);
        first = fake.call_count;
        fake.gpus[0].ineffective = 5;
        log = log_to_file(&old_stderr);
        cap(0, rows[i].cap_mhz, 0);
        advance(T0 + 5 * 60 * LULL_NS_PER_S);
        assert_int_equal(log_again(log, old_stderr), 1);
        assert_int_equal(fake.gpus[0].locked_mhz, rows[i].cap_mhz);
        assert_int_equal(fake.call_count, first + 6);
        for (uint32_t j = first + 3; j < fake.call_count; j++)
            assert_true(fake.calls[j].begin_ns - fake.calls[j - 1].begin_ns >
                        3 * (fake.calls[j - 1].begin_ns - fake.calls[j - 2].begin_ns) / 2);
        assert_int_equal(state_of(0).disobeyed, 5);
        assert_int_equal(end(), 0);
    }
}

/* Nothing repeats a cap that never has an effect more than once a minute in the end. */
static void test_f16_a_cap_that_never_has_an_effect(void **state)
{
    uint32_t before;

    (void)state;
    begin(1);
    fake.gpus[0].ineffective = UINT32_MAX;
    cap(0, 600, 0);
    advance(T0 + 300 * LULL_NS_PER_S);
    before = fake.call_count;
    assert_int_equal(state_of(0).status, LULL_E_NOT_APPLIED);
    advance(T0 + 900 * LULL_NS_PER_S);
    assert_in_range(fake.call_count - before, 9, 10);
    lull_writer_retry_caps(writer);
    advance(T0 + 902 * LULL_NS_PER_S);
    assert_in_range(fake.call_count - before, 10, 12);
    fake.gpus[0].ineffective = 0;
    assert_int_equal(end(), 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
}

/* A client's lowering has no effect, and neither had the cap's: its client learns that it was
 * undone. An idle or otherwise limited GPU below the cap is left as it is. */
static void test_f16_a_cap_without_effect_in_a_lease(void **state)
{
    (void)state;
    begin(1);
    grant(0, &wide);
    advance(T0 + 100 * MS);
    fake.gpus[0].ineffective = 2;
    cap(0, 900, 0);
    advance(T0 + 101 * MS);
    ask(0, 600, fake_time_ns + LULL_NS_PER_S, fake_time_ns + 90 * LULL_NS_PER_S);
    advance(T0 + 3 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].locked_mhz, 900);
    assert_int_equal(client.results[0].status, LULL_E_STALE);
    assert_int_equal(fake.call_count, 3);
    fake.gpus[0].free_mhz = 600;
    fake.gpus[0].reasons = LULL_CLOCK_REASON_IDLE;
    advance(T0 + 100 * LULL_NS_PER_S);
    assert_int_equal(fake.call_count, 3);
    assert_int_equal(end(), 0);
}

/* The end of a lease leads from what it has set to the cap at once: no reset comes in between, and
 * no power limit above the cap. */
static void test_a_lease_ends_at_its_cap(void **state)
{
    (void)state;
    begin(1);
    cap(0, 900, 250000);
    grant(0, &limits);
    advance(T0 + 500 * MS);
    ask_soon(0, 600);
    ask_limit(0, 200000);
    advance(T0 + LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].locked_mhz, 600);
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_int_equal(fake.gpus[0].limit_calls, 2);
    lull_writer_end(writer, 0);
    advance(T0 + 3 * LULL_NS_PER_S);
    assert_int_equal(fake.call_count, 3);
    check_call(2, 0, 900, T0 + LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].limit_calls, 3);
    assert_int_equal(fake.gpus[0].limit_mw, 250000);
    assert_int_equal(ends, 1);
    assert_int_equal(end_results[0], 0);
    assert_true(end_ns[0] > T0 + LULL_NS_PER_S + FAKE_CALL_NS);
    assert_false(state_of(0).is_leased);
    cap(0, 0, 0);
    advance(T0 + 5 * LULL_NS_PER_S);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    assert_int_equal(ends, 1);
    assert_int_equal(end(), 0);
}

/* A cap that comes while a lease ends, whose resets fail, takes the GPU over; the end is reported
 * once, by its cap. */
static void test_a_cap_takes_an_ending_gpu(void **state)
{
    (void)state;
    for (uint32_t is_failing = 0; is_failing < 2; is_failing++) {
        begin(1);
        grant(0, &wide);
        advance(T0);
        ask_soon(0, 600);
        advance(T0 + 100 * MS);
        fake.gpus[0].status = -EAGAIN;
        fake.gpus[0].failures = is_failing ? 5 : 1;
        lull_writer_end(writer, 0);
        advance(T0 + 101 * MS);
        cap(0, 900, 0);
        advance(T0 + 5 * LULL_NS_PER_S);
        assert_int_equal(fake.gpus[0].locked_mhz, 900);
        for (uint32_t i = 2; i < fake.call_count; i++)
            assert_int_equal(fake.calls[i].sm_mhz, 900);
        assert_int_equal(ends, 1);
        assert_int_equal(end_results[0], is_failing ? -EAGAIN : 0);
        grant(0, &wide);
        advance(T0 + 6 * LULL_NS_PER_S);
        assert_true(state_of(0).is_leased);
        assert_int_equal(end(), 0);
    }
}

/* The cap's clock has no effect when a lease ends, the cap is lifted, or the GPU is lost: the end
 * is reported once. */
static void test_the_end_at_a_cap_is_reported_once(void **state)
{
    static const int expected[] = {LULL_E_NOT_APPLIED, 0, LULL_E_NO_DEVICE};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        begin(1);
        cap(0, 900, 0);
        grant(0, &wide);
        advance(T0);
        ask_soon(0, 600);
        advance(T0 + 100 * MS);
        fake.gpus[0].ineffective = i != 2 ? 6 : 0;
        fake.gpus[0].failures = i == 2 ? 1 : 0;
        fake.gpus[0].status = LULL_E_NO_DEVICE;
        lull_writer_end(writer, 0);
        advance(T0 + 200 * MS);
        if (i == 1) {
            fake.gpus[0].ineffective = 0;
            cap(0, 0, 0);
        }
        advance(T0 + 100 * LULL_NS_PER_S);
        assert_int_equal(ends, 1);
        assert_int_equal(end_results[0], expected[i]);
        assert_int_equal(fake.gpus[0].locked_mhz, i == 1 ? 0 : 900);
        assert_int_equal(end(), 0);
        assert_int_equal(fake.gpus[0].locked_mhz, 0);
    }
}

/* The driver refuses a cap for ever: it is tried once a minute in the end, and logged once. A
 * reload of the policy, a new cap and the driver's return try it at once. */
static void test_a_refused_cap_is_tried_ever_more_slowly(void **state)
{
    (void)state;
    for (uint32_t is_limit = 0; is_limit < 2; is_limit++) {
        struct fake_gpu *const gpu = &fake.gpus[0];
        const uint32_t *const calls = is_limit ? &gpu->limit_calls : &fake.call_count;
        const uint32_t mhz = is_limit ? 0 : 900;
        const uint32_t mw = is_limit ? 250000 : 0;
        uint32_t before;
        int old_stderr;
        FILE *log;

        begin(1);
        gpu->status = -EINVAL;
        gpu->failures = UINT32_MAX;
        log = log_to_file(&old_stderr);
        cap(0, mhz, mw);
        advance(T0 + 300 * LULL_NS_PER_S);
        before = *calls;
        assert_in_range(before, 10, 25);
        advance(T0 + 900 * LULL_NS_PER_S);
        assert_in_range(*calls - before, 9, 10);
        assert_int_equal(log_again(log, old_stderr), 1);
        before = *calls;
        cap(0, mhz, mw); /* a renewal */
        advance(T0 + 900 * LULL_NS_PER_S + MS);
        assert_int_equal(*calls, before);
        lull_writer_retry_caps(writer);
        advance(T0 + 900 * LULL_NS_PER_S + 2 * MS);
        assert_int_equal(*calls, before + 1);
        advance(T0 + 1200 * LULL_NS_PER_S);
        before = *calls;
        cap(0, mhz == 0 ? 0 : 600, mw == 0 ? 0 : 200000);
        gpu->failures = 0;
        advance(T0 + 1200 * LULL_NS_PER_S + MS);
        assert_int_equal(*calls, before + 1);
        assert_int_equal(is_limit ? gpu->limit_mw : gpu->locked_mhz, is_limit ? 200000 : 600);
        assert_int_equal(end(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whether_the_writer_answers),
        cmocka_unit_test(test_a_lowering_is_recorded_written_and_read_back),
        cmocka_unit_test(test_clocks_are_clamped_to_the_band_and_the_device),
        cmocka_unit_test(test_late_lowerings_are_dropped_and_raisings_are_not),
        cmocka_unit_test(test_a_lowering_expires_unless_renewed),
        cmocka_unit_test(test_no_lowering_stays_longer_than_the_cap),
        cmocka_unit_test(test_raisings_go_first_and_lowerings_by_deadline),
        cmocka_unit_test(test_the_latest_request_wins_and_keeps_its_place),
        cmocka_unit_test(test_what_is_a_raising),
        cmocka_unit_test(test_a_lowering_waits_for_its_budget),
        cmocka_unit_test(test_f09_lowerings_follow_the_fault_table),
        cmocka_unit_test(test_f09_a_gpu_that_is_gone_is_not_asked_all_the_time),
        cmocka_unit_test(test_f07_a_lost_gpu_is_looked_for_ever_more_slowly),
        cmocka_unit_test(test_f31_processes_are_told_where_they_are_known),
        cmocka_unit_test(test_f07_a_lost_gpu_ends_its_lease_and_is_raised_when_it_is_back),
        cmocka_unit_test(test_f08_an_xid_is_counted_and_ends_nothing),
        cmocka_unit_test(test_f12_a_driver_is_opened_again_ever_more_slowly),
        cmocka_unit_test(test_f13_a_quiesced_gpu_is_restored_and_let_go),
        cmocka_unit_test(test_f14_new_partitions_end_a_lease),
        cmocka_unit_test(test_a_refused_lowering_changes_nothing),
        cmocka_unit_test(test_an_uncertain_lowering_is_raised_when_it_ends),
        cmocka_unit_test(test_a_failed_raising_is_repeated_ever_more_slowly),
        cmocka_unit_test(test_without_a_record_nothing_is_written),
        cmocka_unit_test(test_a_record_that_could_not_be_undone_is_kept),
        cmocka_unit_test(test_a_record_that_says_it_all_is_enough),
        cmocka_unit_test(test_what_is_settled_and_what_is_obeyed),
        cmocka_unit_test(test_readings_begin_sooner_or_later),
        cmocka_unit_test(test_a_call_tells_when_the_clock_before_was_read_last),
        cmocka_unit_test(test_a_clock_that_does_not_follow_is_told),
        cmocka_unit_test(test_a_slow_gpu_obeys_an_upper_bound),
        cmocka_unit_test(test_a_reset_that_is_not_obeyed_is_repeated),
        cmocka_unit_test(test_f45_the_journal_has_what_is_about_to_be_written),
        cmocka_unit_test(test_f45_a_locked_clock_is_left_alone),
        cmocka_unit_test(test_a_look_that_reads_something_has_seen_the_gpu),
        cmocka_unit_test(test_a_high_clock_is_free_without_a_lock),
        cmocka_unit_test(test_f45_a_rising_clock_is_waited_for),
        cmocka_unit_test(test_f45_a_clock_locked_in_a_lease_stays),
        cmocka_unit_test(test_f45_a_cap_set_in_a_lease_stays),
        cmocka_unit_test(test_f46_an_idle_reset_without_effect_is_repeated_when_busy),
        cmocka_unit_test(test_f46_an_idle_reset_is_confirmed_when_busy),
        cmocka_unit_test(test_f16_two_calls_without_effect_leave_nothing_low),
        cmocka_unit_test(test_f16_no_series_of_locks_without_effect_leaves_one),
        cmocka_unit_test(test_f16_the_journal_has_the_limit_that_stays),
        cmocka_unit_test(test_f46_a_lease_takes_an_unconfirmed_gpu_over),
        cmocka_unit_test(test_f16_a_record_that_cannot_be_extended_is_not_forgotten),
        cmocka_unit_test(test_f16_a_deferred_record_that_cannot_be_renewed_is_not_forgotten),
        cmocka_unit_test(test_without_a_record_everything_is_restored),
        cmocka_unit_test(test_a_thread_that_lost_the_driver_finishes_no_gpu),
        cmocka_unit_test(test_a_gpu_that_is_away_is_answered_for),
        cmocka_unit_test(test_a_new_lease_waits_for_the_end_of_the_old),
        cmocka_unit_test(test_a_removed_source_is_released_once_and_its_gpus_are_raised),
        cmocka_unit_test(test_limits_wait_for_clocks_and_come_back),
        cmocka_unit_test(test_a_limit_waits_for_the_clocks_of_all_gpus),
        cmocka_unit_test(test_the_end_is_told_after_four_failures_of_a_limit),
        cmocka_unit_test(test_an_unknown_limit_is_left_alone),
        cmocka_unit_test(test_profiles_are_recorded_added_and_removed),
        cmocka_unit_test(test_profiles_of_others_stay),
        cmocka_unit_test(test_profiles_without_a_right_are_refused),
        cmocka_unit_test(test_profiles_without_a_record_are_not_added),
        cmocka_unit_test(test_a_removal_that_fails_is_repeated),
        cmocka_unit_test(test_profiles_of_an_earlier_process_are_removed),
        cmocka_unit_test(test_smoothing_is_recorded_set_and_restored),
        cmocka_unit_test(test_a_request_without_floor_ends_smoothing),
        cmocka_unit_test(test_smoothing_of_others_stays),
        cmocka_unit_test(test_smoothing_without_a_right_is_refused),
        cmocka_unit_test(test_smoothing_without_a_record_is_not_set),
        cmocka_unit_test(test_a_failed_restoration_of_smoothing_is_repeated),
        cmocka_unit_test(test_smoothing_of_an_earlier_process_is_restored),
        cmocka_unit_test(test_stop_raises_everything_or_says_so),
        cmocka_unit_test(test_a_cap_holds_a_gpu_that_nobody_leases),
        cmocka_unit_test(test_what_a_capped_gpu_draws_is_known_soon),
        cmocka_unit_test(test_a_cap_is_the_reference_of_a_lease),
        cmocka_unit_test(test_a_cap_leaves_a_lease_its_lowest_clock),
        cmocka_unit_test(test_a_client_takes_a_capped_gpu_over),
        cmocka_unit_test(test_a_cap_of_power_limits),
        cmocka_unit_test(test_a_cap_holds_after_a_lease_that_nothing_was_seen_of),
        cmocka_unit_test(test_a_cap_of_clocks_waits_for_the_journal),
        cmocka_unit_test(test_a_cap_of_power_limits_is_repeated),
        cmocka_unit_test(test_a_cap_of_power_limits_waits_for_the_journal),
        cmocka_unit_test(test_a_cap_waits_for_others),
        cmocka_unit_test(test_a_capped_lease_waits_for_others),
        cmocka_unit_test(test_a_gpu_that_could_not_be_restored_is_refused_until_it_is),
        cmocka_unit_test(test_f16_a_cap_without_effect_is_set_again),
        cmocka_unit_test(test_f16_a_cap_that_never_has_an_effect),
        cmocka_unit_test(test_f16_a_cap_without_effect_in_a_lease),
        cmocka_unit_test(test_a_lease_ends_at_its_cap),
        cmocka_unit_test(test_a_cap_takes_an_ending_gpu),
        cmocka_unit_test(test_the_end_at_a_cap_is_reported_once),
        cmocka_unit_test(test_a_refused_cap_is_tried_ever_more_slowly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
