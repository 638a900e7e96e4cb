/* Counts the kernels that are launched and runs none; see shim.h. */
#include "shim_impl.h"

#include <set>

static bool counting;
static std::set<const void *> kernels;

void shim_count_only(void)
{
    counting = true;
}

bool shim_only_counts(void)
{
    return counting;
}

size_t shim_kernels(void)
{
    return kernels.size();
}

bool shim_is_counted(const void *kernel)
{
    if (counting)
        kernels.insert(kernel);
    return counting;
}
