/* A short list of freed buffers, newest first, bounded in number and in bytes. */
#include "buffers.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 32
#define KEPT_BYTES_MAX ((size_t)32 << 20)

/* Invariant: kept[0..kept_count) are free, their sizes add up to kept_bytes <= KEPT_BYTES_MAX. */
static struct {
    void *buffer;
    size_t size;
} kept[KEPT_MAX];
static int kept_count;
static size_t kept_bytes;

static size_t rounded(size_t size)
{
    size = size ? size : 1;
    return (size + RIPRAP_ALIGNMENT - 1) / RIPRAP_ALIGNMENT * RIPRAP_ALIGNMENT;
}

static void *take(int slot)
{
    void *buffer = kept[slot].buffer;
    kept_bytes -= kept[slot].size;
    kept_count--;
    memmove(kept + slot, kept + slot + 1, (size_t)(kept_count - slot) * sizeof kept[0]);
    return buffer;
}

void *riprap_buffer_new(size_t size)
{
    size = rounded(size);
    for (int slot = 0; slot < kept_count; slot++)
        if (kept[slot].size == size)
            return take(slot);
    return aligned_alloc(RIPRAP_ALIGNMENT, size);
}

void riprap_buffer_free(void *buffer, size_t size)
{
    size = rounded(size);
    if (size > KEPT_BYTES_MAX) {
        free(buffer);
        return;
    }
    while (kept_count == KEPT_MAX || kept_bytes + size > KEPT_BYTES_MAX)
        free(take(kept_count - 1));
    memmove(kept + 1, kept, (size_t)kept_count * sizeof kept[0]);
    kept[0].buffer = buffer;
    kept[0].size = size;
    kept_count++;
    kept_bytes += size;
}
