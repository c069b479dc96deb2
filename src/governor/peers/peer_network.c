/*
 * Node 0 has a ROUTER socket, the others a DEALER each. Node 0 knows a peer by the routing id that
 * ZeroMQ gives its connection, and learns it from the peer's first proposal; when the connection is
 * made again the next proposal brings the new one. A ZAP handler on the same thread admits only
 * clients with the job's own public key; CURVE has verified that they own it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/peers/peer_network.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "governor/peers/zmq_library.h"
#include "wire/peer_proposal.h"

enum { QUEUE_LENGTH = 256, POLL_MS = 20, LINGER_MS = 200, HIGH_WATER = 256 };
enum { IDENTITY_MAX = 64, CURVE_KEY_BYTES = 32, FRAME_MAX = 256, ZAP_FRAMES = 8 };

static const char zap_endpoint[] = "inproc://zeromq.zap.01";

/* A queue with one writer and one reader, without locks. */
struct peer_network_queue {
    atomic_uint_fast64_t written;
    atomic_uint_fast64_t read;
    struct lull_proposal items[QUEUE_LENGTH];
};

struct peer_network_peer {
    uint8_t identity[IDENTITY_MAX];
    size_t identity_size; /* 0: nothing received from it yet */
};

struct lull_peer_network {
    struct lull_zmq zmq;
    struct lull_nodes nodes;
    uint8_t public_key[CURVE_KEY_BYTES];
    void *context;
    void *socket;
    void *zap; /* node 0 only */
    pthread_t thread;
    bool running;
    atomic_bool stopping;
    uint32_t version; /* of proposals: the oldest that a node has used; the network's thread */
    struct peer_network_queue outgoing;
    struct peer_network_queue incoming;
    struct peer_network_peer peers[LULL_AGREEMENT_MAX_NODES];
    atomic_uint_fast64_t received;
    atomic_uint_fast64_t malformed;
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t dropped;
};

/* ---- queues ------------------------------------------------------------------------------ */

static bool peer_network_push(struct peer_network_queue *queue,
                              const struct lull_proposal *proposal)
{
    const uint64_t written = atomic_load_explicit(&queue->written, memory_order_relaxed);

    if (written - atomic_load_explicit(&queue->read, memory_order_acquire) == QUEUE_LENGTH)
        return false;
    queue->items[written % QUEUE_LENGTH] = *proposal;
    atomic_store_explicit(&queue->written, written + 1, memory_order_release);
    return true;
}

static bool peer_network_pop(struct peer_network_queue *queue, struct lull_proposal *proposal_out)
{
    const uint64_t read = atomic_load_explicit(&queue->read, memory_order_relaxed);

    if (read == atomic_load_explicit(&queue->written, memory_order_acquire))
        return false;
    *proposal_out = queue->items[read % QUEUE_LENGTH];
    atomic_store_explicit(&queue->read, read + 1, memory_order_release);
    return true;
}

static void peer_network_count(atomic_uint_fast64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- who may connect --------------------------------------------------------------------- */

/* Receives a frame of a request. *size_out is its length, of which FRAME_MAX bytes are kept. */
static bool receive_frame(const struct lull_peer_network *network, void *socket,
                          uint8_t frame[FRAME_MAX], size_t *size_out)
{
    const int size = network->zmq.recv(socket, frame, FRAME_MAX, ZMQ_DONTWAIT);

    if (size < 0)
        return false;
    *size_out = (size_t)size;
    return true;
}

static bool peer_network_has_more(const struct lull_peer_network *network, void *socket)
{
    int more = 0;
    size_t size = sizeof(more);

    return network->zmq.getsockopt(socket, ZMQ_RCVMORE, &more, &size) == 0 && more != 0;
}

static void send_text(const struct lull_peer_network *network, void *socket, const char *text,
                      int flags)
{
    network->zmq.send(socket, text, strlen(text), flags | ZMQ_DONTWAIT);
}

/* Answers one request of ZeroMQ's authentication protocol (RFC 27). Its frames: version, request
 * id, domain, address, identity, mechanism, then for CURVE the client's public key. */
static bool serve_zap(struct lull_peer_network *network)
{
    enum { REQUEST_ID = 1, MECHANISM = 5, CREDENTIAL = 6 };
    uint8_t frames[ZAP_FRAMES][FRAME_MAX];
    size_t sizes[ZAP_FRAMES] = {0};
    uint32_t frame_count = 0;
    bool may_enter;

    do {
        const uint32_t at = frame_count < ZAP_FRAMES ? frame_count : ZAP_FRAMES - 1;

        if (!receive_frame(network, network->zap, frames[at], &sizes[at]))
            return false;
        frame_count++;
    } while (peer_network_has_more(network, network->zap));
    may_enter = frame_count == CREDENTIAL + 1 && sizes[MECHANISM] == 5 &&
                memcmp(frames[MECHANISM], "CURVE", 5) == 0 &&
                sizes[CREDENTIAL] == CURVE_KEY_BYTES &&
                memcmp(frames[CREDENTIAL], network->public_key, CURVE_KEY_BYTES) == 0;
    if (!may_enter)
        peer_network_count(&network->refused);
    send_text(network, network->zap, "1.0", ZMQ_SNDMORE);
    network->zmq.send(network->zap, frames[REQUEST_ID],
                      sizes[REQUEST_ID] < FRAME_MAX ? sizes[REQUEST_ID] : FRAME_MAX,
                      ZMQ_SNDMORE | ZMQ_DONTWAIT);
    send_text(network, network->zap, may_enter ? "200" : "400", ZMQ_SNDMORE);
    send_text(network, network->zap, may_enter ? "" : "not the job's key", ZMQ_SNDMORE);
    send_text(network, network->zap, "", ZMQ_SNDMORE);
    send_text(network, network->zap, "", 0);
    return true;
}

/* ---- messages ---------------------------------------------------------------------------- */

static bool is_router(const struct lull_peer_network *network)
{
    return network->nodes.self == 0;
}

static void send_to_peer(struct lull_peer_network *network, const struct peer_network_peer *peer,
                         const uint8_t *message, size_t size)
{
    if (peer->identity_size == 0 ||
        network->zmq.send(network->socket, peer->identity, peer->identity_size,
                          ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        network->zmq.send(network->socket, message, size, ZMQ_DONTWAIT) < 0)
        peer_network_count(&network->dropped);
}

/* Node 0 passes a message on to all peers but the one from whom it has come. */
static void send_around(struct lull_peer_network *network, const struct lull_proposal *proposal)
{
    uint8_t message[LULL_PROPOSAL_MAX_BYTES];
    const size_t size = lull_proposal_encode(proposal, network->version, message);

    for (uint32_t i = 1; i < network->nodes.count; i++)
        if (i != proposal->node)
            send_to_peer(network, &network->peers[i], message, size);
}

static void send_queued(struct lull_peer_network *network)
{
    struct lull_proposal proposal;
    uint8_t message[LULL_PROPOSAL_MAX_BYTES];

    while (peer_network_pop(&network->outgoing, &proposal)) {
        if (is_router(network))
            send_around(network, &proposal);
        else if (network->zmq.send(network->socket, message,
                                   lull_proposal_encode(&proposal, network->version, message),
                                   ZMQ_DONTWAIT) < 0)
            peer_network_count(&network->dropped);
    }
}

/* Receives a message of one frame. The router gets the sender's identity as a frame before it. */
static bool receive_message(struct lull_peer_network *network, struct peer_network_peer *sender,
                            uint8_t *message, size_t capacity, int *size_out)
{
    bool is_whole = true;
    int size;

    if (is_router(network)) {
        size = network->zmq.recv(network->socket, sender->identity, IDENTITY_MAX, ZMQ_DONTWAIT);
        if (size < 0)
            return false;
        sender->identity_size = size <= IDENTITY_MAX ? (size_t)size : 0;
        is_whole = peer_network_has_more(network, network->socket);
    }
    size = is_whole ? network->zmq.recv(network->socket, message, capacity, ZMQ_DONTWAIT) : 0;
    if (size < 0)
        return false;
    /* A message that is too long, or has more than one frame, is not from a governor. */
    *size_out = (size_t)size <= capacity && is_whole ? size : 0;
    while (peer_network_has_more(network, network->socket)) {
        uint8_t rest[FRAME_MAX];

        *size_out = 0;
        if (network->zmq.recv(network->socket, rest, sizeof(rest), ZMQ_DONTWAIT) < 0)
            break;
    }
    return true;
}

static void take_message(struct lull_peer_network *network, const struct peer_network_peer *sender,
                         const uint8_t *message, size_t size)
{
    struct lull_proposal proposal;
    const int version = lull_proposal_decode(message, size, &proposal);

    if (version < 0 || proposal.node >= network->nodes.count ||
        proposal.node == network->nodes.self) {
        peer_network_count(&network->malformed);
        return;
    }
    peer_network_count(&network->received);
    if ((uint32_t)version < network->version)
        network->version = (uint32_t)version;
    if (is_router(network)) {
        network->peers[proposal.node] = *sender;
        send_around(network, &proposal);
    }
    if (!peer_network_push(&network->incoming, &proposal))
        peer_network_count(&network->dropped);
}

static void receive_all(struct lull_peer_network *network)
{
    uint8_t message[LULL_PROPOSAL_MAX_READ];
    struct peer_network_peer sender = {.identity_size = 0};
    int size;

    for (uint32_t i = 0; i < QUEUE_LENGTH; i++) {
        if (!receive_message(network, &sender, message, sizeof(message), &size))
            return;
        take_message(network, &sender, message, (size_t)size);
    }
}

static void *peer_network_serve(void *argument)
{
    struct lull_peer_network *network = argument;
    zmq_pollitem_t items[2] = {
        {.socket = network->socket, .events = ZMQ_POLLIN},
        {.socket = network->zap, .events = ZMQ_POLLIN},
    };

    while (!atomic_load(&network->stopping)) {
        if (network->zmq.poll(items, network->zap != NULL ? 2 : 1, POLL_MS) < 0 && errno != EINTR)
            break;
        while (network->zap != NULL && serve_zap(network))
            continue;
        receive_all(network);
        send_queued(network);
    }
    send_queued(network);
    return NULL;
}

/* ---- opening and closing ----------------------------------------------------------------- */

static bool set_number(const struct lull_peer_network *network, void *socket, int option, int value)
{
    return network->zmq.setsockopt(socket, option, &value, sizeof(value)) == 0;
}

static bool set_key(const struct lull_peer_network *network, void *socket, int option,
                    const char *key)
{
    return network->zmq.setsockopt(socket, option, key, strlen(key)) == 0;
}

/* Every connection is encrypted: a socket with these options refuses all others. */
static bool set_security(const struct lull_peer_network *network, const struct lull_job_key *key)
{
    if (is_router(network))
        return set_number(network, network->socket, ZMQ_CURVE_SERVER, 1) &&
               network->zmq.setsockopt(network->socket, ZMQ_ZAP_DOMAIN, "lull", 4) == 0 &&
               set_key(network, network->socket, ZMQ_CURVE_SECRETKEY, key->secret_key);
    return set_key(network, network->socket, ZMQ_CURVE_SERVERKEY, key->public_key) &&
           set_key(network, network->socket, ZMQ_CURVE_PUBLICKEY, key->public_key) &&
           set_key(network, network->socket, ZMQ_CURVE_SECRETKEY, key->secret_key);
}

/* Queues are short, because an old proposal is useless. The connection to a hanging peer is
 * closed. */
static bool peer_network_set_bounds(const struct lull_peer_network *network)
{
    return set_number(network, network->socket, ZMQ_LINGER, LINGER_MS) &&
           set_number(network, network->socket, ZMQ_SNDHWM, HIGH_WATER) &&
           set_number(network, network->socket, ZMQ_RCVHWM, HIGH_WATER) &&
           set_number(network, network->socket, ZMQ_HEARTBEAT_IVL, 1000) &&
           set_number(network, network->socket, ZMQ_HEARTBEAT_TIMEOUT, 3000) &&
           set_number(network, network->socket, ZMQ_RECONNECT_IVL, 200) &&
           set_number(network, network->socket, ZMQ_RECONNECT_IVL_MAX, 2000) &&
           network->zmq.setsockopt(network->socket, ZMQ_MAXMSGSIZE,
                                   &(int64_t){LULL_PROPOSAL_MAX_READ}, sizeof(int64_t)) == 0;
}

static bool open_zap(struct lull_peer_network *network)
{
    network->zap = network->zmq.socket(network->context, ZMQ_REP);
    return network->zap != NULL && set_number(network, network->zap, ZMQ_LINGER, 0) &&
           network->zmq.bind(network->zap, zap_endpoint) == 0;
}

static bool open_sockets(struct lull_peer_network *network, const char *endpoint,
                         const struct lull_job_key *key)
{
    network->context = network->zmq.ctx_new();
    if (network->context == NULL || (is_router(network) && !open_zap(network)))
        return false;
    network->socket =
        network->zmq.socket(network->context, is_router(network) ? ZMQ_ROUTER : ZMQ_DEALER);
    if (network->socket == NULL || !peer_network_set_bounds(network) || !set_security(network, key))
        return false;
    return (is_router(network) ? network->zmq.bind(network->socket, endpoint)
                               : network->zmq.connect(network->socket, endpoint)) == 0;
}

int lull_peer_network_open(const char *endpoint, const struct lull_nodes *nodes,
                           const struct lull_job_key *key, struct lull_peer_network **network_out,
                           struct lull_error *err)
{
    struct lull_peer_network *network;
    struct lull_zmq zmq;
    const int result = lull_zmq_load(&zmq, err);

    if (result < 0)
        return result;
    network = calloc(1, sizeof(*network));
    if (network == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the other nodes");
    network->zmq = zmq;
    network->nodes = *nodes;
    network->version = LULL_PROPOSAL_VERSION;
    if (network->zmq.z85_decode(network->public_key, key->public_key) == NULL ||
        !open_sockets(network, endpoint, key) ||
        lull_thread_start(&network->thread, peer_network_serve, network) < 0) {
        const int code = errno != 0 ? errno : EIO;

        lull_peer_network_close(network);
        return lull_error_set(err, -code, "%s: cannot %s: %s", endpoint,
                              nodes->self == 0 ? "listen there" : "connect", zmq.strerror(code));
    }
    network->running = true;
    *network_out = network;
    return 0;
}

void lull_peer_network_close(struct lull_peer_network *network)
{
    if (network == NULL)
        return;
    atomic_store(&network->stopping, true);
    if (network->running)
        pthread_join(network->thread, NULL);
    if (network->socket != NULL)
        network->zmq.close(network->socket);
    if (network->zap != NULL)
        network->zmq.close(network->zap);
    if (network->context != NULL)
        network->zmq.ctx_term(network->context);
    free(network);
}

void lull_peer_network_send(struct lull_peer_network *network, const struct lull_proposal *proposal)
{
    if (!peer_network_push(&network->outgoing, proposal))
        peer_network_count(&network->dropped);
}

bool lull_peer_network_receive(struct lull_peer_network *network,
                               struct lull_proposal *proposal_out)
{
    return peer_network_pop(&network->incoming, proposal_out);
}

void lull_peer_network_counts(const struct lull_peer_network *network,
                              struct lull_peer_network_counts *counts_out)
{
    *counts_out = (struct lull_peer_network_counts){
        .received = atomic_load(&network->received),
        .malformed = atomic_load(&network->malformed),
        .refused = atomic_load(&network->refused),
        .dropped = atomic_load(&network->dropped),
    };
}
