/*
 * Helpers: programs of Lull that plugins of Slurm start beside a job. Slurm's daemons neither wait
 * for them nor are their parents, so a helper that fails or hangs costs its own words only.
 *
 * Threads: one per helper. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_HELPER_H
#define LULL_CLUSTER_SLURM_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lull_helper {
    int socket; /* of type SOCK_SEQPACKET, to the helper; -1: none */
    int words;  /* the reading end of its standard error; -1: closed */
};

enum lull_helper_socket {
    LULL_HELPER_NO_SOCKET,
    LULL_HELPER_OWN_SOCKET,      /* at LULL_HELPER_SOCKET_NUMBER */
    LULL_HELPER_STANDARD_SOCKET, /* at its standard input and output */
};

enum { LULL_HELPER_SOCKET_NUMBER = 3 };

struct lull_helper_start {
    char *const *argv; /* NULL-terminated; the program by its path */
    char *const *environment;
    unsigned int limit_s; /* it is killed after this time; 0: never */
    enum lull_helper_socket socket;
    bool is_of_user; /* it keeps only the caller's effective user and group; else it runs in / */
};

/* Returns the time of a clock that is never set, in ns. */
int64_t lull_helper_now_ns(void);

/*
 * Starts a helper, which gets its own session and no descriptor of the caller's. No signal is
 * blocked. A program that cannot be started is an end, with one line of output. Errors: -errno.
 */
int lull_helper_start(const struct lull_helper_start *start, struct lull_helper *helper_out);

/*
 * Appends the helper's standard error to text, of *size_io bytes so far and at most size with its
 * NUL; what does not fit is dropped. Waits until until_ns, by lull_helper_now_ns(); returns whether
 * the helper has ended by then.
 */
bool lull_helper_listen(struct lull_helper *helper, int64_t until_ns, char *text, size_t size,
                        size_t *size_io);

/* Releases the helper, which may continue; a struct without a helper (zeros and -1) is allowed. */
void lull_helper_forget(struct lull_helper *helper);

#endif
