/*
 * Read pickles. The format is a stack machine's program (Python's Lib/pickletools.py documents it).
 * Divisions: bytes, values, the stack, opcodes.
 */
#include "profiler/import/pickle_scan.h"

#include "base/array.h"
#include "base/gz.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 16 };

/* How often a reader may visit each value, item, and byte of a text, on average. */
enum { VISITS_EACH = 64 };

struct machine {
    const char *path;
    gzFile gz;
    unsigned char window[WINDOW];
    size_t at, end;
    uint64_t offset; /* of the next byte in the unpacked file */
    uint64_t opcode_at;
    const char *opcode; /* name of the one at work */
    bool ended;         /* the file has no more bytes */
    struct lk_pickle *p;
    uint32_t *stack; /* indices of values */
    size_t n_stack, stack_capacity;
    size_t marks[LK_PICKLE_MARKS_MAX]; /* heights of the stack */
    size_t n_marks;
    uint32_t *memo; /* indices of values plus one; 0: none */
    size_t n_memo, memo_capacity;
};

/* Fail at the opcode at work. */
static enum lk_status wrong(const struct machine *m, const char *what)
{
    return lk_fail(LK_EPARSE, "%s: byte %llu: %s: %s", m->path, (unsigned long long)m->opcode_at,
                   m->opcode, what);
}

/* ---- Bytes ---- */

/* Read on; at the end of the file m->ended is set, and no byte is there. */
static enum lk_status refill(struct machine *m)
{
    int n, code;

    n = gzread(m->gz, m->window, sizeof m->window);
    if (n < 0) {
        const char *why = gzerror(m->gz, &code);

        /* A gzipped file that was cut off has what it has. */
        if (code != Z_BUF_ERROR)
            return lk_fail(LK_EIO, "%s: cannot read: %s", m->path, why);
        n = 0;
    }
    LK_PASS(lk_gz_check(m->gz, m->path));
    m->ended = n == 0;
    m->at = 0;
    m->end = (size_t)n;
    return LK_OK;
}

/* Copy n bytes of the file; fewer are left only if m->ended is set then. */
static enum lk_status take(struct machine *m, void *to, size_t n)
{
    unsigned char *out = to;

    while (n > 0 && !m->ended) {
        size_t part = m->end - m->at < n ? m->end - m->at : n;

        if (!part) {
            LK_PASS(refill(m));
            continue;
        }
        memcpy(out, m->window + m->at, part);
        m->at += part;
        m->offset += part;
        out += part;
        n -= part;
    }
    return LK_OK;
}

/* Read an unsigned number of n bytes, at most 8, little end first. */
static enum lk_status take_number(struct machine *m, size_t n, uint64_t *out)
{
    unsigned char bytes[8] = {0};

    *out = 0;
    LK_PASS(take(m, bytes, n));
    for (size_t i = n; i-- > 0;)
        *out = *out << 8 | bytes[i];
    return LK_OK;
}

static enum lk_status skip(struct machine *m, uint64_t n)
{
    unsigned char byte;

    for (uint64_t i = 0; i < n && !m->ended; i++)
        LK_PASS(take(m, &byte, 1));
    return LK_OK;
}

/* ---- Values ---- */

static enum lk_status push(struct machine *m, uint32_t value)
{
    if (m->n_stack == LK_PICKLE_VALUES_MAX)
        return wrong(m, "the pickle has too many values");
    LK_PASS(lk_array_grow(&m->stack, &m->stack_capacity, m->n_stack + 1, sizeof *m->stack));
    m->stack[m->n_stack++] = value;
    return LK_OK;
}

static enum lk_status push_new(struct machine *m, struct lk_pickle_value v)
{
    struct lk_pickle *p = m->p;

    if (p->n_values == LK_PICKLE_VALUES_MAX)
        return wrong(m, "the pickle has too many values");
    LK_PASS(lk_array_grow(&p->values, &p->values_capacity, p->n_values + 1, sizeof v));
    p->values[p->n_values++] = v;
    return push(m, (uint32_t)p->n_values - 1);
}

/* Make room for n more items of a container. */
static enum lk_status reserve(struct machine *m, struct lk_pickle_value *v, size_t n)
{
    struct lk_pickle *p = m->p;
    size_t used = v->type == LK_PICKLE_DICT ? 2 * (size_t)v->n : v->n, room;

    if (used + n <= v->room)
        return LK_OK;
    room = used + n > 2 * (size_t)v->room ? used + n : 2 * (size_t)v->room;
    if (p->n_items + room > LK_PICKLE_ITEMS_MAX)
        return wrong(m, "the pickle's lists and dicts are too large");
    LK_PASS(lk_array_grow(&p->items, &p->items_capacity, p->n_items + room, sizeof *p->items));
    if (used)
        memcpy(p->items + p->n_items, p->items + v->first, used * sizeof *p->items);
    v->first = (uint32_t)p->n_items;
    v->room = (uint32_t)room;
    p->n_items += room;
    return LK_OK;
}

/* Move the values above `from` on the stack into the container, which is of the type. Of a dict, a
 * key that has no value yet is left out. */
static enum lk_status fill(struct machine *m, uint32_t container, enum lk_pickle_type type,
                           size_t from)
{
    struct lk_pickle_value *v = &m->p->values[container];
    size_t n = m->n_stack - from, used = type == LK_PICKLE_DICT ? 2 * (size_t)v->n : v->n;

    if (v->type != type)
        return wrong(m, type == LK_PICKLE_DICT ? "there is no dict" : "there is no list");
    n -= type == LK_PICKLE_DICT ? n % 2 : 0;
    LK_PASS(reserve(m, v, n));
    if (n)
        memcpy(m->p->items + v->first + used, m->stack + from, n * sizeof *m->stack);
    v->n += (uint32_t)(type == LK_PICKLE_DICT ? n / 2 : n);
    m->n_stack = from;
    return LK_OK;
}

/* Read a text of n bytes. */
static enum lk_status push_text(struct machine *m, uint64_t n)
{
    struct lk_pickle *p = m->p;
    struct lk_pickle_value v = {.type = LK_PICKLE_TEXT, .first = (uint32_t)p->texts_bytes};

    if (n >= LK_PICKLE_TEXT_BYTES_MAX - p->texts_bytes)
        return wrong(m, "the pickle's texts are too long");
    v.n = (uint32_t)n;
    while (n > 0 && !m->ended) { /* by parts: a length may be a lie */
        size_t part = n < WINDOW ? (size_t)n : (size_t)WINDOW;

        LK_PASS(lk_array_grow(&p->texts, &p->texts_capacity, p->texts_bytes + part, 1));
        LK_PASS(take(m, p->texts + p->texts_bytes, part));
        p->texts_bytes += part;
        n -= part;
    }
    if (m->ended)
        return LK_OK;
    LK_PASS(lk_array_grow(&p->texts, &p->texts_capacity, p->texts_bytes + 1, 1));
    p->texts[p->texts_bytes++] = '\0';
    return push_new(m, v);
}

/* Read an integer of n bytes, two's complement. */
static enum lk_status push_long(struct machine *m, uint64_t n)
{
    uint64_t bits;

    if (n > 8) {
        LK_PASS(skip(m, n));
        return m->ended ? LK_OK : push_new(m, (struct lk_pickle_value){.type = LK_PICKLE_NONE});
    }
    LK_PASS(take_number(m, (size_t)n, &bits));
    if (n > 0 && n < 8 && bits >> (8 * n - 1))
        bits |= UINT64_MAX << 8 * n;
    return m->ended ? LK_OK
                    : push_new(m, (struct lk_pickle_value){.type = LK_PICKLE_INTEGER,
                                                           .integer = (int64_t)bits});
}

/* Read a double, big end first. */
static enum lk_status push_double(struct machine *m)
{
    struct lk_pickle_value v = {.type = LK_PICKLE_NUMBER};
    unsigned char bytes[8] = {0};
    uint64_t bits = 0;

    LK_PASS(take(m, bytes, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++)
        bits = bits << 8 | bytes[i];
    memcpy(&v.number, &bits, sizeof v.number);
    return m->ended ? LK_OK : push_new(m, v);
}

/* ---- The stack ---- */

/* Return in *from the height of the stack at the last mark, and forget the mark. */
static enum lk_status to_mark(struct machine *m, size_t *from)
{
    if (!m->n_marks)
        return wrong(m, "there is no mark");
    *from = m->marks[--m->n_marks];
    return LK_OK;
}

/* Fail unless n values lie above the last mark. */
static enum lk_status need(const struct machine *m, size_t n)
{
    size_t floor = m->n_marks ? m->marks[m->n_marks - 1] : 0;

    return m->n_stack - floor < n ? wrong(m, "the stack has too few values") : LK_OK;
}

static enum lk_status push_tuple(struct machine *m, size_t from)
{
    size_t n = m->n_stack - from;

    LK_PASS(push_new(m, (struct lk_pickle_value){.type = LK_PICKLE_LIST}));
    m->n_stack--;
    LK_PASS(fill(m, (uint32_t)m->p->n_values - 1, LK_PICKLE_LIST, m->n_stack - n));
    return push(m, (uint32_t)m->p->n_values - 1);
}

/* Append what lies above the mark to the list or dict below it. */
static enum lk_status append_all(struct machine *m, enum lk_pickle_type type)
{
    size_t from = 0;

    LK_PASS(to_mark(m, &from));
    if (from <= (m->n_marks ? m->marks[m->n_marks - 1] : 0))
        return wrong(m, "nothing lies below the mark");
    if (type == LK_PICKLE_DICT && (m->n_stack - from) % 2)
        return wrong(m, "a key has no value");
    return fill(m, m->stack[from - 1], type, from);
}

static enum lk_status append_one(struct machine *m, enum lk_pickle_type type)
{
    size_t n = type == LK_PICKLE_DICT ? 2 : 1;

    LK_PASS(need(m, n + 1));
    return fill(m, m->stack[m->n_stack - n - 1], type, m->n_stack - n);
}

static enum lk_status put(struct machine *m, uint64_t key)
{
    LK_PASS(need(m, 1));
    /* Writers number from 0 on; each number takes two bytes at least. */
    if (key >= m->offset || key >= LK_PICKLE_VALUES_MAX)
        return wrong(m, "the memo has no such place");
    while (m->n_memo <= key) {
        LK_PASS(lk_array_grow(&m->memo, &m->memo_capacity, m->n_memo + 1, sizeof *m->memo));
        m->memo[m->n_memo++] = 0;
    }
    m->memo[key] = m->stack[m->n_stack - 1] + 1;
    return LK_OK;
}

static enum lk_status get(struct machine *m, uint64_t key)
{
    if (key >= m->n_memo || !m->memo[key])
        return wrong(m, "the memo has no such value");
    return push(m, m->memo[key] - 1);
}

/* Close what is open when the file ends: from the inside out, what lies above a mark goes into the
 * container below it. The lowest value is the root. */
static enum lk_status close_all(struct machine *m)
{
    while (m->n_marks) {
        size_t from = m->marks[--m->n_marks];
        size_t floor = m->n_marks ? m->marks[m->n_marks - 1] : 0;
        enum lk_pickle_type type =
            from > floor ? m->p->values[m->stack[from - 1]].type : LK_PICKLE_NONE;

        if (type == LK_PICKLE_LIST || type == LK_PICKLE_DICT)
            LK_PASS(fill(m, m->stack[from - 1], type, from));
        m->n_stack = from;
    }
    if (!m->n_stack)
        return lk_fail(LK_EPARSE, "%s: the pickle ends before its first value", m->path);
    m->p->root = m->stack[0];
    m->p->cut = true;
    return LK_OK;
}

/* ---- Opcodes ---- */

/* An opcode does one of these. The third column of the table is a size: of the number behind the
 * opcode, or of a tuple. */
enum action {
    UNKNOWN,
    REFUSED, /* names or calls something */
    OTHER,   /* of old protocols, or of sets: not in plain data of today */
    PROTO,
    FRAME,
    STOP,
    MARK,
    POP,
    POP_MARK,
    DUP,
    PUSH_NONE,
    PUSH_TRUE,
    PUSH_FALSE,
    PUSH_UNSIGNED,
    PUSH_SIGNED,
    PUSH_LONG,
    PUSH_DOUBLE,
    PUSH_TEXT,
    PUSH_LIST,
    PUSH_DICT,
    TUPLE,
    TUPLE_OF,
    APPEND,
    APPENDS,
    SETITEM,
    SETITEMS,
    PUT,
    MEMOIZE,
    GET
};

struct opcode {
    const char *name;
    unsigned char action, size;
};

static const struct opcode opcodes[256] = {
    [0x80] = {"PROTO", PROTO, 1},
    [0x95] = {"FRAME", FRAME, 8},
    ['.'] = {"STOP", STOP, 0},
    ['('] = {"MARK", MARK, 0},
    ['0'] = {"POP", POP, 0},
    ['1'] = {"POP_MARK", POP_MARK, 0},
    ['2'] = {"DUP", DUP, 0},
    ['N'] = {"NONE", PUSH_NONE, 0},
    [0x88] = {"NEWTRUE", PUSH_TRUE, 0},
    [0x89] = {"NEWFALSE", PUSH_FALSE, 0},
    ['J'] = {"BININT", PUSH_SIGNED, 4},
    ['K'] = {"BININT1", PUSH_UNSIGNED, 1},
    ['M'] = {"BININT2", PUSH_UNSIGNED, 2},
    [0x8a] = {"LONG1", PUSH_LONG, 1},
    [0x8b] = {"LONG4", PUSH_LONG, 4},
    ['G'] = {"BINFLOAT", PUSH_DOUBLE, 0},
    ['X'] = {"BINUNICODE", PUSH_TEXT, 4},
    [0x8c] = {"SHORT_BINUNICODE", PUSH_TEXT, 1},
    [0x8d] = {"BINUNICODE8", PUSH_TEXT, 8},
    ['B'] = {"BINBYTES", PUSH_TEXT, 4},
    ['C'] = {"SHORT_BINBYTES", PUSH_TEXT, 1},
    [0x8e] = {"BINBYTES8", PUSH_TEXT, 8},
    [0x96] = {"BYTEARRAY8", PUSH_TEXT, 8},
    ['T'] = {"BINSTRING", PUSH_TEXT, 4},
    ['U'] = {"SHORT_BINSTRING", PUSH_TEXT, 1},
    [']'] = {"EMPTY_LIST", PUSH_LIST, 0},
    ['}'] = {"EMPTY_DICT", PUSH_DICT, 0},
    [')'] = {"EMPTY_TUPLE", TUPLE_OF, 0},
    ['t'] = {"TUPLE", TUPLE, 0},
    [0x85] = {"TUPLE1", TUPLE_OF, 1},
    [0x86] = {"TUPLE2", TUPLE_OF, 2},
    [0x87] = {"TUPLE3", TUPLE_OF, 3},
    ['a'] = {"APPEND", APPEND, 0},
    ['e'] = {"APPENDS", APPENDS, 0},
    ['s'] = {"SETITEM", SETITEM, 0},
    ['u'] = {"SETITEMS", SETITEMS, 0},
    ['q'] = {"BINPUT", PUT, 1},
    ['r'] = {"LONG_BINPUT", PUT, 4},
    [0x94] = {"MEMOIZE", MEMOIZE, 0},
    ['h'] = {"BINGET", GET, 1},
    ['j'] = {"LONG_BINGET", GET, 4},
    ['c'] = {"GLOBAL", REFUSED, 0},
    [0x93] = {"STACK_GLOBAL", REFUSED, 0},
    ['R'] = {"REDUCE", REFUSED, 0},
    ['b'] = {"BUILD", REFUSED, 0},
    ['i'] = {"INST", REFUSED, 0},
    ['o'] = {"OBJ", REFUSED, 0},
    [0x81] = {"NEWOBJ", REFUSED, 0},
    [0x92] = {"NEWOBJ_EX", REFUSED, 0},
    [0x82] = {"EXT1", REFUSED, 0},
    [0x83] = {"EXT2", REFUSED, 0},
    [0x84] = {"EXT4", REFUSED, 0},
    ['P'] = {"PERSID", REFUSED, 0},
    ['Q'] = {"BINPERSID", REFUSED, 0},
    [0x97] = {"NEXT_BUFFER", REFUSED, 0},
    [0x98] = {"READONLY_BUFFER", REFUSED, 0},
    ['I'] = {"INT", OTHER, 0},
    ['L'] = {"LONG", OTHER, 0},
    ['F'] = {"FLOAT", OTHER, 0},
    ['S'] = {"STRING", OTHER, 0},
    ['V'] = {"UNICODE", OTHER, 0},
    ['p'] = {"PUT", OTHER, 0},
    ['g'] = {"GET", OTHER, 0},
    ['l'] = {"LIST", OTHER, 0},
    ['d'] = {"DICT", OTHER, 0},
    [0x8f] = {"EMPTY_SET", OTHER, 0},
    [0x90] = {"ADDITEMS", OTHER, 0},
    [0x91] = {"FROZENSET", OTHER, 0},
};

static enum lk_status do_stack(struct machine *m, enum action action)
{
    size_t from = 0;

    switch (action) {
    case MARK:
        if (m->n_marks == LK_PICKLE_MARKS_MAX)
            return wrong(m, "the pickle's values are nested too deep");
        m->marks[m->n_marks++] = m->n_stack;
        return LK_OK;
    case POP_MARK:
    case TUPLE:
        LK_PASS(to_mark(m, &from));
        if (action == TUPLE)
            return push_tuple(m, from);
        m->n_stack = from;
        return LK_OK;
    case APPEND:
        return append_one(m, LK_PICKLE_LIST);
    case APPENDS:
        return append_all(m, LK_PICKLE_LIST);
    case SETITEM:
        return append_one(m, LK_PICKLE_DICT);
    case SETITEMS:
        return append_all(m, LK_PICKLE_DICT);
    default: /* POP, DUP */
        LK_PASS(need(m, 1));
        if (action == DUP)
            return push(m, m->stack[m->n_stack - 1]);
        m->n_stack--;
        return LK_OK;
    }
}

/* Do an opcode with its number, which is 0 where it has none. */
static enum lk_status act(struct machine *m, const struct opcode *o, uint64_t number)
{
    switch ((enum action)o->action) {
    case UNKNOWN:
        return wrong(m, "no such opcode; the file is damaged");
    case REFUSED:
        return wrong(m, "may execute code; only plain data is read");
    case OTHER:
        return wrong(m, "is no opcode of plain data as protocols 2 to 5 write it");
    case PROTO:
        return number >= 2 && number <= 5 ? LK_OK : wrong(m, "only protocols 2 to 5 are read");
    case FRAME:
    case STOP:
        return LK_OK;
    case PUSH_NONE:
        return push_new(m, (struct lk_pickle_value){.type = LK_PICKLE_NONE});
    case PUSH_TRUE:
    case PUSH_FALSE:
        return push_new(
            m, (struct lk_pickle_value){.type = LK_PICKLE_BOOL, .integer = o->action == PUSH_TRUE});
    case PUSH_UNSIGNED:
        return push_new(
            m, (struct lk_pickle_value){.type = LK_PICKLE_INTEGER, .integer = (int64_t)number});
    case PUSH_SIGNED:
        return push_new(m, (struct lk_pickle_value){.type = LK_PICKLE_INTEGER,
                                                    .integer = (int32_t)(uint32_t)number});
    case PUSH_LONG:
        return push_long(m, number);
    case PUSH_DOUBLE:
        return push_double(m);
    case PUSH_TEXT:
        return push_text(m, number);
    case PUSH_LIST:
        return push_new(m, (struct lk_pickle_value){.type = LK_PICKLE_LIST});
    case PUSH_DICT:
        return push_new(m, (struct lk_pickle_value){.type = LK_PICKLE_DICT});
    case TUPLE_OF:
        LK_PASS(need(m, o->size));
        return push_tuple(m, m->n_stack - o->size);
    case PUT:
        return put(m, number);
    case MEMOIZE:
        return put(m, m->n_memo);
    case GET:
        return get(m, number);
    default:
        return do_stack(m, (enum action)o->action);
    }
}

/* Read one opcode and do it. *stop: it was the last one. */
static enum lk_status step(struct machine *m, bool *stop)
{
    const struct opcode *o;
    unsigned char code = 0;
    uint64_t number = 0;

    m->opcode_at = m->offset;
    LK_PASS(take(m, &code, 1));
    if (m->ended)
        return LK_OK;
    o = &opcodes[code];
    m->opcode = o->name ? o->name : "unknown opcode";
    if (o->action != TUPLE_OF)
        LK_PASS(take_number(m, o->size, &number));
    if (m->ended)
        return LK_OK;
    LK_PASS(act(m, o, number));
    *stop = o->action == STOP;
    return LK_OK;
}

static enum lk_status run(struct machine *m)
{
    bool stop = false;

    while (!stop && !m->ended)
        LK_PASS(step(m, &stop));
    if (!stop)
        return close_all(m);
    LK_PASS(need(m, 1));
    m->p->root = m->stack[m->n_stack - 1];
    return LK_OK;
}

enum lk_status lk_pickle_read(const char *path, struct lk_pickle *out)
{
    enum lk_status st = LK_OK;
    struct machine *m = NULL;
    struct lk_pickle p = {0};

    *out = p;
    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    m->path = path;
    m->p = &p;
    LK_TRY(lk_gz_open(path, &m->gz));
    LK_TRY(run(m));
    p.visits_left = VISITS_EACH * ((uint64_t)p.n_values + p.n_items + p.texts_bytes);
    *out = p;
    p = (struct lk_pickle){0};
out:
    if (m && m->gz)
        (void)gzclose_r(m->gz);
    if (m) {
        free(m->stack);
        free(m->memo);
    }
    free(m);
    lk_pickle_fini(&p);
    return st;
}
