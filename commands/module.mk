# A run's trace says which version made it.
commands_CFLAGS := -DLK_VERSION='"$(VERSION)"'
$(BUILD)/commands/run_rank.o: VERSION
# Forecasts are kept with the commit of the program that made them; empty: it was not built in a repository.
COMMIT := $(shell git rev-parse --short=12 HEAD 2> /dev/null)
ifneq ($(shell cat $(BUILD)/commit 2> /dev/null),$(COMMIT))
$(shell mkdir -p $(BUILD) && echo '$(COMMIT)' > $(BUILD)/commit)
endif
$(BUILD)/commands/ledger.o: LK_CFLAGS += -DLK_COMMIT='"$(COMMIT)"'
$(BUILD)/commands/ledger.o: VERSION $(BUILD)/commit
