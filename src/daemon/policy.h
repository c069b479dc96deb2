/*
 * The administrator's policy: who may control which GPU, and within what. The reader is pure: text
 * in, struct out, nothing allocated, so that any bytes may be read. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_POLICY_H
#define LULL_DAEMON_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/switch.h"

enum {
    LULL_POLICY_MAX_RULES = 128, /* sections that allow or limit something */
    LULL_POLICY_MAX_GPUS = 512,  /* names of GPUs in all rules */
    LULL_POLICY_NAME_BYTES = 64,
    LULL_POLICY_MAX_BYTES = 256 * 1024,
};

/* Floors and caps; 0: none. */
struct lull_policy_limits {
    uint32_t min_mhz;
    uint32_t max_mhz;
    uint32_t min_limit_mw;
    uint32_t max_limit_mw;
    bool allows_profiles;  /* power profiles; only rules about users and groups say so */
    bool allows_smoothing; /* power smoothing, as well */
};

/* The subject of a rule. A rule about a GPU only limits, whichever client controls the GPU. */
enum lull_policy_subject {
    LULL_POLICY_EVERYBODY,
    LULL_POLICY_USER,
    LULL_POLICY_GROUP,
    LULL_POLICY_GPU
};

struct lull_policy_rule {
    enum lull_policy_subject subject;
    uint32_t id; /* of the user or group */
    bool is_for_all_gpus;
    uint32_t first_gpu; /* in lull_policy.gpus */
    uint32_t gpu_count;
    struct lull_policy_limits limits;
    char device[LULL_POLICY_NAME_BYTES]; /* of a GPU: really opening it grants control */
};

/* Zero-initialised, it permits only root to control GPUs. */
struct lull_policy {
    bool has_administrators;
    gid_t administrators;
    bool has_viewers;
    gid_t viewers;          /* may see the live states of all users' runs */
    bool allows_containers; /* processes that this node's kernel gives no number or no user here */
    bool allows_shared;     /* control over a GPU that several jobs have */
    uint32_t rule_count;
    struct lull_policy_rule rules[LULL_POLICY_MAX_RULES];
    uint32_t gpu_count;
    char gpus[LULL_POLICY_MAX_GPUS][LULL_POLICY_NAME_BYTES];
};

/* The requester, as reported by the kernel. */
struct lull_policy_person {
    uid_t uid;
    const gid_t *groups;
    uint32_t group_count;
};

/* Find the number of a user or a group by name. Errors: -ENOENT there is none. */
struct lull_policy_names {
    int (*user)(const char *name, uint32_t *id_out);
    int (*group)(const char *name, uint32_t *id_out);
};

/* Receives each error of a policy: one line without a newline, which names file, line and field and
 * says what to do. */
struct lull_policy_listener {
    void (*report)(void *context, const char *text);
    void *context;
};

/*
 * Reads the text of a policy; path is for messages only. policy_out is written on success only.
 * With a listener, all errors are reported to it; without one (NULL), reading ends at the first
 * error. Errors: -EINVAL; err (may be NULL) has the first error.
 */
int lull_policy_read(const char *path, const char *text, size_t size,
                     const struct lull_policy_names *names,
                     const struct lull_policy_listener *listener, struct lull_policy *policy_out,
                     struct lull_error *err);

/* Returns whether a person is in a group, and whether one may administer: root, or the policy's
 * group. */
bool lull_policy_is_in_group(const struct lull_policy_person *person, gid_t group);
bool lull_policy_is_administrator(const struct lull_policy *policy,
                                  const struct lull_policy_person *person);

/* Finds the first rule that lets a person control a GPU, which has this UUID and PCI address. NULL:
 * there is none. */
const struct lull_policy_rule *lull_policy_find(const struct lull_policy *policy,
                                                const struct lull_policy_person *person,
                                                const char *uuid, const char *pci);

/* Narrows the limits to what the sections about all GPUs and about this one demand. */
void lull_policy_limit_gpu(const struct lull_policy *policy, const char *uuid, const char *pci,
                           struct lull_policy_limits *limits);

/* Returns the device file whose opening gives a right to a GPU; NULL: there is none. */
const char *lull_policy_find_device(const struct lull_policy *policy, const char *uuid,
                                    const char *pci);

/* Narrows the limits to others: the higher of the floors, the lower of the caps. */
void lull_policy_narrow(struct lull_policy_limits *limits, const struct lull_policy_limits *others);

/* Narrows a band to the limits. False, and the band is as before: nothing would be left of it. */
bool lull_policy_fit_band(const struct lull_policy_limits *limits, struct lull_band *band);

/* Returns whether a name means the GPU with this UUID and PCI address, however the address is
 * written. */
bool lull_policy_is_name_of(const char *name, const char *uuid, const char *pci);

#endif
