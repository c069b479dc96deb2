/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/peers/zmq_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    {"zmq_bind", offsetof(struct lull_zmq, bind)},
    {"zmq_close", offsetof(struct lull_zmq, close)},
    {"zmq_connect", offsetof(struct lull_zmq, connect)},
    {"zmq_ctx_new", offsetof(struct lull_zmq, ctx_new)},
    {"zmq_ctx_term", offsetof(struct lull_zmq, ctx_term)},
    {"zmq_curve_keypair", offsetof(struct lull_zmq, curve_keypair)},
    {"zmq_curve_public", offsetof(struct lull_zmq, curve_public)},
    {"zmq_getsockopt", offsetof(struct lull_zmq, getsockopt)},
    {"zmq_poll", offsetof(struct lull_zmq, poll)},
    {"zmq_recv", offsetof(struct lull_zmq, recv)},
    {"zmq_send", offsetof(struct lull_zmq, send)},
    {"zmq_setsockopt", offsetof(struct lull_zmq, setsockopt)},
    {"zmq_socket", offsetof(struct lull_zmq, socket)},
    {"zmq_strerror", offsetof(struct lull_zmq, strerror)},
    {"zmq_z85_decode", offsetof(struct lull_zmq, z85_decode)},
};

int lull_zmq_load(struct lull_zmq *zmq_out, struct lull_error *err)
{
    void *const library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    __typeof__(zmq_has) *has = NULL;
    struct lull_zmq zmq;

    if (library == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "nodes talk over ZeroMQ, which is not installed here (libzmq5): %s",
                              dlerror());
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *const address = dlsym(library, functions[i].name);

        if (address == NULL)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "ZeroMQ is too old here: it has no %s; 4.2 has it",
                                  functions[i].name);
        memcpy((char *)&zmq + functions[i].offset, &address, sizeof(address));
    }
    *(void **)&has = dlsym(library, "zmq_has");
    if (has == NULL || !has("curve"))
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "ZeroMQ cannot encrypt here: it has been built without CURVE");
    *zmq_out = zmq;
    return 0;
}
