/*
 * Events of a grid, in Lull's own JSON and as responses of an OpenADR 3
 * server: refused with a message, or events that end after they begin, with
 * targets in watts; printing and reading them again gives the same events. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cli/budget/grid.h"
#include "fuzz.h"

static const int64_t now_s = 1796000000; /* in November 2026 */

static void check(const struct lull_grid_events *grid)
{
    static struct lull_grid_events begun; /* the target marks what has begun */

    require(grid->count <= LULL_GRID_MAX_EVENTS);
    for (uint32_t i = 0; i < grid->count; i++) {
        const struct lull_grid_event *event = &grid->events[i];

        require((event->begins_now ? now_s : event->begin_s) < event->end_s);
        require(event->end_s <= LULL_GRID_FOR_EVER && event->until_s <= LULL_GRID_FOR_EVER);
        require(event->after_s >= 0 && event->after_s < event->until_s);
        require(event->target_w >= 0.0 && isfinite(event->target_w));
        if (event->begins_now || event->after_s > 0)
            continue;
        begun = *grid;
        require(lull_grid_target_w(&begun, event->begin_s, 0) <= event->target_w);
    }
}

/* The times of Lull's own text are between the years 0 and 9999, so they can be printed. */
static void check_printing(const struct lull_grid_events *grid)
{
    static struct lull_grid_events again;
    char *text = lull_grid_print(grid);

    require(text != NULL);
    if (strlen(text) <= LULL_GRID_MAX_BYTES) {
        require(lull_grid_read("printed", text, strlen(text), 0, &again, NULL) == 0);
        require(again.count == grid->count);
        for (uint32_t i = 0; i < grid->count; i++) {
            const struct lull_grid_event *event = &grid->events[i];

            require(again.events[i].end_s == event->end_s);
            require(again.events[i].until_s == event->until_s);
            require(again.events[i].begin_s == event->begin_s || again.events[i].begins_now);
            require(fabs(again.events[i].target_w - event->target_w) <= 1e-9 * event->target_w);
        }
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lull_grid_events grid;
    const char *text = (const char *)data;
    struct lull_error err = {0};
    char word[64];
    int64_t number = -1;

    grid.count = 7;
    if (lull_grid_read("grid", text, size, now_s, &grid, &err) == 0) {
        check(&grid);
        check_printing(&grid);
    } else {
        require(grid.count == 7 && err.code == -EINVAL && strncmp(err.text, "grid", 4) == 0);
    }
    grid.count = 7;
    if (lull_grid_read_openadr("vtn", text, size, now_s, &grid, &err) == 0)
        check(&grid);
    else
        require(grid.count == 7 && err.code == -EINVAL && strncmp(err.text, "vtn", 3) == 0);
    if (size >= sizeof(word))
        return 0;
    memcpy(word, data, size);
    word[size] = '\0';
    if (lull_grid_parse_duration(word, &number) == 0)
        require(number >= 0 && number <= LULL_GRID_FOR_EVER);
    (void)lull_grid_parse_time(word, &number);
    return 0;
}
