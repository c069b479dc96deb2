/*
 * A latency objective: refused with a text that shows the form, or bounds that are times and a
 * share in its range. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/serving/objective.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);
    struct lull_objective objective = {-1.0, -1.0, -1.0};
    struct lull_error err = {0};

    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (lull_objective_parse(text, &objective, &err) < 0) {
        require(err.code == -EINVAL && strstr(err.text, "tpot=50ms@p99") != NULL);
        require(objective.ttft_s < 0.0 && objective.tpot_s < 0.0 && objective.share < 0.0);
    } else {
        require(objective.ttft_s > 0.0 && objective.tpot_s > 0.0);
        require(isfinite(objective.ttft_s) || isfinite(objective.tpot_s));
        require(objective.share > 0.5 && objective.share < 1.0);
    }
    free(text);
    return 0;
}
