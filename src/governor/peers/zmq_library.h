/*
 * ZeroMQ, opened when nodes are to talk to each other and not before: lull starts, and starts
 * faster, where it is not installed.
 *
 * The functions are those of <zmq.h>, with their types. The library stays loaded.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PEERS_ZMQ_LIBRARY_H
#define LULL_GOVERNOR_PEERS_ZMQ_LIBRARY_H

#include <zmq.h>

#include "base/error.h"

struct lull_zmq {
    __typeof__(zmq_bind) *bind;
    __typeof__(zmq_close) *close;
    __typeof__(zmq_connect) *connect;
    __typeof__(zmq_ctx_new) *ctx_new;
    __typeof__(zmq_ctx_term) *ctx_term;
    __typeof__(zmq_curve_keypair) *curve_keypair;
    __typeof__(zmq_curve_public) *curve_public;
    __typeof__(zmq_getsockopt) *getsockopt;
    __typeof__(zmq_poll) *poll;
    __typeof__(zmq_recv) *recv;
    __typeof__(zmq_send) *send;
    __typeof__(zmq_setsockopt) *setsockopt;
    __typeof__(zmq_socket) *socket;
    __typeof__(zmq_strerror) *strerror;
    __typeof__(zmq_z85_decode) *z85_decode;
};

/* Errors: LULL_E_UNSUPPORTED it is not installed, or cannot encrypt; zmq_out is left alone. */
int lull_zmq_load(struct lull_zmq *zmq_out, struct lull_error *err);

#endif
