/*
 * Before the ranks start, the play runs once in virtual time. That finds plays that would deadlock,
 * and from it follows how far the host has to run ahead of each operation.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/player/run.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "emulator/node.h"
#include "emulator/player/rendezvous.h"
#include "emulator/player/rank.h"
#include "emulator/player/sim.h"

enum { MAX_GATE = 1000, ALIGNMENT = 64 };

/* ---- how far the host runs ahead ---- */

/* For each operation, in launch order, the latest begin of those up to it in a settled period. */
static void find_latest_begins(const struct lull_play_span *spans, uint32_t count,
                               int64_t period_ns, int64_t *latest_ns)
{
    int64_t latest = INT64_MIN;

    for (uint32_t i = 0; i < count; i++)
        if (spans[i].begin_ns > latest)
            latest = spans[i].begin_ns;
    latest -= period_ns; /* the same begin one period earlier */
    for (uint32_t i = 0; i < count; i++) {
        if (spans[i].begin_ns > latest)
            latest = spans[i].begin_ns;
        latest_ns[i] = latest;
    }
}

/*
 * Returns how many operations before `op` its gate lies: the last operation that begins at least
 * the lead earlier, at whose start the host enqueues this one. At the highest clock everything that
 * an operation waits for begins before it, so no operation is its own gate.
 */
static uint32_t find_gate(const int64_t *latest_ns, uint32_t count, int64_t period_ns, uint32_t op,
                          int64_t target_ns)
{
    uint32_t gate = 0;
    int64_t begin_ns;

    do {
        const uint32_t back = ++gate + count - 1 - op; /* counted from the end of the period */

        begin_ns = latest_ns[count - 1 - back % count] - (int64_t)(back / count) * period_ns;
    } while (begin_ns > target_ns && gate < MAX_GATE);
    return gate;
}

static uint32_t *find_gates(const struct lull_play *play, uint32_t rank,
                            const struct lull_play_span *spans, int64_t period_ns)
{
    /* With a shorter lead, delays of the machine's scheduler would
     * appear in the play's times. Chosen on the build machine. */
    const double min_lead_ms = 2.0;
    const struct lull_play_rank *ops = &play->ranks[rank];
    int64_t *latest_ns = calloc(ops->count, sizeof(latest_ns[0]));
    uint32_t *gates = calloc(ops->count, sizeof(gates[0]));

    if (latest_ns != NULL && gates != NULL) {
        find_latest_begins(spans, ops->count, period_ns, latest_ns);
        for (uint32_t i = 0; i < ops->count; i++) {
            const double lead_ms =
                fmax(ops->ops[i].lead_ms > 0 ? ops->ops[i].lead_ms : play->lead_ms, min_lead_ms);

            gates[i] = find_gate(latest_ns, ops->count, period_ns, i,
                                 spans[i].begin_ns - lull_ns_from_ms(lead_ms));
        }
    }
    free(latest_ns);
    return gates;
}

/* ---- processes ---- */

struct players {
    const struct lull_play *play;
    uint64_t periods;
    uint32_t *gates[LULL_PLAY_RANKS];
    struct lull_play_shared *shared;
    size_t shared_size;
    void *collectives;
    pid_t children[LULL_PLAY_RANKS];
};

/* Sets the variables by which torchrun passes their identity to its processes. */
static void set_rank(const struct players *players, uint32_t rank)
{
    char number[16];
    char count[16];

    snprintf(number, sizeof(number), "%u", rank);
    snprintf(count, sizeof(count), "%u", players->play->rank_count);
    setenv("RANK", number, 1);
    setenv("LOCAL_RANK", number, 1);
    setenv("WORLD_SIZE", count, 1);
    setenv("LOCAL_WORLD_SIZE", count, 1);
}

static void __attribute__((noreturn)) run_child(const struct players *players, uint32_t rank)
{
    const struct lull_play_part part = {
        .play = players->play,
        .rank = rank,
        .periods = players->periods,
        .gates = players->gates[rank],
        .shared = players->shared,
        .collectives = players->collectives,
    };

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    set_rank(players, rank);
    if (lull_play_rank(&part, &players->shared->errors[rank]) < 0)
        _exit(LULL_EXIT_FAILED);
    exit(LULL_EXIT_OK);
}

static void kill_all(const struct players *players)
{
    for (uint32_t rank = 0; rank < players->play->rank_count; rank++)
        if (players->children[rank] > 0)
            kill(players->children[rank], SIGKILL);
}

static uint32_t find_child(const struct players *players, pid_t child)
{
    uint32_t rank = 0;

    while (rank < players->play->rank_count && players->children[rank] != child)
        rank++;
    return rank;
}

/* Waits for all ranks. If one fails the others would wait for it forever, so they are killed. */
static int wait_for_all(struct players *players, uint32_t started, struct lull_error *err)
{
    int result = started < players->play->rank_count ? -ECHILD : 0;

    if (result < 0)
        kill_all(players);
    while (started > 0) {
        int status;
        const pid_t child = waitpid(-1, &status, 0);
        const uint32_t rank = find_child(players, child);

        if (child < 0 && errno != EINTR)
            return lull_error_set(err, -errno, "cannot wait for the ranks: %s", strerror(errno));
        if (rank == players->play->rank_count)
            continue;
        players->children[rank] = 0;
        started--;
        if (status == 0 || result < 0)
            continue;
        if (players->shared->errors[rank].code != 0) {
            *err = players->shared->errors[rank];
            result = err->code;
        } else {
            result = lull_error_set(err, -ECHILD, "rank %u ended with %s %d", rank,
                                    WIFSIGNALED(status) ? "signal" : "status",
                                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
        kill_all(players);
    }
    return result;
}

static int play_run_all(struct players *players, struct lull_error *err)
{
    uint32_t started = 0;

    fflush(NULL); /* otherwise each child would write what is buffered here once more */
    for (; started < players->play->rank_count; started++) {
        const pid_t child = fork();

        if (child == 0)
            run_child(players, started);
        if (child < 0) {
            lull_error_set(err, -errno, "cannot start rank %u: %s", started, strerror(errno));
            break;
        }
        players->children[started] = child;
    }
    return wait_for_all(players, started, err);
}

/* ---- setting up ---- */

static int check_node(const struct lull_play *play, struct lull_gpu_model *model_out,
                      struct lull_error *err)
{
    const char *path = getenv(LULL_EMULATED_NODE_VARIABLE);
    struct lull_node *node;
    uint32_t gpus;
    int result;

    if (path == NULL || *path == '\0')
        return lull_error_set(err, LULL_E_NO_DEVICE,
                              "there is no emulated node: use lull emulate SPEC -- lull play ...");
    result = lull_node_open(path, &node, err);
    if (result < 0)
        return result;
    gpus = lull_node_gpu_count(node);
    *model_out = lull_node_begin(node, 0)->model;
    lull_node_end(node, 0, false);
    lull_node_close(node);
    if (gpus < play->rank_count)
        return lull_error_set(err, LULL_E_NO_DEVICE,
                              "the play has %u ranks, but the emulated node has %u GPUs",
                              play->rank_count, gpus);
    return 0;
}

static uint64_t play_run_periods_of(const struct lull_play *play,
                                    const struct lull_play_length *length, int64_t period_ns)
{
    const uint32_t steps = play->ranks[0].steps;

    if (length->iterations > 0)
        return (length->iterations + steps - 1) / steps;
    return (uint64_t)ceil(length->seconds * 1e9 / (double)(period_ns > 0 ? period_ns : 1));
}

static int map_shared(struct players *players, struct lull_error *err)
{
    const size_t head = (sizeof(struct lull_play_shared) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory;

    players->shared_size = head + lull_play_rendezvouss_size(players->play);
    memory =
        mmap(NULL, players->shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return lull_error_set(err, -errno, "play: no memory to share: %s", strerror(errno));
    players->shared = memory;
    players->collectives = (char *)memory + head;
    return 0;
}

static int play_run_plan(struct players *players, const struct lull_gpu_model *model,
                         const struct lull_play_length *length, struct lull_error *err)
{
    struct lull_play_span *spans[LULL_PLAY_RANKS];
    int64_t period_ns;
    int result = lull_play_sim_spans(players->play, model, NULL, spans, &period_ns, err);

    if (result < 0)
        return result;
    for (uint32_t rank = 0; rank < players->play->rank_count; rank++) {
        players->gates[rank] = find_gates(players->play, rank, spans[rank], period_ns);
        free(spans[rank]);
        if (players->gates[rank] == NULL)
            result = lull_error_set(err, -ENOMEM, "play: no memory");
    }
    players->periods = play_run_periods_of(players->play, length, period_ns);
    return result;
}

int lull_play_run(const struct lull_play *play, const struct lull_play_length *length,
                  struct lull_play_outcome *outcomes, struct lull_error *err)
{
    struct players players = {.play = play};
    struct lull_gpu_model model;
    int result = check_node(play, &model, err);

    if (result < 0)
        return result;
    result = play_run_plan(&players, &model, length, err);
    if (result < 0)
        goto free_gates;
    result = map_shared(&players, err);
    if (result < 0)
        goto free_gates;
    result = play_run_all(&players, err);
    if (result >= 0)
        memcpy(outcomes, players.shared->outcomes, play->rank_count * sizeof(outcomes[0]));
    munmap(players.shared, players.shared_size);

free_gates:
    for (uint32_t rank = 0; rank < play->rank_count; rank++)
        free(players.gates[rank]);
    return result;
}
