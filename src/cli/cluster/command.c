/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/cluster.h"

#include <string.h>

#include "base/error.h"

static const struct {
    const char *name;
    int (*run)(const char *policy, int argc, char **argv);
    const char *what;
} policies[] = {
    {"edl", lull_cluster_edl_main,
     "tasks of one GPU with deadlines; clocks by least energy, readjusted (TPDS 2022)"},
    {"fifo", lull_cluster_gangs_main, "gangs in queues: first come, first served"},
    {"edf", lull_cluster_gangs_main, "gangs in queues: earliest deadline first"},
    {"sjf", lull_cluster_gangs_main, "gangs in queues: shortest job first"},
    {"pd-rats", lull_cluster_gangs_main,
     "gangs reserved by energy, completion time and posted prices; with a certificate"},
};

enum { POLICY_COUNT = sizeof(policies) / sizeof(policies[0]) };

static void print_usage(FILE *out)
{
    fprintf(out, "Usage: lull " LULL_CLUSTER_COMMAND " --policy NAME [OPTION...] FILE\n"
                 "Runs many jobs on a cluster in virtual time, under a policy:\n\n");
    for (int i = 0; i < POLICY_COUNT; i++)
        fprintf(out, "  %-9s %s\n", policies[i].name, policies[i].what);
    fprintf(out, "\n`lull " LULL_CLUSTER_COMMAND " --policy NAME --help` tells its options.\n");
}

/* Takes --policy NAME, in one word or two, out of argv; NULL: it is not there, or has no name. */
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
            name = argv[i + 1]; /* NULL behind the last */
            words = name == NULL ? 1 : 2;
        }
        memmove(&argv[i], &argv[i + words], (size_t)(*argc - i - words + 1) * sizeof(*argv));
        *argc -= words;
        return name;
    }
    return NULL;
}

int lull_cluster_main(int argc, char **argv)
{
    static char name[96];
    const char *const wanted = take_policy(&argc, argv);

    if (wanted == NULL) {
        const int is_help =
            argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0);

        print_usage(is_help ? stdout : stderr);
        return is_help ? LULL_EXIT_OK : LULL_EXIT_USAGE;
    }
    for (int i = 0; i < POLICY_COUNT; i++) {
        if (strcmp(policies[i].name, wanted) != 0)
            continue;
        snprintf(name, sizeof(name), "lull " LULL_CLUSTER_COMMAND " --policy %s", wanted);
        argv[0] = name;
        return policies[i].run(wanted, argc, argv);
    }
    fprintf(stderr, "lull " LULL_CLUSTER_COMMAND ": %s is no policy; see --help\n", wanted);
    return LULL_EXIT_USAGE;
}
