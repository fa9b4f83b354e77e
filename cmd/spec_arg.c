#include "cmd/spec_arg.h"

#include <string.h>

static enum vb_st parse(const char *name, const char *text, struct cl_spec *spec,
                        struct vb_err *err)
{
    struct vb_err why = { "" };

    if (text[strspn(text, " \t\r\n")] != '{')
        return cl_spec_load(text, spec, err);
    const enum vb_st st = cl_spec_parse(text, strlen(text), spec, &why);
    if (st != VB_OK)
        vb_err_set(err, "%s: %.480s", name, why.text);
    return st;
}

enum vb_st spec_arg_read(const char *given, bool from_env, struct cl_spec *out, bool *none_out,
                         struct vb_err *err)
{
    const char *config = getenv("TF_CONFIG");

    *out = (struct cl_spec){ 0 };
    *none_out = given == NULL && config == NULL;
    if (given != NULL)
        return parse(from_env ? "VB_CLUSTER" : "--cluster", given, out, err);
    return config != NULL ? parse("TF_CONFIG", config, out, err) : VB_OK;
}
