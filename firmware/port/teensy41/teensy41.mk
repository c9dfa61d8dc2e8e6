# The image for a Teensy 4.1, and the same image with the drivers of mps2, which QEMU boots behind a stub of the boot ROM
# (tests/firmware). All objects but the port's own are those of mps2's image.

FW_TEENSY_LD = $(wildcard firmware/port/m7/*.ld firmware/port/teensy41/*.ld)
# What the boot ROM and the linker script need of the port, whatever the drivers are.
FW_TEENSY_FRAME = $(addprefix $(FW)/obj/firmware/port/teensy41/,entry.o headers.o)

$(FW)/shoal-teensy41.elf: $(FW_SHARED_OBJ) $(call fw_port_obj,teensy41) $(FW_TEENSY_LD)
	$(call say,LD  $@)
	$(Q)$(FW_LINK) -T firmware/port/teensy41/teensy41.ld $(filter %.o,$^) -o $@

$(FW)/teensy41-in-qemu.elf: $(FW_SHARED_OBJ) $(FW_TEENSY_FRAME) $(filter-out %/mps2_entry.o,$(call fw_port_obj,mps2)) $(FW_TEENSY_LD)
	$(call say,LD  $@)
	$(Q)$(FW_LINK) -T firmware/port/teensy41/teensy41.ld $(filter %.o,$^) -o $@

# For teensy_loader_cli, which takes one file; nothing is made of an image that the boot ROM or the loader would not take.
$(FW)/%.hex: $(FW)/%.elf scripts/check-image
	$(Q)scripts/check-image $<
	$(call say,HEX $@)
	$(Q)arm-none-eabi-objcopy -O ihex $< $@

$(FW)/rom.elf: tests/firmware/rom.c tests/firmware/rom.ld
	@mkdir -p $(@D)
	$(call say,LD  $@)
	$(Q)$(FW_CC) $(FW_ARCH) -O2 -std=c11 $(WARN) -ffreestanding -nostdlib -T tests/firmware/rom.ld $< -o $@

# The board over the Teensy's Ethernet driver on QEMU's mcimx6ul-evk, which has the same controller: a test image, for a
# Cortex-A7 (tests/firmware/enet.sh).
FW_A7_ARCH = -mcpu=cortex-a7 -mthumb -mfloat-abi=soft
FW_A7_SRC = $(SHARED_SRC) $(CORE_SRC) $(wildcard firmware/net/*.c) firmware/port/m7/m7_main.c tests/firmware/enet/a7.c \
	$(addprefix firmware/port/teensy41/,enet.c enet_net.c phy.c)
FW_A7_OBJ = $(patsubst %.c,$(FW)/a7/%.o,$(FW_A7_SRC)) $(patsubst %.c,$(FW)/a7/lwip/%.o,$(FW_LWIP_SRC)) \
	$(patsubst %,$(FW)/a7/mbedtls/%.o,$(FW_TLS_SRC))
$(FW)/a7/%.o: FW_ARCH = $(FW_A7_ARCH)

$(FW)/a7/lwip/%.o: $(FW)/src/complete firmware/net/lwipopts.h firmware/net/arch/cc.h firmware/firmware.mk
	@mkdir -p $(@D)
	$(call say,CC  lwip/$*.c (A7))
	$(Q)$(FW_CC) $(FW_THEIRS) -c $(FW_LWIP)/$*.c -o $@

$(FW)/a7/mbedtls/%.o: $(FW)/src/complete firmware/net/mbedtls_config.h firmware/firmware.mk
	@mkdir -p $(@D)
	$(call say,CC  mbedtls/$*.c (A7))
	$(Q)$(FW_CC) $(FW_THEIRS) -c $(FW_TLS)/library/$*.c -o $@

$(FW)/a7/%.o: %.c firmware/firmware.mk | $(FW)/src/complete
	@mkdir -p $(@D)
	$(call say,CC  $< (A7))
	$(Q)$(FW_CC) $(FW_OURS) -c $< -o $@

$(FW)/enet.elf: $(FW_A7_OBJ) tests/firmware/enet/start.S tests/firmware/enet/a7.ld
	$(call say,LD  $@)
	$(Q)$(FW_CC) $(FW_A7_ARCH) -nostartfiles -Wl,--gc-sections -T tests/firmware/enet/a7.ld tests/firmware/enet/start.S $(FW_A7_OBJ) -o $@

firmware-tests: $(FW)/teensy41-in-qemu.hex $(FW)/rom.elf $(FW)/enet.elf

# The real image on a model of the chip (tests/firmware/model.sh): a program for the host.
$(B)/model_board: $(B)/tests/firmware/model/model_board.o $(B)/tests/firmware/model/model_net.o $(B)/libsupport.a $(B)/libshoal.a
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS) -lunicorn
$(B)/tests/firmware/model/model_board.o: | setup-firmware
firmware-tests: $(B)/model_board
