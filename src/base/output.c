/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"

enum { ROOM = 4096 };

/* A descriptor, and bytes whose character has not been written whole yet. */
struct output {
    int fd;
    size_t cut_length;
    char cut[4];
};

static struct output outputs[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

static int output_write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(fd, text, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        text += written;
        size -= (size_t)written;
    }
    return 0;
}

static int write_printable(int fd, const char *text, size_t size)
{
    char shown[ROOM];
    size_t used = 0;

    while (size > 0) {
        const struct lull_printable_piece piece =
            lull_printable_take(LULL_PRINTABLE_LINES, text, size);

        memcpy(&shown[used], piece.text, piece.length);
        used += piece.length;
        text += piece.taken;
        size -= piece.taken;
        if (used + LULL_PRINTABLE_PIECE <= sizeof(shown) && size > 0)
            continue;
        if (output_write_all(fd, shown, used) < 0)
            return -1;
        used = 0;
    }
    return 0;
}

/* Writes the character that the last call has cut, with the bytes that complete it. Returns how
 * many bytes of the text it took, or -1. */
static ssize_t write_cut(struct output *output, const char *text, size_t size)
{
    size_t taken = 0;

    while (output->cut_length > 0 && taken < size &&
           lull_printable_cut(output->cut, output->cut_length) == output->cut_length)
        output->cut[output->cut_length++] = text[taken++];
    if (lull_printable_cut(output->cut, output->cut_length) == output->cut_length)
        return (ssize_t)taken;
    /* The last byte may begin the next character. */
    if (lull_printable_take(LULL_PRINTABLE_VALID, output->cut, output->cut_length).taken == 1 &&
        taken > 0) {
        taken--;
        output->cut_length--;
    }
    if (write_printable(output->fd, output->cut, output->cut_length) < 0)
        return -1;
    output->cut_length = 0;
    return (ssize_t)taken;
}

/* Takes all of a text or nothing: 0 is an error to stdio. */
static ssize_t output_accept(void *cookie, const char *text, size_t size)
{
    struct output *const output = cookie;
    const ssize_t taken = write_cut(output, text, size);
    size_t cut;

    if (taken < 0)
        return 0;
    cut = lull_printable_cut(text + taken, size - (size_t)taken);
    if (write_printable(output->fd, text + taken, size - (size_t)taken - cut) < 0)
        return 0;
    if (cut > 0) {
        memcpy(output->cut, text + size - cut, cut);
        output->cut_length = cut;
    }
    return (ssize_t)size;
}

static FILE *open_output(struct output *output, FILE *fallback, int mode)
{
    FILE *const stream = fopencookie(output, "w", (cookie_io_functions_t){.write = output_accept});

    if (stream == NULL)
        return fallback;
    setvbuf(stream, NULL, mode, ROOM);
    return stream;
}

/* The next file to be opened would get the number of a closed standard descriptor, and this program
 * and its children would use it as that. The placeholder fails like a closed descriptor, and is
 * closed in children. */
void lull_output_reserve(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

void lull_output_begin(void)
{
    lull_output_reserve();
    stdout = open_output(&outputs[0], stdout, isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF);
    stderr = open_output(&outputs[1], stderr, _IOLBF);
}

int lull_output_finish(void)
{
    struct output *const output = &outputs[0];

    if (fflush(stdout) != 0 || ferror(stdout))
        return -errno;
    if (write_printable(output->fd, output->cut, output->cut_length) < 0)
        return -errno;
    output->cut_length = 0;
    return 0;
}
