/*
 * check, first depth: bounds. Walks the program exactly as a run does, over all iterations, and asks of every
 * execution what a run would be refused: boxes against views, weights against boxes, tables against rows;
 * then the executions stated, and the order of transfers. A program that passes never ends a run with
 * STATUS_FRAGMENT_BOUNDS. Needs no memory beyond the stack.
 */
#include "shared/vm/parts.h"

static int refuse(struct fragment_place *place, int status, uint8_t section, uint32_t record,
                  const char *reason)
{
    if (place)
        *place = (struct fragment_place){.record = (uint16_t)record, .section = section, .reason = reason};
    return status;
}

/* ---- what does not depend on counters ---- */

/* The whole of a view lies in its region, used or not. */
static const char *view_fault(const struct fragment *f, const struct fragment_view *v)
{
    uint64_t bytes = v->region == FRAGMENT_REGION_ARENA ? f->header->arena_bytes : f->weight_bytes;
    uint64_t last = v->offset + (uint64_t)(v->rows - 1) * v->row_stride +
                    (uint64_t)(v->w_cap - 1) * v->pixel_stride + (uint64_t)v->c_cap * v->elem;
    return last > bytes ? "reaches beyond its region" : NULL;
}

static const char *slice_fault(const struct fragment *f, uint16_t index)
{
    struct nn_weights w = fragment_weights(f, index, NULL);
    for (int32_t i = 0; w.shift && i < w.c1 - w.c0; i++)
        if (w.shift[i] < -31 || w.shift[i] > 31)
            return "a shift out of range";
    return NULL;
}

/* A range uses counters of enclosing LOOPs only. */
static bool scoped(const struct fragment *f, uint16_t range, uint32_t counters)
{
    for (; range != FRAGMENT_NONE; range = f->ranges[range].parent)
        if (f->ranges[range].loop != FRAGMENT_NO_LOOP && !(counters & 1u << f->ranges[range].loop))
            return false;
    return true;
}

static bool view_scoped(const struct fragment *f, uint16_t view, uint32_t counters)
{
    if (view == FRAGMENT_NONE)
        return true;
    const struct fragment_view *v = &f->views[view];
    return scoped(f, v->h0, counters) && scoped(f, v->w0, counters) && scoped(f, v->c0, counters);
}

static const char *scope_fault(const struct fragment *f, const struct fragment_code *c, uint32_t counters)
{
    if (!scoped(f, c->h, counters) || !scoped(f, c->w, counters) || !scoped(f, c->c, counters) ||
        !scoped(f, c->k, counters))
        return "a range uses a counter outside its LOOP";
    if (!view_scoped(f, c->in[0], counters) || !view_scoped(f, c->in[1], counters) ||
        !view_scoped(f, c->out, counters))
        return "a view uses a counter outside its LOOP";
    return NULL;
}

static int check_code(const struct fragment *f, struct fragment_place *place)
{
    uint8_t stack[FRAGMENT_LOOPS_MAX] = {0};
    uint32_t counters = 0;
    int depth = 0;
    for (uint32_t i = 0; i < f->n_code; i++) {
        const struct fragment_code *c = &f->code[i];
        if (c->op == FRAGMENT_LOOP) {
            stack[depth++] = c->loop;
            counters |= 1u << c->loop;
        } else if (c->op == FRAGMENT_END) {
            counters &= ~(1u << stack[--depth]);
        } else {
            const char *fault = vm_code_fault(f, c);
            if (!fault)
                fault = scope_fault(f, c, counters);
            if (fault)
                return refuse(place, STATUS_FRAGMENT_BOUNDS, FRAGMENT_CODE, i, fault);
        }
    }
    return STATUS_OK;
}

static int check_records(const struct fragment *f, uint32_t arena_bytes, struct fragment_place *place)
{
    if (f->header->arena_bytes > arena_bytes)
        return refuse(place, STATUS_RAM_FULL, FRAGMENT_SECTIONS, FRAGMENT_NONE,
                      "the arena is larger than the board's");
    for (uint16_t i = 0; i < f->n_views; i++) {
        const char *fault = view_fault(f, &f->views[i]);
        if (fault)
            return refuse(place, STATUS_FRAGMENT_BOUNDS, FRAGMENT_VIEWS, i, fault);
    }
    return check_code(f, place);
}

/* ---- what one execution touches ---- */

/* The rows of the present instruction, call by call, from where the last step left it; at least one call, so
 * that any budget gets on. */
static const char *rows_fault(struct vm_check *check, const struct vm_act *act, int32_t *budget)
{
    struct vm *vm = &check->vm;
    struct vm_operand operands[3];
    const char *fault = NULL;
    for (bool first = true; !fault && vm->row < act->row1 && (first || *budget > 0);
         first = false, (*budget)--)
        fault = vm_act_chunk(vm->fragment, act, vm->row, &vm->row, operands);
    return fault;
}

static const char *act_fault(const struct vm *vm, const struct vm_act *act)
{
    struct vm_operand operands[3];
    const char *fault = vm_act_operands(vm->fragment, act, act->row0, act->row1, operands);
    for (int i = 0; !fault && i < 3; i++)
        if (operands[i].view != FRAGMENT_NONE)
            fault = vm_view_fault(vm->fragment, vm->counter, &operands[i]);
    operands[0] = vm_act_scratch(vm->fragment, act->code);
    if (!fault && operands[0].view != FRAGMENT_NONE)
        fault = vm_view_fault(vm->fragment, vm->counter, &operands[0]);
    return fault;
}

static const char *order_fault(struct vm_order *order, const struct vm_act *act)
{
    const char *fault = NULL;
    if (vm_moves(act->code->op))
        fault = vm_order_part(order, act->code, &act->box);
    if (!fault && (act->code->op == FRAGMENT_WAIT || act->code->op == FRAGMENT_RECV))
        fault = vm_order_wait(order, act->code, &act->box);
    return fault;
}

/* VM_RAN: its rows are not all done yet. */
static int check_act(struct vm_check *check, const struct vm_act *act, int32_t *budget,
                     struct fragment_place *place)
{
    struct vm *vm = &check->vm;
    bool by_rows = !vm_moves(act->code->op) && act->code->op != FRAGMENT_WAIT;
    if (!vm->inside) {
        if (vm_begin(vm) != STATUS_OK)
            return refuse(place, STATUS_FRAGMENT_ENDLESS, FRAGMENT_CODE, vm->pc,
                          "executes more than the header states");
        vm->inside = true;
        vm->row = by_rows ? act->row0 : 0;
    }
    const char *fault = by_rows ? rows_fault(check, act, budget) : NULL;
    if (!fault && by_rows && vm->row < act->row1)
        return VM_RAN;
    if (!fault && act->code->op != FRAGMENT_WAIT)
        fault = act_fault(vm, act);
    if (fault)
        return refuse(place, STATUS_FRAGMENT_BOUNDS, FRAGMENT_CODE, vm->pc, fault);
    fault = order_fault(&check->order, act);
    if (fault)
        return refuse(place, STATUS_FRAGMENT_ORDER, FRAGMENT_CODE, vm->pc, fault);
    vm_advance(vm);
    return STATUS_OK;
}

static int check_end(struct vm_check *check, struct fragment_place *place)
{
    if (check->vm.executions != check->vm.limit)
        return refuse(place, STATUS_FRAGMENT_ENDLESS, FRAGMENT_SECTIONS, FRAGMENT_NONE,
                      "executes less than the header states");
    const char *fault = vm_order_end(&check->order);
    return fault ? refuse(place, STATUS_FRAGMENT_ORDER, FRAGMENT_TRANSFERS, check->order.lowest, fault)
                 : STATUS_OK;
}

static int check_slices(struct vm_check *check, int32_t *budget, struct fragment_place *place)
{
    const struct fragment *f = check->vm.fragment;
    for (; check->slices<f->n_slices && * budget> 0; check->slices++) {
        const char *fault = slice_fault(f, check->slices);
        if (fault)
            return refuse(place, STATUS_FRAGMENT_BOUNDS, FRAGMENT_SLICES, check->slices, fault);
        *budget -= 1 + (f->slices[check->slices].c1 - f->slices[check->slices].c0) / 64;
    }
    return STATUS_OK;
}

int vm_check_start(struct vm_check *check, const struct fragment *fragment, uint32_t arena_bytes,
                   struct fragment_place *place)
{
    vm_start(&check->vm, fragment, (struct vm_memory){0}, (struct vm_io){0});
    vm_order_start(&check->order, fragment);
    check->slices = 0;
    return check_records(fragment, arena_bytes, place);
}

/* Not inlined: its frame and that of vm_check_bounds would make one of more than a board's functions may. */
__attribute__((noinline)) int vm_check_step(struct vm_check *check, int32_t budget,
                                            struct fragment_place *place)
{
    struct vm *vm = &check->vm;
    struct vm_act act;
    int status = check_slices(check, &budget, place);
    while (status == STATUS_OK && budget > 0) {
        uint32_t steps = vm->steps;
        status = vm_fetch(vm, &act, budget);
        budget -= (int32_t)(vm->steps - steps) + 1;
        if (status == VM_DONE)
            return check_end(check, place);
        if (status < 0)
            return refuse(place, status, FRAGMENT_CODE, vm->pc, "loops for too long");
        if (status == VM_FETCHED)
            status = check_act(check, &act, &budget, place);
        if (status == VM_RAN && budget > 0)
            status = STATUS_OK;
    }
    return status < 0 ? status : VM_RAN;
}

int vm_check_bounds(const struct fragment *fragment, uint32_t arena_bytes, struct fragment_place *place)
{
    struct vm_check check;
    int status = vm_check_start(&check, fragment, arena_bytes, place);
    if (status != STATUS_OK)
        return status;
    do
        status = vm_check_step(&check, INT32_MAX, place);
    while (status == VM_RAN);
    return status;
}
