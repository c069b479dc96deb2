/*
 * Slurm's data of a job: words in comments that users and others may have written, and lists of
 * resources. A mark that is written and read again is the same.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "cluster/slurm/schedule/mark.h"

static const int64_t now_s = 1800000000;

static void check_again(const char *comment, struct lull_mark *mark)
{
    char text[LULL_MARK_BYTES];
    struct lull_mark again;

    mark->is_placed = true;
    if (lull_mark_write(comment, mark, text) < 0)
        return;
    require(strlen(text) < LULL_MARK_BYTES);
    lull_mark_read(text, NULL, now_s, &again);
    require(again.is_asked && again.is_placed);
    require(again.placed_s == mark->placed_s && again.sm_mhz == mark->sm_mhz);
    require(again.limit_min == mark->limit_min && again.tries == mark->tries);
    require(again.deadline_s == mark->deadline_s && strcmp(again.name, mark->name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);
    struct lull_gpu_count count;
    struct lull_mark mark;

    memcpy(text, data, size);
    text[size] = '\0';
    lull_mark_read(text, text, now_s, &mark);
    require(memchr(mark.name, '\0', sizeof(mark.name)) != NULL);
    require(mark.placed_s >= 0 && mark.deadline_s >= 0);
    check_again(text, &mark);
    lull_gpu_count_read(text, &count);
    require(memchr(count.type, '\0', sizeof(count.type)) != NULL);
    free(text);
    return 0;
}
