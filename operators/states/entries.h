/* Values that know how far they are from their copies in the last backup (AF 3.4.1).
 *
 * The divergence is kept while values change: the sum of distances (or of their squares) loses an entry's old distance
 * and gains its new one. It is kept as a pair of doubles, so that rounding does not add up however long it runs. The
 * maximum only grows until the next backup: an entry that comes back leaves an upper bound. Of the maximum only those
 * entries are listed that went beyond a line; the others may stay out of partial backups, as they are close. An entry may
 * also be promised to stay within a part of its copy: one that does not is listed, and makes the divergence infinite.
 */
#ifndef RIPRAP_ENTRIES_H
#define RIPRAP_ENTRIES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../dispatch.h"

#define PREFETCH(address) __builtin_prefetch((const void *)(address), 1)
#define AHEAD 16 /* items; the memory of a state beyond the caches answers in about that many updates */

enum { MANHATTAN, EUCLIDEAN, MAXIMUM, CARDINALITY };

#define NO_LINE (-1.0)    /* every entry that is touched is listed */
#define NO_PROMISE (-1.0) /* entries may differ from their copies by any part of them */

typedef union {
    double real;
    int64_t integer;
} Cell;

/* Invariant: the `listed` first members of `list` are the entries with `changed` set, each once; an entry that is not
 * among them differs from its copy by at most `line` (not at all where the line is NO_LINE), and by no more of it than
 * `part`. */
typedef struct {
    Cell *values, *saved;
    uint8_t *changed;
    int64_t *list;
    int64_t listed, count, counted; /* counted: entries at the last backup */
    double sum, rest;               /* distances, or the greatest one in `sum` */
    double line;                    /* of the maximum: how far an entry must be from its copy to be listed */
    double part;                    /* of the maximum: which part of its copy an entry may differ by, or NO_PROMISE */
    int64_t broken;                 /* whether some entry differed by more since the last backup */
} Entries;

/* Knuth's sum of two: what rounding takes off `sum` goes to `rest`. */
INLINE void accumulate(Entries *entries, double amount)
{
    double sum = entries->sum + amount, back = sum - entries->sum;
    entries->rest += (entries->sum - (sum - back)) + (amount - back);
    entries->sum = sum;
}

INLINE double distance(Cell a, Cell b, int integer)
{
    int64_t difference;
    if (!integer)
        return fabs(a.real - b.real);
    if (__builtin_sub_overflow(a.integer, b.integer, &difference))
        return fabs((double)a.integer - (double)b.integer);
    return fabs((double)difference);
}

/* Infinite where values were: such a state is never taken for a saved one. */
INLINE double entries_divergence(const Entries *entries, int kind)
{
    double total = entries->sum + entries->rest;
    if (kind == CARDINALITY)
        return (double)(entries->count - entries->counted);
    if (kind == MAXIMUM)
        return entries->broken ? INFINITY : entries->sum;
    if (total != total)
        return INFINITY;
    return total <= 0.0 ? 0.0 : kind == EUCLIDEAN ? sqrt(total) : total;
}

INLINE void entries_enlist(Entries *entries, int64_t at)
{
    entries->changed[at] = 1;
    entries->list[entries->listed++] = at;
}

/* Whether an entry at this distance from its copy is further than promised; a new one always is, its copy being 0. */
INLINE int breaks(const Entries *entries, double distance, Cell saved, int integer)
{
    double size = integer ? fabs((double)saved.integer) : fabs(saved.real);
    return entries->part >= 0.0 && !(distance <= entries->part * size);
}

INLINE void entries_put(Entries *entries, int64_t at, Cell value, int kind, int integer)
{
    Cell old = entries->values[at], saved = entries->saved[at];
    int beyond = 1;
    if (kind == MAXIMUM) {
        double now = distance(value, saved, integer);
        if (!(now <= entries->sum))
            entries->sum = now == now ? now : INFINITY;
        beyond = !(now <= entries->line);
        if (breaks(entries, now, saved, integer))
            beyond = 1, entries->broken = 1;
    } else if (kind != CARDINALITY) {
        double now = distance(value, saved, integer), before = distance(old, saved, integer);
        accumulate(entries, kind == EUCLIDEAN ? now * now : now);
        accumulate(entries, kind == EUCLIDEAN ? -(before * before) : -before);
    }
    entries->values[at] = value;
    if (beyond && !entries->changed[at])
        entries_enlist(entries, at);
}

INLINE void entries_prefetch(const Entries *entries, int64_t at)
{
    if ((uint64_t)at >= (uint64_t)entries->count)
        return;
    PREFETCH(&entries->values[at]);
    PREFETCH(&entries->saved[at]);
    PREFETCH(&entries->changed[at]);
}

/* Integers wrap around. */
INLINE Cell updated(Cell old, Cell amount, int assign, int integer)
{
    if (assign)
        return amount;
    if (integer)
        return (Cell){.integer = (int64_t)((uint64_t)old.integer + (uint64_t)amount.integer)};
    return (Cell){.real = old.real + amount.real};
}

INLINE int64_t update_loop(Entries *all, const int64_t *indexes, const Cell *amounts, int64_t n, double theta, int assign,
                           int kind)
{
    Entries entries = *all; /* in registers: stores of values cannot touch it */
    int64_t i = 0;
    while (i < n) {
        int64_t at = indexes ? indexes[i] : 0;
        if (indexes && i + AHEAD < n)
            entries_prefetch(&entries, indexes[i + AHEAD]);
        if ((uint64_t)at >= (uint64_t)entries.count)
            break;
        entries_put(&entries, at, updated(entries.values[at], amounts[i], assign, 0), kind, 0);
        i++;
        if (entries_divergence(&entries, kind) > theta)
            break;
    }
    *all = entries;
    return i;
}

/* How many of n updates were applied: up to the one that exceeds theta, or to an index that is out of range. Without
 * indexes all are of entry 0. Reals only. */
static int64_t entries_update(Entries *entries, const int64_t *indexes, const Cell *amounts, int64_t n, double theta,
                              int kind, int assign)
{
    switch (kind) {
    case MANHATTAN: return update_loop(entries, indexes, amounts, n, theta, assign, MANHATTAN);
    case EUCLIDEAN: return update_loop(entries, indexes, amounts, n, theta, assign, EUCLIDEAN);
    default: return update_loop(entries, indexes, amounts, n, theta, assign, MAXIMUM);
    }
}

/* Values of a whole new array, of reals. */
static void entries_replace(Entries *entries, const Cell *values, int kind)
{
    for (int64_t i = 0; i < entries->count; i++)
        if (entries->values[i].integer != values[i].integer)
            entries_put(entries, i, values[i], kind, 0);
}

/* Draw another line, promise another part, and list what is beyond. */
static void entries_draw(Entries *entries, double line, double part, int integer)
{
    for (int64_t i = 0; i < entries->listed; i++)
        entries->changed[entries->list[i]] = 0;
    entries->listed = 0;
    entries->line = line;
    entries->part = part;
    entries->broken = 0;
    for (int64_t i = 0; i < entries->count; i++) {
        double now = distance(entries->values[i], entries->saved[i], integer);
        int broken = breaks(entries, now, entries->saved[i], integer);
        entries->broken |= broken;
        if (broken || !(now <= fmax(line, 0.0)))
            entries_enlist(entries, i);
    }
}

/* The listed entries were saved: from now on they count from here, and the others differ by no more than the line. */
static void entries_settle_listed(Entries *entries)
{
    for (int64_t i = 0; i < entries->listed; i++) {
        int64_t at = entries->list[i];
        if (i + AHEAD < entries->listed)
            entries_prefetch(entries, entries->list[i + AHEAD]);
        entries->saved[at] = entries->values[at];
        entries->changed[at] = 0;
    }
    entries->listed = entries->broken = 0;
    entries->counted = entries->count;
    entries->sum = entries->line == NO_LINE ? 0.0 : fmin(entries->sum, entries->line);
    entries->rest = 0.0;
}

/* Set entries that nothing has changed since they were saved to what was saved later. Indexes must be in range. */
static void entries_take(Entries *entries, const int64_t *indexes, const Cell *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            entries_prefetch(entries, indexes[i + AHEAD]);
        entries->values[indexes[i]] = entries->saved[indexes[i]] = values[i];
    }
}

/* All entries were saved: the divergence counts from here. */
static void entries_settle(Entries *entries)
{
    entries_settle_listed(entries);
    if (entries->line != NO_LINE)
        memcpy(entries->saved, entries->values, (size_t)entries->count * sizeof *entries->saved);
    entries->sum = 0.0;
}

#endif
