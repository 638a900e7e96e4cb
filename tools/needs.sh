# What lockstep needs of a machine, and how to see that it is there. tools/setup and tools/probe source this file.

# name | purposes | needed or optional | how to see that it is there | Debian packages | what for
needs='
cc|build|needed|program|gcc libc6-dev|C compiler
zlib|build|needed|link zlib.h zlibVersion|zlib1g-dev|compressed traces
openblas|build|optional|link cblas.h openblas_get_config|libopenblas-dev|fast matrix products on the CPU
check|check|needed|link check.h srunner_create|check|tests
c++|check|optional|shim|g++|tests of CUDA kernels on the host
gnuplot|check|needed|command gnuplot|gnuplot-nox|plots
python3|check|needed|command python3|python3|an independent reader of the traces
gnuplot|demo|optional|command gnuplot|gnuplot-nox|plots
wasm|page|optional|wasm|clang lld wasi-libc libclang-rt-dev-wasm32|what-if in the page of a report
node|page|optional|command node|nodejs|tests of what-if in the page
chromium|page|optional|command chromium|chromium|tests of pages in a browser
lcov|coverage|needed|command lcov|lcov|coverage report
clang|lint|needed|command clang|clang|second compiler
clang-format|lint|needed|command clang-format|clang-format|format check
clang-tidy|lint|needed|command clang-tidy|clang-tidy|lint
g++|lint|needed|shim|g++|tests of CUDA kernels on the host
zsh|lint|needed|command zsh|zsh|completion, tried
fish|lint|needed|command fish|fish|completion, tried
mandoc|lint|needed|command mandoc|mandoc|a second reader of the manual pages
groff|lint|needed|command groff|groff-base|manual pages, tried
man|lint|needed|command man|man-db|manual pages, tried
ip|net|needed|command ip|iproute2|hosts and shaped links in network namespaces
tc|net|needed|command tc|iproute2|hosts and shaped links in network namespaces
debootstrap|bare|needed|command debootstrap|debootstrap|a bare Debian to try the README in
torch|bench|needed|python torch|python3-torch|PyTorch DDP to compare with
openblas|bench|needed|link cblas.h openblas_get_config|libopenblas-dev|the BLAS of both sides
mpirun|bench|needed|command mpirun|openmpi-bin|Open MPI to compare with
openmpi|launch|optional|command mpirun.openmpi|openmpi-bin|tests of ranks that Open MPI starts
mpich|launch|optional|command mpirun.mpich|mpich|tests of ranks that MPICH starts
ssh|launch|optional|command ssh|openssh-client|tests of ranks on other hosts
sshd|launch|optional|command sshd|openssh-server|tests of ranks on other hosts
slurmctld|launch|optional|command slurmctld|slurmctld|tests of ranks that Slurm starts
slurmd|launch|optional|command slurmd|slurmd|tests of ranks that Slurm starts
munged|launch|optional|command munged|munge|tests of ranks that Slurm starts
mpicc|bench|needed|command mpicc|libopenmpi-dev|Open MPI to compare with
'

# Print the ways to link library $1, one a line. STATIC=1 links archives, for programs that are carried to
# machines without these libraries.
link_flags() {
    case $1:${STATIC:-0} in
    zlib:0) echo "-lz" ;;
    zlib:*) echo "-l:libz.a" ;;
    openblas:*)
        echo "-lopenblas"
        for dir in /usr/include/x86_64-linux-gnu /usr/include/aarch64-linux-gnu; do
            echo "-isystem $dir/openblas-pthread -lopenblas"
        done
        echo "-isystem /usr/include/openblas -lopenblas" ;;
    check:0) printf '%s\n' "-lcheck_pic -lsubunit -lrt -lm -pthread" "-lcheck -lsubunit -lrt -lm -pthread" "-lcheck -lrt -lm -pthread" ;;
    check:*) printf '%s\n' "-l:libcheck_pic.a -l:libsubunit.a -lrt -lm -pthread" "-l:libcheck.a -l:libsubunit.a -lrt -lm -pthread" \
        "-l:libcheck.a -lrt -lm -pthread" ;;
    esac
}

# Print the first error of the last compilation, without the name of the scratch folder.
first_error() {
    { grep -m 1 -E 'error|cannot find|undefined' "$tmp/log" || head -n 1 "$tmp/log"; } | sed "s|$tmp/||"
}

# has_program "WORDS": succeed if the first word is a program, or say in $why that it is not.
has_program() {
    command -v "${1%% *}" > /dev/null 2>&1 || { why="no ${1%% *} in PATH"; return 1; }
}

# find_link NAME HEADER SYMBOL: set $found to the first way to link NAME that works, or to nothing, with the
# compiler's first error in $why. The compiler and the linker decide: a header of the same name in another
# package is not the library's.
find_link() {
    found= why=
    has_program "${CC:-cc}" || return 1
    printf '#include <stdio.h>\n#include <%s>\nvoid *volatile p;\nint main(void) { p = (void *)&%s; return !p; }\n' \
        "$2" "$3" > "$tmp/t.c"
    IFS='
'
    for flags in $(link_flags "$1"); do
        unset IFS
        # shellcheck disable=SC2086 # flags are words
        if ${CC:-cc} -o "$tmp/t" "$tmp/t.c" $flags > "$tmp/log" 2>&1; then
            found=$flags
            return 0
        fi
        why=${why:-$(first_error)}
    done
    unset IFS
    return 1
}

# is_there NAME HOW...: succeed if what row NAME asks for works here; $why says what does not.
is_there() {
    row=$1 kind=$2
    shift 2
    why=
    case $kind in
    link) find_link "$row" "$@" ;;
    command) has_program "$1" ;;
    python) /usr/bin/python3 -c "import $1" > /dev/null 2>&1 || { why="/usr/bin/python3 cannot import $1"; return 1; } ;;
    program)
        has_program "${CC:-cc}" || return 1
        printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' > "$tmp/t.c"
        ${CC:-cc} -o "$tmp/t" "$tmp/t.c" > "$tmp/log" 2>&1 || { why=$(first_error); return 1; } ;;
    wasm) # C for WebAssembly: the compiler, its linker, a C library, and 128-bit products
        has_program "${WASM_CC:-clang}" || return 1
        printf '#include <math.h>\n#include <stdio.h>\nint f(long a, long b);\n%s\n' \
            'int f(long a, long b) { return printf("%g", sin((double)((unsigned __int128)a * (unsigned __int128)b / 3))); }' > "$tmp/w.c"
        ${WASM_CC:-clang} --target=wasm32-wasi -mexec-model=reactor -Wl,--export=f -o "$tmp/w.wasm" "$tmp/w.c" > "$tmp/log" 2>&1 ||
            { why=$(first_error); return 1; } ;;
    shim) # C++ with AddressSanitizer, on a processor with builtins to switch stacks
        has_program "${CXX:-c++}" || return 1
        printf 'void *b[5];\nint main(void) { return __builtin_setjmp(b); }\n' > "$tmp/s.cc"
        { ${CXX:-c++} -fsanitize=address,alignment -o "$tmp/s" "$tmp/s.cc" &&
            ${CXX:-c++} -fsanitize=thread -c -o "$tmp/s.o" "$tmp/s.cc"; } > "$tmp/log" 2>&1 ||
            { why=$(first_error); return 1; } ;;
    esac
}

# each_need PURPOSE FUNCTION: call FUNCTION name importance "how" "packages" "what for" for each row of a purpose.
each_need() {
    IFS='
'
    for line in $needs; do
        IFS='|'
        # shellcheck disable=SC2086 # split at the bars
        set -- "$1" "$2" $line
        unset IFS
        [ "$4" != "$1" ] || "$2" "$3" "$5" "$6" "$7" "$8"
    done
    unset IFS
}
