# Shoal: build, test, run. `make help` lists the targets.
#
# Sources are found by folder (docs/architecture.md has the layers); every tests/unit/test_*.c is a cmocka program of
# its own, every tests/fuzz/fuzz_*.c a fuzz target, every tools/*.c a program. Variants live in build folders of their
# own: SANITIZE=1 uses build-sanitize, CC=clang build-clang. V=1 shows the commands.

FACTS ?= ../shared
ifeq ($(origin CC),default)
CC = gcc
endif
ifdef SANITIZE
B ?= build-sanitize
VARIANT = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g -DSHOAL_SANITIZE=1
else
B ?= $(if $(findstring clang,$(CC)),build-clang,build)
VARIANT = -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
endif
WARN = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Werror
COMPILE = $(CC) -std=c11 -D_GNU_SOURCE -I. $(WARN) $(VARIANT) -fPIE -ffile-prefix-map=$(CURDIR)=. -MMD -MP $(CFLAGS)
LINK = $(CC) $(VARIANT) -fPIE -pie -Wl,-z,relro,-z,now,-z,noexecstack $(LDFLAGS)
LIBS = -lmicrohttpd -lsqlite3 -ljansson -lmbedtls -lmbedx509 -lmbedcrypto -lseccomp -lpthread -lm
MAKEFLAGS += --no-builtin-rules
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif
Q = $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)')

SHARED_SRC = $(wildcard shared/*/*.c)
CORE_SRC = $(wildcard firmware/core/*.c)
SERVER_SRC = $(wildcard server/*/*.c)
HOST_SRC = $(wildcard firmware/port/host/*.c) firmware/net/tls_client.c
# Drivers of the Teensy, which a unit test runs against fake registers.
TEENSY_SRC = $(addprefix firmware/port/teensy41/,chip.c clock.c console.c enet.c flexspi.c phy.c rmii.c trng.c)
SUPPORT_SRC = $(wildcard tests/support/*.c)
# What tools take of it: it needs no package of the tests.
TOOL_SUPPORT_SRC = $(addprefix tests/support/,build_graph.c tflite_model.c tflite_write.c)
obj = $(patsubst %.c,$(B)/%.o,$(1))
PURE_OBJ = $(call obj,$(SHARED_SRC) $(CORE_SRC))
LIB_OBJ = $(PURE_OBJ) $(call obj,$(SERVER_SRC) $(filter-out %/main.c,$(HOST_SRC)) $(TEENSY_SRC)) $(B)/embedded_web.o $(B)/embedded_migrations.o
PROGRAMS = $(B)/shoal $(B)/shoal-board
TOOLS = $(patsubst tools/%.c,$(B)/%,$(wildcard tools/*.c))
TESTS = $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
BENCHES = $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/bench_*.c))
FUZZERS = $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

all: $(PROGRAMS) $(TOOLS)                     ## the server and command line (build/shoal), the host board (build/shoal-board)

$(B)/%.o: %.c Makefile | setup-build
	@mkdir -p $(@D)
	$(call say,CC  $<)
	$(Q)$(COMPILE) -c $< -o $@

$(B)/%.o: $(B)/%.c Makefile | setup-build
	$(call say,CC  $<)
	$(Q)$(COMPILE) -c $< -o $@

# Regenerated whenever asked, rewritten only when an asset changed: a file that went away is noticed too.
$(B)/embedded_web.c $(B)/embedded_migrations.c: $(B)/embedded_%.c: force | setup-build
	@mkdir -p $(@D)
	@scripts/embed $* $@

# stb's code shifts into the sign bit; the address sanitizer stays on for it.
$(call obj,server/import/stb.c tests/support/image_file.c): CFLAGS += $(if $(SANITIZE),-fno-sanitize=undefined)

$(B)/libshoal.a: $(LIB_OBJ)
	$(call say,AR  $@)
	@rm -f $@
	$(Q)ar rcsD $@ $^

$(B)/libsupport.a: $(call obj,$(SUPPORT_SRC))
	@rm -f $@
	$(Q)ar rcsD $@ $^

$(B)/shoal: $(call obj,server/main.c) $(B)/libshoal.a
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

$(B)/shoal-board: $(call obj,$(HOST_SRC)) $(B)/libshoal.a
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

$(TOOLS): $(B)/%: $(B)/tools/%.o $(call obj,$(TOOL_SUPPORT_SRC)) $(B)/libshoal.a
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

# The demo model's trainer: scripts/train-digits runs it. Floats must not be fused, for the same model everywhere.
$(call obj,$(wildcard tools/digits/*.c)): CFLAGS += -O3 -ffp-contract=off
$(B)/train_digits: $(call obj,$(wildcard tools/digits/*.c)) $(B)/libsupport.a $(B)/libshoal.a
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

$(B)/tests/%: $(B)/tests/unit/%.o $(B)/libsupport.a $(B)/libshoal.a
	@mkdir -p $(@D)
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS) -lcmocka

$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/driver.o $(B)/libsupport.a $(B)/libshoal.a
	@mkdir -p $(@D)
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

$(B)/hostile_board: $(B)/tests/chaos/hostile_board.o $(B)/libshoal.a
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

$(B)/hostile_server: $(B)/tests/firmware/hostile_server.o $(B)/libshoal.a
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

$(B)/bench/%: $(B)/tests/bench/%.o $(B)/libsupport.a $(B)/libshoal.a
	@mkdir -p $(@D)
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

tests: $(TESTS) $(FUZZERS) $(B)/train_digits $(B)/hostile_board

$(call obj,$(wildcard tests/unit/*.c) $(filter-out $(TOOL_SUPPORT_SRC),$(SUPPORT_SRC))): | setup-test

# Packages of Debian and of npm (build/node): looked up on every call (a few milliseconds), installed only when missing.
# SHOAL_SETUP=skip leaves it out.
# What is asked for stands first, so that its packages are installed in one go.
setup-build: | $(addprefix setup-,$(filter test run firmware,$(MAKECMDGOALS)))
setup-build setup-test setup-run setup-firmware:
	@scripts/setup $(@:setup-%=%)

run: setup-run all $(if $(filter qemu,$(BOARDS)),firmware) ## server, three host boards and a demo model on 127.0.0.1:8080; Ctrl-C ends it; BOARDS=qemu: emulated ones
	@B=$(B) BOARDS=$(BOARDS) exec scripts/run

test: setup-test setup-firmware all tests firmware-tests ## all tests; ONLY=PATTERN runs those whose name matches
	@B=$(B) FACTS=$(FACTS) SANITIZE=$(SANITIZE) tests/run '$(ONLY)'

test-sanitize:                                ## the same under address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory SANITIZE=1 test

test-chaos: setup-test all                    ## the long series of kill -9 (50 seeds)
	@B=$(B) FACTS=$(FACTS) SANITIZE=$(SANITIZE) CHAOS_SEEDS=50 tests/run chaos/

test-firmware: setup-test all firmware-tests build/firmware/slirp-board ## the firmware's tests on emulated boards, the long ones too
	@B=$(B) FACTS=$(FACTS) SANITIZE=$(SANITIZE) LONG=1 tests/run firmware/

fuzz:                                         ## every fuzz target for FUZZ_SECONDS (20) each, under the sanitizers
	@$(MAKE) --no-print-directory SANITIZE=1 fuzz-run

fuzz-run: setup-test $(FUZZERS)
	@for f in $(FUZZERS); do echo "  $$f"; $$f --seconds $${FUZZ_SECONDS:-20} || exit 1; done

bench: $(BENCHES)                             ## measure; judges nothing
	@for b in $(BENCHES); do $$b || exit 1; done

include firmware/firmware.mk
include tests/firmware/kernels/kernels.mk

pure-objects: $(PURE_OBJ)
	@echo $^

screenshots: setup-test all                   ## the README's pictures anew, in docs/images
	@B=$(B) scripts/screenshots

SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h')
format:                                       ## rewrite the C sources by .clang-format
	@clang-format -i $(SOURCES)

check-format:                                 ## name the C sources that `make format` would change
	@clang-format --dry-run -Werror $(SOURCES)

clean:                                        ## remove what was built; data/ stays
	rm -rf build build-sanitize build-clang

help:                                         ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1 == "all" ? "" : $$1, $$2}' Makefile

.PHONY: all tests test test-sanitize test-chaos test-firmware fuzz fuzz-run run setup-build setup-test setup-run pure-objects
.PHONY: setup-firmware firmware-sources bench screenshots format check-format clean help force
.SECONDARY:
.DELETE_ON_ERROR:
-include $(shell find $(B) -path '*/firmware/src' -prune -o -name '*.d' -type f -print 2>/dev/null)
