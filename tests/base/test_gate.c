/* Gates: conditions are read and judged as they are written; what cannot be read is said. */
#include "base/array.h"
#include "base/gate.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct lk_page *p)
{
    static const struct {
        const char *name, *labels;
        enum lk_dimension dim;
        double value;
    } values[] = {{"efficiency", "gpus=\"8\",local_batch=\"4\"", LK_DIM_NONE, 0.95},
                  {"efficiency", "gpus=\"64\",local_batch=\"4\"", LK_DIM_NONE, 0.61},
                  {"efficiency", "gpus=\"512\",local_batch=\"4\"", LK_DIM_NONE, NAN},
                  {"step_s", "gpus=\"64\",note=\"a, b}\"", LK_DIM_TIME, 0.0215},
                  {"inside_share", "", LK_DIM_NONE, 0.9}};

    for (size_t i = 0; i < LK_COUNT(values); i++)
        ck_assert_int_eq(
            lk_page_value(p, values[i].name, values[i].labels, values[i].dim, values[i].value),
            LK_OK);
}

/* P: passes, F: fails, E: is an error; one letter a condition. */
static const struct {
    const char *text, *results, *message; /* of the first condition, or its beginning */
} judged[] = {
    {"efficiency<0.6", "P", "efficiency{gpus=\"64\",local_batch=\"4\"} is 0.610: not below 0.6"},
    {"efficiency<0.8", "F",
     "efficiency{gpus=\"64\",local_batch=\"4\"} is 0.610: below 0.8 (1 of 2 values)"},
    {"efficiency<80%", "F", "efficiency{gpus=\"64\""},
    {"efficiency{gpus=\"8\"}<0.8", "P", "efficiency{gpus=\"8\""},
    {"efficiency{gpus=8}<0.8", "P", "efficiency{gpus=\"8\""},
    {"efficiency { gpus = 64 , local_batch=\"4\" } < 0.8", "F", "efficiency{gpus=\"64\""},
    {"inside_share>=0.9", "F", "inside_share is 0.900: at least 0.9"},
    {"inside_share>0.9", "P", "inside_share is 0.900: not above 0.9"},
    {"inside_share<=0.9", "F", "inside_share is 0.900: at most 0.9"},
    {"inside_share<0.9", "P", "inside_share is 0.900: not below 0.9"},
    {"step_s>20ms", "F", "step_s{gpus=\"64\",note=\"a, b}\"} is 21.5 ms: above 20ms"},
    {"step_s>20ms", "F", "step_s"},
    {"step_s{note=\"a, b}\"}>20ms, inside_share<0.5", "FP", "step_s"},
    {"efficiency<0.6,efficiency{gpus=64,local_batch=4}<0.7", "PF", "efficiency"},
    {"efficiency>-1", "F", "efficiency{gpus=\"8\""},
    {"efficiency{gpus=\"9\"}<0.8", "E", "efficiency{gpus=\"9\"}<0.8: no efficiency has these"},
    {"efficiency{gpus=\"512\"}<0.8", "E", "efficiency{gpus=\"512\"}<0.8: no efficiency has"},
    {"throughput<1, step_s<1s", "EF",
     "throughput<1: no value 'throughput' here; there are: efficiency, step_s, inside_share"},
    {"step_s>20MB", "E", "step_s>20MB: '20MB' is not a time"},
};

START_TEST(conditions_are_judged)
{
    static const char letters[] = {
        [LK_GATE_PASSED] = 'P', [LK_GATE_FAILED] = 'F', [LK_GATE_ERROR] = 'E'};
    const char *message = judged[_i].message;
    struct lk_gates g = {0};
    struct lk_page p = {0};

    fill(&p);
    ck_assert_msg(lk_gates_add(&g, judged[_i].text) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(g.n, strlen(judged[_i].results));
    for (int twice = 0; twice < 2; twice++) {
        ck_assert_int_eq(lk_gates_judge(&g, &p), LK_OK);
        for (size_t i = 0; i < g.n; i++)
            ck_assert_msg(letters[g.gates[i].result] == judged[_i].results[i], "%s: %s",
                          judged[_i].text, g.gates[i].message);
        ck_assert_msg(!strncmp(g.gates[0].message, message, strlen(message)), "%s",
                      g.gates[0].message);
    }
    lk_gates_fini(&g);
    lk_page_fini(&p);
}
END_TEST

static const struct {
    const char *text, *says;
} refused[] = {
    {"", "'' is no condition"},
    {"efficiency", "'efficiency' is no condition"},
    {"<0.8", "'<0.8' is no condition"},
    {"efficiency=0.8", "'efficiency=0.8' is no condition"},
    {"efficiency<", "'' is no number"},
    {"efficiency<fast", "'fast' is no number"},
    {"efficiency<0.8x", "'0.8x' is no number"},
    {"efficiency<0.8,", "'' is no condition"},
    {"efficiency{gpus}<0.8", "a label is written gpus=\"64\""},
    {"efficiency{=64}<0.8", "a label is written gpus=\"64\""},
    {"efficiency{gpus=64<0.8", "the brace of the labels is not closed"},
    {"efficiency{gpus=\"64}<0.8", "a quote is not closed"},
    {"efficiency{gpus=64 nodes=8}<0.8", "labels are separated by commas"},
    {"efficiency<nan", "'nan' is no number"},
};

START_TEST(wrong_conditions_are_refused)
{
    struct lk_gates g = {0};

    ck_assert_int_eq(lk_gates_add(&g, refused[_i].text), LK_EUSAGE);
    ck_assert_msg(strstr(lk_error_text(), refused[_i].says) != NULL, "%s", lk_error_text());
    lk_gates_fini(&g);
}
END_TEST

SUITE(gate, c)
{
    tcase_add_loop_test(c, conditions_are_judged, 0, LK_COUNT(judged));
    tcase_add_loop_test(c, wrong_conditions_are_refused, 0, LK_COUNT(refused));
}
