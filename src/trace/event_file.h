/*
 * Event files, as TensorBoard reads them: scalars over steps.
 *
 * A file is a series of records of TFRecord's form: the length of the data (8 bytes, little
 * endian), its checksum (4), the data, its checksum (4). A checksum is CRC-32C, rotated right by 15
 * bits plus 0xa282ead8. The data is a protocol buffer `Event`: wall_time (1), step (2), and either
 * file_version (3) or a summary (5) of values (1), each with a tag (1), a tensor (8) of one float,
 * and, on its first use, metadata (9): its name, its description, and that it is a scalar.
 *
 * Threads: any, each with a stream of its own. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_EVENT_FILE_H
#define LULL_TRACE_EVENT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Longer texts are cut to this many bytes. */
enum { LULL_EVENT_TAG_BYTES = 64, LULL_EVENT_DESCRIPTION_BYTES = 256 };

struct lull_event_scalar {
    const char *tag; /* "lull/power_w": what is before the slash becomes a group */
    float value;
    const char *description; /* NULL: written earlier in this file */
};

/* Writes the first record of a file, at unix_s of the wall clock. Error: -ENOMEM. */
int lull_event_file_begin(FILE *out, double unix_s);

/* Writes a record of scalars. Errors: -ENOMEM; what out does not take shows in ferror(). */
int lull_event_file_add(FILE *out, double unix_s, int64_t step,
                        const struct lull_event_scalar *scalars, size_t count);

/* Returns the CRC-32C (Castagnoli) of bytes, as it stands in no file: not masked. */
uint32_t lull_event_crc32c(const void *bytes, size_t size);

#endif
