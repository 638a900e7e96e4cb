/* Skip tests that compare with PyTorch where there is none. */
#ifndef LK_TESTS_PYTORCH_H
#define LK_TESTS_PYTORCH_H

#include <stdbool.h>

/* Return true if the system's Python has PyTorch and NumPy; else the test that calls it is skipped.
 * They are looked for and not imported, which would take a second. */
bool pytorch_is_here(void);

#endif
