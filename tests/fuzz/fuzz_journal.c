/*
 * Records of the journal: any contents of a GPU's file are refused with a reason, or are a record
 * that is the same after saving and reading it again. The first byte determines which parts of the
 * file are corrected, so that mutations pass the checks, and the place of the file.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/journal.c"

#include "folder.h"
#include "input.h"

enum { MENDS_HEAD = 1, MENDS_BOOT = 2, MENDS_SUMS = 4, IS_DEFERRED = 8, SETS_ASIDE = 16 };

static const char uuid[] = "GPU-0";

static struct lull_journal *open_once(void)
{
    static struct lull_journal *journal;
    struct lull_error err;

    if (journal == NULL)
        require(lull_journal_open(folder(), &journal, &err) == 0);
    return journal;
}

static void mend(const struct lull_journal *journal, uint8_t how, struct stored_record *stored)
{
    if ((how & MENDS_HEAD) != 0) {
        memcpy(stored->magic, magic, sizeof(magic));
        stored->version = LULL_JOURNAL_VERSION;
        stored->size = sizeof(*stored);
        memcpy(stored->record.uuid, uuid, sizeof(uuid));
    }
    if ((how & MENDS_BOOT) != 0)
        memcpy(stored->boot_id, journal->boot_id, sizeof(stored->boot_id));
    if ((how & MENDS_SUMS) != 0) {
        stored->checksum = checksum_of(stored);
        stored->note.checksum = hash_of(&stored->note.written, sizeof(stored->note.written));
    }
}

static void put(int directory_fd, const void *bytes, size_t size)
{
    const int fd =
        openat(directory_fd, "gpu-GPU-0", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    require(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
}

static void check_again(struct lull_journal *journal, const struct lull_journal_record *record)
{
    struct lull_journal_record again;
    struct lull_journal_written written = {.sm_at_ns = 1, .sm_mhz = {2, 3}, .limit_mw = {4, 5}};
    struct lull_error err;
    int file = -1;

    require(strcmp(record->uuid, uuid) == 0);
    require(memchr(record->driver_version, '\0', sizeof(record->driver_version)) != NULL);
    require(lull_journal_save(journal, record, &err) == 0);
    require(lull_journal_load(journal, uuid, &again, &err) == 0);
    require(memcmp(record, &again, sizeof(again)) == 0);
    require(lull_journal_note(journal, uuid, &file, &written, &err) == 0);
    lull_journal_forget_file(&file);
    require(lull_journal_load(journal, uuid, &again, &err) == 0);
    require(memcmp(&again.written, &written, sizeof(written)) == 0);
    require(memcmp(record, &again, offsetof(struct lull_journal_record, written)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_journal *const journal = open_once();
    struct input input = {data, size};
    const uint8_t how = input_byte(&input);
    const bool is_deferred = (how & IS_DEFERRED) != 0;
    struct lull_journal_record record;
    struct lull_error err = {0};
    struct {
        struct stored_record stored;
        char more[16];
    } file;
    char uuids[1][96];
    const size_t given = input_take(&input, &file, sizeof(file));
    int result;

    if (given >= sizeof(file.stored))
        mend(journal, how, &file.stored);
    put(is_deferred ? journal->deferred_fd : journal->directory_fd, &file, given);
    if (is_deferred)
        result = lull_journal_load_deferred(journal, uuid, &record, &err);
    else
        result = lull_journal_load(journal, uuid, &record, &err);
    require(result == 0 || result == LULL_E_FORMAT || result == LULL_E_STALE);
    require(result == 0 || err.text[0] != '\0');
    require(result != 0 || (given == sizeof(file.stored) && is_intact(&file.stored)));
    require(lull_journal_list(journal, uuids, 1, &err) == (is_deferred ? 0 : 1));
    if (result == 0)
        check_again(journal, &record);
    else if ((how & SETS_ASIDE) != 0 && !is_deferred)
        require(lull_journal_set_aside(journal, uuid, &err) == 0 &&
                unlinkat(journal->directory_fd, "gpu-GPU-0.aside", 0) == 0);
    require(lull_journal_remove(journal, uuid, &err) == 0);
    require(lull_journal_remove_deferred(journal, uuid, &err) == 0);
    return 0;
}
