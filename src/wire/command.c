/*
 * Sequence locks made of atomics only: a version that is odd while its record is being written.
 * Every member is stored with release and loaded with acquire, which orders them without fences.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A reader that meets a writer this often gives up until the next doorbell. */
enum { READ_ATTEMPTS = 16 };

struct shared_request {
    _Atomic uint64_t version; /* twice the sequence number; odd: being written */
    _Atomic int64_t deadline_ns;
    _Atomic int64_t valid_until_ns;
    _Atomic uint32_t sm_mhz;
    uint32_t reserved[9];
};

struct shared_result {
    _Atomic uint64_t version;
    _Atomic uint64_t sequence;
    _Atomic int64_t call_begin_ns;
    _Atomic int64_t call_ns;
    _Atomic int64_t settle_ns;
    _Atomic int32_t status;
    _Atomic uint32_t sm_mhz;
    _Atomic uint32_t observed_mhz;
    _Atomic uint32_t calls;
    _Atomic uint32_t blocked_us;
    uint32_t reserved[1];
};

struct shared_limit_request {
    _Atomic uint64_t version; /* as above */
    _Atomic uint32_t limit_mw;
    uint32_t reserved[13];
};

struct shared_limit_result {
    _Atomic uint64_t version;
    _Atomic uint64_t sequence;
    _Atomic int32_t status;
    _Atomic uint32_t limit_mw;
    uint32_t reserved[10];
};

/* Requests and results in lines of their own, so that the two sides do not slow each other. */
struct shared {
    struct shared_request requests[LULL_COMMAND_SLOTS];
    struct shared_result results[LULL_COMMAND_SLOTS];
    struct shared_limit_request limit_requests[LULL_COMMAND_SLOTS];
    struct shared_limit_result limit_results[LULL_COMMAND_SLOTS];
};

_Static_assert(sizeof(struct shared_request) == 64, "one cache line");
_Static_assert(sizeof(struct shared_result) == 64, "one cache line");
_Static_assert(sizeof(struct shared_limit_request) == 64, "one cache line");
_Static_assert(sizeof(struct shared_limit_result) == 64, "one cache line");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes");

struct lull_command_table {
    struct shared *shared;
    int memory_fd; /* -1 in a table that was opened */
    /* Private counts, because the shared versions may be forged. */
    uint64_t posted[LULL_COMMAND_SLOTS];                   /* the poster's */
    uint64_t taken[LULL_COMMAND_SLOTS];                    /* the taker's */
    uint64_t published[LULL_COMMAND_SLOTS];                /* the taker's */
    struct lull_switch_result results[LULL_COMMAND_SLOTS]; /* the poster's: last ones read whole */
    uint64_t posted_limits[LULL_COMMAND_SLOTS];            /* likewise, of power limits */
    uint64_t taken_limits[LULL_COMMAND_SLOTS];
    uint64_t published_limits[LULL_COMMAND_SLOTS];
    struct lull_limit_result limit_results[LULL_COMMAND_SLOTS];
};

static int map_table(int memory_fd, int own_fd, struct lull_command_table **table_out,
                     struct lull_error *err)
{
    struct lull_command_table *table = calloc(1, sizeof(*table));
    void *memory =
        mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);

    if (table == NULL || memory == MAP_FAILED) {
        int result = table == NULL ? -ENOMEM : -errno;

        if (memory != MAP_FAILED)
            munmap(memory, sizeof(struct shared));
        free(table);
        return lull_error_set(err, result, "command table: cannot map: %s", strerror(-result));
    }
    /* A forked child that lives on must not be able to command in its parent's name. */
    madvise(memory, sizeof(struct shared), MADV_DONTFORK);
    table->shared = memory;
    table->memory_fd = own_fd;
    *table_out = table;
    return 0;
}

int lull_command_table_create(struct lull_command_table **table_out, struct lull_error *err)
{
    int fd = memfd_create("lull-commands", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int result;

    if (fd < 0)
        return lull_error_set(err, -errno, "command table: %s", strerror(errno));
    /* Without the seals a client could shrink the memory under the daemon's feet. */
    if (ftruncate(fd, sizeof(struct shared)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        result = lull_error_set(err, -errno, "command table: %s", strerror(errno));
    else
        result = map_table(fd, fd, table_out, err);
    if (result < 0)
        close(fd);
    return result;
}

int lull_command_table_open(int memory_fd, struct lull_command_table **table_out,
                            struct lull_error *err)
{
    struct stat status;

    if (fstat(memory_fd, &status) < 0)
        return lull_error_set(err, -errno, "command table: %s", strerror(errno));
    if (status.st_size != (off_t)sizeof(struct shared))
        return lull_error_set(
            err, -EINVAL, "command table: lulld is of another version; restart it after an update");
    return map_table(memory_fd, -1, table_out, err);
}

void lull_command_table_close(struct lull_command_table *table)
{
    if (table == NULL)
        return;
    munmap(table->shared, sizeof(struct shared));
    if (table->memory_fd >= 0)
        close(table->memory_fd);
    free(table);
}

int lull_command_table_fd(const struct lull_command_table *table)
{
    return table->memory_fd;
}

#define STORE(member, value) atomic_store_explicit(&(member), value, memory_order_release)
#define LOAD(member) atomic_load_explicit(&(member), memory_order_acquire)

uint64_t lull_command_post(struct lull_command_table *table, uint32_t slot,
                           const struct lull_switch_request *request)
{
    struct shared_request *shared = &table->shared->requests[slot];
    const uint64_t sequence = ++table->posted[slot];

    STORE(shared->version, 2 * sequence - 1);
    STORE(shared->sm_mhz, request->sm_mhz);
    STORE(shared->deadline_ns, request->deadline_ns);
    STORE(shared->valid_until_ns, request->valid_until_ns);
    STORE(shared->version, 2 * sequence);
    return sequence;
}

bool lull_command_take(struct lull_command_table *table, uint32_t slot,
                       struct lull_switch_request *request_out)
{
    struct shared_request *shared = &table->shared->requests[slot];

    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        const uint64_t version = LOAD(shared->version);
        struct lull_switch_request request = {.sequence = version / 2};

        if (version % 2 != 0)
            continue;
        if (request.sequence == table->taken[slot])
            return false;
        request.sm_mhz = LOAD(shared->sm_mhz);
        request.deadline_ns = LOAD(shared->deadline_ns);
        request.valid_until_ns = LOAD(shared->valid_until_ns);
        if (LOAD(shared->version) != version)
            continue;
        table->taken[slot] = request.sequence;
        *request_out = request;
        return true;
    }
    return false;
}

void lull_command_publish(struct lull_command_table *table, uint32_t slot,
                          const struct lull_switch_result *result)
{
    struct shared_result *shared = &table->shared->results[slot];
    const uint64_t version = table->published[slot] += 2;

    STORE(shared->version, version - 1);
    STORE(shared->sequence, result->sequence);
    STORE(shared->call_begin_ns, result->call_begin_ns);
    STORE(shared->call_ns, result->call_ns);
    STORE(shared->settle_ns, result->settle_ns);
    STORE(shared->status, result->status);
    STORE(shared->sm_mhz, result->sm_mhz);
    STORE(shared->observed_mhz, result->observed_mhz);
    STORE(shared->calls, result->calls);
    STORE(shared->blocked_us, result->blocked_us);
    STORE(shared->version, version);
}

void lull_command_result(struct lull_command_table *table, uint32_t slot,
                         struct lull_switch_result *result_out)
{
    struct shared_result *shared = &table->shared->results[slot];

    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        const uint64_t version = LOAD(shared->version);
        struct lull_switch_result result;

        if (version % 2 != 0)
            continue;
        result.sequence = LOAD(shared->sequence);
        result.call_begin_ns = LOAD(shared->call_begin_ns);
        result.call_ns = LOAD(shared->call_ns);
        result.settle_ns = LOAD(shared->settle_ns);
        result.status = LOAD(shared->status);
        result.sm_mhz = LOAD(shared->sm_mhz);
        result.observed_mhz = LOAD(shared->observed_mhz);
        result.calls = LOAD(shared->calls);
        result.blocked_us = LOAD(shared->blocked_us);
        if (LOAD(shared->version) != version)
            continue;
        table->results[slot] = result;
        break;
    }
    *result_out = table->results[slot];
}

/* ---- power limits ------------------------------------------------------------------------ */

uint64_t lull_command_post_limit(struct lull_command_table *table, uint32_t slot,
                                 const struct lull_limit_request *request)
{
    struct shared_limit_request *shared = &table->shared->limit_requests[slot];
    const uint64_t sequence = ++table->posted_limits[slot];

    STORE(shared->version, 2 * sequence - 1);
    STORE(shared->limit_mw, request->limit_mw);
    STORE(shared->version, 2 * sequence);
    return sequence;
}

bool lull_command_take_limit(struct lull_command_table *table, uint32_t slot,
                             struct lull_limit_request *request_out)
{
    struct shared_limit_request *shared = &table->shared->limit_requests[slot];

    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        const uint64_t version = LOAD(shared->version);
        struct lull_limit_request request = {.sequence = version / 2};

        if (version % 2 != 0)
            continue;
        if (request.sequence == table->taken_limits[slot])
            return false;
        request.limit_mw = LOAD(shared->limit_mw);
        if (LOAD(shared->version) != version)
            continue;
        table->taken_limits[slot] = request.sequence;
        *request_out = request;
        return true;
    }
    return false;
}

void lull_command_publish_limit(struct lull_command_table *table, uint32_t slot,
                                const struct lull_limit_result *result)
{
    struct shared_limit_result *shared = &table->shared->limit_results[slot];
    const uint64_t version = table->published_limits[slot] += 2;

    STORE(shared->version, version - 1);
    STORE(shared->sequence, result->sequence);
    STORE(shared->status, result->status);
    STORE(shared->limit_mw, result->limit_mw);
    STORE(shared->version, version);
}

void lull_command_limit_result(struct lull_command_table *table, uint32_t slot,
                               struct lull_limit_result *result_out)
{
    struct shared_limit_result *shared = &table->shared->limit_results[slot];

    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        const uint64_t version = LOAD(shared->version);
        struct lull_limit_result result;

        if (version % 2 != 0)
            continue;
        result.sequence = LOAD(shared->sequence);
        result.status = LOAD(shared->status);
        result.limit_mw = LOAD(shared->limit_mw);
        if (LOAD(shared->version) != version)
            continue;
        table->limit_results[slot] = result;
        break;
    }
    *result_out = table->limit_results[slot];
}
