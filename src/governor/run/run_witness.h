/*
 * Observations of the processes of a command while none of them has joined the job. The reason why
 * a job stays unmanaged is determined from /proc while the processes still exist.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_WITNESS_H
#define LULL_GOVERNOR_RUN_RUN_WITNESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Progress of a process of the command toward joining the job, judged by its loaded libraries.
 * Later values explain more, and replace earlier ones. */
enum lull_run_probing {
    LULL_RUN_PROBING_NONE,        /* no process was seen */
    LULL_RUN_PROBING_PLAIN,       /* it has the probes and no library that communicates */
    LULL_RUN_PROBING_NO_PROBE,    /* it has neither */
    LULL_RUN_PROBING_SILENT,      /* it has both, and has not communicated yet */
    LULL_RUN_PROBING_STATIC_GLOO, /* likewise, of PyTorch with gloo linked in */
    LULL_RUN_PROBING_NO_SHIM,     /* likewise, of an MPI for which this Lull has no shim */
    LULL_RUN_PROBING_MISSED,      /* it has a library that communicates and not the probes */
};

struct lull_run_witness {
    enum lull_run_probing probing; /* the most telling one */
    pid_t pid;                     /* of that process */
    char name[32];
    char library[64]; /* that communicates; "": none */
};

/* Examines a process and all its descendants. Unreadable data is skipped. */
void lull_run_witness_look(struct lull_run_witness *witness, pid_t command);

/* Returns the name of the program in a command that starts the job out of reach (a container, a
 * terminal's server, another node), such as "docker"; NULL: it names none. */
const char *lull_run_witness_elsewhere(char *const command[]);

/* Writes the reason why no rank was seen, and what to do, as one sentence. */
void lull_run_witness_describe(const struct lull_run_witness *witness, char *const command[],
                               char *text, size_t size);

#endif
