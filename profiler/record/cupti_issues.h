/*
 * Which id an API call was made with, by the correlation id that CUPTI gave the call: the last
 * LK_CUPTI_ISSUES calls are remembered, whatever their numbers.
 */
#ifndef LK_PROFILER_RECORD_CUPTI_ISSUES_H
#define LK_PROFILER_RECORD_CUPTI_ISSUES_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* The issuer of an API call, as far as known. */
enum lk_cupti_call {
    LK_CUPTI_CALL_UNKNOWN,
    LK_CUPTI_CALL_OURS,      /* made with an id of ours pushed */
    LK_CUPTI_CALL_IN_WINDOW, /* made in a collective's issue window; the id is the collective's */
    LK_CUPTI_CALL_NOBODYS,   /* made in no issue window */
};

enum { LK_CUPTI_ISSUES = 1 << 18 };

/* A ring in the order of insertion, and chains of equal hashes through it. */
struct lk_cupti_issues {
    struct lk_cupti_issue_entry {
        uint32_t correlation;
        enum lk_cupti_call call;
        uint64_t id;
        uint64_t called_ns; /* when it began, on CUPTI's clock; 0: not known */
        uint32_t call_ns;   /* how long it took */
        uint32_t next;      /* in its chain: place + 1; 0: the last */
    } * ring;
    uint32_t *chains; /* heads: place + 1 */
    size_t n;         /* inserted so far */
};

enum lk_status lk_cupti_issues_init(struct lk_cupti_issues *t);
void lk_cupti_issues_fini(struct lk_cupti_issues *t); /* safe on a zeroed one */
/* Return what is known of a call, or NULL. */
const struct lk_cupti_issue_entry *lk_cupti_issues_find(const struct lk_cupti_issues *t,
                                                        uint32_t correlation);
/* Remember a call's issuer; one that is known already is replaced. */
void lk_cupti_issues_put(struct lk_cupti_issues *t, uint32_t correlation, enum lk_cupti_call call,
                         uint64_t id);
/* Remember a call's time. Of a runtime call and the driver's within it the outer one stays. */
void lk_cupti_issues_time(struct lk_cupti_issues *t, uint32_t correlation, uint64_t start_ns,
                          uint64_t end_ns);

#endif
