/* Tell how much of the processors other work took during a calibration. */
#include "commands/calibrate.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/device/machine_load.h"
#include "sim/calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than this share of the processors' time in other programs disturbs: a system's own daemons
 * take 1 or 2 %. */
static const double DISTURBED = 0.05;

/* A rank puts what it saw into the store in this form. */
struct message {
    char machine[LK_MACHINE_BOOT_TEXT];
    double window_s;
    struct lk_host_load load;
};

enum lk_status calibrate_load_begin(struct calibrate_load *l)
{
    l->began_ns = lk_now_ns();
    return lk_machine_load_now("", &l->before);
}

static enum lk_status put(const struct lk_rank_env *env, struct lk_store *store,
                          const struct calibrate_load *l)
{
    struct message m = {.machine = ""};
    struct lk_host_load now;
    char key[64];

    LK_PASS(lk_machine_load_now("", &now));
    lk_machine_boot("", m.machine);
    m.window_s = lk_s_from_ns(lk_now_ns() - l->began_ns);
    m.load = lk_machine_load_between(&l->before, &now);
    snprintf(key, sizeof key, "calibrate/load/%d", env->rank);
    return lk_store_set(store, key, &m, sizeof m);
}

static enum lk_status get(struct lk_store *store, int rank, struct message *out)
{
    enum lk_status st = LK_OK;
    void *value = NULL;
    char key[64];
    size_t size;

    snprintf(key, sizeof key, "calibrate/load/%d", rank);
    LK_TRY(lk_store_get(store, key, &value, &size));
    if (size != sizeof *out)
        LK_TRY(lk_fail(LK_EPEER, "rank %d runs another version of the program", rank));
    memcpy(out, value, size);
    out->machine[sizeof out->machine - 1] = '\0';
out:
    free(value);
    return st;
}

/* Find the machine of which others took the largest share. */
static enum lk_status most_taken(const struct lk_rank_env *env, struct lk_store *store,
                                 struct lk_host_use *out)
{
    size_t n = (size_t)env->world_size;
    struct message *messages = NULL;
    struct lk_host_seen *seen = NULL;
    enum lk_status st = LK_OK;

    *out = (struct lk_host_use){.processors = 1};
    LK_TRY(lk_alloc(&messages, n, sizeof *messages));
    LK_TRY(lk_alloc(&seen, n, sizeof *seen));
    for (size_t k = 0; k < n; k++) {
        LK_TRY(get(store, (int)k, &messages[k]));
        seen[k] =
            (struct lk_host_seen){messages[k].machine, messages[k].window_s, messages[k].load};
    }
    for (size_t k = 0; k < n; k++) {
        struct lk_host_use u = lk_host_use_sum(seen, n, seen[k].machine);

        if (u.n_ranks &&
            (u.others + u.stolen) / u.processors > (out->others + out->stolen) / out->processors)
            *out = u;
    }
out:
    free(messages);
    free(seen);
    return st;
}

enum lk_status calibrate_load_end(const struct calibrate_load *l, const struct lk_rank_env *env,
                                  struct lk_store *store, bool of_cpus, struct lk_cluster *c)
{
    struct lk_host_use u;
    char text[256];

    LK_PASS(put(env, store, l));
    if (env->rank != 0)
        return LK_OK;
    LK_PASS(most_taken(env, store, &u));
    lk_host_use_text(&u, text, sizeof text);
    if (of_cpus && u.others + u.stolen > DISTURBED * u.processors) {
        lk_log(LK_LOG_MAIN, LK_WARN,
               "during the calibration of %d ranks %s: intervals are widened by that, and neither "
               "the spread of ranks nor the overlap is in the file. Calibrate again when the "
               "machine is quiet",
               env->world_size, text);
        return lk_calibration_disturbed(c, u.others + u.stolen);
    }
    if (lk_host_is_busy(&u))
        lk_log(LK_LOG_MAIN, LK_WARN, "host busy: during the calibration of %d rank%s %s",
               env->world_size, env->world_size == 1 ? "" : "s", text);
    return LK_OK;
}
