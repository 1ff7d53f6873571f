/* estimators: the library's registry as a list, or everything it says about one of them. */
#include <stdio.h>

#include "core/json_writer.h"
#include "text.h"
#include "verbs.h"

/* What it learnt: nothing to learn, there already, or yet to be trained. */
static const char *weights_of(const pl_estimator_info *info) {
    return !info->learns ? "-" : info->has_weights ? "built in" : "to be trained";
}

static void print_list(void) {
    const pl_estimator_info *info;
    pl_job job;
    pl_job_default(&job);
    table *t = table_new("lllll");
    table_row(t, (const char *[]){"NAME", "KIND", "WEIGHTS", "NEEDS", "WHAT IT IS"});
    for (size_t i = 0; (info = pl_estimator_at(i)); i++)
        table_row(t,
                  (const char *[]){info->name, pl_estimator_kind_name(info->kind), weights_of(info),
                                   info->needs_graph ? "graph" : "counts", info->title});
    table_print(t, stdout, 0);
    printf("\nwithout --estimator: %s\n", job.estimator);
}

static void print_line(const char *name, const char *text) {
    if (!text || !text[0]) return;
    printf("  %-11s ", name);
    text_clean(stdout, text);
    putchar('\n');
}

static void print_one(const pl_estimator_info *info) {
    printf("%s%s%s: ", text_style(BOLD), info->name, text_style(PLAIN));
    text_clean(stdout, info->title);
    putchar('\n');
    print_line("kind", pl_estimator_kind_name(info->kind));
    print_line("source", info->source);
    print_line("leaves out", info->leaves_out);
    print_line("needs", info->needs_graph ? "the model's graph"
                                          : "counts of the model's layers; a graph gives them");
    if (!info->learns) return;
    print_line("weights", info->has_weights ? "built in; plimsoll train makes others, for --model"
                                            : "none here: plimsoll train makes them, for --model");
    if (info->slow)
        print_line("training", "slow: evaluate --estimator all --split ... leaves it out");
}

static void json_members(pl_json_writer *j, const pl_estimator_info *info) {
    pl_json_put_string(j, "name", info->name);
    pl_json_put_string(j, "kind", pl_estimator_kind_name(info->kind));
    pl_json_put_string(j, "title", info->title);
    pl_json_put_string(j, "source", info->source);
    pl_json_put_string(j, "leaves_out", info->leaves_out);
    pl_json_put_bool(j, "needs_graph", info->needs_graph);
    pl_json_put_bool(j, "learns", info->learns);
    pl_json_put_bool(j, "has_weights", info->has_weights);
    pl_json_put_bool(j, "slow", info->slow);
}

static void print_json(const pl_estimator_info *one) {
    pl_json_writer j = {.file = stdout};
    pl_job job;
    pl_job_default(&job);
    pl_json_put_open(&j, NULL, '{');
    pl_json_put_int(&j, "schema", 1);
    if (one) {
        json_members(&j, one);
    } else {
        pl_json_put_string(&j, "default", job.estimator);
        pl_json_put_open(&j, "estimators", '[');
        const pl_estimator_info *info;
        for (size_t i = 0; (info = pl_estimator_at(i)); i++) {
            pl_json_put_open(&j, NULL, '{');
            json_members(&j, info);
            pl_json_put_close(&j, '}');
        }
        pl_json_put_close(&j, ']');
    }
    pl_json_put_close(&j, '}');
    putchar('\n');
}

int verb_estimators(const request *r) {
    const pl_estimator_info *one = r->file ? pl_estimator_find(r->file) : NULL;
    if (r->file && !one) return unknown_name("estimators", "estimator", pl_estimator_name, r->file);
    if (r->json)
        print_json(one);
    else if (one)
        print_one(one);
    else
        print_list();
    return 0;
}
