/*
 * The users whose clients connect, the policy that the server reads about them, and the rights of
 * each of them, computed without the daemon's code. The linker puts functions of this file in place
 * of three others (meson.build): the kernel's answer to who a client is, so that no test needs
 * root; the grant of a lease; and the cap of a GPU. Threads: any. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_TESTS_FUZZ_USERS_H
#define LULL_TESTS_FUZZ_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/switch.h"
#include "scripted_driver.h"

enum users_user {
    USER_STRANGER, /* no rule names this user */
    USER_SOME,     /* some GPUs, with a floor and a cap of clocks */
    USER_FLOOR,    /* a floor of clocks */
    USER_POWER,    /* a band of power limits, by a supplementary group */
    USER_PLAIN,    /* every GPU without limits, by the primary group */
    USER_OPERATOR, /* may cap, restore and revoke, but controls no GPU */
    USER_ROOT,
    USER_DENIED, /* of a group whose only GPU is on another node */
    USERS,
};

extern const char users_policy[];

/* Reports which user a process stands for; before it connects. */
void users_note_process(pid_t pid, enum users_user user);

/* Sets the band that clients of a GPU request in this sequence. */
void users_set_wanted(uint32_t gpu, const struct lull_band *wanted);

/* Called with what must never have happened; does not return. */
void users_init(driver_violation *violation);

uid_t users_uid(enum users_user user);
bool users_may_administer(enum users_user user);
bool users_may_control(enum users_user user, uint32_t gpu);

#endif
