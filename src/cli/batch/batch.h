/* lull batch: the batch size of a job that comes again and again. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef LULL_CLI_BATCH_BATCH_H
#define LULL_CLI_BATCH_BATCH_H

int lull_batch_main(int argc, char **argv);

/* lull batch run: one recurrence of a job. */
int lull_batch_run_main(int argc, char **argv);

/* lull batch list, show, forget: what is known of jobs. */
int lull_batch_list_main(int argc, char **argv);
int lull_batch_show_main(int argc, char **argv);
int lull_batch_forget_main(int argc, char **argv);

#endif
