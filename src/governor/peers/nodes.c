/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/peers/nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/section/agreement.h"

/* A launcher's own words for both; with one lull run per node its ranks are the nodes. */
static const struct {
    const char *self;
    const char *count;
} launchers[] = {
    {"SLURM_NODEID", "SLURM_STEP_NUM_NODES"},
    {"SLURM_NODEID", "SLURM_NNODES"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"PMIX_RANK", "PMIX_SIZE"},
};

static int set(const char *self, const char *count, struct lull_nodes *nodes_out)
{
    int64_t index;
    int64_t nodes;

    if (lull_text_parse_int(count, 1, LULL_AGREEMENT_MAX_NODES, &nodes) < 0 ||
        lull_text_parse_int(self, 0, nodes - 1, &index) < 0)
        return -EINVAL;
    *nodes_out = (struct lull_nodes){(uint32_t)index, (uint32_t)nodes};
    return 0;
}

int lull_nodes_parse(const char *text, struct lull_nodes *nodes_out)
{
    const char *slash = strchr(text, '/');
    char self[8];

    if (slash == NULL || (size_t)(slash - text) >= sizeof(self))
        return -EINVAL;
    memcpy(self, text, (size_t)(slash - text));
    self[slash - text] = '\0';
    return set(self, slash + 1, nodes_out);
}

int lull_nodes_find(struct lull_nodes *nodes_out, struct lull_error *err)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *self = getenv(launchers[i].self);
        const char *count = getenv(launchers[i].count);

        if (self != NULL && count != NULL && set(self, count, nodes_out) == 0)
            return 0;
    }
    return lull_error_set(err, -ENOENT,
                          "no launcher says which node of how many (at most %d) this is; give "
                          "--node I/N",
                          LULL_AGREEMENT_MAX_NODES);
}
