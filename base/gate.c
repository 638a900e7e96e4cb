/* Gates; see the header. Divisions: reading conditions, values, judging. */
#include "base/gate.h"

#include "base/array.h"
#include "base/label.h"
#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED_MAX = 8 }; /* labels that a message lists */

/* ---- Reading conditions ---- */

static const char name_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789_";

static const char *const signs[] = {LK_RELATION_LIST(LK_WORD_NAME)};
static const char *const words[] = {LK_RELATION_LIST(LK_WORD_THIRD)};

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* Copy n bytes without the blanks around them. */
static enum lk_status copy_trimmed(char **out, const char *s, size_t n)
{
    const char *begin = skip_blanks(s), *end = s + n;

    while (end > begin && strchr(" \t", end[-1]))
        end--;
    return lk_strndup(out, begin, end > begin ? (size_t)(end - begin) : 0);
}

/* Return true if a text is a number of some dimension. */
static bool is_number(const char *text)
{
    double v;

    for (int dim = LK_DIM_NONE; dim <= LK_DIM_PRICE; dim++)
        if (lk_units_parse((enum lk_dimension)dim, text, &v) == LK_OK)
            return true;
    return false;
}

static enum lk_status read_gate(struct lk_gate *g)
{
    const char *s = g->text;
    size_t n = strspn(s, name_letters);
    int r = 0;

    LK_PASS(lk_strndup(&g->name, s, n));
    s = skip_blanks(s + n);
    if (n && *s == '{') {
        s++;
        LK_PASS(lk_labels_read(g->text, &s, &g->labels, &g->n_labels));
        if (*s != '}')
            return lk_fail(LK_EUSAGE, "'%s': the brace of the labels is not closed", g->text);
        s = skip_blanks(s + 1);
    }
    while (r < LK_RELATION_COUNT && strncmp(s, signs[r], strlen(signs[r])) != 0)
        r++;
    if (!n || r == LK_RELATION_COUNT)
        return lk_fail(LK_EUSAGE,
                       "'%s' is no condition: one is written efficiency<0.8 or "
                       "step_s{gpus=\"64\"}>20ms, with <, <=, > or >=",
                       g->text);
    g->relation = (enum lk_relation)r;
    LK_PASS(lk_strdup(&g->bound, skip_blanks(s + strlen(signs[r]))));
    return is_number(g->bound)
               ? LK_OK
               : lk_fail(LK_EUSAGE, "'%s': '%s' is no number with a known unit", g->text, g->bound);
}

/* Return the bytes before the comma that ends a condition: one outside of braces and quotes. */
static size_t condition_bytes(const char *s)
{
    bool quoted = false, braced = false;
    size_t i;

    for (i = 0; s[i] && (quoted || braced || s[i] != ','); i++) {
        if (quoted && s[i] == '\\' && s[i + 1])
            i++;
        else
            quoted ^= s[i] == '"';
        braced = !quoted && s[i] == '{' ? true : !quoted && s[i] == '}' ? false : braced;
    }
    return i;
}

enum lk_status lk_gates_add(struct lk_gates *g, const char *text)
{
    for (const char *s = text;; s++) {
        size_t n = condition_bytes(s);
        struct lk_gate *gate;

        LK_PASS(lk_array_grow(&g->gates, &g->capacity, g->n + 1, sizeof *g->gates));
        gate = &g->gates[g->n++];
        *gate = (struct lk_gate){0};
        LK_PASS(copy_trimmed(&gate->text, s, n));
        LK_PASS(read_gate(gate));
        s += n;
        if (!*s)
            return LK_OK;
    }
}

/* ---- Values ---- */

/* Find out whether a value has the gate's name and labels. */
static enum lk_status matches(const struct lk_gate *g, const struct lk_page_value *v, bool *out)
{
    struct lk_pair *labels = NULL;
    size_t n = 0;
    const char *at = v->labels;
    enum lk_status st = LK_OK;

    *out = false;
    if (strcmp(g->name, v->name) != 0)
        return LK_OK;
    LK_TRY(lk_labels_read(v->labels, &at, &labels, &n));
    *out = true;
    for (size_t i = 0; i < g->n_labels; i++) {
        const char *value = lk_labels_find(labels, n, g->labels[i].key);

        *out &= value && !strcmp(value, g->labels[i].value);
    }
out:
    lk_labels_free(labels, n);
    return st;
}

static bool fulfils(enum lk_relation r, double value, double bound)
{
    return r == LK_RELATION_BELOW     ? value < bound
           : r == LK_RELATION_ABOVE   ? value > bound
           : r == LK_RELATION_AT_MOST ? value <= bound
                                      : value >= bound;
}

/* Return true if a value is further in the direction of the relation than another. */
static bool is_further(enum lk_relation r, double value, double than)
{
    return r == LK_RELATION_BELOW || r == LK_RELATION_AT_MOST ? value < than : value > than;
}

/* ---- Judging ---- */

/* List the labels of the page's values of a name, up to LISTED_MAX of them; NULL: none. */
static enum lk_status list_labels(const struct lk_page *p, const char *name, char **out)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_values && n <= LISTED_MAX; i++)
        if (!strcmp(p->values[i].name, name))
            LK_PASS(lk_text_add(out, "%s%s", *out ? ", " : "",
                                n++ == LISTED_MAX      ? "..."
                                : *p->values[i].labels ? p->values[i].labels
                                                       : "one without labels"));
    return LK_OK;
}

/* Say that no value of the page is meant by a gate. */
static enum lk_status set_missing(struct lk_gate *g, const struct lk_page *p)
{
    enum lk_status st = LK_OK;
    char *labels = NULL, *list = NULL;
    const char **names = NULL;
    size_t n = 0;

    g->result = LK_GATE_ERROR;
    LK_TRY(list_labels(p, g->name, &labels));
    LK_TRY(lk_page_value_names(p, &names, &n));
    for (size_t i = 0; i < n; i++)
        LK_TRY(lk_text_add(&list, "%s%s", list ? ", " : "", names[i]));
    st = labels ? lk_asprintf(&g->message, "%s: no %s has these labels; there are: %s", g->text,
                              g->name, labels)
                : lk_asprintf(&g->message, "%s: no value '%s' here; there are: %s", g->text,
                              g->name, list ? list : "none");
out:
    free(names);
    free(labels);
    free(list);
    return st;
}

/* Say how the deciding value of a gate stands to its bound; n values were judged, bad failed. */
static enum lk_status set_message(struct lk_gate *g, const struct lk_page_value *v, size_t n,
                                  size_t bad)
{
    const char *open = *v->labels ? "{" : "", *close = *v->labels ? "}" : "";
    char number[32], *counts = NULL;
    enum lk_status st = LK_OK;

    g->result = bad ? LK_GATE_FAILED : LK_GATE_PASSED;
    lk_units_format(v->dim, v->value, number, sizeof number);
    LK_TRY(n == 1 ? lk_strdup(&counts, "")
           : bad  ? lk_asprintf(&counts, " (%zu of %zu values)", bad, n)
                  : lk_asprintf(&counts, " (nearest of %zu values)", n));
    LK_TRY(lk_asprintf(&g->message, "%s%s%s%s is %s: %s%s %s%s", v->name, open, v->labels, close,
                       number, bad ? "" : "not ", words[g->relation], g->bound, counts));
out:
    free(counts);
    return st;
}

static enum lk_status judge(struct lk_gate *g, const struct lk_page *p)
{
    const struct lk_page_value *furthest = NULL;
    size_t n = 0, bad = 0;

    free(g->message);
    g->message = NULL;
    for (size_t i = 0; i < p->n_values; i++) {
        const struct lk_page_value *v = &p->values[i];
        double bound;
        bool is_meant;

        LK_PASS(matches(g, v, &is_meant));
        if (!is_meant)
            continue;
        if (lk_units_parse(v->dim, g->bound, &bound) != LK_OK) {
            g->result = LK_GATE_ERROR;
            return lk_asprintf(&g->message, "%s: %s", g->text, lk_error_text());
        }
        n++;
        bad += fulfils(g->relation, v->value, bound);
        if (!furthest || is_further(g->relation, v->value, furthest->value))
            furthest = v;
    }
    return furthest ? set_message(g, furthest, n, bad) : set_missing(g, p);
}

enum lk_status lk_gates_judge(struct lk_gates *g, const struct lk_page *p)
{
    for (size_t i = 0; i < g->n; i++)
        LK_PASS(judge(&g->gates[i], p));
    return LK_OK;
}

size_t lk_gates_count(const struct lk_gates *g, enum lk_gate_result result)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++)
        n += g->gates[i].result == result;
    return n;
}

void lk_gates_fini(struct lk_gates *g)
{
    for (size_t i = 0; i < g->n; i++) {
        free(g->gates[i].text);
        free(g->gates[i].name);
        lk_labels_free(g->gates[i].labels, g->gates[i].n_labels);
        free(g->gates[i].bound);
        free(g->gates[i].message);
    }
    free(g->gates);
    *g = (struct lk_gates){0};
}
