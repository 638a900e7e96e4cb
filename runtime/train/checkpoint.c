/* A folder of checkpoints; see the header. Divisions: names, the thread, reading. */
#include "runtime/train/checkpoint.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX ".safetensors"

struct lk_checkpoints {
    char *dir;
    int keep;
    struct lk_tensor_file file; /* of the trainer until it is put, then of the thread */
    int64_t steps;              /* of the file */
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool waiting, stop; /* a file is to be written; no more will come */
    enum lk_status status;
    char failure[1024]; /* of the last file */
};

/* ---- Names ---- */

int64_t lk_checkpoint_steps(const char *path)
{
    const char *name = strrchr(path, '/');
    int64_t steps;
    int end = 0;

    name = name ? name + 1 : path;
    if (sscanf(name, "step-%9" SCNd64 SUFFIX "%n", &steps, &end) != 1 || end == 0 || name[end])
        return -1;
    return steps;
}

/* ---- Writing ---- */

/* Remove all files but the newest; those of later steps are of a course that was given up. What
 * cannot be removed costs room alone. */
static void drop_old(const struct lk_checkpoints *c)
{
    char **names = NULL;
    size_t n = 0, kept = 0;

    if (lk_dir_list(c->dir, SUFFIX, &names, &n) != LK_OK)
        return;
    for (size_t i = n; i-- > 0;) {
        int64_t steps = lk_checkpoint_steps(names[i]);
        char *path = NULL;

        if (steps < 0 || (steps <= c->steps && kept++ < (size_t)c->keep) ||
            lk_path_join(&path, c->dir, names[i]) != LK_OK)
            continue;
        if (unlink(path))
            lk_log(LK_LOG_TRAIN, LK_WARN, "%s: cannot be removed: %s", path, strerror(errno));
        free(path);
    }
    lk_names_free(names, n);
}

/* Remove the half files of writers that were killed. */
static void drop_half(const struct lk_checkpoints *c)
{
    char **names = NULL, *path = NULL;
    size_t n = 0;

    if (lk_dir_list(c->dir, "", &names, &n) != LK_OK)
        return;
    for (size_t i = 0; i < n; i++)
        if (!strncmp(names[i], "step-", 5) && strstr(names[i], SUFFIX ".tmp.") &&
            lk_path_join(&path, c->dir, names[i]) == LK_OK) {
            (void)unlink(path);
            free(path);
            path = NULL;
        }
    lk_names_free(names, n);
}

/* Write the folder's names to the disk, so that the file is there after a power failure. */
static enum lk_status sync_folder(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum lk_status st = LK_OK;

    if (fd < 0)
        return lk_fail(LK_EIO, "%s: cannot open: %s", dir, strerror(errno));
    if (fsync(fd) && errno != EINVAL) /* EINVAL: the file system has no such call */
        st = lk_fail(LK_EIO, "%s: cannot be written to the disk: %s", dir, strerror(errno));
    close(fd);
    return st;
}

static enum lk_status write_file(struct lk_checkpoints *c)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_asprintf(&path, "%s/step-%09" PRId64 SUFFIX, c->dir, c->steps));
    lk_tensor_file_seal(&c->file);
    LK_TRY(lk_tensor_file_write(&c->file, path));
    LK_TRY(sync_folder(c->dir));
    drop_old(c);
out:
    free(path);
    return st;
}

static void *run(void *arg)
{
    struct lk_checkpoints *c = arg;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        enum lk_status st;

        while (!c->waiting && !c->stop)
            pthread_cond_wait(&c->changed, &c->lock);
        if (!c->waiting)
            break;
        pthread_mutex_unlock(&c->lock);
        st = write_file(c);
        if (st != LK_OK)
            lk_log(LK_LOG_TRAIN, LK_WARN, "no checkpoint after step %" PRId64 ": %s", c->steps - 1,
                   lk_error_text());
        pthread_mutex_lock(&c->lock);
        c->status = st;
        snprintf(c->failure, sizeof c->failure, "%s", st == LK_OK ? "" : lk_error_text());
        c->waiting = false;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

enum lk_status lk_checkpoints_open(const char *dir, int keep, struct lk_checkpoints **out)
{
    struct lk_checkpoints *c = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&c, 1, sizeof *c));
    c->keep = keep;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    LK_TRY(lk_strdup(&c->dir, dir));
    LK_TRY(lk_mkdirs(dir));
    drop_half(c);
    LK_TRY(lk_thread_start(&c->thread, run, c, "checkpoints"));
    c->threaded = true;
    LK_HAND_OVER(out, c);
out:
    lk_checkpoints_close(c);
    return st;
}

void lk_checkpoints_close(struct lk_checkpoints *c)
{
    if (!c)
        return;
    if (c->threaded) {
        pthread_mutex_lock(&c->lock);
        c->stop = true;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    lk_tensor_file_fini(&c->file);
    free(c->dir);
    free(c);
}

enum lk_status lk_checkpoints_wait(struct lk_checkpoints *c)
{
    enum lk_status st;

    pthread_mutex_lock(&c->lock);
    while (c->waiting)
        pthread_cond_wait(&c->changed, &c->lock);
    st = c->status;
    pthread_mutex_unlock(&c->lock);
    return st == LK_OK ? st : lk_fail(st, "%s", c->failure);
}

struct lk_tensor_file *lk_checkpoints_take(struct lk_checkpoints *c)
{
    lk_quietly_(lk_checkpoints_wait(c)); /* the thread has warned of a failure */
    return &c->file;
}

void lk_checkpoints_put(struct lk_checkpoints *c, int64_t steps)
{
    c->steps = steps;
    pthread_mutex_lock(&c->lock);
    c->waiting = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* ---- Reading ---- */

enum lk_status lk_checkpoint_find(const char *dir, int64_t below, char **out)
{
    char **names = NULL;
    size_t n = 0, i;
    enum lk_status st = LK_OK;

    LK_TRY(lk_dir_list(dir, SUFFIX, &names, &n));
    for (i = n; i > 0; i--)
        if (lk_checkpoint_steps(names[i - 1]) >= 0 && lk_checkpoint_steps(names[i - 1]) < below)
            break;
    if (i == 0)
        LK_TRY(lk_fail(LK_EIO, "%s: there is no %scheckpoint (step-*" SUFFIX ")", dir,
                       below < INT64_MAX ? "earlier " : ""));
    LK_TRY(lk_path_join(out, dir, names[i - 1]));
out:
    lk_names_free(names, n);
    return st;
}

/* Find the newest whole checkpoint before this one in its folder. */
static enum lk_status find_before(const char *path, char **out)
{
    enum lk_status st = LK_OK;
    struct lk_tensor_file file = {0};
    const char *slash = strrchr(path, '/');
    int64_t below = lk_checkpoint_steps(path);
    char *dir = NULL, *found = NULL;

    LK_TRY(slash ? lk_strndup(&dir, path, (size_t)(slash - path)) : lk_strdup(&dir, "."));
    do {
        free(found);
        found = NULL;
        LK_TRY(lk_checkpoint_find(dir, below, &found));
        below = lk_checkpoint_steps(found);
    } while (lk_tensor_file_read(found, &file) != LK_OK);
    LK_HAND_OVER(out, found);
out:
    lk_tensor_file_fini(&file);
    free(found);
    free(dir);
    return st;
}

enum lk_status lk_checkpoint_read(const char *path, struct lk_tensor_file *out)
{
    enum lk_status st = lk_tensor_file_read(path, out);
    char text[2048], *before = NULL;

    if (st == LK_OK)
        return st;
    snprintf(text, sizeof text, "%s", lk_error_text());
    if (lk_checkpoint_steps(path) < 0 || find_before(path, &before) != LK_OK)
        return lk_fail(st, "%s", text);
    st = lk_fail(st, "%s. The checkpoint before it is whole: --resume=%s", text, before);
    free(before);
    return st;
}
