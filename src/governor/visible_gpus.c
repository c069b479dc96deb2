/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/visible_gpus.h"

#include <stdlib.h>
#include <string.h>

uint32_t lull_visible_gpus(const struct lull_devices *devices, uint32_t *gpus_out,
                           uint32_t capacity)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const uint32_t count = lull_devices_count(devices);
    char *copy = visible == NULL ? NULL : strdup(visible);
    char *rest = NULL;
    uint32_t seen = 0;

    if (copy == NULL) {
        while (seen < count && seen < capacity) {
            gpus_out[seen] = seen;
            seen++;
        }
        return seen;
    }
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        char *end;
        long index = strtol(word, &end, 10);

        if (end == word || *end != '\0')
            index = lull_device_find(devices, word);
        /* Like CUDA: the first entry that does not exist ends the list. */
        if (index < 0 || (uint32_t)index >= count || seen == capacity)
            break;
        gpus_out[seen++] = (uint32_t)index;
    }
    free(copy);
    return seen;
}
