/*
 * How long tests wait. No outcome may depend on the speed or load of the machine: a wait for an
 * expected event is as long as necessary, and a timeout under test begins only after all unrelated
 * work is done.
 */
#ifndef LK_TESTS_WAITS_H
#define LK_TESTS_WAITS_H

#include "base/clock.h"

/* For an event that must come: only a hang exceeds this. Less than libcheck's own limit
 * (tests/main.c). */
#define WAIT_PLENTY_S  200
#define WAIT_PLENTY_NS (WAIT_PLENTY_S * LK_NS_PER_S)

/* For an event that never comes: a timeout under test. Meanwhile the healthy ranks need to make a
 * call or answer a query, and a busy machine may delay one of them by a second. */
#define WAIT_SHORT_NS (3 * LK_NS_PER_S)

#endif
