/* trained_file: a model file's parts, written and read (docs/formats.md, "Model files"). The first
 * bytes are chosen as PNG's are (RFC 2083, 12.11): a byte above 127 that no text has, letters, and
 * line ends that a transfer as text would change.
 *
 * Nothing in it depends on when or where it was written: the same training gives the same bytes.
 * The checksum detects damage, not malice; everything behind it is checked again. What is read
 * stays where it is: texts, classes and trees are pointers into the bytes (a big-endian machine
 * copies what is wider than a byte). Left out: reading version 1, which was another order of the
 * same. */
#include "core/file.h"
#include "core/utf8.h"
#include "learn/trained.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/crc32.h"
#include "core/replace.h"

/* HEADER: magic, version and checksum; SIZE: the bytes behind it, in 8. HEAD: all up to the arrays;
 * a part and the learner's own bytes begin at a multiple of ALIGN. */
enum { MAGIC = 8, VERSION = 2, HEADER = 16, SIZE = 8, HEAD = 176, ALIGN = 16 };
enum { LEARNER_NAME_MOST = 64, EXTRA = sizeof((pl_trained *)0)->extra / sizeof(double) };
/* The places within the head that are known when what they point to is written. */
enum { TEXTS_AT = 120, TEXTS = 6, ARRAYS_AT = 144, ARRAYS = 4 };
static const unsigned char magic[MAGIC] = {0x95, 'P', 'L', 'M', '\r', '\n', 0x1a, '\n'};
static const size_t file_most = (size_t)1 << 30; /* bytes */

/* ---- writing ---- */

static void set_bytes(unsigned char *at, uint64_t value, int count) {
    for (int i = 0; i < count; i++) at[i] = (unsigned char)(value >> 8 * i);
}

/* A place in the head: where in the part, and how many. */
static void set_place(pl_writer *w, size_t from, size_t field, uint64_t value) {
    if (value > UINT32_MAX) w->failed = true;
    if (!w->failed) set_bytes(w->bytes + from + field, value, 4);
}

/* Names come later: their places are left open. */
static void write_scaled(pl_writer *w, const pl_scaled *scaled, size_t count) {
    for (size_t i = 0; i < count; i++) {
        pl_write_u32(w, 0);
        pl_write_f32(w, scaled[i].shift);
        pl_write_f32(w, scaled[i].scale);
    }
}

static void write_names(pl_writer *w, size_t from, size_t at, const pl_scaled *scaled,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        set_place(w, from, at + 12 * i, w->size - from);
        pl_write_bytes(w, scaled[i].name, strlen(scaled[i].name) + 1);
    }
}

static void write_head(const pl_trained *t, pl_writer *w) {
    pl_write_bytes(w, magic, MAGIC);
    pl_write_u32(w, VERSION);
    pl_write_u32(w, 0); /* the checksum's place */
    pl_write_u64(w, 0); /* the size's */
    pl_write_u64(w, t->seed);
    pl_write_u64(w, t->rows);
    for (size_t i = 0; i < EXTRA; i++) pl_write_f64(w, t->extra[i]);
    pl_write_f32(w, t->target_shift);
    pl_write_f32(w, t->target_scale);
    pl_write_f32(w, t->below);
    pl_write_f32(w, t->above);
    for (int i = 0; i < TEXTS + 2 * ARRAYS; i++) pl_write_u32(w, 0);
}

pl_status pl_trained_write(const pl_trained *t, pl_writer *w, pl_error *err) {
    const char *texts[TEXTS] = {t->learner->name, t->estimator, t->target,
                                t->options,       t->command,   t->data};
    size_t from = w->size, places[ARRAYS],
           counts[ARRAYS] = {t->column_count, t->channel_count, t->class_count, 0};
    write_head(t, w);
    places[0] = w->size - from;
    write_scaled(w, t->columns, t->column_count);
    places[1] = w->size - from;
    write_scaled(w, t->channels, t->channel_count);
    places[2] = w->size - from;
    pl_write_floats(w, t->class_values, t->class_count);
    for (int i = 0; i < TEXTS; i++) {
        set_place(w, from, TEXTS_AT + 4 * (size_t)i, w->size - from);
        pl_write_bytes(w, texts[i], strlen(texts[i]) + 1);
    }
    write_names(w, from, places[0], t->columns, t->column_count);
    write_names(w, from, places[1], t->channels, t->channel_count);
    pl_write_align(w, ALIGN);
    places[3] = w->size - from;
    t->learner->save(t->learned, w);
    counts[3] = w->size - from - places[3];
    pl_write_align(w, ALIGN);
    for (size_t i = 0; i < ARRAYS; i++) {
        set_place(w, from, ARRAYS_AT + 8 * i, places[i]);
        set_place(w, from, ARRAYS_AT + 8 * i + 4, counts[i]);
    }
    if (w->failed) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory for the model file");
    unsigned char *part = w->bytes + from;
    size_t size = w->size - from;
    set_bytes(part + HEADER, size - HEADER - SIZE, 8);
    set_bytes(part + MAGIC + 4, pl_crc32(part + HEADER, size - HEADER), 4);
    return PL_OK;
}

/* ---- reading ---- */

/* The reader stands at a place, a u32: goes there, and says where it was. Behind the head and
 * within the part. */
static size_t go_to_place(pl_reader *r, const char *expected) {
    uint32_t place = pl_read_u32(r);
    size_t was = r->at;
    if (r->failure) return was;
    if (place < HEAD || place > r->size) {
        r->at -= 4;
        pl_read_fail(r, expected);
        return was;
    }
    r->at = place;
    return was;
}

/* A text by its place: UTF-8, not longer than most, ended by a 0. "" on failure. */
static const char *read_text(pl_reader *r, size_t most) {
    size_t back = go_to_place(r, "a text's place within the part");
    if (r->failure) return "";
    const unsigned char *text = r->bytes + r->at, *end = NULL;
    size_t left = r->size - r->at, room = left < most + 1 ? left : most + 1;
    if (r->trusted)
        end = text; /* not looked for */
    else
        end = room ? memchr(text, 0, room) : NULL;
    if (!end) pl_read_fail(r, "a text that ends with a 0, and not too far on");
    for (size_t i = 0; end && text + i < end;) {
        size_t step = pl_utf8_length(text + i, (size_t)(end - text) - i);
        if (step == 0) {
            r->at += i;
            pl_read_fail(r, "text in UTF-8");
            break;
        }
        i += step;
    }
    r->at = back;
    return r->failure ? "" : (const char *)text;
}

/* An array's place and count; the reader then stands at its first element. The place in the head to
 * go back to. */
static size_t read_place(pl_reader *r, size_t *count, size_t most, size_t size,
                         const char *expected) {
    size_t place_at = r->at;
    uint32_t place = pl_read_u32(r);
    *count = pl_read_u32_in(r, 0, (uint32_t)most, expected);
    size_t back = r->at;
    if (r->failure) return back;
    if (place < HEAD || place > r->size || place % 4) {
        r->at = place_at;
        pl_read_fail(r, "an array's place within the part");
        return back;
    }
    r->at = place;
    pl_read_has(r, *count, size);
    return back;
}

static pl_scaled *read_scaled(pl_reader *r, size_t *count, const char *expected) {
    size_t number, back = read_place(r, &number, PL_TRAINED_COLUMNS_MOST, 12, expected);
    if (r->failure) return NULL;
    pl_scaled *scaled = calloc(number ? number : 1, sizeof *scaled);
    if (!scaled) {
        pl_read_no_memory(r);
        return NULL;
    }
    *count = number;
    for (size_t i = 0; i < number; i++) {
        scaled[i].name = read_text(r, PL_TRAINED_NAME_MOST);
        scaled[i].shift = pl_read_f32(r);
        scaled[i].scale = pl_read_f32(r);
    }
    if (!r->failure) r->at = back;
    return scaled;
}

/* A file's classes have edges, 2 or more of them, in ascending order. */
static void read_classes(pl_reader *r, pl_trained *t) {
    size_t count, back = read_place(r, &count, PL_TRAINED_CLASSES_MOST, 4, "0 to 65536 classes");
    if (count == 1) pl_read_fail(r, "more than one class");
    if (r->failure) return;
    if (count && PL_LITTLE_ENDIAN && (uintptr_t)(r->bytes + r->at) % sizeof(float) == 0) {
        t->class_values = (const void *)(r->bytes + r->at);
    } else if (count) {
        t->class_values = t->classes_copied = malloc(count * sizeof *t->class_values);
        if (!t->classes_copied) {
            pl_read_no_memory(r);
            return;
        }
        for (size_t c = 0; c < count; c++)
            t->classes_copied[c] = pl_f32_at(r->bytes + r->at + 4 * c);
    }
    t->class_count = count;
    for (size_t c = 0; !r->trusted && !r->failure && c < count; c++) {
        if (!isfinite(t->class_values[c]))
            pl_read_fail(r, "a finite number");
        else if (c && !(t->class_values[c] > t->class_values[c - 1]))
            pl_read_fail(r, "ascending edges of the classes");
        else
            r->at += 4;
    }
    if (!r->failure) r->at = back;
}

static const pl_learner *read_learner(pl_reader *r) {
    size_t at = r->at;
    const char *name = read_text(r, LEARNER_NAME_MOST);
    const pl_learner *learner = r->failure ? NULL : pl_learner_find(name);
    if (!learner && !r->failure) {
        r->at = at;
        pl_read_fail(r, "the name of a learner that this version has");
    }
    return learner;
}

/* Behind the fields: what was learnt. */
static void read_learned(pl_reader *r, pl_trained *t) {
    size_t size, back = read_place(r, &size, file_most, 1, "the learner's own bytes");
    if (!r->failure && r->at % ALIGN) pl_read_fail(r, "a multiple of 16 bytes before this");
    if (r->failure) return;
    size_t end = r->size;
    r->size = r->at + size;
    t->learned = t->learner->load(r, t->column_count, t->channel_count);
    if (!t->learned) pl_read_fail(r, "what the learner has learnt");
    if (t->learned && t->learned->outputs != (t->class_count ? t->class_count : 1))
        pl_read_fail(r, "a learner with one output, or one for each class");
    if (r->at != r->size) pl_read_fail(r, "the end of what was learnt");
    r->size = end;
    if (!r->failure) r->at = back;
}

static void read_fields(pl_reader *r, pl_trained *t) {
    t->seed = pl_read_u64(r);
    t->rows = pl_read_u64(r);
    for (size_t i = 0; i < EXTRA; i++) t->extra[i] = pl_read_f64(r);
    t->target_shift = pl_read_f32(r);
    t->target_scale = pl_read_f32(r);
    if (!(t->target_scale > 0)) pl_read_fail(r, "a scale of the target above 0");
    t->below = pl_read_f32(r);
    t->above = pl_read_f32(r);
    t->learner = read_learner(r);
    t->estimator = read_text(r, PL_TRAINED_NAME_MOST);
    t->target = read_text(r, PL_TRAINED_NAME_MOST);
    t->options = read_text(r, PL_TRAINED_TEXT_MOST);
    t->command = read_text(r, PL_TRAINED_TEXT_MOST);
    t->data = read_text(r, PL_TRAINED_TEXT_MOST);
    t->columns = read_scaled(r, &t->column_count, "0 to 65536 columns");
    t->channels = read_scaled(r, &t->channel_count, "0 to 65536 channels");
    if (t->column_count + t->channel_count == 0) pl_read_fail(r, "at least one column or channel");
    read_classes(r, t);
    if (!r->failure) read_learned(r, t);
}

static pl_status read_failed(const pl_reader *r, const char *name, pl_error *err) {
    if (r->no_memory) return pl_fail(err, PL_MISSING, name, -1, "out of memory");
    return pl_fail(err, PL_INPUT, name, (int64_t)r->failure_at, "expected %s", r->failure);
}

static pl_status read_part(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                           bool trusted, const char *name, pl_error *err) {
    *out = NULL;
    pl_reader r = {.bytes = bytes, .size = size, .kept = true, .trusted = trusted};
    const void *first = pl_read_bytes(&r, MAGIC);
    if (!first || memcmp(first, magic, MAGIC) != 0)
        return pl_fail(err, PL_INPUT, name, 0,
                       "expected a model file, which begins with the bytes 95 50 4c 4d");
    uint32_t version = pl_read_u32(&r);
    if (!r.failure && version != VERSION)
        return pl_fail(err, PL_INPUT, name, MAGIC,
                       "expected version %d of the model file, it says %u: made by %s version of "
                       "plimsoll, train it again",
                       VERSION, version, version < VERSION ? "an older" : "another");
    uint32_t sum = pl_read_u32(&r);
    uint64_t behind = pl_read_u64(&r);
    if (r.failure) return read_failed(&r, name, err);
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
    if (r.size % ALIGN)
        return pl_fail(err, PL_INPUT, name, HEADER, "expected a part of a multiple of %d bytes",
                       ALIGN);
    uint32_t found = trusted ? sum : pl_crc32(r.bytes + HEADER, r.size - HEADER);
    if (found != sum)
        return pl_fail(err, PL_INPUT, name, MAGIC + 4,
                       "expected the checksum %08x, the file's bytes have %08x: it is damaged", sum,
                       found);
    pl_trained *t = calloc(1, sizeof *t);
    if (!t) return pl_fail(err, PL_MISSING, name, -1, "out of memory");
    t->borrowed = true;
    read_fields(&r, t);
    if (r.failure) {
        pl_trained_close(&t);
        return read_failed(&r, name, err);
    }
    if (taken) *taken = r.size;
    *out = t;
    return PL_OK;
}

pl_status pl_trained_read(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                          const char *name, pl_error *err) {
    return read_part(out, bytes, size, taken, false, name, err);
}

pl_status pl_trained_read_trusted(pl_trained **out, const void *bytes, size_t size, size_t *taken,
                                  const char *name, pl_error *err) {
    return read_part(out, bytes, size, taken, true, name, err);
}

pl_status pl_trained_open(pl_trained **out, const char *path, pl_error *err) {
    *out = NULL;
    pl_file file;
    pl_status status = pl_file_open(&file, path, file_most, err);
    if (status != PL_OK) return status;
    size_t size = file.size;
    void *bytes = pl_file_take(&file);
    status = pl_trained_read(out, bytes, size, NULL, path, err);
    if (status == PL_OK)
        (*out)->bytes = bytes;
    else
        free(bytes);
    return status;
}

/* ---- saving ---- */

static pl_status put(const char *path, const pl_writer *w, pl_error *err) {
    struct stat info;
    pl_replace file;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return pl_fail(err, PL_USAGE, path, -1, "cannot write: a plain file is expected here");
    bool written = pl_replace_open(&file, path);
    if (written) {
        fwrite(w->bytes, 1, w->size, file.out);
        written = pl_replace_close(&file, true); /* which says what went wrong before, too */
    }
    return written ? PL_OK
                   : pl_fail(err, PL_MISSING, path, -1, "cannot write: %s", strerror(errno));
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
    if (status == PL_OK) status = put(path, &w, err);
    free(w.bytes);
    return status;
}
