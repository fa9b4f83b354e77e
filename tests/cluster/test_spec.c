#include "cluster/spec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct bad_case {
    const char *text;
    const char *says[3]; /* each stands in the error */
};

static void check_bad(const char *text, size_t bytes, const char *const *says)
{
    struct vb_err err = { .text = "" };
    struct cl_spec s;

    cr_assert_eq(cl_spec_parse(text, bytes, &s, &err), VB_INVAL, "accepted: %s", text);
    cr_assert_eq(s.addr, NULL);
    cr_assert_null(strchr(err.text, '\n'));
    for (int i = 0; i < 3 && says[i] != NULL; i++)
        cr_assert_neq(strstr(err.text, says[i]), NULL, "%s\n says: %s\n without: %s", text,
                      err.text, says[i]);
}

#define PS "\"ps\":[\"h:1\"]"

Test(spec, mistakes_are_refused_with_what_and_where)
{
    static const struct bad_case cases[] = {
        { "", { "not JSON at byte 0" } },
        { "[]", { "JSON object" } },
        { "null", { "JSON object" } },
        { "{}", { "\"cluster\" is missing", "empty" } },
        { "{\"cluster\":[]}", { "\"cluster\" must be an object" } },
        { "{\"cluster\":{}}", { "no ps task" } },
        { "{\"cluster\":{" PS "}}", { "no worker task" } },
        { "{\"cluster\":{" PS ",\"worker\":[]}}", { "no worker task" } },
        { "{\"cluster\":{\"ps\":[],\"worker\":[\"h:2\"]}}", { "no ps task" } },
        { "{\"cluster\":{" PS ",\"worker\":\"h:2\"}}", { "job worker", "list" } },
        { "{\"cluster\":{" PS ",\"worker\":[7]}}", { "/job:worker/task:0", "text" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"h\"]}}", { "\"h\"", "port is missing" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"h:\"]}}", { "not a number" } },
        { "{\"cluster\":{" PS ",\"worker\":[\":2\"]}}", { "host is empty" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"h:0\"]}}", { "1 to 65535" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"h:70000\"]}}", { "1 to 65535" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"h:99999999999\"]}}", { "1 to 65535" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"h:-2\"]}}", { "not a number" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"h: 2\"]}}", { "not a number" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"http://h:2\"]}}", { "host:port" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"a b:2\"]}}", { "host:port" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"fd00::1:2\"]}}", { "brackets", "[fd00::1]:2222" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"::1\"]}}", { "brackets" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"[::1\"]}}", { "[fd00::1]:2222" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"[::1]2\"]}}", { "[fd00::1]:2222" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"[h]:2\"]}}", { "no IPv6" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"H:1\"]}}",
          { "/job:ps/task:0", "/job:worker/task:0", "H:1" } },
        { "{\"cluster\":{" PS ",\"worker\":{\"01\":\"h:2\"}}}", { "\"01\"", "index" } },
        { "{\"cluster\":{" PS ",\"worker\":{\"-1\":\"h:2\"}}}", { "\"-1\"" } },
        { "{\"cluster\":{" PS ",\"worker\":{\"1024\":\"h:2\"}}}", { "1023" } },
        { "{\"cluster\":{" PS ",\"worker\":{\"1023\":\"h:2\"}}}", { "more than 1024" } },
        { "{\"cluster\":{\"ps\":{\"1\":\"h:1\"},\"worker\":[\"h:2\"]}}",
          { "/job:ps/task:0", "every ps" } },
        { "{\"cluster\":{" PS ",\"workers\":[\"h:2\"]}}", { "\"workers\"", "\"worker\"" } },
        { "{\"cluster\":{\"parameter_server\":[\"h:2\"]}}", { "did you mean \"ps\"" } },
        { "{\"cluster\":{\"foo\":[\"h:2\"]}}", { "\"ps\" and \"worker\"" } },
        { "{\"cluster\":{" PS ",\"ps\":[\"h:2\"]}}", { "not JSON", "uplicate" } },
        { "{\"cluster\":{" PS ",}}", { "not JSON at byte" } },
        { "{\"cluster\":{" PS ",\"worker\":[\"h:2\"]}} x", { "not JSON at byte" } },
        { "{\"a\\n\\u001b[31m\":1}", { "\"a??[31m\"" } },
#define TASK "{\"cluster\":{" PS ",\"worker\":[\"h:2\",\"h:3\"]},\"task\":"
        { TASK "{}}", { "\"type\" is missing" } },
        { TASK "7}", { "\"type\" is missing" } },
        { TASK "{\"type\":\"worker\"}}", { "\"index\"", "missing" } },
        { TASK "{\"type\":\"worker\",\"index\":null}}", { "whole number" } },
        { TASK "{\"type\":\"worker\",\"index\":1.0}}", { "whole number" } },
        { TASK "{\"type\":\"worker\",\"index\":-1}}", { "whole number" } },
        { TASK "{\"type\":\"worker\",\"index\":\"x\"}}", { "whole number" } },
        { TASK "{\"type\":\"worker\",\"index\":\"\"}}", { "whole number" } },
        { TASK "{\"type\":\"worker\",\"index\":4294967296}}", { "whole number" } },
        { TASK "{\"type\":\"worker\",\"index\":2}}", { "/job:worker/task:2", "0 to 1" } },
        { TASK "{\"type\":\"chief\",\"index\":0}}", { "\"chief\"", "\"ps\", \"worker\"" } },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++)
        check_bad(cases[i].text, strlen(cases[i].text), cases[i].says);
    check_bad("{\"a\":\"\0\"}", 9, (const char *const[3]){ "not JSON" });
}

static struct cl_spec parse_ok(const char *text)
{
    struct vb_err err = { .text = "" };
    struct cl_spec s;

    cr_assert_eq(cl_spec_parse(text, strlen(text), &s, &err), VB_OK, "%s: %s", text, err.text);
    return s;
}

Test(spec, good_texts_give_tasks_in_rank_order)
{
    static const char *const same[] = {
        "{\"cluster\":{\"worker\":[\"w-0.x_y:2\",\"[fd00::1]:3\"],\"ps\":[\"10.0.0.1:1\"]}}",
        "{\"worker\":[\"w-0.x_y:2\",\"[fd00::1]:3\"],\"ps\":[\"10.0.0.1:1\"]}",
        ("\xef\xbb\xbf{\"cluster\":{\"worker\":{\"1\":\"[fd00::1]:3\",\"0\":\"w-0.x_y:2\"},"
         "\"ps\":{\"0\":\"10.0.0.1:1\"}},\"rpc_layer\":{\"chief\":1}}"),
    };
    char name[CL_NAME_MAX];

    for (size_t i = 0; i < VB_ARRAY_LEN(same); i++) {
        struct cl_spec s = parse_ok(same[i]);

        cr_assert(s.nps == 1 && s.nworkers == 2 && !s.has_task);
        cr_assert_str_eq(s.addr[0].host, "10.0.0.1");
        cr_assert_str_eq(s.addr[1].host, "w-0.x_y");
        cr_assert_str_eq(s.addr[2].host, "fd00::1");
        cr_assert_eq(s.addr[2].port, 3);
        cr_assert_str_eq(cl_name(&s, 2, name), "/job:worker/task:1");
        cr_assert_str_eq(cl_name(&s, 0, name), "/job:ps/task:0");
        cl_spec_fini(&s);
    }
}

Test(spec, written_text_reads_back_the_same)
{
    static const char *const texts[] = {
        "{\"cluster\":{\"ps\":[\"a:1\",\"[::1]:2\"],\"worker\":[\"b:3\"]}}",
        "{\"cluster\":{\"ps\":[\"a:1\"],\"worker\":{\"3\":\"b:3\"}}}",
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(texts); i++) {
        struct cl_spec s = parse_ok(texts[i]);
        AUTO_FREE char *text = cl_spec_json(&s);

        cr_assert_str_eq(text, texts[i]);
        cl_spec_fini(&s);
    }
}

Test(spec, tasks_of_one_host_are_counted_by_its_text)
{
    struct cl_spec s = parse_ok(
        "{\"cluster\":{\"ps\":[\"a:1\",\"b:1\"],\"worker\":{\"0\":\"A:3\",\"2\":\"c:1\"}}}");

    cr_assert_eq(s.nworkers, 3);
    cr_assert_eq(cl_on_host(&s, 0, CL_PS), 1);
    cr_assert_eq(cl_on_host(&s, 0, CL_WORKER), 1);
    cr_assert_eq(cl_on_host(&s, 1, CL_WORKER), 0);
    cr_assert_eq(cl_on_host(&s, 3, CL_WORKER), 1); /* no address: only itself */
    cl_spec_fini(&s);
}

Test(spec, file_errors_start_with_the_path)
{
    char path[] = "/tmp/verbena-spec-XXXXXX";
    const int fd = mkstemp(path);
    struct vb_err err;
    struct cl_spec s;

    cr_assert(fd >= 0 && write(fd, "LOL", 3) == 3);
    close(fd);
    cr_assert_eq(cl_spec_load(path, &s, &err), VB_INVAL);
    cr_assert_eq(strncmp(err.text, path, strlen(path)), 0, "%s", err.text);
    unlink(path);
    cr_assert_eq(cl_spec_load(path, &s, &err), VB_IO);
    cr_assert_neq(strstr(err.text, "No such file"), NULL, "%s", err.text);
}

Test(spec, huge_texts_are_bounded)
{
    const size_t n = (1 << 20) + 1;
    AUTO_FREE char *text = malloc(n);

    memset(text, ' ', n);
    check_bad(text, n, (const char *const[3]){ "1 MiB" });
    memset(text, '[', 1 << 16);
    check_bad(text, 1 << 16, (const char *const[3]){ "not JSON" });
}
