# pyright: basic
"""The compiled core: what `EngineCore` and `Scheduler` do, for whole traces, in compiled loops.

Only `compiled` imports it, and only where a trace is played: importing numba takes a second. The
state of an engine is a row of arrays; requests are numbers in the order of arrival. Each rule is
that of the class named beside it, which stays the reference.
"""

import math

import numpy as np
from numba import njit

ROUND_ROBIN, LEAST_REQUEST = 0, 1

(
    C_DENSE_FLOPS, C_PADDED, C_EXPERTS, C_CHOSEN, C_PEAK, C_PAIR_FLOPS, C_ATTENTION_PEAK, C_BYTES,
    C_ACTIVE, C_WHOLE, C_EXPERT, C_BANDWIDTH, C_KV_BYTES, C_KV_BANDWIDTH, C_FIXED, C_LINK_TOKEN,
    C_SHARED, C_IS_SEPARATE, C_LEAST_TILE, C_MOST_TILE, C_COUNT,
) = range(21)  # fmt: skip
"""Figures of `CostModel`, in an array."""
(
    E_STEP, E_RUNNING, E_WAITING, E_FIRST, E_LAST, E_FREE, E_USED, E_FREE_FIRST, E_FREE_LAST,
    E_PREEMPTED, E_QUERIES, E_HITS, E_STEPS, E_SLOTS, E_COUNT,
) = range(15)  # fmt: skip
"""Fields of an engine. Its times are in an array of their own: when the last step ended, and when
the running one ends, or -1."""
_NONE = -1


@njit(cache=True, error_model="numpy")
def step_seconds(c, prompt, decode, context, pairs, distinct):
    """`CostModel.step_seconds` without stages, adapters, speculation and expert parallelism."""
    tokens = prompt + decode
    flops = c[C_DENSE_FLOPS] * tokens
    touched = 0.0
    if c[C_EXPERT] > 0:
        drawn = c[C_EXPERTS] * (1 - (1 - c[C_CHOSEN] / c[C_EXPERTS]) ** tokens)
        touched = (c[C_ACTIVE] - c[C_CHOSEN] * c[C_EXPERT]) + drawn * c[C_EXPERT]
        if c[C_PADDED] > 0:
            each = tokens * c[C_CHOSEN] / c[C_EXPERTS]
            tile = min(c[C_MOST_TILE], max(c[C_LEAST_TILE], each))
            flops += c[C_PADDED] * (drawn * tile / 2)
    else:
        touched = min(c[C_WHOLE], c[C_ACTIVE] * max(1.0, tokens**0.75))
    if distinct < context:
        context = distinct + c[C_SHARED] * (context - distinct)
    reads, kv = touched * c[C_BYTES], context * c[C_KV_BYTES]
    rest = c[C_FIXED] + tokens * c[C_LINK_TOKEN]
    if c[C_IS_SEPARATE] > 0:
        products = max(flops / c[C_PEAK], reads / c[C_BANDWIDTH])
        attention = max(pairs * c[C_PAIR_FLOPS] / c[C_ATTENTION_PEAK], kv / c[C_KV_BANDWIDTH])
        return products + attention + rest
    compute = (flops + pairs * c[C_PAIR_FLOPS]) / c[C_PEAK]
    return max(compute, (reads + kv) / c[C_BANDWIDTH]) + rest


@njit(cache=True, error_model="numpy", inline="always")
def _name(request, index, k, shared, prompt, size, base):
    """The name of a block of a request: equal names are equal prefixes."""
    if index < k[request, 1]:
        return k[request, 0] + index
    if k[request, 2] != _NONE and index < prompt[request] // size:
        return k[request, 2] + index
    return shared + request * base + index


@njit(cache=True, error_model="numpy", inline="always")
def _detach(e, after, before, block):
    a, b = before[block], after[block]
    if a == _NONE:
        e[E_FREE_FIRST] = b
    else:
        after[a] = b
    if b == _NONE:
        e[E_FREE_LAST] = a
    else:
        before[b] = a
    e[E_FREE] -= 1


@njit(cache=True, error_model="numpy", inline="always")
def _take(e, after, before, held, names, by_name, shared):
    """`KvCache._take`: a block that was never used, or the one that was freed first."""
    if e[E_USED] < held.shape[0]:
        block = e[E_USED]
        e[E_USED] += 1
    else:
        block = e[E_FREE_FIRST]
        _detach(e, after, before, block)
        name = names[block]
        if name != _NONE:
            if name < shared:
                by_name[name] = _NONE
            names[block] = _NONE
    held[block] = 1
    return block


@njit(cache=True, error_model="numpy", inline="always")
def _free_blocks(e, held):
    return e[E_FREE] + held.shape[0] - e[E_USED]


@njit(cache=True, error_model="numpy")
def _release(e, after, before, held, names, table, count):
    """`KvCache.release`: the tail first; blocks without a name are used again first."""
    for index in range(count - 1, -1, -1):
        block = table[index]
        held[block] -= 1
        if held[block]:
            continue
        e[E_FREE] += 1
        if names[block] == _NONE:
            before[block], after[block] = _NONE, e[E_FREE_FIRST]
            if e[E_FREE_FIRST] == _NONE:
                e[E_FREE_LAST] = block
            else:
                before[e[E_FREE_FIRST]] = block
            e[E_FREE_FIRST] = block
        else:
            before[block], after[block] = e[E_FREE_LAST], _NONE
            if e[E_FREE_LAST] == _NONE:
                e[E_FREE_FIRST] = block
            else:
                after[e[E_FREE_LAST]] = block
            e[E_FREE_LAST] = block


@njit(cache=True, error_model="numpy")
def _publish(request, first, last, table, own, names, by_name, k, shared, prompt, size, base):
    """`Scheduler.publish`: name the blocks that are full now."""
    for index in range(first, last):
        name = _name(request, index, k, shared, prompt, size, base)
        if name < shared:
            if by_name[name] == _NONE:
                by_name[name] = table[index]
                names[table[index]] = name
        elif own[index] == _NONE or names[own[index]] != name:
            own[index] = table[index]
            names[table[index]] = name


@njit(cache=True, error_model="numpy")
def _cached(request, slot, most, own, names, by_name, k, shared, prompt, size, base):
    """`KvCache.cached_prefix`: the number of leading blocks that are in the cache."""
    for index in range(most):
        name = _name(request, index, k, shared, prompt, size, base)
        if name < shared:
            if by_name[name] == _NONE:
                return index
        elif slot == _NONE or own[index] == _NONE or names[own[index]] != name:
            return index
    return most


@njit(cache=True, error_model="numpy")
def _decode(
    until, c, limits, e, t, running, after, before, held, names, by_name, tables, owns, work, r,
    last_token, k, shared, prompt, output, base,
):  # fmt: skip
    """`EngineCore._steady`: steps that only decode, up to a time and before an answer ends.

    Nothing but the contexts changes in them. Requests are sorted by the tokens in their last block,
    so that a step touches only those that begin or fill one.
    """
    most_running, size, caches = limits[1], limits[2], limits[3]
    count = e[E_RUNNING]
    if count == 0 or (e[E_WAITING] > 0 and count < most_running) or count > limits[0]:
        return
    steps = _free_blocks(e, held) // count * size
    context = 0
    for position in range(count):
        request = running[position]
        if r[request, 1] == 0 or prompt[request] + r[request, 1] - r[request, 0] != 1:
            return
        steps = min(steps, output[request] - r[request, 1] - 1)
        context += r[request, 0] + 1
    if steps < 1:
        return
    starts = np.zeros(size + 1, np.int64)
    for position in range(count):
        starts[r[running[position], 0] % size + 1] += 1
    for phase in range(size):
        starts[phase + 1] += starts[phase]
    ends = starts.copy()
    for position in range(count):
        request = running[position]
        phase = r[request, 0] % size
        work[ends[phase]] = request
        ends[phase] += 1
    now = t[0]
    done = 0
    while done < steps:
        phase = -done % size
        for position in range(starts[phase], starts[phase + 1]):
            request = work[position]
            if r[request, 2] * size == r[request, 0] + done:
                block = _take(e, after, before, held, names, by_name, shared)
                tables[r[request, 8], r[request, 2]] = block
                r[request, 2] += 1
        distinct = (held.shape[0] - _free_blocks(e, held)) * size
        end = now + step_seconds(c, 0, count, context, context, distinct)
        if end > until:
            break
        now = end
        context += count
        if caches:
            phase = (size - 1 - done) % size
            for position in range(starts[phase], starts[phase + 1]):
                request = work[position]
                slot = r[request, 8]
                full = (r[request, 0] + done + 1) // size
                _publish(request, r[request, 3], full, tables[slot], owns[slot], names, by_name, k,
                         shared, prompt, size, base)  # fmt: skip
                r[request, 3] = full
                r[request, 4] = max(r[request, 4], full)
        done += 1
    if done == 0:
        return
    for position in range(count):
        request = running[position]
        r[request, 0] += done
        r[request, 1] += done
        last_token[request] = now
    t[0] = now
    e[E_STEP] += done
    e[E_STEPS] += done


@njit(cache=True, error_model="numpy")
def advance(
    until, c, limits, e, t, running, following, after, before, held, names, by_name, tables, owns,
    slots, work, r, first_token, last_token, k, shared, prompt, output, base,
):  # fmt: skip
    """`EngineCore.advance`: compute everything up to a time.

    Columns of `r`, by request: computed, generated, blocks, published, known names, preemptions,
    cached tokens, first step, slot.
    """
    most_tokens, most_running, size, caches, chunked, _ = limits
    while True:
        if t[1] >= 0.0:  # a step runs
            if t[1] > until:
                return
            now = t[1]
            t[0], t[1] = now, -1.0
            e[E_STEPS] += 1
            kept = 0
            ended = 0
            for position in range(e[E_RUNNING]):
                request = running[position]
                tokens = work[position]
                slot = r[request, 8]
                if tokens:
                    r[request, 0] += tokens
                    if caches and r[request, 0] >= (r[request, 3] + 1) * size:
                        full = r[request, 0] // size
                        _publish(request, r[request, 3], full, tables[slot], owns[slot], names,
                                 by_name, k, shared, prompt, size, base)  # fmt: skip
                        r[request, 3] = full
                        r[request, 4] = max(r[request, 4], full)
                    if r[request, 0] >= prompt[request] + r[request, 1]:
                        r[request, 1] += 1
                        last_token[request] = now
                        if math.isnan(first_token[request]):
                            first_token[request] = now
                        if r[request, 1] >= output[request]:
                            _release(e, after, before, held, names, tables[slot], r[request, 2])
                            r[request, 2] = 0
                            slots[e[E_SLOTS]] = slot
                            e[E_SLOTS] += 1
                            ended += 1
                            continue
                running[kept] = request
                kept += 1
            e[E_RUNNING] = kept
        if e[E_RUNNING] + e[E_WAITING] == 0:
            return
        _decode(until, c, limits, e, t, running, after, before, held, names, by_name, tables, owns,
                work, r, last_token, k, shared, prompt, output, base)  # fmt: skip
        # EngineCore._begin
        late = e[E_STEP]
        if e[E_RUNNING] == 0 and r[e[E_FIRST], 7] > late:
            request = e[E_FIRST]
            while request != _NONE:
                r[request, 7] = 0
                request = following[request]
        budget = most_tokens
        prompts = decodes = 0
        context, pairs = 0.0, 0.0
        preempted = False
        position = 0
        while position < e[E_RUNNING]:
            request = running[position]
            pending = prompt[request] + r[request, 1] - r[request, 0]
            tokens = min(pending, budget)
            if tokens == 0:
                break
            slot = r[request, 8]
            missing = 0
            if r[request, 0] + tokens > r[request, 2] * size:
                missing = (r[request, 0] + tokens + size - 1) // size - r[request, 2]
            is_lost = False
            while missing > 0:
                if _free_blocks(e, held) >= missing:
                    for _ in range(missing):
                        block = _take(e, after, before, held, names, by_name, shared)
                        tables[slot, r[request, 2]] = block
                        r[request, 2] += 1
                    break
                e[E_RUNNING] -= 1
                victim = running[e[E_RUNNING]]
                place = r[victim, 8]
                _release(e, after, before, held, names, tables[place], r[victim, 2])
                r[victim, 2] = r[victim, 3] = r[victim, 0] = 0
                r[victim, 5] += 1
                following[victim] = e[E_FIRST]
                if e[E_FIRST] == _NONE:
                    e[E_LAST] = victim
                e[E_FIRST] = victim
                e[E_WAITING] += 1
                e[E_PREEMPTED] += 1
                preempted = True
                if victim == request:
                    is_lost = True
                    break
            if is_lost:
                break
            work[position] = tokens
            position += 1
            budget -= tokens
            if r[request, 1] > 0 and pending == 1:
                decodes += tokens
            else:
                prompts += tokens
            context += r[request, 0] + tokens
            pairs += tokens * (r[request, 0] + (tokens + 1) / 2)
        worked = position
        for rest in range(position, e[E_RUNNING]):
            work[rest] = 0
        while (
            not preempted
            and e[E_FIRST] != _NONE
            and budget > 0
            and e[E_RUNNING] < most_running
            and r[e[E_FIRST], 7] <= late
        ):
            request = e[E_FIRST]
            length = prompt[request] + r[request, 1]
            slot = r[request, 8]
            own = owns[max(slot, 0)]
            cached = 0
            if caches:
                most = min((length - 1) // size, r[request, 4])
                cached = _cached(request, slot, most, own, names, by_name, k, shared, prompt, size,
                                 base)  # fmt: skip
            tokens = length - cached * size
            if tokens > budget:
                if not chunked:
                    break
                tokens = budget
            needed = (cached * size + tokens + size - 1) // size - cached
            idle = 0
            for index in range(cached):
                name = _name(request, index, k, shared, prompt, size, base)
                block = by_name[name] if name < shared else own[index]
                idle += held[block] == 0
            if needed > _free_blocks(e, held) - idle:
                break
            if slot == _NONE:
                e[E_SLOTS] -= 1
                slot = slots[e[E_SLOTS]]
                r[request, 8] = slot
            for index in range(cached):
                name = _name(request, index, k, shared, prompt, size, base)
                block = by_name[name] if name < shared else own[index]
                if held[block] == 0:
                    _detach(e, after, before, block)
                held[block] += 1
                tables[slot, index] = block
            for index in range(cached, cached + needed):
                tables[slot, index] = _take(e, after, before, held, names, by_name, shared)
            r[request, 2] = cached + needed
            r[request, 0] = cached * size
            r[request, 3] = cached
            if r[request, 5] == 0:
                r[request, 6] = cached * size
                e[E_QUERIES] += prompt[request]
                e[E_HITS] += cached * size
            e[E_FIRST] = following[request]
            if e[E_FIRST] == _NONE:
                e[E_LAST] = _NONE
            e[E_WAITING] -= 1
            running[e[E_RUNNING]] = request
            work[e[E_RUNNING]] = tokens
            e[E_RUNNING] += 1
            worked += 1
            budget -= tokens
            if r[request, 1] > 0 and tokens == 1 and length - cached * size == 1:
                decodes += tokens
            else:
                prompts += tokens
            context += r[request, 0] + tokens
            pairs += tokens * (r[request, 0] + (tokens + 1) / 2)
        e[E_STEP] += 1
        if worked == 0 and not preempted:
            return
        distinct = (held.shape[0] - _free_blocks(e, held)) * size
        seconds = 0.0
        if worked:
            seconds = step_seconds(c, prompts, decodes, context, pairs, distinct)
        t[1] = t[0] + seconds


@njit(cache=True, error_model="numpy")
def play(
    arrival, prompt, output, k, shared, base, route, engines, cs, limits, es, ts, running,
    following, after, before, held, names, by_name, tables, owns, slots, work, r, first_token,
    last_token, replica,
):  # fmt: skip
    """`Cluster.play`: send each request to the replica that the route chooses."""
    count = arrival.shape[0]
    for n in range(count + 1):
        now = arrival[n] if n < count else np.inf
        chosen = n % engines
        if n == count or route != ROUND_ROBIN:
            for i in range(engines):
                if ts[i, 1] <= now:
                    advance(now, cs[i], limits, es[i], ts[i], running[i], following, after[i],
                            before[i], held[i], names[i], by_name[i], tables[i], owns[i], slots[i],
                            work[i], r, first_token, last_token, k, shared, prompt, output, base,
                            )  # fmt: skip
            if n == count:
                break
            chosen = 0
            for i in range(1, engines):
                busy = es[i, E_RUNNING] + es[i, E_WAITING]
                if busy < es[chosen, E_RUNNING] + es[chosen, E_WAITING]:
                    chosen = i
        advance(now, cs[chosen], limits, es[chosen], ts[chosen], running[chosen], following,
                after[chosen], before[chosen], held[chosen], names[chosen], by_name[chosen],
                tables[chosen], owns[chosen], slots[chosen], work[chosen], r, first_token,
                last_token, k, shared, prompt, output, base,
                )  # fmt: skip
        replica[n] = chosen
        e, t = es[chosen], ts[chosen]
        # EngineCore.submit
        if t[1] >= 0.0 and limits[5]:
            r[n, 7] = e[E_STEP] + 1
        elif t[1] < 0.0:
            t[0] = max(now, t[0])
        following[n] = _NONE
        if e[E_LAST] == _NONE:
            e[E_FIRST] = n
        else:
            following[e[E_LAST]] = n
        e[E_LAST] = n
        e[E_WAITING] += 1
