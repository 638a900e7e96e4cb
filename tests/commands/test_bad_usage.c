/*
 * Call the program wrongly, as a user might: exit code 2, no results, no files, and a message that
 * says what was wrong.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <string.h>

#define CORPUS  "tests/fuzz/corpus/"
#define JOB     CORPUS "job/full.json"
#define CLUSTER CORPUS "cluster/full.json"

/* Each message contains `says`. */
/* clang-format off */
static const struct {
    const char *arguments, *says;
} usages[] = {
    {"predict " JOB " " CLUSTER,                                      "--gpus is missing"                      },
    {"predict " JOB " " CLUSTER " --gpus=0",                          "--gpus: must be from 1 to"              },
    {"predict " JOB " " CLUSTER " --gpus=-1",                         "--gpus: must be from 1 to"              },
    {"predict " JOB " " CLUSTER " --gpus=1000000000",                 "--gpus: must be from 1 to"              },
    {"predict " JOB " " CLUSTER " --gpus=99999999999999999999",       "--gpus"                                 },
    {"predict " JOB " " CLUSTER " --gpus=1e9",                        "--gpus"                                 },
    {"predict " JOB " " CLUSTER " --gpus=8,,16",                      "--gpus"                                 },
    {"predict " JOB " " CLUSTER " --gpus=8,",                         "--gpus"                                 },
    {"predict " JOB " " CLUSTER " --gpus=,",                          "--gpus"                                 },
    {"predict " JOB " " CLUSTER " --gpus=",                           "--gpus"                                 },
    {"predict " JOB " " CLUSTER " --gpus=8-16",                       "--gpus"                                 },
    {"predict " JOB " " CLUSTER " --gpus=eight",                      "--gpus"                                 },
    {"predict " JOB " " CLUSTER " --gpus",                            "--gpus needs a value"                   },
    {"predict " JOB " " CLUSTER " --gpus=8 --gpus=16",                "--gpus is given twice"                  },
    {"predict " JOB " " CLUSTER " --gps=8",                           "no option '--gps'; did you mean"        },
    {"predict " JOB " " CLUSTER " " CLUSTER " --gpus=8",              "one operand too many"                   },
    {"predict " JOB " " CLUSTER " --cluster=dgx-a100 --gpus=8",       "two clusters"                           },
    {"predict " JOB " --gpus=8",                                      "which cluster?"                         },
    {"predict --gpus=8",                                              "which job?"                             },
    {"predict " JOB " --throughput=" CORPUS "throughput/nodes.csv --gpus=8", "give both or neither"           },
    {"predict " JOB " " CLUSTER " --gpus=8 --local-batch=0",          "--local-batch: must be from 1"          },
    {"predict " JOB " " CLUSTER " --gpus=8 --accumulation=-2",        "--accumulation: must be from 1"         },
    {"predict " JOB " " CLUSTER " --gpus=8 --bucket-cap=0",           "--bucket-cap"                           },
    {"predict " JOB " " CLUSTER " --gpus=8 --bucket-cap=25XB",        "--bucket-cap"                           },
    {"predict " JOB " " CLUSTER " --gpus=8 --bucket-cap=1e400",       "--bucket-cap"                           },
    {"predict " JOB " " CLUSTER " --gpus=8 --level=1",                "--level: must be from 0.5 to 0.99"      },
    {"predict " JOB " " CLUSTER " --gpus=8 --level=nan",              "--level"                                },
    {"predict " JOB " " CLUSTER " --gpus=8 --draws=0",                "--draws: must be from 20"               },
    {"predict " JOB " " CLUSTER " --gpus=8 --seed=-1",                "--seed: must be from 0"                 },
    {"predict " JOB " " CLUSTER " --gpus=8 --format=xml",             "'xml' is not one of: text csv json"     },
    {"predict " JOB " " CLUSTER " --gpus=8 --log=loud",               "loud"                                   },
    {"predict " JOB " " CLUSTER " --gpus=8 --mtbf=-3h",               "--mtbf"                                 },
    {"predict " JOB " " CLUSTER " --gpus=1 --global-batch=100000000000", "is more than 100000 micro-batches" },
    {"predict " JOB " " CLUSTER " --gpus=2 --global-batch=3",         "does not split into 2 GPUs"             },
    {"predict " JOB " " CLUSTER " --gpus=2 --accumulation=1000000",   "--accumulation: must be from 1 to 100000"},
    {"whatif " JOB " " CLUSTER,                                       "--gpus is missing"                      },
    {"whatif " JOB " " CLUSTER " --gpus=0",                           "--gpus"                                 },
    {"whatif " JOB " " CLUSTER " --gpus=-1",                          "--gpus"                                 },
    {"whatif " JOB " " CLUSTER " --gpus=1e9",                         "--gpus"                                 },
    {"whatif " JOB " " CLUSTER " --gpus=8,,16",                       "--gpus"                                 },
    {"whatif " JOB " " CLUSTER " --gpus=8,8",                         "--gpus: '8' is there twice"             },
    {"whatif " JOB " " CLUSTER " --gpus=8 --sharding=zero9",          "--sharding"                             },
    {"validate " JOB,                                                 "preset of the machine that the runs were made on"},
    {"validate --cluster=" CLUSTER,                                   "which runs?"                            },
    {"validate " JOB " --throughput=" CORPUS "throughput/nodes.csv",  "give both or neither"                  },
    {"replay " JOB " --ranks=0",                                      "--ranks: must be from 1"                },
    {"replay " JOB " --ranks=1000000000",                             "--ranks: must be from 1"                },
    {"replay " JOB " --ranks=2 --scaling=1,2",                        "--ranks and --scaling exclude"          },
    {"replay " JOB " --strong",                                       "--strong needs --scaling"               },
    {"replay " JOB " --slow-rank=0",                                  "--slow-rank=0: "                         },
    {"replay",                                                        ""                                       },
    {"import",                                                        "nothing to read"                        },
    {"import " CORPUS "nccl_tests/plain.log --gpus=0",                "--gpus: must be from 1"                 },
    {"import --collectives=" CORPUS "csv/points.csv --where=gpu",     "--where"                                },
    {"predcit " JOB,                                                  "no command 'predcit'; did you mean"     },
};
/* clang-format on */

START_TEST(wrong_usage)
{
    const char *arguments = usages[_i].arguments;
    struct program p;
    char **names;
    size_t n;

    program_start(&p, scratch_dir, NULL, NULL, "%s", arguments);
    program_wait(&p);
    ck_assert_msg(p.code == 2, "'%s' gave %d: %s", arguments, p.code, p.err);
    ck_assert_msg(strstr(p.err, usages[_i].says) != NULL, "'%s' is not in '%s'", usages[_i].says,
                  p.err);
    ck_assert_str_eq(p.out, "");
    ck_assert_int_eq(lk_dir_list(scratch_dir, "", &names, &n), LK_OK);
    ck_assert_msg(n == 2, "'%s' wrote a file beside its output", arguments);
    lk_names_free(names, n);
    program_fini(&p);
}
END_TEST

SUITE(bad_usage, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, wrong_usage, 0, LK_COUNT(usages));
}
