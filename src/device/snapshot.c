/* snapshot: see snapshot.h.
 *
 * The form was read in torch/csrc/cuda/memory_snapshot.cpp and torch/cuda/_memory_viz.py (2.11): a
 * pickle of one dictionary: device_traces (per device a list of events: alloc, free_requested,
 * free_completed, segment_alloc, segment_free, segment_map, segment_unmap), segments (what is held at
 * the end, block by block), allocator_settings, external_annotations. It is written as it comes, in
 * protocol 2, so that only segments and blocks that live are kept in memory.
 *
 * Other than PyTorch's: an event's size is what counts in `allocated`, not what was asked for, so that
 * the sums of a trace are the report's; frames name the operator, its module in place of a file, and
 * the phase; time_us counts events. Left out: events of other devices, compile contexts. */
#include "device/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/replace.h"
#include "device/block.h"

enum { CACHED = 1 << 12 };
/* The allocator's addresses begin about 2^62; those of a snapshot are below 2^53, where the viewer's
 * numbers are exact, and look like a process's. */
static const int64_t base_address = ((int64_t)0x7f << 40) - ((int64_t)1 << 62);

typedef struct segment {
    int64_t address, bytes;
    int stream;
    bool pages;
} segment;

typedef struct live {
    int32_t id; /* of the tape; 0: gone */
    int64_t address, bytes;
} live;

typedef struct annotation {
    int64_t time;
    int phase, step;
} annotation;

struct pl_snapshot {
    pl_replace file;
    FILE *out;
    const pl_graph *graph;
    pl_arena *arena;
    uint32_t memos; /* pickle's memo: strings written so far */
    struct {
        const char *text;
        uint32_t memo;
    } seen[CACHED];
    segment *segments;
    size_t segment_count, segment_room;
    live *lives; /* by id of the tape */
    size_t live_room;
    annotation *notes;
    size_t note_count, note_room;
    int64_t time;
    int phase, step;
    bool failed;
};

/* ---- pickle ---- */

static void put_number(pl_snapshot *s, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) putc((int)(value >> 8 * i & 255), s->out);
}

static void put_int(pl_snapshot *s, int64_t value) {
    if (value >= 0 && value < 256) {
        putc('K', s->out);
        put_number(s, (uint64_t)value, 1);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        putc('J', s->out);
        put_number(s, (uint64_t)value, 4);
    } else {
        fputs("\x8a\x08", s->out); /* LONG1 of eight bytes */
        put_number(s, (uint64_t)value, 8);
    }
}

/* Bytes that are no UTF-8 would make the file unreadable: they become '?'. */
static void put_text(pl_snapshot *s, const char *text) {
    size_t at = ((uintptr_t)text >> 3) % CACHED;
    if (s->seen[at].text == text) {
        putc('j', s->out);
        put_number(s, s->seen[at].memo, 4);
        return;
    }
    size_t length = strlen(text);
    putc('X', s->out);
    put_number(s, length, 4);
    for (size_t i = 0; i < length; i++) putc((unsigned char)text[i] < 0x80 ? text[i] : '?', s->out);
    putc('r', s->out);
    put_number(s, s->memos, 4);
    s->seen[at].text = text;
    s->seen[at].memo = s->memos++;
}

static void key_int(pl_snapshot *s, const char *key, int64_t value) {
    put_text(s, key);
    put_int(s, value);
}

static void key_text(pl_snapshot *s, const char *key, const char *value) {
    put_text(s, key);
    put_text(s, value);
}

static void key_bool(pl_snapshot *s, const char *key, bool value) {
    put_text(s, key);
    putc(value ? 0x88 : 0x89, s->out);
}

/* The same literals each time, so that their addresses find their memos. */
static const char k_action[] = "action", k_addr[] = "addr", k_size[] = "size",
                  k_stream[] = "stream", k_time[] = "time_us", k_frames[] = "frames",
                  k_name[] = "name", k_file[] = "filename", k_line[] = "line", k_none[] = "",
                  k_address[] = "address", k_device[] = "device";
static const char *const phases[] = {"load", "input", "forward", "backward", "optimizer"};

static void put_frame(pl_snapshot *s, const char *name, const char *file, int64_t line) {
    fputs("}(", s->out);
    key_text(s, k_name, name);
    key_text(s, k_file, file);
    key_int(s, k_line, line);
    putc('u', s->out);
}

/* The operator of a module, and the phase of a step as its line. NULL: none. */
static void put_frames(pl_snapshot *s, const pl_tape_block *block) {
    put_text(s, k_frames);
    fputs("](", s->out);
    if (block) {
        const char *module = block->node >= 0 ? pl_node_module(s->graph, block->node) : k_none;
        const pl_tensor *tensor = block->tensor >= 0 ? &s->graph->tensors[block->tensor] : NULL;
        if (tensor && tensor->path && tensor->path != block->what)
            put_frame(s, tensor->path, k_none, 0);
        put_frame(s, block->what ? block->what : k_none, module ? module : k_none, 0);
        put_frame(s, phases[block->phase < 5 ? block->phase : 0], "step", block->step + 1);
    }
    putc('e', s->out);
}

static void put_event(pl_snapshot *s, const char *action, int64_t address, int64_t bytes,
                      int stream, const pl_tape_block *block) {
    fputs("}(", s->out);
    key_text(s, k_action, action);
    key_int(s, k_addr, base_address + address);
    key_int(s, k_size, bytes);
    key_int(s, k_stream, stream);
    key_int(s, k_time, s->time);
    put_frames(s, block);
    fputs("ua", s->out);
}

/* ---- as it comes ---- */

pl_snapshot *pl_snapshot_open(const char *path, const pl_graph *graph, pl_arena *arena,
                              int *failed) {
    pl_snapshot *s = pl_arena_alloc(arena, sizeof *s);
    *failed = 0;
    if (!s) return NULL;
    s->graph = graph;
    s->arena = arena;
    s->phase = -1;
    if (!pl_replace_open(&s->file, path)) {
        *failed = errno ? errno : EIO;
        return NULL;
    }
    s->out = s->file.out;
    fputs("\x80\x02}", s->out);
    put_text(s, "device_traces");
    fputs("]]", s->out); /* one device */
    return s;
}

void pl_snapshot_segment(void *snapshot, int64_t address, int64_t bytes, int stream, bool pages,
                         bool made) {
    pl_snapshot *s = snapshot;
    put_event(s,
              pages  ? made ? "segment_map" : "segment_unmap"
              : made ? "segment_alloc"
                     : "segment_free",
              address, bytes, stream, NULL);
    if (made) {
        segment *grown = pl_arena_grow(s->arena, s->segments, &s->segment_room,
                                       s->segment_count + 1, sizeof *grown);
        if (!grown) {
            s->failed = true;
            return;
        }
        s->segments = grown;
        s->segments[s->segment_count++] = (segment){address, bytes, stream, pages};
        return;
    }
    /* pages may be given back in other pieces than they were taken in */
    int64_t end = address + bytes;
    size_t kept = 0, count = s->segment_count;
    for (size_t i = 0; i < count; i++) {
        segment g = s->segments[i];
        int64_t far = g.address + g.bytes;
        if (far <= address || g.address >= end) {
            s->segments[kept++] = g;
            continue;
        }
        if (g.address < address) { /* its beginning stays */
            s->segments[kept++] = (segment){g.address, address - g.address, g.stream, g.pages};
            if (far > end && kept <= i) { /* and its end, in the place it had */
                s->segments[kept++] = (segment){end, far - end, g.stream, g.pages};
            } else if (far > end) {
                segment *grown = pl_arena_grow(s->arena, s->segments, &s->segment_room, count + 1,
                                               sizeof *grown);
                if (!grown) {
                    s->failed = true;
                    return;
                }
                s->segments = grown;
                memmove(&grown[kept + 1], &grown[i + 1], (count - i - 1) * sizeof *grown);
                grown[kept++] = (segment){end, far - end, g.stream, g.pages};
                i++;
                count++;
            }
        } else if (far > end) {
            s->segments[kept++] = (segment){end, far - end, g.stream, g.pages};
        }
    }
    s->segment_count = kept;
}

void pl_snapshot_phase(pl_snapshot *s, int phase, int step) {
    annotation *grown =
        pl_arena_grow(s->arena, s->notes, &s->note_room, s->note_count + 1, sizeof *grown);
    if (!grown) {
        s->failed = true;
        return;
    }
    s->notes = grown;
    s->notes[s->note_count++] = (annotation){s->time, phase, step};
}

void pl_snapshot_block(pl_snapshot *s, int32_t id, const pl_tape_block *block, int64_t address,
                       int64_t bytes, bool made) {
    live *grown = pl_arena_grow(s->arena, s->lives, &s->live_room, (size_t)id + 1, sizeof *grown);
    if (!grown) {
        s->failed = true;
        return;
    }
    s->lives = grown;
    s->lives[id] = made ? (live){id, address, bytes} : (live){0};
    if (made) {
        put_event(s, "alloc", address, bytes, block->stream, block);
    } else {
        put_event(s, "free_requested", address, bytes, block->stream, block);
        put_event(s, "free_completed", address, bytes, block->stream, NULL);
    }
    s->time++;
}

/* ---- the end ---- */

static int by_address(const void *x, const void *y) {
    const live *a = x, *b = y;
    return a->address < b->address ? -1 : a->address > b->address;
}

static int by_segment(const void *x, const void *y) {
    const segment *a = x, *b = y;
    return a->address < b->address ? -1 : a->address > b->address;
}

static void put_block(pl_snapshot *s, int64_t address, int64_t bytes, int64_t asked,
                      const pl_tape_block *block) {
    fputs("}(", s->out);
    key_int(s, k_address, base_address + address);
    key_int(s, k_size, bytes);
    key_int(s, "requested_size", asked);
    key_text(s, "state", block ? "active_allocated" : "inactive");
    put_frames(s, block);
    fputs("ua", s->out);
}

static void put_segment(pl_snapshot *s, const segment *g, const live *lives, size_t count,
                        const pl_tape *tape) {
    int64_t held = 0, asked = 0, at = g->address;
    for (size_t i = 0; i < count; i++) {
        held += lives[i].bytes;
        asked += tape->blocks[lives[i].id].bytes;
    }
    fputs("}(", s->out);
    key_int(s, k_device, 0);
    key_int(s, k_address, base_address + g->address);
    key_int(s, "total_size", g->bytes);
    key_int(s, "allocated_size", held);
    key_int(s, "active_size", held);
    key_int(s, "requested_size", asked);
    key_int(s, k_stream, g->stream);
    key_text(s, "segment_type", g->bytes <= 2 << 20 ? "small" : "large");
    put_text(s, "segment_pool_id");
    fputs("K", s->out);
    put_number(s, 0, 1);
    fputs("K", s->out);
    put_number(s, 0, 1);
    putc(0x86, s->out); /* a pair */
    key_bool(s, "is_expandable", g->pages);
    put_frames(s, NULL);
    put_text(s, "blocks");
    putc(']', s->out);
    for (size_t i = 0; i < count; i++) {
        if (lives[i].address > at) put_block(s, at, lives[i].address - at, 0, NULL);
        put_block(s, lives[i].address, lives[i].bytes, tape->blocks[lives[i].id].bytes,
                  &tape->blocks[lives[i].id]);
        at = lives[i].address + lives[i].bytes;
    }
    if (at < g->address + g->bytes) put_block(s, at, g->address + g->bytes - at, 0, NULL);
    fputs("ua", s->out);
}

static void put_segments(pl_snapshot *s, const pl_tape *tape) {
    size_t count = 0, alive = 0;
    if (s->segment_count) qsort(s->segments, s->segment_count, sizeof *s->segments, by_segment);
    for (size_t i = 0; i < s->segment_count; i++) { /* pages side by side are one segment */
        segment *last = count ? &s->segments[count - 1] : NULL;
        const segment *g = &s->segments[i];
        if (last && last->pages && g->pages && last->stream == g->stream &&
            last->address + last->bytes == g->address)
            last->bytes += g->bytes;
        else
            s->segments[count++] = *g;
    }
    for (size_t i = 0; i < s->live_room; i++)
        if (s->lives[i].id) s->lives[alive++] = s->lives[i];
    if (alive) qsort(s->lives, alive, sizeof *s->lives, by_address);
    put_text(s, "segments");
    putc(']', s->out);
    for (size_t i = 0, from = 0; i < count; i++) {
        const segment *g = &s->segments[i];
        while (from < alive && s->lives[from].address < g->address) from++;
        size_t to = from;
        while (to < alive && s->lives[to].address < g->address + g->bytes) to++;
        put_segment(s, g, s->lives + from, to - from, tape);
        from = to;
    }
    putc('s', s->out);
}

static void put_annotations(pl_snapshot *s) {
    put_text(s, "external_annotations");
    putc(']', s->out);
    for (size_t i = 0; i < s->note_count; i++) {
        const annotation *n = &s->notes[i];
        char *name = pl_arena_alloc(s->arena, 48);
        if (!name) break;
        snprintf(name, 48, "step %d, %s", n->step + 1, phases[n->phase < 5 ? n->phase : 0]);
        for (int end = 0; end < 2; end++) {
            int64_t time = !end ? n->time : i + 1 < s->note_count ? s->notes[i + 1].time : s->time;
            fputs("}(", s->out);
            key_int(s, k_device, 0);
            key_int(s, k_time, time);
            key_text(s, "stage", end ? "END" : "START");
            key_text(s, k_name, name);
            fputs("ua", s->out);
        }
    }
    putc('s', s->out);
}

int pl_snapshot_close(pl_snapshot **snapshot, const pl_tape *tape, const char *alloc_conf,
                      const pl_allocator_settings *settings, bool keep) {
    pl_snapshot *s = *snapshot;
    *snapshot = NULL;
    if (!s) return 0;
    keep = keep && !s->failed;
    if (keep) {
        fputs("as", s->out); /* the device's list into the list of devices, and that to its key */
        put_segments(s, tape);
        put_annotations(s);
        put_text(s, "allocator_settings");
        fputs("}(", s->out);
        key_text(s, "PYTORCH_CUDA_ALLOC_CONF", alloc_conf ? alloc_conf : k_none);
        key_bool(s, "expandable_segments", settings->expandable_segments);
        key_int(s, "max_split_size",
                settings->max_split_size == INT64_MAX ? -1 : settings->max_split_size);
        fputs("us.", s->out);
    }
    errno = 0;
    bool written = pl_replace_close(&s->file, keep);
    return keep && !written ? (errno ? errno : EIO) : s->failed ? ENOMEM : 0;
}
