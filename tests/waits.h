/*
 * How long tests wait. No outcome may depend on how fast the machine is, or how busy: what must
 * come is waited for as long as it takes, and a timeout that must pass begins when all that it is
 * not about has happened.
 */
#ifndef LK_TESTS_WAITS_H
#define LK_TESTS_WAITS_H

#include "base/clock.h"

/* For what must come: only a hang ends this wait. Less than libcheck's own limit (tests/main.c). */
#define WAIT_PLENTY_S  200
#define WAIT_PLENTY_NS (WAIT_PLENTY_S * LK_NS_PER_S)

/* For what never comes: a timeout under test. The ranks that are not at fault need to do a call or
 * answer a question meanwhile, and a busy machine may keep one of them from that for a second. */
#define WAIT_SHORT_NS (3 * LK_NS_PER_S)

#endif
