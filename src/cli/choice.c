/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/choice.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

int lull_cli_parse_choice(const char *text, struct lull_job_selector *selector)
{
    static const char bound[] = "slowdown=";
    enum lull_job_aim aim;

    if (strncmp(text, bound, sizeof(bound) - 1) == 0) {
        if (lull_text_parse_ratio(text + sizeof(bound) - 1, &selector->slowdown_ratio) < 0)
            return -EINVAL;
        selector->aim = LULL_JOB_SLOWDOWN;
        return 0;
    }
    if (lull_job_aim_parse(strcmp(text, "edp") == 0 ? lull_job_aim_name(LULL_JOB_DELAY) : text,
                           &aim) < 0 ||
        aim == LULL_JOB_SLOWDOWN)
        return -EINVAL;
    selector->aim = aim;
    return 0;
}
