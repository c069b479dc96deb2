/*
 * Screen: `lull top` on a terminal (ncursesw): lines that scroll between a title and the keys, and
 * keys that ask a governor to pause, or restore the node, both after a question. It is drawn again
 * at each interval, and when the terminal's size changes. Threads: one. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CLI_TOP_SCREEN_H
#define LULL_CLI_TOP_SCREEN_H

#include "cli/top/view.h"

/* Shows the view until a key or a signal ends it. Errors: -ENOTTY there is no terminal that can be
 * drawn on. */
int lull_top_show_screen(struct lull_top *top, const struct lull_top_options *options,
                         int64_t interval_ns, struct lull_error *err);

#endif
