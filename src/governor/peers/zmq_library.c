/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/peers/zmq_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define ROW(function) {"zmq_" #function, offsetof(struct lull_zmq, function)},

static const struct {
    const char *name;
    size_t offset;
} functions[] = {LULL_ZMQ_EACH(ROW)};

int lull_zmq_load(struct lull_zmq *zmq_out, struct lull_error *err)
{
    void *const library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    __typeof__(zmq_has) *has = NULL;
    struct lull_zmq zmq;

    if (library == NULL)
        return lull_error_set(
            err, LULL_E_UNSUPPORTED,
            "nodes communicate over ZeroMQ, which is not installed here (libzmq5): %s", dlerror());
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *const address = dlsym(library, functions[i].name);

        if (address == NULL)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "ZeroMQ is too old: %s is missing; install version 4.2",
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
