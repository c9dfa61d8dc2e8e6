#!/usr/bin/env bash
# The layout of the firmware's images: what the boot ROM of an RT1062 and the loader of a Teensy would take passes
# scripts/check-image, and an image with any one thing wrong does not. The two ports share every object but their own.
# timeout: 300
set -u
fw=build/firmware
if ! command -v arm-none-eabi-gcc >/dev/null || [ ! -e $fw/src/complete ]; then
    echo "SKIP images_are_as_the_boot_rom_wants_them: no images; make firmware"
    exit 0
fi
make --no-print-directory -s SHOAL_SETUP=skip $fw/shoal-teensy41.hex $fw/shoal-mps2.elf $fw/teensy41-in-qemu.hex >&2 || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
ok() { echo "ok - $1"; }
not_ok() {
    echo "not ok - $1"
    failed=1
}
image=$fw/shoal-teensy41.elf

if scripts/check-image $image && scripts/check-image $fw/teensy41-in-qemu.elf; then
    ok images_are_as_the_boot_rom_wants_them
else
    not_ok images_are_as_the_boot_rom_wants_them
fi

# One word of the headers changed at a time: each is looked at.
arm-none-eabi-objcopy -O binary --only-section=.headers $image "$work/headers"
missed=""
for at in 0x000 0x004 0x00c 0x044 0x050 0x080 0x084 0x088 0x090 0x0b0 0x0d0 0x100 0x110 0x114 0x130 0x1c0 0x1c4 0x1d0 \
    0x1000 0x1004 0x1008 0x100c 0x1010 0x1014 0x1018 0x101c 0x1020 0x1024 0x1028; do
    cp "$work/headers" "$work/changed"
    printf '\x5a\xa5\x11\x00' | dd of="$work/changed" bs=1 seek=$((at)) conv=notrunc status=none
    arm-none-eabi-objcopy --update-section .headers="$work/changed" $image "$work/changed.elf" 2>/dev/null
    scripts/check-image "$work/changed.elf" 2>/dev/null && missed="$missed $at"
done
[ -z "$missed" ] && ok every_word_of_the_headers_is_checked || not_ok "every_word_of_the_headers_is_checked: not$missed"

# Sections where they must not be.
missed=""
refuses() { # WHAT ADDRESS: a section with content there
    head -c 64 /dev/zero >"$work/bytes"
    arm-none-eabi-objcopy --add-section .extra="$work/bytes" --set-section-flags .extra=alloc,load,readonly,data \
        --change-section-address ".extra=$2" $image "$work/changed.elf" 2>/dev/null
    scripts/check-image "$work/changed.elf" 2>"$work/said" && missed="$missed $1"
}
map() { sed -nE "s/^ *FLASHMAP_$1 = (0x[0-9A-Fa-f]+|[0-9]+),?\$/\1/p" firmware/core/flashmap.h; }
for place in PROVISION IDENTITY LOG FRAGMENTS IMAGE_B; do
    refuses "$place" $((0x60000000 + $(map $place)))
done
refuses outside 0x70000000
refuses upon_the_vectors 0x60002000
refuses across_the_border $((0x60000000 + 0x42000 - 32))
[ -z "$missed" ] && ok nothing_lies_outside_the_image || not_ok "nothing_lies_outside_the_image: accepted in$missed"

# What the linker wrote and what the loader would read are the same bytes.
arm-none-eabi-objcopy -O binary $image "$work/flash"
arm-none-eabi-objcopy -I ihex -O binary $fw/shoal-teensy41.hex "$work/from-hex"
cmp -s "$work/flash" "$work/from-hex" && ok the_hex_file_is_the_image || not_ok the_hex_file_is_the_image
# Debian's loader reads the file before it looks for a board, and says how many bytes it found.
loader=the_loader_reads_the_hex_file
if command -v teensy_loader_cli >/dev/null; then
    bytes=0
    while read -r n count; do bytes=$((bytes + 16#$n * count)); done < <(sed -nE 's/^:(..)....00.*/\1/p' $fw/shoal-teensy41.hex | sort | uniq -c | awk '{print $2, $1}')
    said=$(timeout 10 teensy_loader_cli --mcu=TEENSY41 -v $fw/shoal-teensy41.hex 2>&1)
    case $said in
    *": $bytes bytes, "*"% usage"*) ok $loader ;;
    *) echo "$said" && not_ok $loader ;;
    esac
else
    echo "SKIP $loader: no teensy_loader_cli"
fi

name=both_ports_share_all_objects_but_their_own
if scripts/shared-objects $fw/shoal-mps2.map $fw/shoal-teensy41.map && scripts/shared-objects $fw/shoal-teensy41.map $fw/teensy41-in-qemu.map >/dev/null; then ok $name; else not_ok $name; fi
sed 's#obj/firmware/core/board.o#obj/own/board.o#' $fw/shoal-mps2.map >"$work/other.map"
scripts/shared-objects "$work/other.map" $fw/shoal-teensy41.map >/dev/null 2>&1 && not_ok an_object_of_its_own_is_noticed || ok an_object_of_its_own_is_noticed
exit $failed
