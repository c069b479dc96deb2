/*
 * Live state of a run: the governor's present data, published in shared memory for viewers (`lull
 * top`, `lull serve`). It is a file of fixed size beside the job's segment (job_file.h). Only the
 * governor writes it, a few times a second. The file's permissions decide who can view it: the
 * user, root, and a group that the governor opens it to (wire/viewers.h). The writer never waits
 * for readers, and a reader gets a consistent state or none. An unknown figure is NAN and has a
 * reason. Text ends with a NUL. Since the governor's user may choose it freely, it is escaped
 * before it is printed on a terminal or put into a document. The governor keeps the file locked, so
 * that a dead one's is distinguished from a living one's (job_file.h).
 *
 * Threads: a writer belongs to one; readers: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_LIVE_H
#define LULL_WIRE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum {
    LULL_LIVE_MAX_GPUS = 64,
    LULL_LIVE_WORD_BYTES = 64,
    LULL_LIVE_TEXT_BYTES = 160,
    LULL_LIVE_PATH_BYTES = 512,
    LULL_LIVE_HANG_BYTES = 640,
};

/* Why a figure is not known. Values are part of the format: append only. */
enum lull_live_unknown {
    LULL_LIVE_KNOWN,
    LULL_LIVE_TOO_EARLY,   /* it has not been measured yet */
    LULL_LIVE_NOT_READ,    /* no rank uses the GPU, so the governor does not read it */
    LULL_LIVE_NO_SENSOR,   /* the driver does not report it */
    LULL_LIVE_LOST,        /* the driver has lost the GPU */
    LULL_LIVE_HANGS,       /* the driver hangs */
    LULL_LIVE_NOT_LEASED,  /* the GPU is not leased, so nothing is requested of it */
    LULL_LIVE_NOTHING_LOW, /* nothing is lowered */
    LULL_LIVE_NOT_SOUGHT,  /* the run only observes, or a plan or a power limit is in control */
    LULL_LIVE_TOO_SHORT,   /* the sections are shorter than the sensor's averaging time */
    LULL_LIVE_NO_METRIC,   /* the server's metrics do not contain it */
    LULL_LIVE_NO_METRICS,  /* the server's metrics are not read */
    LULL_LIVE_NO_REQUEST,  /* no request has finished in the time that it covers */
    LULL_LIVE_NO_BOUND,    /* the objective has no such bound, or there is no objective */
    LULL_LIVE_UNKNOWN_COUNT
};

/* The activity of a GPU. Values are part of the format: append only. */
enum lull_live_section {
    LULL_LIVE_NO_SECTION, /* no rank, or none of its calls has been seen */
    LULL_LIVE_COMPUTATION,
    LULL_LIVE_COMMUNICATION,
    LULL_LIVE_FORWARD,
    LULL_LIVE_BACKWARD,
    LULL_LIVE_BUBBLE,
    LULL_LIVE_IDLE,
    LULL_LIVE_USER, /* any other name that the program gave */
    LULL_LIVE_GAP,  /* the GPU computes nothing; found from its kernels */
    LULL_LIVE_SECTION_COUNT
};

/* The role of a GPU in a run. Append only, as the two below. */
enum lull_live_state {
    LULL_LIVE_UNUSED, /* no rank uses it */
    LULL_LIVE_MANAGED,
    LULL_LIVE_LEFT_ALONE,
    LULL_LIVE_OBSERVED,
    LULL_LIVE_STATE_COUNT
};

/* The guard's verdict on the lowered clocks. */
enum lull_live_verdict {
    LULL_LIVE_NO_VERDICT,   /* iterations are being learnt, or there is no search */
    LULL_LIVE_UNDECIDED,    /* a lower clock is being tried or proven */
    LULL_LIVE_PROVEN,       /* accepted points proven not to slow the job beyond its tolerance */
    LULL_LIVE_NOTHING_KEPT, /* no lower clock is accepted, and nothing is lowered */
    LULL_LIVE_VERDICT_COUNT
};

/* The component that chooses the clocks. */
enum lull_live_ruler {
    LULL_LIVE_BY_NONE, /* the run only observes */
    LULL_LIVE_BY_SECTION,
    LULL_LIVE_BY_PLAN,
    LULL_LIVE_BY_LIMIT,
    LULL_LIVE_BY_OBJECTIVE, /* latency objective of a server */
    LULL_LIVE_BY_IDLENESS,  /* idle GPUs are parked; nothing else is lowered */
    LULL_LIVE_RULER_COUNT
};

/* How the clocks of a server are chosen. From LULL_LIVE_MODE_BLIND to _IDLE the order is that of
 * enum lull_serving_mode (core/serving/controller.h). Append only. */
enum lull_live_mode {
    LULL_LIVE_MODE_NONE, /* the run manages no server */
    LULL_LIVE_MODE_BLIND,
    LULL_LIVE_MODE_LEARNING,
    LULL_LIVE_MODE_TESTING,
    LULL_LIVE_MODE_PROVEN,
    LULL_LIVE_MODE_RAISED,
    LULL_LIVE_MODE_IDLE,
    LULL_LIVE_MODE_WORKING, /* without an objective: the GPUs work at the highest clock */
    LULL_LIVE_MODE_COUNT
};

struct lull_live_figure {
    double value;     /* NAN: not known */
    uint32_t unknown; /* enum lull_live_unknown */
    uint32_t unused;
};

/* Results of the sections of one kind on one GPU so far. */
struct lull_live_sections {
    uint64_t count;
    double seconds;
    struct lull_live_figure energy_j; /* from power readings within them */
};

struct lull_live_gpu {
    char uuid[96];
    char name[96];
    char pci_bus_id[32];
    uint32_t index; /* on the node */
    uint32_t state; /* enum lull_live_state */
    char state_text[LULL_LIVE_TEXT_BYTES];
    uint32_t is_leased;
    uint32_t ranks; /* ranks that use it; only the first of several is governed */
    int32_t pid;    /* of that rank; 0: none */
    struct lull_live_figure clock_mhz; /* as read */
    struct lull_live_figure wanted_mhz;
    struct lull_live_figure lowest_mhz; /* of the lease */
    struct lull_live_figure highest_mhz;
    struct lull_live_figure power_w;
    struct lull_live_figure power_limit_w;
    struct lull_live_figure temperature_c;
    struct lull_live_figure energy_j; /* since the run began */
    double energy_estimated_s; /* share of that time from polled power: the counter was reset, or is
                                  missing */
    uint32_t energy_resets;    /* of the counter */
    struct lull_live_figure lowered_ratio;   /* below the highest clock, since the run began */
    struct lull_live_figure throttled;       /* why the clock is not at the highest: bits of enum
                                              * lull_clock_reason (device.h) */
    uint32_t section;                        /* enum lull_live_section */
    char section_name[LULL_LIVE_WORD_BYTES]; /* "allreduce"; the program's name for it */
    int64_t section_begin_ns;                /* CLOCK_MONOTONIC; 0: not known */
    /* Sections that were lowered and raised again. Hits are those whose end was forecast: the
     * raising was requested before the end. */
    uint64_t forecasts;
    uint64_t forecast_hits;
    uint64_t switches; /* clocks that were requested */
    uint64_t refused;
    uint64_t driver_calls;
    uint64_t slow_calls; /* that blocked for over 100 ms */
    uint64_t events;     /* of its rank, since the run began */
    uint64_t lost_events;
    uint64_t lost_records;                  /* of the report and the timeline */
    char driver_text[LULL_LIVE_TEXT_BYTES]; /* problem of the driver; "": none */
    struct lull_live_sections sections[LULL_LIVE_SECTION_COUNT];
};

/* A server whose clocks follow its load, and the requests that it served. Quantiles, rates and
 * energies per token and request are those of the last minute. */
struct lull_live_serving {
    uint32_t mode; /* enum lull_live_mode; LULL_LIVE_MODE_NONE: the rest has no meaning */
    uint32_t unused;
    char engine[LULL_LIVE_WORD_BYTES];     /* "vLLM"; "" not known */
    char metrics[LULL_LIVE_TEXT_BYTES];    /* address that the metrics come from; "": none */
    char reason[LULL_LIVE_TEXT_BYTES];     /* one sentence that explains the mode */
    struct lull_live_figure ttft_bound_ms; /* of the objective */
    struct lull_live_figure tpot_bound_ms;
    struct lull_live_figure share_ratio;        /* of the requests that have to meet it */
    struct lull_live_figure running;            /* requests in the batch */
    struct lull_live_figure waiting;            /* requests in the queue */
    struct lull_live_figure requests;           /* judged since the run began */
    struct lull_live_figure missed_ratio;       /* of them, missed the objective */
    struct lull_live_figure missed_bound_ratio; /* upper 95 % bound of the share that lowered clocks
                                                   have added */
    struct lull_live_figure ttft_p50_ms;
    struct lull_live_figure ttft_p99_ms;
    struct lull_live_figure tpot_p50_ms;
    struct lull_live_figure tpot_p99_ms;
    struct lull_live_figure tokens_per_s; /* output tokens */
    struct lull_live_figure j_per_output_token;
    struct lull_live_figure j_per_request;
    struct lull_live_figure clock_mhz;   /* requested of all its GPUs */
    struct lull_live_figure saved_ratio; /* estimated, of the energy at the highest clock; readers
                                            take it for the run's saving_ratio */
    int64_t parked_since_ns;             /* CLOCK_MONOTONIC; 0: not parked */
    double parked_s;                     /* before that, since the run began */
};

struct lull_live_run {
    int64_t written_ns;                 /* CLOCK_MONOTONIC, as below */
    int64_t begin_ns;                   /* of this pass of the run */
    int64_t begin_unix_ns;              /* CLOCK_REALTIME */
    int32_t pid;                        /* the governor's process id in its own namespace */
    uint64_t start_ticks;               /* when that process began, in clock ticks since the boot */
    char pass[16];                      /* "managed" or "unmanaged" */
    char title[LULL_LIVE_WORD_BYTES];   /* "run 2 of 6, managed"; "" unless runs are compared */
    char command[LULL_LIVE_TEXT_BYTES]; /* words separated by blanks, cut */
    char report[LULL_LIVE_PATH_BYTES];  /* the folder */
    char slurm_job[LULL_LIVE_WORD_BYTES]; /* "" without Slurm */
    char slurm_step[LULL_LIVE_WORD_BYTES];
    char slurm_name[LULL_LIVE_WORD_BYTES];
    char pod[LULL_LIVE_TEXT_BYTES]; /* "" without Kubernetes */
    char pod_namespace[LULL_LIVE_WORD_BYTES];
    double tolerance_ratio;
    double confidence;
    uint32_t ruler;                      /* enum lull_live_ruler */
    uint32_t verdict;                    /* enum lull_live_verdict */
    char learning[LULL_LIVE_TEXT_BYTES]; /* the present step of the search: "trying 1230 MHz steady"
                                          */
    char note[LULL_LIVE_TEXT_BYTES * 2]; /* the last error; "": none */
    char hang[LULL_LIVE_HANG_BYTES];     /* that the job hangs, and which rank is missing; "": it
                                            does not hang, as far as known */
    int64_t hang_since_ns;               /* of the last progress before it */
    int64_t missing_rank;                /* the first rank that is missing; -1: none is known */
    uint32_t is_paused;                  /* all clocks are at the reference until it is resumed */
    uint32_t has_lost_leases;            /* likewise until lulld grants them again */
    uint64_t iterations;
    struct lull_live_figure iteration_ms;
    struct lull_live_figure iterations_left;      /* minimum time until a setting can be accepted */
    struct lull_live_figure saving_ratio;         /* of the energy, by the accepted points */
    struct lull_live_figure slowdown_ratio;       /* slowdown by the accepted points... */
    struct lull_live_figure slowdown_upper_ratio; /* ...and its upper bound, at `confidence` */
    struct lull_live_figure whole_slowdown_ratio; /* of the whole run so far, including trials */
    struct lull_live_figure whole_slowdown_upper_ratio;
    struct lull_live_figure budget_earned_ms; /* time that trials may have cost so far... */
    struct lull_live_figure budget_left_ms;   /* ...and what is left of it; below 0: overdrawn */
    struct lull_live_figure power_w;          /* of the GPUs that ranks use */
    struct lull_live_figure energy_j;         /* likewise, since the run began */
    struct lull_live_serving serving;
    uint32_t gpu_count;
    struct lull_live_gpu gpus[LULL_LIVE_MAX_GPUS];
};

/* Requests to a governor. */
enum lull_live_asked { LULL_LIVE_GO_ON, LULL_LIVE_PAUSE };

/* Returns a figure that is known if value is not NAN; otherwise the reason, != LULL_LIVE_KNOWN. */
struct lull_live_figure lull_live_figure(double value, enum lull_live_unknown otherwise);

/* Return the words for a value, such as "not measured yet" or "communication"; "?": it is out of
 * range. */
const char *lull_live_unknown_text(uint32_t unknown);
const char *lull_live_section_text(uint32_t section);
const char *lull_live_state_text(uint32_t state);
const char *lull_live_verdict_text(uint32_t verdict);
const char *lull_live_ruler_text(uint32_t ruler);
const char *lull_live_mode_text(uint32_t mode);

/* Writes a server's objective: "TTFT 500 ms, TPOT 50 ms, p99"; "": it has none. */
void lull_live_objective_text(const struct lull_live_serving *serving, char *text, size_t size);

/* ---- the writer -------------------------------------------------------------------------- */

struct lull_live_writer; /* opaque */

/* Creates the file of a pass that this process runs, locked and private. The name of the pass
 * contains no '/'. Errors: -errno with the path. */
int lull_live_writer_create(const char *directory, const char *pass,
                            struct lull_live_writer **writer_out, struct lull_error *err);

/* Lets a group read the file, whether or not this process is a member of it. Errors: -errno with
 * the path; the file stays private. */
int lull_live_writer_share(struct lull_live_writer *writer, gid_t group, struct lull_error *err);

/* Removes the file. NULL is allowed. */
void lull_live_writer_destroy(struct lull_live_writer *writer);

/* Publishes the state. Copies at most 0.1 MiB and never waits. */
void lull_live_write(struct lull_live_writer *writer, const struct lull_live_run *run);

/* Returns the last request to the governor, LULL_LIVE_GO_ON before the first. */
enum lull_live_asked lull_live_asked(const struct lull_live_writer *writer);

/* ---- readers ----------------------------------------------------------------------------- */

/* A running run in the listing of a directory. */
struct lull_live_entry {
    char file[LULL_LIVE_WORD_BYTES]; /* its name in the directory, unique on the node while it runs
                                      */
    uid_t user;
};

/* Lists the runs in a directory whose governor lives, in the order of their names; returns how many
 * were written, `most` at most. Unreadable files and files of other versions are skipped. If there
 * are more runs, users get equal shares, so the files of one user cannot displace those of another.
 */
uint32_t lull_live_list(const char *directory, struct lull_live_entry *entries_out, uint32_t most);

/*
 * Copies the state of a run at one moment. Errors: -ESRCH its governor has ended; -EAGAIN it was
 * being written at each attempt, try again; -EPROTONOSUPPORT of another version; LULL_E_FORMAT;
 * -errno. Counts and kinds are in range, so they never make a reader read beyond the end.
 */
int lull_live_read(const char *directory, const char *file, struct lull_live_run *run_out,
                   struct lull_error *err);

/* Sends a request to a governor, which answers by is_paused. Errors: -EACCES it is another user's;
 * otherwise as lull_live_read. */
int lull_live_ask(const char *directory, const char *file, enum lull_live_asked asked,
                  struct lull_error *err);

/* Sanitises a state from another source: terminates every text, resets counts and kinds that are
 * out of range, and sets times below 0 to 0. */
void lull_live_check(struct lull_live_run *run);

#endif
