/*
 * Messages between lulld and its clients: one per SOCK_SEQPACKET packet, a 16-byte header and a
 * body of fixed size, little-endian. A 32-bit sequence number, chosen by the asker, is repeated in
 * the answer. Pure functions: no I/O, no allocation, no log; any bytes may be decoded.
 *
 * Frozen for all versions are the header (magic "LULL", u16 version, u16 type, u32 bytes of the
 * body, u32 sequence), the numbers and bodies of HELLO, RESTORE and REPLY, and this rule: lulld
 * answers a HELLO of another version with a REPLY of -EPROTONOSUPPORT, in the version of the asker,
 * and then serves a RESTORE, and anything else with the same REPLY. A later version may only append
 * to the body of HELLO. A REPLY of sequence 0 refuses the connection.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_MESSAGE_H
#define LULL_WIRE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_MESSAGE_VERSION = 6,
    LULL_MESSAGE_MAX_BYTES = 512,
    LULL_MESSAGE_ALL_SLOTS = 0x7fffffff,
    LULL_MESSAGE_NEVER = 0x7fffffff,
    LULL_MESSAGE_MAX_CAP_MS = 3600 * 1000,
};

enum lull_message_type {
    LULL_MESSAGE_HELLO = 1,   /* client: first message; answered by WELCOME */
    LULL_MESSAGE_WELCOME = 2, /* daemon: describes its GPUs and limits */
    LULL_MESSAGE_LEASE = 3,   /* client: answered by GRANT or REPLY */
    LULL_MESSAGE_GRANT = 4,   /* daemon; the first of a connection carries the descriptors of
                               * the command table and of its doorbell */
    LULL_MESSAGE_RENEW =
        5, /* client: heartbeat for all its leases; the REPLY's code is the number of leases left */
    LULL_MESSAGE_RELEASE = 6, /* client: answered by REPLY when the GPUs are restored */
    LULL_MESSAGE_STATUS =
        7, /* any client: requests the state of one GPU; answered by STATE or REPLY */
    LULL_MESSAGE_STATE = 8,    /* daemon: reports the state of one GPU */
    LULL_MESSAGE_RESTORE = 9,  /* administrator: revokes and undoes everything; REPLY when done */
    LULL_MESSAGE_REPLY = 10,   /* daemon: reports the result of a request */
    LULL_MESSAGE_REVOKED = 11, /* daemon, unsolicited: a lease has ended, and the reason */
    LULL_MESSAGE_QUIESCE = 12, /* administrator: sets GPUs free; REPLY at once, STATE says when it
                                * is done */
    LULL_MESSAGE_RESUME = 13,  /* administrator: revokes that; answered in the same way */
    /* 14 to 20 are kept for the states of GPUs. */
    LULL_MESSAGE_RELOAD = 21,     /* administrator: reads the policy again; answered by REPLY */
    LULL_MESSAGE_REVOKE = 22,     /* administrator: ends leases; REPLY when the GPUs are restored */
    LULL_MESSAGE_JOB_ADD = 23,    /* root: a job has a GPU; answered by REPLY */
    LULL_MESSAGE_JOB_REMOVE = 24, /* root: a job has ended; REPLY when its GPUs are restored */
    LULL_MESSAGE_PROVE = 25, /* client, with descriptors of the GPUs' devices; answered by REPLY */
    LULL_MESSAGE_CAP = 26,   /* administrator: caps a GPU for a time; answered by REPLY */
    LULL_MESSAGE_JOB_NEXT =
        27, /* any client: requests the next pair of a job and a GPU; answered by JOB.
               Administrators see all pairs, others those of their jobs */
    LULL_MESSAGE_JOB = 28, /* daemon: one such pair, or that there are no more */
    LULL_MESSAGE_TYPE_COUNT = 29,
};

struct lull_message_hello {
    uint32_t process_id; /* informative; the daemon trusts only the kernel */
};

struct lull_message_welcome {
    uint32_t gpu_count;
    uint32_t lease_ttl_ms; /* a lease ends this long after its last renewal */
    uint32_t heartbeat_ms; /* clients must renew their leases this often */
};

struct lull_message_lease {
    char uuid[96];
    uint32_t min_mhz;
    uint32_t max_mhz;
    uint32_t min_limit_mw; /* 0 and 0: sets no power limit */
    uint32_t max_limit_mw;
};

struct lull_message_grant {
    uint64_t lease_id;
    uint32_t slot;    /* of the command table */
    uint32_t min_mhz; /* the band, narrowed to the device's clocks */
    uint32_t max_mhz;
    uint32_t profiles; /* enum lull_power_profile; those that it may request */
};

struct lull_message_release {
    uint32_t slot; /* LULL_MESSAGE_ALL_SLOTS: all of the connection */
};

struct lull_message_status {
    uint32_t gpu;
};

struct lull_message_state {
    uint32_t gpu;
    uint32_t gpu_count;
    char uuid[96];
    char name[96];
    uint32_t is_leased;
    uint32_t owner_uid;
    uint32_t owner_pid; /* in the daemon's PID namespace; 0: unknown */
    uint32_t min_mhz;
    uint32_t max_mhz;
    uint32_t applied_mhz;  /* 0: the reference point */
    uint32_t observed_mhz; /* 0: not read back yet */
    int32_t status;        /* result of the last write */
    uint32_t lease_left_ms;
    uint64_t writes;
    uint64_t dropped;
    uint64_t expired;
    uint64_t failed;
    uint64_t disobeyed;
    uint32_t limit_mw; /* the power limit set for this lease; 0: the one from before it */
    uint32_t health;   /* enum lull_writer_health */
    uint32_t last_xid; /* 0: none */
    uint64_t xids;     /* errors that the driver has reported for this GPU */
    uint32_t is_partitioned;
    uint32_t age_ms;           /* age of the last reading of the GPU; LULL_MESSAGE_NEVER: none */
    uint32_t power_mw;         /* mean over about the last second; 0: unknown */
    uint32_t power_looks;      /* changes with each new job that declared a cap... */
    uint32_t power_cap_mhz;    /* ...namely this; 0: none */
    uint32_t lowest_mhz;       /* of the clocks that can be locked; 0: none can */
    uint32_t highest_mhz;      /* of them */
    uint32_t lowest_limit_mw;  /* of the power limits that can be set; 0: none can */
    uint32_t default_limit_mw; /* the one from the factory */
    uint32_t cap_mhz;          /* its cap; 0: none of clocks */
    uint32_t cap_limit_mw;     /* 0: none of power limits */
    uint32_t cap_left_ms;      /* 0: it is not capped */
    uint32_t power_profiles; /* enum lull_power_profile; those that lulld requests for its lease */
};

/* Upper limits of a GPU from now on, for every user. Zeros lift the cap. */
struct lull_message_cap {
    uint32_t gpu;
    uint32_t max_mhz;      /* 0: any clock */
    uint32_t max_limit_mw; /* 0: any power limit */
    uint32_t ttl_ms;       /* the cap expires after this time; at most LULL_MESSAGE_MAX_CAP_MS */
};

struct lull_message_gpus {
    uint64_t mask; /* a bit for each GPU */
};

struct lull_message_reply {
    int32_t code;
    char text[240];
};

struct lull_message_revoked {
    uint32_t slot;
    int32_t code;
};

/* Whose leases end. */
enum lull_message_target {
    LULL_MESSAGE_OF_GPU = 1,  /* name: its UUID or PCI address */
    LULL_MESSAGE_OF_JOB = 2,  /* name: the job's */
    LULL_MESSAGE_OF_USER = 3, /* uid */
};

struct lull_message_revoke {
    uint32_t target; /* enum lull_message_target */
    uint32_t uid;
    char name[96];
};

struct lull_message_job_add {
    char id[64];
    uint32_t uid;
    char gpu[96];     /* UUID or PCI address; a job with several GPUs takes several messages */
    char cgroup[192]; /* only processes below it may act for the job; "": any of the user's */
    uint32_t min_mhz; /* the job's floor; 0: none */
};

struct lull_message_job_remove {
    char id[64];
};

/* The pair that was answered last; two empty texts request the first one. */
struct lull_message_job_next {
    char id[64];
    char uuid[96];
};

struct lull_message_job {
    char id[64]; /* "": there are no more pairs */
    uint32_t uid;
    char uuid[96];
    char cgroup[192];
    uint32_t min_mhz;      /* 0: none */
    uint32_t hidden_count; /* pairs of other users' jobs that this client may not see */
};

struct lull_message {
    uint16_t version; /* the sender's; 0 is encoded as LULL_MESSAGE_VERSION */
    uint16_t type;    /* enum lull_message_type */
    uint32_t sequence;
    union {
        struct lull_message_hello hello;
        struct lull_message_welcome welcome;
        struct lull_message_lease lease;
        struct lull_message_grant grant;
        struct lull_message_release release;
        struct lull_message_status status;
        struct lull_message_state state;
        struct lull_message_gpus gpus; /* of QUIESCE and RESUME */
        struct lull_message_reply reply;
        struct lull_message_revoked revoked;
        struct lull_message_revoke revoke;
        struct lull_message_job_add job_add;
        struct lull_message_job_remove job_remove;
        struct lull_message_job_next job_next;
        struct lull_message_job job;
        struct lull_message_cap cap;
    } body;
};

/*
 * Writes the message into at least LULL_MESSAGE_MAX_BYTES of buffer; returns its size. Texts are
 * cut to the size of their field, and end with a NUL. Errors: -EINVAL no such type.
 */
int lull_message_encode(const struct lull_message *message, uint8_t *buffer, size_t size);

/*
 * Reads exactly one message of size bytes. Control characters in texts become '?', so that they
 * can be printed. Of other versions, only the frozen messages are decoded. Errors: LULL_E_FORMAT
 * not a message, wrong length, or a text without end; -EPROTONOSUPPORT another message of another
 * version: then the body is zero. message_out is written on success and with -EPROTONOSUPPORT.
 */
int lull_message_decode(const uint8_t *buffer, size_t size, struct lull_message *message_out);

#endif
