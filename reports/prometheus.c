/*
 * Values of a page in Prometheus' text format, e.g. for the node exporter's textfile collector. All
 * samples of a metric stand together, and its help does not depend on the command: files of several
 * commands lie side by side in one folder.
 */
#include "base/label.h"
#include "base/units.h"
#include "reports/page_formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum lk_status put_number(struct lk_writer *w, double v)
{
    if (isinf(v))
        return lk_writer_printf(w, v < 0 ? " -Inf\n" : " +Inf\n");
    return lk_writer_printf(w, " %.17g\n", v);
}

static enum lk_status put_sample(struct lk_writer *w, const struct lk_page_value *v,
                                 const char *command)
{
    enum lk_status st = LK_OK;
    struct lk_pair *labels = NULL;
    size_t n = 0;
    const char *at = v->labels;
    char *text = NULL;

    LK_TRY(lk_labels_read(v->labels, &at, &labels, &n));
    LK_TRY(lk_label_add(&text, "command", "%s", command));
    for (size_t i = 0; i < n; i++)
        LK_TRY(lk_label_add(&text, labels[i].key, "%s", labels[i].value));
    LK_TRY(lk_writer_printf(w, "lockstep_%s{%s}", v->name, text));
    st = put_number(w, v->value);
out:
    lk_labels_free(labels, n);
    free(text);
    return st;
}

/* Write all samples of one name. */
static enum lk_status put_metric(struct lk_writer *w, const struct lk_page *p, const char *name,
                                 const char *command)
{
    bool begun = false;

    for (size_t i = 0; i < p->n_values; i++) {
        const struct lk_page_value *v = &p->values[i];

        if (strcmp(v->name, name) != 0)
            continue;
        if (!begun)
            LK_PASS(lk_writer_printf(w,
                                     "# HELP lockstep_%s The value %s of a page, unit %s.\n"
                                     "# TYPE lockstep_%s gauge\n",
                                     name, name, lk_units_base(v->dim), name));
        begun = true;
        LK_PASS(put_sample(w, v, command));
    }
    return LK_OK;
}

enum lk_status lk_page_prometheus(struct lk_writer *w, const struct lk_page *p, const char *command)
{
    enum lk_status st = LK_OK;
    const char **names = NULL;
    size_t n = 0;

    LK_TRY(lk_page_value_names(p, &names, &n));
    if (!n)
        LK_TRY(lk_fail(LK_EUSAGE, "--format=prometheus: this page has no values"));
    for (size_t i = 0; i < n; i++)
        LK_TRY(put_metric(w, p, names[i], command));
out:
    free(names);
    return st;
}
