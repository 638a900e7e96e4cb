/*
 * Command-line options as tables: one row for each option, from which come the parser, --help, the
 * manual page, the tables of docs/ and "did you mean". A user writes "--name=value",
 * "--name value", "-n value" or "-n4", and a flag as "--name" or "--no-name". Abbreviated names and
 * an option given twice are errors. A value that begins with a dash and is neither "-" nor a number
 * has to be given as "--name=value".
 *
 *     struct opts { int64_t steps; uint64_t cap; };
 *     static const struct lk_option rows[] = {
 *         {.name = "steps", .type = LK_OPT_INT, .offset = offsetof(struct opts, steps), .min = 1,
 *          .max = 1e9, .fallback = "50", .help = "optimizer steps to run"},
 *         {.name = "bucket-cap", .type = LK_OPT_SIZE, ..., .fallback = "25MiB"},
 *         {0}};
 */
#ifndef LK_BASE_OPTION_H
#define LK_BASE_OPTION_H

#include "base/status.h"
#include "base/units.h"
#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(type, C type of the field, word in the help, dimension of value and range) */
#define LK_OPTION_LIST(X)                                                                          \
    X(LK_OPT_FLAG, bool, "", LK_DIM_NONE)                                                          \
    X(LK_OPT_INT, int64_t, "N", LK_DIM_NONE)                                                       \
    X(LK_OPT_REAL, double, "X", LK_DIM_NONE)                                                       \
    X(LK_OPT_SIZE, uint64_t, "SIZE", LK_DIM_BYTES)                                                 \
    X(LK_OPT_TIME, double, "TIME", LK_DIM_TIME)                                                    \
    X(LK_OPT_RATE, double, "RATE", LK_DIM_RATE)                                                    \
    X(LK_OPT_TEXT, const char *, "TEXT", LK_DIM_NONE)                                              \
    X(LK_OPT_FILE, const char *, "FILE", LK_DIM_NONE)                                              \
    X(LK_OPT_CHOICE, int, "WORD", LK_DIM_NONE)                                                     \
    X(LK_OPT_INTS, struct lk_ints, "N,N,...", LK_DIM_NONE)                                         \
    X(LK_OPT_SIZES, struct lk_sizes, "SIZE,...", LK_DIM_BYTES)

enum lk_option_type { LK_OPTION_LIST(LK_WORD_VALUE) };

/* The files that the value of an option names; a list is separated by commas. */
enum lk_option_role {
    LK_ROLE_NONE,
    LK_ROLE_INPUT,   /* a file or folder that is read */
    LK_ROLE_CLUSTER, /* cluster files and presets that are read, a list */
    LK_ROLE_OUTPUT,  /* a file that is written */
    LK_ROLE_FOLDER   /* a folder that is written */
};

/* Lists are stored inline: no ownership to think of. */
enum { LK_OPTION_LIST_MAX = 64 };
struct lk_ints {
    int n;
    int64_t v[LK_OPTION_LIST_MAX];
};
struct lk_sizes {
    int n;
    uint64_t v[LK_OPTION_LIST_MAX];
};

struct lk_option {
    const char *name;             /* long name without dashes; NULL ends the table */
    char letter;                  /* (optional) one-letter form, e.g. 'n' for -n */
    enum lk_option_type type;     /* determines the C type of the field */
    size_t offset;                /* of the field in the target struct */
    size_t bytes;                 /* of the field; 0: as the type has. LK_OPT_INT: those of an int
                                     or an int64_t, which holds every number of the range */
    double min, max;              /* allowed range, in base units, of a number or of each item of a
                                     list; max may be INFINITY. Both 0: no range, but sizes,
                                     times and rates are never negative */
    const char *fallback;         /* default, parsed like user input; of a flag "yes" or "no". NULL:
                                   * zero, even if that is outside the range */
    const char *const *choices;   /* LK_OPT_CHOICE: NULL-ended words; the field is the index */
    const char *word;             /* (optional) word for the value in the help: what a text holds */
    const char *least;            /* (optional) word for the least size of the range */
    enum lk_dimension dim;        /* of the range of a text that holds quantities */
    const struct lk_words *words; /* (optional) words of which a text is a list */
    enum lk_option_role role;     /* of the files that the value names */
    bool may_differ;              /* among the ranks of a run (commands/agree.h) */
    const char *former;           /* (optional) name that it had, or had a part in: who gives it is
                                     told of this option */
    const char *group;            /* (optional) heading in the help; kept until the next one */
    const char *help;             /* one line, no full stop; names the unit */
};

/*
 * Fill target with the defaults, then parse argv[0..argc). Words that are no options are operands:
 * at most max_operands, pointers into argv, their count in *out_operands. After "--" everything is
 * an operand. LK_EUSAGE names the option, the error and the nearest name; LK_EINTERNAL a default
 * that its own row does not allow. Texts point into argv or the table: both outlive target.
 */
enum lk_status lk_option_parse(const struct lk_option *rows, void *target, int argc, char **argv,
                               const char **operands, int max_operands, int *out_operands);

/* Print the rows as help text, grouped, with ranges and defaults. */
void lk_option_help(const struct lk_option *rows, FILE *out);

/* Print the rows as man(7) source: a .SS a group, a .TP an option. */
void lk_option_man(const struct lk_option *rows, FILE *out);
/* Print plain text within a line of man(7) source, with the escapes that it needs. */
void lk_option_roff(const char *text, FILE *out);
/* Print the rows as a Markdown table; with n > 0 only those of the names given, without groups. */
void lk_option_markdown(const struct lk_option *rows, const char *const *names, size_t n,
                        FILE *out);

/* Format one row's value as text that reads back to it, e.g. for a trace header. Returns buf. */
const char *lk_option_value(const struct lk_option *row, const void *target, char *buf,
                            size_t size);

#endif
