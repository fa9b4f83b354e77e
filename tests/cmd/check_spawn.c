/* Children of /bin/sh under the launcher loop. A plain program: it forks, waits and handles signals. */
#include "cluster/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static int failures;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #cond);                                      \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

struct seen {
    char text[1 << 17]; /* "task:o|e:line\n" of every line */
    size_t n;
    size_t longest;
    void (*hook)(const char *line);
};

static void on_line(void *arg, unsigned task, bool is_err, const char *text, size_t n)
{
    struct seen *s = arg;

    s->longest = VB_MAX(s->longest, n);
    if (s->n + n + 32 < sizeof(s->text))
        s->n += (size_t)sprintf(s->text + s->n, "%u:%c:%s\n", task, is_err ? 'e' : 'o', text);
    if (s->hook != NULL)
        s->hook(text);
}

static struct seen seen;
static struct vb_err why;
static char sh[] = "sh", dash_c[] = "-c", path[] = "PATH=/usr/bin:/bin";
static char *const env[] = { path, NULL };

static enum vb_exit run(const char *const *script, unsigned n, uint64_t fail_ns, uint64_t stop_ns)
{
    static char name[4][16], text[4][256];
    struct spawn_task task[4];
    char *argv[4][4];

    for (unsigned i = 0; i < n; i++) {
        snprintf(name[i], sizeof(name[i]), "task %u", i);
        snprintf(text[i], sizeof(text[i]), "%s", script[i]);
        argv[i][0] = sh;
        argv[i][1] = dash_c;
        argv[i][2] = text[i];
        argv[i][3] = NULL;
        task[i] = (struct spawn_task){
            .name = name[i], .path = "/bin/sh", .argv = argv[i], .envp = env, .keep_fd = -1
        };
    }
    memset(&seen, 0, offsetof(struct seen, hook));
    why.text[0] = '\0';
    return spawn_run(&(struct spawn_params){ .task = task,
                                             .ntasks = n,
                                             .on_line = on_line,
                                             .arg = &seen,
                                             .fail_ns = fail_ns,
                                             .stop_ns = stop_ns },
                     &why);
}

static bool has(const char *line)
{
    return strstr(seen.text, line) != NULL;
}

static void lines_of_both_streams_arrive_whole_and_last_ones_too(void)
{
    const char *const script[] = {
        "echo one; echo two >&2; printf three",
        "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"
    };

    CHECK(run(script, 2, 0, 0) == VB_EXIT_OK);
    CHECK(has("0:o:one\n") && has("0:e:two\n") && has("0:o:three\n"));
    CHECK(has("1:o:line 0\n") && has("1:o:line 1999\n"));
}

static void a_line_is_bounded(void)
{
    const char *const script[] = { "head -c 40000 /dev/zero | tr '\\0' x; echo; echo end" };

    CHECK(run(script, 1, 0, 0) == VB_EXIT_OK);
    CHECK(seen.longest == SPAWN_LINE_MAX);
    CHECK(has("0:o:end\n"));
}

static void the_first_failure_gives_the_code_and_is_named(void)
{
    const char *const codes[] = { "exit 4", "read x <&- ; while :; do sleep 1; done" };
    const char *const killed[] = { "kill -9 $$", "while :; do sleep 1; done" };
    const char *const missing[] = { "exec /nonexistent/program 2>/dev/null", "true" };

    CHECK(run(codes, 2, 1000, 0) == VB_EXIT_TIMEOUT);
    CHECK(strcmp(why.text, "task 0 failed with exit code 4") == 0);
    CHECK(run(killed, 2, 1000, 0) == VB_EXIT_LOST);
    CHECK(strcmp(why.text, "task 0 was killed by SIGKILL") == 0);
    CHECK(run(missing, 2, 0, 0) != VB_EXIT_OK);
}

static void the_others_may_end_by_themselves_after_a_failure(void)
{
    const char *const script[] = { "exit 5", "sleep 0.2; echo saved" };

    CHECK(run(script, 2, 0, 0) == VB_EXIT_REFUSED);
    CHECK(has("1:o:saved\n"));
}

static void term_self(const char *line)
{
    if (strcmp(line, "ready") == 0)
        kill(getpid(), SIGTERM);
}

static void int_self(const char *line)
{
    if (strcmp(line, "ready") == 0)
        kill(getpid(), SIGINT);
}

static void a_signal_is_handed_on_and_decides_the_code(void)
{
    const char *const polite[] = {
        "trap 'echo bye; exit 143' TERM; echo ready; while :; do sleep 0.1; done"
    };
    const char *const deaf[] = { "trap '' TERM; echo ready; while :; do sleep 0.1; done" };

    seen.hook = term_self;
    CHECK(run(polite, 1, 0, 0) == VB_EXIT_SIGTERM);
    CHECK(has("0:o:bye\n"));
    CHECK(strcmp(why.text, "ended by SIGTERM") == 0);
    CHECK(run(deaf, 1, 0, 1000) == VB_EXIT_SIGTERM);
    seen.hook = int_self;
    CHECK(run(polite, 1, 0, 0) == VB_EXIT_SIGINT);
    seen.hook = NULL;
}

/* The child holds one end of a pipe for as long as it lives; the launcher is killed as hard as can be. */
static void no_child_survives_the_launcher(void)
{
    int alive[2], started[2];
    char c;

    CHECK(pipe(alive) == 0 && pipe(started) == 0);
    const pid_t launcher = fork();
    if (launcher == 0) {
        char script[80];
        const char *const s[] = { script };

        close(alive[0]);
        snprintf(script, sizeof(script), "echo x >&%d; exec sleep 1000", started[1]);
        run(s, 1, 0, 0);
        _exit(0);
    }
    close(alive[1]);
    CHECK(read(started[0], &c, 1) == 1);
    kill(launcher, SIGKILL);
    CHECK(waitpid(launcher, NULL, 0) == launcher);
    CHECK(read(alive[0], &c, 1) == 0); /* end of file: nobody holds it any more */
    close(alive[0]);
    close(started[0]);
    close(started[1]);
}

static void a_listening_socket_is_inherited_under_its_number(void)
{
    uint16_t port = 0;
    const int fd = spawn_listen(&port);
    char script[80];
    char *const argv[] = { sh, dash_c, script, NULL };
    const struct spawn_task task = {
        .name = "task", .path = "/bin/sh", .argv = argv, .envp = env, .keep_fd = fd
    };

    CHECK(fd >= 0 && port != 0);
    snprintf(script, sizeof(script), "readlink /proc/self/fd/%d", fd);
    memset(&seen, 0, sizeof(seen));
    CHECK(spawn_run(&(struct spawn_params){ &task, 1, on_line, &seen, 0, 0 }, &why) == VB_EXIT_OK);
    CHECK(has("0:o:socket:"));
    close(fd);
}

int main(void)
{
    alarm(50);
    lines_of_both_streams_arrive_whole_and_last_ones_too();
    a_line_is_bounded();
    the_first_failure_gives_the_code_and_is_named();
    the_others_may_end_by_themselves_after_a_failure();
    a_signal_is_handed_on_and_decides_the_code();
    no_child_survives_the_launcher();
    a_listening_socket_is_inherited_under_its_number();
    return failures == 0 ? 0 : 1;
}
