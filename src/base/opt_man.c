#include "base/opt.h"

#include <string.h>

/* Text with what roff would take for its own made harmless. */
static void roff(FILE *out, const char *text, size_t n)
{
    bool start = true;

    for (size_t i = 0; i < n && text[i] != '\0'; i++) {
        if (start && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", out);
        start = text[i] == '\n' || text[i] == '\v';
        if (text[i] == '-')
            fputs("\\-", out);
        else if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '\v') /* argp's mark: what follows stands after the options */
            fputs("\n.PP\n", out);
        else
            fputc(text[i], out);
    }
}

static void man_option(FILE *out, const struct opt *o)
{
    char word[OPT_NAME_MAX + 8], doc[400];

    opt_spell(o->name, word);
    opt_doc(o, doc, sizeof(doc));
    fputs(".TP\n.B \\-\\-", out);
    roff(out, word, sizeof(word));
    if (o->type != OPT_FLAG)
        fprintf(out, "=\\fI%s\\fR", o->arg);
    fputc('\n', out);
    roff(out, doc, sizeof(doc));
    fputc('\n', out);
}

void opt_man(FILE *out, const struct opt_cmd *cmd, struct opt_set *const *set, size_t nsets)
{
    const size_t summary = strcspn(cmd->doc, "\n\v");

    fprintf(out, ".TH VERBENA\\-%s 1\n.SH NAME\nverbena\\-%s \\- ", cmd->name, cmd->name);
    roff(out, cmd->doc, summary);
    fprintf(out, "\n.SH SYNOPSIS\n.B verbena %s\n[\\fIOPTION\\fR...] %s\n.SH DESCRIPTION\n",
            cmd->name, cmd->args != NULL ? cmd->args : "");
    roff(out, cmd->doc, SIZE_MAX);
    fputc('\n', out);
    for (size_t k = 0; k < nsets; k++) {
        fputs(".SH \"", out);
        roff(out, set[k]->title, SIZE_MAX);
        fputs("\"\n", out);
        for (size_t i = 0; i < set[k]->n; i++)
            man_option(out, &set[k]->opt[i]);
    }
}

void opt_words(FILE *out, struct opt_set *const *set, size_t nsets)
{
    for (size_t k = 0; k < nsets; k++)
        for (size_t i = 0; i < set[k]->n; i++) {
            char word[OPT_NAME_MAX + 8];

            opt_spell(set[k]->opt[i].name, word);
            fprintf(out, " --%s%s", word, set[k]->opt[i].type == OPT_FLAG ? "" : "=");
        }
    fputs(" --help", out);
}
