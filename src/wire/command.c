/*
 * Sequence locks made of atomics only: a version that is odd while its record is being written.
 * Every word is stored with release and loaded with acquire, which orders them without fences.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A reader that finds a write in progress this often gives up until the next doorbell. */
enum { READ_ATTEMPTS = 16 };

/* A cache line for each record, so that the two sides do not slow each other. */
enum { RECORD_WORDS = 7 };

struct record {
    _Atomic uint64_t version; /* even: whole; odd: being written; of a request: 2 * sequence */
    _Atomic uint64_t words[RECORD_WORDS];
};

struct shared {
    struct record requests[LULL_COMMAND_SLOTS];
    struct record results[LULL_COMMAND_SLOTS];
    struct record limit_requests[LULL_COMMAND_SLOTS];
    struct record limit_results[LULL_COMMAND_SLOTS];
};

/* The bytes of each value that are shared: a request without its sequence, which is the version's
 * half, and none of them with the padding at its end, which may hold anything. */
#define BYTES(type, first, last)                                                                   \
    offsetof(type, first), offsetof(type, last) + sizeof(((type *)0)->last) - offsetof(type, first)

struct part {
    size_t offset;
    size_t size;
};

static const struct part of_request = {BYTES(struct lull_switch_request, deadline_ns, sm_mhz)};
static const struct part of_result = {BYTES(struct lull_switch_result, sequence, unread_us)};
static const struct part of_limit_request = {BYTES(struct lull_limit_request, limit_mw, smoothing)};
static const struct part of_limit_result = {
    BYTES(struct lull_limit_result, sequence, smoothing_floor_w)};

_Static_assert(sizeof(struct record) == 64, "one cache line");
_Static_assert(sizeof(struct lull_limit_result) <= sizeof(uint64_t[RECORD_WORDS]), "fits");
_Static_assert(sizeof(struct lull_switch_result) <= sizeof(uint64_t[RECORD_WORDS]), "fits");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes");

struct lull_command_table {
    struct shared *shared;
    int memory_fd; /* -1 in a table that was opened */
    /* Private counts, because the shared versions may be forged. */
    uint64_t posted[LULL_COMMAND_SLOTS];                   /* the poster's */
    uint64_t taken[LULL_COMMAND_SLOTS];                    /* the taker's */
    uint64_t published[LULL_COMMAND_SLOTS];                /* the taker's */
    struct lull_switch_result results[LULL_COMMAND_SLOTS]; /* the poster's: last ones read whole */
    uint64_t posted_limits[LULL_COMMAND_SLOTS];            /* the same four for power limits */
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
    /* A forked child that outlives its parent must not be able to send commands as the parent. */
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
    /* Without the seals a client could shrink the memory while the daemon uses it. */
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

static void command_ring_write_record(struct record *record, uint64_t version,
                                      const struct part *part, const void *value)
{
    uint64_t words[RECORD_WORDS] = {0};

    memcpy(words, (const char *)value + part->offset, part->size);
    atomic_store_explicit(&record->version, version - 1, memory_order_release);
    for (size_t i = 0; i < RECORD_WORDS; i++)
        atomic_store_explicit(&record->words[i], words[i], memory_order_release);
    atomic_store_explicit(&record->version, version, memory_order_release);
}

/* Copies a record that is whole and returns its version. 0: it has no version yet, it is the known
 * one, or it could not be read whole; value_out is then unchanged. */
static uint64_t command_ring_read_record(struct record *record, uint64_t known,
                                         const struct part *part, void *value_out)
{
    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        const uint64_t version = atomic_load_explicit(&record->version, memory_order_acquire);
        uint64_t words[RECORD_WORDS];

        if (version % 2 != 0)
            continue;
        if (version == known || version == 0)
            return 0;
        for (size_t i = 0; i < RECORD_WORDS; i++)
            words[i] = atomic_load_explicit(&record->words[i], memory_order_acquire);
        if (atomic_load_explicit(&record->version, memory_order_acquire) != version)
            continue;
        memcpy((char *)value_out + part->offset, words, part->size);
        return version;
    }
    return 0;
}

/* ---- clocks ------------------------------------------------------------------------------ */

uint64_t lull_command_post(struct lull_command_table *table, uint32_t slot,
                           const struct lull_switch_request *request)
{
    const uint64_t sequence = ++table->posted[slot];

    command_ring_write_record(&table->shared->requests[slot], 2 * sequence, &of_request, request);
    return sequence;
}

static bool command_ring_take(void *context, uint32_t slot, struct lull_switch_request *request_out)
{
    struct lull_command_table *const table = context;
    const uint64_t version = command_ring_read_record(
        &table->shared->requests[slot], 2 * table->taken[slot], &of_request, request_out);

    if (version == 0)
        return false;
    request_out->sequence = table->taken[slot] = version / 2;
    return true;
}

static void command_ring_publish(void *context, uint32_t slot,
                                 const struct lull_switch_result *result)
{
    struct lull_command_table *const table = context;
    table->published[slot] += 2;
    command_ring_write_record(&table->shared->results[slot], table->published[slot], &of_result,
                              result);
}

void lull_command_result(struct lull_command_table *table, uint32_t slot,
                         struct lull_switch_result *result_out)
{
    command_ring_read_record(&table->shared->results[slot], UINT64_MAX, &of_result,
                             &table->results[slot]);
    *result_out = table->results[slot];
}

/* ---- power limits ------------------------------------------------------------------------ */

uint64_t lull_command_post_limit(struct lull_command_table *table, uint32_t slot,
                                 const struct lull_limit_request *request)
{
    const uint64_t sequence = ++table->posted_limits[slot];

    command_ring_write_record(&table->shared->limit_requests[slot], 2 * sequence, &of_limit_request,
                              request);
    return sequence;
}

static bool command_ring_take_limit(void *context, uint32_t slot,
                                    struct lull_limit_request *request_out)
{
    struct lull_command_table *const table = context;
    const uint64_t version =
        command_ring_read_record(&table->shared->limit_requests[slot],
                                 2 * table->taken_limits[slot], &of_limit_request, request_out);

    if (version == 0)
        return false;
    request_out->sequence = table->taken_limits[slot] = version / 2;
    return true;
}

static void command_ring_publish_limit(void *context, uint32_t slot,
                                       const struct lull_limit_result *result)
{
    struct lull_command_table *const table = context;
    table->published_limits[slot] += 2;
    command_ring_write_record(&table->shared->limit_results[slot], table->published_limits[slot],
                              &of_limit_result, result);
}

void lull_command_limit_result(struct lull_command_table *table, uint32_t slot,
                               struct lull_limit_result *result_out)
{
    command_ring_read_record(&table->shared->limit_results[slot], UINT64_MAX, &of_limit_result,
                             &table->limit_results[slot]);
    *result_out = table->limit_results[slot];
}

struct lull_switch_channel lull_command_channel(struct lull_command_table *table)
{
    return (struct lull_switch_channel){.context = table,
                                        .take = command_ring_take,
                                        .publish = command_ring_publish,
                                        .take_limit = command_ring_take_limit,
                                        .publish_limit = command_ring_publish_limit};
}
