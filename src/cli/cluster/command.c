/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/cluster.h"

#include <string.h>

#include "base/error.h"
#include "core/cluster/policy.h"

static const struct {
    const char *name;
    int (*run)(const char *policy, int argc, char **argv);
    const char *what;
} policies[] = {
    {"edl", lull_cluster_edl_main,
     "tasks of one GPU with deadlines; clocks by least energy, readjusted (TPDS 2022)"},
    {"ada-srsf", lull_cluster_shared_main,
     "gangs that share GPUs in time and a network by contention (arXiv 2002.10105)"},
    {"fifo", lull_cluster_gangs_main, "gangs in queues: first come, first served"},
    {"edf", lull_cluster_gangs_main, "gangs in queues: earliest deadline first"},
    {"sjf", lull_cluster_gangs_main, "gangs in queues: shortest job first"},
    {"lpt", lull_cluster_gangs_main, "gangs in queues: longest job first"},
    {"backfill", lull_cluster_gangs_main,
     "gangs: first come, first served; others run ahead if they do not delay the first"},
    {"backfill-conservative", lull_cluster_gangs_main,
     "gangs: each at the earliest time that delays nobody who came before it"},
    {"greedy-energy", lull_cluster_gangs_main,
     "gangs: each where, when and at the clock that adds least energy and meets its deadline"},
    {"srtf", lull_cluster_gangs_main, "gangs: shortest remaining time first, preemptive"},
    {"srsf", lull_cluster_gangs_main, "gangs: shortest remaining time x GPUs first, preemptive"},
    {"hdf", lull_cluster_gangs_main,
     "gangs: most weight for its GPU time first; clocks by the weight that waits"},
    {"powerflow", lull_cluster_gangs_main,
     "gangs: best completion time at an energy budget; GPUs and clocks by time per joule"},
    {"pd-rats", lull_cluster_gangs_main,
     "gangs reserved by energy, completion time and posted prices; with a certificate"},
};

enum { POLICY_COUNT = sizeof(policies) / sizeof(policies[0]) };

static void print_knob(const char *name, FILE *out)
{
    const struct lull_cluster_policy_ops *ops = lull_cluster_policy_find(name);

    if (ops != NULL && ops->knob != NULL)
        fprintf(out, "  %-22s --knob: %s (%g)\n", "", ops->knob->what, ops->knob->usual);
}

static void print_usage(FILE *out)
{
    fprintf(out, "Usage: lull " LULL_CLUSTER_COMMAND " --policy NAME [OPTION...] FILE\n"
                 "Runs many jobs on a cluster in virtual time, under a policy:\n\n");
    for (int i = 0; i < POLICY_COUNT; i++) {
        fprintf(out, "  %-22s %s\n", policies[i].name, policies[i].what);
        print_knob(policies[i].name, out);
    }
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
