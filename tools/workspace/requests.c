/* requests: the allocations of measured jobs in the order the simulation makes them, and which of them are
 * workspaces of convolutions. One JSON object per line; traced.py lays what was recorded beside it.
 *
 *   workspace_requests JOBS.jsonl[.xz] [GRAPHS ...]
 *
 * "allocs": bytes as asked for, of a workspace -1 less its place in "convs", which are written in the form of
 * tools/measure/convs.py with the pass beside: what such a workspace takes is not asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/simulate.h"
#include "lab/train/learned.h"

typedef struct requests {
    struct {
        pl_conv conv;
        pl_conv_pass pass;
    } * items;
    size_t count, room;
} requests;

/* Workspaces that no tensor is as large as: the least, and one more for each request. */
static const int64_t marked = (int64_t)1 << 50;

static int64_t mark(void *context, const pl_conv *conv, pl_conv_pass pass, int cc_major,
                    int cc_minor, double *doubt) {
    (void)cc_major, (void)cc_minor, (void)doubt;
    requests *r = context;
    if (r->count == r->room) {
        r->room = r->room ? 2 * r->room : 1024;
        void *grown = realloc(r->items, r->room * sizeof *r->items);
        if (!grown) abort();
        r->items = grown;
    }
    r->items[r->count].conv = *conv;
    r->items[r->count].pass = pass;
    return marked + (int64_t)r->count++;
}

static void print_sizes(const char *name, const int64_t *sizes, int count) {
    printf("\"%s\":[", name);
    for (int i = 0; i < count; i++) printf("%s%lld", i ? "," : "", (long long)sizes[i]);
    printf("],");
}

/* What PyTorch calls output_padding: how much larger a transposed convolution's output is than the least. */
static void print_output_padding(const pl_conv *c) {
    int64_t more[3];
    for (int i = 0; i < c->dims; i++)
        more[i] = !c->transposed ? 0
                                 : c->out[i] - ((c->in[i] - 1) * c->stride[i] - 2 * c->padding[i] +
                                                c->dilation[i] * (c->kernel[i] - 1) + 1);
    print_sizes("op", more, c->dims);
}

static void print_conv(const pl_conv *c, pl_conv_pass pass) {
    static const char *const passes[] = {"f", "bd", "bw"};
    const char *mode = c->dtype == PL_DT_BF16  ? "bf16"
                       : c->dtype == PL_DT_F16 ? "fp16"
                       : c->tf32               ? "tf32"
                                               : "fp32";
    printf("{\"pass\":\"%s\",\"d\":%d,\"n\":%lld,\"cin\":%lld,\"cout\":%lld,\"g\":%lld,\"t\":%d,"
           "\"cl\":%d,\"bench\":%d,\"mode\":\"%s\",",
           passes[pass], c->dims, (long long)c->batch, (long long)c->in_channels,
           (long long)c->out_channels, (long long)c->groups, c->transposed, c->channels_last,
           c->benchmark, mode);
    print_output_padding(c);
    print_sizes("in", c->in, c->dims);
    print_sizes("k", c->kernel, c->dims);
    print_sizes("s", c->stride, c->dims);
    print_sizes("p", c->padding, c->dims);
    print_sizes("dil", c->dilation, c->dims);
    printf("\"backend\":\"Cudnn\"}");
}

static void print_job(const char *id, const pl_tape *tape, const requests *r) {
    printf("{\"id\":\"%s\",\"allocs\":[", id);
    const char *comma = "";
    for (size_t i = 0; i < tape->event_count; i++) {
        if (tape->events[i] <= 0) continue;
        int64_t bytes = tape->blocks[tape->events[i]].bytes;
        printf("%s%lld", comma, (long long)(bytes >= marked ? marked - bytes - 1 : bytes));
        comma = ",";
    }
    printf("],\"convs\":[");
    for (size_t i = 0; i < r->count; i++) {
        if (i) printf(",");
        print_conv(&r->items[i].conv, r->items[i].pass);
    }
    printf("]}\n");
}

static pl_status print_item(const pl_jobs *jobs, const pl_measured *item, pl_error *err) {
    pl_question q;
    pl_status status = pl_question_open(&q, jobs, item, true, &jobs->limits, err);
    pl_tape *tape = NULL;
    requests r = {0};
    if (status == PL_OK && q.graph) {
        pl_tape_device device = pl_tape_device_of(q.subject.gpu);
        device.conv = mark;
        device.context = &r;
        status = pl_tape_train(&tape, q.subject.graph, q.subject.job, PL_TAPE_STEPS, &device,
                               q.subject.budget, err);
        if (status == PL_OK) print_job(item->facts.id, tape, &r);
    }
    pl_tape_close(&tape);
    free(r.items);
    pl_question_close(&q);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: workspace_requests JOBS.jsonl[.xz] [GRAPHS ...]\n");
        return 2;
    }
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    settings.graphs = argc > 2 ? argv[2] : NULL;
    settings.more_graphs = (const char *const *)&argv[argc > 3 ? 3 : argc];
    settings.more_graph_count = (size_t)(argc > 3 ? argc - 3 : 0);
    pl_jobs *jobs = NULL;
    pl_error err = {0};
    if (pl_jobs_open(&jobs, (const char *const *)&argv[1], 1, &settings, &err) != PL_OK) {
        fprintf(stderr, "%s: %s\n", err.where, err.message);
        return 3;
    }
    for (size_t i = 0; i < jobs->count; i++)
        if (print_item(jobs, &jobs->items[i], &err) != PL_OK)
            fprintf(stderr, "%s: %s\n", jobs->items[i].facts.id, err.message);
    pl_jobs_close(&jobs);
    return 0;
}
