/* A page; see the header. */
#include "base/page.h"

#include "base/array.h"
#include "base/lines.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static LK_LINES_ADDER(add_contradiction, struct lk_page, contradictions)
LK_LINES_ADDER(lk_page_say, struct lk_page, answer)
LK_LINES_ADDER(lk_page_note, struct lk_page, notes)
LK_LINES_ADDER(lk_page_next, struct lk_page, next)
    /* clang-format on */

    enum lk_status lk_page_contradict(struct lk_page *p, const char *sentence)
{
    LK_PASS(add_contradiction(p, "%s", sentence));
    return lk_page_say(p, "%s", sentence);
}

enum lk_status lk_page_table(struct lk_page *p, const char *name, enum lk_page_place place,
                             const struct lk_view_column *view, size_t n_view,
                             struct lk_table **table)
{
    struct lk_page_table t = {.name = name, .place = place};

    if (!*table)
        return LK_OK;
    LK_PASS(lk_array_grow(&p->tables, &p->tables_capacity, p->n_tables + 1, sizeof *p->tables));
    if (view) {
        LK_PASS(lk_alloc(&t.view, n_view, sizeof *t.view));
        memcpy(t.view, view, n_view * sizeof *view);
        t.n_view = n_view;
    }
    t.table = *table;
    p->tables[p->n_tables++] = t;
    *table = NULL;
    return LK_OK;
}

enum lk_status lk_page_value(struct lk_page *p, const char *name, const char *labels,
                             enum lk_dimension dim, double value)
{
    struct lk_page_value v = {.name = name, .dim = dim, .value = value};

    if (isnan(value))
        return LK_OK;
    LK_PASS(lk_array_grow(&p->values, &p->values_capacity, p->n_values + 1, sizeof *p->values));
    LK_PASS(lk_strdup(&v.labels, labels));
    p->values[p->n_values++] = v;
    return LK_OK;
}

enum lk_status lk_page_value_names(const struct lk_page *p, const char ***out, size_t *n)
{
    enum lk_status st = LK_OK;
    const char **names = NULL;
    size_t found = 0, capacity = 0;

    LK_TRY(lk_array_grow(&names, &capacity, 1, sizeof *names));
    for (size_t i = 0; i < p->n_values; i++) {
        size_t k = 0;

        while (k < found && strcmp(names[k], p->values[i].name) != 0)
            k++;
        if (k < found)
            continue;
        LK_TRY(lk_array_grow(&names, &capacity, found + 1, sizeof *names));
        names[found++] = p->values[i].name;
    }
    *out = names;
    *n = found;
    names = NULL;
out:
    free(names);
    return st;
}

const struct lk_page_table *lk_page_find(const struct lk_page *p, const char *name)
{
    for (size_t i = 0; i < p->n_tables; i++)
        if (!strcmp(p->tables[i].name, name))
            return &p->tables[i];
    return NULL;
}

static void free_lines(char **lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(lines[i]);
    free(lines);
}

void lk_page_fini(struct lk_page *p)
{
    free_lines(p->answer, p->n_answer);
    free_lines(p->contradictions, p->n_contradictions);
    free_lines(p->notes, p->n_notes);
    free_lines(p->next, p->n_next);
    for (size_t i = 0; i < p->n_tables; i++) {
        lk_table_destroy(p->tables[i].table);
        free(p->tables[i].view);
    }
    for (size_t i = 0; i < p->n_values; i++)
        free(p->values[i].labels);
    free(p->tables);
    free(p->values);
    *p = (struct lk_page){0};
}
