/*
 * The sequence locator finds the position of a stream of events in a known sequence that repeats
 * without end. It identifies a device's operations, of which only the kind is observed.
 *
 * The stream may be joined anywhere. If the sequence has one rotation that fits, the place is known
 * after one round; if several fit (forward and backward in turn, as on the last stage of a 1F1B
 * pipeline), the longest pause of each of two rounds decides: the pipeline drains and fills again
 * between iterations. What does not fit is a deviation, and the search begins again.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_SEQUENCE_LOCATOR_H
#define LULL_CORE_PIPELINE_FOLLOW_SEQUENCE_LOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#define LULL_SEQUENCE_LOCATOR_UNKNOWN UINT32_MAX

struct lull_sequence_locator;

/* Copies the symbols of one round, count >= 1. null: out of memory. */
struct lull_sequence_locator *lull_sequence_locator_create(const uint32_t *symbols, uint32_t count);
void lull_sequence_locator_destroy(struct lull_sequence_locator *locator);

/*
 * Takes the next event, in the order of times. pause_ns: how long nothing had gone on before it.
 * Returns its place, from 0, or LULL_SEQUENCE_LOCATOR_UNKNOWN. O(1) while the place is known, else
 * O(count).
 */
uint32_t lull_sequence_locator_take(struct lull_sequence_locator *locator, uint32_t symbol,
                                    int64_t pause_ns);

/* Forgets the place, because events were lost. */
void lull_sequence_locator_forget(struct lull_sequence_locator *locator);

#endif
