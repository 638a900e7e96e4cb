/*
 * docs/files.md: its tables of keys are printed from the rows that read and write the files, each
 * between two comments. After a change of rows print them again:
 *
 *     LK_RECORD=1 build/test_lockstep files_doc
 */
#include "base/array.h"
#include "base/file.h"
#include "base/units.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "facts/ledger.h"
#include "tests/rigs/suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE "docs/files.md"

static const struct {
    const char *begin;
    const struct lk_record *record;
} tables[] = {
    {"<!-- keys of a job, by tests/facts/test_files_doc.c -->\n", &lk_job_record},
    {"<!-- keys of a cluster, by tests/facts/test_files_doc.c -->\n", &lk_cluster_record},
    {"<!-- keys of a forecast, by tests/facts/test_files_doc.c -->\n", &lk_forecast_record},
    {"<!-- keys of a ledger, by tests/facts/test_files_doc.c -->\n", &lk_ledger_record},
};
static const char end[] = "<!-- end of keys -->\n";

static const struct lk_words kinds = LK_WORDS("a kind", LK_KIND_LIST);

/* Prints a bound: large powers of two as such. */
static void print_bound(FILE *f, const char *before, int64_t v)
{
    int power = 0;

    while (power < 62 && v >> power > 1)
        power++;
    if (power > 16 && v == INT64_C(1) << power)
        fprintf(f, "%s2^%d", before, power);
    else
        fprintf(f, "%s%lld", before, (long long)v);
}

static void print_type(FILE *f, const struct lk_member *m)
{
    static const char *const ranges[] = {[LK_RANGE_ANY] = "",
                                         [LK_RANGE_ABOVE_0] = " above 0",
                                         [LK_RANGE_FROM_1] = " from 1",
                                         [LK_RANGE_SHARE] = " from 0 to 1"};

    if (m->kind == LK_KIND_WORD) {
        for (size_t i = 0; i < m->words->n; i++)
            if (*m->words->names[i])
                fprintf(f, "%s`%s`", i && *m->words->names[0] ? ", " : "", m->words->names[i]);
        return;
    }
    fprintf(f, "%s", m->kind == LK_KIND_OWN ? m->own->what : kinds.names[m->kind]);
    if (m->kind <= LK_KIND_UINT && m->range == LK_RANGE_ANY) {
        print_bound(f, " from ", m->min);
        if (m->max)
            print_bound(f, " to ", m->max);
    }
    fprintf(f, "%s%s", ranges[m->range], m->need == LK_NEED_FILLED ? ", at least one" : "");
    if (m->kind == LK_KIND_QUANTITY)
        fprintf(f, ", `%s`", lk_units_base(m->dim));
}

static void print_absent(FILE *f, const struct lk_member *m)
{
    if (m->need <= LK_NEED_FILLED)
        fprintf(f, "needed");
    else if (m->need == LK_NEED_NULLABLE)
        fprintf(f, "needed; null: not known");
    else if (m->without)
        fprintf(f, "%s", m->without);
    else if (m->need == LK_NEED_ASSUMED)
        fprintf(f, "0, \"assumed\"");
    else if (m->kind <= LK_KIND_UINT)
        fprintf(f, "%lld", (long long)m->absent);
    else if (m->kind == LK_KIND_BOOL)
        fprintf(f, "%s", m->absent ? "true" : "false");
    else if (m->kind == LK_KIND_WORD && *m->words->names[m->absent])
        fprintf(f, "`%s`", m->words->names[m->absent]);
    else if (m->kind == LK_KIND_TEXT && m->absent_text)
        fprintf(f, "\"%s\"", m->absent_text);
    else
        fprintf(f, "%s", m->kind >= LK_KIND_LIST ? "none" : "not known");
}

static void print_rows(FILE *f, const char *prefix, const struct lk_member *rows)
{
    char path[256];

    for (const struct lk_member *m = rows; m->key; m++) {
        ck_assert_msg(m->help != NULL, "%s%s has no help", prefix, m->key);
        fprintf(f, "| `%s%s` | ", prefix, m->key);
        print_type(f, m);
        fprintf(f, " | ");
        print_absent(f, m);
        fprintf(f, " | %s |\n", m->help);
        if (!m->of)
            continue;
        snprintf(path, sizeof path, "%s%s%s.", prefix, m->key, m->kind == LK_KIND_LIST ? "[]" : "");
        print_rows(f, path, m->of->rows);
    }
}

/* The page with every table printed again; freed by the caller. */
static char *print_page(const char *old)
{
    char *page = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&page, &size);

    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < LK_COUNT(tables); i++) {
        const char *at = strstr(old, tables[i].begin);

        ck_assert_msg(at != NULL, PAGE " lacks %s", tables[i].begin);
        at += strlen(tables[i].begin);
        fprintf(f, "%.*s| key | what it may be | when absent | what it is |\n|---|---|---|---|\n",
                (int)(at - old), old);
        print_rows(f, "", tables[i].record->rows);
        old = strstr(at, end);
        ck_assert_msg(old != NULL, PAGE " lacks %s", end);
    }
    fprintf(f, "%s", old);
    ck_assert_int_eq(fclose(f), 0);
    return page;
}

START_TEST(tables_are_as_the_rows)
{
    char *old, *page;
    size_t size;
    struct lk_writer *w;

    ck_assert_msg(lk_file_read(PAGE, &old, &size) == LK_OK, "%s", lk_error_text());
    page = print_page(old);
    if (getenv("LK_RECORD")) {
        ck_assert_int_eq(lk_writer_open(PAGE, false, &w), LK_OK);
        ck_assert_int_eq(lk_writer_put(w, page, strlen(page)), LK_OK);
        ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    } else {
        ck_assert_msg(!strcmp(old, page),
                      PAGE " is not as the rows are: LK_RECORD=1 build/test_lockstep files_doc");
    }
    free(old);
    free(page);
}
END_TEST

SUITE(files_doc, t)
{
    tcase_add_test(t, tables_are_as_the_rows);
}
