/* progress: see progress.h. A thread of its own draws ten times per second, from the first second on,
 * so that work which cannot report in between shows life too. */
#include "progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

static struct {
    const char *label;
    char note[128]; /* under the lock */
    atomic_size_t done, total;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, stop;
    pthread_t thread;
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

enum { CELLS = 30, TICK_NS = 100000000 };

static void draw(int tick) {
    size_t done = atomic_load(&progress.done), total = atomic_load(&progress.total);
    fprintf(stderr, "\r%s ", progress.label);
    if (total) {
        double share = (double)done / (double)total;
        int used = text_bar(stderr, share, CELLS);
        fprintf(stderr, "%*s %zu of %zu", CELLS - used, "", done, total);
    } else {
        int at = tick % (2 * CELLS);
        if (at >= CELLS) at = 2 * CELLS - 1 - at;
        for (int i = 0; i < CELLS; i++) putc(i == at ? '*' : '.', stderr);
        fprintf(stderr, " %d s", tick / 10);
    }
    if (progress.note[0]) fprintf(stderr, ", %s", progress.note);
    fputs("\033[K", stderr);
    fflush(stderr);
}

static void *ticker(void *unused) {
    (void)unused;
    struct timespec next;
    clock_gettime(CLOCK_REALTIME, &next);
    next.tv_sec++;
    bool drawn = false;
    pthread_mutex_lock(&progress.lock);
    for (int tick = 10; !progress.stop; tick++) {
        int waited = 0;
        while (!progress.stop && waited == 0)
            waited = pthread_cond_timedwait(&progress.changed, &progress.lock, &next);
        if (progress.stop) break;
        draw(tick);
        drawn = true;
        next.tv_nsec += TICK_NS;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
    }
    pthread_mutex_unlock(&progress.lock);
    if (drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    return NULL;
}

void progress_start(const char *label, size_t total) {
    if (progress.running || !isatty(STDERR_FILENO)) return;
    progress.label = label;
    progress.note[0] = '\0';
    atomic_store(&progress.done, 0);
    atomic_store(&progress.total, total);
    progress.stop = false;
    /* Without a thread there is no bar; the work goes on all the same. */
    progress.running = pthread_create(&progress.thread, NULL, ticker, NULL) == 0;
}

void progress_at(size_t done) {
    atomic_store(&progress.done, done);
}

void progress_total(size_t total) {
    atomic_store(&progress.total, total);
}

void progress_note(const char *text) {
    pthread_mutex_lock(&progress.lock);
    snprintf(progress.note, sizeof progress.note, "%s", text);
    pthread_mutex_unlock(&progress.lock);
}

void progress_stop(void) {
    if (!progress.running) return;
    pthread_mutex_lock(&progress.lock);
    progress.stop = true;
    pthread_cond_signal(&progress.changed);
    pthread_mutex_unlock(&progress.lock);
    pthread_join(progress.thread, NULL);
    progress.running = false;
}
