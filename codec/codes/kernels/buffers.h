/* Aligned memory for parity and decoded blocks, kept when freed, because fresh pages cost more than the coding. */
#ifndef RIPRAP_BUFFERS_H
#define RIPRAP_BUFFERS_H

#include <stddef.h>

#define RIPRAP_ALIGNMENT 64

/* At least `size` uninitialised bytes at a multiple of 64, or NULL when memory is short. */
void *riprap_buffer_new(size_t size);

/* Give back what riprap_buffer_new(size) returned; the memory waits for the next request of that size.
 * Both functions are to be called under one lock (the interpreter's). */
void riprap_buffer_free(void *buffer, size_t size);

#endif
