/* A caller's options of any version; see options.h. */
#include "base/options.h"

#include <string.h>

gp_status gp_options_read(void *known, size_t known_bytes, const void *options, const char *name) {
    const unsigned char *bytes = options;
    size_t size = 0;
    memset(known, 0, known_bytes);
    if (options) {
        memcpy(&size, options, sizeof size);
        if (size == 0) size = known_bytes;
        if (size < sizeof size)
            return gp_error(GP_INVALID, "%s.size is %zu; sizeof(%s) and 0 are accepted", name, size, name);
        for (size_t i = known_bytes; i < size; i++) {
            if (bytes[i] != 0)
                return gp_error(GP_INVALID,
                                "%s is %zu bytes long with fields set that this library (gpipe %s, %zu bytes) does not "
                                "know; 0 is accepted there",
                                name, size, gp_version(), known_bytes);
        }
        memcpy(known, options, size < known_bytes ? size : known_bytes);
    }
    memcpy(known, &known_bytes, sizeof known_bytes);
    return GP_OK;
}

void gp_options_write(void *result, const void *known, size_t known_bytes) {
    size_t size;
    memcpy(&size, result, sizeof size);
    size_t room = size == 0 || size > known_bytes ? known_bytes : size;
    if (room > sizeof size) memcpy((char *)result + sizeof size, (const char *)known + sizeof size, room - sizeof size);
}
