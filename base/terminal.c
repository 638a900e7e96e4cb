#include "base/terminal.h"

#include <sys/ioctl.h>

size_t lk_terminal_columns(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) ? 0 : size.ws_col;
}
