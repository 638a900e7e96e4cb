/*
 * Gates are conditions under which a page fails a check, e.g. in continuous integration:
 *
 *     efficiency<0.8                              fails if any efficiency of the page is below 0.8
 *     efficiency{gpus="64"}<0.8, step_s>20ms      two conditions; quotes may be left out
 *
 * A condition is the name of a value (struct lk_page_value), labels that the value must have, one
 * of < <= > >=, and a number, which takes the units of base/units.h.
 */
#ifndef LK_BASE_GATE_H
#define LK_BASE_GATE_H

#include "base/member.h"
#include "base/page.h"
#include "base/status.h"

#include <stddef.h>

/* X(relation, sign, what a value that fulfils it is) */
#define LK_RELATION_LIST(X)                                                                        \
    X(LK_RELATION_AT_MOST, "<=", "at most")                                                        \
    X(LK_RELATION_AT_LEAST, ">=", "at least")                                                      \
    X(LK_RELATION_BELOW, "<", "below")                                                             \
    X(LK_RELATION_ABOVE, ">", "above")

enum lk_relation { LK_RELATION_LIST(LK_WORD_VALUE) LK_RELATION_COUNT };

/* X(result, name): ERROR: the page lacks the value, or the number has not its unit. */
#define LK_GATE_RESULT_LIST(X)                                                                     \
    X(LK_GATE_PASSED, "passed")                                                                    \
    X(LK_GATE_FAILED, "failed")                                                                    \
    X(LK_GATE_ERROR, "error")

enum lk_gate_result { LK_GATE_RESULT_LIST(LK_WORD_VALUE) };

struct lk_gate {
    char *text; /* the condition, without blanks around it */
    char *name;
    struct lk_pair *labels;
    size_t n_labels;
    enum lk_relation relation;
    char *bound; /* the number, as it was written */
    /* Set by lk_gates_judge: */
    enum lk_gate_result result;
    char *message; /* a line that says which value decided, e.g. "efficiency is 0.61: below 0.8" */
};

struct lk_gates {
    struct lk_gate *gates; /* in the order of the text */
    size_t n, capacity;
};

/* Append the conditions of a text, separated by commas. LK_EUSAGE says what cannot be read. */
enum lk_status lk_gates_add(struct lk_gates *g, const char *text);
/*
 * Judge a page: set the result and the message of every gate. A condition that several values meet
 * names the one that is furthest beyond its bound.
 */
enum lk_status lk_gates_judge(struct lk_gates *g, const struct lk_page *p);
/* Return how many gates have a result. */
size_t lk_gates_count(const struct lk_gates *g, enum lk_gate_result result);

void lk_gates_fini(struct lk_gates *g); /* zeroes it; safe on a zeroed one */

#endif
