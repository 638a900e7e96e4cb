/* The bytes of Chakra execution traces: what ASTRA-sim's feeders, old and new, look for. */
#include "reports/chakra.h"

#include "base/protobuf.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_chakra_about about = {
    .writer = "a test", .model = "m", .rank = 1, .world_size = 2, .step = 7};

/* The messages behind the metadata, as the schema has them. */
static const char collective[] = "\x08\x02"     /* id */
                                 "\x12\x01r"    /* name */
                                 "\x18\x07"     /* type: COMM_COLL_NODE */
                                 "\x2a\x01\x01" /* data_deps, packed */
                                 "\x38\x84\x07" /* duration_micros */
                                 "\x52\x0e"     /* attr */
                                 "\x0a\x09is_cpu_op"
                                 "\xd8\x01\x00" /* bool_val, written though it is false */
                                 "\x52\x0d"
                                 "\x0a\x09"
                                 "comm_type"
                                 "\x48\x07" /* int64_val: REDUCE_SCATTER */
                                 "\x52\x0e"
                                 "\x0a\x09"
                                 "comm_size"
                                 "\x48\x80\x20";
static const char compute[] = "\x08\x01"
                              "\x12\x01"
                              "f"
                              "\x18\x04" /* COMP_NODE */
                              "\x38\x64"
                              "\x52\x0e"
                              "\x0a\x09is_cpu_op"
                              "\xd8\x01\x00"
                              "\x52\x1a"
                              "\x0a\x0elockstep_phase"
                              "\xea\x01\x07"
                              "forward";

static void assert_message(struct lk_pb *p, const char *bytes, size_t n)
{
    uint64_t length;

    ck_assert(lk_pb_varint(p, &length));
    ck_assert_uint_eq(length, n);
    ck_assert_uint_ge((size_t)(p->end - p->at), n);
    ck_assert_mem_eq(p->at, bytes, n);
    p->at += n;
}

START_TEST(bytes_are_those_of_the_schema)
{
    struct lk_chakra_graph g = {0};
    char *path = scratch_path(scratch_dir, "x.1.et"), *text;
    struct lk_pb_field f;
    struct lk_pb p;
    uint64_t length;
    FILE *file;
    size_t n;

    must(lk_chakra_add(
        &g, &(struct lk_chakra_node){
                .name = "f", .type = LK_CHAKRA_COMP, .phase = LK_CHAKRA_FORWARD, .end_us = 100}));
    must(lk_chakra_add(&g, &(struct lk_chakra_node){.name = "r",
                                                    .type = LK_CHAKRA_COMM_COLL,
                                                    .coll = LK_REDUCE_SCATTER,
                                                    .bytes = 4096,
                                                    .start_us = 100,
                                                    .end_us = 1000}));
    must(lk_chakra_depend(&g, 0));
    must(lk_chakra_depend(&g, 0)); /* counts once */
    ck_assert_uint_eq(lk_chakra_earliest_us(&g), 100);
    must(lk_chakra_write(path, &about, &g));
    text = calloc(1, 4096);
    file = fopen(path, "rb");
    ck_assert(text && file);
    n = fread(text, 1, 4096, file);
    ck_assert_int_eq(fclose(file), 0);
    p = lk_pb_of((unsigned char *)text, n);
    ck_assert(lk_pb_varint(&p, &length));
    p.at += length;
    assert_message(&p, compute, sizeof compute - 1);
    assert_message(&p, collective, sizeof collective - 1);
    ck_assert_ptr_eq(p.at, p.end);
    /* The metadata: a version, and attributes. */
    p = lk_pb_of((unsigned char *)text, n);
    ck_assert(lk_pb_varint(&p, &length));
    p = lk_pb_of(p.at, length);
    ck_assert(lk_pb_next(&p, &f) && f.number == 1 && f.n == 5);
    while (lk_pb_next(&p, &f))
        ck_assert_uint_eq(f.number, 2);
    ck_assert(!p.damaged);
    lk_chakra_graph_fini(&g);
    free(text);
    free(path);
}
END_TEST

START_TEST(a_folder_that_is_missing)
{
    char *path = scratch_path(scratch_dir, "no/x.1.et");
    struct lk_chakra_graph g = {0};

    ck_assert_int_eq(lk_chakra_write(path, &about, &g), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "no/x.1.et"));
    free(path);
}
END_TEST

SUITE(chakra_write, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, bytes_are_those_of_the_schema);
    tcase_add_test(t, a_folder_that_is_missing);
}
