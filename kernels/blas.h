/* This function asks for the memory that the library of matrix products on the CPU needs. */
#ifndef LK_KERNELS_BLAS_H
#define LK_KERNELS_BLAS_H

#include "base/status.h"

/* LK_ENOMEM: the system refuses the memory that OpenBLAS, which tries for ever, maps for a thread
 * that multiplies. A cpu device asks before its first op. */
enum lk_status lk_blas_check_memory(void);

#endif
