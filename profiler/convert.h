/*
 * From span files (profiler/span_file.h) to traces (base/trace.h), after the ranks have ended, in
 * whatever way.
 */
#ifndef LK_PROFILER_CONVERT_H
#define LK_PROFILER_CONVERT_H

#include "base/status.h"
#include "base/trace.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Reads one rank's span file. A file whose writer was killed, or failed, gives all spans that were
 * complete, with out->truncated set. Nothing in the file is trusted: what is not a whole span file
 * of this machine is LK_EPARSE, and a file that its writer still holds open is LK_EIO.
 *
 * The clock is fitted from the round trips in the file. Rank 0 is the reference; another rank
 * without samples (it died before they were exchanged) gets the identity with uncertainty
 * LK_CLOCK_UNKNOWN_NS. Spans without a step get the one that they lie in (profiler/place.h).
 */
enum lk_status lk_spans_read(const char *path, struct lk_trace *out);

struct lk_convert_summary {
    size_t n_ranks;     /* converted */
    size_t n_truncated; /* of these: the rank did not end by itself */
    uint64_t n_spans;
    uint64_t dropped; /* spans lost to full rings */
};

/*
 * Turns every DIR/rank*.spans into DIR/rank%d.trace.json.gz, writes all of them on rank 0's clock
 * into DIR/merged.trace.json.gz (when rank 0 is there), and then removes the span files. A rank on
 * rank 0's host without clock samples shares its clock; on another host the wall clocks are
 * compared, and the uncertainty stays unknown.
 *
 * A file that cannot be read stays where it is and does not keep the others from being converted;
 * the first such failure is returned in the end. LK_EIO when there is no span file. out may be
 * NULL, and is written also on failure.
 */
enum lk_status lk_convert_run(const char *dir, struct lk_convert_summary *out);

#endif
