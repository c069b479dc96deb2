/*
 * Declarations shared by the parts of the server: accepting (accept.c), requests (requests.c), ends
 * of leases (endings.c), GPUs that cannot be driven (undrivable.c), the loop's turns (turns.c),
 * floods (ringer.c), start and stop (server.c). Threads: the loop's, except where said.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_INTERNAL_H
#define LULL_DAEMON_INTERNAL_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/log.h"
#include "daemon/connection.h"
#include "daemon/enforcer.h"
#include "daemon/foreign.h"
#include "daemon/jobs.h"
#include "daemon/listener.h"
#include "daemon/notify.h"
#include "daemon/quota.h"
#include "daemon/server.h"
#include "daemon/users.h"
#include "device/device.h"
#include "device/writer.h"

/* A client that is late by five heartbeats has lost its leases. */
enum { LULL_SERVER_LEASE_TTL_MS = 3000, LULL_SERVER_HEARTBEAT_MS = 500 };

/* Results are 0 or negative, so this is none. */
enum { LULL_SERVER_NO_RESULT = 1 };

enum { LULL_SERVER_MAX_CONNECTIONS = 4096 }; /* of users other than root, together */

/* The users of the connections that are not root's, one entry for each connection, in any order.
 * They are counted for each client that connects, also while thousands are connected. */
struct lull_admitted {
    uint32_t count;
    uid_t uids[LULL_SERVER_MAX_CONNECTIONS];
};

enum lull_ringer_state { LULL_RINGER_NONE, LULL_RINGER_SEARCHED, LULL_RINGER_FOUND };

/* The search for the client that keeps the writer busy. Between SEARCHED and FOUND it belongs to a
 * thread of the pool. */
struct lull_ringer_search {
    struct lull_foreign_job job; /* the first member */
    struct lull_server *server;
    atomic_int state;  /* enum lull_ringer_state */
    atomic_uint users; /* 1: the thread still uses the server */
    uint32_t count;
    int doorbells[LULL_DEVICE_MAX_GPUS]; /* copies; each client has a GPU of its own */
    uint64_t clients[LULL_DEVICE_MAX_GPUS];
    uint64_t ringer; /* a client; 0: none rings all the time */
};

struct lull_server {
    uv_loop_t loop;
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    uv_timer_t housekeeping;
    uv_timer_t resume;
    uv_timer_t driverless;
    uv_timer_t caps_end; /* when the next cap falls away */
    uv_async_t wake;
    struct lull_watchdog watchdog;
    uv_signal_t signals[NSIG];
    struct lull_listener everybody;
    struct lull_listener root;
    bool is_stopping;
    bool is_driverless; /* it ends because there has been no driver for long */
    bool is_housekeeping;
    uint32_t max_connections; /* of others than root */
    struct lull_devices *devices;
    struct lull_writer *writer;
    struct lull_enforcer *enforcer;
    int64_t reading_since_ns; /* begin of the reading that the enforcer waits for; 0: none */
    struct lull_foreign *foreign;
    struct lull_ringer_search ringer;
    struct lull_quota quota;
    const char *runtime_dir; /* borrowed */
    const char *policy_path;
    bool opens_with_policy; /* as in the options */
    struct lull_policy policy;
    char jobs_directory[4096];
    struct lull_jobs jobs;
    struct lull_users users;
    atomic_bool has_new_users; /* set by the writer's thread */
    atomic_bool is_flooded;    /* set by the writer's thread */
    /* The GPUs whose leases it asks to end, a bit for each. */
    _Atomic uint64_t to_revoke[LULL_WRITER_REVOCATIONS];
    struct lull_connection *connections;
    struct lull_admitted admitted;
    uint32_t closing_count; /* of the connections: they wait to be freed */
    uint32_t proving_count; /* of the connections: their proofs are being looked at */
    /* Clients that exceed their share, in the order in which they are read next, and how many of
     * them are. */
    TAILQ_HEAD(lull_paused, lull_connection) paused;
    struct lull_bucket resumes;
    uint64_t last_connection_id;
    uint64_t refused_senders;
    int64_t capped_until_ns[LULL_DEVICE_MAX_GPUS]; /* 0: the GPU is not capped */
    /* Result of restoring each GPU, or LULL_SERVER_NO_RESULT; set by the writer's thread. */
    atomic_int ended[LULL_DEVICE_MAX_GPUS];
};

/* Return the loop and the writer that a connection uses. */
uv_loop_t *lull_server_loop(struct lull_server *server);
struct lull_writer *lull_server_writer(struct lull_server *server);

/* --- accept.c --- */

/* Makes both sockets, and divides the descriptors between root and all other users. Errors: -errno.
 */
int lull_server_open_listeners(struct lull_server *server,
                               const struct lull_server_options *options, struct lull_error *err);

/* Notes that a connection of this user has been freed. */
void lull_server_discount(struct lull_server *server, uid_t uid);

/* --- authorise.c --- */

/*
 * Judges whether the client of a connection may control a GPU, and within which floors and caps.
 * Errors: -EACCES, with the reason.
 */
int lull_server_judge(struct lull_server *server, const struct lull_connection *connection,
                      uint32_t gpu, struct lull_policy_limits *limits_out, struct lull_error *err);

/* Returns whether this client is root or one of the policy's administrators. */
bool lull_server_is_administrator(const struct lull_server *server,
                                  const struct lull_connection *connection);

/* Finds a GPU by its UUID or PCI address; -ENODEV: there is none. */
int lull_server_find_gpu(const struct lull_server *server, const char *name);

/* Names the devices that give a right. False: there are none. */
bool lull_server_prepare_proof(const struct lull_server *server, struct lull_proof *proof);

/* Returns the pool of threads for descriptors of clients. */
struct lull_foreign *lull_server_foreign(struct lull_server *server);

/* Answers the clients whose proofs have been checked. */
void lull_server_end_proofs(struct lull_server *server);

/* Ends the leases whose clients may no longer have them, or not as they are. */
void lull_server_judge_again(struct lull_server *server);

/* --- administer.c --- */

/* Answers who may not request what is an administrator's; returns whether one may. */
bool lull_server_admit_administrator(struct lull_server *server, struct lull_connection *connection,
                                     const struct lull_message *message);

/* Publishes to governors which group may see their runs (wire/viewers.h). Without it the runs stay
 * private. */
void lull_server_publish_viewers(const struct lull_server *server);

/* Logs the GPUs of the policy that are not on this node: a policy may serve a cluster, or have a
 * wrong address. */
void lull_server_report_absent_gpus(const struct lull_server *server);

/* Serve administrators. */
void lull_server_serve_reload(struct lull_server *server, struct lull_connection *connection,
                              const struct lull_message *message);
void lull_server_serve_revoke(struct lull_server *server, struct lull_connection *connection,
                              const struct lull_message *message);
void lull_server_serve_job_add(struct lull_server *server, struct lull_connection *connection,
                               const struct lull_message *message);
void lull_server_serve_job_remove(struct lull_server *server, struct lull_connection *connection,
                                  const struct lull_message *message);

/* Serves anyone: the next pair of a job and a GPU that this client may see. */
void lull_server_serve_job_next(struct lull_server *server, struct lull_connection *connection,
                                const struct lull_message *message);

/* --- requests.c --- */

/* Serves a packet of size bytes that sender has sent. */
void lull_server_serve(struct lull_server *server, struct lull_connection *connection,
                       const uint8_t *packet, size_t size, pid_t sender);

/* --- caps.c --- */

/* Caps a GPU for a time, or lifts its cap, for an administrator. */
void lull_server_serve_cap(struct lull_server *server, struct lull_connection *connection,
                           const struct lull_message *message);

/* Lifts all caps. */
void lull_server_lift_caps(struct lull_server *server);

/* Returns how long the cap of a GPU lasts; 0: it has none. */
uint32_t lull_server_cap_left_ms(const struct lull_server *server, uint32_t gpu);

/* Lifts the caps that were not renewed in time. */
void lull_server_on_caps_end(uv_timer_t *timer);

/* --- endings.c --- */

/* Answers that not every GPU could be restored, and why. */
void lull_server_reply_unrestored(struct lull_server *server, struct lull_connection *connection,
                                  uint32_t sequence, int code);

/* Answer a request. */
void lull_server_reply(struct lull_connection *connection, uint32_t sequence,
                       const struct lull_error *error);
void lull_server_reply_code(struct lull_connection *connection, uint32_t sequence, int code,
                            const char *text);

/* Answers a request once the GPUs in the mask are restored; at once if the mask is empty. */
void lull_server_reply_when_settled(struct lull_server *server, struct lull_connection *connection,
                                    uint32_t sequence, uint64_t mask);

/* Notes that a GPU is back, or cannot be restored, and answers who waited for it. */
void lull_server_settle(struct lull_server *server, uint32_t gpu, int result);

/* NULL: it has closed. */
struct lull_connection *lull_server_find_connection(struct lull_server *server, uint64_t id);

/* Finds the leases of a connection, a bit for each GPU; slot picks one of them or all. */
uint64_t lull_server_leases_of(const struct lull_server *server,
                               const struct lull_connection *connection, uint32_t slot);

/* Ends the leases of the GPUs in the mask. */
void lull_server_end_leases(struct lull_server *server, uint64_t mask);

/* Stops the writer from polling the doorbell of a connection that has no lease left. */
void lull_server_close_idle_doorbell(struct lull_server *server,
                                     struct lull_connection *connection);

/* Revokes a lease and notifies its client. */
void lull_server_revoke(struct lull_server *server, uint32_t gpu, int code, const char *why);

/* Returns what the enforcer has ended meanwhile. */
void lull_server_send_ended(struct lull_server *server);

/* Ends every lease of a connection that closes. */
void lull_server_forget(struct lull_server *server, struct lull_connection *connection);

/* --- undrivable.c --- */

/* Says why there is no GPU of this name. */
int lull_server_fail_unknown(const struct lull_server *server, const char *uuid,
                             struct lull_error *err);

/* Notes, on the writer's thread, that it can no longer drive a GPU; ends the leases of those. */
void lull_server_note_undrivable(struct lull_server *server, uint32_t gpu,
                                 enum lull_writer_revocation why);
void lull_server_revoke_undrivable(struct lull_server *server);

/* Fills in how the GPU and its driver do. */
void lull_server_describe_driver(int64_t now_ns, const struct lull_writer_state *written,
                                 struct lull_message_state *state);

/* Serve requests of an administrator. */
void lull_server_quiesce(struct lull_server *server, struct lull_connection *connection,
                         const struct lull_message *message);
void lull_server_resume(struct lull_server *server, struct lull_connection *connection,
                        const struct lull_message *message);

/* --- ringer.c --- */

/* Searches for the client that keeps the writer busy, where one does, and closes the one found. */
void lull_server_stop_flood(struct lull_server *server);

/* --- turns.c --- */

/* Logs a line that a user has caused, within the user's quota. */
__attribute__((format(printf, 4, 5))) void lull_server_log(struct lull_server *server, uid_t uid,
                                                           enum lull_log_level level,
                                                           const char *format, ...);

/* Notes, on the writer's thread, which processes compute on a GPU; the leases of a GPU are judged
 * again when its users have changed. */
void lull_server_note_processes(struct lull_server *server, uint32_t gpu, const pid_t *pids,
                                uint32_t count);

/* Wakes the server's loop, from any thread. */
void lull_server_wake(struct lull_server *server);

/* Prepares the queue of clients that exceed their share. */
void lull_server_init_pauses(struct lull_server *server);

/* Puts a client that exceeds its share at the end of the queue of such clients. It is resumed in
 * its turn. */
void lull_server_pause(struct lull_server *server, struct lull_connection *connection);

/* Takes a client from that queue; harmless if it is not in there. */
void lull_server_unpause(struct lull_server *server, struct lull_connection *connection);

/* Notes, on the writer's thread, that some client keeps the writer busy. */
void lull_server_note_flood(struct lull_server *server);

/* Looks after what has a time, until nothing is left of that. */
void lull_server_run_maintenance(struct lull_server *server);

/* Frees the connections that nothing needs any more. */
void lull_server_reap(struct lull_server *server);

/* Callbacks of the loop. Between the two poll callbacks, it reads from every client that has sent
 * something. */
void lull_server_on_wake(uv_async_t *async);
void lull_server_on_before_poll(uv_prepare_t *prepare);
void lull_server_on_after_poll(uv_check_t *check);

#endif
