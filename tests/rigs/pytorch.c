#include "tests/rigs/pytorch.h"

#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"

bool pytorch_is_here(void)
{
    if (shell_run("/usr/bin/python3 -c 'from importlib.util import find_spec; "
                  "exit(not find_spec(\"torch\") or not find_spec(\"numpy\"))' 2>&1")
            .code == 0)
        return true;
    skip("no PyTorch for /usr/bin/python3");
    return false;
}
