/* Names of ranges: a name classified as forward or backward always contains that word.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "probe/nvtx_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *name = malloc(size + 1);
    enum lull_nvtx_kind kind;

    memcpy(name, data, size);
    name[size] = '\0';
    kind = lull_nvtx_kind_of(name);
    require(kind == LULL_NVTX_NONE || kind == LULL_NVTX_FORWARD || kind == LULL_NVTX_BACKWARD);
    if (kind == LULL_NVTX_FORWARD)
        require(strcasestr(name, "forward") != NULL || strcasestr(name, "fwd") != NULL);
    if (kind == LULL_NVTX_BACKWARD)
        require(strcasestr(name, "backward") != NULL || strcasestr(name, "bwd") != NULL);
    free(name);
    return 0;
}
