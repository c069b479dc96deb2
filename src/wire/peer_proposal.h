/*
 * Proposals between the governors of one job: what core/section/agreement.h calls a proposal, as
 * one message of a fixed header, up to LULL_PROPOSAL_MAX_ENTRIES entries, and up to
 * LULL_ARRIVAL_KINDS kinds of collectives (core/section/arrival.h), little-endian. Pure functions:
 * no I/O, no allocation, no log; any bytes may be decoded.
 *
 *   0 magic "LLTG"   4 version   6 entries (u16 each)   8 node   12 nodes   16 incarnation
 *   24 sequence   32 structure   40 window   44 leaving   48 iteration that the arrival is of
 *   56 collectives   60 total   64 common   68 depth   72 kinds   76 entries of 32 bytes:
 * signature, iteration (u64 each), kept, refused, settled, 0 (u32 each); then kinds of 16 bytes:
 * signature (u64), longest, common (u32 each)
 *
 * Version 2 has added the arrival: bytes 48 to 75, and the kinds. Nodes of neighbouring releases
 * must work together during a rolling update. So version 1 is also read and written, and of a later
 * version the part that version 2 defines is read. A later version may therefore only append, up to
 * LULL_PROPOSAL_MAX_READ bytes.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_PEER_PROPOSAL_H
#define LULL_WIRE_PEER_PROPOSAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/section/agreement.h"

enum {
    LULL_PROPOSAL_VERSION = 2,
    LULL_PROPOSAL_OLDEST = 1,
    LULL_PROPOSAL_HEADER_BYTES = 76,
    LULL_PROPOSAL_ENTRY_BYTES = 32,
    LULL_PROPOSAL_KIND_BYTES = 16,
    LULL_PROPOSAL_MAX_BYTES = LULL_PROPOSAL_HEADER_BYTES +
                              LULL_PROPOSAL_MAX_ENTRIES * LULL_PROPOSAL_ENTRY_BYTES +
                              LULL_ARRIVAL_KINDS * LULL_PROPOSAL_KIND_BYTES,
    LULL_PROPOSAL_MAX_READ = LULL_PROPOSAL_MAX_BYTES + 1024,
};

/* Writes the proposal in a version, LULL_PROPOSAL_OLDEST to LULL_PROPOSAL_VERSION, into
 * LULL_PROPOSAL_MAX_BYTES of buffer; returns its size. */
size_t lull_proposal_encode(const struct lull_proposal *proposal, uint32_t version,
                            uint8_t *buffer);

/*
 * Reads exactly one proposal of size bytes, and returns its version, above 0. Of version 1 the
 * arrival is zero. Errors: LULL_E_FORMAT not a proposal, wrong length, or numbers that no governor
 * writes. proposal_out is written on success only.
 */
int lull_proposal_decode(const uint8_t *buffer, size_t size, struct lull_proposal *proposal_out);

#endif
