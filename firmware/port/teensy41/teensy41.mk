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
