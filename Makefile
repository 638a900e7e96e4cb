# lockstep: build, tests and tools. Everything that is made lies under build/.
#
#   make            the program, build/lockstep
#   make demo       set up, run the main job, show the result
#   make check      set up, build, run every test
#   make help       all targets
#
# Options: CC=clang  BUILD=dir  WERROR=1  BLAS=no  CUDA=no  WASM=no  CUDA_ARCH="80 90"|all  SAN=address,undefined  V=1
# STATIC=1 links zlib and check into the programs.

BUILD  ?= build
WERROR ?= 0
BLAS   ?= auto
CUDA   ?= auto
WASM   ?= auto
WASM_CC ?= clang
CUDA_ARCH ?= native
STATIC ?= 0
SAN    ?=
PREFIX ?= /usr/local
.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules

# Rooms in link order: each may use those after it (tools/layering has the include rules).
ROOMS := commands reports sim profiler runtime kernels facts base

VERSION := $(shell cat VERSION)

# These install what the probe looks for, or do without; the build itself is a make of its own.
NO_PROBE := help setup clean check demo bench validate-net validate-net-short faults faults-once coverage asan tsan headers layering paths format format-check gpu-bundle check-gpu
ifneq ($(filter-out $(NO_PROBE),$(or $(MAKECMDGOALS),all)),)
# What is found depends on these, and on the folders searched: the probe runs again when one changes.
PROBE_OPTIONS := CC="$(CC)" CXX="$(CXX)" BLAS="$(BLAS)" CUDA="$(CUDA)" CUDA_ARCH="$(CUDA_ARCH)" STATIC="$(STATIC)" \
                 WASM="$(WASM)" WASM_CC="$(WASM_CC)"
PROBE_PLACE   := $(PROBE_OPTIONS) $(PATH) $(CPATH) $(C_INCLUDE_PATH) $(LIBRARY_PATH) $(CUDA_HOME) $(CUDA_PATH)
ifneq ($(shell cat $(BUILD)/probe.options 2> /dev/null),$(PROBE_PLACE))
$(shell mkdir -p $(BUILD) && echo '$(PROBE_PLACE)' > $(BUILD)/probe.options)
endif
include $(BUILD)/probe.mk
endif

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla
OPT      ?= -O3
ARCH     ?= -march=native
CFLAGS   ?= $(OPT) -g $(ARCH)
LK_CFLAGS := -std=c11 -D_GNU_SOURCE -I. -pthread -fno-math-errno $(WARNINGS) $(PROBE_CFLAGS)
LK_LIBS   := $(PROBE_LIBS) $(PROBE_CUDA_LIBS) -ldl -lm -pthread
# No exceptions and no run-time types: the objects link as C.
NVCCFLAGS ?= -O3 -lineinfo
LK_NVCCFLAGS := -std=c++17 -D_GNU_SOURCE -I. $(PROBE_GENCODE) \
                -Xcompiler -Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
ifneq ($(WERROR),0)
LK_CFLAGS += -Werror
LK_NVCCFLAGS += -Werror all-warnings -Xcompiler -Werror
endif
ifneq ($(SAN),)
LK_CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
LK_LIBS   += -fsanitize=$(SAN)
# gcc warns that ThreadSanitizer does not see fences; preload/record.c has one, for readers in other processes.
LK_CFLAGS += $(if $(findstring thread,$(SAN)),-Wno-tsan)
endif
ifneq ($(COVERAGE),)
LK_CFLAGS += --coverage
LK_LIBS   += --coverage
endif
Q := $(if $(V),,@)

# One module.mk a room may add flags (<room>_CFLAGS). A room's sources are the files in its folder and
# in its sub-rooms: x.c, and with CUDA x.cu and x_cuda.c.
room_files = $(wildcard $(addprefix $(1)/,*.$(2) */*.$(2)))
-include $(addsuffix /module.mk,$(ROOMS))

define room_rules
$(1)_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %_cuda.c,$(call room_files,$(1),c)))
ifeq ($(PROBE_CUDA),yes)
$(1)_OBJ += $(patsubst %,$(BUILD)/%.o,$(call room_files,$(1),cu)) \
            $(patsubst %.c,$(BUILD)/%.o,$(filter %_cuda.c,$(call room_files,$(1),c)))
endif
$$($(1)_OBJ): $(wildcard $(1)/module.mk)
# A folder changes when a source goes, which its objects do not show.
$(BUILD)/lib$(1).a: $$($(1)_OBJ) $(1) $(filter-out $(wildcard $(1)/*.*),$(wildcard $(1)/*))
	$$(Q)mkdir -p $$(@D)
	$$(Q)rm -f $$@ && ar rcs $$@ $$(filter %.o,$$^)
endef
$(foreach r,$(ROOMS),$(eval $(call room_rules,$(r))))
LIBS := $(foreach r,$(ROOMS),$(if $(call room_files,$(r),c),$(BUILD)/lib$(r).a))

# Tests and benchmarks of CUDA's files likewise.
NOT_BUILT := $(if $(filter yes,$(PROBE_CUDA)),,%_cuda.c)
TEST_DIRS := $(addprefix tests/,$(ROOMS) page preload tools rigs fakes)
TEST_SRC  := $(filter-out $(NOT_BUILT),$(wildcard tests/*.c $(addsuffix /*.c,$(TEST_DIRS))))
TEST_NAMES = $(sort $(patsubst test_%.c,%,$(filter test_%.c,$(notdir $(TEST_SRC)))))
TEST_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(TEST_SRC) $(wildcard tests/fuzz/*.c))
BENCH_LIB := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/lib/*.c))
BENCH_BIN := $(patsubst bench/%.c,$(BUILD)/bench/%,\
               $(filter-out $(NOT_BUILT),$(wildcard bench/*.c)))

.PHONY: all lib test-bin bench-bin clean
all: $(BUILD)/lockstep $(BUILD)/liblockstep_profile.so
test-bin: $(BUILD)/test_lockstep
bench-bin: $(BENCH_BIN)

# probe.mk and probe.flags change only with what was found, probe.stamp with each search.
$(BUILD)/probe.mk $(BUILD)/probe.flags: $(BUILD)/probe.stamp ;
$(BUILD)/probe.stamp: tools/probe tools/needs.sh $(BUILD)/probe.options $(PROBE_SEARCHED)
	$(Q)mkdir -p $(BUILD) && touch $@.new
	$(Q)$(PROBE_OPTIONS) tools/probe $(BUILD)/probe.mk
	$(Q)mv $@.new $@

$(BUILD)/%.o: %.c $(BUILD)/probe.flags Makefile
	$(Q)mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) $(LK_CFLAGS) $($(firstword $(subst /, ,$<))_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/%.cu.o: %.cu $(BUILD)/probe.flags Makefile
	$(Q)mkdir -p $(@D)
	@echo "  NVCC  $<"
	$(Q)$(PROBE_NVCC) $(NVCCFLAGS) $(LK_NVCCFLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@

$(BUILD)/lockstep.o: LK_CFLAGS += -DLK_VERSION='"$(VERSION)"' -DLK_BUILD_CC='"$(notdir $(CC))"' \
                          $(if $(PROBE_CUDA_TEXT),-DLK_BUILD_CUDA='"$(PROBE_CUDA_TEXT)"')
$(BUILD)/lockstep.o: VERSION

# The libraries to link with are in probe.mk alone: objects do not change with them.
$(BUILD)/lockstep: $(BUILD)/lockstep.o $(LIBS) $(BUILD)/probe.mk
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(BUILD)/lockstep.o -Wl,--start-group $(LIBS) -Wl,--end-group $(LK_LIBS)

# The test program takes its suites from the files' names: tests/ROOM/test_x.c has lk_suite_x.
$(BUILD)/tests/suites.inc: $(TEST_SRC) $(BUILD)/probe.mk
	$(Q)mkdir -p $(@D)
	$(Q)for f in $(TEST_NAMES); do echo "X($$f)"; done > $@
$(BUILD)/tests/main.o: $(BUILD)/tests/suites.inc
# The test program runs the fuzz targets over their corpora, each under the name of its file.
ifeq ($(findstring fuzzer,$(SAN)),)
$(BUILD)/tests/fuzz/%.o: LK_CFLAGS += -DLLVMFuzzerTestOneInput=$(notdir $(basename $@))
endif
$(BUILD)/tests/%.o: LK_CFLAGS += -I$(BUILD) -DLK_BUILD_DIR='"$(BUILD)"'

# In the test program allocations can be made to fail (tests/rigs/failing_alloc.h), and assertions in loops cost little
# (tests/rigs/mark_point.c).
TEST_WRAP := $(foreach f,malloc calloc realloc strdup strndup vasprintf free _mark_point,-Wl,--wrap=$(f))

$(BUILD)/test_lockstep: $(TEST_OBJ) $(BUILD)/libbench.a $(LIBS) $(BUILD)/lockstep $(BUILD)/bench/overhead $(BUILD)/bench/accuracy_scaling $(BUILD)/bench/accuracy_collectives $(BUILD)/bench/comm_mpi $(BUILD)/probe.mk
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(TEST_WRAP) -o $@ $(TEST_OBJ) -Wl,--start-group $(BUILD)/libbench.a $(LIBS) -Wl,--end-group $(PROBE_CHECK_LIBS) $(LK_LIBS)

# A tool for NVTX, which the program loads when NVTX_INJECTION64_PATH names it.
ifneq ($(findstring LK_HAVE_NVTX,$(PROBE_CFLAGS)),)
test-bin bench-bin: $(BUILD)/nvtx_injection.so
$(BUILD)/tests/nvtx/injection.o: LK_CFLAGS += -fPIC -fvisibility=hidden
endif
$(BUILD)/nvtx_injection.so: $(BUILD)/tests/nvtx/injection.o
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(COVERAGE),--coverage) -shared -o $@ $< -ldl -pthread

# A driver that has no GPU, for cuDNN in the tests.
ifneq ($(findstring LK_HAVE_CUDNN,$(PROBE_CFLAGS)),)
test-bin: $(BUILD)/driver.so
$(BUILD)/tests/driver/driver.o: LK_CFLAGS += -fPIC
endif
$(BUILD)/driver.so: $(BUILD)/tests/driver/driver.o
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(COVERAGE),--coverage) -shared -Wl,-soname,libcuda.so.1 -o $@ $<

# What `lockstep profile` loads into every process of a job: nothing of it is seen but the functions that
# it takes the place of. A sanitizer, and the counters of coverage, would be strangers there. It is never
# unloaded: NCCL closes its plugin while callbacks may still come.
PRELOAD_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard preload/*.c))
PRELOAD_LDFLAGS := -shared -Wl,-z,nodelete
$(PRELOAD_OBJ): LK_CFLAGS := $(filter-out -fsanitize=% --coverage,$(LK_CFLAGS)) -fPIC -fvisibility=hidden
$(BUILD)/liblockstep_profile.so: $(PRELOAD_OBJ) preload
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(PRELOAD_LDFLAGS) -Wl,-z,defs -o $@ $(filter %.o,$^) -ldl -pthread

# Tests that load it into their own process take one with the sanitizer and the counters, where there are any.
CHECKED_OBJ := $(PRELOAD_OBJ:$(BUILD)/%=$(BUILD)/checked/%)
$(BUILD)/checked/%.o: %.c $(BUILD)/probe.flags Makefile
	$(Q)mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) $(LK_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@
$(BUILD)/checked.so: $(CHECKED_OBJ) preload
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(SAN),-fsanitize=$(SAN)) $(if $(COVERAGE),--coverage) $(PRELOAD_LDFLAGS) -o $@ $(filter %.o,$^) -ldl -pthread
PRELOAD_TESTED := $(BUILD)/$(if $(SAN)$(COVERAGE),checked,liblockstep_profile).so
test-bin: $(PRELOAD_TESTED)
$(BUILD)/tests/preload/%.o: LK_CFLAGS += -DLK_PRELOAD_TESTED='"$(PRELOAD_TESTED)"'

# A stand-in for MPI in both ABIs, and a program on it, as strange to the preload library as any.
MPI_ABIS := open mpich
MPI_CFLAGS = $(filter-out -fsanitize=% --coverage,$(LK_CFLAGS)) -Itests/mpi $(if $(findstring mpich,$@),-DMPICH_ABI)
test-bin: $(MPI_ABIS:%=$(BUILD)/mpi/%/program) $(BUILD)/liblockstep_profile.so
$(MPI_ABIS:%=$(BUILD)/mpi/%/libmpi.so): tests/mpi/library.c tests/mpi/mpi.h Makefile
	@echo "  LINK  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(MPI_CFLAGS) -Wno-missing-prototypes -fPIC -shared -Wl,-soname,libmpi.so -o $@ $<
$(MPI_ABIS:%=$(BUILD)/mpi/%/program): $(BUILD)/mpi/%/program: tests/mpi/program.c tests/mpi/mpi.h $(BUILD)/mpi/%/libmpi.so
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(MPI_CFLAGS) -o $@ $< -L$(@D) -lmpi -Wl,--disable-new-dtags '-Wl,-rpath,$$ORIGIN' -pthread

# A stand-in for CUPTI, one that lacks what older versions do, and a program on it.
CUPTI_FAKES := $(BUILD)/cupti/libcupti.so.13 $(BUILD)/cupti/libcupti.so.12
test-bin: $(CUPTI_FAKES) $(BUILD)/cupti/program
$(BUILD)/cupti/program: tests/cupti/program.c tests/cupti/cupti.h Makefile
	@echo "  LINK  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(filter-out -fsanitize=% --coverage,$(LK_CFLAGS)) $(LDFLAGS) -o $@ $< -ldl
$(CUPTI_FAKES): tests/cupti/library.c tests/cupti/cupti.h facts/cupti_abi.h Makefile
	@echo "  LINK  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(filter-out -fsanitize=% --coverage,$(LK_CFLAGS)) $(if $(filter %.12,$@),-DFAKE_OLDER) -Wno-missing-prototypes -fPIC -shared -Wl,-soname,$(@F) -o $@ $< -pthread

# A stand-in for a process of PyTorch that asks a daemon whether it is to record. It has no sanitizer, as the programs
# that the preload library is loaded into: a sanitizer's own library wants to be the first.
test-bin: $(BUILD)/kineto_client
$(BUILD)/kineto_client: tests/kineto/client.c Makefile
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(filter-out -fsanitize=% --coverage,$(LK_CFLAGS)) $(LDFLAGS) -o $@ $<

# What several of the benchmarks share.
$(BUILD)/libbench.a: $(BENCH_LIB)
	$(Q)rm -f $@ && ar rcs $@ $^
$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/libbench.a $(LIBS) $(BUILD)/probe.mk
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< -Wl,--start-group $(BUILD)/libbench.a $(LIBS) -Wl,--end-group $(LK_LIBS)

clean:
	rm -rf $(BUILD)

include tools/cuda.mk
include tools/page.mk
include tools/targets.mk

# Not those of the Debian that tools/bare makes there.
-include $(shell find $(BUILD) -path $(BUILD)/bare -prune -o -name '*.d' -print 2>/dev/null)
