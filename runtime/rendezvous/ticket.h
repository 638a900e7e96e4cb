/*
 * A process proves that it belongs to a run by the job's name and a secret that only its ranks
 * have. Both ends of a connection prove by HMAC-SHA256 over two random numbers, one of each end,
 * that they know the secret, which itself is never sent; so a recorded greeting is of no use later.
 * docs/security.md says against whom this helps.
 */
#ifndef LK_RUNTIME_TICKET_H
#define LK_RUNTIME_TICKET_H

#include "base/sha256.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    LK_JOB_MAX = 127,
    LK_NONCE_BYTES = 16,
    LK_PROOF_BYTES = LK_SHA256_BYTES,
};

/* A rank and the store prove the secret over this: HELLO's bytes (store_wire.h) and the server's
 * nonce, to which the server adds the run's token. */
enum { LK_JOIN_MAX = 48 + LK_JOB_MAX + LK_NONCE_BYTES + 8 };
#define LK_JOIN_CLIENT "lockstep: a rank joins"
#define LK_JOIN_SERVER "lockstep: the store lets a rank in"

/* The environment of ranks: the secret as 64 hexadecimal digits, and the job's name. */
#define LK_SECRET_ENV "LOCKSTEP_SECRET"
#define LK_JOB_ENV    "LOCKSTEP_JOB"

/* The name of the jobs of a launcher that tells none: two of them on one host meet at one port. */
#define LK_JOB_UNNAMED "mpirun"

/* All zero: no job's name, and no secret, so that anybody can prove to know it. */
struct lk_ticket {
    char job[LK_JOB_MAX + 1]; /* "": not known; then it is not compared */
    unsigned char secret[LK_SHA256_BYTES];
    bool has_secret;
};

/* Make a ticket with a random secret for a run that this process launches. */
enum lk_status lk_ticket_make(struct lk_ticket *out);
/* Write the secret as the environment has it, 64 digits and a NUL. */
void lk_ticket_secret_text(const struct lk_ticket *t, char out[2 * LK_SHA256_BYTES + 1]);
/* Take the secret from the environment, if it is there, and remove it. LK_EUSAGE: malformed. */
enum lk_status lk_ticket_read_env(struct lk_ticket *t);
/* Take the secret from a file of 16 bytes to 4 KiB. LK_EUSAGE, LK_EIO: it is too short, too long,
 * not of this user, or others than its owner may read or write it. */
enum lk_status lk_ticket_read_file(struct lk_ticket *t, const char *path);

/* Fill with random bytes. */
enum lk_status lk_nonce(unsigned char out[LK_NONCE_BYTES]);
/* Prove to know the secret: over the label, which says who proves what, and n bytes of data. */
void lk_ticket_prove(const struct lk_ticket *t, const char *label, const void *data, size_t n,
                     unsigned char out[LK_PROOF_BYTES]);

#endif
