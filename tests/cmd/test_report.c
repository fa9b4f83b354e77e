#include "cmd/report.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#define LINK                                                                                       \
    "{\"event\":\"link\",\"task\":\"worker 1\",\"peer\":\"ps 0\",\"way\":\"rdma\","                \
    "\"device\":\"mlx5_0:1\",\"local\":\"10.0.0.1:1\",\"remote\":\"10.0.0.2:2\",\"gid\":\"::1\","  \
    "\"mtu\":4096,\"protocol\":\"eager\",\"rails\":[{\"name\":\"a\",\"sent_bytes\":1},"            \
    "{\"name\":\"b\",\"sent_bytes\":2}],\"why\":\"because\",\"sent_bytes\":1234567,"               \
    "\"received_bytes\":999}"
#define EPOCH                                                                                      \
    "{\"event\":\"epoch\",\"epoch\":2,\"epochs\":15,\"loss\":0.5,\"test_accuracy\":0.875,"         \
    "\"seconds\":1.25}"
#define EPOCH_UNTESTED                                                                             \
    "{\"event\":\"epoch\",\"epoch\":3,\"loss\":0.25,\"test_accuracy\":null,\"seconds\":90}"
#define PROGRESS "{\"event\":\"progress\",\"epoch\":1,\"step\":5}"
#define DONE                                                                                       \
    "{\"event\":\"done\",\"steps\":9000,\"seconds\":3725,\"samples_per_s\":73000.4,"               \
    "\"test_accuracy\":0.88,\"best_test_accuracy\":0.89,\"pushed_bytes\":0,\"pulled_bytes\":1e12}"

#define WAITS                                                                                      \
    "{\"event\":\"waits\",\"task\":\"worker "                                                      \
    "0\",\"classes\":[{\"class\":\"others\",\"staleness\":[60,20]}],\"waited_s\":[0.01,2.5]}"
#define WAITS_OTHER                                                                                \
    "{\"event\":\"waits\",\"task\":\"worker "                                                      \
    "1\",\"classes\":[{\"class\":\"others\",\"staleness\":[0,0,0,20]}],\"waited_s\":[7,0]}"

static void show(const struct report_params *p)
{
    static const struct {
        const char *task, *text;
        bool is_err;
    } lines[] = {
        { "worker 0",
          "{\"event\":\"start\",\"params\":10,\"ps\":2,\"workers\":2,\"train_samples\":5}", false },
        { "worker 0", PROGRESS, false },
        { "worker 0", EPOCH, false },
        { "worker 0", EPOCH_UNTESTED, false },
        { "worker 0", DONE, false },
        { "worker 1", LINK, false },
        { "worker 0", WAITS, false },
        { "worker 1", WAITS_OTHER, false },
        { "ps 0", "warn ps: something", true },
        { "ps 0", "{\"event\":\"no such\"}", false },
        { "ps 0", "{broken", false },
    };
    struct report *r = report_create(p);

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        report_line(r, lines[i].task, lines[i].is_err, lines[i].text, strlen(lines[i].text));
    cr_assert(report_finish(r));
    report_free(r);
    fflush(NULL);
}

#define OTHERS "ps 0 | warn ps: something\nps 0 | {\"event\":\"no such\"}\nps 0 | {broken\n"

Test(report, people_see_epochs_as_they_come_and_the_sum_at_the_end, .init = cr_redirect_stdout)
{
    show(&(struct report_params){ 0 });
    cr_assert_stdout_eq_str(
        "epoch  2/15  loss 0.5000  test accuracy 0.8750  1.2 s\n"
        "epoch  3  loss 0.2500  1:30\n"
        "test accuracy 0.8800 (best 0.8900)\n"
        "9000 steps in 1:02:05, 73000 samples/s\n"
        "pushed 0 B, pulled 1 TB\n"
        "steps behind when read: 0 60.0 %, 1 20.0 %, 3 20.0 %\n"
        "waits: worker 1 7.0 s for worker 0, worker 0 2.5 s for worker 1\n"
        "link worker 1 - ps 0: rdma mlx5_0:1 10.0.0.1:1 -> 10.0.0.2:2, GID ::1, MTU "
        "4096, rails a 1 B, b 2 B, eager; sent 1.23 MB, received 999 B; not faster: "
        "because\n");
}

Test(report, other_lines_go_to_stderr_under_their_task, .init = cr_redirect_stderr)
{
    show(&(struct report_params){ .json = true });
    cr_assert_stderr_eq_str(OTHERS);
}

Test(report, machines_get_the_events_as_they_are_and_done_last, .init = cr_redirect_stdout)
{
    show(&(struct report_params){ .json = true });
    cr_assert_stdout_eq_str(EPOCH "\n" EPOCH_UNTESTED "\n" LINK "\n" WAITS "\n" WAITS_OTHER
                                  "\n" DONE "\n");
}

Test(report, machines_get_progress_only_when_asked, .init = cr_redirect_stdout)
{
    show(&(struct report_params){ .json = true, .progress = true });
    cr_assert_stdout_eq_str(PROGRESS "\n" EPOCH "\n" EPOCH_UNTESTED "\n" LINK "\n" WAITS
                                     "\n" WAITS_OTHER "\n" DONE "\n");
}

Test(report, a_terminal_has_one_live_line_that_makes_way, .init = cr_redirect_stderr)
{
    show(&(struct report_params){ .columns = 30 });
    cr_assert_stderr_eq_str("10 parameters on 2 ps, 5 samples for 2 workers\n"
                            "\r\033[Kepoch 1/0  step 5/0  0 sample"
                            "\r\033[K" OTHERS);
}
