/* access: see access.h. */
#include "access.h"

#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/error.h"
#include "core/file.h"
#include "core/mix.h"

enum {
    MOST_FILE = 1 << 20,
    MOST_TOKENS = 1024,
    LEAST_TOKEN = 16,
    MOST_TOKEN = 256,
    MOST_USERS = 64
};

typedef struct token {
    unsigned char bytes[MOST_TOKEN]; /* zeros behind it */
    size_t length;
    int scopes;
} token;

struct access_list {
    token *tokens;
    size_t count;
    uid_t users[MOST_USERS];
    size_t user_count;
};

static const struct {
    const char *name;
    int scope;
} scope_names[] = {{"read", SCOPE_READ},
                   {"estimate", SCOPE_ESTIMATE},
                   {"record", SCOPE_RECORD},
                   {"metrics", SCOPE_METRICS},
                   {"all", SCOPE_ALL}};

/* ---- the file of tokens ---- */

static bool read_scopes(const char *text, const char *end, int *out) {
    *out = SCOPE_NONE;
    while (text < end) {
        size_t length = 0;
        while (text + length < end && text[length] != ',') length++;
        size_t i = 0, rows = sizeof scope_names / sizeof *scope_names;
        while (i < rows && !(strlen(scope_names[i].name) == length &&
                             strncmp(scope_names[i].name, text, length) == 0))
            i++;
        if (i == rows) return false;
        *out |= scope_names[i].scope;
        text += length + (text + length < end);
    }
    return *out != SCOPE_NONE;
}

static pl_status read_token(access_list *list, const char *line, const char *end, const char *file,
                            int64_t number, pl_error *err) {
    while (end > line && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t')) end--;
    if (line == end || *line == '#') return PL_OK;
    const char *stop = line;
    while (stop < end && *stop != ' ' && *stop != '\t') stop++;
    const char *scopes = stop;
    while (scopes < end && (*scopes == ' ' || *scopes == '\t')) scopes++;
    size_t length = (size_t)(stop - line);
    if (length < LEAST_TOKEN || length >= MOST_TOKEN)
        return pl_fail(err, PL_INPUT, file, number, "a token has %d to %d letters", LEAST_TOKEN,
                       MOST_TOKEN - 1);
    if (list->count == MOST_TOKENS)
        return pl_fail(err, PL_INPUT, file, number, "more than %d tokens", MOST_TOKENS);
    token *t = &list->tokens[list->count++];
    memcpy(t->bytes, line, length);
    t->length = length;
    if (!read_scopes(scopes, end, &t->scopes))
        return pl_fail(err, PL_INPUT, file, number,
                       "scopes behind a token: read, estimate, record, metrics or all, by commas");
    return PL_OK;
}

static pl_status read_tokens(access_list *list, const char *path, pl_error *err) {
    pl_file file;
    pl_status status = pl_file_open(&file, path, MOST_FILE, err);
    if (status != PL_OK) return status;
    list->tokens = calloc(MOST_TOKENS, sizeof *list->tokens);
    if (!list->tokens) status = pl_fail(err, PL_MISSING, path, -1, "out of memory");
    const char *at = file.bytes, *end = at + file.size;
    for (int64_t number = 1; status == PL_OK && at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        status = read_token(list, at, stop, path, number, err);
        at = stop + 1;
    }
    if (status == PL_OK && list->count == 0)
        status = pl_fail(err, PL_INPUT, path, -1, "no tokens in it");
    pl_file_close(&file);
    return status;
}

static pl_status read_users(access_list *list, const char *text, pl_error *err) {
    while (*text) {
        char name[64], *end;
        size_t length = strcspn(text, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), text);
        text += length + (text[length] == ',');
        unsigned long number = strtoul(name, &end, 10);
        bool is_number = *name >= '0' && *name <= '9' && !*end && number < UINT32_MAX;
        struct passwd *row = is_number ? NULL : getpwnam(name);
        if (!is_number && !row)
            return pl_fail(err, PL_USAGE, "socket-users", -1, "no user %s", name);
        if (list->user_count == MOST_USERS)
            return pl_fail(err, PL_USAGE, "socket-users", -1, "more than %d users", MOST_USERS);
        list->users[list->user_count++] = row ? row->pw_uid : (uid_t)number;
    }
    return PL_OK;
}

pl_status access_open(access_list **out, const config *c, pl_error *err) {
    *out = NULL;
    access_list *list = calloc(1, sizeof *list);
    if (!list) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_status status = *c->tokens ? read_tokens(list, c->tokens, err) : PL_OK;
    if (status == PL_OK) status = read_users(list, c->socket_users, err);
    if (status == PL_OK)
        *out = list;
    else
        access_close(&list);
    return status;
}

void access_close(access_list **list) {
    if (!list || !*list) return;
    free((*list)->tokens);
    free(*list);
    *list = NULL;
}

/* ---- asking ---- */

bool access_has_tokens(const access_list *list) {
    return list->count > 0;
}

int access_of_token(const access_list *list, const char *header) {
    unsigned char given[MOST_TOKEN] = {0};
    int scopes = -1;
    if (!header || strncasecmp(header, "Bearer ", 7) != 0) return -1;
    size_t length = strlen(header + 7);
    if (length >= MOST_TOKEN) return -1;
    memcpy(given, header + 7, length);
    for (size_t i = 0; i < list->count; i++) {
        const token *t = &list->tokens[i];
        unsigned differs = t->length != length;
        for (size_t j = 0; j < MOST_TOKEN; j++) differs |= t->bytes[j] ^ given[j];
        scopes = differs ? scopes : t->scopes;
    }
    return scopes;
}

bool access_of_peer(const access_list *list, int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (list->user_count == 0) return true;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    for (size_t i = 0; i < list->user_count; i++)
        if (list->users[i] == peer.uid) return true;
    return false;
}

/* ---- rates ---- */

enum { RATE_ROWS = 1 << 14 }; /* addresses that collide share a bucket */

struct rates {
    pthread_mutex_t lock;
    double per_second;
    uint64_t secret;
    struct {
        double left;
        int64_t at_ns;
    } row[RATE_ROWS];
};

rates *rates_open(int64_t per_second) {
    rates *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    pthread_mutex_init(&r->lock, NULL);
    r->per_second = (double)per_second;
    r->secret = pl_mix_secret(r);
    return r;
}

void rates_close(rates **r) {
    if (!r || !*r) return;
    pthread_mutex_destroy(&(*r)->lock);
    free(*r);
    *r = NULL;
}

/* IPv4 by address, IPv6 by its network of 64 bits. */
static uint64_t address_of(const struct sockaddr *a) {
    uint64_t out = 0;
    if (a && a->sa_family == AF_INET) memcpy(&out, &((const struct sockaddr_in *)a)->sin_addr, 4);
    if (a && a->sa_family == AF_INET6)
        memcpy(&out, &((const struct sockaddr_in6 *)a)->sin6_addr, 8);
    return out;
}

bool rates_take(rates *r, const struct sockaddr *address, int64_t now_ns) {
    if (r->per_second <= 0) return true;
    size_t i = pl_mix(1, address_of(address), r->secret) % RATE_ROWS;
    pthread_mutex_lock(&r->lock);
    double left = r->row[i].at_ns == 0
                      ? r->per_second
                      : r->row[i].left + r->per_second * (double)(now_ns - r->row[i].at_ns) / 1e9;
    if (left > r->per_second) left = r->per_second;
    bool may = left >= 1;
    r->row[i].left = may ? left - 1 : left;
    r->row[i].at_ns = now_ns;
    pthread_mutex_unlock(&r->lock);
    return may;
}
