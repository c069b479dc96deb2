/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serving_options.h"

int lull_cli_parse_slo(const char *text, void *place, struct lull_error *err)
{
    struct lull_serving_options *const serving = place;
    const int result = lull_objective_parse(text, &serving->objective, err);

    if (result < 0)
        return result;
    serving->has_objective = true;
    return 0;
}
