/*
 * lull emulate set: changes the faults of a running node. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/shared/command.h"
#include "emulator/driver.h"

struct emulate_set_arguments {
    bool is_list;
};

static void list_kinds(void)
{
    for (int i = 0; i < LULL_FAULT_KINDS; i++)
        printf("%-20s %s\n", lull_fault_name((enum lull_fault_kind)i),
               lull_fault_help((enum lull_fault_kind)i));
}

/* Opens the node whose file is the first word, or that of the environment. */
static int open_node(const struct lull_operands *operands, struct lull_node **node_out,
                     uint32_t *faults_from_out, struct lull_error *err)
{
    const bool is_named = operands->count > 0 && operands->words[0][0] == '/';
    const char *path = is_named ? operands->words[0] : getenv(LULL_EMULATED_NODE_VARIABLE);

    *faults_from_out = is_named ? 1 : 0;
    if (path == NULL || *path == '\0')
        return lull_error_set(err, -EINVAL,
                              "no node: give the path in $" LULL_EMULATED_NODE_VARIABLE
                              " of a command on it");
    return lull_node_open(path, node_out, err);
}

static int set_faults(const struct lull_operands *operands, struct lull_error *err)
{
    struct lull_node *node;
    uint32_t from;
    int result = open_node(operands, &node, &from, err);

    if (result < 0)
        return result;
    if (from == operands->count)
        result = lull_error_set(err, -EINVAL, "no FAULT: `lull emulate set --list` lists them");
    for (uint32_t i = from; i < operands->count && result == 0; i++)
        result = lull_node_set_faults(node, operands->words[i], err);
    lull_node_close(node);
    return result;
}

static int emulate_set_run(void *options, const struct lull_operands *operands)
{
    const struct emulate_set_arguments *const arguments = options;
    struct lull_error err = {0};

    if (arguments->is_list) {
        list_kinds();
        return LULL_EXIT_OK;
    }
    return set_faults(operands, &err) < 0 ? lull_cli_fail("emulate set", &err) : LULL_EXIT_OK;
}

static const struct lull_option rows[] = {
    LULL_FLAG("list", struct emulate_set_arguments, is_list, "List the faults and exit."),
    {0},
};

const struct lull_program_command lull_emulate_set_command = {
    .name = "emulate set",
    .summary = "change the faults of a running emulated node",
    .arguments = "[NODE] FAULT...",
    .about =
        "Injects faults into the node of `lull emulate`, or ends them with NAME=off. NODE is the "
        "path of its file; the default is $LULL_EMULATED_NODE. FAULT has the form of --fault: "
        "[GPU:]NAME[=VALUE[xCOUNT][@AFTER]][,...].",
    .after = "Examples:\n"
             "  lull emulate set 0:xid=79x1\n"
             "  lull emulate set deny=nvmlDeviceSetGpuLockedClocks energy_factor=2\n"
             "  lull emulate set deny=off energy_factor=off",
    .tables = {{rows, 0}},
    .operands = {.most = UINT32_MAX},
    .size = sizeof(struct emulate_set_arguments),
    .run = emulate_set_run,
};
