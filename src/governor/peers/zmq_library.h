/*
 * ZeroMQ, loaded only when nodes must communicate. lull therefore starts without it, and starts
 * faster.
 *
 * The functions are those of <zmq.h>, with their types. The library stays loaded.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PEERS_ZMQ_LIBRARY_H
#define LULL_GOVERNOR_PEERS_ZMQ_LIBRARY_H

#include <zmq.h>

#include "base/error.h"

/* clang-format off */
/* The functions that are looked up, without the prefix zmq_. */
#define LULL_ZMQ_EACH(F)                                                                           \
    F(bind) F(close) F(connect) F(ctx_new) F(ctx_term) F(curve_keypair) F(curve_public)            \
    F(getsockopt) F(poll) F(recv) F(send) F(setsockopt) F(socket) F(strerror) F(z85_decode) \
    F(z85_encode)
/* clang-format on */

#define LULL_ZMQ_MEMBER(name) __typeof__(zmq_##name) *name;

struct lull_zmq {
    LULL_ZMQ_EACH(LULL_ZMQ_MEMBER)
};

/* Opens the library. Errors, with which zmq_out is left unchanged: LULL_E_UNSUPPORTED it is not
 * installed, or cannot encrypt. */
int lull_zmq_load(struct lull_zmq *zmq_out, struct lull_error *err);

#endif
