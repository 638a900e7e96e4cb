/*
 * Write the results of gates as a JUnit XML file, which systems of continuous integration read: a
 * test suite with a test case for each condition.
 */
#ifndef LK_REPORTS_JUNIT_H
#define LK_REPORTS_JUNIT_H

#include "base/gate.h"
#include "base/page.h"
#include "base/status.h"

/* Write the file (atomically). The suite is named after the command and has the page's answer as
 * its output. pre: the gates are judged. */
enum lk_status lk_junit_write(const char *path, const char *command, const struct lk_gates *gates,
                              const struct lk_page *page);

#endif
