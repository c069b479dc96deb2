/*
 * The oracle's state, private to its files. Calls go down this list only:
 *   oracle_play_ask.c    the question, and the answers of all levers
 *   oracle_play_joint.c  all levers together
 *   oracle_play_best.c   one lever: the best clocks of gaps
 *   oracle_play_gaps.c   the gaps that computation leaves
 *   oracle_play_run.c    one run
 *   oracle_queue.c       the node's driver
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_ORACLE_PLAY_STATE_H
#define LULL_EMULATOR_ORACLE_PLAY_STATE_H

#include "emulator/oracle_play.h"
#include "emulator/oracle_queue.h"

#define LULL_ORACLE_NO_GAP (-1)

struct lull_oracle_gap {
    uint32_t rank;
    uint32_t after; /* the operation at whose end the gap begins */
    int64_t begin_ns;
    int64_t length_ns;
    int64_t compute_ns; /* from the end of this gap to the begin of the rank's next one
                         * (the next in the list, or the rank's first) */
    /* In a run with the present steps: */
    int32_t lowered;          /* the rank's next gap that is lowered; LULL_ORACLE_NO_GAP: none is */
    int64_t until_lowered_ns; /* from the end of this gap to its begin */
};

/* Energy and time of a gap and the compute after it, summed over the measured periods. */
struct lull_oracle_tally {
    double energy_j;
    double time_s;
};

/* Run of a rank that waits for no other, at one clock: its time and energy at both ends of the
 * measurement. */
struct lull_oracle_course {
    uint32_t rank;
    uint32_t step;
    uint32_t periods;
    int64_t start_ns;
    int64_t begin_ns;
    int64_t end_ns;
    double begin_j;
    double end_j;
};

enum lull_oracle_mode { LULL_ORACLE_MODE_STEADY, LULL_ORACLE_MODE_IDEAL, LULL_ORACLE_MODE_REAL };

struct lull_oracle_play {
    const struct lull_oracle_play_question *question;
    struct lull_play play;       /* a copy without jitter, which cannot be foreseen */
    struct lull_gpu_model model; /* a copy with the latencies that the question requests */
    uint32_t highest_step;
    uint32_t top_step; /* clock that gaps are lowered from and raised to */
    struct lull_oracle_gap *gaps;
    uint32_t gap_count;
    int32_t *
        gap_after[LULL_PLAY_RANKS]; /* the gap that follows each operation, or LULL_ORACLE_NO_GAP */
    uint32_t *steps;                /* the clock step of each gap in the present run */
    int64_t *lengths_ns;            /* the foreseen length of each gap */
    int64_t lower_lead_ns;
    int64_t raise_lead_ns;
    int64_t period_ns;
    int64_t starts_ns[LULL_PLAY_RANKS];  /* when each rank begins */
    double reference_s[LULL_PLAY_RANKS]; /* each rank's period at the highest clock */
    struct lull_oracle_course *courses;  /* of all runs so far; of ranks that never wait */
    size_t course_count;
    uint32_t runs; /* begun so far */

    /* The members below are reset for every run. */
    enum lull_oracle_mode mode;
    uint32_t periods;
    struct lull_play_sim *sim;
    struct lull_oracle_queue queue;
    struct lull_oracle_tally *tallies;
    struct {
        uint32_t computing;
        int32_t gap;     /* the gap with which the present segment began */
        int32_t awaited; /* the gap whose lowering has been planned */
        int64_t since_ns;
        double since_j;
        int64_t period_ns; /* when the present period began */
        double period_j;
        double begin_j; /* energy, and below time, at both ends of the measurement */
        double end_j;
        int64_t begin_ns;
        int64_t end_ns;
    } ranks[LULL_PLAY_RANKS];
};

/* ---- oracle_play_run.c ---- */

/* Runs the play once. LULL_ORACLE_MODE_STEADY locks every GPU at step; the other modes use the
 * steps of gaps. Each rank runs as far below all of them as the queue says. The reference is NULL
 * for the run that is the reference of all later ones, whose slowdown is that of the rank which
 * loses most: ranks of a recorded play do not wait for each other, and the tolerance applies to
 * each. */
int lull_oracle_play_run(struct lull_oracle_play *oracle, enum lull_oracle_mode mode, uint32_t step,
                         const struct lull_oracle_outcome *reference,
                         struct lull_oracle_outcome *outcome_out, struct lull_error *err);

/* ---- oracle_play_gaps.c ---- */

/* Finds the gaps that computation leaves at the present top_step. */
int lull_oracle_play_foresee(struct lull_oracle_play *oracle, int64_t *period_ns_out,
                             struct lull_error *err);

/* ---- oracle_play_best.c ---- */

/* The share of the raisings that may be late, before anything is known of how many there are. */
double lull_oracle_play_late(const struct lull_oracle_play *oracle);

/* Sets the leads of the calls so that at most the share `late` of the raisings is late.
 */
void lull_oracle_play_set_leads(struct lull_oracle_play *oracle, double late);

/* Fills what one steady clock saves at best; the answer's reference is known. */
int lull_oracle_play_find_steady(struct lull_oracle_play *oracle,
                                 struct lull_oracle_play_answer *answer, struct lull_error *err);

/* Fills what the best clocks of gaps save if switching takes no time; the answer's reference is
 * known. */
int lull_oracle_play_find_ideal(struct lull_oracle_play *oracle,
                                struct lull_oracle_play_answer *answer, struct lull_error *err);

/* Fills the best clocks of gaps with the real driver. */
int lull_oracle_play_find_real(struct lull_oracle_play *oracle,
                               struct lull_oracle_play_answer *answer, struct lull_error *err);

/*
 * Runs once more with leads that keep the permitted share of late iterations: an iteration has
 * several raisings, each of which may make it late, and how many is known only after
 * lull_oracle_play_find_real().
 */
int lull_oracle_play_find_in_time(struct lull_oracle_play *oracle,
                                  struct lull_oracle_play_answer *answer, struct lull_error *err);

/* ---- oracle_play_joint.c ---- */

/* Fills what all levers together, and the waiting ranks alone, save at best; the answer's reference
 * and real are known. */
int lull_oracle_play_find_joint(struct lull_oracle_play *oracle,
                                struct lull_oracle_play_answer *answer, struct lull_error *err);

#endif
