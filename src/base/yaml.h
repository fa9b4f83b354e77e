/*
 * yaml.h - a YAML file as libyaml's document tree, and a walker that lays it over an option table.
 *
 * One document, at most 1 MiB, UTF-8, no anchors, aliases or tags, bounded nesting: whatever else is
 * in the file is refused in one line "file:line: what". Keys of maps inside maps are the dotted names
 * of the table. Thread: one.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/opt.h"

#include <yaml.h>

enum { YAML_BYTES_MAX = 1 << 20, YAML_DEPTH_MAX = 16 };

struct yaml_file;

/* VB_IO, VB_INVAL, VB_NOMEM: err is a whole line. gives: yaml_close. */
VB_MUST_CHECK enum vb_st yaml_open(const char *path, struct yaml_file **out, struct vb_err *err);
/* As above from memory; name is for messages. */
VB_MUST_CHECK enum vb_st yaml_parse(const char *name, const char *text, size_t bytes,
                                    struct yaml_file **out, struct vb_err *err);
void yaml_close(struct yaml_file *f);           /* takes NULL */
yaml_document_t *yaml_doc(struct yaml_file *f); /* stays f's */

/* Called for each item of a list; arg is the walk's. */
typedef enum vb_st (*yaml_item_fn)(struct yaml_file *f, const yaml_node_t *item, void *arg,
                                   struct vb_err *err);
struct yaml_list {
    const char *key; /* dotted as in the table */
    yaml_item_fn item;
};
struct yaml_schema {
    struct opt_set *set; /* the scalars */
    const struct yaml_list *list;
    size_t nlists;
    void *arg;
};

/* Lays the map `node` (NULL: the whole file) over the schema: fills set->base and set->src. VB_INVAL:
 * unknown or double key, wrong type, a value out of range; err is a whole line. */
VB_MUST_CHECK enum vb_st yaml_walk(struct yaml_file *f, const yaml_node_t *node,
                                   const struct yaml_schema *schema, struct vb_err *err);
/* A file of some of the set's numbers, by name: it gives those that nobody has given. err is a whole line. */
VB_MUST_CHECK enum vb_st yaml_defaults(const char *path, struct opt_set *set,
                                       const char *const *name, size_t n, struct vb_err *err);
/* One scalar into set's i-th option. */
VB_MUST_CHECK enum vb_st yaml_put(struct yaml_file *f, const yaml_node_t *node, struct opt_set *set,
                                  size_t i, struct vb_err *err);

unsigned yaml_line(const yaml_node_t *node);
/* Text of a scalar, NULL: not one. */
const char *yaml_text(const yaml_node_t *node);
/* The only key of a map with one, and its value; false: not such a map. */
bool yaml_single(struct yaml_file *f, const yaml_node_t *node, const yaml_node_t **key_out,
                 const yaml_node_t **value_out);
/* err becomes "file:line: text"; always VB_INVAL. */
__attribute__((format(printf, 4, 5))) enum vb_st
yaml_fail(const struct yaml_file *f, unsigned line, struct vb_err *err, const char *fmt, ...);

#endif
