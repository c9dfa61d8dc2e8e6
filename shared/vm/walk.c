/*
 * Control flow: LOOP, END and the skipping of empty instructions, for all back ends alike. Every way through
 * here counts a step or an execution, and both are bounded, so no program walks for ever. It leaves memory
 * alone.
 */
#include "shared/vm/parts.h"

#include <string.h>

void vm_start(struct vm *vm, const struct fragment *fragment, struct vm_memory memory, struct vm_io io)
{
    memset(vm, 0, sizeof *vm);
    vm->fragment = fragment;
    vm->memory = memory;
    vm->io = io;
    vm->limit = fragment->header->executions;
}

uint16_t vm_layer(const struct vm *vm)
{
    return vm->pc < vm->fragment->n_code ? vm->fragment->code[vm->pc].layer : (uint16_t)FRAGMENT_NONE;
}

static void enter_loop(struct vm *vm, uint8_t counter)
{
    vm->stack[vm->depth++] = (struct vm_loop){vm->pc, counter};
    vm->counter[counter] = 0;
    vm->pc++;
}

static void end_loop(struct vm *vm)
{
    const struct vm_loop *loop = &vm->stack[vm->depth - 1];
    int32_t count = (int32_t)vm->fragment->code[loop->start].arg;
    if (++vm->counter[loop->counter] < count) {
        vm->pc = (uint16_t)(loop->start + 1);
    } else {
        vm->depth--;
        vm->pc++;
    }
}

int vm_fetch(struct vm *vm, struct vm_act *act, int32_t budget)
{
    while (budget-- > 0) {
        if (vm->pc >= vm->fragment->n_code)
            return VM_DONE;
        const struct fragment_code *code = &vm->fragment->code[vm->pc];
        if (code->op == FRAGMENT_LOOP && vm->depth < FRAGMENT_LOOPS_MAX)
            enter_loop(vm, code->loop);
        else if (code->op == FRAGMENT_END && vm->depth > 0)
            end_loop(vm);
        else if (vm_act_evaluate(vm->fragment, vm->counter, vm->pc, act))
            return VM_FETCHED;
        else
            vm->pc++;
        if (++vm->steps > VM_STEPS_MAX)
            return STATUS_FRAGMENT_ENDLESS;
    }
    return VM_RAN;
}

int vm_begin(struct vm *vm)
{
    if (vm->executions >= vm->limit)
        return STATUS_FRAGMENT_ENDLESS;
    vm->executions++;
    return STATUS_OK;
}

void vm_advance(struct vm *vm)
{
    vm->inside = false;
    vm->channel = 0;
    vm->pc++;
}

int vm_count(const struct fragment *fragment, uint32_t *executions)
{
    struct vm vm;
    struct vm_act act;
    vm_start(&vm, fragment, (struct vm_memory){0}, (struct vm_io){0});
    vm.limit = FRAGMENT_EXECUTIONS_MAX;
    int status;
    while ((status = vm_fetch(&vm, &act, INT32_MAX)) == VM_FETCHED) {
        status = vm_begin(&vm);
        if (status != STATUS_OK)
            return status;
        vm_advance(&vm);
    }
    *executions = vm.executions;
    return status;
}
