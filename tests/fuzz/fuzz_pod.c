/*
 * Control groups of a process: any text names no pod, or one whose names have the promised form.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "base/pod.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);
    struct lull_pod pod;
    bool is_found;
    size_t uid;
    size_t container;

    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    is_found = lull_pod_find(text, &pod);
    uid = strlen(pod.uid);
    container = strlen(pod.container);
    require(uid == 0 || uid == 32 || uid == 36);
    require(strspn(pod.uid, "0123456789abcdef-") == uid);
    require(container == 0 || container == 64);
    require(strspn(pod.container, "0123456789abcdef") == container);
    require(is_found == (uid + container > 0));
    free(text);
    return 0;
}
