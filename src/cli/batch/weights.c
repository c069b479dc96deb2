/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch/weights.h"

#include <argp.h>

#include "base/text.h"

int lull_batch_weights_parse(int key, const char *text, double *eta_ratio, double *beta_ratio)
{
    switch (key) {
    case LULL_BATCH_KEY_ETA:
        return lull_text_parse_ratio(text, eta_ratio);
    case LULL_BATCH_KEY_BETA:
        return lull_text_parse_at_least(text, 1.0, beta_ratio);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}
