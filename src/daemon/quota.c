/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/quota.h"

#include <stddef.h>

#include "base/clock.h"

/* Returns the user's entry. Once all are taken, a new one replaces the one that was idle longest.
 */
static struct lull_log_user *quota_find_user(struct lull_quota *quota, uid_t uid, int64_t now_ns)
{
    struct lull_log_user *oldest = &quota->users[0];

    for (uint32_t i = 0; i < quota->user_count; i++) {
        struct lull_log_user *const user = &quota->users[i];

        if (user->uid == uid) {
            user->used_ns = now_ns;
            return user;
        }
        if (user->used_ns < oldest->used_ns)
            oldest = user;
    }
    if (quota->user_count < LULL_QUOTA_USERS)
        oldest = &quota->users[quota->user_count++];
    quota->left_out += oldest->left_out;
    *oldest = (struct lull_log_user){
        .uid = uid,
        .used_ns = now_ns,
        .connects = {.interval_ns = LULL_NS_PER_S / LULL_QUOTA_CONNECTS_PER_S,
                     .burst = LULL_QUOTA_CONNECTS_IN_A_ROW},
        .packets = {.interval_ns = LULL_NS_PER_S / LULL_QUOTA_PACKETS_PER_S,
                    .burst = LULL_QUOTA_PACKETS_IN_A_ROW},
    };
    return oldest;
}

bool lull_quota_allows_line(struct lull_quota *quota, uid_t uid, int64_t now_ns)
{
    struct lull_log_user *const user = quota_find_user(quota, uid, now_ns);
    const int64_t second = now_ns / LULL_NS_PER_S;

    if (quota->second != second) {
        quota->second = second;
        quota->lines = 0;
    }
    if (user->second != second) {
        user->second = second;
        user->lines = 0;
    }
    if (user->lines >= LULL_QUOTA_LINES_OF_USER || quota->lines >= LULL_QUOTA_LINES) {
        user->left_out++;
        return false;
    }
    user->lines++;
    quota->lines++;
    return true;
}

bool lull_quota_take_left_out(struct lull_quota *quota, int64_t now_ns, uid_t *uid_out,
                              uint64_t *count_out)
{
    const int64_t second = now_ns / LULL_NS_PER_S;

    for (uint32_t i = 0; i < quota->user_count; i++) {
        struct lull_log_user *const user = &quota->users[i];

        if (user->left_out == 0 || user->second >= second)
            continue;
        *uid_out = user->uid;
        *count_out = user->left_out;
        user->left_out = 0;
        return true;
    }
    if (quota->left_out == 0 || quota->second >= second)
        return false;
    *uid_out = (uid_t)-1;
    *count_out = quota->left_out;
    quota->left_out = 0;
    return true;
}

bool lull_quota_has_left_out(const struct lull_quota *quota)
{
    for (uint32_t i = 0; i < quota->user_count; i++)
        if (quota->users[i].left_out > 0)
            return true;
    return quota->left_out > 0;
}

bool lull_quota_allows_connect(struct lull_quota *quota, uid_t uid, int64_t now_ns)
{
    return lull_bucket_take(&quota_find_user(quota, uid, now_ns)->connects, now_ns);
}

bool lull_quota_allows_packet(struct lull_quota *quota, uid_t uid, int64_t now_ns)
{
    return lull_bucket_take(&quota_find_user(quota, uid, now_ns)->packets, now_ns);
}

uint64_t lull_quota_count_refusal(struct lull_quota *quota, uid_t uid, int64_t now_ns)
{
    struct lull_log_user *const user = quota_find_user(quota, uid, now_ns);
    uint64_t count;

    user->refused++;
    if (user->refusal_ns != 0 && now_ns - user->refusal_ns < LULL_QUOTA_REFUSALS_S * LULL_NS_PER_S)
        return 0;
    count = user->refused;
    user->refusal_ns = now_ns;
    user->refused = 0;
    return count;
}

void lull_quota_bar(struct lull_quota *quota, uid_t uid, int64_t now_ns, int64_t until_ns)
{
    quota_find_user(quota, uid, now_ns)->barred_until_ns = until_ns;
}

bool lull_quota_is_barred(const struct lull_quota *quota, uid_t uid, int64_t now_ns)
{
    for (uint32_t i = 0; i < quota->user_count; i++)
        if (quota->users[i].uid == uid)
            return quota->users[i].barred_until_ns > now_ns;
    return false;
}
