/* convert: the graph that a model file was understood as, in plimsoll's own JSON. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "verbs.h"

int verb_convert(const request *r) {
    pl_model *model = NULL;
    pl_error err;
    char *text = NULL;
    size_t size = 0;
    int code = open_model(&model, r);
    if (code == 0 && pl_model_convert(&text, &size, model, &r->job, &err) != PL_OK)
        code = complain_of(&err, r->file);
    if (code == 0 && !r->out) {
        fwrite(text, 1, size, stdout);
    } else if (code == 0) {
        FILE *out = fopen(r->out, "w");
        bool good = out && fwrite(text, 1, size, out) == size;
        if (out && fclose(out) != 0) good = false;
        if (!good) code = complain(PL_INPUT, "%s: %s", r->out, strerror(errno));
    }
    free(text);
    pl_model_close(&model);
    return code;
}
