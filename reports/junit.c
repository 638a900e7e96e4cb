/* JUnit XML; see the header. Elements and attributes are those of the Jenkins schema, junit.xsd. */
#include "reports/junit.h"

#include "base/file.h"
#include "base/utf8.h"

#include <string.h>

/* Write a text as XML 1.0 (section 2.2): bytes that are no UTF-8, and characters that XML forbids,
 * become U+FFFD; line breaks and tabs are kept. */
static enum lk_status put_xml(struct lk_writer *w, const char *s)
{
    static const struct {
        char c;
        const char *text;
    } escapes[] = {{'&', "&amp;"},   {'<', "&lt;"},   {'>', "&gt;"},  {'"', "&quot;"},
                   {'\'', "&apos;"}, {'\n', "&#10;"}, {'\t', "&#9;"}, {'\r', "&#13;"}};
    static const size_t n_escapes = sizeof escapes / sizeof *escapes;

    while (*s) {
        size_t n = lk_utf8_bytes(s), e = 0;
        bool is_forbidden = n == 0 || !strncmp(s, "\xEF\xBF\xBE", 3) || /* U+FFFE */
                            !strncmp(s, "\xEF\xBF\xBF", 3);             /* U+FFFF */

        while (e < n_escapes && escapes[e].c != *s)
            e++;
        if (e < n_escapes)
            LK_PASS(lk_writer_put(w, escapes[e].text, strlen(escapes[e].text)));
        else if (is_forbidden || (unsigned char)*s < 0x20)
            LK_PASS(lk_writer_put(w, "\xEF\xBF\xBD", 3));
        else
            LK_PASS(lk_writer_put(w, s, n));
        s += n ? n : 1;
    }
    return LK_OK;
}

/* Write ` name="text"`. */
static enum lk_status put_attribute(struct lk_writer *w, const char *name, const char *text)
{
    LK_PASS(lk_writer_printf(w, " %s=\"", name));
    LK_PASS(put_xml(w, text));
    return lk_writer_put(w, "\"", 1);
}

static enum lk_status put_counts(struct lk_writer *w, const struct lk_gates *gates)
{
    return lk_writer_printf(w, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\"", gates->n,
                            lk_gates_count(gates, LK_GATE_FAILED),
                            lk_gates_count(gates, LK_GATE_ERROR));
}

static enum lk_status put_case(struct lk_writer *w, const char *command, const struct lk_gate *g)
{
    static const char *const elements[] = {
        [LK_GATE_PASSED] = "system-out", [LK_GATE_FAILED] = "failure", [LK_GATE_ERROR] = "error"};
    const char *element = elements[g->result];

    LK_PASS(lk_writer_printf(w, "    <testcase classname=\"lockstep.%s\"", command));
    LK_PASS(put_attribute(w, "name", g->text));
    LK_PASS(lk_writer_printf(w, ">\n      <%s", element));
    if (g->result != LK_GATE_PASSED)
        LK_PASS(put_attribute(w, "message", g->message));
    LK_PASS(lk_writer_put(w, ">", 1));
    LK_PASS(put_xml(w, g->message));
    return lk_writer_printf(w, "</%s>\n    </testcase>\n", element);
}

static enum lk_status put_all(struct lk_writer *w, const char *command,
                              const struct lk_gates *gates, const struct lk_page *page)
{
    LK_PASS(lk_writer_printf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites"));
    LK_PASS(put_counts(w, gates));
    LK_PASS(lk_writer_printf(w, ">\n  <testsuite name=\"lockstep %s\"", command));
    LK_PASS(put_counts(w, gates));
    LK_PASS(lk_writer_printf(w, ">\n"));
    for (size_t i = 0; i < gates->n; i++)
        LK_PASS(put_case(w, command, &gates->gates[i]));
    LK_PASS(lk_writer_printf(w, "    <system-out>"));
    for (size_t i = 0; i < page->n_answer; i++) {
        LK_PASS(put_xml(w, page->answer[i]));
        LK_PASS(lk_writer_put(w, "\n", 1));
    }
    return lk_writer_printf(w, "</system-out>\n  </testsuite>\n</testsuites>\n");
}

enum lk_status lk_junit_write(const char *path, const char *command, const struct lk_gates *gates,
                              const struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;

    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(put_all(w, command, gates, page));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}
