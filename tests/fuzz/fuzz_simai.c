/*
 * SimAI's workloads: refused with a message, or numbers in their ranges.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"
#include "cluster/trace/simai.h"

static void check_work(const struct lull_simai_workload *workload,
                       const struct lull_simai_work *work)
{
    require(work->compute_ns >= 0 && work->size_bytes >= 0);
    require(work->collective <= LULL_CHAKRA_UNTOLD);
    require(lull_simai_name(workload, work->group) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_simai_workload workload;
    struct lull_error err = {0};

    if (lull_simai_read(text_file(data, size), &workload, &err) < 0) {
        require(err.text[0] != '\0' && workload.layers == NULL);
    } else {
        require(workload.count > 0);
        for (size_t i = 0; i < workload.count; i++)
            for (int part = 0; part < LULL_SIMAI_PARTS; part++)
                check_work(&workload, &workload.layers[i].parts[part]);
        lull_simai_fini(&workload);
    }
    return 0;
}
