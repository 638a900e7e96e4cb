# A run's trace says which version made it.
commands_CFLAGS := -DLK_VERSION='"$(VERSION)"'
$(BUILD)/commands/run_rank.o: VERSION
