/* Finds and closes the client that keeps the device writer busy by ringing its doorbell. The search
 * takes up to a fifth of a second, so a thread of the pool does it. SPDX-License-Identifier:
 * Apache-2.0 */
#include "daemon/internal.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/flood.h"

enum { BAR_MS = 5000 }; /* time for which the user of such a client may not lease; */

/* On the thread of the pool. After the last store the server may be freed. */
static void ringer_search(struct lull_foreign_job *job)
{
    struct lull_ringer_search *const found = (struct lull_ringer_search *)job;
    const int index = lull_flood_find(found->doorbells, found->count);

    for (uint32_t i = 0; i < found->count; i++)
        close(found->doorbells[i]);
    found->ringer = index >= 0 ? found->clients[index] : 0;
    atomic_store(&found->state, LULL_RINGER_FOUND);
    lull_server_wake(found->server);
    atomic_fetch_sub(&found->users, 1);
}

/* Copies the doorbells, because a client may close meanwhile. */
static void ringer_begin_search(struct lull_server *server)
{
    struct lull_ringer_search *const begun = &server->ringer;

    begun->count = 0;
    for (struct lull_connection *c = server->connections; c != NULL; c = c->next) {
        int copy;

        if (c->source_state != LULL_SOURCE_LISTENED || begun->count == LULL_DEVICE_MAX_GPUS)
            continue;
        copy = fcntl(c->doorbell_fd, F_DUPFD_CLOEXEC, 0);
        if (copy < 0)
            break;
        begun->doorbells[begun->count] = copy;
        begun->clients[begun->count++] = c->id;
    }
    begun->server = server;
    begun->job = (struct lull_foreign_job){.is_own = true, .work = ringer_search};
    atomic_store(&begun->state, LULL_RINGER_SEARCHED);
    atomic_fetch_add(&begun->users, 1);
    lull_foreign_add(server->foreign, &begun->job);
}

static void close_ringer(struct lull_server *server)
{
    struct lull_connection *const ringer =
        lull_server_find_connection(server, server->ringer.ringer);
    const int64_t now_ns = lull_now_ns();

    if (ringer == NULL)
        return; /* none rings all the time, or it has closed */
    lull_server_log(server, ringer->peer.uid, LULL_LOG_WARNING,
                    "client closed, because it rings its doorbell without end (pid=%ld uid=%u)",
                    (long)ringer->peer.pid, (unsigned int)ringer->peer.uid);
    lull_quota_bar(&server->quota, ringer->peer.uid, now_ns, now_ns + BAR_MS * LULL_NS_PER_MS);
    lull_connection_close(ringer);
}

void lull_server_stop_flood(struct lull_server *server)
{
    if (atomic_load(&server->ringer.state) == LULL_RINGER_FOUND) {
        close_ringer(server);
        atomic_store(&server->ringer.state, LULL_RINGER_NONE);
    }
    if (atomic_load(&server->ringer.state) == LULL_RINGER_NONE &&
        atomic_load(&server->ringer.users) == 0 && atomic_exchange(&server->is_flooded, false))
        ringer_begin_search(server);
}
