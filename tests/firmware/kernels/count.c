/*
 * A QEMU plugin that counts instructions exactly: those that a guest executes between two marks. A mark is an
 * instruction that does nothing and that no compiler emits, `mov r10, r10` (0x46d2). The first of two starts,
 * the second prints "count N" to standard error, N without the marks. With -icount nothing else runs in
 * between, so counts repeat.
 *
 * Debian's QEMU exports the plugin interface but ships no header, hence the prototypes here (version 1).
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { CALLBACK_NO_REGISTERS = 0, INLINE_ADD_U64 = 0, MARK = 0x46d2 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*call)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *counter,
                                                uint64_t by);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*call)(unsigned, void *),
                                            int registers, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

extern int qemu_plugin_version;
int qemu_plugin_version = 1;

static uint64_t count, start;
static int counting;

static void on_mark(unsigned cpu, void *data)
{
    (void)cpu;
    (void)data;
    if (counting) /* this mark is counted before it is called for */
        fprintf(stderr, "count %" PRIu64 "\n", count - start - 1);
    start = count;
    counting = !counting;
}

static void on_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint16_t code;
        qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &count, 1);
        if (qemu_plugin_insn_size(insn) != sizeof code)
            continue;
        memcpy(&code, qemu_plugin_insn_data(insn), sizeof code);
        if (code == MARK)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, CALLBACK_NO_REGISTERS, NULL);
    }
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
    return 0;
}
