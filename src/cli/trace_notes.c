/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_notes.h"

#include <errno.h>
#include <stdio.h>

#include "base/printable.h"

int lull_cli_compile_kernels(const char *text, regex_t *kernels_out, struct lull_error *err)
{
    const int code = regcomp(kernels_out, text, REG_EXTENDED | REG_NOSUB);
    char why[128];

    if (code == 0)
        return 0;
    regerror(code, kernels_out, why, sizeof(why));
    return lull_error_set(err, -EINVAL,
                          "--comm-kernels: %s in \"%s\"; must be an extended regular expression, "
                          "such as 'my_(dispatch|combine)'",
                          why, text);
}

void lull_cli_note_loss(const char *command, const char *file, const struct lull_trace *trace)
{
    const struct lull_trace_loss *const loss = &trace->loss;
    const struct {
        uint64_t count;
        const char *what;
    } rows[] = {
        {loss->no_times, "kernels without usable ts and dur are left out"},
        {loss->before_launch, "kernels that begin before their launch are left out"},
        {loss->other_clock,
         "kernels are left out: their times are far from all others, by another clock"},
        {loss->unpaired, "kernels without both a begin and an end are left out"},
        {loss->doubled, "kernels are in the file twice; each counts once"},
        {loss->cut, "kernels end after the next one of their stream begins; they are cut short, "
                    "because a stream runs one kernel at a time"},
    };

    if (loss->events > 0)
        fprintf(stderr, "lull %s: %s: %llu events are no JSON and are left out; the first: %s\n",
                command, file, (unsigned long long)loss->events, loss->first_fault);
    if (loss->has_no_end)
        fprintf(stderr, "lull %s: %s: its list of events has no end; later events may be missing\n",
                command, file);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].count > 0)
            fprintf(stderr, "lull %s: %s: %llu %s\n", command, file,
                    (unsigned long long)rows[i].count, rows[i].what);
    if (loss->likely > 0)
        fprintf(stderr,
                "lull %s: %s: %llu kernels count as computation but are named like a collective, "
                "such as %s; if they communicate, use --comm-kernels\n",
                command, file, (unsigned long long)loss->likely,
                lull_printable(lull_trace_string(trace, loss->likely_name)).text);
    if (trace->gpu_count > 1)
        fprintf(stderr, "lull %s: %s: it has kernels of %zu GPUs; each is a rank of its own\n",
                command, file, trace->gpu_count);
}
