/*
 * lulld's responses, message by message: leases, heartbeats, expiry and
 * restore. The test provides the clock, devices, writer and connections. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>
#include <uv.h>

#include "../device/fake_devices.h"
#include "daemon/policy_file.h"

static uint32_t wakes;
static uint32_t house_timers;

/* The enforcer's thread sleeps in here; the tests look at the leases when they want to. */
#define timerfd_settime(fd, flags, spec, before) ((void)(fd), (void)(spec))
#define uv_timer_start(timer, callback, timeout_ms, repeat_ms) ((void)(callback), house_timers++)
#define uv_timer_stop(timer) ((void)(timer))
#define uv_is_active(handle) ((void)(handle), 0)
#define uv_async_send(async) ((void)(async), wakes++)

#include "daemon/accept.c"
#include "daemon/endings.c"
#include "daemon/enforcer.c"
#include "daemon/requests.c"
#include "daemon/server.c"
#include "daemon/maintenance.c"
#include "daemon/undrivable.c"

#define MS LULL_NS_PER_MS
#define T0 LULL_NS_PER_S

static struct lull_server server;
static struct lull_connection clients[3];
static struct lull_message sent[16];
static struct lull_connection *sent_to[16];
static bool sent_with_table[16];
static uint32_t sent_count;
static uint64_t granted, ended, quiesced; /* by the writer, a bit per GPU */
static struct lull_band granted_band;
static uint32_t closed;
static uint32_t opened; /* tables */

/* --- what represents the writer and the connections --- */

const struct lull_writer_options lull_writer_defaults = {.validity_cap_ns = 1};

int lull_device_fit_band(const struct lull_device_info *info, struct lull_band *band,
                         struct lull_error *err)
{
    (void)info;
    if (band->min_mhz > band->max_mhz)
        return lull_error_set(err, -EINVAL, "an empty band");
    if (band->max_mhz > 1400)
        band->max_mhz = 1400;
    return 0;
}

int lull_writer_start(struct lull_devices *devices, struct lull_journal *journal,
                      const struct lull_writer_options *options, struct lull_writer **writer_out,
                      struct lull_error *err)
{
    (void)devices;
    (void)journal;
    (void)options;
    (void)writer_out;
    return lull_error_set(err, -EIO, "no writer in this test");
}

int lull_writer_stop(struct lull_writer *writer, int64_t timeout_ns)
{
    (void)writer;
    (void)timeout_ns;
    return 0;
}

void lull_writer_grant(struct lull_writer *writer, uint32_t gpu, struct lull_writer_source *source,
                       const struct lull_band *band)
{
    (void)writer;
    (void)source;
    granted |= UINT64_C(1) << gpu;
    granted_band = *band;
}

void lull_writer_end(struct lull_writer *writer, uint32_t gpu)
{
    (void)writer;
    ended |= UINT64_C(1) << gpu;
}

void lull_writer_state(struct lull_writer *writer, uint32_t gpu,
                       struct lull_writer_state *state_out)
{
    (void)writer;
    *state_out = (struct lull_writer_state){.is_leased = true,
                                            .applied_mhz = gpu + 900,
                                            .observed_mhz = 2,
                                            .status = -3,
                                            .writes = 4,
                                            .dropped = 5,
                                            .expired = 6,
                                            .failed = 7,
                                            .disobeyed = 8,
                                            .limit_mw = 9,
                                            .health = LULL_WRITER_LOST};
}

void lull_writer_cap(struct lull_writer *writer, uint32_t gpu, const struct lull_cap *cap)
{
    (void)writer;
    (void)gpu;
    (void)cap;
}

static uint32_t cap_retries;

void lull_writer_retry_caps(struct lull_writer *writer)
{
    (void)writer;
    cap_retries++;
}

int lull_writer_check(struct lull_writer *writer, uint32_t gpu, struct lull_error *err)
{
    (void)writer;
    (void)gpu;
    (void)err;
    return 0;
}

int lull_writer_check_driver(struct lull_writer *writer, struct lull_error *err)
{
    (void)writer;
    (void)err;
    return 0;
}

void lull_writer_quiesce(struct lull_writer *writer, uint64_t gpus)
{
    (void)writer;
    quiesced |= gpus;
}

void lull_writer_resume(struct lull_writer *writer, uint64_t gpus)
{
    (void)writer;
    quiesced &= ~gpus;
}

bool lull_writer_answers(struct lull_writer *writer)
{
    (void)writer;
    return true;
}

void lull_connection_send(struct lull_connection *connection, const struct lull_message *message,
                          bool is_passing_table)
{
    assert_true(sent_count < 16);
    sent_to[sent_count] = connection;
    sent_with_table[sent_count] = is_passing_table;
    sent[sent_count++] = *message;
}

struct lull_connection *lull_connection_create(struct lull_server *of, uint64_t id, int fd,
                                               const struct lull_peer *peer)
{
    (void)of;
    (void)id;
    (void)fd;
    (void)peer;
    return NULL;
}

void lull_connection_close(struct lull_connection *connection)
{
    connection->is_closing = true;
    closed++;
}

bool lull_connection_reap(struct lull_connection *connection)
{
    return connection->is_closing;
}

bool lull_connection_end_proof(struct lull_connection *connection)
{
    (void)connection;
    return false;
}

void lull_connection_close_doorbell(struct lull_connection *connection)
{
    connection->source_state = LULL_SOURCE_NONE;
}

void lull_connection_resume(struct lull_connection *connection)
{
    connection->is_paused = false;
}

int lull_connection_open_table(struct lull_connection *connection, struct lull_writer *writer,
                               struct lull_error *err)
{
    (void)writer;
    (void)err;
    opened++;
    connection->source_state = LULL_SOURCE_LISTENED;
    return 0;
}

/* --- asking --- */

static int set_up(void **state)
{
    (void)state;
    fake_reset(3);
    memset(&server, 0, sizeof(server));
    lull_policy_without_file(0, true, &server.policy);
    server.wake.data = &server;
    server.before_poll.data = server.after_poll.data = server.housekeeping.data = &server;
    assert_int_equal(start_enforcer(&server, NULL), 0);
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        atomic_init(&server.ended[gpu], LULL_SERVER_NO_RESULT);
    for (uint32_t i = 0; i < 3; i++) {
        clients[i] =
            (struct lull_connection){.id = 11 + i,
                                     .peer = {.pid = 100 + (pid_t)i, .uid = i, .pid_fd = -1},
                                     .is_greeted = true,
                                     .next = i < 2 ? &clients[i + 1] : NULL};
    }
    server.connections = clients;
    sent_count = closed = wakes = opened = house_timers = 0;
    granted = ended = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lull_enforcer_stop(server.enforcer);
    return 0;
}

static void serve_from(uint32_t client, const struct lull_message *message, pid_t sender)
{
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    const int size = lull_message_encode(message, packet, sizeof(packet));

    assert_true(size > 0);
    sent_count = 0;
    lull_server_serve(&server, &clients[client], packet, (size_t)size, sender);
}

static void ask(uint32_t client, const struct lull_message *message)
{
    serve_from(client, message, clients[client].peer.pid);
}

static void ask_plain(uint32_t client, uint16_t type)
{
    ask(client, &(struct lull_message){.type = type, .sequence = 77});
}

static void ask_lease(uint32_t client, uint32_t gpu)
{
    struct lull_message message = {.type = LULL_MESSAGE_LEASE, .sequence = 5};

    message.body.lease = (struct lull_message_lease){
        .min_mhz = 600, .max_mhz = 5000, .min_limit_mw = 1, .max_limit_mw = 2};
    snprintf(message.body.lease.uuid, sizeof(message.body.lease.uuid), "GPU-%u", gpu);
    ask(client, &message);
}

static void ask_release(uint32_t client, uint32_t slot)
{
    struct lull_message message = {.type = LULL_MESSAGE_RELEASE, .sequence = 6};

    message.body.release.slot = slot;
    ask(client, &message);
}

static void check_reply(uint32_t at, uint32_t client, uint32_t sequence, int code)
{
    assert_true(at < sent_count);
    assert_ptr_equal(sent_to[at], &clients[client]);
    assert_int_equal(sent[at].type, LULL_MESSAGE_REPLY);
    assert_int_equal(sent[at].sequence, sequence);
    assert_int_equal(sent[at].body.reply.code, code);
}

/* The writer reports the end of a GPU's lease. */
static void end_gpu(uint32_t gpu, int result)
{
    sent_count = 0;
    on_lease_ended(&server, gpu, result);
    lull_server_on_wake(&server.wake);
}

static void hello_is_answered_and_comes_first(void **state)
{
    (void)state;
    clients[0].is_greeted = false;
    ask_plain(0, LULL_MESSAGE_RENEW);
    assert_int_equal(closed, 1);
    assert_int_equal(sent_count, 0);
    ask_plain(0, LULL_MESSAGE_HELLO);
    assert_int_equal(sent[0].type, LULL_MESSAGE_WELCOME);
    assert_int_equal(sent[0].sequence, 77);
    assert_int_equal(sent[0].body.welcome.gpu_count, 3);
    assert_int_equal(sent[0].body.welcome.lease_ttl_ms, 3000);
    assert_int_equal(sent[0].body.welcome.heartbeat_ms, 500);
    ask_plain(0, LULL_MESSAGE_RENEW);
    check_reply(0, 0, 77, 0);
    assert_int_equal(closed, 1);
    ask_plain(1, LULL_MESSAGE_STATE); /* nothing that a client may say */
    assert_int_equal(closed, 2);
    lull_server_serve(&server, &clients[2], (const uint8_t *)"nonsense", 8, 102);
    assert_int_equal(closed, 3);
}

static void only_the_process_that_connected_may_ask(void **state)
{
    (void)state;
    for (int i = 1; i <= 2; i++) {
        serve_from(0, &(struct lull_message){.type = LULL_MESSAGE_RENEW, .sequence = 8}, 101);
        check_reply(0, 0, 8, -EPERM);
        assert_int_equal(server.refused_senders, i);
    }
    assert_int_equal(closed, 0);
}

static void a_lease_is_granted_to_one_client(void **state)
{
    (void)state;
    ask_lease(0, 1);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].type, LULL_MESSAGE_GRANT);
    assert_int_equal(sent[0].sequence, 5);
    assert_int_equal(sent[0].body.grant.slot, 1);
    assert_int_equal(sent[0].body.grant.min_mhz, 600);
    assert_int_equal(sent[0].body.grant.max_mhz, 1400);
    assert_true(sent[0].body.grant.lease_id != 0);
    assert_true(sent_with_table[0]);
    assert_int_equal(granted, 1 << 1);
    assert_int_equal(granted_band.min_limit_mw, 1);
    assert_int_equal(granted_band.max_limit_mw, 2);
    assert_int_equal(lull_lease_next_expiry_ns(server.enforcer->leases), T0 + 3000 * MS);
    ask_lease(0, 2);
    assert_int_equal(sent[0].type, LULL_MESSAGE_GRANT);
    assert_false(sent_with_table[0]); /* the table is passed once */
    ask_lease(1, 1);
    check_reply(0, 1, 5, -EBUSY);
    ask_lease(1, 7);
    check_reply(0, 1, 5, -ENODEV);
    assert_false(clients[1].is_table_passed);
    assert_int_equal(opened, 2); /* F48: nothing is made for leases that are refused */
    ask_lease(1, 0);
    assert_true(sent_with_table[0]);
}

/* The loop's turn: it reads everything, if the enforcer waits for that. */
static void turn(void (*read)(void))
{
    lull_server_on_before_poll(&server.before_poll);
    if (read != NULL)
        read();
    lull_server_on_after_poll(&server.after_poll);
    lull_server_on_wake(&server.wake);
}

static void heartbeat_of_the_first(void)
{
    ask_plain(0, LULL_MESSAGE_RENEW);
    check_reply(0, 0, 77, 2);
    sent_count = 0;
}

static void look(void)
{
    pthread_mutex_lock(&server.enforcer->lock);
    enforcer_check_leases(server.enforcer, lull_now_ns());
    pthread_mutex_unlock(&server.enforcer->lock);
}

/* F42: after a stall, what waits in the sockets is read before anything ends. */
static void f42_heartbeats_keep_leases(void **state)
{
    (void)state;
    ask_lease(0, 0);
    ask_lease(0, 2);
    ask_lease(1, 1);
    fake_time_ns = T0 + 3000 * MS - 1;
    look();
    turn(NULL);
    assert_int_equal(ended, 0);
    fake_time_ns = T0 + 9000 * MS;
    look();
    assert_int_equal(ended, 0); /* a heartbeat may wait in a socket */
    sent_count = 0;
    turn(heartbeat_of_the_first);
    assert_int_equal(sent_count, 1);
    assert_ptr_equal(sent_to[0], &clients[1]);
    assert_int_equal(sent[0].type, LULL_MESSAGE_REVOKED);
    assert_int_equal(sent[0].body.revoked.slot, 1);
    assert_int_equal(sent[0].body.revoked.code, LULL_E_STALE);
    assert_int_equal(ended, 1 << 1);
    ask_plain(1, LULL_MESSAGE_RENEW);
    check_reply(0, 1, 77, 0); /* it has none left */
    fake_time_ns = T0 + 20000 * MS;
    for (int i = 0; i < 10; i++) {
        look();
        assert_int_equal(ended, 1 << 1);
    }
    look(); /* the reader is stuck */
    assert_int_equal(ended, 7);
    sent_count = 0;
    turn(NULL);
    assert_int_equal(sent_count, 2);
    assert_int_equal(sent[0].body.revoked.slot, 0);
    assert_int_equal(sent[1].body.revoked.slot, 2);
}

static void a_release_is_answered_when_the_gpus_are_restored(void **state)
{
    (void)state;
    ask_lease(0, 0);
    ask_lease(0, 2);
    ask_lease(1, 1);
    ask_release(0, 1); /* another's */
    check_reply(0, 0, 6, 0);
    assert_int_equal(ended, 0);
    ask_release(0, LULL_MESSAGE_ALL_SLOTS);
    assert_int_equal(sent_count, 0);
    assert_int_equal(ended, 5);
    ask_release(0, 2); /* nothing is left to release, but an answer waits */
    check_reply(0, 0, 6, -EALREADY);
    end_gpu(1, 0);
    end_gpu(0, -EIO);
    assert_int_equal(sent_count, 0);
    end_gpu(2, 0);
    assert_int_equal(sent_count, 1);
    check_reply(0, 0, 6, -EIO); /* the failure of any of them */
    assert_non_null(strstr(sent[0].body.reply.text, "not every GPU"));
    end_gpu(2, 0);
    assert_int_equal(sent_count, 0); /* once */
    ask_lease(2, 0);                 /* it may be leased again */
    assert_int_equal(sent[0].type, LULL_MESSAGE_GRANT);
    ask_release(2, 0);
    assert_int_equal(sent_count, 0);
    ask_lease(1, 0); /* not while it is being restored */
    check_reply(0, 1, 5, -EBUSY);
    end_gpu(0, 0);
    check_reply(0, 2, 6, 0);
    assert_string_equal(sent[0].body.reply.text, "");
    assert_int_equal(wakes, 5);
}

/* Caps that the driver has refused are tried again after a reload, but not after one that fails. */
static void a_reload_tries_refused_caps_again(void **state)
{
    char folder[] = "/tmp/lull-server-XXXXXX";
    char path[64];
    char command[96];
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/policy.conf", folder);
    server.runtime_dir = folder;
    server.policy_path = path;
    cap_retries = 0;
    ask_plain(0, LULL_MESSAGE_RELOAD);
    check_reply(0, 0, 77, -ENOENT);
    assert_int_equal(cap_retries, 0);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs("[lulld]\n", file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fclose(file);
    ask_plain(0, LULL_MESSAGE_RELOAD);
    check_reply(0, 0, 77, 0);
    assert_int_equal(cap_retries, 1);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void only_root_may_take_the_gpus_back(void **state)
{
    (void)state;
    ask_lease(1, 0);
    ask_lease(2, 2);
    ask_plain(1, LULL_MESSAGE_RESTORE);
    check_reply(0, 1, 77, -EPERM);
    assert_int_equal(ended, 0);
    ask_plain(0, LULL_MESSAGE_RESTORE); /* whose user is 0 */
    assert_int_equal(sent_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ptr_equal(sent_to[i], &clients[1 + i]);
        assert_int_equal(sent[i].type, LULL_MESSAGE_REVOKED);
        assert_int_equal(sent[i].body.revoked.slot, 2 * i);
        assert_int_equal(sent[i].body.revoked.code, LULL_E_STALE);
    }
    assert_int_equal(ended, 5);
    end_gpu(2, 0);
    assert_int_equal(sent_count, 0);
    end_gpu(0, 0);
    check_reply(0, 0, 77, 0);
    ask_plain(0, LULL_MESSAGE_RESTORE); /* nothing to do: at once */
    check_reply(0, 0, 77, 0);
}

static void a_client_that_goes_leaves_its_leases(void **state)
{
    (void)state;
    ask_lease(0, 0);
    ask_lease(0, 2);
    ask_lease(1, 1);
    lull_server_forget(&server, &clients[0]);
    assert_int_equal(ended, 5);
    assert_int_equal(lull_enforcer_settling(server.enforcer), 5);
    lull_server_forget(&server, &clients[2]);
    assert_int_equal(ended, 5);
    clients[0].is_closing = true;
    clients[2].is_closing = true;
    server.closing_count = 2;
    for (uint32_t i = 0; i < 3; i++)
        accept_count(&server, clients[i].peer.uid);
    end_gpu(0, 0);
    assert_int_equal(server.closing_count, 0);
    assert_int_equal(server.admitted.count, 1); /* without the first one, which was root's */
    assert_int_equal(server.admitted.uids[0], clients[1].peer.uid);
    assert_int_equal(lull_enforcer_settling(server.enforcer), 4);
    assert_ptr_equal(server.connections, &clients[1]); /* the others are gone */
    assert_null(clients[1].next);
    ask_lease(1, 0);
    server.connections = NULL; /* an owner that is no longer known */
    fake_time_ns = T0 + 5000 * MS;
    sent_count = 0;
    look();
    turn(NULL);
    assert_int_equal(sent_count, 0);
    assert_int_equal(ended, 7);
}

static void the_state_of_a_gpu_is_told(void **state)
{
    struct lull_message question = {.type = LULL_MESSAGE_STATUS, .sequence = 9};
    const struct lull_message_state *reported = &sent[0].body.state;

    (void)state;
    ask_lease(2, 1);
    fake_time_ns += 1000 * MS + 1;
    question.body.status.gpu = 1;
    ask(1, &question);
    assert_int_equal(sent[0].type, LULL_MESSAGE_STATE);
    assert_int_equal(sent[0].sequence, 9);
    assert_int_equal(reported->gpu, 1);
    assert_int_equal(reported->gpu_count, 3);
    assert_string_equal(reported->uuid, "GPU-1");
    assert_int_equal(reported->is_leased, 1);
    assert_int_equal(reported->owner_uid, 2);
    assert_int_equal(reported->owner_pid, 102);
    assert_int_equal(reported->min_mhz, 600);
    assert_int_equal(reported->max_mhz, 1400);
    assert_int_equal(reported->lease_left_ms, 1999);
    assert_int_equal(reported->applied_mhz, 901);
    assert_int_equal(reported->observed_mhz, 2);
    assert_int_equal(reported->status, -3);
    assert_int_equal(reported->writes, 4);
    assert_int_equal(reported->disobeyed, 8);
    assert_int_equal(reported->limit_mw, 9);
    assert_int_equal(reported->health, LULL_WRITER_LOST);
    fake_time_ns = T0 + 4000 * MS; /* it is over, and not ended yet */
    ask(1, &question);
    assert_int_equal(reported->lease_left_ms, 0);
    question.body.status.gpu = 2;
    ask(1, &question);
    assert_int_equal(reported->is_leased, 0);
    assert_int_equal(reported->owner_pid, 0);
    question.body.status.gpu = 3;
    ask(1, &question);
    check_reply(0, 1, 9, -ENODEV);
}

static void the_age_of_what_was_seen_is_told(void **state)
{
    static const struct {
        int64_t seen_ns, now_ns;
        uint32_t age_ms;
    } cases[] = {
        {0, 5 * MS, LULL_MESSAGE_NEVER},
        {1, 1, 0},
        {1, MS, 0},
        {1, MS + 1, 1},
        {T0, T0 + 250 * MS, 250},
        {1, INT64_MAX, LULL_MESSAGE_NEVER - 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct lull_writer_state written = {.seen_ns = cases[i].seen_ns};
        struct lull_message_state reported = {0};

        lull_server_describe_driver(cases[i].now_ns, &written, &reported);
        assert_int_equal(reported.age_ms, cases[i].age_ms);
    }
}

/* Root alone has GPUs let go, all of them GPUs of this node, and their leases end first. */
static void only_root_quiesces_gpus(void **state)
{
    static const struct {
        uint32_t client;
        uint64_t mask;
        int code;
    } cases[] = {
        {1, 1, -EPERM},
        {0, 0, -ENODEV},
        {0, 8, -ENODEV},
        {0, 9, -ENODEV},
        {0, UINT64_C(1) << 63, -ENODEV},
    };
    struct lull_message message = {.type = LULL_MESSAGE_QUIESCE, .sequence = 8};

    (void)state;
    quiesced = 0;
    ask_lease(1, 1);
    ask_lease(2, 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        message.body.gpus.mask = cases[i].mask;
        ask(cases[i].client, &message);
        assert_int_equal(sent_count, 1);
        check_reply(0, cases[i].client, 8, cases[i].code);
    }
    assert_int_equal(quiesced, 0);
    assert_int_equal(ended, 0);
    message.body.gpus.mask = 3;
    ask(0, &message);
    assert_int_equal(quiesced, 3);
    assert_int_equal(ended, 2);
    assert_int_equal(sent_count, 2);
    assert_ptr_equal(sent_to[0], &clients[1]);
    assert_int_equal(sent[0].type, LULL_MESSAGE_REVOKED);
    assert_int_equal(sent[0].body.revoked.slot, 1);
    check_reply(1, 0, 8, 0);
    message.type = LULL_MESSAGE_RESUME;
    message.body.gpus.mask = 6;
    ask(1, &message);
    check_reply(0, 1, 8, -EPERM);
    assert_int_equal(quiesced, 3);
    message.body.gpus.mask = 7;
    ask(0, &message);
    check_reply(0, 0, 8, 0);
    assert_int_equal(quiesced, 0);
}

/* Its client gets the reason, once; the leases of other GPUs stay. */
static void a_gpu_that_cannot_be_driven_loses_its_lease(void **state)
{
    (void)state;
    ask_lease(1, 0);
    ask_lease(2, 2);
    sent_count = 0;
    on_undrivable(&server, 2, LULL_WRITER_REPARTITIONED);
    lull_server_revoke_undrivable(&server);
    assert_int_equal(ended, 4);
    assert_int_equal(sent_count, 1);
    assert_ptr_equal(sent_to[0], &clients[2]);
    assert_int_equal(sent[0].body.revoked.code, LULL_E_UNSUPPORTED);
    on_undrivable(&server, 0, LULL_WRITER_GPU_LOST);
    lull_server_revoke_undrivable(&server);
    assert_int_equal(ended, 5);
    assert_int_equal(sent[1].body.revoked.slot, 0);
    assert_int_equal(sent[1].body.revoked.code, LULL_E_NO_DEVICE);
    lull_server_revoke_undrivable(&server); /* once */
    assert_int_equal(sent_count, 2);
}

/* So many connections there may be, and so many of one user. */
static void rooms_are_counted(void **state)
{
    enum { ROOM = 256 };

    (void)state;
    server.max_connections = ROOM;
    assert_true(accept_has_room(&server, 1000));
    for (uint32_t i = 0; i < ROOM - 1; i++) {
        accept_count(&server, 1000 + i / MAX_CONNECTIONS_PER_USER);
        accept_count(&server, 0); /* root's take no place of others */
    }
    assert_true(accept_has_room(&server, 500));
    assert_true(accept_has_room(&server, 1003)); /* its 64th */
    assert_false(accept_has_room(&server, 1000));
    accept_count(&server, 1003);
    assert_false(accept_has_room(&server, 500));
    assert_false(accept_has_room(&server, 1003));
    lull_server_discount(&server, 0);
    assert_false(accept_has_room(&server, 500));
    lull_server_discount(&server, 1001);
    assert_true(accept_has_room(&server, 500));
    assert_true(accept_has_room(&server, 1001));
    assert_false(accept_has_room(&server, 1003));
}

/* F48: however few descriptors there are, others leave some to root. */
static void f48_descriptors_are_kept_for_root(void **state)
{
    struct rlimit before, few;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = few.rlim_max = 500;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    divide_descriptors(&server, 36);
    assert_int_equal(server.max_connections, 36);
    divide_descriptors(&server, 450);
    assert_int_equal(server.max_connections, 1);
    few.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    divide_descriptors(&server, 40); /* the limit of root is used */
    assert_int_equal(server.max_connections, 35);
    setrlimit(RLIMIT_NOFILE, &before);
}

static void f48_lines_about_a_user_are_counted(void **state)
{
    uint32_t lines = 0;
    uint64_t count;
    uid_t uid;

    (void)state;
    clients[0].is_greeted = true;
    for (uint32_t i = 0; i < 1000; i++) {
        const uint32_t before = server.quota.lines;

        clients[1].is_closing = false;
        lull_server_serve(&server, &clients[1], (const uint8_t *)"nonsense", 8, 101);
        lines += server.quota.lines - before;
    }
    assert_int_equal(lines, LULL_QUOTA_LINES_OF_USER);
    assert_int_equal(house_timers, 1); /* omitted lines are reported soon */
    fake_time_ns += LULL_NS_PER_S;
    assert_true(lull_quota_take_left_out(&server.quota, fake_time_ns, &uid, &count));
    assert_int_equal(uid, 1);
    assert_int_equal(count, 1000 - LULL_QUOTA_LINES_OF_USER);
}

static void f48_who_does_not_greet_is_closed(void **state)
{
    (void)state;
    clients[1].is_greeted = false;
    clients[1].since_ns = T0;
    clients[2].since_ns = T0;
    lull_server_run_maintenance(&server);
    fake_time_ns = T0 + 2000 * MS - 1;
    on_housekeeping(&server.housekeeping);
    assert_int_equal(closed, 0);
    assert_true(server.is_housekeeping);
    fake_time_ns = T0 + 2000 * MS;
    on_housekeeping(&server.housekeeping);
    assert_int_equal(closed, 1);
    assert_true(clients[1].is_closing);
    assert_false(server.is_housekeeping);
}

/* systemd's socket is notified that the daemon is ready, in the file system or not. */
static void the_manager_is_told(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[16] = "";
    const size_t most = sizeof(address.sun_path);
    char path[sizeof(address.sun_path) + 1];

    (void)state;
    unsetenv("NOTIFY_SOCKET");
    lull_notify_manager("READY=1");
    setenv("NOTIFY_SOCKET", "", 1);
    lull_notify_manager("READY=1");
    memset(path, 'x', sizeof(path));
    path[0] = '@';
    path[most] = '\0'; /* too long */
    setenv("NOTIFY_SOCKET", path, 1);
    lull_notify_manager("READY=1");
    for (size_t length = 20; length < most; length += most - 21) { /* a short and the longest */
        const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        snprintf(path, sizeof(path), "@lull-%010ld", (long)getpid());
        memset(path + 16, 'y', length - 16);
        path[length] = '\0';
        memcpy(address.sun_path, path, length);
        address.sun_path[0] = '\0';
        assert_int_equal(bind(fd, (struct sockaddr *)&address,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                         0);
        setenv("NOTIFY_SOCKET", path, 1);
        lull_notify_manager("READY=1");
        assert_int_equal(recv(fd, text, sizeof(text), 0), 7);
        assert_memory_equal(text, "READY=1", 7);
        close(fd);
    }
    unsetenv("NOTIFY_SOCKET");
}

/* F48: clients that have sent too much are read again one after the other, so many in a time. */
static void f48_paused_clients_are_resumed_in_turn(void **state)
{
    static struct lull_connection many[RESUMES_IN_A_ROW + 3];
    uv_timer_t timer = {.data = &server};
    uint32_t resumed = 0;

    (void)state;
    lull_server_init_pauses(&server);
    for (uint32_t i = 0; i < RESUMES_IN_A_ROW + 3; i++)
        lull_server_pause(&server, &many[i]);
    lull_server_unpause(&server, &many[1]); /* it has closed */
    lull_server_unpause(&server, &many[1]);
    house_timers = 0;
    on_resume(&timer);
    for (uint32_t i = 0; i < RESUMES_IN_A_ROW + 3; i++)
        assert_int_equal(many[i].is_paused, i > RESUMES_IN_A_ROW);
    assert_int_equal(house_timers, 1);
    lull_server_pause(&server, &many[0]); /* it goes behind the others */
    fake_time_ns += LULL_NS_PER_S / RESUMES_PER_S;
    on_resume(&timer);
    assert_false(many[RESUMES_IN_A_ROW + 1].is_paused);
    assert_true(many[RESUMES_IN_A_ROW + 2].is_paused);
    fake_time_ns += 2 * LULL_NS_PER_S / RESUMES_PER_S;
    house_timers = 0;
    on_resume(&timer);
    assert_int_equal(house_timers, 0); /* no client waits */
    for (uint32_t i = 0; i < RESUMES_IN_A_ROW + 3; i++)
        assert_false(many[i].is_paused);
    for (uint32_t i = 0; i < RESUMES_IN_A_ROW + 3; i++)
        lull_server_pause(&server, &many[i]);
    for (uint32_t ms = 0; ms < 1000; ms++) { /* clients that never stop sending */
        fake_time_ns += MS;
        on_resume(&timer);
        for (uint32_t i = 0; i < RESUMES_IN_A_ROW + 3; i++)
            if (!many[i].is_paused) {
                resumed++;
                lull_server_pause(&server, &many[i]);
            }
    }
    assert_in_range(resumed, RESUMES_PER_S, RESUMES_PER_S + RESUMES_IN_A_ROW);
}

static void readiness_is_written_and_the_descriptor_closed(void **state)
{
    struct lull_server_options options = {.ready_fd = -1};
    char text[4];
    int fds[2];

    (void)state;
    server_announce(&server, &options);
    assert_int_equal(pipe(fds), 0);
    options.ready_fd = fds[1];
    server_announce(&server, &options);
    assert_int_equal(read(fds[0], text, sizeof(text)), 1);
    assert_int_equal(text[0], '\n');
    assert_int_equal(read(fds[0], text, sizeof(text)), 0);
    close(fds[0]);
    {
        const int input = dup(0);

        assert_int_equal(pipe(fds), 0);
        assert_int_equal(dup2(fds[1], 0), 0);
        close(fds[1]);
        options.ready_fd = 0;
        server_announce(&server, &options);
        assert_int_equal(read(fds[0], text, sizeof(text)), 1);
        assert_int_equal(dup2(input, 0), 0);
        close(input);
        close(fds[0]);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hello_is_answered_and_comes_first),
        TEST(only_the_process_that_connected_may_ask),
        TEST(a_lease_is_granted_to_one_client),
        TEST(f42_heartbeats_keep_leases),
        TEST(f48_lines_about_a_user_are_counted),
        TEST(f48_who_does_not_greet_is_closed),
        TEST(a_release_is_answered_when_the_gpus_are_restored),
        TEST(a_reload_tries_refused_caps_again),
        TEST(only_root_may_take_the_gpus_back),
        TEST(a_client_that_goes_leaves_its_leases),
        TEST(the_state_of_a_gpu_is_told),
        TEST(the_age_of_what_was_seen_is_told),
        TEST(only_root_quiesces_gpus),
        TEST(a_gpu_that_cannot_be_driven_loses_its_lease),
        TEST(rooms_are_counted),
        TEST(f48_descriptors_are_kept_for_root),
        TEST(the_manager_is_told),
        TEST(f48_paused_clients_are_resumed_in_turn),
        TEST(readiness_is_written_and_the_descriptor_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
