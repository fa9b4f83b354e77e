#include "base/yaml.h"

#include <string.h>

unsigned yaml_line(const yaml_node_t *node)
{
    return (unsigned)node->start_mark.line + 1;
}

const char *yaml_text(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

bool yaml_single(struct yaml_file *f, const yaml_node_t *node, const yaml_node_t **key_out,
                 const yaml_node_t **value_out)
{
    if (node->type != YAML_MAPPING_NODE)
        return false;
    const yaml_node_pair_t *p = node->data.mapping.pairs.start;
    if (node->data.mapping.pairs.top - p != 1)
        return false;
    *key_out = yaml_document_get_node(yaml_doc(f), p->key);
    *value_out = yaml_document_get_node(yaml_doc(f), p->value);
    return true;
}

static const char *kind(const yaml_node_t *node)
{
    if (node->type == YAML_SCALAR_NODE)
        return "a single value";
    return node->type == YAML_MAPPING_NODE ? "a map" : "a list";
}

static bool is_null(const yaml_node_t *node)
{
    const char *text = yaml_text(node);

    return text != NULL && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

enum vb_st yaml_put(struct yaml_file *f, const yaml_node_t *node, struct opt_set *set, size_t i,
                    struct vb_err *err)
{
    const struct opt *o = &set->opt[i];
    const char *text = yaml_text(node);
    struct vb_err why = { "" };

    if (text == NULL)
        return yaml_fail(f, yaml_line(node), err, "%s: must be a single value, not %s", o->name,
                         kind(node));
    if (is_null(node))
        return yaml_fail(f, yaml_line(node), err, "%s: has no value", o->name);
    if (strlen(text) != node->data.scalar.length)
        return yaml_fail(f, yaml_line(node), err, "%s: holds a zero byte", o->name);
    const bool quoted = node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (quoted && o->type != OPT_TEXT && o->type != OPT_ENUM)
        return yaml_fail(f, yaml_line(node), err, "%s: must be %s, not text in quotes", o->name,
                         o->type == OPT_FLAG ? "true or false" : "a number");
    const struct opt_src src = { OPT_FILE, yaml_line(node) };
    const enum vb_st st = opt_put(set, i, text, src, &why);
    if (st != VB_OK)
        yaml_fail(f, yaml_line(node), err, "%s: '%.100s' %s", o->name, text, why.text);
    return st;
}

/* Where the walk is: the map's own dotted name with its last dot. */
struct place {
    struct yaml_file *f;
    const struct yaml_schema *schema;
    char prefix[OPT_NAME_MAX + 1];
};

/* If name is in the map at `prefix`, its key there (up to the next dot) into key. */
static bool key_under(const char *prefix, const char *name, char *key)
{
    const size_t n = strlen(prefix);

    if (strncmp(name, prefix, n) != 0)
        return false;
    snprintf(key, OPT_NAME_MAX + 1, "%.*s", (int)strcspn(name + n, "."), name + n);
    return true;
}

static enum vb_st unknown_key(const struct place *at, const yaml_node_t *key, struct vb_err *err)
{
    char word[OPT_NAME_MAX + 1], best[OPT_NAME_MAX + 1] = "";
    struct opt_guess g = { .word = yaml_text(key) };
    const struct yaml_schema *s = at->schema;

    for (size_t i = 0; i < s->set->n + s->nlists; i++) {
        const char *name = i < s->set->n ? s->set->opt[i].name : s->list[i - s->set->n].key;

        if (!key_under(at->prefix, name, word))
            continue;
        opt_guess_try(&g, word);
        if (g.best == word) {
            memcpy(best, word, sizeof(best));
            g.best = best;
        }
    }
    const int n = (int)strlen(at->prefix);
    const char *in = n > 0 ? " in " : "";
    if (g.best != NULL)
        return yaml_fail(at->f, yaml_line(key), err,
                         "unknown key '%.60s'%s%.*s; did you mean '%s'?", g.word, in,
                         n > 0 ? n - 1 : 0, at->prefix, g.best);
    return yaml_fail(at->f, yaml_line(key), err, "unknown key '%.60s'%s%.*s", g.word, in,
                     n > 0 ? n - 1 : 0, at->prefix);
}

static enum vb_st walk_list(const struct place *at, const struct yaml_list *list,
                            const yaml_node_t *node, struct vb_err *err)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return yaml_fail(at->f, yaml_line(node), err, "%s: must be a list, not %s", list->key,
                         is_null(node) ? "empty" : kind(node));
    for (const yaml_node_item_t *i = node->data.sequence.items.start;
         i < node->data.sequence.items.top; i++) {
        const enum vb_st st =
            list->item(at->f, yaml_document_get_node(yaml_doc(at->f), *i), at->schema->arg, err);

        if (st != VB_OK)
            return st;
    }
    return VB_OK;
}

static enum vb_st walk_map(const struct place *at, const yaml_node_t *node, struct vb_err *err);

static enum vb_st walk_pair(const struct place *at, const yaml_node_t *key,
                            const yaml_node_t *value, struct vb_err *err)
{
    const struct yaml_schema *s = at->schema;
    struct place in = { .f = at->f, .schema = s };
    const char *word = yaml_text(key);
    char full[2 * OPT_NAME_MAX];

    if (word == NULL)
        return VB_INVAL; /* check_key saw to it */
    const int n = snprintf(full, sizeof(full), "%s%.50s", at->prefix, word);
    if (strchr(word, '.') != NULL || n >= OPT_NAME_MAX)
        return unknown_key(at, key, err);
    const int i = opt_find(s->set, full);
    if (i >= 0)
        return yaml_put(at->f, value, s->set, (size_t)i, err);
    for (size_t k = 0; k < s->nlists; k++)
        if (strcmp(s->list[k].key, full) == 0)
            return walk_list(at, &s->list[k], value, err);
    snprintf(in.prefix, sizeof(in.prefix), "%.*s.", n, full);
    for (size_t k = 0; k < s->set->n; k++) {
        if (strncmp(s->set->opt[k].name, in.prefix, (size_t)n + 1) != 0)
            continue;
        if (value->type != YAML_MAPPING_NODE)
            return yaml_fail(at->f, yaml_line(value), err, "%s: must be a map, not %s", full,
                             is_null(value) ? "empty" : kind(value));
        return walk_map(&in, value, err);
    }
    return unknown_key(at, key, err);
}

static enum vb_st check_key(const struct place *at, const yaml_node_t *map, const yaml_node_t *key,
                            struct vb_err *err)
{
    const char *word = yaml_text(key);

    if (word == NULL || strlen(word) != key->data.scalar.length || word[0] == '\0')
        return yaml_fail(at->f, yaml_line(key), err, "a key must be a word");
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;; p++) {
        const yaml_node_t *first = yaml_document_get_node(yaml_doc(at->f), p->key);

        if (first == key)
            return VB_OK;
        if (strcmp(yaml_text(first), word) == 0)
            return yaml_fail(at->f, yaml_line(key), err, "key '%.60s' is already on line %u", word,
                             yaml_line(first));
    }
}

/* Every key is checked against those before it, which are known keys: at most a table's worth. */
static enum vb_st walk_map(const struct place *at, const yaml_node_t *node, struct vb_err *err)
{
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
         p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(yaml_doc(at->f), p->key);
        enum vb_st st = check_key(at, node, key, err);

        if (st == VB_OK)
            st = walk_pair(at, key, yaml_document_get_node(yaml_doc(at->f), p->value), err);
        if (st != VB_OK)
            return st;
    }
    return VB_OK;
}

enum vb_st yaml_walk(struct yaml_file *f, const yaml_node_t *node, const struct yaml_schema *schema,
                     struct vb_err *err)
{
    const struct place at = { .f = f, .schema = schema };

    if (node == NULL)
        node = yaml_document_get_root_node(yaml_doc(f));
    if (node == NULL || is_null(node))
        return yaml_fail(f, 1, err, "is empty");
    if (node->type != YAML_MAPPING_NODE)
        return yaml_fail(f, yaml_line(node), err, "must be a map of keys, not %s", kind(node));
    return walk_map(&at, node, err);
}

enum vb_st yaml_defaults(const char *path, struct opt_set *set, const char *const *name, size_t n,
                         struct vb_err *err)
{
    struct opt table[OPT_MAX];
    uint64_t value[OPT_MAX] = { 0 }; /* each fits into one */
    struct opt_set some;
    const struct yaml_schema schema = { .set = &some };
    struct yaml_file *f = NULL;
    enum vb_st st;

    for (size_t i = 0; i < n; i++) {
        table[i] = set->opt[opt_find(set, name[i])];
        table[i].offset = i * sizeof(value[0]);
    }
    st = opt_init(&some, "", table, n, value);
    if (st == VB_OK)
        st = yaml_open(path, &f, err);
    if (st == VB_OK)
        st = yaml_walk(f, NULL, &schema, err);
    for (size_t i = 0; st == VB_OK && i < n; i++) {
        const int k = opt_find(set, name[i]);

        if (some.src[i].from == OPT_FILE && set->src[k].from == OPT_DEFAULT)
            memcpy((char *)set->base + set->opt[k].offset, &value[i],
                   opt_value_bytes(table[i].type));
    }
    yaml_close(f);
    return st;
}
