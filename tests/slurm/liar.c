/* liar: listens where the daemon should, and answers every question with the same nonsense: liar SOCKET WAY. For the tests of Slurm's
 * plugins. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ESTIMATE(peak, verdict)                                                                    \
    "{\"memory\":{\"peak_bytes\":" peak ",\"low_bytes\":" peak ",\"upper_bytes\":" peak            \
    "},\"verdict\":\"" verdict                                                                     \
    "\",\"usable_bytes\":149815296000,\"gpu\":{\"capacity_bytes\":150754820096}}"

static const struct way {
    const char *name, *body;
    int pause_ms; /* before each byte */
} ways[] = {
    {"garbage", NULL, 0},
    {"empty", "", 0},
    {"negative", ESTIMATE("-5000000000", "fits"), 0},
    {"absurd", ESTIMATE("9000000000000000000000", "does not fit"), 0},
    {"contrary", ESTIMATE("5000000000", "does not fit"), 0},
    {"slow", ESTIMATE("5000000000", "fits"), 5},
};

static void give(int fd, const char *bytes, size_t size, int pause_ms) {
    for (size_t i = 0; i < size; i++) {
        if (pause_ms) poll(NULL, 0, pause_ms);
        size_t length = pause_ms ? 1 : size;
        if (send(fd, bytes + i, length, MSG_NOSIGNAL) <= 0 || !pause_ms) return;
    }
}

int main(int argc, char **argv) {
    const struct way *way = NULL;
    for (size_t i = 0; argc == 3 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(argv[2], ways[i].name) == 0) way = &ways[i];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!way || strlen(argv[1]) >= sizeof name.sun_path) return 2;
    memcpy(name.sun_path, argv[1], strlen(argv[1]) + 1);
    unlink(argv[1]);
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&name, sizeof name) != 0 || listen(listening, 64) != 0)
        return 1;
    for (;;) {
        int fd = accept(listening, NULL, NULL);
        if (fd < 0) continue;
        char room[8192], answer[1024];
        if (recv(fd, room, sizeof room, 0) > 0) {
            int length = way->body ? snprintf(answer, sizeof answer,
                                              "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                                              strlen(way->body), way->body)
                                   : snprintf(answer, sizeof answer,
                                              "\x16\x03\x01 no HTTP\r\n\r\n{\"memory\"");
            give(fd, answer, (size_t)length, way->pause_ms);
        }
        close(fd);
    }
}
