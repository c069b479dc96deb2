/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/release.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct lull_release *lull_release_newest(void)
{
    return &lull_releases[lull_release_count - 1];
}

/* Returns whether a text is numbers with single dots between them. */
static bool release_is_version(const char *text)
{
    const size_t digits = strspn(text, "0123456789");

    if (digits == 0)
        return false;
    if (text[digits] == '\0')
        return true;
    return text[digits] == '.' && release_is_version(text + digits + 1);
}

static int release_report_unknown(const char *text, struct lull_error *err)
{
    char known[128] = "";

    for (uint32_t i = 0; i < lull_release_count; i++) {
        const size_t used = strlen(known);

        snprintf(known + used, sizeof(known) - used, "%s%u", i > 0 ? ", " : "",
                 lull_releases[i].branch);
    }
    return lull_error_set(err, LULL_E_UNSUPPORTED, "%s: unknown driver branch. Known branches: %s",
                          text, known);
}

int lull_release_parse(const char *text, struct lull_release *out, struct lull_error *err)
{
    if (strlen(text) >= sizeof(out->version) || !release_is_version(text))
        return lull_error_set(
            err, -EINVAL,
            "%.40s: not a driver version. Give a branch or a version, such as %u or %s", text,
            lull_releases[0].branch, lull_releases[0].version);
    for (uint32_t i = 0; i < lull_release_count; i++) {
        if (strtoul(text, NULL, 10) != lull_releases[i].branch)
            continue;
        *out = lull_releases[i];
        if (strchr(text, '.') != NULL)
            snprintf(out->version, sizeof(out->version), "%s", text);
        return 0;
    }
    return release_report_unknown(text, err);
}
