/* convert: the graph that a model file was understood as, in plimsoll's own JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "output.h"
#include "text.h"
#include "verbs.h"

int verb_convert(const request *r) {
    pl_model *model = NULL;
    pl_error err = PL_SIZED(pl_error);
    char *text = NULL;
    size_t size = 0;
    int code = open_model(&model, r);
    if (code == 0 && pl_model_convert(&text, &size, model, &r->job, &err) != PL_OK)
        code = complain_of(&err, r->file);
    if (code == 0 && !r->out) {
        fwrite(text, 1, size, stdout);
    } else if (code == 0) {
        output file;
        FILE *out = output_open(&file, r->out, &code);
        if (out) {
            fwrite(text, 1, size, out);
            code = output_close(&file);
        }
    }
    free(text);
    pl_model_close(&model);
    return code;
}
