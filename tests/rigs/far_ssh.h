/*
 * A script in ssh's place: it runs the command here, in a shell that has nothing of the launcher's
 * environment, starts elsewhere, and outlives it as a shell on another host would. The host `down`
 * does not answer, `far` has another disk.
 */
#ifndef LK_TESTS_FAR_SSH_H
#define LK_TESTS_FAR_SSH_H

/* Write it as scratch_dir/ssh. */
void far_ssh_put(void);

/* The set-up of a program that finds it first, logs its calls in scratch_dir/log, and is reached by
 * the loopback interface; ctx is not used. */
void far_ssh_set_up(void *ctx);

#endif
