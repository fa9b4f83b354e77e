#include "base/log.h"
#include "cmd/cmd.h"

#include <argp.h>
#include <string.h>
#include <sys/prctl.h>

#define LOG_MOD "cmd"

/* argp, in another library, looks for it */
__attribute__((visibility("default"))) const char *argp_program_version =
    "verbena " VERBENA_VERSION;

/* The core type is read when OpenBLAS loads, before main: set it and start again, once. */
static void use_better_core(char **argv)
{
    const char *core = kn_gemm_better_core();

    if (core == NULL || getenv("VB_CORE_SET") != NULL)
        return;
    if (setenv("OPENBLAS_CORETYPE", core, 1) != 0 || setenv("VB_CORE_SET", "1", 1) != 0)
        return;
    execv("/proc/self/exe", argv);
    log_warn("cannot start again with OPENBLAS_CORETYPE %s, matrix products will be slow", core);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "--help";

    prctl(PR_SET_NAME, "verbena"); /* after an exec of /proc/self/exe it would be "exe" */
    vb_log_init();
    if (strcmp(name, "--version") == 0) {
        puts(argp_program_version);
        return VB_EXIT_OK;
    }
    if (strcmp(name, "--help") == 0) {
        cmd_overview(argc > 1 ? stdout : stderr);
        return argc > 1 ? VB_EXIT_OK : VB_EXIT_USAGE;
    }
    const struct cmd *cmd = cmd_find(name);
    if (cmd == NULL)
        return cmd_unknown(name);
    if (cmd == &cmd_server || strcmp(name, "perf") == 0)
        use_better_core(argv);
    return cmd->run(argc - 1, argv + 1);
}
