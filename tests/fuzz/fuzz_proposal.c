/*
 * Any bytes may be decoded; what decodes, encodes to the same bytes, and an agreement takes it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "wire/proposal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_agreement *agreement;
    struct lull_proposal proposal;
    uint8_t buffer[LULL_PROPOSAL_MAX_BYTES];

    if (lull_proposal_decode(data, size, &proposal) < 0)
        return 0;
    if (lull_proposal_encode(&proposal, buffer) != size || memcmp(buffer, data, size) != 0)
        abort();
    agreement = lull_agreement_create(0, 2, 1000);
    if (agreement == NULL)
        return 0;
    lull_agreement_take(agreement, &proposal, 0);
    if (lull_agreement_state(agreement, 0) == LULL_AGREEMENT_AGREED)
        abort(); /* one word cannot make two nodes agree */
    lull_agreement_destroy(agreement);
    return 0;
}
