/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/slurm/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes a directory, in which %n represents the node's name, for hosts that are several nodes. */
static bool take_directory(const char *text, char place[LULL_SITE_NAME])
{
    const char *const mark = strstr(text, "%n");
    const char *const node = getenv("SLURMD_NODENAME");

    if (mark == NULL)
        return (size_t)snprintf(place, LULL_SITE_NAME, "%s", text) < LULL_SITE_NAME;
    return (size_t)snprintf(place, LULL_SITE_NAME, "%.*s%s%s", (int)(mark - text), text,
                            node != NULL ? node : "", mark + 2) < LULL_SITE_NAME;
}

bool lull_site_take(struct lull_site *site, const char *word)
{
    if (strncmp(word, "lull=/", 6) == 0)
        return (size_t)snprintf(site->program, LULL_SITE_NAME, "%s", word + 5) < LULL_SITE_NAME;
    if (strncmp(word, "runtime_dir=/", 13) == 0)
        return take_directory(word + 12, site->runtime_dir);
    if (strncmp(word, "start_ms=", 9) == 0)
        return (site->start_ms = strtol(word + 9, NULL, 10)) > 0;
    if (strncmp(word, "scheduler=/", 11) == 0)
        return (size_t)snprintf(site->scheduler, LULL_SITE_NAME, "%s", word + 10) < LULL_SITE_NAME;
    if (strncmp(word, "together_ports=", 15) == 0)
        return lull_together_take_ports(word + 15, &site->ports);
    if (strcmp(word, "schedule=on") == 0 || strcmp(word, "schedule=off") == 0) {
        site->is_scheduled = strcmp(word, "schedule=on") == 0;
        return true;
    }
    if (strcmp(word, "default=on") == 0 || strcmp(word, "default=off") == 0) {
        site->is_default = strcmp(word, "default=on") == 0;
        return true;
    }
    return false;
}
