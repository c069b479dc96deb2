/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE_EXTENDED
#include "cli/top/screen.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "cli/restore.h"
#include "cli/shared/stop_signals.h"
#include "cli/top/lines.h"

enum {
    TOP_ROWS = 2,    /* the title and the columns */
    BOTTOM_ROWS = 2, /* the last message, and the keys */
    SAID_ROWS = 4,   /* that what has happened takes at most */
    KEY_MS = 200,    /* so often at least signals are looked for */
    ESCAPE = 27,
};

/* A governor answers within a tick of 50 ms and publishes 200 ms later; one that has not answered
 * by then does not. */
static const int64_t patience_ns = 5 * LULL_NS_PER_S;

/* Action that waits for confirmation. */
enum question { NO_QUESTION, ASK_PAUSE, ASK_RESUME, ASK_RESTORE };

struct screen {
    struct lull_top *top;
    const struct lull_top_options *options;
    const struct lull_top_view *view;
    struct lull_top_lines lines;
    uint32_t first;                      /* the line that is seen first */
    char selected[LULL_LIVE_WORD_BYTES]; /* the file of the run that keys are for; "": none */
    enum question question;
    char asked[LULL_LIVE_WORD_BYTES]; /* the file of the run that is to answer; "": none */
    bool is_to_pause;
    int64_t asked_ns;
    char said[LULL_CLI_RESTORED_BYTES + 64];
    bool is_over;
};

/* ---- the selected run -------------------------------------------------------------------- */

/* Returns the number of a run in the view; -1: it is not there any more. */
static int32_t find_run(const struct screen *screen, const char *file)
{
    for (uint32_t i = 0; i < screen->view->run_count; i++)
        if (strcmp(screen->view->entries[i].file, file) == 0)
            return (int32_t)i;
    return -1;
}

static void select_run(struct screen *screen, int32_t run)
{
    screen->selected[0] = '\0';
    if (run >= 0 && (uint32_t)run < screen->view->run_count)
        memcpy(screen->selected, screen->view->entries[run].file, sizeof(screen->selected));
}

/* Returns the selected run. If it has ended, selects the first run. */
static int32_t selected_run(struct screen *screen)
{
    int32_t run = find_run(screen, screen->selected);

    if (run < 0 && screen->view->run_count > 0)
        run = 0;
    select_run(screen, run);
    return run;
}

/* ---- drawing ----------------------------------------------------------------------------- */

static uint32_t body_rows(void)
{
    return LINES > TOP_ROWS + BOTTOM_ROWS ? (uint32_t)(LINES - TOP_ROWS - BOTTOM_ROWS) : 0;
}

static void screen_put(int row, const char *text, attr_t attributes)
{
    if (row < 0 || row >= LINES)
        return;
    attrset((int)attributes);
    move(row, 0);
    clrtoeol();
    addnstr(text, (int)lull_top_fit(text, COLS));
    attrset(A_NORMAL);
}

/* A bar over the whole width. */
static void put_bar(int row, const char *text)
{
    screen_put(row, text, A_REVERSE);
    mvchgat(row, 0, -1, A_REVERSE, 0, NULL);
}

static attr_t attributes_of(enum lull_top_style style)
{
    switch (style) {
    case LULL_TOP_HEADING:
        return A_BOLD;
    case LULL_TOP_DIM:
        return A_DIM;
    case LULL_TOP_LOWERED:
        return (attr_t)COLOR_PAIR(1);
    case LULL_TOP_WARNING:
        return (attr_t)COLOR_PAIR(2) | A_BOLD;
    default:
        return A_NORMAL;
    }
}

static void screen_draw_body(struct screen *screen)
{
    const uint32_t rows = body_rows();
    const int32_t selected = selected_run(screen);
    const bool is_marked = screen->view->run_count > 1;

    if (screen->first + rows > screen->lines.count)
        screen->first = screen->lines.count > rows ? screen->lines.count - rows : 0;
    for (uint32_t i = 0; i < rows; i++) {
        const int row = TOP_ROWS + (int)i;
        const struct lull_top_line *line;
        char text[LULL_TOP_LINE_BYTES + 2];

        if (screen->first + i >= screen->lines.count) {
            screen_put(row, "", A_NORMAL);
            continue;
        }
        line = &screen->lines.items[screen->first + i];
        snprintf(text, sizeof(text), "%s%s",
                 is_marked && line->style == LULL_TOP_HEADING && line->run == selected ? "> " : "",
                 line->text);
        screen_put(row, text, attributes_of(line->style));
    }
}

/* Returns how many bytes of a text are to stand in one row: up to a blank, if it continues. */
static size_t screen_row_of(const char *text)
{
    const size_t fit = lull_top_fit(text, COLS);
    size_t at = fit;

    if (text[fit] == '\0')
        return fit;
    while (at > 0 && text[at] != ' ')
        at--;
    return at > 0 ? at : fit;
}

/* Draws the last message above the keys. A long message also covers the rows above. */
static void draw_said(const char *said)
{
    const char *rows[SAID_ROWS] = {said};
    int count = 1;

    while (count < SAID_ROWS && rows[count - 1][screen_row_of(rows[count - 1])] != '\0') {
        const char *next = rows[count - 1] + screen_row_of(rows[count - 1]);

        rows[count++] = next + (*next == ' ');
    }
    for (int i = 0; i < count; i++) {
        char row[sizeof(((struct screen *)0)->said)];

        snprintf(row, sizeof(row), "%.*s", (int)screen_row_of(rows[i]), rows[i]);
        screen_put(LINES - 1 - count + i, row, A_BOLD);
    }
}

static void draw_bottom(const struct screen *screen)
{
    const uint32_t rows = body_rows();
    const uint32_t last = lull_min_u32(screen->first + rows, screen->lines.count);
    char keys[256];
    char place[64] = "";

    if (screen->lines.count > rows)
        snprintf(place, sizeof(place), "  lines %u-%u of %u", screen->first + 1, last,
                 screen->lines.count);
    snprintf(keys, sizeof(keys), " q quit  p pause/resume  r restore%s%s",
             screen->view->run_count > 1 ? "  Tab next run" : "", place);
    draw_said(screen->said);
    put_bar(LINES - 1, keys);
}

static void screen_draw(struct screen *screen)
{
    char title[256] = " ";

    lull_top_title(screen->view, title + 1, sizeof(title) - 1);
    put_bar(0, title);
    screen_put(1, lull_top_columns(), A_UNDERLINE);
    screen_draw_body(screen);
    draw_bottom(screen);
    refresh();
}

/* ---- keys -------------------------------------------------------------------------------- */

static void scroll_to(struct screen *screen, int64_t line)
{
    const int64_t most = (int64_t)screen->lines.count - (int64_t)body_rows();

    if (line > most)
        line = most;
    screen->first = line > 0 ? (uint32_t)line : 0;
}

static void next_run(struct screen *screen)
{
    const uint32_t count = screen->view->run_count;
    const int32_t run = count > 0 ? (selected_run(screen) + 1) % (int32_t)count : -1;

    select_run(screen, run);
    for (uint32_t i = 0; i < screen->lines.count; i++)
        if (screen->lines.items[i].run == run) {
            scroll_to(screen, i);
            return;
        }
}

static void screen_request_pause(struct screen *screen)
{
    const int32_t index = selected_run(screen);
    const struct lull_live_run *run;

    screen->said[0] = '\0';
    if (index < 0) {
        snprintf(screen->said, sizeof(screen->said), "there is no run to pause");
        return;
    }
    run = screen->view->runs[index];
    if (run->ruler == LULL_LIVE_BY_NONE) {
        snprintf(screen->said, sizeof(screen->said), "run %d only observes; nothing to pause",
                 run->pid);
        return;
    }
    screen->question = run->is_paused ? ASK_RESUME : ASK_PAUSE;
    memcpy(screen->asked, screen->selected, sizeof(screen->asked));
    snprintf(screen->said, sizeof(screen->said),
             run->is_paused
                 ? "Resume run %d? (y/n)"
                 : "Pause run %d: its clocks at the reference until you resume it? (y/n)",
             run->pid);
}

static void screen_request_restore(struct screen *screen)
{
    screen->question = ASK_RESTORE;
    snprintf(screen->said, sizeof(screen->said),
             "Restore all GPUs of this node and revoke all leases? (y/n)");
}

static void screen_request_run(struct screen *screen, bool is_to_pause)
{
    struct lull_error err = {0};

    if (lull_live_ask(screen->options->directory, screen->asked,
                      is_to_pause ? LULL_LIVE_PAUSE : LULL_LIVE_GO_ON, &err) < 0) {
        snprintf(screen->said, sizeof(screen->said), "nothing has changed: %s", err.text);
        screen->asked[0] = '\0';
        return;
    }
    screen->is_to_pause = is_to_pause;
    screen->asked_ns = lull_now_ns();
    snprintf(screen->said, sizeof(screen->said), "asked...");
}

static void screen_restore(struct screen *screen)
{
    char done[LULL_CLI_RESTORED_BYTES];
    struct lull_error err = {0};

    snprintf(screen->said, sizeof(screen->said), "restoring...");
    screen_draw(screen);
    if (lull_cli_restore(screen->options->runtime_dir, false, done, &err) < 0)
        snprintf(screen->said, sizeof(screen->said), "not restored: %s", err.text);
    else
        snprintf(screen->said, sizeof(screen->said), "%s", done);
}

static void screen_take_answer(struct screen *screen, int key)
{
    const enum question question = screen->question;

    screen->question = NO_QUESTION;
    if (key != 'y' && key != 'Y') {
        snprintf(screen->said, sizeof(screen->said), "nothing has changed");
        screen->asked[0] = '\0';
    } else if (question == ASK_RESTORE) {
        screen_restore(screen);
    } else {
        screen_request_run(screen, question == ASK_PAUSE);
    }
}

/* Shows the response of a run to a request. */
static void screen_poll_answer(struct screen *screen)
{
    const struct lull_live_run *run;
    int32_t index;

    if (screen->asked[0] == '\0' || screen->question != NO_QUESTION)
        return;
    index = find_run(screen, screen->asked);
    if (index < 0) {
        snprintf(screen->said, sizeof(screen->said), "that run has ended");
        screen->asked[0] = '\0';
        return;
    }
    run = screen->view->runs[index];
    if ((run->is_paused != 0) == screen->is_to_pause)
        snprintf(screen->said, sizeof(screen->said),
                 run->is_paused ? "run %d is paused: its GPUs are at the reference, not leased"
                                : "run %d continues as before",
                 run->pid);
    else if (screen->view->now_ns - screen->asked_ns > patience_ns)
        snprintf(screen->said, sizeof(screen->said), "run %d does not answer", run->pid);
    else
        return;
    screen->asked[0] = '\0';
}

static void screen_take_key(struct screen *screen, int key)
{
    const int64_t first = screen->first;

    if (screen->question != NO_QUESTION && key != KEY_RESIZE) {
        screen_take_answer(screen, key);
        return;
    }
    switch (key) {
    case 'q':
    case 'Q':
    case ESCAPE:
        screen->is_over = true;
        break;
    case 'p':
    case 'P':
        screen_request_pause(screen);
        break;
    case 'r':
    case 'R':
        screen_request_restore(screen);
        break;
    case '\t':
        next_run(screen);
        break;
    case KEY_UP:
    case 'k':
        scroll_to(screen, first - 1);
        break;
    case KEY_DOWN:
    case 'j':
        scroll_to(screen, first + 1);
        break;
    case KEY_PPAGE:
        scroll_to(screen, first - (int64_t)body_rows());
        break;
    case KEY_NPAGE:
    case ' ':
        scroll_to(screen, first + (int64_t)body_rows());
        break;
    case KEY_HOME:
        scroll_to(screen, 0);
        break;
    case KEY_END:
        scroll_to(screen, screen->lines.count);
        break;
    default: /* a change of size is no more than a reason to draw */
        break;
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void begin_terminal(void)
{
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    keypad(stdscr, TRUE);
    set_escdelay(50);
    timeout(KEY_MS);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(1, COLOR_GREEN, -1);
        init_pair(2, COLOR_YELLOW, -1);
    }
}

static void screen_show(struct screen *screen, int64_t interval_ns, struct lull_stop_signals *stop)
{
    int64_t next_ns = 0;

    while (!screen->is_over && !lull_is_stopped(stop)) {
        const int64_t now_ns = lull_now_ns();
        int key;

        if (now_ns >= next_ns || screen->asked[0] != '\0') {
            screen->view = lull_top_look(screen->top, 0);
            screen_poll_answer(screen);
            lull_top_make_lines(screen->view, &screen->lines);
            next_ns = now_ns + interval_ns;
        }
        screen_draw(screen);
        key = getch();
        if (key != ERR)
            screen_take_key(screen, key);
    }
}

int lull_top_show_screen(struct lull_top *top, const struct lull_top_options *options,
                         int64_t interval_ns, struct lull_error *err)
{
    struct screen screen = {.top = top, .options = options};
    struct lull_stop_signals stop;
    SCREEN *terminal = NULL;

    setlocale(LC_CTYPE, "");
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        terminal = newterm(NULL, fdopen(STDOUT_FILENO, "w"), stdin); /* base/output.h has stdout */
    if (terminal == NULL)
        return lull_error_set(
            err, -ENOTTY, "not a terminal that can be drawn on: use --once or --json, or set TERM");
    lull_stop_signals_begin(&stop);
    begin_terminal();
    screen.view = lull_top_look(top, KEY_MS); /* so that the first screen has readings */
    screen_show(&screen, interval_ns, &stop);
    endwin();
    delscreen(terminal);
    lull_top_lines_fini(&screen.lines);
    return 0;
}
