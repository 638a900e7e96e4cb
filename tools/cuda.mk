# CUDA kernels in the tests: on the host (any C++ compiler with AddressSanitizer), and on a GPU.

# The sources of kernels/, compiled for the host with tests/cuda_shim in place of CUDA's headers, twice:
# tests/cuda_shim/shim.h says what each finds. -fsanitize=thread only makes the calls of hooks.cc.
SHIM_CXX    := $(CXX) -std=c++17 -O2 -g -D_GNU_SOURCE -I. -Itests/cuda_shim -fno-omit-frame-pointer \
               -fno-exceptions -Wall -Wextra -Wno-unknown-pragmas -fsanitize=alignment -fno-sanitize-recover=alignment
# AddressSanitizer within the program, as clang links it: a kernel's threads switch by its functions, and through a
# library's table of symbols that takes twice as long. gcc may have the library alone.
SHIM_LINK    = $(CXX) -fsanitize=address,alignment $(shell echo 'int main() {}' > $(BUILD)/shim/empty.cc && \
               $(CXX) -fsanitize=address -static-libasan -o $(BUILD)/shim/empty $(BUILD)/shim/empty.cc 2> /dev/null && \
               echo -static-libasan)
SHIM_races  := -fsanitize=thread
SHIM_bounds := -fsanitize=address
ifneq ($(WERROR),0)
SHIM_CXX += -Werror
endif
SHIM_CU   := $(wildcard kernels/*.cu tests/cuda_shim/*.cu)
SHIM_BASE := $(patsubst %,$(BUILD)/shim/%.o,tests/cuda_shim/count.cc tests/cuda_shim/shadow.cc tests/cuda_shim/shim.cc) \
             $(BUILD)/tests/cuda_shim/main.o $(BUILD)/tests/cuda_shim/blas.o
CASE_OBJ  := $(patsubst %,$(BUILD)/tests/cuda/%.o,buffers case_fused case_image case_lowrank case_optimizers cases)

$(BUILD)/shim/%.cc.o: %.cc $(BUILD)/probe.flags
	$(Q)mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(SHIM_CXX) -MMD -MP -c $< -o $@

# The launchers here stand before those that libkernels.a has for the GPU.
define shim_rules
$(BUILD)/shim/$(1)/%.cu.o: %.cu $(BUILD)/probe.flags
	$$(Q)mkdir -p $$(@D)
	@echo "  CXX   $$< ($(1))"
	$$(Q)$$(SHIM_CXX) $$(SHIM_$(1)) -MMD -MP -c -x c++ $$< -o $$@
$(BUILD)/cuda_shim_$(1): $(patsubst %,$(BUILD)/shim/$(1)/%.o,$(SHIM_CU)) $(SHIM_BASE) $(CASE_OBJ) $(2) $(LIBS) $(BUILD)/probe.mk
	@echo "  LINK  $$@"
	$$(Q)$$(SHIM_LINK) -o $$@ $$(filter %.o,$$^) $(BUILD)/libkernels.a $(BUILD)/libfacts.a $(BUILD)/libbase.a $$(LK_LIBS)
endef
$(eval $(call shim_rules,races,$(BUILD)/shim/tests/cuda_shim/hooks.cc.o))
$(eval $(call shim_rules,bounds,))

# test_gpu takes its suites from the files' names: tests/cuda/suite_x.c has gpu_suite_x.
GPU_SUITES := $(wildcard tests/cuda/suite_*.c)
$(BUILD)/tests/cuda/suites.inc: $(GPU_SUITES)
	$(Q)mkdir -p $(@D)
	$(Q)for f in $(patsubst tests/cuda/suite_%.c,%,$(GPU_SUITES)); do echo "X($$f)"; done > $@
$(BUILD)/tests/cuda/gpu.o: $(BUILD)/tests/cuda/suites.inc
GPU_OBJ := $(patsubst %,$(BUILD)/tests/%.o,cuda/gpu cuda/gpu_machine rigs/kept_spans rigs/nccl_cases) $(GPU_SUITES:%.c=$(BUILD)/%.o) $(CASE_OBJ)
$(BUILD)/test_gpu: $(GPU_OBJ) $(LIBS) $(BUILD)/probe.mk
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(PROBE_CHECK_LIBS) $(LK_LIBS)

ifeq ($(PROBE_SHIM)$(SAN),yes)
test-bin: $(BUILD)/cuda_shim_races $(BUILD)/cuda_shim_bounds
$(BUILD)/tests/tools/test_kernel_table_cuda.o $(patsubst %,$(BUILD)/tests/kernels/test_shim_%.o,orders races): LK_CFLAGS += -DLK_HAVE_SHIM
endif
ifeq ($(PROBE_CUDA),yes)
test-bin: $(BUILD)/test_gpu
endif

# The programs with a machine that is none below them (tests/dry/machine.h), for tools/check-gpu.
DRY_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/dry/libraries_cuda.c,$(wildcard tests/dry/*.c)) $(wildcard tests/fakes/*.c) tests/rigs/graph_run.c)
DRY_BIN := $(addprefix $(BUILD)/dry/,lockstep bench/machine_cuda bench/kernels_cuda)
$(BUILD)/tests/dry/libraries_cuda.o: LK_CFLAGS += -fPIC
# The launchers for a GPU under names of their own, gpu_OP_cuda, beside those of tests/dry.
DRY_OBJ += $(BUILD)/dry/launchers.o
$(BUILD)/dry/launchers.o: $(filter %.cu.o,$(kernels_OBJ))
	$(Q)mkdir -p $(@D)
	$(Q)ld -r -o $@ $^ && objcopy $$(nm -g --defined-only $@ | sed -n 's/.* T \(lk_\(.*_cuda\)\)$$/--redefine-sym \1=gpu_\2/p') $@
$(DRY_BIN): $(BUILD)/dry/%: $(BUILD)/%.o $(DRY_OBJ) $(LIBS) $(BUILD)/probe.mk
	$(Q)mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(DRY_OBJ) -Wl,--start-group $(LIBS) -Wl,--end-group $(filter-out -lcudart%,$(LK_LIBS))
# test_gpu's own assertions are libcheck's, whose hooks work in tests alone.
$(BUILD)/dry/machine.o: $(DRY_OBJ)
	$(Q)mkdir -p $(@D)
	$(Q)ld -r -o $@ $^ && objcopy --localize-symbol=_ck_assert_failed --localize-symbol=_mark_point $@
$(BUILD)/dry/test_gpu: $(GPU_OBJ) $(BUILD)/dry/machine.o $(LIBS) $(BUILD)/probe.mk
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(PROBE_CHECK_LIBS) $(filter-out -lcudart%,$(LK_LIBS))
$(BUILD)/dry/libraries.so: $(BUILD)/tests/dry/libraries_cuda.o
	$(Q)mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $<
ifneq ($(and $(filter yes,$(PROBE_CUDA)),$(findstring LK_HAVE_CUPTI,$(PROBE_CFLAGS)),$(findstring LK_HAVE_NCCL,$(PROBE_CFLAGS)),$(findstring LK_HAVE_NVTX,$(PROBE_CFLAGS))),)
test-bin: $(DRY_BIN) $(BUILD)/dry/step_count $(BUILD)/dry/test_gpu $(BUILD)/dry/libraries.so $(BUILD)/bench/overhead
endif

# Counts a step's launches.
$(BUILD)/dry/step_count: $(BUILD)/tests/count/step_count_cuda.o $(DRY_OBJ) $(LIBS) $(BUILD)/probe.mk
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(filter-out -lcudart%,$(LK_LIBS))

# What runs on a GPU machine, and the same for one that has neither zlib nor check: built here, carried
# there in build/gpu.
GPU_PROGRAMS := lockstep liblockstep_profile.so test_gpu bench/kernels_cuda bench/machine_cuda bench/overhead
CARRY_ARCH   := $(if $(filter x86_64,$(shell uname -m)),-march=x86-64-v3)
BUNDLE_ARCH  ?= all
# A quarter of the size (CUDA 12.8 or newer).
BUNDLE_NVCCFLAGS ?= -O3 -lineinfo --compress-mode=size
.PHONY: gpu-programs gpu-bundle check-gpu
ifeq ($(PROBE_CUDA),yes)
gpu-programs: $(addprefix $(BUILD)/,$(GPU_PROGRAMS))
else
gpu-programs:
	@echo 'lockstep: no CUDA Toolkit: these programs are for GPUs' >&2; exit 1
endif
gpu-bundle:
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) BUILD=$(BUILD)/carry STATIC=1 BLAS=no CUDA=yes CUDA_ARCH="$(BUNDLE_ARCH)" \
	    ARCH="$(CARRY_ARCH)" NVCCFLAGS="$(BUNDLE_NVCCFLAGS)" gpu-programs
	$(Q)tools/gpu-bundle $(BUILD)/carry $(BUILD)/gpu $(GPU_PROGRAMS)

# CHECK_GPU="--parts ddp,torch" and other options of tools/check-gpu.
check-gpu:
	$(Q)tools/check-gpu --build $(BUILD) $(CHECK_GPU) || { rc=$$?; [ $$rc = 77 ] && echo "check-gpu: skipped: no GPU here, nothing was checked"; exit $$rc; }
