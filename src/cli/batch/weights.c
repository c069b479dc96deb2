/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch/weights.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

static int parse_beta(const char *text, double *beta_out)
{
    double beta = INFINITY;

    if (strcmp(text, "inf") != 0 && lull_text_parse_number(text, &beta) < 0)
        return -EINVAL;
    if (!(beta >= 1.0))
        return -EINVAL;
    *beta_out = beta;
    return 0;
}

int lull_batch_weights_parse(int key, const char *text, double *eta_ratio, double *beta_ratio)
{
    switch (key) {
    case LULL_BATCH_KEY_ETA:
        return lull_text_parse_ratio(text, eta_ratio);
    case LULL_BATCH_KEY_BETA:
        return parse_beta(text, beta_ratio);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}
