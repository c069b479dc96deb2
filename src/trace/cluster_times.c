/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/cluster_times.h"

#include <stdbool.h>
#include <string.h>

#include "trace/decimal.h"

enum { NANO = 9 };

/* About 30 years: no sum of two such times overflows, nor a minute's 60 seconds. */
#define MOST_NS INT64_C(1000000000000000000)

const char *lull_cluster_time_parse(const char *text, size_t length, int64_t unit_s,
                                    int64_t *time_ns_out)
{
    int64_t time_ns = 0;

    if (lull_decimal_parse(text, length, NANO, &time_ns) < 0)
        return "no such number";
    if (time_ns < 0)
        return "a time below 0";
    if (time_ns > MOST_NS / unit_s)
        return "a time of over 30 years";
    *time_ns_out = time_ns * unit_s;
    return NULL;
}

const char *lull_cluster_steps_parse(const char *text, int64_t unit_s, int64_t submit_ns,
                                     struct lull_cluster_step steps[LULL_CLUSTER_STEPS_MAX],
                                     uint32_t *count_out)
{
    int64_t before_ns = 0;
    uint32_t count = 0;

    for (bool is_last = false; !is_last; count++) {
        const size_t length = strcspn(text, "-");
        int64_t time_ns = 0;
        const char *wrong;

        if (count == LULL_CLUSTER_STEPS_MAX)
            return "more than 16 of them";
        wrong = lull_cluster_time_parse(text, length, unit_s, &time_ns);
        if (wrong != NULL)
            return wrong;
        if (time_ns < before_ns)
            return "before the one ahead of it";
        before_ns = time_ns;
        steps[count] = (struct lull_cluster_step){submit_ns + time_ns, 1.0};
        is_last = text[length] == '\0';
        text += length + !is_last;
    }
    *count_out = count;
    return NULL;
}

const char *lull_cluster_values_parse(const char *text, struct lull_cluster_step *steps,
                                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const size_t length = strcspn(text, "-");
        int64_t nano = 0;

        if (lull_decimal_parse(text, length, NANO, &nano) < 0 || nano < 0)
            return "no such number";
        steps[i].value = (double)nano * 1e-9;
        if (i > 0 && steps[i].value > steps[i - 1].value)
            return "worth more for being later";
        if ((text[length] == '\0') != (i + 1 == count))
            return "not as many as deadlines";
        text += length + 1;
    }
    return NULL;
}
