# Shoal: build, test, run. `make help` lists the targets.
#
# Sources are found by folder (see docs/architecture.md for the layers); every tests/unit/test_*.c is a cmocka
# program of its own. Variants live in build folders of their own: SANITIZE=1 uses build-sanitize.

FACTS ?= ../shared
CC = gcc
ifdef SANITIZE
B = build-sanitize
VARIANT = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g -DSHOAL_SANITIZE=1
else
B = build
VARIANT = -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong
endif
WARN = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Werror
CFLAGS += -std=c11 -D_GNU_SOURCE -I. -I$(B) $(WARN) $(VARIANT) -fPIE -MMD -MP
LDFLAGS += -pie -Wl,-z,relro,-z,now
LIBS = -lmicrohttpd -lsqlite3 -ljansson -lmbedtls -lmbedx509 -lmbedcrypto -lseccomp -lpthread -lm

SHARED_SRC = $(wildcard shared/*/*.c)
CORE_SRC = $(wildcard firmware/core/*.c)
SERVER_SRC = $(wildcard server/*/*.c)
HOST_SRC = $(wildcard firmware/port/host/*.c)
TEST_SRC = $(wildcard tests/unit/test_*.c)
SUPPORT_SRC = $(wildcard tests/support/*.c)
obj = $(patsubst %.c,$(B)/%.o,$(1))
LIB_OBJ = $(call obj,$(SHARED_SRC) $(CORE_SRC) $(SERVER_SRC))
TESTS = $(patsubst tests/unit/%.c,$(B)/tests/%,$(TEST_SRC))

all: $(B)/shoal $(B)/shoal-board

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c $< -o $@

$(B)/libshoal.a: $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(B)/shoal: $(call obj,server/main.c) $(B)/libshoal.a
	$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)

$(B)/shoal-board: $(call obj,$(HOST_SRC)) $(B)/libshoal.a
	$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)

$(B)/tests/%: $(B)/tests/unit/%.o $(call obj,$(SUPPORT_SRC)) $(B)/libshoal.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS) -lcmocka

tests: $(TESTS)

.PHONY: all tests
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
