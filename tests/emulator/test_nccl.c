/*
 * The emulated libnccl.so.2 as seen by a program and a profiler plugin, one NCCL version per run:
 *   test_nccl NCCL_VERSION PLUGIN_VERSION [FAULT]
 * A plugin records every callback; the expected callbacks are listed here from the
 * description of the ABI. With FAULT the test checks that the documented bug of that name
 * occurs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recording_plugin.h"
#include "stub_stream.h"

enum { GROUP = 1, COLL = 2, P2P = 4, PROXY_OP = 8, KERNEL_CH = 64, GROUP_API = 256 };
enum { COLL_API = 512, P2P_API = 1024, KERNEL_LAUNCH = 2048 };
enum { FLOAT32 = 7, SUM = 0, EVERYTHING = COLL | P2P | KERNEL_CH | COLL_API | KERNEL_LAUNCH };

typedef struct {
    char internal[128];
} unique_id;

static void *nccl;
static struct recording *recording;
static void (*forget)(void);
static int nccl_version;
static int plugin_version;

static void *find(const char *name)
{
    void *symbol = dlsym(nccl, name);

    if (symbol == NULL)
        fail_msg("missing symbol %s", name);
    return symbol;
}

/* Calls an NCCL function by its name and argument types. */
#define NCCL(name, types, ...) (((int(*) types)find("nccl" #name))(__VA_ARGS__))
#define ALL_REDUCE(count, comm, stream)                                                            \
    NCCL(AllReduce, (const void *, void *, size_t, int, int, void *, void *), buffer, buffer,      \
         count, FLOAT32, SUM, comm, stream)

static char buffer[64];

/* ---- reading the record ---- */

static uint32_t reported(void)
{
    return atomic_load(&recording->count);
}

/* Waits for the progress thread, which reports when it gets there. */
static void wait_for_count(uint32_t count)
{
    for (int i = 0; i < 5000 && reported() < count; i++)
        stub_sleep_ns(1000000);
    stub_sleep_ns(2000000);
    assert_int_equal(reported(), count);
}

static uint32_t count_of(enum record_kind kind, uint64_t type)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < reported(); i++)
        count += recording->records[i].kind == kind &&
                 (kind != RECORD_START || recording->records[i].type == type);
    return count;
}

/* The same, once the progress thread has got there. */
static void wait_for_starts(uint64_t type, uint32_t count)
{
    for (int i = 0; i < 5000 && count_of(RECORD_START, type) < count; i++)
        stub_sleep_ns(1000000);
    assert_int_equal(count_of(RECORD_START, type), count);
}

/* Until nothing has been reported for a while. */
static void wait_for_silence(void)
{
    uint32_t before;

    do {
        before = reported();
        stub_sleep_ns(200000000);
    } while (reported() != before);
}

static const struct record *start_of(uint64_t type, uint32_t skip)
{
    for (uint32_t i = 0; i < reported(); i++)
        if (recording->records[i].kind == RECORD_START && recording->records[i].type == type &&
            skip-- == 0)
            return &recording->records[i];
    fail_msg("no start of type %d", (int)type);
    return NULL;
}

/* "G+ g- ..." of the first count records: letter of the type, + start, - stop, digits a state. */
static const char *story(uint32_t first, uint32_t end)
{
    static const struct {
        uint64_t type;
        char letter;
    } letters[] = {{GROUP, 'g'},    {COLL, 'c'},      {P2P, 'p'},
                   {PROXY_OP, 'o'}, {KERNEL_CH, 'k'}, {GROUP_API, 'G'},
                   {COLL_API, 'C'}, {P2P_API, 'P'},   {KERNEL_LAUNCH, 'L'}};
    static char text[4096];
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = first; i < end; i++) {
        const struct record *record = &recording->records[i];
        uint64_t type = record->type;
        char letter = '?';

        for (uint32_t j = 0; j < i && record->kind != RECORD_START; j++)
            if (recording->records[j].kind == RECORD_START &&
                recording->records[j].handle == record->handle)
                type = recording->records[j].type;
        for (size_t j = 0; j < sizeof(letters) / sizeof(letters[0]); j++)
            if (letters[j].type == type)
                letter = letters[j].letter;
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%c",
                                   length > 0 ? " " : "", letter);
        if (record->kind == RECORD_STATE)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%d", record->state);
        else
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%c",
                                       record->kind == RECORD_START ? '+' : '-');
    }
    return text;
}

/* ---- a communicator and a stream for each case ---- */

struct fixture {
    struct stub_stream stub;
    void *comm;
};

static int set_up_with(void **state, int mask)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    unique_id id;

    atomic_store(&recording->mask, mask);
    forget();
    stub_stream_init(&fixture->stub, 200000);
    if (NCCL(GetUniqueId, (unique_id *), &id) != 0 ||
        NCCL(CommInitRank, (void **, int, unique_id, int), &fixture->comm, 2, id, 1) != 0)
        return -1;
    *state = fixture;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, EVERYTHING);
}

static int set_up_silent(void **state)
{
    return set_up_with(state, 0);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    stub_stream_fini(&fixture->stub);
    if (NCCL(CommDestroy, (void *), fixture->comm) != 0)
        return -1;
    free(fixture);
    return 0;
}

/* ---- cases ---- */

static void test_version_and_plugin_are_what_was_asked_for(void **state)
{
    struct fixture *fixture = *state;
    int value = 0;

    assert_int_equal(NCCL(GetVersion, (int *), &value), 0);
    assert_int_equal(value, nccl_version);
    assert_int_equal(NCCL(CommCount, (void *, int *), fixture->comm, &value), 0);
    assert_int_equal(value, 2);
    assert_int_equal(NCCL(CommUserRank, (void *, int *), fixture->comm, &value), 0);
    assert_int_equal(value, 1);
    assert_string_equal(((const char *(*)(int))find("ncclGetErrorString"))(4), "invalid argument");
    if (plugin_version == 0) {
        assert_int_equal(reported(), 0);
        return;
    }
    assert_int_equal(reported(), 1);
    assert_int_equal(recording->records[0].kind, RECORD_INIT);
    assert_int_equal(recording->records[0].version, plugin_version);
    assert_int_not_equal(recording->records[0].thread, (pid_t)syscall(SYS_gettid));
    if (plugin_version >= 4) {
        assert_int_equal(recording->records[0].ranks, 2);
        assert_int_equal(recording->records[0].nodes, 1);
        assert_int_equal(recording->records[0].rank, 1);
    }
}

static void test_both_names_are_exported(void **state)
{
    static const char *const names[] = {"AllReduce", "GroupEnd", "Send", "CommInitRankConfig"};
    char strong[64] = "p";

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(strong, sizeof(strong), "pnccl%s", names[i]);
        assert_ptr_equal(find(strong), find(strong + 1));
    }
}

static void check_channels(const struct fixture *fixture, const struct record *parent,
                           uint32_t first)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < 8; i++) {
        const struct record *record = start_of(KERNEL_CH, i);

        assert_int_equal(record->parent, parent->handle);
        assert_int_equal(record->rank, 0);
        seen |= 1u << record->channel;
        if (plugin_version >= 4)
            assert_int_equal(record->timer, fixture->stub.begin_ns[0]);
    }
    assert_int_equal(seen, 0xff);
    for (uint32_t i = first; i < reported(); i++) {
        const struct record *record = &recording->records[i];

        assert_int_not_equal(record->thread, (pid_t)syscall(SYS_gettid));
        if (record->kind == RECORD_STATE)
            assert_int_equal(record->timer, fixture->stub.end_ns[0]);
    }
    assert_int_equal(count_of(RECORD_STATE, 0), plugin_version >= 4 ? 8 : 0);
}

/* One AllReduce: its events, threads and parents. */
static void test_a_collective_is_told_as_nccl_tells_it(void **state)
{
    struct fixture *fixture = *state;
    const pid_t own = (pid_t)syscall(SYS_gettid);
    const bool has_api = plugin_version >= 5;
    const uint32_t enqueued = 1 + (has_api ? 10 : 4);
    const struct record *coll;

    stub_stream_hold(&fixture->stub, true);
    assert_int_equal(ALL_REDUCE(262144, fixture->comm, &fixture->stub), 0);
    wait_for_count(enqueued); /* the kernel waits */
    assert_string_equal(story(1, enqueued),
                        has_api ? "G+ C+ C- L+ L- g+ c+ c- g- G-" : "g+ c+ c- g-");
    for (uint32_t i = 1; i < enqueued; i++)
        assert_int_equal(recording->records[i].thread, own);

    coll = start_of(COLL, 0);
    assert_int_equal(coll->rank, 1);
    assert_int_equal(coll->count, 262144);
    assert_int_equal(coll->channels, 8);
    assert_string_equal(coll->function, plugin_version == 1 ? "4" : "AllReduce");
    assert_string_equal(coll->datatype, plugin_version == 1 ? "7" : "ncclFloat32");
    assert_int_equal(coll->sequence, 0);
    if (has_api) {
        assert_int_equal(coll->parent, start_of(COLL_API, 0)->handle);
        assert_int_equal(coll->group, start_of(GROUP, 0)->handle);
        assert_int_equal(start_of(COLL_API, 0)->parent, start_of(GROUP_API, 0)->handle);
        assert_int_equal(start_of(COLL_API, 0)->stream, (uintptr_t)&fixture->stub);
        assert_int_equal(start_of(COLL_API, 0)->rank, 0);
        assert_int_equal(start_of(KERNEL_LAUNCH, 0)->parent, start_of(GROUP_API, 0)->handle);
        assert_int_equal(start_of(GROUP_API, 0)->depth, 1);
    } else {
        assert_int_equal(coll->parent, start_of(GROUP, 0)->handle);
    }

    stub_stream_hold(&fixture->stub, false);
    stub_stream_wait(&fixture->stub);
    if (plugin_version < 3) {
        wait_for_count(enqueued);
        return;
    }
    wait_for_count(enqueued + (plugin_version >= 4 ? 24 : 16));
    check_channels(fixture, coll, enqueued);
}

/* Each mask delivers its events with their ancestors, and nothing else. */
static void test_masks_deliver_ancestors(void **state)
{
    struct fixture *fixture = *state;
    const bool has_api = plugin_version >= 5;
    const struct {
        int mask;
        const char *with_api;
        const char *without;
    } rows[] = {
        {0, "", ""},
        {COLL_API, "G+ C+ C- G-", ""},
        {COLL, "G+ C+ C- g+ c+ c- g- G-", "g+ c+ c- g-"},
        {KERNEL_LAUNCH, "G+ L+ L- G-", ""},
        {P2P, "G+ g+ g- G-", "g+ g-"},
        {PROXY_OP, "G+ C+ C- g+ c+ c- g- G-", "g+ c+ c- g-"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        forget();
        __atomic_store_n(recording->mask_pointer, rows[i].mask, __ATOMIC_RELAXED);
        assert_int_equal(ALL_REDUCE(4, fixture->comm, &fixture->stub), 0);
        stub_stream_wait(&fixture->stub);
        assert_string_equal(story(0, reported()), has_api ? rows[i].with_api : rows[i].without);
    }
}

/* Work keeps the mask of the time when it was appended. */
static void test_a_mask_counts_when_work_is_appended(void **state)
{
    struct fixture *fixture = *state;

    stub_stream_hold(&fixture->stub, true);
    assert_int_equal(ALL_REDUCE(4, fixture->comm, &fixture->stub), 0);
    __atomic_store_n(recording->mask_pointer, 0, __ATOMIC_RELAXED);
    assert_int_equal(ALL_REDUCE(4, fixture->comm, &fixture->stub), 0);
    stub_stream_hold(&fixture->stub, false);
    stub_stream_wait(&fixture->stub);
    wait_for_starts(KERNEL_CH, plugin_version >= 3 ? 1 : 0);
    assert_int_equal(count_of(RECORD_START, COLL), 1);
}

/* A user's group: depth 2, its states, the largest collective first, Sends and Recvs after. */
static void test_a_group_is_told_at_its_end(void **state)
{
    struct fixture *fixture = *state;
    const bool has_api = plugin_version >= 5;
    const int p2p_types[] = {P2P_API, P2P};
    uint32_t before;

    assert_int_equal(NCCL(GroupStart, (void)), 0);
    assert_int_equal(ALL_REDUCE(4, fixture->comm, &fixture->stub), 0);
    assert_int_equal(ALL_REDUCE(262144, fixture->comm, &fixture->stub), 0);
    assert_int_equal(NCCL(Send, (const void *, size_t, int, int, void *, void *), buffer, 8,
                          FLOAT32, 0, fixture->comm, &fixture->stub),
                     0);
    assert_int_equal(NCCL(Recv, (void *, size_t, int, int, void *, void *), buffer, 8, FLOAT32, 0,
                          fixture->comm, &fixture->stub),
                     0);
    assert_int_equal(fixture->stub.enqueued, 0);
    before = reported();
    assert_string_equal(story(1, before), has_api ? "G+ G23 C+ C- C+ C- P+ P- P+ P-" : "");
    stub_stream_hold(&fixture->stub, true);
    assert_int_equal(NCCL(GroupEnd, (void)), 0);
    assert_int_equal(fixture->stub.enqueued, 4);
    assert_string_equal(story(before, reported()),
                        has_api ? "G24 L+ L- L+ L- L+ L- L+ L- g+ c+ c+ p+ p+ c- c- p- p- g- G-"
                                : "g+ c+ c+ p+ p+ c- c- p- p- g-");
    assert_int_equal(start_of(COLL, 0)->count, 262144);
    assert_int_equal(start_of(COLL, 0)->sequence, 1);
    assert_int_equal(start_of(COLL, 1)->count, 4);
    assert_string_equal(start_of(P2P, 0)->function, plugin_version == 1 ? "6" : "Send");
    assert_string_equal(start_of(P2P, 1)->function, plugin_version == 1 ? "7" : "Recv");
    assert_int_equal(start_of(P2P, 1)->peer, 0);
    if (has_api) {
        assert_int_equal(start_of(GROUP_API, 0)->depth, 2);
        assert_int_equal(start_of(COLL, 0)->parent, start_of(COLL_API, 1)->handle);
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(start_of((uint64_t)p2p_types[1], i)->parent,
                             start_of((uint64_t)p2p_types[0], i)->handle);
    }
    stub_stream_hold(&fixture->stub, false);
    assert_int_equal(NCCL(GroupEnd, (void)), 5); /* one too many: invalid usage */
}

static void test_what_differs_between_functions(void **state)
{
    struct fixture *fixture = *state;
    const bool is_lost = nccl_version >= 22900 && nccl_version < 23100;

    assert_int_equal(NCCL(AllGather, (const void *, void *, size_t, int, void *, void *), buffer,
                          buffer, 8, FLOAT32, fixture->comm, &fixture->stub),
                     0);
    assert_int_equal(start_of(COLL, 0)->count, 32); /* bytes */
    assert_string_equal(start_of(COLL, 0)->datatype, plugin_version == 1 ? "0" : "ncclInt8");
    if (plugin_version >= 5)
        assert_int_equal(start_of(COLL_API, 0)->count, 8);

    forget();
    assert_int_equal(NCCL(Bcast, (void *, size_t, int, int, void *, void *), buffer, 8, FLOAT32, 0,
                          fixture->comm, &fixture->stub),
                     0);
    assert_int_equal(count_of(RECORD_START, COLL), is_lost ? 0 : 1);
    assert_int_equal(count_of(RECORD_START, COLL_API), plugin_version >= 5 ? 1 : 0);
    stub_stream_wait(&fixture->stub);

    forget();
    assert_int_equal(NCCL(AlltoAll, (const void *, void *, size_t, int, void *, void *), buffer,
                          buffer, 8, FLOAT32, fixture->comm, &fixture->stub),
                     0);
    assert_int_equal(count_of(RECORD_START, P2P), 4); /* to and from two ranks */
    stub_stream_wait(&fixture->stub);
    assert_int_equal(fixture->stub.ended, 3); /* but one kernel */
    assert_string_equal(fixture->stub.works[2].function, "AlltoAll");
}

static void test_bad_calls_are_refused(void **state)
{
    struct fixture *fixture = *state;
    void *comm;
    unique_id id = {{0}};

    assert_int_equal(ALL_REDUCE(4, NULL, &fixture->stub), 4);
    assert_int_equal(NCCL(AllReduce, (const void *, void *, size_t, int, int, void *, void *),
                          buffer, buffer, 4, 99, SUM, fixture->comm, &fixture->stub),
                     4);
    assert_int_equal(NCCL(Send, (const void *, size_t, int, int, void *, void *), buffer, 8,
                          FLOAT32, 2, fixture->comm, &fixture->stub),
                     4);
    assert_int_equal(NCCL(CommInitRank, (void **, int, unique_id, int), &comm, 2, id, 2), 4);
    assert_int_equal(fixture->stub.enqueued, 0);
}

/* A program without a player: default streams, or the pointer of something else. */
static void test_without_a_player_kernels_end_at_once(void **state)
{
    struct fixture *fixture = *state;
    char not_a_stream[64] = {0};

    assert_int_equal(ALL_REDUCE(4, fixture->comm, NULL), 0);
    assert_int_equal(ALL_REDUCE(4, fixture->comm, (void *)1), 0);
    assert_int_equal(ALL_REDUCE(4, fixture->comm, not_a_stream), 0);
    wait_for_starts(KERNEL_CH, plugin_version >= 3 ? 3 : 0);
    assert_int_equal(count_of(RECORD_START, COLL), plugin_version > 0 ? 3 : 0);
}

/* Eight communicators in one group initialise at once, each on a thread of its own. */
static void test_communicators_of_a_group_are_initialised_together(void **state)
{
    void *comms[8];
    uint32_t different = 0;

    (void)state;
    forget();
    assert_int_equal(NCCL(CommInitAll, (void **, int, const int *), comms, 8, NULL), 0);
    assert_int_equal(count_of(RECORD_INIT, 0), plugin_version > 0 ? 8 : 0);
    for (uint32_t i = 0; i < reported(); i++)
        for (uint32_t j = 0; j < i; j++)
            different += recording->records[i].context != recording->records[j].context;
    assert_int_equal(different, plugin_version > 0 ? 28 : 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(NCCL(CommDestroy, (void *), comms[i]), 0);
    assert_int_equal(count_of(RECORD_FINALIZE, 0), plugin_version > 0 ? 8 : 0);
}

static void test_children_of_a_communicator(void **state)
{
    struct fixture *fixture = *state;
    void *child = &child;
    int excluded = 0;
    int value = 0;

    assert_int_equal(
        NCCL(CommSplit, (void *, int, int, void **, void *), fixture->comm, -1, 0, &child, NULL),
        0);
    assert_null(child);
    assert_int_equal(
        NCCL(CommSplit, (void *, int, int, void **, void *), fixture->comm, 3, 0, &child, NULL), 0);
    assert_int_equal(ALL_REDUCE(4, child, &fixture->stub), 0);
    stub_stream_wait(&fixture->stub);
    assert_int_equal(NCCL(CommAbort, (void *), child), 0);
    assert_int_equal(NCCL(CommShrink, (void *, int *, int, void **, void *, int), fixture->comm,
                          &excluded, 1, &child, NULL, 0),
                     0);
    assert_int_equal(NCCL(CommCount, (void *, int *), child, &value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(NCCL(CommFinalize, (void *), child), 0);
    assert_int_equal(NCCL(CommDestroy, (void *), child), 0);
}

/* Several threads with a communicator and stream each; the sanitizers watch. */
static void *work_alone(void *argument)
{
    struct fixture *fixture = argument;

    for (int i = 0; i < 200; i++)
        if (ALL_REDUCE(16384, fixture->comm, &fixture->stub) != 0)
            return fixture;
    return NULL;
}

static void test_threads_work_beside_each_other(void **state)
{
    struct fixture *fixtures = calloc(4, sizeof(*fixtures));
    void *comms[4];
    pthread_t threads[4];

    (void)state;
    assert_int_equal(NCCL(CommInitAll, (void **, int, const int *), comms, 4, NULL), 0);
    forget();
    for (int i = 0; i < 4; i++) {
        stub_stream_init(&fixtures[i].stub, 10000);
        fixtures[i].comm = comms[i];
        pthread_create(&threads[i], NULL, work_alone, &fixtures[i]);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;

        pthread_join(threads[i], &failed);
        assert_null(failed);
        stub_stream_fini(&fixtures[i].stub);
        assert_int_equal(NCCL(CommDestroy, (void *), comms[i]), 0);
    }
    assert_int_equal(count_of(RECORD_START, COLL), plugin_version > 0 ? 800 : 0);
    assert_int_equal(count_of(RECORD_START, KERNEL_CH), plugin_version >= 3 ? 1600 : 0);
    free(fixtures);
}

/* ---- documented bugs ---- */

static void run_many(struct fixture *fixture)
{
    for (int i = 0; i < 32; i++)
        assert_int_equal(ALL_REDUCE(262144, fixture->comm, &fixture->stub), 0);
    stub_stream_wait(&fixture->stub);
    wait_for_silence();
}

static void fault_stale_stop(void **state)
{
    struct fixture *fixture = *state;
    uintptr_t handle;

    assert_int_equal(ALL_REDUCE(4, fixture->comm, &fixture->stub), 0);
    stub_stream_wait(&fixture->stub);
    wait_for_silence();
    handle = start_of(COLL_API, 0)->handle;
    __atomic_store_n(recording->mask_pointer, 0, __ATOMIC_RELAXED);
    forget();
    assert_int_equal(ALL_REDUCE(4, fixture->comm, &fixture->stub), 0);
    assert_int_equal(ALL_REDUCE(4, fixture->comm, &fixture->stub), 0);
    assert_int_equal(reported(), 2);
    assert_int_equal(recording->records[0].kind, RECORD_STOP);
    assert_int_equal(recording->records[1].handle, handle);
}

static void fault_stop_before_start(void **state)
{
    struct fixture *fixture = *state;
    uint32_t early = 0;

    run_many(fixture);
    for (uint32_t i = 0; i < reported(); i++) {
        const struct record *record = &recording->records[i];
        bool is_channel = false;

        for (uint32_t j = 0; record->kind == RECORD_STATE && j < i; j++)
            if (recording->records[j].handle == record->handle)
                is_channel = is_channel || recording->records[j].type == KERNEL_CH;
        early += record->kind == RECORD_STATE && !is_channel && record->state == 22;
    }
    assert_true(early > 0);
}

static void fault_lost_records(void **state)
{
    struct fixture *fixture = *state;

    run_many(fixture);
    assert_int_equal(count_of(RECORD_START, COLL), 32);
    assert_true(count_of(RECORD_START, KERNEL_CH) < 32 * 8);
    assert_true(count_of(RECORD_STATE, 0) < count_of(RECORD_START, KERNEL_CH));
}

static void fault_foreign_pid(void **state)
{
    struct fixture *fixture = *state;
    const struct record *record;

    run_many(fixture);
    record = start_of(PROXY_OP, 0);
    assert_int_not_equal(record->pid, getpid());
    assert_int_not_equal(record->context, recording->records[0].context);
}

/* ---- running ---- */

static int open_libraries(void)
{
    void *plugin = dlopen(LULL_RECORDING_PLUGIN, RTLD_NOW | RTLD_LOCAL);

    nccl = dlopen(LULL_EMULATED_NCCL, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL || nccl == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    recording = dlsym(plugin, "recording");
    *(void **)&forget = dlsym(plugin, "forget_recording");
    return recording != NULL && forget != NULL ? 0 : -1;
}

static int run_fault(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fault_stale_stop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fault_stop_before_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fault_lost_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fault_foreign_pid, set_up, tear_down),
    };
    char pattern[64];

    snprintf(pattern, sizeof(pattern), "fault_%s", name);
    cmocka_set_test_filter(pattern);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest any[] = {
        cmocka_unit_test_setup_teardown(test_version_and_plugin_are_what_was_asked_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_both_names_are_exported, set_up_silent, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_calls_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_player_kernels_end_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_children_of_a_communicator, set_up, tear_down),
        cmocka_unit_test(test_communicators_of_a_group_are_initialised_together),
        cmocka_unit_test(test_threads_work_beside_each_other),
    };
    const struct CMUnitTest with_plugin[] = {
        cmocka_unit_test_setup_teardown(test_a_collective_is_told_as_nccl_tells_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_masks_deliver_ancestors, set_up_silent, tear_down),
        cmocka_unit_test_setup_teardown(test_a_mask_counts_when_work_is_appended, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_group_is_told_at_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_differs_between_functions, set_up, tear_down),
    };
    int failed;

    if (argc < 3)
        return 2;
    nccl_version = atoi(argv[1]);
    plugin_version = atoi(argv[2]);
    setenv("LULL_EMULATED_NCCL_VERSION", argv[1], 1);
    setenv("NCCL_PROFILER_PLUGIN", LULL_RECORDING_PLUGIN, 1);
    if (argc > 3)
        setenv("LULL_EMULATED_NCCL_FAULTS", argv[3], 1);
    if (open_libraries() < 0)
        return 1;
    if (argc > 3)
        return run_fault(argv[3]);
    failed = cmocka_run_group_tests(any, NULL, NULL);
    if (plugin_version > 0)
        failed += cmocka_run_group_tests(with_plugin, NULL, NULL);
    return failed;
}
