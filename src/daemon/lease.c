/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lease.h"

#include <errno.h>
#include <stdlib.h>

struct seat {
    struct lull_lease lease; /* id 0: the GPU is not leased */
    bool is_settling;
};

struct lull_lease_table {
    uint64_t last_id;
    uint32_t gpu_count;
    struct seat seats[];
};

struct lull_lease_table *lull_lease_table_create(uint32_t gpu_count)
{
    struct lull_lease_table *table =
        calloc(1, sizeof(*table) + gpu_count * sizeof(table->seats[0]));

    if (table != NULL)
        table->gpu_count = gpu_count;
    return table;
}

void lull_lease_table_destroy(struct lull_lease_table *table)
{
    free(table);
}

int lull_lease_check(const struct lull_lease_table *table, uint32_t gpu, struct lull_error *err)
{
    if (gpu >= table->gpu_count)
        return lull_error_set(err, -ENODEV, "GPU %u: this node has %u GPUs", gpu, table->gpu_count);
    if (table->seats[gpu].lease.id != 0)
        return lull_error_set(err, -EBUSY, "GPU %u: leased by another client; see lull status",
                              gpu);
    if (table->seats[gpu].is_settling)
        return lull_error_set(err, -EBUSY, "GPU %u: being restored after a lease; try again", gpu);
    return 0;
}

int lull_lease_grant(struct lull_lease_table *table, const struct lull_lease_request *request,
                     int64_t now_ns, uint64_t *id_out, struct lull_error *err)
{
    const uint32_t gpu = request->gpu;
    const int result = lull_lease_check(table, gpu, err);

    if (result < 0)
        return result;
    if (request->band->min_mhz > request->band->max_mhz || request->ttl_ns <= 0)
        return lull_error_set(err, -EINVAL, "GPU %u: a lease needs a clock and a time", gpu);
    table->seats[gpu].lease = (struct lull_lease){++table->last_id, request->client, *request->band,
                                                  now_ns + request->ttl_ns};
    *id_out = table->last_id;
    return 0;
}

uint32_t lull_lease_renew(struct lull_lease_table *table, uint64_t client, int64_t now_ns,
                          int64_t ttl_ns)
{
    uint32_t count = 0;

    for (uint32_t gpu = 0; gpu < table->gpu_count; gpu++) {
        struct lull_lease *lease = &table->seats[gpu].lease;

        if (lease->id == 0 || lease->client != client)
            continue;
        lease->expires_ns = now_ns + ttl_ns;
        count++;
    }
    return count;
}

bool lull_lease_end(struct lull_lease_table *table, uint32_t gpu)
{
    struct seat *seat = &table->seats[gpu];

    if (seat->lease.id == 0)
        return false;
    *seat = (struct seat){.is_settling = true};
    return true;
}

void lull_lease_settle(struct lull_lease_table *table, uint32_t gpu)
{
    table->seats[gpu].is_settling = false;
}

uint64_t lull_lease_settling(const struct lull_lease_table *table)
{
    uint64_t mask = 0;

    for (uint32_t gpu = 0; gpu < table->gpu_count; gpu++)
        mask |= (uint64_t)table->seats[gpu].is_settling << gpu;
    return mask;
}

const struct lull_lease *lull_lease_find(const struct lull_lease_table *table, uint32_t gpu)
{
    if (gpu >= table->gpu_count || table->seats[gpu].lease.id == 0)
        return NULL;
    return &table->seats[gpu].lease;
}

int64_t lull_lease_next_expiry_ns(const struct lull_lease_table *table)
{
    int64_t next_ns = INT64_MAX;

    for (uint32_t gpu = 0; gpu < table->gpu_count; gpu++) {
        const struct lull_lease *lease = &table->seats[gpu].lease;

        if (lease->id != 0 && lease->expires_ns < next_ns)
            next_ns = lease->expires_ns;
    }
    return next_ns;
}

int lull_lease_find_expired(const struct lull_lease_table *table, int64_t now_ns)
{
    for (uint32_t gpu = 0; gpu < table->gpu_count; gpu++)
        if (table->seats[gpu].lease.id != 0 && table->seats[gpu].lease.expires_ns <= now_ns)
            return (int)gpu;
    return -ENOENT;
}
