/* bench/json/zip: the price of getting model.json out of an archive, with libzip (-DWITH_LIBZIP) or
 * with src/import/zip.c. `zip FILE` does it once, to be timed as a whole process; run.py builds and
 * runs both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(WITH_LIBZIP)
#include <zip.h>
int main(int argc, char **argv) {
    zip_t *archive = argc > 1 ? zip_open(argv[1], ZIP_RDONLY, NULL) : NULL;
    if (!archive) return 2;
    zip_int64_t count = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < count; i++) {
        const char *name = zip_get_name(archive, (zip_uint64_t)i, 0);
        if (!name || !strstr(name, "models/model.json")) continue;
        zip_stat_t info;
        zip_stat_index(archive, (zip_uint64_t)i, 0, &info);
        char *bytes = malloc(info.size);
        zip_file_t *file = zip_fopen_index(archive, (zip_uint64_t)i, 0);
        if (!bytes || !file || zip_fread(file, bytes, info.size) != (zip_int64_t)info.size)
            return 3;
        zip_fclose(file);
        free(bytes);
    }
    zip_discard(archive);
    return 0;
}
#else
#include "core/file.h"
#include "import/zip.h"
int main(int argc, char **argv) {
    pl_file file;
    if (argc < 2 || pl_file_open(&file, argv[1], (size_t)1 << 30, NULL) != PL_OK) return 2;
    pl_arena *arena = pl_arena_new(0);
    pl_zip zip;
    if (pl_zip_open(&zip, file.bytes, file.size, argv[1], NULL) != PL_OK) return 3;
    pl_zip_member member;
    bool found;
    while (pl_zip_next(&zip, &member, &found, NULL) == PL_OK && found) {
        static const char ending[] = "models/model.json";
        size_t length = sizeof ending - 1;
        const void *bytes;
        size_t size;
        if (member.name_length >= length &&
            !memcmp(member.name + member.name_length - length, ending, length) &&
            pl_zip_read(&zip, &member, arena, (size_t)1 << 30, argv[1], &bytes, &size, NULL) !=
                PL_OK)
            return 3;
    }
    pl_arena_free(&arena);
    pl_file_close(&file);
    return 0;
}
#endif
