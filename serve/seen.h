/* seen: plimsoll history: predicted against real, by kind of card. */
#ifndef PLIMSOLL_SERVE_SEEN_H
#define PLIMSOLL_SERVE_SEEN_H

/* argv[0] is "history". An exit code. */
int seen_main(int argc, char **argv);

#endif
