/*
 * Quotas of clients: how often a user may connect, how much of the log a user may fill, and who may
 * not lease for a while.
 * Nothing here is allocated, so that an attack costs no memory. Pure; times are nanoseconds of one
 * monotonic clock that the caller reads and passes in. Threads: each value belongs to one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_QUOTA_H
#define LULL_DAEMON_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bucket.h"

enum {
    LULL_QUOTA_USERS = 64,         /* of more users, the one that was idle longest is forgotten */
    LULL_QUOTA_LINES_OF_USER = 10, /* in a second; the same numbers as in faults.md, F48 */
    LULL_QUOTA_LINES = 100,
    LULL_QUOTA_CONNECTS_PER_S = 100, /* of a user; a governor connects once per run. Chosen. */
    LULL_QUOTA_CONNECTS_IN_A_ROW = 200,
    LULL_QUOTA_REFUSALS_S = 10, /* between two lines about a user's refused connections */
    /* Messages of a user, on all connections together. A governor sends some per second; one costs
     * some 10 us by estimate, so that a user can have 1 % of a core. Chosen. */
    LULL_QUOTA_PACKETS_PER_S = 1000,
    LULL_QUOTA_PACKETS_IN_A_ROW = 200,
};

struct lull_log_user {
    uid_t uid;
    int64_t used_ns; /* when a client of the user was last seen */
    int64_t second;  /* the one that lines are counted in */
    uint32_t lines;
    uint64_t left_out;
    int64_t barred_until_ns;
    struct lull_bucket connects;
    struct lull_bucket packets;
    uint64_t refused;   /* connections since the last line about them */
    int64_t refusal_ns; /* when that was; 0: never */
};

struct lull_quota {
    uint32_t user_count;
    struct lull_log_user users[LULL_QUOTA_USERS];
    int64_t second;
    uint32_t lines;
    uint64_t left_out; /* for which no user is remembered any more */
};

/* Returns whether a line about a user may be logged; it is counted either way. */
bool lull_quota_allows_line(struct lull_quota *quota, uid_t uid, int64_t now_ns);

/* Takes the number of lines that were left out in seconds that are over, and whose they were; uid
 * is (uid_t)-1 where that is not known any more. False: there are none. */
bool lull_quota_take_left_out(struct lull_quota *quota, int64_t now_ns, uid_t *uid_out,
                              uint64_t *count_out);

/* Returns whether there are omitted lines that lull_quota_take_left_out() has not returned yet. */
bool lull_quota_has_left_out(const struct lull_quota *quota);

/* Returns whether a user may connect now; the connection is counted. */
bool lull_quota_allows_connect(struct lull_quota *quota, uid_t uid, int64_t now_ns);

/* Returns whether a message of a user is within the user's share; it is counted. */
bool lull_quota_allows_packet(struct lull_quota *quota, uid_t uid, int64_t now_ns);

/* Counts a refused connection of a user. Returns how many were refused since the last line about
 * them where another line is due, else 0. */
uint64_t lull_quota_count_refusal(struct lull_quota *quota, uid_t uid, int64_t now_ns);

/* Bars a user from leasing until until_ns; returns whether a user is barred now. */
void lull_quota_bar(struct lull_quota *quota, uid_t uid, int64_t now_ns, int64_t until_ns);
bool lull_quota_is_barred(const struct lull_quota *quota, uid_t uid, int64_t now_ns);

#endif
