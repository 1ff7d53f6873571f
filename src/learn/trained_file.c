/* trained_file: a model file's header and fields, written and read (docs/formats.md, "Model
 * files"). The first bytes are chosen as PNG's are (RFC 2083, 12.11): a byte above 127 that no text
 * has, letters, and line ends that a transfer as text would change.
 *
 * Nothing in it depends on when or where it was written: the same training gives the same bytes.
 * The checksum tells damage, not malice; everything behind it is checked again. Left out: reading
 * other versions, there is only the first. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "core/file.h"
#include "learn/trained.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* HEADER: magic, version and checksum; SIZE: the bytes behind it, in 8. */
enum { MAGIC = 8, VERSION = 1, HEADER = 16, SIZE = 8, LEARNER_NAME_MOST = 64 };
static const unsigned char magic[MAGIC] = {0x95, 'P', 'L', 'M', '\r', '\n', 0x1a, '\n'};
static const size_t file_most = (size_t)1 << 30; /* bytes */

/* ---- writing ---- */

static void write_scaled(pl_writer *w, const pl_scaled *scaled, size_t count) {
    pl_write_u32(w, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        pl_write_text(w, scaled[i].name);
        pl_write_f32(w, scaled[i].shift);
        pl_write_f32(w, scaled[i].scale);
    }
}

static void set_bytes(unsigned char *at, uint64_t value, int count) {
    for (int i = 0; i < count; i++) at[i] = (unsigned char)(value >> 8 * i);
}

pl_status pl_trained_write(const pl_trained *t, pl_writer *w, pl_error *err) {
    size_t from = w->size;
    pl_write_bytes(w, magic, MAGIC);
    pl_write_u32(w, VERSION);
    pl_write_u32(w, 0); /* the checksum's place */
    pl_write_u64(w, 0); /* the size's */
    const pl_learned *learned = pl_trained_learned(t, err);
    if (!learned) return PL_INPUT;
    pl_write_text(w, t->learner->name);
    pl_write_text(w, t->estimator);
    pl_write_text(w, t->target);
    pl_write_text(w, t->options);
    pl_write_text(w, t->command);
    pl_write_text(w, t->data);
    pl_write_u64(w, t->seed);
    pl_write_u64(w, t->rows);
    write_scaled(w, t->columns, t->column_count);
    write_scaled(w, t->channels, t->channel_count);
    pl_write_f32(w, t->target_shift);
    pl_write_f32(w, t->target_scale);
    pl_write_u32(w, (uint32_t)t->class_count);
    pl_write_floats(w, t->class_values, t->class_count);
    pl_write_f32(w, t->below);
    pl_write_f32(w, t->above);
    for (size_t i = 0; i < sizeof t->extra / sizeof *t->extra; i++) pl_write_f64(w, t->extra[i]);
    t->learner->save(learned, w);
    if (w->failed) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory for the model file");
    unsigned char *part = w->bytes + from;
    size_t size = w->size - from;
    set_bytes(part + HEADER, size - HEADER - SIZE, 8);
    set_bytes(part + MAGIC + 4, crc32_z(0, part + HEADER, size - HEADER), 4);
    return PL_OK;
}

/* ---- reading ---- */

static pl_scaled *read_scaled(pl_reader *r, size_t *count, const char *expected) {
    uint32_t number = pl_read_u32_in(r, 0, PL_TRAINED_COLUMNS_MOST, expected);
    if (!pl_read_has(r, number, 12)) return NULL; /* the least a row takes */
    pl_scaled *scaled = calloc(number ? number : 1, sizeof *scaled);
    if (!scaled) {
        pl_read_fail(r, "memory for the features");
        return NULL;
    }
    *count = number;
    for (uint32_t i = 0; i < number; i++) {
        scaled[i].name = pl_read_text(r, PL_TRAINED_NAME_MOST);
        scaled[i].shift = pl_read_f32(r);
        scaled[i].scale = pl_read_f32(r);
    }
    return scaled;
}

/* A file's classes have edges, 2 or more of them, in ascending order. */
static void read_classes(pl_reader *r, pl_trained *t) {
    uint32_t count = pl_read_u32_in(r, 0, PL_TRAINED_CLASSES_MOST, "0 to 65536 classes");
    if (count == 1) pl_read_fail(r, "more than one class");
    if (!pl_read_has(r, count, 4) || count == 0) return;
    t->class_values = malloc(count * sizeof *t->class_values);
    if (!t->class_values) {
        pl_read_fail(r, "memory for the classes");
        return;
    }
    t->class_count = count;
    pl_read_floats(r, t->class_values, count);
    for (uint32_t c = 1; !r->failure && c < count; c++)
        if (!(t->class_values[c] > t->class_values[c - 1]))
            pl_read_fail(r, "ascending edges of the classes");
}

static const pl_learner *read_learner(pl_reader *r) {
    char *name = pl_read_text(r, LEARNER_NAME_MOST);
    const pl_learner *learner = name ? pl_learner_find(name) : NULL;
    if (!learner) pl_read_fail(r, "the name of a learner that this version has");
    free(name);
    return learner;
}

static void read_fields(pl_reader *r, pl_trained *t) {
    t->learner = read_learner(r);
    t->estimator = pl_read_text(r, PL_TRAINED_NAME_MOST);
    t->target = pl_read_text(r, PL_TRAINED_NAME_MOST);
    t->options = pl_read_text(r, PL_TRAINED_TEXT_MOST);
    t->command = pl_read_text(r, PL_TRAINED_TEXT_MOST);
    t->data = pl_read_text(r, PL_TRAINED_TEXT_MOST);
    t->seed = pl_read_u64(r);
    t->rows = pl_read_u64(r);
    t->columns = read_scaled(r, &t->column_count, "0 to 65536 columns");
    t->channels = read_scaled(r, &t->channel_count, "0 to 65536 channels");
    if (t->column_count + t->channel_count == 0) pl_read_fail(r, "at least one column or channel");
    t->target_shift = pl_read_f32(r);
    t->target_scale = pl_read_f32(r);
    if (!(t->target_scale > 0)) pl_read_fail(r, "a scale of the target above 0");
    read_classes(r, t);
    t->below = pl_read_f32(r);
    t->above = pl_read_f32(r);
    for (size_t i = 0; i < sizeof t->extra / sizeof *t->extra; i++) t->extra[i] = pl_read_f64(r);
}

/* Behind the fields: what was learnt. NULL: failed. */
static pl_learned *read_learned(pl_reader *r, const pl_trained *t) {
    if (r->failure) return NULL;
    pl_learned *learned = t->learner->load(r, t->column_count, t->channel_count);
    if (!learned) pl_read_fail(r, "what the learner has learnt");
    if (learned && learned->outputs != (t->class_count ? t->class_count : 1))
        pl_read_fail(r, "a learner with one output, or one a class");
    if (r->at != r->size) pl_read_fail(r, "the end of the part");
    if (r->failure) pl_learned_close(&learned);
    return learned;
}

static pl_status read_part(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                           bool kept, const char *name, pl_error *err) {
    *out = NULL;
    pl_reader r = {.bytes = bytes, .size = size};
    const void *first = pl_read_bytes(&r, MAGIC);
    if (!first || memcmp(first, magic, MAGIC) != 0)
        return pl_fail(err, PL_INPUT, name, 0,
                       "expected a model file, which begins with the bytes 95 50 4c 4d");
    uint32_t version = pl_read_u32(&r);
    if (!r.failure && version != VERSION)
        return pl_fail(err, PL_INPUT, name, MAGIC,
                       "expected version %d of the model file, it says %u", VERSION, version);
    uint32_t sum = pl_read_u32(&r);
    uint64_t behind = pl_read_u64(&r);
    if (r.failure)
        return pl_fail(err, PL_INPUT, name, (int64_t)r.failure_at, "expected %s", r.failure);
    if (size > file_most)
        return pl_fail(err, PL_INPUT, name, -1, "expected at most %zu bytes, it has %zu", file_most,
                       size);
    size_t left = size - HEADER - SIZE;
    if (behind > left || (!taken && behind != left))
        return pl_fail(err, PL_INPUT, name, HEADER,
                       "expected %llu bytes behind this place, there are %zu: it is damaged or cut "
                       "short",
                       (unsigned long long)behind, left);
    r.size = HEADER + SIZE + (size_t)behind;
    uint32_t found = kept ? sum : (uint32_t)crc32_z(0, r.bytes + HEADER, r.size - HEADER);
    if (found != sum)
        return pl_fail(err, PL_INPUT, name, MAGIC + 4,
                       "expected the checksum %08x, the file's bytes have %08x: it is damaged", sum,
                       found);
    pl_trained *t = calloc(1, sizeof *t);
    if (!t) return pl_fail(err, PL_MISSING, name, -1, "out of memory");
    read_fields(&r, t);
    if (kept) {
        t->kept = r.bytes + r.at;
        t->kept_size = r.size - r.at;
    } else {
        t->learned = read_learned(&r, t);
    }
    if (r.failure) {
        pl_trained_close(&t);
        return pl_fail(err, PL_INPUT, name, (int64_t)r.failure_at, "expected %s", r.failure);
    }
    if (taken) *taken = r.size;
    *out = t;
    return PL_OK;
}

pl_status pl_trained_read(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                          const char *name, pl_error *err) {
    return read_part(out, bytes, size, taken, false, name, err);
}

pl_status pl_trained_read_kept(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                               const char *name, pl_error *err) {
    return read_part(out, bytes, size, taken, true, name, err);
}

const pl_learned *pl_trained_learned(const pl_trained *trained, pl_error *err) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pl_trained *t = (pl_trained *)trained;
    if (t->learned) return t->learned;
    pl_reader r = {.bytes = t->kept, .size = t->kept_size};
    pthread_mutex_lock(&lock);
    if (!t->learned) t->learned = read_learned(&r, t);
    pthread_mutex_unlock(&lock);
    if (!t->learned)
        pl_fail(err, PL_INPUT, t->estimator, (int64_t)r.failure_at, "expected %s", r.failure);
    return t->learned;
}

pl_status pl_trained_open(pl_trained **out, const char *path, pl_error *err) {
    *out = NULL;
    pl_file file;
    pl_status status = pl_file_open(&file, path, file_most, err);
    if (status != PL_OK) return status;
    status = pl_trained_read(out, file.bytes, file.size, NULL, path, err);
    pl_file_close(&file);
    return status;
}

/* ---- saving ---- */

/* The file behind `path` where there is one (a link stays a link), else a copy of path; malloc'ed.
 */
static char *real_name(const char *path) {
    char *name = realpath(path, NULL);
    if (name || errno == ENOMEM) return name;
    size_t size = strlen(path) + 1;
    name = malloc(size);
    if (name) memcpy(name, path, size);
    return name;
}

/* Opens NAME.tmp-PID-n, a name that no other file has, and writes it into `name`. */
static int open_beside(char *name, size_t size, const char *path) {
    int fd = -1;
    for (int n = 0; fd < 0 && n < 100; n++) {
        snprintf(name, size, "%s.tmp-%ld-%d", path, (long)getpid(), n);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
}

static bool write_all(int fd, const unsigned char *bytes, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(fd, bytes, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        bytes += wrote;
        size -= (size_t)wrote;
    }
    return true;
}

static pl_status replace(const char *path, const char *real, const pl_writer *w, pl_error *err) {
    struct stat info;
    if (stat(real, &info) == 0 && !S_ISREG(info.st_mode))
        return pl_fail(err, PL_USAGE, path, -1, "cannot write: a plain file is expected here");
    size_t size = strlen(real) + 48;
    char *name = malloc(size);
    if (!name) return pl_fail(err, PL_MISSING, path, -1, "out of memory");
    int fd = open_beside(name, size, real);
    bool written = fd >= 0 && write_all(fd, w->bytes, w->size) && fsync(fd) == 0;
    int reason = errno;
    if (fd >= 0 && close(fd) != 0 && written) {
        written = false;
        reason = errno;
    }
    if (written && rename(name, real) != 0) {
        written = false;
        reason = errno;
    }
    if (!written && fd >= 0) unlink(name);
    free(name);
    return written ? PL_OK
                   : pl_fail(err, PL_MISSING, path, -1, "cannot write: %s", strerror(reason));
}

/* Appends the part, and reads it back from there. */
static pl_status write_checked(const pl_trained *part, pl_writer *w, const char *path,
                               pl_error *err) {
    size_t from = w->size;
    pl_trained *again = NULL;
    pl_error why;
    pl_status status = pl_trained_write(part, w, err);
    if (status == PL_OK &&
        pl_trained_read(&again, w->bytes + from, w->size - from, NULL, path, &why) != PL_OK)
        status = pl_fail(err, PL_INPUT, path, -1,
                         "not written, it could not be read back: byte %lld: %s",
                         (long long)why.position, why.message);
    pl_trained_close(&again);
    return status;
}

pl_status pl_trained_save(pl_trained *const *parts, size_t count, const char *path, pl_error *err) {
    pl_writer w = {0};
    pl_status status = PL_OK;
    for (size_t i = 0; status == PL_OK && i < count; i++)
        status = write_checked(parts[i], &w, path, err);
    char *real = status == PL_OK ? real_name(path) : NULL;
    if (status == PL_OK)
        status = real ? replace(path, real, &w, err)
                      : pl_fail(err, PL_MISSING, path, -1, "out of memory");
    free(real);
    free(w.bytes);
    return status;
}
