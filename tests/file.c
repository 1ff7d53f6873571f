/* Files that change, pipes and devices: what is cut short while it is read is an error and not a
 * signal; a pipe is waited for with patience; devices are refused; nothing beyond the limit is
 * taken.
 *     test_file FILE.pt2 */
#define _DEFAULT_SOURCE
#include "core/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const char *example;
static char folder[] = "/tmp/plimsoll-file-XXXXXX";
static char path[64];

static void write_bytes(const char *to, const void *bytes, size_t size) {
    FILE *out = fopen(to, "wb");
    CHECK(out != NULL);
    if (!out) return;
    CHECK_INT(fwrite(bytes, 1, size, out), size);
    fclose(out);
}

/* ---- files that change ---- */

static void cut_short_between_size_and_bytes(void) {
    static const char text[] = "kind: mlp\nwidths: [4, 4]\n";
    pl_file file;
    pl_error err = {0};
    write_bytes(path, text, sizeof text - 1);
    CHECK_INT(pl_file_begin(&file, path, &err), PL_OK);
    CHECK_INT(file.size, sizeof text - 1);
    CHECK_INT(truncate(path, 5), 0);
    CHECK_INT(pl_file_load(&file, 4096, &err), PL_INPUT);
    CHECK_STR(err.message, "changed while it was read");
    CHECK_STR(err.where, path);
    CHECK_INT(err.position, 5);
    pl_file_close(&file);
}

static void written_anew_while_read(void) {
    pl_file file;
    pl_error err = {0};
    write_bytes(path, "0123456789", 10);
    CHECK_INT(pl_file_begin(&file, path, &err), PL_OK);
    write_bytes(path, "0123456789 and more", 19);
    CHECK_INT(pl_file_load(&file, 4096, &err), PL_INPUT);
    CHECK_STR(err.message, "changed while it was read");
    pl_file_close(&file);
}

/* Another process cuts the file short and makes it whole again, without end, while this one reads
 * it as a model: each time a model or PL_INPUT. Mapped, this ends with SIGBUS. */
static void truncated_over_and_over(const void *bytes, size_t size) {
    write_bytes(path, bytes, size);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int fd = open(path, O_WRONLY);
        for (;;) {
            if (ftruncate(fd, (off_t)(size / 3)) != 0) _exit(1);
            if (pwrite(fd, bytes, size, 0) != (ssize_t)size) _exit(1);
        }
    }
    int good = 0, refused = 0;
    for (int i = 0; i < 400; i++) {
        pl_model *model = NULL;
        pl_error err = {0};
        pl_status status = pl_model_open(&model, path, NULL, &err);
        good += status == PL_OK;
        refused += status == PL_INPUT && err.message[0];
        pl_model_close(&model);
    }
    CHECK_INT(good + refused, 400);
    printf("# cut short while read: %d read, %d refused\n", good, refused);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void archive_truncated_while_read(void) {
    pl_file file;
    CHECK_INT(pl_file_open(&file, example, SIZE_MAX, NULL), PL_OK);
    truncated_over_and_over(file.bytes, file.size);
    pl_file_close(&file);
}

static void text_truncated_while_read(void) {
    size_t size = 0, room = 1 << 20;
    char *text = malloc(room);
    size +=
        (size_t)sprintf(text, "{\"kind\": \"mlp\", \"inputs\": 4, \"classes\": 4, \"widths\": [4");
    while (size < 200000) size += (size_t)sprintf(text + size, "%s", "            ");
    size += (size_t)sprintf(text + size, "]}");
    truncated_over_and_over(text, size);
    free(text);
}

/* ---- sizes ---- */

/* Gigabytes of weights beside the model are not read: the archive's middle is a hole of 8 GiB. */
static void archive_larger_than_the_limit(void) {
    pl_file file;
    pl_model *model = NULL;
    pl_error err = {0};
    CHECK_INT(pl_file_open(&file, example, SIZE_MAX, NULL), PL_OK);
    const unsigned char *bytes = file.bytes;
    const off_t hole = (off_t)8 << 30;
    unsigned char zip64[76] = {'P', 'K', 6, 6, 44, [12] = 45, 0, 45}, *locator = zip64 + 56;
    /* the directory behind the hole, found by a zip64 end record */
    uint32_t length, offset;
    uint16_t count;
    const unsigned char *end = bytes + file.size - 22;
    CHECK(memcmp(end, "PK\5\6", 4) == 0);
    memcpy(&count, end + 10, 2);
    memcpy(&length, end + 12, 4);
    memcpy(&offset, end + 16, 4);
    uint64_t count64 = count, length64 = length, offset64 = offset + (uint64_t)hole,
             record = offset64 + length;
    memcpy(zip64 + 24, &count64, 8);
    memcpy(zip64 + 32, &count64, 8);
    memcpy(zip64 + 40, &length64, 8);
    memcpy(zip64 + 48, &offset64, 8);
    memcpy(locator, "PK\6\7", 4);
    memcpy(locator + 8, &record, 8);
    locator[16] = 1;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool written = pwrite(fd, bytes, offset, 0) == (ssize_t)offset &&
                   pwrite(fd, bytes + offset, length, (off_t)offset64) == (ssize_t)length &&
                   pwrite(fd, zip64, sizeof zip64, (off_t)record) == (ssize_t)sizeof zip64 &&
                   pwrite(fd, end, 22, (off_t)(record + sizeof zip64)) == 22;
    close(fd);
    pl_file_close(&file);
    if (!written) {
        SKIP("archive_larger_than_the_limit", "no files of 8 GiB with holes here");
        return;
    }
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    pl_limits limits;
    pl_limits_default(&limits);
    limits.memory_bytes = (size_t)64 << 20;
    settings.limits = &limits;
    CHECK_INT(pl_model_open(&model, path, &settings, &err), PL_OK);
    CHECK_STR(err.message, "");
    pl_model_close(&model);
    unlink(path);
}

static void beyond_the_limit(void) {
    pl_model *model = NULL;
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    pl_limits limits;
    pl_limits_default(&limits);
    limits.memory_bytes = (size_t)1 << 20;
    settings.limits = &limits;
    pl_error err = {0};
    CHECK_INT(truncate(path, (off_t)1 << 40), 0); /* one hole */
    CHECK_INT(pl_model_open(&model, path, &settings, &err), PL_LIMIT);
    CHECK_STR(err.message, "expected less than 1048576 bytes (the memory limit)");
    CHECK_INT(truncate(path, 0), 0);
}

/* The same bytes, mapped: for callers who ask for it. */
static void mapped_when_asked(void) {
    pl_model *model = NULL;
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    CHECK(!settings.map);
    settings.map = true;
    CHECK_INT(pl_model_open(&model, example, &settings, NULL), PL_OK);
    pl_model_close(&model);
    CHECK_INT(pl_model_open(&model, "examples/mlp.yaml", &settings, NULL), PL_OK);
    pl_model_close(&model);
}

/* ---- pipes and devices ---- */

static void *feed(void *bytes_of_size) { /* in pieces, with a pause before the first */
    pl_file *from = bytes_of_size;
    usleep(20000);
    int fd = open(path, O_WRONLY);
    for (size_t at = 0; at < from->size;) {
        size_t left = from->size - at, step = left < 5000 ? left : 5000;
        ssize_t put = write(fd, (const char *)from->bytes + at, step);
        if (put <= 0) break;
        at += (size_t)put;
    }
    close(fd);
    return NULL;
}

static void pipe_with_a_writer(void) {
    pl_file file;
    pl_model *model = NULL;
    pl_error err = {0};
    pthread_t writer;
    CHECK_INT(pl_file_open(&file, example, SIZE_MAX, NULL), PL_OK);
    unlink(path);
    CHECK_INT(mkfifo(path, 0600), 0);
    CHECK_INT(pthread_create(&writer, NULL, feed, &file), 0);
    CHECK_INT(pl_model_open(&model, path, NULL, &err), PL_OK);
    CHECK_STR(err.message, "");
    pthread_join(writer, NULL);
    pl_model_close(&model);
    pl_file_close(&file);
}

static void pipe_without_a_writer(void) {
    pl_model *model = NULL;
    pl_error err = {0};
    pl_file_patience(50);
    CHECK_INT(pl_model_open(&model, path, NULL, &err), PL_INPUT);
    CHECK_STR(err.message, "expected a pipe that somebody writes to; nobody came within 50 ms");
    pl_file_patience(1000);
}

static void pipe_whose_writer_is_silent(void) {
    pl_model *model = NULL;
    pl_error err = {0};
    int fd = open(path, O_RDWR);
    CHECK_INT(write(fd, "{\"kind\"", 7), 7);
    pl_limits limits;
    pl_limits_default(&limits);
    limits.timeout_ms = 60;
    pl_model_settings settings;
    pl_model_settings_default(&settings);
    settings.limits = &limits;
    CHECK_INT(pl_model_open(&model, path, &settings, &err), PL_LIMIT);
    CHECK(strstr(err.message, "time"));
    close(fd);
}

static atomic_bool full;
static void *pour(void *nothing) { /* without end, until the reader goes */
    (void)nothing;
    static const char zeros[4096];
    int fd = open(path, O_WRONLY);
    while (write(fd, zeros, sizeof zeros) > 0) continue;
    close(fd);
    atomic_store(&full, true);
    return NULL;
}

static void pipe_beyond_the_limit(void) {
    pl_file file;
    pl_error err = {0};
    pthread_t writer;
    signal(SIGPIPE, SIG_IGN);
    CHECK_INT(pthread_create(&writer, NULL, pour, NULL), 0);
    CHECK_INT(pl_file_open(&file, path, 3000000, &err), PL_LIMIT);
    CHECK_STR(err.message, "expected less than 3000000 bytes (the memory limit)");
    CHECK_INT(err.position, 3000000); /* and not a doubling short of it */
    pthread_join(writer, NULL);
    CHECK(atomic_load(&full));
    signal(SIGPIPE, SIG_DFL);
}

static void an_empty_pipe_ends(void) {
    int ends[2];
    char name[32];
    pl_file file;
    CHECK_INT(pipe(ends), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    close(ends[1]);
    CHECK_INT(pl_file_open(&file, name, 4096, NULL), PL_OK);
    CHECK_INT(file.size, 0);
    pl_file_close(&file);
    close(ends[0]);
}

static void without_a_size(void) {
    pl_file file;
    CHECK_INT(pl_file_open(&file, "/proc/self/status", 1 << 20, NULL), PL_OK);
    CHECK(file.size > 100);
    pl_file_close(&file);
}

static void devices_and_folders(void) {
    static const char *const devices[] = {"/dev/zero", "/dev/null"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        pl_model *model = NULL;
        pl_error err = {0};
        CHECK_INT(pl_model_open(&model, devices[i], NULL, &err), PL_INPUT);
        CHECK_STR(err.message, "expected a file or a pipe, not a device");
    }
    pl_model *model = NULL;
    pl_error err = {0};
    CHECK_INT(pl_model_open(&model, folder, NULL, &err), PL_INPUT);
    CHECK_STR(err.message, "a folder without a config.json or another model file");
}

int main(int argc, char **argv) {
    if (argc != 2 || !mkdtemp(folder)) return 2;
    example = argv[1];
    snprintf(path, sizeof path, "%s/file", folder);
    alarm(300); /* where something blocks for ever */
    RUN(cut_short_between_size_and_bytes);
    RUN(written_anew_while_read);
    RUN(archive_truncated_while_read);
    RUN(text_truncated_while_read);
    RUN(archive_larger_than_the_limit);
    write_bytes(path, "", 0);
    RUN(beyond_the_limit);
    RUN(mapped_when_asked);
    RUN(pipe_with_a_writer);
    RUN(pipe_without_a_writer);
    RUN(pipe_whose_writer_is_silent);
    RUN(pipe_beyond_the_limit);
    unlink(path);
    RUN(an_empty_pipe_ends);
    RUN(without_a_size);
    RUN(devices_and_folders);
    rmdir(folder);
    return check_done();
}
