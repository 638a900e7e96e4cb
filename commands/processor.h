/* What this machine computes with, for titles and traces. */
#ifndef LK_COMMANDS_PROCESSOR_H
#define LK_COMMANDS_PROCESSOR_H

#include <stddef.h>

/*
 * Writes "2 x Intel(R) Xeon(R) Processor": CPUs of this machine and the kernel's name for the first
 * of them ("CPU" where it has none). Returns buf.
 */
const char *processor_name(char *buf, size_t size);

#endif
