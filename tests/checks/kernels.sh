#!/usr/bin/env bash
# The kernels of every layout equal the plain ones, with the instructions of a Cortex-M7 (emulated).
set -u
make --no-print-directory -s build/firmware/kernels/exact.elf || exit 1
if out=$(tests/firmware/kernels/run build/firmware/kernels/exact.elf) && [ "${out##*$'\n'}" = ok ]; then
    echo "ok - kernels_of_every_layout_equal_the_plain_ones_on_a_cortex_m7"
else
    echo "$out"
    echo "not ok - kernels_of_every_layout_equal_the_plain_ones_on_a_cortex_m7"
    exit 1
fi
