/* Numbers as people read them. */
#include <stdio.h>

#include "gpipe/words.h"

char *gp_bytes_format(size_t bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 999.5 && unit < 6) {
        value /= 1024;
        unit++;
    }
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(text, size, "%.*f %s", decimals, value, units[unit]);
    return text;
}

const char *gp_plural(int64_t count, const char *ending) {
    return count == 1 ? "" : ending;
}
