#include "ps/class.h"

uint64_t ps_copy_at(const struct ps_table *t, const struct ps_class *c, uint32_t k, uint32_t ps)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < k; i++)
        at += ps_class_in_place(&c[i]) ? 0 : ps_range_pages(t, i, ps);
    return at;
}
