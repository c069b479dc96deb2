/* Wraps Open MPI's Fortran bindings: they call its C functions by their PMPI_ names. Empty for
 * other MPIs. SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "probe/loaded_symbol.h"
#include "probe/mpi_library.h"
#include "probe/mpi_shim.h"

#ifdef OPEN_MPI

/* Parameters and arguments of a binding by their number, but for the last, ierror. */
#define P2 void *a
#define P3 P2, void *b
#define P4 P3, void *c
#define P5 P4, void *d
#define P6 P5, void *e
#define P7 P6, void *f
#define P8 P7, void *g
#define P9 P8, void *h
#define P10 P9, void *i
#define P11 P10, void *j
#define P12 P11, void *k
#define P13 P12, void *l
#define A2 a
#define A3 A2, b
#define A4 A3, c
#define A5 A4, d
#define A6 A5, e
#define A7 A6, f
#define A8 A7, g
#define A9 A8, h
#define A10 A9, i
#define A11 A10, j
#define A12 A11, k
#define A13 A12, l

static struct lull_event begin_fortran_SECTION(enum lull_operation operation)
{
    struct lull_event event = lull_mpi_new_event(operation, -1, 0);

    lull_mpi_begin_section(&event);
    return event;
}

static void end_fortran_SECTION(struct lull_event *event)
{
    lull_mpi_end_section(event);
}

static struct lull_event begin_fortran_POSTED(enum lull_operation operation)
{
    struct lull_event event = lull_mpi_new_event(operation, -1, 0);

    lull_mpi_begin_post(&event);
    return event;
}

static void end_fortran_POSTED(struct lull_event *event)
{
    lull_mpi_end_post(event);
}

static struct lull_event begin_fortran_POLL(enum lull_operation operation)
{
    return (struct lull_event){.time_ns = lull_now_ns(), .operation = (uint16_t)operation};
}

/* A Fortran LOGICAL would indicate whether the poll found something. It is not read, because a run
 * ends without it. */
static void end_fortran_POLL(struct lull_event *event)
{
    lull_mpi_add_to_run(event->time_ns, 0);
}

/* A program that calls a binding has the library, under whatever name; else the call has failed. */
static void *find_fortran(const char *name)
{
    void *symbol = lull_mpi_next(name, lull_mpi_is_own());

    if (symbol == NULL)
        symbol = lull_loaded_symbol(name);
    return symbol;
}

#define FORTRAN(name, count, what, kind)                                                           \
    EXPORT void mpi_##name##_(P##count, void *ierror);                                             \
    EXPORT void mpi_##name##_(P##count, void *ierror)                                              \
    {                                                                                              \
        static void (*_Atomic next)(P##count, void *ierror);                                       \
        void (*behind)(P##count, void *ierror) =                                                   \
            atomic_load_explicit(&next, memory_order_relaxed);                                     \
        struct lull_event event;                                                                   \
                                                                                                   \
        if (behind == NULL) {                                                                      \
            *(void **)&behind = find_fortran("pmpi_" #name "_");                                   \
            atomic_store_explicit(&next, behind, memory_order_relaxed);                            \
        }                                                                                          \
        if (behind == NULL) {                                                                      \
            *(MPI_Fint *)ierror = MPI_ERR_INTERN;                                                  \
            return;                                                                                \
        }                                                                                          \
        if (!lull_mpi_is_recording()) {                                                            \
            behind(A##count, ierror);                                                              \
            return;                                                                                \
        }                                                                                          \
        event = begin_fortran_##kind(LULL_OPERATION_##what);                                       \
        behind(A##count, ierror);                                                                  \
        end_fortran_##kind(&event);                                                                \
    }
#include "probe/mpi_fortran.def"

#define FORTRAN_START(name, parameters, arguments)                                                 \
    EXPORT void mpi_##name##_ parameters;                                                          \
    EXPORT void mpi_##name##_ parameters                                                           \
    {                                                                                              \
        void(*behind) parameters;                                                                  \
                                                                                                   \
        *(void **)&behind = find_fortran("pmpi_" #name "_");                                       \
        if (behind == NULL) {                                                                      \
            *ierror = MPI_ERR_INTERN;                                                              \
            return;                                                                                \
        }                                                                                          \
        lull_mpi_is_recording();                                                                   \
        behind arguments;                                                                          \
        if (*ierror == MPI_SUCCESS)                                                                \
            lull_mpi_start();                                                                      \
    }

FORTRAN_START(init, (int *ierror), (ierror))
FORTRAN_START(init_thread, (int *required, int *provided, int *ierror),
              (required, provided, ierror))

EXPORT void mpi_finalize_(int *ierror);

EXPORT void mpi_finalize_(int *ierror)
{
    void (*behind)(int *);

    *(void **)&behind = find_fortran("pmpi_finalize_");
    lull_mpi_finish();
    if (behind == NULL)
        *ierror = MPI_ERR_INTERN;
    else
        behind(ierror);
}

#endif
