# Kernels on an emulated Cortex-M7, without a firmware around them: an image that proves them, one that counts them.

KERNELS = $(FW)/kernels
KERNELS_CC = $(FW_CC) $(FW_ARCH) -O2 -g -std=c11 -ffunction-sections -fdata-sections -ffile-prefix-map=$(CURDIR)=. -MMD -MP $(WARN) -I.
KERNELS_SRC = $(SHARED_SRC) tests/support/nn_exact.c tests/firmware/kernels/image.c
KERNELS_OBJ = $(patsubst %.c,$(KERNELS)/%.o,$(KERNELS_SRC))

$(KERNELS)/%.o: %.c tests/firmware/kernels/kernels.mk | setup-firmware
	@mkdir -p $(@D)
	$(call say,CC  $< (M7))
	$(Q)$(KERNELS_CC) -c $< -o $@

$(KERNELS)/%.elf: $(KERNELS)/tests/firmware/kernels/%.o $(KERNELS_OBJ) tests/firmware/kernels/image.ld
	$(call say,LD  $@)
	$(Q)$(FW_CC) $(FW_ARCH) -nostartfiles -Wl,--gc-sections -T tests/firmware/kernels/image.ld $(filter %.o,$^) -o $@

# As compiled, for the model of cycles.
$(KERNELS)/tiles.s: shared/nn/tiles.c tests/firmware/kernels/kernels.mk | setup-firmware
	@mkdir -p $(@D)
	$(Q)$(KERNELS_CC) -S $< -o $@

$(KERNELS)/count.so: tests/firmware/kernels/count.c | setup-firmware
	@mkdir -p $(@D)
	$(call say,CC  $<)
	$(Q)$(CC) -std=c11 $(WARN) -O2 -shared -fPIC $< -o $@

# On the host: the fragment of a network, its input and its answer, for the image that runs it.
$(KERNELS)/fragment: $(call obj,tests/firmware/kernels/fragment.c) $(B)/libshoal.a
	@mkdir -p $(@D)
	$(call say,LD  $@)
	$(Q)$(LINK) $^ -o $@ $(LIBS)

kernels: $(addprefix $(KERNELS)/,exact.elf bench.elf whole.elf count.so fragment)

setup-kernels:
	@scripts/setup kernels

bench-firmware: setup-kernels kernels $(KERNELS)/tiles.s  ## instructions and modelled cycles of the Cortex-M7 kernels; judges nothing
	@KERNELS=$(KERNELS) FACTS=$(FACTS) tests/firmware/kernels/table

.PHONY: kernels setup-kernels bench-firmware
