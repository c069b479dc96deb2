/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/server_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "simulator/serving/arrivals_file.h"
#include "simulator/serving/llm_file.h"

int lull_cli_parse_llm(const char *text, void *llm, struct lull_error *err)
{
    static struct lull_llm read;
    const struct lull_llm *found = lull_llm_find(text);

    if (found == NULL && access(text, F_OK) == 0) {
        const int result = lull_llm_file_read(text, &read, err);

        if (result < 0)
            return result;
        found = &read;
    }
    if (found == NULL)
        return LULL_E_UNSUPPORTED;
    memcpy(llm, &found, sizeof(found));
    return 0;
}

const char *lull_cli_llm_name(uint32_t index)
{
    return index < lull_llm_count ? lull_llms[index].name : NULL;
}

int lull_cli_read_arrivals(const char *command, const char *path,
                           struct lull_server_arrivals *trace_out, uint64_t *skipped_out,
                           struct lull_error *err)
{
    struct lull_server_arrivals_skipped skipped;
    const int result = lull_server_arrivals_read(path, trace_out, &skipped, err);

    if (result < 0)
        return result;
    *skipped_out = skipped.rows;
    if (skipped.rows > 0)
        fprintf(stderr, "lull %s: %" PRIu64 " rows left out; the first one: %s\n", command,
                skipped.rows, skipped.reason);
    return 0;
}
