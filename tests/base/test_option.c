/* Option tables: accepted words, errors and their text, and printed output. */
#include "base/array.h"
#include "base/option.h"
#include "base/rng.h"
#include "tests/rigs/suite.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct opts {
    bool verify;
    bool overlap;
    int64_t steps;
    double rate;
    uint64_t cap;
    double timeout_s;
    double link_Bps;
    const char *note;
    const char *out;
    int algo;
    struct lk_ints ranks;
    struct lk_sizes sizes;
};

static const char *const algos[] = {"auto", "ring", "tree", NULL};

static const struct lk_option rows[] = {
    {.name = "steps",
     .letter = 'n',
     .type = LK_OPT_INT,
     .offset = offsetof(struct opts, steps),
     .min = 1,
     .max = 1000,
     .fallback = "50",
     .group = "Work",
     .help = "optimizer steps to run"},
    {.name = "verify",
     .letter = 'v',
     .type = LK_OPT_FLAG,
     .offset = offsetof(struct opts, verify),
     .help = "check that all ranks agree"},
    {.name = "overlap",
     .type = LK_OPT_FLAG,
     .offset = offsetof(struct opts, overlap),
     .fallback = "yes",
     .help = "communicate while backward goes on"},
    {.name = "rate",
     .type = LK_OPT_REAL,
     .offset = offsetof(struct opts, rate),
     .min = 0,
     .max = 1,
     .fallback = "0.1",
     .help = "share of steps"},
    {.name = "bucket-cap",
     .type = LK_OPT_SIZE,
     .offset = offsetof(struct opts, cap),
     .min = 1024,
     .max = INFINITY,
     .fallback = "25MiB",
     .least = "tensor",
     .group = "Network",
     .help = "bytes at which a bucket is closed"},
    {.name = "timeout",
     .type = LK_OPT_TIME,
     .offset = offsetof(struct opts, timeout_s),
     .fallback = "30s",
     .help = "longest wait"},
    {.name = "link",
     .type = LK_OPT_RATE,
     .offset = offsetof(struct opts, link_Bps),
     .help = "rate of a link"},
    {.name = "note",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct opts, note),
     .help = "a word for the file"},
    {.name = "out",
     .letter = 'o',
     .type = LK_OPT_FILE,
     .offset = offsetof(struct opts, out),
     .fallback = "-",
     .help = "where to write"},
    {.name = "algo",
     .type = LK_OPT_CHOICE,
     .offset = offsetof(struct opts, algo),
     .fallback = "auto",
     .choices = algos,
     .help = "algorithm of the all-reduce"},
    {.name = "ranks",
     .type = LK_OPT_INTS,
     .offset = offsetof(struct opts, ranks),
     .min = 1,
     .max = 4096,
     .fallback = "1,2,4",
     .help = "world sizes"},
    {.name = "sizes",
     .type = LK_OPT_SIZES,
     .offset = offsetof(struct opts, sizes),
     .help = "message sizes"},
    {0},
};

enum { OPERANDS_MAX = 3, WORDS_MAX = 8 };

/* Result of parsing up to WORDS_MAX words, and the words themselves, which
 * the options point into. */
struct result {
    struct opts o;
    char words[WORDS_MAX][192];
    const char *operands[OPERANDS_MAX];
    int n_operands;
};

static enum lk_status parse(const char *const *words, struct result *r)
{
    char *argv[WORDS_MAX + 1] = {NULL};
    int argc = 0;

    memset(r, 0xA5, sizeof *r);
    for (; words[argc]; argc++) {
        argv[argc] = r->words[argc];
        snprintf(argv[argc], sizeof r->words[argc], "%s", words[argc]);
    }
    return lk_option_parse(rows, &r->o, argc, argv, r->operands, OPERANDS_MAX, &r->n_operands);
}

#define PARSE(r, ...) parse((const char *const[]){__VA_ARGS__, NULL}, (r))

START_TEST(defaults)
{
    struct result r;

    ck_assert_int_eq(parse((const char *const[]){NULL}, &r), LK_OK);
    ck_assert(!r.o.verify);
    ck_assert(r.o.overlap);
    ck_assert_int_eq(r.o.steps, 50);
    ck_assert_double_eq(r.o.rate, 0.1);
    ck_assert(r.o.cap == 26214400);
    ck_assert_double_eq(r.o.timeout_s, 30);
    ck_assert_double_eq(r.o.link_Bps, 0);
    ck_assert_ptr_null(r.o.note);
    ck_assert_str_eq(r.o.out, "-");
    ck_assert_int_eq(r.o.algo, 0);
    ck_assert_int_eq(r.o.ranks.n, 3);
    ck_assert_int_eq(r.o.ranks.v[2], 4);
    ck_assert_int_eq(r.o.sizes.n, 0);
    ck_assert_int_eq(r.n_operands, 0);
}
END_TEST

/* Four ways to write an option. */
static const char *const forms[][3] = {
    {"--steps=7"},
    {"--steps", "7"},
    {"-n", "7"},
    {"-n7"},
};

START_TEST(value_forms)
{
    struct result r;

    ck_assert_msg(parse(forms[_i], &r) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(r.o.steps, 7);
}
END_TEST

START_TEST(every_type)
{
    struct result r;

    ck_assert_int_eq(PARSE(&r, "-v", "--no-overlap", "--rate=50%", "--bucket-cap", "1MB",
                           "--timeout=3us", "--link=100Gbit/s", "--sizes=1KiB, 2MB ,5B"),
                     LK_OK);
    ck_assert(r.o.verify);
    ck_assert(!r.o.overlap);
    ck_assert_double_eq(r.o.rate, 0.5);
    ck_assert(r.o.cap == 1000000);
    ck_assert_double_eq(r.o.timeout_s, 3e-6);
    ck_assert_double_eq(r.o.link_Bps, 12.5e9);
    ck_assert_int_eq(r.o.sizes.n, 3);
    ck_assert(r.o.sizes.v[0] == 1024 && r.o.sizes.v[1] == 2000000 && r.o.sizes.v[2] == 5);
    ck_assert_int_eq(PARSE(&r, "--bucket-cap=tensor"), LK_OK); /* the word for the least */
    ck_assert(r.o.cap == 1024);
    ck_assert_int_eq(PARSE(&r, "--algo=tree", "--ranks", "8", "--note=a b", "-o", "x.csv"), LK_OK);
    ck_assert_int_eq(r.o.algo, 2);
    ck_assert_int_eq(r.o.ranks.n, 1);
    ck_assert_int_eq(r.o.ranks.v[0], 8);
    ck_assert_str_eq(r.o.note, "a b");
    ck_assert_str_eq(r.o.out, "x.csv");
}
END_TEST

START_TEST(operands_and_dashes)
{
    struct result r;

    ck_assert_int_eq(PARSE(&r, "a", "-n3", "-", "--", "--steps"), LK_OK);
    ck_assert_int_eq(r.o.steps, 3);
    ck_assert_int_eq(r.n_operands, 3);
    ck_assert_str_eq(r.operands[0], "a");
    ck_assert_str_eq(r.operands[1], "-");
    ck_assert_str_eq(r.operands[2], "--steps");
    ck_assert_int_eq(PARSE(&r, "--", "--", "-n"), LK_OK);
    ck_assert_int_eq(r.n_operands, 2);
    ck_assert_str_eq(r.operands[0], "--");
    ck_assert_int_eq(PARSE(&r, "--note", "-"), LK_OK);
    ck_assert_str_eq(r.o.note, "-");
    ck_assert_int_eq(PARSE(&r, "--note", "-5"), LK_OK);
    ck_assert_str_eq(r.o.note, "-5");
    ck_assert_int_eq(PARSE(&r, "--note="), LK_OK);
    ck_assert_str_eq(r.o.note, "");
    ck_assert_int_eq(PARSE(&r, "--note=--x"), LK_OK);
    ck_assert_str_eq(r.o.note, "--x");
}
END_TEST

/* Wrong words, and a part of the expected message. */
static const struct {
    const char *words[6];
    const char *says;
} wrong[] = {
    {{"--stesp=3"}, "no option '--stesp'; did you mean '--steps'?"},
    {{"--bucket=1MB"}, "no option '--bucket'; did you mean '--bucket-cap'?"},
    {{"--bucket-cpa", "1MB"}, "did you mean '--bucket-cap'?"},
    {{"--xyzzy"}, "no option '--xyzzy'"},
    {{"--Steps=3"}, "did you mean '--steps'?"},
    {{"---steps=3"}, "no option '---steps'"},
    {{"--=3"}, "no option '--'"},
    {{"-z"}, "no option '-z'"},
    {{"-5"}, "no option '-5'"},
    {{"-vn"}, "--verify takes no value, but has 'n'"},
    {{"--verify=yes"}, "--verify takes no value, but has 'yes'"},
    {{"--no-verify="}, "--verify takes no value, but has ''"},
    {{"--no-steps"}, "no option '--no-steps'"},
    {{"--steps"}, "--steps needs a value"},
    {{"-n"}, "--steps needs a value"},
    {{"--note", "--verify"}, "--note needs a value, and '--verify' looks like an option"},
    {{"--steps", "--"}, "--steps needs a value"},
    {{"--steps=3", "-n3"}, "--steps is given twice"},
    {{"--verify", "--no-verify"}, "--verify is given twice"},
    {{"--steps="}, "--steps: '' is not a whole number"},
    {{"--steps=0"}, "--steps: must be from 1 to 1000"},
    {{"--steps=1001"}, "--steps: must be from 1 to 1000"},
    {{"--steps=-1"}, "--steps: must be from 1 to 1000"},
    {{"--steps=3x"}, "--steps: '3x' is not a whole number"},
    {{"--steps=3.5"}, "--steps: '3.5' is not a whole number"},
    {{"--steps=1M"}, "--steps: must be from 1 to 1000"},
    {{"--steps=99999999999999999999"}, "--steps: must be from 1 to 1000"},
    {{"--rate=1.01"}, "--rate: must be from 0 to 1"},
    {{"--rate=nan"}, "--rate: 'nan' is not a number"},
    {{"--bucket-cap=25"}, "--bucket-cap: '25': which unit? 25MiB (1024-based, as bucket_cap_mb"},
    {{"--bucket-cap=25mb"}, "--bucket-cap: '25mb': which unit? 25MiB or 25MB"},
    {{"--timeout=5"}, "--timeout: '5': which unit? 5s, 5ms or 5us"},
    {{"--timeout=5m"}, "--timeout: '5m': which unit? 5min or 5ms"},
    {{"--link=100"}, "--link: '100': which unit? 100Gbit/s or 12.5GB/s"},
    {{"--link=100G"}, "--link: '100G': which unit? 100GB/s or 100Gbit/s"},
    {{"--link=100gbps"}, "--link: '100gbps': which unit? 100GB/s or 100Gbit/s"},
    {{"--bucket-cap=1B"}, "--bucket-cap: must be at least 1KiB"},
    {{"--bucket-cap=1024.5B"}, "not a whole number of bytes"},
    {{"--bucket-cap=9000TiB"}, "not a whole number of bytes up to"},
    {{"--bucket-cap=1MBps"}, "'1MBps' is not a size"},
    {{"--timeout=-1s"}, "--timeout: '-1s' is negative"},
    {{"--timeout=1GB"}, "'1GB' is not a time"},
    {{"--link=1GiB/s"}, "'1GiB/s' is not a rate"},
    {{"--out="}, "--out: the file name is empty"},
    {{"--algo=rign"}, "--algo: 'rign' is not one of: auto ring tree; did you mean 'ring'?"},
    {{"--algo=Rin"}, "is not one of: auto ring tree"},
    {{"--algo="}, "'' is not one of: auto ring tree"},
    {{"--ranks="}, "--ranks: '' is not a whole number"},
    {{"--ranks=1,"}, "'' is not a whole number"},
    {{"--ranks=1,,2"}, "'' is not a whole number"},
    {{"--ranks=1,0"}, "must be from 1 to 4096"},
    {{"--ranks=1;2"}, "'1;2' is not a whole number"},
    {{"--sizes=1KiB,x"}, "'x' is not a size"},
    {{"--sizes=-1B"}, "'-1B' is negative"},
    {{"a", "b", "c", "d"}, "'d' is one operand too many"},
};

START_TEST(refuses_and_says_why)
{
    struct result r;

    ck_assert_int_eq(parse(wrong[_i].words, &r), LK_EUSAGE);
    ck_assert_msg(strstr(lk_error_text(), wrong[_i].says) != NULL, "'%s' does not say '%s'",
                  lk_error_text(), wrong[_i].says);
}
END_TEST

START_TEST(no_operands_allowed)
{
    struct opts o;
    char word[] = "job.json";
    char *argv[] = {word};
    int n;

    ck_assert_int_eq(lk_option_parse(rows, &o, 1, argv, NULL, 0, &n), LK_EUSAGE);
    ck_assert_str_eq(lk_error_text(), "'job.json': takes no operands");
}
END_TEST

START_TEST(list_limit)
{
    char text[2 * LK_OPTION_LIST_MAX + 32] = "--ranks=1";
    struct result r;

    for (int i = 1; i < LK_OPTION_LIST_MAX; i++)
        strcat(text, ",1");
    ck_assert_int_eq(PARSE(&r, text), LK_OK);
    ck_assert_int_eq(r.o.ranks.n, LK_OPTION_LIST_MAX);
    strcat(text, ",1");
    ck_assert_int_eq(PARSE(&r, text), LK_EUSAGE);
    ck_assert_str_eq(lk_error_text(), "--ranks: has more than 64 items");
}
END_TEST

START_TEST(a_bad_default_is_our_fault)
{
    static const struct lk_option bad[] = {
        {.name = "n", .type = LK_OPT_INT, .min = 1, .max = 2, .fallback = "3", .help = "n"}, {0}};
    int64_t n;
    int operands;

    ck_assert_int_eq(lk_option_parse(bad, &n, 0, NULL, NULL, 0, &operands), LK_EINTERNAL);
    ck_assert_str_eq(lk_error_text(), "the default of --n: must be from 1 to 2");
}
END_TEST

/* A whole number has the width of its field: its neighbours stay, and what an int cannot hold is
 * refused. */
START_TEST(whole_numbers_fit_their_field)
{
    struct fields {
        int before, narrow, after;
        int64_t wide;
    } f = {.before = 1, .narrow = 2, .after = 3};
    const struct lk_option both[] = {{.name = "narrow",
                                      .type = LK_OPT_INT,
                                      .offset = offsetof(struct fields, narrow),
                                      .bytes = sizeof f.narrow,
                                      .help = "n"},
                                     {.name = "wide",
                                      .type = LK_OPT_INT,
                                      .offset = offsetof(struct fields, wide),
                                      .bytes = sizeof f.wide,
                                      .help = "n"},
                                     {0}};
    char narrow[] = "--narrow=-2147483648", wide[] = "--wide=2147483648";
    char beyond[] = "--narrow=2147483648", text[32];
    char *good[] = {narrow, wide}, *bad[] = {beyond};
    int operands;

    ck_assert_int_eq(lk_option_parse(both, &f, 2, good, NULL, 0, &operands), LK_OK);
    ck_assert(f.before == 1 && f.narrow == INT_MIN && f.after == 3 && f.wide == 1LL << 31);
    ck_assert_str_eq(lk_option_value(&both[0], &f, text, sizeof text), "-2147483648");
    ck_assert_str_eq(lk_option_value(&both[1], &f, text, sizeof text), "2147483648");
    ck_assert_int_eq(lk_option_parse(both, &f, 1, bad, NULL, 0, &operands), LK_EUSAGE);
    ck_assert_str_eq(lk_error_text(), "--narrow: must be from -2147483648 to 2147483647");
}
END_TEST

/* The printed values read back to the same options. */
START_TEST(values_read_back)
{
    struct result r;
    struct result again;
    char texts[LK_COUNT(rows)][128];
    const char *words[WORDS_MAX + 1] = {NULL};
    size_t n = 0;

    ck_assert_int_eq(PARSE(&r, "--steps=9", "--rate=0.3", "--bucket-cap=1025B", "--timeout=1.5ms",
                           "--link=12.345GB/s", "--algo=ring", "--ranks=3,1,2", "--sizes=1KiB,7B"),
                     LK_OK);
    for (const struct lk_option *row = rows; row->name; row++) {
        char value[96];

        if (row->type == LK_OPT_FLAG || row->type == LK_OPT_TEXT || row->type == LK_OPT_FILE)
            continue;
        lk_option_value(row, &r.o, value, sizeof value);
        snprintf(texts[n], sizeof texts[n], "--%s=%s", row->name, value);
        words[n] = texts[n];
        n++;
    }
    ck_assert_msg(parse(words, &again) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(again.o.steps, 9);
    ck_assert_double_eq(again.o.rate, 0.3);
    ck_assert(again.o.cap == 1025);
    ck_assert_double_eq(again.o.timeout_s, 1.5e-3);
    ck_assert_double_eq(again.o.link_Bps, 12.345e9);
    ck_assert_int_eq(again.o.algo, 1);
    ck_assert_int_eq(again.o.ranks.n, 3);
    ck_assert_int_eq(again.o.ranks.v[0], 3);
    ck_assert_int_eq(again.o.sizes.n, 2);
    ck_assert(again.o.sizes.v[0] == 1024 && again.o.sizes.v[1] == 7);
}
END_TEST

/* Return a printer's output; the caller frees it. */
static char *printed(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    ck_assert_ptr_nonnull(f);
    print(f);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

static void print_help(FILE *out)
{
    lk_option_help(rows, out);
}

static void print_man(FILE *out)
{
    lk_option_man(rows, out);
}

START_TEST(help_text)
{
    char *text = printed(print_help);

    ck_assert_str_eq(
        text, "Work:\n"
              "  -n, --steps=N           optimizer steps to run [1..1000; default 50]\n"
              "  -v, --verify            check that all ranks agree\n"
              "      --[no-]overlap      communicate while backward goes on [default yes]\n"
              "      --rate=X            share of steps [0..1; default 0.1]\n"
              "\n"
              "Network:\n"
              "      --bucket-cap=SIZE   bytes at which a bucket is closed [at least 1KiB;\n"
              "                          default 25MiB]\n"
              "      --timeout=TIME      longest wait [default 30s]\n"
              "      --link=RATE         rate of a link\n"
              "      --note=TEXT         a word for the file\n"
              "  -o, --out=FILE          where to write [default -]\n"
              "      --algo=WORD         algorithm of the all-reduce [auto|ring|tree; default\n"
              "                          auto]\n"
              "      --ranks=N,N,...     world sizes [1..4096; default 1,2,4]\n"
              "      --sizes=SIZE,...    message sizes\n");
    free(text);
}
END_TEST

START_TEST(help_fits_a_terminal)
{
    char *text = printed(print_help);

    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        ck_assert_uint_le(strcspn(line, "\n"), 80);
    free(text);
}
END_TEST

START_TEST(man_text)
{
    static const char begins[] = ".SS Work\n.TP\n\\fB\\-n\\fR, \\fB\\-\\-steps\\fR=\\fIN\\fR\n"
                                 "optimizer steps to run [1..1000; default 50]\n.TP\n";
    char *text = printed(print_man);

    ck_assert_int_eq(strncmp(text, begins, strlen(begins)), 0);
    ck_assert_ptr_nonnull(strstr(text, "\\fB\\-\\-[no\\-]overlap\\fR\n"));
    ck_assert_ptr_nonnull(strstr(text, ".SS Network\n"));
    free(text);
}
END_TEST

static const struct {
    const char *word;
    const char *nearest;
} near[] = {
    {"rnu", "run"},
    {"run", "run"},
    {"prdict", "predict"},
    {"predictt", "predict"},
    {"pre", "predict"},
    {"calibate", "calibrate"},
    {"x", NULL},
    {"", NULL},
    {"completely", NULL},
    {"va", NULL},
    {"valid", "validate"},
    {"nur", NULL},
    {"anaylze", "analyze"},
};

START_TEST(nearest_word)
{
    static const char *const words[] = {"run",     "profile", "import", "calibrate",
                                        "analyze", "predict", "whatif", "validate"};
    const char *got = lk_words_nearest(near[_i].word, words, LK_COUNT(words));

    if (near[_i].nearest)
        ck_assert_pstr_eq(got, near[_i].nearest);
    else
        ck_assert_ptr_null(got);
    ck_assert_ptr_null(lk_words_nearest(near[_i].word, words, 0));
}
END_TEST

START_TEST(nearest_of_long_words)
{
    static const char *const words[] = {"a"};
    char word[300];

    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    ck_assert_ptr_null(lk_words_nearest(word, words, 1));
}
END_TEST

/* A random text made of option-like pieces is accepted only if every number is within its range. */
START_TEST(junk_is_never_taken)
{
    static const char *const pieces[] = {
        "--",  "-",  "steps", "=", "9",    "n",    "verify", "no-",   "1e3", ",",
        "KiB", "0x", "-1",    " ", "rate", "algo", "ring",   "ranks", "nan", "bucket-cap"};
    struct lk_rng g = lk_rng_init(3, 0);
    int taken = 0;

    for (int i = 0; i < 50000; i++) {
        char word[64] = "";
        struct result r;
        size_t n = 1 + (size_t)lk_rng_below(&g, 5);

        for (size_t j = 0; j < n; j++)
            strcat(word, pieces[lk_rng_below(&g, LK_COUNT(pieces))]);
        if (PARSE(&r, word) != LK_OK)
            continue;
        taken++;
        ck_assert_msg(r.o.steps >= 1 && r.o.steps <= 1000, "'%s'", word);
        ck_assert_msg(r.o.rate >= 0 && r.o.rate <= 1, "'%s'", word);
        ck_assert_msg(r.o.cap >= 1024, "'%s'", word);
        ck_assert_msg(r.o.algo >= 0 && r.o.algo < 3, "'%s'", word);
        ck_assert_msg(r.o.ranks.n >= 1 && r.o.ranks.v[0] >= 1, "'%s'", word);
        ck_assert_msg(word[0] != '-' || !strchr(word, ' ') || r.n_operands == 0, "'%s'", word);
    }
    ck_assert_int_gt(taken, 100);
}
END_TEST

SUITE(option, c)
{
    tcase_add_test(c, defaults);
    tcase_add_loop_test(c, value_forms, 0, (int)LK_COUNT(forms));
    tcase_add_test(c, every_type);
    tcase_add_test(c, operands_and_dashes);
    tcase_add_loop_test(c, refuses_and_says_why, 0, (int)LK_COUNT(wrong));
    tcase_add_test(c, no_operands_allowed);
    tcase_add_test(c, list_limit);
    tcase_add_test(c, a_bad_default_is_our_fault);
    tcase_add_test(c, whole_numbers_fit_their_field);
    tcase_add_test(c, values_read_back);
    tcase_add_test(c, help_text);
    tcase_add_test(c, help_fits_a_terminal);
    tcase_add_test(c, man_text);
    tcase_add_loop_test(c, nearest_word, 0, (int)LK_COUNT(near));
    tcase_add_test(c, nearest_of_long_words);
    tcase_add_test(c, junk_is_never_taken);
}
