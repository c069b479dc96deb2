/*
 * Any bytes may be decoded; a decoded proposal encodes to the
 * same bytes, and an agreement and arrivals accept it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "wire/peer_proposal.h"

/* Two nodes say the same of how their ranks came: the latest of both are those of one. */
static void take_arrival(const struct lull_proposal *proposal)
{
    struct lull_arrivals *arrivals = lull_arrivals_create(0, 2);
    struct lull_arrival latest;

    if (arrivals == NULL)
        return;
    lull_arrivals_take(arrivals, proposal->node, proposal->incarnation, &proposal->arrival);
    if (lull_arrivals_find(arrivals, &latest))
        abort();
    for (uint32_t i = 0; i < 2; i++)
        lull_arrivals_take(arrivals, i, proposal->incarnation, &proposal->arrival);
    if (lull_arrivals_find(arrivals, &latest) != (proposal->arrival.collectives > 0) ||
        (proposal->arrival.collectives > 0 && latest.total_us != proposal->arrival.total_us))
        abort();
    lull_arrivals_destroy(arrivals);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_agreement *agreement;
    struct lull_proposal proposal;
    uint8_t buffer[LULL_PROPOSAL_MAX_BYTES];
    const int version = lull_proposal_decode(data, size, &proposal);

    if (version < 0)
        return 0;
    if (version <= LULL_PROPOSAL_VERSION &&
        (lull_proposal_encode(&proposal, (uint32_t)version, buffer) != size ||
         memcmp(buffer, data, size) != 0))
        abort();
    agreement = lull_agreement_create(0, 2, 1000);
    if (agreement == NULL)
        return 0;
    lull_agreement_take(agreement, &proposal, 0);
    if (lull_agreement_state(agreement, 0) == LULL_AGREEMENT_AGREED)
        abort(); /* one word cannot make two nodes agree */
    lull_agreement_destroy(agreement);
    take_arrival(&proposal);
    return 0;
}
