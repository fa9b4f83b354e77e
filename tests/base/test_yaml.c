#include "base/yaml.h"

#include <criterion/criterion.h>
#include <string.h>

struct conf {
    uint64_t batch, eps;
    double rate;
    char *name, *images;
    bool json;
    unsigned items, item_line;
};

#define AT(member) .offset = offsetof(struct conf, member)

static const struct opt opts[] = {
    { "batch", OPT_U64, NULL, "N", "batch", 1, 1000, AT(batch) },
    { "json", OPT_FLAG, NULL, NULL, "json", AT(json) },
    { "name", OPT_TEXT, NULL, "TEXT", "name", AT(name) },
    { "optimizer.rate", OPT_F64, NULL, "X", "rate", 0, 1, AT(rate) },
    { "data.train.images", OPT_TEXT, NULL, "FILE", "images", AT(images) },
};

static struct conf conf;
static struct opt_set set;

static enum vb_st on_item(struct yaml_file *f, const yaml_node_t *item, void *arg,
                          struct vb_err *err)
{
    conf.items++;
    conf.item_line = yaml_line(item);
    return VB_OK;
}

static enum vb_st read_bytes(const char *text, size_t bytes, struct vb_err *err)
{
    static const struct yaml_list lists[] = { { "model", on_item } };
    const struct yaml_schema schema = { &set, lists, 1, NULL };
    struct yaml_file *f = NULL;

    memset(&conf, 0, sizeof(conf));
    cr_assert_eq(opt_init(&set, "", opts, VB_ARRAY_LEN(opts), &conf), VB_OK);
    enum vb_st st = yaml_parse("f.yaml", text, bytes, &f, err);
    if (st == VB_OK)
        st = yaml_walk(f, NULL, &schema, err);
    yaml_close(f);
    return st;
}

Test(yaml, a_file_fills_the_struct_and_knows_its_lines)
{
    static const char text[] = "# comment\n"
                               "batch: 32\n"
                               "json: true\n"
                               "optimizer: { rate: 0.25 }\n"
                               "data:\n"
                               "  train:\n"
                               "    images: \"a b\"\n"
                               "model: [relu, {dense: 3},\n"
                               "  last]\n";
    struct vb_err err = { "" };

    cr_assert_eq(read_bytes(text, sizeof(text) - 1, &err), VB_OK, "%s", err.text);
    cr_assert(conf.batch == 32 && conf.json && conf.rate == 0.25);
    cr_assert_str_eq(conf.images, "a b");
    cr_assert(conf.items == 3 && conf.item_line == 9);
    cr_assert(set.src[4].from == OPT_FILE && set.src[4].line == 7);
    cr_assert_eq(set.src[2].from, OPT_DEFAULT);
    opt_fini(&set);
}

Test(yaml, what_is_wrong_is_one_line_with_file_and_line)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "", "f.yaml:1: is empty" },
        { "# only\n", "f.yaml:1: is empty" },
        { "---\n", "f.yaml:1: is empty" },
        { "just text\n", "f.yaml:1: must be a map of keys, not a single value" },
        { "- a\n", "f.yaml:1: must be a map of keys, not a list" },
        { "batch: 1\n\nbathc: 2\n", "f.yaml:3: unknown key 'bathc'; did you mean 'batch'?" },
        { "zzzzz: 2\n", "f.yaml:1: unknown key 'zzzzz'" },
        { "optimizer:\n  raet: 2\n",
          "f.yaml:2: unknown key 'raet' in optimizer; did you mean 'rate'?" },
        { "data:\n  train:\n    imges: x\n",
          "f.yaml:3: unknown key 'imges' in data.train; did you mean 'images'?" },
        { "optimizer.rate: 1\n", "f.yaml:1: unknown key 'optimizer.rate'" },
        { "batch: 1\nname: x\nbatch: 2\n", "f.yaml:3: key 'batch' is already on line 1" },
        { "optimizer: {rate: 1, rate: 1}\n", "f.yaml:1: key 'rate' is already on line 1" },
        { "batch: 0\n", "f.yaml:1: batch: '0' must be 1 or more" },
        { "\nbatch: 10x\n", "f.yaml:2: batch: '10x' must be a whole number" },
        { "batch: 010\n", "f.yaml:1: batch: '010' must be a whole number without leading zeros" },
        { "batch: \"10\"\n", "f.yaml:1: batch: must be a number, not text in quotes" },
        { "batch:\n", "f.yaml:1: batch: has no value" },
        { "batch: ~\n", "f.yaml:1: batch: has no value" },
        { "batch: [1]\n", "f.yaml:1: batch: must be a single value, not a list" },
        { "batch:\n  a: 1\n", "f.yaml:2: batch: must be a single value, not a map" },
        { "optimizer: sgd\n", "f.yaml:1: optimizer: must be a map, not a single value" },
        { "optimizer:\n", "f.yaml:1: optimizer: must be a map, not empty" },
        { "model: relu\n", "f.yaml:1: model: must be a list, not a single value" },
        { "json: 2\n", "f.yaml:1: json: '2' must be true or false" },
        { "json: 'true'\n", "f.yaml:1: json: must be true or false, not text in quotes" },
        { "name: \"a\\0b\"\n", "f.yaml:1: name: holds a zero byte" },
        { "? [a]\n: 1\n", "f.yaml:1: a key must be a word" },
        { "optimizer:\n\trate: 1\n", "f.yaml:2: a tab cannot indent; use spaces" },
        { "batch: 1\n\tname: x\n", "f.yaml:2: a tab cannot indent; use spaces" },
        { "name: \xff\xfe\n", "f.yaml:1: is not UTF-8 text" },
        { "batch: 1\nname: \xc0\xaf\n", "f.yaml:2: is not UTF-8 text" },
        { "name: \xed\xa0\x80\n", "f.yaml:1: is not UTF-8 text" },
        { "batch: 1\nname: a\x01\n", "f.yaml:2: control characters are not allowed" },
        { "batch: 1\n---\nbatch: 2\n", "f.yaml:2: a second document begins; a file holds one" },
        { "name: &a x\n", "f.yaml:1: anchors (&) and aliases (*) are not allowed" },
        { "batch: 1\nname: *a\n", "f.yaml:2: anchors (&) and aliases (*) are not allowed" },
        { "a: &a [x,x]\nb: &b [*a,*a,*a]\n",
          "f.yaml:1: anchors (&) and aliases (*) are not allowed" },
        { "name: !!str x\n", "f.yaml:1: tags (!) are not allowed" },
        { "model: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n", "f.yaml:1: nested more than 16 deep" },
        { "batch: 1\nmodel: [relu,\n", "f.yaml:" },
        { "name: \"abc\n\n\n", "f.yaml:1: found unexpected end of stream" },
        { "batch: 1\nname: a: b\n", "f.yaml:2: mapping values are not allowed" },
        { "a: }\n", "f.yaml:1: " },
        { "%YAML 9.9\n---\nbatch: 1\n", "f.yaml:1: found incompatible YAML document" },
    };

    for (size_t i = 0; i < VB_ARRAY_LEN(cases); i++) {
        struct vb_err err = { "" };

        cr_assert_eq(read_bytes(cases[i].text, strlen(cases[i].text), &err), VB_INVAL, "%s",
                     cases[i].text);
        cr_assert_eq(strncmp(err.text, cases[i].says, strlen(cases[i].says)), 0, "%s\nsays %s",
                     cases[i].text, err.text);
        cr_assert_null(strchr(err.text, '\n'));
        opt_fini(&set);
    }
}

Test(yaml, a_large_file_is_refused)
{
    const size_t bytes = YAML_BYTES_MAX + 1;
    char *text = malloc(bytes);
    struct vb_err err = { "" };

    memset(text, '\n', bytes);
    cr_assert_eq(read_bytes(text, bytes, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "f.yaml:1: is larger than 1 MiB");
    memset(text, '[', bytes);
    cr_assert_eq(read_bytes(text, bytes - 1, &err), VB_INVAL);
    cr_assert_str_eq(err.text, "f.yaml:1: nested more than 16 deep");
    free(text);
}

Test(yaml, a_file_that_cannot_be_read_is_named)
{
    struct yaml_file *f;
    struct vb_err err = { "" };

    cr_assert_eq(yaml_open("/nonexistent/job.yaml", &f, &err), VB_IO);
    cr_assert_str_eq(err.text, "/nonexistent/job.yaml: No such file or directory");
    cr_assert_eq(yaml_open("/", &f, &err), VB_IO);
    cr_assert_str_eq(err.text, "/: Is a directory");
}
