/*
 * Read a Python pickle of plain data, plain or gzipped, as protocols 2 to 5 write it. A pickle is a
 * program for a stack machine; opcodes that name or call anything (GLOBAL, REDUCE, BUILD, ...) are
 * errors, and nothing is ever executed. The file is read once, through a window, into values of
 * bounded number (profiler/import/pickle_value.h).
 */
#ifndef LK_PROFILER_IMPORT_PICKLE_SCAN_H
#define LK_PROFILER_IMPORT_PICKLE_SCAN_H

#include "base/status.h"
#include "profiler/import/pickle_value.h"

/* A pickle may have at most so much; a larger one is an error. A dump of Flight Recorder has about
 * 50 values an entry, and 2000 to 20000 entries. */
enum {
    LK_PICKLE_VALUES_MAX = 1 << 23,
    LK_PICKLE_ITEMS_MAX = 1 << 25,       /* of all containers, with room to grow */
    LK_PICKLE_TEXT_BYTES_MAX = 64 << 20, /* of all texts */
    LK_PICKLE_MARKS_MAX = 1 << 10        /* containers that are being filled, one in the other */
};

/* Read a file. LK_EPARSE names opcode and byte offset; LK_EIO. *out is zeroed on failure. */
enum lk_status lk_pickle_read(const char *path, struct lk_pickle *out);

#endif
