# The forecast as WebAssembly, for the page of `lockstep report`: clang compiles the same sources for WASI as the program
# has, and page/ in place of what a page has not. WASM=no leaves it out; nothing else needs it.

PAGE_WASM := $(BUILD)/page/lockstep.wasm
# What needs a system, or makes traces; page/memory.c and page/absent.c stand for what is called of it.
PAGE_LEFT_OUT := $(addprefix base/,clock.c file.c gz.c json_scan_file.c library.c limits.c progress.c terminal.c thread.c) \
    facts/preset.c facts/span.c $(wildcard facts/trace*.c) sim/step/simulate.c
PAGE_SRC := $(wildcard page/*.c) $(filter-out $(PAGE_LEFT_OUT),$(foreach r,base facts sim,$(call room_files,$(r),c))) \
    $(addprefix reports/,cell.c gates.c junit.c markdown.c page.c print.c prometheus.c text_table.c) \
    $(addprefix reports/chart/,axis.c chart.c svg.c svg_marks.c svg_texts.c xml.c) \
    $(wildcard reports/plot/*.c) \
    $(addprefix commands/,axis_lists.c command.c evidence_inputs.c forecast_ask.c forecast_page.c inputs.c output.c predict.c start.c whatif.c)
PAGE_OBJ := $(PAGE_SRC:%.c=$(BUILD)/page/%.o)

# WASI has one monotonic clock. Sections of their own let the linker leave out what no command calls.
PAGE_CFLAGS := --target=wasm32-wasi -std=c11 -D_GNU_SOURCE -I. -O2 -DCLOCK_MONOTONIC_RAW=CLOCK_MONOTONIC \
    -DLK_VERSION='"$(VERSION)"' -fno-math-errno -ffp-contract=off -ffunction-sections -fdata-sections \
    $(filter-out -Wconversion -Wpedantic,$(WARNINGS)) $(if $(filter-out 0,$(WERROR)),-Werror)
# The stack lies below all data, so that one that is too deep ends the module and changes nothing.
PAGE_LDFLAGS := --target=wasm32-wasi -mexec-model=reactor -Wl,--gc-sections,--strip-all,--stack-first,-z,stack-size=1048576 \
    $(foreach f,alloc free put remove text size error ask draw,-Wl,--export=page_$(f))

$(BUILD)/page/%.o: %.c $(BUILD)/probe.flags Makefile tools/page.mk
	$(Q)mkdir -p $(@D)
	@echo "  WASM  $<"
	$(Q)$(PROBE_WASM_CC) $(PAGE_CFLAGS) -MMD -MP -c $< -o $@
$(PAGE_WASM): $(PAGE_OBJ)
	@echo "  LINK  $@"
	$(Q)$(PROBE_WASM_CC) $(PAGE_LDFLAGS) -o $@ $(PAGE_OBJ)
$(PAGE_WASM).gz: $(PAGE_WASM)
	$(Q)gzip -9nc $< > $@.new && mv $@.new $@

# Its bytes, and the script, lie in the program.
$(BUILD)/reports/whatif_module.o: page/model.js page/page.js page/page.css $(BUILD)/probe.mk
ifeq ($(PROBE_WASM),yes)
$(BUILD)/reports/whatif_module.o: $(PAGE_WASM).gz
$(BUILD)/reports/whatif_module.o: LK_CFLAGS += -DLK_PAGE_WASM='"$(PAGE_WASM).gz"'
test-bin: $(PAGE_WASM)
else
$(BUILD)/reports/whatif_module.o: LK_CFLAGS += $(if $(filter off,$(PROBE_WASM)),-DLK_PAGE_OFF)
endif
