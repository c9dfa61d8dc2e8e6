# The images for Cortex-M7 boards. Objects lie in build/firmware/obj, one set for both ports: an image is these and the
# objects of its port's folder. Ours compile under the same warnings as everything, and no function may use more than 1 KiB
# of stack; lwIP and mbedTLS compile as they are.

FW = build/firmware
FW_CC = arm-none-eabi-gcc
FW_ARCH = -mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16
FW_LWIP = $(FW)/src/lwip/src
FW_TLS = $(FW)/src/mbedtls
FW_VERSION := $(shell sed -n 's/.*SHOAL_VERSION "\(.*\)".*/\1/p' server/base/version.h)
FW_COMMON = $(FW_ARCH) -O2 -g -std=c11 -ffunction-sections -fdata-sections -fno-common -ffile-prefix-map=$(CURDIR)=. -MMD -MP
FW_INCLUDE = -I. -isystem firmware/net -isystem $(FW_LWIP)/include -isystem $(FW_TLS)/include \
	-DMBEDTLS_CONFIG_FILE='"firmware/net/mbedtls_config.h"' -DSHOAL_FIRMWARE_VERSION='"$(FW_VERSION)"'
FW_OURS = $(FW_COMMON) $(WARN) -Wstack-usage=1024 $(FW_INCLUDE)
FW_THEIRS = $(FW_COMMON) -w $(FW_INCLUDE)

FW_LWIP_SRC = $(addprefix core/,def.c dns.c inet_chksum.c init.c ip.c mem.c memp.c netif.c pbuf.c stats.c sys.c tcp.c tcp_in.c \
	tcp_out.c timeouts.c udp.c ipv4/acd.c ipv4/dhcp.c ipv4/etharp.c ipv4/icmp.c ipv4/ip4.c ipv4/ip4_addr.c ipv4/ip4_frag.c) \
	netif/ethernet.c
FW_LWIP_SRC := $(filter-out core/ipv4/acd.c,$(FW_LWIP_SRC))
FW_TLS_SRC = asn1parse asn1write bignum chacha20 chachapoly cipher cipher_wrap constant_time ecdh ecdsa ecp ecp_curves entropy \
	entropy_poll hmac_drbg md memory_buffer_alloc oid pk pk_wrap pkparse pkwrite platform platform_util poly1305 sha256 ssl_cli \
	ssl_msg ssl_tls ssl_ciphersuites x509 x509_create x509_crt x509write_csr
FW_SHARED_OBJ = $(patsubst %.c,$(FW)/obj/%.o,$(SHARED_SRC) $(CORE_SRC) $(wildcard firmware/net/*.c firmware/port/m7/*.c)) \
	$(patsubst %.c,$(FW)/obj/lwip/%.o,$(FW_LWIP_SRC)) $(patsubst %,$(FW)/obj/mbedtls/%.o,$(FW_TLS_SRC))
fw_port_obj = $(patsubst %.c,$(FW)/obj/%.o,$(wildcard firmware/port/$(1)/*.c))
FW_IMAGES = $(FW)/shoal-mps2.elf $(FW)/shoal-teensy41.elf

firmware-sources: $(FW)/src/complete
$(FW)/src/complete: scripts/firmware-sources | setup-firmware
	@scripts/firmware-sources $(FW)/src
	@touch $@

$(FW)/obj/lwip/%.o: $(FW)/src/complete firmware/net/lwipopts.h firmware/net/arch/cc.h firmware/firmware.mk
	@mkdir -p $(@D)
	$(call say,CC  lwip/$*.c (M7))
	$(Q)$(FW_CC) $(FW_THEIRS) -c $(FW_LWIP)/$*.c -o $@

$(FW)/obj/mbedtls/%.o: $(FW)/src/complete firmware/net/mbedtls_config.h firmware/firmware.mk
	@mkdir -p $(@D)
	$(call say,CC  mbedtls/$*.c (M7))
	$(Q)$(FW_CC) $(FW_THEIRS) -c $(FW_TLS)/library/$*.c -o $@

$(FW)/obj/%.o: %.c firmware/firmware.mk | $(FW)/src/complete
	@mkdir -p $(@D)
	$(call say,CC  $< (M7))
	$(Q)$(FW_CC) $(FW_OURS) -c $< -o $@

FW_LINK = $(FW_CC) $(FW_ARCH) -nostartfiles -L. -Wl,--gc-sections,--fatal-warnings -Wl,-Map=$(@:.elf=.map)

$(FW)/shoal-mps2.elf: $(FW_SHARED_OBJ) $(call fw_port_obj,mps2) $(wildcard firmware/port/m7/*.ld firmware/port/mps2/*.ld)
	$(call say,LD  $@)
	$(Q)$(FW_LINK) -T firmware/port/mps2/mps2.ld $(filter %.o,$^) -o $@

# Faults and resets, one after another, in the place of the board: for tests/firmware/faults.sh.
$(FW)/shoal-faults.elf: $(filter-out %/m7_main.o,$(FW_SHARED_OBJ)) $(FW)/obj/tests/firmware/faults.o \
		$(call fw_port_obj,mps2) $(wildcard firmware/port/m7/*.ld firmware/port/mps2/*.ld)
	$(call say,LD  $@)
	$(Q)$(FW_LINK) -T firmware/port/mps2/mps2.ld $(filter %.o,$^) -o $@

include firmware/port/teensy41/teensy41.mk

# The same session code, lwIP and mbedTLS as a process over libslirp, always under the sanitizers.
FW_HOST = $(FW)/host
FW_HOST_FLAGS = -O1 -g -std=c11 -D_GNU_SOURCE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
	-ffile-prefix-map=$(CURDIR)=. -MMD -MP $(FW_INCLUDE)
FW_HOST_OBJ = $(patsubst $(FW)/obj/%,$(FW_HOST)/%,$(filter-out $(FW)/obj/firmware/port/m7/%,$(FW_SHARED_OBJ))) \
	$(patsubst %.c,$(FW_HOST)/%.o,$(wildcard firmware/port/slirp/*.c))
$(FW_HOST)/lwip/%.o: $(FW)/src/complete firmware/net/lwipopts.h firmware/net/arch/cc.h firmware/firmware.mk
	@mkdir -p $(@D)
	$(Q)gcc $(FW_HOST_FLAGS) -w -c $(FW_LWIP)/$*.c -o $@
$(FW_HOST)/mbedtls/%.o: $(FW)/src/complete firmware/net/mbedtls_config.h firmware/firmware.mk
	@mkdir -p $(@D)
	$(Q)gcc $(FW_HOST_FLAGS) -w -c $(FW_TLS)/library/$*.c -o $@
$(FW_HOST)/%.o: %.c firmware/firmware.mk | $(FW)/src/complete
	@mkdir -p $(@D)
	$(call say,CC  $< (slirp))
	$(Q)gcc $(FW_HOST_FLAGS) $(WARN) -c $< -o $@
$(FW)/slirp-board: $(FW_HOST_OBJ)
	$(call say,LD  $@)
	$(Q)gcc -fsanitize=address,undefined $^ -o $@ -lslirp

firmware-tests: firmware $(FW)/shoal-faults.elf $(B)/hostile_server $(B)/emulated_flash

firmware: $(FW_IMAGES) $(FW)/shoal-teensy41.hex ## the images for Cortex-M7 boards, with their sizes against the budgets
	@scripts/firmware-sizes $(FW_IMAGES)

.PHONY: firmware firmware-tests firmware-sources
