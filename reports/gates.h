/* The gates of a page (base/gate.h), as options of a command. */
#ifndef LK_REPORTS_GATES_H
#define LK_REPORTS_GATES_H

#include "base/gate.h"
#include "base/page.h"
#include "base/status.h"

/* Values of the rows GATE_ROWS (commands/common_rows.h); texts are NULL where not given. */
struct lk_gate_options {
    const char *fail_if; /* conditions. The first member: the frame finds the struct by it */
    double fail_below;   /* bound of the command's main value; 0: none */
    const char *junit;   /* path of the JUnit file */
};

/*
 * Read the conditions before the command works. main_value is the value that --fail-below means.
 * LK_EUSAGE for a condition that cannot be read, and for a JUnit file without conditions; LK_EIO
 * for one that cannot be written.
 */
enum lk_status lk_gates_open(const struct lk_gate_options *o, const char *main_value,
                             struct lk_gates *out);
/*
 * Judge the page, after it was printed: write the JUnit file and print a line for each condition
 * that failed to standard error. LK_EGATE if one failed; LK_EUSAGE if the page lacks a value.
 */
enum lk_status lk_gates_close(const struct lk_gate_options *o, const char *command,
                              const struct lk_page *page, struct lk_gates *gates);

#endif
