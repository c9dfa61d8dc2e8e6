/*
 * The order of transfers and the rule of posting (ENCODING C2, C3), followed over one walk. The table of
 * transfers is sorted by rank and id, and each link and direction begins its transfers in that order, one
 * after another; so "posted or queued" needs no bit a transfer: in a lane everything below the present index
 * is done. A transfer that was left out shows at the end, where the number done must be that of the table.
 */
#include "shared/vm/parts.h"

enum { COORDINATOR = 0, RECEIVED = 0, SENT = 1 };

void vm_order_start(struct vm_order *order, const struct fragment *fragment)
{
    *order = (struct vm_order){.fragment = fragment};
}

/* The lane of a transfer, made when it is new; NULL beyond VM_PEERS_MAX. */
static struct vm_lane *lane_of(struct vm_order *order, const struct fragment_transfer *t)
{
    bool sent = t->from == order->fragment->header->party;
    uint16_t party = sent ? t->to : t->from;
    for (int32_t i = 0; i < order->peers; i++)
        if (order->peer[i].party == party)
            return &order->peer[i].lane[sent ? SENT : RECEIVED];
    if (order->peers == VM_PEERS_MAX)
        return NULL;
    order->peer[order->peers].party = party;
    order->peer[order->peers].lane[RECEIVED] = order->peer[order->peers].lane[SENT] =
        (struct vm_lane){FRAGMENT_NONE, 0};
    return &order->peer[order->peers++].lane[sent ? SENT : RECEIVED];
}

static bool is_done(struct vm_order *order, uint32_t index)
{
    const struct fragment_transfer *t = &order->fragment->transfers[index];
    const struct vm_lane *lane = lane_of(order, t);
    if (!lane || lane->transfer == FRAGMENT_NONE || index > lane->transfer)
        return false;
    return index < lane->transfer || lane->row == t->h1;
}

/* In its LOOPs there is no WAIT and at most one RECV: another would wait for something behind rows not yet
 * made. */
static const char *loop_fault(const struct fragment *f, const struct fragment_code *code)
{
    int32_t at = (int32_t)(code - f->code), depth = 0, first = -1;
    for (int32_t i = 0; i < at; i++) {
        depth += (f->code[i].op == FRAGMENT_LOOP) - (f->code[i].op == FRAGMENT_END);
        if (depth == 0)
            first = -1;
        else if (first < 0)
            first = i;
    }
    if (first < 0)
        return "a part of a transfer outside a LOOP";
    int32_t receives = 0;
    depth = 0;
    for (int32_t i = first; i < f->n_code; i++) {
        depth += (f->code[i].op == FRAGMENT_LOOP) - (f->code[i].op == FRAGMENT_END);
        if (depth == 0)
            return NULL;
        receives += f->code[i].op == FRAGMENT_RECV;
        if (f->code[i].op == FRAGMENT_WAIT || receives > 1)
            return "waits for something else within a transfer by rows";
    }
    return NULL;
}

static const char *begin(struct vm_lane *lane, const struct vm_order *order, const struct fragment_code *code)
{
    const struct fragment_transfer *t = &order->fragment->transfers[code->arg];
    if (lane->transfer != FRAGMENT_NONE) {
        const struct fragment_transfer *last = &order->fragment->transfers[lane->transfer];
        if (lane->row != last->h1)
            return "begins before the transfer ahead of it is complete";
        if (t->rank < last->rank || (t->rank == last->rank && t->id <= last->id))
            return "transfers out of order";
    }
    *lane = (struct vm_lane){(uint16_t)code->arg, t->h0};
    return NULL;
}

const char *vm_order_part(struct vm_order *order, const struct fragment_code *code, const struct vm_box *box)
{
    const struct fragment_transfer *t = &order->fragment->transfers[code->arg];
    struct vm_lane *lane = lane_of(order, t);
    if (!lane)
        return "too many peers";
    if (box->w0 != t->w0 || box->w1 != t->w1 || box->c0 != t->c0 || box->c1 != t->c1 || box->h1 > t->h1)
        return "not the transfer's box";
    const char *fault = NULL;
    if (lane->transfer != code->arg)
        fault = begin(lane, order, code);
    if (!fault && lane->row != box->h0)
        fault = "rows out of order, or twice";
    bool part = box->h0 != t->h0 || box->h1 != t->h1;
    if (!fault && part && t->from != COORDINATOR && t->to != COORDINATOR)
        fault = "only the coordinator's link takes a transfer by rows";
    if (!fault && part && box->h0 == t->h0)
        fault = loop_fault(order->fragment, code);
    if (fault)
        return fault;
    lane->row = (uint16_t)box->h1;
    order->done += lane->row == t->h1;
    while (order->lowest < order->fragment->n_transfers && is_done(order, order->lowest))
        order->lowest++;
    return NULL;
}

const char *vm_order_wait(struct vm_order *order, const struct fragment_code *code, const struct vm_box *box)
{
    const struct fragment *f = order->fragment;
    if (order->lowest == f->n_transfers)
        return NULL;
    uint32_t open = f->transfers[order->lowest].rank, rank = code->arg;
    bool by_rows = false;
    if (code->op == FRAGMENT_RECV) {
        const struct fragment_transfer *t = &f->transfers[code->arg];
        rank = t->rank;
        by_rows = box->h0 != t->h0 || box->h1 != t->h1;
    }
    if (open > rank || (by_rows && open == rank))
        return NULL;
    return "waits before all of that rank are posted and queued";
}

const char *vm_order_end(struct vm_order *order)
{
    return order->done == order->fragment->n_transfers ? NULL : "a transfer is missing";
}
