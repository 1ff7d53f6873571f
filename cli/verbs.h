/* verbs: one function per verb; each returns an exit code. And what several of them share. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "core/json_writer.h"
#include "options.h"
#include "text.h"

int verb_estimate(const request *r);
int verb_explain(const request *r);
int verb_check(const request *r);
int verb_fit(const request *r);
int verb_collocate(const request *r);
int verb_place(const request *r);
int verb_simulate(const request *r);
int verb_convert(const request *r);
int verb_evaluate(const request *r);
int verb_train(const request *r);
int verb_estimators(const request *r);
int verb_gpus(const request *r);
int verb_watch(const request *r);
int verb_serve(const request *r); /* argc and argv alone are set: its options are the daemon's */

/* explain --time, of a report with times; and its picture or numbers. */
int times_write(const char *path, const pl_report *report, const pl_model_info *info,
                const pl_job *job);
int times_print(const request *r, const pl_model *model, pl_report *report, const pl_job *job);

/* estimate with several batches or sequence lengths: a table, and --heatmap. */
int sweep(const request *r, const pl_model *model);

/* Whether a file begins as an estimate's JSON does, its keys as they were written or sorted: then a
 * failure to read it is reported as one of an estimate, not of a model. */
bool looks_like_estimate(const char *path);

/* Bytes of a plain file; 0 of what is none. */
int64_t file_size(const char *path);

/* Opens r->file; on failure complains and returns an exit code. */
int open_model(pl_model **model, const request *r);
/* One simulation, with a progress bar when it takes long; complains on failure. */
int simulate(pl_report **report, const pl_model *model, const request *r, const pl_job *job);

/* Two lines of what is simulated: the model, and how it is trained on which card. */
void print_model(const pl_model *model, const pl_report *report, const pl_job *job);
/* The job in one line, for pictures: batch, precision, optimizer and what else it asks for; the card
 * and what a process can have of it. */
void job_line(char *out, size_t size, const pl_model_info *info, const pl_report *report,
              const pl_job *job);
/* The peak, the breakdown with its bars. */
void print_peak(const pl_report *report);
/* A step's time and compute, and how busy the card is; nothing where nothing is known of them. */
void print_use(const pl_report *report, const pl_job *job, const pl_model *model);
/* One line: the word, and the arithmetic. */
void print_verdict(const pl_report *report);
void print_warnings(const pl_report *report);

/* Whether the estimator says what the peak is made of. */
bool has_breakdown(const pl_report *report);
/* "sim, hybrid": the estimators that simulate, and so have a timeline and what is alive. */
const char *simulating_names(void);
/* The cards, those of --gpus first, then the library's that they do not replace; NULL at the end.
 * whole: without instances of MIG. malloc'ed. */
const pl_gpu **card_list(const request *r, bool whole);

/* usable_bytes less upper_bytes (peak_bytes where there is no interval): what is left over, or
 * below 0 what is missing. */
int64_t headroom(const pl_report *report);

/* A verdict in a table: its colour, "yes", "maybe" or "no", a mark of one column; as an exit code. */
style verdict_style(pl_verdict verdict);
const char *verdict_answer(pl_verdict verdict);
const char *verdict_mark(pl_verdict verdict);
int verdict_code(pl_verdict verdict);
/* What the JSON has of it beside "fits": verdict, risk, oom_probability, usable_bytes. */
void json_verdict(pl_json_writer *j, const pl_report *report);
small_text text_risk(double risk); /* 0.025: "2.5 %" */

#endif
