/*
 * Declarations shared by the files of the device writer: its state, and the functions that they
 * call of each other. From a doorbell to the driver call there is one wake-up, some loads and
 * comparisons, and no allocation.
 *
 * writer.c         the owner's side: start, stop, mailbox
 * writer_thread.c  the loop
 * writer_lease.c   leases begin and end; what others see
 * writer_request.c requests are taken, answered and chosen
 * writer_act.c     driver calls that set something
 * writer_profiles.c power profiles
 * writer_smoothing.c power smoothing
 * writer_power.c   the power of a GPU
 * writer_watch.c   readings
 * writer_record.c  the journal
 * writer_alive.c   stuck threads and the keeper
 * writer_driver.c  GPUs and drivers that go away, come back, or are to be released
 * writer_states.c  the states of a GPU and all transitions between them
 *
 * Threads: all but lull_writer_wake() and lull_writer_health_of_call() belong to the writer's
 * thread that has the turn (turn.h). SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_WRITER_INTERNAL_H
#define LULL_DEVICE_WRITER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/switch_budget.h"
#include "device/limit_control.h"
#include "device/lock_state.h"
#include "device/driver_owner.h"
#include "device/profile_control.h"
#include "device/smoothing_control.h"
#include "device/writer.h"
#include "device/writer_states.h"

#define LULL_WRITER_NEVER_NS INT64_MAX

enum { LULL_WRITER_NO_CAP = UINT32_MAX };

/* The end of a lease is reported after this many failed raisings, which continue nevertheless. */
enum { LULL_WRITER_FAILURES_TO_REPORT = 4 };

/* Between leases and in them a clock is looked at, at times, to see whether a reset has had an
 * effect and whether another program has locked it; and more often while it looks so. */
#define LULL_WRITER_WATCH_NS LULL_NS_PER_S
#define LULL_WRITER_DOUBT_NS (50 * LULL_NS_PER_MS)

/* Settings that the owner wants on a GPU; guarded by the mailbox lock. */
struct lull_writer_desired {
    struct lull_writer_source *source;
    struct lull_band band;
    uint64_t epoch; /* number of the lease */
    struct lull_cap cap;
};

/* Results so far of the read-back after one write. */
struct lull_writer_observation {
    bool is_running;
    uint32_t before_mhz; /* the clock that was locked before the write; 0: none was */
    int64_t call_end_ns;
    int64_t read_ns; /* time of the reading before; at first, the end of the call */
    int64_t next_ns;
    int64_t changed_ns; /* when the clock now seen was first seen */
};

/* The holder of a lease, and what it may have set. */
struct lull_writer_lease_terms {
    struct lull_writer_source *source; /* NULL: the writer itself, for the cap */
    uint64_t epoch;
    struct lull_band band;
    struct lull_cap cap;
    uint32_t reference_mhz; /* the clock that the reference point is; 0: none is locked there */
};

/* Evidence that readings have given about the clock that was noted last. */
enum lull_writer_proof {
    LULL_PROOF_NONE,       /* nothing: the clocks noted before it may still be locked */
    LULL_PROOF_CONSISTENT, /* a busy GPU, limited otherwise, does not contradict it */
    LULL_PROOF_SEEN,       /* it is locked, or no clock is: none of those before it is */
};

/* The journal record of a GPU; valid while the journal has one. */
struct lull_writer_journal {
    struct lull_journal_record record;
    int file; /* for notes; -1: it is not open */
    enum lull_writer_proof proof;
};

/* The lock of its clock. */
struct lull_writer_lock {
    uint32_t applied_mhz; /* clock that the driver accepted last; 0: a reset */
    int64_t valid_until_ns;
    int64_t raise_ns;  /* when the writer itself wants to raise; LULL_WRITER_NEVER_NS */
    bool is_seen_free; /* since its last lowering */
    struct lull_switch_budget budget;
    struct lull_writer_observation observation;
};

/* The search for another program's lock, at times while nothing is written. */
struct lull_writer_watch {
    int64_t next_ns;      /* LULL_WRITER_NEVER_NS */
    bool is_checked;      /* this lease has seen that no other program holds the clock */
    uint32_t doubts;      /* readings in a row that say so... */
    uint32_t doubted_mhz; /* ...by this clock */
};

/* State of the check that the clock of the GPU's cap is in force. */
struct lull_writer_cap_watch {
    uint32_t failures; /* looks in a row that found the clock above it, each followed by a write */
    int64_t retry_ns;  /* the next write comes no sooner */
};

/* A request of the client that has not been passed to the driver yet. */
struct lull_writer_request {
    bool is_pending;
    struct lull_switch_request pending;
    int64_t arrived_ns;
};

struct lull_writer_faults {
    bool is_logged;     /* the failure of this lease */
    int32_t off_status; /* why this lease is not lowered any more; 0: it is */
    uint32_t failures;  /* of lowerings, in a row */
    int64_t retry_ns;   /* the driver is asked to lower no sooner */
    uint32_t raise_failures;
};

/* The checks of whether the driver still has the GPU. */
struct lull_writer_alive {
    int64_t check_ns; /* when it is looked at next; NEVER_NS */
    uint32_t checks_failed;
};

/* Measurement of the GPU's power. */
struct lull_writer_power {
    uint64_t energy_mj;    /* at the begin of the time for which its power is found next... */
    int64_t energy_ns;     /* ...which is this; 0: there is none */
    int64_t capped_ns;     /* when it was last seen under a cap; 0: never */
    int64_t settled_ns;    /* from then on it draws what it does under its cap */
    int64_t seek_ns;       /* when its counter of energy is read for a step; NEVER_NS */
    int64_t seek_begin_ns; /* since when a step is searched for */
    uint64_t sought_mj;    /* value of the counter since then... */
    int64_t sought_ns;     /* ...last at this time */
    uint32_t cap_mhz;      /* its cap since then; LULL_WRITER_NO_CAP: it had not been obeyed yet */
};

/* One GPU; only the thread touches it. */
struct lull_writer_gpu {
    struct lull_writer_states states;
    bool is_left_over; /* the settings of an earlier process are not undone yet */
    struct lull_writer_lease_terms lease;
    struct lull_writer_journal journal;
    struct lull_writer_lock clock;
    struct lull_writer_watch watch;
    struct lull_writer_cap_watch cap;
    struct lull_writer_request request;
    struct lull_writer_faults faults;
    struct lull_writer_alive alive;
    struct lull_writer_power power;
    struct lull_limit_control limit;
    struct lull_profile_control profiles;
    struct lull_smoothing_control smoothing;
    struct lull_switch_result result;
    struct lull_writer_state state;
};

struct lull_writer {
    struct lull_devices *devices;
    struct lull_journal *journal;
    struct lull_writer_options options;
    uint32_t gpu_count;
    int epoll_fd;
    int timer_fd;
    int mail_fd;
    int64_t timer_ns; /* time that the timer is set to */
    pthread_t thread;
    atomic_bool has_mail;
    atomic_bool is_asked; /* asked whether it still runs; it answers by clearing this */

    pthread_mutex_t mailbox_lock; /* guards the members up to states */
    struct lull_writer_desired desired[LULL_DEVICE_MAX_GPUS];
    struct lull_writer_source *removed;
    int64_t stop_ns;
    bool has_finished;
    struct lull_writer_state states[LULL_DEVICE_MAX_GPUS];
    uint64_t to_quiesce;
    bool is_retry_due;              /* caps that the driver refuses are to be tried at once */
    uint32_t shown_gpus;            /* the GPUs that may be leased are those below it */
    struct lull_error driver_error; /* why it is away; code 0: it is not */

    pthread_cond_t finished; /* with the mailbox lock; on CLOCK_MONOTONIC */

    struct lull_driver_owner owner;
    pthread_t spare;
    bool has_spare;

    struct lull_writer_gpu gpus[LULL_DEVICE_MAX_GPUS];
    enum lull_writer_health
        reported[LULL_DEVICE_MAX_GPUS]; /* health last logged of GPUs that are away */
    _Atomic uint64_t ended_epoch[LULL_DEVICE_MAX_GPUS]; /* its end was reported meanwhile */
    struct lull_writer_source *kept;                    /* removed, but a GPU that is away has it */
    bool is_driver_open;
    bool is_driver_unwanted;  /* all GPUs are quiesced */
    int64_t driver_ns;        /* when it is tried again to open or close the driver */
    uint32_t driver_failures; /* since it was open */
    uint64_t to_quiesce_seen;
    int64_t stop_seen_ns;
    int64_t heartbeat_ns;    /* when the last heartbeat was sent to the keeper */
    uint32_t takeovers_seen; /* of the keeper's page; odd: the keeper is restoring */
};

/* Takes a GPU to the states after an event. */
static inline void lull_writer_gpu_handle(struct lull_writer_gpu *gpu, enum lull_writer_event event)
{
    gpu->states = lull_writer_states_after(gpu->states, event);
}

/* Returns whether the GPU has a lease, of a client or of the writer itself. */
static inline bool lull_writer_gpu_is_held(const struct lull_writer_gpu *gpu)
{
    return gpu->states.lease == LULL_LEASE_CLIENT || gpu->states.lease == LULL_LEASE_OWN ||
           gpu->states.lease == LULL_LEASE_CAPPING;
}

static inline bool lull_writer_gpu_is_ending(const struct lull_writer_gpu *gpu)
{
    return gpu->states.lease == LULL_LEASE_CLIENT_ENDING ||
           gpu->states.lease == LULL_LEASE_OWN_ENDING;
}

/* Returns whether the end of a lease is to be reported once what it has set is undone. */
static inline bool lull_writer_gpu_is_awaited(const struct lull_writer_gpu *gpu)
{
    return lull_writer_gpu_is_ending(gpu) || gpu->states.lease == LULL_LEASE_CAPPING;
}

/* Returns whether no power limit, power profile or power smoothing of Lull is left to be undone. */
static inline bool lull_writer_gpu_is_power_restored(const struct lull_writer_gpu *gpu)
{
    return lull_limit_control_is_restored(&gpu->limit) &&
           lull_profile_control_is_restored(&gpu->profiles) &&
           lull_smoothing_control_is_restored(&gpu->smoothing);
}

/* Returns whether the clock has to be reset before the GPU is as it was. */
static inline bool lull_writer_gpu_is_changed(const struct lull_writer_gpu *gpu)
{
    return gpu->states.clock == LULL_CLOCK_LOCKED || gpu->states.clock == LULL_CLOCK_UNSURE;
}

/* --- writer.c --- */

/* Makes the thread come round and look into the mailbox. */
void lull_writer_wake(struct lull_writer *writer);

/* --- writer_thread.c --- */

/* Waits for the turn and runs the loop with it; writer is a struct lull_writer. */
void *lull_writer_wait_and_run(void *writer);

/* --- writer_lease.c --- */

/* Report the state of a GPU's clock or power limit to its client. */
void lull_writer_publish(struct lull_writer_gpu *gpu, uint32_t index);
void lull_writer_publish_limit(struct lull_writer_gpu *gpu, uint32_t index);

/* Shows the owner how a GPU does. */
void lull_writer_show_state(struct lull_writer *writer, uint32_t index);

/* Counts a failure of a lease and shows it to the owner. */
void lull_writer_count_failure(struct lull_writer_gpu *gpu, const struct lull_error *error);

/* The same, and logs the first one. */
void lull_writer_log_once(struct lull_writer_gpu *gpu, const struct lull_error *error);

/* Has a setting undone at once, by this thread or by the keeper, and reports that to the client. */
void lull_writer_undo_lowering(struct lull_writer_gpu *gpu, uint32_t index, int64_t now_ns);

/* Frees a GPU whose lease has ended, and reports the result to the owner. */
void lull_writer_report_end(struct lull_writer *writer, uint32_t index, int result);

/* Tries a cap that could not be set again at once. */
void lull_writer_retry_cap(struct lull_writer_gpu *gpu, int64_t now_ns);

/* Takes what the mailbox holds: new and ended leases, sources to forget, the order to stop. */
void lull_writer_adopt(struct lull_writer *writer, int64_t now_ns);

/* --- writer_request.c --- */

/* Returns whether the pending request is for a higher clock, or for none. */
bool lull_writer_is_raising(const struct lull_writer_gpu *gpu);

/* Answers the pending request with a status and forgets it. */
void lull_writer_refuse(struct lull_writer_gpu *gpu, uint32_t index, int status);

/* Time at which the lowering of a GPU with a lease ends unless it is renewed; LULL_WRITER_NEVER_NS:
 * it has none. */
int64_t lull_writer_expires_ns(const struct lull_writer_gpu *gpu);

/* Takes all new requests, answers those that need no driver call, and ends lowerings that were not
 * renewed in time. */
void lull_writer_collect(struct lull_writer *writer, int64_t now_ns);

/* Finds the GPU whose raising has waited longest, so that a client that keeps asking cannot push
 * others back; -1: none is due. */
int lull_writer_find_raising(const struct lull_writer *writer, int64_t now_ns);

/* Returns from when on this GPU may be lowered. */
int64_t lull_writer_lowering_from_ns(const struct lull_writer_gpu *gpu);

/* Finds the GPU whose lowering has the earliest deadline, of those whose budget allows one now; -1:
 * there is none. */
int lull_writer_find_lowering(const struct lull_writer *writer, int64_t now_ns);

/* --- writer_act.c --- */

/* Plans another raising after one that failed. */
void lull_writer_plan_retry(struct lull_writer_gpu *gpu);

/* Time of the next write of the power limit: in a lease not before its record, afterwards without
 * one as well, because it is restored; LULL_WRITER_NEVER_NS: not at all. */
int64_t lull_writer_limit_due_ns(const struct lull_writer_gpu *gpu);

/* Makes at most one driver call that sets something. True: it has made one. */
bool lull_writer_act(struct lull_writer *writer, int64_t now_ns);

/* --- writer_profiles.c --- */

/* Time of the next change of power profiles, as for the power limit. */
int64_t lull_writer_profiles_due_ns(const struct lull_writer_gpu *gpu);

/* Changes the profiles of one GPU where that is due. True: it has tried to. */
bool lull_writer_act_on_profiles(struct lull_writer *writer, int64_t now_ns);

/* --- writer_smoothing.c --- */

/* These do for power smoothing what the above do for power profiles, one setting at a time. */
int64_t lull_writer_smoothing_due_ns(const struct lull_writer_gpu *gpu);
bool lull_writer_act_on_smoothing(struct lull_writer *writer, int64_t now_ns);

/* Enters in the journal's values what Lull may have changed, or takes it over from there. */
void lull_writer_name_smoothing(const struct lull_smoothing_control *smoothing,
                                struct lull_journal_written *written);
void lull_writer_inherit_smoothing(struct lull_writer_gpu *gpu);

/* --- writer_watch.c --- */

/* For how long the clock of a GPU has not been read since the last call that set it, or since a
 * reading after that. */
uint32_t lull_writer_unread_us(const struct lull_writer_gpu *gpu, int64_t now_ns);

/* Begins to read the clock back after a write; before_mhz is what was locked before; 0: nothing. */
void lull_writer_begin_observation(struct lull_writer_gpu *gpu, uint32_t before_mhz,
                                   int64_t call_end_ns);

/* Determines from a reading which program has set the clock. */
enum lull_lock_state lull_writer_judge(const struct lull_writer *writer, uint32_t index,
                                       const struct lull_device_reading *reading);

/* Reads the clock and determines which program has set it. Just after a write that cannot be
 * determined, so the clock counts as Lull's. */
enum lull_lock_state lull_writer_look(struct lull_writer *writer, uint32_t index);

/* Resets again, because a busy GPU shows the clock that Lull had locked: the reset before has had
 * no effect, or none was made. */
void lull_writer_reset_again(struct lull_writer_gpu *gpu);

/* Reads one clock back whose time has come. True: there was one. */
bool lull_writer_observe_one(struct lull_writer *writer, int64_t now_ns);

/* Returns whether a GPU is looked at at times although nothing is written to it. */
bool lull_writer_is_watched(const struct lull_writer_gpu *gpu);

/* Looks at one such GPU whose time has come. True: there was one. */
bool lull_writer_watch_one(struct lull_writer *writer, int64_t now_ns);

/* --- writer_record.c --- */

/* Records what a GPU has before it is changed. Errors: those of lull_journal_save(). */
int lull_writer_record(struct lull_writer *writer, uint32_t index, struct lull_error *err);

/* Notes a clock before it is written. The record names two clocks. If a third may be locked,
 * because no reading has shown the effect of the calls before, the record becomes blind: every lock
 * may be Lull's. */
int lull_writer_note_clock(struct lull_writer *writer, uint32_t index, uint32_t sm_mhz,
                           struct lull_error *err);

/* Brings the journal up to what a power limit is about to become. */
int lull_writer_note_limit(struct lull_writer *writer, uint32_t index, bool is_foreign,
                           struct lull_error *err);

/* Returns whether the GPU has not been seen without Lull's lock since it was lowered. */
bool lull_writer_needs_proof(const struct lull_writer_gpu *gpu);

/* Forgets which clocks may be locked, because none is. */
void lull_writer_forget_clocks(struct lull_writer_gpu *gpu);

/* Takes over what an earlier process has left: watches the GPUs that were reset while they were
 * idle, and restores those that the start could not restore. They are not leased until then. */
void lull_writer_take_over(struct lull_writer *writer);

/* Records a GPU before its first request, so that the request does not wait for the file. */
bool lull_writer_record_one(struct lull_writer *writer);

/* Ends the leases of GPUs that were raised and read back, and removes their records. */
void lull_writer_finish_all(struct lull_writer *writer);

/* --- writer_driver.c --- */

/* Returns whether a GPU cannot be called at present: it is away or quiesced, or its driver is
 * closed.
 */
bool lull_writer_is_out(const struct lull_writer *writer, uint32_t index);

/* Draws the conclusion from the result of a call: the GPU, or its driver, may be gone, or there. */
void lull_writer_note_result(struct lull_writer *writer, uint32_t index, int result,
                             const struct lull_error *error);

/* Opens or closes the driver, or looks at one GPU, where that is due. True: it has done so. */
bool lull_writer_mind_driver(struct lull_writer *writer, int64_t now_ns);

/* Releases GPUs that are to be quiesced once they are restored, and takes resumed ones back. */
void lull_writer_apply_administrator(struct lull_writer *writer, int64_t now_ns);

/* Time at which it is due next; LULL_WRITER_NEVER_NS: never. */
int64_t lull_writer_driver_due_ns(const struct lull_writer *writer);

/* --- writer_power.c --- */

/* Finds what a GPU has drawn since it was looked at last: by its counter of energy, or else as the
 * driver reports it. If that matters, it is found a little later, when the counter moves. */
void lull_writer_read_power(struct lull_writer *writer, uint32_t index);

/* Reads the counter again; from seek_ns on. */
void lull_writer_seek_step(struct lull_writer *writer, uint32_t index);

/* --- writer_alive.c --- */

/* Returns whether a GPU is in the hands of a thread that is stuck in the driver. */
bool lull_writer_is_away(const struct lull_writer *writer, uint32_t index);

/* Returns a GPU's health, whether it is away or not. */
enum lull_writer_health lull_writer_health_of_call(const struct lull_writer *writer, uint32_t index,
                                                   int64_t now_ns);

/* Reports the health of GPUs that are away, and ends their leases. */
void lull_writer_watch_away(struct lull_writer *writer, int64_t now_ns);

/* Time of the next state change of a GPU that is away; LULL_WRITER_NEVER_NS: it does not. */
int64_t lull_writer_health_due_ns(const struct lull_writer *writer, uint32_t index);

/* Handles settings of a GPU that other programs may have undone: they are not relied on, and are
 * undone here as well. */
void lull_writer_distrust(struct lull_writer_gpu *gpu, uint32_t index, int64_t now_ns);

/* Returns whether the keeper has taken this thread for dead and is restoring. */
bool lull_writer_is_keeper_at_work(const struct lull_writer *writer);

/* Sends a heartbeat to the keeper, and notices when the keeper has taken this thread for hung. */
void lull_writer_apply_keeper(struct lull_writer *writer, int64_t now_ns);

/* Time of the next heartbeat, or of the next check whether the keeper is done. */
int64_t lull_writer_next_heartbeat(const struct lull_writer *writer);

#endif
