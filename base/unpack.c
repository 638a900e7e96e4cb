/* Bounds of unpacking; see the header. */
#include "base/unpack.h"

enum {
    RATIO_MAX = 200,       /* unpacked over packed; deflate's limit is 1,032 */
    RATIO_FROM = 64 << 20, /* bytes from which it counts */
};

enum lk_status lk_unpack_check(const char *path, long packed_bytes, long unpacked_bytes)
{
    if (unpacked_bytes < RATIO_FROM || packed_bytes < 0 ||
        unpacked_bytes / RATIO_MAX < packed_bytes)
        return LK_OK;
    return lk_fail(LK_EPARSE,
                   "%s: unpacks to over %d times its size: no data are like that, and what is made "
                   "to fill the memory is; unpack it yourself if you trust it",
                   path, RATIO_MAX);
}
