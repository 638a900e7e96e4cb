# Targets beside the build itself: set-up, tests, tools, installation.

FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: accuracy accuracy-gate fuzz fuzz-bin help setup check check-quick bench asan tsan coverage layering paths headers lint format format-check demo docs kernel-table cases install uninstall validate-net validate-net-short faults faults-once

help:
	@sed -n 's/^#   make/  make/p' Makefile
	@echo '  make asan tsan  the tests under AddressSanitizer + UndefinedBehaviorSanitizer, ThreadSanitizer'
	@echo '  make fuzz SECONDS=60  the fuzz targets of tests/fuzz'
	@echo '  make cases      the tests of rules over random jobs and clusters, CASES (10,000) of each'
	@echo '  make coverage   line coverage of the tests'
	@echo '  make bench      comparisons with PyTorch DDP, gloo and Open MPI; cost of recording; known truths'
	@echo '  make validate-net validate-net-short  the forecast against replays on shaped links (root; 13 min and 75 s)'
	@echo '  make faults faults-once  faults planted in runs on hosts, 20 times each and once (root; 30 min and 90 s)'
	@echo '  make accuracy   docs/accuracy.md again, from the public data in $$LOCKSTEP_DATA or bench/data'
	@echo '  make accuracy-gate  held-out errors and scores against those that the last make accuracy recorded'
	@echo '  make layering headers lint format-check format'
	@echo '  make docs       the tables of options in docs/, from the program'
	@echo '  make install uninstall PREFIX=/usr/local'

setup:
	@tools/setup build check

# SUITES="units json" runs some suites only, SUITES="-units -json" all others.
check: setup
	$(Q)$(MAKE) --no-print-directory check-quick

# Builds use all processors unless the user said -j.
PARALLEL = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

check-quick:
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all test-bin
	$(Q)[ "$(PROBE_CUDA)" != yes ] || [ -n "$(SUITES)$(SAN)" ] || $(BUILD)/test_gpu || [ $$? = 77 ]
	$(Q)$(BUILD)/test_lockstep $(SUITES)

# One question in many words, over random evidence: as many cases as a release must hold.
CASES       ?= 10000
CASE_SUITES := choices action equal_questions node_bandwidth place bounds uncertain_inputs cluster_compare resource \
               job_collectives contradictions
cases:
	$(Q)LOCKSTEP_CASES=$(CASES) CK_DEFAULT_TIMEOUT=3600 $(MAKE) --no-print-directory check-quick SUITES="$(CASE_SUITES)"

# With CUDA, for the C files around it: what nvcc compiles has no sanitizer, and its kernels have tests of their own kind.
# Each test is a fork that ends with a search for leaks: the default quarantine of freed memory, 256 MiB, which the
# parent fills with libcheck's messages, would make every one of them slower than its test.
asan:
	$(Q)ASAN_OPTIONS=$${ASAN_OPTIONS:-quarantine_size_mb=16} $(MAKE) --no-print-directory BUILD=$(BUILD)/asan SAN=address,undefined OPT=-O1 WASM=no check-quick
# No OpenMP runtime under ThreadSanitizer: it cannot see inside, so plain loops replace BLAS.
tsan:
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan SAN=thread OPT=-O1 BLAS=no CUDA=no WASM=no check-quick

# libFuzzer's targets over the library, SECONDS each. The corpora that they find stay in the build folder.
SECONDS ?= 60
fuzz:
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) CC=clang BUILD=$(BUILD)/fuzz OPT=-O1 BLAS=no CUDA=no WASM=no \
	    SAN=fuzzer-no-link,address,undefined fuzz-bin
	$(Q)tools/fuzz $(BUILD)/fuzz $(SECONDS)
fuzz-bin: $(FUZZ_BIN)
$(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(LIBS) $(BUILD)/probe.mk
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer -o $@ $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LK_LIBS)

coverage:
	@tools/setup coverage
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/coverage COVERAGE=1 OPT=-O0 BLAS=$(BLAS) CUDA=no WASM=no check-quick
	$(Q)tools/coverage $(BUILD)/coverage

layering:
	@tools/layering
paths:
	@tools/paths
headers:
	@CC="$(CC)" tools/headers
lint: $(BUILD)/probe.mk
	@tools/lint $(BUILD)
SOURCES = $(wildcard *.c $(foreach d,$(ROOMS) page preload tests bench,$(foreach x,c h cc cu cuh,$(d)/*.$(x) $(d)/*/*.$(x))))
format:
	@clang-format -i $(SOURCES)
format-check:
	@clang-format --dry-run -Werror $(SOURCES)

demo:
	@tools/setup build demo
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all
	@tools/demo $(BUILD)

# Half an hour of comparisons with peers; wants a machine that does nothing else.
bench:
	@tools/setup build bench
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all bench-bin
	$(BUILD)/bench/span
	$(BUILD)/bench/kernels
	$(BUILD)/bench/overhead
	$(BUILD)/bench/truth
	$(BUILD)/bench/truth_links
	bench/ddp.py
	bench/allreduce.sh

# Skipped with a message (exit 77 of the script) where network namespaces cannot be made.
validate-net validate-net-short:
	@tools/setup build net
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all $(BUILD)/bench/net
	@tests/net/validate $(if $(filter %-short,$@),short,full) $(BUILD) || [ $$? = 77 ]

# Each fault of tests/net/faults 20 times, or once; skipped as above.
faults faults-once:
	@tools/setup build net
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all
	@REPEAT=$(if $(filter %-once,$@),1,20) tests/net/faults $(BUILD) || [ $$? = 77 ]

# The generated parts of docs/accuracy.md and the record of accuracy-gate, from public data; some minutes.
accuracy:
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all bench-bin
	@tools/accuracy $(BUILD)

# Fails where an error or score is worse than recorded; some seconds. Suite accuracy_gate does the same in make check.
accuracy-gate:
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) $(BUILD)/bench/accuracy_scaling $(BUILD)/bench/accuracy_collectives
	@tools/accuracy_gate $(BUILD)

docs: all
	$(Q)tools/options $(BUILD)/lockstep
	$(Q)tools/pictures $(BUILD)
# What nvcc made of the kernels, in docs/gpu.md.
kernel-table:
	$(Q)tools/kernels $(PROBE_NVCC)

# The program prints its manual pages, lockstep.1 and lockstep-COMMAND.1 for each command of its help, and the completions
# of shells.
MAN = $(DESTDIR)$(PREFIX)/share/man/man1
BASH_COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS  = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISH_COMPLETIONS = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
install: all
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin lib share/lockstep/clusters) $(MAN) $(BASH_COMPLETIONS) \
	    $(ZSH_COMPLETIONS) $(FISH_COMPLETIONS)
	install -m 755 $(BUILD)/lockstep $(DESTDIR)$(PREFIX)/bin/lockstep
	install -m 644 $(BUILD)/liblockstep_profile.so $(DESTDIR)$(PREFIX)/lib/
	install -m 644 $(wildcard clusters/*.json) $(DESTDIR)$(PREFIX)/share/lockstep/clusters/
	install -m 644 bench/data/nccl_tables.csv $(DESTDIR)$(PREFIX)/share/lockstep/
	$(BUILD)/lockstep help --man > $(MAN)/lockstep.1
	for c in $$($(BUILD)/lockstep help | sed -n '/^commands:/,/^$$/s/^  \([a-z]*\) .*/\1/p'); do \
	    $(BUILD)/lockstep help --man $$c > $(MAN)/lockstep-$$c.1 || exit 1; done
	$(BUILD)/lockstep help --completion bash > $(BASH_COMPLETIONS)/lockstep
	$(BUILD)/lockstep help --completion zsh > $(ZSH_COMPLETIONS)/_lockstep
	$(BUILD)/lockstep help --completion fish > $(FISH_COMPLETIONS)/lockstep.fish
	chmod 644 $(MAN)/lockstep*.1 $(BASH_COMPLETIONS)/lockstep $(ZSH_COMPLETIONS)/_lockstep $(FISH_COMPLETIONS)/lockstep.fish
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/lockstep $(DESTDIR)$(PREFIX)/lib/liblockstep_profile.so
	rm -f $(MAN)/lockstep.1 $(MAN)/lockstep-*.1 $(BASH_COMPLETIONS)/lockstep $(ZSH_COMPLETIONS)/_lockstep \
	    $(FISH_COMPLETIONS)/lockstep.fish
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/lockstep/,nccl_tables.csv $(wildcard clusters/*.json))
