/* SPDX-License-Identifier: Apache-2.0 */
#include "base/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/printable.h"

/* Moves to the first column and clears the line. */
static const char clear_line[] = "\r\033[K";

static const int64_t silent_ns = 2 * LULL_NS_PER_S;
static const int64_t redraw_ns = 200 * LULL_NS_PER_MS;

struct lull_progress lull_progress_begin(void)
{
    return (struct lull_progress){.begun_ns = lull_now_ns()};
}

bool lull_progress_is_due(struct lull_progress *progress)
{
    const int64_t now_ns = lull_now_ns();

    if (now_ns - progress->begun_ns < silent_ns || now_ns - progress->drawn_ns < redraw_ns ||
        !isatty(STDERR_FILENO))
        return false;
    progress->drawn_ns = now_ns;
    return true;
}

void lull_progress_draw(const char *format, ...)
{
    char text[512];
    char shown[500];
    va_list arguments;
    int length;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    lull_printable_write(text, shown, sizeof(shown));
    length = snprintf(text, sizeof(text), "%s%s", clear_line, shown);
    lull_log_text(text, (size_t)length, 0);
}

void lull_progress_end(const struct lull_progress *progress)
{
    if (progress->drawn_ns != 0)
        lull_log_text(clear_line, strlen(clear_line), 0);
}
