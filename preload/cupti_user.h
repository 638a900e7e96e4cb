/* Another user of CUPTI in the process: preload/cupti_user.c notices it, preload/cupti.c gives way.
 */
#ifndef LK_PRELOAD_CUPTI_USER_H
#define LK_PRELOAD_CUPTI_USER_H

/* Somebody takes CUPTI now: end the window, if it is open, and begin none. Any thread. */
void lk_cupti_give_way(void);

#endif
