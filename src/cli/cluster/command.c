/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/cluster.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "core/cluster/policy.h"

/* Policies that are no longer here: lull-reproduce has a command of the same name for each. */
static const char *const reproduced[] = {"edl", "ada-srsf"};

enum { REPRODUCED_COUNT = sizeof(reproduced) / sizeof(reproduced[0]) };

static void print_knob(const struct lull_cluster_policy_ops *ops, FILE *out)
{
    if (ops->knob != NULL)
        fprintf(out, "  %-22s --knob: %s (%g)\n", "", ops->knob->what, ops->knob->usual);
}

static void print_policies(const struct lull_cluster_policy_ops *const *ops, FILE *out)
{
    for (; *ops != NULL; ops++) {
        fprintf(out, "  %-22s %s\n", (*ops)->name, (*ops)->summary);
        print_knob(*ops, out);
    }
}

static void print_usage(FILE *out)
{
    fprintf(out,
            "Usage: lull " LULL_CLUSTER_COMMAND " --policy NAME [OPTION...] FILE\n"
            "  or:  lull " LULL_CLUSTER_COMMAND " --compare NAME,NAME... [OPTION...] FILE\n"
            "Runs many jobs on a cluster in virtual time, under a policy for gangs in queues:\n\n");
    print_policies(lull_cluster_policy_all(), out);
    fprintf(out, "\nor for those with a value:\n\n");
    print_policies(lull_cluster_policy_of_values(), out);
    fprintf(out, "\n`lull " LULL_CLUSTER_COMMAND " --policy NAME --help` tells its options.\n");
}

/* Takes --policy NAME, in one word or two, out of argv. NULL: it is not there, or has no name. */
static const char *take_policy(int *argc, char **argv)
{
    static const char option[] = "--policy";
    const size_t length = sizeof(option) - 1;

    for (int i = 1; i < *argc; i++) {
        const char *name = argv[i] + length;
        int words = 1;

        if (strncmp(argv[i], option, length) != 0 || (*name != '=' && *name != '\0'))
            continue;
        if (*name++ == '\0') {
            name = argv[i + 1]; /* NULL after the last one */
            words = name == NULL ? 1 : 2;
        }
        memmove(&argv[i], &argv[i + words], (size_t)(*argc - i - words + 1) * sizeof(*argv));
        *argc -= words;
        return name;
    }
    return NULL;
}

static bool is_comparison(int argc, char **argv)
{
    static const char option[] = "--compare";

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], option, sizeof(option) - 1) == 0)
            return true;
    return false;
}

static int refuse_reproduced(const char *name)
{
    fprintf(stderr,
            "lull " LULL_CLUSTER_COMMAND
            ": the policy %s is now a command of a program of its own, "
            "with the same options; type: lull-reproduce %s\n",
            name, name);
    return LULL_EXIT_USAGE;
}

static int run(const char *wanted, int argc, char **argv)
{
    for (int i = 0; i < REPRODUCED_COUNT; i++)
        if (strcmp(reproduced[i], wanted) == 0)
            return refuse_reproduced(wanted);
    if (lull_cluster_policy_find(wanted) != NULL)
        return lull_cluster_gangs_main(wanted, argc, argv);
    fprintf(stderr, "lull " LULL_CLUSTER_COMMAND ": there is no policy %s; see --help\n", wanted);
    return LULL_EXIT_USAGE;
}

int lull_cluster_main(int argc, char **argv)
{
    static char name[96];
    const char *const wanted = take_policy(&argc, argv);
    bool is_help;

    if (wanted != NULL) {
        snprintf(name, sizeof(name), "lull " LULL_CLUSTER_COMMAND " --policy %s", wanted);
        argv[0] = name;
        return run(wanted, argc, argv);
    }
    if (is_comparison(argc, argv)) {
        snprintf(name, sizeof(name), "lull " LULL_CLUSTER_COMMAND);
        argv[0] = name;
        return lull_cluster_gangs_main(NULL, argc, argv);
    }
    is_help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0);

    print_usage(is_help ? stdout : stderr);
    return is_help ? LULL_EXIT_OK : LULL_EXIT_USAGE;
}
