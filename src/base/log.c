/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* The filter of the whole process, which is written at the start and read everywhere. */
static atomic_int enabled_level = LULL_LOG_WARNING;

void lull_log_init(enum lull_log_level fallback)
{
    const char *wanted = getenv("LULL_LOG");

    atomic_store(&enabled_level, (int)fallback);
    for (int i = 0; wanted != NULL && i <= LULL_LOG_DEBUG; i++)
        if (strcmp(wanted, level_names[i]) == 0)
            atomic_store(&enabled_level, i);
}

void lull_log(enum lull_log_level level, const char *object, const char *format, ...)
{
    char text[400];
    char line[512];
    va_list args;
    int length;

    if ((int)level > atomic_load(&enabled_level))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    length =
        snprintf(line, sizeof(line), "%s%s: %s: %s\n",
                 strncmp(object, "lull", 4) == 0 ? "" : "lull ", object, level_names[level], text);
    if (length > (int)sizeof(line) - 1)
        length = (int)sizeof(line) - 1;
    /* The line is one write, so that lines of several processes do not mix. */
    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        return;
}
