/*
 * Artefacts as rows: a table per struct says which JSON member each field is. The table drives
 * reading, checking, writing and freeing; docs/files.md prints it.
 *
 *     static const struct lk_member kappa_rows[] = {
 *         LK_MEMBER(struct lk_cluster_kappa, ranks, "ranks", INT, REQUIRED, .min = 1,
 *                   .max = LK_RANKS_MAX, .help = "ranks of a node that compute at once"),
 *         LK_MEMBER(struct lk_cluster_kappa, kappa, "kappa", QUANTITY, REQUIRED,
 *                   .dim = LK_DIM_NONE, .help = "how much they slow each other"),
 *         LK_MEMBER_END,
 *     };
 *     static const struct lk_record kappa_record = {
 *         .size = sizeof(struct lk_cluster_kappa), .rows = kappa_rows};
 *
 * To add a key: add the field to the struct, add a row to its table at the place that the key shall
 * have in the file, and print docs/files.md again: LK_RECORD=1 build/test_lockstep files_doc. The
 * kind must fit the field's C type.
 */
#ifndef LK_BASE_MEMBER_H
#define LK_BASE_MEMBER_H

#include "base/json.h"
#include "base/quantity.h"
#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(kind, type of the value in the file); the comment gives the type of the field. */
#define LK_KIND_LIST(X)                                                                            \
    X(LK_KIND_INT, "integer")        /* int, from min to max */                                    \
    X(LK_KIND_INT64, "integer")      /* int64_t, from min to max */                                \
    X(LK_KIND_UINT, "integer")       /* uint64_t, from min to max; size_t where it has 8 bytes */  \
    X(LK_KIND_BOOL, "true or false") /* bool */                                                    \
    X(LK_KIND_TRISTATE, "true or false") /* int: 1 true, -1 false, 0 not said */                   \
    X(LK_KIND_NUMBER, "number")          /* double in `range`; NaN is null */                      \
    X(LK_KIND_TEXT, "text")              /* char *, owned; NULL is written as "" */                \
    X(LK_KIND_CHARS, "text")             /* char[size] */                                          \
    X(LK_KIND_WORD, "word")              /* an enum: one of `words` */                             \
    X(LK_KIND_QUANTITY, "quantity")   /* struct lk_quantity in `range`; unknown is not written */  \
    X(LK_KIND_OBJECT, "object")       /* a struct that is a record `of` its own */                 \
    X(LK_KIND_GROUP, "object")        /* fields of the same struct: offsets of `of` are in it */   \
    X(LK_KIND_LIST, "list")           /* a pointer, owned, to size_t `count` records `of` */       \
    X(LK_KIND_NUMBERS, "numbers")     /* double *, owned, size_t `count` of them in `range` */     \
    X(LK_KIND_PER_GPU, "numbers")     /* double *, owned or NULL, int `count` of them */           \
    X(LK_KIND_TEXTS, "texts")         /* char **, owned with its texts, size_t `count` of them */  \
    X(LK_KIND_PAIRS, "texts by name") /* struct lk_pair *, owned, size_t `count` of them */        \
    X(LK_KIND_OWN, "own")             /* any field: the row's own functions read and write it */

enum lk_kind { LK_KIND_LIST(LK_WORD_VALUE) LK_KIND_COUNT };

enum lk_need {
    LK_NEED_REQUIRED, /* must be there */
    LK_NEED_FILLED,   /* a list: must be there and have an item */
    LK_NEED_NULLABLE, /* a number or numbers: must be there; null is NaN */
    LK_NEED_OPTIONAL, /* absent or null: `absent`, NaN, unknown or empty, by the kind */
    LK_NEED_SPARSE,   /* the same, and what has that value is not written */
    LK_NEED_ASSUMED   /* a quantity; absent: 0, with a source that says "assumed" */
};

/* Ranges that a number, a quantity or an integer must lie in. */
enum lk_member_range { LK_RANGE_ANY, LK_RANGE_ABOVE_0, LK_RANGE_FROM_1, LK_RANGE_SHARE };

struct lk_pair {
    char *key, *value; /* owned */
};

struct lk_record;

/* Functions of a member that rows cannot describe: `base` is the struct that has it, `root` the
 * struct of the whole file. */
struct lk_member_own {
    const char *what; /* for docs: type of the value in the file */
    enum lk_status (*read)(struct lk_json *obj, void *base, const void *root);
    void (*write)(struct lk_json_out *o, const void *base, const void *root);
    bool owned; /* the field is a pointer that free() releases */
};

struct lk_member {
    const char *key;
    enum lk_kind kind;
    enum lk_need need;
    size_t offset;           /* of the field */
    size_t count;            /* offset of the count of a list, numbers, texts, pairs */
    size_t size;             /* of the field, bytes; of CHARS with the final NUL */
    int64_t min, max;        /* of integers; max 0: the largest of the type */
    int64_t absent;          /* integers, bools, words: the value of an absent member */
    const char *absent_text; /* the same of a text; NULL: NULL */
    enum lk_member_range range;
    enum lk_dimension dim;
    const struct lk_words *words;
    const struct lk_record *of;
    const struct lk_member_own *own;
    const char *help;    /* for docs: its meaning */
    const char *without; /* for docs: its meaning when absent; NULL: that of `absent` */
};

/* Write one row; what it needs beside its kind follows as designated initialisers, always .help. */
#define LK_MEMBER(type, field, key_, kind_, need_, ...)                                            \
    {                                                                                              \
        .key = (key_), .kind = LK_KIND_##kind_, .need = LK_NEED_##need_,                           \
        .offset = offsetof(type, field), .size = sizeof(((type *)0)->field), __VA_ARGS__           \
    }
/* Write a row for an object of the file whose members are fields of the same struct. */
#define LK_MEMBER_GROUP(key_, record, help_)                                                       \
    {                                                                                              \
        .key = (key_), .kind = LK_KIND_GROUP, .need = LK_NEED_OPTIONAL, .of = (record),            \
        .help = (help_)                                                                            \
    }
#define LK_MEMBER_END                                                                              \
    {                                                                                              \
        .key = NULL                                                                                \
    }

enum { LK_BASES_MAX = 8 }; /* files that one file inherits from, through each other */

struct lk_record {
    size_t size; /* of the struct */
    const struct lk_member *rows;
    bool one_line;      /* written on one line */
    const char *schema; /* of a whole file: "schema" and "version" come first; NULL: none */
    int version;
    /* (optional) Check what rows cannot say, after all members were read; v is the object. */
    enum lk_status (*check)(struct lk_json *v, void *base);
    /* (optional) Find the file that `base` of the file `of` names; *out is freed by the caller. The
     * file then inherits the members that it lacks. NULL: files have no base. */
    enum lk_status (*find_base)(const char *of, const char *base, char **out);
    /* (optional) Return true if an OBJECT shall be written; NULL: always. */
    bool (*given)(const void *base);
};

/* Empty the struct: quantities are unknown, numbers are NaN, all else is zero. */
void lk_record_init(const struct lk_record *r, void *base);
/*
 * Read an object into the zeroed struct *base. LK_EPARSE names file, line and key; an unknown key
 * is an error. The caller frees *base after a failure, too.
 */
enum lk_status lk_record_read(const struct lk_record *r, struct lk_json *obj, void *base);
/* Write the struct as a member; key NULL: as an item or as the whole document. */
void lk_record_write(const struct lk_record *r, struct lk_json_out *o, const char *key,
                     const void *base);
/* Free what rows own and zero the struct. Safe on a zeroed struct and on one half read. */
void lk_record_fini(const struct lk_record *r, void *base);

/* Call `each` for every known quantity of the struct, in the order of the file; its failure ends
 * the walk. */
enum lk_status lk_record_each_quantity(const struct lk_record *r, void *base,
                                       enum lk_status (*each)(struct lk_quantity *q, void *ctx),
                                       void *ctx);

/* Read, and write, a whole file. *out is written only on success, and freed by lk_record_fini. */
enum lk_status lk_record_load(const struct lk_record *r, const char *path, void *out);
enum lk_status lk_record_save(const struct lk_record *r, const char *path, const void *base);
/* Read, and write, a text in memory: `name` stands for the file in errors; the caller frees *text.
 */
enum lk_status lk_record_load_text(const struct lk_record *r, const char *name, const char *text,
                                   size_t size, void *out);
enum lk_status lk_record_save_text(const struct lk_record *r, const void *base, char **text,
                                   size_t *size);

/*
 * Declare an artefact: NAME_record, the record of struct NAME, which is a whole file. NAME_init
 * empties the struct (every quantity is unknown); NAME_fini frees what it owns and zeroes it, and
 * is safe on a zeroed one; NAME_read and NAME_write are lk_record_load and lk_record_save.
 */
#define LK_RECORD_FILE(name)                                                                       \
    extern const struct lk_record name##_record;                                                   \
    static inline void name##_init(struct name *v)                                                 \
    {                                                                                              \
        lk_record_init(&name##_record, v);                                                         \
    }                                                                                              \
    static inline void name##_fini(struct name *v)                                                 \
    {                                                                                              \
        lk_record_fini(&name##_record, v);                                                         \
    }                                                                                              \
    static inline enum lk_status name##_read(const char *path, struct name *out)                   \
    {                                                                                              \
        return lk_record_load(&name##_record, path, out);                                          \
    }                                                                                              \
    static inline enum lk_status name##_write(const char *path, const struct name *v)              \
    {                                                                                              \
        return lk_record_save(&name##_record, path, v);                                            \
    }                                                                                              \
    struct lk_record

/* Append a pair with copies of both texts; the owner frees them and the array. LK_ENOMEM. */
enum lk_status lk_pairs_add(struct lk_pair **pairs, size_t *n, const char *key, const char *value);

#endif
