/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/peer_proposal.h"

#include <assert.h>

#include "base/error.h"

static const uint32_t proposal_magic = 0x47544c4c; /* "LLTG" */

enum {
    ARRIVAL_VERSION = 2, /* the first version that has it */
    ARRIVAL_BYTES = 28,
    MIN_BYTES = LULL_PROPOSAL_HEADER_BYTES - ARRIVAL_BYTES,
};

/* The place in a message where the next number is written or read. */
struct writer {
    uint8_t *bytes;
};

struct reader {
    const uint8_t *bytes;
};

static void proposal_put(struct writer *writer, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        *writer->bytes++ = (uint8_t)(value >> (8 * i));
}

static uint64_t proposal_get(struct reader *reader, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)*reader->bytes++ << (8 * i);
    return value;
}

static uint32_t get_u32(struct reader *reader)
{
    return (uint32_t)proposal_get(reader, 4);
}

static void put_entry(struct writer *writer, const struct lull_proposal_entry *entry)
{
    proposal_put(writer, entry->signature, 8);
    proposal_put(writer, entry->from_iteration, 8);
    proposal_put(writer, entry->kept_mhz, 4);
    proposal_put(writer, entry->refused_mhz, 4);
    proposal_put(writer, entry->settled, 4);
    proposal_put(writer, 0, 4);
}

static void put_arrival(struct writer *writer, const struct lull_arrival *arrival)
{
    proposal_put(writer, arrival->iteration, 8);
    proposal_put(writer, arrival->collectives, 4);
    proposal_put(writer, arrival->total_us, 4);
    proposal_put(writer, arrival->common_us, 4);
    proposal_put(writer, arrival->depth, 4);
    proposal_put(writer, arrival->kind_count, 4);
}

static void put_kind(struct writer *writer, const struct lull_arrival_kind *kind)
{
    proposal_put(writer, kind->signature, 8);
    proposal_put(writer, kind->longest_us, 4);
    proposal_put(writer, kind->common_us, 4);
}

size_t lull_proposal_encode(const struct lull_proposal *proposal, uint32_t version, uint8_t *buffer)
{
    struct writer writer = {buffer};
    const bool has_arrival = version >= ARRIVAL_VERSION;

    assert(version >= LULL_PROPOSAL_OLDEST && version <= LULL_PROPOSAL_VERSION);
    assert(proposal->entry_count <= LULL_PROPOSAL_MAX_ENTRIES &&
           proposal->arrival.kind_count <= LULL_ARRIVAL_KINDS);
    proposal_put(&writer, proposal_magic, 4);
    proposal_put(&writer, version, 2);
    proposal_put(&writer, proposal->entry_count, 2);
    proposal_put(&writer, proposal->node, 4);
    proposal_put(&writer, proposal->nodes, 4);
    proposal_put(&writer, proposal->incarnation, 8);
    proposal_put(&writer, proposal->sequence, 8);
    proposal_put(&writer, proposal->structure, 8);
    proposal_put(&writer, proposal->window_iterations, 4);
    proposal_put(&writer, proposal->leaving, 4);
    if (has_arrival)
        put_arrival(&writer, &proposal->arrival);
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        put_entry(&writer, &proposal->entries[i]);
    for (uint32_t i = 0; has_arrival && i < proposal->arrival.kind_count; i++)
        put_kind(&writer, &proposal->arrival.kinds[i]);
    return (size_t)(writer.bytes - buffer);
}

/* Reads an entry. False: no governor writes such an entry. */
static bool get_entry(struct reader *reader, struct lull_proposal_entry *entry)
{
    entry->signature = proposal_get(reader, 8);
    entry->from_iteration = proposal_get(reader, 8);
    entry->kept_mhz = get_u32(reader);
    entry->refused_mhz = get_u32(reader);
    entry->settled = get_u32(reader);
    return get_u32(reader) == 0 && entry->settled <= 1 && entry->kept_mhz != 0;
}

/* Reads how a node's ranks came, without the kinds. */
static void get_arrival(struct reader *reader, struct lull_arrival *arrival)
{
    arrival->iteration = proposal_get(reader, 8);
    arrival->collectives = get_u32(reader);
    arrival->total_us = get_u32(reader);
    arrival->common_us = get_u32(reader);
    arrival->depth = get_u32(reader);
    arrival->kind_count = get_u32(reader);
}

/* Reads a kind. False: no governor writes such a kind. */
static bool get_kind(struct reader *reader, struct lull_arrival_kind *kind)
{
    kind->signature = proposal_get(reader, 8);
    kind->longest_us = get_u32(reader);
    kind->common_us = get_u32(reader);
    return kind->common_us >= kind->longest_us;
}

/* Returns whether a message with so many entries and kinds may have this size. */
static bool is_size(const struct lull_proposal *proposal, uint32_t version, size_t size)
{
    const size_t header = version < ARRIVAL_VERSION ? MIN_BYTES : LULL_PROPOSAL_HEADER_BYTES;
    const size_t known = header + (size_t)proposal->entry_count * LULL_PROPOSAL_ENTRY_BYTES +
                         (size_t)proposal->arrival.kind_count * LULL_PROPOSAL_KIND_BYTES;

    return version > LULL_PROPOSAL_VERSION ? size >= known : size == known;
}

/* Reads what comes after the version. False: no governor writes that. */
static bool get_proposal(struct reader *reader, uint32_t version, size_t size,
                         struct lull_proposal *proposal)
{
    proposal->entry_count = (uint32_t)proposal_get(reader, 2);
    proposal->node = get_u32(reader);
    proposal->nodes = get_u32(reader);
    proposal->incarnation = proposal_get(reader, 8);
    proposal->sequence = proposal_get(reader, 8);
    proposal->structure = proposal_get(reader, 8);
    proposal->window_iterations = get_u32(reader);
    proposal->leaving = get_u32(reader);
    if (version >= ARRIVAL_VERSION)
        get_arrival(reader, &proposal->arrival);
    if (proposal->entry_count > LULL_PROPOSAL_MAX_ENTRIES ||
        proposal->arrival.kind_count > LULL_ARRIVAL_KINDS || !is_size(proposal, version, size) ||
        proposal->node >= proposal->nodes || proposal->leaving > 1)
        return false;
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        if (!get_entry(reader, &proposal->entries[i]))
            return false;
    for (uint32_t i = 0; i < proposal->arrival.kind_count; i++)
        if (!get_kind(reader, &proposal->arrival.kinds[i]))
            return false;
    return true;
}

int lull_proposal_decode(const uint8_t *buffer, size_t size, struct lull_proposal *proposal_out)
{
    struct lull_proposal proposal = {0};
    struct reader reader = {buffer};
    uint32_t version;

    if (size < MIN_BYTES || get_u32(&reader) != proposal_magic)
        return LULL_E_FORMAT;
    version = (uint32_t)proposal_get(&reader, 2);
    if (version < LULL_PROPOSAL_OLDEST ||
        (version >= ARRIVAL_VERSION && size < LULL_PROPOSAL_HEADER_BYTES) ||
        !get_proposal(&reader, version, size, &proposal))
        return LULL_E_FORMAT;
    *proposal_out = proposal;
    return (int)version;
}
