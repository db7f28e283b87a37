/* Starts a shell command again and again, so many at a time, for so many seconds; prints commands a second. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {  /* seconds, at a time, command */
    char *args[] = {"/bin/sh", "-c", argv[3], NULL}, *env[] = {"PATH=/usr/bin:/bin", NULL};
    double start = now(), end = start + atof(argv[1]);
    int most = atoi(argv[2]), going = 0, done = 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    while (now() < end || going) {
        while (going < most && now() < end) {
            pid_t pid;
            if (posix_spawn(&pid, args[0], &actions, NULL, args, env)) return 1;
            going++;
        }
        if (wait(NULL) > 0) { going--; done++; }
    }
    printf("%f\n", done / (now() - start));
    return 0;
}
